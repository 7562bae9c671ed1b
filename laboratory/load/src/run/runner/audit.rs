//! The audit at a stage's end: whether the target's memory and its directory agree about who is
//! online.
//!
//! A stage is audited when one of its rules, or of the plan's, is about presence. The invariant: an
//! audit that gave no answer leaves its figures unknown and a note.

use super::Runner;
use crate::run::StagePart;
use crate::run::parts::Audited;
use verdict::presence_figures;

/// How long a difference must last to be one, milliseconds.
const SETTLE_MS: u32 = 2_000;
/// Longest time that an audit is waited for, milliseconds.
const AUDIT_MS_MAX: u64 = 120_000;
/// Differences that are reported one by one, at most.
const TOLD_MAX: usize = 10;
/// Letters of a key that are reported, at most.
const KEY_CHARS_MAX: usize = 80;

impl Runner<'_> {
    /// Has the target audited, if the stage that is ending is judged by it.
    pub(super) fn audit(&mut self) {
        let about = |rule: &String| rule.trim_start().starts_with(presence_figures::PRESENCE);
        let rules = [&self.planned().pass, &self.plan.pass];
        if self.end.is_some() || !rules.into_iter().flatten().any(about) {
            return;
        }
        let stage = &self.planned().name;
        self.part = StagePart::Settling;
        self.parts.auditor.begin(SETTLE_MS);
        self.until_ms = self.now_ms() + AUDIT_MS_MAX;
        let answer = loop {
            if let Some(answer) = self.parts.auditor.take() {
                break answer;
            }
            if self.end.is_some() || self.now_ms() >= self.until_ms {
                break Err("there was no answer in time".to_owned());
            }
            self.beat(self.until_ms);
        };
        match answer {
            Ok(audited) => self.audited(stage, &audited),
            Err(why) => self.note(format!("presence was not audited in stage `{stage}`: {why}")),
        }
    }

    /// Counts what was found, and says it.
    fn audited(&mut self, stage: &str, audited: &Audited) {
        let lasted: u64 = audited.persistent.values().sum();
        for (name, value) in [
            (presence_figures::AUDITS, 1),
            (presence_figures::DIFFERENCES, lasted),
            (presence_figures::DIFFERING, audited.differing),
            (presence_figures::AUDIT_MS, audited.took_ms),
            (presence_figures::LAG_MS, audited.lag_ms),
        ] {
            self.audited.raise(name, value as f64);
            self.total.raise(name, value as f64);
        }
        self.note(format!(
            "presence in stage `{stage}`: {} online in memory, {} differed at first and {lasted} \
             after {} ms; {} ms for the audit, the oldest change not yet written was {} ms old",
            audited.online, audited.differing, SETTLE_MS, audited.took_ms, audited.lag_ms
        ));
        if lasted > 0 {
            let kinds = audited.persistent.iter().filter(|(_, count)| **count > 0);
            let kinds: Vec<_> = kinds.map(|(kind, count)| format!("{count} {kind}")).collect();
            let first = audited.first.iter().take(TOLD_MAX);
            let first: Vec<_> = first.map(|(key, kind)| format!("{} {kind}", short(key))).collect();
            let (prefix, kinds, first) =
                (presence_figures::DIFFERS, kinds.join(", "), first.join(", "));
            self.note(format!("{prefix}in stage `{stage}` {lasted} ({kinds}): {first}"));
        }
    }
}

fn short(key: &str) -> String {
    match key.char_indices().nth(KEY_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &key[..end]),
        None => key.to_owned(),
    }
}
