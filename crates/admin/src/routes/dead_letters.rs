//! Webhooks, and what they gave up: looked at, posted again, cleared.
//!
//! A dead letter is read from its file and posted by a request of its own, so both are done on
//! threads that may wait. One redelivery a webhook at a time. Invariant: nothing is cleared but
//! what was asked for or was taken.

use super::{Asked, Part, asked, page, part};
use crate::answers::hooks::{Cleared, DeadLetter, DeadLetters, Redelivered, Webhook, Webhooks};
use crate::api::{Api, Shared};
use crate::describe::OptionalBody;
use crate::fault::Fault;
use crate::orders::hooks::{ClearQuery, DeadLettersQuery, RedeliverBody};
use crate::webhook::Address;
use crate::webhook::dead;
use axum::Json;
use axum::extract::State;
use model::{event, tell};
use std::io;
use std::sync::Arc;
use std::thread::Builder;
use tokio::sync::oneshot;

type Told<T> = Result<Json<T>, Fault>;

/// `GET /v1/webhooks`
pub(crate) async fn webhooks(State(api): Api) -> Json<Webhooks> {
    let all = api.webhooks.all();
    let told = all.iter().enumerate().map(|(number, hook)| Webhook::new(number, hook));
    Json(Webhooks { webhooks: told.collect() })
}

/// `GET /v1/webhooks/{webhook}/dead_letters`
pub(crate) async fn list(
    State(api): Api,
    path: Part,
    query: Asked<DeadLettersQuery>,
) -> Told<DeadLetters> {
    let query = asked(query)?;
    let (hook, count, after) = (found(&api, path)?, page(query.limit)? as usize, query.after()?);
    let read = ask("holdline-letters", hook, move |_, dead| dead.page(after, count)).await?;
    let read = read.unwrap_or_default();
    let dead_letters = read.letters.iter().map(DeadLetter::from).collect();
    let next = read.more.then(|| read.last.to_string());
    Ok(Json(DeadLetters { dead_letters, next }))
}

/// `DELETE /v1/webhooks/{webhook}/dead_letters`
pub(crate) async fn clear(State(api): Api, path: Part, query: Asked<ClearQuery>) -> Told<Cleared> {
    let query = asked(query)?;
    let (hook, through) = (found(&api, path)?, query.through()?);
    let cleared = ask("holdline-letters", hook, move |_, dead| dead.clear(through)).await?;
    Ok(Json(Cleared { cleared }))
}

/// `POST /v1/webhooks/{webhook}/dead_letters/redeliver`: as long as it takes, on a thread that an
/// end of the API does not wait for. A batch that is cut off comes again.
pub(crate) async fn redeliver(
    State(api): Api,
    path: Part,
    body: OptionalBody<RedeliverBody>,
) -> Told<Redelivered> {
    let count = page(body.read()?.limit)? as usize;
    let (hook, feed) = (found(&api, path)?, Arc::clone(&api.feed));
    let told = ask("holdline-again", hook, move |hook, dead| {
        let Some(lent) = dead.lend() else { return Ok(None) };
        hook.redeliver(&feed, &lent, count).map(Some)
    });
    told.await?.map(Json).ok_or(Fault::busy())
}

/// The webhook with this number, if there is one.
fn found(api: &Shared, path: Part) -> Result<Arc<Address>, Fault> {
    let number = part(path)?.parse::<usize>().ok();
    let hook = number.and_then(|number| api.webhooks.get(number));
    hook.ok_or(Fault::unknown("webhook"))
}

/// Asks on a thread that may wait.
async fn ask<T: Send + 'static>(
    name: &str,
    hook: Arc<Address>,
    question: impl FnOnce(&Address, &dead::DeadLetters) -> io::Result<T> + Send + 'static,
) -> Result<T, Fault> {
    if hook.dead.is_none() {
        return Err(Fault::no_dead_letters());
    }
    let (tell, told) = oneshot::channel();
    let life = move || {
        let Some(dead) = &hook.dead else { return };
        let asked = question(&hook, dead);
        if let Err(error) = &asked {
            let url = crate::shown_url(&hook.settings().hook.url);
            tell!(event::LETTERS_FAILED, %error, url);
        }
        // The receiver is gone if the request was cancelled.
        drop(tell.send(asked));
    };
    Builder::new().name(name.into()).spawn(life).map_err(|_| Fault::busy())?;
    told.await.map_err(|_| Fault::internal())?.map_err(|_| Fault::store())
}
