//! Events in rooms, for occupants of other servers: messages, arrivals and departures, changes of
//! roles.
//!
//! Invariant: of a room that was entered each message of the group behind its history is shown once
//! to each seat, and all news; a seat that misses one is out, and gets notice.

use super::asking::Who;
use super::seats::Seat;
use super::{Missed, RoomsAbroad};
use crate::render::room::{
    Invitation, RoomRendering, nick_in, put_configured, put_invitation, put_subject, write_in_room,
};
use crate::render::{self, full_jid};
use crate::server::rooms::changes::{is_of_settings, key_of};
use crate::server::rooms::news::{MISSED, MISSED_MAX};
use crate::server::rooms::occupants::Reader;
use crate::xml::text;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::foreign::RoomWord;
use model::chat::{ChatMessage, GroupChange, GroupVerb, RoomEvent, RoomNews};
use std::collections::HashSet;
use std::sync::Arc;

/// An address that is still to be filled in.
const NOBODY: &[u8] = b" to=''";

impl RoomsAbroad {
    /// Handles a message of a group, or a change of the group.
    pub fn said(&mut self, now: Now, word: &RoomWord) {
        let room = &word.message.to;
        // Rooms of one domain speak with other servers: what another one said would be a stanza in
        // a name that was shown to nobody.
        if *room.domain() != *self.service {
            return;
        }
        for entrant in self.entering.get_mut(room).into_iter().flatten() {
            if entrant.missed.len() <= MISSED_MAX {
                entrant.missed.push(Missed::Said(word.clone()));
            }
        }
        self.invites(word);
        self.tells(now, word, None);
    }

    /// Handles news of a room for these devices. One that is not in the room leaves it once more:
    /// that it left was lost.
    pub fn news(&mut self, now: Now, news: &Arc<RoomNews>, to: &[Who]) {
        let room = &news.group;
        if *room.domain() != *self.service {
            return;
        }
        for entrant in self.entering.get_mut(room).into_iter().flatten() {
            if entrant.missed.len() <= MISSED_MAX {
                entrant.missed.push(Missed::News(news.clone()));
            }
        }
        let to: HashSet<&Who> = to.iter().collect();
        let entrants =
            self.entering.get(room).into_iter().flatten().map(|it| (&it.who.0, &*it.who.1));
        let seats = self.seats.room(room).iter().map(|it| (&it.account, &*it.device));
        let here: HashSet<(&AccountAddress, &str)> = seats.chain(entrants).collect();
        let is_ghost = |who: &&&Who| !here.contains(&(&who.0, &*who.1));
        let ghosts: Vec<Who> = to.iter().filter(is_ghost).map(|who| (*who).clone()).collect();
        for who in ghosts {
            self.has_left(now, who, room);
        }
        self.tells_news(now, news, |who| to.contains(who));
    }

    /// Shows news to those seats of a room.
    pub(super) fn tells_news(
        &mut self,
        now: Now,
        news: &RoomNews,
        is_meant: impl Fn(&Who) -> bool,
    ) {
        let (room, number) = (&news.group, news.number);
        let has_missed = |seat: &Seat| {
            number > seat.last + 1 && is_meant(&(seat.account.clone(), seat.device.clone()))
        };
        for seat in self.seats.take_from(room, has_missed) {
            self.is_gone(now, room, seat, MISSED);
        }
        let mut all = Vec::new();
        let mut gone = Vec::new();
        for seat in self.seats.room_mut(room) {
            let who = (seat.account.clone(), seat.device.clone());
            if !is_meant(&who) || number > 0 && number <= seat.last {
                continue; // it was there already when the room was entered
            }
            seat.last = seat.last.max(number);
            let (full, nick) = (full_jid(&who.0, &who.1), seat.own.nick.clone());
            let reader = Reader { to: &full, account: &who.0, nick: &nick };
            let xml = reader.shown(room, &news.event, "");
            match &news.event {
                RoomEvent::Is(it, _) | RoomEvent::Renamed(_, it)
                    if reader.is_meant(&news.event) =>
                {
                    seat.own = it.clone();
                }
                RoomEvent::Gone(..) if reader.is_meant(&news.event) => gone.push(who.clone()),
                _ => {}
            }
            all.extend(xml.into_iter().map(|xml| (who.0.clone(), xml)));
        }
        for who in gone {
            self.seats.take_one(room, (&who.0, &who.1));
        }
        for (account, xml) in all {
            self.sends(&account, xml);
        }
    }

