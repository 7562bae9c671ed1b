//! Chatrooms as rooms of XMPP (XEP-0045), at `live.` before the domain.
//!
//! ```text
//! presence ─► Join ─► oneself, what was said last, the subject      message ─► Send ─► Said ─► all
//! ```
//! Of who is there nothing is shown but oneself: a room of ten thousand would be nothing else (7.1
//! leaves presence to the room). A message is for devices that are in it now, has no stanza-id and
//! is in no archive. A device that does not read is not sent messages, and gets their number, by a
//! message of the room itself. Invariant: of each message that the service hands over either a
//! stanza goes out or the service hears that none did.

use super::entering::Wished;
use super::{MUC, refuse_place};
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::render::room::{RoomRendering, open_in_room};
use crate::render::{self, MUC_USER};
use crate::server::Out;
use crate::server::session::Session;
use crate::stanza::{ID_BYTES_MAX, StanzaReply, kind};
use crate::xml::scan::Element;
use crate::xml::text::escaped;
use base::time::Now;
use model::account::{AccountAddress, Addressee};
use model::chat::{
    CHATROOM_SERVICE, ChatFault, ChatMessage, ChatRequest, ChatroomAsk, ChatroomJoined,
    ChatroomMessage, ChatroomMissed, ChatroomNews, ChatroomOrder, ChatroomOut, ChatroomRequest,
    ChatroomState, ChatroomVerb, ChatroomWhat, GroupRole, RoomRole,
};
use model::counters::ChatCounter;
use model::timeline::TimelineId;
use std::sync::Arc;

/// A chatroom that a session is in.
pub(super) struct LiveRoom {
    address: AccountAddress,
    role: GroupRole,
    pub(super) state: Arc<ChatroomState>,
}

/// Request of a session to a chatroom.
pub(super) struct LiveAsk {
    number: u32,
    /// The name of the stanza that asks, its id, and to whom it is.
    stanza: &'static str,
    id: Option<Box<str>>,
    to: Box<str>,
    /// For a device that is entering: the name it wants there, and the part of the history.
    enters: Option<(Box<str>, Wished)>,
}

impl Session {
    /// Whether somebody is a chatroom, in one, or the service that has them.
    pub(in crate::server) fn is_live(&self, jid: &Jid) -> bool {
        self.is_at(jid, CHATROOM_SERVICE)
    }

    pub(super) fn live(&mut self, room: &AccountAddress) -> Option<&mut LiveRoom> {
        let rooms = self.busy.as_mut()?.rooms.as_mut()?;
        rooms.live.iter_mut().find(|it| it.address == *room)
    }

    fn ask_live(&mut self, ask: LiveAsk, what: ChatroomAsk, out: &mut Out) {
        let (session, number) = (self.session, ask.number);
        self.rooms().live_asks.push(ask);
        let request = ChatroomRequest { session, number, ask: what };
        out.say(ChatRequest::Chatroom(Box::new(request)));
    }

    fn live_ask(
        &mut self,
        stanza: &'static str,
        (id, to): (Option<&str>, Option<&str>),
    ) -> LiveAsk {
        let number = self.numbers(1);
        let (id, to) = (id.map(Box::from), to.unwrap_or_default().into());
        LiveAsk { number, stanza, id, to, enters: None }
    }

