//! Orders of applications: bodies and queries as they are written, checked into the model's words.
//!
//! Unknown fields are errors. Names are checked here and nowhere later. Invariant: a value that
//! leaves this file is within every limit that can be known without asking the shards.

pub(crate) mod audience;
pub(crate) mod bans;
pub(crate) mod batch;
pub(crate) mod chat;
pub(crate) mod chatrooms;
pub(crate) mod disconnections;
pub(crate) mod hooks;
pub(crate) mod messages;
pub(crate) mod moves;
pub(crate) mod notification;
pub(crate) mod presence_questions;
pub(crate) mod properties;
pub(crate) mod push_outcomes;
pub(crate) mod schedules;
pub(crate) mod tokens;
pub(crate) mod trace;
pub(crate) mod users;

use crate::answers::products::Anonymous;
use crate::fault::Fault;
use crate::texts::{
    Address, Base64, CivilTimeText, Decimal, DeviceName, DeviceUserName, PageLimit, Place,
    ProductName, PushStateWord, TagName, ZoneName,
};
use audience::{AudienceBody, Expression, NamedDevices};
use axum::http::HeaderMap;
use base::hex;
use base::setting::{Kind, Section};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::audience::Audience;
use model::id::{DeviceId, DeviceUser, MessageId, NameError, ProductKey, Tag};
use model::limits::Limits;
use model::ports::pushes::{PushOrder, PushState, PushTarget, UserTarget};
use model::product::{AnonymousFrom, Heartbeat, Product, Secret};
use model::push::{Priority, Push};
use model::zone::Passed;
use notification::{NotificationBody, PushDocument};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::path::{Component, PathBuf};
use std::sync::Arc;

/// Longest wait for acknowledgements, milliseconds.
pub(crate) const WAIT_MS_MAX: u32 = 30_000;

/// Seconds a push may wait when the order does not say.
const TIME_TO_LIVE_DEFAULT_S: u32 = 24 * 3_600;

/// Longest life of a device's token, seconds: ten years.
const TOKEN_TTL_S_MAX: u64 = 10 * 365 * 24 * 3_600;

/// Addresses in a kick.
const ADDRS_MAX: usize = 4;

/// Secrets a product may have at once.
const SECRETS_MAX: usize = 8;

/// The rule about targets.
const TARGETS: &str =
    "give exactly one of `device`, `devices`, `tag`, `audience`, `user` and `all: true`";

