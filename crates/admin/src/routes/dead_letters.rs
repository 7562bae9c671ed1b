//! Webhooks, and what they gave up: looked at, posted again, cleared.
//!
//! A dead letter is read from its file and posted by a request of its own, so both are done on
//! threads that may wait. One redelivery a webhook at a time. Invariant: nothing is cleared but
//! what was asked for or was taken.

use super::{Part, page, part};
use crate::answers::hooks as answers;
use crate::api::{Api, Shared};
use crate::body::read_or_empty;
use crate::fault::Fault;
use crate::orders::hooks::{ClearQuery, DeadLettersQuery, RedeliverBody};
use crate::webhook::Address;
use crate::webhook::dead::DeadLetters;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::thread::Builder;
use tokio::sync::oneshot;

type Told = Result<Json<Value>, Fault>;
type Asked<T> = Result<Query<T>, QueryRejection>;

/// `GET /v1/webhooks`
pub(crate) async fn webhooks(State(api): Api) -> Json<Value> {
    let told = api.webhooks.iter().enumerate().map(|(number, hook)| answers::hook(number, hook));
    Json(json!({ "webhooks": told.collect::<Vec<_>>() }))
}

/// `GET /v1/webhooks/{webhook}/dead_letters`
pub(crate) async fn list(State(api): Api, path: Part, query: Asked<DeadLettersQuery>) -> Told {
    let Query(query) = query.map_err(|error| Fault::bad(error.body_text()))?;
    let (hook, count, after) = (found(&api, path)?, page(query.limit)? as usize, query.after()?);
    let read = ask("holdline-letters", hook, move |_, dead| dead.page(after, count)).await?;
    let read = read.unwrap_or_default();
    let told = read.letters.iter().map(answers::letter).collect::<Vec<_>>();
    let next = read.more.then(|| read.last.to_string());
    Ok(Json(json!({ "dead_letters": told, "next": next })))
}

/// `DELETE /v1/webhooks/{webhook}/dead_letters`
pub(crate) async fn clear(State(api): Api, path: Part, query: Asked<ClearQuery>) -> Told {
    let Query(query) = query.map_err(|error| Fault::bad(error.body_text()))?;
    let (hook, through) = (found(&api, path)?, query.through()?);
    let cleared = ask("holdline-letters", hook, move |_, dead| dead.clear(through)).await?;
    Ok(Json(json!({ "cleared": cleared })))
}

/// `POST /v1/webhooks/{webhook}/dead_letters/redeliver`: as long as it takes, on a thread that an
/// end of the API does not wait for. A batch that is cut off comes again.
pub(crate) async fn redeliver(State(api): Api, path: Part, body: Bytes) -> Told {
    let count = page(read_or_empty::<RedeliverBody>(&body)?.limit)? as usize;
    let (hook, feed) = (found(&api, path)?, Arc::clone(&api.feed));
    let told = ask("holdline-again", hook, move |hook, dead| {
        let Some(lent) = dead.lend() else { return Ok(None) };
        let told = hook.redeliver(&feed, &lent, count)?;
        Ok(Some((told, dead.left())))
    });
    let (told, left) = told.await?.ok_or(Fault::busy())?;
    Ok(Json(json!({ "taken": told.taken, "left": left, "failure": told.failure })))
}

/// The webhook with this number, if there is one.
fn found(api: &Shared, path: Part) -> Result<Arc<Address>, Fault> {
    let number = part(path)?.parse::<usize>().ok();
    let hook = number.and_then(|number| api.webhooks.get(number));
    hook.map(Arc::clone).ok_or(Fault::unknown("webhook"))
}

/// Asks on a thread that may wait.
async fn ask<T: Send + 'static>(
    name: &str,
    hook: Arc<Address>,
    question: impl FnOnce(&Address, &DeadLetters) -> io::Result<T> + Send + 'static,
) -> Result<T, Fault> {
    if hook.dead.is_none() {
        return Err(Fault::no_dead_letters());
    }
    let (tell, told) = oneshot::channel();
    let life = move || {
        let Some(dead) = &hook.dead else { return };
        let asked = question(&hook, dead);
        if let Err(error) = &asked {
            let url = crate::redact::url(&hook.hook.url);
            tracing::error!(%error, url, "the file of dead letters failed");
        }
        // Nobody is there to hear it when the request was given up.
        drop(tell.send(asked));
    };
    Builder::new().name(name.into()).spawn(life).map_err(|_| Fault::busy())?;
    told.await.map_err(|_| Fault::internal())?.map_err(|_| Fault::store())
}
