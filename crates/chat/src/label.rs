//! Labels: the facts about a message that are known without its body.
//!
//! ```text
//! in a conversation and an outbox   MESSAGE u8 | from 16 | to 16 | conversation 16
//! likewise, of a message to a group   GROUP u8 | from 16 | conversation 16
//! in an inbox, and in the outbox       READ u8 | from 16 | to 16 | conversation 16 | upto u64
//!   likewise, if it is not shared   READ_ALONE | from 16 | conversation 16 | upto u64
//! in an inbox                    REFERENCE u8 | conversation 16 | seq u64 | flags u8 | bytes u32
//!                                              | the recalled message's place u64, if any
//!                                PEER_READ u8 | conversation 16 | upto u64
//!                                      SET u8 | conversation 16 | what u8
//! ```
//! `from` and `to` are inboxes. Numbers are little-endian. A reference names the message's place in
//! the conversation and the memory that it costs, in bytes. `inboxes/entry.rs` describes the bodies
//! of inbox entries.

use base::bytes::ByteReader;
use base::encoding::Encoding;
use model::timeline::{Seq, TimelineId};
use std::sync::Arc;

/// First byte of the label of a message between two accounts.
pub const MESSAGE: u8 = 2;
/// First byte of the label of a message to a group.
pub const GROUP: u8 = 3;
/// First bytes of other labels.
const REFERENCE: u8 = 4;
const READ: u8 = 5;
const READ_ALONE: u8 = 6;
const PEER_READ: u8 = 7;
const SET: u8 = 8;

/// Flags of a reference.
const OWN: u8 = 1;
const COUNTS: u8 = 2;
const RECALLS: u8 = 4;
const QUIET: u8 = 8;
const ENDS: u8 = 16;
const DRAWN: u8 = 32;
const MENTIONED: u8 = 128;

/// The route of a message: sender, receiver and conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encoding)]
pub(crate) struct Route {
    /// The sender's inbox.
    pub from: TimelineId,
    /// The receiver's inbox; `None`: a message goes to the members of the group with this
    /// conversation, and a read position to no other account.
    pub to: Option<TimelineId>,
    /// The conversation in which the message is stored.
    pub conversation: TimelineId,
    /// The entry is no message, but a read position: `from` has read up to here. Among inboxes,
    /// that of `from` alone stores it.
    pub read: Option<Seq>,
}

/// A reference to a message that concerns an account.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Pointer {
    pub conversation: TimelineId,
    pub seq: Seq,
    /// The relation of the message to the account.
    pub relation: Relation,
    /// The message says nothing by itself: it amends another message.
    pub quiet: bool,
    /// The message counts as unread.
    pub counts: bool,
    /// Place of the message that this one recalls.
    pub recalls: Option<Seq>,
    /// Approximate memory of the message, bytes.
    pub bytes: u32,
}

/// The relation of a message to an account that has it in its inbox.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Encoding)]
pub(crate) struct Relation {
    /// The account sent the message itself.
    pub own: bool,
    /// The account is no longer a member of the group.
    pub ends: bool,
    /// The message mentions the account, or invites it.
    pub mentioned: bool,
    /// The account drew the message from its conversation, because it follows the group.
    pub drawn: bool,
}

/// The label of an inbox entry: its kind and content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EntryLabel {
    Reference(Pointer),
    Read(TimelineId, Seq),
    PeerRead(TimelineId, Seq),
    /// Flags that the inbox's owner has set: 0 to 7.
    Set(TimelineId, u8),
}

impl Route {
    /// The route of a read position of `from`; `to` gets it.
    pub(crate) fn of_read(
        from: TimelineId,
        to: Option<TimelineId>,
        (conversation, upto): (TimelineId, Seq),
    ) -> Route {
        Route { from, to, conversation, read: Some(upto) }
    }

