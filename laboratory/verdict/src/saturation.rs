//! Saturation: whether the tester's own figures can be trusted, over the time that load was held.
//!
//! While clients come in, a tester may be busy to its limit and still count right; so what it did
//! then is a finding (a warning) and not a verdict, unless a stage is nothing but arrival. A
//! machine that server and tester share is said to be shared. The invariant: empty means that every
//! sentence below was looked at and none held, as far as there are columns.

use crate::case::Case;
use crate::window::{self, Window};
use crate::{Scope, fit, words};
use lab::run::Run;
use lab::timing::Timing;

/// Share of its time beyond which a thread has no rest.
pub(crate) const BUSIEST: f64 = 0.9;
/// Turn of a loop beyond which nothing measured is trusted, microseconds.
pub(crate) const LAG_US: f64 = 50_000.0;
/// Turns shorter than this disturb nobody, microseconds: once a second it delays less than one in
/// a hundred, and the p99 is the server's still.
const LAG_LEAST_US: f64 = 10_000.0;
/// Share of what the plan wanted that may be left undone.
const UNDONE: f64 = 0.001;
/// A hold that is a measurement of its own, milliseconds.
const HOLD_MS: u64 = 3_000;
/// Share of its rows in which something must have been so.
const ROWS_SHARE: f64 = 0.1;
/// Rows in which it must have been so, at least.
const ROWS: usize = 3;

/// Why the tester's own figures cannot be trusted, in sentences; empty: they can.
pub fn saturation(run: &Run) -> Vec<String> {
    let case = Case::of(run);
    let mut said = Vec::new();
    agents(&case, &mut said);
    threads(&case, &mut said);
    turns(&case, &mut said);
    cores(&case, &mut said);
    undone(&case, &mut said);
    clocks(&case, &mut said);
    said
}

/// Columns of busy parts on either side: cores and threads of the target, threads of the tester.
const BUSY: [&str; 4] =
    ["target.process.busiest", "target.cpu.busiest", "tester.cpu.busiest", "tester.busiest"];

/// Whether a processor was the limit in a hold: in half of its rows one had no rest.
pub(crate) fn cpu_limited(scope: &Scope) -> Result<bool, String> {
    let busy = |column: &&str| fit::median(window::values(scope.series, column, scope.hold_ms));
    let known: Vec<f64> = BUSY.iter().filter_map(busy).collect();
    let is_limited = known.iter().any(|busy| *busy >= BUSIEST);
    // Only what is seen of the target can say that nobody was at his limit.
    let sees_target = BUSY[..2].iter().filter_map(busy).next().is_some();
    match is_limited || sees_target {
        true => Ok(is_limited),
        false => {
            Err("the target's processors were not observed while the time was held".to_owned())
        }
    }
}

/// The times that were measured in: the holds, and whole stages that have none.
fn measured(case: &Case) -> Vec<Window> {
    let stages = case.run.stages.iter();
    let mut windows: Vec<Window> = stages
        .map(|stage| match stage.to_ms.saturating_sub(stage.arrived_ms) >= HOLD_MS {
            true => (stage.arrived_ms, stage.to_ms),
            false => (stage.from_ms, stage.to_ms),
        })
        .collect();
    if windows.is_empty() {
        windows.push(case.whole());
    }
    windows
}

/// Values of a column in the times that were measured in.
fn values(case: &Case, column: &str) -> Vec<f64> {
    let windows = measured(case).into_iter();
    windows.flat_map(|window| window::values(case.series(), column, window)).collect()
}

/// In how many of how many rows a value was above a level, if that is often enough to matter.
fn often(values: &[f64], level: f64) -> Option<(usize, usize)> {
    let above = values.iter().filter(|value| **value > level).count();
    let enough = above >= ROWS && above as f64 >= ROWS_SHARE * values.len() as f64;
    enough.then_some((above, values.len()))
}

fn whose(column: &str) -> String {
    match column.split('.').next().unwrap_or_default() {
        "tester" => "the tester".to_owned(),
        agent => format!("agent `{agent}`"),
    }
}

