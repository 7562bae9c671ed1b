//! Builds a server from a configuration, and takes it down again.
//!
//! The order matters: first the steps that can fail (descriptors, data folder, certificates,
//! addresses), then the shards, the API last, so that no client is served by half a server.
//! [`RunningServer::join`] returns when all shards have drained their connections.

mod bosh;
mod bridges;
mod chat_page;
pub mod cluster;
mod doors;
mod folder;
mod listeners;
mod live;
mod notices;
pub mod pages;
mod periodic;
mod presence_setup;
mod server_outside;
mod services;
pub(crate) mod storage;
mod stream;
mod succession;
mod supervisor;
mod threads;
mod topics;

pub use chat_page::PATH as CHAT_PATH;
pub use doors::gives_page;
pub(crate) use folder::reset_token;
pub use live::shown_config::LoadConfig;
pub(crate) use presence_setup::connector::{authorities, pem};
pub use server_outside::ServerOutside;
pub use succession::take_over;
pub use supervisor::{Inherited, Supervisor};

use self::presence_setup::PresenceSetup;
use crate::access::Entrance;
use crate::archive::Archive;
use crate::bridge::Bridges;
use crate::clock;
use crate::config::{self, Config};
use crate::machines::DoorProfile;
use crate::shard_logic::{AnyService, LogicParts, Mail, PeerBacklog, RunningService, ServerLogic};
use crate::switchboard::moderation::{self, Moderation};
use crate::switchboard::reviews::ReviewDesk;
use crate::switchboard::{Mailboxes, ServerMessage, Switchboard};
use crate::takeover::{Given, GivenListeners, Offer};
use admin::Feed;
use base::hash::HashKey;
use bosh::Bosh;
use bridges::Inside;
use chat::ChatService;
use cluster::Lead;
use doors::Peers;
use federation::{Federation, WayOut};
use hub::Hub;
use live::Live;
use live::listeners::{Listeners, Surroundings};
use live::shown_config::ShownConfig;
use live::webhooks::ReportPlaces;
use model::id::{NodeId, ShardId};
use model::limits::Limits;
use model::ports::backlog::ReportHook;
use model::ports::control::Control;
use model::ports::lead::LeadProof;
use model::ports::media::MediaStorage;
use model::ports::presence::queries::PresenceQueries;
use model::pressure::Gauge;
use model::product::Product;
use model::{event, tell};
use net::OtherServers;
use net::descriptors;
use net::executor::exchange::AwakeThreads;
use net::layer::{ListenEndpoint, ListenerSetup};
use net::mailbox::Mailbox;
use net::shard::{Census, ShardMessage};
use notices::Notices;
use periodic::Periodic;
use proto_xmpp::server::Advertised;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use storage::Storage;
use storage::archives;
use storage::backups::Backups;
use storage::media::Media;
use store::data::Secrets;
use supervisor::LifeSign;
use topics::Topics;

/// Reason why a server did not start, as text for the operator.
#[derive(Debug)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

fn failed(error: impl fmt::Display) -> StartError {
    StartError(error.to_string())
}

/// A server at work.
pub struct RunningServer {
    switchboard: Switchboard<ServerOutside>,
    /// Of the shards.
    threads: Vec<JoinHandle<()>>,
    /// At the end they do not wait for the log.
    abandoned: Arc<AtomicBool>,
    api: Option<admin::RunningApi>,
    storage: Arc<Storage>,
    /// Removes socket files when dropped.
    files: listeners::FilesOfListeners,
    /// Copies of the listening sockets, for a server that takes over.
    copies: Given,
    /// The offer to other processes to take over.
    offer: Mutex<Option<Offer>>,
    entrance: Arc<Entrance>,
    archive: Option<Arc<Archive>>,
    moderation: Arc<Moderation>,
    notices: Notices,
    periodic: Periodic,
    federation: Mutex<Option<Federation>>,
    presence: presence_setup::Running,
    queries: Arc<dyn PresenceQueries>,
    supervisor: Supervisor,
    census: Arc<Census>,
    token_file: Option<PathBuf>,
    live: Arc<Live>,
}

