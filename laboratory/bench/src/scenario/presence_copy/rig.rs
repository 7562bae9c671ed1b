//! A shard's tracker and the process's replicator, joined as the roof joins them, without threads.
//!
//! The rig plays the hub: it knows who is connected, draws versions, and reports each transition.
//! Its time is set by the caller, so that an hour need not take one. It does not know the kind of
//! directory.

use base::hash::HashKey;
use base::prng::Prng;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::id::ShardId;
use model::ports::presence::directory::{Directory, DirectoryEntry, DirectoryError, Lease, Put};
use model::ports::presence::queries::{
    Audit, AuditOrder, MemoryEntry, PresenceAnswer, PresenceCommand,
};
use model::ports::presence::queries::{Remembered, ReplicationStatus};
use model::presence::{
    NodeName, OnlineState, PresenceVersion, Principal, Transition, VersionClock,
};
use presence::{
    AuditSides, Digests, Effects, MemoryReader, PresenceTracker, ReplicationSink, Replicator,
    ReplicatorSettings, Settings,
};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The wall clock when it began, Unix milliseconds.
const BEGAN_MS: u64 = 1_790_000_000_000;
const PROTOCOL: &str = "mqtt5";
const SHARD: ShardId = ShardId(0);

/// Tracker, replicator and devices.
pub struct Rig {
    pub tracker: PresenceTracker,
    pub replicator: Replicator,
    pub digests: Arc<Digests>,
    /// Transitions said so far.
    pub said: u64,
    lease: Lease,
    devices: Vec<Principal>,
    online: Vec<bool>,
    clock: VersionClock,
    prng: Prng,
    fx: Effects,
}

/// Replies of the directory's side, until they are read.
#[derive(Default)]
pub struct Replies {
    pub written: Vec<Result<Vec<Put>, DirectoryError>>,
    pub compare: Vec<(u16, Arc<Vec<DirectoryEntry>>)>,
}

impl ReplicationSink for Replies {
    fn written(&mut self, _: ShardId, result: Result<Vec<Put>, DirectoryError>) {
        self.written.push(result);
    }

    fn compare(&mut self, bucket: u16, stored: Arc<Vec<DirectoryEntry>>) {
        self.compare.push((bucket, stored));
    }
}

/// `ms` milliseconds after the beginning.
pub fn at(ms: u64) -> Now {
    Now::new(Instant::from_nanos(ms * 1_000_000), BEGAN_MS + ms)
}

/// A device's name, of the length that ids have.
pub fn device(number: u32) -> Principal {
    Principal::parse(&format!("demo#bench-{number:010}")).expect("a device's key")
}

impl Rig {
    /// A tracker of so many devices, none of them online; `copies`: whether there is a directory.
    pub fn new(devices: u32, copies: bool, kind: &'static str) -> Rig {
        let lease = Lease { node: NodeName::parse("bench").expect("a name"), boot: 0xbe };
        let digests = Digests::new();
        let settings = Settings {
            shard: SHARD,
            shards: 1,
            home: HashKey::new(1, 2),
            lease: lease.clone(),
            copies,
            history_max: 65_536,
            flush_ms: 10,
            seed: 3,
        };
        let replicator = ReplicatorSettings::new(lease.clone(), 1, kind, 4);
        Rig {
            tracker: PresenceTracker::new(settings, Arc::clone(&digests)),
            replicator: Replicator::new(replicator, Arc::clone(&digests)),
            devices: (0..devices).map(device).collect(),
            online: vec![false; devices as usize],
            clock: VersionClock::default(),
            prng: Prng::new(5),
            fx: Effects::default(),
            said: 0,
            digests,
            lease,
        }
    }

    /// How this node is called.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// How many are connected.
    pub fn online(&self) -> u64 {
        self.online.iter().filter(|online| **online).count() as u64
    }

    /// That device comes, or goes.
    pub fn flap(&mut self, now: Now, number: u32) -> PresenceVersion {
        let online = &mut self.online[number as usize];
        *online = !*online;
        let state = if *online {
            OnlineState::Online(PROTOCOL)
        } else {
            OnlineState::Offline(CloseReason::PeerReset)
        };
        let version = self.clock.next(now.wall_ms);
        let who = self.devices[number as usize].clone();
        let transition =
            Transition { who, user: None, state, protocol: PROTOCOL, peer: None, version };
        self.tracker.note(now, transition);
        self.said += 1;
        version
    }

    /// Some device comes or goes.
    pub fn flap_any(&mut self, now: Now) -> PresenceVersion {
        let number = self.prng.below(self.devices.len() as u64) as u32;
        self.flap(now, number)
    }

