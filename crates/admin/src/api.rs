//! The router, and what all handlers share.
//!
//! [`table`] is the only list of routes, and every request passes [`guard`] first. It knows no
//! path's meaning. Invariant: whatever is asked of the shards is answered within a time.

pub(crate) mod audit_log;
pub(crate) mod body;
pub(crate) mod describe;
pub(crate) mod document;
pub(crate) mod fault;
pub(crate) mod guard;
pub(crate) mod life;
pub mod listener;
pub(crate) mod roles;
pub(crate) mod sessions;
pub(crate) mod table;
pub(crate) mod texts;
pub(crate) mod tokens;

use crate::Settings;
use crate::api::life::{Phase, said_to_be_last};
use crate::audit_log::AuditLog;
use crate::body::BodyRoom;
use crate::fault::Fault;
use crate::feed::Feed;
use crate::guard::{Visitor, guard, nothing};
use crate::listener::{DoorLimits, Seats, seated};
use crate::orders::batch::BATCH_BYTES_MAX;
use crate::orders::chat;
use crate::orders::presence_questions::PRINCIPALS_BYTES_MAX;
use crate::orders::users::IMPORT_BYTES_MAX;
use crate::otlp::OtlpTally;
use crate::roles::{ConsoleRole, Roles};
use crate::routes::broadcasts::job::Broadcasts;
use crate::routes::elsewhere::ElsewhereTally;
use crate::routes::overview::Live;
use crate::routes::overview::alarms::Alarms;
use crate::routes::overview::history::History;
use crate::routes::session::LOG_IN_BYTES_MAX;
use crate::sessions::Sessions;
use crate::sessions::attempts::Attempts;
use crate::table::{Route, table};
use crate::tokens::Tokens;
use crate::webhook::roster::Roster;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use model::audience::TagExpression;
use model::id::ProductKey;
use model::limits::seats::{NoSeat, SourceSeat, SourceSeats};
use model::limits::{ApiLimits, Limits};
use model::ports::control::{Answer, Command, Control};
use model::ports::pushes::{PushAnswer, PushCommand};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::Builder;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::Instant;

/// Time for the shards to answer, beside what a request itself wants to wait.
const ANSWER: Duration = Duration::from_secs(10);

/// Most queries to the directory at once. One more gets `busy`.
const LOOKUPS_MAX: usize = 16;

/// Passwords that are looked at, at once; the next ones wait. Each costs a core for a moment.
const PASSWORDS_AT_ONCE: usize = 2;

/// State that all handlers share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) control: Arc<dyn Control>,
    pub(crate) feed: Arc<Feed>,
    /// Distinguishes this process's event ids from another's.
    pub(crate) boot: u64,
    pub(crate) webhooks: Arc<Roster>,
    pub(crate) streams: Arc<SourceSeats>,
    /// Streams refused for lack of a seat.
    pub(crate) streams_refused: AtomicU64,
    /// One backup at a time.
    pub(crate) backups: Arc<Semaphore>,
    /// One comparison of memory and directory at a time.
    pub(crate) audits: Arc<Semaphore>,
    /// Questions to the directory.
    pub(crate) lookups: Arc<Semaphore>,
    /// One reader of the audit log at a time.
    pub(crate) looks_back: Arc<Semaphore>,
    pub(crate) bodies: BodyRoom,
    pub(crate) seats: Seats,
    pub(crate) tokens: Tokens,
    /// Of the console.
    pub(crate) sessions: Sessions,
    /// To log in to it.
    pub(crate) attempts: Attempts,
    /// Roles of users there, now.
    roles: RwLock<Roles>,
    /// The process's limits, now.
    limits: RwLock<Arc<Limits>>,
    /// The API's own, now.
    api_limits: RwLock<Arc<ApiLimits>>,
    /// Results of exports of metrics.
    pub(crate) otlp: OtlpTally,
    /// Orders for devices at other servers.
    pub(crate) elsewhere: ElsewhereTally,
    /// Passwords that are looked at, at once.
    pub(crate) hashing: Semaphore,
    pub(crate) audit_log: AuditLog,
    pub(crate) broadcasts: Broadcasts,
    /// Figures of the console, while it has readers.
    pub(crate) live: Live,
    /// The last hour of its figures.
    pub(crate) history: History,
    pub(crate) alarms: Alarms,
    /// One reader of the configuration at a time.
    pub(crate) configurations: Arc<Semaphore>,
    pub(crate) phases: watch::Receiver<Phase>,
}

pub(crate) type Api = State<Arc<Shared>>;

