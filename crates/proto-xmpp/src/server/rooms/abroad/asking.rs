//! Stanzas from other servers for rooms: presence, messages and questions of devices that are in
//! them, or want to be.
//!
//! A stanza is of the domain that it says: that was shown. Invariant: each that wants an answer has
//! one, here or when chat has answered.

use super::{Asked, AskedWhat, RoomsAbroad, device_of};
use crate::archive::{self, ArchiveQuery};
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::message::transient;
use crate::render::{self, MUC_USER, full_jid};
use crate::server::archive::is_asked;
use crate::server::iq::PING;
use crate::server::rooms::administration::Ordering;
use crate::server::rooms::disco::{Reply, asks_room, asks_service};
use crate::server::rooms::entering::Entering;
use crate::server::rooms::news::shown;
use crate::server::rooms::relay::Relaying;
use crate::server::rooms::talk::{Whisper, mediated};
use crate::server::rooms::{MUC, RoomAsk, RoomWhat, fault_of, subject_alone};
use crate::stanza::{ID_BYTES_MAX, StanzaReply, kind};
use crate::xml::scan::{Element, Scan};
use base::time::Now;
use model::account::{AccountAddress, Addressee};
use model::chat::{ChatFault, DEVICE_NAME_BYTES_MAX, GroupVerb, NewMessage, nick_of};
use model::ports::chat::ErrandWhat;

/// Device of an account.
pub(super) type Who = (AccountAddress, Box<str>);

impl RoomsAbroad {
    /// A stanza of another server is for a room, or for the service that has them.
    pub fn takes(&mut self, now: Now, xml: &[u8]) {
        let Ok(scan) = Scan::of_peer(xml) else { return };
        let stanza = scan.root();
        let address = |name: &str| stanza.attribute(name).and_then(|text| Jid::parse(&text));
        let (Some(from), Some(to)) = (address("from"), address("to")) else {
            return self.cannot(&stanza, StanzaFault::JidMalformed); // of a name that none has here
        };
        if stanza.attribute("id").is_some_and(|id| id.len() > ID_BYTES_MAX) {
            return self.cannot(&stanza, StanzaFault::BadRequest);
        }
        // What is written for a device has its name in it.
        let is_device = |who: &Who| who.1.len() <= DEVICE_NAME_BYTES_MAX && !who.0.is_group();
        match (stanza.name(), &*kind(&stanza)) {
            ("presence", "error") => self.failed(now, &from, &to),
            ("message", "error") => self.failed(now, &from, &to),
            ("iq", "error" | "result") => self.answers_occupant(now, from, &to, &stanza),
            ("presence", "unavailable") => self.leaves(now, &from, &to),
            ("presence", "") => match (device_of(from).filter(is_device), to) {
                (Some(who), Jid { account: Some(room), resource: Some(nick), .. }) => {
                    self.presence(now, who, (&room, &nick), &stanza);
                }
                // Neither the service nor a room without a name in it is entered (7.2.1).
                _ => self.cannot(&stanza, StanzaFault::JidMalformed),
            },
            ("presence", _) => {}
            ("message", kind) => match (device_of(from).filter(is_device), to.account.clone()) {
                (Some(who), Some(room)) => {
                    let is_for_all = kind == "groupchat";
                    self.message(now, who, (&room, to.resource.as_deref(), is_for_all), &stanza);
                }
                _ => self.cannot(&stanza, StanzaFault::ServiceUnavailable),
            },
            ("iq", "get" | "set") => self.question(now, from, &to, &stanza),
            _ => self.cannot(&stanza, StanzaFault::BadRequest),
        }
    }

    /// A stanza is refused here: it makes no sense whatever the group is, which is counted, or
    /// there is too much.
    pub(super) fn cannot(&mut self, stanza: &Element<'_, '_>, fault: StanzaFault) {
        self.refused.invalid += u64::from(fault != StanzaFault::ResourceConstraint);
        let mut xml = Vec::new();
        let domain = stanza.attribute("from").and_then(|from| crate::jid::domain_of(&from));
        if let Some(domain) = domain
            && crate::peer::stanzas::refuse(stanza, fault, &mut xml)
        {
            let xml = xml.into();
            self.out.push(super::AbroadWord::Stanza { domain, xml });
        }
    }