    pub(crate) fn encode(&self) -> Box<[u8]> {
        let (from, conversation) = (self.from.to_bytes(), self.conversation.to_bytes());
        let first = match (self.to, self.read) {
            (Some(_), None) => MESSAGE,
            (None, None) => GROUP,
            (Some(_), Some(_)) => READ,
            (None, Some(_)) => READ_ALONE,
        };
        let mut label = [&[first][..], &from].concat();
        if let Some(to) = self.to {
            label.extend_from_slice(&to.to_bytes());
        }
        label.extend_from_slice(&conversation);
        if let Some(upto) = self.read {
            label.extend_from_slice(&upto.to_le_bytes());
        }
        label.into()
    }

    pub(crate) fn decode(label: &[u8]) -> Option<Route> {
        let first = *label.first()?;
        let (has_to, is_read) = match first {
            MESSAGE => (true, false),
            GROUP => (false, false),
            READ => (true, true),
            READ_ALONE => (false, true),
            _ => return None,
        };
        let mut bytes = ByteReader::of(first, label)?;
        let from = timeline(&mut bytes)?;
        let to = if has_to { Some(timeline(&mut bytes)?) } else { None };
        let conversation = timeline(&mut bytes)?;
        let read = if is_read { Some(bytes.u64()?) } else { None };
        bytes.ends(Route { from, to, conversation, read })
    }

    /// The same route as seen by `from`, which is one of its two inboxes.
    pub(crate) fn turned_to(self, from: TimelineId) -> Route {
        match self.to {
            Some(to) if to == from => Route { from, to: Some(self.from), ..self },
            _ => Route { from, ..self },
        }
    }

    /// The inboxes that get the entry, each once: of a message the sender's and the receiver's, of
    /// a read position the receiver's.
    pub(crate) fn inboxes(&self) -> Arc<[TimelineId]> {
        let other = self.to.filter(|to| *to != self.from);
        let own = Some(self.from).filter(|_| self.read.is_none());
        [own, other].into_iter().flatten().collect()
    }
}

impl EntryLabel {
    pub(crate) fn encode(&self) -> Box<[u8]> {
        match self {
            EntryLabel::Reference(pointer) => pointer.encode(),
            EntryLabel::Read(of, upto) | EntryLabel::PeerRead(of, upto) => {
                [&[PEER_READ][..], &of.to_bytes(), &upto.to_le_bytes()].concat().into()
            }
            EntryLabel::Set(of, what) => [&[SET][..], &of.to_bytes(), &[*what]].concat().into(),
        }
    }

    pub(crate) fn decode(label: &[u8]) -> Option<EntryLabel> {
        let first = *label.first()?;
        match first {
            REFERENCE => Pointer::decode(label).map(EntryLabel::Reference),
            READ | READ_ALONE => {
                let route = Route::decode(label)?;
                Some(EntryLabel::Read(route.conversation, route.read?))
            }
            PEER_READ | SET => {
                let mut bytes = ByteReader::of(first, label)?;
                let of = timeline(&mut bytes)?;
                match first {
                    SET => {
                        let what = bytes.flags(7)?;
                        bytes.ends(EntryLabel::Set(of, what))
                    }
                    _ => {
                        let upto = bytes.u64()?;
                        bytes.ends(EntryLabel::PeerRead(of, upto))
                    }
                }
            }
            _ => None,
        }
    }
}

impl Pointer {
    /// Whether the message invites the account to a group, and the account has to accept.
    pub(crate) const fn invites(&self) -> bool {
        !self.counts && self.relation.mentioned && self.relation.ends
    }

    /// Whether an offline device is notified of the message.
    pub(crate) const fn wakes(&self) -> bool {
        (self.counts || self.invites()) && !self.relation.own
    }

