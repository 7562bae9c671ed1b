//! Amendments of a bound device: corrections and retractions of other messages, and reactions to
//! them.
//!
//! ```text
//! stanza ─► the message it names, looked for backwards from the end ─► Send or Recall
//!               │ by the room's id: known at once        └ not found: an error, or a message
//! ```
//! While the message is looked for, the stanza counts as one that is not answered. Invariant: each
//! is answered as a message is.

use super::lookup::{Lookup, Seen};
use crate::archive::read_id;
use crate::message::amend::{self, AmendmentVerb};
use crate::render::{self, StanzaContent};
use crate::server::Out;
use crate::server::messages::SentAs;
use crate::server::session::Session;
use crate::xml::scan::Element;
use base::time::Now;
use model::account::{AccountAddress, Addressee};
use model::chat::{
    ChatFault, ChatMessage, ChatRequest, ClientMessageId, Content, HistoryPage, NewMessage, Quote,
    RecallOrder, TargetMessage,
};
use model::timeline::Seq;

/// Messages that are read at once, and how often: what is named is among the last so many.
const PAGE_MESSAGES: u16 = 128;
const PAGES_MAX: u8 = 8;

/// A stanza whose message is being looked for.
pub(in crate::server) struct Finding {
    number: u32,
    lookup: Lookup,
    then: Then,
}

/// Action on the message once it is found.
enum Then {
    /// Edits it or reacts to it, by this content, which names no target yet.
    Say(ClientMessageId, Content),
    /// Quotes it, by the first content; if it is not found, the second one is sent, which is the
    /// stanza as it came.
    Quote(ClientMessageId, Content, Content),
    Retract,
}

impl Finding {
    /// Approximate memory, bytes.
    pub(in crate::server) fn weight(&self) -> usize {
        let content = match &self.then {
            Then::Say(_, content) => content.weight(),
            Then::Quote(_, content, as_it_came) => content.weight() + as_it_came.weight(),
            Then::Retract => 0,
        };
        size_of::<Finding>() + self.lookup.held() + content
    }
}

impl Session {
    /// A stanza says something of another one, to somebody or in a room. False: it says nothing of
    /// one.
    pub(in crate::server) fn amends(
        &mut self,
        now: Now,
        (with, about): (AccountAddress, (Option<&str>, Option<&str>)),
        message: &Element<'_, '_>,
        out: &mut Out,
    ) -> bool {
        let Some(said) = amend::said(message) else { return false };
        let mut client_id = || {
            let known = render::client_id_of(message);
            known.unwrap_or_else(|| self.made_up(now, out))
        };
        let then = match said.verb {
            AmendmentVerb::Corrected => {
                Then::Say(client_id(), amend::correction(message, &nowhere(), &said.name))
            }
            AmendmentVerb::Reacts(emoji) => {
                Then::Say(client_id(), amend::reaction(&emoji, &nowhere()))
            }
            AmendmentVerb::Retracted => Then::Retract,
        };
        self.looks_for((with, about), said.name, then, out);
        true
    }

    /// A stanza replies to another one.
    pub(super) fn replies(
        &mut self,
        now: Now,
        (with, about): (AccountAddress, (Option<&str>, Option<&str>)),
        (message, said, name): (&Element<'_, '_>, StanzaContent, String),
        out: &mut Out,
    ) {
        let client_id = said.client_id.unwrap_or_else(|| self.made_up(now, out));
        let then = Then::Quote(client_id, said.content, render::stanza_of(message));
        self.looks_for((with, about), name, then, out);
    }

    /// The message that a stanza names is looked for; until then the stanza is not answered.
    fn looks_for(
        &mut self,
        (with, about): (AccountAddress, (Option<&str>, Option<&str>)),
        name: String,
        then: Then,
        out: &mut Out,
    ) {
        let number = self.unanswered(about, SentAs::Message);
        let by_room = with.is_group().then(|| read_id(&name)).flatten();
        let finding = Finding { number, lookup: Lookup::new(with, name.into()), then };
        match by_room {
            Some(id) => {
                let target = TargetMessage { seq: id.seq, id: id.number, name: "".into() };
                self.has_found(finding, &target, out);
            }
            None => self.looks_on(finding, Seq::MAX, out),
        }
    }

