//! Figures of a stage's messages at its end, among those that a run counts: messages that the
//! target owes, the delay of the last one, and the result of an audit of inboxes.
//!
//! The runner of the plan raises these names in [`Counts`]; rules read them. The invariant: where
//! nothing was counted or audited its figures are unknown, which is no pass, and never zero.

use lab::run::Counts;

/// How names of what an audit of inboxes found begin.
pub const AUDIT: &str = "audit.";
/// Stages that had a number of messages to send.
pub const OWING: &str = "messages.owing";
/// Messages that were to be sent and that the target has not taken.
pub const OWED: &str = "messages.owed";
/// Stages in which messages were answered and received.
pub const TAILS: &str = "messages.tails";
/// Milliseconds from the last answer to the last message received, added up.
pub const TAIL_MS: &str = "messages.tail_ms";
/// Stages of a number of messages whose sending was timed.
pub const SENDINGS: &str = "messages.sendings";
/// Milliseconds from the first moment of sending to the last answer, added up.
pub const SENDING_MS: &str = "messages.sending_ms";
/// Audits that were made.
pub const AUDITS: &str = "audit.made";
/// Entries of inboxes that acknowledged messages should have.
pub const EXPECTED: &str = "audit.expected";
/// Entries found, each once.
pub const ENTRIES: &str = "audit.entries";
/// Entries that acknowledged messages should have, and that were not found.
pub const MISSING: &str = "audit.missing";
/// Entries found of messages that were never acknowledged.
pub const UNACKNOWLEDGED: &str = "audit.unacknowledged";
/// 1 if as many entries were found as were acknowledged, but not the same ones; else 0.
pub const DIFFERS: &str = "audit.differs";
/// Entries found once more.
pub const REPEATED: &str = "audit.repeated";
/// Messages found behind a later one.
pub const REORDERED: &str = "audit.reordered";
/// Messages that are not as they were sent.
pub const CHANGED: &str = "audit.changed";

/// How a note begins that tells why inboxes were not audited.
pub const NOT_AUDITED: &str = "inboxes were not audited: ";

/// A figure of those that are known where another one was counted.
pub(crate) fn value(counts: &Counts, name: &str) -> Result<f64, String> {
    let (mark, why) = match name {
        OWED => (OWING, "no group had a number of messages to send"),
        TAIL_MS => (TAILS, "no message was answered and received"),
        SENDING_MS => (SENDINGS, "no group had a number of messages to send"),
        _ => (AUDITS, "no inboxes were audited to their end"),
    };
    match counts.figure(mark) {
        0.0 => Err(why.to_owned()),
        _ => Ok(counts.figure(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scope, check};
    use lab::run::{Run, StageRun};

    #[test]
    fn what_was_not_counted_is_no_pass() {
        let mut counted = Counts::default();
        for (name, value) in [
            (OWING, 1.0),
            (TAILS, 1.0),
            (TAIL_MS, 300.0),
            (SENDINGS, 1.0),
            (SENDING_MS, 900.0),
            (AUDITS, 1.0),
        ] {
            counted.raise(name, value);
        }
        let later = counted.since(&counted);
        let run = Run {
            stages: [counted, later]
                .map(|counts| StageRun { counts, to_ms: 1_000, ..StageRun::default() })
                .into(),
            ..Run::default()
        };
        let of = |place, rule: &str| check(rule, &Scope::of_stage(&run, place).expect("a stage"));
        for rule in [
            "messages.owed == 0",
            "messages.tail_ms == 300",
            "messages.sending_ms == 900",
            "audit.expected == 0",
            "audit.entries == 0",
            "audit.missing == 0",
            "audit.unacknowledged == 0",
            "audit.differs == 0",
            "audit.repeated == 0",
            "audit.reordered == 0",
            "audit.changed == 0",
        ] {
            assert_eq!(of(0, rule).held, Some(true), "{rule}");
            assert_eq!((of(1, rule).held, of(1, rule).value), (None, None), "{rule}");
        }
    }
}
