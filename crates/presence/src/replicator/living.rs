//! Nodes whose records count: those with a lease in force.
//!
//! A record of a dead node, or one that somebody made up, says that a principal is online there;
//! before it is held against a connection here it is looked whether that node lives. After a loss
//! all leases may have run out, also of those who are about to be back: for the time of a lease
//! everybody counts as alive. Invariant: a connection that is alive here is given up only for a
//! node that lives.

use super::ReplicatorSettings;
use base::time::{Instant, Now};
use model::ports::presence::directory::{Directory, DirectoryEntry, DirectoryError, Lease, Put};
use model::presence::{NodeName, PresenceRecord};
use std::time::Duration;

/// Age at which the known leases are asked for anew.
const KNOWN: Duration = Duration::from_secs(1);

/// Nodes that are alive.
pub struct Living {
    own: NodeName,
    lease_for: Duration,
    nodes: Vec<Lease>,
    looked_at: Option<Instant>,
    /// Moment since which nothing was lost.
    steady_since: Option<Instant>,
}

impl Living {
    pub fn new(settings: &ReplicatorSettings) -> Living {
        Living {
            own: settings.lease.node.clone(),
            lease_for: Duration::from_millis(settings.lease_ms.into()),
            nodes: Vec::new(),
            looked_at: None,
            steady_since: None,
        }
    }

    /// Leases may have been lost.
    pub fn shaken(&mut self, now: Now) {
        (self.steady_since, self.looked_at) = (Some(now.mono), None);
    }

    /// Answers to a write: claims of the dead are leftovers, as if they said offline.
    pub fn judge(
        &mut self,
        now: Now,
        answers: &mut [Put],
        directory: &mut dyn Directory,
    ) -> Result<(), DirectoryError> {
        let kept = answers.iter_mut().filter_map(|answer| match answer {
            Put::Kept(record) => Some(record),
            Put::Taken | Put::Untaken => None,
        });
        self.bury(now, kept, directory)
    }

    /// As [`judge`](Self::judge), for the records of a bucket.
    pub fn judge_entries(
        &mut self,
        now: Now,
        entries: &mut [DirectoryEntry],
        directory: &mut dyn Directory,
    ) -> Result<(), DirectoryError> {
        self.bury(now, entries.iter_mut().map(|(_, record)| record), directory)
    }

    fn bury<'a>(
        &mut self,
        now: Now,
        records: impl Iterator<Item = &'a mut PresenceRecord>,
        directory: &mut dyn Directory,
    ) -> Result<(), DirectoryError> {
        let is_claim = |record: &&mut PresenceRecord| record.online && record.node != self.own;
        let claims: Vec<&mut PresenceRecord> = records.filter(is_claim).collect();
        let steady = self.steady_since.is_none_or(|since| now.mono - since >= self.lease_for);
        if claims.is_empty() || !steady {
            return Ok(());
        }
        if self.looked_at.is_none_or(|at| now.mono - at >= KNOWN) {
            self.nodes = directory.nodes()?;
            self.looked_at = Some(now.mono);
        }
        claims.into_iter().for_each(|record| bury(&self.nodes, record));
        Ok(())
    }
}

/// A claim of a boot without a lease counts for nothing.
pub fn bury(nodes: &[Lease], record: &mut PresenceRecord) {
    let lives = |lease: &Lease| lease.boot == record.boot && lease.node == record.node;
    record.online &= nodes.iter().any(lives);
}
