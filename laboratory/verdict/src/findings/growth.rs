//! The server's memory: what one more client costs, whether that is a straight line, and whether
//! it grows while there are no more clients; and the same of its open descriptors.

use crate::case::Case;
use crate::columns::{ONLINE, TARGET_FDS, TARGET_RSS};
use crate::figure::{MOVED_BYTES, memory_points};
use crate::fit::FittedLine;
use crate::window;
use crate::words;
use lab::run::{Finding, Gravity, StageRun};

/// Clients from which a slope is computed, at least.
const CLIENTS: f64 = 100.0;
/// How straight it must be to be called a line.
const STRAIGHT: f64 = 0.98;
/// A hold that is long enough to speak of growth, milliseconds.
const HOLD_MS: u64 = 10_000;
/// Rows that it needs.
const ROWS: usize = 8;
/// Growth over a hold that is one, as a share and in bytes.
const LEAK: f64 = 0.01;
const LEAK_BYTES: f64 = 2.0 * 1024.0 * 1024.0;
/// Descriptors.
const LEAK_FDS: f64 = 20.0;

/// Finds growth of memory and descriptors.
pub fn detect(case: &Case) -> Vec<Finding> {
    let mut found: Vec<Finding> = slope(case).into_iter().collect();
    for kind in [Leak::Memory, Leak::Descriptors] {
        let leaks = case.run.stages.iter().filter_map(|stage| leak(case, stage, kind));
        let worst = leaks.reduce(|one, other| if other.1 > one.1 { other } else { one });
        found.extend(worst.map(|it| it.0));
    }
    found
}

/// Resource that may leak.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leak {
    Memory,
    Descriptors,
}

impl Leak {
    fn column(self) -> &'static str {
        match self {
            Leak::Memory => TARGET_RSS,
            Leak::Descriptors => TARGET_FDS,
        }
    }

    fn least(self) -> f64 {
        match self {
            Leak::Memory => LEAK_BYTES,
            Leak::Descriptors => LEAK_FDS,
        }
    }

    fn words(self, amount: f64) -> String {
        match self {
            Leak::Memory => words::bytes(amount),
            Leak::Descriptors => format!("{} descriptors", words::count(amount.round())),
        }
    }

    fn says(self) -> (&'static str, &'static str) {
        match self {
            Leak::Memory => (
                "The server's memory grew while the number of clients did not: a leak, or growing \
                 queues.",
                "Use a longer hold to tell a leak from a warm-up; check the server's queues.",
            ),
            Leak::Descriptors => (
                "The server's open descriptors grew while the number of clients did not: a leak.",
                "Check /proc/PID/fd of the server: sockets in CLOSE-WAIT are connections that \
                 clients have closed and the server has not.",
            ),
        }
    }
}

