//! Builds a server from a configuration, and takes it down again.
//!
//! The order matters: first what can refuse (descriptors, data folder, certificates, addresses),
//! then the shards, the API last, so that nobody is served by half a server. [`Running::join`]
//! returns when all shards have let their connections go.

mod folder;
mod rooms;
mod storage;
mod world;

pub(crate) use storage::home_key;
pub use world::World;

use crate::clock;
use crate::config::{self, Config, ListenerProtocol, ProxyHeader};
use crate::house::{Mail, ServerHouse};
use crate::switchboard::{Mailboxes, ServerLetter, Switchboard};
use admin::Feed;
use base::hash::HashKey;
use hub::{Hub, ReportHook};
use model::id::ShardId;
use model::limits::Limits;
use model::link::Protocol;
use model::ports::control::Control;
use model::product::Product;
use net::epoll::Epoll;
use net::layer::Door;
use net::layer::tls::TlsServer;
use net::mailbox::Mailbox;
use net::shard::{Census, Letter};
use net::{Shard, descriptors, listen};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use storage::Storage;

/// Why a server did not start, in words for the operator.
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
pub struct Running {
    switchboard: Switchboard<World>,
    shards: Vec<JoinHandle<()>>,
    api: Option<admin::Running>,
    storage: Arc<Storage>,
    tls: Vec<(String, Arc<TlsServer>)>,
    config: Config,
    listening: Vec<(String, SocketAddr)>,
    token_file: Option<PathBuf>,
}

/// Starts a server.
pub fn start(mut config: Config) -> Result<Running, StartError> {
    let asked = config.clone();
    fit_descriptors(&mut config)?;
    let limits = Arc::new(config.limits.clone());
    let count = shard_count(config.server.shards);
    let mut folder = storage::open(&config, count)?;
    let data = config.server.data.clone();
    let (token, token_file) = folder::api_token(&data, config.api.token.reveal())?;
    let tls = rooms::load_tls(&config)?;
    let doors = doors(&config, &tls);
    let open = listen::open(&doors, count, limits.tcp_user_timeout_ms).map_err(failed)?;

    let hooks = rooms::webhooks(&config);
    let home = folder.home;
    let timelines = rooms::report_timelines(home, &hooks);
    let seeds = Seeds {
        hash_key: HashKey::new(random_word()?, random_word()?),
        seed: random_word()?,
        report_hooks: if config.api.enabled { report_hooks(&hooks, &timelines) } else { vec![] },
        node_secret: folder.secret(),
        home,
        limits: limits.clone(),
        count,
    };
    let hubs = restored(&config, &seeds, &mut folder)?;
    folder.forget_others(&timelines)?;
    let last_id = hubs.iter().map(|hub| hub.id_floor().0).fold(folder.last_id, u64::max);
    let boxes = boxes(count, &limits)?;
    let storage = Arc::new(folder.start(boxes.clone(), timelines)?);
    let feed = Feed::new(&limits);
    let houses = houses(&seeds, hubs, (&storage, &feed), &boxes);
    let shards = spawn(&config, &seeds, (houses, open.shards), &boxes, &doors)?;

    let switchboard = Switchboard::new(boxes, home, last_id);
    let parts = rooms::Parts { switchboard: switchboard.clone(), feed, storage: storage.clone() };
    let api = rooms::start_api(&config, token, hooks, parts)?;
    let names = config.listen.iter().filter(|listener| served(&config, listener));
    let listening = names.map(|listener| listener.name.clone()).zip(open.addresses).collect();
    Ok(Running { switchboard, shards, api, storage, tls, config: asked, listening, token_file })
}

impl Running {
    /// Where it listens: the name of each listener with its address.
    pub fn listening(&self) -> &[(String, SocketAddr)] {
        &self.listening
    }

    /// Where the API listens.
    pub fn api(&self) -> Option<SocketAddr> {
        self.api.as_ref().and_then(|api| api.addrs().first().copied())
    }

    /// The file with the API's token, when it was made here.
    pub fn token_file(&self) -> Option<&PathBuf> {
        self.token_file.as_ref()
    }

    /// The configuration as it was asked for.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The way to the shards.
    pub fn control(&self) -> &impl Control {
        &self.switchboard
    }

    /// Stops listening and lets the connections go at the configured pace.
    pub fn drain(&self) {
        if !self.switchboard.tell_all(|| Mail::Drain) {
            tracing::error!("a shard's mailbox is full: it was not told to drain");
        }
    }

