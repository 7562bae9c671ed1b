//! What is said to a room, and what is shown of what was said (XEP-0045 7.4, 7.8, 8.1).
//!
//! A message to a room is said to the group. It comes back by the inbox, as to everybody, with the
//! sender's id: the reflection says that it is stored. Invariant: what a room shows was said to its
//! group, with the server's id for it and by whom it was.

use super::administration::Ordering;
use super::occupants::{nick_of, occupant_id};
use super::{RoomAnswer, RoomAsk, RoomRequest, RoomWhat, Step, fault_of};
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::message::{amend, transient};
use crate::render::{self, KeptStanza, MUC_USER};
use crate::server::Out;
use crate::server::session::Session;
use crate::stanza::{kind, put_attribute};
use crate::xml::scan::Element;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{ChatFault, ChatMessage, GroupVerb, HistoryPage, HistoryRange};
use model::timeline::Seq;

/// Most people that one stanza invites.
const INVITED_MAX: usize = 64;

/// A message that was sent once more is reflected once more.
pub(super) struct Reflecting {
    room: AccountAddress,
    /// Its place in the conversation.
    seq: Seq,
}

impl Reflecting {
    pub(super) fn request(&self) -> RoomRequest {
        let (with, from) = (self.room.clone().into(), self.seq.saturating_sub(1));
        RoomRequest::History(HistoryRange { with, from, backwards: false, count: 1 })
    }

    pub(super) fn take(&mut self, answer: RoomAnswer<'_>) -> Step {
        match answer {
            RoomAnswer::History(_) => Step::Done,
            RoomAnswer::Failed(why) => Step::Refused(fault_of(why)),
            _ => Step::Refused(StanzaFault::ResourceConstraint),
        }
    }
}

impl Session {
    /// A message for a room, or for somebody in it.
    pub(in crate::server) fn message_to_room(
        &mut self,
        now: Now,
        (jid, about): (&Jid, (Option<&str>, Option<&str>)),
        message: &Element<'_, '_>,
        out: &mut Out,
    ) {
        let is_for_all = kind(message) == "groupchat";
        let fault = match (&jid.account, &jid.resource) {
            (Some(room), None) if !is_for_all => {
                return self.mediates(now, (room, about), message, out);
            }
            (Some(room), None) if self.room(room).is_some() => {
                return self.says_in(now, (room, about), message, out);
            }
            _ => super::refuse_place(jid, is_for_all),
        };
        self.refuse_here("message", about, fault, out);
    }

    /// Something is said to all, or the room is called otherwise.
    fn says_in(
        &mut self,
        now: Now,
        (room, about): (&AccountAddress, (Option<&str>, Option<&str>)),
        message: &Element<'_, '_>,
        out: &mut Out,
    ) {
        if self.says_receipt(room, message, out) {
            return;
        }
        if let Some(title) = super::subject_alone(message) {
            let order = Ordering::verb(room.clone(), GroupVerb::Rename, title);
            return self.order_room(now, ("message", about), order, out);
        }
        if self.amends(now, (room.clone(), about), message, out) {
            // It is answered as a message is.
        } else if let Some(told) = transient::told(message) {
            self.tells(room.clone(), told, out);
        } else if let Some(said) = render::said(message) {
            self.says(now, (room.clone(), about), (message, said), out);
        }
    }

    /// An invitation is sent through the room (7.8.2), or declined.
    fn mediates(
        &mut self,
        now: Now,
        (room, about): (&AccountAddress, (Option<&str>, Option<&str>)),
        message: &Element<'_, '_>,
        out: &mut Out,
    ) {
        let Some(x) = message.child("x", MUC_USER) else {
            return self.refuse_here("message", about, StanzaFault::ServiceUnavailable, out);
        };
        if x.child("decline", MUC_USER).is_some() {
            // Whoever was invited is a member, until it goes.
            let order = Ordering::verb(room.clone(), GroupVerb::Leave, "".into());
            return self.order_room(now, ("message", about), order, out);
        }
        let invites: Vec<_> = x.children().filter(|it| it.is("invite", MUC_USER)).collect();
        if !(1..=INVITED_MAX).contains(&invites.len()) {
            let is_none = invites.is_empty();
            let many = StanzaFault::PolicyViolation;
            let fault = if is_none { StanzaFault::BadRequest } else { many };
            return self.refuse_here("message", about, fault, out);
        }
        let mut invited = Vec::with_capacity(invites.len());
        for invite in invites {
            let jid = invite.attribute("to").as_deref().and_then(Jid::parse);
            match jid.and_then(|jid| jid.account).filter(|account| !account.is_group()) {
                Some(account) => invited.push(account.into()),
                None => {
                    return self.refuse_here("message", about, StanzaFault::JidMalformed, out);
                }
            }
        }
        let order = Ordering::add(room.clone(), invited);
        self.order_room(now, ("message", about), order, out);
    }

