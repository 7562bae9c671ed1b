//! The directory of a world, what befalls it, and the replicator of the server's present life.
//!
//! The server is one node of the directory. Another one takes principals as if they had called
//! there, and lets them go; calls fail before or after they were done, are slow, arrive late and in
//! another order; what was acknowledged is lost; a record is another than was written. It knows no
//! shard and no connection: what it is to tell shards waits as [`SimNotice`]s. Invariant: some time
//! after the last of it the directory has exactly who is online.

use base::prng::Prng;
use base::time::{Instant, Now};
use model::id::ShardId;
use model::ports::presence::directory::{
    Batch, Directory, DirectoryEntry, DirectoryError, Lease, Put,
};
use model::ports::presence::queries::{
    Audit, AuditOrder, Circuit, MemoryEntry, PresenceAnswer, PresenceCommand, PresenceStatus,
    Remembered,
};
use model::presence::{NodeName, PresenceRecord, PresenceVersion, Principal, VersionClock, bucket};
use presence::{
    AuditSides, Digests, FailedCall, MemoryReader, PresenceTracker, ReplicationSink, Replicator,
    ReplicatorSettings, Settings,
};
use presence::{MemoryDirectory, audit};
use server::shard_logic::{FiguresCell, Mail, ShardPresence};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Time whose writes a fail-over may lose, milliseconds.
const LOST_MS_MAX: u64 = 8_000;

/// The copies of a world.
pub struct SimReplicators {
    rng: Prng,
    table: MemoryDirectory,
    names: Vec<Box<str>>,
    life: Life,
    other: Other,
    /// How often something befell the directory.
    pub upsets: u64,
}

/// A life of the server.
struct Life {
    lease: Lease,
    shards: u16,
    link: MemoryDirectory,
    digests: Arc<Digests>,
    replicator: Replicator,
    due: Instant,
    words: VecDeque<(ShardId, SimNotice)>,
}

/// Notice for a shard.
#[derive(Clone)]
pub enum SimNotice {
    /// Results of the batches that it offered.
    Written(Result<Vec<Put>, DirectoryError>),
    /// The directory's entries of a bucket.
    Compare(u16, Arc<Vec<DirectoryEntry>>),
}

impl SimNotice {
    /// As a logic hears it.
    pub fn mail(self) -> Mail {
        match self {
            SimNotice::Written(result) => Mail::Written(result),
            SimNotice::Compare(bucket, stored) => Mail::Compare(bucket, stored),
        }
    }
}

/// Another node, and whom it has.
struct Other {
    lease: Lease,
    clock: VersionClock,
    has: BTreeSet<Box<str>>,
}

struct Words<'a>(&'a mut VecDeque<(ShardId, SimNotice)>, u16);

impl ReplicationSink for Words<'_> {
    fn written(&mut self, shard: ShardId, result: Result<Vec<Put>, DirectoryError>) {
        self.0.push_back((shard, SimNotice::Written(result)));
    }

    fn compare(&mut self, bucket: u16, stored: Arc<Vec<DirectoryEntry>>) {
        let all =
            (0..self.1).map(|shard| (ShardId(shard), SimNotice::Compare(bucket, stored.clone())));
        self.0.extend(all);
    }
}

/// The memory of a server: its trackers.
pub struct Keepers<'a>(pub Vec<&'a PresenceTracker>);

impl MemoryReader for Keepers<'_> {
    fn entries(&self, buckets: Vec<u16>) -> Result<Vec<MemoryEntry>, DirectoryError> {
        let command = PresenceCommand::Buckets(buckets);
        let answers = self.0.iter().map(|tracker| tracker.answer(&command));
        let entries = answers.flat_map(|answer| match answer {
            PresenceAnswer::Entries(entries) => entries,
            other => panic!("no entries: {other:?}"),
        });
        Ok(entries.collect())
    }

    fn histories(
        &self,
        who: Vec<Principal>,
    ) -> Result<Vec<(Principal, Vec<Remembered>)>, DirectoryError> {
        let command = PresenceCommand::Histories(who);
        let answers = self.0.iter().map(|tracker| tracker.answer(&command));
        let histories = answers.flat_map(|answer| match answer {
            PresenceAnswer::Histories(histories) => histories,
            other => panic!("no histories: {other:?}"),
        });
        Ok(histories.collect())
    }

    fn compare(&self, _: u16, _: Arc<Vec<DirectoryEntry>>) -> Result<(), DirectoryError> {
        Err(DirectoryError::Refused("nothing is repaired here".into()))
    }
}

