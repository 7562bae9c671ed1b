//! Acknowledgements of a stream (XEP-0198 4), without resumption.
//!
//! What a client has sent counts as handled once it is answered: a message when it is stored, or
//! its error is said. What it has of its inbox is what it has acknowledged, not what was written:
//! the rest is given to the next that comes. Invariant: `h` never counts a message that a crash
//! could lose, and never falls.

use super::session::Session;
use super::{End, Out};
use crate::fault::StreamFault;
use crate::scan::Element;
use crate::stream::SM;
use model::chat::ChatRequest;
use model::timeline::Seq;
use std::collections::VecDeque;

/// Messages on their way to a client that it has not acknowledged, beyond which nothing more is
/// read for it; what comes by itself is bounded by `inline_a_session_max`.
const UNACKED_MAX: usize = 256;

/// Counts of a stream whose stanzas are acknowledged; modulo 2^32.
#[derive(Default)]
pub(super) struct Acks {
    /// Stanzas of the client.
    received: u32,
    /// Stanzas to the client.
    sent: u32,
    /// Of those, how many it says that it has.
    had: u32,
    /// Messages of the inbox among the others: which stanza, which place.
    unacked: VecDeque<(u32, Seq)>,
    /// The client was asked what it has.
    has_asked: bool,
    /// The client has asked, and was told less than this.
    owed: Option<u32>,
}

impl Acks {
    /// Whether it may be given more of its inbox.
    pub(super) fn has_room(&self) -> bool {
        self.unacked.len() < UNACKED_MAX
    }
}

/// Whether one count is not behind another.
const fn reaches(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) <= u32::MAX / 2
}

impl Session {
    /// An element of stream management.
    pub(super) fn manage(&mut self, element: &Element<'_, '_>, out: &mut Out) -> Result<(), End> {
        match (element.name(), self.acks.is_some()) {
            ("enable", false) => {
                self.acks = Some(Box::default());
                out.bytes().extend_from_slice(format!("<enabled xmlns='{SM}'/>").as_bytes());
            }
            ("r", true) => self.acknowledge(out),
            ("a", true) => {
                let told = element.attribute("h").and_then(|h| h.trim().parse().ok());
                self.acknowledged(told.ok_or(StreamFault::BadFormat)?, out)?;
            }
            ("enable" | "resume" | "r" | "a", _) => write_failed("unexpected-request", out),
            _ => return Err(StreamFault::UnsupportedStanzaType.into()),
        }
        Ok(())
    }

    /// A stanza of the client has come. Its place among them.
    pub(super) fn counts_received(&mut self) {
        if let Some(acks) = &mut self.acks {
            acks.received = acks.received.wrapping_add(1);
        }
    }

    /// The place of the stanza that came last.
    pub(super) fn received(&self) -> Option<u32> {
        self.acks.as_ref().map(|acks| acks.received)
    }

    /// A stanza is sent to the client.
    pub(super) fn counts_sent(&mut self) {
        if let Some(acks) = &mut self.acks {
            acks.sent = acks.sent.wrapping_add(1);
        }
    }

    /// The stanza that is sent is a message of the inbox, at this place.
    pub(super) fn expects_ack(&mut self, seq: Seq) {
        if let Some(acks) = &mut self.acks {
            acks.unacked.push_back((acks.sent, seq));
        }
    }

    /// How many stanzas of the client are handled: those before the first message that is not
    /// answered.
    fn handled(&self) -> u32 {
        let first = self.busy.as_ref().and_then(|busy| busy.first_unanswered());
        let before = first.map(|first| first.wrapping_sub(1));
        before.or_else(|| self.received()).unwrap_or_default()
    }

    /// Tells the client what is handled, and once more when that is all there was.
    fn acknowledge(&mut self, out: &mut Out) {
        let handled = self.handled();
        out.bytes().extend_from_slice(format!("<a xmlns='{SM}' h='{handled}'/>").as_bytes());
        if let Some(acks) = &mut self.acks {
            acks.owed = Some(acks.received).filter(|received| *received != handled);
        }
    }

    /// A message was answered: a client that has asked is told so when it is the last it asked of.
    pub(super) fn pay_ack(&mut self, out: &mut Out) {
        let owed = self.acks.as_ref().and_then(|acks| acks.owed);
        if owed.is_some_and(|owed| reaches(self.handled(), owed)) {
            self.acknowledge(out);
        }
    }

    /// Asks the client what it has, unless it was asked already.
    pub(super) fn ask_for_ack(&mut self, out: &mut Out) {
        if let Some(acks) = &mut self.acks
            && !acks.unacked.is_empty()
            && !std::mem::replace(&mut acks.has_asked, true)
        {
            out.bytes().extend_from_slice(format!("<r xmlns='{SM}'/>").as_bytes());
        }
    }

    /// The client has so many stanzas.
    fn acknowledged(&mut self, has: u32, out: &mut Out) -> Result<(), End> {
        let Some(acks) = &mut self.acks else { return Ok(()) };
        if has.wrapping_sub(acks.had) > acks.sent.wrapping_sub(acks.had) {
            return Err(StreamFault::UndefinedCondition.into());
        }
        acks.had = has;
        acks.has_asked = false;
        let mut upto = None;
        while let Some(&(stanza, seq)) = acks.unacked.front()
            && reaches(has, stanza)
        {
            acks.unacked.pop_front();
            upto = Some(seq);
        }
        if acks.unacked.is_empty() {
            upto = upto.map(|_| self.place); // what is no stanza needs no acknowledgement
            acks.unacked = VecDeque::new();
        }
        if let Some(upto) = upto {
            out.say(ChatRequest::Acknowledge { session: self.session, upto });
        }
        self.ask_for_ack(out);
        self.pull_again(out);
        Ok(())
    }

    /// Whether all that was written of the inbox is acknowledged, as far as a client does that.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.acks.as_ref().is_none_or(|acks| acks.unacked.is_empty())
    }
}

/// Says that stream management does not do that (XEP-0198 3, 5).
pub(super) fn write_failed(condition: &str, out: &mut Out) {
    let failed = format!(
        "<failed xmlns='{SM}'><{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>"
    );
    out.bytes().extend_from_slice(failed.as_bytes());
}
