//! The door to applications: HTTP with JSON, an event stream, webhooks, metrics.
//!
//! Axum on a thread and a runtime of its own, apart from the shards. A request becomes a
//! [`model::ports::control::Command`]; the answer becomes a status and JSON. It does not know
//! sockets of devices nor the hub's tables, and reads no clock. The API is described in
//! `docs/api.md` and, for programs, by `GET /openapi.json`, which is made of the routes' types.
//! Invariant: no request runs on a shard's thread, and whatever waits here is bounded.
//!
//! Read [`start`] first, then `api.rs`.

mod answers;
mod api;
mod console;
mod events;
mod feed;
mod orders;
mod otlp;
pub mod outward;
mod process;
mod push_gateway;
mod routes;
mod start_error;
#[cfg(test)]
mod tests;
mod webhook;

pub use answers::configuration::{
    ConfigChange, ConfigSection, ConfigSetting, Configuration, DrainState, FailedChange, Reloaded,
};
pub use answers::edge::bridges::BridgeStatus;
pub use answers::edge::certificates::CertificateStatus;
pub use answers::log::LogLine;
pub use api::audit_log::BookNote;
pub use api::listener;
pub use api::roles::Roles;
pub use events::TYPES as EVENT_TYPES;
pub use feed::stream_courier::{StreamCourier, StreamSettings, StreamTally};
pub use feed::{Feed, MESSAGES_BYTES_MAX};
pub use otlp::OtlpSettings;
pub use outward::redact::url as shown_url;
pub use push_gateway::{NotifiedReply, PushGateway, PushGatewaySettings};
pub use start_error::ApiStartError;
pub use webhook::dead::{DEAD_LETTERS_BYTES_MAX, DEAD_LETTERS_MAX, DeadLetterSettings};
pub use webhook::{BATCH_EVENTS_MAX, WallClock, Webhook, WebhookRetry};

use api::life::{self, Phase};
use api::tokens;
use api::{Parts, Shared};
use api::{audit_log, body, describe, document, fault, guard, roles, sessions, table, texts};
use audit_log::AuditLog;
use events::{Filter, MESSAGE};
use model::limits::{ApiLimits, Limits, TopicLimits};
use model::ports::backlog::Backlog;
use model::ports::bans::Bans;
use model::ports::control::Control;
use model::ports::presence::queries::PresenceQueries;
use model::ports::tokens::TokenRows;
use model::ports::trace::Traces;
use model::ports::users::{UserFault, Users};
use model::{event, tell};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread::{Builder, JoinHandle};
use tokio::sync::watch;
use webhook::Address;
use webhook::dead::DeadLetters;
use webhook::feed_courier::FeedCourier;
use webhook::report_courier::ReportCourier;

/// The API's description for programs (OpenAPI 3.1), as `GET /openapi.json` serves it.
pub fn openapi() -> &'static str {
    &document::OPENAPI
}

/// A figure that the roof adds to the metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetricReading {
    /// The metric's name, without the prefix `holdline_`.
    pub name: &'static str,
    /// Its explanation.
    pub help: &'static str,
    /// What it is now.
    pub value: u64,
}

/// People who log in to the console by name and password, wherever their passwords are. Both may
/// block.
pub trait ConsolePeople: Send + Sync {
    /// What stands for the user with this name, if it has this password and is not disabled:
    /// another number once it has another password, or its sessions were ended. Costs the same for
    /// a name that nobody has.
    fn check(&self, name: &str, password: &str) -> Result<Option<u64>, UserFault>;

    /// The same, whatever its password is.
    fn standing(&self, name: &str) -> Result<Option<u64>, UserFault>;
}

/// Fills a buffer with random bytes from the operating system.
pub type RandomBytes = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// Figures as they are when they are asked for. Must not block.
pub type Readings = Arc<dyn Fn() -> Vec<MetricReading> + Send + Sync>;

/// Health of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogHealth {
    /// It takes what comes.
    Good,
    /// It has no room, and takes what frees something.
    Full,
    /// It takes nothing until the disk is mended and the server restarted.
    Failed,
}

impl LogHealth {
    /// The word in `/readyz`.
    pub const fn name(self) -> &'static str {
        match self {
            LogHealth::Good => "good",
            LogHealth::Full => "full",
            LogHealth::Failed => "failed",
        }
    }
}

/// Readiness: whether the server takes everything that belongs here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Readiness {
    /// It lets its connections go.
    pub draining: bool,
    /// Each log.
    pub logs: Vec<LogHealth>,
}

impl Readiness {
    /// Whether everything is taken that belongs here, writes included.
    pub fn is_ready(&self) -> bool {
        self.reasons().is_empty()
    }

