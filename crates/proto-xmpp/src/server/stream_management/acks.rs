//! Acknowledgements of a stream (XEP-0198 4).
//!
//! A stanza of a client counts as handled once it is answered: a message when it is stored, or its
//! error is written; a subscription request, or an order for a room, likewise. A client's place in
//! its inbox is what it has acknowledged, not what was written: the rest goes to the next device
//! that comes. A stream that may be [resumed](super::resumption) also keeps its other stanzas until
//! they are acknowledged. Invariant: `h` never counts what a crash could lose, and never falls.

use super::resumption::{KeepLimits, Resumption, Wish, read_count};
use crate::fault::StreamFault;
use crate::server::session::Session;
use crate::server::{End, Out};
use crate::stream::{SM, management_failed};
use crate::xml::scan::Element;
use model::chat::ChatRequest;
use model::limits::ChatLimits;
use model::timeline::Seq;
use std::collections::VecDeque;

/// Messages on their way to a client that it has not acknowledged, beyond which nothing more is
/// read for it; what comes by itself is bounded by `inline_a_session_max`.
const UNACKED_MAX: usize = 256;

/// Counts of a stream whose stanzas are acknowledged; modulo 2^32.
#[derive(Default)]
pub(in crate::server) struct Acks {
    /// Stanzas of the client.
    pub(in crate::server) received: u32,
    /// Stanzas to the client.
    pub(in crate::server) sent: u32,
    /// Stanzas to the client that it has acknowledged.
    pub(in crate::server) had: u32,
    /// Unacknowledged stanzas that are kept to be sent again.
    pub(in crate::server) unacked: VecDeque<Unacked>,
    /// How many of them have a place in the inbox.
    pub(in crate::server) placed: usize,
    /// The client was asked what it has.
    pub(in crate::server) has_asked: bool,
    /// A count that the client has asked for and not got yet.
    pub(in crate::server) owed: Option<u32>,
    /// End of the bytes written in this call that are not counted later.
    pub(in crate::server) mark: usize,
    /// State that lets it be resumed.
    pub(in crate::server) resumption: Option<Box<Resumption>>,
}

/// A stanza that the client may not have.
pub(in crate::server) struct Unacked {
    /// Which one of those that were sent.
    pub(in crate::server) stanza: u32,
    /// Its place in the inbox; zero: none.
    pub(in crate::server) place: Seq,
    /// The stanza itself, unless the inbox has it.
    pub(in crate::server) copy: Option<Box<[u8]>>,
}

impl Acks {
    /// Whether it may be given more of its inbox.
    pub(in crate::server) fn has_room(&self) -> bool {
        self.placed < UNACKED_MAX
    }

    fn take_acked(&mut self, has: u32) -> Option<Unacked> {
        let unacked = self.unacked.pop_front_if(|it| reaches(has, it.stanza))?;
        self.placed -= usize::from(unacked.place != 0);
        if let (Some(resumption), Some(copy)) = (&mut self.resumption, &unacked.copy) {
            resumption.bytes -= copy.len();
        }
        Some(unacked)
    }
}

/// Whether one count is not behind another.
pub(in crate::server) const fn reaches(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) <= u32::MAX / 2
}

impl Session {
    /// An element of stream management.
    pub(in crate::server) fn manage(
        &mut self,
        limits: &ChatLimits,
        element: &Element<'_, '_>,
        out: &mut Out,
    ) -> Result<(), End> {
        match (element.name(), self.acks.is_some()) {
            ("enable", false) => {
                self.acks = Some(Box::default());
                let wish = Wish::of(element);
                let enabled = self.enabled(KeepLimits::of(limits), wish, out);
                out.bytes().extend_from_slice(enabled.as_bytes());
            }
            ("r", true) => self.acknowledge(out),
            ("a", true) => self.acknowledged(read_count(element)?, out)?,
            ("enable" | "resume" | "r" | "a", _) => write_failed("unexpected-request", None, out),
            _ => return Err(StreamFault::UnsupportedStanzaType.into()),
        }
        self.marks(out);
        Ok(())
    }

    /// Marks the bytes in the lane as no stanzas, or as counted.
    pub(in crate::server) fn marks(&mut self, out: &mut Out) {
        if let Some(acks) = &mut self.acks {
            acks.mark = out.bytes().len();
        }
    }

    /// A stanza of the client has come. Its place among them.
    pub(in crate::server) fn counts_received(&mut self) {
        if let Some(acks) = &mut self.acks {
            acks.received = acks.received.wrapping_add(1);
        }
    }

    /// The place of the stanza that came last.
    pub(in crate::server) fn received(&self) -> Option<u32> {
        self.acks.as_ref().map(|acks| acks.received)
    }

