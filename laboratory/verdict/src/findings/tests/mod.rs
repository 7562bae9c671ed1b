//! All detectors together: over arbitrary series, over quiet ones, and in their order.

mod borders;
mod zoo;

use super::*;
use crate::made::Made;
use base::prng::Prng;
use lab::cause::{Cause, Phase};
use lab::run::{Agent, Balance, CheckResult, Note};
use lab::series::{FigureKind, Unit};
use lab::timing::Timing;

/// Names that detectors look at, without owners.
const NAMES: [&str; 48] = [
    "cpu.busy",
    "cpu.cores",
    "cpu.steal",
    "cpu.softirq_busiest",
    "psi.cpu",
    "psi.memory_full",
    "memory.available",
    "memory.total",
    "memory.used",
    "memory.oom_kills",
    "tcp.listen_drops",
    "tcp.listen_overflows",
    "tcp.listen_queue",
    "tcp.listen_backlog",
    "tcp.retransmits",
    "tcp.out_segments",
    "tcp.syn_retransmits",
    "tcp.reqq_full_drops",
    "tcp.syncookies_sent",
    "tcp.time_wait",
    "tcp.time_wait_overflows",
    "tcp.orphans",
    "tcp.orphans_max",
    "tcp.mem_pages",
    "tcp.mem_pages_max",
    "tcp.abort_on_memory",
    "tcp.memory_pressures",
    "conntrack.count",
    "conntrack.max",
    "conntrack.drops",
    "ports.range",
    "epoll.watches_max",
    "host.files_open",
    "host.files_max",
    "softnet.dropped",
    "net.rx_dropped",
    "cgroup.memory",
    "cgroup.memory_max",
    "cgroup.throttled_us",
    "process.fds",
    "process.fds_max",
    "process.rss",
    "process.busiest",
    "process.alive",
    "process.restarts",
    "process.uptime_s",
    "process.cpu",
    "turn_us_max",
];

const CLIENTS: [&str; 12] = [
    "clients.online",
    "clients.planned",
    "clients.open",
    "clients.attempts",
    "clients.established",
    "clients.bind.p99",
    "clients.heartbeat.p99",
    "clients.ended.reset",
    "clients.ended.no_ports",
    "clients.heartbeats.lost",
    "server.redis.depth",
    "tester.busiest",
];

/// A value that a counter might have, or never should.
fn value(prng: &mut Prng, last: f64) -> Option<f64> {
    Some(match prng.below(12) {
        0 => return None,
        1 => 0.0,
        2 => f64::MAX,
        3 => -1.0,
        4 => f64::INFINITY,
        5 => f64::NAN,
        6 => f64::MIN_POSITIVE,
        7 => 1_024.0,
        8 => last + prng.below(1_000) as f64,
        9 => prng.below(u64::MAX) as f64,
        _ => last,
    })
}

fn arbitrary(seed: u64) -> Run {
    let mut prng = Prng::new(seed);
    let mut made = Made::of(prng.below(90));
    let owned = ["target", "tester", "agent-1"];
    let owned = owned.iter().flat_map(|whose| NAMES.map(|name| format!("{whose}.{name}")));
    for name in owned.chain(CLIENTS.map(str::to_owned)) {
        if prng.one_in(3) {
            continue;
        }
        let kinds = [FigureKind::Total, FigureKind::Gauge, FigureKind::Peak, FigureKind::Low];
        let kind = kinds[prng.below(4) as usize];
        let cells: Vec<Option<f64>> = (0..=90)
            .scan(0.0, |last, _| {
                let next = value(&mut prng, *last);
                *last = next.unwrap_or(*last);
                Some(next)
            })
            .collect();
        made.column(&name, kind, Unit::Count, |second| cells[second as usize]);
    }
    for _ in 0..prng.below(6) {
        let cause = Cause::ALL[prng.below(Cause::COUNT as u64) as usize];
        made.ends.push((Phase::ALL[prng.below(4) as usize], cause, prng.below(50)));
    }
    // A file may be damaged: its times need not be in order, nor small.
    let times: [fn(u64) -> u64; 5] = [
        |row| row * 1_000,
        |row| row * 1_000,
        |row| u64::MAX - row,
        |row| u64::MAX - 100 + row,
        |row| row.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    ];
    made.at_ms = times[prng.below(5) as usize];
    made.doctor("net.core.somaxconn", "4096", Some(prng.below(10_000)));
    let mut run = made.run(prng.below(10_000));
    disturb(&mut run, &mut prng);
    run
}

