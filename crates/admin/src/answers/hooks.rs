//! Webhooks and their dead letters as JSON.
//!
//! Invariant: of a webhook's secret nothing is told but whether there is one, and of its URL
//! nothing that may be one.

use crate::redact;
use crate::webhook::Address;
use crate::webhook::dead::shelf::DeadLetter;
use model::id::ProductKey;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// A webhook, and what became of its events since the start.
pub(crate) fn hook(number: usize, address: &Address) -> Value {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let dead = address.dead.as_ref().map(|dead| &dead.tally);
    json!({
        "number": number,
        "url": redact::url(&address.hook.url),
        "product": address.hook.product.as_ref().map(ProductKey::as_str),
        "events": address.hook.types,
        "topics": address.hook.topics,
        "signed": !address.hook.secret.is_empty(),
        "delivered": of(&address.tally.delivered),
        "dropped": of(&address.tally.dropped),
        "failures": of(&address.tally.failures),
        "dead_letters": dead.map(|tally| json!({
            "count": of(&tally.count),
            "bytes": of(&tally.bytes),
            "kept": of(&tally.kept),
            "redelivered": of(&tally.redelivered),
            "cleared": of(&tally.cleared),
            "evicted": of(&tally.evicted),
            "refused": of(&tally.refused),
        })),
    })
}

/// A dead letter. What stands in its file was JSON when it was written.
pub(crate) fn letter(letter: &DeadLetter) -> Value {
    json!({
        "number": letter.number.to_string(),
        "kept_ms": letter.kept_ms,
        "why": letter.why.name(),
        "event": serde_json::from_str::<Value>(&letter.event).unwrap_or_default(),
    })
}