/// Errors of files that a configuration names, a sentence each: certificates, their keys,
/// authorities, revoked certificates, users, rules, keys of tokens, and those of bridges.
pub fn unusable(config: &Config) -> Vec<String> {
    let alone = |listener: &config::ListenSection| {
        let listen = vec![listener.clone()];
        doors::load_tls(&Config { listen, ..config.clone() }).err().map(|error| error.to_string())
    };
    let mut wrong: Vec<String> = config.listen.iter().filter_map(alone).collect();
    let served = doors::all_served(config);
    wrong.extend(crate::access::unusable(&topics::access_settings(config, &served)));
    wrong.extend(moderation::unusable(config));
    wrong.extend(config.bridges.iter().filter_map(bridges::unusable));
    wrong.extend(storage::media::unusable(config));
    wrong.extend(archives::unusable(config));
    wrong.extend(doors::unusable(config));
    wrong.extend(cluster::unusable(config));
    wrong.dedup();
    wrong
}

/// Certificates of a configuration, the first to expire first; none where they cannot be read.
pub fn certificates(config: &Config) -> Vec<admin::CertificateStatus> {
    doors::load_tls(config).map(|tls| periodic::certificates::statuses(&tls)).unwrap_or_default()
}

/// Makes the further services of a shard, with its number and the number of shards.
pub type FurtherServices<'a> = &'a dyn Fn(ShardId, u16) -> ShardServices;

/// A server, or the reason why it did not start.
pub type Started = Result<RunningServer, StartError>;

/// Options of a start besides the configuration.
pub struct StartOptions<'a> {
    /// Sockets and signals handed over by a supervisor.
    pub inherited: Inherited,
    /// How the configuration is read again, for the API to tell what that would change.
    pub load: Option<LoadConfig>,
    /// Services beside those of every server.
    pub further: FurtherServices<'a>,
    /// Its part in a cluster that it leads.
    pub lead: Lead,
}

impl Default for StartOptions<'_> {
    fn default() -> Self {
        let (inherited, load, lead) = (Inherited::default(), None, Lead::alone());
        StartOptions { inherited, load, further: &|_, _| Vec::new(), lead }
    }
}

/// Starts a server.
pub fn start(config: Config) -> Started {
    start_with(config, StartOptions::default())
}

