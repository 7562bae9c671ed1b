//! The law of the directory: what every implementation of `model`'s port must do.
//!
//! [`suite`] holds one to it, behaviour by behaviour, then in a random run against plain maps. It
//! knows nothing of where records are kept: a directory is opened through an [`Opener`], several
//! times where several servers share it. Each implementation tests its own behaviour over time and
//! under faults.

mod cases;
mod random;

use model::ports::presence::directory::{Batch, Directory, DirectoryEntry, Lease, Put};
use model::presence::{NodeName, PresenceRecord, PresenceVersion, bucket};

/// Opens the same directory once more, as another server would.
pub type Opener = Box<dyn Fn() -> Box<dyn Directory>>;

/// Holds a directory to the law. `empty` gives one that has nothing, each time.
pub fn suite(empty: &mut dyn FnMut() -> Opener) {
    for (name, case) in cases::ALL {
        // A panic says where; this says what was tried.
        let open = empty();
        let run = std::panic::AssertUnwindSafe(|| case(&open));
        assert!(std::panic::catch_unwind(run).is_ok(), "the directory breaks the law: {name}");
    }
    for seed in 0..RUNS {
        random::run(seed, &empty());
    }
}

/// Random runs.
const RUNS: u64 = 3;

/// A record of a node, online, by a version.
pub fn record(version: u64, node: &str, boot: u64) -> PresenceRecord {
    let node = NodeName::parse(node).expect("a name");
    let (version, detail) = (PresenceVersion(version), "mqtt5".into());
    PresenceRecord { version, online: true, node, boot, detail, user: None }
}

/// The same, offline.
pub fn gone(version: u64, node: &str, boot: u64) -> PresenceRecord {
    PresenceRecord { online: false, detail: "peer_closed".into(), ..record(version, node, boot) }
}

/// A lease.
pub fn lease(node: &str, boot: u64) -> Lease {
    Lease { node: NodeName::parse(node).expect("a name"), boot }
}

/// Puts one record.
pub fn put(directory: &mut dyn Directory, key: &str, record: PresenceRecord) -> Put {
    let put = directory.put(&[batch(bucket(key), vec![(key.into(), record)])]);
    let mut put = put.expect("it works");
    assert_eq!(put.len(), 1);
    put.remove(0)
}

/// Record of one principal.
pub fn find(directory: &mut dyn Directory, key: &str) -> Option<PresenceRecord> {
    directory.find(&[key.into()]).expect("it works").remove(0)
}

fn batch(bucket: u16, entries: Vec<DirectoryEntry>) -> Batch {
    Batch { bucket, entries }
}
