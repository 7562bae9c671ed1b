//! Runs that went wrong in as many ways as there are, and every word that is said of them, beside
//! what was looked through once.
//!
//! After an intended change the texts are written anew, and read in git's difference: `cargo test
//! -p verdict zoo -- --ignored`.

use super::*;
use lab::series::Unit;
use std::fmt::Write;

/// Something that begins in a second and goes on.
fn from(second: u64, value: f64) -> impl Fn(u64) -> f64 {
    move |s| if s >= second { value } else { 0.0 }
}

/// A server at the end of what it and its machine have.
fn full_server() -> Run {
    let mut made = Made::of(120);
    made.gauge("clients.online", |s| (40.0 * s as f64).min(1_010.0));
    made.gauge("clients.open", |s| (41.0 * s as f64).min(1_024.0));
    made.gauge("clients.planned", |_| 5_000.0);
    made.total("clients.attempts", |s| 40.0 * s as f64);
    made.total("clients.established", |s| 40.0 * s as f64);
    made.gauge("clients.connect.p99", |s| if s < 26 { 2_000.0 } else { 3.1e6 });
    made.gauge("target.process.fds", |s| (14.0 + 40.0 * s as f64).min(1_024.0));
    made.gauge("target.process.fds_max", |_| 1_024.0);
    made.gauge("target.host.files_open", |s| 90.0 + 5.0 * s.min(10) as f64);
    made.gauge("target.host.files_max", |_| 150.0);
    made.total("target.tcp.listen_drops", |s| if s > 30 { 400.0 * (s - 30) as f64 } else { 7.0 });
    made.total("target.tcp.listen_overflows", from(31, 40_000.0));
    made.gauge("target.tcp.listen_queue", |_| 129.0);
    made.gauge("target.tcp.listen_backlog", |_| 128.0);
    made.total("target.tcp.reqq_full_drops", from(35, 40.0));
    made.total("target.tcp.reqq_full_cookies", from(33, 900.0));
    made.total("target.tcp.abort_on_timeout", from(90, 12.0));
    made.total("target.softnet.dropped", from(50, 33.0));
    made.gauge("target.cpu.cores", |_| 4.0);
    made.gauge("target.cpu.busy", |s| if (30..60).contains(&s) { 3.9 } else { 1.0 });
    made.gauge("target.process.cpu", |s| if (30..60).contains(&s) { 3.5 } else { 0.8 });
    made.gauge("target.cpu.steal", |s| if (60..70).contains(&s) { 0.6 } else { 0.0 });
    made.gauge("target.psi.memory_full", |s| if (70..80).contains(&s) { 0.2 } else { 0.0 });
    made.total("target.cgroup.throttled_us", |s| 4e5 * s.saturating_sub(80).min(9) as f64);
    made.gauge("target.cgroup.cpu_max", |_| 3.5);
    made.gauge("target.cgroup.memory", |s| (1e9 + 1e7 * s as f64).min(2e9));
    made.gauge("target.cgroup.memory_max", |_| 2e9);
    made.gauge("target.memory.total", |_| 8e9);
    made.gauge("target.memory.available", |s| (8e9 - 7e7 * s as f64).max(1e8));
    made.total("target.memory.oom_kills", from(115, 1.0));
    made.total("clients.heartbeats.late", from(40, 25.0));
    made.doctor("net.core.somaxconn", "128", Some(1_000));
    made.ended(Phase::Connect, Cause::SynTimedOut, 300, 36);
    made.ended(Phase::Bind, Cause::BindTimedOut, 129, 30);
    made.run(5_000)
}

