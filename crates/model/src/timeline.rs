//! Timelines: ordered rows of messages, each with readers and their cursors.
//!
//! A device's offline pushes, a session's queue, an archive and a conversation are all timelines:
//! append, notify, pull, acknowledge. A timeline is named by a hash of its owner's names, so that
//! ten million of them need no names in memory; a service that needs the names stores them in a row
//! of a table. Invariant: two timelines never share a sequence number, and numbers have no gaps but
//! those left by removed messages.

use crate::service::ServiceKind;
use base::hash::HashKey;
use std::num::NonZeroU64;
use std::sync::Arc;

/// Kinds of timelines. The kind is the first byte of a timeline's id, so that a store can have
/// rules for each kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Space {
    /// Pushes queued for a device.
    Pushes = 1,
    /// Reports queued for a webhook.
    Reports = 2,
    /// Messages queued for a session.
    Sessions = 3,
    /// State of a session's QoS 2 exchanges.
    Exchanges = 4,
    /// Messages of a conversation; only here are their bodies stored.
    Conversation = 5,
    /// References to the messages of an account, which each of its devices reads.
    Inbox = 6,
    /// Chat messages that a shard accepted and has not yet written to every inbox.
    Outbox = 7,
    /// Changes of a group: those messages of its conversation that set its current state.
    Group = 8,
    /// Foreign accounts: always empty, because their messages are sent to another server
    /// ([`crate::chat::foreign`]).
    Foreign = 9,
    /// Messages of a shard that other servers have not yet received.
    SendQueue = 10,
    /// Messages of a shard that the external archive has not yet accepted.
    Archive = 33,
    /// Anything else: tests, and future protocols.
    Other = 255,
}

impl Space {
    /// Every space.
    pub const ALL: [Space; 12] = [
        Space::Pushes,
        Space::Reports,
        Space::Sessions,
        Space::Exchanges,
        Space::Conversation,
        Space::Inbox,
        Space::Outbox,
        Space::Group,
        Space::Foreign,
        Space::SendQueue,
        Space::Archive,
        Space::Other,
    ];

    /// The space with this number.
    pub fn from_byte(byte: u8) -> Option<Space> {
        Space::ALL.into_iter().find(|&space| space as u8 == byte)
    }

    /// Whether a log gives its entries back at the start. Those of others are read when they are
    /// wanted.
    pub const fn is_restored(self) -> bool {
        !matches!(self, Space::Conversation | Space::Inbox | Space::Group | Space::Foreign)
    }

    /// The service whose timelines are here.
    pub const fn service(self) -> ServiceKind {
        match self {
            Space::Pushes | Space::Reports => ServiceKind::Push,
            Space::Sessions | Space::Exchanges => ServiceKind::Topics,
            Space::Conversation
            | Space::Inbox
            | Space::Outbox
            | Space::Group
            | Space::Foreign
            | Space::SendQueue
            | Space::Archive => ServiceKind::Chat,
            Space::Other => ServiceKind::Echo,
        }
    }
}

/// Name of a timeline: 8 bits of space, 64 bits that choose its home ([`base::hash::home`]), 56
/// bits against collisions. The same on every node of a cluster, so nodes exchange it to refer to
/// an owner. The space is never 0, so an absent name needs no extra memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TimelineId(NonZeroU64, u64);

const _: () = assert!(size_of::<Option<TimelineId>>() == 16);

impl TimelineId {
    /// The timeline of the owner with these names. `home` must be the key that chooses shards.
    pub fn of(space: Space, home: HashKey, parts: &[&[u8]]) -> TimelineId {
        let first = home.of(parts);
        TimelineId::at_home(space, first, HashKey::new(first, !first).of(parts))
    }

    /// The timeline at the home with this hash; `own` distinguishes it from others there.
    pub fn at_home(space: Space, home: u64, own: u64) -> TimelineId {
        let high = u64::from(space as u8) << 56 | home >> 8;
        let high = NonZeroU64::new(high).expect("no space is 0");
        TimelineId(high, home << 56 | own >> 8)
    }

