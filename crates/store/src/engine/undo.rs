//! Taking back what a refused batch did to the index, the last first.
//!
//! An undo does not know why its batch was refused. Invariant: carried out in the reverse order,
//! the undos of a batch leave the index as it was before.

use super::index::rosters::ListName;
use super::index::{Forgotten, Index, Left};
use super::record::stored::Leaving;
use model::ports::log::{OnceKey, RosterId};
use model::timeline::{ReaderId, Seq};

/// One step back.
pub(super) enum Undo {
    /// Number of pushed entries whose message stands in a segment: the last of
    /// [`super::commit::Batch::pushed`].
    Append {
        count: usize,
        segment: u32,
    },
    /// Each of these slots was given its next seq, and an entry whose message stands in a segment.
    Post {
        slots: Box<[u32]>,
        segment: u32,
    },
    /// Timelines were written as a list.
    List(ListName),
    /// A roster changed, and its row was this.
    Roster {
        id: RosterId,
        before: Option<Option<Box<[u8]>>>,
    },
    /// A timeline's last seq was raised from this.
    Raise {
        slot: u32,
        last: Seq,
    },
    /// A record with a message was counted.
    Hold {
        segment: u32,
        bytes: u32,
    },
    /// Number of entries that were moved from one segment to the other.
    Moved {
        from: u32,
        to: u32,
        entries: u64,
    },
    Once(OnceKey),
    Remove {
        slot: u32,
        leaving: Leaving,
        left: Left,
    },
    Cursor {
        slot: u32,
        reader: ReaderId,
        before: Option<Seq>,
    },
    Forget {
        slot: u32,
        forgotten: Box<Forgotten>,
        freed: Vec<(u32, u32)>,
    },
    Row {
        key: Box<[u8]>,
        before: Option<Option<Box<[u8]>>>,
    },
}

impl Undo {
    pub(super) fn carry_out(self, index: &mut Index, pushed: &mut Vec<(u32, Seq)>) {
        match self {
            Undo::Append { count, segment } => {
                index.counts.unfill(segment, count as u64);
                let these = pushed.len().saturating_sub(count)..;
                for (slot, seq) in pushed.drain(these).rev() {
                    index.unpush(slot, seq - 1);
                }
            }
            Undo::Post { slots, segment } => {
                index.counts.unfill(segment, slots.len() as u64);
                for &slot in slots.iter().rev() {
                    let last = index.heads.at(slot).last;
                    index.unpush(slot, last - 1);
                }
            }
            Undo::List(name) => index.rosters.unlist(name),
            Undo::Roster { id, before } => index.unset_roster(id, before),
            Undo::Raise { slot, last } => index.heads.at_mut(slot).last = last,
            Undo::Hold { segment, bytes } => index.counts.unhold(segment, bytes),
            Undo::Moved { from, to, entries } => {
                index.counts.unfree(from, entries);
                index.counts.unfill(to, entries);
            }
            Undo::Once(key) => index.once.take_back(key),
            Undo::Remove { slot, leaving, left } => {
                index.counts.unfree(leaving.segment, 1);
                index.unleave(slot, leaving, left);
            }
            Undo::Cursor { slot, reader, before } => index.unacknowledge(slot, reader, before),
            Undo::Forget { slot, forgotten, freed } => {
                for (segment, entries) in freed {
                    index.counts.unfree(segment, entries.into());
                }
                index.unforget(slot, *forgotten);
            }
            Undo::Row { key, before } => index.rows.take_back(key, before),
        }
    }
}
