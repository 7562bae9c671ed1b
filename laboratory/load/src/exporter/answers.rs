//! Requests and their answers.
//!
//! A request to control must be JSON: a page in a browser on this machine cannot send that without
//! asking, and we allow nobody who asks. It does not know when a wish is carried out: the run does
//! that within its next second, and writes it down.

use super::{Shared, WISHES_MAX};
use crate::run::RunTick;
use axum::Json;
use axum::Router;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hmac::{Hmac, KeyInit, Mac};
use lab::order::Cut;
use lab::order::OnlookerRequest;
use lab::timing::Timing;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::Sha256;
use std::sync::Arc;

/// Bytes of a request's body, at most.
const BODY_BYTES_MAX: usize = 4 << 10;
/// Allowed factors of a rate in one request.
const FACTORS: std::ops::RangeInclusive<f64> = 0.01..=100.0;

type Body<T> = Result<Json<T>, JsonRejection>;

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route(
            "/",
            get(|| async {
                "holdline load: /metrics /status, POST /add /rate /cut /pause /stop\n"
            }),
        )
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .route("/add", post(add))
        .route("/rate", post(rate))
        .route("/cut", post(cut))
        .route("/pause", post(pause))
        .route("/stop", post(stop))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(shared)
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let tick = shared.latest().tick.clone();
    let text = tick.map(|tick| report::prometheus(&tick.counts, &tick.reading)).unwrap_or_default();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn status(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let latest = shared.latest().clone();
    let mut status = latest.tick.map_or_else(Map::new, |tick| told(&tick));
    status.insert("over".to_owned(), json!(latest.passed.is_some()));
    status.insert("passed".to_owned(), json!(latest.passed));
    Json(Value::Object(status))
}

/// How a run stands, for programs.
fn told(tick: &RunTick) -> Map<String, Value> {
    let counts = &tick.counts;
    let groups = tick.groups.iter().map(|(name, counts)| {
        (name.clone(), json!({ "planned": counts.planned, "online": counts.online }))
    });
    let timings = Timing::ALL.iter().filter_map(|timing| {
        let of = |part: &str| tick.reading.of(&format!("clients.{}.{part}", timing.name()));
        let last = json!({ "p50_us": of("p50")?, "p99_us": of("p99")?, "max_us": of("max") });
        Some((timing.name().to_owned(), last))
    });
    let status = json!({
        "at_ms": tick.at_ms,
        "stage": tick.stages.get(tick.stage),
        "stages": tick.stages,
        "part": tick.part.name(),
        "until_ms": tick.until_ms,
        "clients": tick.clients,
        "online": counts.online,
        "open": counts.open,
        "attempts": counts.attempts,
        "bound": counts.bound,
        "errors": counts.causes.errors(),
        "ended": counts.causes,
        "codes": counts.codes,
        "figures": counts.figures,
        "groups": groups.collect::<Map<_, _>>(),
        "last_second": timings.collect::<Map<_, _>>(),
        "notes": tick.notes,
        "findings": tick.findings,
        "saturation": tick.saturation,
    });
    match status {
        Value::Object(status) => status,
        _ => Map::new(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Add {
    #[serde(default)]
    group: String,
    clients: u32,
}

async fn add(state: State<Arc<Shared>>, headers: HeaderMap, body: Body<Add>) -> Response {
    wish(&state, &headers, body, |Add { group, clients }| match clients {
        0 => Err("clients must be at least 1".to_owned()),
        clients => Ok(OnlookerRequest::Add { group, clients }),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    #[serde(default)]
    group: String,
    factor: f64,
}

async fn rate(state: State<Arc<Shared>>, headers: HeaderMap, body: Body<Rate>) -> Response {
    wish(&state, &headers, body, |Rate { group, factor }| {
        let wish = FACTORS.contains(&factor).then_some(OnlookerRequest::Rate { group, factor });
        wish.ok_or("factor must be between 0.01 and 100".to_owned())
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CutWish {
    share: f64,
    how: Option<Cut>,
}

async fn cut(state: State<Arc<Shared>>, headers: HeaderMap, body: Body<CutWish>) -> Response {
    wish(&state, &headers, body, |CutWish { share, how }| {
        let right = share > 0.0 && share <= 1.0;
        let wish = right.then(|| OnlookerRequest::Cut { share, how: how.unwrap_or(Cut::Close) });
        wish.ok_or("share must be above 0 and at most 1".to_owned())
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

async fn pause(state: State<Arc<Shared>>, headers: HeaderMap, body: Body<Nothing>) -> Response {
    wish(&state, &headers, body, |Nothing {}| Ok(OnlookerRequest::Pause))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stop {
    #[serde(default)]
    now: bool,
}

async fn stop(state: State<Arc<Shared>>, headers: HeaderMap, body: Body<Stop>) -> Response {
    wish(&state, &headers, body, |Stop { now }| Ok(OnlookerRequest::Quit { now }))
}

/// Takes a wish in, if it may be made and means something.
fn wish<B>(
    shared: &Shared,
    headers: &HeaderMap,
    body: Body<B>,
    make: impl FnOnce(B) -> Result<OnlookerRequest, String>,
) -> Response {
    let refuse =
        |status: StatusCode, why: &str| (status, Json(json!({ "error": why }))).into_response();
    if !shared.control {
        let why = "control needs a token, or a listener on loopback";
        return refuse(StatusCode::FORBIDDEN, why);
    }
    if !permitted(shared, headers) {
        return refuse(StatusCode::UNAUTHORIZED, "Authorization: Bearer and the token are wanted");
    }
    let wish = match body {
        Ok(Json(body)) => make(body),
        Err(wrong) => return refuse(wrong.status(), &wrong.body_text()),
    };
    match wish {
        Err(why) => refuse(StatusCode::UNPROCESSABLE_ENTITY, &why),
        Ok(wish) => {
            let mut wishes = shared.wishes();
            if wishes.len() >= WISHES_MAX {
                return refuse(StatusCode::TOO_MANY_REQUESTS, "too many wishes wait already");
            }
            wishes.push(wish);
            (StatusCode::ACCEPTED, Json(json!({ "accepted": true }))).into_response()
        }
    }
}

fn permitted(shared: &Shared, headers: &HeaderMap) -> bool {
    let Some(token) = &shared.token else { return true };
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    // Under a MAC the time of the comparison says nothing about the token.
    let expected = mac(token).finalize().into_bytes();
    mac(given).verify_slice(&expected).is_ok()
}

fn mac(token: &str) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(token.as_bytes());
    mac.expect("HMAC takes keys of any length").chain_update(b"holdline exporter")
}
