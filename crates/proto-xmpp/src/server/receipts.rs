//! Receipts (XEP-0184) and chat markers (XEP-0333): stanzas of one client, positions here.
//!
//! ```text
//! <displayed id/> ─► the message with that id is looked for ─► Read, up to its place
//! <request/>, <markable/> ─► stored, at a place ─► waits ─► the other has it │ has read it
//!                                                     <received id/> ◄──┴──► <displayed id/>
//! ```
//! A client's `<received/>` says nothing that is not known: what is written to it and acknowledged
//! is delivered. Neither is kept nor relayed as a message. Invariants: a client gets the receipts
//! that it asked for, each once; of those read together only the last is said to be displayed
//! (XEP-0333 1).

use super::Out;
use super::messages::SentAs;
use super::messages::lookup::{Lookup, Seen};
use super::session::Session;
use crate::claims::Xep;
use crate::jid::Jid;
use crate::render::{self, CARBONS, FORWARD};
use crate::server::feature::Feature;
use crate::stanza::{ID_BYTES_MAX, StanzaReply, put_attribute};
use crate::xml::scan::{CLIENT, Element};
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatRequest, HandingTo, HistoryPage, InboxChange, InboxEvent};
use model::timeline::Seq;

/// The namespace of receipts (XEP-0184 9).
pub const RECEIPTS: &str = "urn:xmpp:receipts";
/// The namespace of chat markers (XEP-0333 10).
pub const MARKERS: &str = "urn:xmpp:chat-markers:0";

pub(in crate::server) const FEATURE: Feature = Feature {
    claims: &[
        Xep::complete(
            184,
            ("Message Delivery Receipts", "1.4.0"),
            "sent by the server, as positions",
            "im/test_receipts.py::test_two_clients_of_xmpp_hear_of_receipts_and_markers",
        ),
        Xep::complete(
            333,
            ("Displayed Markers", "0.5.0"),
            "sent by the server, as positions",
            "im/test_receipts.py::test_people_of_xmpp_and_im_hear_of_each_other",
        ),
    ],
    ..Feature::NONE
};

/// Messages of a device whose receipts it wants, the newest.
const AWAITED_MAX: usize = 64;

/// Receipts that are written at once; of more, the last ones.
const RECEIVED_MAX: usize = 50;

/// Messages that a client says it has displayed and that are being looked for. With one more the
/// oldest that waits is forgotten: a later one says more.
const MARKINGS_MAX: usize = 16;

/// Messages that are read at once, and how often: what is displayed is among the last so many.
const PAGE_MESSAGES: u16 = 64;
const PAGES_MAX: u8 = 4;

/// Receipts that a client wants for a message.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Wants {
    received: bool,
    displayed: bool,
}

/// A message whose receipts a client wants.
pub(super) struct Awaited {
    to: AccountAddress,
    id: Box<str>,
    seq: Seq,
    wants: Wants,
}

/// A message that a client has displayed.
pub(super) struct Marking {
    /// Of what is asked for it; zero: nothing yet.
    number: u32,
    lookup: Lookup,
}

impl Awaited {
    /// Approximate memory, bytes.
    pub(super) fn weight(&self) -> usize {
        size_of::<Awaited>() + self.to.as_str().len() + self.id.len()
    }
}

impl Marking {
    /// Approximate memory, bytes.
    pub(super) fn weight(&self) -> usize {
        size_of::<Marking>() + self.lookup.held()
    }
}

impl Wants {
    /// Receipts that a message asks for.
    pub(super) fn of(message: &Element<'_, '_>) -> Wants {
        Wants {
            received: message.child("request", RECEIPTS).is_some(),
            displayed: message.child("markable", MARKERS).is_some(),
        }
    }

    const fn is_none(self) -> bool {
        !self.received && !self.displayed
    }
}

