//! Figures of the target's audits of presence, among those that a run counts.
//!
//! The runner of an audit raises these names in [`Counts`]; rules read them. It does not know who
//! asks, nor how memory and directory are compared. The invariant: where no audit was made its
//! figures are unknown, which is no pass, and never zero.

use lab::run::Counts;

/// How names of these figures begin.
pub const PRESENCE: &str = "presence.";
/// Audits that were made.
pub const AUDITS: &str = "presence.audits";
/// Differences that lasted, of all audits.
pub const DIFFERENCES: &str = "presence.differences";
/// Differences at first, of all audits.
pub const DIFFERING: &str = "presence.differing";
/// Milliseconds that audits took, in all.
pub const AUDIT_MS: &str = "presence.audit_ms";
/// Ages of the oldest change not yet written when audits began, milliseconds, added up.
pub const LAG_MS: &str = "presence.lag_ms";

/// How a note begins that tells of differences that lasted.
pub const DIFFERS: &str = "presence differs: ";

/// How many there were.
pub(crate) fn audits(counts: &Counts) -> Result<f64, String> {
    match counts.figure(AUDITS) {
        audits if audits > 0.0 => Ok(audits),
        _ => Err("no audit of presence was made: it takes the API (--api, --token) of a server \
                  that keeps a directory"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scope, check};
    use lab::run::{Run, StageRun};

    #[test]
    fn a_stage_without_an_audit_is_no_pass_though_another_had_one() {
        let mut audited = Counts::default();
        let figures =
            [(AUDITS, 2.0), (DIFFERENCES, 0.0), (DIFFERING, 7.0), (AUDIT_MS, 50.0), (LAG_MS, 8.0)];
        figures.iter().for_each(|(name, value)| audited.raise(name, *value));
        let later = audited.since(&audited);
        let run = Run {
            stages: [audited, later]
                .map(|counts| StageRun { counts, to_ms: 1_000, ..StageRun::default() })
                .into(),
            ..Run::default()
        };
        let of = |place, rule: &str| check(rule, &Scope::of_stage(&run, place).expect("a stage"));
        for rule in [
            "presence.differences == 0",
            "presence.differing == 7",
            "presence.audit_ms == 25",
            "presence.lag_ms <= 4",
        ] {
            assert_eq!(of(0, rule).held, Some(true), "{rule}");
            assert_eq!((of(1, rule).held, of(1, rule).value), (None, None), "{rule}");
        }
    }
}
