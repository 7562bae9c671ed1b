//! Broadcasts: begin one, look how far it is, and cancel it.

pub(crate) mod job;

use super::{Part, part};
use crate::answers::chat::{Broadcast, Broadcasts};
use crate::api::{Api, Shared};
use crate::describe::Body;
use crate::fault::Fault;
use crate::orders::chat::{self as orders, BroadcastBody};
use crate::routes::chat::made_up;
use crate::table::About;
use axum::extract::State;
use axum::{Extension, Json};
use job::{BroadcastOrder, Job};
use std::sync::Arc;

/// `POST /v1/chat/broadcasts`
pub(crate) async fn begin(
    State(api): Api,
    body: Body<BroadcastBody>,
) -> Result<(Extension<About>, Json<Broadcast>), Fault> {
    let body = body.read()?;
    let by = orders::account(&body.from, &api.settings.chat_domain)?;
    let order = BroadcastOrder {
        by,
        to: body.targets()?,
        client_id: body.client_id()?.unwrap_or_else(|| made_up(&api)),
        content: body.message.content(&api.limits().chat)?,
    };
    let whom =
        order.to.as_ref().map_or_else(|| "all".into(), |to| format!("{} accounts", to.len()));
    let from = order.by.to_string();
    let told = job::Broadcasts::begin(&api, order)?.told();
    let about = About(format!("{from} to {whom} broadcast {}", told.id));
    Ok((Extension(about), Json(told)))
}

/// `GET /v1/chat/broadcasts`
pub(crate) async fn list(State(api): Api) -> Json<Broadcasts> {
    let broadcasts = api.broadcasts.all().iter().map(|job| job.told()).collect();
    Json(Broadcasts { broadcasts })
}

/// `GET /v1/chat/broadcasts/{broadcast}`
pub(crate) async fn one(State(api): Api, path: Part) -> Result<Json<Broadcast>, Fault> {
    Ok(Json(named(&api, path)?.told()))
}

/// `DELETE /v1/chat/broadcasts/{broadcast}`: no further slice is begun.
pub(crate) async fn cancel(State(api): Api, path: Part) -> Result<Json<Broadcast>, Fault> {
    let job = named(&api, path)?;
    job.cancel();
    Ok(Json(job.told()))
}

fn named(api: &Shared, path: Part) -> Result<Arc<Job>, Fault> {
    let id = part(path)?
        .parse()
        .map_err(|_| Fault::bad("the number of a broadcast must have digits only"))?;
    api.broadcasts.one(id).ok_or(Fault::unknown("broadcast"))
}