    /// Puts an order for a group into the line of questions.
    pub(super) fn order_room(
        &mut self,
        now: Now,
        (stanza, (id, to)): (&'static str, (Option<&str>, Option<&str>)),
        order: Ordering,
        out: &mut Out,
    ) {
        let (id, to) = (id.map(Box::from), to.unwrap_or_default().into());
        let place = self.received().filter(|_| stanza == "message");
        let what = RoomWhat::Order(order);
        self.ask_room(now, RoomAsk { stanza, id, to, what, place }, out);
    }

    /// The message with this number was stored before, at this place of its conversation: if that
    /// is a room's, and was shown beyond it, nothing else would reflect it.
    pub(in crate::server) fn was_said(
        &mut self,
        now: Now,
        (number, seq): (u32, Seq),
        out: &mut Out,
    ) {
        let sending = self.busy().sends.iter().find(|it| it.number == number);
        let to = sending.and_then(|it| it.to.as_deref());
        let room = to.and_then(Jid::parse).and_then(|jid| jid.account);
        let Some(room) = room.filter(AccountAddress::is_group) else { return };
        if self.room(&room).is_some_and(|it| seq <= it.place) {
            let to = room.as_str().into();
            let what = RoomWhat::Reflect(Reflecting { room, seq });
            self.ask_room(now, RoomAsk { stanza: "message", id: None, to, what, place: None }, out);
        }
    }

    /// The message was read again.
    pub(super) fn reflect(&mut self, which: &Reflecting, page: &HistoryPage, out: &mut Out) {
        let message = page.messages.iter().find(|it| it.seq == which.seq);
        let is_in = self.room(&which.room).is_some();
        if let Some(message) = message.filter(|_| is_in)
            && self.put_in_room(message, true, out.bytes())
        {
            self.counts_sent(out);
        }
    }

    /// Why something was not said to a room.
    pub(in crate::server) fn fault_in_room(why: ChatFault) -> StanzaFault {
        fault_of(why)
    }

    /// Appends a message of a group as a stanza of its room. False: it says nothing that is shown.
    pub(super) fn put_in_room(
        &self,
        message: &ChatMessage,
        is_delayed: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        let room = &message.to;
        let kept = KeptStanza::of(&message.content);
        // What happened to the group is shown by itself, and no part of what was said.
        // A subject without a text would be taken for the room's (8.1), which is the title.
        let is_hidden = message.content.is_reserved() || kept.is_subject(message);
        if is_hidden && !amend::is_one(&message.content) {
            return false;
        }
        let begin = out.len();
        self.open_in_room(message, &kept, out);
        if !kept.put_said(message, out) {
            out.truncate(begin);
            return false;
        }
        render::put_stanza_id(message, room.as_str(), out);
        out.extend_from_slice(occupant_id(&message.from).as_bytes());
        if is_delayed {
            render::put_delay(message, room.as_str(), out);
        }
        out.extend_from_slice(b"</message>");
        true
    }

    /// Writes the start tag of what somebody said in a room.
    pub(super) fn open_in_room(
        &self,
        message: &ChatMessage,
        kept: &KeptStanza<'_>,
        out: &mut Vec<u8>,
    ) {
        let room = &message.to;
        out.extend_from_slice(b"<message xmlns='jabber:client'");
        put_attribute("from", Some(&format!("{room}/{}", nick_of(room, &message.from))), out);
        put_attribute("to", Some(self.jid()), out);
        put_attribute("type", Some("groupchat"), out);
        kept.put_attributes(message, out);
        out.push(b'>');
    }
}
