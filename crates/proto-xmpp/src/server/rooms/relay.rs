//! Questions of occupants to each other, which the room relays (XEP-0045 17.4).
//!
//! ```text
//! iq of A ─► Relay ─► home ─► one device of B: the iq from room/A, with an id of the home
//! answer of B ─► Answer ─► home ─► A: the answer from room/B, with A's own id
//! ```
//! The home knows which questions wait: it relays no answer to another one. The server answers for
//! a vCard, which clients leave to it. Invariant: an occupant is asked only by occupants, and one
//! device of it.

use super::{OccupancyAsk, RoomAnswer, RoomRequest, Step, fault_of};
use crate::fault::StanzaFault;
use crate::render::room::{domain_of, open_relayed};
use crate::server::Out;
use crate::server::handing::sets_own_lists;
use crate::server::session::Session;
use crate::stanza::kind;
use crate::xml::scan::{Element, Scan};
use base::time::Now;
use model::account::AccountAddress;
use model::chat::{Occupant, RELAYED_BYTES_MAX, Relayed, RelayedKind};
use std::sync::Arc;

pub(super) const VCARD: &str = "vcard-temp";

/// A question to an occupant, or an answer, on its way.
pub(super) struct Relaying {
    room: AccountAddress,
    nick: Box<str>,
    what: Arc<Relayed>,
    /// The account is looked up: the server answers for it.
    pub(super) is_of_account: bool,
}

impl Relaying {
    /// The question that a device asks an occupant; the fault if it may not.
    pub(super) fn asks(
        (room, nick): (&AccountAddress, &str),
        iq: &Element<'_, '_>,
    ) -> Result<Relaying, StanzaFault> {
        if sets_own_lists(iq) {
            return Err(StanzaFault::ServiceUnavailable);
        }
        let is_set = *kind(iq) == *"set";
        let id = iq.attribute("id").unwrap_or_default().as_ref().into();
        let kind = if is_set { RelayedKind::Set } else { RelayedKind::Get };
        let is_of_account = !is_set && iq.children().any(|it| it.is("vCard", VCARD));
        let xml = xml_of(iq).ok_or(StanzaFault::PolicyViolation)?;
        let what = Arc::new(Relayed { kind, id, xml });
        Ok(Relaying { room: room.clone(), nick: nick.into(), what, is_of_account })
    }

    /// The answer that a device gives an occupant; none: it answers nothing.
    pub(super) fn answers(
        (room, nick): (&AccountAddress, &str),
        iq: &Element<'_, '_>,
    ) -> Option<Relaying> {
        let id = iq.attribute("id")?;
        id.parse::<u64>().ok()?;
        let is_result = *kind(iq) == *"result";
        let kind = if is_result { RelayedKind::Result } else { RelayedKind::Error };
        let what = Arc::new(Relayed { kind, id: id.as_ref().into(), xml: xml_of(iq)? });
        Some(Relaying { room: room.clone(), nick: nick.into(), what, is_of_account: false })
    }

    /// The same without the server's answer: the device of the occupant is asked.
    pub(super) fn by_device(self) -> Relaying {
        Relaying { is_of_account: false, ..self }
    }

    /// Memory, bytes, roughly.
    pub(super) fn weight(&self) -> usize {
        size_of::<Relaying>() + self.nick.len() + self.what.weight()
    }

    /// Whether its sender is told why it is not relayed.
    pub(super) fn is_question(&self) -> bool {
        self.what.kind.is_question()
    }

    pub(super) fn request(&self) -> RoomRequest {
        let (nick, relayed) = (self.nick.clone(), self.what.clone());
        let ask = match (self.is_of_account, self.is_question()) {
            (true, _) => OccupancyAsk::Find(nick),
            (false, true) => OccupancyAsk::Relay { nick, relayed },
            (false, false) => OccupancyAsk::Answer(relayed),
        };
        RoomRequest::Room(self.room.clone(), ask)
    }

    pub(super) fn take(&mut self, answer: RoomAnswer<'_>) -> Step {
        match answer {
            // Its own server has the vCard of another server's account.
            RoomAnswer::Occupant(it) if it.account.domain() != domain_of(&self.room) => {
                self.is_of_account = false;
                Step::Ask
            }
            RoomAnswer::Changed(_) | RoomAnswer::Occupant(_) => Step::Done,
            RoomAnswer::Failed(why) => Step::Refused(fault_of(why)),
            _ => Step::Refused(StanzaFault::ResourceConstraint),
        }
    }
}

/// The elements of a stanza; none: they are too long, or mean something else elsewhere.
fn xml_of(iq: &Element<'_, '_>) -> Option<Box<str>> {
    let all: Vec<&str> = iq.children().map(|it| it.whole()).collect();
    let is_long = all.iter().map(|it| it.len()).sum::<usize>() > RELAYED_BYTES_MAX;
    let is_right = !is_long && all.iter().all(|it| Scan::alone(it).is_ok());
    is_right.then(|| all.concat().into())
}

/// Appends what a room relays to a device.
pub(super) fn put_relayed(
    to: &str,
    (room, by): (&AccountAddress, &Occupant),
    it: &Relayed,
    out: &mut Vec<u8>,
) {
    open_relayed(to, (room, &by.nick), (it.kind.word(), &it.id), out);
    out.extend_from_slice(it.xml.as_bytes());
    out.extend_from_slice(b"</iq>");
}

impl Session {
    /// A device answers an occupant. False: its answer is for nobody in a room.
    pub(in crate::server) fn answers_occupant(
        &mut self,
        now: Now,
        iq: &Element<'_, '_>,
        out: &mut Out,
    ) -> bool {
        let to = iq.attribute("to").and_then(|to| crate::jid::Jid::parse(&to));
        let Some((room, nick)) = to.and_then(|it| Some((it.account?, it.resource?))) else {
            return false;
        };
        if !room.is_group() || !self.is_in_room(&room) {
            return false;
        }
        if let Some(relaying) = Relaying::answers((&room, &nick), iq) {
            let what = super::RoomWhat::Relay(Box::new(relaying));
            let to = room.as_str().into();
            let ask = super::RoomAsk { stanza: "iq", id: None, to, what, place: None };
            self.ask_room(now, ask, out);
        }
        true
    }

    /// Answers for the vCard of an occupant, whose account is this.
    pub(super) fn tells_card(
        &mut self,
        now: Now,
        account: &AccountAddress,
        about: (Option<&str>, Option<&str>),
        out: &mut Out,
    ) {
        const ASKED: &str = "<vCard xmlns='vcard-temp'/>";
        if let Ok(asked) = Scan::alone(ASKED) {
            let of = Some(account.as_str()).filter(|of| *of != self.account());
            self.asks_of_nodes(now, (of, &asked.root()), (false, about), out);
        }
    }
}