    /// Whether clients belong here. A log that is full takes nothing new, but everybody comes in,
    /// reads and removes, and so makes room; of one that failed nobody knows what it has.
    pub fn takes_connections(&self) -> bool {
        !self.draining && !self.logs.contains(&LogHealth::Failed)
    }

    /// Why the server is not ready, one sentence a reason.
    pub fn reasons(&self) -> Vec<String> {
        let draining = self.draining.then(|| "the server is draining".to_owned());
        let of_log = |(number, log): (usize, &LogHealth)| match log {
            LogHealth::Good => None,
            LogHealth::Full => Some(format!(
                "log {number} is full: new data is refused until something is removed \
                 or expires, or log_bytes_max of [store] is raised"
            )),
            LogHealth::Failed => Some(format!(
                "log {number} has failed: nothing is stored until the disk is repaired and the \
                 server restarted"
            )),
        };
        draining.into_iter().chain(self.logs.iter().enumerate().filter_map(of_log)).collect()
    }
}

/// How the bridges are when it is asked. Must not block.
pub type BridgeStatuses = Arc<dyn Fn() -> Vec<BridgeStatus> + Send + Sync>;

/// Certificates in use when it is asked. Must not block.
pub type CertificateReadings = Arc<dyn Fn() -> Vec<CertificateStatus> + Send + Sync>;

/// How the server is when it is asked. Must not block.
pub type Readies = Arc<dyn Fn() -> Readiness + Send + Sync>;

/// Copies the data folder to a new folder; gives its bytes, or says why not. Blocks.
pub type Backup = Arc<dyn Fn(&Path) -> Result<u64, String> + Send + Sync>;

/// The newest lines of the log that were kept, oldest first. Must not block.
pub type RecentLog = Arc<dyn Fn() -> Vec<LogLine> + Send + Sync>;

/// How often each kind of trouble was told in the log, by its name. Must not block.
pub type LogEvents = Arc<dyn Fn() -> BTreeMap<&'static str, u64> + Send + Sync>;

/// Reads the configuration again and applies what can change while the server runs; an error says
/// why nothing changed. Blocks: it reads files.
pub type ReloadOrder = Arc<dyn Fn() -> Result<Reloaded, String> + Send + Sync>;

/// Begins a drain, or ends it; gives how it stands then. Must not block.
pub type DrainSwitch = Arc<dyn Fn(bool) -> DrainState + Send + Sync>;

/// The configuration in force, and what a reload would change. Blocks: it reads a file.
pub type Configurations = Arc<dyn Fn() -> Configuration + Send + Sync>;

/// Settings of the API, as the roof decides them.
#[derive(Clone)]
pub struct Settings {
    /// The token that opens everything.
    pub token: String,
    /// Where those are kept that are made at run time.
    pub tokens: Arc<dyn TokenRows>,
    /// The folder of the audit log. Without it, none is kept.
    pub audit_log: Option<PathBuf>,
    /// The API's own limits.
    pub api: ApiLimits,
    /// Webhooks and metrics are posted through the proxy that the environment names, where it names
    /// one.
    pub proxy_from_environment: bool,
    /// The process's limits, at first.
    pub limits: Limits,
    /// The server's version, for `/v1/status`.
    pub version: &'static str,
    /// The console is given at `/`.
    pub console: bool,
    /// The domain of accounts of chat that are named without one.
    pub chat_domain: String,
    /// Who may log in to it by name and password, at first.
    pub roles: Roles,
    /// Whose passwords are right.
    pub people: Arc<dyn ConsolePeople>,
    /// The book of users.
    pub users: Arc<dyn Users>,
    /// Who is banned.
    pub bans: Arc<dyn Bans>,
    /// The directory of presence.
    pub presence: Arc<dyn PresenceQueries>,
    /// Where events are posted.
    pub webhooks: Vec<Webhook>,
    /// The Reports that wait for them, by their number in `webhooks`. Without it, Reports reach
    /// them like other events, by the feed.
    pub backlog: Option<Arc<dyn Backlog>>,
    /// Where what they give up is kept. Without it, it is lost.
    pub dead_letters: Option<DeadLetterSettings>,
    /// How webhooks are retried.
    pub retry: WebhookRetry,
    /// Unix milliseconds.
    pub wall_ms: WallClock,
    /// For products' secrets.
    pub random: RandomBytes,
    /// Further figures for the metrics, such as the store's.
    pub readings: Readings,
    /// For `/readyz`.
    pub readiness: Readies,
    /// For `/v1/bridges`.
    pub bridges: BridgeStatuses,
    /// For `/v1/certificates` and `/metrics`.
    pub certificates: CertificateReadings,
    /// For `/v1/log`.
    pub log: RecentLog,
    /// For `/metrics`.
    pub log_events: LogEvents,
    /// For `/v1/configuration`.
    pub configuration: Configurations,
    /// For `/v1/configuration/reload`.
    pub reload: ReloadOrder,
    /// For `/v1/drain`.
    pub drain: DrainSwitch,
    /// For `/v1/backup`.
    pub backup: Backup,
    /// For `/v1/trace`.
    pub traces: Arc<dyn Traces>,
    /// Where metrics are pushed to. Without it, nowhere.
    pub otlp: Option<OtlpSettings>,
    /// Milliseconds between comments on a quiet event stream.
    pub heartbeat_ms: u64,
}

