//! Moments in which a server served nobody, and how often they come: each shows as one second whose
//! longest answer took many times as long as that of most seconds.
//!
//! A tester that lagged in the same second is not taken for a server that stalled, and what the
//! plan broke is no stall. Where the laboratory's machine had too little processor time in that
//! second, nobody can tell whether the server or the machine stalled: that is a note.

use crate::case::Case;
use crate::fit;
use crate::window;
use crate::words;
use lab::run::{Finding, Gravity};
use lab::timing::Timing;

/// How many times as long as that of most seconds.
const FACTOR: f64 = 8.0;
/// Microseconds that are a stall, at least.
const LEAST_US: f64 = 100_000.0;
/// Rows that must be there to know what is usual.
const ROWS: usize = 10;
/// Stalls of which a period is reported, at least.
const PERIODS: usize = 3;
/// By what share the times between stalls may differ from their middle to be a period.
const EVEN: f64 = 0.25;
/// Share of the seconds above which it is no stall, but how the server is.
const SELDOM: f64 = 0.34;

/// Stalls, by the timing that shows most of them.
pub fn detect(case: &Case) -> Vec<Finding> {
    let timings = [Timing::Heartbeat, Timing::Publish, Timing::Delivery, Timing::Request];
    let found = timings.into_iter().filter_map(|timing| {
        let stalls = of(case, timing)?;
        Some((stalls.len(), timing, stalls))
    });
    let most = found.reduce(|one, other| if other.0 > one.0 { other } else { one });
    let Some((_, timing, stalls)) = most else { return Vec::new() };
    let (doubtful, sure): (Vec<_>, Vec<_>) =
        stalls.into_iter().partition(|(at, _)| case.starved(*at).is_some());
    let sure = (!sure.is_empty()).then(|| told(case, timing, &sure));
    sure.into_iter().chain(doubted(case, timing, &doubtful)).collect()
}

/// Stalls while the laboratory's machine had too little processor time.
fn doubted(case: &Case, timing: Timing, stalls: &[(u64, f64)]) -> Option<Finding> {
    let why = case.starved(stalls.first()?.0)?;
    let mut finding = told(case, timing, stalls);
    finding.gravity = Gravity::Note;
    finding.side = String::new();
    finding.what = match stalls.len() {
        1 => {
            "Answers stalled once, while the laboratory's machine was short of CPU time.".to_owned()
        }
        times => format!(
            "Answers stalled {times} times, while the laboratory's machine was short of CPU time."
        ),
    };
    finding.evidence = format!("{}; on the laboratory's machine {why}", finding.evidence);
    finding.remedy = "Measure on a machine that does nothing else: this run cannot tell whether \
                      the server or the machine stalled."
        .to_owned();
    Some(finding)
}

/// Seconds with a stall: when, and how long.
fn of(case: &Case, timing: Timing) -> Option<Vec<(u64, f64)>> {
    let column = format!("clients.{}.max", timing.name());
    let mut rows = Vec::new();
    for stage in &case.run.stages {
        let hold = (stage.arrived_ms, stage.to_ms);
        rows.extend(window::shown(case.series(), &column, hold));
    }
    if rows.len() < ROWS {
        return None;
    }
    let usual = fit::median(rows.iter().map(|(_, us)| *us))?;
    let bound = f64::max(FACTOR * usual, LEAST_US);
    let stalled: Vec<(u64, f64)> = rows.iter().copied().filter(|(_, us)| *us >= bound).collect();
    if stalled.len() as f64 > SELDOM * rows.len() as f64 {
        return None;
    }
    let mut stalls: Vec<(u64, f64)> = Vec::new();
    let mut last = None;
    for (at, us) in stalled {
        if case.broken(at).is_some() || case.tester_lags(at, us) {
            continue;
        }
        // What waited in one second may be answered in the next: that is the same stall.
        let is_same = last.is_some_and(|last: u64| at.saturating_sub(last) <= 1_500);
        last = Some(at);
        match stalls.last_mut() {
            Some(stall) if is_same => stall.1 = stall.1.max(us),
            _ => stalls.push((at, us)),
        }
    }
    (!stalls.is_empty()).then_some(stalls)
}

/// From one stall to the next, milliseconds, if they come evenly.
fn period(stalls: &[(u64, f64)]) -> Option<f64> {
    let spans = stalls.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0) as f64);
    let spans: Vec<f64> = spans.collect();
    let middle = fit::median(spans.iter().copied())?;
    // Rows are a second apart, so that a time between two is not known better.
    let even = |span: &f64| (span - middle).abs() <= f64::max(EVEN * middle, 1_100.0);
    let is_even = spans.iter().filter(|span| even(span)).count() * 5 >= spans.len() * 4;
    let whole = (stalls.last()?.0 - stalls.first()?.0) as f64;
    (stalls.len() >= PERIODS && is_even && middle >= 2_000.0).then(|| {
        match spans.iter().all(even) {
            true => whole / spans.len() as f64,
            false => middle,
        }
    })
}

