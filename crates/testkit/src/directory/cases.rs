//! Behaviours of a directory, one a case. Each case begins with an empty directory, and does not
//! know how it is implemented.

use super::{Opener, batch, find, gone, lease, put, record};
use model::ports::presence::directory::Put;
use model::presence::{BUCKETS, Digest, PresenceRecord, PresenceVersion, bucket};

/// Name and case.
pub(super) type Case = (&'static str, fn(&Opener));

pub(super) const ALL: &[Case] = &[
    ("an empty directory has nothing", nothing),
    ("what is newer is taken, what is older is not", versions),
    ("what is as new and different is not taken", as_new),
    ("the end of a connection says nothing of another node's", elsewhere),
    ("answers are in the order of the records", order),
    ("all of a record comes back", whole),
    ("what is removed is not newer than said", removal),
    ("digests are those of the contract", golden),
    ("digests are of one boot's records that are online", digests),
    ("a lease says who is alive", leases),
    ("only the lease's own boot ends it", release),
    ("the history stays while nothing is lost", history),
    ("a late word from another server changes nothing", late),
];

const DEVICE: &str = "demo#phone-1";
const CLIENT: &str = "#ü client";

fn nothing(open: &Opener) {
    let mut directory = open();
    assert_eq!(directory.put(&[]), Ok(vec![]));
    assert_eq!(directory.put(&[batch(7, vec![])]), Ok(vec![]));
    assert_eq!(directory.find(&[]), Ok(vec![]));
    assert_eq!(directory.find(&[DEVICE.into(), CLIENT.into()]), Ok(vec![None, None]));
    assert_eq!(directory.bucket(bucket(DEVICE)), Ok(vec![]));
    assert_eq!(directory.nodes(), Ok(vec![]));
    assert_eq!(directory.remove(7, &[]), Ok(0));
    let of = lease("n", 1);
    assert_eq!(directory.digests(&of, 0..0), Ok(vec![]));
    assert_eq!(directory.digests(&of, 16_380..BUCKETS), Ok(vec![Digest::default(); 4]));
}

fn versions(open: &Opener) {
    let mut directory = open();
    let directory = directory.as_mut();
    // Beyond 2^53 numbers of floating point lose the difference.
    let (low, high) = (record(u64::MAX - 2, "a", 1), record(u64::MAX - 1, "b", 2));
    assert_eq!(put(directory, DEVICE, low.clone()), Put::Taken);
    assert_eq!(put(directory, DEVICE, high.clone()), Put::Taken);
    assert_eq!(put(directory, DEVICE, low), Put::Kept(high.clone()));
    assert_eq!(put(directory, DEVICE, high.clone()), Put::Taken, "what is there is there");
    assert_eq!(put(directory, DEVICE, record(9, "a", 1)), Put::Kept(high.clone()));
    assert_eq!(put(directory, DEVICE, record(0x10, "a", 1)), Put::Kept(high.clone()));
    assert_eq!(find(directory, DEVICE), Some(high));
}

fn as_new(open: &Opener) {
    let mut directory = open();
    let directory = directory.as_mut();
    let first = record(5, "a", 1);
    assert_eq!(put(directory, CLIENT, first.clone()), Put::Taken);
    assert_eq!(put(directory, CLIENT, record(5, "b", 1)), Put::Kept(first.clone()));
    assert_eq!(put(directory, CLIENT, record(5, "a", 2)), Put::Kept(first.clone()));
    assert_eq!(put(directory, CLIENT, gone(5, "a", 1)), Put::Kept(first));
}

fn elsewhere(open: &Opener) {
    let mut directory = open();
    let directory = directory.as_mut();
    let there = record(10, "there", 1);
    assert_eq!(put(directory, DEVICE, there.clone()), Put::Taken);
    assert_eq!(put(directory, DEVICE, gone(20, "here", 1)), Put::Kept(there.clone()));
    assert_eq!(put(directory, DEVICE, gone(20, "ther", 1)), Put::Kept(there.clone()));
    assert_eq!(put(directory, DEVICE, gone(20, "there2", 1)), Put::Kept(there));
    // Its own node may say so, also after a new start; and whoever is online here is.
    assert_eq!(put(directory, DEVICE, gone(11, "there", 2)), Put::Taken);
    assert_eq!(put(directory, DEVICE, gone(12, "here", 1)), Put::Taken, "offline already");
    assert_eq!(put(directory, DEVICE, record(13, "here", 1)), Put::Taken);
    assert_eq!(put(directory, DEVICE, record(14, "there", 2)), Put::Taken);
}

fn order(open: &Opener) {
    let mut directory = open();
    let kept = record(100, "old", 1);
    put(directory.as_mut(), "p#1", kept.clone());
    put(directory.as_mut(), "p#3", kept.clone());
    let entry = |key: &str, version| (key.into(), record(version, "new", 2));
    // Buckets are whatever the caller says, as long as he says the same each time.
    let batches = [
        batch(bucket("p#2"), vec![entry("p#2", 1), entry("p#2b", 1)]),
        batch(3, vec![]),
        batch(bucket("p#1"), vec![entry("p#1c", 7), entry("p#1", 99), entry("p#1d", 7)]),
        batch(bucket("p#3"), vec![entry("p#3", 100)]),
        batch(bucket("p#2"), vec![entry("p#2", 0), entry("p#2", 2)]),
    ];
    use Put::{Kept, Taken};
    let (old, new) = (|| Kept(kept.clone()), record(1, "new", 2));
    let want = vec![Taken, Taken, Taken, old(), Taken, old(), Kept(new), Taken];
    assert_eq!(directory.put(&batches), Ok(want));
    let keys = ["p#2", "p#1", "none#x", "p#3"].map(Box::from);
    let found = directory.find(&keys).expect("it works");
    let versions: Vec<_> = found.iter().map(|found| found.as_ref().map(|r| r.version.0)).collect();
    assert_eq!(versions, [Some(2), Some(100), None, Some(100)]);
}

fn whole(open: &Opener) {
    let mut directory = open();
    let full = PresenceRecord {
        user: Some("a user, 用户 with\r\n$3 lines \0 and \"quotes\"".into()),
        detail: "keep_alive_timeout".into(),
        ..gone(0x0123_4567_89ab_cdef, "node.1_-+:/=", u64::MAX)
    };
    let keys = [DEVICE, CLIENT, "#with#more#", "#\r\n", "# ", "p:/=+._-#d"];
    for key in keys {
        assert_eq!(put(directory.as_mut(), key, full.clone()), Put::Taken, "{key:?}");
        assert_eq!(find(directory.as_mut(), key), Some(full.clone()), "{key:?}");
        let entries = directory.bucket(bucket(key)).expect("it works");
        assert!(entries.contains(&(key.into(), full.clone())), "{key:?}: {entries:?}");
    }
    let of_one = directory.bucket(bucket(DEVICE)).expect("it works");
    assert_eq!(of_one, [(DEVICE.into(), full)]);
}

fn removal(open: &Opener) {
    let mut directory = open();
    let keys: Vec<Box<str>> = (0..5).map(|n| format!("p#{n}").into()).collect();
    let entries = keys.iter().zip(1..).map(|(key, n)| (key.clone(), record(n * 10, "a", 1)));
    directory.put(&[batch(9, entries.collect())]).expect("it works");
    let upto = |key: usize, version| (keys[key].clone(), PresenceVersion(version));
    let order = [upto(0, 9), upto(1, 20), upto(2, 31), ("p#none".into(), PresenceVersion(99))];
    assert_eq!(directory.remove(9, &order), Ok(2));
    assert_eq!(directory.remove(9, &order), Ok(0));
    assert_eq!(directory.remove(8, &[upto(3, 99)]), Ok(0), "another bucket");
    let mut left: Vec<_> = directory.bucket(9).expect("it works");
    left.sort_by(|a, b| a.0.cmp(&b.0));
    let left: Vec<&str> = left.iter().map(|entry| &*entry.0).collect();
    assert_eq!(left, ["p#0", "p#3", "p#4"]);
}

/// Sums made elsewhere (Python's hashlib), as any server of any version must make them.
fn golden(open: &Opener) {
    let mut directory = open();
    let user = Some("a user".into());
    let one = PresenceRecord { user, ..record(0x1234, "node-1", 0xfeed) };
    let two = PresenceRecord { detail: "miop".into(), ..record(u64::MAX, "node-1", 0xfeed) };
    let of = lease("node-1", 0xfeed);
    let entries = vec![(DEVICE.into(), one), (CLIENT.into(), two)];
    directory.put(&[batch(0, entries.clone())]).expect("it works");
    let digest = |count, sum| Digest { count, sum };
    assert_eq!(directory.digests(&of, 0..1), Ok(vec![digest(2, BOTH)]));
    let upto = |at: usize| (entries[at].0.clone(), entries[at].1.version);
    assert_eq!(directory.remove(0, &[upto(1)]), Ok(1));
    assert_eq!(directory.digests(&of, 0..1), Ok(vec![digest(1, FIRST)]));
    assert_eq!(directory.remove(0, &[upto(0)]), Ok(1));
    assert_eq!(directory.digests(&of, 0..1), Ok(vec![digest(0, 0)]));
}

const FIRST: u64 = 0x07c9_1afc_26ef_7d36;
const BOTH: u64 = 0xa956_80ce_d593_de3d;

fn digests(open: &Opener) {
    let mut directory = open();
    let of = lease("node", 0xb);
    let entry = |key: &str, record| (key.into(), record);
    directory.put(&[batch(300, vec![entry("p#mine", record(4, "node", 0xb))])]).expect("it works");
    let alone = directory.digests(&of, 299..302).expect("it works");
    assert_eq!(alone.iter().map(|digest| digest.count).collect::<Vec<_>>(), [0, 1, 0]);
    let others = vec![
        entry("p#gone", gone(4, "node", 0xb)),
        entry("p#older boot", record(4, "node", 0xb1)),
        entry("p#other", record(4, "node2", 0xb)),
        entry("p#another", record(4, "nod", 0xb)),
    ];
    directory.put(&[batch(300, others)]).expect("it works");
    assert_eq!(directory.digests(&of, 299..302), Ok(alone.clone()), "others' do not count");
    let second = vec![entry("p#second", record(4, "node", 0xb))];
    directory.put(&[batch(300, second)]).expect("it works");
    let both = directory.digests(&of, 300..301).expect("it works");
    assert_eq!(both[0].count, 2);
    assert_ne!(both[0].sum, alone[1].sum);
    directory.put(&[batch(300, vec![entry("p#second", gone(5, "node", 0xb))])]).expect("it works");
    assert_eq!(directory.digests(&of, 299..302), Ok(alone.clone()), "as before");
    directory.put(&[batch(300, vec![entry("p#mine", record(6, "node", 0xb))])]).expect("it works");
    let newer = directory.digests(&of, 300..301).expect("it works");
    assert!(newer[0].count == 1 && newer[0].sum != alone[1].sum, "a version is part of it");
    let all = directory.digests(&of, 0..BUCKETS).expect("it works");
    assert_eq!(all.len(), usize::from(BUCKETS));
    assert_eq!(all.iter().map(|digest| digest.count).sum::<u64>(), 1);
}

/// Long enough for every test.
const LONG_MS: u64 = 600_000;

fn leases(open: &Opener) {
    let (mut one, mut two) = (open(), open());
    one.lease(&lease("one", 0x1), LONG_MS).expect("it works");
    two.lease(&lease("two", u64::MAX), LONG_MS).expect("it works");
    let sorted = |mut nodes: Vec<model::ports::presence::directory::Lease>| {
        nodes.sort_by(|a, b| a.node.as_str().cmp(b.node.as_str()));
        nodes
    };
    let want = vec![lease("one", 0x1), lease("two", u64::MAX)];
    assert_eq!(one.nodes().map(sorted), Ok(want.clone()));
    assert_eq!(two.nodes().map(sorted), Ok(want));
    // It starts again: the new boot takes over.
    one.lease(&lease("one", 0x2), LONG_MS).expect("it works");
    assert_eq!(two.nodes().map(sorted), Ok(vec![lease("one", 0x2), lease("two", u64::MAX)]));
}

fn release(open: &Opener) {
    let mut directory = open();
    directory.lease(&lease("n", 1), LONG_MS).expect("it works");
    assert_eq!(directory.release(&lease("n", 2)), Ok(()));
    assert_eq!(directory.release(&lease("m", 1)), Ok(()));
    assert_eq!(directory.nodes(), Ok(vec![lease("n", 1)]));
    assert_eq!(directory.release(&lease("n", 1)), Ok(()));
    assert_eq!(directory.nodes(), Ok(vec![]));
    assert_eq!(directory.release(&lease("n", 1)), Ok(()), "twice does no harm");
}

fn history(open: &Opener) {
    let (mut one, mut two) = (open(), open());
    let first = one.lease(&lease("one", 1), LONG_MS).expect("it works");
    put(one.as_mut(), DEVICE, record(1, "one", 1));
    assert_eq!(one.lease(&lease("one", 1), LONG_MS), Ok(first.clone()));
    assert_eq!(two.lease(&lease("two", 1), LONG_MS), Ok(first.clone()), "it is the data's");
    one.release(&lease("one", 1)).expect("it works");
    assert_eq!(open().lease(&lease("one", 2), LONG_MS), Ok(first));
}

fn late(open: &Opener) {
    let (mut here, mut there) = (open(), open());
    let newer = record(20, "there", 1);
    assert_eq!(put(here.as_mut(), DEVICE, record(10, "here", 1)), Put::Taken);
    assert_eq!(put(there.as_mut(), DEVICE, newer.clone()), Put::Taken);
    assert_eq!(put(here.as_mut(), DEVICE, gone(11, "here", 1)), Put::Kept(newer.clone()));
    assert_eq!(here.remove(bucket(DEVICE), &[(DEVICE.into(), PresenceVersion(11))]), Ok(0));
    assert_eq!(find(here.as_mut(), DEVICE), Some(newer));
}
