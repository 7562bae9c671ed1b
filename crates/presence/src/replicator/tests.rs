//! A replicator over a table, turn by turn: the whole is tested in `tests/faults`.

use super::*;
use crate::{FailedCall, MemoryDirectory};
use model::presence::{BUCKETS, NodeName, PresenceRecord, PresenceVersion, bucket};

#[derive(Default)]
struct Seen {
    written: Vec<(ShardId, Result<Vec<Put>, DirectoryError>)>,
    compared: Vec<u16>,
}

impl ReplicationSink for Seen {
    fn written(&mut self, shard: ShardId, result: Result<Vec<Put>, DirectoryError>) {
        self.written.push((shard, result));
    }

    fn compare(&mut self, bucket: u16, _: Arc<Vec<DirectoryEntry>>) {
        self.compared.push(bucket);
    }
}

fn lease() -> Lease {
    Lease { node: NodeName::parse("a").expect("a name"), boot: 7 }
}

fn replicator() -> Replicator {
    Replicator::new(ReplicatorSettings::new(lease(), 2, "process", 1), Digests::new())
}

fn at(ms: u64) -> Now {
    Now::new(Instant::from_nanos(ms * 1_000_000), 1_800_000_000_000 + ms)
}

fn entry(key: &str, version: u64) -> DirectoryEntry {
    let record = PresenceRecord {
        version: PresenceVersion(version),
        online: true,
        node: lease().node,
        boot: 7,
        detail: "mqtt5".into(),
        user: None,
    };
    (key.into(), record)
}

fn batch(keys: &[&str], version: u64) -> Batch {
    let entries = keys.iter().map(|key| entry(key, version)).collect();
    Batch { bucket: bucket(keys[0]), entries }
}

fn many(prefix: &str, count: usize) -> Vec<Batch> {
    (0..count).map(|n| batch(&[&format!("{prefix}#{n}")], 1)).collect()
}

#[test]
fn each_shard_hears_of_its_own_records_in_its_own_order() {
    let (mut replicator, mut table, mut seen) =
        (replicator(), MemoryDirectory::new(), Seen::default());
    let newer = entry("demo#c", 9);
    let newest = Batch { bucket: bucket("demo#c"), entries: vec![newer.clone()] };
    table.put(&[newest]).expect("it works");
    replicator.offer(ShardId(0), vec![batch(&["demo#b"], 1), batch(&["demo#c"], 1)]);
    replicator.offer(ShardId(1), vec![batch(&["demo#c"], 2), batch(&["demo#a"], 1)]);
    replicator.turn(at(0), &mut table, &mut seen);
    let kept = || Put::Kept(newer.1.clone());
    assert_eq!(
        seen.written,
        [(ShardId(0), Ok(vec![Put::Taken, kept()])), (ShardId(1), Ok(vec![kept(), Put::Taken])),]
    );
    assert_eq!(table.calls().puts, 2, "one is the test's");
}

#[test]
fn calls_are_bounded_and_a_turn_makes_one_write() {
    let (mut replicator, mut table, mut seen) =
        (replicator(), MemoryDirectory::new(), Seen::default());
    for shard in 0..3 {
        replicator.offer(ShardId(shard), many(&format!("p{shard}"), 2_000));
    }
    let again = replicator.turn(at(0), &mut table, &mut seen);
    assert_eq!((table.calls().puts, table.calls().records), (1, 4_000));
    assert_eq!((again, seen.written.len()), (at(0).mono, 2), "the third is for the next turn");
    replicator.turn(at(1), &mut table, &mut seen);
    assert_eq!((table.calls().records, seen.written.len()), (6_000, 3));
    let counters = replicator.standing(at(1)).counters;
    let of = |wanted| counters.iter().find(|(name, ..)| *name == wanted).map(|counter| counter.2);
    let told = (of("directory_writes_total"), of("directory_records_written_total"));
    assert_eq!(told, (Some(2), Some(6_000)));
}

#[test]
fn while_it_is_open_nothing_is_called_and_everybody_is_told() {
    let (mut replicator, mut table, mut seen) =
        (replicator(), MemoryDirectory::new(), Seen::default());
    replicator.turn(at(0), &mut table, &mut seen);
    let fault = DirectoryError::Unreachable("reset".into());
    table.fail(1, fault.clone(), FailedCall::Before);
    replicator.offer(ShardId(0), many("demo", 1));
    let again = replicator.turn(at(1), &mut table, &mut seen);
    assert_eq!(seen.written.pop(), Some((ShardId(0), Err(fault.clone()))));
    assert_eq!(replicator.standing(at(1)).circuit, Circuit::Open);
    let calls = table.calls();
    replicator.offer(ShardId(1), many("demo", 1));
    assert_eq!(replicator.turn(at(2), &mut table, &mut seen), again);
    assert_eq!((seen.written.pop(), table.calls()), (Some((ShardId(1), Err(fault))), calls));
    // Then the lease is tried, and because something may be lost all is compared.
    replicator.turn(at(200), &mut table, &mut seen);
    assert_eq!(table.calls().leases, calls.leases + 1);
    let standing = replicator.standing(at(200));
    assert_eq!(standing.circuit, Circuit::Closed);
    assert!(standing.resync_left > 0 && standing.fault.is_some());
}

