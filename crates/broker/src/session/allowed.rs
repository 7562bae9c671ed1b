//! Cache of what publishers were allowed a moment ago.
//!
//! A publisher uses few topics: that it may is remembered by a hash of who, under which rules, and
//! where. A refusal is not remembered. The table has a fixed size and forgets by itself; rules that
//! change give their sessions another number, or all of it is cleared.

use base::hash::HashKey;
use base::slab::Key;

/// Entries; a power of two.
const ENTRIES: usize = 4_096;

/// Cache of what publishers were allowed.
pub(crate) struct Allowed {
    key: HashKey,
    entries: Vec<u64>,
}

impl Allowed {
    pub fn new(key: HashKey) -> Allowed {
        Allowed { key, entries: Vec::new() }
    }

    pub fn has(&self, session: Key, principal: u32, topic: &str) -> bool {
        let hash = self.hash(session, principal, topic);
        self.entries.get(hash as usize % ENTRIES) == Some(&hash)
    }

    pub fn put(&mut self, session: Key, principal: u32, topic: &str) {
        if self.entries.is_empty() {
            self.entries = vec![0; ENTRIES];
        }
        let hash = self.hash(session, principal, topic);
        self.entries[hash as usize % ENTRIES] = hash;
    }

    /// Rules have changed.
    pub fn clear(&mut self) {
        self.entries = Vec::new();
    }

    fn hash(&self, session: Key, principal: u32, topic: &str) -> u64 {
        let (session, principal) = (session.pack().to_le_bytes(), principal.to_le_bytes());
        self.key.of(&[&session, &principal, topic.as_bytes()]).max(1)
    }
}