    /// Takes over what can be taken over from a new configuration; logs what cannot. Certificates
    /// are read again in any case.
    pub fn reload(&mut self, new: Config) {
        for (name, tls) in &self.tls {
            match tls.reload() {
                Ok(()) => tracing::info!(listener = name, "certificates were read again"),
                Err(error) => tracing::error!(listener = name, %error, "the old ones stay in use"),
            }
        }
        let changes = self.config.diff(&new);
        for change in &changes.restart {
            let config::Change { key, old, new } = change;
            tracing::warn!(key, old, new, "this change needs a restart");
        }
        for change in &changes.live {
            let config::Change { key, old, new } = change;
            tracing::info!(key, old, new, "changed");
        }
        for product in &self.config.products {
            if !new.products.iter().any(|other| other.key == product.key) {
                // A typo must not cost what waits for its devices.
                let product = product.key.as_str();
                tracing::warn!(
                    product,
                    "it is not configured any more: it is served until the \
                    server is started again, and what is stored for it stays; DELETE \
                    /v1/products/{{key}} drops it with all it has"
                );
            }
        }
        let products: Vec<Arc<Product>> = new.products.iter().cloned().map(Arc::new).collect();
        if !self.switchboard.tell_all(|| Mail::Install(products.clone())) {
            tracing::error!("a shard's mailbox is full: reload again");
        }
        crate::log::change(&new.server.log);
        self.config.products = new.products;
        self.config.server.log = new.server.log;
    }

