//! How far the pushes to tags and products have come.
//!
//! A job is the sum of its devices' outcomes; each device is in one column at a time. The oldest
//! finished walk is forgotten first; items of a forgotten job go on uncounted. Pushes to lists have
//! no job: their answers say it all, and receipts the rest.

use model::id::MessageId;
use model::ports::control::PushCounts;
use model::push::Outcome;
use std::collections::BTreeMap;

/// The jobs of one shard.
pub(crate) struct Jobs {
    jobs: BTreeMap<MessageId, PushCounts>,
    jobs_max: usize,
}

impl Jobs {
    /// Remembers so many, at least one.
    pub fn new(jobs_max: usize) -> Jobs {
        Jobs { jobs: BTreeMap::new(), jobs_max: jobs_max.max(1) }
    }

    /// A fan-out begins; false when as many as may be remembered are still running, or the id is
    /// known.
    pub fn begin(&mut self, id: MessageId) -> bool {
        if self.jobs.contains_key(&id) {
            return false;
        }
        if self.jobs.len() == self.jobs_max {
            let done = self.jobs.iter().find(|(_, counts)| !counts.running);
            let Some(done) = done.map(|(&id, _)| id) else { return false };
            self.jobs.remove(&done);
        }
        self.jobs.insert(id, PushCounts { running: true, ..PushCounts::default() });
        true
    }

    /// All its devices were visited.
    pub fn walked(&mut self, id: MessageId) {
        if let Some(counts) = self.jobs.get_mut(&id) {
            counts.running = false;
        }
    }

    /// Another device, with its outcome if it has one already.
    pub fn matched(&mut self, id: MessageId, outcome: Option<Outcome>) {
        if let Some(counts) = self.jobs.get_mut(&id) {
            counts.matched += 1;
            match outcome {
                Some(outcome) => *column(counts, outcome) += 1,
                None => counts.pending += 1,
            }
        }
    }

    /// A pending one is stored.
    pub fn stored(&mut self, id: MessageId) {
        self.ended(id, false, Outcome::Stored);
    }

    /// A pending one, or a stored one, came to its end.
    pub fn ended(&mut self, id: MessageId, was_stored: bool, outcome: Outcome) {
        if let Some(counts) = self.jobs.get_mut(&id) {
            *(if was_stored { &mut counts.stored } else { &mut counts.pending }) -= 1;
            *column(counts, outcome) += 1;
        }
    }

    /// The counts of a job.
    pub fn counts(&self, id: MessageId) -> Option<PushCounts> {
        self.jobs.get(&id).copied()
    }

    /// Panics when a sum does not hold.
    pub fn audit(&self) {
        for (id, c) in &self.jobs {
            let sum = c.pending + c.delivered + c.stored + c.expired + c.rejected;
            assert_eq!(c.matched, sum, "columns of {id:?}: {c:?}");
        }
    }
}

fn column(counts: &mut PushCounts, outcome: Outcome) -> &mut u64 {
    match outcome {
        Outcome::Delivered => &mut counts.delivered,
        Outcome::Stored => &mut counts.stored,
        Outcome::Expired => &mut counts.expired,
        Outcome::Rejected(_) => &mut counts.rejected,
    }
}
