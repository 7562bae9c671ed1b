//! The server as a whole: gone, started anew, or rid of most of its clients at once.
//!
//! A plan may do that on purpose; then a note of the run says so, and whoever puts findings in
//! order makes a warning of it.

use crate::case::Case;
use crate::columns::ONLINE;
use crate::window;
use crate::words;
use lab::run::{Finding, Gravity};

/// Share of the clients that is lost at once.
const AT_ONCE: f64 = 0.3;

/// A server that went.
pub fn detect(case: &Case) -> Vec<Finding> {
    let mut found: Vec<Finding> = gone(case).into_iter().chain(restarted(case)).collect();
    if found.is_empty() {
        found.extend(emptied(case));
    }
    found
}

fn finding(case: &Case, what: &str, evidence: String, window: (u64, u64)) -> Finding {
    let harm = case.harm(window).map_or(String::new(), |harm| format!("; {harm}"));
    Finding {
        gravity: Gravity::Limit,
        side: "target".to_owned(),
        what: what.to_owned(),
        evidence: format!("{evidence}{harm}"),
        remedy: "Look at the server's log and at the kernel's (dmesg): a crash, a watchdog or the \
                 OOM killer."
            .to_owned(),
        from_ms: window.0,
        to_ms: window.1,
    }
}

fn gone(case: &Case) -> Option<Finding> {
    let alive = window::cells(case.series(), "target.process.alive");
    let first = alive.iter().find(|(_, alive)| *alive < 1.0)?.0;
    let back = alive.iter().find(|(at, alive)| *at > first && *alive >= 1.0);
    let to_ms = back.map_or(case.end_ms(), |(at, _)| *at);
    let online = case.at(ONLINE, first.saturating_sub(1_000)).map_or(String::new(), |online| {
        format!(", with {} clients online before", words::count(online))
    });
    let evidence = match back {
        Some(_) => format!("no process of it {}{online}", words::between(first, to_ms)),
        None => format!("no process of it from {} on{online}", words::moment(first)),
    };
    let what = match back {
        Some(_) => "The server's process was down for a while.",
        None => "The server's process ended and did not come back.",
    };
    Some(finding(case, what, evidence, (first, to_ms)))
}

fn restarted(case: &Case) -> Option<Finding> {
    let met = window::bursts(case.series(), "target.process.restarts", u64::MAX);
    let younger = || {
        let uptime = window::cells(case.series(), "target.process.uptime_s");
        let fell = uptime.windows(2).find(|pair| pair[1].1 < pair[0].1)?;
        Some((fell[0].0, fell[1].0, 1.0))
    };
    let (from_ms, to_ms, times) = met.first().copied().or_else(younger)?;
    let times = words::count(times);
    let evidence = format!("its process changed {times} times, {}", words::between(from_ms, to_ms));
    Some(finding(case, "The server restarted during the run.", evidence, (from_ms, to_ms)))
}

/// Most clients lost within two rows.
fn emptied(case: &Case) -> Option<Finding> {
    let online = window::cells(case.series(), ONLINE);
    let fell = online.windows(2).find(|pair| {
        let (before, after) = (pair[0].1, pair[1].1);
        before >= 10.0 && before - after >= AT_ONCE * before
    })?;
    let (from_ms, to_ms) = (fell[0].0, fell[1].0);
    // Clients that the plan sends away are no loss: it takes errors to be one.
    case.harm((from_ms, to_ms))?;
    let evidence = format!(
        "{} of {} clients were lost {}",
        words::count(fell[0].1 - fell[1].1),
        words::count(fell[0].1),
        words::between(from_ms, to_ms)
    );
    let mut found = finding(case, "Many clients were lost at once.", evidence, (from_ms, to_ms));
    // Whose doing it was cannot be told without the server's process.
    found.gravity = Gravity::Warning;
    found.side = String::new();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use lab::cause::{Cause, Phase};

    fn killed() -> Made {
        let mut made = Made::of(60);
        made.gauge("target.process.alive", |s| if (30..33).contains(&s) { 0.0 } else { 1.0 });
        made.gauge("clients.online", |s| if s < 30 { 500.0 } else { 0.0 });
        made.ended(Phase::Online, Cause::Reset, 500, 30);
        made
    }

    #[test]
    fn a_server_that_dies_is_a_limit() {
        let run = killed().run(500);
        let found = detect(&Case::of(&run));
        assert_eq!((found.len(), found[0].gravity), (1, Gravity::Limit));
        assert!(found[0].evidence.contains("between 00:30 and 00:33, with 500 clients online"));
    }

    #[test]
    fn a_restart_between_two_looks_is_seen_by_its_age() {
        let mut made = Made::of(60);
        made.gauge("target.process.uptime_s", |s| {
            if s < 30 { 100.0 + s as f64 } else { s as f64 - 30.0 }
        });
        let found = detect(&Case::of(&made.run(5)));
        assert_eq!((found.len(), found[0].from_ms), (1, 29_000));
    }

    #[test]
    fn clients_lost_at_once_are_told_once_and_planned_farewells_are_not() {
        let mut made = Made::of(60);
        made.gauge("clients.online", |s| if s < 30 { 500.0 } else { 100.0 });
        made.ended(Phase::Online, Cause::Reset, 400, 30);
        let found = detect(&Case::of(&made.run(500)));
        assert_eq!((found.len(), found[0].gravity), (1, Gravity::Warning));
        assert_eq!(
            found[0].evidence.matches("ended with reset").count(),
            1,
            "{}",
            found[0].evidence
        );
        let mut made = Made::of(60);
        made.gauge("clients.online", |s| if s < 30 { 500.0 } else { 100.0 });
        made.ended(Phase::Online, Cause::Farewell, 400, 30);
        assert_eq!(detect(&Case::of(&made.run(500))), []);
    }
}
