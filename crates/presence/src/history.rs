//! The last transitions of whoever moved lately: a ring, and the newest place of each principal.
//!
//! A principal is known by its keyed hash alone, 64 bits, so that an item has 24 bytes whatever
//! its name; each item names the one before it of the same principal. When the ring comes round
//! the oldest items are overwritten, and chains end there. Grows with use up to its limit.
//! Invariant: the versions of a chain fall from the newest to the oldest.

use hashbrown::HashTable;
use model::ports::presence::queries::HISTORY;
use model::presence::PresenceVersion;

const NONE: u32 = u32::MAX;

/// A ring of transitions.
pub(crate) struct History {
    ring: Vec<Item>,
    /// Where the next one goes.
    next: u32,
    max: u32,
    /// Places of the newest items of principals, by hash.
    newest: HashTable<u32>,
}

#[derive(Clone, Copy)]
struct Item {
    hash: u64,
    version: PresenceVersion,
    /// Place of the one before of the same principal, which may have been overwritten.
    before: u32,
    code: u8,
}

const _: () = assert!(size_of::<Item>() == 24, "a remembered transition is 24 bytes");

impl History {
    /// One that remembers `max` transitions.
    pub(crate) fn new(max: u32) -> History {
        History { ring: Vec::new(), next: 0, max, newest: HashTable::new() }
    }

    /// The version of the last transition of the principal with this hash, if remembered.
    pub(crate) fn newest(&self, hash: u64) -> Option<PresenceVersion> {
        self.find(hash).map(|at| self.ring[at as usize].version)
    }

    /// Remembers a transition, which is newer than all of this principal's.
    pub(crate) fn note(&mut self, hash: u64, version: PresenceVersion, code: u8) {
        if self.max == 0 {
            return;
        }
        let (at, ring) = (self.next, &mut self.ring);
        if let Some(old) = ring.get(at as usize)
            && let Ok(entry) = self.newest.find_entry(old.hash, |&place| place == at)
        {
            entry.remove();
        }
        let newest = self.newest.find_mut(hash, |&place| ring[place as usize].hash == hash);
        let before = newest.as_ref().map_or(NONE, |place| **place);
        let item = Item { hash, version, before, code };
        match newest {
            Some(place) => *place = at,
            None => {
                let rehash =
                    |&place: &u32| if place == at { hash } else { ring[place as usize].hash };
                self.newest.insert_unique(hash, at, rehash);
            }
        }
        match ring.get_mut(at as usize) {
            Some(old) => *old = item,
            None => ring.push(item),
        }
        self.next = (at + 1) % self.max;
    }

    /// The last [`HISTORY`] transitions of the principal with this hash, oldest first: version
    /// and code of the state.
    pub(crate) fn of(&self, hash: u64) -> Vec<(PresenceVersion, u8)> {
        let mut found = Vec::new();
        let mut at = self.find(hash);
        while let Some(item) = at.and_then(|at| self.ring.get(at as usize)) {
            let chained = found.last().is_none_or(|&(after, _)| item.version < after);
            if item.hash != hash || !chained || found.len() == HISTORY {
                break;
            }
            found.push((item.version, item.code));
            at = Some(item.before);
        }
        found.reverse();
        found
    }

    fn find(&self, hash: u64) -> Option<u32> {
        self.newest.find(hash, |&place| self.ring[place as usize].hash == hash).copied()
    }

    /// Bytes allocated.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.ring.capacity() * size_of::<Item>() + self.newest.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::{Prng, scramble};
    use std::collections::{BTreeMap, VecDeque};

    #[test]
    fn the_last_eight_are_told_oldest_first() {
        let mut history = History::new(100);
        (1..=20).for_each(|n| history.note(7, PresenceVersion(n), n as u8));
        history.note(8, PresenceVersion(3), 1);
        let versions: Vec<u64> = history.of(7).iter().map(|&(version, _)| version.0).collect();
        assert_eq!(versions, [13, 14, 15, 16, 17, 18, 19, 20]);
        assert_eq!((history.of(8), history.of(9)), (vec![(PresenceVersion(3), 1)], vec![]));
        assert_eq!((history.newest(7), history.newest(9)), (Some(PresenceVersion(20)), None));
    }

    #[test]
    fn it_remembers_what_a_plain_ring_does() {
        for max in [1, 2, 3, 50, 400] {
            let (mut history, mut rng) = (History::new(max), Prng::new(u64::from(max)));
            let mut plain: VecDeque<(u64, (PresenceVersion, u8))> = VecDeque::new();
            for n in 1..5_000 {
                let (hash, code) = (scramble(rng.below(60)), rng.below(250) as u8);
                history.note(hash, PresenceVersion(n), code);
                plain.push_back((hash, (PresenceVersion(n), code)));
                if plain.len() > max as usize {
                    plain.pop_front();
                }
                if n % 97 == 0 {
                    let mut of: BTreeMap<u64, Vec<(PresenceVersion, u8)>> = BTreeMap::new();
                    plain.iter().for_each(|&(hash, item)| of.entry(hash).or_default().push(item));
                    for hash in (0..60).map(scramble) {
                        let all = of.remove(&hash).unwrap_or_default();
                        let last = &all[all.len().saturating_sub(HISTORY)..];
                        assert_eq!(history.of(hash), last, "{max} {n}");
                        assert_eq!(history.newest(hash), last.last().map(|&(version, _)| version));
                    }
                }
            }
            assert!(history.newest.len() <= max as usize && history.ring.len() <= max as usize);
        }
    }

    #[test]
    fn none_is_remembered_where_none_may_be() {
        let mut history = History::new(0);
        history.note(1, PresenceVersion(1), 1);
        assert_eq!((history.of(1), history.bytes()), (vec![], 0));
    }
}
