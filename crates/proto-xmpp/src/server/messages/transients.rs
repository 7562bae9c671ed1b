//! Transients of a bound device, in both directions (XEP-0085, XEP-0334).
//!
//! Transients go to devices that are available, and those of a room to devices in it; a device that
//! does not read is skipped. Invariants: no transient waits; one that the service refuses is
//! answered by an error.

use crate::message::transient::{self, TransientView};
use crate::server::Out;
use crate::server::messages::SentAs;
use crate::server::session::Session;
use model::account::{AccountAddress, Addressee};
use model::chat::{ChatRequest, ChatState, Content, NewTransient, Transient, nick_of};
use model::counters::ChatCounter;

impl Session {
    /// Sends a transient to an account or a room.
    pub(in crate::server) fn tells(
        &mut self,
        (account, about): (AccountAddress, (Option<&str>, Option<&str>)),
        (state, content): (Option<ChatState>, Content),
        out: &mut Out,
    ) {
        let (session, number) = (self.session, self.unanswered(about, SentAs::Message));
        let transient = Box::new(NewTransient { to: Addressee::from(account), state, content });
        out.say(ChatRequest::Transient { session, number, transient });
    }

    /// Whether it gets transients: it wants messages, and reads them.
    pub(in crate::server) fn hears_of_now(&self, out: &Out) -> bool {
        self.has(Session::AVAILABLE) && out.backlog() <= out.backlog_max()
    }

    /// Writes a transient from another session.
    pub(in crate::server) fn write_transient(&mut self, transient: &Transient, out: &mut Out) {
        let is_out = transient.to.is_group() && !self.is_in_room(&transient.to);
        if is_out || !self.hears_of_now(out) {
            return out.count(ChatCounter::TransientsDropped);
        }
        let (from, device) = (&transient.from, &*transient.device);
        let in_room = transient.to.is_group();
        let from = match in_room {
            true => {
                let nick = transient.content.nick.as_deref();
                format!("{}/{}", transient.to, nick.unwrap_or_else(|| nick_of(&transient.to, from)))
            }
            false => crate::render::full_jid(from, device),
        };
        let shown = TransientView { from: &from, to: self.jid(), in_room };
        if transient::write(transient, shown, out.bytes()) {
            self.counts_sent(out);
        }
    }
}
