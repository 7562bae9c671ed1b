//! Publications for later, in the order of their time.
//!
//! A shard keeps the publications whose topics have their home on it; each has a row whose key is
//! its time and id, so that it survives a restart. Times are of the wall clock, which survives too.
//! Nothing is published here: the caller has the time and asks for due publications.

use crate::retained::{decode, row_home};
use base::hash::HashKey;
use model::ports::log::RowHome;
use model::topic::Publication;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The publications of a shard that wait.
pub struct Later {
    /// The key of homes.
    home: HashKey,
    waiting: BTreeMap<(u32, u64), Arc<Publication>>,
    /// Publications whose rows are being written.
    coming: usize,
    count_max: u32,
}

/// Error: the limit of delayed publications is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayedFull;

/// A publication whose time has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Due {
    /// The key of its row, which is to be deleted.
    pub row_key: Box<[u8]>,
    /// The message to publish.
    pub message: Arc<Publication>,
}

impl Later {
    /// An empty queue for at most `count_max` publications; `home` is the key that maps topics to
    /// shards.
    pub fn new(home: HashKey, count_max: u32) -> Later {
        Later { home, waiting: BTreeMap::new(), coming: 0, count_max }
    }

    /// Sets the most messages.
    pub fn set_max(&mut self, count_max: u32) {
        self.count_max = count_max;
    }

    /// Publications that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Reserves a place for one until this Unix second, while its row is being written; returns the
    /// key of the row, whose value is [`crate::retained::encode`]'s. Then comes [`Later::keep`], or
    /// [`Later::give_back`] if the row was refused.
    pub fn reserve(&mut self, at_s: u32, message: &Publication) -> Result<Box<[u8]>, DelayedFull> {
        if self.waiting.len() + self.coming >= self.count_max as usize {
            return Err(DelayedFull);
        }
        self.coming += 1;
        Ok(row_key(row_home(self.home, message.topic()), at_s, message.id))
    }

    /// Keeps one whose row is written. Those of the same second are published in the order of their
    /// ids, which name them in the whole process.
    pub fn keep(&mut self, at_s: u32, message: Arc<Publication>) {
        self.give_back();
        let same = self.waiting.insert((at_s, message.id), message);
        debug_assert!(same.is_none(), "an id is given once");
    }

    /// Gives back a reserved place.
    pub fn give_back(&mut self) {
        debug_assert!(self.coming > 0, "a place was reserved");
        self.coming = self.coming.saturating_sub(1);
    }

    /// Takes in a row, beyond the limit too: it was promised. False: it is none.
    pub fn restore(&mut self, key: &[u8], value: &[u8]) -> bool {
        let key = RowHome::rest(key).and_then(|key| <&[u8; 12]>::try_from(key).ok());
        let (Some(key), Some(message)) = (key, decode(value)) else { return false };
        let (at_s, id) = key.split_at(4);
        let at_s = u32::from_be_bytes(at_s.try_into().expect("four of twelve"));
        let id = u64::from_be_bytes(id.try_into().expect("eight of twelve"));
        self.waiting.insert((at_s, id), Arc::new(message));
        true
    }

    /// When the next is due, Unix seconds.
    pub fn next_at(&self) -> Option<u32> {
        self.waiting.first_key_value().map(|(&(at_s, _), _)| at_s)
    }

    /// Takes out one whose time has come.
    pub fn pop(&mut self, unix_s: u32) -> Option<Due> {
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= unix_s)?;
        let (at_s, id) = *first.key();
        let message = first.remove();
        Some(Due { row_key: row_key(row_home(self.home, message.topic()), at_s, id), message })
    }
}

/// The key of a row in `Table::Delayed`: rows of a slot lie in the order of their time.
fn row_key(home: RowHome, at_s: u32, id: u64) -> Box<[u8]> {
    home.key(&[&at_s.to_be_bytes(), &id.to_be_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retained::encode;

    const HOME: HashKey = HashKey::new(1, 2);

    fn message(id: u64, topic: &str) -> Arc<Publication> {
        let mut message = Publication::new(topic, &[], b"x");
        message.id = id;
        Arc::new(message)
    }

    fn add(
        later: &mut Later,
        at_s: u32,
        message: Arc<Publication>,
    ) -> Result<Box<[u8]>, DelayedFull> {
        let key = later.reserve(at_s, &message)?;
        later.keep(at_s, message);
        Ok(key)
    }

    fn due(later: &mut Later, unix_s: u32) -> Vec<String> {
        std::iter::from_fn(|| later.pop(unix_s)).map(|due| due.message.topic().into()).collect()
    }

    #[test]
    fn they_come_out_in_the_order_of_their_time() {
        let mut later = Later::new(HOME, 4);
        for (id, (at_s, topic)) in (1..).zip([(30, "c"), (10, "a"), (20, "b"), (10, "a2")]) {
            assert!(add(&mut later, at_s, message(id, topic)).is_ok());
        }
        assert_eq!(add(&mut later, 5, message(9, "d")), Err(DelayedFull));
        assert_eq!((later.next_at(), later.pop(9)), (Some(10), None));
        assert_eq!(due(&mut later, 20), ["a", "a2", "b"]);
        assert_eq!((later.next_at(), later.len()), (Some(30), 1));
        assert_eq!(due(&mut later, u32::MAX), ["c"]);
        assert!(later.is_empty() && later.next_at().is_none());
    }

    #[test]
    fn rows_bring_them_back_in_order() {
        let mut before = Later::new(HOME, 9);
        let mut rows = Vec::new();
        for (id, topic) in (300..).zip(["a", "b", "c"]) {
            let key = add(&mut before, 7, message(id, topic)).expect("room");
            assert_eq!(RowHome::of(&key), row_home(HOME, topic));
            rows.push((key, encode(&message(id, topic))));
        }
        assert!(rows.is_sorted_by_key(|(key, _)| &key[2..]));
        let mut after = Later::new(HOME, 1);
        for (key, value) in rows.iter().rev() {
            assert!(after.restore(key, value));
        }
        assert!(!after.restore(&rows[0].0[..13], &rows[0].1) && !after.restore(&rows[0].0, &[9]));
        assert_eq!(
            add(&mut after, 7, message(400, "d")),
            Err(DelayedFull),
            "no new ones beyond the limit"
        );
        let first = after.pop(7).expect("due");
        assert_eq!((&first.row_key, first.message.topic()), (&rows[0].0, "a"));
        assert_eq!(due(&mut after, 7), ["b", "c"]);
        assert!(add(&mut after, 7, message(400, "d")).expect("room")[2..] > rows[2].0[2..]);
    }
}
