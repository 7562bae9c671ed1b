//! What applications send: bodies and queries as they are written, checked into the model's words.
//!
//! Unknown fields are errors. Names are checked here and nowhere later. Invariant: a value that
//! leaves this file is within every limit that can be known without asking the shards.

pub(crate) mod hooks;
pub(crate) mod messages;
pub(crate) mod presence_questions;
pub(crate) mod properties;
pub(crate) mod tokens;
pub(crate) mod users;

use crate::fault::Fault;
use crate::hex;
use axum::http::HeaderMap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::id::{DeviceId, MessageId, NameError, ProductKey, Tag};
use model::limits::Limits;
use model::ports::pushes::{PushOrder, PushTarget};
use model::product::{AnonymousFrom, Heartbeat, Product, Secret};
use model::push::{Priority, Push};
use serde::Deserialize;
use std::path::{Component, PathBuf};

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

/// Body of `POST /v1/pushes`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PushBody {
    product: String,
    device: Option<String>,
    devices: Option<Vec<String>>,
    tag: Option<String>,
    #[serde(default)]
    all: bool,
    body: Option<String>,
    body_base64: Option<String>,
    ttl_s: Option<u32>,
    collapse_key: Option<String>,
    priority: Option<String>,
    #[serde(default)]
    silent: bool,
    #[serde(default)]
    wait_ms: u32,
    #[serde(default)]
    receipts: bool,
}

impl PushBody {
    /// The order under the application's own key for it, with an id made only when all of it is
    /// right.
    pub(crate) fn order(
        self,
        limits: &Limits,
        idempotency_key: Option<Box<str>>,
        id: impl FnOnce() -> MessageId,
    ) -> Result<PushOrder, Fault> {
        let product = product(&self.product)?;
        let target = self.target(limits)?;
        let body = match (self.body, self.body_base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(text)) => STANDARD
                .decode(text)
                .map_err(|error| Fault::bad(format!("`body_base64` is not base64: {error}")))?,
            _ => return Err(Fault::bad("give one of `body` and `body_base64`")),
        };
        if body.is_empty() {
            // Devices of MIOP 5 and 6 have no way to be told nothing.
            return Err(Fault::bad("a push has a body of at least one byte"));
        }
        if body.len() > limits.push_bytes_max as usize {
            let (length, max) = (body.len(), limits.push_bytes_max);
            return Err(Fault::too_large(format!("the push has {length} bytes of at most {max}")));
        }
        let key_max = Push::COLLAPSE_BYTES_MAX;
        let allowed = |key: &String| !key.is_empty() && key.len() <= key_max;
        if !self.collapse_key.as_ref().is_none_or(allowed) {
            return Err(Fault::bad(format!("`collapse_key` has 1 to {key_max} bytes")));
        }
        if self.wait_ms > WAIT_MS_MAX {
            return Err(Fault::bad(format!("`wait_ms` is at most {WAIT_MS_MAX}")));
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
            wait_ms: self.wait_ms,
            receipts: self.receipts,
            idempotency_key,
        })
    }

    fn target(&self, limits: &Limits) -> Result<PushTarget, Fault> {
        match (&self.device, &self.devices, &self.tag, self.all) {
            (Some(one), None, None, false) => Ok(PushTarget::Devices(vec![device(one)?])),
            (None, Some(many), None, false) => devices(many, limits).map(PushTarget::Devices),
            (None, None, Some(name), false) => tag(name).map(PushTarget::Tag),
            (None, None, None, true) => Ok(PushTarget::Product),
            _ => Err(Fault::bad("give exactly one of `device`, `devices`, `tag` and `all: true`")),
        }
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
            "`Idempotency-Key` comes once and is 1 to {max} visible ASCII characters"
        ))),
    }
}

/// Body of `POST /v1/backup`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackupBody {
    to: String,
}

impl BackupBody {
    /// The folder to be made, on the server's disk.
    pub(crate) fn to(self) -> Result<PathBuf, Fault> {
        let path = PathBuf::from(self.to);
        let plain = path.components().all(|part| !matches!(part, Component::ParentDir));
        if !path.is_absolute() || !plain {
            return Err(Fault::bad("`to` is the absolute path of a folder that is to be made"));
        }
        Ok(path)
    }
}

/// Body of `POST /v1/products/{product}/devices/query`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueryBody {
    pub(crate) devices: Vec<String>,
}

/// Query of `GET /v1/devices`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    pub(crate) product: Option<String>,
    pub(crate) online: Option<bool>,
    pub(crate) tag: Option<String>,
    pub(crate) after: Option<u64>,
    pub(crate) limit: Option<u32>,
}

/// Body of a kick.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KickBody {
    #[serde(default)]
    addrs: Vec<String>,
}

