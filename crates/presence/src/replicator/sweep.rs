//! Removing what nobody needs: records of dead nodes, of those offline for long, and nonsense.
//!
//! Slow on purpose, and done by one node: the first by name of those alive. Records count as
//! offline without it, by their lease; it only keeps the directory from growing. A node without a
//! lease is left a while to come back, for after an outage all leases have run out. Invariant:
//! nothing newer than what was read is removed.

use super::{ReplicatorSettings, tally::ReplicationTally};
use base::time::{Instant, Now};
use model::ports::presence::directory::{Directory, DirectoryEntry, DirectoryError, Lease};
use model::presence::{BUCKETS, PresenceRecord, PresenceVersion};
use std::collections::BTreeMap;
use std::time::Duration;

/// Nodes that are remembered to be without a lease, at most: others are found in the next round.
const ABSENT_MAX: usize = 1_024;
/// Records removed by one call, at most: the rest is found in the next round.
const REMOVED_MAX: usize = 1_024;

/// Progress of the sweep after dead nodes.
pub struct Sweep {
    lease: Lease,
    /// Pause between two looks at the nodes; a node must be away for four of these.
    lease_for: Duration,
    forget_after_ms: u64,
    every: Duration,
    due: Option<Instant>,
    cursor: u16,
    nodes: Vec<Lease>,
    nodes_due: Instant,
    /// Nodes whose records were seen and whose lease was not, and since when.
    absent: BTreeMap<(Box<str>, u64), Instant>,
}

impl Sweep {
    pub fn new(settings: &ReplicatorSettings) -> Sweep {
        let round = Duration::from_secs(u64::from(settings.sweep_s.max(1)));
        Sweep {
            lease: settings.lease.clone(),
            lease_for: Duration::from_millis(u64::from(settings.lease_ms)),
            forget_after_ms: u64::from(settings.forget_after_s) * 1_000,
            every: round / u32::from(BUCKETS),
            due: None,
            cursor: 0,
            nodes: Vec::new(),
            nodes_due: Instant::default(),
            absent: BTreeMap::new(),
        }
    }

    /// When there is something to do.
    pub fn next(&self) -> Instant {
        self.due.unwrap_or_default()
    }

    /// Nodes that seemed dead may only have been cut off, as this one was.
    pub fn forget(&mut self) {
        self.absent.clear();
    }

    /// Looks into a bucket if one is due.
    pub fn step(
        &mut self,
        now: Now,
        tally: &mut ReplicationTally,
        directory: &mut dyn Directory,
    ) -> Result<(), DirectoryError> {
        let due = *self.due.get_or_insert(now.mono + self.lease_for);
        if now.mono < due {
            return Ok(());
        }
        self.due = Some(now.mono + self.every);
        if now.mono >= self.nodes_due {
            self.look(now, directory)?;
        }
        let first = self.nodes.iter().min_by(|a, b| a.node.cmp(&b.node));
        if first != Some(&self.lease) {
            self.due = Some(self.nodes_due);
            return Ok(());
        }
        let bucket = self.cursor;
        self.cursor = (bucket + 1) % BUCKETS;
        let stored = directory.bucket(bucket)?;
        if self.litter(now, &stored).is_empty() {
            return Ok(());
        }
        // One that is back compares and finds its records: they must not go after that.
        self.look(now, directory)?;
        let litter = self.litter(now, &stored);
        if !litter.is_empty() {
            tally.swept += directory.remove(bucket, &litter)?;
        }
        Ok(())
    }

    /// Reads the nodes that have a lease.
    fn look(&mut self, now: Now, directory: &mut dyn Directory) -> Result<(), DirectoryError> {
        self.nodes = directory.nodes()?;
        self.nodes_due = now.mono + self.lease_for;
        let nodes = &self.nodes;
        self.absent.retain(|(node, boot), _| !has(nodes, node, *boot));
        Ok(())
    }

    fn litter(&mut self, now: Now, stored: &[DirectoryEntry]) -> Vec<(Box<str>, PresenceVersion)> {
        let mut litter = Vec::new();
        for (key, record) in stored {
            // A version that no clock gives is in everybody's way: nobody can write above it.
            let odd = record.version > PresenceVersion::LAST;
            if (odd || self.is_litter(now, record)) && litter.len() < REMOVED_MAX {
                litter.push((key.clone(), record.version));
            }
        }
        litter
    }

