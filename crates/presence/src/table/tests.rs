//! The contract of a directory, over the table, and its faults on order.

use super::*;
use model::presence::{NodeName, bucket};

const KEY: &str = "demo#d";

fn record(version: u64, online: bool, node: &str) -> PresenceRecord {
    PresenceRecord {
        version: PresenceVersion(version),
        online,
        node: NodeName::parse(node).expect("a name"),
        boot: 7,
        detail: "mqtt5".into(),
        user: None,
    }
}

fn batch(record: PresenceRecord) -> [Batch; 1] {
    [Batch { bucket: bucket(KEY), entries: vec![(KEY.into(), record)] }]
}

fn put(table: &mut MemoryDirectory, record: PresenceRecord) -> Put {
    table.put(&batch(record)).expect("it works").remove(0)
}

fn kept(table: &MemoryDirectory) -> Option<PresenceRecord> {
    table.another().find(&[KEY.into()]).expect("it works").remove(0)
}

fn lease(node: &str, boot: u64) -> Lease {
    Lease { node: NodeName::parse(node).expect("a name"), boot }
}

#[test]
fn only_what_is_newer_is_taken_and_twice_is_once() {
    let mut table = MemoryDirectory::new();
    let second = record(2, true, "a");
    assert_eq!(put(&mut table, second.clone()), Put::Taken);
    assert_eq!(put(&mut table, second.clone()), Put::Taken);
    assert_eq!(put(&mut table, record(1, false, "a")), Put::Kept(second.clone()));
    let twin = PresenceRecord { detail: "miop7".into(), ..second.clone() };
    assert_eq!(put(&mut table, twin), Put::Kept(second), "the same version and other words");
    assert_eq!(put(&mut table, record(3, false, "a")), Put::Taken);
}

#[test]
fn an_end_elsewhere_says_nothing_of_a_connection_here() {
    let mut table = MemoryDirectory::new();
    let here = record(2, true, "a");
    put(&mut table, here.clone());
    assert_eq!(put(&mut table, record(9, false, "b")), Put::Kept(here));
    assert_eq!(put(&mut table, record(10, true, "b")), Put::Taken);
    assert_eq!(put(&mut table, record(11, false, "b")), Put::Taken);
    assert_eq!(put(&mut table, record(12, false, "a")), Put::Taken, "offline over offline");
}

#[test]
fn what_is_newer_than_said_is_not_removed() {
    let mut table = MemoryDirectory::new();
    put(&mut table, record(5, true, "a"));
    let key = || [(Box::from(KEY), PresenceVersion(4))];
    assert_eq!(table.remove(bucket(KEY), &key()), Ok(0));
    assert_eq!(table.remove(bucket(KEY), &[(KEY.into(), PresenceVersion(5))]), Ok(1));
    assert_eq!((table.remove(bucket(KEY), &key()), kept(&table)), (Ok(0), None));
}

#[test]
fn leases_run_out_by_the_told_clock_and_are_ended_by_their_own_boot_only() {
    let mut table = MemoryDirectory::new();
    table.tell(1_000);
    table.lease(&lease("a", 1), 500).expect("it works");
    table.lease(&lease("b", 1), 100).expect("it works");
    table.tell(1_100);
    assert_eq!(table.nodes(), Ok(vec![lease("a", 1)]));
    table.release(&lease("a", 2)).expect("it works");
    assert_eq!(table.nodes(), Ok(vec![lease("a", 1)]));
    table.release(&lease("a", 1)).expect("it works");
    assert_eq!(table.nodes(), Ok(Vec::new()));
}

#[test]
fn a_digest_is_of_what_this_boot_says_is_online() {
    let mut table = MemoryDirectory::new();
    let at = bucket(KEY);
    let of = |table: &mut MemoryDirectory, boot| {
        table.digests(&lease("a", boot), at..at + 1).expect("works")
    };
    put(&mut table, record(1, true, "a"));
    let text = record(1, true, "a").encode();
    assert_eq!(of(&mut table, 7), [Digest { count: 1, sum: crate::sum(KEY, &text) }]);
    assert_eq!(of(&mut table, 8), [Digest::default()]);
    put(&mut table, record(2, false, "a"));
    assert_eq!(of(&mut table, 7), [Digest::default()]);
}

#[test]
fn a_fail_over_forgets_what_was_acknowledged_last_and_is_another_life() {
    let mut table = MemoryDirectory::new();
    table.remember(10_000);
    let life = table.lease(&lease("a", 1), 60_000).expect("it works");
    put(&mut table, record(1, true, "a"));
    table.tell(5_000);
    put(&mut table, record(2, false, "a"));
    put(&mut table, record(3, true, "a"));
    table.lose(1_000);
    assert_eq!(kept(&table), Some(record(1, true, "a")));
    assert_ne!(table.lease(&lease("a", 1), 60_000), Ok(life));
}

#[test]
fn a_call_fails_before_or_after_it_is_done() {
    let mut table = MemoryDirectory::new();
    table.fail(1, DirectoryError::Slow, FailedCall::Before);
    assert_eq!(table.put(&batch(record(1, true, "a"))), Err(DirectoryError::Slow));
    assert_eq!(kept(&table), None);
    table.fail(1, DirectoryError::Slow, FailedCall::After);
    assert_eq!(table.put(&batch(record(1, true, "a"))), Err(DirectoryError::Slow));
    assert_eq!(kept(&table), Some(record(1, true, "a")));
}

#[test]
fn what_is_held_back_arrives_in_the_reverse_of_its_order() {
    let mut table = MemoryDirectory::new();
    table.hold_back(true);
    for version in [1, 2] {
        assert_eq!(table.put(&batch(record(version, true, "a"))), Err(DirectoryError::Slow));
    }
    table.hold_back(false);
    assert_eq!((kept(&table), table.took_ms()), (None, 1_000));
    table.deliver();
    assert_eq!(kept(&table), Some(record(2, true, "a")));
}

#[test]
fn a_bucket_that_moves_is_refused_and_others_are_not() {
    let mut table = MemoryDirectory::new();
    let other = Batch { bucket: bucket("#c"), entries: vec![("#c".into(), record(1, true, "a"))] };
    table.refuse(bucket(KEY), true);
    let [mine] = batch(record(1, true, "a"));
    assert_eq!(table.put(&[mine.clone(), other]), Ok(vec![Put::Untaken, Put::Taken]));
    assert!(matches!(table.put(&[mine]), Err(DirectoryError::Refused(_))));
    assert!(matches!(table.bucket(bucket(KEY)), Err(DirectoryError::Refused(_))));
    assert!(table.bucket(bucket("#c")).is_ok());
}