fn told(case: &Case, timing: Timing, stalls: &[(u64, f64)]) -> Finding {
    let longest = stalls.iter().map(|(_, us)| *us).fold(0.0, f64::max);
    let period = period(stalls);
    let first: Vec<String> = stalls.iter().take(4).map(|(at, _)| words::moment(*at)).collect();
    let more = match stalls.len() - first.len() {
        0 => String::new(),
        more => format!(" and {more} more times"),
    };
    let (from_ms, to_ms) = (stalls[0].0.saturating_sub(1_000), stalls[stalls.len() - 1].0);
    let every = period.map(|ms| words::time(ms * 1e3));
    Finding {
        gravity: Gravity::Warning,
        side: "target".to_owned(),
        what: match (&every, stalls.len()) {
            (Some(every), _) => format!("The server stalls about every {every}."),
            (None, 1) => "The server stalled once.".to_owned(),
            (None, times) => format!("The server stalled {times} times."),
        },
        evidence: format!(
            "answers ({}) took up to {} at {}{more}; the tester's own loop did not lag then{}",
            timing.name(),
            words::time(longest),
            words::list(&first),
            case.latency_beside((from_ms, to_ms)).map_or(String::new(), |also| format!("; {also}")),
        ),
        remedy: "Check what the server does at these times: snapshots, compaction, garbage \
             collection, disk syncs, a scheduled job."
            .to_owned(),
        from_ms,
        to_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use crate::saturation::LAG_US;
    use lab::run::Note;

    fn with(stalled: fn(u64) -> bool, lag: fn(u64) -> f64) -> lab::run::Run {
        let mut made = Made::of(100);
        made.gauge("clients.delivery.max", move |s| if stalled(s) { 640_000.0 } else { 3_000.0 });
        made.gauge("tester.turn_us_max", lag);
        made.run(100)
    }

    #[test]
    fn stalls_are_told_with_their_period_and_those_of_the_tester_are_not() {
        let found = detect(&Case::of(&with(|s| s % 15 == 14, |_| 900.0)));
        assert_eq!(found[0].what, "The server stalls about every 15 s.");
        assert_eq!((found[0].gravity, &*found[0].side), (Gravity::Warning, "target"));
        let told = "answers (delivery) took up to 640 ms at 00:14, 00:29, 00:44 and 00:59 and 2";
        assert!(found[0].evidence.starts_with(told), "{}", found[0].evidence);
        let found = detect(&Case::of(&with(|s| [40, 71].contains(&s), |_| 900.0)));
        assert_eq!(found[0].what, "The server stalled 2 times.");
        let lagging = with(|s| s % 15 == 14, |s| if s % 15 == 14 { 600_000.0 } else { 900.0 });
        assert_eq!(detect(&Case::of(&lagging)), []);
        assert_eq!(detect(&Case::of(&with(|s| s % 2 == 0, |_| 0.0))), [], "that is how it is");
    }

    #[test]
    fn a_stall_while_the_machine_is_short_of_processor_time_is_a_note() {
        let of = |psi: f64, steal: f64| {
            let mut made = Made::of(100);
            made.gauge("clients.delivery.max", |s| if s == 40 { 640_000.0 } else { 3_000.0 });
            made.total("tester.psi.cpu_s", move |s| psi * s as f64);
            made.gauge("tester.cpu.cores", |_| 2.0);
            made.gauge("tester.cpu.steal", move |_| steal);
            detect(&Case::of(&made.run(100))).remove(0)
        };
        let server = (Gravity::Warning, "target");
        let nobody = (Gravity::Note, "");
        for (psi, steal, whose) in
            [(0.19, 0.09, server), (0.21, 0.0, nobody), (0.0, 0.1, nobody), (0.9, 1.0, nobody)]
        {
            let found = of(psi, steal);
            assert_eq!((found.gravity, &*found.side), whose, "{psi} {steal}");
        }
        assert!(of(0.5, 0.0).evidence.ends_with("threads waited for a core 50 % of the time"));
    }

    #[test]
    fn what_the_plan_broke_is_no_stall() {
        let mut run = with(|s| s == 40, |_| 900.0);
        let note = |at_ms, text: &str| Note { at_ms, text: text.to_owned() };
        run.notes.push(note(38_000, "broken on purpose: the target is stopped"));
        run.notes.push(note(40_000, "mended: the target goes on"));
        assert_eq!(detect(&Case::of(&run)), []);
    }

    #[test]
    fn a_period_is_of_three_stalls_two_seconds_apart_most_of_them_even() {
        for (at, found) in [
            (vec![0, 5_000], None),
            (vec![0, 5_000, 10_000], Some(5_000.0)),
            (vec![0, 2_000, 4_000], Some(2_000.0)),
            (vec![0, 1_999, 3_998], None),
            (vec![0, 20_000, 45_000, 65_000], Some(65_000.0 / 3.0)),
            (vec![0, 20_000, 45_001, 65_001], None),
            (vec![0, 5_000, 10_000, 15_000, 20_000, 30_000], Some(5_000.0)),
            (vec![0, 5_000, 10_000, 15_000, 25_000], None),
        ] {
            let stalls: Vec<(u64, f64)> = at.iter().map(|at| (*at, 1e6)).collect();
            assert_eq!(period(&stalls), found, "{at:?}");
        }
    }

    #[test]
    fn a_tester_lags_by_more_than_its_bound_and_a_quarter_of_the_stall() {
        let told = |turn: f64| {
            let mut made = Made::of(100);
            made.gauge("clients.delivery.max", |s| if s == 40 { 640_000.0 } else { 3_000.0 });
            made.gauge("tester.turn_us_max", move |s| if s == 40 { turn } else { 900.0 });
            detect(&Case::of(&made.run(100))).len()
        };
        // A quarter of the stall is more than the bound.
        const { assert!(LAG_US < 160_000.0) };
        assert_eq!([160_000.0, 160_001.0].map(told), [1, 0]);
        assert_eq!(told(LAG_US + 1.0), 1, "a turn that explains little of the stall");
    }
}
