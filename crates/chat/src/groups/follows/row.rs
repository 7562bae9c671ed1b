//! The row of a group that an account follows: the places since when it follows, and how far it has
//! drawn.
//!
//! ```text
//! key    home │ inbox (16) │ conversation (16)
//! value  version u8 │ upto u64 │ count u8 × (the place from which on it follows u64)
//! ```
//! A row has several places if the account was added again before it had drawn its removal.
//! Invariant: places rise, and all of them are behind `upto`.

use base::bytes::ByteReader;
use model::ports::log::{ROWS_MAX, Read, RowHome, Table, Write};
use model::timeline::{Seq, TimelineId};
use std::collections::VecDeque;

const VERSION: u8 = 2;

/// The version before had no `rest`.
const VERSION_BEFORE: u8 = 1;

/// Maximum of times that an account may have become a member without having drawn its removal.
/// Further ones are found in the conversation, when these are drawn.
const BEGINNINGS_MAX: usize = 16;

/// The places from which an account follows a group.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Following {
    /// No message up to this place is to be drawn any more.
    pub(super) upto: Seq,
    /// The places from which the account follows: from the first until it is removed, and so on.
    beginnings: VecDeque<Seq>,
    /// The account may follow from further places on, behind these, which the row does not have.
    rest: bool,
}

impl Following {
    /// Follows from this place on. False: the row had that.
    pub(super) fn begins(&mut self, from: Seq) -> bool {
        let last = self.beginnings.back().copied().unwrap_or(0);
        if from <= self.upto.max(last) {
            return false;
        }
        if self.rest || self.beginnings.len() >= BEGINNINGS_MAX {
            return !std::mem::replace(&mut self.rest, true);
        }
        self.beginnings.push_back(from);
        true
    }

    /// Whether the next place to follow from has to be found, message by message: the row has no
    /// more.
    pub(super) fn looks(&self) -> bool {
        self.rest && self.beginnings.is_empty()
    }

    /// Follows from this place on, which was found in the conversation.
    pub(super) fn finds(&mut self, from: Seq) {
        self.has(from.saturating_sub(1));
        self.beginnings.push_back(from);
    }

    /// Ends the search, which found no place up to the end.
    pub(super) fn finds_nothing(&mut self) {
        self.rest &= !self.beginnings.is_empty();
    }

    /// Records that the inbox has a message at this place. If it is behind all that the row has,
    /// the account has become a member again.
    pub(super) fn goes_on_behind(&mut self, seq: Seq) {
        let is_found = self.looks() && seq > self.upto;
        self.has(seq);
        if is_found {
            self.beginnings.push_back(seq);
        }
    }

    /// Records that the inbox has the messages up to a place.
    pub(super) fn has(&mut self, seq: Seq) {
        self.upto = self.upto.max(seq);
    }

    /// Records that the account was removed at this place.
    pub(super) fn ends(&mut self, seq: Seq) {
        self.has(seq);
        while self.beginnings.front().is_some_and(|from| *from <= seq) {
            self.beginnings.pop_front();
        }
    }

    /// The place behind which messages are to be drawn; `None`: the account follows no more.
    pub(super) fn next_behind(&self) -> Option<Seq> {
        match self.beginnings.front() {
            Some(first) => Some(self.upto.max(first.saturating_sub(1))),
            None => self.rest.then_some(self.upto),
        }
    }

    /// Whether a message at this place is to be drawn.
    pub(super) fn wants(&self, seq: Seq) -> bool {
        self.next_behind().is_some_and(|behind| seq > behind)
    }

    pub(super) fn put(&self, inbox: TimelineId, conversation: TimelineId) -> Write {
        let mut value = vec![VERSION];
        value.extend_from_slice(&self.upto.to_le_bytes());
        value.push(u8::from(self.rest));
        value.push(self.beginnings.len() as u8);
        for from in &self.beginnings {
            value.extend_from_slice(&from.to_le_bytes());
        }
        let key = key_of(inbox, conversation);
        Write::Put { table: Table::ChatFollows, key, value: value.into() }
    }

    pub(super) fn decode(value: &[u8]) -> Option<Following> {
        let is_before = value.first() == Some(&VERSION_BEFORE);
        let version = if is_before { VERSION_BEFORE } else { VERSION };
        let mut bytes = ByteReader::of(version, value)?;
        let upto = bytes.u64()?;
        let rest = !is_before && bytes.flags(1)? == 1;
        let count = bytes.byte()?;
        let beginnings = (0..count).map(|_| bytes.u64()).collect::<Option<_>>()?;
        bytes.ends(Following { upto, beginnings, rest })
    }
}

