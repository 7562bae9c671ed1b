//! What applications get: the model's words as JSON.
//!
//! Field names are those of `openapi.json`, held by tests. 64-bit numbers that name something are
//! text. Invariant: no secret leaves, but the one that was just made.

pub(crate) mod hooks;
pub(crate) mod metrics;
pub(crate) mod presence_json;
pub(crate) mod tokens;

use crate::hex;
use crate::orders::messages::RETAIN_HANDLING;
use crate::orders::properties;
use crate::orders::users::ACTIONS;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::close::CloseReason;
use model::event::Counter;
use model::id::{DeviceId, MessageId, Tag};
use model::ports::control::Status;
use model::ports::pushes::{DeviceState, PushCounts};
use model::ports::topics::{ClientState, SubscriptionState};
use model::ports::users::UserState;
use model::product::{AnonymousFrom, Product, Secret};
use model::push::Outcome;
use model::session::Drop;
use model::topic::Publication;
use serde_json::{Map, Value, json};

/// A push with an outcome for each device.
pub(crate) fn outcomes(id: MessageId, outcomes: &[(DeviceId, Outcome)]) -> Value {
    let told = outcomes.iter().map(|(device, outcome)| {
        let mut told = json!({ "device": device.as_str(), "outcome": outcome.name() });
        if let Outcome::Rejected(why) = outcome {
            told["reason"] = json!(why.name());
        }
        told
    });
    json!({ "id": id.0.to_string(), "outcomes": told.collect::<Vec<_>>() })
}

/// A push with its counts.
pub(crate) fn counts(id: MessageId, counts: &PushCounts) -> Value {
    json!({
        "id": id.0.to_string(),
        "counts": {
            "matched": counts.matched,
            "pending": counts.pending,
            "delivered": counts.delivered,
            "stored": counts.stored,
            "expired": counts.expired,
            "rejected": counts.rejected,
            "running": counts.running,
        },
    })
}

/// A device.
pub(crate) fn device(state: &DeviceState) -> Value {
    json!({
        "product": state.product.as_str(),
        "device": state.device.as_str(),
        "online": state.online,
        "protocol": state.protocol,
        "epoch": state.epoch.to_string(),
        "since_ms": state.since_ms,
        "seen_ms": state.seen_ms,
        "version": state.version.to_string(),
        "reason": state.reason.map(CloseReason::name),
        "heartbeat_s": state.heartbeat_s,
        "inflight": state.inflight,
        "waiting": state.waiting,
        "tags": state.tags.iter().map(Tag::as_str).collect::<Vec<_>>(),
        "blocked": state.blocked,
    })
}

/// A product, its secrets by their ids only.
pub(crate) fn product(product: &Product) -> Value {
    let proofs = &product.proofs;
    json!({
        "key": product.key.as_str(),
        "app_id": product.app_id,
        "key_ids": product.secrets.iter().map(|secret| secret.key_id).collect::<Vec<_>>(),
        "anonymous": match proofs.anonymous {
            AnonymousFrom::Nowhere => "nowhere",
            AnonymousFrom::Loopback => "loopback",
            AnonymousFrom::Everywhere => "everywhere",
        },
        "hmac": proofs.hmac,
        "challenge": proofs.challenge,
        "certificate": proofs.certificate,
        "token": proofs.token,
        "classic_sign": proofs.classic_sign,
        "heartbeat_min_s": product.heartbeat.min_s,
        "heartbeat_default_s": product.heartbeat.default_s,
        "heartbeat_max_s": product.heartbeat.max_s,
        "inflight_max": product.inflight_max,
        "offline_count_max": product.offline_count_max,
        "offline_bytes_max": product.offline_bytes_max,
        "ttl_max_s": product.time_to_live_max_s,
        "store_for_unknown": product.store_for_unknown,
        "reports_per_s": product.reports_per_s,
        "topic": product.topic.as_deref(),
    })
}

/// The secret that was just made: told this once.
pub(crate) fn made_secret(secret: &Secret) -> Value {
    json!({ "key_id": secret.key_id, "hex": hex::encode(&secret.bytes) })
}