/// Exactly one target: `device`, `devices`, `tag`, `audience`, `user` or `all`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PushOrder")]
pub(crate) struct PushBody {
    /// Key of the product.
    #[schemars(with = "ProductName")]
    product: String,
    /// Target: this device.
    #[schemars(with = "Option<DeviceName>")]
    device: Option<String>,
    /// Target: these devices; at most push_devices_max (1,000).
    #[schemars(with = "Option<Vec<DeviceName>>", length(min = 1))]
    devices: Option<NamedDevices>,
    /// Target: all devices with this tag.
    #[schemars(with = "Option<TagName>")]
    tag: Option<String>,
    /// Target: all devices of this audience.
    audience: Option<AudienceBody>,
    /// Target: the devices of this user.
    #[schemars(with = "Option<DeviceUserName>")]
    user: Option<String>,
    /// With `user`: only the devices whose tags satisfy this, such as those of a platform.
    user_tags: Option<Expression>,
    /// With `user`: only the device that is online, or was last. Not with `send_at_ms`, `dry_run`,
    /// `track` and an Idempotency-Key.
    #[serde(default)]
    last_active: bool,
    /// Target, when true: all devices of the product.
    #[serde(default)]
    all: bool,
    /// Shown to the user. With it, the body that the device gets is a document with `notification`,
    /// and with `data` or `data_base64`, which are `body` and `body_base64`; neither is required
    /// then.
    notification: Option<NotificationBody>,
    /// Body of the push, as text. One of `body` and `body_base64`; 1 to push_bytes_max bytes
    /// (4,096).
    #[schemars(length(min = 1))]
    body: Option<String>,
    /// Body of the push, any bytes in base64; the same length.
    #[schemars(with = "Option<Base64>", length(min = 1))]
    body_base64: Option<String>,
    /// Seconds the push may wait for a device; 0: now or never. The product's ttl_max_s caps it.
    #[schemars(extend("default" = TIME_TO_LIVE_DEFAULT_S))]
    ttl_s: Option<u32>,
    /// A waiting push with the same key is replaced by this one.
    #[schemars(length(min = 1, max = Push::COLLAPSE_BYTES_MAX))]
    collapse_key: Option<String>,
    /// `high` goes before normal ones that have not been sent.
    #[schemars(extend("enum" = ["normal", "high"], "default" = "normal"))]
    priority: Option<String>,
    /// Asks the application on the device to show nothing.
    #[serde(default)]
    silent: bool,
    /// Milliseconds the answer may wait: for the acknowledgement of each device that is named, or
    /// until a push to a tag or a product has come through (neither running nor pending).
    #[serde(default)]
    #[schemars(range(max = WAIT_MS_MAX))]
    wait_ms: u32,
    /// Tell the end of this push at each device as an event `pushed`.
    #[serde(default)]
    receipts: bool,
    /// Store the outcome of the push at each device, for `GET /v1/pushes/{id}` and below it. It is
    /// answered with its counts, whatever its target, once it is on stable storage.
    #[serde(default)]
    track: bool,
    /// When to send it, Unix milliseconds: at most schedule_s_max seconds ahead (30 days), and not
    /// together with `wait_ms`. ttl_s counts from then on.
    send_at_ms: Option<u64>,
    /// When to send it by the clock of each device: a device gets it when its clock shows this
    /// time, and, where the clock leaves the time out, at the first moment after it.
    #[schemars(with = "Option<CivilTimeText>")]
    at_local: Option<String>,
    /// With `at_local`: time zone of the devices without one; UTC unless given.
    #[schemars(with = "Option<ZoneName>")]
    zone: Option<String>,
    /// With `at_local`: zones whose clocks are past the time get the push at once (`send`, unless
    /// given), or not at all (`skip`).
    // No default in the schema of these two: generated clients would send it with every push.
    #[schemars(extend("enum" = Passed::ALL.map(|(word, _)| word)))]
    passed: Option<String>,
    /// Devices a second that are visited, at most; with `tag`, `audience` and `all`. Absent: at
    /// full speed.
    #[schemars(with = "Option<u32>", range(min = 1))]
    devices_per_s: Option<NonZeroU32>,
    /// Only count the devices that the push would be for now: nothing is sent.
    #[serde(default)]
    dry_run: bool,
}

impl PushBody {
    /// Whether the devices are only to be counted.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// The order in a body, under its idempotency key if it has one. `id` is called only after all
    /// checks.
    pub(crate) fn order(
        self,
        limits: &Limits,
        now_ms: u64,
        idempotency_key: Option<Box<str>>,
        id: impl FnOnce() -> MessageId,
    ) -> Result<PushOrder, Fault> {
        let is_later = self.send_at_ms.is_some() || self.at_local.is_some();
        let is_now = !is_later && idempotency_key.is_none() && !(self.dry_run || self.track);
        self.made(is_now, (limits, now_ms), idempotency_key, id)
    }

    /// The order of a schedule's push, which is stored.
    fn stored(
        self,
        limits: &Limits,
        now_ms: u64,
        id: impl FnOnce() -> MessageId,
    ) -> Result<PushOrder, Fault> {
        self.made(false, (limits, now_ms), None, id)
    }

