//! The API of a node that follows: whether it leads, how its copies are, and where the leader is.
//!
//! The server proper does not run here: every other path answers 503 and names the leader's API.
//! Its alarms are those of the cluster, in memory: a node that leads raises its own. It knows no
//! shard and no log. Invariant: `/readyz?lead` is never 200 here.

use crate::answers::edge::cluster::{ClusterAnswer, ClusterView};
use crate::answers::metrics;
use crate::answers::{ErrorBody, ErrorWords};
use crate::api::life::{Phase, reached};
use crate::api::listener::{ApiSlot, Seats};
use crate::routes::Asked;
use crate::routes::overview::alarms::{self, Alarms, AlarmsQuery};
use crate::{ApiStartError, LogEvents, Readings, WallClock, api};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use base::text::escaped;
use model::limits::ApiLimits;
use model::{event, tell};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, interval_at};

/// How often alarms are looked for when nobody asks.
const LOOK: Duration = Duration::from_secs(10);

/// The cluster when it is asked for. Must not block.
pub type ClusterReading = Arc<dyn Fn() -> Option<ClusterView> + Send + Sync>;

/// Settings of the API of a node that follows.
#[derive(Clone)]
pub struct FollowerSettings {
    /// The token that opens everything.
    pub token: String,
    /// The API's limits.
    pub limits: ApiLimits,
    /// The server's version.
    pub version: &'static str,
    /// The cluster.
    pub cluster: ClusterReading,
    /// For alarms.
    pub wall_ms: WallClock,
    /// Figures for the metrics.
    pub readings: Readings,
    /// For `/metrics`.
    pub log_events: LogEvents,
}

/// The API of a node that follows, at work. Dropping it stops it.
pub struct FollowerApi {
    addr: SocketAddr,
    phase: watch::Sender<Phase>,
    thread: Option<JoinHandle<()>>,
}

impl FollowerApi {
    /// Address that it listens at.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Accepts no more requests, and returns when those that had arrived are answered.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.phase.send_replace(Phase::Ended);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tell!(event::THREAD_PANICKED, thread = "API");
        }
    }
}

impl Drop for FollowerApi {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts the API of a node that follows at this listener.
pub fn follow(
    settings: FollowerSettings,
    listener: TcpListener,
) -> Result<FollowerApi, ApiStartError> {
    if settings.token.is_empty() {
        return Err(ApiStartError::NoToken);
    }
    let failed = |error| ApiStartError::Bind { addr: ([0, 0, 0, 0], 0).into(), error };
    let addr = listener.local_addr().map_err(failed)?;
    let failed = |error| ApiStartError::Bind { addr, error };
    listener.set_nonblocking(true).map_err(failed)?;
    let (phase, phases) = watch::channel(Phase::Serving);
    let thread = crate::thread("holdline-api", move || serve(listener, settings, phases))?;
    Ok(FollowerApi { addr, phase, thread: Some(thread) })
}

fn serve(listener: TcpListener, settings: FollowerSettings, phases: watch::Receiver<Phase>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return tell!(event::API_DOES_NOT_START, %error),
    };
    let seats = Seats::new(api::door(&settings.limits));
    let within = api::life::longest(&settings.limits);
    let node = Arc::new(Node { settings, alarms: Alarms::open(None, 0) });
    let app = router(Arc::clone(&node)).into_make_service_with_connect_info::<ApiSlot>();
    runtime.block_on(async {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => seats.listener(listener),
            Err(error) => return tell!(event::API_DOES_NOT_LISTEN, %error),
        };
        let signal = reached(phases.clone(), Phase::Finishing);
        let server = axum::serve(listener, app).with_graceful_shutdown(signal);
        let over = async {
            reached(phases, Phase::Finishing).await;
            tokio::time::sleep(within).await;
        };
        tokio::select! {
            served = std::future::IntoFuture::into_future(server) => drop(served),
            () = over => {}
            () = look(&node) => {}
        }
    });
}

/// A node that follows, as the API shows it.
struct Node {
    settings: FollowerSettings,
    alarms: Alarms,
}

impl Node {
    /// The cluster now, and the alarms as they are then.
    fn look(&self) -> Option<ClusterView> {
        let cluster = (self.settings.cluster)();
        alarms::look_at_cluster(&self.alarms, (self.settings.wall_ms)(), cluster.as_ref());
        cluster
    }
}

/// Looks for alarms, so that the log tells of them though nobody asks. Does not end.
async fn look(node: &Node) {
    let mut ticks = interval_at(Instant::now() + LOOK, LOOK);
    loop {
        ticks.tick().await;
        node.look();
    }
}

type Follower = State<Arc<Node>>;

fn router(node: Arc<Node>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/readyz/connections", get(no_connections))
        .route("/metrics", get(figures))
        .route("/v1/status", get(status))
        .route("/v1/cluster", get(cluster))
        .route("/v1/alarms", get(alarm_list))
        .fallback(elsewhere)
        .layer(axum::middleware::from_fn(api::listener::seated))
        .with_state(node)
}