/// Clients that were served badly, without a limit that is seen.
fn poor_service() -> Run {
    let mut made = Made::of(120);
    made.gauge("clients.online", |s| (100 * s.min(10)) as f64);
    made.gauge("clients.heartbeat.p99", |s| if s < 60 { 2_000.0 } else { 12_000.0 });
    made.gauge("clients.delivery.max", |s| if s % 30 == 17 { 450_000.0 } else { 3_000.0 });
    made.total("clients.messages.missing", from(70, 12.0));
    made.total("clients.heartbeats.lost", from(71, 3.0));
    made.column("clients.bind.max", FigureKind::Peak, Unit::Micros, |s| {
        Some(if s == 9 { 2.5e6 } else { 4e3 })
    });
    made.column("server.redis.lag", FigureKind::Peak, Unit::Micros, |s| {
        Some(if s < 40 { 900.0 } else { 9e5 })
    });
    made.column("target.process.rss", FigureKind::Peak, Unit::Bytes, |s| {
        Some(1e7 + 2_048.0 * (100 * s.min(10)) as f64 + 1e6 * s.saturating_sub(20) as f64)
    });
    made.ended(Phase::Online, Cause::Reset, 7, 71);
    made.ended(Phase::Bind, Cause::BindRefused, 40, 5);
    let mut run = made.run(1_000);
    run.total.raise("messages.sent", 1_000.0);
    run.total.raise("messages.received", 990.0);
    run.total.raise("messages.missing", 12.0);
    run.total.raise("messages.repeated", 2.0);
    run.total.raise("subscriptions.granted", 990.0);
    run.total.raise("subscriptions.refused", 10.0);
    run.total.raise("heartbeats.sent", 2_000.0);
    run.total.raise("heartbeats.lost", 3.0);
    (0..999).for_each(|n| run.total.timings.at(Timing::Bind).note(1_000 + n));
    run.total.timings.at(Timing::Bind).note(2_500_000);
    run.total.codes.insert("refused 137".to_owned(), 38);
    run.total.codes.insert("refused 135".to_owned(), 2);
    let parts = vec![("open".to_owned(), 953)];
    run.total.accounts.push(Balance { what: "attempts".to_owned(), total: 1_000, parts });
    let rule = "target.nothing.max < 1".to_owned();
    run.checks = vec![CheckResult { rule, value: None, held: None }];
    let rule = "errors == 0".to_owned();
    run.stages[0].checks = vec![CheckResult { rule, value: Some(47.0), held: Some(false) }];
    let differs = "presence differs: in stage `hold` 1 (1 stale): demo#a stale".to_owned();
    run.notes = vec![Note { at_ms: 90_000, text: differs }];
    run.stages[0].counts = run.total.clone();
    run
}

/// A tester that was the limit.
fn weak_tester() -> Run {
    let mut made = Made::of(200);
    made.gauge("clients.online", |s| (200 * s.min(20)) as f64);
    made.gauge("tester.busiest", |s| if s < 150 { 0.97 } else { 0.3 });
    made.gauge("tester.turn_us_max", |s| if s < 120 { 60_000.0 - s as f64 } else { 900.0 });
    made.gauge("tester.cpu.cores", |_| 2.0);
    made.gauge("tester.cpu.busy", |s| if s < 150 { 1.98 } else { 0.3 });
    made.gauge("tester.ports.range", |_| 28_232.0);
    made.gauge("tester.tcp.time_wait", |_| 1_200.0);
    made.gauge("tester.epoll.watches_max", |_| 4_000.0);
    made.gauge("tester.conntrack.count", |s| (20 * s) as f64);
    made.gauge("tester.conntrack.max", |_| 3_900.0);
    made.total("tester.tcp.time_wait_overflows", from(100, 9.0));
    made.total("tester.tcp.retransmits", from(60, 700.0));
    made.total("tester.tcp.out_segments", |s| 200.0 * s as f64);
    made.total("tester.tcp.syn_retransmits", from(60, 300.0));
    for (cause, count, at) in [
        (Cause::NoPorts, 50, 18),
        (Cause::NoWatches, 20, 19),
        (Cause::Forbidden, 10, 17),
        (Cause::NoDescriptors, 5, 16),
        (Cause::NoSystemFiles, 4, 15),
        (Cause::NoBuffers, 3, 14),
    ] {
        made.ended(Phase::Connect, cause, count, at);
    }
    let mut run = made.run(4_000);
    run.total.raise("dropped", 600.0);
    let lost = Agent { name: "agent-1".to_owned(), lost_ms: Some(60_000), ..Agent::default() };
    run.agents = vec![lost, Agent { name: "agent-2".to_owned(), ..Agent::default() }];
    run.finished = false;
    run
}

