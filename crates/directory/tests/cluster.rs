//! A cluster of six nodes, and what may become of it.

mod common;

use common::{ends, redis};
use directory::Settings;
use model::ports::presence::directory::{Batch, Directory, Put};
use model::presence::{BUCKETS, bucket};
use std::collections::BTreeMap;
use testkit::directory::{lease, put, record};
use testkit::redis::{Cluster, RedisOptions, until};

const LONG_MS: u64 = 600_000;

/// Options of a Redis whose cluster gives up a silent master after a second.
fn hasty() -> RedisOptions {
    RedisOptions { lines: vec!["cluster-node-timeout 1000".into()], ..RedisOptions::default() }
}

fn slot_of(cluster: &Cluster, bucket: u16) -> u16 {
    let told = cluster.nodes[0].cli(&["CLUSTER", "KEYSLOT", &format!("holdline:b:{bucket}")]);
    told.parse().expect("a number")
}

/// Two buckets of one slot that node 0 has.
fn neighbours(cluster: &Cluster) -> (u16, u16, u16) {
    let mut seen: BTreeMap<u16, u16> = BTreeMap::new();
    for bucket in 0..BUCKETS {
        let slot = slot_of(cluster, bucket);
        if slot >= 5_461 {
            continue;
        }
        if let Some(other) = seen.insert(slot, bucket) {
            return (slot, other, bucket);
        }
    }
    panic!("16,384 buckets in 5,461 slots and no two in one");
}

#[test]
fn a_slot_that_moves_gives_no_wrong_answer() {
    let cluster = Cluster::start(RedisOptions::default());
    let (slot, full, empty) = neighbours(&cluster);
    let of = lease("n", 1);
    let entry = |version| ("p#1".into(), record(version, "n", 1));
    let write = |directory: &mut dyn Directory, bucket, version| {
        let batch = Batch { bucket, entries: vec![entry(version)] };
        // Others in the same call go elsewhere.
        let others = (0..50).map(|bucket| Batch { bucket, entries: vec![entry(1)] });
        let all: Vec<Batch> = others.chain([batch]).collect();
        assert_eq!(directory.put(&all).expect("it works").pop(), Some(Put::Taken));
    };
    let (mut one, mut two) = (redis(&cluster.url()), redis(&cluster.url()));
    // The connections and the map are as they were before the move.
    write(&mut one, full, 10);
    assert_eq!(two.bucket(full), Ok(vec![entry(10)]));
    let mut version = 10;
    let mut check = |full_has: Option<u64>, empty_has: Option<u64>| {
        for directory in [&mut one, &mut two] {
            for (bucket, has) in [(full, full_has), (empty, empty_has)] {
                let want: Vec<_> = has.map(entry).into_iter().collect();
                assert_eq!(directory.bucket(bucket), Ok(want.clone()));
                let digests = directory.digests(&of, bucket..bucket + 1).expect("it works");
                assert_eq!(digests[0].count, want.len() as u64);
            }
        }
        version += 1;
        write(&mut one, full, version);
        write(&mut two, empty, version);
        version
    };
    let at = check(Some(10), None);
    cluster.begin_move(slot, 0, 1);
    let at = check(Some(at), Some(at));
    cluster.move_keys(slot, 0, 1);
    let at = check(Some(at), Some(at));
    cluster.end_move(slot, 0, 1);
    let at = check(Some(at), Some(at));
    // And back, with the scripts forgotten on the way.
    cluster.nodes.iter().for_each(|node| assert_eq!(node.cli(&["SCRIPT", "FLUSH"]), "OK"));
    cluster.begin_move(slot, 1, 0);
    let at = check(Some(at), Some(at));
    cluster.move_keys(slot, 1, 0);
    cluster.end_move(slot, 1, 0);
    check(Some(at), Some(at));
}

#[test]
fn a_bucket_that_is_made_while_its_slot_moves_is_made_at_the_new_master() {
    let cluster = Cluster::start(RedisOptions::default());
    let (slot, first, second) = neighbours(&cluster);
    let mut directory = redis(&cluster.url());
    let put_into = |directory: &mut dyn Directory, bucket| {
        let entries = vec![("p#1".into(), record(1, "n", 1))];
        directory.put(&[Batch { bucket, entries }])
    };
    put_into(&mut directory, first).expect("it works");
    cluster.begin_move(slot, 0, 1);
    assert_eq!(put_into(&mut directory, second), Ok(vec![Put::Taken]));
    let there = cluster.nodes[1].cli(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]);
    assert_eq!(there, "1", "ASK was followed");
    cluster.move_keys(slot, 0, 1);
    cluster.end_move(slot, 0, 1);
    for bucket in [first, second] {
        assert_eq!(directory.bucket(bucket).map(|entries| entries.len()), Ok(1));
    }
}

#[test]
fn a_flush_of_one_master_is_another_history() {
    let cluster = Cluster::start(RedisOptions::default());
    let mut directory = redis(&cluster.url());
    let of = lease("n", 1);
    let mut before = directory.lease(&of, LONG_MS).expect("it works");
    for node in &cluster.nodes[..3] {
        assert_eq!(node.cli(&["FLUSHALL"]), "OK");
        let after = directory.lease(&of, LONG_MS).expect("it works");
        assert_ne!(after, before);
        before = after;
    }
    assert_eq!(directory.lease(&of, LONG_MS), Ok(before));
}

