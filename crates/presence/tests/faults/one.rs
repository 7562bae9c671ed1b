//! One node, and a directory that fails it.

use crate::harness::{PresenceHarness, device, device_in, devices};
use model::ports::presence::directory::DirectoryError;
use model::ports::presence::queries::{AuditOrder, Circuit};
use model::presence::{Principal, bucket};
use presence::FailedCall;

/// A renewal of the lease finds a loss, and all buckets are compared: with nothing else to do.
const RESYNC_MS_MAX: u64 = 5_000 + 9_000;
/// After the directory is well again: the longest pause of the circuit, and the comparison.
const RETURN_MS_MAX: u64 = 5_000 + RESYNC_MS_MAX;

/// A node with so many devices, two thirds of them connected, and all written.
fn settled(count: usize, seed: u64) -> (PresenceHarness, Vec<Principal>) {
    let mut world = PresenceHarness::new(&["a"], seed);
    let all = devices(count);
    for (at, who) in all.iter().enumerate() {
        world.connect(0, who);
        if at % 3 == 0 {
            world.run(1);
            world.disconnect(0, who);
        }
    }
    world.settle(2_000);
    world.assert_agrees();
    (world, all)
}

/// So many come and go, spread over the time.
fn flap(world: &mut PresenceHarness, all: &[Principal], count: u64, ms: u64) {
    for at in 0..count {
        let who = &all[world.prng.below(all.len() as u64) as usize];
        world.flap(0, who);
        let due = ms * (at + 1) / count - ms * at / count;
        world.run(due);
    }
}

#[test]
fn late_offline_after_online() {
    let (mut world, all) = settled(30, 1);
    let who = &all[1];
    let first = world.nodes[0].online[who];
    world.connect(0, who);
    let second = world.nodes[0].online[who];
    assert!(second > first);
    // The end of the first connection is told when the second one's beginning is written.
    world.run(1_000);
    world.tell_late(0, who, model::presence::PresenceVersion(first.0 + 1));
    world.settle(1_000);
    assert_eq!(world.stored(who), Some(world.nodes[0].lease.clone()));
    assert_eq!(world.record(who).map(|record| record.version), Some(second));
    world.assert_agrees();
    assert_eq!(world.outvoted(), 0);
}

#[test]
fn reordering_over_pooled_connections() {
    let (mut world, all) = settled(300, 2);
    // Three times some changes are sent and no answer comes, while later ones overtake them.
    for _ in 0..3 {
        world.nodes[0].link.hold_back(true);
        flap(&mut world, &all, 100, 700);
        world.nodes[0].link.hold_back(false);
        flap(&mut world, &all, 100, 1_000);
        world.settle(RETURN_MS_MAX);
    }
    world.assert_agrees();
    let before = world.table.all();
    world.nodes[0].link.deliver();
    assert_eq!(world.table.all(), before, "what arrives late changes nothing");
    world.assert_agrees();
    assert_eq!(world.outvoted(), 0);
}

#[test]
fn time_out_then_duplicate() {
    let (mut world, all) = settled(100, 3);
    world.nodes[0].link.fail(3, DirectoryError::Slow, FailedCall::After);
    let calls = world.nodes[0].link.calls();
    all.iter().for_each(|who| world.flap(0, who));
    world.run(50);
    let first = world.table.all();
    assert!(world.nodes[0].link.calls().puts > calls.puts, "it was written and not answered");
    world.settle(RETURN_MS_MAX);
    assert!(world.nodes[0].counter("directory_faults_slow_total") >= 1);
    assert_eq!(world.table.all(), first, "writing it again changes nothing");
    assert!(world.nodes[0].link.calls().records - calls.records >= 200, "it was written again");
    world.assert_agrees();
    assert_eq!(world.outvoted(), 0);
}

