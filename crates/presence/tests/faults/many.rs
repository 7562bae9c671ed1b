//! Several nodes over one directory.

use crate::harness::{PresenceHarness, device, devices};
use model::ports::presence::directory::{Directory, DirectoryError};
use presence::{FailedCall, ReplicatorSettings};

/// A background round of ten seconds instead of a minute, and a quick sweep.
fn brisk(settings: &mut ReplicatorSettings) {
    settings.background_s = 10;
    settings.sweep_s = 60;
}

#[test]
fn late_offline_after_online_elsewhere() {
    // No round finds it before.
    let mut world = PresenceHarness::with(&["a", "b"], 21, &|settings| settings.background_s = 600);
    let who = device(0);
    world.connect(0, &who);
    world.settle(1_000);
    world.connect(1, &who);
    world.settle(1_000);
    // The connection to the first node was half open, and times out much later.
    world.run(60_000);
    world.disconnect(0, &who);
    world.settle(1_000);
    assert_eq!(world.stored(&who), Some(world.nodes[1].lease.clone()));
    world.assert_agrees();
    assert_eq!(world.outvoted(), 0);
}

#[test]
fn two_claims_to_one_device() {
    let mut world = PresenceHarness::with(&["a", "b"], 22, &brisk);
    let all = devices(200);
    for who in &all {
        world.connect(0, who);
        world.run(world.ms % 2);
        world.connect(1, who);
    }
    world.settle(2_000);
    // Each has one place in the directory; the other node finds out, and ends what is stale.
    world.run(25_000);
    world.settle(5_000);
    world.assert_agrees();
    assert_eq!(world.outvoted(), all.len());
    assert_eq!(world.nodes[0].online.len() + world.nodes[1].online.len(), all.len());
}

#[test]
fn a_claim_of_the_dead_ends_no_connection() {
    let mut world = PresenceHarness::with(&["a", "b"], 26, &brisk);
    let all = devices(50);
    all.iter().for_each(|who| world.connect(0, who));
    // Longer than a lease: who has none by now is dead.
    world.run(20_000);
    for who in &all {
        let mut record = world.record(who).expect("it is there");
        record.node = model::presence::NodeName::parse("ghost").expect("a name");
        record.version = model::presence::PresenceVersion(record.version.0 + (1_000 << 22));
        world.table.tamper(&who.key(), Some(record));
    }
    world.run(25_000);
    world.settle(5_000);
    world.assert_agrees();
    assert_eq!((world.outvoted(), world.nodes[0].online.len()), (0, all.len()));
    assert_eq!(world.stored(&all[0]), Some(world.nodes[0].lease.clone()));
}

#[test]
fn a_claim_that_waited_out_an_outage_does_not_beat_a_newer_one_elsewhere() {
    let mut world = PresenceHarness::with(&["a", "b"], 23, &brisk);
    let all = devices(100);
    for node in &world.nodes {
        node.link.fail(1_000_000, DirectoryError::Unreachable("gone".into()), FailedCall::Before);
    }
    all.iter().for_each(|who| world.connect(0, who));
    world.run(30_000);
    // They move, and the first node does not hear of it.
    all.iter().for_each(|who| world.connect(1, who));
    world.run(30_000);
    world.nodes[1].link.heal();
    world.run(10_000);
    world.nodes[0].link.heal();
    world.run(40_000);
    world.settle(10_000);
    world.assert_agrees();
    assert_eq!(world.nodes[1].online.len(), all.len(), "those that are there stay");
    assert_eq!((world.nodes[0].outvoted.len(), world.nodes[1].outvoted.len()), (100, 0));
}

#[test]
fn a_node_whose_clock_is_behind_still_gets_whom_it_has() {
    let mut world = PresenceHarness::with(&["a", "b"], 24, &brisk);
    world.nodes[1].ahead_ms = -3_600_000;
    let all = devices(100);
    all.iter().for_each(|who| world.connect(0, who));
    world.settle(1_000);
    // Half of them leave where they were; the others' old connections are half open.
    for (at, who) in all.iter().enumerate() {
        world.connect(1, who);
        if at % 2 == 0 {
            world.disconnect(0, who);
        }
    }
    world.settle(5_000);
    world.run(25_000);
    world.assert_agrees();
    assert_eq!(world.nodes[1].online.len(), all.len());
    assert_eq!((world.nodes[0].outvoted.len(), world.nodes[1].outvoted.len()), (50, 0));
}