impl Life {
    fn new(rng: &mut Prng, table: &MemoryDirectory, shards: u16) -> Life {
        let node = NodeName::parse("sim").expect("a name");
        let lease = Lease { node, boot: rng.draw() };
        let digests = Digests::new();
        let settings = ReplicatorSettings {
            background_s: 60,
            ..ReplicatorSettings::new(lease.clone(), shards, "process", rng.draw())
        };
        Life {
            replicator: Replicator::new(settings, digests.clone()),
            link: table.another(),
            due: Instant::default(),
            words: VecDeque::new(),
            lease,
            shards,
            digests,
        }
    }
}

impl SimReplicators {
    /// An empty directory; `names` are the keys of those who will be in it.
    pub fn new(seed: u64, names: Vec<Box<str>>) -> SimReplicators {
        let (mut rng, table) = (Prng::new(seed), MemoryDirectory::new());
        table.remember(LOST_MS_MAX);
        let life = Life::new(&mut rng, &table, 1);
        let node = NodeName::parse("other").expect("a name");
        let lease = Lease { node, boot: rng.draw() };
        let other = Other { lease, clock: VersionClock::default(), has: BTreeSet::new() };
        SimReplicators { rng, table, names, life, other, upsets: 0 }
    }

    /// The server's next life. Nobody said farewell for the last one.
    pub fn begin(&mut self, shards: u16) {
        self.life = Life::new(&mut self.rng, &self.table, shards);
    }

    /// Presence tracker and digests of one of its shards.
    pub fn shard_presence(&mut self, shard: ShardId, home: base::hash::HashKey) -> ShardPresence {
        let settings = Settings {
            shard,
            shards: self.life.shards,
            home,
            lease: self.life.lease.clone(),
            copies: true,
            history_max: 1_000,
            flush_ms: 10,
            seed: self.rng.draw(),
        };
        let tracker = PresenceTracker::new(settings, self.life.digests.clone());
        ShardPresence::new(tracker, None, FiguresCell::default())
    }

    /// A shard has this to be written.
    pub fn offer(&mut self, shard: ShardId, batches: Vec<Batch>) -> Result<(), DirectoryError> {
        self.life.replicator.offer(shard, batches);
        self.life.due = Instant::default();
        Ok(())
    }

    /// Lets the replicator do what is due.
    pub fn turn(&mut self, now: Now) {
        self.table.tell(now.mono.millis());
        let Life { replicator, link, words, shards, due, .. } = &mut self.life;
        if now.mono >= *due {
            *due = replicator.turn(now, link, &mut Words(words, *shards));
        }
    }

    /// Takes the notices for shards, each in its order.
    pub fn words(&mut self) -> VecDeque<(ShardId, SimNotice)> {
        std::mem::take(&mut self.life.words)
    }

    /// Puts back notices that found no room: they go before anything else.
    pub fn words_again(&mut self, mut words: VecDeque<(ShardId, SimNotice)>) {
        words.append(&mut self.life.words);
        self.life.words = words;
    }

    /// Whether something is to befall the directory now, once in so many times.
    pub fn strikes(&mut self, once_in: u64) -> bool {
        once_in != 0 && self.rng.one_in(once_in)
    }

    /// Causes a fault of the directory.
    pub fn upset(&mut self, now: Now) {
        self.upsets += 1;
        let link = self.life.link.clone();
        let name = self.names[self.rng.below(self.names.len() as u64) as usize].clone();
        match self.rng.below(14) {
            0 | 1 => {
                let done = if self.rng.one_in(2) { FailedCall::Before } else { FailedCall::After };
                let fault = match self.rng.below(3) {
                    0 => DirectoryError::Slow,
                    1 => DirectoryError::Unreachable("the simulation says so".into()),
                    _ => DirectoryError::Refused("LOADING".into()),
                };
                link.fail(1 + self.rng.below(4) as u32, fault, done);
            }
            2 => link.pause(true),
            3 => link.hold_back(true),
            4 => link.deliver(),
            5 => link.refuse(bucket(&name), true),
            6 => self.table.flush(),
            7 => self.table.lose(self.rng.below(LOST_MS_MAX)),
            8 => self.tamper(&name),
            9 | 10 => self.take(now, &name),
            11 => self.let_go(now, &name),
            _ => self.heal(),
        }
    }