fn agents(case: &Case, said: &mut Vec<String>) {
    for agent in &case.run.agents {
        if let Some(lost) = agent.lost_ms {
            said.push(format!(
                "Agent `{}` with {} clients was lost at {}: the activity of its clients after \
                 that is unknown.",
                agent.name,
                words::count(agent.clients as f64),
                words::moment(lost)
            ));
        }
        if agent.busiest > BUSIEST {
            said.push(format!(
                "The busiest thread of `{}` ran or waited for a core {} of the whole run: its own \
                 delays look like the server's.",
                agent.name,
                words::percent(agent.busiest)
            ));
        }
    }
}

fn threads(case: &Case, said: &mut Vec<String>) {
    for column in case.of_testers("busiest") {
        if let Some((above, rows)) = often(&values(case, &column), BUSIEST) {
            said.push(format!(
                "The busiest thread of {} was saturated (above {}) in {above} of {rows} rows of \
                 the measured time.",
                whose(&column),
                words::percent(BUSIEST)
            ));
        }
    }
}

/// A peak that never falls is one since the beginning: only its rises are of their own second.
fn fresh(values: Vec<f64>) -> Vec<f64> {
    if values.len() < 10 || !values.is_sorted() {
        return values;
    }
    let risen = values.windows(2).filter(|pair| pair[1] > pair[0]).map(|pair| pair[1]);
    risen.collect()
}

fn turns(case: &Case, said: &mut Vec<String>) {
    // The shortest middle of what was measured: a tester slower than that measures itself.
    let timings = case.run.total.timings.iter();
    let held = [Timing::Heartbeat, Timing::Publish, Timing::Delivery, Timing::Request];
    let middles = timings.filter(|(timing, _)| held.contains(timing));
    let quickest = middles.min_by_key(|(_, timed)| timed.raw.at(50.0));
    let columns = case.of_testers("turn_us_max");
    for column in &columns {
        let values = fresh(values(case, column));
        if let Some((above, rows)) = often(&values, LAG_US) {
            said.push(format!(
                "A turn of the loop of {} took more than {} in {above} of {rows} rows of the \
                 measured time.",
                whose(column),
                words::time(LAG_US)
            ));
        } else if let (Some(turn), Some((timing, timed))) = (fit::median(values), quickest) {
            let p50 = timed.raw.at(50.0) as f64;
            if turn > p50 && turn > LAG_LEAST_US {
                said.push(format!(
                    "The longest turn of a second of {} is usually {}, longer than the p50 of {} \
                     ({}) that it measured.",
                    whose(column),
                    words::time(turn),
                    timing.name(),
                    words::time(p50)
                ));
            }
        }
    }
    if columns.is_empty() {
        let slow = case.run.agents.iter().filter(|agent| agent.turn_us_max as f64 > LAG_US);
        said.extend(slow.map(|agent| {
            let turn = words::time(agent.turn_us_max as f64);
            format!("A turn of the loop of `{}` took {turn}.", agent.name)
        }));
    }
}

/// A machine that only makes load. The findings report one that is shared.
fn cores(case: &Case, said: &mut Vec<String>) {
    if case.shared {
        return;
    }
    for column in case.of_testers("cpu.busy") {
        let cores = case.highest(&case.beside(&column, "cpu.cores"));
        let Some((_, cores)) = cores.filter(|(_, cores)| *cores >= 1.0) else { continue };
        if let Some((above, rows)) = often(&values(case, &column), 0.95 * cores) {
            said.push(format!(
                "All {} cores of the machine of {} were busy in {above} of {rows} rows of the \
                 measured time.",
                words::number(cores),
                whose(&column)
            ));
        }
    }
}

fn undone(case: &Case, said: &mut Vec<String>) {
    let total = &case.run.total;
    let dropped = total.figure("dropped");
    let sent = ["messages.sent", "heartbeats.sent", "requests.sent"];
    let done = sent.iter().map(|name| total.figure(name)).sum::<f64>() + total.attempts as f64;
    if dropped >= 1.0 && dropped > UNDONE * (done + dropped) {
        said.push(format!(
            "{} planned actions were not performed in time ({} of all): the load was smaller than \
             planned.",
            words::count(dropped),
            words::percent(dropped / (done + dropped))
        ));
    }
}

