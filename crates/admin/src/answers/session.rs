//! A session of the console, and its user.

use crate::guard::Caller;
use crate::roles::ConsoleRole;
use crate::tokens::scope::Scope;
use model::id::ProductKey;
use schemars::JsonSchema;
use serde::Serialize;

/// The caller.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WhoAsks {
    /// Null: no valid credentials, or the session has ended.
    pub(crate) session: Option<Session>,
}

/// An authenticated caller and its permissions.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Session {
    /// The name of its token or user.
    token: String,
    /// The role of a user of the user database; null: the caller uses a token.
    role: Option<&'static str>,
    /// Its scopes, including those that they imply.
    #[schemars(with = "Vec<crate::texts::ScopeWord>")]
    scopes: Vec<&'static str>,
    /// Limited to these products; empty: all.
    products: Vec<String>,
    /// Unix millisecond at which the session ends, even if it is used; null: no session, the caller
    /// sent the token itself.
    ends_ms: Option<u64>,
}

impl From<&Caller> for Session {
    fn from(Caller(token, session): &Caller) -> Session {
        let held = Scope::ALL.into_iter().filter(|(_, scope)| token.scopes.allow(&[*scope]));
        Session {
            token: token.name.clone(),
            role: token.role.map(ConsoleRole::name),
            scopes: held.map(|(name, _)| name).collect(),
            products: token.products.iter().map(ProductKey::as_str).map(String::from).collect(),
            ends_ms: session.as_ref().map(|session| session.ends_ms),
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct SessionEnded {
    /// Whether there was a session, which has ended now.
    pub(crate) ended: bool,
}
