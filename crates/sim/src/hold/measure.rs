//! The measurement: stages that each hold one thing, and what the kernel says a stage costs.
//!
//! Each stage runs in a process of its own, since memory that one stage has given back would be
//! used again by the next. A stage's cost is the growth of its resident memory while it fills up.

use super::network::{HoldProtocol, Sparse, SparseNet, StormTally};
use crate::simulation::product;
use base::hash::HashKey;
use base::index::Index;
use base::secret::ClusterSecret;
use broker::Broker;
use broker::routes::RouteSummary;
use chat::{ChatService, PushPolicy};
use hub::Hub;
use model::id::{NodeId, ShardId};
use model::limits::{ChatLimits, Limits, PushLimits, TopicLimits};
use model::ports::access::AllowAll;
use model::ports::control::Status;
use model::ports::lead::LeadProof;
use model::ports::log::{
    Appended, Call, Completion, Done, Page, Read, Ticket, TimelineStatus, Write,
};
use model::ports::presence::directory::{Batch, DirectoryError, Lease};
use model::presence::NodeName;
use model::service::{Event, Service, ServiceKind};
use net::Shard;
use net::connection::ConnectionRecord;
use net::layer::{ListenEndpoint, ListenerSetup};
use net::shard::{Census, ShardMessageOf};
use net::transport::Net;
use presence::{Digests, PresenceTracker};
use server::machines::DoorProfile;
use server::machines::ServerMachine;
use server::shard_logic::outside::Outside;
use server::shard_logic::{
    FiguresCell, LogicParts, Mail, PeerBacklog, RunningService, ServerLogic, ShardPresence,
};
use std::cell::RefCell;
use std::mem::size_of;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Simulated seconds after the last Bind: short timers and pooled buffers come to rest.
const REST_S: u64 = 30;

/// Content of a stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoldStage {
    /// The sparse network's own memory.
    Network,
    /// An index of as many slots.
    Index,
    /// The whole server: connections, machines and hub.
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

/// Result of a stage: its content and its cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoldMeasurement {
    /// Clients there, or entries.
    pub count: u64,
    /// Memory before the stage began.
    pub before: ProcessMemory,
    /// When it was full.
    pub after: ProcessMemory,
    /// Bytes of a connection's record in its slab, the generation included.
    pub record_bytes: u64,
    /// Bytes that the server sent.
    pub sent: u64,
}

/// Clients to hold, and the number of shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoldPlan {
    /// Protocol of the clients.
    pub protocol: HoldProtocol,
    /// How many there are.
    pub clients: u32,
    /// Shards of the server.
    pub shards: u16,
}

/// Fills a stage up.
pub fn hold(stage: HoldStage, plan: HoldPlan) -> HoldMeasurement {
    let record_bytes = size_of::<Option<ConnectionRecord<ServerMachine, u32>>>() as u64 + 4;
    let before = ProcessMemory::now();
    match stage {
        HoldStage::Network => {
            let protocol = (plan.protocol, "sim");
            let sparse = Sparse::<()>::new(plan.shards, plan.clients, protocol, false);
            let after = ProcessMemory::now();
            let sent = sparse.sent;
            HoldMeasurement { count: u64::from(plan.clients), before, after, record_bytes, sent }
        }
        HoldStage::Index => {
            let key = HashKey::new(1, 2);
            let hash = |slot: u32| key.of(&[&slot.to_be_bytes()]);
            let mut index = Index::default();
            (0..plan.clients).for_each(|slot| index.insert(hash(slot), slot, hash));
            let after = ProcessMemory::now();
            HoldMeasurement { count: index.len() as u64, before, after, record_bytes, sent: 0 }
        }
        HoldStage::Whole => {
            let limits = Limits { binds_per_s: u32::MAX, ..Limits::default() };
            let mut held = HeldServer::new(plan, &limits, false);
            let before = ProcessMemory::now();
            held.fill();
            let after = ProcessMemory::now();
            let count = held.count();
            let sent = held.shared.borrow().sent;
            HoldMeasurement { count, before, after, record_bytes, sent }
        }
    }
}

/// Number of other clients that ping in a round of turns while a storm goes on.
const PINGS: u32 = 16;

/// Rounds of turns after which a storm is given up: more than an hour.
const ROUNDS_MAX: u32 = 4_000_000;