    fn made(
        mut self,
        is_now: bool,
        (limits, now_ms): (&Limits, u64),
        idempotency_key: Option<Box<str>>,
        id: impl FnOnce() -> MessageId,
    ) -> Result<PushOrder, Fault> {
        let product = product(&self.product)?;
        let local = self.local(limits, now_ms, idempotency_key.is_some())?;
        let target = self.target(limits, is_now)?;
        let notifies = self.notification.is_some();
        let body = match (self.notification, self.body, self.body_base64) {
            (_, Some(_), Some(_)) | (None, None, None) => {
                return Err(Fault::bad("give either `body` or `body_base64`"));
            }
            (None, Some(text), None) => text.into_bytes(),
            (None, None, Some(text)) => decoded(&text)?,
            (Some(_), ..) if self.silent => {
                return Err(Fault::bad("a push with `notification` is shown: leave `silent` out"));
            }
            (Some(notification), data, data_base64) => {
                notification.check()?;
                data_base64.as_deref().map(decoded).transpose()?;
                let document = PushDocument { notification, data, data_base64 };
                serde_json::to_vec(&document).map_err(|_| Fault::internal())?
            }
        };
        if body.is_empty() {
            // Devices of MIOP 5 and 6 cannot be sent an empty body.
            return Err(Fault::bad("the body of a push must have at least one byte"));
        }
        if body.len() > limits.pushes.push_bytes_max as usize {
            let (length, max) = (body.len(), limits.pushes.push_bytes_max);
            return Err(Fault::too_large(format!(
                "the push has {length} bytes; the maximum is {max}"
            )));
        }
        let key_max = Push::COLLAPSE_BYTES_MAX;
        let allowed = |key: &String| !key.is_empty() && key.len() <= key_max;
        if !self.collapse_key.as_ref().is_none_or(allowed) {
            return Err(Fault::bad(format!("`collapse_key` must have 1 to {key_max} bytes")));
        }
        if self.wait_ms > WAIT_MS_MAX {
            return Err(Fault::bad(format!("`wait_ms` must be at most {WAIT_MS_MAX}")));
        }
        if let Some(at_ms) = self.send_at_ms {
            // A repeated order is answered like the first one, also when its time has passed: the
            // hub knows whether it is one.
            if at_ms > now_ms || idempotency_key.is_none() {
                allow_time(at_ms, now_ms, limits)?;
            }
            if self.wait_ms > 0 {
                return Err(Fault::bad(
                    "give either `send_at_ms` or `wait_ms`: a scheduled push is answered at once",
                ));
            }
        }
        let named = matches!(target, PushTarget::Devices(_) | PushTarget::User(_));
        if self.devices_per_s.is_some() && named {
            return Err(Fault::bad("`devices_per_s` needs `tag`, `audience` or `all: true`"));
        }
        let priority = match self.priority.as_deref() {
            None | Some("normal") => Priority::Normal,
            Some("high") => Priority::High,
            Some(_) => return Err(Fault::bad("`priority` must be `normal` or `high`")),
        };
        Ok(PushOrder {
            id: id(),
            product,
            target,
            body: body.into(),
            collapse: self.collapse_key.map(Into::into),
            time_to_live_s: self.ttl_s.unwrap_or(TIME_TO_LIVE_DEFAULT_S),
            priority,
            silent: self.silent,
            notifies,
            user: None,
            wait_ms: self.wait_ms,
            receipts: self.receipts,
            track: self.track,
            send_at_ms: self.send_at_ms,
            local,
            devices_per_s: self.devices_per_s,
            idempotency_key,
        })
    }

    /// The target. `is_now`: the push is sent at once, and never again under its key.
    fn target(&mut self, limits: &Limits, is_now: bool) -> Result<PushTarget, Fault> {
        if let Some(user) = self.user.take() {
            let others = self.device.is_some()
                || self.devices.is_some()
                || self.tag.is_some()
                || self.audience.is_some()
                || self.all;
            return match others {
                false => self.target_of_user(&user, is_now),
                true => Err(Fault::bad(TARGETS)),
            };
        }
        if self.user_tags.is_some() || self.last_active {
            return Err(Fault::bad("`user_tags` and `last_active` need `user`"));
        }
        match (&self.device, &self.devices, &self.tag, self.audience.take(), self.all) {
            (Some(one), None, None, None, false) => Ok(PushTarget::Devices(vec![device(one)?])),
            (None, Some(many), None, None, false) => many.devices(limits).map(PushTarget::Devices),
            (None, None, Some(name), None, false) => tag(name).map(PushTarget::Tag),
            (None, None, None, Some(audience), false) => {
                Ok(PushTarget::Audience(Arc::new(audience.audience(limits)?)))
            }
            (None, None, None, None, true) => Ok(PushTarget::Product),
            _ => Err(Fault::bad(TARGETS)),
        }
    }

    /// The devices of a user: those of this moment, or an audience that is stored.
    fn target_of_user(&mut self, user: &str, is_now: bool) -> Result<PushTarget, Fault> {
        let user = audience::device_user(user)?;
        let tags = self.user_tags.take().map(|tags| tags.0);
        if is_now && tags.as_ref().is_none_or(|tags| tags.segments().is_empty()) {
            let last_active = self.last_active;
            return Ok(PushTarget::User(UserTarget { user, tags, last_active }));
        }
        if self.last_active {
            return Err(Fault::bad(
                "`last_active` is for a push that is sent at once: give it without `send_at_ms`, \
                 `at_local`, `dry_run`, `track`, a schedule, an `Idempotency-Key` and segments",
            ));
        }
        let user = Some(user);
        Ok(PushTarget::Audience(Arc::new(Audience { user, tags, ..Audience::default() })))
    }
}