    /// The lane ends with a stanza to the client that stands nowhere else.
    pub(in crate::server) fn counts_sent(&mut self, out: &mut Out) {
        self.counts(0, true, out);
    }

    /// The lane ends with a message of the inbox, at this place.
    pub(in crate::server) fn counts_placed(&mut self, place: Seq, out: &mut Out) {
        self.counts(place, false, out);
    }

    fn counts(&mut self, place: Seq, is_copied: bool, out: &mut Out) {
        if is_copied && self.puts_off(out) {
            return;
        }
        let Some(acks) = &mut self.acks else { return };
        acks.sent = acks.sent.wrapping_add(1);
        let begins = std::mem::replace(&mut acks.mark, out.bytes().len());
        let copy = match &mut acks.resumption {
            Some(resumption) if is_copied => {
                let copy: Box<[u8]> = out.bytes()[begins..].into();
                resumption.bytes += copy.len();
                Some(copy)
            }
            _ => None,
        };
        if place != 0 || copy.is_some() {
            acks.placed += usize::from(place != 0);
            acks.unacked.push_back(Unacked { stanza: acks.sent, place, copy });
        }
        self.bounds_copies(out);
    }

    /// The stanza that was sent last is what is shown of this place of the inbox.
    pub(in crate::server) fn expects_ack(&mut self, place: Seq) {
        let Some(acks) = &mut self.acks else { return };
        if acks.resumption.as_mut().is_some_and(|it| it.places(place)) {
            return; // it is put off
        }
        let sent = acks.sent;
        match acks.unacked.back_mut().filter(|it| it.stanza == sent) {
            Some(last) if last.place == 0 => last.place = place,
            Some(_) => return,
            None => acks.unacked.push_back(Unacked { stanza: sent, place, copy: None }),
        }
        acks.placed += 1;
    }

    /// How many stanzas of the client are handled: those before the first that is not answered.
    pub(in crate::server) fn handled(&self) -> u32 {
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
        self.marks(out);
    }

    /// A stanza was answered: a client that has asked gets the count when it is the last it asked
    /// of.
    pub(in crate::server) fn pay_ack(&mut self, out: &mut Out) {
        let owed = self.acks.as_ref().and_then(|acks| acks.owed);
        if owed.is_some_and(|owed| reaches(self.handled(), owed)) {
            self.acknowledge(out);
        }
    }

    /// Asks the client what it has, unless it was asked already.
    pub(in crate::server) fn ask_for_ack(&mut self, out: &mut Out) {
        if !self.is_resuming()
            && let Some(acks) = &mut self.acks
            && !acks.unacked.is_empty()
            && !std::mem::replace(&mut acks.has_asked, true)
        {
            out.bytes().extend_from_slice(format!("<r xmlns='{SM}'/>").as_bytes());
            self.marks(out);
        }
    }

    /// The client has so many stanzas.
    fn acknowledged(&mut self, has: u32, out: &mut Out) -> Result<(), End> {
        let upto = self.has_stanzas(has)?;
        if let Some(upto) = upto {
            out.say(ChatRequest::Acknowledge { session: self.session, upto });
        }
        self.ask_for_ack(out);
        self.pull_again(out);
        Ok(())
    }

    /// The client has so many stanzas; up to which place it has its inbox, if that is news.
    pub(in crate::server) fn has_stanzas(&mut self, has: u32) -> Result<Option<Seq>, End> {
        let place = self.place;
        let Some(acks) = &mut self.acks else { return Ok(None) };
        if has.wrapping_sub(acks.had) > acks.sent.wrapping_sub(acks.had) {
            return Err(End::TooManyHandled(has, acks.sent));
        }
        acks.had = has;
        acks.has_asked = false;
        let mut upto = None;
        while let Some(unacked) = acks.take_acked(has) {
            upto = Some(unacked.place).filter(|place| *place != 0).or(upto);
        }
        if acks.placed == 0 {
            upto = upto.map(|_| place); // what is no stanza needs no acknowledgement
        }
        if acks.unacked.is_empty() {
            acks.unacked = VecDeque::new();
        }
        Ok(upto)
    }

    /// Whether all that was written of the inbox is acknowledged, as far as a client does that.
    pub(in crate::server) fn is_acknowledged(&self) -> bool {
        self.acks.as_ref().is_none_or(|acks| acks.placed == 0)
    }
}

/// Writes that stream management refuses a request (XEP-0198 3, 5).
pub(in crate::server) fn write_failed(condition: &str, handled: Option<u32>, out: &mut Out) {
    out.bytes().extend_from_slice(management_failed(condition, handled).as_bytes());
}