/// Counters and gauges.
pub(crate) fn status(version: &str, status: &Status) -> Value {
    let counters = Counter::ALL
        .iter()
        .map(|counter| (counter.name().to_owned(), json!(status.counters.of(*counter))));
    let closed = CloseReason::ALL
        .iter()
        .map(|reason| (reason.name().to_owned(), json!(status.counters.closed_of(*reason))));
    let dropped = Drop::ALL
        .iter()
        .map(|why| (why.name().to_owned(), json!(status.counters.dropped_of(*why))));
    json!({
        "version": version,
        "shards": status.shards,
        "connections": status.connections,
        "devices": status.devices,
        "online": status.online,
        "waiting": status.waiting,
        "waiting_bytes": status.waiting_bytes,
        "turn_us_max": status.turn_us_max,
        "memory_pressure": status.pressure.name(),
        "sessions": status.sessions,
        "sessions_online": status.sessions_online,
        "subscriptions": status.subscriptions,
        "retained": status.retained,
        "retained_bytes": status.retained_bytes,
        "queued": status.queued,
        "queued_bytes": status.queued_bytes,
        "delayed": status.delayed,
        "counters": counters.collect::<Map<_, _>>(),
        "closed": closed.collect::<Map<_, _>>(),
        "dropped": dropped.collect::<Map<_, _>>(),
    })
}

/// A client.
pub(crate) fn client(state: &ClientState) -> Value {
    json!({
        "client_id": &*state.client_id,
        "user": state.user.as_deref(),
        "online": state.online,
        "protocol": state.protocol,
        "peer": state.peer.map(|peer| peer.to_string()),
        "since_ms": state.since_ms,
        "seen_ms": state.seen_ms,
        "version": state.version.to_string(),
        "reason": state.reason.map(CloseReason::name),
        "keep_alive_s": state.keep_alive_s,
        "session_expiry_s": (state.expiry_s != u32::MAX).then_some(state.expiry_s),
        "subscriptions": state.subscriptions,
        "inflight": state.inflight,
        "queued": state.queued,
        "queued_bytes": state.queued_bytes,
        "dropped": state.dropped,
        "has_will": state.has_will,
    })
}

/// A subscription of a client.
pub(crate) fn subscription(state: &SubscriptionState) -> Value {
    let wish = &state.wish;
    let handling = RETAIN_HANDLING.into_iter().find(|(_, known)| *known == wish.retain_handling);
    json!({
        "filter": &*wish.filter,
        "qos": wish.qos as u8,
        "granted": state.granted as u8,
        "no_local": wish.no_local,
        "retain_as_published": wish.retain_as_published,
        "retain_handling": handling.map(|(word, _)| word),
        "subscription_id": state.subscription_id,
    })
}

/// A published message: the payload as text too where it is one, and the properties it has.
pub(crate) fn message(message: &Publication) -> Value {
    let mut told = json!({
        "topic": message.topic(),
        "qos": message.qos as u8,
        "retain": message.retain,
        "at_s": message.at_s,
        "payload_base64": STANDARD.encode(message.payload()),
    });
    if let Ok(text) = std::str::from_utf8(message.payload()) {
        told["payload"] = json!(text);
    }
    if message.expire_at != 0 {
        told["expire_at_s"] = json!(message.expire_at);
    }
    let properties = properties::decode(message.properties());
    if properties.is_utf8 {
        told["payload_is_utf8"] = json!(true);
    }
    if let Some(text) = properties.content_type {
        told["content_type"] = json!(text);
    }
    if let Some(text) = properties.response_topic {
        told["response_topic"] = json!(text);
    }
    if let Some(data) = properties.correlation_data {
        told["correlation_data_base64"] = json!(STANDARD.encode(data));
    }
    if !properties.user_properties.is_empty() {
        told["user_properties"] = json!(properties.user_properties);
    }
    told
}

/// A user, without anything of its password.
pub(crate) fn user(state: &UserState) -> Value {
    let rules = state.rules.iter().map(|rule| {
        let about = (rule.publish, rule.read);
        let action = ACTIONS.into_iter().find(|(_, known)| *known == about);
        let action = action.map_or("none", |(word, _)| word);
        json!({ "allow": rule.allow, "action": action, "filter": rule.filter })
    });
    json!({
        "name": state.name,
        "has_password": state.has_password,
        "superuser": state.is_super,
        "disabled": state.is_disabled,
        "rules": rules.collect::<Vec<_>>(),
    })
}
