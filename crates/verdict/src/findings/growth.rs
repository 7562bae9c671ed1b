//! The server's memory: what one more client costs, whether that is a straight line, and whether
//! it grows while there are no more clients.

use crate::case::Case;
use crate::columns::{ONLINE, TARGET_RSS};
use crate::figure::memory_points;
use crate::fit::Line;
use crate::window;
use crate::words;
use lab::run::{Finding, Gravity, Stage};

/// Clients that a slope is told of, at least.
const CLIENTS: f64 = 100.0;
/// How straight it must be to be called a line.
const STRAIGHT: f64 = 0.98;
/// A hold that is long enough to speak of a leak, milliseconds.
const HOLD_MS: u64 = 60_000;
/// Growth over a hold that is one, as a share.
const LEAK: f64 = 0.01;

/// What memory did.
pub fn detect(case: &Case) -> Vec<Finding> {
    let mut found: Vec<Finding> = slope(case).into_iter().collect();
    let leaks = case.run.stages.iter().filter_map(|stage| leak(case, stage));
    found.extend(
        leaks.reduce(|one, other| if other.1 > one.1 { other } else { one }).map(|it| it.0),
    );
    found
}

fn slope(case: &Case) -> Option<Finding> {
    let points = memory_points(case.series(), TARGET_RSS);
    let line = Line::through(&points)?;
    let clients = points.last()?.0 - points.first()?.0;
    if clients < CLIENTS {
        return None;
    }
    let machine = Line::through(&memory_points(case.series(), "target.memory.used"));
    // A machine's memory has other reasons too: only a line that leaves no doubt is told.
    let machine = match machine.filter(|line| line.r2 >= 0.99 && clients >= 1_000.0) {
        Some(machine) => format!(
            "; of its machine, the kernel's part and {}: {}",
            if case.shared { "the tester's clients included" } else { "all else on it included" },
            words::bytes(machine.slope)
        ),
        None => String::new(),
    };
    let straight = line.r2 >= STRAIGHT;
    Some(Finding {
        gravity: if straight { Gravity::Note } else { Gravity::Warning },
        side: "target".to_owned(),
        what: match straight {
            true => {
                format!("One more client costs the server's process {}.", words::bytes(line.slope))
            }
            false => {
                "The server's memory does not grow in a straight line with its clients.".to_owned()
            }
        },
        evidence: format!(
            "{} a client, R2 {:.4}, over {} rows and {} clients{machine}",
            words::bytes(line.slope),
            line.r2,
            points.len(),
            words::count(clients)
        ),
        remedy: String::new(),
        from_ms: 0,
        to_ms: case.end_ms(),
    })
}

/// Growth while clients were held, and by what share.
fn leak(case: &Case, stage: &Stage) -> Option<(Finding, f64)> {
    let hold = (stage.arrived_ms, stage.to_ms);
    if hold.1.saturating_sub(hold.0) < HOLD_MS {
        return None;
    }
    let online = window::values(case.series(), ONLINE, hold);
    let most = online.iter().copied().fold(0.0, f64::max);
    let least = online.iter().copied().fold(f64::INFINITY, f64::min);
    let line = window::trend(case.series(), TARGET_RSS, hold)?;
    let drift = window::drift(case.series(), TARGET_RSS, hold)?;
    if drift < LEAK || line.r2 < 0.8 || most - least > 0.01 * most {
        return None;
    }
    let finding = Finding {
        gravity: Gravity::Warning,
        side: "target".to_owned(),
        what: "The server's memory grew while the number of clients did not: a leak, or queues \
               that fill."
            .to_owned(),
        evidence: format!(
            "in stage `{}` +{} at {} clients, {} an hour if it goes on (R2 {:.3})",
            stage.name,
            words::percent(drift),
            words::count(most),
            words::bytes(line.slope * 3_600.0),
            line.r2
        ),
        remedy: "Hold it longer to tell a leak from a warm-up; look at the server's queues."
            .to_owned(),
        from_ms: hold.0,
        to_ms: hold.1,
    };
    Some((finding, drift))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    #[test]
    fn the_slope_is_told_and_a_crooked_one_warned_of() {
        let with = |rss: fn(f64) -> f64| {
            let mut made = Made::of(100);
            made.gauge("clients.online", |s| (1_000 * s.min(50)) as f64);
            made.gauge(TARGET_RSS, move |s| rss((1_000 * s.min(50)) as f64));
            detect(&Case::of(&made.run(50_000))).remove(0)
        };
        let straight = with(|clients| 1e7 + 2_048.0 * clients);
        assert_eq!(straight.what, "One more client costs the server's process 2 KiB.");
        assert!(straight.evidence.contains("R2 1.0000"), "{}", straight.evidence);
        let crooked = with(|clients| if clients > 30_000.0 { 9e8 } else { 1e7 });
        assert_eq!(crooked.gravity, Gravity::Warning);
    }

    #[test]
    fn memory_that_grows_alone_is_told_and_memory_that_grows_with_clients_is_not() {
        let with = |online: fn(u64) -> f64| {
            let mut made = Made::of(100);
            made.gauge("clients.online", online);
            made.gauge(TARGET_RSS, |s| 1e8 + 1e6 * s as f64);
            let found = detect(&Case::of(&made.run(1_000)));
            found.iter().filter(|found| found.what.contains("leak")).count()
        };
        assert_eq!(with(|_| 1_000.0), 1);
        assert_eq!(with(|s| 1_000.0 + 50.0 * s as f64), 0);
    }
}