    /// Waits until the shards have ended, then closes the API and the logs.
    pub fn join(mut self) {
        for shard in self.shards.drain(..) {
            if shard.join().is_err() {
                tracing::error!("a shard panicked");
            }
        }
        self.storage.let_couriers_go();
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

/// What all shards are made from.
struct Seeds {
    limits: Arc<Limits>,
    /// For tables; new at each start.
    hash_key: HashKey,
    /// For homes; the node's for good.
    home: HashKey,
    seed: u64,
    node_secret: [u8; 32],
    report_hooks: Vec<ReportHook>,
    count: usize,
}

/// Settles how many connections there may be, and refuses what the descriptors do not allow.
fn fit_descriptors(config: &mut Config) -> Result<(), StartError> {
    let limit = descriptors::raise();
    let spare = u64::from(config.server.descriptors_spare);
    let crowd = u64::from(config.limits.crowd_max);
    let wanted = match config.limits.connections_max {
        0 => limit.saturating_sub(crowd + spare + descriptors::OWN).clamp(1, 1_000_000),
        wanted => u64::from(wanted),
    };
    descriptors::check(wanted, crowd, spare, limit).map_err(failed)?;
    if config.limits.connections_max == 0 {
        tracing::info!(connections_max = wanted, descriptors = limit, "as many as there can be");
    }
    config.limits.connections_max = wanted as u32;
    Ok(())
}

/// Shards of a server that is configured for so many; 0: one a core.
pub(crate) fn shard_count(configured: u16) -> usize {
    match configured {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => usize::from(count),
    }
    .min(config::SHARDS_MAX as usize)
}

fn boxes(count: usize, limits: &Limits) -> Result<Mailboxes<World>, StartError> {
    let room = limits.mailbox_letters_max as usize;
    let boxes = (0..count).map(|_| Mailbox::<ServerLetter<World>>::new(room));
    Ok(boxes.collect::<Result<Vec<_>, _>>().map_err(failed)?.into())
}

/// Whether a listener is opened: one that needs a certificate waits until there is one.
fn served(config: &Config, listener: &config::Listener) -> bool {
    listener.enabled && (!listener.tls || config.tls.certificate.is_some())
}

fn doors(config: &Config, tls: &[(String, Arc<TlsServer>)]) -> Vec<Door> {
    let served = config.listen.iter().filter(|listener| served(config, listener));
    let door = |listener: &config::Listener| {
        let certificates = tls.iter().find(|(name, _)| *name == listener.name);
        Door {
            name: listener.name.clone(),
            address: listener.address,
            protocol: match listener.protocol {
                ListenerProtocol::Any => None,
                ListenerProtocol::Miop if listener.web_socket.is_some() => Some(Protocol::Http),
                ListenerProtocol::Miop => Some(Protocol::Miop),
                ListenerProtocol::Http => Some(Protocol::Http),
            },
            tls: certificates.map(|(_, tls)| tls.clone()),
            path: listener.web_socket.clone().unwrap_or_default(),
            proxy: listener.proxy == ProxyHeader::V1V2,
        }
    };
    served.map(door).collect()
}

/// The hubs, with everything that the logs kept.
fn restored(
    config: &Config,
    seeds: &Seeds,
    folder: &mut storage::Folder,
) -> Result<Vec<Hub>, StartError> {
    let products: Vec<Arc<Product>> = config.products.iter().cloned().map(Arc::new).collect();
    let mut hubs = Vec::new();
    for number in 0..seeds.count {
        let mut hub = Hub::new(hub_settings(seeds, ShardId(number as u16)));
        for product in &products {
            if !hub.install(product.clone()) {
                return Err(StartError(format!("too many products: {} was one more", product.key)));
            }
        }
        hubs.push(hub);
    }
    folder.restore(now(), &mut hubs)?;
    Ok(hubs)
}

/// A house for each hub.
fn houses(
    seeds: &Seeds,
    hubs: Vec<Hub>,
    (storage, feed): (&Arc<Storage>, &Arc<Feed>),
    boxes: &Mailboxes<World>,
) -> Houses {
    let census = Arc::new(Census::default());
    let house = |(number, hub): (usize, Hub)| {
        let settings = net::Settings {
            shard: ShardId(number as u16),
            shards: seeds.count as u16,
            hash_key: seeds.home,
            limits: seeds.limits.clone(),
            doors: Vec::new(),
            census: census.clone(),
            seed: seeds.seed,
        };
        let world = World::new(settings.shard, storage.clone(), feed.clone());
        let mut house = ServerHouse::new(hub, &settings, world);
        let calls = house.restored(now());
        (settings, house, calls)
    };
    let houses = hubs.into_iter().enumerate().map(house).collect::<Vec<_>>();
    let begin = |(settings, mut house, mut calls): (net::Settings, ServerHouse<World>, usize)| {
        let mailbox = &boxes[usize::from(settings.shard.0)];
        for _ in 0..LOOKS {
            calls -= calls.min(house.completed(now(), mail(mailbox)));
            if calls == 0 {
                break;
            }
            std::thread::sleep(LOOK);
        }
        (settings, house)
    };
    houses.into_iter().map(begin).collect()
}

/// What has come for a house.
fn mail(mailbox: &Mailbox<ServerLetter<World>>) -> impl Iterator<Item = Mail> {
    let mut letters = Vec::new();
    mailbox.take(&mut letters);
    letters.into_iter().filter_map(|letter| match letter {
        Letter::Mail(mail) => Some(mail),
        _ => None,
    })
}

/// Where each webhook that wants Reports has them wait.
fn report_hooks(
    hooks: &[admin::Webhook],
    timelines: &[Option<model::timeline::TimelineId>],
) -> Vec<ReportHook> {
    let both = hooks.iter().zip(timelines);
    let wanted = both.filter_map(|(hook, timeline)| Some((hook, (*timeline)?)));
    wanted.map(|(hook, timeline)| ReportHook { product: hook.product.clone(), timeline }).collect()
}

/// A shard's share. Identities do not spread evenly: a little more than an even share.
fn hub_settings(seeds: &Seeds, shard: ShardId) -> hub::Settings {
    let count = seeds.count as u64;
    let share = |whole: u64| whole.div_ceil(count);
    let ample = |whole: u64| if count == 1 { whole } else { share(whole) + share(whole) / 8 + 64 };
    hub::Settings {
        shard,
        devices_max: u32::try_from(ample(u64::from(seeds.limits.devices_max))).unwrap_or(u32::MAX),
        offline_bytes_max: ample(seeds.limits.offline_bytes_max),
        binds_per_s: share(u64::from(seeds.limits.binds_per_s)) as u32,
        limits: seeds.limits.clone(),
        node_secret: seeds.node_secret,
        hash_key: seeds.hash_key,
        home: seeds.home,
        report_hooks: seeds.report_hooks.clone(),
        seed: seeds.seed ^ u64::from(shard.0),
    }
}

type Houses = Vec<(net::Settings, ServerHouse<World>)>;
type Sockets = Vec<Vec<std::os::fd::OwnedFd>>;

fn spawn(
    config: &Config,
    seeds: &Seeds,
    (houses, sockets): (Houses, Sockets),
    boxes: &Mailboxes<World>,
    doors: &[Door],
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let doors: Vec<Arc<Door>> = doors.iter().cloned().map(Arc::new).collect();
    let began = clock::began();
    let pin = config.server.pin && seeds.count > 1;
    let mut threads = Vec::new();
    for ((settings, house), sockets) in houses.into_iter().zip(sockets) {
        let shard = settings.shard;
        let settings = net::Settings { doors: doors.clone(), ..settings };
        let net = Epoll::new(shard, sockets, boxes.clone(), began).map_err(failed)?;
        let name = format!("shard-{}", shard.0);
        let mailbox = boxes[usize::from(shard.0)].clone();
        let run = move || {
            if pin {
                rooms::pin(shard.0);
            }
            let mut shard = Shard::new(settings, net, house);
            shard.run();
            wind_up(shard.house_mut(), &mailbox, began);
        };
        threads.push(Builder::new().name(name).spawn(run).map_err(failed)?);
    }
    Ok(threads)
}

/// The shard has let everybody go: its hub says what it still has to say to the log.
fn wind_up(
    house: &mut ServerHouse<World>,
    mailbox: &Mailbox<ServerLetter<World>>,
    began: std::time::Instant,
) {
    for _ in 0..LOOKS {
        let now = clock::now(began);
        house.completed(now, mail(mailbox));
        if house.wind_up(now) {
            return;
        }
        std::thread::sleep(LOOK);
    }
    tracing::warn!(
        "the log did not answer in time: what some devices did last may not be in it, and a push \
         may come again"
    );
}

fn random_word() -> Result<u64, StartError> {
    random().map(u64::from_le_bytes)
}

fn random<const N: usize>() -> Result<[u8; N], StartError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| StartError(format!("no random bytes: {error}")))?;
    Ok(bytes)
}

fn now() -> base::time::Now {
    base::time::Now::new(base::time::Instant::default(), clock::wall_ms())
}