/// Nobody there, and nothing wrong.
fn dead_and_quiet() -> [Run; 2] {
    let mut made = Made::of(30);
    made.ended(Phase::Connect, Cause::Refused, 90, 3);
    made.ended(Phase::Connect, Cause::SynTimedOut, 10, 9);
    let mut quiet = Made::of(60);
    quiet.gauge("clients.online", |s| (100 * s.min(10)) as f64);
    quiet.column("target.process.rss", FigureKind::Peak, Unit::Bytes, |s| {
        Some(1e7 + 2_048.0 * (100 * s.min(10)) as f64)
    });
    [made.run(100), quiet.run(1_000)]
}

/// Clients that stopped for no known reason; a server that was killed by the plan.
fn stopped_and_killed() -> [Run; 2] {
    let mut made = Made::of(120);
    made.gauge("clients.online", |s| (20_000.0 * s as f64).min(524_273.0));
    made.gauge("clients.open", |s| (20_000.0 * s as f64).min(524_300.0));
    made.gauge("clients.planned", |_| 600_000.0);
    made.total("clients.attempts", |s| 20_000.0 * s as f64);
    made.gauge("target.process.fds", |s| (20_000.0 * s as f64).min(524_300.0));
    made.gauge("target.process.fds_max", |_| 1_048_576.0);
    made.ended(Phase::Bind, Cause::BindTimedOut, 900, 40);
    let mut killed = Made::of(60);
    killed.gauge("clients.online", |s| if s < 30 { 500.0 } else { 0.0 });
    killed.gauge("target.process.alive", |s| if (30..33).contains(&s) { 0.0 } else { 1.0 });
    killed.total("target.process.restarts", from(33, 1.0));
    killed.ended(Phase::Online, Cause::Reset, 500, 30);
    let mut killed = killed.run(500);
    let note = |at_ms, text: &str| Note { at_ms, text: text.to_owned() };
    killed.notes = vec![note(29_500, "broken on purpose: the target (process 7) was killed")];
    [made.run(600_000), killed]
}

fn said(name: &str, run: &Run, out: &mut String) {
    let _ = writeln!(out, "== {name}\n{}", crate::summary(run));
    for why in crate::saturation(run) {
        let _ = writeln!(out, "saturated: {why}");
    }
    let first = first_limit(run).map(|first| format!("first limit: {}", first.evidence));
    let _ = writeln!(out, "{}", first.unwrap_or_default());
    for Finding { gravity, side, what, evidence, remedy, from_ms, to_ms } in findings(run) {
        let _ = writeln!(out, "- {gravity:?} {side:?} {from_ms} to {to_ms}: {what}\n  {evidence}");
        if !remedy.is_empty() {
            let _ = writeln!(out, "  {remedy}");
        }
    }
}

fn all() -> String {
    let mut out = String::new();
    said("full server", &full_server(), &mut out);
    said("poor service", &poor_service(), &mut out);
    said("weak tester", &weak_tester(), &mut out);
    let ([dead, quiet], [stopped, killed]) = (dead_and_quiet(), stopped_and_killed());
    said("dead", &dead, &mut out);
    said("quiet", &quiet, &mut out);
    said("stopped", &stopped, &mut out);
    said("killed", &killed, &mut out);
    let compared = crate::compare_anyway(&[quiet.clone(), poor_service()], &[full_server(), quiet]);
    let _ = writeln!(out, "== compared\n{}", compared.summary);
    for row in compared.rows {
        let _ = writeln!(out, "{row:?}");
    }
    out
}

#[test]
fn every_word_of_the_zoo_is_what_was_looked_through() {
    let (golden, found) = (include_str!("zoo.txt"), all());
    for ((found, wanted), line) in found.lines().zip(golden.lines()).zip(1..) {
        assert_eq!(found, wanted, "zoo.txt:{line}");
    }
    assert_eq!(found.lines().count(), golden.lines().count());
}

#[test]
#[ignore = "writes anew what is compared"]
fn writes_the_zoo() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/findings/tests/zoo.txt");
    std::fs::write(path, all()).expect("room on the disk");
}