    fn encode(&self) -> Box<[u8]> {
        let flag = |is: bool, bit: u8| if is { bit } else { 0 };
        let recalls = self.recalls.map(Seq::to_le_bytes);
        let flags =
            flag(self.counts, COUNTS) | flag(self.quiet, QUIET) | flag(recalls.is_some(), RECALLS);
        let Relation { own, ends, mentioned, drawn } = self.relation;
        let flags = flags | flag(own, OWN) | flag(ends, ENDS) | flag(mentioned, MENTIONED);
        let flags = flags | flag(drawn, DRAWN);
        let (conversation, seq) = (self.conversation.to_bytes(), self.seq.to_le_bytes());
        let (bytes, target) = (self.bytes.to_le_bytes(), recalls.as_ref().map_or(&[][..], |it| it));
        [&[REFERENCE][..], &conversation, &seq, &[flags], &bytes, target].concat().into()
    }

    fn decode(label: &[u8]) -> Option<Pointer> {
        let mut bytes = ByteReader::of(REFERENCE, label)?;
        let (conversation, seq) = (timeline(&mut bytes)?, bytes.u64()?);
        let flags = bytes.flags(OWN | COUNTS | RECALLS | QUIET | ENDS | MENTIONED | DRAWN)?;
        let size = bytes.u32()?;
        let recalls = if flags & RECALLS != 0 { Some(bytes.u64()?) } else { None };
        let (own, ends) = (flags & OWN != 0, flags & ENDS != 0);
        let (mentioned, drawn) = (flags & MENTIONED != 0, flags & DRAWN != 0);
        let relation = Relation { own, ends, mentioned, drawn };
        let (counts, quiet) = (flags & COUNTS != 0, flags & QUIET != 0);
        bytes.ends(Pointer { conversation, seq, relation, quiet, counts, recalls, bytes: size })
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

    fn names() -> [TimelineId; 3] {
        let home = HashKey::new(1, 2);
        let [from, to] = [&b"a"[..], b"b"].map(|name| TimelineId::of(Space::Inbox, home, &[name]));
        [from, to, TimelineId::of(Space::Conversation, home, &[b"ab"])]
    }

    #[test]
    fn routes_say_what_was_put_into_them() {
        let [from, to, conversation] = names();
        let route = Route { from, to: Some(to), conversation, read: None };
        let read = Route::of_read(from, Some(to), (conversation, 1 << 40));
        let all = [route, Route { to: None, ..route }, read, Route { to: None, ..read }];
        for route in all {
            let label = route.encode();
            assert_eq!(Route::decode(&label), Some(route));
            assert!(label.len() <= Message::LABEL_BYTES_MAX);
            assert!((0..label.len()).all(|end| Route::decode(&label[..end]).is_none()));
            let of = EntryLabel::decode(&label);
            assert_eq!(of, route.read.map(|upto| EntryLabel::Read(conversation, upto)));
        }
        assert_eq!(*route.inboxes(), [from, to]);
        assert_eq!(*Route { to: Some(from), ..route }.inboxes(), [from]);
        assert_eq!(*read.inboxes(), [to], "one's own has it already");
        assert!(Route { to: None, ..read }.inboxes().is_empty());
    }

    #[test]
    fn entries_say_what_was_put_into_them() {
        let [_, _, conversation] = names();
        let pointer = |own, counts: bool, recalls| {
            let (bytes, quiet, seq) = (1 << 20, !counts, 1 << 40);
            let relation = Relation { own, ends: counts, mentioned: own, drawn: counts };
            let pointer = Pointer { conversation, seq, relation, quiet, counts, recalls, bytes };
            EntryLabel::Reference(pointer)
        };
        let all = [
            pointer(true, false, None),
            pointer(false, true, None),
            pointer(true, false, Some(7)),
            EntryLabel::PeerRead(conversation, 1 << 40),
            EntryLabel::Set(conversation, 7),
        ];
        for entry in all {
            let label = entry.encode();
            assert_eq!(EntryLabel::decode(&label), Some(entry));
            assert!((0..label.len()).all(|end| EntryLabel::decode(&label[..end]).is_none()));
            assert!(Route::decode(&label).is_none());
        }
    }
}
