//! Every level at which a detector speaks: it does at the level, and not just beside it.

use crate::findings::*;
use crate::made::Made;

type Columns<'a> = &'a [(&'a str, f64)];

/// What is found of a run of forty seconds whose figures never move.
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
    assert!(evidence.contains("it may use 1.5 cores"), "{evidence}");
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
