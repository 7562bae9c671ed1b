//! Entries of an inbox: references to messages, and other changes of the account's conversations.
//!
//! ```text
//! label              body
//! reference, PEER_READ   other party of the conversation
//! READ                   the inbox's account u16 bytes | other party
//! SET                    other party u16 bytes | the draft, if that is set
//! ```
//! The labels are in `label.rs`. Invariant: what is encoded is decoded as it was.

use crate::label::{EntryLabel, Pointer, Relation, Route};
use base::bytes::put_text;
use model::account::AccountAddress;
use model::chat::{
    ChatMessage, Content, ConversationChange, FanOut, InboxChange, InboxEvent, MuteLevel, Recall,
};
use model::timeline::{Message, Seq, TimelineId};

/// An entry of an inbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// A message, and the address of the other party of its conversation.
    Message(Pointer, AccountAddress),
    /// Another change, in this conversation.
    Event(TimelineId, InboxEvent),
}

/// Label and body of an entry.
pub(crate) type Encoded = (Box<[u8]>, Box<[u8]>);

/// Values of a setting in its label; the lowest bit says whether it is on.
const PIN: u8 = 0;
const MUTE: u8 = 2;
const HIDE: u8 = 4;
const DRAFT: u8 = 6;
/// A mute of everything, which older builds read as a draft without text.
const MUTE_EVERYTHING: u8 = 7;

impl Entry {
    /// The conversation that the entry is about.
    pub(crate) fn conversation(&self) -> TimelineId {
        match self {
            Entry::Message(pointer, _) => pointer.conversation,
            Entry::Event(conversation, _) => *conversation,
        }
    }

    /// The entry of a message in the inboxes of accounts that have this relation to it.
    pub(crate) fn of_message(
        conversation: TimelineId,
        relation: Relation,
        message: &ChatMessage,
    ) -> Entry {
        let pointer = Pointer {
            conversation,
            seq: message.seq,
            relation,
            quiet: message.content.is_amendment() || FanOut::of(&message.content).is_some(),
            // A message that was recalled before it was distributed does not count as unread.
            counts: message.content.counts && message.content.kind != Content::RECALLED,
            recalls: Recall::of(&message.content).map(|recall| recall.seq),
            bytes: message.weight() as u32,
        };
        let with = if relation.own || message.to.is_group() { &message.to } else { &message.from };
        Entry::Message(pointer, with.clone())
    }

    /// The position and properties of the message, if the entry is a message.
    pub(crate) fn pointer(&self) -> Option<Pointer> {
        match self {
            Entry::Message(pointer, _) => Some(*pointer),
            Entry::Event(..) => None,
        }
    }

    /// Approximate memory of the entry, or of its message, bytes.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Entry::Message(pointer, _) => pointer.bytes as usize,
            Entry::Event(_, event) => {
                let draft = match &event.what {
                    InboxChange::Set(ConversationChange::Draft(draft)) => draft.len(),
                    _ => 0,
                };
                size_of::<InboxEvent>() + event.with.as_str().len() + draft
            }
        }
    }

    /// Label and body of the entry. An account's own read position is encoded by [`own_read`].
    pub(crate) fn encode(&self) -> Encoded {
        match self {
            Entry::Message(pointer, with) => {
                (EntryLabel::Reference(*pointer).encode(), with.as_str().as_bytes().into())
            }
            Entry::Event(conversation, InboxEvent { with, what }) => match what {
                InboxChange::Read(upto) | InboxChange::PeerRead(upto) => {
                    let label = EntryLabel::PeerRead(*conversation, *upto);
                    (label.encode(), with.as_str().as_bytes().into())
                }
                InboxChange::Set(change) => {
                    let (what, draft) = match change {
                        ConversationChange::Pin(on) => (PIN | u8::from(*on), ""),
                        ConversationChange::Mute(MuteLevel::Everything) => (MUTE_EVERYTHING, ""),
                        ConversationChange::Mute(mute) => (MUTE | u8::from(mute.is_on()), ""),
                        ConversationChange::Hide(on) => (HIDE | u8::from(*on), ""),
                        ConversationChange::Draft(draft) => (DRAFT, &**draft),
                    };
                    let body = [&text(with)[..], draft.as_bytes()].concat();
                    (EntryLabel::Set(*conversation, what).encode(), body.into())
                }
            },
        }
    }

    pub(crate) fn decode(message: &Message) -> Option<Entry> {
        let body = &*message.body;
        let event = |of, with, what| Some(Entry::Event(of, InboxEvent { with, what }));
        match EntryLabel::decode(&message.label)? {
            EntryLabel::Reference(pointer) => Some(Entry::Message(pointer, address(body)?)),
            EntryLabel::Read(of, upto) => event(of, read_by(body)?.1, InboxChange::Read(upto)),
            EntryLabel::PeerRead(of, upto) => {
                event(of, address(body)?, InboxChange::PeerRead(upto))
            }
            EntryLabel::Set(of, what) => {
                let (with, draft) = first(body)?;
                let on = what & 1 == 1;
                let change = match what & !1 {
                    _ if what == MUTE_EVERYTHING => ConversationChange::Mute(MuteLevel::Everything),
                    PIN => ConversationChange::Pin(on),
                    MUTE => ConversationChange::Mute(on.into()),
                    HIDE => ConversationChange::Hide(on),
                    _ => ConversationChange::Draft(std::str::from_utf8(draft).ok()?.into()),
                };
                event(of, with, InboxChange::Set(change))
            }
        }
    }
}

