//! A message for one client, and what it costs in memory.
//!
//! An entry has 40 bytes whatever the message is. Costs are counted as allocated, those of a
//! message that several sessions share for each of them: the sum is never below the real use.

use super::stored::Stored;
use crate::durable::entries::Label;
use crate::session::record::More;
use base::slab::Key;
use model::timeline::{Seq, TimelineId};
use model::topic::{Publication, Qos, SubscriptionIds};
use std::sync::Arc;

/// Bytes of an entry: its own, and an eighth of room for others in front of it.
pub(crate) const ENTRY_BYTES: u64 = 45;

/// Bytes of a queue that is not empty: the state of a busy session, the head of the messages that
/// only the log has, and the first entries of the rows.
pub(crate) const QUEUE_BYTES: u64 =
    (size_of::<More>() + size_of::<Stored>() + 2 * FIRST * size_of::<Entry>()) as u64;

/// Bytes of an entry while the log is asked for its place: besides itself it is named in the call,
/// in the wait for the answer, and in the answer.
pub(crate) const ASKED_BYTES: u64 =
    ENTRY_BYTES + (size_of::<Key>() + size_of::<TimelineId>() + size_of::<Seq>()) as u64;

/// Entries that a row has room for at first.
const FIRST: usize = 4;

const _: () = assert!(size_of::<Entry>() == 40);
const _: () = assert!(ENTRY_BYTES as usize == size_of::<Entry>() + size_of::<Entry>() / 8);

/// Totals of all queues of a shard: kept by the queues, each for itself.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Totals {
    /// Messages, those on the way included.
    pub(super) count: u64,
    /// Memory of all queues, bytes: entries, and bodies that are not in the log alone.
    pub(super) bytes: u64,
    /// Entries that the log is asked for a place for.
    asked: u64,
    bytes_max: u64,
}

impl Totals {
    /// Empty totals with room for `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Totals {
        Totals { bytes_max, ..Totals::default() }
    }

    /// Sets the most bytes.
    pub fn set_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether this many bytes fit, beside the entries that the log is being asked about.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.bytes + self.asked * ASKED_BYTES + bytes <= self.bytes_max
    }

    /// Counts entries for which the log is asked for places.
    pub fn ask(&mut self, count: usize) {
        self.asked += count as u64;
    }

    /// Counts entries for which the log has answered.
    pub fn answered(&mut self, count: usize) {
        self.asked -= count as u64;
    }

    /// Panics when the queues, counted anew, come to something else.
    pub fn audit(&self, counted: Totals) {
        assert_eq!((counted.count, counted.bytes), (self.count, self.bytes), "queues");
    }
}

/// A message for one client.
pub(crate) struct Entry {
    /// `None`: its body is in the log.
    pub message: Option<Arc<Publication>>,
    /// Read by [`Entry::ids`].
    pub ids: Option<Box<Arc<[u32]>>>,
    /// Its place in the session's timeline; 0: it is in memory alone.
    pub seq: u64,
    /// Unix second after which it is not sent for the first time; 0: any.
    pub expire_at: u32,
    /// Weight of its message, bytes; of one in the log, its weight there.
    pub bytes: u32,
    /// Hash of the shared group it came through; 0: none.
    pub share: u32,
    /// Its packet identifier; 0: none yet.
    pub id: u16,
    pub qos: Qos,
    /// Bits of `mark`.
    pub marks: u8,
}

/// Bits of [`Entry::marks`].
mod mark {
    /// Its retain flag is set.
    pub const RETAIN: u8 = 1;
    /// The message may have been sent before.
    pub const AGAIN: u8 = 2;
}

impl Entry {
    /// A message in memory alone, not sent yet, that came through no group.
    pub fn of(message: &Arc<Publication>, qos: Qos, retain: bool, ids: SubscriptionIds) -> Entry {
        Entry {
            message: Some(message.clone()),
            ids: ids.map(Box::new),
            seq: 0,
            expire_at: message.expire_at,
            bytes: u32::try_from(message.weight()).unwrap_or(u32::MAX),
            share: 0,
            id: 0,
            qos,
            marks: if retain { mark::RETAIN } else { 0 },
        }
    }

    /// A message at its place in a timeline, of this weight there, without its body.
    pub fn stub(label: &Label, seq: Seq, bytes: u32) -> Entry {
        Entry {
            message: None,
            ids: label.ids.clone().map(Box::new),
            seq,
            expire_at: label.expire_at,
            bytes,
            share: label.share,
            id: 0,
            qos: label.qos,
            marks: if label.retain { mark::RETAIN } else { 0 },
        }
    }

    /// The subscriptions that it is for.
    pub fn ids(&self) -> SubscriptionIds {
        self.ids.as_deref().cloned()
    }

    pub fn retain(&self) -> bool {
        self.marks & mark::RETAIN != 0
    }

    pub fn again(&self) -> bool {
        self.marks & mark::AGAIN != 0
    }

    pub fn set_again(&mut self) {
        self.marks |= mark::AGAIN;
    }

    /// Cost of the message wherever it is, bytes: the measure of a session's queue. For a message
    /// in the log it is its weight there, which the head of a timeline sums up.
    pub fn cost(&self) -> u64 {
        u64::from(self.bytes) + if self.seq == 0 { self.row_cost() } else { 0 }
    }

    /// Memory of the message, bytes.
    pub fn cost_here(&self) -> u64 {
        self.row_cost() + if self.message.is_some() { u64::from(self.bytes) } else { 0 }
    }

    fn row_cost(&self) -> u64 {
        // A pointer, the counts in front of the numbers, and the numbers.
        let ids = self.ids.as_ref().map_or(0, |ids| 32 + size_of_val(&ids[..]));
        ENTRY_BYTES + ids as u64
    }
}

/// Adds an entry; room grows by an eighth, and not twofold.
pub(super) fn push_back(row: &mut std::collections::VecDeque<Entry>, entry: Entry) {
    if row.len() == row.capacity() {
        row.reserve_exact((row.len() / 8).max(FIRST));
    }
    row.push_back(entry);
}

/// Gives room back when little of it is used.
pub(super) fn give_room_back(row: &mut std::collections::VecDeque<Entry>) {
    if row.capacity() > 64 && row.len() < row.capacity() / 4 {
        row.shrink_to(row.len() * 2);
    }
}
