//! Proof that this node leads its cluster, for services that answer without asking the log.
//!
//! An answer that waits for the log also waits for its copies, which only a leader gets. An answer
//! without a write needs this proof: a node that is cut off, or was stopped for a while, may not
//! know yet that another one leads. The proof holds until a time of the wall clock, so that it has
//! expired when the process runs again after a stop.

use base::time::Now;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The proof of one node, shared by the thread that renews it and all services.
#[derive(Clone, Debug)]
pub struct LeadProof(Arc<AtomicU64>);

impl Default for LeadProof {
    /// That of a server without a cluster, which always leads.
    fn default() -> LeadProof {
        LeadProof(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl LeadProof {
    /// A proof that does not hold yet.
    pub fn none() -> LeadProof {
        LeadProof(Arc::default())
    }

    /// Lets it hold until this time, Unix milliseconds; 0: it does not hold.
    pub fn hold_until(&self, wall_ms: u64) {
        self.0.store(wall_ms, Ordering::Relaxed);
    }

    /// Whether it holds.
    pub fn holds(&self, now: Now) -> bool {
        now.wall_ms < self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::time::Instant;

    #[test]
    fn a_lone_server_always_leads_and_a_node_until_its_time() {
        let at = |wall_ms| Now::new(Instant::default(), wall_ms);
        assert!(LeadProof::default().holds(at(u64::MAX - 1)));
        let proof = LeadProof::none();
        assert!(!proof.holds(at(5)));
        proof.clone().hold_until(7);
        assert!(proof.holds(at(6)) && !proof.holds(at(7)));
    }
}
