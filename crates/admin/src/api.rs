//! The router: who may come in, how much they may bring, and what stands where.
//!
//! [`table`] is the only list of routes. Every request passes [`guard`] first: token, then size of
//! the body. It knows no path's meaning. Invariant: without the token nothing but [`OPEN`] paths
//! answers, and no handler sees a body above the limit.

use crate::fault::Fault;
use crate::feed::Feed;
use crate::orders::presence::PRINCIPALS_BYTES_MAX;
use crate::webhook::Address;
use crate::{STREAMS_MAX, Settings, body, routes};
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use hmac::{Hmac, KeyInit, Mac};
use model::ports::control::{Answer, Command, Control};
use sha2::Sha256;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// Paths that need no token.
pub(crate) const OPEN: [&str; 3] = ["/", "/healthz", "/openapi.json"];

/// Time for the shards to answer, beside what a request itself wants to wait.
const ANSWER: Duration = Duration::from_secs(10);

/// Questions to the directory at once. One more is told to come back.
const LOOKUPS_MAX: usize = 16;

/// What all handlers share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) control: Arc<dyn Control>,
    pub(crate) feed: Arc<Feed>,
    /// Tells this process's event ids from another's.
    pub(crate) boot: u64,
    pub(crate) webhooks: Vec<Arc<Address>>,
    pub(crate) streams: Arc<Semaphore>,
    /// One backup at a time.
    pub(crate) backups: Arc<Semaphore>,
    /// One comparison of memory and directory at a time.
    pub(crate) audits: Arc<Semaphore>,
    /// Questions to the directory.
    pub(crate) lookups: Arc<Semaphore>,
    lock: Lock,
}

pub(crate) type Api = State<Arc<Shared>>;

impl Shared {
    pub(crate) fn new(
        settings: Settings,
        control: Arc<dyn Control>,
        feed: Arc<Feed>,
        boot: u64,
        webhooks: Vec<Arc<Address>>,
    ) -> Arc<Shared> {
        let lock = Lock::new(&settings);
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        let (backups, audits) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(1)));
        let lookups = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Arc::new(Shared {
            settings,
            control,
            feed,
            boot,
            webhooks,
            streams,
            backups,
            audits,
            lookups,
            lock,
        })
    }

    /// Asks the shards; the answer comes by what is returned.
    pub(crate) fn pose(&self, command: Command) -> oneshot::Receiver<Answer> {
        let (tell, told) = oneshot::channel();
        // Nobody is there to hear it when the request was given up.
        self.control.ask(command, Box::new(move |answer| drop(tell.send(answer))));
        told
    }

    /// Asks the shards; an answer that refuses is a fault.
    pub(crate) async fn ask(&self, command: Command) -> Result<Answer, Fault> {
        self.ask_within(command, Duration::ZERO).await
    }

    /// The same for a command that may itself wait for `more`.
    pub(crate) async fn ask_within(
        &self,
        command: Command,
        more: Duration,
    ) -> Result<Answer, Fault> {
        Shared::hear(self.pose(command), more).await
    }

    /// Waits for the answer to a command that was asked, and that may itself wait for `more`.
    pub(crate) async fn hear(
        told: oneshot::Receiver<Answer>,
        more: Duration,
    ) -> Result<Answer, Fault> {
        match tokio::time::timeout(ANSWER + more, told).await {
            Err(_) => Err(Fault::no_answer()),
            // The server is going, and may have done it.
            Ok(Err(_)) => Err(Fault::no_answer()),
            Ok(Ok(Answer::UnknownProduct)) => Err(Fault::unknown("product")),
            Ok(Ok(Answer::Busy)) => Err(Fault::busy()),
            Ok(Ok(Answer::StoreFailed)) => Err(Fault::store()),
            Ok(Ok(Answer::Conflict)) => Err(Fault::conflict()),
            Ok(Ok(answer)) => Ok(answer),
        }
    }

    /// The largest body: a push whose every byte is an escape of six, to a full list of devices;
    /// or a packet whose payload is one in base64 with as much again for everything else.
    fn body_bytes_max(&self, path: &str) -> usize {
        let limits = &self.settings.limits;
        if path == "/v1/publish" {
            return limits.topics.packet_bytes_max as usize * 7 / 3 + 16 * 1024;
        }
        if path.starts_with("/v1/presence") {
            return PRINCIPALS_BYTES_MAX;
        }
        limits.push_bytes_max as usize * 6 + limits.push_devices_max as usize * 70 + 16 * 1024
    }
}

/// The token as a MAC: comparing MACs takes the same time whatever a stranger sends.
struct Lock {
    key: [u8; 32],
    mac: [u8; 32],
}

impl Lock {
    fn new(settings: &Settings) -> Lock {
        let mut key = [0; 32];
        (settings.random)(&mut key);
        let mac = Lock::mac(&key, &settings.token).finalize().into_bytes().into();
        Lock { key, mac }
    }

