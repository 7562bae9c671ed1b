//! Construction of a world, at its beginning and after a crash.

use super::outside::Feed;
use super::{Server, SimLogic, SimOutside, Simulation};
use crate::application::Application;
use crate::copies::SimReplicators;
use crate::disk::{DiskFaults, HOME, SimDisk, report_timeline};
use crate::fabric::Fabric;
use crate::net::SimNet;
use crate::post::SimMailboxes;
use crate::virtual_clients::ClientLogic;
use crate::weather::Weather;
use base::hash::HashKey;
use base::prng::Prng;
use base::secret::ClusterSecret;
use broker::routes::RouteSummary;
use broker::{Broker, Exclusives};
use hub::Hub;
use model::id::{DeviceId, ProductKey, ShardId};
use model::limits::{Limits, PushLimits};
use model::ports::access::AllowAll;
use model::ports::backlog::ReportHook;
use model::ports::lead::LeadProof;
use model::presence::Principal;
use model::product::{AnonymousFrom, Product};
use net::Shard;
use net::layer::{ListenEndpoint, ListenerSetup};
use net::shard::Census;
use server::machines::DoorProfile;
use server::shard_logic::{LogicParts, PeerBacklog, RunningService, running};
use server::start::ShardServices;
use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::sync::Arc;

/// Where the server of a world listens.
pub const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7));

/// Plan of a world.
#[derive(Clone, Debug)]
pub struct SimPlan {
    /// Seed of all that happens.
    pub seed: u64,
    /// Shards of the server.
    pub shards: u16,
    /// Devices; each has two seats.
    pub devices: u32,
    /// Orders of the application.
    pub orders: u64,
    /// Steps between two crashes, on average; zero: none.
    pub crash_in: u64,
    /// Faults of the disk.
    pub faults: DiskFaults,
    /// Steps between two faults of the directory, on average; zero: none.
    pub upset_in: u64,
    /// Rounds of threads between two moves of shards from one to another, on average; zero: all
    /// stay with the first.
    pub move_in: u64,
    /// Whether the application blocks devices; else it repeats orders under their keys.
    pub blocks: bool,
    /// The network.
    pub weather: Weather,
    /// The limits of the server.
    pub limits: Limits,
}

impl SimPlan {
    /// The plan that follows from a seed.
    pub fn drawn(seed: u64, steps: u64) -> SimPlan {
        let mut rng = Prng::new(seed);
        let devices = 2 + rng.below(14) as u32;
        let limits = Limits {
            connections_max: devices + rng.below(20) as u32,
            crowd_max: 1 + rng.below(6) as u32,
            binds_per_s: 5 + rng.below(100) as u32,
            accepts_per_turn: 1 + rng.below(4) as u32,
            out_bytes_max: 64 * 1024 + rng.below(64 * 1024) as u32,
            mailbox_messages_max: 8 + rng.below(200) as u32,
            pushes: PushLimits { fan_out_slice: 1 + rng.below(8) as u32, ..PushLimits::default() },
            retry_jitter_ms: 500,
            drain_ms: 3_000,
            ..Limits::default()
        };
        SimPlan {
            seed,
            shards: 1 + rng.below(4) as u16,
            devices,
            orders: steps / 4,
            crash_in: if rng.one_in(2) { 0 } else { 1 + steps / 2 },
            faults: DiskFaults {
                refuse_in: if rng.one_in(2) { 0 } else { 10 },
                fail_in: if rng.one_in(4) { 300 } else { 0 },
            },
            blocks: rng.one_in(2),
            weather: Weather::drawn(&mut rng),
            upset_in: [0, 10, 60, 300][rng.below(4) as usize],
            limits,
            move_in: [0, 2, 7, 50][rng.below(4) as usize],
        }
    }

    /// A calm world without whims, for a scenario.
    pub fn calm(seed: u64, shards: u16, devices: u32) -> SimPlan {
        let (orders, crash_in, faults, blocks) = (0, 0, DiskFaults::default(), false);
        let (weather, limits) = (Weather::calm(), Limits::default());
        let (upset_in, move_in) = (0, 20);
        SimPlan {
            seed,
            shards,
            devices,
            orders,
            crash_in,
            faults,
            upset_in,
            move_in,
            blocks,
            weather,
            limits,
        }
    }
}

