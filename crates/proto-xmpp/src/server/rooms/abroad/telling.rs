//! Deliveries to occupants of other servers, and to those who want to enter: answers of chat, a
//! room's present state, and notices that they are out.
//!
//! Invariant: each question is answered once; a device that has no seat any more gets notice, if it
//! can be reached.

use super::asking::Who;
use super::seats::{Seat, ShowPace};
use super::{Entrant, Missed, RoomsAbroad};
use crate::archive::{self, ArchiveQuery};
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::render::full_jid;
use crate::render::room::{RoomRendering, put_subject, write_in_room};
use crate::server::rooms::entering::Entering;
use crate::server::rooms::forms;
use crate::server::rooms::listing::{Glance, Looking};
use crate::server::rooms::news::{MISSED, MISSED_MAX};
use crate::server::rooms::occupants::Reader;
use crate::server::rooms::{RoomAsk, RoomWhat, disco, fault_of};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{
    ChatDelivery, ChatFault, Occupant, OccupantShow, RoomEntered, RoomEvent, RoomExit,
};

impl RoomsAbroad {
    /// Notes that a device begins to enter. One that left before the answer came begins anew, and
    /// the answers come in the order of the questions.
    pub(super) fn begins_to_enter(&mut self, room: &AccountAddress, who: &Who) {
        // The home gives it its seat anew.
        let was_leaving = self.leaves.remove(&(room.clone(), who.clone())).is_some();
        let (who, missed, is_left) = (who.clone(), Vec::new(), false);
        let entrants = self.entering.entry(room.clone()).or_default();
        entrants.push(Entrant { who, missed, is_left, was_leaving });
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
            (Some(_), RoomWhat::Relay(it)) if !it.is_question() => {}
            (Some(fault), RoomWhat::Rename(..)) => self.refuse(&who, "presence", about, fault),
            (Some(fault), _) => self.refuse(&who, stanza, about, fault),
            (None, RoomWhat::Look(Looking { walk, what })) => match what {
                Glance::Information => self.answers(&who, about, &disco::information(&walk)),
                Glance::Items => self.answers(&who, about, &disco::no_items()),
                Glance::Form => self.answers(&who, about, &forms::configuration(&walk)),
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
            let may_be_in = entering.entered.is_some() || entrant.was_leaving;
            if may_be_in && self.seats.at(&room, (&who.0, &who.1)).is_none() {
                self.has_left(now, who.clone(), &room);
            }
            if let Some(fault) = fault.filter(|_| !entrant.is_left) {
                self.refuse(&who, "presence", (id, to), fault);
            }
            return;
        }
        let full = full_jid(&who.0, &who.1);
        let how = RoomRendering { to: Some(&full), is_delayed: true, is_abroad: true };
        let history = entering.history(now.wall_ms, |it, out| write_in_room(it, how, out));
        let (place, entered) = (entering.place(), entering.entered(&who.0));
        let told = entering.told(&entered.own.nick);
        let RoomEntered { own, others, title, titled_by, last, .. } = entered;
        let mut all = Vec::new();
        let reader = Reader { to: &full, account: &who.0, nick: &own.nick };
        let mut put = |occupant: &Occupant, told: &str| {
            let mut xml = Vec::new();
            reader.put(&room, occupant, ("", told), &mut xml);
            all.push(xml);
        };
        others.iter().for_each(|occupant| put(occupant, ""));
        put(&own, &told);
        all.extend(history);
        let mut xml = Vec::new();
        put_subject(&full, (&room, titled_by.as_deref()), &title, &mut xml);
        all.push(xml);
        all.into_iter().for_each(|xml| self.sends(&who.0, xml));
        let (account, device) = who;
        let (configured, pace) = (0, ShowPace::default());
        let seat = Seat { account, device, own, last, place, configured, pace };
        let who = (seat.account.clone(), seat.device.clone());
        self.seats.put(&room, seat);
        for missed in entrant.missed {
            match missed {
                Missed::Said(word) => self.tells(now, &word, Some((&who.0, &who.1))),
                Missed::News(news) => {
                    self.tells_news(now, &news, |it| (&it.0, &it.1) == (&who.0, &who.1))
                }
            }
        }
    }

    /// A device says how it is there.
    pub(super) fn says_show(
        &mut self,
        now: Now,
        who: Who,
        room: &AccountAddress,
        show: OccupantShow,
    ) {
        let mut seats = self.seats.room_mut(room).iter_mut();
        let seat = seats.find(|seat| seat.account == who.0 && seat.device == who.1);
        if let Some(show) = seat.and_then(|seat| seat.pace.says(now, show)) {
            self.seat_says(now, who, room, show);
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
    }

    /// Empties a seat: its device gets notice, and the home of the group is told.
    pub(super) fn is_gone(&mut self, now: Now, room: &AccountAddress, seat: Seat, more: &str) {
        let full = full_jid(&seat.account, &seat.device);
        let reader = Reader { to: &full, account: &seat.account, nick: &seat.own.nick };
        let event = RoomEvent::Gone(seat.own.clone(), RoomExit::Left);
        for xml in reader.shown(room, &event, more) {
            self.sends(&seat.account, xml);
        }
        self.has_left(now, (seat.account, seat.device), room);
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
    }

    /// A domain is not reached: nobody of it is in a room any more.
    pub fn lost(&mut self, now: Now, domain: &str) {
        for (room, seat) in self.seats.take_domain(domain) {
            self.has_left(now, (seat.account, seat.device), &room);
        }
        for entrants in self.entering.values_mut() {
            let of_it = entrants.iter_mut().filter(|it| it.who.0.domain() == domain);
            of_it.for_each(|it| it.is_left = true);
        }
    }
}