/// The API at work. Dropping it stops it.
pub struct RunningApi {
    addrs: Vec<SocketAddr>,
    feed: Arc<Feed>,
    phase: watch::Sender<Phase>,
    /// Ends when all that was asked is answered, once it finishes.
    finished: Mutex<mpsc::Receiver<()>>,
    threads: Vec<JoinHandle<()>>,
    /// As long as it works.
    shared: Weak<Shared>,
}

/// A way to change an API at work, from any thread; it does not keep it at work.
#[derive(Clone)]
pub struct ApiHandle {
    shared: Weak<Shared>,
}

impl ApiHandle {
    /// People have these roles from now on. Whoever is at the console with another one, or with a
    /// password that is not theirs any more, is there no longer. May block.
    pub fn set_roles(&self, roles: Roles) {
        if let Some(shared) = self.shared.upgrade() {
            shared.set_roles(roles);
        }
    }

    /// From now on these limits are in force.
    pub fn set_limits(&self, limits: &Arc<Limits>) {
        if let Some(shared) = self.shared.upgrade() {
            shared.set_limits(limits);
        }
    }

    /// This is the first token from now on. What the old one has open ends. False: it is the same.
    pub fn set_first_token(&self, token: &str) -> bool {
        self.shared.upgrade().is_some_and(|shared| shared.tokens.set_first(token))
    }
}

impl RunningApi {
    /// A way to change it.
    pub fn handle(&self) -> ApiHandle {
        ApiHandle { shared: self.shared.clone() }
    }

    /// Who keeps orders to the book of accounts that came by another way. It may block.
    pub fn witness(&self) -> impl Fn(BookNote) + Send + Sync + use<> {
        let shared = self.shared.clone();
        move |note| audit_log::note(&shared, note)
    }

    /// Where it listens, in the order of its listeners.
    pub fn addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// Takes no new connections, closes those that ask nothing, and returns when each request that
    /// had come is answered, which takes no longer than its own limits allow. Streams go on.
    pub fn finish(&self) {
        self.phase.send_if_modified(|phase| {
            *phase < Phase::Finishing && {
                *phase = Phase::Finishing;
                true
            }
        });
        let finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing is ever sent: an error is the end of who would send it.
        let _ = finished.recv();
    }

    /// Takes no more requests, ends the streams, lets open requests and the webhooks' last batches
    /// end, and returns when all of it is over. Nothing is published after this.
    pub fn stop(mut self) {
        self.end();
    }

    /// Starts the couriers of the webhook with this number.
    fn hook(
        &mut self,
        settings: &Settings,
        (hook, filter): (usize, Filter),
        boot: u64,
        address: &Arc<Address>,
    ) -> Result<(), ApiStartError> {
        let address = || Arc::clone(address);
        let backlog = settings.backlog.clone().filter(|_| filter.wants_type("report"));
        if let Some(topics) = filter.messages() {
            let reader = self.feed.message_reader(topics);
            let (address, filter, id) = (address(), filter.clone(), events::message_id as _);
            let courier = FeedCourier { address, filter, boot, id, spills: false };
            self.carry("holdline-words", courier, reader)?;
        }
        if filter.wants_chat() {
            let reader = self.feed.chat_reader(None);
            let (address, filter, id) = (address(), filter.clone(), events::chat_id as _);
            let courier = FeedCourier { address, filter, boot, id, spills: true };
            self.carry("holdline-chatter", courier, reader)?;
        }
        let of_events = filter.without(MESSAGE).and_then(|filter| filter.without_chat());
        let of_feed = match backlog {
            Some(_) => of_events.and_then(|filter| filter.without("report")),
            None => of_events,
        };
        if let Some(filter) = of_feed {
            let reader = self.feed.reader(filter.wish(), None);
            let (address, id) = (address(), events::id as _);
            let courier = FeedCourier { address, filter, boot, id, spills: true };
            self.carry("holdline-hook", courier, reader)?;
        }
        if let Some(backlog) = backlog {
            let feed = Arc::clone(&self.feed);
            let courier = ReportCourier::new(address(), backlog, hook, boot);
            self.threads.push(thread("holdline-report", move || courier.run(&feed))?);
        }
        Ok(())
    }