    fn is_litter(&mut self, now: Now, record: &PresenceRecord) -> bool {
        if record.online {
            return self.is_dead(now, record);
        }
        now.wall_ms > record.version.unix_ms() + self.forget_after_ms
    }

    fn is_dead(&mut self, now: Now, record: &PresenceRecord) -> bool {
        if has(&self.nodes, record.node.as_str(), record.boot) {
            return false;
        }
        let node = (Box::from(record.node.as_str()), record.boot);
        if let Some(since) = self.absent.get(&node) {
            return now.mono - *since >= self.lease_for * 4;
        }
        if self.absent.len() < ABSENT_MAX {
            self.absent.insert(node, now.mono);
        }
        false
    }
}

fn has(nodes: &[Lease], node: &str, boot: u64) -> bool {
    nodes.iter().any(|lease| lease.node.as_str() == node && lease.boot == boot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::presence::NodeName;

    fn lease(node: &str, boot: u64) -> Lease {
        Lease { node: NodeName::parse(node).expect("a name"), boot }
    }

    /// Leases last a second, records of those offline ten, and `a` is the only node.
    fn sweep() -> Sweep {
        let mut settings = ReplicatorSettings::new(lease("a", 7), 1, "process", 1);
        (settings.lease_ms, settings.forget_after_s) = (1_000, 10);
        let mut sweep = Sweep::new(&settings);
        sweep.nodes = vec![lease("a", 7)];
        sweep
    }

    fn at(ms: u64) -> Now {
        Now::new(Instant::from_nanos(ms * 1_000_000), 1_800_000_000_000 + ms)
    }

    fn record(of: &Lease, version: u64, online: bool) -> PresenceRecord {
        let (node, boot) = (of.node.clone(), of.boot);
        PresenceRecord {
            version: PresenceVersion(version),
            online,
            node,
            boot,
            detail: "x".into(),
            user: None,
        }
    }

    #[test]
    fn whoever_went_is_forgotten_after_its_time_and_not_at_it() {
        let mut sweep = sweep();
        let version = (at(0).wall_ms - model::id::MessageId::EPOCH_MS) << 22;
        let gone = record(&lease("a", 7), version, false);
        assert!(!sweep.is_litter(at(10_000), &gone) && sweep.is_litter(at(10_001), &gone));
        assert!(!sweep.is_litter(at(99_000), &PresenceRecord { online: true, ..gone }));
    }

    #[test]
    fn a_node_is_dead_after_four_leases_without_it() {
        let mut sweep = sweep();
        for dead in [lease("a", 6), lease("b", 7)] {
            let left = record(&dead, 1, true);
            assert!(!sweep.is_dead(at(0), &left), "it may come back");
            assert!(!sweep.is_dead(at(3_999), &left) && sweep.is_dead(at(4_000), &left));
        }
        assert!(!sweep.is_dead(at(9_000), &record(&lease("a", 7), 1, true)), "it is alive");
        sweep.forget();
        assert!(!sweep.is_dead(at(9_000), &record(&lease("b", 7), 1, true)), "nothing is known");
    }

    #[test]
    fn as_many_absent_nodes_are_noted_as_may_be() {
        let mut sweep = sweep();
        let left = |boot: usize| record(&lease("b", boot as u64), 1, true);
        (0..=ABSENT_MAX).for_each(|boot| assert!(!sweep.is_dead(at(0), &left(boot))));
        assert_eq!(sweep.absent.len(), ABSENT_MAX);
        assert!(sweep.is_dead(at(4_000), &left(ABSENT_MAX - 1)));
        assert!(!sweep.is_dead(at(4_000), &left(ABSENT_MAX)), "it was not noted");
    }

    #[test]
    fn what_no_clock_gives_is_litter_and_a_call_removes_as_many_as_it_may() {
        let mut sweep = sweep();
        let alive = |version| record(&lease("a", 7), version, true);
        let stored = [
            ("last".into(), alive(PresenceVersion::LAST.0)),
            ("odd".into(), alive(PresenceVersion::LAST.0 + 1)),
        ];
        assert_eq!(
            sweep.litter(at(0), &stored),
            [("odd".into(), PresenceVersion(PresenceVersion::LAST.0 + 1))]
        );
        let many: Vec<DirectoryEntry> =
            (0..=REMOVED_MAX).map(|n| (n.to_string().into(), alive(u64::MAX))).collect();
        assert_eq!(sweep.litter(at(0), &many[1..]).len(), REMOVED_MAX);
        assert_eq!(sweep.litter(at(0), &many).len(), REMOVED_MAX);
    }
}
