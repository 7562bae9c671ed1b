//! Nodes with several shards each over one [`MemoryDirectory`], in simulated time.
//!
//! Each node is what the roof builds: trackers, one replicator, mail between them. The world plays
//! hub and house: it draws versions, ends the connections that trackers call stale, and knows who
//! is connected where, which is the truth that everything is judged by. Time leaps from one due
//! moment to the next; a directory's call takes the time that its connection says.

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
    NodeName, OnlineState, PresenceRecord, PresenceVersion, Principal, Transition, VersionClock,
    bucket,
};
use presence::{AuditSides, MemoryDirectory, Settings, audit, owner};
use presence::{
    Digests, Effects, MemoryReader, PresenceTracker, ReplicationSink, Replicator,
    ReplicatorSettings,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The wall clock at the beginning, Unix milliseconds.
pub const BEGAN_MS: u64 = 1_800_000_000_000;
/// Shards of a node.
const SHARDS: u16 = 3;
const PROTOCOL: &str = "miop7";

/// Message in a shard's mailbox.
enum Mail {
    Written(Result<Vec<Put>, DirectoryError>),
    Compare(u16, Arc<Vec<DirectoryEntry>>),
}

struct Shard {
    tracker: PresenceTracker,
    clock: VersionClock,
    mail: VecDeque<Mail>,
    due_ms: Option<u64>,
}

/// A server.
pub struct Node {
    pub lease: Lease,
    /// Its connection to the directory.
    pub link: MemoryDirectory,
    pub digests: Arc<Digests>,
    /// Principals connected here, each with the version of that transition.
    pub online: BTreeMap<Principal, PresenceVersion>,
    /// Connections ended because another node has the principal.
    pub outvoted: Vec<Principal>,
    /// Most that ever waited to be written.
    pub unwritten_max: u64,
    /// Milliseconds that its wall clock is ahead.
    pub ahead_ms: i64,
    /// Whether its process stands still.
    pub stopped: bool,
    shards: Vec<Shard>,
    replicator: Replicator,
    home: HashKey,
    due_ms: u64,
    busy_until_ms: u64,
}

struct ShardReplies<'a>(&'a mut [Shard]);

impl ReplicationSink for ShardReplies<'_> {
    fn written(&mut self, shard: ShardId, result: Result<Vec<Put>, DirectoryError>) {
        self.0[usize::from(shard.0)].mail.push_back(Mail::Written(result));
    }

    fn compare(&mut self, bucket: u16, stored: Arc<Vec<DirectoryEntry>>) {
        for shard in &mut *self.0 {
            shard.mail.push_back(Mail::Compare(bucket, Arc::clone(&stored)));
        }
    }
}

impl Node {
    fn new(
        name: &str,
        table: &MemoryDirectory,
        settings: &dyn Fn(&mut ReplicatorSettings),
        seed: u64,
    ) -> Node {
        let mut prng = Prng::new(seed);
        let node = NodeName::parse(name).expect("a node's name");
        let lease = Lease { node, boot: prng.draw() };
        let home = HashKey::new(prng.draw(), prng.draw());
        let digests = Digests::new();
        let shard = |shard| Shard {
            tracker: PresenceTracker::new(
                Settings {
                    shard: ShardId(shard),
                    shards: SHARDS,
                    home,
                    lease: lease.clone(),
                    copies: true,
                    history_max: 65_536,
                    flush_ms: 10,
                    seed: seed + u64::from(shard),
                },
                Arc::clone(&digests),
            ),
            clock: VersionClock::default(),
            mail: VecDeque::new(),
            due_ms: None,
        };
        let mut chosen = ReplicatorSettings::new(lease.clone(), SHARDS, "process", prng.draw());
        settings(&mut chosen);
        Node {
            shards: (0..SHARDS).map(shard).collect(),
            replicator: Replicator::new(chosen, Arc::clone(&digests)),
            link: table.another(),
            online: BTreeMap::new(),
            outvoted: Vec::new(),
            unwritten_max: 0,
            ahead_ms: 0,
            stopped: false,
            due_ms: 0,
            busy_until_ms: 0,
            lease,
            digests,
            home,
        }
    }

