//! How occupants are there (XEP-0045 7.7): a session's own presence, and that of others.
//!
//! Presence is separate from membership, and is passed on in groups that are not large. A room that
//! was entered keeps the presence it knows, so that an occupant whose role changes is shown again
//! with it. Invariant: of each occupant one show is kept, the last.

use super::occupants::Occupant;
use super::{RoomAsk, RoomWhat};
use crate::server::session::Session;
use crate::server::{Out, read_show};
use crate::xml::scan::Element;
use model::account::AccountAddress;
use model::chat::{
    ChatRequest, GroupLook, LookAtGroup, MemberShow, MemberShown, MemberStatus, STATUS_BYTES_MAX,
};
use model::counters::ChatCounter;
use std::sync::Arc;

/// The words that somebody is there with are too many.
#[derive(Debug)]
pub(super) struct StatusTooLong;

/// How a stanza says that somebody is there.
pub(super) fn shown(presence: &Element<'_, '_>) -> Result<MemberShow, StatusTooLong> {
    let (show, status) = read_show(presence);
    let is_long = status.len() > STATUS_BYTES_MAX;
    if is_long { Err(StatusTooLong) } else { Ok(MemberShow { show, status }) }
}

/// How occupants of a room are there, of those who have said so.
#[derive(Default)]
pub(super) struct Shows(Vec<(AccountAddress, Arc<MemberShow>)>);

impl Shows {
    /// Availability of these members.
    pub(super) fn of(all: &[MemberStatus]) -> Shows {
        let said = all.iter().filter_map(|it| Some((it.member.address.clone(), it.show.clone()?)));
        Shows(said.collect())
    }

    /// That of an occupant.
    pub(super) fn of_occupant(&self, account: &AccountAddress) -> Option<Arc<MemberShow>> {
        let mut all = self.0.iter();
        all.find(|(it, _)| it == account).map(|(_, show)| show.clone())
    }

    /// An occupant is there like this.
    pub(super) fn sees(&mut self, member: &MemberStatus) {
        let account = &member.member.address;
        self.forget(account);
        self.0.extend(member.show.iter().map(|show| (account.clone(), show.clone())));
    }

    /// Forgets an account that is no occupant any more, or sent no presence.
    pub(super) fn forget(&mut self, account: &AccountAddress) {
        self.0.retain(|(it, _)| it != account);
    }

    /// Memory, bytes, roughly: the texts are shared with all other readers.
    pub(super) fn weight(&self) -> usize {
        size_of_val(&*self.0)
    }
}

impl Session {
    /// Reports to the service that the device wants to be in a room, its presence there, or that it
    /// left.
    pub(super) fn looks_at(&self, room: &AccountAddress, look: GroupLook, out: &mut Out) {
        // Who is in a channel nobody is told.
        if !room.is_channel() {
            let (session, group) = (self.session, room.clone().into());
            out.say(ChatRequest::LookAtGroup(Box::new(LookAtGroup { session, group, look })));
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
            self.looks_at(room, GroupLook::Ends, out);
        }
    }

    /// An occupant is there otherwise: that is shown, if the room was entered.
    pub(in crate::server) fn write_shown(&mut self, shown: &MemberShown, out: &mut Out) {
        let Some(room) = self.room(&shown.group) else {
            return out.count(ChatCounter::TransientsDropped);
        };
        room.shows.sees(&shown.status);
        let is_own = shown.status.member.address.as_str() == self.account();
        let told = if is_own { "<status code='110'/>" } else { "" };
        self.write_occupant(Occupant::shown(shown), ("", told), out);
    }
}