/// Starts a server with options.
pub fn start_with(
    mut config: Config,
    StartOptions { inherited, load, further, lead }: StartOptions<'_>,
) -> Started {
    let asked = config.clone();
    let shown = ShownConfig::new(asked.clone(), load);
    fit_descriptors(&mut config)?;
    let limits = Arc::new(config.limits.clone());
    let count = lead.logs().unwrap_or_else(|| shard_count(config.server.shards));
    let mut folder = storage::open(&config, (count, inherited.taken_over), lead.folder)?;
    let inside = Inside::of(&config, folder.secrets().cluster)?;
    let config = inside.in_front_of(config);
    let (token, token_file) = folder::api_token(&config)?;
    let tls = doors::load_tls(&config)?;
    let mut doors = doors::doors(&config, &tls);
    let topics = Topics::new(&config, random()?)?;
    let mut presence = PresenceSetup::new(&config, count, folder.node().1)?;
    let supervisor = inherited.supervisor.clone();
    let listeners::Opened { listeners: mut open, api, copies } =
        listeners::open(&config, &doors, count, inherited)?;
    let media = Media::open(&config, folder.secrets().cluster, &open.addresses)?;
    let media_door = media.as_ref().and_then(|media| media.door.clone());
    if let Some(media) = &media {
        doors.iter_mut().for_each(|door| media.furnish(door));
    }
    let advertised = doors::advertised(&config)?;
    let about = (folder.secrets().cluster, &advertised);
    let peers = Peers::of(&config, about, &doors, &mut open.shards)?;
    let hooks = services::webhooks(&config);
    let timelines = services::report_timelines(folder.home, &hooks);
    let seeds = Seeds::new(&config, &folder, count)?;
    let storage_of_files = |media: &Media| media.storage.clone() as Arc<dyn MediaStorage>;
    let media_storage = media.as_ref().map(storage_of_files);
    let seeds = Seeds { media: media_storage, lead_proof: lead.proof, ..seeds };
    let services = restored(&config, (&seeds, &topics, further), &mut folder)?;
    folder.forget_others(&timelines)?;
    let last_id = hubs(&services).map(|hub| hub.id_floor().0).fold(0, u64::max);
    let boxes = boxes(count, &limits)?;
    let sections = doors::all_served(&config);
    let bosh = Arc::new(Bosh::new(&boxes));
    for (number, (section, door)) in (0..).zip(sections.iter().zip(&mut doors)) {
        let its = bosh.furnish(&config, (number, section), door)?;
        bosh.serve(number, its);
    }
    let doors: Vec<Arc<ListenerSetup>> = doors.into_iter().map(Arc::new).collect();
    let archive = archives::open(&config)?;
    let places = archives::places(&mut folder, archive.is_some(), count)?;
    let completed = (topics.entrance.clone(), archive.clone());
    let storage = Arc::new(folder.start(boxes.clone(), completed)?);
    (lead.opened)(storage.logs.clone());
    topics.begin(&seeds, &storage, &boxes)?;
    archives::begin(archive.as_ref(), &seeds, &storage, places)?;
    let feed = Feed::new(&limits);
    presence.begin(&config, seeds.seed, (&boxes, &storage, &feed))?;
    let notices = Notices::new(&config, (&boxes, storage.over.clone()))?;
    let shared = SharedParts::new((&storage, &feed), (&topics, &notices), &presence);
    let way_out = peers.as_ref().map(|peers| peers.way.clone());
    let shared = SharedParts { way_out: way_out.clone(), ..shared };
    let joined = Joined::new(&config, count, &advertised);
    let logics = logics(&seeds, (services, joined), &shared, &boxes);
    let abandoned = Arc::<AtomicBool>::default();
    let parts = (&doors[..], &abandoned);
    let threads = threads::spawn(&config, &shared.awake, (logics, open.shards), &boxes, parts)?;
    let (gauge, census) = (shared.gauge, shared.census);
    let switchboard = Switchboard::new(boxes.clone(), seeds.home, (seeds.node, last_id));
    topics.take_orders(&config, (&storage, &boxes), Arc::new(switchboard.clone()))?;
    notices.begin(Arc::new(switchboard.clone())).map_err(failed)?;
    let (queries, presence, figures) = presence.run(&switchboard)?;
    let mut bridges = Bridges::default();
    bridges::change(&mut bridges, &inside, &asked)?;
    let control = Arc::new(switchboard.clone());
    let federation = peers.map(|peers| peers.start(control, &asked)).transpose()?;
    let backups = Arc::new(Backups::new(&storage));
    backups.change(&config.backup).map_err(failed)?;
    let copies = GivenListeners::of(copies);
    let reports = ReportPlaces::new(&boxes, &storage, (seeds.home, &config));
    let around = Surroundings {
        boxes,
        over: storage.over.clone(),
        bosh: bosh.clone(),
        federation: way_out.clone(),
        media,
        supervisor: supervisor.clone(),
        copies: copies.clone(),
    };
    let opened = (open.addresses.iter().cloned(), open.names.into_iter());
    let first = listeners::first(&config, (sections, doors), opened)?;
    let listeners = Arc::new(Listeners::new(around, first, open.files));
    let live = Arc::new(Live {
        switchboard: switchboard.clone(),
        listeners: listeners.clone(),
        entrance: topics.entrance.clone(),
        moderation: topics.moderation.clone(),
        advertised,
        inside,
        bridge_statuses: Mutex::new(bridges.statuses()),
        bridges: Mutex::new(bridges),
        backups: backups.clone(),
        reports,
        memory_max: Arc::new(AtomicU64::new(limits.memory_max)),
        shown,
        api: OnceLock::new(),
        stops: AtomicBool::new(false),
        one: Mutex::default(),
    });
    let parts = services::Parts {
        switchboard: switchboard.clone(),
        feed,
        storage: storage.clone(),
        entrance: topics.entrance.clone(),
        queries: queries.clone(),
        stream: presence.readings(),
        notices: notices.clone(),
        live: live.clone(),
        media: media_door,
        bosh,
        archive: archive.clone(),
        backups: backups.clone(),
        cluster: (lead.view, lead.readings),
    };
    let api =
        api.map(|api| services::start_api(&config, (token, api), hooks, parts)).transpose()?;
    if let Some(api) = &api {
        topics.entrance.tell_orders(Box::new(api.witness()));
        drop(live.api.set(api.handle()));
    }
    let sys = periodic::sys::task(config.mqtt.sys_interval_s, Arc::new(switchboard.clone()));
    let memory = periodic::memory::task(live.memory_max.clone(), gauge, census.clone());
    let watchdog = periodic::watchdog::of_shards(&supervisor, (count, &switchboard), &census);
    let expiry = Some(periodic::certificates::task(listeners.clone()));
    let beats = lead.turned.map(|turned| periodic::watchdog::beats(turned, (count, &switchboard)));
    Ok(RunningServer {
        switchboard,
        threads,
        abandoned,
        api,
        storage,
        files: listeners::FilesOfListeners(listeners),
        copies,
        offer: Mutex::default(),
        periodic: Periodic::start([Some(figures), sys, memory, watchdog, expiry, beats])
            .map_err(failed)?,
        federation: Mutex::new(federation),
        presence,
        queries,
        supervisor,
        census,
        entrance: topics.entrance,
        archive,
        moderation: topics.moderation,
        notices,
        token_file,
        live,
    })
}

