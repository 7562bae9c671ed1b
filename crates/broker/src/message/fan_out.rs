//! A message that goes to very many goes in slices, one a turn.
//!
//! Such messages stand in one line, and with them those that would overtake them: of the same
//! publisher, or to the same topic. The first of the line goes on where its last slice ended: it
//! goes through the filters that match, and then by the numbers of sessions and groups that hold
//! them, so that it keeps one number of each filter however many get it, and those behind it
//! nothing. A client that subscribes meanwhile may get it, too; no client gets it twice. Its
//! publisher is answered when the last slice is where it has to be. A message of QoS 2 whose packet
//! identifier is to be marked waits for that, and goes in a way that makes a repetition after a
//! crash harmless.

use super::route::hits::Merge;
use crate::session::record::Exchange;
use base::hash::HashKey;
use base::slab::Key;
use model::session::Denial;
use model::topic::Publication;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Most receivers that get a message at once; in a turn, most receivers of all messages in line.
pub(crate) const AT_ONCE: usize = 1_024;

/// Bytes of one that stands in line, besides its message: its place, and what it is found by.
const PLACE_BYTES: u64 = 256;

/// The part of the limit beyond which publishers are read no further: what they said by then has
/// room.
const BEHIND: u64 = 16;

/// A message that is not everywhere yet.
pub(crate) struct FanOut {
    pub message: Arc<Publication>,
    /// Position among the receivers.
    pub merge: Merge,
    /// The answer that waits for it.
    pub wait: Option<Key>,
    /// Makes a repetition harmless; 0: it is none.
    pub once: u128,
    /// The packet identifier that has to be marked as taken before it goes.
    mark: Option<Exchange>,
}

impl FanOut {
    pub fn of(message: Arc<Publication>, once: u128, mark: Option<Exchange>) -> FanOut {
        FanOut { message, merge: Merge::default(), wait: None, once, mark }
    }

    fn bytes(&self) -> u64 {
        PLACE_BYTES + self.message.weight() as u64
    }
}

/// Fan-outs of a shard.
pub(crate) struct FanOuts {
    hash_key: HashKey,
    line: VecDeque<FanOut>,
    bytes: u64,
    bytes_max: u64,
    /// Publishers and topics of those in line, and how many of each.
    likes: BTreeMap<(bool, u64), u32>,
    /// Marks that some wait for, and what the log answered.
    marks: BTreeMap<Exchange, Option<Result<u128, Denial>>>,
}

impl FanOuts {
    /// An empty queue of fan-outs of at most `bytes_max` bytes.
    pub fn new(hash_key: HashKey, bytes_max: u64) -> FanOuts {
        let (line, likes, marks) = (VecDeque::new(), BTreeMap::new(), BTreeMap::new());
        FanOuts { hash_key, line, bytes: 0, bytes_max, likes, marks }
    }

    /// Sets the limit of bytes.
    pub fn set_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Whether so much stands in line that publishers had better be read no further.
    pub fn are_behind(&self) -> bool {
        self.bytes > self.bytes_max / BEHIND
    }

    /// Whether one stands in line that this one must not overtake.
    pub fn has_like(&self, message: &Publication) -> bool {
        !self.line.is_empty() && self.likes_of(message).any(|like| self.likes.contains_key(&like))
    }

    /// Whether one waits for this mark.
    pub fn waits_for(&self, mark: Exchange) -> bool {
        !self.marks.is_empty() && self.marks.contains_key(&mark)
    }

    /// The log has answered about a mark: what the message is called now, or why it does not go.
    pub fn mark_answered(&mut self, mark: Exchange, answer: Result<u128, Denial>) {
        if let Some(known) = self.marks.get_mut(&mark) {
            *known = Some(answer);
        }
    }

    /// Whether one more has room.
    pub fn have_room(&self, fan_out: &FanOut) -> bool {
        self.bytes + fan_out.bytes() <= self.bytes_max
    }

    pub fn push(&mut self, fan_out: FanOut) {
        self.bytes += fan_out.bytes();
        for like in self.likes_of(&fan_out.message) {
            *self.likes.entry(like).or_insert(0) += 1;
        }
        self.marks.extend(fan_out.mark.map(|mark| (mark, None)));
        self.line.push_back(fan_out);
    }

    /// The first, if it may go on; or why it never will.
    pub fn take_first(&mut self) -> Option<(FanOut, Result<(), Denial>)> {
        let answer = match self.line.front()?.mark {
            Some(mark) => Some((*self.marks.get(&mark)?)?),
            None => None,
        };
        let mut first = self.line.pop_front()?;
        self.bytes -= first.bytes();
        if let Some(mark) = first.mark.take() {
            self.marks.remove(&mark);
        }
        for like in self.likes_of(&first.message) {
            if let Some(count) = self.likes.get_mut(&like) {
                *count -= 1;
                if *count == 0 {
                    self.likes.remove(&like);
                }
            }
        }
        match answer {
            Some(Ok(once)) => first.once = once,
            Some(Err(why)) => return Some((first, Err(why))),
            None => {}
        }
        Some((first, Ok(())))
    }

    /// Puts a fan-out at the front of the line, for the next turn.
    pub fn put_back(&mut self, fan_out: FanOut) {
        self.push(fan_out);
        self.line.rotate_right(1);
    }

    /// Keys that this message shares with others that must not overtake it: its topic, and its
    /// publisher, if that is not the server.
    fn likes_of(&self, message: &Publication) -> impl Iterator<Item = (bool, u64)> + use<> {
        let topic = (false, self.hash_key.of(&[message.topic().as_bytes()]));
        let publisher = Some((true, message.publisher)).filter(|_| message.publisher != 0);
        [topic].into_iter().chain(publisher)
    }
}