    /// Presence for a chatroom, or for somebody in it (7.2, 7.14).
    pub(in crate::server) fn presence_in_live(
        &mut self,
        jid: &Jid,
        presence: &Element<'_, '_>,
        out: &mut Out,
    ) {
        let (id, to) = (presence.attribute("id"), presence.attribute("to"));
        let about = (id.as_deref().filter(|id| id.len() <= ID_BYTES_MAX), to.as_deref());
        let is_leaving = kind(presence) == "unavailable";
        let Some(room) = &jid.account else {
            if !is_leaving {
                self.live_makes_no_sense(about, StanzaFault::JidMalformed, out);
            }
            return;
        };
        if is_leaving {
            return self.leaves_live(room, out);
        }
        let Some(nick) = &jid.resource else {
            return self.live_makes_no_sense(about, StanzaFault::JidMalformed, out);
        };
        if presence.child("x", MUC).is_none() {
            let is_own = **nick == *self.own_nick(room);
            if self.live(room).is_none() || !is_own {
                self.live_makes_no_sense(about, StanzaFault::NotAcceptable, out);
            }
            return;
        }
        if !self.has(Session::AVAILABLE) {
            return self.live_makes_no_sense(about, StanzaFault::UnexpectedRequest, out);
        }
        let wished = Wished::of(presence);
        let (room, history) = (room.clone().into(), wished.stanzas());
        let mut ask = self.live_ask("presence", about);
        ask.enters = Some((nick.clone(), wished));
        self.ask_live(ask, ChatroomAsk::Join { room, history }, out);
    }

    fn live_makes_no_sense(
        &mut self,
        about: (Option<&str>, Option<&str>),
        fault: StanzaFault,
        out: &mut Out,
    ) {
        out.count(ChatCounter::Invalid);
        self.refuse_entry(about, fault, out);
    }

    /// The session is in a chatroom: oneself, what was said, the subject, in this order (7.1).
    pub(in crate::server) fn live_joined(
        &mut self,
        now: Now,
        joined: &ChatroomJoined,
        out: &mut Out,
    ) {
        let Some(ask) = self.take_live(joined.number) else { return };
        let room = joined.room.clone();
        let own = self.own_nick(&room);
        let Some((nick, wished)) = ask.enters else {
            // It has left before it was in.
            let ask = self.live_ask("presence", (None, Some(room.as_str())));
            return self.ask_live(ask, ChatroomAsk::Leave(room.into()), out);
        };
        let renamed = if *nick == *own { "" } else { "<status code='210'/>" };
        let told = format!("<status code='100'/><status code='110'/>{renamed}");
        let is_silent = (joined.muted || joined.state.quiet) && joined.role == GroupRole::Member;
        let role = role_in_room(joined.role, is_silent);
        self.write_live_self(&room, ("", (affiliation(joined.role), role)), &told, out);
        for said in &joined.history {
            if wished.wants(now.wall_ms, &said.message)
                && self.put_live(&said.message, true, out.bytes())
            {
                self.counts_sent(out);
            }
        }
        let state = joined.state.clone();
        self.write_subject(&room, (None, &subject_of(&state)), out);
        let new = LiveRoom { address: room.clone(), role: joined.role, state };
        match self.live(&room) {
            Some(it) => *it = new,
            None => self.rooms().live.push(new),
        }
        self.pay_ack(out);
        self.releases(out);
    }

    fn take_live(&mut self, number: u32) -> Option<LiveAsk> {
        let rooms = self.busy.as_mut()?.rooms.as_mut()?;
        let at = rooms.live_asks.iter().position(|ask| ask.number == number)?;
        Some(rooms.live_asks.remove(at))
    }

    /// Handles the result of a request to a chatroom. False: the request was not about one.
    pub(in crate::server) fn live_done(
        &mut self,
        number: u32,
        why: Option<ChatFault>,
        out: &mut Out,
    ) -> bool {
        let Some(ask) = self.take_live(number) else { return false };
        let about = (ask.id.as_deref(), Some(&*ask.to));
        match why.map(super::fault_of) {
            None if ask.stanza == "iq" => self.answers(about, "", out),
            None => {}
            Some(fault) if ask.enters.is_some() => self.refuse_entry(about, fault, out),
            // It is not there any more, which is what it wanted.
            Some(_) if ask.stanza == "presence" => {}
            Some(fault) => self.refuse(ask.stanza, about, fault, out),
        }
        self.pay_ack(out);
        self.releases(out);
        true
    }

