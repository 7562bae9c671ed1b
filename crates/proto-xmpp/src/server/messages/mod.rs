//! Messages of a bound device (RFC 6121 5).
//!
//! A message is with the service until that has stored it, or says why not; what an error would say
//! of it is kept as long. Invariant: a message that was not stored is answered by an error with its
//! id; one that was is not answered.

pub(super) mod amendments;
pub(super) mod echo;
pub(super) mod lookup;
mod order;
pub(super) mod private;
mod transients;

use super::Out;
use super::features::write_blocked_fault;
use super::receipts::Wants;
use super::session::Session;
use crate::fault::StanzaFault;
use crate::jid::Jid;
use crate::message::{others, transient};
use crate::render::{self, StanzaContent};
use crate::stanza::{ID_BYTES_MAX, StanzaReply, kind};
use crate::xml::scan::Element;
use base::time::Now;
use model::account::{AccountAddress, Addressee};
use model::chat::{ChatFault, ChatRequest, ClientMessageId, NewMessage, SendRejected};

/// A message that is with the service: what an error would say of it.
pub(super) struct Sending {
    pub(super) number: u32,
    /// Which stanza it is of those that are acknowledged.
    pub(super) place: Option<u32>,
    pub(super) id: Option<Box<str>>,
    pub(super) to: Option<Box<str>>,
    pub(super) sent_as: SentAs,
    /// Receipts that the client wants for it.
    pub(super) wants: Wants,
}

/// Kind of a stanza, for the error if it came to nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SentAs {
    Message,
    /// A question.
    Iq,
    /// No error is sent: it is an answer itself, or for whoever happens to be there.
    Quiet,
}

impl Session {
    /// Handles a message of the device (RFC 6121 5).
    pub(super) fn message(&mut self, now: Now, message: &Element<'_, '_>, out: &mut Out) {
        let (id, to) = (message.attribute("id"), message.attribute("to"));
        // A message that is nothing but a forged carbon or result would be empty without it.
        if message.children().next().is_some()
            && message.children().all(|child| render::is_of_own_server(&child))
        {
            let id = id.as_deref().filter(|id| id.len() <= ID_BYTES_MAX);
            return self.refuse("message", (id, to.as_deref()), StanzaFault::NotAcceptable, out);
        }
        if self.says_elsewhere(message, out) {
            return;
        }
        if id.as_ref().is_some_and(|id| id.len() > ID_BYTES_MAX) {
            return self.refuse("message", (None, to.as_deref()), StanzaFault::BadRequest, out);
        }
        let about = (id.as_deref(), to.as_deref());
        let is_error = kind(message) == "error"; // no error is told of one (RFC 6120 8.3.1)
        let to = match to.as_deref().map_or_else(|| Jid::parse(self.account()), Jid::parse) {
            Some(jid) => jid,
            None if is_error => return,
            None => return self.refuse("message", about, StanzaFault::JidMalformed, out),
        };
        if self.says_at_once(message, &to, out) || is_error {
            return;
        }
        if self.is_of_rooms(&to) {
            return self.message_to_room(now, (&to, about), message, out);
        }
        if self.is_live(&to) {
            return self.message_to_live(now, (&to, about), message, out);
        }
        // Rooms elsewhere are no accounts, and a headline is for whoever happens to be there.
        let is_said = !matches!(&*kind(message), "groupchat" | "headline");
        let account =
            to.account.filter(|account| is_said && !account.is_group() && !account.is_chatroom());
        let Some(account) = account else {
            let fault = self.nobody_at(&to.domain);
            return self.refuse("message", about, fault, out);
        };
        if self.says_receipt(&account, message, out) {
            return;
        }
        if self.amends(now, (account.clone(), about), message, out) {
            // It is answered as a message is.
        } else if let Some(told) = transient::told(message) {
            self.tells((account, about), told, out);
        } else if let Some(said) = render::said(message) {
            self.says(now, (account, about), (message, said), out);
            self.awaits(Wants::of(message));
        }
    }

    /// Sends a message, and looks up the message that it replies to first.
    pub(super) fn says(
        &mut self,
        now: Now,
        (account, about): (AccountAddress, (Option<&str>, Option<&str>)),
        (message, said): (&Element<'_, '_>, StanzaContent),
        out: &mut Out,
    ) {
        let mut said = said;
        match private::resource_of(about.1) {
            Some(resource) if render::is_private(message) => {
                return self.knocks(now, (account, about), (resource, said), out);
            }
            // Whether that device wants what is for all is known at its home.
            Some(resource) if self.is_here(account.domain()) => {
                said.content = render::for_resource(said.content, &resource);
            }
            _ => {}
        }
        match others::reply_of(message) {
            Some(name) => self.replies(now, (account, about), (message, said, name), out),
            None => self.sends(now, (account, about), said, out),
        }
    }

