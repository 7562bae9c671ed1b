//! Answers and messages that came late: so late that people who wait would call it broken, or much
//! later than most.
//!
//! Stages in which the plan broke something are left out. Where the tester lagged, or its machine
//! had too little processor time, what came late may have waited for the tester: that is a note.

use crate::case::{Case, disturbance};
use crate::saturation::LAG_US;
use crate::window;
use crate::words;
use lab::run::{Finding, Gravity};
use lab::timing::{Spectrum, Timing};

/// Longer than this is late for everybody, microseconds.
const LATE_US: u64 = 1_000_000;
/// Multiple of the median at which a time is late, if it is at least [`LEAST_US`].
const TIMES: u64 = 20;
/// Shortest time that is late, microseconds.
const LEAST_US: u64 = 200_000;
/// Share of the answers that is more than worth knowing.
const SHARE: f64 = 1e-3;

/// Timings that may be late, with names, and where to look.
const KINDS: [(Timing, &str, &str); 4] = [
    (
        Timing::Bind,
        "answers to a Bind (CONNACK)",
        "Check what the server does before it answers (password hashing, a directory, loading \
         sessions), and its CPU at that time.",
    ),
    (
        Timing::Heartbeat,
        "answers to a heartbeat (PINGRESP)",
        "A client that waits this long considers its connection dead: check the server's queues \
         and CPU.",
    ),
    (
        Timing::Publish,
        "acknowledgements of messages (PUBACK, PUBCOMP)",
        "Check what the server does before it acknowledges: disk syncs, a full queue, a rate \
         limit.",
    ),
    (
        Timing::Delivery,
        "messages",
        "Check the server's queues, and whether it sends some messages by another path (a timer, \
         another node).",
    ),
];

/// Answers and messages that came late.
pub fn detect(case: &Case) -> Vec<Finding> {
    KINDS.iter().filter_map(|kind| late(case, kind)).collect()
}

/// Times of a timing where the plan broke nothing.
fn quiet(case: &Case, timing: Timing) -> Spectrum {
    let disturbed = |stage: &&lab::run::StageRun| disturbance(case.run, stage).is_some();
    // A Bind is answered while clients come, which may be before the first stage.
    if timing == Timing::Bind && !case.run.stages.iter().any(|stage| disturbed(&stage)) {
        return case.run.total.timings.of(timing).raw.clone();
    }
    let mut all = Spectrum::default();
    for stage in case.run.stages.iter().filter(|stage| !disturbed(stage)) {
        all.add(&stage.counts.timings.of(timing).raw);
    }
    all
}

fn late(case: &Case, (timing, what, remedy): &(Timing, &str, &str)) -> Option<Finding> {
    let times = quiet(case, *timing);
    let middle = times.at(50.0);
    let bound = LATE_US.min(middle.saturating_mul(TIMES).max(LEAST_US));
    let late: u64 = times.iter().filter(|(us, _)| *us > bound).map(|(_, count)| count).sum();
    if late == 0 {
        return None;
    }
    let share = late as f64 / times.count().max(1) as f64;
    let column = format!("clients.{}.max", timing.name());
    let max = window::highest(case.series(), &column, case.whole());
    let (at, when) = max.map_or((0, String::new()), |(at, _)| (at, words::moment(at)));
    let when = if when.is_empty() { when } else { format!(" at {when}") };
    // Where the tester itself had no time the answers may have waited for it.
    let columns = case.of_testers("turn_us_max").into_iter();
    let lags = columns.filter_map(|column| case.highest(&column)).any(|(_, us)| us > LAG_US);
    let starved = max.and_then(|(at, _)| case.starved(at));
    let is_doubtful = lags || starved.is_some();
    let tester = match (lags, starved) {
        (_, Some(why)) => format!("; on the laboratory's machine {why}"),
        (true, None) => "; the tester itself lagged in this run".to_owned(),
        (false, None) => String::new(),
    };
    Some(Finding {
        gravity: if share >= SHARE && !is_doubtful { Gravity::Warning } else { Gravity::Note },
        side: if is_doubtful { "" } else { "target" }.to_owned(),
        what: format!(
            "{} {what} came later than {}.",
            words::count(late as f64),
            words::time(bound as f64)
        ),
        evidence: format!(
            "{} of {} ({}); half came within {}, the last after {}{when}{tester}",
            words::count(late as f64),
            words::count(times.count() as f64),
            words::percent(share),
            words::time(middle as f64),
            words::time(times.max() as f64),
        ),
        remedy: (*remedy).to_owned(),
        from_ms: at.saturating_sub(1_000),
        to_ms: at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use lab::run::{Note, Run};

    fn run(timing: Timing, late: u64, us: u64, lag: f64) -> Run {
        let mut made = Made::of(20);
        made.gauge("tester.turn_us_max", move |_| lag);
        let mut run = made.run(1_000);
        for counts in [&mut run.total, &mut run.stages[0].counts] {
            let times = counts.timings.at(timing);
            (0..997).for_each(|_| times.note(2_000));
            (0..late).for_each(|_| times.note(us));
        }
        run
    }

    #[test]
    fn late_answers_are_counted_and_quick_ones_are_not() {
        let with = |timing, late, us, lag| detect(&Case::of(&run(timing, late, us, lag)));
        for (timing, what, _) in KINDS {
            assert_eq!(with(timing, 3, 150_000, 0.0), []);
            let found = with(timing, 3, 900_000, 0.0);
            assert_eq!(found[0].what, format!("3 {what} came later than 200 ms."));
            assert!(found[0].evidence.starts_with("3 of 1,000 (0.3 %)"), "{}", found[0].evidence);
            assert_eq!((found[0].gravity, &*found[0].side), (Gravity::Warning, "target"));
            let doubtful = with(timing, 3, 900_000, 2.0 * LAG_US);
            assert_eq!((doubtful[0].gravity, &*doubtful[0].side), (Gravity::Note, ""));
        }
    }

    #[test]
    fn what_is_late_while_the_plan_breaks_something_is_not_told() {
        let mut run = run(Timing::Delivery, 3, 900_000, 0.0);
        let text = "30 % of the clients: they reset".to_owned();
        run.notes.push(Note { at_ms: 10_000, text });
        assert_eq!(detect(&Case::of(&run)), []);
    }

    #[test]
    fn what_is_late_on_a_machine_without_processor_time_is_a_note() {
        let mut made = Made::of(20);
        made.gauge("clients.publish.max", |s| if s == 9 { 900_000.0 } else { 2_000.0 });
        made.total("tester.psi.cpu_s", |s| 0.5 * s as f64);
        let mut run = made.run(1_000);
        let times = run.stages[0].counts.timings.at(Timing::Publish);
        (0..9).for_each(|_| times.note(2_000));
        times.note(900_000);
        let found = detect(&Case::of(&run));
        assert_eq!((found[0].gravity, &*found[0].side), (Gravity::Note, ""));
    }
}