    fn carry(
        &mut self,
        name: &'static str,
        courier: FeedCourier,
        reader: feed::Reader,
    ) -> Result<(), ApiStartError> {
        let feed = Arc::clone(&self.feed);
        self.threads.push(thread(name, move || courier.run(&feed, &reader))?);
        Ok(())
    }

    fn end(&mut self) {
        self.feed.close();
        self.phase.send_replace(Phase::Ended);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tell!(event::THREAD_PANICKED, thread = "API");
            }
        }
    }
}

impl Drop for RunningApi {
    fn drop(&mut self) {
        self.end();
    }
}

/// Listens at this address.
pub fn bind(addr: SocketAddr) -> Result<TcpListener, ApiStartError> {
    TcpListener::bind(addr).map_err(|error| ApiStartError::Bind { addr, error })
}

/// Starts the API at these listeners, and the webhooks.
pub fn start(
    settings: Settings,
    listeners: Vec<TcpListener>,
    control: Arc<dyn Control>,
    feed: Arc<Feed>,
) -> Result<RunningApi, ApiStartError> {
    if settings.token.is_empty() {
        return Err(ApiStartError::NoToken);
    }
    let filters = settings.webhooks.iter().map(|hook| filter(hook, &settings.limits.topics));
    let filters = filters.collect::<Result<Vec<_>, _>>()?;
    let webhooks = settings.webhooks.iter().map(|hook| address(hook, &settings));
    let webhooks = webhooks.collect::<Result<Vec<_>, _>>()?;
    let mut addrs = Vec::new();
    for listener in &listeners {
        let failed = |error| ApiStartError::Bind { addr: ([0, 0, 0, 0], 0).into(), error };
        let addr = listener.local_addr().map_err(failed)?;
        let failed = |error| ApiStartError::Bind { addr, error };
        listener.set_nonblocking(true).map_err(failed)?;
        addrs.push(addr);
    }
    let bytes_max = settings.api.audit_log_bytes_max;
    let audit_log = AuditLog::open(settings.audit_log.as_deref(), bytes_max);
    let audit_log = audit_log.map_err(ApiStartError::AuditLog)?;
    let (phase, phases) = watch::channel(Phase::Serving);
    let (over, finished) = mpsc::sync_channel(0);
    let boot = (settings.wall_ms)();
    let (kept, finished) = (Arc::clone(&feed), Mutex::new(finished));
    let (threads, shared) = (Vec::new(), Weak::new());
    let mut running = RunningApi { addrs, feed: kept, phase, finished, threads, shared };
    for (hook, filter) in filters.into_iter().enumerate() {
        running.hook(&settings, (hook, filter), boot, &webhooks[hook])?;
    }
    let parts = Parts { control, feed, boot, webhooks, audit_log, phases: phases.clone() };
    let shared = Shared::new(settings, parts);
    running.shared = Arc::downgrade(&shared);
    let serve = move || life::serve(listeners, shared, phases, over);
    running.threads.push(thread("holdline-api", serve)?);
    Ok(running)
}

fn filter(hook: &Webhook, limits: &TopicLimits) -> Result<Filter, ApiStartError> {
    for found in &hook.topics {
        let lonely = !hook.types.iter().any(|name| name == MESSAGE);
        let lonely = lonely.then(|| format!("needs the type {MESSAGE}"));
        if let Some(why) = lonely.or_else(|| feed::topic::wrong_filter(found, limits)) {
            return Err(ApiStartError::BadTopic { found: found.clone(), why });
        }
    }
    let types = hook.types.iter().map(String::as_str);
    Filter::new(hook.product.clone(), types, hook.topics.clone())
        .map_err(|found| ApiStartError::UnknownType { found: found.to_owned() })
}

fn address(hook: &Webhook, settings: &Settings) -> Result<Arc<Address>, ApiStartError> {
    let failed = |error| ApiStartError::DeadLetters { url: shown_url(&hook.url), error };
    let dead = settings.dead_letters.as_ref().map(|kept| DeadLetters::open(kept, hook));
    Ok(Arc::new(Address {
        hook: hook.clone(),
        retry: settings.retry,
        wall_ms: Arc::clone(&settings.wall_ms),
        proxied: settings.proxy_from_environment,
        tally: Default::default(),
        dead: dead.transpose().map_err(failed)?,
    }))
}

fn thread(
    name: &'static str,
    life: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, ApiStartError> {
    Builder::new().name(name.into()).spawn(life).map_err(ApiStartError::Thread)
}
