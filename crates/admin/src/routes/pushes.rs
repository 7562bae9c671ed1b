//! Pushes: order one, and ask how far it has come.

use crate::answers;
use crate::api::Api;
use crate::body::read;
use crate::fault::Fault;
use crate::orders::{self, PushBody};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use model::ports::control::{Answer, Command, Target};
use serde_json::Value;
use std::time::Duration;

/// `POST /v1/pushes`
pub(crate) async fn push(
    State(api): Api,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Fault> {
    let key = orders::idempotency_key(&headers)?;
    let limits = &api.settings.limits;
    let order = read::<PushBody>(&body)?.order(limits, key, || api.control.next_id())?;
    let listed = matches!(order.target, Target::Devices(_));
    let wait = Duration::from_millis(order.wait_ms.into());
    match api.ask_within(Command::Push(order), wait).await? {
        Answer::Pushed { id, outcomes, .. } if listed => Ok(Json(answers::outcomes(id, &outcomes))),
        Answer::Pushed { id, counts, .. } => Ok(Json(answers::counts(id, &counts))),
        _ => Err(Fault::internal()),
    }
}

/// `GET /v1/pushes/{id}`
pub(crate) async fn counts(State(api): Api, Path(id): Path<String>) -> Result<Json<Value>, Fault> {
    let id = orders::push_id(&id)?;
    match api.ask(Command::PushCounts(id)).await? {
        Answer::Counts(Some(counts)) => Ok(Json(answers::counts(id, &counts))),
        Answer::Counts(None) => Err(Fault::unknown("push")),
        _ => Err(Fault::internal()),
    }
}
