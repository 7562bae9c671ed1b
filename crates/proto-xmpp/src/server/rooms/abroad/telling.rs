//! Deliveries to occupants of other servers, and to those who want to enter: answers of chat, a
//! room's present state, and notices that they are out.
//!
//! Invariant: each question is answered once; a device that has no seat any more gets notice, if it
//! can be reached.

use super::asking::Who;
use super::seats::{Seat, ShowPace};
use super::{Entrant, RoomsAbroad};
use crate::archive::{self, ArchiveQuery};
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::render::full_jid;
use crate::render::room::{OccupantItem, RoomRendering, put_occupant, put_subject, write_in_room};
use crate::server::rooms::administration::Ordering;
use crate::server::rooms::entering::Entering;
use crate::server::rooms::forms;
use crate::server::rooms::listing::{Glance, Looking};
use crate::server::rooms::occupants::{Gone, Occupant, Refreshing, nick_of};
use crate::server::rooms::{RoomAsk, RoomWhat, disco, fault_of};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{ChatDelivery, ChatFault, GroupRole};

/// Words of a room that somebody may miss while it enters. With more it gets the answer to try
/// again.
pub(super) const MISSED_MAX: usize = 256;

/// Status of who is out of a room since something did not reach it (XEP-0045 17.3).
pub(super) const MISSED: &str = "<status code='333'/>";

impl RoomsAbroad {
    /// Notes that a device begins to enter. Returns false if it is entering already. A device that
    /// left before the answer came begins anew, and the answers come in the order of the questions.
    pub(super) fn begins_to_enter(&mut self, room: &AccountAddress, who: &Who) -> bool {
        let entrants = self.entering.entry(room.clone()).or_default();
        let is_new = !entrants.iter().any(|it| it.who == *who && !it.is_left);
        if is_new {
            let (missed, missed_shows) = (Vec::new(), Vec::new());
            entrants.push(Entrant { who: who.clone(), missed, missed_shows, is_left: false });
        }
        is_new
    }

    fn ends_to_enter(&mut self, room: &AccountAddress, who: &Who) -> Option<Entrant> {
        let entrants = self.entering.get_mut(room)?;
        let at = entrants.iter().position(|it| it.who == *who)?;
        let entrant = entrants.remove(at);
        if entrants.is_empty() {
            self.entering.remove(room);
        }
        Some(entrant)
    }

    /// Whether somebody has a seat in a room, or is about to.
    pub(super) fn is_about(&self, room: &AccountAddress, account: &AccountAddress) -> bool {
        let mut entrants = self.entering.get(room).into_iter().flatten();
        entrants.any(|it| it.who.0 == *account && !it.is_left)
            || self.seats.has_account(room, account)
    }

    /// A question about a room has its answer.
    pub(super) fn room_done(
        &mut self,
        now: Now,
        (who, room): (Who, AccountAddress),
        ask: RoomAsk,
        fault: Option<StanzaFault>,
    ) {
        let RoomAsk { stanza, id, to, what, .. } = ask;
        let about = (id.as_deref(), &*to);
        match (fault, what) {
            (fault, RoomWhat::Enter(entering)) => {
                self.enters(now, (who, room), *entering, (about, fault));
            }
            // It was asked for all of them.
            (None, RoomWhat::Refresh(refreshing)) => self.refreshed(&room, &refreshing),
            (Some(_), RoomWhat::Refresh(_)) => {}
            (Some(fault), _) => self.refuse(&who, stanza, about, fault),
            (None, RoomWhat::Look(Looking { walk, what })) => match what {
                Glance::Information => self.answers(&who, about, &disco::information(&walk)),
                Glance::Form => self.answers(&who, about, &forms::configuration(&walk)),
                Glance::Configure(wanted) => match Ordering::configure(&walk, wanted) {
                    Some(order) => {
                        let (id, to) = (id.clone(), to.clone());
                        let what = RoomWhat::Order(order);
                        let ask = RoomAsk { stanza: "iq", id, to, what, place: None };
                        self.ask_room(now, (who, room), ask);
                    }
                    None => self.answers(&who, about, ""),
                },
            },
            (None, RoomWhat::Items(items)) => self.answers(&who, about, &items.result()),
            (None, RoomWhat::List(listing)) => self.answers(&who, about, &listing.result()),
            (None, RoomWhat::Order(_) | RoomWhat::Moderate(_)) if stanza == "iq" => {
                self.answers(&who, about, "");
            }
            (None, _) => {}
        }
    }

