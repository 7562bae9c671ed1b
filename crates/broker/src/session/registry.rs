//! Every session of the shard, found by client identifier.
//!
//! The index holds slot numbers; identifiers are compared in the records. Invariant: a slot is in
//! the index exactly while a record lives in it; one that was taken out is found by nothing.

use super::record::Session;
use base::hash::HashKey;
use base::index::Index;
use base::slab::{Key, Slab};

/// The sessions of one shard.
pub(crate) struct Registry {
    hash_key: HashKey,
    slab: Slab<Session>,
    index: Index,
    /// Slots whose records were taken out and that are not free.
    graves: usize,
    /// Names of protocols by number.
    protocols: Vec<&'static str>,
}

impl Registry {
    /// Holds at most `sessions_max`.
    pub fn new(hash_key: HashKey, sessions_max: usize) -> Registry {
        let (slab, index) = (Slab::new(sessions_max), Index::default());
        Registry { hash_key, slab, index, graves: 0, protocols: vec![""] }
    }

    pub fn len(&self) -> usize {
        self.slab.len() - self.graves
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

    /// Takes a record out. Its slot, which subscriptions may name still, is nobody else's before
    /// [`Registry::free`].
    pub fn bury(&mut self, key: Key) -> Option<Session> {
        let record = self.slab.at_mut(key).filter(|session| !session.is_grave())?;
        let session = std::mem::replace(record, Session::grave());
        let was_in = self.index.remove(self.hash_key.of(&[session.id.as_bytes()]), key.slot);
        debug_assert!(was_in, "a record is in the index");
        self.graves += 1;
        Some(session)
    }

    /// Nothing names the slot any more.
    pub fn free(&mut self, key: Key) {
        if self.slab.remove(key).is_some() {
            self.graves -= 1;
        }
    }

    pub fn at(&self, key: Key) -> Option<&Session> {
        self.slab.at(key).filter(|session| !session.is_grave())
    }

    pub fn at_mut(&mut self, key: Key) -> Option<&mut Session> {
        self.slab.at_mut(key).filter(|session| !session.is_grave())
    }

    /// Whoever lives in a slot.
    pub fn tenant(&self, slot: u32) -> Option<(Key, &Session)> {
        self.slab.tenant(slot).filter(|(_, session)| !session.is_grave())
    }

    pub fn iter(&self) -> impl Iterator<Item = (Key, &Session)> {
        self.slab.iter().filter(|(_, session)| !session.is_grave())
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
