//! Bans: listed, added, removed.
//!
//! Adding a ban stores it and waits for connections to end, so it runs on a thread that may block.
//! Invariant: a ban that would lock out its own caller is refused.

use super::super::{Asked, Pair, asked, page, pair};
use crate::answers::Removed;
use crate::answers::edge::bans::{BanPage, BanShown};
use crate::api::{Api, Shared};
use crate::describe::Body;
use crate::fault::Fault;
use crate::guard::{Caller, Visitor};
use crate::orders::bans::{BanBody, BansQuery, subject};
use crate::table::About;
use axum::extract::State;
use axum::{Extension, Json};
use model::id::DeviceId;
use model::ports::bans::{BanFault, BanSubject, Bans};
use model::ports::control::{Answer, Command};
use model::ports::pushes::{PushAnswer, PushCommand};
use std::sync::Arc;

type Told<T> = Result<Json<T>, Fault>;

/// `GET /v1/bans`
pub(crate) async fn list(State(api): Api, query: Asked<BansQuery>) -> Told<BanPage> {
    let query = asked(query)?;
    let (count, after) = (page(query.limit)? as usize, query.after()?);
    let all = api.settings.bans.list();
    let total = all.len() as u64;
    let kind = query.kind()?;
    let wanted = all.into_iter().filter(|ban| kind.is_none_or(|kind| kind == ban.subject.kind()));
    let mut rest = wanted.filter(|ban| after.as_ref().is_none_or(|after| ban.subject > *after));
    let bans: Vec<_> = rest.by_ref().take(count).collect();
    let more = rest.next().is_some();
    let next = bans.last().filter(|_| more).map(|ban| BansQuery::place(&ban.subject));
    Ok(Json(BanPage { bans: bans.iter().map(BanShown::from).collect(), next, total }))
}

/// `POST /v1/bans`
pub(crate) async fn add(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    Extension(visitor): Extension<Visitor>,
    body: Body<BanBody>,
) -> Result<(Extension<About>, Json<BanShown>), Fault> {
    let order = body.read()?.order(&caller.0.name, &api.settings.chat_domain)?;
    if visitor.address.is_some_and(|address| order.subject.refuses_address(address)) {
        return Err(Fault::refused("this would ban the address that you call from"));
    }
    let about = Extension(About(format!("{} {}", order.subject.kind(), order.subject.value())));
    let client = match &order.subject {
        BanSubject::Client(name) => Some(name.clone()),
        _ => None,
    };
    let mut ban = change(&api, move |bans| bans.put(order)).await?;
    if let Some(client) = client {
        ban.ended += end_devices(&api, &client).await;
    }
    Ok((about, Json(BanShown::from(&ban))))
}

/// `DELETE /v1/bans/{kind}/{subject}`
pub(crate) async fn remove(
    State(api): Api,
    Extension(caller): Extension<Caller>,
    path: Pair,
) -> Told<Removed> {
    let (kind, value) = pair(path)?;
    let subject = subject(&kind, &value, &api.settings.chat_domain)?;
    let by = caller.0.name.clone();
    match change(&api, move |bans| bans.remove(&subject, &by)).await? {
        true => Ok(Json(Removed { removed: true })),
        false => Err(Fault::unknown("ban")),
    }
}

/// Ends the connections of devices with this name, of whatever product; how many there were.
async fn end_devices(api: &Shared, name: &str) -> u64 {
    let Ok(device) = DeviceId::parse(name) else { return 0 };
    let found = api.ask(Command::Push(PushCommand::Products)).await;
    let Ok(Answer::Push(PushAnswer::Products(products))) = found else { return 0 };
    let mut ended = 0;
    for product in products {
        let (product, device) = (product.key.clone(), device.clone());
        let done = api.ask(Command::Push(PushCommand::EndBanned { product, device })).await;
        ended += u64::from(matches!(done, Ok(Answer::Push(PushAnswer::Done(true)))));
    }
    ended
}

async fn change<T: Send + 'static>(
    api: &Arc<Shared>,
    order: impl FnOnce(&dyn Bans) -> Result<T, BanFault> + Send + 'static,
) -> Result<T, Fault> {
    let bans = Arc::clone(&api.settings.bans);
    let done = tokio::task::spawn_blocking(move || order(&*bans)).await;
    done.map_err(|_| Fault::internal())?.map_err(Fault::ban)
}
