//! Requests about webhooks and their dead letters.
//!
//! Numbers of letters are text, for many a writer of JSON keeps only 53 bits. It knows no files.
//! Invariant: without `through` everything there is now is meant, and nothing later.

use crate::fault::Fault;
use serde::Deserialize;

/// Query of `GET /v1/webhooks/{webhook}/dead_letters`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadLettersQuery {
    after: Option<String>,
    pub(crate) limit: Option<u32>,
}

impl DeadLettersQuery {
    /// The number after which the page begins.
    pub(crate) fn after(&self) -> Result<u64, Fault> {
        number("after", self.after.as_deref(), 0)
    }
}

/// Query of `DELETE /v1/webhooks/{webhook}/dead_letters`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClearQuery {
    through: Option<String>,
}

impl ClearQuery {
    /// The number of the last one to clear.
    pub(crate) fn through(&self) -> Result<u64, Fault> {
        number("through", self.through.as_deref(), u64::MAX)
    }
}

/// Body of `POST /v1/webhooks/{webhook}/dead_letters/redeliver`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedeliverBody {
    pub(crate) limit: Option<u32>,
}

fn number(name: &str, text: Option<&str>, otherwise: u64) -> Result<u64, Fault> {
    let wrong = || Fault::bad(format!("`{name}` is the number of a dead letter"));
    text.map_or(Ok(otherwise), |text| text.parse().map_err(|_| wrong()))
}