    /// The timeline with these bytes, if its space is known.
    pub fn from_bytes(bytes: [u8; 16]) -> Option<TimelineId> {
        let id = u128::from_be_bytes(bytes);
        Space::from_byte(bytes[0])?;
        Some(TimelineId(NonZeroU64::new((id >> 64) as u64)?, id as u64))
    }

    /// Its bytes. They sort by space first.
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.0.get()) << 64 | u128::from(self.1)).to_be_bytes()
    }

    /// Kind of the timeline.
    pub fn space(self) -> Space {
        Space::from_byte((self.0.get() >> 56) as u8).unwrap_or(Space::Other)
    }

    /// The hash by which its owner's shard is chosen.
    pub fn home_hash(self) -> u64 {
        self.0.get() << 8 | self.1 >> 56
    }
}

/// Place of a message in a timeline, from 1. Zero is before the first.
pub type Seq = u64;

/// Names a reader of a timeline: a device, a webhook, a session. Chosen by the owner.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ReaderId(pub u64);

impl ReaderId {
    /// Retention: its cursor says up to where messages of a timeline were dropped unasked.
    pub const RETENTION: ReaderId = ReaderId(0);

    /// Reader of an account's knowledge of its conversations: its cursor is the offset up to which
    /// a row summarises the inbox, so that the entries before it may be dropped.
    pub const KNOWLEDGE: ReaderId = ReaderId(1);
}

/// A message as a store keeps it. Shared by everyone who carries it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The owner's own number for it, given back with every answer.
    pub id: u64,
    /// Unix second at which it was made: what retention by age goes by.
    pub at_s: u32,
    /// The owner's digest of the message, readable without the body, at most
    /// [`Message::LABEL_BYTES_MAX`].
    pub label: Box<[u8]>,
    /// Opaque bytes, at most [`Message::BODY_BYTES_MAX`].
    pub body: Box<[u8]>,
}

impl Message {
    /// Longest label, bytes.
    pub const LABEL_BYTES_MAX: usize = 255;

    /// Longest body, bytes: a packet of the hard limit, and room for its envelope.
    pub const BODY_BYTES_MAX: usize = crate::limits::PACKET_BYTES_HARD_MAX as usize + 128 * 1024;

    /// Weight beside label and body, bytes.
    pub const WEIGHT_BESIDE: usize = 64;

    /// Approximate memory, bytes: heads of timelines have the sum.
    pub fn weight(&self) -> usize {
        self.label.len() + self.body.len() + Message::WEIGHT_BESIDE
    }
}

/// A message at its place in a timeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Its place.
    pub seq: Seq,
    /// The message.
    pub message: Arc<Message>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_its_space_and_home() {
        let home = HashKey::new(3, 4);
        let id = TimelineId::of(Space::Reports, home, &[b"shop", b"d-1"]);
        assert_eq!(id.space(), Space::Reports);
        assert_eq!(id.home_hash(), home.of(&[b"shop", b"d-1"]));
        assert_eq!(TimelineId::from_bytes(id.to_bytes()), Some(id));
        let other = TimelineId::of(Space::Pushes, home, &[b"shop", b"d-1"]);
        assert_ne!(id, other);
        assert!(other < id, "they sort by space");
        assert_eq!(TimelineId::from_bytes([0; 16]), None);
    }

    #[test]
    fn a_space_is_its_byte() {
        for space in Space::ALL {
            assert_eq!(Space::from_byte(space as u8), Some(space));
        }
        assert_eq!((Space::from_byte(0), Space::from_byte(11)), (None, None));
    }

    #[test]
    fn an_id_has_the_bytes_of_its_space_and_home_and_more_against_collisions() {
        let (home, parts) = (HashKey::new(3, 4), [&b"shop"[..], b"d-1"]);
        let bytes = TimelineId::of(Space::Sessions, home, &parts).to_bytes();
        let first = home.of(&parts);
        assert_eq!((bytes[0], &bytes[1..9]), (3, &first.to_be_bytes()[..]));
        let second = HashKey::new(first, !first).of(&parts).to_be_bytes();
        assert_eq!(bytes[9..], second[..7]);
    }

    #[test]
    fn a_message_weighs_its_label_its_body_and_its_place() {
        let message = Message { id: 1, at_s: 0, label: [0; 3].into(), body: [0; 5].into() };
        assert_eq!(message.weight(), 72);
    }
}