/// Parts that [`Shared`] is made from, besides the settings.
pub(crate) struct Parts {
    pub(crate) control: Arc<dyn Control>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) boot: u64,
    pub(crate) webhooks: Arc<Roster>,
    pub(crate) audit_log: AuditLog,
    pub(crate) phases: watch::Receiver<Phase>,
}

impl Shared {
    pub(crate) fn new(settings: Settings, parts: Parts) -> Arc<Shared> {
        let Parts { control, feed, boot, webhooks, audit_log, phases } = parts;
        let mut key = [0; 32];
        (settings.random)(&mut key);
        let limits = &settings.api;
        let rows = Arc::clone(&settings.tokens);
        let tokens = Tokens::new((key, &settings.token), rows, limits.tokens_max as usize);
        let room = |count: usize| Arc::new(Semaphore::new(count));
        Arc::new(Shared {
            control,
            feed,
            boot,
            webhooks,
            streams_refused: AtomicU64::new(0),
            streams: SourceSeats::new(limits.streams_max, limits.streams_a_source_max),
            backups: room(1),
            audits: room(1),
            lookups: room(LOOKUPS_MAX),
            looks_back: room(1),
            bodies: BodyRoom::new(bodies_kib(limits, &settings.limits)),
            seats: Seats::new(door(limits)),
            tokens,
            sessions: Sessions::new(limits),
            roles: RwLock::new(settings.roles.clone()),
            limits: RwLock::new(Arc::new(settings.limits.clone())),
            api_limits: RwLock::new(Arc::new(limits.clone())),
            attempts: Attempts::new(limits.console_failures_a_source_max),
            otlp: OtlpTally::default(),
            elsewhere: ElsewhereTally::default(),
            hashing: Semaphore::new(PASSWORDS_AT_ONCE),
            audit_log,
            broadcasts: Broadcasts::default(),
            live: Live::default(),
            history: History::new(boot),
            alarms: Alarms::open(settings.alarms.as_deref(), boot),
            configurations: room(1),
            phases,
            settings,
        })
    }

    /// The role that a user has now.
    pub(crate) fn role(&self, user: &str) -> Option<ConsoleRole> {
        self.roles.read().unwrap_or_else(PoisonError::into_inner).role(user)
    }

    /// Sets other roles. May block.
    pub(crate) fn set_roles(&self, roles: Roles) {
        *self.roles.write().unwrap_or_else(PoisonError::into_inner) = roles;
        self.end_outdated(self.sessions.users());
    }

