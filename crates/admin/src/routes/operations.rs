//! For operators and for who comes by: index, health, description, status, metrics, backup.

use super::overview::alarms;
use super::{Asked, presence_routes};
use crate::answers::edge::bridges::BridgeList;
use crate::answers::edge::certificates::CertificateList;
use crate::answers::edge::cluster::ClusterAnswer;
use crate::answers::edge::platforms::PlatformList;
use crate::answers::metrics as prometheus;
use crate::answers::operations::{self as answers, BackedUp};
use crate::api::life::{Phase, reached};
use crate::api::{Api, Shared};
use crate::describe::{Body, Description, Page};
use crate::document::OPENAPI;
use crate::fault::Fault;
use crate::orders::{BackupBody, ReadyQuery};
use crate::{DrainState, MetricReading};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use model::ports::control::{Answer, Command, Status};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The list of calls that `/` shows to programs other than browsers.
pub(crate) const INDEX: &str =
    "Holdline, the API for applications. A browser gets the console here. The most used calls:

  GET  /healthz              the process is alive
  GET  /readyz               the server accepts everything, writes included; if not, why
  GET  /readyz/connections   the server accepts clients
  GET  /openapi.json         every call, for programs (OpenAPI 3.1)
  POST /v1/pushes            push to a device, a list, a tag or a product
  GET  /v1/devices           push devices
  POST /v1/publish           publish to a topic
  GET  /v1/clients           MQTT clients, their sessions and subscriptions
  GET  /v1/disconnections    connections that ended, and why
  GET  /v1/slow_clients      clients that do not keep up
  GET  /v1/top/clients       clients with the most traffic
  GET  /v1/retained          retained messages
  GET  /v1/presence          who is online; stored, history, status, audit below it
  GET  /v1/users             users and their rules
  GET  /v1/tokens            tokens of this API, with scopes
  GET  /v1/bans              banned addresses, clients and users
  GET  /v1/audit_log         calls of this API, callers and results
  POST /v1/session           log in to the console
  GET  /v1/events            stream of connects, disconnects, reports and outcomes
  GET  /v1/alarms            conditions that need an operator
  GET  /v1/webhooks          webhooks and their dead letters
  GET  /v1/cluster           the cluster: which node leads, and the state of the copies
  GET  /v1/bridges           bridges to other brokers, and their state
  GET  /v1/platforms         push services of platforms, and their state
  GET  /v1/certificates      certificates, and when they expire
  GET  /v1/status            counters and gauges
  GET  /metrics              the same for Prometheus
  POST /v1/backup            copy the data folder

All calls except this page and the first four require `Authorization: Bearer TOKEN`. Each error has
a code, and its message names what is allowed.
";

/// `GET /v1/certificates`
pub(crate) async fn certificates(State(api): Api) -> Json<CertificateList> {
    Json(CertificateList { certificates: (api.settings.certificates)() })
}

/// `GET /v1/bridges`
pub(crate) async fn bridges(State(api): Api) -> Json<BridgeList> {
    Json(BridgeList { bridges: (api.settings.bridges)().into_iter().map(Into::into).collect() })
}

/// `GET /v1/platforms`
pub(crate) async fn platforms(State(api): Api) -> Json<PlatformList> {
    Json(PlatformList { platforms: api.settings.platforms.statuses() })
}

/// `GET /healthz`: liveness. Nothing that a restart alone would not mend makes it fail.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: readiness. 503 while something is not taken that belongs here; with `lead`, while
/// clients do not belong here.
pub(crate) async fn readyz(
    State(api): Api,
    query: Asked<ReadyQuery>,
) -> (StatusCode, Json<answers::Readiness>) {
    let readiness = (api.settings.readiness)();
    let is_well = match query.is_ok_and(|query| query.lead.is_some()) {
        true => readiness.leads(),
        false => readiness.is_ready(),
    };
    (ok_if(is_well), Json((&readiness).into()))
}

/// `GET /v1/cluster`
pub(crate) async fn cluster(State(api): Api) -> Json<ClusterAnswer> {
    Json(ClusterAnswer { cluster: (api.settings.cluster)() })
}

/// `GET /readyz/connections`: whether load balancers should send clients to this node.
pub(crate) async fn readyz_connections(State(api): Api) -> (StatusCode, Json<answers::Readiness>) {
    let readiness = (api.settings.readiness)();
    (ok_if(readiness.takes_connections()), Json((&readiness).into()))
}