    /// Finishes entering: writes the room's present state, in the order of 7.1, or the fault.
    fn enters(
        &mut self,
        now: Now,
        (who, room): (Who, AccountAddress),
        entering: Entering,
        ((id, to), fault): ((Option<&str>, &str), Option<StanzaFault>),
    ) {
        let Some(entrant) = self.ends_to_enter(&room, &who) else { return };
        let is_over = entrant.missed.len() > MISSED_MAX;
        let fault = fault.or(is_over.then_some(StanzaFault::ResourceConstraint));
        if fault.is_some() || entrant.is_left {
            self.seats.is_missed(&room);
            if entering.has_joined && !self.is_about(&room, &who.0) {
                self.departs(&room, &who.0);
            }
            if let Some(fault) = fault.filter(|_| !entrant.is_left) {
                self.refuse(&who, "presence", (id, to), fault);
            }
            return;
        }
        let full = full_jid(&who.0, &who.1);
        let how = RoomRendering { to: Some(&full), is_delayed: true, is_abroad: true };
        let history = entering.history(now.wall_ms, |it, out| write_in_room(it, how, out));
        let place = entering.place();
        let Entering { walk, nick, has_joined, show, .. } = entering;
        let mut told = "<status code='100'/><status code='110'/>".to_owned();
        if *nick != *nick_of(&room, &who.0) {
            told.push_str("<status code='210'/>");
        }
        let (mut role, mut is_muted) = (GroupRole::Member, false);
        let (own, others): (Vec<_>, Vec<_>) =
            walk.found.iter().partition(|it| it.member.address == who.0);
        for member in others {
            self.show(&who, Occupant::of(&walk, member), ("", ""));
        }
        for member in own {
            (role, is_muted) = (member.role, member.muted);
            self.show(&who, Occupant::of(&walk, member), ("", &told));
        }
        history.into_iter().for_each(|xml| self.sends(&who.0, xml));
        let mut xml = Vec::new();
        put_subject(&full, (&room, None), &walk.title, &mut xml);
        self.sends(&who.0, xml);
        let mut before = self.seats.room(&room).into_iter().flat_map(|it| &it.seats);
        let was_guest = before.any(|it| it.account == who.0 && it.is_guest);
        let (account, device) = who;
        let is_guest = has_joined || was_guest;
        let pace = ShowPace::default();
        let seat = Seat { account, device, role, is_muted, is_guest, place, pace };
        self.seats.put(&room, seat.clone(), (walk.is_closed, walk.is_unlocked));
        if let Some(it) = self.seats.room_mut(&room) {
            walk.found.iter().for_each(|member| it.shows.sees(member));
        }
        for word in entrant.missed {
            self.tells(now, &word, Some((&seat.account, &seat.device)));
        }
        for word in entrant.missed_shows {
            self.tells_show(&word, Some((&seat.account, &seat.device)));
        }
        if !show.is_plain() {
            self.says_show(now, (seat.account, seat.device), &room, show);
        }
    }

    /// Shows an occupant to somebody; who has made that of it and why, and statuses, are XML.
    pub(super) fn show(&mut self, who: &Who, occupant: Occupant<'_>, of: (&str, &str)) {
        let full = full_jid(&who.0, &who.1);
        let Occupant { room, account, role, show, .. } = occupant;
        let jid = if *account == who.0 { full.as_str() } else { account.as_str() };
        let (kind, affiliation, role) = ("", role.word(), occupant.role());
        let item = OccupantItem { room, account, jid, kind, affiliation, role, show };
        let mut xml = Vec::new();
        put_occupant(&full, item, of, &mut xml);
        self.sends(&who.0, xml);
    }

    /// Shows all seats who may speak, as the group says.
    fn refreshed(&mut self, room: &AccountAddress, refreshing: &Refreshing) {
        let walk = &refreshing.walk;
        let Some(it) = self.seats.room_mut(room) else { return };
        (it.is_closed, it.is_unlocked) = (walk.is_closed, walk.is_unlocked);
        walk.found.iter().for_each(|member| it.shows.sees(member));
        for seat in &mut it.seats {
            let own = walk.found.iter().find(|it| it.member.address == seat.account);
            seat.is_muted = own.map_or(seat.is_muted, |it| it.muted);
        }
        let all: Vec<Who> =
            it.seats.iter().map(|seat| (seat.account.clone(), seat.device.clone())).collect();
        // Where it is about all, each hears what it is itself: all of all would be too much for the
        // way to its server.
        let is_of_all = refreshing.is_of_all();
        for who in all {
            for member in &walk.found {
                let is_own = member.member.address == who.0;
                let told = if is_own { "<status code='110'/>" } else { "" };
                if is_own || !is_of_all {
                    let why = refreshing.why(&member.member.address);
                    self.show(&who, Occupant::of(walk, member), (&why, told));
                }
            }
        }
    }

