//! News of rooms that were entered: occupants come, change and go; and messages for devices whose
//! accounts have no inbox with the group.
//!
//! ```text
//! RoomNews ─► being entered: kept ─► shown behind the history
//!          └► in it: the next number? ─► shown, or kept while nobody looks (XEP-0352)
//!          Said: the next place? ─► shown
//!                       └ no ─► Catching: the conversation is read from the last place on
//! ```
//! Invariant: news are shown once, in their order; a device that has missed some is out of the room
//! and told so (333). Each message behind the history is shown once, in the order of the
//! conversation.

use super::occupants::Reader;
use super::{MUC, OccupancyAsk, RoomAnswer, RoomAsk, RoomRequest, RoomWhat, Step, fault_of};
use crate::fault::StanzaFault;
use crate::render::is_forged;
use crate::server::session::Session;
use crate::server::{Out, read_show};
use crate::xml::scan::{CLIENT, Element, Scan};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{
    ChatMessage, ChatRequest, GroupChange, HistoryPage, HistoryRange, OCCUPANT_EXTRA_BYTES_MAX,
    OccupancyRequest, OccupantShow, RoomEvent, RoomExit, RoomNews, STATUS_BYTES_MAX,
};
use model::counters::ChatCounter;
use model::timeline::Seq;
use std::sync::Arc;

/// News of a room that are kept for a device that is entering it. With more it gets the answer to
/// try again.
pub(super) const MISSED_MAX: usize = 256;

/// Status of who is out of a room since something did not reach it (XEP-0045 17.3).
pub(super) const MISSED: &str = "<status code='333'/>";

/// Messages that are read at once by a device that has missed some.
const CAUGHT_MAX: u16 = 50;

/// The words that somebody is there with are too many.
#[derive(Debug)]
pub(super) struct StatusTooLong;

/// Hats (XEP-0317), which a room gives, and no occupant itself.
const HATS: [&str; 2] = ["urn:xmpp:hats:0", "http://prosody.im/protocol/hats:1"];

/// The presence that a stanza shows, and whether elements are left out because they are more than
/// an occupant may have.
pub(super) fn shown(presence: &Element<'_, '_>) -> Result<(OccupantShow, bool), StatusTooLong> {
    let (show, status) = read_show(presence);
    if status.len() > STATUS_BYTES_MAX {
        return Err(StatusTooLong);
    }
    let is_passed_on = |child: &Element<'_, '_>| {
        let of = child.namespace();
        let is_ours = of == CLIENT || of == MUC || HATS.contains(&of) || is_forged(child);
        !is_ours && !child.has_prefix() && Scan::alone(child.whole()).is_ok()
    };
    let mut extra = String::new();
    for child in presence.children().filter(is_passed_on) {
        extra.push_str(child.whole());
    }
    let is_long = extra.len() > OCCUPANT_EXTRA_BYTES_MAX;
    let extra = Some(extra).filter(|it| !is_long && !it.is_empty());
    let extra = extra.map(|it| Arc::new(it.into_boxed_str()));
    Ok((OccupantShow { show, status, extra }, is_long))
}

/// Messages of a room are read that did not come.
pub(super) struct Catching {
    pub(super) room: AccountAddress,
    /// The last place that was shown.
    pub(super) from: Seq,
}

