//! Devices: their state, and what an operator does to them.

use crate::answers;
use crate::api::{Api, Shared};
use crate::body::{read, read_or_empty};
use crate::fault::Fault;
use crate::orders::{self, KickBody, ListQuery, QueryBody, TagsBody, TokenBody};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use model::id::{DeviceId, ProductKey};
use model::ports::control::{Answer, Command, DeviceState};
use serde_json::{Value, json};

/// Devices on a page, at most and when the query does not say.
const PAGE_MAX: u32 = 1_000;
const PAGE_DEFAULT: u32 = 100;

type Names = Path<(String, String)>;
type Told = Result<Json<Value>, Fault>;

/// `GET /v1/products/{product}/devices/{device}`
pub(crate) async fn one(State(api): Api, Path(path): Names) -> Told {
    let (product, device) = names(&path)?;
    let states = states(&api, product, vec![device]).await?;
    states.first().map(|state| Json(answers::device(state))).ok_or(Fault::unknown("device"))
}

/// `POST /v1/products/{product}/devices/query`
pub(crate) async fn query(State(api): Api, Path(product): Path<String>, body: Bytes) -> Told {
    let product = orders::product(&product)?;
    let QueryBody { devices } = read(&body)?;
    let devices = orders::devices(&devices, &api.settings.limits)?;
    let states = states(&api, product, devices).await?;
    Ok(Json(json!({ "devices": states.iter().map(answers::device).collect::<Vec<_>>() })))
}

/// `GET /v1/devices`
pub(crate) async fn list(State(api): Api, query: Result<Query<ListQuery>, QueryRejection>) -> Told {
    let Query(query) = query.map_err(|error| Fault::bad(error.body_text()))?;
    let count = query.limit.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&count) {
        return Err(Fault::bad(format!("`limit` is 1 to {PAGE_MAX}")));
    }
    let product = query.product.as_deref().map(orders::product).transpose()?;
    let tag = query.tag.as_deref().map(orders::tag).transpose()?;
    let (online, after) = (query.online, query.after);
    match api.ask(Command::List { product, online, tag, after, count }).await? {
        Answer::Page { devices, next } => Ok(Json(json!({
            "devices": devices.iter().map(answers::device).collect::<Vec<_>>(),
            "next": next.map(|next| next.to_string()),
        }))),
        _ => Err(Fault::internal()),
    }
}

/// `POST /v1/products/{product}/devices/{device}/kick`
pub(crate) async fn kick(State(api): Api, Path(path): Names, body: Bytes) -> Told {
    let (product, device) = names(&path)?;
    let addrs = read_or_empty::<KickBody>(&body)?.addrs()?;
    let was_online = done(&api, Command::Kick { product, device, addrs }).await?;
    Ok(Json(json!({ "was_online": was_online })))
}

/// `PUT /v1/products/{product}/devices/{device}/block`
pub(crate) async fn block(State(api): Api, Path(path): Names) -> Told {
    set_blocked(&api, &path, true).await
}

/// `DELETE /v1/products/{product}/devices/{device}/block`
pub(crate) async fn unblock(State(api): Api, Path(path): Names) -> Told {
    set_blocked(&api, &path, false).await
}

/// `PUT /v1/products/{product}/devices/{device}/tags`
pub(crate) async fn tags(State(api): Api, Path(path): Names, body: Bytes) -> Told {
    let (product, device) = names(&path)?;
    let limits = &api.settings.limits;
    let tags = read::<TagsBody>(&body)?.tags(limits)?;
    let told = json!({ "tags": tags.iter().map(|tag| tag.as_str()).collect::<Vec<_>>() });
    match done(&api, Command::SetTags { product, device, tags }).await? {
        true => Ok(Json(told)),
        false => Err(Fault::bad(format!("a device has at most {} tags", limits.tags_a_device_max))),
    }
}

/// `POST /v1/products/{product}/devices/{device}/token`
pub(crate) async fn token(State(api): Api, Path(path): Names, body: Bytes) -> Told {
    let (product, device) = names(&path)?;
    let until = read::<TokenBody>(&body)?.until((api.settings.wall_ms)())?;
    match api.ask(Command::Token { product, device, until }).await? {
        Answer::Token(Some(token)) => Ok(Json(json!({ "token": token, "expires_at": until }))),
        Answer::Token(None) => Err(Fault::unknown("product")),
        _ => Err(Fault::internal()),
    }
}

async fn set_blocked(api: &Shared, path: &(String, String), blocked: bool) -> Told {
    let (product, device) = names(path)?;
    done(api, Command::Block { product, device, blocked }).await?;
    Ok(Json(json!({ "blocked": blocked })))
}

async fn states(
    api: &Shared,
    product: ProductKey,
    devices: Vec<DeviceId>,
) -> Result<Vec<DeviceState>, Fault> {
    match api.ask(Command::States { product, devices }).await? {
        Answer::Devices(states) => Ok(states),
        _ => Err(Fault::internal()),
    }
}

async fn done(api: &Shared, command: Command) -> Result<bool, Fault> {
    match api.ask(command).await? {
        Answer::Done(done) => Ok(done),
        _ => Err(Fault::internal()),
    }
}

fn names((product, device): &(String, String)) -> Result<(ProductKey, DeviceId), Fault> {
    Ok((orders::product(product)?, orders::device(device)?))
}
