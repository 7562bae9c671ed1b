//! The measurement: stages that each hold one thing, and what the kernel says a stage costs.
//!
//! Each stage runs in a process of its own, since memory that one stage has given back would be
//! used again by the next. A stage's cost is the growth of its resident memory while it fills up.

use super::network::{Sparse, SparseNet};
use crate::simulation::product;
use base::hash::HashKey;
use base::index::Index;
use base::secret::ClusterSecret;
use broker::Broker;
use broker::routes::RouteSummary;
use hub::Hub;
use model::counters::PushCounter;
use model::id::ShardId;
use model::limits::{Limits, PushLimits};
use model::ports::access::{Admission, AllowAll, Question};
use model::ports::directory::{Batch, DirectoryError, Lease};
use model::ports::log::{Appended, Call, Completion, Done, Ticket, Write};
use model::presence::NodeName;
use model::service::{Event, ServiceKind};
use model::session::Denial;
use net::Shard;
use net::connection::ConnectionRecord;
use net::layer::{ListenEndpoint, ListenerSetup};
use net::shard::{Census, ShardMessageOf};
use net::transport::Net;
use presence::{Digests, PresenceTracker};
use server::machines::ListenerProfile;
use server::machines::ServerMachine;
use server::outside::Outside;
use server::shard_logic::{
    LogicParts, Mail, PeerBacklog, RunningService, ServerLogic, ShardPresence,
};
use std::cell::RefCell;
use std::mem::size_of;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Simulated seconds after the last Bind: short timers and pooled buffers come to rest.
const REST_S: u64 = 30;

/// What a stage holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoldStage {
    /// The sparse network's own memory.
    Network,
    /// An index of as many slots.
    Index,
    /// Everything: connections, machines and hub.
    Whole,
}

impl HoldStage {
    /// The stage of this name.
    pub fn named(name: &str) -> Option<HoldStage> {
        match name {
            "network" => Some(HoldStage::Network),
            "index" => Some(HoldStage::Index),
            "whole" => Some(HoldStage::Whole),
            _ => None,
        }
    }
}

/// The process's memory, bytes, from `/proc/self/smaps_rollup`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProcessMemory {
    /// Resident.
    pub rss: u64,
    /// Resident, shared pages counted by their share.
    pub pss: u64,
}

impl ProcessMemory {
    /// As it is now; zeros where the kernel does not tell.
    pub fn now() -> ProcessMemory {
        let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let of = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
            kilobytes.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1_024
        };
        ProcessMemory { rss: of("Rss:"), pss: of("Pss:") }
    }
}

/// What a stage held and what it cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoldMeasurement {
    /// Devices bound, or entries.
    pub count: u64,
    /// Before it began to fill up.
    pub before: ProcessMemory,
    /// When it was full.
    pub after: ProcessMemory,
    /// Bytes of a connection's record in its slab, the generation included.
    pub record_bytes: u64,
    /// Bytes that the server sent.
    pub sent: u64,
}

/// Fills a stage up with so many devices on so many shards.
pub fn hold(stage: HoldStage, devices: u32, shards: u16) -> HoldMeasurement {
    let record_bytes = size_of::<Option<ConnectionRecord<ServerMachine, u32>>>() as u64 + 4;
    let before = ProcessMemory::now();
    match stage {
        HoldStage::Network => {
            let sparse = Sparse::<()>::new(shards, devices, "sim");
            let after = ProcessMemory::now();
            let sent = sparse.sent;
            HoldMeasurement { count: u64::from(devices), before, after, record_bytes, sent }
        }
        HoldStage::Index => {
            let key = HashKey::new(1, 2);
            let hash = |slot: u32| key.of(&[&slot.to_be_bytes()]);
            let mut index = Index::default();
            (0..devices).for_each(|slot| index.insert(hash(slot), slot, hash));
            let after = ProcessMemory::now();
            HoldMeasurement { count: index.len() as u64, before, after, record_bytes, sent: 0 }
        }
        HoldStage::Whole => whole(devices, shards, record_bytes),
    }
}

/// Nobody listens, and what is to be stored is stored at once, nowhere.
#[derive(Default)]
struct Nothing {
    /// What the log answers before the shard's next turn.
    completed: Rc<RefCell<Vec<Completion>>>,
}

impl Outside for Nothing {
    fn call(&mut self, _: ServiceKind, calls: Vec<(Ticket, Call)>) -> Vec<Ticket> {
        let done = |call| match call {
            Call::Write(Write::Append(append)) => {
                let seqs = vec![1; append.to.len()];
                Done::Appended(Appended { new: true, id: append.message.id, seqs })
            }
            _ => Done::Written,
        };
        let completed = calls.into_iter().map(|(ticket, call)| (ticket, Ok(done(call))));
        self.completed.borrow_mut().extend(completed);
        Vec::new()
    }

    fn completed(&mut self, _: ServiceKind, _: &[Completion]) {}

    fn events_wanted(&self, _: ServiceKind) -> bool {
        false
    }

    fn publish(&mut self, _: Vec<Event>) -> usize {
        0
    }

    fn messages_wanted(&self) -> bool {
        false
    }

    fn resolve(&mut self, _: ServiceKind, _: u64, _: Box<Question>) -> Result<(), Admission> {
        // Nobody is asked: everybody is let in at once.
        Err(Admission::Refused(Denial::Unavailable))
    }