fn decoded(text: &str) -> Result<Vec<u8>, Fault> {
    let decoded = STANDARD.decode(text);
    decoded.map_err(|error| Fault::bad(format!("`body_base64` is not base64: {error}")))
}

/// Checks that a push may be scheduled for this time.
fn allow_time(at_ms: u64, now_ms: u64, limits: &Limits) -> Result<(), Fault> {
    let ahead_s = limits.pushes.schedule_s_max;
    if at_ms <= now_ms {
        return Err(Fault::bad(format!(
            "`send_at_ms` is {at_ms}, which has passed: give Unix milliseconds after {now_ms}"
        )));
    }
    let last_ms = now_ms + u64::from(ahead_s) * 1_000;
    match at_ms <= last_ms {
        true => Ok(()),
        false => Err(Fault::bad(format!(
            "`send_at_ms` is {at_ms}, which is too far ahead: [limits] schedule_s_max allows \
             {ahead_s} seconds, up to {last_ms}"
        ))),
    }
}

/// The header `Idempotency-Key`, if there is one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<Box<str>>, Fault> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let max = PushOrder::KEY_BYTES_MAX;
    let visible = |text: &&str| {
        (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match value.to_str().ok().filter(visible) {
        Some(text) if values.next().is_none() => Ok(Some(text.into())),
        _ => Err(Fault::bad(format!(
            "`Idempotency-Key` must occur once and have 1 to {max} visible ASCII characters"
        ))),
    }
}

/// Query of `/readyz`.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ReadyQuery {
    /// If present, with any value: answer 200 only while clients of a cluster belong to this node,
    /// for load balancers in front of its nodes.
    pub(crate) lead: Option<String>,
}

/// Where a backup goes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BackupOrder")]
pub(crate) struct BackupBody {
    /// Absolute path, on the server's disk, of a folder that is to be made.
    #[schemars(regex(pattern = "^/"))]
    to: String,
}

impl BackupBody {
    /// The backup's folder, on the server's disk, which must not exist yet.
    pub(crate) fn to(self) -> Result<PathBuf, Fault> {
        let path = PathBuf::from(self.to);
        let plain = path.components().all(|part| !matches!(part, Component::ParentDir));
        if !path.is_absolute() || !plain {
            return Err(Fault::bad("`to` must be the absolute path of a new folder"));
        }
        Ok(path)
    }
}

/// Query of `GET /v1/pushes`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PushesQuery {
    /// Only those for devices of this product.
    #[schemars(with = "Option<ProductName>")]
    pub(crate) product: Option<String>,
    /// Only those in this state. A page may then be short, or empty, and not be the last.
    #[schemars(with = "Option<PushStateWord>")]
    pub(crate) state: Option<String>,
    /// Where the last page ended: its `next`.
    #[schemars(with = "Option<Decimal>")]
    pub(crate) after: Option<String>,
    /// Pushes on the page.
    #[schemars(with = "Option<PageLimit>")]
    pub(crate) limit: Option<u32>,
}

impl PushesQuery {
    /// The state, if it is one.
    pub(crate) fn state(&self) -> Result<Option<&str>, Fault> {
        let Some(state) = self.state.as_deref() else { return Ok(None) };
        let words = PushState::ALL.map(PushState::name);
        match words.contains(&state) {
            true => Ok(Some(state)),
            false => Err(Fault::bad(format!("`state` must be one of {}", words.join(", ")))),
        }
    }
}

/// Query of `DELETE /v1/pushes/{id}`, and of `pause` and `resume` below it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelQuery {
    /// Only if the push is for devices of this product.
    #[schemars(with = "Option<ProductName>")]
    pub(crate) product: Option<String>,
}

/// Devices that are asked about.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DeviceQuery")]
pub(crate) struct QueryBody {
    /// Their names; at most push_devices_max (1,000).
    #[schemars(with = "Vec<DeviceName>", length(min = 1))]
    pub(crate) devices: Vec<String>,
}

