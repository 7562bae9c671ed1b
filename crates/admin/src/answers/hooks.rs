//! Webhooks, what is posted to them, and their dead letters.
//!
//! Invariant: a webhook's secret is never shown, only whether there is one; its URL is shown
//! without parts that may be secret.

use super::events::AnyEvent;
use crate::outward::redact;
use crate::webhook::dead::DeadTally;
use crate::webhook::dead::shelf::{self, Why};
use crate::webhook::{self, BATCH_EVENTS_MAX};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};

/// A batch of events, as it is posted.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WebhookBody<'a> {
    /// Events lost since the last batch that was accepted.
    pub(crate) lost: u64,
    /// true: dead letters, posted again on request, and older than the events since. Otherwise
    /// absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) redelivered: bool,
    /// Events, at most 100, in order. Reports are in batches of their own, and so are messages.
    #[schemars(with = "Vec<AnyEvent>", length(max = BATCH_EVENTS_MAX))]
    pub(crate) events: &'a [Value],
}

/// A webhook, and the results of its events.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Webhook {
    /// Its number, as in metrics and paths.
    number: usize,
    /// URL that events are posted to.
    url: String,
    /// Only of this product.
    product: Option<String>,
    /// Only these; empty: all except `message_published`.
    events: Vec<String>,
    /// Filters of its messages; empty: all.
    topics: Vec<String>,
    /// Whether it has a secret.
    signed: bool,
    /// Events accepted since the start.
    delivered: u64,
    /// Events lost or given up since the start.
    dropped: u64,
    /// Failed requests.
    failures: u64,
    /// Its dead letters; null: this server keeps none.
    dead_letters: Option<DeadLetterCounts>,
}

#[derive(Serialize, JsonSchema)]
struct DeadLetterCounts {
    /// Dead letters stored.
    count: u64,
    /// Bytes of these.
    bytes: u64,
    /// Stored since the start.
    kept: u64,
    /// Redelivered since the start.
    redelivered: u64,
    /// Deleted on request since the start.
    cleared: u64,
    /// Dropped since the start, because the limit was reached.
    evicted: u64,
    /// Events not stored since the start, because the disk refused.
    refused: u64,
}

fn of(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl Webhook {
    pub(crate) fn new(number: usize, address: &webhook::Address) -> Webhook {
        let (settings, tally) = (address.settings(), &address.tally);
        let hook = &settings.hook;
        Webhook {
            number,
            url: redact::url(&hook.url),
            product: hook.product.as_ref().map(|key| key.as_str().to_owned()),
            events: hook.types.clone(),
            topics: hook.topics.clone(),
            signed: !hook.secret.is_empty(),
            delivered: of(&tally.delivered),
            dropped: of(&tally.dropped),
            failures: of(&tally.failures),
            dead_letters: address.dead.as_ref().map(|dead| (&dead.tally).into()),
        }
    }
}

impl From<&DeadTally> for DeadLetterCounts {
    fn from(tally: &DeadTally) -> DeadLetterCounts {
        DeadLetterCounts {
            count: of(&tally.count),
            bytes: of(&tally.bytes),
            kept: of(&tally.kept),
            redelivered: of(&tally.redelivered),
            cleared: of(&tally.cleared),
            evicted: of(&tally.evicted),
            refused: of(&tally.refused),
        }
    }
}

/// All webhooks.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Webhooks {
    /// By number.
    pub(crate) webhooks: Vec<Webhook>,
}

/// A dead letter.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DeadLetter {
    /// Increases with each dead letter of this webhook.
    number: String,
    /// Unix millisecond at which it was given up.
    kept_ms: u64,
    /// The reason.
    #[schemars(extend("enum" = Why::ALL.map(Why::name)))]
    why: &'static str,
    /// The event, as it was or would have been posted.
    #[schemars(with = "AnyEvent")]
    event: Value,
}

impl From<&shelf::DeadLetter> for DeadLetter {
    fn from(letter: &shelf::DeadLetter) -> DeadLetter {
        DeadLetter {
            number: letter.number.to_string(),
            kept_ms: letter.kept_ms,
            why: letter.why.name(),
            event: letter.as_json(),
        }
    }
}

/// A page of dead letters.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DeadLetters {
    /// The page, oldest first. It ends at 4 MiB.
    pub(crate) dead_letters: Vec<DeadLetter>,
    /// The next query's `after`; null at the end.
    pub(crate) next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Cleared {
    /// Number of deleted dead letters.
    pub(crate) cleared: u64,
}

/// Result of a redelivery.
#[derive(PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Redelivered {
    /// Dead letters that were accepted, and are deleted.
    pub(crate) taken: u64,
    /// Dead letters that remain.
    pub(crate) left: u64,
    /// Why it ended before it was complete.
    pub(crate) failure: Option<String>,
}