    fn now(&self, ms: u64) -> Now {
        let wall_ms = (BEGAN_MS + ms).saturating_add_signed(self.ahead_ms);
        Now::new(Instant::from_nanos(ms * 1_000_000), wall_ms)
    }

    fn shard(&self, who: &Principal) -> usize {
        usize::from(owner(self.home, SHARDS, who).0)
    }

    fn say(
        &mut self,
        ms: u64,
        who: &Principal,
        state: OnlineState,
        version: Option<PresenceVersion>,
    ) -> PresenceVersion {
        let (now, at) = (self.now(ms), self.shard(who));
        let shard = &mut self.shards[at];
        let drawn = || shard.clock.next(now.wall_ms);
        let version = version.unwrap_or_else(drawn);
        let who = who.clone();
        shard.tracker.note(
            now,
            Transition { who, user: None, state, protocol: PROTOCOL, peer: None, version },
        );
        shard.due_ms = Some(ms);
        version
    }

    fn connect(&mut self, ms: u64, who: &Principal) {
        if self.online.contains_key(who) {
            self.say(ms, who, OnlineState::Offline(CloseReason::Replaced), None);
        }
        let version = self.say(ms, who, OnlineState::Online(PROTOCOL), None);
        self.online.insert(who.clone(), version);
    }

    fn disconnect(&mut self, ms: u64, who: &Principal, reason: CloseReason) {
        if self.online.remove(who).is_some() {
            self.say(ms, who, OnlineState::Offline(reason), None);
        }
    }

    /// When something is due here.
    fn due_ms(&self) -> u64 {
        if self.stopped {
            return u64::MAX;
        }
        let shards = self.shards.iter().filter_map(|shard| match shard.mail.is_empty() {
            true => shard.due_ms,
            false => Some(0),
        });
        shards.chain([self.due_ms.max(self.busy_until_ms)]).min().expect("a copyist is there")
    }

    fn turn(&mut self, ms: u64) {
        let now = self.now(ms);
        let mut outvoted = Vec::new();
        for at in 0..self.shards.len() {
            let shard = &mut self.shards[at];
            let mut fx = Effects::default();
            while let Some(mail) = shard.mail.pop_front() {
                match mail {
                    Mail::Written(result) => shard.tracker.written(now, result, &mut fx),
                    Mail::Compare(bucket, stored) => {
                        shard.tracker.compare(now, bucket, &stored, &mut fx);
                    }
                }
            }
            shard.due_ms = shard.tracker.turn(now, &mut fx).map(|due| ms_of(due).max(ms + 1));
            if let Some(seen) = fx.observed {
                shard.clock.observe(seen);
            }
            outvoted.append(&mut fx.outvoted);
            if !fx.batches.is_empty() {
                self.replicator.offer(ShardId(at as u16), fx.batches);
                self.due_ms = ms;
            }
        }
        for (who, _) in outvoted {
            if let Some(version) = self.online.remove(&who) {
                let behind = Some(PresenceVersion(version.0 + 1));
                self.say(ms, &who, OnlineState::Offline(CloseReason::Replaced), behind);
                self.outvoted.push(who);
            }
        }
        self.unwritten_max = self.unwritten_max.max(self.digests.unwritten());
        if ms >= self.due_ms && ms >= self.busy_until_ms {
            let mut sink = ShardReplies(&mut self.shards);
            let due = self.replicator.turn(now, &mut self.link, &mut sink);
            self.busy_until_ms = ms + self.link.took_ms();
            self.due_ms = ms_of(due).max(ms + 1);
        }
    }

    /// Status of the replicator.
    pub fn standing(&self, ms: u64) -> ReplicationStatus {
        self.replicator.standing(self.now(ms))
    }

    /// One of the counters.
    pub fn counter(&self, name: &str) -> u64 {
        let standing = self.replicator.standing(self.now(0));
        let counter = standing.counters.iter().find(|(its, ..)| *its == name);
        counter.unwrap_or_else(|| panic!("there is no counter {name}")).2
    }

    fn ask(&self, command: &PresenceCommand) -> Vec<PresenceAnswer> {
        self.shards.iter().map(|shard| shard.tracker.answer(command)).collect()
    }
}