/// Adds other content of a run besides columns, in any order and size.
fn disturb(run: &mut Run, prng: &mut Prng) {
    let stage = run.stages[0].clone();
    for _ in 0..prng.below(3) {
        let mut next = stage.clone();
        next.from_ms = prng.below(100_000);
        next.arrived_ms = prng.below(100_000);
        next.to_ms = prng.below(100_000);
        let rule = "target.nothing.max < 1".to_owned();
        next.checks.push(CheckResult { rule, value: None, held: None });
        run.stages.push(next);
    }
    if prng.one_in(2) {
        run.target = vec!["mqtt://127.0.0.1:1883".to_owned()];
    }
    run.total.raise("heartbeats.sent", prng.below(100) as f64);
    run.total.raise("heartbeats.lost", prng.below(100) as f64);
    run.total.raise("dropped", prng.below(100) as f64);
    run.total.codes.insert("refused 137".to_owned(), prng.below(100));
    run.total.timings.at(Timing::Bind).note(prng.below(u64::MAX));
    run.notes.push(Note { at_ms: prng.below(u64::MAX), text: "something".to_owned() });
    run.agents.push(Agent { lost_ms: Some(prng.below(u64::MAX)), ..Agent::default() });
    let parts = vec![("open".to_owned(), prng.below(5))];
    run.total.accounts.push(Balance { what: "attempts".to_owned(), total: 2, parts });
}

#[test]
fn whatever_a_series_holds_nobody_panics_and_the_same_is_said_again() {
    for seed in 0..120 {
        let run = arbitrary(seed);
        let found = findings(&run);
        let again = findings(&run);
        assert_eq!(format!("{found:?}"), format!("{again:?}"), "seed {seed}");
        let end = Case::of(&run).end_ms();
        for one in &found {
            assert!(one.from_ms <= one.to_ms && one.to_ms <= end, "seed {seed}: {one:?}");
            assert!(!one.what.is_empty() && !one.evidence.is_empty(), "seed {seed}: {one:?}");
        }
        let first = first_limit(&run);
        assert_eq!(first.is_some(), run.total.attempts > 0, "seed {seed}");
        let _ = (crate::saturation(&run), crate::summary(&run));
        for rule in [
            "clients.online.drift < 1%",
            "bytes_per_connection < 1",
            "target.process.rss.slope_r2 > 0",
        ] {
            let check = crate::check(rule, &crate::Scope::of_run(&run));
            assert!(check.value.is_none_or(f64::is_finite), "seed {seed}: {check:?}");
        }
    }
}

#[test]
fn a_quiet_run_has_no_findings_and_no_limit() {
    let mut made = Made::of(100);
    made.gauge("clients.online", |s| (100 * s.min(10)) as f64);
    made.gauge("clients.planned", |_| 1_000.0);
    made.total("clients.attempts", |s| (100 * s.min(10)) as f64);
    for whose in ["target", "tester"] {
        made.gauge(&format!("{whose}.cpu.cores"), |_| 8.0);
        made.gauge(&format!("{whose}.cpu.busy"), |_| 0.4);
        made.total(&format!("{whose}.tcp.listen_drops"), |_| 12.0);
        made.gauge(&format!("{whose}.memory.total"), |_| 1e10);
        made.gauge(&format!("{whose}.memory.available"), |_| 8e9);
        made.gauge(&format!("{whose}.process.fds"), |s| (20 + 100 * s.min(10)) as f64);
        made.gauge(&format!("{whose}.process.fds_max"), |_| 1_048_576.0);
    }
    let run = made.run(1_000);
    assert_eq!(findings(&run), []);
    let first = first_limit(&run).expect("a sentence");
    assert_eq!(first.what, "No limit was reached up to 1,000 clients online.");
    assert_eq!(first_limit(&Run::default()), None);
}

#[test]
fn an_empty_run_is_judged_without_a_word() {
    assert_eq!(findings(&Run::default()), []);
    assert_eq!(crate::saturation(&Run::default()), Vec::<String>::new());
}

#[test]
fn of_limits_that_began_together_the_servers_cause_comes_first() {
    let mut made = Made::of(100);
    made.gauge("clients.online", |s| (50.0 * s as f64).min(1_010.0));
    made.gauge("clients.planned", |_| 5_000.0);
    made.total("clients.attempts", |s| 50.0 * s as f64);
    made.gauge("target.process.fds", |s| (14.0 + 50.0 * s as f64).min(1_024.0));
    made.gauge("target.process.fds_max", |_| 1_024.0);
    made.total("target.tcp.listen_drops", |s| if s > 21 { 400.0 * s as f64 } else { 0.0 });
    made.ended(Phase::Connect, Cause::NoPorts, 100, 22);
    let first = first_limit(&made.run(5_000)).expect("a limit");
    assert!(first.what.starts_with("The server ran out of file descriptors"), "{}", first.what);
    assert!(
        first.evidence.contains("clients stopped at 1,010 of 5,000 planned"),
        "{}",
        first.evidence
    );
}