impl RunningServer {
    /// Addresses of the listeners, by name.
    pub fn listening(&self) -> Vec<(String, ListenEndpoint)> {
        self.files.0.listening()
    }

    /// The address of the listener with this name, if it has one.
    pub fn addr(&self, name: &str) -> Option<SocketAddr> {
        self.listening().into_iter().find_map(|(found, address)| match address {
            ListenEndpoint::Tcp(address) if found == name => Some(address),
            _ => None,
        })
    }

    /// Its port.
    pub fn port(&self, name: &str) -> Option<u16> {
        self.addr(name).map(|addr| addr.port())
    }

    /// Where the API listens.
    pub fn api(&self) -> Option<SocketAddr> {
        self.api.as_ref().and_then(|api| api.addrs().first().copied())
    }

    /// The file with the API's token, when it was made here.
    pub fn token_file(&self) -> Option<&PathBuf> {
        self.token_file.as_ref()
    }

    /// The configuration in force, as it was asked for.
    pub fn config(&self) -> Config {
        self.live.shown.in_force()
    }

    /// How the bridges are.
    pub fn bridges(&self) -> Vec<admin::BridgeStatus> {
        self.live.bridge_status()
    }

    /// Queries of the copy of presence.
    pub fn presence(&self) -> &dyn PresenceQueries {
        self.queries.as_ref()
    }

    /// The way to the shards.
    pub fn control(&self) -> &impl Control {
        &self.switchboard
    }

    /// Notifies the supervisor that the server is ready.
    pub fn tell_ready(&self) {
        let listeners = self.listening().len();
        self.supervisor.tell(LifeSign::Ready(&format!("Serving at {listeners} listeners")));
    }

    /// Notifies the supervisor of a reload; [`tell_ready`](Self::tell_ready) ends it.
    pub fn tell_reloading(&self) {
        self.supervisor.tell(LifeSign::Reloading { monotonic_us: clock::monotonic_us() });
    }

    /// Has the API answer what it was asked, then stops listening and lets the connections go at
    /// the configured pace.
    pub fn drain(&self) {
        // New connections are refused from now on, unless a supervisor keeps the listeners.
        drop(self.keep_place());
        self.tell_stopping();
        self.let_go(self.config().limits.drain_ms, OtherServers::new());
    }

    fn tell_stopping(&self) {
        let left = periodic::watchdog::connections(self.census.open());
        self.supervisor.tell(LifeSign::Stopping(&format!("Letting {left} go")));
    }

    fn let_go(&self, over_ms: u32, to: OtherServers) {
        self.live.stops.store(true, Ordering::Relaxed);
        self.switchboard.set_draining(true);
        // Before the shards go: they hear what is put off, they answer the API, and a push may wait
        // for its device.
        self.notices.platforms.close();
        self.api.iter().for_each(|api| api.finish());
        self.live.bridges.lock().unwrap_or_else(PoisonError::into_inner).stop();
        drop(self.federation.lock().unwrap_or_else(PoisonError::into_inner).take());
        if !self.switchboard.drain(over_ms, to) {
            tell!(event::DRAIN_UNHEARD);
        }
    }

