//! Plateaus of made-up runs: found at their number, matched with their limit, or honestly not.

use super::*;
use crate::made::Made;
use lab::cause::Phase;

/// So many clients come 100 (or more) a second up to a number, and calls go on.
fn stuck(at: f64, planned: f64) -> Made {
    let mut made = Made::of(120);
    let rate = (at / 40.0).max(1.0);
    made.gauge("clients.online", move |s| (rate * s as f64).min(at));
    made.gauge("clients.planned", move |_| planned);
    made.total("clients.attempts", move |s| rate * s as f64);
    made
}

fn found(made: &Made) -> Vec<Finding> {
    detect(&Case::of(&made.run(600_000)))
}

#[test]
fn a_server_at_its_descriptors_is_named_with_the_number() {
    let mut made = stuck(1_010.0, 5_000.0);
    made.gauge("target.process.fds", |s| (14.0 + 25.25 * s as f64).min(1_024.0));
    made.gauge("target.process.fds_max", |_| 1_024.0);
    made.gauge("target.memory.available", |_| 8e9);
    made.gauge("target.memory.total", |_| 1e10);
    made.gauge("clients.open", |s| (25.25 * s as f64).min(1_139.0));
    made.ended(Phase::Bind, Cause::BindTimedOut, 900, 60);
    let found = found(&made);
    assert_eq!((found.len(), found[0].side.as_str()), (1, "target"));
    assert!(
        found[0].what.starts_with("Clients stopped at 1,010 of 5,000 planned: the target used all")
    );
    let evidence = &found[0].evidence;
    assert!(evidence.contains("target descriptors 1,024 of 1,024"), "{evidence}");
    assert!(evidence.contains("900 bind_timed_out"), "{evidence}");
    assert!(evidence.contains("129 open connections were not bound"), "{evidence}");
    assert!((39_000..=41_000).contains(&found[0].from_ms), "{}", found[0].from_ms);
}

#[test]
fn a_number_below_a_power_of_two_is_told_and_not_called_certain() {
    let mut made = stuck(524_273.0, 600_000.0);
    made.gauge("target.cpu.busy", |_| 0.3);
    made.gauge("target.cpu.cores", |_| 8.0);
    made.gauge("target.tcp.listen_drops", |_| 0.0);
    let found = found(&made);
    assert!(found[0].what.contains("15 below 2^19"), "{}", found[0].what);
    assert_eq!(found[0].side, "");
    let evidence = &found[0].evidence;
    assert!(evidence.contains("no known limit has this number"), "{evidence}");
    assert!(evidence.contains("target 0.3 of 8 cores busy"), "{evidence}");
}

#[test]
fn a_setting_of_the_doctor_with_this_number_is_named() {
    let mut made = stuck(262_100.0, 600_000.0);
    made.doctor("net.netfilter.nf_conntrack_max", "262,144 (9 in use)", Some(131_067));
    made.doctor("RLIMIT_NOFILE (soft)", "1,048,576", Some(953_250));
    let found = found(&made);
    assert_eq!(found[0].side, "target");
    assert!(found[0].what.contains("nf_conntrack_max = 262,144"), "{}", found[0].what);
}

#[test]
fn used_up_ports_are_told_by_the_kernel_and_by_their_number() {
    let mut made = stuck(28_232.0, 60_000.0);
    made.gauge("tester.ports.range", |_| 28_232.0);
    made.ended(Phase::Connect, Cause::NoPorts, 29_000, 60);
    let found = found(&made);
    assert_eq!(found[0].side, "tester");
    assert!(found[0].what.contains("source ports"), "{}", found[0].what);
    assert!(
        found[0].evidence.contains("28,232 ports of ip_local_port_range x 1 source"),
        "{}",
        found[0].evidence
    );
}

#[test]
fn what_matches_nothing_is_said_to_match_nothing() {
    let found = found(&stuck(331.0, 1_200.0));
    assert!(found[0].what.ends_with("no known limit explains it."), "{}", found[0].what);
    assert!(found[0].evidence.contains("no limit could be ruled out"), "{}", found[0].evidence);
}

