//! Results of stages that had a number of messages to send: their time, their rate, and the rate
//! for each core, as the field's reports on instant messaging state it.
//!
//! This module computes and draws nothing. Unknown values are absent.

use crate::figure;
use lab::run::{Counts, Run};

/// Headings of the rows, in order.
pub const HEADINGS: [&str; 7] = [
    "stage",
    "messages",
    "sending time",
    "a second",
    "a second and core",
    "distributions a second and core",
    "cores",
];

/// Meaning of the figures.
pub const MEANING: &str = "Sending time is from the first moment of sending to the target's last \
     answer. Cores are those of the target's machine. A distribution is one copy of a message in \
     one inbox: two for a message between two people (the sender has one, too), one for each \
     member for what is said to a group; it is known where inboxes were audited.";

/// The rows, in words; what is not known is a dash.
pub fn rows(run: &Run) -> Vec<[String; 7]> {
    let cores = cores(run);
    let each = distributions(&run.total);
    let dash = || "–".to_owned();
    let stages = run.stages.iter().filter(|stage| stage.counts.figure("messages.sendings") > 0.0);
    stages
        .map(|stage| {
            let (taken, ms) = (
                stage.counts.figure("messages.taken"),
                stage.counts.figure("messages.sending_ms").max(1.0),
            );
            let per_s = taken * 1_000.0 / ms;
            let a_core = cores.map(|cores| per_s / cores);
            let spread = a_core.zip(each).map(|(a_core, each)| a_core * each);
            [
                crate::escape::line(&stage.name, 60),
                figure::count(taken),
                figure::micros(ms * 1_000.0),
                rate(per_s),
                a_core.map_or_else(dash, rate),
                spread.map_or_else(dash, rate),
                cores.map_or_else(dash, figure::digits),
            ]
        })
        .collect()
}

fn rate(value: f64) -> String {
    if value < 1_000.0 { figure::digits(value) } else { figure::count(value.round()) }
}

/// Cores of the target's machine: of a shared one the tester knows them, too.
fn cores(run: &Run) -> Option<f64> {
    let last = |column: &str| run.series.values(column).iter().flatten().last().copied();
    let here = || run.is_on_loopback().then(|| last("tester.cpu.cores")).flatten();
    last("target.cpu.cores").or_else(here).filter(|cores| *cores >= 1.0)
}

/// Copies of a message in inboxes; `None`: no inboxes were audited.
fn distributions(total: &Counts) -> Option<f64> {
    let (expected, taken) = (total.figure("audit.expected"), total.figure("messages.taken"));
    let is_known = total.figure("audit.made") > 0.0 && taken > 0.0 && expected > 0.0;
    // Between two people only the receiver's inbox is audited.
    is_known.then(|| (expected / taken).max(2.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::run::StageRun;
    use lab::series::{Column, Reading, Unit};

    fn run(expected: f64) -> Run {
        let mut run = Run::default();
        let mut reading = Reading::default();
        reading.set(Column::gauge("target.cpu.cores", Unit::Count), 16.0);
        run.series.push(0, 0, &reading);
        let mut counts = Counts::default();
        for (name, value) in [
            ("messages.taken", 400_000.0),
            ("messages.sendings", 1.0),
            ("messages.sending_ms", 20_000.0),
        ] {
            counts.raise(name, value);
        }
        run.total.raise("messages.taken", 400_000.0);
        run.total.raise("audit.made", 1.0);
        run.total.raise("audit.expected", expected);
        let quiet = StageRun { name: "quiet".to_owned(), ..StageRun::default() };
        run.stages = vec![StageRun { name: "send".to_owned(), counts, ..quiet.clone() }, quiet];
        run
    }

    #[test]
    fn a_message_between_two_is_distributed_twice_and_one_to_a_group_to_each_member() {
        let told =
            |expected| rows(&run(expected)).remove(0).map(|cell| cell.replace('\u{202f}', " "));
        assert_eq!(told(400_000.0)[3..6], ["20,000", "1,250", "2,500"]);
        assert_eq!(told(40_000_000.0)[5], "125,000");
        assert_eq!(told(0.0)[5], "–", "no inboxes were audited");
        assert_eq!(rows(&run(1.0)).len(), 1, "the quiet stage sent nothing");
    }
}