    /// Reads the configuration again and applies what can change while the server runs.
    pub fn reload_file(&self) {
        // The result of a reload by signal is in the log.
        drop(self.live.reload_file());
    }

    /// Sends all clients away and refuses new ones, or accepts them again. The server goes on.
    pub fn drain_clients(&self, draining: bool) -> admin::DrainState {
        self.live.drain(draining)
    }

    /// Applies a configuration in the same way.
    pub fn reload(&self, new: Config) -> Result<admin::Reloaded, String> {
        self.live.reload(new)
    }

    /// Effects that applying a configuration would have. Changes nothing.
    pub fn preview(&self, new: &Config) -> admin::ReloadPreview {
        self.live.preview(new)
    }

    /// Waits until the shards have ended, then closes the API and the logs.
    pub fn join(mut self) {
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tell!(event::THREAD_PANICKED, thread = "shards");
            }
        }
        self.periodic.stop();
        self.live.backups.stop();
        self.storage.let_couriers_go();
        self.presence.stop();
        self.notices.end();
        self.entrance.close();
        self.archive.iter().for_each(|archive| archive.close());
        self.moderation.close();
        if let Some(api) = self.api.take() {
            api.stop();
        }
        self.storage.close();
    }
}

/// How often one looks whether a log has answered, before and after its shard turns.
const LOOK: Duration = Duration::from_millis(2);

/// How many times one looks: five seconds.
const LOOKS: u32 = 2_500;

/// Parts that all shards are made from.
struct Seeds {
    limits: Arc<Limits>,
    /// For tables; new at each start.
    hash_key: HashKey,
    /// For homes; the cluster's for good.
    home: HashKey,
    seed: u64,
    /// By shard, the key of the secrets that it draws.
    drawn: Vec<[u8; 32]>,
    /// By shard, the key of the identifiers that its broker gives clients.
    client_ids: Vec<[u8; 32]>,
    secrets: Secrets,
    node: NodeId,
    report_hooks: Vec<ReportHook>,
    platforms: Arc<[model::push::PlatformRule]>,
    count: usize,
    media: Option<Arc<dyn MediaStorage>>,
    lead_proof: LeadProof,
}

impl Seeds {
    fn new(config: &Config, folder: &storage::Folder, count: usize) -> Result<Seeds, StartError> {
        Ok(Seeds {
            hash_key: HashKey::new(random_word()?, random_word()?),
            seed: random_word()?,
            drawn: (0..count).map(|_| random()).collect::<Result<_, _>>()?,
            client_ids: (0..count).map(|_| random()).collect::<Result<_, _>>()?,
            report_hooks: live::webhooks::report_hooks(config, folder.home),
            platforms: config.platforms.iter().map(|it| it.rule()).collect(),
            secrets: folder.secrets(),
            node: folder.node().0,
            home: folder.home,
            limits: Arc::new(config.limits.clone()),
            count,
            media: None,
            lead_proof: LeadProof::default(),
        })
    }
}

/// Settles how many connections there may be, and refuses what the descriptors do not allow.
fn fit_descriptors(config: &mut Config) -> Result<(), StartError> {
    let limit = descriptors::raise();
    // A session of BOSH has an end beside that of its shard.
    let sessions = u64::from(config.bosh.sessions_max).min(limit / 16);
    config.bosh.sessions_max = sessions as u32;
    let of_bosh = if bosh::is_served(config) { sessions } else { 0 };
    let spare = u64::from(config.server.descriptors_spare) + of_bosh;
    let crowd = u64::from(config.limits.crowd_max);
    let wanted = match config.limits.connections_max {
        0 => limit.saturating_sub(crowd + spare + descriptors::OWN).clamp(1, 1_000_000),
        wanted => u64::from(wanted),
    };
    descriptors::check(wanted, crowd, spare, limit).map_err(failed)?;
    if config.limits.connections_max == 0 {
        tell!(event::CONNECTIONS_BY_DESCRIPTORS, connections_max = wanted, descriptors = limit);
    }
    config.limits.connections_max = wanted as u32;
    Ok(())
}

/// Number of shards for a configured number; 0: one per core.
pub(crate) fn shard_count(configured: u16) -> usize {
    match configured {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => usize::from(count),
    }
    .min(config::SHARDS_MAX as usize)
}