#[test]
fn node_killed_and_another_takes_over() {
    let mut world = PresenceHarness::with(&["a", "b"], 25, &brisk);
    let all = devices(600);
    all.iter().for_each(|who| world.connect(0, who));
    world.settle(2_000);
    let dead = world.kill(0);
    // Two thirds come to the other node at once, some of them for a moment.
    for (at, who) in all.iter().enumerate().filter(|(at, _)| at % 3 > 0) {
        world.connect(0, who);
        if at % 7 == 0 {
            world.run(20);
            world.disconnect(0, who);
        }
    }
    world.settle(2_000);
    let moved = world.nodes[0].online.keys().next().expect("some moved").clone();
    assert_eq!(world.stored(&moved), Some(world.nodes[0].lease.clone()));
    // The lease ends, and with it all that the dead one said.
    world.run(15_000);
    world.assert_agrees();
    assert!(world.table.all().iter().any(|(_, record)| record.node == dead.lease.node));
    // And in the end nothing of it is left.
    world.run(180_000);
    let left = world.table.all();
    assert!(!left.iter().any(|(_, record)| record.online && record.node == dead.lease.node));
    assert!(world.nodes[0].counter("directory_records_swept_total") >= 200);
    world.assert_agrees();
    assert_eq!(world.outvoted(), 0);
}

#[test]
fn a_process_that_stood_still_for_minutes_comes_back_whole() {
    let mut world = PresenceHarness::with(&["a", "b"], 28, &brisk);
    let all = devices(300);
    all.iter().for_each(|who| world.connect(1, who));
    world.settle(1_000);
    // The other node takes it for dead, and sweeps up after it.
    world.nodes[1].stopped = true;
    world.run(240_000);
    assert!(world.nodes[0].counter("directory_records_swept_total") >= 300);
    // It has seen no fault, and no connection has ended.
    world.nodes[1].stopped = false;
    world.run(100);
    world.settle(10_000);
    world.assert_agrees();
    assert_eq!((world.nodes[1].online.len(), world.outvoted()), (300, 0));
}

#[test]
fn a_farewell_ends_the_lease_at_once_and_no_other() {
    let mut world = PresenceHarness::new(&["a", "b"], 26);
    world.connect(0, &device(0));
    world.settle(1_000);
    let mut table = world.table.another();
    let lease = world.nodes[0].lease.clone();
    let older = model::ports::presence::directory::Lease { boot: lease.boot ^ 1, ..lease.clone() };
    table.release(&older).expect("it is not broken");
    assert_eq!(world.stored(&device(0)), Some(lease.clone()));
    table.release(&lease).expect("it is not broken");
    assert_eq!(world.stored(&device(0)), None);
}

#[test]
fn resync_storm() {
    const RATE: u32 = 500;
    let names = ["a", "b", "c", "d", "e", "f"];
    let slow = |settings: &mut ReplicatorSettings| settings.resync_per_s = RATE;
    let mut world = PresenceHarness::with(&names, 27, &slow);
    let all = devices(1_800);
    for (at, who) in all.iter().enumerate() {
        world.connect(at % names.len(), who);
    }
    world.settle(2_000);
    // All come back at once from an outage in which everything was lost.
    for node in &world.nodes {
        node.link.fail(1_000_000, DirectoryError::Unreachable("gone".into()), FailedCall::Before);
    }
    world.run(10_000);
    world.table.flush();
    world.nodes.iter().for_each(|node| node.link.heal());
    let asked = |world: &PresenceHarness| -> Vec<u64> {
        let calls = world.nodes.iter().map(|node| node.link.calls());
        calls.map(|calls| calls.digests + calls.buckets).collect()
    };
    let mut before = asked(&world);
    for _ in 0..40 {
        world.run(1_000);
        let after = asked(&world);
        for (before, after) in before.iter().zip(&after) {
            // A second's worth, and what may have been saved up.
            assert!(after - before <= u64::from(RATE) + 128, "{before} {after}");
        }
        before = after;
    }
    world.settle(20_000);
    world.assert_agrees();
    assert_eq!(world.outvoted(), 0);
}