    /// The session leaves a chatroom.
    fn leaves_live(&mut self, room: &AccountAddress, out: &mut Out) {
        let Some(rooms) = self.busy.as_mut().and_then(|busy| busy.rooms.as_mut()) else { return };
        let is_of_it =
            |ask: &&mut LiveAsk| ask.to.split('/').next().is_some_and(|bare| bare == room.as_str());
        rooms.live_asks.iter_mut().filter(is_of_it).for_each(|ask| ask.enters = None);
        let Some(at) = rooms.live.iter().position(|it| it.address == *room) else { return };
        let LiveRoom { role, .. } = rooms.live.remove(at);
        let item = ("unavailable", (affiliation(role), "none"));
        self.write_live_self(room, item, "<status code='110'/>", out);
        let ask = self.live_ask("presence", (None, Some(room.as_str())));
        self.ask_live(ask, ChatroomAsk::Leave(room.clone().into()), out);
    }

    /// The session is not there any more: it leaves all of them.
    pub(super) fn leaves_all_live(&mut self, out: &mut Out) {
        let rooms = self.busy.as_ref().and_then(|busy| busy.rooms.as_ref());
        let all = rooms
            .map_or(Vec::new(), |rooms| rooms.live.iter().map(|it| it.address.clone()).collect());
        all.iter().for_each(|room| self.leaves_live(room, out));
    }

    /// A message for a chatroom, or for somebody in it (7.4, 8.1).
    pub(in crate::server) fn message_to_live(
        &mut self,
        now: Now,
        (jid, about): (&Jid, (Option<&str>, Option<&str>)),
        message: &Element<'_, '_>,
        out: &mut Out,
    ) {
        let is_for_all = kind(message) == "groupchat";
        let room = jid.account.clone().filter(|_| is_for_all && jid.resource.is_none());
        let is_in = room.as_ref().is_some_and(|room| self.live(room).is_some());
        let Some(room) = room.filter(|_| is_in) else {
            return self.refuse_here("message", about, refuse_place(jid, is_for_all), out);
        };
        if let Some(text) = super::subject_alone(message) {
            let what = (room, ChatroomVerb::Announce, text, Vec::new());
            return self.orders_live("message", about, what, out);
        }
        match render::said(message) {
            Some(said) => self.sends(now, (room, about), said, out),
            // Nothing that is kept nowhere is told in a chatroom.
            None => self.refuse_here("message", about, StanzaFault::NotAcceptable, out),
        }
    }

    /// An order for a chatroom: what is done, with which text, and to whom.
    pub(super) fn orders_live(
        &mut self,
        stanza: &'static str,
        about: (Option<&str>, Option<&str>),
        (room, verb, text, accounts): (AccountAddress, ChatroomVerb, Box<str>, Vec<Addressee>),
        out: &mut Out,
    ) {
        let (room, keeps, durable) = (room.into(), 0, false);
        let order = ChatroomOrder { room, verb, text, accounts, keeps, durable };
        let ask = self.live_ask(stanza, about);
        self.ask_live(ask, ChatroomAsk::Order(order), out);
    }

    /// Writes a message of a chatroom.
    pub(in crate::server) fn live_said(&mut self, said: &ChatroomMessage, out: &mut Out) {
        let most = out.backlog_max() / if said.important { 1 } else { 2 };
        if out.backlog() > most {
            return self.live_skips((said.timeline, 1, false), out);
        }
        if self.put_live(&said.message, false, out.bytes()) {
            self.counts_sent(out);
        }
    }

    fn live_skips(&self, (room, missed, again): (TimelineId, u32, bool), out: &mut Out) {
        let session = self.session;
        out.say(ChatRequest::ChatroomMissed { session, room, missed, again });
    }