#[test]
fn fail_over_that_loses_acknowledged_writes() {
    let (mut world, all) = settled(3_000, 4);
    world.table.remember(10_000);
    flap(&mut world, &all, 2_000, 2_000);
    world.settle(1_000);
    world.table.lose(2_500);
    let audit = world.audit(0, AuditOrder { settle_ms: 0, repair: false, told_max: 5 });
    assert!(audit.persistent.values().sum::<u64>() > 500, "{audit:?}");
    assert!(audit.differences.iter().all(|difference| !difference.history.is_empty()));
    // Nothing failed: only the next lease says that it is another life.
    world.run(5_100);
    assert!(world.nodes[0].standing(world.ms).resync_left > 0);
    world.settle(RESYNC_MS_MAX);
    world.assert_agrees();
    assert_eq!((world.outvoted(), world.nodes[0].counter("directory_resyncs_total")), (0, 1));
}

#[test]
fn flush_all() {
    let (mut world, all) = settled(3_000, 5);
    world.table.flush();
    flap(&mut world, &all, 300, 300);
    world.run(5_100);
    world.settle(RESYNC_MS_MAX);
    world.assert_agrees();
    // What is gone was offline: nobody misses it.
    assert!(world.table.all().len() >= world.nodes[0].online.len());
    assert_eq!(world.outvoted(), 0);
}

#[test]
fn paused_directory() {
    let (mut world, all) = settled(2_000, 6);
    world.nodes[0].link.pause(true);
    flap(&mut world, &all, 5_000, 20_000);
    let standing = world.nodes[0].standing(world.ms);
    assert!(standing.circuit != Circuit::Closed && standing.fault.is_some());
    assert!(standing.lag_ms > 15_000 && standing.lag_ms < 21_000, "{}", standing.lag_ms);
    assert!(standing.unwritten > 1_000 && world.nodes[0].unwritten_max <= 2_000);
    let online = world.nodes[0].online.clone();
    world.nodes[0].link.pause(false);
    world.settle(RETURN_MS_MAX);
    world.assert_agrees();
    assert_eq!(world.nodes[0].online, online);
    assert_eq!((world.outvoted(), world.nodes[0].standing(world.ms).lag_ms), (0, 0));
}

#[test]
fn slow_directory() {
    let (mut world, all) = settled(2_000, 7);
    // Slower than anybody would like, and still within its time: it only lags.
    world.nodes[0].link.slow(400);
    flap(&mut world, &all, 2_000, 10_000);
    let standing = world.nodes[0].standing(world.ms);
    assert_eq!(standing.circuit, Circuit::Closed);
    assert!(standing.lag_ms < 2_000, "{}", standing.lag_ms);
    // Too slow: everything is done and nothing answered.
    world.nodes[0].link.slow(600);
    flap(&mut world, &all, 2_000, 10_000);
    assert!(world.nodes[0].counter("directory_circuit_openings_total") > 0);
    world.nodes[0].link.heal();
    world.settle(RETURN_MS_MAX);
    world.assert_agrees();
    assert_eq!(world.outvoted(), 0);
}

#[test]
fn slot_moves() {
    let (mut world, all) = settled(1_000, 8);
    let moving = bucket(&all[1].key());
    let (there, more) = (device_in(moving), &all[1..900]);
    world.nodes[0].link.refuse(moving, true);
    for _ in 0..20 {
        more.iter().for_each(|who| world.flap(0, who));
        world.connect(0, &there);
        world.run(500);
    }
    // Ten seconds of it, and nobody else waits.
    let standing = world.nodes[0].standing(world.ms);
    assert_eq!(standing.circuit, Circuit::Closed);
    let in_it = all.iter().filter(|who| bucket(&who.key()) == moving).count() as u64 + 1;
    assert!(standing.unwritten <= in_it, "{} of {in_it}", standing.unwritten);
    assert_eq!(world.stored(&there), None);
    assert_eq!(world.nodes[0].counter("directory_resyncs_total"), 0);
    world.nodes[0].link.refuse(moving, false);
    world.run(11_000);
    world.settle(RETURN_MS_MAX);
    // What moved is another copy: all is compared, once.
    assert_eq!(world.nodes[0].counter("directory_resyncs_total"), 1);
    assert_eq!(world.stored(&there), Some(world.nodes[0].lease.clone()));
    world.assert_agrees();
    assert_eq!(world.outvoted(), 0);
}

