//! What applications get: the model's words as JSON.
//!
//! Field names are those of `openapi.json`, held by tests. 64-bit numbers that name something are
//! text. Invariant: no secret leaves, but the one that was just made.

use crate::hex;
use model::close::CloseReason;
use model::event::Counter;
use model::id::{DeviceId, MessageId, Tag};
use model::ports::control::{DeviceState, PushCounts, Status};
use model::product::{AnonymousFrom, Product, Secret};
use model::push::Outcome;
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
        "proofs": {
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
        },
        "heartbeat": {
            "min_s": product.heartbeat.min_s,
            "default_s": product.heartbeat.default_s,
            "max_s": product.heartbeat.max_s,
        },
        "inflight_max": product.inflight_max,
        "offline_count_max": product.offline_count_max,
        "offline_bytes_max": product.offline_bytes_max,
        "ttl_max_s": product.time_to_live_max_s,
        "store_for_unknown": product.store_for_unknown,
        "reports_per_s": product.reports_per_s,
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
    json!({
        "version": version,
        "shards": status.shards,
        "connections": status.connections,
        "devices": status.devices,
        "online": status.online,
        "waiting": status.waiting,
        "waiting_bytes": status.waiting_bytes,
        "turn_us_max": status.turn_us_max,
        "counters": counters.collect::<Map<_, _>>(),
        "closed": closed.collect::<Map<_, _>>(),
    })
}