    /// The device was not sent messages of a chatroom: the room says how many.
    pub(in crate::server) fn live_missed(&mut self, missed: &ChatroomMissed, out: &mut Out) {
        if out.backlog() > out.backlog_max() / 2 {
            return self.live_skips((missed.timeline, missed.missed, true), out);
        }
        let from = Some(missed.room.as_str());
        let head = StanzaReply { name: "message", from, to: self.jid(), id: None };
        let body = format!("<body>{} messages were left out.</body>", missed.missed);
        head.put("groupchat", &body, out.bytes());
        self.counts_sent(out);
    }

    /// A chatroom is otherwise, or the session is in it no more.
    pub(in crate::server) fn live_news(&mut self, news: &ChatroomNews, out: &mut Out) {
        match &news.what {
            ChatroomWhat::State(_) if out.backlog() > out.backlog_max() / 2 => {
                self.live_skips((news.timeline, 0, true), out);
            }
            ChatroomWhat::State(state) => {
                let Some(room) = self.live(&news.room) else { return };
                let before = std::mem::replace(&mut room.state, state.clone());
                let subject = subject_of(state);
                if subject_of(&before) != subject {
                    self.write_subject(&news.room, (None, &subject), out);
                }
            }
            ChatroomWhat::Out(why) => self.live_out(&news.room, *why, out),
        }
    }

    /// Writes that the session was removed from a chatroom (9.1, 8.2, 10.9).
    fn live_out(&mut self, room: &AccountAddress, why: ChatroomOut, out: &mut Out) {
        let Some(rooms) = self.busy.as_mut().and_then(|busy| busy.rooms.as_mut()) else { return };
        rooms.live.retain(|it| it.address != *room);
        let (affiliation, told) = match why {
            ChatroomOut::Kicked => ("none", "<status code='307'/>"),
            ChatroomOut::Banned => ("outcast", "<status code='301'/>"),
            ChatroomOut::Closed => ("none", "<destroy/>"),
        };
        let told = format!("{told}<status code='110'/>");
        self.write_live_self(room, ("unavailable", (affiliation, "none")), &told, out);
    }

    fn write_live_self(
        &mut self,
        room: &AccountAddress,
        (kind, (affiliation, role)): (&str, (&str, &str)),
        told: &str,
        out: &mut Out,
    ) {
        let from = format!("{room}/{}", self.own_nick(room));
        let jid = escaped(self.jid());
        let head = StanzaReply { name: "presence", from: Some(&from), to: self.jid(), id: None };
        let inner = format!(
            "<x xmlns='{MUC_USER}'><item affiliation='{affiliation}' role='{role}' jid='{jid}'/>\
             {told}</x>"
        );
        head.put(kind, &inner, out.bytes());
        self.counts_sent(out);
    }

    /// Appends what was said as a stanza of the room. False: it says nothing that is shown.
    fn put_live(&self, message: &ChatMessage, is_delayed: bool, out: &mut Vec<u8>) -> bool {
        let room = &message.to;
        let kept = render::KeptStanza::of(&message.content);
        if !kept.says(&message.content) || kept.is_subject(message) {
            return false;
        }
        let how = RoomRendering { to: Some(self.jid()), is_delayed, is_abroad: false };
        open_in_room(message, &kept, how, out);
        kept.put_content(&message.content, out);
        if is_delayed {
            render::put_delay(message, room.as_str(), out);
        }
        out.extend_from_slice(b"</message>");
        true
    }
}

fn affiliation(role: GroupRole) -> &'static str {
    match role {
        GroupRole::Member => "none",
        role => role.word(),
    }
}

/// Subject of a room: the announcement, or else the title.
fn subject_of(state: &ChatroomState) -> Box<str> {
    match state.announcement.is_empty() {
        true => state.title.clone(),
        false => state.announcement.clone(),
    }
}

/// The role of who has this one in a chatroom (5.1).
const fn role_in_room(role: GroupRole, is_silent: bool) -> &'static str {
    match role {
        GroupRole::Owner | GroupRole::Admin => RoomRole::Moderator.word(),
        GroupRole::Member if is_silent => RoomRole::Visitor.word(),
        GroupRole::Member => RoomRole::Participant.word(),
    }
}
