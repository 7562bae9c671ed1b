//! Every session of the shard, found by client identifier.
//!
//! The index holds slot numbers; identifiers are compared in the records. Invariant: a slot is in
//! the index exactly while a record lives in it.

use super::record::Session;
use base::hash::HashKey;
use base::index::Index;
use base::slab::{Key, Slab};

/// The sessions of one shard.
pub(crate) struct Registry {
    hash_key: HashKey,
    slab: Slab<Session>,
    index: Index,
    /// Names of protocols by number.
    protocols: Vec<&'static str>,
}

impl Registry {
    /// Holds at most `sessions_max`.
    pub fn new(hash_key: HashKey, sessions_max: usize) -> Registry {
        let (slab, index) = (Slab::new(sessions_max), Index::default());
        Registry { hash_key, slab, index, protocols: vec![""] }
    }

    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Slots ever used.
    pub fn slots(&self) -> u32 {
        self.slab.slots()
    }

    pub fn find(&self, id: &str) -> Option<Key> {
        let same = |slot| self.slab.tenant(slot).is_some_and(|(_, session)| *session.id == *id);
        let slot = self.index.find(self.hash_key.of(&[id.as_bytes()]), same)?;
        self.slab.tenant(slot).map(|(key, _)| key)
    }

    /// A new record for an identifier that has none; `None`: there is no room.
    pub fn insert(&mut self, id: &str) -> Option<Key> {
        let key = self.slab.insert(Session::new(id)).ok()?;
        let Registry { hash_key, slab, index, .. } = self;
        let hash = |slot| match slab.tenant(slot) {
            Some((_, session)) => hash_key.of(&[session.id.as_bytes()]),
            None => 0,
        };
        index.insert(hash(key.slot), key.slot, hash);
        Some(key)
    }

    pub fn remove(&mut self, key: Key) -> Option<Session> {
        let session = self.slab.remove(key)?;
        let was_in = self.index.remove(self.hash_key.of(&[session.id.as_bytes()]), key.slot);
        debug_assert!(was_in, "a record is in the index");
        Some(session)
    }

    pub fn at(&self, key: Key) -> Option<&Session> {
        self.slab.at(key)
    }

    pub fn at_mut(&mut self, key: Key) -> Option<&mut Session> {
        self.slab.at_mut(key)
    }

    /// Whoever lives in a slot.
    pub fn tenant(&self, slot: u32) -> Option<(Key, &Session)> {
        self.slab.tenant(slot)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Key, &Session)> {
        self.slab.iter()
    }

    /// The number of a protocol's name.
    pub fn protocol(&mut self, name: &'static str) -> u8 {
        let known = self.protocols.iter().position(|&other| other == name);
        let at = known.unwrap_or_else(|| {
            self.protocols.push(name);
            self.protocols.len() - 1
        });
        u8::try_from(at).unwrap_or(0)
    }

    /// The name with this number.
    pub fn protocol_name(&self, number: u8) -> &'static str {
        self.protocols.get(usize::from(number)).copied().unwrap_or("")
    }
}
