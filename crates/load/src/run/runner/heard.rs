//! What clients should have heard in a stage, by what was sent: the plan's `hears`.
//!
//! Numbers in messages tell what is missing where a client hears one sender; here sums tell it
//! where anybody may hear anybody. It is done when a stage has settled, so that nothing that is
//! under way is called missing. The invariant: a message is missing once, however that is known.

use super::Runner;
use lab::run::Counts;
use std::collections::BTreeMap;

impl Runner<'_> {
    /// Counts what did not arrive since `before`, by group.
    pub(super) fn miss(&mut self, before: &BTreeMap<String, Counts>) {
        let since = |group: &str, name: &str| {
            let of = |groups: &BTreeMap<String, Counts>| {
                groups.get(group).map_or(0.0, |counts| counts.figure(name))
            };
            of(&self.groups) - of(before)
        };
        let mut missed = Vec::new();
        for group in &self.plan.groups {
            let expected: f64 = group
                .hears
                .iter()
                .map(|(sender, receivers)| {
                    let gone = since(sender, "messages.refused") + since(sender, "messages.lost");
                    (since(sender, "messages.sent") - gone).max(0.0) * receivers
                })
                .sum();
            let name = group.name.as_str();
            let heard = since(name, "messages.received") - since(name, "messages.repeated");
            let known = since(name, "messages.missing");
            let missing = (expected - heard - known).round();
            if missing > 0.0 {
                missed.push((name.to_owned(), missing));
            }
        }
        for (group, missing) in missed {
            self.note(format!("{group}: {missing} messages that were sent have not arrived"));
            self.total.raise("messages.missing", missing);
            self.groups.entry(group.clone()).or_default().raise("messages.missing", missing);
            *self.missed.entry(group).or_default() += missing;
        }
    }

    /// Adds what is known to be missing to what the crew counted.
    pub(super) fn with_missed(&self, groups: &mut BTreeMap<String, Counts>) {
        for (group, missing) in &self.missed {
            groups.entry(group.clone()).or_default().raise("messages.missing", *missing);
        }
    }
}