#[test]
fn the_gravest_stands_first() {
    for seed in 0..50 {
        let found = findings(&arbitrary(seed));
        assert!(found.is_sorted_by_key(|one| std::cmp::Reverse(one.gravity)));
    }
}

#[test]
fn all_name_the_same_first_limit() {
    for seed in 0..60 {
        let run = arbitrary(seed);
        let first = first_limit(&run).filter(|one| one.gravity == Gravity::Limit);
        let found = findings(&run);
        let front = found.iter().find(|one| one.gravity == Gravity::Limit);
        if run.total.attempts > 0 {
            assert_eq!(first.map(|one| one.what), front.map(|one| one.what.clone()), "seed {seed}");
        }
    }
}

#[test]
fn what_is_broken_on_purpose_is_no_limit() {
    let mut made = Made::of(60);
    made.gauge("target.process.alive", |s| if (30..33).contains(&s) { 0.0 } else { 1.0 });
    made.gauge("clients.online", |s| if s < 30 { 500.0 } else { 0.0 });
    made.ended(Phase::Online, Cause::Reset, 500, 30);
    let mut run = made.run(500);
    assert_eq!(first_limit(&run).map(|one| one.gravity), Some(Gravity::Limit));
    for (text, gravity) in [
        ("mended: the target was started again", Gravity::Limit),
        ("broken on purpose: 10 % of the clients: they close without a word", Gravity::Limit),
        ("broken on purpose: the target (process 7) was killed", Gravity::Note),
    ] {
        run.notes = vec![Note { at_ms: 29_500, text: text.to_owned() }];
        let first = first_limit(&run).expect("a sentence");
        assert_eq!(first.gravity, gravity, "{text}");
    }
    let found = findings(&run);
    let told = "at 00:29 broken on purpose: the target";
    assert!(found.iter().any(|one| one.evidence.contains(told)), "{found:?}");
    assert!(
        first_limit(&run).is_some_and(|one| one.evidence.contains("1 limits that were reached"))
    );
    // Long after it, nothing is excused any more.
    run.notes[0].at_ms = 1_000;
    run.notes.push(Note { at_ms: 3_000, text: "mended: it was started again".to_owned() });
    assert_eq!(first_limit(&run).map(|one| one.gravity), Some(Gravity::Limit));
}

/// A server that takes 1,500 of 1,600 clients and refuses the others with "server busy"; so many
/// clients arrive a second.
fn full_at_1_500(rate: u64) -> Run {
    let mut made = Made::of(40);
    made.gauge("clients.planned", |_| 1_600.0);
    made.gauge("clients.online", move |s| (rate * s).min(1_500) as f64);
    made.total("clients.attempts", move |s| (rate * s).min(1_600) as f64);
    made.ended(Phase::Bind, Cause::BindRefused, 100, 1_600 / rate);
    let mut run = made.run(1_600);
    run.total.codes.insert("refused 137".to_owned(), 100);
    run
}

#[test]
fn refusals_that_explain_why_clients_stopped_are_the_only_limit() {
    // At 800 a second all refusals come before the first row with 1,500 clients.
    for rate in [100, 800] {
        let run = full_at_1_500(rate);
        let limits: Vec<Finding> =
            findings(&run).into_iter().filter(|one| one.gravity == Gravity::Limit).collect();
        assert_eq!(limits.len(), 1, "{rate}: {limits:#?}");
        assert!(limits[0].what.starts_with("The server refused"), "{}", limits[0].what);
        let first = first_limit(&run).expect("clients called");
        for evidence in [&limits[0].evidence, &first.evidence] {
            assert_eq!(evidence.matches("stopped at 1,500 of 1,600").count(), 1, "{evidence}");
        }
    }
}

#[test]
fn refused_passwords_do_not_hide_where_clients_stopped() {
    let mut run = full_at_1_500(800);
    run.total.codes = [("refused 135".to_owned(), 100)].into();
    let found = findings(&run);
    let stopped = found.iter().find(|one| plateau::is_plateau(one)).expect("a plateau");
    assert!(stopped.what.contains("the server refused more clients"), "{}", stopped.what);
}