    fn looks_on(&mut self, mut finding: Finding, from: Seq, out: &mut Out) {
        let (session, number) = (self.session, finding.number);
        let range = finding.lookup.page(from, PAGE_MESSAGES);
        self.busy().finds.push(finding);
        out.say(ChatRequest::History { session, number, range });
    }

    /// A part of the conversation in which a message is looked for. False: nothing is.
    pub(in crate::server) fn finds(&mut self, page: &HistoryPage, out: &mut Out) -> bool {
        let finds = &mut self.busy().finds;
        let Some(at) = finds.iter().position(|it| it.number == page.number) else { return false };
        let finding = finds.swap_remove(at);
        let is_own = match &finding.then {
            Then::Say(_, content) => content.kind == Content::EDIT,
            Then::Retract => true,
            Then::Quote(..) => false,
        };
        let is_it = |message: &ChatMessage| {
            let name = &*finding.lookup.name;
            let is_named = message.content.name(message.client_id) == name;
            (!is_own || message.from.as_str() == self.account())
                && !message.content.is_amendment()
                && (is_named || message.client_id.text() == name)
        };
        match finding.lookup.look(page, PAGES_MAX, is_it) {
            Seen::Found(message) => {
                let target = TargetMessage { seq: message.seq, id: message.id, name: "".into() };
                self.has_found(finding, &target, out);
            }
            Seen::Before(place) => self.looks_on(finding, place, out),
            Seen::Nowhere => self.has_not_found(finding, out),
        }
        true
    }

    /// Ends a search whose page could not be read.
    pub(super) fn finds_nothing(&mut self, number: u32) {
        if let Some(busy) = &mut self.busy {
            busy.finds.retain(|it| it.number != number);
        }
    }

    /// Handles a message that was not found: a reply is sent all the same, as it came.
    fn has_not_found(&mut self, finding: Finding, out: &mut Out) {
        let Finding { number, lookup, then } = finding;
        match then {
            Then::Quote(client_id, _, content) => {
                let to = lookup.with.into();
                let message = Box::new(NewMessage { to, client_id, content });
                out.say(ChatRequest::Send { session: self.session, number, message });
            }
            _ => self.answered(number, Some((ChatFault::UnknownMessage, "")), out),
        }
    }

    fn has_found(&mut self, finding: Finding, target: &TargetMessage, out: &mut Out) {
        let Finding { number, lookup, then } = finding;
        let (session, with) = (self.session, Addressee::from(lookup.with));
        out.say(match then {
            Then::Say(client_id, content) => {
                let content = with_target(&content, target);
                let message = Box::new(NewMessage { to: with, client_id, content });
                ChatRequest::Send { session, number, message }
            }
            Then::Quote(client_id, content, _) => {
                let quote = Some(Box::new(Quote::of(target.seq, target.id)));
                let content = Content { quote, ..content };
                let message = Box::new(NewMessage { to: with, client_id, content });
                ChatRequest::Send { session, number, message }
            }
            Then::Retract => {
                let (seq, reason) = (target.seq, Box::default());
                let order = Box::new(RecallOrder { with, seq, reason });
                ChatRequest::Recall { session, number, order }
            }
        });
    }
}

/// A target that is not known yet.
fn nowhere() -> TargetMessage {
    TargetMessage { seq: 0, id: 0, name: "".into() }
}

/// The content with another target.
fn with_target(content: &Content, target: &TargetMessage) -> Content {
    let beside = TargetMessage::read(&content.extra).map_or(&[][..], |(_, beside)| beside);
    Content { extra: target.extra(beside), ..content.clone() }
}