/// Query of `GET /v1/devices`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// Only of this product.
    #[schemars(with = "Option<ProductName>")]
    pub(crate) product: Option<String>,
    /// Only those online (or offline).
    pub(crate) online: Option<bool>,
    /// Only those with this tag.
    #[schemars(with = "Option<TagName>")]
    pub(crate) tag: Option<String>,
    /// Where the last page ended: its `next`.
    #[schemars(with = "Option<Place>")]
    pub(crate) after: Option<u64>,
    /// Devices on the page.
    #[schemars(with = "Option<PageLimit>")]
    pub(crate) limit: Option<u32>,
}

/// How a device is kicked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Kick")]
pub(crate) struct KickBody {
    /// Send the device to one of these, ip:port.
    #[serde(default)]
    #[schemars(with = "Vec<Address>", length(max = ADDRS_MAX))]
    addrs: Vec<String>,
}

impl KickBody {
    pub(crate) fn addrs(self) -> Result<Vec<String>, Fault> {
        let wrong = |addr: &String| addr.parse::<std::net::SocketAddr>().is_err();
        if self.addrs.len() > ADDRS_MAX || self.addrs.iter().any(wrong) {
            return Err(Fault::bad(format!(
                "`addrs` must have at most {ADDRS_MAX} entries of the form ip:port"
            )));
        }
        Ok(self.addrs)
    }
}

/// Tags of a device: the order that sets them, and its answer.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tags")]
pub(crate) struct TagsBody {
    /// All its tags from now on; at most tags_a_device_max (32).
    #[schemars(with = "Vec<TagName>")]
    tags: Vec<String>,
}

impl TagsBody {
    pub(crate) fn tags(&self, limits: &Limits) -> Result<Vec<Tag>, Fault> {
        let max = usize::from(limits.pushes.tags_a_device_max);
        if self.tags.len() > max {
            return Err(Fault::bad(format!("a device can have at most {max} tags")));
        }
        self.tags.iter().map(|name| tag(name)).collect()
    }
}

/// How long a device's token is to be good.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TokenOrder")]
pub(crate) struct TokenBody {
    /// Seconds for which the token is good.
    #[schemars(range(min = 1, max = TOKEN_TTL_S_MAX))]
    ttl_s: u64,
    /// User to whom a Bind with the token gives the device.
    #[schemars(with = "Option<DeviceUserName>")]
    user: Option<String>,
}

impl TokenBody {
    /// The user to whom a Bind with the token gives the device.
    pub(crate) fn user(&self) -> Result<Option<DeviceUser>, Fault> {
        self.user.as_deref().map(audience::device_user).transpose()
    }

    /// Unix second until which the token is good.
    pub(crate) fn until(&self, wall_ms: u64) -> Result<u64, Fault> {
        if !(1..=TOKEN_TTL_S_MAX).contains(&self.ttl_s) {
            return Err(Fault::bad(format!("`ttl_s` must be 1 to {TOKEN_TTL_S_MAX}")));
        }
        Ok(wall_ms / 1_000 + self.ttl_s)
    }
}

/// Query of `GET /v1/events`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// Only of this product.
    #[schemars(with = "Option<ProductName>")]
    pub(crate) product: Option<String>,
    /// Only these, with commas between: online, offline, report, pushed, client_connected,
    /// client_disconnected, client_refused, session_ended, client_subscribed, client_unsubscribed,
    /// messages_dropped. Or message_published alone: absent means all but that.
    #[serde(rename = "type")]
    pub(crate) types: Option<String>,
    /// With type=message_published: only messages on topics that match this filter.
    pub(crate) topic: Option<String>,
    /// As the header, for clients that cannot set it.
    pub(crate) last_event_id: Option<String>,
}

