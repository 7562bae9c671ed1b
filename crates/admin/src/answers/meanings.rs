//! What names of counters and reasons mean, from where they are declared.

use model::close::CloseReason;
use model::counters::Counter;
use model::event;
use model::latency::LatencyPhase;
use model::session::Drop;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What names mean.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Meanings {
    /// Of reasons why connections ended.
    closed: BTreeMap<&'static str, &'static str>,
    /// Of reasons why messages were not delivered to a session.
    dropped: BTreeMap<&'static str, &'static str>,
    /// Of counters.
    counters: BTreeMap<&'static str, &'static str>,
    /// Of phases that are timed, as whose and which.
    phases: BTreeMap<String, &'static str>,
    /// Of events: those that streams and webhooks tell, and those of the log.
    events: BTreeMap<&'static str, String>,
}

/// All of them.
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