fn slope(case: &Case) -> Option<Finding> {
    let points = memory_points(case.series(), TARGET_RSS);
    let line = FittedLine::through(&points)?;
    let clients = points.last()?.0 - points.first()?.0;
    if clients < CLIENTS {
        return None;
    }
    let machine = FittedLine::through(&memory_points(case.series(), "target.memory.used"));
    // A machine's memory has other reasons too: only a line that leaves no doubt is told.
    let machine = match machine.filter(|line| line.r2 >= 0.99 && clients >= 1_000.0) {
        Some(machine) => format!(
            "; of its machine, the kernel's part and {}: {}",
            if case.shared { "the tester's clients included" } else { "all else on it included" },
            words::bytes(machine.slope)
        ),
        None => String::new(),
    };
    if line.slope < MOVED_BYTES {
        return Some(Finding {
            gravity: Gravity::Note,
            side: "target".to_owned(),
            what: "The memory per client is unknown: the memory of the server's process did not \
                   change."
                .to_owned(),
            evidence: format!(
                "{} while {} clients connected, over {} rows: earlier allocations had room for \
                 them",
                words::bytes(points.last()?.1 - points.first()?.1),
                words::count(clients),
                points.len()
            ),
            remedy: "Restart the server before a run that measures memory per client.".to_owned(),
            from_ms: 0,
            to_ms: case.end_ms(),
        });
    }
    let straight = line.r2 >= STRAIGHT;
    Some(Finding {
        gravity: if straight { Gravity::Note } else { Gravity::Warning },
        side: "target".to_owned(),
        what: match straight {
            true => {
                format!(
                    "Each client adds {} to the memory of the server's process.",
                    words::bytes(line.slope)
                )
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
fn leak(case: &Case, stage: &StageRun, kind: Leak) -> Option<(Finding, f64)> {
    let hold = (stage.arrived_ms, stage.to_ms);
    if hold.1.saturating_sub(hold.0) < HOLD_MS {
        return None;
    }
    let online = window::values(case.series(), ONLINE, hold);
    let most = online.iter().copied().fold(0.0, f64::max);
    let least = online.iter().copied().fold(f64::INFINITY, f64::min);
    let line = window::trend(case.series(), kind.column(), hold)?;
    let drift = window::drift(case.series(), kind.column(), hold)?;
    let grown = line.slope * (hold.1 - hold.0) as f64 / 1_000.0;
    let is_held = online.len() >= ROWS && most - least <= 0.01 * most;
    if drift < LEAK || grown < kind.least() || line.r2 < 0.8 || !is_held {
        return None;
    }
    let finding = Finding {
        gravity: Gravity::Warning,
        side: "target".to_owned(),
        what: kind.says().0.to_owned(),
        evidence: format!(
            "in stage `{}` +{} (+{}) in {} at {} clients, {} per hour if this continues (R2 \
             {:.3})",
            stage.name,
            kind.words(grown),
            words::percent(drift),
            words::time((hold.1 - hold.0) as f64 * 1e3),
            words::count(most),
            kind.words(line.slope * 3_600.0),
            line.r2
        ),
        remedy: kind.says().1.to_owned(),
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
        let each = "Each client adds 2 KiB to the memory of the server's process.";
        assert_eq!(straight.what, each);
        assert!(straight.evidence.contains("R2 1.0000"), "{}", straight.evidence);
        let crooked = with(|clients| if clients > 30_000.0 { 9e8 } else { 1e7 });
        assert_eq!(crooked.gravity, Gravity::Warning);
    }

    #[test]
    fn a_warm_server_tells_nothing_about_the_cost_of_a_client() {
        let mut made = Made::of(100);
        made.gauge("clients.online", |s| (1_000 * s.min(50)) as f64);
        made.gauge(TARGET_RSS, |_| 5e7);
        let run = made.run(50_000);
        let found = detect(&Case::of(&run));
        assert_eq!(found[0].gravity, Gravity::Note);
        assert!(found[0].what.contains("is unknown"), "{}", found[0].what);
        assert!(found[0].evidence.starts_with("0 B while 50,000 clients"), "{}", found[0].evidence);
        let scope = crate::Scope::of_run(&run);
        for rule in ["bytes_per_connection.r2 > 0.999", "bytes_per_connection < 1GiB"] {
            assert_eq!(crate::check(rule, &scope).held, None, "{rule}");
        }
    }

    #[test]
    fn descriptors_that_grow_alone_are_a_leak_and_those_of_clients_are_not() {
        let with = |online: fn(u64) -> f64, each: f64| {
            let mut made = Made::of(100);
            made.gauge("clients.online", online);
            made.gauge(TARGET_FDS, move |s| 1_000.0 + each * s as f64);
            let found = detect(&Case::of(&made.run(1_000)));
            found.iter().filter(|found| found.what.contains("descriptors grew")).count()
        };
        assert_eq!([with(|_| 1_000.0, 1.0), with(|_| 1_000.0, 0.1)], [1, 0]);
        assert_eq!(with(|s| 1_000.0 + s as f64, 1.0), 0);
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

    #[test]
    fn a_hundred_clients_cost_something_and_fewer_tell_nothing() {
        let with = |clients: u64| {
            let mut made = Made::of(100);
            made.gauge("clients.online", move |s| (clients * s.min(50) / 50) as f64);
            made.gauge(TARGET_RSS, move |s| 1e7 + 5_000.0 * (clients * s.min(50) / 50) as f64);
            detect(&Case::of(&made.run(clients))).len()
        };
        assert_eq!((with(100), with(50)), (1, 0));
    }

    #[test]
    fn a_leak_is_told_only_where_it_is_long_large_and_straight() {
        let with = |seconds: u64, arrived_ms: u64, rss: fn(f64) -> f64, online: fn(u64) -> f64| {
            let mut made = Made::of(seconds);
            made.gauge("clients.online", online);
            made.gauge(TARGET_RSS, move |s| rss(s as f64));
            let mut run = made.run(1_000);
            run.stages[0].arrived_ms = arrived_ms;
            let found = detect(&Case::of(&run));
            found.into_iter().find(|found| found.what.contains("leak"))
        };
        let steady = |_| 1_000.0;
        let leak = with(100, 0, |s| 1e8 + 1e6 * s, steady).expect("a leak");
        assert!(leak.evidence.contains("+95.4 MiB (+100 %)"), "{}", leak.evidence);
        assert!(leak.evidence.contains("3.35 GiB per hour"), "{}", leak.evidence);
        assert!(with(100, 90_000, |s| 1e8 + 1e6 * s, steady).is_some(), "ten seconds are enough");
        assert!(with(100, 90_001, |s| 1e8 + 1e6 * s, steady).is_none(), "less is not");
        assert!(with(100, 0, |s| 1e8 + 9e3 * s, steady).is_none(), "less than a hundredth");
        assert!(with(100, 0, |s| 1e6 + 1e4 * s, steady).is_none(), "less than two megabytes");
        assert!(with(100, 0, |s| 1e8 + 5e7 * (s % 2.0), steady).is_none(), "it is no line");
        assert!(with(100, 0, |s| 1e8 + 1e6 * s, |s| 1_000.0 + (s % 2) as f64 * 11.0).is_none());
        assert!(with(100, 0, |s| 1e8 + 1e6 * s, |s| 1_000.0 + (s % 2) as f64 * 10.0).is_some());
    }

    #[test]
    fn of_two_stages_that_leak_the_worse_is_told() {
        let with = |rates: [f64; 2]| {
            let mut made = Made::of(100);
            made.gauge("clients.online", |_| 1_000.0);
            made.gauge(TARGET_RSS, move |s| {
                let (first, second) = (s.min(50) as f64, s.saturating_sub(50) as f64);
                1e8 + rates[0] * first + rates[1] * second
            });
            let mut run = made.run(1_000);
            let mut second = run.stages[0].clone();
            (run.stages[0].arrived_ms, run.stages[0].to_ms) = (1_000, 49_000);
            second.name = "second".to_owned();
            (second.from_ms, second.arrived_ms) = (50_000, 51_000);
            run.stages.push(second);
            let found = detect(&Case::of(&run));
            let leaks = found.into_iter().filter(|found| found.what.contains("leak"));
            leaks.map(|leak| leak.evidence).collect::<Vec<_>>()
        };
        for (rates, stage) in [([4e5, 2e6], "second"), ([2e6, 4e5], "hold")] {
            let leaks = with(rates);
            assert_eq!(leaks.len(), 1);
            assert!(leaks[0].starts_with(&format!("in stage `{stage}`")), "{leaks:?}");
        }
    }

    #[test]
    fn growth_of_a_hundredth_and_of_two_megabytes_is_a_leak() {
        let with = |rss: fn(f64) -> f64| {
            let mut made = Made::of(128);
            made.gauge("clients.online", |_| 1_000.0);
            made.gauge(TARGET_RSS, move |s| rss(s as f64));
            let mut run = made.run(1_000);
            run.stages[0].arrived_ms = 0;
            detect(&Case::of(&run)).iter().any(|found| found.what.contains("leak"))
        };
        // Two megabytes in 128 s are 16,384 bytes a second.
        assert!(with(|s| 1e6 + 16_385.0 * s));
        assert!(!with(|s| 1e6 + 16_383.0 * s));
    }
}