impl KickBody {
    pub(crate) fn addrs(self) -> Result<Vec<String>, Fault> {
        let wrong = |addr: &String| addr.parse::<std::net::SocketAddr>().is_err();
        if self.addrs.len() > ADDRS_MAX || self.addrs.iter().any(wrong) {
            return Err(Fault::bad(format!("`addrs` has at most {ADDRS_MAX} of the form ip:port")));
        }
        Ok(self.addrs)
    }
}

/// Body that sets a device's tags.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TagsBody {
    tags: Vec<String>,
}

impl TagsBody {
    pub(crate) fn tags(self, limits: &Limits) -> Result<Vec<Tag>, Fault> {
        let max = usize::from(limits.tags_a_device_max);
        if self.tags.len() > max {
            return Err(Fault::bad(format!("a device has at most {max} tags")));
        }
        self.tags.iter().map(|name| tag(name)).collect()
    }
}

/// Body that asks for a device's token.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenBody {
    ttl_s: u64,
}

impl TokenBody {
    /// Unix second until which the token is good.
    pub(crate) fn until(&self, wall_ms: u64) -> Result<u64, Fault> {
        if !(1..=TOKEN_TTL_S_MAX).contains(&self.ttl_s) {
            return Err(Fault::bad(format!("`ttl_s` is 1 to {TOKEN_TTL_S_MAX}")));
        }
        Ok(wall_ms / 1_000 + self.ttl_s)
    }
}

/// Query of `GET /v1/events`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    pub(crate) product: Option<String>,
    #[serde(rename = "type")]
    pub(crate) types: Option<String>,
    pub(crate) topic: Option<String>,
    pub(crate) last_event_id: Option<String>,
}

/// Body of `PUT /v1/products/{product}`. A field left out keeps its value; a new product begins
/// with the defaults.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProductBody {
    app_id: Option<u32>,
    secrets: Option<Vec<SecretBody>>,
    #[serde(default)]
    generate_secret: bool,
    anonymous: Option<String>,
    hmac: Option<bool>,
    challenge: Option<bool>,
    certificate: Option<bool>,
    token: Option<bool>,
    classic_sign: Option<bool>,
    heartbeat_min_s: Option<u16>,
    heartbeat_default_s: Option<u16>,
    heartbeat_max_s: Option<u16>,
    inflight_max: Option<u16>,
    offline_count_max: Option<u32>,
    offline_bytes_max: Option<u32>,
    ttl_max_s: Option<u32>,
    store_for_unknown: Option<bool>,
    reports_per_s: Option<u16>,
    /// `null` and absent differ: the one takes the topic away, the other keeps it.
    #[serde(default, deserialize_with = "given")]
    topic: Option<Option<String>>,
}

/// What was given, `null` included.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// Query of `/v1/device` and of what is below it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceQuery {
    pub(crate) product: String,
    pub(crate) device: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretBody {
    key_id: u32,
    hex: String,
}

impl ProductBody {
    /// The product as it is to be, and the secret that was made for it if one was asked for.
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
        check(&product)?;
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
    let max = limits.push_devices_max as usize;
    if names.is_empty() || names.len() > max {
        return Err(Fault::bad(format!("`devices` has 1 to {max} names")));
    }
    names.iter().map(|name| device(name)).collect()
}

/// A push's id from a path.
pub(crate) fn push_id(text: &str) -> Result<MessageId, Fault> {
    let id = text.parse().map_err(|_| Fault::bad("a push's id is a decimal number"))?;
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
    let bytes = bytes.ok_or_else(|| Fault::bad("a secret's `hex` is 16 to 64 bytes in hex"))?;
    Ok(Secret { key_id: body.key_id, bytes: bytes.into() })
}

fn check(product: &Product) -> Result<(), Fault> {
    let Heartbeat { min_s, default_s, max_s } = product.heartbeat;
    let mut key_ids: Vec<_> = product.secrets.iter().map(|secret| secret.key_id).collect();
    key_ids.sort_unstable();
    key_ids.dedup();
    let rules = [
        (product.secrets.len() <= SECRETS_MAX, "a product has at most eight secrets"),
        (key_ids.len() == product.secrets.len(), "each secret has its own `key_id`"),
        (
            0 < min_s && min_s <= default_s && default_s <= max_s,
            "0 < `heartbeat_min_s` <= `heartbeat_default_s` <= `heartbeat_max_s`",
        ),
        (product.inflight_max > 0, "`inflight_max` is at least 1"),
        (product.reports_per_s > 0, "`reports_per_s` is at least 1"),
        (
            product.offline_count_max <= Product::OFFLINE_COUNT_HARD_MAX,
            "`offline_count_max` is at most 10000",
        ),
    ];
    let broken = rules.into_iter().find(|(holds, _)| !holds);
    broken.map_or(Ok(()), |(_, rule)| Err(Fault::bad(rule)))
}