    /// Handles presence from a device that enters a room, or that changes its availability there
    /// (7.2, 7.6).
    fn presence(
        &mut self,
        now: Now,
        who: Who,
        (room, nick): (&AccountAddress, &str),
        stanza: &Element<'_, '_>,
    ) {
        let own = self.seats.at(room, (&who.0, &who.1)).map(|it| it.own.nick.clone());
        let is_in = own.is_some();
        let Ok((show, is_long)) = shown(stanza) else {
            return self.cannot(stanza, StanzaFault::PolicyViolation);
        };
        self.refused.dropped += u64::from(is_long);
        if stanza.child("x", MUC).is_none() {
            match own {
                None => self.cannot(stanza, StanzaFault::NotAcceptable),
                Some(own) if *own == *nick => self.says_show(now, who, room, show),
                // Another name is wanted (7.6).
                Some(_) => {
                    let mut seats = self.seats.room_mut(room).iter_mut();
                    let seat = seats.find(|it| it.account == who.0 && it.device == who.1);
                    if seat.is_some_and(|it| !it.pace.moves(now)) {
                        return self.cannot(stanza, fault_of(ChatFault::RateLimited));
                    }
                    let what = RoomWhat::Rename(Box::new(room.clone()), nick.into());
                    self.asks(now, (who, room.clone()), ("presence", stanza), what);
                }
            }
            return;
        }
        let domain = who.0.domain();
        let entering = self.entering.values().map(Vec::len).sum::<usize>();
        let of_domain =
            |all: &Vec<super::Entrant>| all.iter().filter(|it| it.who.0.domain() == domain).count();
        let of_domain = self.entering.values().map(of_domain).sum::<usize>();
        let limits = &self.limits;
        let is_full = self.seats.len() + entering >= limits.occupants_max as usize
            || self.seats.of_domain(domain) + of_domain >= limits.occupants_a_domain_max as usize;
        if is_full && !is_in {
            self.refused.dropped += 1;
            return self.cannot(stanza, StanzaFault::ResourceConstraint);
        }
        let is_entering = |it: &super::Entrant| it.who == who && !it.is_left;
        if self.entering.get(room).is_some_and(|all| all.iter().any(is_entering)) {
            return; // it is about to be in
        }
        if !self.may_enter_now(now, room, &who.0) {
            self.refused.dropped += 1;
            return self.cannot(stanza, fault_of(ChatFault::RateLimited));
        }
        self.begins_to_enter(room, &who);
        let entering = Entering::new(room, nick, (stanza, show), None);
        let what = RoomWhat::Enter(Box::new(entering));
        self.asks(now, (who, room.clone()), ("presence", stanza), what);
    }