fn clocks(case: &Case, said: &mut Vec<String>) {
    let delivery = &case.run.total.timings.of(Timing::Delivery).raw;
    if case.run.agents.len() < 2 || delivery.is_empty() {
        return;
    }
    let Some(worst) = case.run.agents.iter().max_by_key(|agent| agent.offset_error_us) else {
        return;
    };
    let p50 = delivery.at(50.0);
    if worst.offset_error_us > p50 {
        said.push(format!(
            "The clock of `{}` is known to {} only, and the p50 of delivery between machines is \
             {}: times of delivery cannot be trusted.",
            worst.name,
            words::time(worst.offset_error_us as f64),
            words::time(p50 as f64)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use lab::run::Agent;

    /// A run of 100 rows that is held from the tenth on.
    fn with(column: &str, of: impl Fn(u64) -> f64) -> Vec<String> {
        let mut made = Made::of(100);
        made.gauge(column, of);
        made.gauge("tester.cpu.cores", |_| 2.0);
        saturation(&made.run(100))
    }

    #[test]
    fn a_busy_hold_is_not_trusted_and_a_busy_arrival_or_moment_is() {
        assert_eq!(with("tester.busiest", |s| if s >= 50 { 0.97 } else { 0.2 }).len(), 1);
        assert_eq!(with("tester.busiest", |s| if s < 9 { 1.0 } else { 0.2 }), Vec::<String>::new());
        assert_eq!(with("tester.busiest", |s| if s == 50 { 1.0 } else { 0.2 }).len(), 0);
        assert_eq!(with("agent-2.busiest", |_| 0.97).len(), 1);
        assert_eq!(
            with("tester.turn_us_max", |s| if s > 80 { 60_000.0 - s as f64 } else { 1.0 }).len(),
            1
        );
        assert_eq!(with("tester.turn_us_max", |s| if s > 50 { 60_000.0 } else { 1.0 }).len(), 0);
        assert_eq!(with("tester.cpu.busy", |_| 2.0).len(), 1);
        assert_eq!(with("target.cpu.busy", |_| 2.0).len(), 0);
    }

    #[test]
    fn turns_longer_than_what_they_measure_are_not_trusted() {
        let mut made = Made::of(100);
        made.gauge("tester.turn_us_max", |s| 11_000.0 + (s % 7) as f64);
        let mut run = made.run(100);
        assert_eq!(saturation(&run).len(), 0);
        run.total.timings.at(Timing::Heartbeat).note(8_000);
        assert_eq!(saturation(&run).len(), 1);
        made.gauge("tester.turn_us_max", |s| 9_990.0 + (s % 7) as f64);
        let mut run = made.run(100);
        run.total.timings.at(Timing::Heartbeat).note(8_000);
        assert_eq!(saturation(&run).len(), 0, "the p99 is right all the same");
        made.gauge("tester.turn_us_max", |s| 11_000.0 + (s % 7) as f64);
        let mut run = made.run(100);
        run.total.timings.at(Timing::Heartbeat).note(20_000);
        assert_eq!(saturation(&run).len(), 0, "a turn that is shorter than what it measures");
    }

    #[test]
    fn undone_work_lost_agents_and_unsure_clocks_are_said() {
        let mut run = Made::of(10).run(100);
        run.total.raise("messages.sent", 1_000.0);
        run.total.raise("dropped", 1.0);
        assert_eq!(saturation(&run).len(), 0);
        run.total.raise("dropped", 50.0);
        assert_eq!(saturation(&run).len(), 1);
        let lost = Agent { name: "a".to_owned(), lost_ms: Some(5_000), ..Agent::default() };
        let unsure = Agent { name: "b".to_owned(), offset_error_us: 900, ..Agent::default() };
        run.agents = vec![lost, unsure];
        run.total.timings.at(Timing::Delivery).note(300);
        let said = saturation(&run);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[2].contains("`b` is known to 900 us only"), "{said:?}");
    }

    /// Number of findings for a run of 100 rows whose load was held from the tenth second on, when
    /// so many held rows are high.
    fn high(column: &str, level: f64, rows: u64) -> usize {
        with(column, |s| if (50..50 + rows).contains(&s) { level } else { 0.1 }).len()
    }

    #[test]
    fn a_tenth_of_the_rows_is_often_and_one_row_fewer_is_not() {
        // 91 rows are held: the window's first belongs to the one before.
        for (column, level) in [("tester.busiest", 0.91), ("tester.cpu.busy", 1.91)] {
            assert_eq!((high(column, level, 10), high(column, level, 8)), (1, 0), "{column}");
        }
        assert_eq!(high("tester.busiest", BUSIEST, 40), 0, "at the level is not above it");
        assert_eq!(often(&[1.0, 1.0, 0.0], 0.5), None, "two rows are few");
        assert_eq!(often(&[1.0, 1.0, 1.0], 0.5), Some((3, 3)));
        let rows =
            |above: usize| -> Vec<f64> { (0..40).map(|n| f64::from(n < above as i32)).collect() };
        assert_eq!((often(&rows(4), 0.5), often(&rows(3), 0.5)), (Some((4, 40)), None));
    }

    #[test]
    fn a_stage_is_judged_by_its_hold_unless_it_is_short() {
        let mut run = Made::of(20).run(10);
        let of = |run: &Run| measured(&Case::of(run));
        run.stages[0].arrived_ms = 17_000;
        assert_eq!(of(&run), [(17_000, 20_000)]);
        run.stages[0].arrived_ms = 17_001;
        assert_eq!(of(&run), [(0, 20_000)]);
        run.stages.clear();
        assert_eq!(of(&run), [Case::of(&run).whole()]);
    }

    #[test]
    fn agents_are_named_with_what_they_lost_or_were_too_busy_for() {
        let mut run = Made::of(10).run(100);
        let agent = |name: &str, busiest, turn_us_max| Agent {
            name: name.to_owned(),
            busiest,
            turn_us_max,
            ..Agent::default()
        };
        run.agents = vec![agent("calm", BUSIEST, LAG_US as u64), agent("busy", 0.91, 50_001)];
        let said = saturation(&run);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said[0].contains("thread of `busy`") && said[1].contains("loop of `busy`"),
            "{said:?}"
        );
        assert_eq!(
            (whose("tester.busiest"), whose("a-2.busiest")),
            ("the tester".into(), "agent `a-2`".into())
        );
    }

    #[test]
    fn undone_work_is_said_above_a_thousandth() {
        let with = |sent: f64, dropped: f64| {
            let mut run = Made::of(10).run(0);
            run.total.raise("messages.sent", sent / 4.0);
            run.total.raise("heartbeats.sent", sent / 4.0);
            run.total.raise("requests.sent", sent / 4.0);
            run.total.attempts = (sent / 4.0) as u64;
            run.total.raise("dropped", dropped);
            saturation(&run)
        };
        assert_eq!(with(99_900.0, 100.0).len(), 0);
        let said = with(90_000.0, 10_000.0);
        assert!(
            said[0].contains("10,000 planned actions") && said[0].contains("10 % of all"),
            "{said:?}"
        );
    }

    #[test]
    fn clocks_that_are_known_as_well_as_the_delivery_is_long_are_believed() {
        let mut run = Made::of(10).run(100);
        let agent = |offset_error_us| Agent { offset_error_us, ..Agent::default() };
        run.total.timings.at(Timing::Delivery).note(300);
        run.agents = vec![agent(0), agent(300)];
        assert_eq!(saturation(&run).len(), 0);
        run.agents[1].offset_error_us = 301;
        assert_eq!(saturation(&run).len(), 1);
        run.agents.remove(0);
        assert_eq!(saturation(&run).len(), 0, "one machine has one clock");
    }

    #[test]
    fn repeated_values_of_a_counter_that_only_rises_are_not_fresh() {
        let rising = [1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0, 3.0];
        assert_eq!(fresh(rising.to_vec()), [2.0, 3.0]);
        assert_eq!(fresh(rising[..9].to_vec()), rising[..9]);
        let falling = [3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        assert_eq!(fresh(falling.to_vec()), falling);
    }
}
