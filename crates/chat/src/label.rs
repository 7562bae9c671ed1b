//! Labels: what is known of a message without its body.
//!
//! ```text
//! in a conversation and an outbox   version u8 | from 16 | to 16 | conversation 16
//! in an inbox                       version u8 | conversation 16 | seq u64 | own u8 | bytes u32
//! ```
//! `from` and `to` are inboxes. Numbers are little-endian. A label in an inbox is a reference: the
//! message stands in the conversation, at that place, and costs so many bytes in memory.

use base::bytes::ByteReader;
use model::timeline::{Seq, TimelineId};

const VERSION: u8 = 2;

/// Which way a message of two goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// The sender's inbox.
    pub from: TimelineId,
    /// The receiver's.
    pub to: TimelineId,
    /// Where it stands.
    pub conversation: TimelineId,
}

/// Where a message stands that concerns an account.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Pointer {
    pub conversation: TimelineId,
    pub seq: Seq,
    /// The account said it itself.
    pub own: bool,
    /// What the message costs in memory, bytes, roughly.
    pub bytes: u32,
}

impl Route {
    pub(crate) fn encode(&self) -> Box<[u8]> {
        let ids = [self.from, self.to, self.conversation].map(TimelineId::to_bytes);
        [&[VERSION][..], &ids[0], &ids[1], &ids[2]].concat().into()
    }

    pub(crate) fn decode(label: &[u8]) -> Option<Route> {
        let mut bytes = ByteReader::of(VERSION, label)?;
        let mut next = || timeline(&mut bytes);
        let (from, to, conversation) = (next()?, next()?, next()?);
        bytes.ends(Route { from, to, conversation })
    }

    /// The inboxes that it concerns, each once.
    pub(crate) fn inboxes(&self) -> impl Iterator<Item = TimelineId> {
        [Some(self.from), (self.to != self.from).then_some(self.to)].into_iter().flatten()
    }
}

impl Pointer {
    pub(crate) fn encode(&self) -> Box<[u8]> {
        let (conversation, seq) = (self.conversation.to_bytes(), self.seq.to_le_bytes());
        let (own, bytes) = ([u8::from(self.own)], self.bytes.to_le_bytes());
        [&[VERSION][..], &conversation, &seq, &own, &bytes].concat().into()
    }

    pub(crate) fn decode(label: &[u8]) -> Option<Pointer> {
        let mut bytes = ByteReader::of(VERSION, label)?;
        let (conversation, seq) = (timeline(&mut bytes)?, bytes.u64()?);
        let (own, size) = (bytes.flags(1)? == 1, bytes.u32()?);
        bytes.ends(Pointer { conversation, seq, own, bytes: size })
    }
}

fn timeline(bytes: &mut ByteReader<'_>) -> Option<TimelineId> {
    TimelineId::from_bytes(bytes.take(16)?.try_into().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::{Message, Space};

    #[test]
    fn labels_say_what_was_put_into_them() {
        let home = HashKey::new(1, 2);
        let [from, to] = [&b"a"[..], b"b"].map(|name| TimelineId::of(Space::Inbox, home, &[name]));
        let conversation = TimelineId::of(Space::Conversation, home, &[b"ab"]);
        let route = Route { from, to, conversation };
        assert_eq!(Route::decode(&route.encode()), Some(route));
        assert_eq!(route.inboxes().collect::<Vec<_>>(), [from, to]);
        assert_eq!(Route { to: from, ..route }.inboxes().collect::<Vec<_>>(), [from]);
        for own in [false, true] {
            let pointer = Pointer { conversation, seq: 1 << 40, own, bytes: 1 << 20 };
            assert_eq!(Pointer::decode(&pointer.encode()), Some(pointer));
        }
        let pointer = Pointer { conversation, seq: 1, own: false, bytes: 0 };
        let (route, pointer) = (route.encode(), pointer.encode());
        assert!(route.len() <= Message::LABEL_BYTES_MAX);
        for end in 0..route.len() {
            assert!(Route::decode(&route[..end]).is_none());
        }
        for end in 0..pointer.len() {
            assert!(Pointer::decode(&pointer[..end]).is_none());
        }
        assert!(Pointer::decode(&route).is_none() && Route::decode(&pointer).is_none());
    }
}