    /// All is well from now on. Principals of the other node are let go.
    pub fn clear(&mut self, now: Now) {
        self.heal();
        for name in self.other.has.clone() {
            self.let_go(now, &name);
        }
        self.table.another().release(&self.other.lease).expect("this connection is well");
    }

    /// Whether nothing is on its way and nothing is in doubt.
    pub fn is_settled(&self, now: Now) -> bool {
        let standing = self.life.replicator.standing(now);
        let well = standing.circuit == Circuit::Closed && standing.resync_left == 0;
        well && standing.unwritten == 0 && self.life.words.is_empty()
    }

    /// Whether memory and directory agree: by the audit, and by what hubs and brokers know, of
    /// whom these are online. Each is so in the directory, with no lower version, and nobody else.
    pub fn agrees(&self, trackers: &Keepers<'_>, known: &[PresenceStatus]) -> bool {
        let (audit, copied) = (self.audit(trackers), self.online());
        let is_copied = |found: &PresenceStatus| {
            copied.get(&found.who.key()).is_some_and(|&version| version >= found.version)
        };
        let count = known.len();
        let counts = (audit.differing, audit.online, copied.len()) == (0, count as u64, count);
        counts && known.iter().all(is_copied)
    }

    /// Compares memory and directory. Nobody waits: it is for a time at which all is settled.
    pub fn audit(&self, trackers: &Keepers<'_>) -> Audit {
        let order = AuditOrder { settle_ms: 0, repair: false, told_max: 8 };
        let Life { lease, digests, .. } = &self.life;
        let directory = &mut self.table.another();
        let sides = AuditSides { lease, digests, memory: trackers, directory };
        audit(order, sides, &mut |_| {}).expect("this connection is well")
    }

    /// Principals that are online in this life, as the directory says.
    pub fn online(&self) -> BTreeMap<Box<str>, PresenceVersion> {
        let Lease { node, boot } = &self.life.lease;
        let all = self.table.all().into_iter();
        let own = all.filter(|(_, it)| it.online && it.node == *node && it.boot == *boot);
        own.map(|(key, record)| (key, record.version)).collect()
    }

    /// Description of the state, for a failed test.
    pub fn describe(&self, now: Now) -> String {
        format!("{:?} words {}", self.life.replicator.standing(now), self.life.words.len())
    }

    fn heal(&mut self) {
        let link = &self.life.link;
        link.heal();
        link.pause(false);
        link.hold_back(false);
        link.deliver();
    }

    /// The directory lies.
    fn tamper(&mut self, name: &str) {
        let mut table = self.table.another();
        let known = table.find(&[name.into()]).expect("this connection is well").pop().flatten();
        let record = match self.rng.below(4) {
            0 => None,
            1 => known.map(|known| PresenceRecord { online: !known.online, ..known }),
            2 => known.map(|known| PresenceRecord {
                version: PresenceVersion(known.version.0.saturating_sub(9)),
                ..known
            }),
            _ => known.map(|known| {
                let Lease { node, boot } = self.life.lease.clone();
                let ahead = PresenceVersion(known.version.0 + (self.rng.below(60_000) << 22));
                PresenceRecord { online: true, node, boot, version: ahead, ..known }
            }),
        };
        self.table.tamper(name, record);
    }

    /// The principal calls at the other node.
    fn take(&mut self, now: Now, name: &str) {
        let taken = self.put(now, name, true);
        if taken {
            self.other.has.insert(name.into());
        }
    }

    /// Has the other node let go of a principal.
    fn let_go(&mut self, now: Now, name: &str) {
        if self.other.has.remove(name) {
            self.put(now, name, false);
        }
    }

    fn put(&mut self, now: Now, name: &str, online: bool) -> bool {
        let mut table = self.table.another();
        table.lease(&self.other.lease, 15_000).expect("this connection is well");
        let Lease { node, boot } = self.other.lease.clone();
        let known = table.find(&[name.into()]).expect("this connection is well").pop().flatten();
        known.iter().for_each(|known| self.other.clock.observe(known.version));
        let version = self.other.clock.next(now.wall_ms);
        let record =
            PresenceRecord { version, online, node, boot, detail: "elsewhere".into(), user: None };
        let batch = Batch { bucket: bucket(name), entries: vec![(name.into(), record)] };
        table.put(&[batch]).expect("this connection is well") == [Put::Taken]
    }
}