    /// The process's limits.
    pub(crate) fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.limits.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The API's own limits.
    pub(crate) fn api_limits(&self) -> Arc<ApiLimits> {
        Arc::clone(&self.api_limits.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets other limits. The largest body that they allow always fits. Connections and bodies that
    /// exceed a lower limit stay until they end.
    pub(crate) fn set_limits(&self, limits: &Arc<Limits>, api: &ApiLimits) {
        self.bodies.set(bodies_kib(api, limits));
        self.streams.set_max(api.streams_max, api.streams_a_source_max);
        self.seats.set_limits(door(api));
        self.tokens.set_max(api.tokens_max as usize);
        self.sessions.set_limits(api);
        self.attempts.set_max(api.console_failures_a_source_max);
        self.audit_log.set_bytes_max(api.audit_log_bytes_max);
        *self.api_limits.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(api.clone());
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(limits);
    }

    /// Ends the console sessions of these users that are no longer justified: the account was
    /// removed or disabled, has another password or role, or was kicked. May block.
    pub(crate) fn end_outdated(&self, users: Vec<String>) {
        for user in users {
            // A user that cannot be looked up has no session.
            let standing = self.settings.people.standing(&user).ok().flatten();
            self.sessions.end_of_user(&user, self.role(&user).zip(standing));
        }
    }

    /// A seat for a stream to this visitor.
    pub(crate) fn stream_seat(&self, visitor: &Visitor) -> Result<SourceSeat, Fault> {
        self.streams.take(visitor.source()).map_err(|why| {
            self.streams_refused.fetch_add(1, Ordering::Relaxed);
            match why {
                NoSeat::Full => Fault::busy(),
                NoSeat::SourceFull => Fault::source_full(),
            }
        })
    }

    /// Asks the shards; the answer comes by what is returned.
    pub(crate) fn pose(&self, command: Command) -> oneshot::Receiver<Answer> {
        let (tell, told) = oneshot::channel();
        // The receiver is gone if the request was cancelled.
        self.control.ask(command, Box::new(move |answer| drop(tell.send(answer))));
        told
    }

    /// Runs work of unlimited duration on a thread of its own, for which the server's end does not
    /// wait. It is refused if none of `places` is free; its place is freed before its result is
    /// delivered, because the receiver may start the next work at once.
    pub(crate) fn begin<T: Send + 'static>(
        places: &Arc<Semaphore>,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, Fault> {
        let permit = Arc::clone(places).try_acquire_owned().map_err(|_| Fault::busy())?;
        let (tell, told) = oneshot::channel();
        let life = move || {
            let done = work();
            drop(permit);
            // The receiver is gone if the request was cancelled.
            drop(tell.send(done));
        };
        Builder::new().name(name.into()).spawn(life).map_err(|_| Fault::busy())?;
        Ok(told)
    }

    /// Asks the shards; an answer that refuses is a fault.
    pub(crate) async fn ask(&self, command: Command) -> Result<Answer, Fault> {
        self.ask_within(command, Duration::ZERO).await
    }

    /// Refuses a product that does not exist, with a fault that names it.
    pub(crate) async fn knows_product(&self, product: &ProductKey) -> Result<(), Fault> {
        let (product, names) = (product.clone(), Some(Vec::new()));
        self.ask(Command::Push(PushCommand::Segments { product, names })).await.map(|_| ())
    }

    /// As [`ask`](Self::ask), for a command that may itself wait for `more`.
    pub(crate) async fn ask_within(
        &self,
        command: Command,
        more: Duration,
    ) -> Result<Answer, Fault> {
        let product = product_of(&command).cloned();
        let answer = Shared::hear(self.pose(command), Shared::until(more)).await;
        answer.map_err(|fault| fault.about_product(product.as_ref()))
    }

    /// Until when a command that is asked now must be answered; it may itself wait for `more`.
    pub(crate) fn until(more: Duration) -> Instant {
        Instant::now() + ANSWER + more
    }

    /// Waits for the answer to a command that was asked, until then.
    pub(crate) async fn hear(
        told: oneshot::Receiver<Answer>,
        until: Instant,
    ) -> Result<Answer, Fault> {
        match tokio::time::timeout_at(until, told).await {
            Err(_) => Err(Fault::no_answer()),
            // The server is going, and may have done it.
            Ok(Err(_)) => Err(Fault::no_answer()),
            Ok(Ok(Answer::Push(PushAnswer::UnknownProduct))) => Err(Fault::unknown("product")),
            Ok(Ok(Answer::Busy)) => Err(Fault::busy()),
            Ok(Ok(Answer::Push(PushAnswer::StoreFailed))) => Err(Fault::store()),
            Ok(Ok(Answer::Push(PushAnswer::Conflict))) => Err(Fault::conflict()),
            Ok(Ok(Answer::Push(PushAnswer::TooManyScheduled))) => Err(Fault::too_many_scheduled()),
            Ok(Ok(Answer::Push(PushAnswer::ListsFull))) => Err(Fault::lists_full()),
            Ok(Ok(Answer::Push(PushAnswer::NotTracked))) => Err(Fault::not_tracked()),
            Ok(Ok(Answer::Push(PushAnswer::TokenRefused))) => Err(Fault::device_token()),
            Ok(Ok(Answer::Push(PushAnswer::NoReports))) => Err(Fault::no_reports()),
            Ok(Ok(Answer::Push(PushAnswer::TooManyReports))) => Err(Fault::too_many_reports()),
            Ok(Ok(Answer::Push(PushAnswer::TimePassed))) => Err(Fault::bad(
                "its time has passed, and no push was ordered with this `Idempotency-Key`",
            )),
            Ok(Ok(Answer::Push(PushAnswer::UnknownSegment(name)))) => {
                Err(Fault::unknown_segment(name.as_str()))
            }
            Ok(Ok(Answer::Push(PushAnswer::TooManyTerms(terms)))) => Err(Fault::bad(format!(
                "the audience's expression has {terms} tags with those of its segments; the \
                 maximum is {}: name fewer or smaller segments",
                TagExpression::RESOLVED_TERMS_MAX
            ))),
            Ok(Ok(Answer::Push(PushAnswer::TooManySegments))) => Err(Fault::too_many_segments()),
            Ok(Ok(Answer::Push(PushAnswer::TooManySchedules))) => Err(Fault::too_many_schedules()),
            Ok(Ok(answer)) => Ok(answer),
        }
    }

    /// The largest body that a path takes.
    pub(crate) fn body_bytes_max(&self, path: &str) -> usize {
        if path == "/v1/publish" {
            return publish_bytes_max(&self.limits());
        }
        if path.starts_with("/v1/chat/") {
            return chat::body_bytes_max(&self.limits().chat);
        }
        if path.starts_with("/v1/presence") {
            return PRINCIPALS_BYTES_MAX;
        }
        if path == "/v1/users" {
            return IMPORT_BYTES_MAX;
        }
        if path == "/v1/session" {
            return LOG_IN_BYTES_MAX;
        }
        if path == "/v1/pushes" {
            return audience_bytes_max(&self.limits());
        }
        if path == "/v1/pushes/batch" {
            return BATCH_BYTES_MAX.max(push_bytes_max(&self.limits()));
        }
        push_bytes_max(&self.limits())
    }
}

/// Most bytes of a device's name in a body, with what separates names.
const NAME_BYTES_MAX: usize = 70;

/// A push whose every byte is an escape of six, to a full list of devices.
fn push_bytes_max(limits: &Limits) -> usize {
    limits.pushes.push_bytes_max as usize * 6
        + limits.pushes.push_devices_max as usize * NAME_BYTES_MAX
        + 16 * 1024
}

/// A push to the longest list in an audience.
fn audience_bytes_max(limits: &Limits) -> usize {
    push_bytes_max(limits) + limits.pushes.audience_devices_max as usize * NAME_BYTES_MAX
}

/// A packet whose payload is one in base64 with as much again for everything else.
fn publish_bytes_max(limits: &Limits) -> usize {
    limits.topics.packet_bytes_max as usize * 7 / 3 + 16 * 1024
}

/// KiB of all bodies together: the largest one fits.
fn bodies_kib(api: &ApiLimits, limits: &Limits) -> u64 {
    let kib = (api.bodies_bytes_max / 1024).max(largest_body(limits) as u64 / 1024 + 1);
    kib.min(Semaphore::MAX_PERMITS as u64)
}

fn largest_body(limits: &Limits) -> usize {
    let of_chat = chat::body_bytes_max(&limits.chat);
    let fixed = PRINCIPALS_BYTES_MAX.max(IMPORT_BYTES_MAX);
    audience_bytes_max(limits).max(publish_bytes_max(limits)).max(of_chat).max(fixed)
}

pub(crate) fn door(limits: &ApiLimits) -> DoorLimits {
    let ms = |ms: u32| Duration::from_millis(ms.into());
    DoorLimits {
        connections_max: limits.connections_max,
        connections_a_source_max: limits.connections_a_source_max,
        head: ms(limits.head_ms_max),
        idle: ms(limits.idle_ms_max),
        write: ms(limits.write_ms_max),
    }
}

/// The application.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new();
    for Route { rule, methods, .. } in table() {
        let guarded = from_fn_with_state((Arc::clone(&shared), rule), guard);
        router = router.route(rule.path, methods.route_layer(guarded));
    }
    router
        .fallback(unknown)
        .method_not_allowed_fallback(method)
        .layer(from_fn(seated))
        .layer(from_fn_with_state(shared.phases.clone(), said_to_be_last))
        .layer(DefaultBodyLimit::disable()) // the guard has its own
        .with_state(shared)
}

async fn unknown(State(api): Api, request: Request) -> Response {
    nothing(&api, request, Fault::unknown("path")).await
}

async fn method(State(api): Api, request: Request) -> Response {
    nothing(&api, request, Fault::method()).await
}

/// The product that a command is about.
fn product_of(command: &Command) -> Option<&ProductKey> {
    let Command::Push(command) = command else { return None };
    match command {
        PushCommand::Push(order) => Some(&order.product),
        PushCommand::List { product, .. }
        | PushCommand::Orders { product, .. }
        | PushCommand::Schedules { product, .. } => product.as_ref(),
        PushCommand::PutSchedule(schedule) => Some(schedule.product()),
        PushCommand::States { product, .. }
        | PushCommand::Kick { product, .. }
        | PushCommand::EndBanned { product, .. }
        | PushCommand::Block { product, .. }
        | PushCommand::SetTags { product, .. }
        | PushCommand::SetUser { product, .. }
        | PushCommand::SetZone { product, .. }
        | PushCommand::SetPlatform { product, .. }
        | PushCommand::DropSchedule { product, .. }
        | PushCommand::PauseSchedule { product, .. }
        | PushCommand::UserDevices { product, .. }
        | PushCommand::ReportPush { product, .. }
        | PushCommand::Configure { product }
        | PushCommand::DropProduct(product)
        | PushCommand::Count { product, .. }
        | PushCommand::PutSegment { product, .. }
        | PushCommand::DropSegment { product, .. }
        | PushCommand::Segments { product, .. }
        | PushCommand::Token { product, .. } => Some(product),
        PushCommand::PutProduct(product) => Some(&product.key),
        PushCommand::Cancel { product, .. }
        | PushCommand::Pause { product, .. }
        | PushCommand::Outcomes { product, .. }
        | PushCommand::Minutes { product, .. } => product.as_ref(),
        PushCommand::PushCounts(_) | PushCommand::Products => None,
    }
}
