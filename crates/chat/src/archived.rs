//! Archived messages, as an external archive gets them.
//!
//! A shard's messages wait in a timeline of their own until the archive has them; the write that
//! stores a message appends it there, too, so nothing that was answered is left out. The archive's
//! writer reads that timeline and decodes each message here. The state of a message after an edit
//! or a reaction is a row of the log; it is read together with the edit or reaction, so the archive
//! has of the message what a page would have. This file writes nothing.

use crate::Chat;
use crate::amendments::overlays::{self, Overlay};
use crate::envelope;
use crate::label::Route;
use crate::outbox::timeline_here;
use base::hash::HashKey;
use model::account::Addressee;
use model::chat::{Content, Mentions, Recall};
use model::id::ShardId;
use model::ports::databases::archive::{ArchivedMessage, ArchivedState};
use model::timeline::{Message, Space, TimelineId};

/// The timeline in which a shard, of so many, queues its stored messages for the archive.
pub fn archive_timeline(home: HashKey, shard: ShardId, shards: u16) -> TimelineId {
    timeline_here(Space::Archive, home, shard, shards)
}

/// A message as an archive keeps it; `None`: it cannot be read.
pub fn archived(message: &Message) -> Option<ArchivedMessage> {
    let route = Route::decode(&message.label)?;
    let said = envelope::decode(message.id, 0, &message.body)?;
    let about = said.content.target().map(|target| target.id);
    let mentions = mentioned(said.content.mentions.as_deref());
    let Content { kind, text, extra, counts, quote, .. } = said.content.clone();
    Some(ArchivedMessage {
        id: said.id,
        conversation: route.conversation.to_bytes(),
        at_ms: said.at_ms,
        from: said.from.as_str().into(),
        device: said.device,
        to: said.to.as_str().into(),
        client_id: said.client_id.0,
        kind,
        counts,
        text,
        extra,
        about: about.or(quote.map(|quote| quote.target.id)),
        mentions,
        recalls: Recall::of(&said.content).map(|recall| recall.id),
        amends: None,
    })
}

/// Key of the row of [`Table::ChatRecalled`] with the current state of the message that this one
/// edits or reacts to; `None`: it does neither, or cannot be read.
///
/// [`Table::ChatRecalled`]: model::ports::log::Table::ChatRecalled
pub fn amended_row(message: &Message) -> Option<Box<[u8]>> {
    if !matches!(envelope::kind_of(&message.body), Content::EDIT | Content::REACTION) {
        return None;
    }
    let said = envelope::decode(message.id, 0, &message.body)?;
    let route = Route::decode(&message.label)?;
    Some(overlays::key_of(route.conversation, said.content.target()?.seq))
}

/// The state of a message in a row of [`amended_row`]; `None`: the message was recalled, or the row
/// cannot be read.
pub fn archived_state(key: &[u8], row: &[u8]) -> Option<ArchivedState> {
    let overlay = Overlay::decode((key, row)).filter(|it| !it.is_tombstone())?;
    let Content { kind, text, extra, .. } = overlay.message.content.clone();
    let amended = overlay.message.amended.as_deref();
    let reactions = amended.iter().flat_map(|it| &it.reactions);
    let reactions = reactions.map(|it| (it.by.as_str().into(), it.emoji.clone())).collect();
    let edited_ms = amended.map_or(0, |it| it.edited_ms);
    Some(ArchivedState { kind, text, extra, edited_ms, reactions })
}

fn mentioned(mentions: Option<&Mentions>) -> Box<str> {
    let Some(Mentions { accounts, everybody }) = mentions else { return Box::default() };
    let names = accounts.iter().map(Addressee::as_str).chain(everybody.then_some("*"));
    names.collect::<Vec<_>>().join(" ").into()
}

impl Chat {
    /// Queues the messages that are stored from now on for an archive, too.
    pub(crate) fn keep_for_archive(&mut self) {
        let (home, shard, shards) = (self.settings.home, self.settings.shard, self.settings.shards);
        self.outbox.keep_for(archive_timeline(home, shard, shards));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Sender;
    use model::account::AccountAddress;
    use model::chat::{Amended, ClientMessageId, NewMessage, Reaction, TargetMessage};
    use model::id::MessageId;

    #[test]
    fn an_archive_is_told_all_of_a_message_and_what_it_calls_back() {
        let home = HashKey::new(1, 2);
        let name = |name: &str| AccountAddress::parse(name, "a.example").expect("right");
        let of = |space| TimelineId::of(space, home, &[b"ab"]);
        let (from, conversation) = (of(Space::Inbox), of(Space::Conversation));
        let route = Route { from, to: Some(from), conversation, read: None };
        let message = |content: Content| {
            let (to, client_id) = (name("bob").into(), ClientMessageId([7; 16]));
            let said = NewMessage { to, client_id, content };
            let sender = Sender { address: &name("ann"), device: "phone" };
            let body = envelope::encode(sender, &name("bob"), &said);
            let id = MessageId::after(0, MessageId::EPOCH_MS + 5, Default::default()).0;
            Message { id, at_s: 1, label: route.encode(), body }
        };
        let plain = message(Content { extra: [1].into(), ..Content::text("hello") });
        let told = archived(&plain).expect("right");
        assert_eq!((told.id, told.at_ms), (plain.id, MessageId::EPOCH_MS + 5));
        assert_eq!((&*told.from, &*told.to), ("ann@a.example", "bob@a.example"));
        assert_eq!((&*told.text, &*told.extra, told.recalls), ("hello", &[1][..], None));
        assert_eq!(told.conversation, conversation.to_bytes());
        let recall = archived(&message(Recall { seq: 3, id: 99 }.content(""))).expect("right");
        assert_eq!((recall.kind, recall.recalls), (Content::RECALL, Some(99)));
        let cut = Message { body: plain.body[..9].into(), ..plain.clone() };
        assert!(archived(&cut).is_none());

        // For an edit or a reaction the row of its message is read.
        assert_eq!(amended_row(&plain), None);
        let target = TargetMessage { seq: 3, id: 99, name: "".into() }.extra(b"");
        for kind in [Content::EDIT, Content::REACTION] {
            let content = Content { kind, extra: target.clone(), ..Content::default() };
            let key = amended_row(&message(content)).expect("it amends one");
            assert_eq!(key, overlays::key_of(conversation, 3));
            let of = envelope::decode(99, 3, &plain.body).expect("right");
            let overlay = Overlay::of(from, of);
            let reactions = vec![Reaction { by: name("bob"), emoji: "👍".into() }];
            let amended = Amended { edited_ms: 7, reactions };
            let at = overlays::Moment { number: 100, left: 0 };
            let edited = overlay.amended(at, 1, Content::text("bye"), amended);
            let state = archived_state(&key, &edited.encode()).expect("it is there");
            assert_eq!((state.kind, &*state.text, state.edited_ms), (Content::TEXT, "bye", 7));
            assert_eq!(state.reactions, [("bob@a.example".into(), "👍".into())]);
            assert_eq!(archived_state(&key, &edited.buried(101, None).encode()), None);
        }
    }
}