/// The product of every world: whoever calls is who they say, and queues are wide.
pub fn product() -> Product {
    let key = ProductKey::parse("sim").expect("a name");
    let mut product = Product::new(key, 9);
    product.proofs.anonymous = AnonymousFrom::Everywhere;
    product.offline_count_max = 9_000;
    product.offline_bytes_max = 64 * 1024 * 1024;
    product.heartbeat.min_s = 10;
    product
}

impl Simulation {
    /// A world that has not taken a step.
    pub fn new(plan: SimPlan) -> Simulation {
        Simulation::with(plan, |_, _| Vec::new())
    }

    /// As [`new`](Self::new), with further services on each shard.
    pub fn with(
        plan: SimPlan,
        further: impl Fn(ShardId, u16) -> ShardServices + 'static,
    ) -> Simulation {
        let further: Further = Rc::new(further);
        let seed = plan.seed;
        let fabric = Rc::new(RefCell::new(Fabric::new(seed ^ 1, plan.weather.clone())));
        let disk = SimDisk::new(seed ^ 2, plan.shards, plan.faults);
        let disk = Rc::new(RefCell::new(disk));
        let limits = Arc::new(plan.limits.clone());
        let mut rng = Prng::new(seed ^ 3);
        let key = product().key;
        let ids: Vec<DeviceId> = (0..plan.devices)
            .map(|number| DeviceId::parse(&ClientLogic::device_id(number)).expect("a name"))
            .collect();
        let names = ids.iter().cloned().zip(0..).collect();
        let virtual_clients_host = fabric.borrow_mut().add_host();
        let virtual_clients_census = Arc::new(Census::default());
        let logic = ClientLogic::new(seed ^ 4, ADDRESS, &key, plan.devices);
        let post = Rc::new(RefCell::new(SimMailboxes::new(&[virtual_clients_host], usize::MAX)));
        let net = SimNet::new(fabric.clone(), post, ShardId(0));
        // Virtual clients read whatever comes and have no limits of their own.
        let settings = net::Settings {
            shard: ShardId(0),
            shards: 1,
            hash_key: HashKey::new(1, 2),
            limits: Arc::new(Limits::default()),
            doors: Vec::new(),
            census: virtual_clients_census.clone(),
            seed,
            secrets: [9; 32],
        };
        let events = Rc::new(RefCell::new(Feed::default()));
        let hash_key = HashKey::new(rng.draw(), rng.draw());
        let who = ids.iter().map(|id| Principal::Device(key.clone(), id.clone()).key());
        let copies = SimReplicators::new(seed ^ 6, who.collect());
        let copies = Rc::new(RefCell::new(copies));
        let parts = Parts {
            fabric: &fabric,
            disk: &disk,
            events: &events,
            copies: &copies,
            further: Some(&further),
        };
        let server = raise(&plan, &limits, hash_key, &parts);
        Simulation {
            application: Application::new(seed ^ 5, key, ids, plan.blocks),
            virtual_clients: Shard::new(settings, net, logic),
            orders_left: plan.orders,
            completed: Vec::new(),
            names,
            steps: 0,
            crashes: 0,
            rng,
            fabric,
            disk,
            events,
            copies,
            further,
            limits,
            server,
            virtual_clients_host,
            virtual_clients_census,
            plan,
        }
    }
}

/// Parts that a server of a world uses.
pub(crate) struct Parts<'a> {
    pub(crate) fabric: &'a Rc<RefCell<Fabric>>,
    pub(crate) disk: &'a Rc<RefCell<SimDisk>>,
    pub(crate) events: &'a Rc<RefCell<Feed>>,
    pub(crate) copies: &'a Rc<RefCell<SimReplicators>>,
    pub(crate) further: Option<&'a Further>,
}

/// Makes the further services of a shard, one of so many.
pub(crate) type Further = Rc<dyn Fn(ShardId, u16) -> ShardServices>;

/// The server's next life, with a new key for its tables. Devices stay with their owners.
pub(super) fn server(world: &mut Simulation) -> Server {
    let hash_key = HashKey::new(world.rng.draw(), world.rng.draw());
    let Simulation { fabric, disk, events, copies, further, .. } = world;
    let further = Some(&*further);
    let parts = Parts { fabric, disk, events, copies, further };
    raise(&world.plan, &world.limits, hash_key, &parts)
}

