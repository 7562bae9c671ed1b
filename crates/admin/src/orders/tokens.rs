//! Requests about tokens of the API, and queries of the audit log.
//!
//! Invariant: a token that is made from an order here can be shown, named and revoked by a path.

use crate::audit_log::Outcome;
use crate::fault::Fault;
use crate::orders;
use crate::texts::{PageLimit, ScopeWord, TokenName};
use crate::tokens::scope::{Scope, Scopes};
use crate::tokens::{FILES, TokenOrder, is_bindable};
use schemars::JsonSchema;
use serde::Deserialize;

/// Longest name, bytes.
const NAME_BYTES_MAX: usize = 64;

/// Products of one token.
const PRODUCTS_MAX: usize = 64;

/// Longest life, seconds: ten years.
const TTL_S_MAX: u64 = 10 * 365 * 24 * 3_600;

/// Query of `GET /v1/tokens`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokensQuery {
    /// The last name of the page before.
    pub(crate) after: Option<String>,
    /// Entries on the page.
    #[schemars(with = "Option<PageLimit>")]
    pub(crate) limit: Option<u32>,
}

/// A token that is to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ApiTokenOrder")]
pub(crate) struct ApiTokenBody {
    /// 1 to 64 letters, digits, `-`, `_` and `.`; begins with no `.`.
    #[schemars(with = "TokenName")]
    name: String,
    /// `metrics`: figures. `read`: all that can be looked at but users, tokens and the audit log.
    /// `push`, `publish`: send. `manage`: end, block and change devices, clients, sessions and what
    /// is retained. `users`: the book of users. `admin`: everything.
    #[schemars(with = "Vec<ScopeWord>", length(min = 1))]
    scopes: Vec<String>,
    /// Products that the token may be used for; with the scopes `push`, `read` and `manage`. At
    /// most 64.
    #[serde(default)]
    products: Vec<String>,
    /// Seconds after which it opens nothing; for good when it is left out.
    #[schemars(range(min = 1, max = TTL_S_MAX))]
    ttl_s: Option<u64>,
}

impl ApiTokenBody {
    /// The order, at this Unix millisecond.
    pub(crate) fn order(self, now_ms: u64) -> Result<TokenOrder, Fault> {
        let name = name(self.name)?;
        let scopes = Scopes::of(self.scopes.iter().map(String::as_str)).ok();
        let scopes = scopes.filter(|scopes| !scopes.is_empty()).ok_or_else(|| {
            let words = Scope::ALL.map(|(word, _)| format!("`{word}`")).join(", ");
            Fault::bad(format!("`scopes` must be a list of one or more of {words}"))
        })?;
        if self.products.len() > PRODUCTS_MAX {
            return Err(Fault::bad(format!("`products` can have at most {PRODUCTS_MAX} entries")));
        }
        if !self.products.is_empty() && !is_bindable(scopes) {
            return Err(Fault::bad(
                "`products` is allowed with the scopes `push`, `read` and `manage` only: the \
                 others do not concern a product",
            ));
        }
        let products = self.products.iter().map(|key| orders::product(key));
        let ends = |ttl_s: u64| match (1..=TTL_S_MAX).contains(&ttl_s) {
            true => Ok(now_ms + ttl_s * 1_000),
            false => Err(Fault::bad(format!("`ttl_s` must be 1 to {TTL_S_MAX}"))),
        };
        Ok(TokenOrder {
            name,
            scopes,
            products: products.collect::<Result<_, _>>()?,
            expires_ms: self.ttl_s.map(ends).transpose()?,
        })
    }
}

/// A checked name.
pub(crate) fn name(text: String) -> Result<String, Fault> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_path = text.starts_with('.') || text == FILES;
    if text.is_empty() || text.len() > NAME_BYTES_MAX || is_path || !text.bytes().all(fits) {
        return Err(Fault::bad(format!(
            "the name of a token must have 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` and \
             `.`, must not start with `.`, and must not be `{FILES}` (the token in the data folder)"
        )));
    }
    Ok(text)
}

/// Query of `GET /v1/audit_log`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditLogQuery {
    /// Only those of the token with this name.
    pub(crate) token: Option<String>,
    /// Only those that ended so.
    #[schemars(extend("enum" = Outcome::ALL.map(|(word, _)| word)))]
    pub(crate) outcome: Option<String>,
    /// The `next` of the page before.
    pub(crate) after: Option<u64>,
    /// Entries on the page.
    #[schemars(with = "Option<PageLimit>")]
    pub(crate) limit: Option<u32>,
}

impl AuditLogQuery {
    /// The word of the outcome that is wanted, if one is.
    pub(crate) fn outcome(&self) -> Result<Option<&'static str>, Fault> {
        let Some(word) = self.outcome.as_deref() else { return Ok(None) };
        let known = Outcome::ALL.into_iter().find(|(known, _)| *known == word);
        let known = known.map(|(known, _)| Some(known));
        known.ok_or_else(|| Fault::bad("`outcome` must be `done`, `refused` or `failed`"))
    }
}