    fn copy(&mut self, _: Vec<Batch>) -> Result<(), DirectoryError> {
        Err(DirectoryError::Unreachable("there is no directory".into()))
    }
}

type HoldLogic = ServerLogic<Nothing>;
type HoldLetter = ShardMessageOf<HoldLogic, u32>;
type HoldShard = Shard<SparseNet<HoldLetter>, HoldLogic>;

fn whole(devices: u32, shards: u16, record_bytes: u64) -> HoldMeasurement {
    let shared = Rc::new(RefCell::new(Sparse::new(shards, devices, "sim")));
    let census = Arc::new(Census::default());
    let completed: Vec<_> = (0..shards).map(|_| Rc::<RefCell<Vec<_>>>::default()).collect();
    let all = completed.iter().zip(0..).map(|(completed, number)| {
        shard((number, completed.clone()), devices, (shards, &shared), &census)
    });
    let mut all: Vec<HoldShard> = all.collect();
    let before = ProcessMemory::now();
    let turn_all = |all: &mut Vec<HoldShard>| {
        for ((shard, completed), number) in all.iter_mut().zip(&completed).zip(0..) {
            let completed = std::mem::take(&mut *completed.borrow_mut());
            if !completed.is_empty() {
                shard
                    .handle_mut()
                    .post(ShardId(number), Mail::Completions(ServiceKind::Push, completed));
            }
            shard.turn();
        }
    };
    while !shared.borrow().all_called() {
        turn_all(&mut all);
    }
    for _ in 0..REST_S * 10 {
        shared.borrow_mut().pass(Duration::from_millis(100));
        turn_all(&mut all);
    }
    let after = ProcessMemory::now();
    let binds = all.iter().map(|shard| shard.logic().counters().of(PushCounter::Binds));
    let online = all.iter().map(|shard| shard.logic().service::<Hub>().status().online);
    let (binds, count): (u64, u64) = (binds.sum(), online.sum());
    assert_eq!((binds, count), (u64::from(devices), u64::from(devices)), "everybody is bound");
    assert_eq!(u64::from(census.open()), count, "and connected");
    let sent = shared.borrow().sent;
    HoldMeasurement { count, before, after, record_bytes, sent }
}

fn shard(
    (number, completed): (u16, Rc<RefCell<Vec<Completion>>>),
    devices: u32,
    (shards, shared): (u16, &Rc<RefCell<Sparse<HoldLetter>>>),
    census: &Arc<Census>,
) -> HoldShard {
    let limits = Arc::new(Limits {
        connections_max: devices,
        pushes: PushLimits { devices_max: devices + devices / 4 + 1_000, ..PushLimits::default() },
        binds_per_s: u32::MAX,
        ..Limits::default()
    });
    let hash_key = HashKey::new(3, 4);
    let door = ListenerSetup {
        paths: vec!["/miop".to_owned()],
        ..ListenerSetup::plain("hold", ListenEndpoint::Tcp(crate::simulation::ADDRESS))
    };
    let settings = net::Settings {
        shard: ShardId(number),
        shards,
        hash_key,
        limits: limits.clone(),
        doors: vec![Arc::new(door)],
        census: census.clone(),
        seed: 5,
    };
    let mut hub = Hub::new(hub::Settings {
        shard: settings.shard,
        shards: settings.shards,
        devices_max: limits.pushes.devices_max,
        offline_bytes_max: limits.pushes.offline_bytes_max,
        binds_per_s: limits.binds_per_s,
        secret: ClusterSecret::new([1; 32]),
        node_secret: [1; 32],
        limits,
        hash_key,
        home: hash_key,
        report_hooks: Vec::new(),
        seed: 6,
    });
    hub.install(Arc::new(product()));
    let broker = Broker::new(broker::Settings {
        shard: settings.shard,
        shards,
        limits: settings.limits.clone(),
        hash_key,
        home: hash_key,
        access: Arc::new(AllowAll),
        summary: RouteSummary::new(shards, hash_key),
        exclusives: Arc::default(),
        rewrites: None,
        auto_subscribes: None,
        seed: 7,
    });
    let profiles = vec![ListenerProfile::strict(settings.limits.bind_ms_max)].into();
    let shard_presence = shard_presence(&settings);
    let backlog = PeerBacklog::new(shards, &settings.limits);
    let services = vec![RunningService::boxed(hub), RunningService::boxed(broker)];
    let parts = LogicParts { services, backlog, profiles, shard_presence };
    let mut logic = HoldLogic::new(parts, &settings, Nothing { completed });
    let mut net = SparseNet { shared: shared.clone(), host: number };
    logic.restored(net.now());
    Shard::new(settings, net, logic)
}

/// Who is there, without a directory: as a server is that was not told of one.
fn shard_presence(settings: &net::Settings) -> ShardPresence {
    let lease = Lease { node: NodeName::parse("hold").expect("a name"), boot: 1 };
    let tracker = PresenceTracker::new(
        presence::Settings {
            shard: settings.shard,
            shards: settings.shards,
            home: settings.hash_key,
            lease,
            copies: false,
            history_max: 65_536,
            flush_ms: 10,
            seed: 8,
        },
        Digests::new(),
    );
    ShardPresence::new(tracker, None)
}