    /// Sends a message to an account or a group: the service stores it.
    pub(in crate::server) fn sends(
        &mut self,
        now: Now,
        (account, about): (AccountAddress, (Option<&str>, Option<&str>)),
        said: StanzaContent,
        out: &mut Out,
    ) {
        let client_id = said.client_id.unwrap_or_else(|| self.made_up(now, out));
        let new = NewMessage { to: Addressee::from(account), client_id, content: said.content };
        let number = self.unanswered(about, SentAs::Message);
        out.say(ChatRequest::Send { session: self.session, number, message: Box::new(new) });
    }

    /// A stanza is not answered as long as what it says is with the service, under this number.
    pub(super) fn unanswered(
        &mut self,
        (id, to): (Option<&str>, Option<&str>),
        sent_as: SentAs,
    ) -> u32 {
        let place = self.received();
        let busy = self.busy();
        busy.last = busy.last.wrapping_add(1);
        let number = busy.last;
        let [id, to] = [id, to].map(|text| text.map(Box::from));
        busy.sends.push(Sending { number, place, id, to, sent_as, wants: Wants::default() });
        number
    }

    /// An id for a message that has none to tell a resend by: a UUID of version 8 (RFC 9562 5.8).
    pub(super) fn made_up(&mut self, now: Now, out: &Out) -> ClientMessageId {
        let named = self.name_one();
        let parts = [self.session.bits(), now.mono.nanos(), u64::from(named)];
        let [session, at, count] = parts.map(u64::to_be_bytes);
        let low = out.draw(&[b"client id", &session, &at, &count]);
        let high = now.wall_ms << 16 | 0x8000 | u64::from(named & 0xfff);
        let low = low >> 2 | 1 << 63;
        ClientMessageId((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
    }

    /// Whether something that was said is with the service under this number.
    pub(super) fn has_sent(&self, number: u32) -> bool {
        let sends = self.busy.as_ref().map_or(&[][..], |busy| &busy.sends);
        sends.iter().any(|sending| sending.number == number)
    }

    /// A message is stored, or why not.
    pub(super) fn answered(&mut self, number: u32, why: Option<(ChatFault, &str)>, out: &mut Out) {
        if self.knocked(number, why.is_none(), out) {
            return;
        }
        let sends = &mut self.busy().sends;
        let Some(at) = sends.iter().position(|sending| sending.number == number) else {
            base::never!(true, "an answer to nothing");
            return;
        };
        let Sending { id, to, sent_as, .. } = sends.remove(at);
        self.finds_nothing(number);
        let name = match sent_as {
            SentAs::Message => Some("message"),
            SentAs::Iq => Some("iq"),
            SentAs::Quiet => None,
        };
        let about = (id.as_deref(), to.as_deref());
        if let Some(((ChatFault::Blocked, _), name)) = why.zip(name) {
            let reply = StanzaReply { name, from: about.1, to: self.jid(), id: about.0 };
            write_blocked_fault(&reply, out.bytes());
            self.counts_sent(out);
        } else if let Some(((why, told), name)) = why.zip(name) {
            let jid = about.1.and_then(Jid::parse);
            let fault = match &jid {
                Some(jid) if self.is_of_rooms(jid) || self.is_live(jid) => {
                    Session::fault_in_room(why)
                }
                jid => {
                    let is_far = jid.as_ref().is_some_and(|jid| !self.is_here(&jid.domain));
                    StanzaFault::of(why, is_far)
                }
            };
            self.refuse_saying(name, about, (fault, told), out);
        }
        self.pay_ack(out);
        self.releases(out);
    }
}

/// Text of the error to the sender of a refused message.
pub(super) fn told_of(rejected: &SendRejected) -> String {
    let after_s = rejected.retry_after_ms.div_ceil(1_000);
    match (&*rejected.reason, after_s) {
        (reason, 0) => reason.into(),
        ("", after_s) => format!("send it again in {after_s} s"),
        (reason, after_s) => format!("{reason}; send it again in {after_s} s"),
    }
}

#[cfg(test)]
mod tests;