/// Holds all of a plan's clients; then the connections of so many end at once, and these call again
/// while the others ping. `limits` pace the logins; those of numbers are the plan's.
pub fn storm(plan: HoldPlan, cut: u32, limits: &Limits) -> StormTally {
    let mut held = HeldServer::new(plan, limits, true);
    held.fill();
    let began = held.now();
    held.shared.borrow_mut().cut(cut);
    let others = plan.clients - cut;
    let mut next = 0;
    for _ in 0..ROUNDS_MAX {
        for _ in 0..PINGS.min(others) {
            held.shared.borrow_mut().ping(cut + next % others);
            next += 1;
        }
        held.turn();
        let all_back = |tally: StormTally| tally.back >= u64::from(cut);
        if held.tally().is_none_or(all_back) {
            break;
        }
    }
    let ms = (held.now() - began).as_millis() as u64;
    // Who pinged last is answered in the turns that follow.
    (0..8).for_each(|_| held.turn());
    assert_eq!(held.count(), u64::from(plan.clients), "everybody is back");
    StormTally { ms, ..held.tally().unwrap_or_default() }
}

/// Answers of a shard's log.
type Answers = Rc<RefCell<Vec<(ServiceKind, Completion)>>>;

/// Outside of a server without listeners or storage: calls to the log are completed at once, and
/// there is nothing to read.
#[derive(Default)]
struct Nothing {
    /// Answers of the log before the shard's next turn.
    completed: Answers,
}

impl Outside for Nothing {
    fn call(&mut self, service: ServiceKind, calls: Vec<(Ticket, Call)>) -> Vec<Ticket> {
        let done = |call| match call {
            Call::Write(Write::Append(append)) => {
                let seqs = vec![1; append.to.len()];
                Done::Appended(Appended { new: true, id: append.message.id, seqs })
            }
            Call::Write(Write::AppendWith(with)) => {
                let seqs = vec![1; with.append.to.len()];
                Done::Appended(Appended { new: true, id: with.append.message.id, seqs })
            }
            Call::Write(_) => Done::Written,
            Call::Read(Read::Pull(_)) => {
                Done::Page(Page { messages: Vec::new(), damaged: Vec::new(), more: false })
            }
            Call::Read(Read::Standing { .. }) => Done::Standing(TimelineStatus::default()),
            Call::Read(Read::Roster(_)) => Done::Roster(None),
            Call::Read(Read::Row { .. }) => Done::Row(None),
            Call::Read(Read::Rows { .. }) => Done::Rows(Vec::new()),
        };
        let completed = calls.into_iter().map(|(ticket, call)| (service, (ticket, Ok(done(call)))));
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

    fn copy(&mut self, _: Vec<Batch>) -> Result<(), DirectoryError> {
        Err(DirectoryError::Unreachable("there is no directory".into()))
    }
}

type HoldLogic = ServerLogic<Nothing>;
type HoldMessage = ShardMessageOf<HoldLogic, u32>;
type HoldShard = Shard<SparseNet<HoldMessage>, HoldLogic>;

/// A server over the sparse network.
struct HeldServer {
    plan: HoldPlan,
    shared: Rc<RefCell<Sparse<HoldMessage>>>,
    shards: Vec<HoldShard>,
    completed: Vec<Answers>,
    census: Arc<Census>,
}

impl HeldServer {
    fn new(plan: HoldPlan, limits: &Limits, storms: bool) -> HeldServer {
        let HoldPlan { protocol, clients, shards } = plan;
        let shared = Sparse::new(shards, clients, (protocol, "sim"), storms);
        let (shared, census) = (Rc::new(RefCell::new(shared)), Arc::new(Census::default()));
        let completed: Vec<Answers> = (0..shards).map(|_| Answers::default()).collect();
        let summary = RouteSummary::new(shards, HASH_KEY);
        let all = completed.iter().zip(0..).map(|(completed, number)| {
            let of = SharedOfAll { shared: &shared, census: &census, summary: &summary };
            shard((number, completed.clone()), (plan, limits), of)
        });
        let all = all.collect();
        HeldServer { plan, shards: all, shared, completed, census }
    }

