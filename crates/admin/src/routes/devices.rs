//! Devices: their state, and what an operator does to them.
//!
//! A device of any name can be named here: in the path, or, for characters that a path does not
//! carry, in the query.

use super::{Asked, Pair, Part, asked, page, pair, part};
use crate::answers::devices::{
    Blocked, Device, DevicePage, DevicePlatform, DeviceToken, DeviceZone, Devices, Kicked,
    OwnedDevice,
};
use crate::api::{Api, Shared};
use crate::describe::{Body, OptionalBody};
use crate::fault::Fault;
use crate::orders::audience::{DeviceUserBody, device_user};
use crate::orders::notification::PlatformBody;
use crate::orders::schedules::ZoneBody;
use crate::orders::{self, DeviceQuery, KickBody, ListQuery, QueryBody, TagsBody, TokenBody};
use axum::Json;
use axum::extract::{FromRequestParts, Path, Query, RawPathParams, State};
use axum::http::request::Parts;
use model::id::{DeviceId, DeviceUser, ProductKey};
use model::ports::control::{Answer, Command};
use model::ports::pushes::{DeviceState, PushAnswer, PushCommand};
use model::push::PlatformToken;
use model::zone::Zone;

type Told<T> = Result<Json<T>, Fault>;

/// `GET /v1/products/{product}/devices/{device}`, `GET /v1/device`
pub(crate) async fn one(State(api): Api, OfDevice(product, device): OfDevice) -> Told<Device> {
    let states = states(&api, product, vec![device]).await?;
    states.first().map(|state| Json(Device::from(state))).ok_or(Fault::unknown("device"))
}

/// `POST /v1/products/{product}/devices/query`
pub(crate) async fn query(State(api): Api, path: Part, body: Body<QueryBody>) -> Told<Devices> {
    let product = orders::product(&part(path)?)?;
    let QueryBody { devices } = body.read()?;
    let devices = orders::devices(&devices, &api.limits())?;
    let states = states(&api, product, devices).await?;
    Ok(Json(Devices { devices: states.iter().map(Device::from).collect() }))
}

/// `GET /v1/devices`
pub(crate) async fn list(State(api): Api, query: Asked<ListQuery>) -> Told<DevicePage> {
    let query = asked(query)?;
    let count = page(query.limit)?;
    let product = query.product.as_deref().map(orders::product).transpose()?;
    let tag = query.tag.as_deref().map(orders::tag).transpose()?;
    let (online, after) = (query.online, query.after);
    match api.ask(Command::Push(PushCommand::List { product, online, tag, after, count })).await? {
        Answer::Push(PushAnswer::Page { devices, next }) => Ok(Json(DevicePage {
            devices: devices.iter().map(Device::from).collect(),
            next: next.map(|next| next.to_string()),
        })),
        _ => Err(Fault::internal()),
    }
}

/// `POST /v1/products/{product}/devices/{device}/kick`, `POST /v1/device/kick`
pub(crate) async fn kick(
    State(api): Api,
    OfDevice(product, device): OfDevice,
    body: OptionalBody<KickBody>,
) -> Told<Kicked> {
    let addrs = body.read()?.addrs()?;
    let was_online =
        done(&api, Command::Push(PushCommand::Kick { product, device, addrs })).await?;
    Ok(Json(Kicked { was_online }))
}

/// `PUT /v1/products/{product}/devices/{device}/block`, `PUT /v1/device/block`
pub(crate) async fn block(State(api): Api, of: OfDevice) -> Told<Blocked> {
    set_blocked(&api, of, true).await
}

/// `DELETE /v1/products/{product}/devices/{device}/block`, `DELETE /v1/device/block`
pub(crate) async fn unblock(State(api): Api, of: OfDevice) -> Told<Blocked> {
    set_blocked(&api, of, false).await
}

/// `PUT /v1/products/{product}/devices/{device}/tags`, `PUT /v1/device/tags`
pub(crate) async fn tags(
    State(api): Api,
    OfDevice(product, device): OfDevice,
    body: Body<TagsBody>,
) -> Told<TagsBody> {
    let limits = &api.limits();
    let told = body.read()?;
    let tags = told.tags(limits)?;
    match done(&api, Command::Push(PushCommand::SetTags { product, device, tags })).await? {
        true => Ok(Json(told)),
        false => Err(Fault::bad(format!(
            "a device can have at most {} tags",
            limits.pushes.tags_a_device_max
        ))),
    }
}

/// `PUT /v1/products/{product}/devices/{device}/user`, `PUT /v1/device/user`
pub(crate) async fn give(
    State(api): Api,
    of: OfDevice,
    body: Body<DeviceUserBody>,
) -> Told<OwnedDevice> {
    let user = device_user(&body.read()?.user)?;
    set_user(&api, of, Some(user)).await
}

/// `DELETE /v1/products/{product}/devices/{device}/user`, `DELETE /v1/device/user`
pub(crate) async fn take_away(State(api): Api, of: OfDevice) -> Told<OwnedDevice> {
    set_user(&api, of, None).await
}

/// `PUT /v1/products/{product}/devices/{device}/platform`, `PUT /v1/device/platform`
pub(crate) async fn register(
    State(api): Api,
    of: OfDevice,
    body: Body<PlatformBody>,
) -> Told<DevicePlatform> {
    let read = body.read()?;
    api.knows_product(&of.0).await?;
    api.settings.platforms.knows(&read.platform)?;
    let token = read.token()?;
    api.settings.platforms.check(&token)?;
    set_platform(&api, of, Some(token)).await
}

