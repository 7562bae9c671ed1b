//! A push and its result.

use crate::texts::{BatchOutcomeWord, Decimal, OutcomeWord, PushStateWord, RejectionWord};
use model::id::{DeviceId, MessageId};
use model::ports::pushes::{AudienceCounts, OrderState};
use model::push;
use schemars::JsonSchema;
use serde::Serialize;

/// Result of a push so far: by device if devices were named, otherwise as counts; of a dry run,
/// the devices that it would be for.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "PushAnswer")]
pub(crate) enum Pushed {
    Outcomes(PushOutcomes),
    Counts(PushCounts),
    Counted(DryRun),
}

/// Devices that a push would have been for. Nothing was sent.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DryRun {
    /// Devices that the push would have been for.
    matched: u64,
    /// Those of them that are online.
    online: u64,
    /// Those of them that the server does not know.
    unknown: u64,
    /// When the count began, Unix milliseconds.
    at_ms: u64,
    /// How long the count took, milliseconds.
    took_ms: u64,
}

impl DryRun {
    pub(crate) fn new(counts: &AudienceCounts, at_ms: u64, took_ms: u64) -> DryRun {
        let AudienceCounts { matched, online, unknown } = *counts;
        DryRun { matched, online, unknown, at_ms, took_ms }
    }
}

/// A push with an outcome for each device.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PushOutcomes {
    /// Id of the push, a decimal number of 64 bits as text.
    #[schemars(with = "Decimal")]
    id: String,
    /// One for each device, in no particular order.
    outcomes: Vec<Outcome>,
}

/// Outcomes of a batch.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PushBatchOutcomes {
    /// One for each message, in their order.
    pub(crate) outcomes: Vec<BatchOutcome>,
}

/// Outcome of a message of a batch.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PushBatchOutcome")]
pub(crate) struct BatchOutcome {
    /// Id of its push, a decimal number of 64 bits as text.
    #[schemars(with = "Decimal")]
    id: String,
    /// The device.
    device: String,
    /// As in a push. unknown: the server did not answer in time, and may have queued the push.
    #[schemars(with = "BatchOutcomeWord")]
    outcome: &'static str,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<RejectionWord>")]
    reason: Option<&'static str>,
}

impl BatchOutcome {
    /// The word for a message without an outcome.
    pub(crate) const UNKNOWN: &str = "unknown";

    /// The outcome; None is unknown.
    pub(crate) fn new(
        id: MessageId,
        device: &DeviceId,
        outcome: Option<push::Outcome>,
    ) -> BatchOutcome {
        BatchOutcome {
            id: id.0.to_string(),
            device: device.as_str().into(),
            outcome: outcome.map_or(BatchOutcome::UNKNOWN, push::Outcome::name),
            reason: outcome.and_then(rejection),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PushOutcome")]
struct Outcome {
    /// The device.
    device: String,
    /// delivered: the device acknowledged it. stored: it is on stable storage and queued. expired:
    /// its time to live was over, or it was not to be stored and the device was offline. rejected:
    /// see reason.
    #[schemars(with = "OutcomeWord")]
    outcome: &'static str,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<RejectionWord>")]
    reason: Option<&'static str>,
}

/// A push with its counts.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PushCounts {
    /// Id of the push, a decimal number of 64 bits as text.
    #[schemars(with = "Decimal")]
    id: String,
    /// scheduled: its time has not come. paused: no further device is visited until it is resumed.
    /// running: its devices are being visited. finished: all were visited. cancelled: what was not
    /// delivered is recalled.
    #[schemars(with = "PushStateWord")]
    state: &'static str,
    /// Whether the outcome of the push at each device is stored.
    tracked: bool,
    counts: Counts,
}

/// Pushes that are remembered.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PushPage {
    /// Those to be sent last first, then the latest.
    pushes: Vec<RememberedPush>,
    /// Where to continue: `after` of the next request; null at the end.
    #[schemars(with = "Option<Decimal>")]
    next: Option<String>,
}

/// A push that is remembered.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RememberedPush {
    #[serde(flatten)]
    progress: PushCounts,
    /// Product of its devices; null if it is not remembered.
    product: Option<String>,
    /// When it is sent, Unix milliseconds, while it is scheduled; with `at_local`, when it is sent
    /// to the next zone.
    send_at_ms: Option<u64>,
}

impl PushPage {
    /// Those in this state of a full page, or of the last one.
    pub(crate) fn new(orders: &[OrderState], is_full: bool, state: Option<&str>) -> PushPage {
        let asked = |it: &&OrderState| state.is_none_or(|state| it.counts.state.name() == state);
        let of = |it: &OrderState| RememberedPush {
            progress: PushCounts::new(it.id, &it.counts),
            product: it.product.as_ref().map(|product| product.as_str().into()),
            send_at_ms: it.send_at_ms,
        };
        let next = orders.last().filter(|_| is_full).map(|it| it.id.0.to_string());
        PushPage { pushes: orders.iter().filter(asked).map(of).collect(), next }
    }
}

#[derive(Serialize, JsonSchema)]
struct Counts {
    /// Devices that it was for.
    matched: u64,
    /// Sent and not yet acknowledged.
    pending: u64,
    /// Acknowledged.
    delivered: u64,
    /// Queued in the store.
    stored: u64,
    /// Expired before delivery.
    expired: u64,
    /// Rejected, or given up.
    rejected: u64,
    /// Recalled by a cancel before delivery.
    cancelled: u64,
    /// Devices that reported that their user opened it; zero if it is not tracked.
    opened: u64,
    /// Devices that reported that their user dismissed it.
    dismissed: u64,
    /// Whether the push is still being processed.
    running: bool,
}

impl PushOutcomes {
    pub(crate) fn new(id: MessageId, outcomes: &[(DeviceId, push::Outcome)]) -> PushOutcomes {
        let told = outcomes.iter().map(|(device, outcome)| Outcome::new(device, *outcome));
        PushOutcomes { id: id.0.to_string(), outcomes: told.collect() }
    }
}

impl Outcome {
    fn new(device: &DeviceId, outcome: push::Outcome) -> Outcome {
        let (device, reason) = (device.as_str().into(), rejection(outcome));
        Outcome { device, outcome: outcome.name(), reason }
    }
}

/// The reason why a push was rejected, if it was.
pub(super) fn rejection(outcome: push::Outcome) -> Option<&'static str> {
    match outcome {
        push::Outcome::Rejected(why) => Some(why.name()),
        _ => None,
    }
}

impl PushCounts {
    pub(crate) fn new(id: MessageId, counts: &model::ports::pushes::PushCounts) -> PushCounts {
        let model::ports::pushes::PushCounts {
            matched,
            pending,
            delivered,
            stored,
            expired,
            rejected,
            cancelled,
            opened,
            dismissed,
            tracked,
            running,
            state,
        } = *counts;
        let counts = Counts {
            matched,
            pending,
            delivered,
            stored,
            expired,
            rejected,
            cancelled,
            opened,
            dismissed,
            running,
        };
        PushCounts { id: id.0.to_string(), state: state.name(), tracked, counts }
    }
}