    /// A turn of each shard.
    fn turn(&mut self) {
        for ((shard, completed), number) in self.shards.iter_mut().zip(&self.completed).zip(0..) {
            for (service, completion) in std::mem::take(&mut *completed.borrow_mut()) {
                let mail = Mail::Completions(service, vec![completion]);
                shard.handle_mut().post(ShardId(number), mail);
            }
            shard.turn();
        }
    }

    /// Lets everybody come, and rest.
    fn fill(&mut self) {
        while !self.shared.borrow().all_called() || self.count() < u64::from(self.plan.clients) {
            self.turn();
        }
        for _ in 0..REST_S * 10 {
            self.shared.borrow_mut().pass(Duration::from_millis(100));
            self.turn();
        }
    }

    /// Clients that are there as they are to be.
    fn count(&self) -> u64 {
        let of = |shard: &HoldShard| match self.plan.protocol {
            HoldProtocol::Miop => shard.logic().service::<Hub>().status().online,
            HoldProtocol::Mqtt => {
                let mut status = Status::default();
                shard.logic().service::<Broker>().status(&mut status);
                status.sessions_online.min(status.subscriptions)
            }
            HoldProtocol::Im => {
                let mut status = Status::default();
                shard.logic().service::<ChatService>().status(&mut status);
                status.chat_sessions
            }
        };
        let count: u64 = self.shards.iter().map(of).sum();
        count.min(self.census.open().into())
    }

    fn now(&self) -> Duration {
        self.shared.borrow().now()
    }

    fn tally(&self) -> Option<StormTally> {
        self.shared.borrow().storm.as_ref().map(|storm| storm.tally)
    }
}

/// The key of tables and homes.
const HASH_KEY: HashKey = HashKey::new(3, 4);

/// State that the shards of a server share.
#[derive(Clone, Copy)]
struct SharedOfAll<'a> {
    shared: &'a Rc<RefCell<Sparse<HoldMessage>>>,
    census: &'a Arc<Census>,
    summary: &'a Arc<RouteSummary>,
}

fn shard(
    (number, completed): (u16, Answers),
    (plan, limits): (HoldPlan, &Limits),
    SharedOfAll { shared, census, summary }: SharedOfAll<'_>,
) -> HoldShard {
    let HoldPlan { clients, shards, .. } = plan;
    let room = clients + clients / 4 + 1_000;
    let limits = Arc::new(Limits {
        connections_max: clients,
        pushes: PushLimits { devices_max: room, ..PushLimits::default() },
        topics: TopicLimits { sessions_max: room, ..TopicLimits::default() },
        chat: ChatLimits { sessions_max: room, ..ChatLimits::default() },
        ..limits.clone()
    });
    let hash_key = HASH_KEY;
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
        secrets: [number as u8; 32],
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
        platforms: [].into(),
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
        summary: summary.clone(),
        exclusives: Arc::default(),
        rewrites: None,
        auto_subscribes: None,
        chat_domain: None,
        seed: 7,
        secrets: [number as u8; 32],
        lead_proof: LeadProof::default(),
    });
    let chat = ChatService::new(chat::Settings {
        shard: settings.shard,
        shards,
        node: NodeId::ALONE,
        limits: settings.limits.clone(),
        home: hash_key,
        access: Arc::new(AllowAll),
        push: PushPolicy::default(),
        domain: "localhost".into(),
        adding: model::chat::Adding::Everybody,
        foreign: Arc::default(),
        log_bytes: 0,
        reviews: None,
        book: chat::BookPolicy::default(),
        words: Arc::default(),
        media: None,
        bookmarks: None,
    });
    let profiles = vec![DoorProfile::strict(settings.limits.bind_ms_max, "localhost")].into();
    let shard_presence = shard_presence(&settings);
    let backlog = PeerBacklog::new(shards, &settings.limits);
    let services = vec![
        RunningService::boxed(hub),
        RunningService::boxed(broker),
        RunningService::boxed(chat),
    ];
    let parts = LogicParts { services, backlog, profiles, shard_presence };
    let mut logic = HoldLogic::new(parts, &settings, Nothing { completed });
    let mut net = SparseNet { shared: shared.clone(), host: number };
    logic.restored(net.now());
    Shard::new(settings, net, logic)
}

/// Presence of a shard without a directory: as of a server without one.
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
    ShardPresence::new(tracker, None, FiguresCell::default())
}
