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
mod follower;
mod orders;
mod otlp;
pub mod outward;
mod platforms;
mod push_gateway;
mod routes;
mod start_error;
#[cfg(test)]
mod tests;
mod webhook;

pub use answers::configuration::{
    ConfigChange, ConfigSection, ConfigSetting, Configuration, DrainState, FailedChange,
    ReloadPreview, Reloaded,
};
pub use answers::edge::bridges::BridgeStatus;
pub use answers::edge::certificates::CertificateStatus;
pub use answers::edge::cluster::{ClusterLog, ClusterNode, ClusterView};
pub use answers::log::LogLine;
pub use api::audit_log::BookNote;
pub use api::listener;
pub use api::roles::Roles;
pub use events::TYPES as EVENT_TYPES;
pub use feed::stream_courier::{StreamCourier, StreamSettings, StreamTally};
pub use feed::{Feed, MESSAGES_BYTES_MAX};
pub use follower::{ClusterReading, FollowerApi, FollowerSettings, follow};
pub use otlp::OtlpSettings;
pub use outward::redact::url as shown_url;
pub use platforms::{
    ApnsIdentity, PlatformOutcomes, PlatformService, PlatformSettings, PlatformStatus, Platforms,
    WEB_PUSH_ENDPOINTS,
};
pub use push_gateway::{NotifiedReply, PushGateway, PushGatewaySettings};
pub use start_error::ApiStartError;
pub use webhook::dead::{DEAD_LETTERS_BYTES_MAX, DEAD_LETTERS_MAX, DeadLetterSettings};
pub use webhook::{BATCH_EVENTS_MAX, WallClock, Webhook, WebhookRetry};

use api::life::{self, Phase};
use api::tokens;
use api::{Parts, Shared};
use api::{audit_log, body, describe, document, fault, guard, roles, sessions, table, texts};
use audit_log::AuditLog;
use model::limits::{ApiLimits, Limits};
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
use webhook::roster::{Around, Roster};

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
    /// Its current value.
    pub value: u64,
}

/// People who log in to the console by name and password, wherever their passwords are. Both may
/// block.
pub trait ConsolePeople: Send + Sync {
    /// The epoch of the user with this name, if it has this password and is not disabled; the epoch
    /// changes with a new password, or when the user's sessions are ended. Costs the same for an
    /// unknown name.
    fn check(&self, name: &str, password: &str) -> Result<Option<u64>, UserFault>;

    /// Epoch of the user with this name, whatever its password, if it is not disabled.
    fn standing(&self, name: &str) -> Result<Option<u64>, UserFault>;
}

/// Fills a buffer with random bytes from the operating system.
pub type RandomBytes = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// Figures as they are when they are asked for. Must not block.
pub type Readings = Arc<dyn Fn() -> Vec<MetricReading> + Send + Sync>;

/// Health of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogHealth {
    /// The log takes all writes.
    Good,
    /// The log is full, and takes only writes that free something.
    Full,
    /// The log takes no writes until the disk is mended and the server restarted.
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
    /// Whether the server closes its connections.
    pub draining: bool,
    /// Whether the server leads a cluster, and reaches no majority of the NATS servers.
    pub isolated: bool,
    /// Whether the server leads a cluster, and NATS has no room for a log.
    pub stream_full: bool,
    /// Each log.
    pub logs: Vec<LogHealth>,
}

impl Readiness {
    /// Whether everything is taken that belongs here, writes included.
    pub fn is_ready(&self) -> bool {
        self.reasons().is_empty()
    }

    /// Whether this node accepts clients. If a log is full it accepts no writes, but clients may
    /// connect, read and remove, which makes room; if a log has failed, its content is unknown.
    pub fn takes_connections(&self) -> bool {
        !self.draining && !self.logs.contains(&LogHealth::Failed)
    }

