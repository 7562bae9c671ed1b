//! How occupants are there (XEP-0045 7.7), of those of other servers and for them.
//!
//! A device's presence goes to the home of its group as an errand of its account, at a pace;
//! presence from homes goes to each seat. Invariant: the last presence of a device is sent in the
//! end, while it has its seat.

use super::asking::Who;
use super::seats::Seat;
use super::telling::MISSED_MAX;
use super::{Asked, AskedWhat, RoomsAbroad};
use crate::server::rooms::occupants::Occupant;
use base::time::Now;
use model::account::AccountAddress;
use model::chat::MemberShow;
use model::chat::foreign::ShownWord;
use model::ports::chat::ErrandWhat;
use std::collections::HashSet;

impl RoomsAbroad {
    /// A device says how it is there.
    pub(super) fn says_show(
        &mut self,
        now: Now,
        who: Who,
        room: &AccountAddress,
        show: MemberShow,
    ) {
        let Some(it) = self.seats.room_mut(room) else { return };
        let mut seats = it.seats.iter_mut();
        let seat = seats.find(|seat| seat.account == who.0 && seat.device == who.1);
        if let Some(show) = seat.and_then(|seat| seat.pace.says(now, show)) {
            self.shows(now, who, room, Some(show));
        }
    }

    /// Sends the home of the group a device's presence; `None`: the device is gone.
    pub(super) fn shows(
        &mut self,
        now: Now,
        (account, device): Who,
        room: &AccountAddress,
        show: Option<MemberShow>,
    ) {
        let (room, what, since) = (room.clone(), AskedWhat::Show, now.mono);
        let errand = ErrandWhat::Show(room.clone().into(), show);
        let _ = self.ask(Asked { account, device, room, what, since }, errand); // counted if not
    }

    /// A device that said how it is there has left.
    pub(super) fn takes_show_back(&mut self, now: Now, room: &AccountAddress, seat: &Seat) {
        if seat.pace.has_said() {
            self.shows(now, (seat.account.clone(), seat.device.clone()), room, None);
        }
    }

    /// An occupant of a room is there otherwise.
    pub fn shown(&mut self, word: &ShownWord) {
        let room = &word.shown.group;
        if *room.domain() != *self.service {
            return;
        }
        for entrant in self.entering.get_mut(room).into_iter().flatten() {
            if entrant.missed_shows.len() < MISSED_MAX {
                entrant.missed_shows.push(word.clone());
            }
        }
        self.tells_show(word, None);
    }

    /// Sends each seat of the room the presence, or this one, while its account is a member.
    pub(super) fn tells_show(&mut self, word: &ShownWord, whom: Option<(&AccountAddress, &str)>) {
        let shown = &*word.shown;
        let members: HashSet<_> = word.to.iter().collect();
        let Some(it) = self.seats.room_mut(&shown.group) else { return };
        it.shows.sees(&shown.status);
        let is_meant = |seat: &&Seat| {
            let is_it = whom.is_none_or(|it| it == (&seat.account, &*seat.device));
            is_it && members.contains(&seat.account)
        };
        let all = it.seats.iter().filter(is_meant);
        let all: Vec<Who> = all.map(|seat| (seat.account.clone(), seat.device.clone())).collect();
        for who in &all {
            let is_own = shown.status.member.address == who.0;
            let told = if is_own { "<status code='110'/>" } else { "" };
            self.show(who, Occupant::shown(shown), ("", told));
        }
    }
}
