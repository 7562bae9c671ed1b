//! Every level at which a detector speaks: it does at the level, and not just beside it.

use crate::findings::*;
use crate::made::Made;
use lab::cause::{Cause, Phase};
use lab::timing::Timing;

type Columns<'a> = &'a [(&'a str, f64)];

/// Findings about a run of forty seconds whose figures never move.
fn of(detect: Detector, columns: Columns) -> Vec<Finding> {
    for_rows(detect, columns, 41)
}

/// The same of a run whose figures are so for its first rows and then zero.
fn for_rows(detect: Detector, columns: Columns, rows: u64) -> Vec<Finding> {
    let mut made = Made::of(40);
    for (name, value) in columns {
        let value = *value;
        let is_size = ["cores", "max", "total"].iter().any(|end| name.ends_with(end));
        made.gauge(name, move |s| if s < rows || is_size { value } else { 0.0 });
    }
    detect(&Case::of(&made.run(100)))
}

fn gravity(found: &[Finding]) -> Option<Gravity> {
    found.first().map(|one| one.gravity)
}

#[test]
fn a_machines_memory_is_short_at_six_percent_and_out_at_two() {
    let left = |left: f64| {
        let columns = [("target.memory.total", 1_000.0), ("target.memory.available", left)];
        gravity(&of(memory::detect, &columns))
    };
    assert_eq!([20.0, 21.0].map(left), [Some(Gravity::Limit), Some(Gravity::Warning)]);
    assert_eq!([60.0, 61.0].map(left), [Some(Gravity::Warning), None]);
    let unknown = [("target.memory.total", 0.0), ("target.memory.available", 0.0)];
    assert_eq!(of(memory::detect, &unknown), []);
}

#[test]
fn a_control_group_is_full_at_ninety_eight_percent() {
    let used = |used: f64| {
        let columns = [("target.cgroup.memory", used), ("target.cgroup.memory_max", 1_000.0)];
        gravity(&of(memory::detect, &columns))
    };
    assert_eq!([980.0, 979.0].map(used), [Some(Gravity::Warning), None]);
    let unbounded = [("target.cgroup.memory", 5.0), ("target.cgroup.memory_max", 0.0)];
    assert_eq!(of(memory::detect, &unbounded), []);
}

#[test]
fn processors_are_full_for_five_rows_at_their_level() {
    let busy = |busy: f64, rows: u64| {
        let columns = [("target.cpu.cores", 4.0), ("target.cpu.busy", busy)];
        for_rows(processor::detect, &columns, rows).len()
    };
    assert_eq!((busy(3.8, 41), busy(3.79, 41)), (1, 0));
    assert_eq!((busy(4.0, 5), busy(4.0, 4)), (1, 0));
    for (column, at, below) in [
        ("target.process.busiest", 0.95, 0.94),
        ("target.cpu.softirq_busiest", 0.85, 0.84),
        ("target.cpu.steal", 0.4, 0.39),
        ("target.psi.cpu", 0.5, 0.49),
        ("target.psi.memory_full", 0.1, 0.09),
        ("target.psi.io_full", 0.3, 0.29),
    ] {
        let with = |level: f64, rows: u64| {
            let columns = [("target.cpu.cores", 4.0), ("target.cpu.busy", 1.0), (column, level)];
            for_rows(processor::detect, &columns, rows).len()
        };
        assert_eq!((with(at, 41), with(below, 41)), (1, 0), "{column}");
        assert_eq!((with(at, 5), with(at, 4)), (1, 0), "{column}");
    }
}

#[test]
fn a_full_thread_among_full_cores_is_no_finding_of_its_own() {
    let beside = |busy: f64| {
        let columns =
            [("target.cpu.cores", 4.0), ("target.cpu.busy", busy), ("target.process.busiest", 1.0)];
        of(processor::detect, &columns).len()
    };
    assert_eq!((beside(3.59), beside(3.61)), (1, 0));
    let alone = of(processor::detect, &[("target.process.busiest", 1.0)]);
    assert_eq!(alone.len(), 1);
    assert!(!alone[0].evidence.contains("while"), "{}", alone[0].evidence);
}

#[test]
fn stretches_of_full_cores_are_told_together() {
    let mut made = Made::of(40);
    made.gauge("target.cpu.cores", |_| 2.0);
    made.gauge("target.cpu.busy", |s| match s {
        5..10 => 1.9,
        20..30 => 2.0,
        _ => 0.5,
    });
    let found = processor::detect(&Case::of(&made.run(100)));
    let one = &found[0];
    assert_eq!((found.len(), one.from_ms, one.to_ms), (1, 5_000, 29_000));
    assert!(one.evidence.starts_with("2 of 2 cores busy for 15 s"), "{}", one.evidence);
}

#[test]
fn a_thread_that_is_held_back_for_a_tenth_of_three_seconds_is_told() {
    let with = |us_a_second: f64, rows: u64| {
        let mut made = Made::of(40);
        made.total("target.cgroup.throttled_us", move |s| us_a_second * s.min(rows) as f64);
        made.gauge("target.cgroup.cpu_max", |_| 1.5);
        cgroup::detect(&Case::of(&made.run(100)))
    };
    assert_eq!((with(100_000.0, 40).len(), with(99_000.0, 40).len()), (1, 0));
    assert_eq!((with(400_000.0, 3).len(), with(400_000.0, 2).len()), (1, 0));
    let evidence = &with(400_000.0, 5)[0].evidence;
    assert!(evidence.starts_with("2 s in all"), "{evidence}");
    assert!(evidence.contains("its quota is 1.5 cores"), "{evidence}");
}

#[test]
fn a_hundred_segments_and_a_hundredth_of_all_are_many() {
    let with = |again: f64, sent: f64, syns: f64| {
        let mut made = Made::of(40);
        for (name, most) in
            [("retransmits", again), ("out_segments", sent), ("syn_retransmits", syns)]
        {
            let name = format!("tester.tcp.{name}");
            made.total(&name, move |s| if s >= 20 { most } else { 0.0 });
        }
        packets::detect(&Case::of(&made.run(100)))
    };
    assert_eq!((with(100.0, 1e4, 0.0).len(), with(99.0, 10.0, 0.0).len()), (1, 0));
    assert_eq!(with(100.0, 10_001.0, 0.0), []);
    let told = |syns: f64| with(200.0, 1e4, syns)[0].evidence.contains("of them SYNs");
    assert_eq!((told(0.0), told(1.0)), (false, true));
    let share = with(200.0, 1e4, 0.0).remove(0).evidence;
    assert!(share.starts_with("200 of 10,000 segments sent (2 %)"), "{share}");
}

#[test]
fn a_table_that_is_filled_is_a_limit_at_one_level_and_a_warning_at_another() {
    let (limit, warning) = (Some(Gravity::Limit), Some(Gravity::Warning));
    for (detect, used, most, room, levels) in [
        (
            sockets::detect as Detector,
            "target.conntrack.count",
            "target.conntrack.max",
            1_000.0,
            [980.0, 979.0, 900.0, 899.0],
        ),
        (
            descriptors::detect,
            "target.process.fds",
            "target.process.fds_max",
            1_000.0,
            [992.0, 991.0, 900.0, 899.0],
        ),
        (
            descriptors::detect,
            "tester.process.fds",
            "tester.process.fds_max",
            100.0,
            [99.0, 98.0, 90.0, 89.0],
        ),
        (
            descriptors::detect,
            "target.host.files_open",
            "target.host.files_max",
            1_000.0,
            [990.0, 989.0, 900.0, 899.0],
        ),
    ] {
        let found = levels.map(|level| gravity(&of(detect, &[(used, level), (most, room)])));
        assert_eq!(found, [limit, warning, warning, None], "{used}");
        assert_eq!(of(detect, &[(used, 0.5), (most, 0.0)]), [], "no limit is known");
    }
}

#[test]
fn drops_are_a_limit_when_they_are_ten_and_a_thousandth_or_cost_a_call() {
    let with = |drops: f64, attempts: u64, lost: u64| {
        let mut made = Made::of(40);
        made.total("target.tcp.listen_drops", move |s| if s >= 20 { drops } else { 0.0 });
        made.ended(Phase::Connect, Cause::SynTimedOut, lost, 20);
        gravity(&accept::queue(&Case::of(&made.run(attempts))))
    };
    let (limit, warning) = (Some(Gravity::Limit), Some(Gravity::Warning));
    assert_eq!([10.0, 9.0].map(|drops| with(drops, 9_000, 0)), [limit, warning]);
    assert_eq!([10_000, 10_001].map(|calls| with(10.0, calls, 0)), [limit, warning]);
    assert_eq!([0, 1].map(|lost| with(1.0, 9_000, lost)), [warning, limit]);
    let full = |waiting: f64| {
        let mut made = Made::of(40);
        made.total("target.tcp.listen_drops", |s| if s >= 20 { 50.0 } else { 0.0 });
        made.gauge("target.tcp.listen_queue", move |_| waiting);
        made.gauge("target.tcp.listen_backlog", |_| 100.0);
        let found = accept::queue(&Case::of(&made.run(100)));
        found[0].evidence.contains("; at most 90 connections were queued, of 100 allowed")
    };
    assert_eq!((full(90.0), full(89.9)), (true, false));
}

#[test]
fn one_in_a_thousand_is_many() {
    let (warning, note) = (Some(Gravity::Warning), Some(Gravity::Note));
    let heartbeats = |sent: f64, what: &str| {
        let mut run = Made::of(40).run(100);
        run.total.raise("heartbeats.sent", sent);
        run.total.raise(&format!("heartbeats.{what}"), 1.0);
        gravity(&heartbeats::detect(&Case::of(&run)))
    };
    for what in ["late", "skipped"] {
        assert_eq!([1_000.0, 1_001.0].map(|sent| heartbeats(sent, what)), [warning, None]);
    }
    assert_eq!([1e6, 0.0].map(|sent| heartbeats(sent, "lost")), [warning, None]);
    let errors = |attempts: u64| {
        let mut made = Made::of(40);
        made.ended(Phase::Online, Cause::Reset, 1, 20);
        gravity(&errors::detect(&Case::of(&made.run(attempts))))
    };
    assert_eq!([1_000, 1_001].map(errors), [warning, note]);
    let refused = |attempts: u64, code: &str| {
        let mut made = Made::of(40);
        made.ended(Phase::Bind, Cause::BindRefused, 1, 20);
        let mut run = made.run(attempts);
        run.total.codes.insert(code.to_owned(), 1);
        gravity(&refusals::detect(&Case::of(&run)))
    };
    let full = "BindRefused 137";
    assert_eq!([1_000, 1_001].map(|calls| refused(calls, full)), [Some(Gravity::Limit), warning]);
    assert_eq!(refused(1, "BindRefused 135"), warning, "a mistake of the test is no limit");
    let late = |count: u64| {
        let mut run = Made::of(40).run(100);
        let binds = run.total.timings.at(Timing::Bind);
        (1..count).for_each(|_| binds.note(1_000));
        binds.note(2_000_000);
        gravity(&late::detect(&Case::of(&run)))
    };
    assert_eq!([1_000, 1_001].map(late), [warning, note]);
}

#[test]
fn an_answer_to_a_bind_is_late_after_a_second_or_twenty_times_the_middle() {
    let late = |middle: u64, last: u64| {
        let mut run = Made::of(40).run(100);
        let binds = run.total.timings.at(Timing::Bind);
        (0..100).for_each(|_| binds.note(middle));
        binds.note(last);
        late::detect(&Case::of(&run)).len()
    };
    assert_eq!((late(1_000, 199_000), late(1_000, 202_000)), (0, 1));
    assert_eq!((late(20_000, 390_000), late(20_000, 410_000)), (0, 1));
    assert_eq!((late(900_000, 990_000), late(900_000, 1_010_000)), (0, 1));
}

#[test]
fn a_step_of_latency_is_four_times_as_long_and_five_milliseconds_more() {
    let step = |before: f64, after: f64| {
        let mut made = Made::of(60);
        made.gauge("clients.bind.p99", move |s| if s < 30 { before } else { after });
        latency::detect(&Case::of(&made.run(100))).len()
    };
    assert_eq!((step(2_000.0, 8_000.0), step(2_000.0, 7_999.0)), (1, 0));
    assert_eq!((step(1_000.0, 6_000.0), step(1_000.0, 5_999.0)), (1, 0));
}

#[test]
fn a_stall_is_eight_times_as_long_as_usual_and_a_tenth_of_a_second() {
    let stalls = |usual: f64, longest: f64| {
        let mut made = Made::of(60);
        made.gauge("clients.heartbeat.max", move |s| if s == 40 { longest } else { usual });
        stalls::detect(&Case::of(&made.run(100))).len()
    };
    assert_eq!((stalls(1_000.0, 100_000.0), stalls(1_000.0, 99_999.0)), (1, 0));
    assert_eq!((stalls(20_000.0, 160_000.0), stalls(20_000.0, 159_999.0)), (1, 0));
}

#[test]
fn a_tester_at_its_limit_for_three_rows_of_an_arrival_is_told() {
    let full = |column: &str, level: f64, rows: u64| {
        let mut made = Made::of(200); // of which clients come in for twenty seconds
        made.gauge(column, move |s| if (5..5 + rows).contains(&s) { level } else { 0.1 });
        arrival::detect(&Case::of(&made.run(100))).len()
    };
    for (column, level) in [("tester.busiest", 0.9), ("tester.turn_us_max", 50_000.0)] {
        assert_eq!((full(column, 1.01 * level, 3), full(column, 1.01 * level, 2)), (1, 0));
        assert_eq!(full(column, level, 9), 0, "at the level is not above it: {column}");
    }
}

#[test]
fn limits_that_began_within_two_seconds_began_together() {
    let limit = |side: &str, from_ms: u64| Finding {
        gravity: Gravity::Limit,
        side: side.to_owned(),
        what: String::new(),
        evidence: String::new(),
        remedy: String::new(),
        from_ms,
        to_ms: from_ms,
    };
    let first = |second: Finding| first_of(&[limit("tester", 1_000), second]);
    assert_eq!(first(limit("target", 3_000)), Some(1), "the server's comes first");
    assert_eq!(first(limit("target", 3_001)), Some(0));
    assert_eq!(first(limit("", 3_000)), Some(1), "whatever lies between them, too");
    assert_eq!(first(limit("tester", 2_000)), Some(0));
    let warning = Finding { gravity: Gravity::Warning, ..limit("target", 0) };
    assert_eq!((first(warning.clone()), first_of(&[warning])), (Some(0), None));
}

#[test]
fn the_largest_three_bursts_are_told_and_the_others_counted() {
    let bursts: Vec<(u64, u64, f64)> =
        [3.0, 9.0, 5.0, 7.0, 1.0].iter().map(|grown| (1_000, 1_000, *grown)).collect();
    assert_eq!(told_bursts("x", &bursts[..1]), "x +3 at 00:01");
    assert_eq!(told_bursts("x", &bursts[..3]), "x +9 at 00:01, x +5 at 00:01, x +3 at 00:01");
    let told = "x +9 at 00:01, x +7 at 00:01, x +5 at 00:01 and 2 smaller increases";
    assert_eq!(told_bursts("x", &bursts), told);
    assert_eq!(around(&[]), None);
    assert_eq!(around(&[(1, 4, 2.0), (6, 9, 3.0)]), Some((1, 9, 5.0)));
}