    /// A question about a room begins.
    pub(super) fn asks(
        &mut self,
        now: Now,
        about: (Who, AccountAddress),
        (name, stanza): (&'static str, &Element<'_, '_>),
        what: RoomWhat,
    ) {
        let id = stanza.attribute("id").map(|id| id.as_ref().into());
        let to = stanza.attribute("to").unwrap_or_default().as_ref().into();
        self.ask_room(now, about, RoomAsk { stanza: name, id, to, what, place: None });
    }

    /// Handles a message to a room, or to an occupant (7.4, 7.5, 7.8, 8.1).
    fn message(
        &mut self,
        now: Now,
        who: Who,
        (room, nick, is_for_all): (&AccountAddress, Option<&str>, bool),
        stanza: &Element<'_, '_>,
    ) {
        let own = self.seats.at(room, (&who.0, &who.1)).map(|it| it.own.nick.clone());
        match (nick, is_for_all) {
            (Some(_), true) => return self.cannot(stanza, StanzaFault::BadRequest),
            (None, false) => return self.mediates(now, who, room, stanza),
            _ if own.is_none() => return self.cannot(stanza, StanzaFault::NotAcceptable),
            _ => {}
        }
        if let Some(title) = subject_alone(stanza).filter(|_| is_for_all) {
            let what = RoomWhat::Order(Ordering::verb(room.clone(), GroupVerb::Rename, title));
            return self.asks(now, (who, room.clone()), ("message", stanza), what);
        }
        if let Some(nick) = nick {
            if let Some(whisper) = Whisper::of(room, nick, stanza) {
                let what = RoomWhat::Whisper(Box::new(whisper));
                self.asks(now, (who, room.clone()), ("message", stanza), what);
            }
            return;
        }
        // That somebody types passes rooms of one server alone.
        let said = render::said(stanza).filter(|_| transient::told(stanza).is_none());
        let Some(said) = said else { return };
        let client_id = said.client_id.unwrap_or_else(|| self.made_up());
        let mut new =
            NewMessage { to: Addressee::from(room.clone()), client_id, content: said.content };
        let id = stanza.attribute("id").map(|id| id.as_ref().into());
        let whom = stanza.attribute("to").unwrap_or_default().as_ref().into();
        let ((account, device), room) = (who, room.clone());
        new.content.nick = own.filter(|own| **own != *nick_of(&room, &account));
        let (what, errand) = (AskedWhat::Say(id, whom), ErrandWhat::Send(Box::new(new)));
        if !self.ask(Asked { account, device, room, what, since: now.mono }, errand) {
            self.cannot(stanza, StanzaFault::ResourceConstraint);
        }
    }

    /// An invitation that is declined, or sent through the room (7.8.2); or it is about voice.
    fn mediates(&mut self, now: Now, who: Who, room: &AccountAddress, stanza: &Element<'_, '_>) {
        let Some(x) = stanza.child("x", MUC_USER) else {
            return self.says_of_voice(now, who, room, stanza);
        };
        let order = match mediated(room, &x) {
            Ok(order) => order,
            Err(fault) => return self.cannot(stanza, fault),
        };
        let what = RoomWhat::Order(order);
        self.asks(now, (who, room.clone()), ("message", stanza), what);
    }

    /// A question for the service, a room, or somebody in it (6, XEP-0313, XEP-0410).
    fn question(&mut self, now: Now, from: Jid, to: &Jid, iq: &Element<'_, '_>) {
        let mut children = iq.children();
        let (Some(asked), None) = (children.next(), children.next()) else {
            return self.cannot(iq, StanzaFault::BadRequest);
        };
        let is_set = *kind(iq) == *"set";
        let reply = match (&to.account, &to.resource) {
            // Of an account of another server there is no list of the rooms that it is in.
            (None, None) => asks_service(&asked, is_set, (&to.domain, false)),
            (Some(room), None) => match device_of(from.clone()) {
                Some(who) if is_asked(&asked) && is_set => {
                    return self.asks_archive(now, (who, room), (iq, &asked));
                }
                Some(_) if asked.is("query", archive::MAM) => Ok(Reply::Now(archive::form())),
                _ => asks_room(from.account.as_ref(), room, &asked, is_set),
            },
            (Some(room), Some(nick)) => {
                let who = device_of(from.clone());
                let who = who.filter(|it| self.seats.at(room, (&it.0, &it.1)).is_some());
                let own = who.as_ref().and_then(|it| self.seats.at(room, (&it.0, &it.1)));
                let is_own = own.is_some_and(|it| it.own.nick == *nick);
                match (who, asked.is("ping", PING) && !is_set && is_own) {
                    (None, _) => Err(StanzaFault::NotAcceptable),
                    (Some(_), true) => Ok(Reply::Now(String::new())),
                    (Some(_), false) => {
                        let relaying = Relaying::asks((room, nick), iq);
                        relaying.map(|it| Reply::Ask(RoomWhat::Relay(Box::new(it.by_device()))))
                    }
                }
            }
            (None, Some(_)) => Err(StanzaFault::ServiceUnavailable),
        };
        match (reply, device_of(from.clone()), &to.account) {
            (Ok(Reply::Now(inner)), ..) => {
                let (id, from_us) = (iq.attribute("id"), iq.attribute("to"));
                let (id, from_us) = (id.as_deref(), from_us.as_deref());
                let whom = iq.attribute("from").unwrap_or_default();
                let reply = StanzaReply { name: "iq", from: from_us, to: &whom, id };
                let mut xml = Vec::new();
                reply.result(&inner, &mut xml);
                let (domain, xml) = (from.domain, xml.into());
                self.out.push(super::AbroadWord::Stanza { domain, xml });
            }
            (Ok(Reply::Ask(what)), Some(who), room) => {
                // Whoever asks the service asks of no room.
                let of_service = || AccountAddress::of_domain(&to.domain);
                match room.clone().or_else(of_service) {
                    Some(room) => self.asks(now, (who, room), ("iq", iq), what),
                    None => self.cannot(iq, StanzaFault::ItemNotFound),
                }
            }
            // Only devices of accounts are members, or look for rooms.
            (Ok(Reply::Ask(_)), ..) => self.cannot(iq, StanzaFault::ItemNotFound),
            (Err(fault), ..) => self.cannot(iq, fault),
        }
    }

    /// A device answers an occupant.
    fn answers_occupant(&mut self, now: Now, from: Jid, to: &Jid, iq: &Element<'_, '_>) {
        let (Some(who), Some(room), Some(nick)) = (device_of(from), &to.account, &to.resource)
        else {
            return;
        };
        let is_in = self.seats.at(room, (&who.0, &who.1)).is_some();
        if let Some(it) = Relaying::answers((room, nick), iq).filter(|_| is_in) {
            self.asks(now, (who, room.clone()), ("iq", iq), RoomWhat::Relay(Box::new(it)));
        }
    }

    /// A part of a room's archive is wanted.
    fn asks_archive(
        &mut self,
        now: Now,
        (who, room): (Who, &AccountAddress),
        (iq, asked): (&Element<'_, '_>, &Element<'_, '_>),
    ) {
        let query = match ArchiveQuery::of_room(asked, room) {
            Ok(query) if asked.name() == "query" => query,
            Ok(_) => return self.cannot(iq, StanzaFault::BadRequest),
            Err(fault) => return self.cannot(iq, fault),
        };
        let id: Option<Box<str>> = iq.attribute("id").map(|id| id.as_ref().into());
        let Some(range) = query.range.clone() else {
            let about = (id.as_deref(), room.as_str());
            return self.answers(&who, about, &archive::fin_of_nothing(query.is_whole));
        };
        let what = AskedWhat::Archive(id, Box::new(query));
        let ((account, device), room) = (who, room.clone());
        let asked = Asked { account, device, room, what, since: now.mono };
        if !self.ask(asked, ErrandWhat::Archive(range)) {
            self.cannot(iq, StanzaFault::ResourceConstraint);
        }
    }

    /// Answers a question of this id, to this one, by what is XML.
    pub(super) fn answers(&mut self, who: &Who, (id, from): (Option<&str>, &str), inner: &str) {
        let full = full_jid(&who.0, &who.1);
        let reply = StanzaReply { name: "iq", from: Some(from), to: &full, id };
        let mut xml = Vec::new();
        reply.result(inner, &mut xml);
        self.sends(&who.0, xml);
    }
}