/// `DELETE /v1/products/{product}/devices/{device}/platform`, `DELETE /v1/device/platform`
pub(crate) async fn unregister(State(api): Api, of: OfDevice) -> Told<DevicePlatform> {
    set_platform(&api, of, None).await
}

async fn set_platform(
    api: &Shared,
    of: OfDevice,
    token: Option<PlatformToken>,
) -> Told<DevicePlatform> {
    let OfDevice(product, device) = of;
    let platform = token.as_ref().map(|token| token.platform.as_ref().into());
    let command = PushCommand::SetPlatform { product, device, token };
    match done(api, Command::Push(command)).await? {
        true => Ok(Json(DevicePlatform { platform })),
        false => Err(Fault::store()),
    }
}

/// `PUT /v1/products/{product}/devices/{device}/zone`, `PUT /v1/device/zone`
pub(crate) async fn set_zone(
    State(api): Api,
    of: OfDevice,
    body: Body<ZoneBody>,
) -> Told<DeviceZone> {
    let zone = body.read()?.zone()?;
    zoned(&api, of, Some(zone)).await
}

/// `DELETE /v1/products/{product}/devices/{device}/zone`, `DELETE /v1/device/zone`
pub(crate) async fn unset_zone(State(api): Api, of: OfDevice) -> Told<DeviceZone> {
    zoned(&api, of, None).await
}

async fn zoned(api: &Shared, of: OfDevice, zone: Option<Zone>) -> Told<DeviceZone> {
    let OfDevice(product, device) = of;
    match done(api, Command::Push(PushCommand::SetZone { product, device, zone })).await? {
        true => Ok(Json(DeviceZone { zone: zone.map(Zone::as_str) })),
        false => Err(Fault::store()),
    }
}

/// `GET /v1/products/{product}/owners/{owner}/devices`
pub(crate) async fn of_user(State(api): Api, path: Pair) -> Told<Devices> {
    let (product, user) = pair(path)?;
    let (product, user) = (orders::product(&product)?, device_user(&user)?);
    match api.ask(Command::Push(PushCommand::UserDevices { product, user })).await? {
        Answer::Push(PushAnswer::Devices(states)) => {
            Ok(Json(Devices { devices: states.iter().map(Device::from).collect() }))
        }
        _ => Err(Fault::internal()),
    }
}

async fn set_user(api: &Shared, of: OfDevice, user: Option<DeviceUser>) -> Told<OwnedDevice> {
    let OfDevice(product, device) = of;
    let told = user.as_ref().map(|user| user.as_str().into());
    let command = PushCommand::SetUser { product, device, user };
    match done(api, Command::Push(command)).await? {
        true => Ok(Json(OwnedDevice { user: told })),
        false => Err(Fault::too_many_devices(api.limits().pushes.devices_a_user_max)),
    }
}

/// `POST /v1/products/{product}/devices/{device}/token`, `POST /v1/device/token`
pub(crate) async fn token(
    State(api): Api,
    OfDevice(product, device): OfDevice,
    body: Body<TokenBody>,
) -> Told<DeviceToken> {
    let order = body.read()?;
    let (until, user) = (order.until((api.settings.wall_ms)())?, order.user()?);
    let key = product.clone();
    match api.ask(Command::Push(PushCommand::Token { product, device, user, until })).await? {
        Answer::Push(PushAnswer::Token(Some(token))) => {
            Ok(Json(DeviceToken { token, expires_at: until }))
        }
        Answer::Push(PushAnswer::Token(None)) => Err(Fault::unknown_product(&key)),
        _ => Err(Fault::internal()),
    }
}

async fn set_blocked(api: &Shared, of: OfDevice, blocked: bool) -> Told<Blocked> {
    let OfDevice(product, device) = of;
    done(api, Command::Push(PushCommand::Block { product, device, blocked })).await?;
    Ok(Json(Blocked { blocked }))
}

async fn states(
    api: &Shared,
    product: ProductKey,
    devices: Vec<DeviceId>,
) -> Result<Vec<DeviceState>, Fault> {
    match api.ask(Command::Push(PushCommand::States { product, devices })).await? {
        Answer::Push(PushAnswer::Devices(states)) => Ok(states),
        _ => Err(Fault::internal()),
    }
}

async fn done(api: &Shared, command: Command) -> Result<bool, Fault> {
    match api.ask(command).await? {
        Answer::Push(PushAnswer::Done(done)) => Ok(done),
        _ => Err(Fault::internal()),
    }
}

/// The device that a call is about.
pub(crate) struct OfDevice(ProductKey, DeviceId);

impl<S: Send + Sync> FromRequestParts<S> for OfDevice {
    type Rejection = Fault;

    /// From the path, or, where that names none, from the query.
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<OfDevice, Fault> {
        let named = RawPathParams::from_request_parts(parts, state).await;
        let in_query = named.is_ok_and(|params| params.iter().next().is_none());
        let (product, device) = match in_query {
            true => {
                let query = Query::<DeviceQuery>::from_request_parts(parts, state).await;
                let DeviceQuery { product, device } = asked(query)?;
                (product, device)
            }
            false => pair(Path::from_request_parts(parts, state).await)?,
        };
        Ok(OfDevice(orders::product(&product)?, orders::device(&device)?))
    }
}
