//! Lines of the server's log.

use schemars::JsonSchema;
use serde::Serialize;

/// A line of the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct LogLine {
    /// Its number since the start, without gaps: missing numbers were not kept.
    pub number: u64,
    /// Unix millisecond.
    pub at_ms: u64,
    /// `warn` or `error`.
    pub level: &'static str,
    /// Name of the event, a key of `events` in `/v1/meanings`; null for lines of libraries.
    pub event: Option<&'static str>,
    /// The message, followed by its fields.
    pub text: String,
}

/// The newest lines.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RecentLines {
    /// Oldest first.
    pub(crate) lines: Vec<LogLine>,
}