impl Catching {
    pub(super) fn request(&self) -> RoomRequest {
        let (with, from) = (self.room.clone().into(), self.from);
        RoomRequest::History(HistoryRange { with, from, backwards: false, count: CAUGHT_MAX })
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
    /// Tells the service how the device is in a room, or that it leaves.
    pub(super) fn says_in_room(&self, room: &AccountAddress, ask: OccupancyAsk, out: &mut Out) {
        // Who is in a channel nobody is told.
        if !room.is_channel() {
            let (session, group, number) = (self.session, room.clone().into(), 0);
            let asked = OccupancyRequest { session, number, group, ask };
            out.say(ChatRequest::Room(Box::new(asked)));
        }
    }

    /// Reports that the device is not in a room, unless it is entering it again.
    pub(super) fn looks_away(&mut self, room: &AccountAddress, out: &mut Out) {
        let is_entering = |ask: &RoomAsk| match &ask.what {
            RoomWhat::Enter(entering) => entering.walk.room == *room && !entering.is_left,
            _ => false,
        };
        let rooms = self.rooms();
        if rooms.at(room).is_none() && !rooms.asks.iter().any(is_entering) {
            self.says_in_room(room, OccupancyAsk::Leave, out);
        }
    }

    /// The service has news of a room.
    pub(in crate::server) fn room_news(&mut self, now: Now, news: Arc<RoomNews>, out: &mut Out) {
        for ask in &mut self.rooms().asks {
            if let RoomWhat::Enter(entering) = &mut ask.what
                && entering.walk.room == news.group
            {
                entering.misses(&news);
            }
        }
        self.in_room(now, news, out);
    }

    /// Shows news of a room that the device is in.
    pub(super) fn in_room(&mut self, now: Now, news: Arc<RoomNews>, out: &mut Out) {
        let account = self.own_address();
        let (Some(room), Some(account)) = (self.room(&news.group), account) else {
            return out.count(ChatCounter::TransientsDropped);
        };
        if let RoomEvent::Said(message) = &news.event {
            return self.said_in_room(now, message, out);
        }
        if news.number > 0 {
            if news.number <= room.last {
                return; // it was there already when the room was entered
            }
            if news.number > room.last + 1 {
                return self.loses_room(&news.group, out);
            }
            room.last = news.number;
        }
        let nick = room.own.nick.clone();
        let is_own = Reader { to: "", account: &account, nick: &nick }.is_meant(&news.event);
        if !is_own {
            room.new = None;
        }
        let waits = !matches!(news.event, RoomEvent::Whispered(..) | RoomEvent::Relayed(..));
        if !is_own && waits && self.has(Session::INACTIVE) {
            return self.keeps_news(news, out);
        }
        self.tells_kept(out);
        self.write_news(&news, out);
    }

    /// Writes news of a room that the device is in.
    pub(in crate::server) fn write_news(&mut self, news: &RoomNews, out: &mut Out) {
        let account = self.own_address();
        let (Some(room), Some(account)) = (self.room(&news.group), account) else { return };
        let own = room.own.clone();
        let is_own = Reader { to: "", account: &account, nick: &own.nick }.is_meant(&news.event);
        if let (true, RoomEvent::Is(it, _) | RoomEvent::Renamed(_, it)) = (is_own, &news.event) {
            room.own = it.clone();
        }
        let reader = Reader { to: self.jid(), account: &account, nick: &own.nick };
        for stanza in reader.shown(&news.group, &news.event, "") {
            out.bytes().extend_from_slice(&stanza);
            self.counts_sent(out);
        }
        if is_own && matches!(news.event, RoomEvent::Gone(..)) {
            self.rooms().entered.retain(|it| it.address != news.group);
        }
    }

    /// The device has missed news of a room: it is out of it, and told so.
    fn loses_room(&mut self, room: &AccountAddress, out: &mut Out) {
        self.write_left(room, MISSED, out);
        self.forgets_kept(room);
        self.rooms().entered.retain(|it| it.address != *room);
        self.looks_away(room, out);
    }

    /// Shows the device that it has left a room.
    pub(super) fn write_left(&mut self, room: &AccountAddress, more: &str, out: &mut Out) {
        let account = self.own_address();
        let (Some(it), Some(account)) = (self.room(room), account) else { return };
        let own = it.own.clone();
        let reader = Reader { to: self.jid(), account: &account, nick: &own.nick };
        let event = RoomEvent::Gone(own.clone(), RoomExit::Left);
        for stanza in reader.shown(room, &event, more) {
            out.bytes().extend_from_slice(&stanza);
            self.counts_sent(out);
        }
    }

    /// A message of a room has come for the device itself.
    fn said_in_room(&mut self, now: Now, message: &ChatMessage, out: &mut Out) {
        let Some(room) = self.room(&message.to) else { return };
        let (place, is_catching) = (room.place, room.behind > room.place);
        if message.seq <= place {
            return;
        }
        room.behind = room.behind.max(message.seq);
        if is_catching {
            return; // it is read with what is before it
        }
        if place > 0 && message.seq > place + 1 {
            return self.catches_up(now, &message.to, out);
        }
        self.shows_said(message, false, out);
    }

    fn shows_said(&mut self, message: &ChatMessage, is_late: bool, out: &mut Out) {
        let Some(room) = self.room(&message.to).filter(|it| it.place < message.seq) else { return };
        room.place = message.seq;
        room.behind = room.behind.max(message.seq);
        let changes = GroupChange::all_of(&message.content);
        if !changes.is_empty() {
            self.room_changes(message, &changes, out);
        } else if self.put_in_room(message, is_late, out.bytes()) {
            self.counts_sent(out);
        }
    }

    /// Reads messages of a room that did not come.
    fn catches_up(&mut self, now: Now, room: &AccountAddress, out: &mut Out) {
        let Some(it) = self.room(room) else { return };
        let what = RoomWhat::Catch(Catching { room: room.clone(), from: it.place });
        let to = room.as_str().into();
        self.ask_room(now, RoomAsk { stanza: "message", id: None, to, what, place: None }, out);
    }

    /// Messages of a room were read that did not come; none: they cannot be read.
    pub(super) fn caught(
        &mut self,
        now: Now,
        catching: &Catching,
        page: Option<&HistoryPage>,
        out: &mut Out,
    ) {
        let messages = page.map_or(&[][..], |page| &page.messages);
        for message in messages {
            self.shows_said(message, true, out);
        }
        let Some(room) = self.room(&catching.room) else { return };
        if room.behind <= room.place {
            return;
        }
        if messages.is_empty() {
            return self.loses_room(&catching.room, out);
        }
        self.catches_up(now, &catching.room, out);
    }
}