    /// Invites accounts that somebody added and that are not in the room (7.8.2).
    fn invites(&mut self, word: &RoomWord) {
        let message = &*word.message;
        let foreign: HashSet<_> = word.to.iter().collect();
        let changes = GroupChange::all_of(&message.content);
        for change in changes.iter().filter(|it| it.verb == GroupVerb::Add) {
            for member in change.members.iter().filter(|it| foreign.contains(&it.address)) {
                let (whom, id) = (&member.address, render::stanza_id(message));
                let mut xml = Vec::new();
                let invitation = Invitation {
                    room: &message.to,
                    by: &message.from,
                    why: change.reason(),
                    password: &key_of(&changes),
                };
                put_invitation(whom.as_str(), &invitation, (&id, ""), &mut xml);
                self.sends(whom, xml);
            }
        }
    }

    /// Shows what was said, or what happened, to each seat of the room, or to this one.
    pub(super) fn tells(
        &mut self,
        now: Now,
        word: &RoomWord,
        whom: Option<(&AccountAddress, &str)>,
    ) {
        let message = &*word.message;
        let room = &message.to;
        let is_meant = |seat: &Seat| whom.is_none_or(|it| it == (&seat.account, &*seat.device));
        // Places have no gaps: one that was skipped was lost on the way within this server.
        let has_missed = |seat: &Seat| seat.place > 0 && message.seq > seat.place + 1;
        let missed = self.seats.take_from(room, |seat| is_meant(seat) && has_missed(seat));
        for seat in missed {
            self.is_gone(now, room, seat, MISSED);
        }
        let mut all = Vec::new();
        for seat in self.seats.room_mut(room).iter_mut().filter(|seat| is_meant(seat)) {
            // Its history had this.
            if message.seq > seat.place {
                seat.place = message.seq;
                all.push((seat.account.clone(), seat.device.clone()));
            }
        }
        match GroupChange::all_of(&message.content) {
            changes if changes.is_empty() => self.says(message, &all),
            changes => self.happens(message, &changes, &all),
        }
    }

    /// Writes a message once and sends each seat a copy with its own address.
    fn says(&mut self, message: &ChatMessage, all: &[Who]) {
        let how = RoomRendering { to: Some(""), is_delayed: false, is_abroad: true };
        let mut shared = Vec::new();
        if all.is_empty() || !write_in_room(message, how, &mut shared) {
            return;
        }
        // Before that stands the sender alone, in whose address a quote is escaped.
        let Some(at) = shared.windows(NOBODY.len()).position(|it| it == NOBODY) else { return };
        let (head, tail) = shared.split_at(at + NOBODY.len() - 1);
        for who in all {
            let mut xml = Vec::with_capacity(shared.len() + 64);
            xml.extend_from_slice(head);
            text::put_value(&full_jid(&who.0, &who.1), &mut xml);
            xml.extend_from_slice(tail);
            self.sends(&who.0, xml);
        }
    }

    /// Handles changes of a group, which one message announces. Other news report who enters and
    /// leaves, and roles.
    fn happens(&mut self, message: &ChatMessage, changes: &[GroupChange], all: &[Who]) {
        let (room, by) = (&message.to, nick_in(message));
        if let Some(change) = changes.iter().find(|it| it.verb == GroupVerb::Rename) {
            self.put_for_each(all, |to, out| put_subject(to, (room, Some(by)), &change.title, out));
        }
        if changes.iter().any(is_of_settings) {
            // With its own result a device has seen that.
            let is_shown = |who: &Who| {
                let seat = self.seats.at(room, (&who.0, &who.1));
                seat.is_some_and(|it| it.configured == message.seq)
            };
            let all: Vec<Who> = all.iter().filter(|who| !is_shown(who)).cloned().collect();
            self.put_for_each(&all, |to, out| put_configured(to, room, out));
        }
    }

    fn put_for_each(&mut self, all: &[Who], put: impl Fn(&str, &mut Vec<u8>)) {
        for who in all {
            let mut xml = Vec::new();
            put(&full_jid(&who.0, &who.1), &mut xml);
            self.sends(&who.0, xml);
        }
    }
}
