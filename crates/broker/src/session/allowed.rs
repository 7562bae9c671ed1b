//! Cache of topics to which publishers were allowed to publish.
//!
//! A publisher uses few topics: that it may publish is cached under a hash of user, rules and
//! topic. A refusal is not cached. The table has a fixed size and overwrites old entries; changed
//! rules give their sessions another number, or the cache is cleared.

use base::hash::HashKey;
use base::slab::Key;

/// Entries; a power of two.
const ENTRIES: usize = 4_096;

/// Cache of allowed publishes.
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
