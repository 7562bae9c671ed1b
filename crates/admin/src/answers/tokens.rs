//! Tokens of the API as JSON. Invariant: the token itself is told once, when it is made.

use crate::tokens::Token;
use model::id::ProductKey;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// A token, but for itself, at this Unix millisecond.
pub(crate) fn token(token: &Token, now_ms: u64) -> Value {
    let used_ms = token.used_ms.load(Ordering::Relaxed);
    json!({
        "name": token.name,
        "scopes": token.scopes.names(),
        "products": token.products.iter().map(ProductKey::as_str).collect::<Vec<_>>(),
        "made_ms": token.made_ms,
        "made_by": token.made_by,
        "expires_ms": token.expires_ms,
        "expired": token.is_expired(now_ms),
        "used_ms": (used_ms > 0).then_some(used_ms),
    })
}

/// The one that was just made.
pub(crate) fn made(made: &Token, text: &str, now_ms: u64) -> Value {
    let mut told = token(made, now_ms);
    told["token"] = json!(text);
    told
}
