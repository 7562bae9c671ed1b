//! Entries of the inbox from groups: of a room that was entered its stanzas, of another one an
//! invitation, if the account was added to it.
//!
//! Invariant: each message of a room that was entered is shown once, what its history had is not
//! shown again; whatever is shown, its place in the inbox is taken.

use super::occupants::{Gone, Occupant, Why};
use crate::render;
use crate::server::Out;
use crate::server::session::Session;
use crate::server::stream_management::resumption::Turn;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{ChatMessage, GroupChange, GroupMember, GroupRole, GroupVerb};
use model::timeline::Seq;

impl Session {
    /// Writes what the device is to see of a message of a group, at this place of its inbox.
    pub(in crate::server) fn write_of_room(
        &mut self,
        now: Now,
        (seq, message): (Seq, &ChatMessage),
        (waited, turn): (bool, Turn),
        out: &mut Out,
    ) {
        let before = out.bytes().len();
        let change = GroupChange::of(&message.content);
        let place = self.room(&message.to).map(|room| {
            let later = message.seq.max(room.place);
            std::mem::replace(&mut room.place, later)
        });
        match (place, change) {
            // Its history had this.
            (Some(place), _) if message.seq <= place && turn == Turn::First => {}
            (Some(_), Some(change)) => self.room_changes(now, message, &change, out),
            (Some(_), None) => {
                if self.put_in_room(message, waited, out.bytes()) {
                    return self.counts_placed(seq, out);
                }
            }
            (None, Some(change)) => self.is_invited(message, &change, (waited, out)),
            (None, None) => {}
        }
        if out.bytes().len() > before {
            self.expects_ack(seq);
        }
    }

    /// The account was added to a group by somebody else, or may become a member of it (7.8.2).
    fn is_invited(
        &mut self,
        message: &ChatMessage,
        change: &GroupChange,
        (waited, out): (bool, &mut Out),
    ) {
        let own = self.account();
        let is_named = change.members.iter().any(|it| it.address.as_str() == own);
        let is_meant = change.verb.makes_members() || change.verb == GroupVerb::Invite;
        if !is_meant || !is_named || message.from.as_str() == own {
            return;
        }
        let mut delay = Vec::new();
        if waited {
            render::put_delay(message, message.to.as_str(), &mut delay);
        }
        let (id, delay) = (render::stanza_id(message), String::from_utf8_lossy(&delay));
        let of = (&message.to, &message.from, change.reason());
        self.write_invitation(of, (&id, &delay), out);
    }

    /// Handles a change of a room that the session is in.
    fn room_changes(
        &mut self,
        now: Now,
        message: &ChatMessage,
        change: &GroupChange,
        out: &mut Out,
    ) {
        let (room, by) = (&message.to, &message.from);
        let why = Why::of(message, change);
        let role = match change.verb {
            GroupVerb::Create => return,
            GroupVerb::Rename => {
                let by = super::occupants::nick_of(room, by);
                return self.write_subject(room, (Some(by), &change.title), out);
            }
            GroupVerb::Close | GroupVerb::Open => {
                self.write_configured(room, out);
                return self.look_again(now, (message, change), out);
            }
            GroupVerb::Mute | GroupVerb::Unmute => {
                return self.look_again(now, (message, change), out);
            }
            GroupVerb::Describe
            | GroupVerb::Reveal
            | GroupVerb::Hide
            | GroupVerb::Persist
            | GroupVerb::Unpersist => return self.write_configured(room, out),
            GroupVerb::Lock | GroupVerb::Unlock => {
                if let Some(it) = self.room(room) {
                    it.is_unlocked = change.verb == GroupVerb::Unlock;
                }
                return self.write_configured(room, out);
            }
            // It is of nobody who is there.
            GroupVerb::Unban | GroupVerb::Invite => return,
            GroupVerb::Remove | GroupVerb::Leave | GroupVerb::Ban | GroupVerb::Dissolve => {
                return self.room_loses(message, change, out);
            }
            GroupVerb::Add | GroupVerb::Join | GroupVerb::Demote => GroupRole::Member,
            GroupVerb::Promote => GroupRole::Admin,
            GroupVerb::HandOver => {
                self.is_now(room, (by, GroupRole::Admin), why, out);
                GroupRole::Owner
            }
        };
        for GroupMember { address, .. } in &change.members {
            self.is_now(room, (address, role), why, out);
        }
    }

    /// A member has this role from now on, by somebody.
    fn is_now(
        &mut self,
        room: &AccountAddress,
        (account, role): (&AccountAddress, GroupRole),
        why: Why<'_>,
        out: &mut Out,
    ) {
        let is_own = account.as_str() == self.account();
        let Some(it) = self.room(room) else { return };
        if is_own {
            (it.role, it.is_muted) = (role, false);
        }
        let is_silent = it.is_closed && role == GroupRole::Member;
        let show = it.shows.of_occupant(account);
        let show = show.as_deref();
        let told = if is_own { "<status code='110'/>" } else { "" };
        let why = why.put((room, account));
        let occupant = Occupant { room, account, role, is_silent, show };
        self.write_occupant(occupant, (&why, told), out);
    }

    /// Members are members no more; perhaps this account, or all.
    fn room_loses(&mut self, message: &ChatMessage, change: &GroupChange, out: &mut Out) {
        let room = &message.to;
        let own = super::occupants::account_of(self.account(), self.domain());
        let is_unlocked = self.room(room).is_some_and(|it| it.is_unlocked);
        let how = Gone::of(message, change, is_unlocked);
        let is_all = change.verb == GroupVerb::Dissolve;
        let named = change.concerned().iter().map(|it| &it.address);
        let all = own.iter().filter(|_| is_all);
        for account in named.chain(all) {
            if let Some(it) = self.room(room) {
                it.shows.forget(account);
            }
            self.write_gone((room, account), how, out);
            if Some(account) == own.as_ref() {
                self.is_out_of(room, out);
            }
        }
    }

    /// Notes that nothing is shown of a room any more.
    fn is_out_of(&mut self, room: &AccountAddress, out: &mut Out) {
        let rooms = self.rooms();
        let before = rooms.entered.len();
        rooms.entered.retain(|it| it.address != *room);
        if rooms.entered.len() < before {
            self.looks_away(room, out);
        }
    }
}
