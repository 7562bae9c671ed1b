//! State that the server's handle and the node's thread share.

use crate::status::ClusterStatus;
use crate::turn::{ClusterNotice, Turn};
use model::ports::lead::LeadProof;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Turns that may wait for the server. Beyond, notices and leaders are dropped, for the state that
/// they tell of is in the status too.
const TURNS_MAX: usize = 1_000;

/// State that the server's handle and the node's thread share.
pub(crate) struct Shared {
    turns: Mutex<VecDeque<Turn>>,
    is_there: Condvar,
    pub(crate) status: Mutex<ClusterStatus>,
    /// How often the server said that it turns.
    turned: AtomicU64,
    /// Renewed while the node reaches a majority of the table.
    pub(crate) lead_proof: LeadProof,
}

impl Shared {
    pub(crate) fn new(status: ClusterStatus) -> Shared {
        Shared {
            turns: Mutex::default(),
            is_there: Condvar::new(),
            status: Mutex::new(status),
            turned: AtomicU64::new(0),
            lead_proof: LeadProof::none(),
        }
    }

    pub(crate) fn tell(&self, turn: Turn) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let is_vital = matches!(
            turn,
            Turn::Lead(_)
                | Turn::Leave { .. }
                | Turn::Notice(ClusterNotice::AcknowledgedLost { .. })
        );
        if is_vital || turns.len() < TURNS_MAX {
            turns.push_back(turn);
            self.is_there.notify_all();
        }
    }

    pub(crate) fn next(&self, within: Duration) -> Option<Turn> {
        let turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.is_there.wait_timeout_while(turns, within, |turns| turns.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
    }

    pub(crate) fn turned(&self) {
        self.turned.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn turns(&self) -> u64 {
        self.turned.load(Ordering::Relaxed)
    }
}
