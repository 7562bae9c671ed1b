//! Numbers from one person to another, or to a group: each begins at 1 and has no gap, so that what
//! came twice, late or not at all is known exactly, however long ago it was sent.
//!
//! The table remembers the last number of each pair and the numbers that were passed over, and no
//! message. A pair without room in it is unknown, and counted as such.

use super::lately::{Rank, key};
use crate::fleet::stamp::Sign;
use std::collections::{HashMap, HashSet};

/// Pairs of a sender and a receiver, in each group of both, that are remembered, a thread: some
/// 900 MB when all are there. A hundred senders in a hundred groups of a thousand are ten million.
const PAIRS_MAX: usize = 1 << 24;
/// Numbers that were passed over and are remembered, a thread.
const PASSED_MAX: usize = 1 << 20;

/// Sender and receiver of a row of numbers, and where: the receiver's place on this thread, the
/// topic's number, and the sender's tag and number.
pub(super) type Pair = (u32, u32, u64);

/// Numbers that came so far.
#[derive(Default)]
pub(super) struct Pairs {
    last: HashMap<Pair, u32>,
    passed: HashSet<(Pair, u32)>,
}

impl Pairs {
    /// Ranks a message by its number in its pair, from 1 on.
    pub(super) fn rank(&mut self, pair: Pair, number: u32) -> Rank {
        let Some(last) = self.last.get_mut(&pair) else {
            let has_room = self.last.len() < PAIRS_MAX && self.pass(pair, 0, number);
            if has_room {
                self.last.insert(pair, number);
            }
            return if has_room { Rank::New } else { Rank::Unknown };
        };
        let before = *last;
        if number > before {
            *last = number;
            return if self.pass(pair, before, number) { Rank::New } else { Rank::Unknown };
        }
        match self.passed.remove(&(pair, number)) {
            true => Rank::Late,
            false => Rank::Repeated,
        }
    }

    /// Notes what lies between two numbers; false: there is no room for it.
    fn pass(&mut self, pair: Pair, from: u32, to: u32) -> bool {
        let count = to.saturating_sub(from).saturating_sub(1) as usize;
        if self.passed.len() + count > PASSED_MAX {
            return false;
        }
        self.passed.extend((from + 1..to).map(|number| (pair, number)));
        true
    }
}

/// The pair of a message that came to this client.
pub(super) fn pair_of(virtual_client: u32, sign: &Sign) -> Pair {
    (virtual_client, sign.topic, u64::from(sign.tag) << 32 | u64::from(sign.publisher))
}

/// A checksum of which message one is, of 24 bits: the sums of a hundred million of them are exact
/// as figures, and two sets of messages that are not the same have the same sum once in 16 million.
pub(super) fn mark_of(sign: &Sign) -> u32 {
    let whose = u64::from(sign.tag) << 32 | u64::from(sign.publisher);
    (key([whose, u64::from(sign.topic), sign.number]) & 0xff_ffff) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use Rank::{Late, New, Repeated, Unknown};

    #[test]
    fn each_pair_has_numbers_of_its_own_and_each_number_its_rank() {
        let mut pairs = Pairs::default();
        let (ann, bob) = ((1, 0, 7), (1, 0, 8));
        let ranks = [1, 2, 2, 5, 3, 3, 4, 5, 6, 1].map(|number| pairs.rank(ann, number));
        let right = [New, New, Repeated, New, Late, Repeated, Late, Repeated, New, Repeated];
        assert_eq!(ranks, right);
        assert_eq!([2, 1, 2].map(|number| pairs.rank(bob, number)), [New, Late, Repeated]);
        // Ann's numbers in a group are not those to this one alone, nor those in another group.
        assert_eq!([1, 2].map(|topic| pairs.rank((1, topic, 7), 1)), [New; 2]);
    }

    #[test]
    fn what_there_is_no_room_for_is_not_known() {
        let mut pairs = Pairs::default();
        assert_eq!(pairs.rank((0, 0, 0), PASSED_MAX as u32 + 2), Unknown);
        assert_eq!(pairs.rank((0, 0, 0), 1), New);
    }

    #[test]
    fn two_messages_have_two_marks() {
        let sign = Sign { publisher: 1, topic: 2, tag: 3, stream: 0, number: 4 };
        let others = [
            Sign { publisher: 2, ..sign },
            Sign { topic: 3, ..sign },
            Sign { tag: 4, ..sign },
            Sign { number: 5, ..sign },
        ];
        assert!(others.iter().all(|other| mark_of(other) != mark_of(&sign)));
        assert!(mark_of(&sign) < 1 << 24);
    }
}
