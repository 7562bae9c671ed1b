//! Bans, with what they have done. Invariant: a time is a Unix millisecond, as everywhere in the
//! API.

use model::ports::bans::{Ban, BanCause, BanSubject};
use schemars::JsonSchema;
use serde::Serialize;

/// A ban.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Ban")]
pub(crate) struct BanShown {
    /// Banned address, network, client or user.
    #[schemars(extend("enum" = BanSubject::KINDS))]
    kind: &'static str,
    /// The address, network or name.
    subject: String,
    /// `operator`, or the rule that made it.
    #[schemars(extend("enum" = BanCause::ALL.map(BanCause::name)))]
    cause: &'static str,
    /// Why, in the operator's words.
    note: String,
    /// Name of the token it was made with; empty for a rule.
    made_by: String,
    /// Unix millisecond at which it was made.
    made_ms: u64,
    /// Unix millisecond at which it is over; null: never.
    expires_ms: Option<u64>,
    /// Connections and logins that it refused since the server started.
    refused: u64,
    /// Connections that it ended.
    ended: u64,
}

impl From<&Ban> for BanShown {
    fn from(ban: &Ban) -> BanShown {
        let ms = |second: u32| u64::from(second) * 1_000;
        BanShown {
            kind: ban.subject.kind(),
            subject: ban.subject.value(),
            cause: ban.cause.name(),
            note: ban.note.to_string(),
            made_by: ban.by.to_string(),
            made_ms: ms(ban.made_s),
            expires_ms: (ban.until_s != 0).then(|| ms(ban.until_s)),
            refused: ban.refused,
            ended: ban.ended,
        }
    }
}

/// A page of bans.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Bans")]
pub(crate) struct BanPage {
    /// Addresses first, then clients, then users.
    pub(crate) bans: Vec<BanShown>,
    /// The next query's `after`; null at the end.
    pub(crate) next: Option<String>,
    /// How many bans hold.
    pub(crate) total: u64,
}