/// Fields left out keep their value; a new product begins with the defaults. Every field is named
/// as its setting in [products.KEY].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProductChange", transform = ranges_of_settings)]
pub(crate) struct ProductBody {
    /// Its number, as classic records carry it; a new product needs one.
    app_id: Option<u32>,
    /// All its secrets from now on, newest first. Left out: they stay.
    #[schemars(length(max = SECRETS_MAX))]
    secrets: Option<Vec<SecretBody>>,
    /// Make a new secret of 32 bytes, put it first, and tell it in this answer only.
    #[serde(default)]
    generate_secret: bool,
    /// Addresses from which Binds without proof are accepted.
    #[schemars(with = "Option<Anonymous>")]
    anonymous: Option<String>,
    /// HMAC-SHA256 with a secret of the product (MIOP 7).
    hmac: Option<bool>,
    /// Demand a challenge (MIOP 7).
    challenge: Option<bool>,
    /// A verified client certificate.
    certificate: Option<bool>,
    /// A token made by this API.
    token: Option<bool>,
    /// The signature of MIOP 5 and 6.
    classic_sign: Option<bool>,
    /// Shortest heartbeat, seconds.
    heartbeat_min_s: Option<u16>,
    /// Heartbeat of a device without a wish, seconds; not below the shortest.
    heartbeat_default_s: Option<u16>,
    /// Longest heartbeat, seconds; not below that.
    heartbeat_max_s: Option<u16>,
    /// Pushes that may be unacknowledged on a connection.
    inflight_max: Option<u16>,
    /// Stored pushes a device.
    offline_count_max: Option<u32>,
    /// Stored pushes a device, bytes.
    offline_bytes_max: Option<u32>,
    /// Longest time to live of a push.
    ttl_max_s: Option<u32>,
    /// Whether pushes for devices that never bound are stored.
    store_for_unknown: Option<bool>,
    /// Reports a second a device may send.
    reports_per_s: Option<u16>,
    /// Pushes for a device are published here too, with %p for the product and %d for the device;
    /// it has %d in it. null: nowhere. (`null` and absent differ: the one takes the topic away, the
    /// other keeps it.)
    #[serde(default, deserialize_with = "given")]
    #[schemars(regex(pattern = "%d"), length(max = Product::TOPIC_BYTES_MAX))]
    topic: Option<Option<String>>,
}

/// The field's value, `null` included.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// Query of `/v1/device` and of what is below it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceQuery {
    /// The product's key.
    #[schemars(with = "ProductName")]
    pub(crate) product: String,
    /// The device's name, any text that one may have.
    #[schemars(with = "DeviceName")]
    pub(crate) device: String,
}

/// A secret of a product.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Secret")]
pub(crate) struct SecretBody {
    /// Names the secret in a Bind.
    pub(crate) key_id: u32,
    /// 16 to 64 bytes in hex.
    pub(crate) hex: String,
}

impl ProductBody {
    /// The changed product, and the new secret if one was requested.
    pub(crate) fn product(
        self,
        key: ProductKey,
        present: Option<&Product>,
        random: &dyn Fn(&mut [u8]),
    ) -> Result<(Product, Option<Secret>), Fault> {
        let mut product = match (present, self.app_id) {
            (Some(present), None) => present.clone(),
            (Some(present), Some(app_id)) => Product { app_id, ..present.clone() },
            (None, Some(app_id)) => Product::new(key, app_id),
            (None, None) => return Err(Fault::bad("a new product needs an `app_id`")),
        };
        if let Some(secrets) = self.secrets {
            product.secrets = secrets.into_iter().map(secret).collect::<Result<_, _>>()?;
        }
        let made = self.generate_secret.then(|| {
            let newest = product.secrets.iter().map(|secret| secret.key_id).max();
            let mut bytes = vec![0; 32];
            random(&mut bytes);
            Secret { key_id: newest.unwrap_or(0).wrapping_add(1), bytes: bytes.into() }
        });
        product.secrets.splice(0..0, made.clone());
        let proofs = &mut product.proofs;
        set(&mut proofs.anonymous, self.anonymous.as_deref().map(anonymous).transpose()?);
        set(&mut proofs.hmac, self.hmac);
        set(&mut proofs.challenge, self.challenge);
        set(&mut proofs.certificate, self.certificate);
        set(&mut proofs.token, self.token);
        set(&mut proofs.classic_sign, self.classic_sign);
        set(&mut product.heartbeat.min_s, self.heartbeat_min_s);
        set(&mut product.heartbeat.default_s, self.heartbeat_default_s);
        set(&mut product.heartbeat.max_s, self.heartbeat_max_s);
        set(&mut product.inflight_max, self.inflight_max);
        set(&mut product.offline_count_max, self.offline_count_max);
        set(&mut product.offline_bytes_max, self.offline_bytes_max);
        set(&mut product.time_to_live_max_s, self.ttl_max_s);
        set(&mut product.store_for_unknown, self.store_for_unknown);
        set(&mut product.reports_per_s, self.reports_per_s);
        if let Some(topic) = self.topic {
            if let Some(why) = topic.as_deref().and_then(Product::topic_fault) {
                return Err(Fault::bad(format!("`topic` {why}")));
            }
            product.topic = topic.map(Into::into);
        }
        check(&product, present)?;
        Ok((product, made))
    }
}

