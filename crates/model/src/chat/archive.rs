//! The archive of an account: what was said between it and others, to be read at any time, by any
//! device.
//!
//! The archive is no second store. All messages of an account stand in the order of its inbox;
//! those with one other account also stand in the order of that conversation, which is the same for
//! them. One id names a message in both orders, so a client may go on in either.

use super::{ChatMessage, ClientMessageId, Content, GroupOrder, InboxEvent};
use crate::account::{AccountAddress, Addressee};
use crate::id::MessageId;
use crate::timeline::Seq;
use base::encoding::Encoding;
use base::hash::HashKey;
use std::sync::Arc;

/// Ids that a range may begin behind, and end before.
pub const ARCHIVE_BOUNDS_MAX: usize = 2;

/// Messages that may be asked for by their ids at once.
pub const ARCHIVE_NAMED_MAX: usize = 16;

/// Part of a conversation.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct HistoryRange {
    /// Other side of the conversation: an account or a group.
    pub with: Addressee,
    /// Where to begin: forwards, what comes after this place; backwards, before it ([`Seq::MAX`]
    /// for the end).
    pub from: Seq,
    /// The direction.
    pub backwards: bool,
    /// The most it wants, 1 to [`PAGE_MESSAGES_MAX`](super::PAGE_MESSAGES_MAX).
    pub count: u16,
}

/// Names a message in whichever archive it is, and no other one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Encoding)]
pub struct ArchiveId {
    /// The server's number for it.
    pub number: u64,
    /// Its place in its conversation.
    pub seq: Seq,
    /// High bits of the conversation's hash. Messages of two shards may have the same `number` and
    /// `seq` if they are of the same millisecond; this tells them apart.
    pub pair: u32,
}

impl ArchiveId {
    /// Bits of `pair`.
    pub const PAIR_BITS: u32 = 24;

    /// That of a message.
    pub fn of(message: &ChatMessage) -> ArchiveId {
        ArchiveId::at((message.id, message.seq), &message.from, &message.to)
    }

    /// The id as archives of XMPP have it, 22 letters and digits of Base64 (RFC 4648 5): number 64
    /// bits, pair 24, place in the conversation 40.
    pub fn text(self) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let seq_bits = u64::BITS - ArchiveId::PAIR_BITS;
        let place = u64::from(self.pair) << seq_bits | self.seq & ((1 << seq_bits) - 1);
        let all = u128::from(self.number) << 64 | u128::from(place);
        // The last digit has two bits of it.
        let digit = |n: u32| if n < 21 { all >> (122 - 6 * n) } else { all << 4 };
        (0..22).map(|n| char::from(DIGITS[(digit(n) & 63) as usize])).collect()
    }

    /// That of the message with this number and place, which two accounts have, in whichever order,
    /// or an account and a group.
    pub fn at(
        (number, seq): (u64, Seq),
        one: &AccountAddress,
        other: &AccountAddress,
    ) -> ArchiveId {
        // The same at every start, and on every node.
        const KEY: HashKey = HashKey::new(0x0313, 0x0359);
        let (first, last) = (one.min(other).as_str().as_bytes(), one.max(other).as_str());
        let hash = match other.is_group() {
            true => KEY.of(&[other.as_str().as_bytes()]),
            false => KEY.of(&[first, last.as_bytes()]),
        };
        ArchiveId { number, seq, pair: (hash >> (u64::BITS - ArchiveId::PAIR_BITS)) as u32 }
    }
}

/// Part of an account's archive: what all of this is true of.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ArchiveRange {
    /// Other side of the conversation: an account or a group; `None`: all accounts, and no group.
    pub with: Option<Addressee>,
    /// Only messages behind each of these, at most [`ARCHIVE_BOUNDS_MAX`]. An id of no message is
    /// refused with [`ChatFault::UnknownMessage`](super::ChatFault::UnknownMessage).
    pub after: Vec<ArchiveId>,
    /// Only messages before each of these, likewise.
    pub before: Vec<ArchiveId>,
    /// If not empty, only these messages, at most [`ARCHIVE_NAMED_MAX`]; each must exist.
    pub named: Vec<ArchiveId>,
    /// Only messages sent at this time or later, Unix milliseconds.
    pub since_ms: u64,
    /// Only messages sent at this time or before, Unix milliseconds.
    pub until_ms: u64,
    /// Whether to answer with the last messages of the range; else with the first.
    pub backwards: bool,
    /// The most messages to return, 1 to [`PAGE_MESSAGES_MAX`](super::PAGE_MESSAGES_MAX).
    pub count: u16,
}