impl Session {
    /// A client says that it has, or shows, a message, and nothing besides. False: it says
    /// something else.
    pub(super) fn says_receipt(
        &mut self,
        with: &AccountAddress,
        message: &Element<'_, '_>,
        out: &mut Out,
    ) -> bool {
        if message.child("body", CLIENT).is_some() {
            return false;
        }
        let is_received = message.child("received", RECEIPTS).is_some()
            || message.child("received", MARKERS).is_some();
        // Whoever has acted on a message has read it.
        let shown = ["displayed", "acknowledged"];
        let shown = shown.into_iter().find_map(|name| message.child(name, MARKERS));
        if let Some(id) = shown.and_then(|it| it.attribute("id")) {
            self.displays(with, &id, out);
            if !id.is_empty() && !render::is_private(message) {
                self.copies_marker(message, out);
            }
        }
        is_received || shown.is_some()
    }

    /// A marker goes to the other devices of the account as a carbon (XEP-0280 6.1): they take it
    /// off what they show as unread. Its service has no message of it to make one from.
    fn copies_marker(&mut self, message: &Element<'_, '_>, out: &mut Out) {
        let Some(own) = Jid::parse(self.account()).and_then(|jid| jid.account) else { return };
        let marker =
            render::passed_on(message, Some(self.jid()), |child| !render::is_of_own_server(child));
        let xml = render::sent_carbon(self.account(), &marker).into();
        let number = self.unanswered((None, None), SentAs::Quiet);
        let (session, to, device) = (self.session, own.into(), None);
        let (is_question, directed) = (false, None);
        let handing = HandingTo { session, number, to, device, xml, is_question, directed };
        out.say(ChatRequest::HandTo(Box::new(handing)));
    }

    /// A carbon of what another device of the account has shown, for a client that wants carbons.
    /// False: it is something else.
    pub(super) fn hears_carbon(&mut self, stanza: &Element<'_, '_>, out: &mut Out) -> bool {
        let is_own = stanza.attribute("from").is_some_and(|from| *from == *self.account());
        let is_own = is_own && stanza.name() == "message";
        let Some(sent) = stanza.child("sent", CARBONS).filter(|_| is_own) else { return false };
        let forwarded = sent.child("forwarded", FORWARD);
        let by = forwarded.as_ref().and_then(|it| it.child("message", CLIENT)?.attribute("from"));
        if self.has(Session::CARBONS) && by.is_some_and(|by| *by != *self.jid()) {
            let head = StanzaReply {
                name: "message",
                from: Some(self.account()),
                to: self.jid(),
                id: None,
            };
            head.open("chat", out.bytes());
            out.bytes().extend_from_slice(sent.whole().as_bytes());
            head.close(out.bytes());
            self.counts_sent(out);
        }
        true
    }