pub(crate) fn product(text: &str) -> Result<ProductKey, Fault> {
    ProductKey::parse(text).map_err(|error| name("product", error))
}

pub(crate) fn device(text: &str) -> Result<DeviceId, Fault> {
    DeviceId::parse(text).map_err(|error| name("device", error))
}

pub(crate) fn tag(text: &str) -> Result<Tag, Fault> {
    Tag::parse(text).map_err(|error| name("tag", error))
}

/// A list of devices within the limit.
pub(crate) fn devices(names: &[String], limits: &Limits) -> Result<Vec<DeviceId>, Fault> {
    let max = limits.pushes.push_devices_max as usize;
    if names.is_empty() || names.len() > max {
        return Err(Fault::bad(format!("`devices` must have 1 to {max} names")));
    }
    names.iter().map(|name| device(name)).collect()
}

/// A push's id from a path.
pub(crate) fn push_id(text: &str) -> Result<MessageId, Fault> {
    let id = text.parse().map_err(|_| Fault::bad("the id of a push must be a decimal number"))?;
    Ok(MessageId(id))
}

fn name(what: &str, error: NameError) -> Fault {
    Fault::bad(format!("the name of the {what} {error}"))
}

fn set<T>(value: &mut T, wish: Option<T>) {
    if let Some(wish) = wish {
        *value = wish;
    }
}

fn anonymous(word: &str) -> Result<AnonymousFrom, Fault> {
    match word {
        "nowhere" => Ok(AnonymousFrom::Nowhere),
        "loopback" => Ok(AnonymousFrom::Loopback),
        "everywhere" => Ok(AnonymousFrom::Everywhere),
        _ => Err(Fault::bad("`anonymous` must be `nowhere`, `loopback` or `everywhere`")),
    }
}

fn secret(body: SecretBody) -> Result<Secret, Fault> {
    let bytes = hex::decode(&body.hex).filter(|bytes| (16..=64).contains(&bytes.len()));
    let bytes = bytes
        .ok_or_else(|| Fault::bad("the `hex` of a secret must be 16 to 64 bytes in hexadecimal"))?;
    Ok(Secret { key_id: body.key_id, bytes })
}

fn check(product: &Product, present: Option<&Product>) -> Result<(), Fault> {
    let Heartbeat { min_s, default_s, max_s } = product.heartbeat;
    let mut key_ids: Vec<_> = product.secrets.iter().map(|secret| secret.key_id).collect();
    key_ids.sort_unstable();
    key_ids.dedup();
    for setting in Product::settings() {
        let value = product.value(setting.name);
        // A value that the product had before is not checked again.
        let is_new = present.is_none_or(|present| present.value(setting.name) != value);
        if is_new && value.is_some_and(|value| !setting.kind.fits(&value)) {
            let (name, allowed) = (setting.name, setting.kind.allowed());
            return Err(Fault::bad(format!("`{name}` must be {allowed}")));
        }
    }
    let rules = [
        (product.secrets.len() <= SECRETS_MAX, "a product can have at most eight secrets"),
        (key_ids.len() == product.secrets.len(), "each secret must have its own `key_id`"),
        (
            min_s <= default_s && default_s <= max_s,
            "`heartbeat_min_s` <= `heartbeat_default_s` <= `heartbeat_max_s`",
        ),
    ];
    let broken = rules.into_iter().find(|(holds, _)| !holds);
    broken.map_or(Ok(()), |(_, rule)| Err(Fault::bad(rule)))
}

/// The ranges of numbers, in a schema of their fields: those of the settings of the same names.
fn ranges_of_settings(schema: &mut Schema) {
    let Some(properties) = schema.get_mut("properties").and_then(|it| it.as_object_mut()) else {
        return;
    };
    for setting in Product::settings() {
        let Kind::Whole { min, max, .. } = setting.kind else { continue };
        let field = properties.get_mut(setting.name).and_then(|field| field.as_object_mut());
        if let Some(field) = field {
            field.insert("minimum".to_owned(), min.into());
            field.insert("maximum".to_owned(), max.into());
        }
    }
}