    /// A part of a room's archive was read, or not.
    pub(super) fn archive_answered(
        &mut self,
        who: &Who,
        (room, id): (&AccountAddress, Option<Box<str>>),
        query: ArchiveQuery,
        told: &ChatDelivery,
    ) {
        let about = (id.as_deref(), room.as_str());
        let page = match told {
            ChatDelivery::Archive(page) => page,
            ChatDelivery::Failed { why, .. } => {
                let fault = match why {
                    ChatFault::NotMember => StanzaFault::Forbidden,
                    why => fault_of(*why),
                };
                return self.refuse(who, "iq", about, fault);
            }
            _ => return self.refuse(who, "iq", about, StanzaFault::ResourceConstraint),
        };
        let backwards = query.range.as_ref().is_some_and(|range| range.backwards);
        let fin = archive::fin(page, backwards);
        let mut messages: Vec<_> = page.messages.iter().filter(|it| query.has(it)).collect();
        if query.flips {
            messages.reverse();
        }
        let full = full_jid(&who.0, &who.1);
        let how = RoomRendering { to: None, is_delayed: false, is_abroad: false };
        for message in messages {
            let (mut stanza, mut xml) = (Vec::new(), Vec::new());
            if write_in_room(message, how, &mut stanza) {
                let whose = (room.as_str(), full.as_str());
                let said = (&**message, &*stanza);
                archive::put_result(said, whose, query.query_id.as_deref(), &mut xml);
                self.sends(&who.0, xml);
            }
        }
        self.answers(who, about, &fin);
    }

    /// Shows somebody that an occupant is one no more.
    pub(super) fn show_gone(
        &mut self,
        who: &Who,
        (room, account): (&AccountAddress, &AccountAddress),
        how: Gone<'_>,
        more: &str,
    ) {
        let (affiliation, why, told) = how.told((room, account));
        let full = full_jid(&who.0, &who.1);
        let is_own = *account == who.0;
        let jid = if is_own { full.as_str() } else { account.as_str() };
        let own = if is_own { "<status code='110'/>" } else { "" };
        let (kind, role, show) = ("unavailable", "none", None);
        let item = OccupantItem { room, account, jid, kind, affiliation, role, show };
        let mut xml = Vec::new();
        put_occupant(&full, item, (&why, &format!("{told}{more}{own}")), &mut xml);
        self.sends(&who.0, xml);
    }

    /// A device leaves a room, or was about to enter it (7.14).
    pub(super) fn leaves(&mut self, now: Now, from: &Jid, to: &Jid) {
        let (Some(account), Some(device), Some(room)) =
            (&from.account, &from.resource, &to.account)
        else {
            return;
        };
        for entrant in self.entering.get_mut(room).into_iter().flatten() {
            entrant.is_left |= entrant.who.0 == *account && entrant.who.1 == *device;
        }
        if let Some(seat) = self.seats.take_one(room, (account, device)) {
            self.is_gone(now, room, seat, "");
        }
        self.takes_guests_out(now);
    }

    /// Empties a seat: its device gets notice, and a guest with no other one is no member more.
    pub(super) fn is_gone(&mut self, now: Now, room: &AccountAddress, seat: Seat, more: &str) {
        self.takes_show_back(now, room, &seat);
        let who = (seat.account, seat.device);
        self.show_gone(&who, (room, &who.0), Gone::Away(seat.role), more);
        if seat.is_guest && !self.is_about(room, &who.0) {
            self.departs(room, &who.0);
        }
    }

    /// An error came from somebody's server, or from the way there: it did not get what it was
    /// sent, so it is in the room no more.
    pub(super) fn failed(&mut self, now: Now, from: &Jid, to: &Jid) {
        let (Some(account), Some(room)) = (&from.account, &to.account) else { return };
        let is_it = |seat: &Seat| {
            let is_device = from.resource.as_ref().is_none_or(|it| *it == seat.device);
            seat.account == *account && is_device
        };
        for seat in self.seats.take_from(room, is_it) {
            self.is_gone(now, room, seat, MISSED);
        }
    }

    /// A stanza did not get to its domain. It is one that was sent from here.
    pub fn bounced(&mut self, now: Now, xml: &[u8]) {
        let Ok(scan) = crate::xml::scan::Scan::of_peer(xml) else { return };
        let address = |name: &str| scan.root().attribute(name).and_then(|it| Jid::parse(&it));
        if let (Some(from), Some(to)) = (address("from"), address("to")) {
            self.failed(now, &from, &to);
        }
        self.takes_guests_out(now);
    }

    /// A domain is not reached: nobody of it is in a room any more.
    pub fn lost(&mut self, now: Now, domain: &str) {
        for (room, seat) in self.seats.take_domain(domain) {
            self.takes_show_back(now, &room, &seat);
            if seat.is_guest && !self.is_about(&room, &seat.account) {
                self.departs(&room, &seat.account);
            }
        }
        for entrants in self.entering.values_mut() {
            let of_it = entrants.iter_mut().filter(|it| it.who.0.domain() == domain);
            of_it.for_each(|it| it.is_left = true);
        }
        self.takes_guests_out(now);
    }
}