fn boxes(count: usize, limits: &Limits) -> Result<Mailboxes<ServerOutside>, StartError> {
    let room = limits.mailbox_messages_max as usize;
    let boxes = (0..count).map(|_| Mailbox::<ServerMessage<ServerOutside>>::new(room));
    Ok(boxes.collect::<Result<Vec<_>, _>>().map_err(failed)?.into())
}

/// The services of a shard, in the order in which they act.
pub type ShardServices = Vec<Box<dyn AnyService>>;

/// The hub of each shard.
fn hubs(services: &[ShardServices]) -> impl Iterator<Item = &Hub> {
    services.iter().flatten().filter_map(|service| service.inner().downcast_ref())
}

/// The services of all shards, with everything that the logs kept.
fn restored(
    config: &Config,
    (seeds, topics, further): (&Seeds, &Topics, FurtherServices<'_>),
    folder: &mut storage::Folder,
) -> Result<Vec<ShardServices>, StartError> {
    let products: Vec<Arc<Product>> = config.products.iter().cloned().map(Arc::new).collect();
    let mut services = Vec::new();
    for shard in (0..seeds.count).map(|number| ShardId(number as u16)) {
        let mut hub = Hub::new(hub_settings(seeds, shard));
        for product in &products {
            if !hub.install(product.clone()) {
                return Err(StartError(format!(
                    "too many products: {} exceeds the maximum",
                    product.key
                )));
            }
        }
        let broker = topics.broker(seeds, shard);
        let mut chat = ChatService::new(chat_settings((config, seeds, topics), shard));
        if archives::is_wanted(config) {
            chat.keep_for_archive();
        }
        let mut of_shard = vec![
            RunningService::boxed(hub),
            RunningService::boxed(broker),
            RunningService::boxed(chat),
        ];
        of_shard.extend(further(shard, seeds.count as u16));
        services.push(of_shard);
    }
    folder.restore(now(), &mut services, &topics.entrance)?;
    for product in hubs(&services).take(1).flat_map(Hub::changed_since_configured) {
        tell!(event::PRODUCT_OF_API, %product);
    }
    Ok(services)
}

/// Outside parts that the logic of all shards shares.
struct SharedParts<'a> {
    gauge: Arc<Gauge>,
    awake: Arc<AwakeThreads>,
    census: Arc<Census>,
    storage: &'a Arc<Storage>,
    feed: &'a Arc<Feed>,
    entrance: &'a Arc<Entrance>,
    reviews: Option<Arc<ReviewDesk>>,
    notices: &'a Notices,
    presence: &'a PresenceSetup,
    way_out: Option<WayOut>,
}

impl<'a> SharedParts<'a> {
    fn new(
        (storage, feed): (&'a Arc<Storage>, &'a Arc<Feed>),
        (topics, notices): (&'a Topics, &'a Notices),
        presence: &'a PresenceSetup,
    ) -> SharedParts<'a> {
        let (gauge, awake, census, way_out) = Default::default();
        let (entrance, reviews) = (&topics.entrance, topics.moderation.desk.clone());
        SharedParts {
            gauge,
            awake,
            census,
            storage,
            feed,
            entrance,
            reviews,
            notices,
            presence,
            way_out,
        }
    }
}

/// Parts that the logic of all shards has in common.
struct Joined {
    backlog: PeerBacklog,
    profiles: Arc<[DoorProfile]>,
}

impl Joined {
    fn new(config: &Config, count: usize, advertised: &Arc<Advertised>) -> Joined {
        let backlog = PeerBacklog::new(count as u16, &config.limits);
        let served = doors::all_served(config);
        Joined { backlog, profiles: doors::profiles(config, &served, advertised) }
    }
}

