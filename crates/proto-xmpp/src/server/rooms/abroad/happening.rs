//! Events in rooms, for occupants of other servers: messages, arrivals and departures, changes of
//! roles.
//!
//! Invariant: of a room that was entered each message of the group behind its history is shown once
//! to each seat, while its account is a member; a seat that misses one is out, and gets notice.

use super::RoomsAbroad;
use super::asking::Who;
use super::seats::Seat;
use super::telling::{MISSED, MISSED_MAX};
use crate::render::room::{
    RoomRendering, put_configured, put_invitation, put_subject, write_in_room,
};
use crate::render::{self, full_jid};
use crate::server::rooms::occupants::{Gone, Occupant, Refreshing, Why, nick_of};
use crate::server::rooms::{RoomAsk, RoomWhat};
use crate::xml::text;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::foreign::RoomWord;
use model::chat::{ChatMessage, GroupChange, GroupRole, GroupVerb};
use std::collections::HashSet;

/// An address that is still to be filled in.
const NOBODY: &[u8] = b" to=''";

/// Guests who are found not to be there that one word takes out.
const GHOSTS_MAX: usize = 16;

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
                entrant.missed.push(word.clone());
            }
        }
        self.invites(word);
        self.tells(now, word, None);
        // Of a guest who is not there this server has forgotten that it was, in a start.
        let ghosts = word.guests.iter().filter(|it| !self.is_about(room, it));
        let ghosts: Vec<AccountAddress> = ghosts.take(GHOSTS_MAX).cloned().collect();
        ghosts.iter().for_each(|account| self.departs(room, account));
        self.takes_guests_out(now);
    }

    /// Invites accounts that somebody added and that are not in the room (7.8.2).
    fn invites(&mut self, word: &RoomWord) {
        let message = &*word.message;
        let change = GroupChange::of(&message.content);
        let Some(change) = change.filter(|it| it.verb == GroupVerb::Add) else { return };
        let foreign: HashSet<_> = word.to.iter().collect();
        for member in change.members.iter().filter(|it| foreign.contains(&it.address)) {
            let (whom, id) = (&member.address, render::stanza_id(message));
            let mut xml = Vec::new();
            let of = (&message.to, &message.from, change.reason());
            put_invitation(whom.as_str(), of, (&id, ""), &mut xml);
            self.sends(whom, xml);
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
        let members: HashSet<_> = word.to.iter().collect();
        let Some(it) = self.seats.room_mut(room) else { return };
        it.is_unlocked = word.unlocked;
        let is_meant = |seat: &Seat| whom.is_none_or(|it| it == (&seat.account, &*seat.device));
        // Places have no gaps: one that was skipped was lost on the way within this server.
        let has_missed = |seat: &Seat| seat.place > 0 && message.seq > seat.place + 1;
        let missed = self.seats.take_from(room, |seat| is_meant(seat) && has_missed(seat));
        for seat in missed {
            self.is_gone(now, room, seat, MISSED);
        }
        let Some(it) = self.seats.room_mut(room) else { return };
        let mut all = Vec::new();
        for seat in it.seats.iter_mut().filter(|seat| is_meant(seat)) {
            // Its history had this; or it was a member until now, and heard of that.
            if message.seq > seat.place && members.contains(&seat.account) {
                seat.place = message.seq;
                all.push((seat.account.clone(), seat.device.clone()));
            }
        }
        match GroupChange::of(&message.content) {
            Some(change) => self.happens(now, message, &change, &all),
            None => self.says(message, &all),
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

    /// Handles a change of a group.
    fn happens(&mut self, now: Now, message: &ChatMessage, change: &GroupChange, all: &[Who]) {
        let (room, by, why) = (&message.to, &message.from, Why::of(message, change));
        let role = match change.verb {
            GroupVerb::Create | GroupVerb::Unban | GroupVerb::Invite => return,
            GroupVerb::Rename => {
                let by = Some(nick_of(room, by));
                return self
                    .put_for_each(all, |to, out| put_subject(to, (room, by), &change.title, out));
            }
            GroupVerb::Describe
            | GroupVerb::Lock
            | GroupVerb::Unlock
            | GroupVerb::Reveal
            | GroupVerb::Hide
            | GroupVerb::Persist
            | GroupVerb::Unpersist => {
                return self.put_for_each(all, |to, out| put_configured(to, room, out));
            }
            GroupVerb::Close | GroupVerb::Open => {
                self.put_for_each(all, |to, out| put_configured(to, room, out));
                return self.look_again(now, message, change);
            }
            GroupVerb::Mute | GroupVerb::Unmute => {
                return self.look_again(now, message, change);
            }
            GroupVerb::Remove | GroupVerb::Leave | GroupVerb::Ban | GroupVerb::Dissolve => {
                return self.loses(message, change, all);
            }
            GroupVerb::Add | GroupVerb::Join | GroupVerb::Demote => GroupRole::Member,
            GroupVerb::Promote => GroupRole::Admin,
            GroupVerb::HandOver => {
                self.is_now(room, (by, GroupRole::Admin), why, all);
                GroupRole::Owner
            }
        };
        for member in &change.members {
            self.is_now(room, (&member.address, role), why, all);
        }
    }

    fn put_for_each(&mut self, all: &[Who], put: impl Fn(&str, &mut Vec<u8>)) {
        for who in all {
            let mut xml = Vec::new();
            put(&full_jid(&who.0, &who.1), &mut xml);
            self.sends(&who.0, xml);
        }
    }

    /// A member has this role from now on, by somebody.
    fn is_now(
        &mut self,
        room: &AccountAddress,
        (account, role): (&AccountAddress, GroupRole),
        why: Why<'_>,
        all: &[Who],
    ) {
        let Some(it) = self.seats.room_mut(room) else { return };
        let is_silent = it.is_closed && role == GroupRole::Member;
        it.seats.iter_mut().filter(|seat| seat.account == *account).for_each(|seat| {
            (seat.role, seat.is_muted) = (role, false);
            seat.is_guest &= role == GroupRole::Member;
        });
        let show = it.shows.of_occupant(account);
        let why = why.put((room, account));
        let occupant = Occupant { room, account, role, is_silent, show: show.as_deref() };
        for who in all {
            let told = if who.0 == *account { "<status code='110'/>" } else { "" };
            self.show(who, occupant, (&why, told));
        }
    }

    /// Reads from the group who may speak, and shows it; of all members if nobody is named.
    fn look_again(&mut self, now: Now, message: &ChatMessage, change: &GroupChange) {
        let room = &message.to;
        let seat = self.seats.room(room).and_then(|it| it.seats.first());
        let Some(who) = seat.map(|seat| (seat.account.clone(), seat.device.clone())) else {
            return;
        };
        let what = RoomWhat::Refresh(Refreshing::after(message, change));
        let to = room.as_str().into();
        let ask = RoomAsk { stanza: "presence", id: None, to, what, place: None };
        self.ask_room(now, (who, room.clone()), ask);
    }

    /// Members are members no more; perhaps some of these, or all.
    fn loses(&mut self, message: &ChatMessage, change: &GroupChange, all: &[Who]) {
        let room = &message.to;
        let is_unlocked = self.seats.room(room).is_some_and(|it| it.is_unlocked);
        let how = Gone::of(message, change, is_unlocked);
        let is_all = change.verb == GroupVerb::Dissolve;
        let named = change.concerned();
        if let Some(it) = self.seats.room_mut(room) {
            named.iter().for_each(|member| it.shows.forget(&member.address));
        }
        let is_out =
            |account: &AccountAddress| is_all || named.iter().any(|it| it.address == *account);
        for who in all {
            let others = named.iter().map(|it| &it.address).filter(|it| **it != who.0);
            let own = is_out(&who.0).then_some(&who.0);
            for account in others.chain(own) {
                self.show_gone(who, (room, account), how, "");
            }
        }
        self.seats.take_from(room, |seat| is_out(&seat.account));
    }
}