    /// One turn of shard and directory's thread. When there is something to do again.
    pub fn turn(&mut self, now: Now, directory: &mut dyn Directory) -> Instant {
        let mut due = self.tracker.turn(now, &mut self.fx);
        if !self.fx.batches.is_empty() {
            self.replicator.offer(SHARD, std::mem::take(&mut self.fx.batches));
        }
        let mut replies = Replies::default();
        let replicator = self.replicator.turn(now, directory, &mut replies);
        let heard = !replies.written.is_empty() || !replies.compare.is_empty();
        self.hear(now, replies);
        if heard {
            due = Some(now.mono);
        }
        due.map_or(replicator, |due| due.min(replicator))
    }

    /// The shard reads its mail.
    pub fn hear(&mut self, now: Now, replies: Replies) {
        for result in replies.written {
            self.tracker.written(now, result, &mut self.fx);
        }
        for (bucket, stored) in replies.compare {
            self.tracker.compare(now, bucket, &stored, &mut self.fx);
        }
        if let Some(seen) = self.fx.observed.take() {
            self.clock.observe(seen);
        }
        assert!(self.fx.outvoted.is_empty(), "there is no other node");
    }

    /// Batches that the tracker hands out, for callers that carry them themselves.
    pub fn hand_out(&mut self, now: Now) -> Vec<model::ports::presence::directory::Batch> {
        self.tracker.turn(now, &mut self.fx);
        std::mem::take(&mut self.fx.batches)
    }

    /// Turns until all is written and nothing is owed, from `ms` of told time on; until when.
    pub fn settle(&mut self, mut ms: u64, directory: &mut dyn Directory) -> io::Result<u64> {
        let until = ms + 600_000;
        loop {
            let due = self.turn(at(ms), directory).nanos().div_ceil(1_000_000);
            let ReplicationStatus { unwritten, resync_left, .. } = self.replicator.standing(at(ms));
            if unwritten == 0 && resync_left == 0 {
                return Ok(ms);
            }
            if ms >= until {
                return Err(io::Error::other("it does not settle"));
            }
            ms = due.clamp(ms + 1, ms + 1_000);
        }
    }

    /// Compares; an error unless exactly `expected` principals differ.
    pub fn audit(&self, directory: &mut dyn Directory, expected: u64) -> io::Result<Audit> {
        let sides =
            AuditSides { lease: &self.lease, digests: &self.digests, memory: self, directory };
        let order = AuditOrder { settle_ms: 0, repair: false, told_max: 10 };
        let audit = presence::audit(order, sides, &mut |_| {}).map_err(refused)?;
        let differing: u64 = audit.persistent.values().sum();
        if differing != expected || audit.online != self.online() {
            return Err(io::Error::other(format!("instead of {expected}: {audit:?}")));
        }
        Ok(audit)
    }

    /// One of the counters.
    pub fn counter(&self, name: &str) -> u64 {
        let counters = self.replicator.standing(at(0)).counters;
        counters.iter().find(|(its, ..)| *its == name).map_or(0, |(.., value)| *value)
    }
}

impl MemoryReader for Rig {
    fn entries(&self, buckets: Vec<u16>) -> Result<Vec<MemoryEntry>, DirectoryError> {
        match self.tracker.answer(&PresenceCommand::Buckets(buckets)) {
            PresenceAnswer::Entries(entries) => Ok(entries),
            other => Err(DirectoryError::Nonsense(format!("{other:?}"))),
        }
    }

    fn histories(
        &self,
        who: Vec<Principal>,
    ) -> Result<Vec<(Principal, Vec<Remembered>)>, DirectoryError> {
        match self.tracker.answer(&PresenceCommand::Histories(who)) {
            PresenceAnswer::Histories(histories) => Ok(histories),
            other => Err(DirectoryError::Nonsense(format!("{other:?}"))),
        }
    }

    fn compare(&self, _: u16, _: Arc<Vec<DirectoryEntry>>) -> Result<(), DirectoryError> {
        Err(DirectoryError::Refused("nothing is repaired here".into()))
    }
}

/// A directory's fault as the scenario's.
pub fn refused(fault: DirectoryError) -> io::Error {
    io::Error::other(fault.to_string())
}

/// Nanoseconds each.
pub fn nanos_each(span: Duration, count: u64) -> f64 {
    span.as_nanos() as f64 / count.max(1) as f64
}

/// CPU time of this thread.
pub fn worked() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}
