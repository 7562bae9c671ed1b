//! Requests about webhooks and their dead letters.
//!
//! Numbers of letters are text, for many a writer of JSON keeps only 53 bits. It knows no files.
//! Invariant: without `through` everything there is now is meant, and nothing later.

use crate::fault::Fault;
use crate::texts::{PageLimit, Place};
use schemars::JsonSchema;
use serde::Deserialize;

/// Query of `GET /v1/webhooks/{webhook}/dead_letters`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadLettersQuery {
    /// Where the last page ended: its `next`.
    #[schemars(with = "Option<Place>")]
    after: Option<String>,
    /// Entries on the page.
    #[schemars(with = "Option<PageLimit>")]
    pub(crate) limit: Option<u32>,
}

impl DeadLettersQuery {
    /// The number after which the page begins.
    pub(crate) fn after(&self) -> Result<u64, Fault> {
        number("after", self.after.as_deref(), 0)
    }
}

/// Query of `DELETE /v1/webhooks/{webhook}/dead_letters`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClearQuery {
    /// The number of the last one to clear; all without it.
    #[schemars(with = "Option<Place>")]
    through: Option<String>,
}

impl ClearQuery {
    /// The number of the last one to clear.
    pub(crate) fn through(&self) -> Result<u64, Fault> {
        number("through", self.through.as_deref(), u64::MAX)
    }
}

/// How much is redelivered.
#[derive(Deserialize, Default, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RedeliverOrder")]
pub(crate) struct RedeliverBody {
    /// Letters to post, oldest first.
    #[schemars(with = "Option<PageLimit>")]
    pub(crate) limit: Option<u32>,
}

fn number(name: &str, text: Option<&str>, otherwise: u64) -> Result<u64, Fault> {
    let wrong = || Fault::bad(format!("`{name}` must be the number of a dead letter"));
    text.map_or(Ok(otherwise), |text| text.parse().map_err(|_| wrong()))
}