/// A logic over the services of each shard.
fn logics(
    seeds: &Seeds,
    (services, joined): (Vec<ShardServices>, Joined),
    parts: &SharedParts<'_>,
    boxes: &Mailboxes<ServerOutside>,
) -> ServerLogics {
    let logic = |(number, services): (usize, ShardServices)| {
        let settings = net::Settings {
            shard: ShardId(number as u16),
            shards: seeds.count as u16,
            hash_key: seeds.home,
            limits: seeds.limits.clone(),
            doors: Vec::new(),
            census: parts.census.clone(),
            seed: seeds.seed,
            secrets: seeds.drawn[number],
        };
        let outside = ServerOutside::new(settings.shard, parts);
        let Joined { backlog, profiles } = &joined;
        let (backlog, profiles) = (backlog.clone(), profiles.clone());
        let shard_presence = parts.presence.shard_presence(seeds, settings.shard);
        let logic_parts = LogicParts { services, backlog, profiles, shard_presence };
        let mut logic = ServerLogic::new(logic_parts, &settings, outside);
        let calls = logic.restored(now());
        (settings, logic, calls)
    };
    let mut logics = services.into_iter().enumerate().map(logic).collect::<Vec<_>>();
    // Members of shared groups join before anybody publishes.
    for from in 0..logics.len() {
        let mut said = Vec::new();
        logics[from].1.said(|bag| said.push(bag));
        for bag in said {
            let (_, logic, calls) = &mut logics[usize::from(bag.to().0)];
            *calls += logic.told(now(), bag);
        }
    }
    let begin =
        |(settings, mut logic, mut calls): (net::Settings, ServerLogic<ServerOutside>, usize)| {
            let mailbox = &boxes[usize::from(settings.shard.0)];
            for _ in 0..LOOKS {
                calls -= calls.min(logic.completed(now(), mail(mailbox)));
                if calls == 0 {
                    break;
                }
                std::thread::sleep(LOOK);
            }
            (settings, logic)
        };
    logics.into_iter().map(begin).collect()
}

/// Mail that has come for a logic.
fn mail(mailbox: &Mailbox<ServerMessage<ServerOutside>>) -> impl Iterator<Item = Mail> {
    let mut messages = Vec::new();
    mailbox.take(&mut messages);
    messages.into_iter().filter_map(|message| match message {
        ShardMessage::Mail(mail) => Some(mail),
        _ => None,
    })
}

fn chat_settings(
    (config, seeds, topics): (&Config, &Seeds, &Topics),
    shard: ShardId,
) -> chat::Settings {
    chat::Settings {
        shard,
        shards: seeds.count as u16,
        node: seeds.node,
        limits: seeds.limits.clone(),
        home: seeds.home,
        access: topics.entrance.access(),
        push: config.push.policy(),
        domain: config.chat.domain.as_str().into(),
        adding: config.chat.adding,
        foreign: Arc::new(doors::foreign_domains(config)),
        log_bytes: config.store.log_bytes_max / seeds.count.max(1) as u64,
        reviews: topics.moderation.settings(&config.chat),
        words: topics.moderation.words.clone(),
        book: chat::BookPolicy {
            registration: config.chat.registration,
            administrators: config
                .chat
                .administrators
                .iter()
                .map(|it| it.as_str().into())
                .collect(),
        },
        media: seeds.media.clone(),
        bookmarks: Some(proto_xmpp::server::BOOKMARKS),
    }
}

fn hub_settings(seeds: &Seeds, shard: ShardId) -> hub::Settings {
    let mut settings = hub::Settings {
        shard,
        shards: seeds.count as u16,
        devices_max: 0,
        offline_bytes_max: 0,
        binds_per_s: 0,
        limits: seeds.limits.clone(),
        secret: seeds.secrets.cluster,
        node_secret: seeds.secrets.node,
        hash_key: seeds.hash_key,
        home: seeds.home,
        report_hooks: seeds.report_hooks.clone(),
        platforms: seeds.platforms.clone(),
        seed: seeds.seed ^ u64::from(shard.0),
    };
    settings.set_limits(&seeds.limits);
    settings
}

type ServerLogics = Vec<(net::Settings, ServerLogic<ServerOutside>)>;
type Sockets = Vec<Vec<Vec<std::os::fd::OwnedFd>>>;

/// A word of random bits, from the system.
pub(crate) fn random_word() -> Result<u64, StartError> {
    random().map(u64::from_le_bytes)
}

/// Random bytes, from the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], StartError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        StartError(format!(
            "random number generator: \
                                                                    {error}"
        ))
    })?;
    Ok(bytes)
}

fn now() -> base::time::Now {
    base::time::Now::new(base::time::Instant::default(), clock::wall_ms())
}