/// Query of `/readyz`.
#[derive(Deserialize)]
struct Lead {
    lead: Option<String>,
}

/// Readiness of a node that follows.
#[derive(Serialize)]
struct FollowerReadiness {
    ready: bool,
    leads: bool,
    draining: bool,
    logs: [&'static str; 0],
    leader: Option<u16>,
    reasons: Vec<String>,
}

fn readiness(settings: &FollowerSettings, is_asked_to_lead: bool) -> FollowerReadiness {
    let view = (settings.cluster)().unwrap_or_default();
    let mut reasons = Vec::new();
    if is_asked_to_lead {
        reasons.push(follows(&view));
    }
    if !view.connected {
        reasons.push("NATS is not connected".into());
    }
    for log in view.logs.iter().filter(|log| log.role != "following") {
        reasons.push(format!("log {} is {}", log.log, log.role));
    }
    let (ready, leader) = (reasons.is_empty(), view.leader);
    FollowerReadiness { ready, leads: false, draining: false, logs: [], leader, reasons }
}

/// A text: this node does not lead.
fn follows(view: &ClusterView) -> String {
    let leader = view.nodes.iter().find(|node| Some(node.node) == view.leader);
    match (leader, &view.leader_api) {
        (Some(leader), Some(api)) => {
            format!("this node follows; {} leads, its API is http://{api}", leader.name)
        }
        (Some(leader), None) => format!("this node follows; {} leads", leader.name),
        (None, _) => "this node follows, and no node leads now".into(),
    }
}

async fn readyz(State(node): Follower, query: Query<Lead>) -> Response {
    let told = readiness(&node.settings, query.lead.is_some());
    let code = if told.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(told)).into_response()
}

async fn no_connections(State(node): Follower) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(readiness(&node.settings, true))).into_response()
}

async fn figures(State(node): Follower, headers: HeaderMap) -> Response {
    let Node { settings, alarms } = &*node;
    if !may(settings, &headers) {
        return unauthorized();
    }
    node.look();
    let (mut readings, told) = ((settings.readings)(), (settings.log_events)());
    readings.extend(alarms::figures(alarms));
    let text = metrics::short(settings.version, &readings, &told);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

async fn status(State(node): Follower, headers: HeaderMap) -> Response {
    if !may(&node.settings, &headers) {
        return unauthorized();
    }
    let cluster = node.look();
    Json(json!({ "version": node.settings.version, "draining": false, "follows": true,
                 "connections": 0, "cluster": cluster, "alarms": alarms::shown(&node.alarms) }))
    .into_response()
}

async fn cluster(State(node): Follower, headers: HeaderMap) -> Response {
    match may(&node.settings, &headers) {
        true => Json(ClusterAnswer { cluster: (node.settings.cluster)() }).into_response(),
        false => unauthorized(),
    }
}

async fn alarm_list(
    State(node): Follower,
    headers: HeaderMap,
    query: Asked<AlarmsQuery>,
) -> Response {
    if !may(&node.settings, &headers) {
        return unauthorized();
    }
    node.look();
    alarms::listed(&node.alarms, query).map(Json).into_response()
}

/// A page for browsers, without anything that a stranger must not know.
async fn page(State(node): Follower) -> Html<String> {
    let view = (node.settings.cluster)().unwrap_or_default();
    let leader = view.leader_api.as_deref().map(|api| {
        let api = html(escaped(api).as_ref());
        format!("<p>The console is at the leader: <a href=\"http://{api}/\">http://{api}/</a></p>")
    });
    Html(format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Holdline</title>\
         <meta http-equiv=\"refresh\" content=\"5\"><h1>This node follows</h1><p>{}.</p>{}\
         <p><code>holdline cluster list</code> shows all nodes.</p></html>",
        html(&follows(&view)),
        leader.unwrap_or_default()
    ))
}

/// A text in HTML.
fn html(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

async fn elsewhere(State(node): Follower, _: Request) -> Response {
    let message = follows(&(node.settings.cluster)().unwrap_or_default());
    refused(StatusCode::SERVICE_UNAVAILABLE, ("follows", message))
}

fn unauthorized() -> Response {
    let message = "API token missing or invalid: send `Authorization: Bearer TOKEN`; this node's \
                   first token is in its data folder, in api.token";
    refused(StatusCode::UNAUTHORIZED, ("unauthorized", message.into()))
}

fn refused(status: StatusCode, (code, message): (&'static str, String)) -> Response {
    let error = ErrorWords { code, message, elsewhere: Vec::new() };
    (status, Json(ErrorBody { error })).into_response()
}

/// Whether a request has the token. Hashes are compared: how long that takes says nothing of it.
fn may(settings: &FollowerSettings, headers: &HeaderMap) -> bool {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let sent = sent.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    Sha256::digest(sent.trim()) == Sha256::digest(&settings.token)
}

#[cfg(test)]
mod tests;
