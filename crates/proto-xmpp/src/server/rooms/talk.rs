//! Messages to a room, and messages shown of it (XEP-0045 7.4, 7.8, 8.1).
//!
//! A message to a room is said to the group. It comes back by the inbox, as to everybody, with the
//! sender's id: the reflection says that it is stored. Invariant: what a room shows was said to its
//! group, with the server's id for it and by whom it was.

use super::administration::{Ordering, reason_of};
use super::occupants::account_of;
use super::{OccupancyAsk, RoomAnswer, RoomAsk, RoomRequest, RoomWhat, Step, fault_of};
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::message::transient;
use crate::render::room::{RoomRendering, domain_of, write_in_room};
use crate::render::{self, KeptStanza, MUC_USER};
use crate::server::Out;
use crate::server::session::Session;
use crate::stanza::kind;
use crate::xml::scan::Element;
use base::time::Now;
use model::account::{AccountAddress, Addressee};
use model::chat::{ChatFault, ChatMessage, Content, GroupVerb, HistoryPage, HistoryRange};
use model::timeline::Seq;

/// Most people that one stanza invites.
const INVITED_MAX: usize = 64;

/// A message that was sent once more is reflected once more.
pub(super) struct Reflecting {
    room: AccountAddress,
    /// Its place in the conversation.
    seq: Seq,
}

impl Reflecting {
    pub(super) fn request(&self) -> RoomRequest {
        let (with, from) = (self.room.clone().into(), self.seq.saturating_sub(1));
        RoomRequest::History(HistoryRange { with, from, backwards: false, count: 1 })
    }

    pub(super) fn take(&mut self, answer: RoomAnswer<'_>) -> Step {
        match answer {
            RoomAnswer::History(_) => Step::Done,
            RoomAnswer::Failed(why) => Step::Refused(fault_of(why)),
            _ => Step::Refused(StanzaFault::ResourceConstraint),
        }
    }
}

/// A message to one occupant (7.5).
pub(super) struct Whisper {
    room: AccountAddress,
    nick: Box<str>,
    content: Box<Content>,
}

impl Whisper {
    /// The one that a stanza is; `None`: it says nothing.
    pub(super) fn of(
        room: &AccountAddress,
        nick: &str,
        message: &Element<'_, '_>,
    ) -> Option<Whisper> {
        let content = Box::new(render::whisper_of(message));
        let says = KeptStanza::of(&content).says(&content) && kind(message) != "error";
        says.then(|| Whisper { room: room.clone(), nick: nick.into(), content })
    }

    pub(super) fn request(&self) -> RoomRequest {
        let (nick, content) = (self.nick.clone(), self.content.clone());
        RoomRequest::Room(self.room.clone(), OccupancyAsk::Whisper { nick, content })
    }

    pub(super) fn take(&mut self, answer: RoomAnswer<'_>) -> Step {
        match answer {
            RoomAnswer::Changed(_) => Step::Done,
            RoomAnswer::Failed(why) => Step::Refused(fault_of(why)),
            _ => Step::Refused(StanzaFault::ResourceConstraint),
        }
    }
}

impl Session {
    /// A message for a room, or for somebody in it.
    pub(in crate::server) fn message_to_room(
        &mut self,
        now: Now,
        (jid, about): (&Jid, (Option<&str>, Option<&str>)),
        message: &Element<'_, '_>,
        out: &mut Out,
    ) {
        let is_for_all = kind(message) == "groupchat";
        let fault = match (&jid.account, &jid.resource) {
            (Some(room), None) if !is_for_all => {
                return self.mediates(now, (room, about), message, out);
            }
            (Some(room), None) if self.room(room).is_some() => {
                return self.says_in(now, (room, about), message, out);
            }
            (Some(room), Some(nick)) if !is_for_all => {
                return self.says_privately(now, (room, nick), about, (message, out));
            }
            _ => super::refuse_place(jid, is_for_all),
        };
        self.refuse_here("message", about, fault, out);
    }

    /// Sends a message to a room, or changes its title.
    fn says_in(
        &mut self,
        now: Now,
        (room, about): (&AccountAddress, (Option<&str>, Option<&str>)),
        message: &Element<'_, '_>,
        out: &mut Out,
    ) {
        if self.says_receipt(room, message, out) {
            return;
        }
        if let Some(title) = super::subject_alone(message) {
            let order = Ordering::verb(room.clone(), GroupVerb::Rename, title);
            return self.order_room(now, ("message", about), order, out);
        }
        if self.amends(now, (room.clone(), about), message, out) {
            // It is answered as a message is.
        } else if let Some(told) = transient::told(message) {
            self.tells((room.clone(), about), told, out);
        } else if let Some(said) = render::said(message) {
            self.says(now, (room.clone(), about), (message, said), out);
        }
    }

    /// Sends a message to one occupant (7.5).
    fn says_privately(
        &mut self,
        now: Now,
        (room, nick): (&AccountAddress, &str),
        about: (Option<&str>, Option<&str>),
        (message, out): (&Element<'_, '_>, &mut Out),
    ) {
        if self.room(room).is_none() || room.is_channel() {
            return self.refuse_here("message", about, StanzaFault::NotAcceptable, out);
        }
        let Some(whisper) = Whisper::of(room, nick, message) else { return };
        let place = self.received();
        let what = RoomWhat::Whisper(Box::new(whisper));
        let (id, to) = (about.0.map(Box::from), about.1.unwrap_or_default().into());
        self.ask_room(now, RoomAsk { stanza: "message", id, to, what, place }, out);
    }

