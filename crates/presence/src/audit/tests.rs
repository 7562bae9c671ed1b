//! Differences that an audit reports, and delays that it must not report.

use super::*;
use crate::{FailedCall, MemoryDirectory};
use model::ports::presence::directory::Batch;
use model::presence::{NodeName, PresenceRecord, PresenceVersion, bucket};
use std::cell::RefCell;

fn lease() -> Lease {
    Lease { node: NodeName::parse("a").expect("a name"), boot: 7 }
}

fn record(version: u64, online: bool) -> PresenceRecord {
    PresenceRecord {
        version: PresenceVersion(version),
        online,
        node: lease().node,
        boot: 7,
        detail: "mqtt5".into(),
        user: None,
    }
}

/// A memory that is told what it has.
#[derive(Default)]
struct Told {
    entries: RefCell<Vec<DirectoryEntry>>,
    compared: RefCell<Vec<u16>>,
}

impl MemoryReader for Told {
    fn entries(&self, buckets: Vec<u16>) -> Result<Vec<MemoryEntry>, DirectoryError> {
        let entries = self.entries.borrow();
        let asked = entries.iter().filter(|(key, _)| buckets.contains(&bucket(key)));
        Ok(asked.map(|entry| MemoryEntry { entry: entry.clone(), settled: true }).collect())
    }

    fn histories(
        &self,
        who: Vec<Principal>,
    ) -> Result<Vec<(Principal, Vec<Remembered>)>, DirectoryError> {
        let state = model::presence::OnlineState::Online("mqtt5");
        let of = |who| (who, vec![Remembered { version: PresenceVersion(1), state }]);
        Ok(who.into_iter().map(of).collect())
    }

    fn compare(&self, bucket: u16, _: Arc<Vec<DirectoryEntry>>) -> Result<(), DirectoryError> {
        self.compared.borrow_mut().push(bucket);
        Ok(())
    }
}

struct Both {
    memory: Told,
    digests: Arc<Digests>,
    table: MemoryDirectory,
}

impl Both {
    fn new() -> Both {
        Both { memory: Told::default(), digests: Digests::new(), table: MemoryDirectory::new() }
    }

    fn in_memory(&self, key: &str, record: PresenceRecord) {
        if record.online {
            self.digests.add(bucket(key), crate::sum(key, &record.encode()));
        }
        self.memory.entries.borrow_mut().push((key.into(), record));
    }

    fn stored(&self, key: &str, record: PresenceRecord) {
        let batch = Batch { bucket: bucket(key), entries: vec![(key.into(), record)] };
        self.table.another().put(&[batch]).expect("it works");
    }

    fn audit(&self, repair: bool, wait: &mut dyn FnMut(u64)) -> Result<Audit, DirectoryError> {
        let mut directory = self.table.clone();
        let (lease, memory) = (lease(), &self.memory);
        let sides =
            AuditSides { lease: &lease, digests: &self.digests, memory, directory: &mut directory };
        audit(AuditOrder { settle_ms: 300, repair, told_max: 2 }, sides, wait)
    }
}

#[test]
fn what_agrees_is_not_read_and_not_waited_for() {
    let both = Both::new();
    for n in 1..100 {
        let key = format!("demo#{n}");
        both.in_memory(&key, record(n, true));
        both.stored(&key, record(n, true));
    }
    let audit = both.audit(true, &mut |_| panic!("there is nothing to wait for")).expect("works");
    assert_eq!((audit.online, audit.buckets_differing, audit.differing), (99, 0, 0));
    assert_eq!(both.table.calls().buckets, 0);
}

#[test]
fn each_kind_is_told_with_its_history_and_repaired_on_request() {
    let both = Both::new();
    both.in_memory("demo#missing", record(1, true));
    both.in_memory("demo#stale", record(2, true));
    both.stored("demo#stale", record(1, false));
    both.stored("demo#extra", record(3, true));
    both.in_memory("demo#elsewhere", record(4, true));
    let elsewhere =
        PresenceRecord { node: NodeName::parse("b").expect("a name"), ..record(5, true) };
    both.stored("demo#elsewhere", elsewhere);
    both.stored("demo#another-boot", PresenceRecord { boot: 6, ..record(6, true) });
    both.stored("demo#away", record(7, false));
    let mut waited = 0;
    let audit = both.audit(false, &mut |ms| waited += ms).expect("it works");
    // Each bucket that differs is read, and once more after the wait.
    assert_eq!(both.table.calls().buckets, 2 * audit.buckets_differing);
    let kinds: Vec<_> = audit.persistent.iter().map(|(kind, count)| (*kind, *count)).collect();
    assert_eq!(kinds, [("extra", 1), ("missing", 1), ("stale", 1), ("wrong_node", 1)]);
    assert_eq!((audit.differing, audit.repaired, waited), (4, 0, 300));
    assert_eq!(audit.differences.len(), 2, "no more are told than asked for");
    assert!(audit.differences.iter().all(|difference| difference.history.len() == 1));
    assert!(both.memory.compared.borrow().is_empty());
    let audit = both.audit(true, &mut |_| {}).expect("it works");
    assert_eq!((audit.repaired, both.memory.compared.borrow().len()), (4, 4));
}

#[test]
fn a_copy_of_a_record_in_another_bucket_does_not_hide_that_the_record_is_missing() {
    for at in [bucket("demo#moved") + 1, bucket("demo#moved") - 1] {
        let both = Both::new();
        both.in_memory("demo#moved", record(1, true));
        let copy = vec![("demo#moved".into(), record(1, true))];
        both.table.another().put(&[Batch { bucket: at, entries: copy }]).expect("it works");
        let audit = both.audit(true, &mut |_| {}).expect("it works");
        let kinds: Vec<_> = audit.persistent.iter().map(|(kind, count)| (*kind, *count)).collect();
        assert_eq!(kinds, [("extra", 1), ("missing", 1)]);
        let repaired = [at, bucket("demo#moved")];
        assert!(repaired.iter().all(|it| both.memory.compared.borrow().contains(it)));
    }
}

#[test]
fn a_copy_that_is_only_behind_is_no_difference() {
    let both = Both::new();
    both.in_memory("demo#caught-up", record(2, true));
    both.stored("demo#caught-up", record(1, false));
    both.in_memory("demo#flapping", record(2, true));
    both.stored("demo#flapping", record(1, false));
    let audit = both.audit(false, &mut |_| {
        both.stored("demo#caught-up", record(2, true));
        both.stored("demo#flapping", record(3, false));
        both.memory.entries.borrow_mut()[1].1 = record(4, true);
    });
    let audit = audit.expect("it works");
    assert_eq!((audit.differing, audit.persistent.len()), (2, 0));
}

#[test]
fn one_that_flaps_and_is_never_written_is_one() {
    let both = Both::new();
    both.in_memory("demo#flapping", record(2, true));
    both.stored("demo#flapping", record(1, false));
    let audit = both.audit(false, &mut |_| {
        both.memory.entries.borrow_mut()[0].1 = record(4, true);
    });
    assert_eq!(audit.expect("it works").persistent.get("stale"), Some(&1));
}

#[test]
fn a_directory_that_fails_is_a_fault_and_no_agreement() {
    let both = Both::new();
    both.table.fail(1, DirectoryError::Slow, FailedCall::Before);
    assert_eq!(both.audit(false, &mut |_| {}), Err(DirectoryError::Slow));
}
