//! Answers of a tracker from memory: its entries, what it remembers, and its counts.

use super::PresenceTracker;
use crate::ledger::{Entry, TAKEN};
use model::ports::presence::queries::{
    MemoryEntry, PresenceAnswer, PresenceCommand, PresenceStatus, Remembered,
};
use model::presence::{Principal, bucket};

impl PresenceTracker {
    /// Answers from memory. Of principals that are asked for by name, `Find` answers those that
    /// have an entry, and `Histories` those remembered: others may be known to the hub.
    pub fn answer(&self, command: &PresenceCommand) -> PresenceAnswer {
        match command {
            PresenceCommand::Find(who) => {
                let found = who.iter().filter_map(|who| self.presence(who));
                PresenceAnswer::Found(found.collect())
            }
            PresenceCommand::Buckets(buckets) => {
                let entries = buckets.iter().flat_map(|&bucket| self.ledger.bucket(bucket));
                let kept = entries.filter(|(_, entry)| entry.claims() || entry.is_unwritten());
                PresenceAnswer::Entries(kept.map(|(_, entry)| self.memory_entry(entry)).collect())
            }
            PresenceCommand::Histories(who) => {
                let histories = who.iter().map(|who| (who.clone(), self.remembered(who)));
                let known = histories.filter(|(_, remembered)| !remembered.is_empty());
                PresenceAnswer::Histories(known.collect())
            }
            PresenceCommand::Counts => PresenceAnswer::Counts(self.counts.clone()),
        }
    }

    fn presence(&self, who: &Principal) -> Option<PresenceStatus> {
        let key = who.key();
        let place = self.ledger.find(self.hash_key.of(&[key.as_bytes()]), bucket(&key), &key)?;
        let entry = self.ledger.at(place)?;
        let since_ms = entry.version.unix_ms();
        Some(PresenceStatus {
            who: who.clone(),
            user: entry.user.as_ref().map(|user| (*user.0).into()),
            state: self.codes.decode(entry.code),
            since_ms,
            seen_ms: since_ms,
            version: entry.version,
        })
    }

    fn memory_entry(&self, entry: &Entry) -> MemoryEntry {
        MemoryEntry {
            entry: (entry.key.clone(), entry.record(&self.settings.lease, &self.codes)),
            settled: entry.is(TAKEN) && !entry.is_unwritten(),
        }
    }

    fn remembered(&self, who: &Principal) -> Vec<Remembered> {
        let remembered = self.history.of(self.hash_key.of(&[who.key().as_bytes()]));
        let one = |(version, code)| Remembered { version, state: self.codes.decode(code) };
        remembered.into_iter().map(one).collect()
    }
}