fn key_of(inbox: TimelineId, conversation: TimelineId) -> Box<[u8]> {
    RowHome::key_of(inbox, &[&conversation.to_bytes()])
}

/// The row of one group.
pub(super) fn read_one(inbox: TimelineId, conversation: TimelineId) -> Read {
    Read::Row { table: Table::ChatFollows, key: key_of(inbox, conversation) }
}

/// Reads rows of an account, behind one of them.
pub(super) fn read(inbox: TimelineId, after: Option<Box<[u8]>>) -> Read {
    let prefix = RowHome::key_of(inbox, &[]);
    Read::Rows { table: Table::ChatFollows, prefix, after, count: ROWS_MAX }
}

/// The conversation of a row.
pub(super) fn conversation_of(key: &[u8]) -> Option<TimelineId> {
    let (_, rest) = RowHome::parts_of(key)?;
    TimelineId::from_bytes(rest.try_into().ok()?)
}

/// A write that changes nothing: once it is done, so are all writes that were handed over before
/// it.
pub(super) fn nothing(inbox: TimelineId) -> Write {
    Write::Delete { table: Table::ChatFollows, key: RowHome::key_of(inbox, &[b"nothing"]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::Space;

    #[test]
    fn who_was_removed_and_added_again_wants_what_was_said_while_a_member() {
        let mut it = Following::default();
        assert_eq!((it.next_behind(), it.wants(1)), (None, false));
        assert!(it.begins(10) && it.begins(30));
        assert!(!it.begins(10) && !it.begins(30), "said again");
        assert_eq!(it.next_behind(), Some(9));
        it.has(12);
        assert!(it.wants(13) && !it.wants(12));
        it.ends(20);
        assert_eq!(it.next_behind(), Some(29));
        assert!(!it.wants(29) && it.wants(30));
        it.ends(40);
        assert_eq!((it.next_behind(), it.wants(41), it.begins(30)), (None, false, false));
        assert!(it.begins(41));
    }

    #[test]
    fn what_is_behind_those_that_are_remembered_is_looked_for() {
        let mut it = Following::default();
        let all = (1..=BEGINNINGS_MAX as u64 + 3).map(|n| n * 10);
        let news: Vec<bool> = all.map(|from| it.begins(from)).collect();
        assert_eq!(news.iter().filter(|is| **is).count(), BEGINNINGS_MAX + 1, "it is noted once");
        assert!(!it.looks() && it.next_behind() == Some(9));
        it.ends(BEGINNINGS_MAX as u64 * 10 + 5);
        assert!(it.looks() && it.next_behind() == Some(165) && !it.begins(190));
        it.finds(170);
        assert!(!it.looks() && it.wants(170) && !it.wants(169));
        it.ends(175);
        assert!(it.looks());
        // After a restart only the inbox has the other beginning that was found.
        it.goes_on_behind(183);
        assert!(!it.looks() && it.next_behind() == Some(183));
        it.ends(185);
        it.finds_nothing();
        assert_eq!((it.looks(), it.next_behind()), (false, None));
        assert!(it.begins(190), "it is a member anew");
    }

    #[test]
    fn a_row_says_what_was_put_into_it() {
        let home = HashKey::new(1, 2);
        let inbox = TimelineId::of(Space::Inbox, home, &[b"a"]);
        let conversation = TimelineId::of(Space::Conversation, home, &[b"c"]);
        let mut it = Following::default();
        (1..40).for_each(|n| _ = it.begins(n * 2));
        it.has(50);
        let Write::Put { key, value, .. } = it.put(inbox, conversation) else { panic!("a row") };
        assert_eq!(Following::decode(&value), Some(it));
        let before = [&[VERSION_BEFORE][..], &value[1..9], &value[10..]].concat();
        let read = Following::decode(&before).expect("a version before wrote it so");
        assert_eq!((read.upto, read.beginnings.len(), read.rest), (50, BEGINNINGS_MAX, false));
        assert_eq!(conversation_of(&key), Some(conversation));
        assert!((0..value.len()).all(|end| Following::decode(&value[..end]).is_none()));
        let Write::Delete { key, .. } = nothing(inbox) else { panic!("none") };
        assert_eq!(conversation_of(&key), None);
    }
}
