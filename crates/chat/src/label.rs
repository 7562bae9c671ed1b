//! Labels: what is known of a message without its body.
//!
//! ```text
//! in a conversation and an outbox   version u8 | from 16 | to 16 | conversation 16
//! likewise, said to a group          group u8   | from 16 | conversation 16
//! in an inbox                       version u8 | conversation 16 | seq u64 | own u8 | bytes u32
//! ```
//! `from` and `to` are inboxes. Numbers are little-endian. A label in an inbox is a reference: the
//! message stands in the conversation, at that place, and costs so many bytes in memory.

use base::bytes::ByteReader;
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

const VERSION: u8 = 2;

/// The first byte of what is said to a group.
const GROUP: u8 = 3;

/// Which way a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// The sender's inbox.
    pub from: TimelineId,
    /// The receiver's; none: it goes to the members of the group whose conversation it is.
    pub to: Option<TimelineId>,
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
        let (from, conversation) = (self.from.to_bytes(), self.conversation.to_bytes());
        match self.to.map(TimelineId::to_bytes) {
            Some(to) => [&[VERSION][..], &from, &to, &conversation].concat().into(),
            None => [&[GROUP][..], &from, &conversation].concat().into(),
        }
    }

    pub(crate) fn decode(label: &[u8]) -> Option<Route> {
        let is_to_group = label.first() == Some(&GROUP);
        let mut bytes = ByteReader::of(if is_to_group { GROUP } else { VERSION }, label)?;
        let from = timeline(&mut bytes)?;
        let to = if is_to_group { None } else { Some(timeline(&mut bytes)?) };
        let conversation = timeline(&mut bytes)?;
        bytes.ends(Route { from, to, conversation })
    }

    /// The inboxes of two whom it concerns, each once.
    pub(crate) fn inboxes(&self) -> Arc<[TimelineId]> {
        let other = self.to.filter(|to| *to != self.from);
        [Some(self.from), other].into_iter().flatten().collect()
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
        let route = Route { from, to: Some(to), conversation };
        assert_eq!(Route::decode(&route.encode()), Some(route));
        assert_eq!(*route.inboxes(), [from, to]);
        assert_eq!(*Route { to: Some(from), ..route }.inboxes(), [from]);
        let group = Route { to: None, ..route };
        assert_eq!(Route::decode(&group.encode()), Some(group));
        assert!(Route::decode(&group.encode()[1..]).is_none());
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