#[test]
fn what_is_no_plateau_is_none() {
    // All came.
    assert!(found(&stuck(600_000.0, 600_000.0)).is_empty());
    // They still come.
    let mut made = Made::of(120);
    made.gauge("clients.online", |s| 100.0 * s as f64);
    made.gauge("clients.planned", |_| 60_000.0);
    made.total("clients.attempts", |s| 100.0 * s as f64);
    assert!(found(&made).is_empty());
    // A pause of the plan between two steps: no calls.
    let mut made = Made::of(120);
    made.gauge("clients.online", |s| (100.0 * s as f64).min(6_000.0));
    made.gauge("clients.planned", |_| 60_000.0);
    made.total("clients.attempts", |s| (100.0 * s as f64).min(6_000.0));
    assert!(found(&made).is_empty());
    // It went on after a while.
    let mut made = Made::of(120);
    made.gauge("clients.online", |s| if s < 60 { 1_000.0 } else { 5_000.0 });
    made.gauge("clients.planned", |_| 5_000.0);
    made.total("clients.attempts", |s| 100.0 * s as f64);
    assert!(found(&made).is_empty());
}

#[test]
fn a_plateau_lasts_five_rows_and_four_seconds() {
    let with = |rows: u64, apart_ms: fn(u64) -> u64| {
        let mut made = Made::of(40 + rows - 1);
        made.gauge("clients.online", |s| (25.0 * s as f64).min(1_000.0));
        made.gauge("clients.planned", |_| 5_000.0);
        made.total("clients.attempts", |s| 25.0 * s as f64);
        made.at_ms = apart_ms;
        found(&made).len()
    };
    assert_eq!((with(4, |row| row * 1_000), with(5, |row| row * 1_000)), (0, 1));
    assert_eq!((with(5, |row| row * 999), with(9, |row| row * 500)), (0, 1));
    assert_eq!(with(8, |row| row * 500), 0, "three and a half seconds");
}

#[test]
fn a_queue_that_overflowed_is_a_suspect_and_one_that_did_not_is_ruled_out() {
    for (drops, what) in [
        (0.0, "no known limit explains it"),
        (1.0, "the server accepted no more connections, and its queue overflowed"),
    ] {
        let mut made = stuck(331.0, 1_200.0);
        made.total("target.tcp.listen_drops", move |s| if s > 60 { drops } else { 0.0 });
        let found = found(&made);
        assert!(found[0].what.ends_with(&format!("{what}.")), "{}", found[0].what);
        let evidence = &found[0].evidence;
        assert!(evidence.contains(&format!("ListenDrops +{drops}")), "{evidence}");
        assert_eq!(evidence.contains("ruled out: "), drops == 0.0, "{evidence}");
    }
}

/// Steps of 100 clients, each called and answered within a second, up to `most`; a broker takes
/// 300.
fn steps(most: u64, hold_s: u64) -> lab::run::Run {
    let each = hold_s + 1;
    let wanted = move |s: u64| (100 * (s / each + 1)).min(most);
    let mut made = Made::of(each * most / 100 - 1);
    made.gauge("clients.planned", move |s| wanted(s) as f64);
    made.gauge("clients.online", move |s| wanted(s).min(300) as f64);
    made.total("clients.attempts", move |s| wanted(s) as f64);
    let refused = most.saturating_sub(300);
    made.ended(Phase::Bind, Cause::ClosedClean, refused, 3 * each);
    made.run(most)
}

#[test]
fn a_broker_that_refuses_at_a_number_that_was_a_step_has_met_a_limit() {
    for hold_s in [1, 2, 10] {
        let found = detect(&Case::of(&steps(400, hold_s)));
        assert_eq!(found.len(), 1, "{hold_s}");
        assert!(found[0].what.starts_with("Clients stopped at 300 of 400"), "{}", found[0].what);
        assert!(found[0].evidence.contains("100 connection attempts"), "{}", found[0].evidence);
        assert!(found[0].evidence.contains("100 closed_clean"), "{}", found[0].evidence);
        assert_eq!(detect(&Case::of(&steps(300, hold_s))), [], "all were taken");
    }
}