#[test]
fn clock_stepping_back() {
    let (mut world, all) = settled(300, 9);
    world.nodes[0].ahead_ms = -3_600_000;
    flap(&mut world, &all, 600, 2_000);
    world.settle(2_000);
    world.assert_agrees();
    // The process starts anew an hour before what it wrote last.
    let dead = world.kill(0);
    world.start("a", &|_| {});
    world.nodes[0].ahead_ms = -3_600_000;
    world.run(100);
    all.iter().for_each(|who| world.connect(0, who));
    world.settle(5_000);
    world.assert_agrees();
    flap(&mut world, &all, 600, 2_000);
    world.settle(5_000);
    world.assert_agrees();
    assert_eq!(world.outvoted() + dead.outvoted.len(), 0);
}

#[test]
fn memory_bound_while_the_directory_is_away_for_an_hour_of_flapping() {
    const DEVICES: usize = 500;
    let (mut world, all) = settled(DEVICES, 10);
    let before = world.nodes[0].link.calls();
    world.nodes[0].link.fail(
        1_000_000,
        DirectoryError::Unreachable("refused".into()),
        FailedCall::Before,
    );
    // Ten percent of them a second, for an hour.
    for _ in 0..3_600 {
        flap(&mut world, &all, DEVICES as u64 / 10, 1_000);
    }
    assert!(world.nodes[0].unwritten_max <= DEVICES as u64);
    let standing = world.nodes[0].standing(world.ms);
    assert!(standing.lag_ms > 3_500_000, "{}", standing.lag_ms);
    let tried = world.nodes[0].link.calls();
    assert!(tried.leases - before.leases <= 3_600 / 2, "{tried:?}: it is left in peace");
    assert!(tried.puts - before.puts <= 4, "{tried:?}");
    let online = world.nodes[0].online.clone();
    world.nodes[0].link.heal();
    world.settle(RETURN_MS_MAX);
    world.assert_agrees();
    let after = world.nodes[0].link.calls();
    let written = after.records - tried.records;
    assert!(written <= 2 * DEVICES as u64, "{written}: an hour of changes is one write each");
    assert_eq!((world.nodes[0].online == online, world.outvoted()), (true, 0));
}

#[test]
fn a_lie_is_found_by_the_background_round() {
    let (mut world, all) = settled(900, 11);
    let (lost, aged, risen) = (&all[1], &all[2], &all[3]);
    let record = world.record(aged).expect("it is there");
    world.table.tamper(&lost.key(), None);
    let old = model::presence::PresenceVersion(record.version.0 - (60_000 << 22));
    let aged_record = model::presence::PresenceRecord { version: old, online: false, ..record };
    world.table.tamper(&aged.key(), Some(aged_record));
    let mut false_one = world.record(risen).expect("it is there");
    assert!(!false_one.online);
    (false_one.online, false_one.detail) = (true, "miop7".into());
    world.table.tamper(&risen.key(), Some(false_one));
    let order = AuditOrder { settle_ms: 1_000, repair: false, told_max: 10 };
    let audit = world.audit(0, order);
    let kinds: Vec<_> = audit.persistent.iter().map(|(kind, count)| (*kind, *count)).collect();
    assert_eq!(kinds, [("extra", 1), ("missing", 1), ("stale", 1)]);
    // Nobody has lost a connection or noticed a fault; the round finds it in a minute.
    world.run(70_000);
    world.settle(2_000);
    world.assert_agrees();
    assert_eq!((world.outvoted(), world.nodes[0].counter("directory_resyncs_total")), (0, 0));
}

#[test]
fn a_repair_writes_over_what_differs_at_once() {
    let (mut world, all) = settled(900, 12);
    world.table.tamper(&all[1].key(), None);
    let order = AuditOrder { settle_ms: 500, repair: true, told_max: 10 };
    let audit = world.audit(0, order);
    assert_eq!((audit.repaired, audit.differing, audit.differences.len()), (1, 1, 1));
    assert_eq!(audit.differences[0].key, all[1].key());
    world.settle(1_000);
    world.assert_agrees();
    assert_eq!(world.stored(&device(1)), Some(world.nodes[0].lease.clone()));
}