    /// A client shows a message.
    pub(super) fn displays(&mut self, with: &AccountAddress, id: &str, out: &mut Out) {
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            return;
        }
        let markings = &mut self.busy().markings;
        if let Some(waits) = markings.iter_mut().skip(1).find(|it| it.lookup.with == *with) {
            waits.lookup.name = id.into();
            return;
        }
        if markings.len() >= MARKINGS_MAX {
            markings.remove(1);
        }
        let lookup = Lookup::new(with.clone(), id.into());
        markings.push_back(Marking { number: 0, lookup });
        if markings.len() == 1 {
            self.looks_for_marked(Seq::MAX, out);
        }
    }

    /// The message is looked for, before a place of its conversation.
    fn looks_for_marked(&mut self, from: Seq, out: &mut Out) {
        let (number, session) = (self.numbers(1), self.session);
        let Some(marking) = self.busy().markings.front_mut() else { return };
        marking.number = number;
        let range = marking.lookup.page(from, PAGE_MESSAGES);
        out.say(ChatRequest::History { session, number, range });
    }

    /// The service says something of receipts. False: it says something else.
    pub(super) fn receipt_told(&mut self, word: &ChatDelivery, out: &mut Out) -> bool {
        match word {
            ChatDelivery::Delivered(news) => {
                self.is_with(&news.with, news.upto, false, out);
                true
            }
            ChatDelivery::Read { number, .. } => self.marked(*number, out),
            ChatDelivery::History(page) => self.marked_page(page, out),
            _ => false,
        }
    }

    fn is_marking(&self, number: u32) -> bool {
        let first = self.busy.as_ref().and_then(|busy| busy.markings.front());
        first.is_some_and(|marking| marking.number == number)
    }

    /// A part of the conversation. False: it was asked for by something else.
    fn marked_page(&mut self, page: &HistoryPage, out: &mut Out) -> bool {
        if !self.is_marking(page.number) {
            return false;
        }
        let (session, number) = (self.session, self.numbers(1));
        let Some(marking) = self.busy().markings.front_mut() else { return false };
        let Lookup { with, name, .. } = &marking.lookup;
        match marking.lookup.look(page, PAGES_MAX, |it| render::is_named(it, name)) {
            Seen::Found(message) => {
                let (with, upto) = (Box::new(with.clone().into()), message.seq);
                marking.number = number;
                out.say(ChatRequest::Read { session, number, with, upto });
            }
            Seen::Before(place) => self.looks_for_marked(place, out),
            Seen::Nowhere => self.next_marking(out),
        }
        true
    }

    /// The cursor is moved, or something of it was not done. False: that was something else.
    pub(super) fn marked(&mut self, number: u32, out: &mut Out) -> bool {
        let is_it = self.is_marking(number);
        if is_it {
            self.next_marking(out);
        }
        is_it
    }

    fn next_marking(&mut self, out: &mut Out) {
        let markings = &mut self.busy().markings;
        markings.pop_front();
        if !markings.is_empty() {
            self.looks_for_marked(Seq::MAX, out);
        }
        self.releases(out);
    }

    /// Notes the receipts wanted for the message that was sent last.
    pub(super) fn awaits(&mut self, wants: Wants) {
        if let Some(sending) = self.busy().sends.last_mut() {
            sending.wants = wants;
        }
    }

    /// A message is stored at a place of its conversation.
    pub(super) fn is_stored(&mut self, number: u32, seq: Seq) {
        let Some(busy) = &mut self.busy else { return };
        let Some(sending) = busy.sends.iter().find(|it| it.number == number) else { return };
        let (wants, id, to) = (sending.wants, &sending.id, &sending.to);
        let to = to.as_deref().and_then(Jid::parse).and_then(|jid| jid.account);
        let (Some(id), Some(to)) = (id.clone(), to.filter(|to| !to.is_group())) else { return };
        if wants.is_none() {
            return;
        }
        busy.awaited.push_back(Awaited { to, id, seq, wants });
        if busy.awaited.len() > AWAITED_MAX {
            busy.awaited.pop_front();
        }
    }

    /// Handles an event of the inbox that is no message: a peer may have read what the device sent.
    pub(super) fn happens(&mut self, event: &InboxEvent, out: &mut Out) {
        if let InboxChange::PeerRead(upto) = event.what {
            self.is_with(&event.with, upto, true, out);
        }
    }

    /// Handles a peer's receipt: a device of it has, and has perhaps read, messages up to a place.
    pub(super) fn is_with(
        &mut self,
        with: &AccountAddress,
        upto: Seq,
        is_read: bool,
        out: &mut Out,
    ) {
        let Some(busy) = &mut self.busy else { return };
        let (mut received, mut displayed) = (Vec::new(), None);
        for it in busy.awaited.iter_mut().filter(|it| it.to == *with && it.seq <= upto) {
            if std::mem::take(&mut it.wants.received) {
                received.push(it.id.clone());
            }
            if is_read && std::mem::take(&mut it.wants.displayed) {
                displayed = Some(it.id.clone());
            }
        }
        busy.awaited.retain(|it| !it.wants.is_none());
        let passed = received.len().saturating_sub(RECEIVED_MAX);
        for id in &received[passed..] {
            self.write_receipt(with, ("received", RECEIPTS), id, out);
        }
        if let Some(id) = displayed {
            self.write_receipt(with, ("displayed", MARKERS), &id, out);
        }
    }

    fn write_receipt(
        &mut self,
        from: &AccountAddress,
        (name, namespace): (&str, &str),
        id: &str,
        out: &mut Out,
    ) {
        let mut inner = format!("<{name} xmlns='{namespace}'").into_bytes();
        put_attribute("id", Some(id), &mut inner);
        inner.extend_from_slice(b"/>");
        let head =
            StanzaReply { name: "message", from: Some(from.as_str()), to: self.jid(), id: None };
        head.open("chat", out.bytes());
        out.bytes().append(&mut inner);
        head.close(out.bytes());
        self.counts_sent(out);
    }
}
