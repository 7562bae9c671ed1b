//! Webhooks, what is posted to them, and their dead letters.
//!
//! Invariant: of a webhook's secret nothing is told but whether there is one, and of its URL
//! nothing that may be one.

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
    /// Events lost since the last batch that was taken.
    pub(crate) lost: u64,
    /// true: dead letters, posted again by order; older than what came since. Else absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) redelivered: bool,
    /// At most 100, in order. Reports come in batches of their own, and so do messages.
    #[schemars(with = "Vec<AnyEvent>", length(max = BATCH_EVENTS_MAX))]
    pub(crate) events: &'a [Value],
}

/// A webhook, and what became of its events.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Webhook {
    /// Its number, as in metrics and paths.
    number: usize,
    /// Where events are posted.
    url: String,
    /// Only of this product.
    product: Option<String>,
    /// Only these; empty: all but `message_published`.
    events: Vec<String>,
    /// Filters of its messages; empty: all.
    topics: Vec<String>,
    /// Whether it has a secret.
    signed: bool,
    /// Events taken since the start.
    delivered: u64,
    /// Events lost or given up since the start.
    dropped: u64,
    /// Requests that were not taken.
    failures: u64,
    /// null: this server keeps none.
    dead_letters: Option<DeadLetterCounts>,
}

#[derive(Serialize, JsonSchema)]
struct DeadLetterCounts {
    /// Letters there are.
    count: u64,
    /// Their bytes.
    bytes: u64,
    /// Kept since the start.
    kept: u64,
    /// Taken by a redelivery since the start.
    redelivered: u64,
    /// Cleared by order since the start.
    cleared: u64,
    /// Gone for want of room since the start.
    evicted: u64,
    /// Not kept because the disk refused, since the start.
    refused: u64,
}

fn of(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl Webhook {
    pub(crate) fn new(number: usize, address: &webhook::Address) -> Webhook {
        let (hook, tally) = (&address.hook, &address.tally);
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
    /// In the order of their numbers.
    pub(crate) webhooks: Vec<Webhook>,
}

/// A dead letter.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DeadLetter {
    /// Rises with each letter of this webhook.
    number: String,
    /// Unix millisecond at which it was given up.
    kept_ms: u64,
    /// Why it was given up.
    #[schemars(extend("enum" = Why::ALL.map(Why::name)))]
    why: &'static str,
    /// As it was posted, or was to be.
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
    /// The page, oldest first. 4 MiB end it early.
    pub(crate) dead_letters: Vec<DeadLetter>,
    /// The next query's `after`; null at the end.
    pub(crate) next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Cleared {
    /// Letters that were there.
    pub(crate) cleared: u64,
}

/// What came of a redelivery.
#[derive(PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Redelivered {
    /// Letters that were taken, and are gone.
    pub(crate) taken: u64,
    /// Letters there are still.
    pub(crate) left: u64,
    /// Why it ended before it was through.
    pub(crate) failure: Option<String>,
}
