//! Tokens of the API, and the audit log. Invariant: the token itself is shown only once, when it is
//! made.

use crate::audit_log::Numbered;
use crate::texts::ScopeWord;
use crate::tokens::Token;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::atomic::Ordering;

/// A token's description, without the token itself.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ApiToken {
    /// Its name.
    name: String,
    /// Its scopes.
    #[schemars(with = "Vec<ScopeWord>")]
    scopes: Vec<&'static str>,
    /// Limited to these products; empty: all.
    products: Vec<String>,
    /// Unix millisecond at which it was made.
    made_ms: u64,
    /// Name of the token it was made with; `api.token` is the file's.
    made_by: String,
    /// Unix millisecond at which it expires; null: never.
    expires_ms: Option<u64>,
    /// Whether it has expired.
    expired: bool,
    /// When it was last used since the server started.
    used_ms: Option<u64>,
}

impl ApiToken {
    /// State of a token at this Unix millisecond.
    pub(crate) fn new(token: &Token, now_ms: u64) -> ApiToken {
        let used_ms = token.used_ms.load(Ordering::Relaxed);
        ApiToken {
            name: token.name.clone(),
            scopes: token.scopes.names(),
            products: token.products.iter().map(|key| key.as_str().to_owned()).collect(),
            made_ms: token.made_ms,
            made_by: token.made_by.clone(),
            expires_ms: token.expires_ms,
            expired: token.is_expired(now_ms),
            used_ms: (used_ms > 0).then_some(used_ms),
        }
    }
}

/// A new token.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MadeApiToken {
    #[serde(flatten)]
    pub(crate) made: ApiToken,
    /// Shown only once.
    pub(crate) token: String,
}

/// A page of tokens.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ApiTokens {
    /// By name.
    pub(crate) tokens: Vec<ApiToken>,
    /// The next query's `after`; null at the end.
    pub(crate) next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Revoked {
    /// Always true.
    pub(crate) revoked: bool,
}

/// A page of the audit log.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuditLog")]
pub(crate) struct AuditLogPage {
    /// The newest first.
    #[schemars(with = "Vec<Numbered<'static>>")]
    pub(crate) entries: Vec<serde_json::Value>,
    /// The next query's `after`; null at the end.
    pub(crate) next: Option<String>,
}