    /// Whether the node leads, so that load balancers send clients here.
    pub fn leads(&self) -> bool {
        self.takes_connections() && !self.isolated
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
        let isolated = self
            .isolated
            .then(|| "no majority of the NATS servers answers: nothing is acknowledged".to_owned());
        let stream_full = self.stream_full.then(|| {
            "NATS has no room for a log: new data is refused until its stream, its account or its \
             disk has room"
                .to_owned()
        });
        let of_logs = self.logs.iter().enumerate().filter_map(of_log);
        draining.into_iter().chain(isolated).chain(stream_full).chain(of_logs).collect()
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

/// Number of log lines of each kind of trouble, by its name. Must not block.
pub type LogEvents = Arc<dyn Fn() -> BTreeMap<&'static str, u64> + Send + Sync>;

/// Reads the configuration again and applies what can change while the server runs; an error says
/// why nothing changed. Blocks: it reads files.
pub type ReloadOrder = Arc<dyn Fn() -> Result<Reloaded, String> + Send + Sync>;

/// Reads the configuration and what it names, and says what a reload would do; an error says why it
/// cannot be read. Changes nothing. Blocks: it reads files.
pub type ReloadPreviews = Arc<dyn Fn() -> Result<ReloadPreview, String> + Send + Sync>;

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
    /// The file of alarms. Without it, a restart forgets past ones.
    pub alarms: Option<PathBuf>,
    /// The API's own limits, at first.
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
    /// Users that may log in to it by name and password, at first.
    pub roles: Roles,
    /// Checks passwords.
    pub people: Arc<dyn ConsolePeople>,
    /// The book of users.
    pub users: Arc<dyn Users>,
    /// The bans.
    pub bans: Arc<dyn Bans>,
    /// The directory of presence.
    pub presence: Arc<dyn PresenceQueries>,
    /// Where events are posted, at first.
    pub webhooks: Vec<Webhook>,
    /// The Reports that wait for them. Without it, Reports reach them like other events, by the
    /// feed.
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
    /// For `/v1/cluster`.
    pub cluster: ClusterReading,
    /// For `/v1/bridges`.
    pub bridges: BridgeStatuses,
    /// Push services of platforms.
    pub platforms: Arc<Platforms>,
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
    /// For `/v1/configuration/preview`.
    pub preview: ReloadPreviews,
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
    roster: Arc<Roster>,
    /// As long as it works.
    shared: Weak<Shared>,
}

/// A way to change an API at work, from any thread; it does not keep it at work.
#[derive(Clone)]
pub struct ApiHandle {
    shared: Weak<Shared>,
}

impl ApiHandle {
    /// People have these roles from now on. Sessions of users who now have another role, or another
    /// password, end. May block.
    pub fn set_roles(&self, roles: Roles) {
        if let Some(shared) = self.shared.upgrade() {
            shared.set_roles(roles);
        }
    }

    /// Sets new limits: the server's, and the API's own.
    pub fn set_limits(&self, limits: &Arc<Limits>, api: &ApiLimits) {
        if let Some(shared) = self.shared.upgrade() {
            shared.set_limits(limits, api);
        }
    }

    /// Sets the webhooks. Those with the same URL and product go on where they are, with their new
    /// settings. An error has changed nothing. Blocks: it reads files.
    pub fn set_webhooks(&self, webhooks: Vec<Webhook>) -> Result<(), ApiStartError> {
        match self.shared.upgrade() {
            Some(shared) => shared.webhooks.set(webhooks, &shared.limits().topics),
            None => Ok(()),
        }
    }

    /// This is the first token from now on. Streams and sessions of the old token end. False: it is
    /// the same.
    pub fn set_first_token(&self, token: &str) -> bool {
        self.shared.upgrade().is_some_and(|shared| shared.tokens.set_first(token))
    }
}

impl RunningApi {
    /// A way to change it.
    pub fn handle(&self) -> ApiHandle {
        ApiHandle { shared: self.shared.clone() }
    }

    /// Records orders to the book of accounts that came by another way. May block.
    pub fn witness(&self) -> impl Fn(BookNote) + Send + Sync + use<> {
        let shared = self.shared.clone();
        move |note| audit_log::note(&shared, note)
    }

    /// Addresses that it listens at, in the order of its listeners.
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

    /// Accepts no more requests, ends the streams, lets open requests and the webhooks' last
    /// batches end, and returns when all of it is done. Nothing may be published after this.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.feed.close();
        self.phase.send_replace(Phase::Ended);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tell!(event::THREAD_PANICKED, thread = "API");
            }
        }
        self.roster.join();
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
    let webhooks = Arc::new(Roster::new(around(&settings, &feed, boot)));
    let roster = Arc::clone(&webhooks);
    let mut running = RunningApi { addrs, feed: kept, phase, finished, threads, roster, shared };
    webhooks.set(settings.webhooks.clone(), &settings.limits.topics)?;
    let parts = Parts { control, feed, boot, webhooks, audit_log, phases: phases.clone() };
    let shared = Shared::new(settings, parts);
    running.shared = Arc::downgrade(&shared);
    let serve = move || life::serve(listeners, shared, phases, over);
    running.threads.push(thread("holdline-api", serve)?);
    Ok(running)
}

/// Settings and connections of all webhooks.
fn around(settings: &Settings, feed: &Arc<Feed>, boot: u64) -> Around {
    Around {
        feed: Arc::clone(feed),
        backlog: settings.backlog.clone(),
        dead_letters: settings.dead_letters.clone(),
        retry: settings.retry,
        wall_ms: Arc::clone(&settings.wall_ms),
        proxied: settings.proxy_from_environment,
        boot,
    }
}

fn thread(
    name: &'static str,
    life: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, ApiStartError> {
    Builder::new().name(name.into()).spawn(life).map_err(ApiStartError::Thread)
}