    fn opens(&self, token: &str) -> bool {
        Lock::mac(&self.key, token).verify_slice(&self.mac).is_ok()
    }

    fn mac(key: &[u8; 32], token: &str) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.chain_update(token)
    }
}

type Route = (&'static str, &'static str, MethodRouter<Arc<Shared>>);

/// Every route: method, path, handler.
pub(crate) fn table() -> Vec<Route> {
    use routes::{
        clients, dead_letters, devices, messages, operations, presence, products, pushes, stream,
        users,
    };
    vec![
        ("get", "/", get(operations::index)),
        ("get", "/healthz", get(operations::healthz)),
        ("get", "/openapi.json", get(operations::openapi)),
        ("get", "/metrics", get(operations::metrics)),
        ("get", "/v1/status", get(operations::status)),
        ("post", "/v1/backup", post(operations::backup)),
        ("get", "/v1/events", get(stream::events)),
        ("post", "/v1/pushes", post(pushes::push)),
        ("get", "/v1/pushes/{id}", get(pushes::counts)),
        ("get", "/v1/devices", get(devices::list)),
        ("get", "/v1/products", get(products::list)),
        ("get", "/v1/products/{product}", get(products::one)),
        ("put", "/v1/products/{product}", put(products::put)),
        ("delete", "/v1/products/{product}", delete(products::remove)),
        ("post", "/v1/products/{product}/devices/query", post(devices::query)),
        ("get", "/v1/products/{product}/devices/{device}", get(devices::one)),
        ("post", "/v1/products/{product}/devices/{device}/kick", post(devices::kick)),
        ("put", "/v1/products/{product}/devices/{device}/block", put(devices::block)),
        ("delete", "/v1/products/{product}/devices/{device}/block", delete(devices::unblock)),
        ("put", "/v1/products/{product}/devices/{device}/tags", put(devices::tags)),
        ("post", "/v1/products/{product}/devices/{device}/token", post(devices::token)),
        ("get", "/v1/clients", get(clients::list)),
        ("get", "/v1/clients/{client}", get(clients::one)),
        ("delete", "/v1/clients/{client}", delete(clients::kick)),
        ("get", "/v1/clients/{client}/subscriptions", get(clients::subscriptions)),
        ("post", "/v1/clients/{client}/subscriptions", post(clients::subscribe)),
        ("delete", "/v1/clients/{client}/subscriptions", delete(clients::unsubscribe)),
        ("get", "/v1/presence", get(presence::one)),
        ("post", "/v1/presence", post(presence::many)),
        ("get", "/v1/presence/stored", get(presence::stored_one)),
        ("post", "/v1/presence/stored", post(presence::stored_many)),
        ("get", "/v1/presence/status", get(presence::status)),
        ("get", "/v1/presence/counts", get(presence::counts)),
        ("get", "/v1/presence/statistics", get(presence::statistics)),
        ("post", "/v1/presence/audit", post(presence::audit)),
        ("get", "/v1/webhooks", get(dead_letters::webhooks)),
        ("get", "/v1/webhooks/{webhook}/dead_letters", get(dead_letters::list)),
        ("delete", "/v1/webhooks/{webhook}/dead_letters", delete(dead_letters::clear)),
        ("post", "/v1/webhooks/{webhook}/dead_letters/redeliver", post(dead_letters::redeliver)),
        ("post", "/v1/publish", post(messages::publish)),
        ("get", "/v1/retained", get(messages::retained)),
        ("get", "/v1/retained/{topic}", get(messages::retained_one)),
        ("delete", "/v1/retained/{topic}", delete(messages::clear)),
        ("get", "/v1/users", get(users::list)),
        ("get", "/v1/users/{user}", get(users::one)),
        ("put", "/v1/users/{user}", put(users::put)),
        ("delete", "/v1/users/{user}", delete(users::remove)),
    ]
}

/// The application.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new();
    for (_, path, method) in table() {
        router = router.route(path, method);
    }
    router
        .fallback(async || Fault::unknown("path"))
        .method_not_allowed_fallback(async || Fault::method())
        .layer(from_fn_with_state(Arc::clone(&shared), guard))
        .layer(DefaultBodyLimit::disable()) // the guard has its own
        .with_state(shared)
}

/// Lets a request in, with its whole body.
async fn guard(State(shared): Api, request: Request, next: Next) -> Response {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or("");
    if !shared.lock.opens(token) && !OPEN.contains(&request.uri().path()) {
        return Fault::unauthorized().into_response();
    }
    let (head, stream) = request.into_parts();
    match body::whole(stream, shared.body_bytes_max(head.uri.path())).await {
        Ok(bytes) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Err(fault) => fault.into_response(),
    }
}
