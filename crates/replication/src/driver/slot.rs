//! One log of the node, as its thread keeps it.

use base::time::Instant;
use cluster::port::{Ask, PublishNumber};
use cluster::replica::Replica;
use cluster::wire::table::LogEntry;
use nats::Tag;
use std::collections::VecDeque;
use std::time::Duration;
use store::log::Position;

/// Publications of which the time is remembered, at most: as many as may be on their way.
const SENT_MAX: usize = 64;

/// The weight of one acknowledgement in the average, one of so many.
const WEIGHT: u32 = 16;

/// One log of the node.
pub(crate) struct Slot {
    pub(crate) log: u16,
    /// Replica; `None`: the copy cannot be used, or the table is not known yet.
    pub(crate) replica: Option<Replica>,
    /// Which machine it is. Answers to one before it are void.
    pub(crate) life: u32,
    /// Whether its own Lead counts: it is to be served, or is.
    pub(crate) is_open: bool,
    /// The table's value as the machine was shown it last.
    pub(crate) shown: Option<(u64, Option<LogEntry>)>,
    /// A copy that is made.
    pub(crate) copying: Option<CopyJob>,
    /// Why the copy on this disk cannot be used.
    pub(crate) wreck: Option<String>,
    /// A purge of its stream that is due: the generation, and the first sequence that stays.
    pub(crate) purge: Option<(u32, u64)>,
    /// A machine is made again then.
    pub(crate) again: Option<Instant>,
    /// Whether the disk had no room for the last batch.
    pub(crate) has_no_room: bool,
    /// Whether data was written since the last sync.
    pub(crate) is_dirty: bool,
    /// The last index that the writer has put on the disk.
    pub(crate) written: u64,
    pub(crate) is_failed: bool,
    /// Whether the log knows that the stream is full.
    pub(crate) is_told_full: bool,
    sent: VecDeque<(PublishNumber, Instant)>,
    pub(crate) acknowledgements: u64,
    pub(crate) acknowledged_after: Duration,
    pub(crate) stream_bytes: u64,
}

/// A copy of a log that is made from another node's.
pub(crate) struct CopyJob {
    /// The machine's question; none: the log was a wreck.
    pub(crate) ask: Option<Ask>,
    /// A log that ends before this, as [`LogEnd::progress`] has it, is refused: whoever had more
    /// when it was asked for may have lost it since.
    pub(crate) least: (u32, u64),
    /// The acknowledged end of what was here.
    pub(crate) before: Position,
}

impl Slot {
    pub(crate) fn new(log: u16) -> Slot {
        Slot {
            log,
            replica: None,
            life: 0,
            is_open: false,
            shown: None,
            copying: None,
            wreck: None,
            purge: None,
            again: None,
            has_no_room: false,
            is_dirty: false,
            written: 0,
            is_failed: false,
            is_told_full: false,
            sent: VecDeque::new(),
            acknowledgements: 0,
            acknowledged_after: Duration::ZERO,
            stream_bytes: 0,
        }
    }

    /// When its machine wants to be ticked.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let replica = self.replica.as_ref().filter(|_| self.copying.is_none())?;
        replica.deadline()
    }

    /// Index up to which answers may be given.
    pub(crate) fn acknowledged_index(&self) -> u64 {
        self.replica.as_ref().map_or(0, |replica| replica.own().acknowledged())
    }

    /// Whether nothing that was written waits for the stream.
    pub(crate) fn is_settled(&self) -> bool {
        self.acknowledged_index() >= self.written
    }

    /// The machine goes; answers to it are void.
    pub(crate) fn drop_machine(&mut self) {
        self.life += 1;
        (self.replica, self.is_open, self.shown) = (None, false, None);
        self.purge = None;
        self.sent.clear();
    }

    /// The name of a question of this machine.
    pub(crate) fn tag(&self, rest: [u64; 3]) -> Tag {
        [u64::from(self.log) << 32 | u64::from(self.life), rest[0], rest[1], rest[2]]
    }

    pub(crate) fn sent(&mut self, now: Instant, number: PublishNumber) {
        if self.sent.len() == SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back((number, now));
    }

    /// A publication was acknowledged.
    pub(crate) fn acknowledged(&mut self, now: Instant, number: PublishNumber) {
        let Some(at) = self.sent.iter().position(|(sent, _)| *sent == number) else { return };
        let Some((_, since)) = self.sent.remove(at) else { return };
        let took = now.since(since);
        self.acknowledged_after = match self.acknowledgements {
            0 => took,
            _ => (self.acknowledged_after * (WEIGHT - 1) + took) / WEIGHT,
        };
        self.acknowledgements += 1;
    }
}

/// The log and the machine that a tag is of.
pub(crate) fn of_tag(tag: Tag) -> (u16, u32) {
    ((tag[0] >> 32) as u16, tag[0] as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_the_machine_that_asked() {
        let mut slot = Slot::new(7);
        let first = slot.tag([1, 2, 3]);
        assert_eq!((of_tag(first), &first[1..]), ((7, 0), &[1, 2, 3][..]));
        slot.drop_machine();
        assert_eq!(of_tag(slot.tag([1, 2, 3])), (7, 1));
    }

    #[test]
    fn the_time_to_an_acknowledgement_is_averaged() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let number = |number| PublishNumber { round: 1, number };
        let mut slot = Slot::new(0);
        slot.sent(at(1_000), number(0));
        slot.sent(at(1_000), number(1));
        slot.acknowledged(at(1_016), number(1));
        assert_eq!(slot.acknowledged_after, Duration::from_millis(16));
        slot.acknowledged(at(1_032), number(0));
        assert_eq!(slot.acknowledged_after, Duration::from_millis(17));
        slot.acknowledged(at(9_000), number(0));
        assert_eq!(slot.acknowledgements, 2, "an answer counts once");
    }
}