    /// An invitation is sent through the room (7.8.2), or declined; or it is about voice.
    fn mediates(
        &mut self,
        now: Now,
        (room, about): (&AccountAddress, (Option<&str>, Option<&str>)),
        message: &Element<'_, '_>,
        out: &mut Out,
    ) {
        let Some(x) = message.child("x", MUC_USER) else {
            return self.says_of_voice(now, (room, about), message, out);
        };
        match mediated(room, &x) {
            Ok(order) => self.order_room(now, ("message", about), order, out),
            Err(fault) => self.refuse_here("message", about, fault, out),
        }
    }

    /// Puts an order for a group into the line of questions.
    pub(super) fn order_room(
        &mut self,
        now: Now,
        (stanza, (id, to)): (&'static str, (Option<&str>, Option<&str>)),
        order: Ordering,
        out: &mut Out,
    ) {
        let (id, to) = (id.map(Box::from), to.unwrap_or_default().into());
        let place = self.received().filter(|_| stanza == "message");
        let what = RoomWhat::Order(order);
        self.ask_room(now, RoomAsk { stanza, id, to, what, place }, out);
    }

    /// The message with this number was stored before, at this place of its conversation: if that
    /// is a room's, and was shown beyond it, nothing else would reflect it.
    pub(in crate::server) fn was_said(
        &mut self,
        now: Now,
        (number, seq): (u32, Seq),
        out: &mut Out,
    ) {
        let sending = self.busy().sends.iter().find(|it| it.number == number);
        let to = sending.and_then(|it| it.to.as_deref());
        // What was said to one of them is of no room.
        let room = to.and_then(Jid::parse).filter(|jid| jid.resource.is_none());
        let room = room.and_then(|jid| jid.account);
        let Some(room) = room.filter(AccountAddress::is_group) else { return };
        if self.room(&room).is_some_and(|it| seq <= it.place) {
            let to = room.as_str().into();
            let what = RoomWhat::Reflect(Reflecting { room, seq });
            self.ask_room(now, RoomAsk { stanza: "message", id: None, to, what, place: None }, out);
        }
    }

    /// The message was read again.
    pub(super) fn reflect(&mut self, which: &Reflecting, page: &HistoryPage, out: &mut Out) {
        let message = page.messages.iter().find(|it| it.seq == which.seq);
        let is_in = self.room(&which.room).is_some();
        if let Some(message) = message.filter(|_| is_in)
            && self.put_in_room(message, true, out.bytes())
        {
            self.counts_sent(out);
        }
    }

    /// Why something was not said to a room.
    pub(in crate::server) fn fault_in_room(why: ChatFault) -> StanzaFault {
        fault_of(why)
    }

    /// Appends a message of a group as a stanza of its room. False: it says nothing that is shown.
    pub(super) fn put_in_room(
        &self,
        message: &ChatMessage,
        is_delayed: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        let to = Some(self.jid());
        write_in_room(message, RoomRendering { to, is_delayed, is_abroad: false }, out)
    }
}

/// The order that an `x` is: an invitation that is declined, or sent through the room (7.8.2).
pub(super) fn mediated(
    room: &AccountAddress,
    x: &Element<'_, '_>,
) -> Result<Ordering, StanzaFault> {
    match x.child("decline", MUC_USER) {
        // Whoever was invited is a member until it goes, or may become one until it declines.
        Some(decline) => {
            let (inviter, reason) = (inviter(room, &decline)?, reason_of(&decline, MUC_USER)?);
            Ok(Ordering::decline(room.clone(), inviter, reason))
        }
        None => Ok(Ordering::add(room.clone(), invited(x)?)),
    }
}

/// Inviter of the account that declines, if the stanza names one: an account, or an occupant.
fn inviter(
    room: &AccountAddress,
    decline: &Element<'_, '_>,
) -> Result<Option<AccountAddress>, StanzaFault> {
    let Some(to) = decline.attribute("to") else { return Ok(None) };
    let Jid { account, resource, .. } = Jid::parse(&to).ok_or(StanzaFault::JidMalformed)?;
    let inviter = match (account, resource) {
        (Some(it), Some(nick)) if it == *room => account_of(&nick, domain_of(room)),
        (account, _) => account,
    };
    Ok(inviter.filter(|it| !it.is_group()))
}

/// Accounts that an `x` invites, and the reasons.
fn invited(x: &Element<'_, '_>) -> Result<Vec<(Addressee, Box<str>)>, StanzaFault> {
    let invites: Vec<_> = x.children().filter(|it| it.is("invite", MUC_USER)).collect();
    match invites.len() {
        0 => return Err(StanzaFault::BadRequest),
        count if count > INVITED_MAX => return Err(StanzaFault::PolicyViolation),
        _ => {}
    }
    let whom = |invite: &Element<'_, '_>| {
        let account = Jid::parse(&invite.attribute("to")?)?.account?;
        Some(account).filter(|account| !account.is_group()).map(Addressee::from)
    };
    let one = |it: &Element<'_, '_>| {
        Ok((whom(it).ok_or(StanzaFault::JidMalformed)?, reason_of(it, MUC_USER)?))
    };
    invites.iter().map(one).collect()
}