fn ok_if(is_well: bool) -> StatusCode {
    if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// `POST /v1/drain`: the connections go over `[limits] drain_ms`, and the server goes on.
pub(crate) async fn drain(State(api): Api) -> Json<DrainState> {
    Json((api.settings.drain)(true))
}

/// `DELETE /v1/drain`
pub(crate) async fn undrain(State(api): Api) -> Json<DrainState> {
    Json((api.settings.drain)(false))
}

/// `GET /openapi.json`
pub(crate) async fn openapi() -> Description {
    Description(&OPENAPI)
}

/// The schema of IM.
const IM_PROTO: &str = include_str!("../../../proto-im/schema/im.proto");

/// `GET /im.proto`
pub(crate) async fn im_proto() -> Page {
    Page("text/plain; charset=utf-8", IM_PROTO.to_owned())
}

/// `GET /v1/status`
pub(crate) async fn status(State(api): Api) -> Result<Json<answers::Status>, Fault> {
    let draining = (api.settings.readiness)().draining;
    Ok(Json(answers::Status::new((api.settings.version, draining), &*ask(&api).await?)))
}

/// `GET /metrics`
pub(crate) async fn metrics(State(api): Api) -> Result<Page, Fault> {
    Ok(Page("text/plain; version=0.0.4", page(&api).await?))
}

/// All metrics, as they are now.
pub(crate) async fn page(api: &Shared) -> Result<String, Fault> {
    let status = ask(api).await?;
    let presence = prometheus::PresenceFigures {
        // Where shards cannot tell now, the figures are absent, not zero.
        counts: presence_routes::counted(api).await.ok(),
        standing: api.settings.presence.standing(),
    };
    let readings = readings(api);
    let figures = prometheus::Figures {
        version: api.settings.version,
        status: &status,
        presence: &presence,
        webhooks: &api.webhooks.all(),
        platforms: &api.settings.platforms.statuses(),
        readings: &readings,
        certificates: &(api.settings.certificates)(),
        log_events: &(api.settings.log_events)(),
    };
    Ok(prometheus::text(&figures))
}

/// Figures beside those of the shards.
pub(super) fn readings(api: &Shared) -> Vec<MetricReading> {
    let mut readings = (api.settings.readings)();
    let expiring = (api.settings.certificates)().iter().filter(|it| it.state != "valid").count();
    readings.push(MetricReading {
        name: "certificates_expiring",
        help: "Certificates, client authorities and revocation lists that expire within 30 days.",
        value: expiring as u64,
    });
    let bans = api.settings.bans.count();
    readings.push(MetricReading { name: "bans", help: "Bans in force.", value: bans });
    readings.extend(alarms::figures(&api.alarms));
    readings.extend(own(api));
    if api.settings.presence.standing().kind != "none" {
        readings.extend(api.elsewhere.readings());
    }
    if api.settings.otlp.is_some() {
        readings.extend(exports(api));
    }
    readings
}

/// Results of exports of metrics.
fn exports(api: &Shared) -> [MetricReading; 2] {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    [
        MetricReading {
            name: "otlp_exports_total",
            help: "OTLP exports accepted by the collector.",
            value: of(&api.otlp.taken),
        },
        MetricReading {
            name: "otlp_failures_total",
            help: "OTLP exports that failed.",
            value: of(&api.otlp.failed),
        },
    ]
}

/// The API's own figures.
fn own(api: &Shared) -> [MetricReading; 9] {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let reading = |name, help, value| MetricReading { name, help, value };
    let (seats, tally) = (api.seats.taken() as u64, api.seats.tally());
    let sessions = api.sessions.count((api.settings.wall_ms)());
    [
        reading("api_connections", "Connections to the API.", seats),
        reading(
            "api_connections_evicted_total",
            "API connections replaced by another one: limit reached.",
            of(&tally.evicted),
        ),
        reading(
            "api_connections_refused_total",
            "API connections answered 503: limit reached.",
            of(&tally.refused),
        ),
        reading(
            "api_connections_beyond_source_total",
            "API connections beyond the limit of their source: one replaced, or answered 503.",
            of(&tally.beyond_source),
        ),
        reading(
            "api_streams_refused_total",
            "Event streams, traces and exports refused: total or source limit reached.",
            of(&api.streams_refused),
        ),
        reading(
            "api_connections_timed_out_total",
            "API connections closed: no request, or response not read in time.",
            of(&tally.timed_out),
        ),
        reading("users", "Users in the user database.", api.settings.users.count()),
        reading("console_sessions", "Console sessions.", sessions as u64),
        reading(
            "api_audit_log_lost_total",
            "Audit log entries lost: write failed.",
            of(&api.audit_log.lost),
        ),
    ]
}

/// `POST /v1/backup`: runs on a thread of its own, without a time limit, and the server's end does
/// not wait for it. Only a complete backup is one; an interrupted one is reported as failed.
pub(crate) async fn backup(
    State(api): Api,
    body: Body<BackupBody>,
) -> Result<Json<BackedUp>, Fault> {
    let to = body.read()?.to()?;
    let backup = Arc::clone(&api.settings.backup);
    let folder = to.clone();
    let told = Shared::begin(&api.backups, "holdline-backup", move || match is_taken(&folder) {
        true => Err(Fault::folder_taken(&folder)),
        false => backup(&folder).map_err(Fault::backup),
    })?;
    let done = tokio::select! {
        biased;
        done = told => done.map_err(|_| Fault::internal())?,
        () = reached(api.phases.clone(), Phase::Finishing) => return Err(Fault::stopping()),
    };
    Ok(Json(BackedUp { to, bytes: done? }))
}

/// Whether a folder has content, or the path is something else than a folder.
fn is_taken(folder: &Path) -> bool {
    folder.read_dir().map_or(folder.exists(), |mut entries| entries.next().is_some())
}

/// The status, with the longest turn since the last status; this includes turns that the console
/// and the history have already seen.
async fn ask(api: &Shared) -> Result<Box<Status>, Fault> {
    let mut status = status_now(api).await?;
    status.turn_us_max = api.live.turn_us_max.swap(0, Ordering::Relaxed);
    Ok(status)
}

/// The shards' figures. Shards forget their longest turn when they report it, so it is noted here
/// for each who shows the longest of a longer time.
pub(super) async fn status_now(api: &Shared) -> Result<Box<Status>, Fault> {
    let Answer::Status(status) = api.ask(Command::Status).await? else {
        return Err(Fault::internal());
    };
    api.live.turn_us_max.fetch_max(status.turn_us_max, Ordering::Relaxed);
    api.history.turn_us_max.fetch_max(status.turn_us_max, Ordering::Relaxed);
    Ok(status)
}