#[test]
fn answers_that_are_too_few_are_nonsense() {
    struct Terse(MemoryDirectory);
    impl Directory for Terse {
        fn lease(&mut self, lease: &Lease, ms: u64) -> Result<History, DirectoryError> {
            self.0.lease(lease, ms)
        }
        fn release(&mut self, lease: &Lease) -> Result<(), DirectoryError> {
            self.0.release(lease)
        }
        fn put(&mut self, _: &[Batch]) -> Result<Vec<Put>, DirectoryError> {
            Ok(Vec::new())
        }
        fn remove(
            &mut self,
            at: u16,
            keys: &[(Box<str>, PresenceVersion)],
        ) -> Result<u64, DirectoryError> {
            self.0.remove(at, keys)
        }
        fn digests(
            &mut self,
            _: &Lease,
            _: std::ops::Range<u16>,
        ) -> Result<Vec<model::presence::Digest>, DirectoryError> {
            Ok(Vec::new())
        }
        fn bucket(&mut self, bucket: u16) -> Result<Vec<DirectoryEntry>, DirectoryError> {
            self.0.bucket(bucket)
        }
        fn find(
            &mut self,
            keys: &[Box<str>],
        ) -> Result<Vec<Option<PresenceRecord>>, DirectoryError> {
            self.0.find(keys)
        }
        fn nodes(&mut self) -> Result<Vec<Lease>, DirectoryError> {
            self.0.nodes()
        }
        fn traffic(&self) -> (u64, u64) {
            (3, 4)
        }
    }
    let (mut replicator, mut terse, mut seen) =
        (replicator(), Terse(MemoryDirectory::new()), Seen::default());
    replicator.offer(ShardId(0), many("demo", 1));
    replicator.turn(at(0), &mut terse, &mut seen);
    assert!(matches!(seen.written[..], [(_, Err(DirectoryError::Nonsense(_)))]));
    let counters = replicator.standing(at(0)).counters;
    let value = |name| counters.iter().find(|(its, ..)| *its == name).expect("it is there").2;
    assert_eq!(value("directory_faults_nonsense_total"), 1);
    assert_eq!(value("directory_bytes_received_total"), 4);
    // Digests of other buckets are no reason to stop, and none to be content.
    for ms in (1_000..3_000).step_by(10) {
        replicator.turn(at(ms), &mut terse, &mut seen);
    }
    assert_eq!(replicator.standing(at(3_000)).resync_left, u64::from(BUCKETS));
}

#[test]
fn one_bucket_that_refuses_is_found_and_the_others_are_compared() {
    let (mut replicator, mut table, mut seen) =
        (replicator(), MemoryDirectory::new(), Seen::default());
    replicator.turn(at(0), &mut table, &mut seen);
    table.flush();
    table.refuse(777, true);
    let mut ms = 5_000;
    while ms < 20_000 {
        let again = replicator.turn(at(ms), &mut table, &mut seen);
        ms = (again.nanos().div_ceil(1_000_000)).max(ms + 1);
    }
    assert_eq!(replicator.standing(at(ms)).resync_left, 1);
    assert_eq!(replicator.standing(at(ms)).circuit, Circuit::Closed);
    table.refuse(777, false);
    while ms < 22_000 {
        let again = replicator.turn(at(ms), &mut table, &mut seen);
        ms = (again.nanos().div_ceil(1_000_000)).max(ms + 1);
    }
    assert_eq!(replicator.standing(at(ms)).resync_left, 0);
}

#[test]
fn old_records_are_swept_by_the_first_node_and_newer_ones_are_not() {
    let mut settings = ReplicatorSettings::new(lease(), 2, "process", 1);
    (settings.sweep_s, settings.forget_after_s) = (20, 1_000);
    let mut replicator = Replicator::new(settings, Digests::new());
    let (mut table, mut seen) = (MemoryDirectory::new(), Seen::default());
    let version = |ms: u64| (at(0).wall_ms - 1_577_836_800_000 - ms) << 22;
    let offline = |key: &str, version: u64| {
        let (key, record) = entry(key, version);
        (key, PresenceRecord { online: false, ..record })
    };
    let dead = |key: &str| {
        let (key, record) = entry(key, version(1_000));
        (key, PresenceRecord { boot: 6, ..record })
    };
    let alive = entry("demo#alive", version(2_000_000));
    let all = [offline("demo#old", version(2_000_000)), offline("demo#new", version(0)), alive];
    for (key, record) in all.into_iter().chain([dead("demo#dead")]) {
        table.put(&[Batch { bucket: bucket(&key), entries: vec![(key, record)] }]).expect("works");
    }
    let mut ms = 0;
    while ms < 160_000 {
        table.tell(ms);
        let again = replicator.turn(at(ms), &mut table, &mut seen);
        ms = (again.nanos().div_ceil(1_000_000)).max(ms + 1);
    }
    let left: Vec<Box<str>> = table.all().into_iter().map(|(key, _)| key).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.contains(&"demo#new".into()) && left.contains(&"demo#alive".into()));
}

#[test]
fn offers_go_together_up_to_the_entries_of_a_call() {
    let (half, one) = (ENTRIES_MAX / 2, 1);
    for (offers, together) in [
        (vec![half, half], vec![ENTRIES_MAX]),
        (vec![half, half + 1], vec![half, half + 1]),
        (vec![ENTRIES_MAX + 1, one], vec![ENTRIES_MAX + 1, one]),
        (vec![0, one], vec![one]),
    ] {
        let mut waiting: VecDeque<WriteOffer> = VecDeque::new();
        for (shard, &count) in offers.iter().enumerate() {
            waiting.push_back(WriteOffer {
                shard: ShardId(shard as u16),
                batches: many("demo", count),
            });
        }
        let loads = std::iter::from_fn(|| carry::load(&mut waiting)).map(|load| load.entries());
        assert_eq!(loads.collect::<Vec<_>>(), together, "{offers:?}");
    }
}
