//! Meanings of counters and reasons, from their declarations.

use model::close::CloseReason;
use model::counters::Counter;
use model::event;
use model::latency::LatencyPhase;
use model::session::Drop;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Meanings of names.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Meanings {
    /// Reasons why connections ended.
    closed: BTreeMap<&'static str, &'static str>,
    /// Reasons why messages were not delivered to a session.
    dropped: BTreeMap<&'static str, &'static str>,
    /// Counters.
    counters: BTreeMap<&'static str, &'static str>,
    /// Timed phases, as service and phase.
    phases: BTreeMap<String, &'static str>,
    /// Events: those of streams and webhooks, and those of the log.
    events: BTreeMap<&'static str, String>,
}

/// All meanings.
pub(crate) fn all() -> Meanings {
    Meanings {
        closed: CloseReason::ALL.iter().map(|of| (of.name(), of.meaning())).collect(),
        dropped: Drop::ALL.iter().map(|of| (of.name(), of.meaning())).collect(),
        counters: Counter::ALL.iter().map(|of| (of.name(), of.help())).collect(),
        phases: LatencyPhase::ALL
            .iter()
            .map(|it| (format!("{} {}", it.of(), it.name()), it.help()))
            .collect(),
        events: event::all().map(|kind| (kind.name, kind.means())).collect(),
    }
}