impl ArchiveRange {
    /// The first messages of all there is; or the last.
    pub const fn whole(backwards: bool, count: u16) -> ArchiveRange {
        ArchiveRange {
            with: None,
            after: Vec::new(),
            before: Vec::new(),
            named: Vec::new(),
            since_ms: 0,
            until_ms: u64::MAX,
            backwards,
            count,
        }
    }

    /// Whether something said at this time may be in it.
    pub fn has_time(&self, at_ms: u64) -> bool {
        (self.since_ms..=self.until_ms).contains(&at_ms)
    }
}

/// Part of an archive, in its order, whichever end it is from.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct ArchivePage {
    /// Number of the request.
    pub number: u32,
    /// Messages. Of those that were called back, what is left.
    pub messages: Vec<Arc<ChatMessage>>,
    /// The range may have more, in the direction that was asked for: behind this message, or before
    /// it. That need not be one of the page.
    pub goes_on: Option<ArchiveId>,
}

/// A message of an account, as another server had kept it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedMessage {
    /// The other of the two, or the group that it was said in.
    pub with: Addressee,
    /// The account said it; else the other did. In a group it did.
    pub is_own: bool,
    /// Device of the sender; may be empty.
    pub device: Box<str>,
    /// When, Unix milliseconds.
    pub at_ms: u64,
    /// The sender's own id for it.
    pub client_id: ClientMessageId,
    /// Content of the message.
    pub content: Content,
}

/// A change of a group that another server had as a room. It stands behind what moved in before,
/// at the time of that: so what was said later comes in behind it, whenever it is brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedChange {
    /// The change to carry out.
    pub order: GroupOrder,
    /// When the group was made, Unix milliseconds, if that is what is to be done.
    pub at_ms: u64,
}

impl MovedMessage {
    /// Whether it was said in a group, by this account.
    pub fn is_in_group(&self, by: &AccountAddress) -> bool {
        self.with.within(by.domain()).is_group()
    }

    /// The number that a message of this time has, whoever brings it and however often: `told` is a
    /// hash that tells it from others of the same millisecond. `None`: no number is of that time.
    pub const fn number_at(at_ms: u64, told: u64) -> Option<u64> {
        match at_ms.checked_sub(MessageId::EPOCH_MS) {
            Some(ms) if ms > 0 && ms < 1 << 42 => Some(ms << 22 | told & 0x3f_ffff),
            _ => None,
        }
    }
}

/// Part of an inbox, in its order.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct InboxPage {
    /// Number of the request.
    pub number: u32,
    /// Messages with their places.
    pub messages: Vec<(Seq, Arc<ChatMessage>)>,
    /// Events on this page other than messages, each with its place; messages have other places.
    pub events: Vec<(Seq, Arc<InboxEvent>)>,
    /// The place up to which this is everything: where to go on.
    pub upto: Seq,
    /// The last place there is.
    pub head: Seq,
}

/// Part of a conversation, in the direction that was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct HistoryPage {
    /// Number of the request.
    pub number: u32,
    /// Messages.
    pub messages: Vec<Arc<ChatMessage>>,
    /// Whether more follow in this direction.
    pub more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_of_both_and_of_no_other_pair() {
        let name = |text| AccountAddress::parse(text, "a.example").expect("right");
        let (ann, bob, carol) = (name("ann"), name("bob"), name("carol"));
        let group = AccountAddress::of_group(7, "a.example").expect("right");
        let at = |one, other| ArchiveId::at((1, 2), one, other);
        assert_eq!(at(&ann, &bob), at(&bob, &ann));
        assert_eq!(at(&ann, &group), at(&bob, &group), "whoever says it");
        let all = [at(&ann, &bob), at(&ann, &carol), at(&ann, &ann), at(&ann, &group)];
        for (n, id) in all.iter().enumerate() {
            assert!(all[..n].iter().all(|other| other != id) && id.pair < 1 << 24);
        }
        // Clients keep them: they are the same for ever.
        assert_eq!(at(&ann, &bob).pair, 2_789_148);
    }

    #[test]
    fn a_number_is_of_its_time_and_the_same_whenever_it_is_made() {
        let at_ms = MessageId::EPOCH_MS + 5;
        let number = MovedMessage::number_at(at_ms, u64::MAX).expect("of this age");
        assert_eq!((number >> 22, number & 0x3f_ffff), (5, 0x3f_ffff));
        assert!(number < MovedMessage::number_at(at_ms + 1, 0).expect("later"));
        let before = [0, MessageId::EPOCH_MS, MessageId::EPOCH_MS + (1 << 42)];
        assert!(before.iter().all(|at_ms| MovedMessage::number_at(*at_ms, 7).is_none()));
    }
}