#[test]
fn a_master_that_dies_is_replaced_and_that_is_another_history() {
    let mut cluster = Cluster::start(hasty());
    let mut directory = redis(&cluster.url());
    let of = lease("n", 1);
    let before = directory.lease(&of, LONG_MS).expect("it works");
    let keys: Vec<String> = (0..60).map(|n| format!("p#{n}")).collect();
    keys.iter().for_each(|key| assert_eq!(put(&mut directory, key, record(1, "n", 1)), Put::Taken));
    // The first of the URL, so that somebody else has to be asked.
    cluster.nodes[0].kill();
    until("a replica takes over", || directory.lease(&of, LONG_MS).is_ok_and(|now| now != before));
    // What was lost is written again, what was not is there. Each node has its own opinion of
    // whether the cluster is whole again.
    let write = |directory: &mut directory::Redis, version| {
        for key in &keys {
            let entries = vec![(key.as_str().into(), record(version, "n", 1))];
            let batch = [Batch { bucket: bucket(key), entries }];
            until("it is written", || directory.put(&batch).is_ok_and(|put| put == [Put::Taken]));
        }
    };
    write(&mut directory, 1);
    for key in &keys {
        until("it is read", || {
            let found = directory.find(&[key.as_str().into()]);
            found.is_ok_and(|found| found == [Some(record(1, "n", 1))])
        });
    }
    cluster.nodes[0].restart();
    until("the old master follows", || cluster.nodes[0].cli(&["ROLE"]).starts_with("slave"));
    write(&mut directory, 2);
}

#[test]
fn a_master_that_is_down_does_not_hold_up_the_others() {
    let mut cluster = Cluster::start(RedisOptions::default());
    // No replica takes over, and the others go on without those slots.
    for node in &cluster.nodes {
        let off = ["CONFIG", "SET", "cluster-require-full-coverage", "no"];
        assert_eq!(node.cli(&off), "OK");
        let off = ["CONFIG", "SET", "cluster-replica-no-failover", "yes"];
        assert_eq!(node.cli(&off), "OK");
    }
    let settings: Settings = common::settings(&cluster.url(), 2_000);
    let mut directory = directory::Redis::new(&settings).expect("a good URL");
    let of = (0..).map(|n| Batch {
        bucket: n,
        entries: vec![(format!("p#{n}").into(), record(1, "n", 1)); 2],
    });
    let mut batches: Vec<Batch> = of.take(60).collect();
    let all = directory.put(&batches).expect("it works");
    assert!(all.iter().all(|put| *put == Put::Taken) && all.len() == 120, "{all:?}");
    let is_there = |batch: &&Batch| slot_of(&cluster, batch.bucket) >= 5_461;
    let there: Vec<bool> = batches.iter().map(|batch| is_there(&batch)).collect();
    let only: Vec<Batch> = batches.iter().filter(|batch| !is_there(batch)).cloned().collect();
    let put = |is: &bool| if *is { Put::Taken } else { Put::Untaken };
    let want: Vec<Put> = there.iter().flat_map(|is| [put(is), put(is)]).collect();
    assert!(want.contains(&Put::Untaken) && want.contains(&Put::Taken));
    cluster.nodes[0].pause();
    for _ in 0..3 {
        let (all, back, sent) = ends(move || (directory.put(&batches), directory, batches));
        assert_eq!(all, Ok(want.clone()), "it hangs");
        (directory, batches) = (back, sent);
    }
    cluster.nodes[0].kill();
    for _ in 0..3 {
        assert_eq!(directory.put(&batches), Ok(want.clone()), "it is dead");
    }
    assert!(directory.put(&only).is_err(), "nothing got through");
    cluster.nodes[0].restart();
    until("it is back", || directory.put(&batches).is_ok_and(|all| !all.contains(&Put::Untaken)));
}

#[test]
fn a_master_that_hangs_is_slow_until_it_is_replaced() {
    let cluster = Cluster::start(hasty());
    let settings: Settings = common::settings(&cluster.url(), 1_000);
    let mut directory = directory::Redis::new(&settings).expect("a good URL");
    let key = (0..).map(|n| format!("p#{n}")).find(|key| slot_of(&cluster, bucket(key)) < 5_461);
    let key = key.expect("there are many");
    until("it is warm", || directory.find(&[key.as_str().into()]).is_ok());
    cluster.nodes[0].pause();
    let lookup = key.clone();
    let (fault, mut directory) = ends(move || (directory.find(&[lookup.into()]), directory));
    assert_eq!(fault, Err(model::ports::presence::directory::DirectoryError::Slow));
    until("a replica takes over", || directory.find(&[key.as_str().into()]).is_ok());
    cluster.nodes[0].resume();
    until("the old master follows", || cluster.nodes[0].cli(&["ROLE"]).starts_with("slave"));
    assert_eq!(put(&mut directory, &key, record(1, "n", 1)), Put::Taken);
}

#[test]
fn whoever_has_no_slots_is_told() {
    let lines =
        vec!["cluster-enabled yes".into(), format!("cluster-port {}", testkit::redis::free_port())];
    let alone =
        testkit::redis::RedisServer::start(RedisOptions { lines, ..RedisOptions::default() });
    let told = redis(&alone.url().replace("redis:", "redis+cluster:")).nodes();
    let told = told.expect_err("no slots").to_string();
    assert!(told.contains("no node of the cluster has any slots"), "{told}");
    let told = redis(&alone.url()).nodes().expect_err("no slots").to_string();
    assert!(told.contains("CLUSTERDOWN"), "{told}");
    let single = testkit::redis::RedisServer::start(RedisOptions::default());
    let told = redis(&single.url().replace("redis:", "redis+cluster:")).nodes();
    let told = told.expect_err("no cluster").to_string();
    assert!(told.contains("cluster support disabled"), "{told}");
}