fn ms_of(at: Instant) -> u64 {
    at.nanos().div_ceil(1_000_000)
}

/// Nodes, a directory, and time.
pub struct PresenceHarness {
    pub ms: u64,
    pub nodes: Vec<Node>,
    /// A connection of nobody's, for orders and for looking.
    pub table: MemoryDirectory,
    pub prng: Prng,
    seed: u64,
}

impl PresenceHarness {
    /// `names` are nodes with the replicator's defaults.
    pub fn new(names: &[&str], seed: u64) -> PresenceHarness {
        PresenceHarness::with(names, seed, &|_| {})
    }

    /// Nodes whose replicators are set so.
    pub fn with(
        names: &[&str],
        seed: u64,
        settings: &dyn Fn(&mut ReplicatorSettings),
    ) -> PresenceHarness {
        let table = MemoryDirectory::new();
        let mut world =
            PresenceHarness { ms: 0, nodes: Vec::new(), table, prng: Prng::new(seed), seed };
        names.iter().for_each(|name| world.start(name, settings));
        world.run(100);
        world
    }

    /// Another start of a node, or another node.
    pub fn start(&mut self, name: &str, settings: &dyn Fn(&mut ReplicatorSettings)) {
        self.seed += 1_000;
        let mut node = Node::new(name, &self.table, settings, self.seed);
        node.due_ms = self.ms;
        self.nodes.push(node);
    }

    /// A process is gone, without farewell.
    pub fn kill(&mut self, node: usize) -> Node {
        self.nodes.remove(node)
    }

    pub fn connect(&mut self, node: usize, who: &Principal) {
        self.nodes[node].connect(self.ms, who);
    }

    pub fn disconnect(&mut self, node: usize, who: &Principal) {
        self.nodes[node].disconnect(self.ms, who, CloseReason::KeepAliveTimeout);
    }

    /// The end of an old connection is told after the newer one's beginning.
    pub fn tell_late(&mut self, node: usize, who: &Principal, version: PresenceVersion) {
        let state = OnlineState::Offline(CloseReason::PeerReset);
        self.nodes[node].say(self.ms, who, state, Some(version));
    }

    /// A connection of `who` comes or goes at that node.
    pub fn flap(&mut self, node: usize, who: &Principal) {
        match self.nodes[node].online.contains_key(who) {
            true => self.disconnect(node, who),
            false => self.connect(node, who),
        }
    }

    /// Lets so much time pass.
    pub fn run(&mut self, ms: u64) {
        let until = self.ms + ms;
        while self.ms < until {
            let due = self.nodes.iter().map(Node::due_ms).min().unwrap_or(until);
            self.ms = due.clamp(self.ms + 1, until);
            self.table.tell(self.ms);
            for node in &mut self.nodes {
                if node.due_ms() <= self.ms {
                    node.turn(self.ms);
                }
            }
        }
    }

    /// Runs until nothing is unwritten and nothing is owed, and says how long that took; panics if
    /// it takes longer than said.
    pub fn settle(&mut self, ms_max: u64) -> u64 {
        let began = self.ms;
        let settled = |world: &PresenceHarness| {
            world.nodes.iter().all(|node| {
                let standing = node.standing(world.ms);
                standing.unwritten == 0 && standing.resync_left == 0
            })
        };
        loop {
            self.run(50);
            if settled(self) {
                return self.ms - began;
            }
            let standing = self.nodes.iter().map(|node| node.standing(self.ms));
            let told: Vec<_> =
                standing.map(|it| (it.unwritten, it.resync_left, it.fault)).collect();
            assert!(self.ms - began <= ms_max, "not settled after {ms_max} ms: {told:?}");
        }
    }

    /// Lease of the node on which the directory says that `who` is online, by records and leases.
    pub fn stored(&self, who: &Principal) -> Option<Lease> {
        let mut table = self.table.another();
        let record = table.find(&[who.key()]).expect("it is not broken").remove(0)?;
        let lease = Lease { node: record.node, boot: record.boot };
        let nodes = table.nodes().expect("it is not broken");
        (record.online && nodes.contains(&lease)).then_some(lease)
    }

