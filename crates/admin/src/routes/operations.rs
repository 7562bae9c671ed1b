//! For operators and for who comes by: index, health, description, status, metrics.

use crate::answers;
use crate::api::{Api, Shared};
use crate::fault::Fault;
use crate::metrics as prometheus;
use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use model::ports::control::{Answer, Command, Status};
use serde_json::Value;

const INDEX: &str = "Holdline, the API for applications.

  GET  /healthz          is the API up
  GET  /openapi.json     all of it, for programs (OpenAPI 3.1)
  POST /v1/pushes        push to a device, a list, a tag or a product
  GET  /v1/devices       who is there
  GET  /v1/events        online, offline, reports and outcomes as a stream
  GET  /v1/status        counters and gauges
  GET  /metrics          the same for Prometheus

Everything but the first two and this page wants `Authorization: Bearer TOKEN`.
";

/// The description, as it is served and as the tests read it.
pub(crate) const OPENAPI: &str = include_str!("../../openapi.json");

/// `GET /`
pub(crate) async fn index() -> &'static str {
    INDEX
}

/// `GET /healthz`
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// `GET /openapi.json`
pub(crate) async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], OPENAPI)
}

/// `GET /v1/status`
pub(crate) async fn status(State(api): Api) -> Result<Json<Value>, Fault> {
    Ok(Json(answers::status(api.settings.version, &*ask(&api).await?)))
}

/// `GET /metrics`
pub(crate) async fn metrics(State(api): Api) -> Result<impl IntoResponse, Fault> {
    let status = ask(&api).await?;
    let text = prometheus::text(&status, &api.tallies, &(api.settings.readings)());
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4")], text))
}

async fn ask(api: &Shared) -> Result<Box<Status>, Fault> {
    match api.ask(Command::Status).await? {
        Answer::Status(status) => Ok(status),
        _ => Err(Fault::internal()),
    }
}