/// Label and body of an own read position (`by` has read its conversation with `with`), as it is
/// stored in the reader's inbox and in the outbox.
pub(crate) fn own_read(route: Route, by: &AccountAddress, with: &AccountAddress) -> Encoded {
    let body = [&text(by)[..], with.as_str().as_bytes()].concat();
    (route.encode(), body.into())
}

/// The reader, and the other party of the conversation, from the body of a read position.
pub(crate) fn read_by(body: &[u8]) -> Option<(AccountAddress, AccountAddress)> {
    let (by, with) = first(body)?;
    Some((by, address(with)?))
}

/// The event by which the other party of a conversation learns that `by` has read it up to `upto`.
pub(crate) fn peer_read(by: AccountAddress, upto: Seq) -> InboxEvent {
    InboxEvent { with: by, what: InboxChange::PeerRead(upto) }
}

fn text(address: &AccountAddress) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(address.as_str(), &mut out);
    out
}

fn first(body: &[u8]) -> Option<(AccountAddress, &[u8])> {
    let length = body.first_chunk().map(|length| u16::from_le_bytes(*length))?;
    let (first, rest) = body[2..].split_at_checked(length.into())?;
    Some((address(first)?, rest))
}

fn address(bytes: &[u8]) -> Option<AccountAddress> {
    AccountAddress::parse(std::str::from_utf8(bytes).ok()?, "").ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::Space;

    fn name(text: &str) -> AccountAddress {
        AccountAddress::parse(text, "a.example").expect("right")
    }

    fn conversation() -> TimelineId {
        TimelineId::of(Space::Conversation, HashKey::new(1, 2), &[b"ab"])
    }

    fn stored((label, body): Encoded) -> Message {
        Message { id: 1, at_s: 1, label, body }
    }

    #[test]
    fn events_are_read_as_they_were_written() {
        let (of, with) = (conversation(), name("bob"));
        let set = [
            ConversationChange::Pin(true),
            ConversationChange::Mute(MuteLevel::Off),
            ConversationChange::Mute(MuteLevel::ButMentions),
            ConversationChange::Mute(MuteLevel::Everything),
            ConversationChange::Hide(true),
            ConversationChange::Draft("Über us".into()),
            ConversationChange::Draft("".into()),
        ];
        let all = set.map(InboxChange::Set).into_iter().chain([InboxChange::PeerRead(1 << 40)]);
        for what in all {
            let entry = Entry::Event(of, InboxEvent { with: with.clone(), what });
            let message = stored(entry.encode());
            assert_eq!(Entry::decode(&message), Some(entry));
            for end in 0..5.min(message.body.len()) {
                let body = message.body[..end].into();
                assert_eq!(Entry::decode(&Message { body, ..message.clone() }), None, "{end}");
            }
        }
        let inbox = TimelineId::of(Space::Inbox, HashKey::new(1, 2), &[b"a"]);
        let route = Route::of_read(inbox, None, (of, 9));
        let message = stored(own_read(route, &name("ann"), &with));
        let what = InboxChange::Read(9);
        assert_eq!(
            Entry::decode(&message),
            Some(Entry::Event(of, InboxEvent { with: with.clone(), what }))
        );
        assert_eq!(read_by(&message.body), Some((name("ann"), with)));
    }

    #[test]
    fn a_reference_says_with_whom_its_conversation_is() {
        let group = AccountAddress::of_group(7, "a.example").expect("right");
        let message = |to: &AccountAddress, content| ChatMessage {
            id: 1,
            seq: 5,
            at_ms: 0,
            from: name("ann"),
            device: "".into(),
            to: to.clone(),
            client_id: model::chat::ClientMessageId([0; 16]),
            content,
            amended: None,
        };
        let recall = Recall { seq: 3, id: 4 }.content("");
        for (own, to, with) in [
            (true, name("bob"), name("bob")),
            (false, name("bob"), name("ann")),
            (true, group.clone(), group.clone()),
            (false, group.clone(), group.clone()),
        ] {
            for (content, counts, recalls) in
                [(Content::text("a"), true, None), (recall.clone(), false, Some(3))]
            {
                let relation = Relation { own, ..Relation::default() };
                let entry = Entry::of_message(conversation(), relation, &message(&to, content));
                let Entry::Message(pointer, of) = &entry else { panic!("{entry:?}") };
                assert_eq!((of, pointer.relation), (&with, relation));
                assert_eq!((pointer.seq, pointer.counts, pointer.recalls), (5, counts, recalls));
                assert_eq!(Entry::decode(&stored(entry.encode())), Some(entry));
            }
        }
    }
}