    /// The directory's record of `who`.
    pub fn record(&self, who: &Principal) -> Option<PresenceRecord> {
        self.table.another().find(&[who.key()]).expect("it is not broken").remove(0)
    }

    /// Compares a node's memory with the directory as operators do.
    pub fn audit(&mut self, node: usize, order: AuditOrder) -> Audit {
        let lease = self.nodes[node].lease.clone();
        let digests = Arc::clone(&self.nodes[node].digests);
        let mut directory = self.table.another();
        let world = RefCell::new(&mut *self);
        let memory = Asked { world: &world, node };
        let sides = AuditSides {
            lease: &lease,
            digests: &digests,
            memory: &memory,
            directory: &mut directory,
        };
        audit(order, sides, &mut |ms| world.borrow_mut().run(ms)).expect("it is not broken")
    }

    /// Memory and directory agree on everybody: by audit, and by the truth.
    pub fn assert_agrees(&mut self) {
        for node in 0..self.nodes.len() {
            let order = AuditOrder { settle_ms: 1_000, repair: false, told_max: 10 };
            let audit = self.audit(node, order);
            assert_eq!(audit.online, self.nodes[node].online.len() as u64, "node {node}");
            assert!(audit.persistent.is_empty(), "node {node}: {audit:#?}");
        }
        let leases = self.table.another().nodes().expect("it is not broken");
        let mut claimed: BTreeMap<Box<str>, Lease> = BTreeMap::new();
        for node in &self.nodes {
            for who in node.online.keys() {
                let twice = claimed.insert(who.key(), node.lease.clone());
                assert_eq!(twice, None, "{} is connected to two nodes", who.key());
            }
        }
        let mut stored: BTreeMap<Box<str>, Lease> = BTreeMap::new();
        for (key, record) in self.table.all() {
            let lease = Lease { node: record.node.clone(), boot: record.boot };
            if record.online && leases.contains(&lease) {
                stored.insert(key, lease);
            }
        }
        assert_eq!(claimed, stored);
    }

    /// Connections that were ended because of presence, on all nodes.
    pub fn outvoted(&self) -> usize {
        self.nodes.iter().map(|node| node.outvoted.len()).sum()
    }
}

/// A node's memory, as the office asks it.
struct Asked<'a, 'b> {
    world: &'a RefCell<&'b mut PresenceHarness>,
    node: usize,
}

impl MemoryReader for Asked<'_, '_> {
    fn entries(&self, buckets: Vec<u16>) -> Result<Vec<MemoryEntry>, DirectoryError> {
        let answers = self.world.borrow().nodes[self.node].ask(&PresenceCommand::Buckets(buckets));
        let entries = answers.into_iter().flat_map(|answer| match answer {
            PresenceAnswer::Entries(entries) => entries,
            other => panic!("{other:?}"),
        });
        Ok(entries.collect())
    }

    fn histories(
        &self,
        who: Vec<Principal>,
    ) -> Result<Vec<(Principal, Vec<Remembered>)>, DirectoryError> {
        let answers = self.world.borrow().nodes[self.node].ask(&PresenceCommand::Histories(who));
        let histories = answers.into_iter().flat_map(|answer| match answer {
            PresenceAnswer::Histories(histories) => histories,
            other => panic!("{other:?}"),
        });
        Ok(histories.collect())
    }

    fn compare(&self, bucket: u16, stored: Arc<Vec<DirectoryEntry>>) -> Result<(), DirectoryError> {
        ShardReplies(&mut self.world.borrow_mut().nodes[self.node].shards).compare(bucket, stored);
        Ok(())
    }
}

/// So many devices.
pub fn devices(count: usize) -> Vec<Principal> {
    (0..count).map(device).collect()
}

/// A device.
pub fn device(number: usize) -> Principal {
    Principal::parse(&format!("demo#device-{number}")).expect("a device's key")
}

/// Some device that lies in that bucket, and is none of [`devices`].
pub fn device_in(wanted: u16) -> Principal {
    let mut tried = (1_000_000..).map(device);
    tried.find(|who| bucket(&who.key()) == wanted).expect("every bucket has some")
}
