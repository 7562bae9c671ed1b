//! A session of the console, and whose it is.

use crate::guard::Caller;
use crate::roles::ConsoleRole;
use crate::tokens::scope::Scope;
use model::id::ProductKey;
use schemars::JsonSchema;
use serde::Serialize;

/// Who asks.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WhoAsks {
    /// Null: nobody that is known, or its session is over.
    pub(crate) session: Option<Session>,
}

/// Somebody who is known, and what for it is good.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Session {
    /// The name of its token, or of the user that it is.
    token: String,
    /// The role of a user of the book; null: it has a token.
    role: Option<&'static str>,
    /// What that is good for, with what these words bring along.
    #[schemars(with = "Vec<crate::texts::ScopeWord>")]
    scopes: Vec<&'static str>,
    /// It is for these products only; empty: for all.
    products: Vec<String>,
    /// Unix millisecond at which the session ends, whatever it asks; null: the caller has none, and
    /// showed the token itself.
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
    /// There was one, and it is over.
    pub(crate) ended: bool,
}