/// A server over what its disk keeps.
pub(crate) fn raise(
    plan: &SimPlan,
    limits: &Arc<Limits>,
    hash_key: HashKey,
    parts: &Parts<'_>,
) -> Server {
    let fabric = parts.fabric;
    parts.copies.borrow_mut().begin(plan.shards);
    let hosts: Vec<_> = (0..plan.shards).map(|_| fabric.borrow_mut().add_host()).collect();
    let post = SimMailboxes::new(&hosts, limits.mailbox_messages_max as usize);
    let post = Rc::new(RefCell::new(post));
    let census = Arc::new(Census::default());
    let door = Arc::new(ListenerSetup {
        paths: vec!["/miop".to_owned(), "/mqtt".to_owned()],
        ..ListenerSetup::plain("sim", ListenEndpoint::Tcp(ADDRESS))
    });
    let joined = Joined {
        // Half of the worlds pass messages as processes do.
        backlog: PeerBacklog::new(plan.shards, limits).encoding(plan.seed % 2 == 1),
        summary: RouteSummary::new(plan.shards, hash_key),
        exclusives: Arc::default(),
    };
    let mut shards = Vec::new();
    for (number, &host) in hosts.iter().enumerate() {
        let shard = ShardId(number as u16);
        let settings = net::Settings {
            shard,
            shards: plan.shards,
            hash_key: HOME,
            limits: limits.clone(),
            doors: vec![door.clone()],
            census: census.clone(),
            seed: plan.seed,
            secrets: [number as u8; 32],
        };
        let net = SimNet::new(fabric.clone(), post.clone(), shard);
        fabric.borrow_mut().listen(host, 0, ADDRESS);
        let logic = logic((plan, &joined), &settings, hash_key, parts);
        shards.push(Box::new(Shard::new(settings, net, logic)));
    }
    Server::new((shards, hosts), post, census, fabric.clone(), plan.move_in)
}

/// State that the brokers of a process share.
struct Joined {
    backlog: PeerBacklog,
    summary: Arc<RouteSummary>,
    exclusives: Arc<Exclusives>,
}

fn logic(
    (plan, joined): (&SimPlan, &Joined),
    settings: &net::Settings,
    hash_key: HashKey,
    parts: &Parts<'_>,
) -> SimLogic {
    let limits = &settings.limits;
    let mut hub = Hub::new(hub::Settings {
        shard: settings.shard,
        shards: settings.shards,
        limits: limits.clone(),
        devices_max: limits.pushes.devices_max.min(100_000),
        offline_bytes_max: limits.pushes.offline_bytes_max,
        binds_per_s: limits.binds_per_s,
        secret: ClusterSecret::new([6; 32]),
        node_secret: [7; 32],
        hash_key,
        home: HOME,
        report_hooks: vec![ReportHook { product: None, timeline: report_timeline() }],
        platforms: [].into(),
        seed: plan.seed ^ u64::from(settings.shard.0),
    });
    hub.install(Arc::new(product()));
    let broker = Broker::new(broker::Settings {
        shard: settings.shard,
        shards: settings.shards,
        limits: limits.clone(),
        hash_key,
        home: HOME,
        access: Arc::new(AllowAll),
        summary: joined.summary.clone(),
        exclusives: joined.exclusives.clone(),
        rewrites: None,
        auto_subscribes: None,
        chat_domain: None,
        seed: plan.seed ^ u64::from(settings.shard.0),
        secrets: [settings.shard.0 as u8; 32],
        lead_proof: LeadProof::default(),
    });
    let now = parts.fabric.borrow().now();
    let mut services = vec![RunningService::boxed(hub), RunningService::boxed(broker)];
    if let Some(further) = parts.further {
        services.extend(further(settings.shard, settings.shards));
    }
    parts.disk.borrow().restore(settings.shard, &mut |restored| {
        let took = running::restore(&mut services, now, restored);
        assert!(took, "what is alive is taken in: {restored:?}");
        running::want_entries(&mut services, restored)
    });
    let (disk, events) = (parts.disk.clone(), parts.events.clone());
    let copies = parts.copies.clone();
    let shard_presence = copies.borrow_mut().shard_presence(settings.shard, HOME);
    let outside = SimOutside { shard: settings.shard, disk, events, copies };
    let profiles = vec![DoorProfile::strict(limits.bind_ms_max, "localhost")].into();
    let backlog = joined.backlog.clone();
    let logic_parts = LogicParts { services, backlog, profiles, shard_presence };
    let mut logic = SimLogic::new(logic_parts, settings, outside);
    logic.restored(now);
    logic
}
