//! Filters that one session alone may have, in the whole process.
//!
//! Shared by all shards behind a lock: such a subscription is rare, and a look takes no time. The
//! broker's one place where shards meet in something that is not a peer message or the summary.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Registry of exclusive filters and who has them. One serves all shards.
#[derive(Default)]
pub struct Exclusives {
    held: Mutex<BTreeMap<Box<str>, Box<str>>>,
}

impl Exclusives {
    /// Gives the client the filter; false if another client has it.
    pub fn claim(&self, filter: &str, client_id: &str) -> bool {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let holder = held.entry(filter.into()).or_insert_with(|| client_id.into());
        **holder == *client_id
    }

    /// Takes the filter from the client.
    pub fn release(&self, filter: &str, client_id: &str) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.get(filter).is_some_and(|holder| **holder == *client_id) {
            held.remove(filter);
        }
    }
}
