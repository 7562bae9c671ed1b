//! Delivery of an account's inbox to a device (RFC 6121 8.5, XEP-0160).
//!
//! ```text
//!             presence              all is written          is told of more
//!   (nothing) ────────► Standing ─► Pull ◄──► drained ─► in step ─────────► Pull …
//! ```
//! A device that is there is first given what waits, page by page, each when the one before is
//! written; then each message as it comes. Written messages are acknowledged to the service when
//! the socket has taken them: more is not known without XEP-0198. A device that does not read is
//! given nothing more until it does. With XEP-0198 what the client says it has is acknowledged
//! instead ([`acks`](super::stream_management::acks)). Invariant: stanzas come in the order of the
//! inbox, each once.

use super::Out;
use super::session::Session;
use super::stream_management::resumption::Turn;
use crate::render::{self, Rendering};
use base::time::Now;
use model::chat::{ChatMessage, ChatRequest, InboxPage};
use model::timeline::Seq;
use std::time::Duration;

/// Messages that are asked for at once.
const PAGE_MESSAGES: u16 = 64;

/// Bytes that are written of a page before the rest of it is put off until they are gone.
const PAGE_WRITTEN_BYTES: usize = 64 * 1024;

/// Messages that were addressed to a device which wanted none for all, and are not shown again once
/// it does: the newest.
const ADDRESSED_MAX: usize = 64;

/// Time after which an inbox is asked for again that could not be read.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// A request for a part of the inbox.
pub(super) struct Reading;

impl Reading {
    /// The number of all of them: there is one at a time. Messages have others.
    pub(super) const NUMBER: u32 = 0;
}

impl Session {
    /// The device is there: how far has anybody come?
    pub(super) fn read_inbox(&mut self, out: &mut Out) {
        if !self.has(Session::READING) {
            self.set(Session::READING, true);
            self.busy();
            out.say(ChatRequest::Standing { session: self.session, number: Reading::NUMBER });
        }
    }

    /// Begins at the place that any binding device of the account has acknowledged.
    pub(super) fn standing(&mut self, cursor: Seq, head: Seq, out: &mut Out) {
        self.set(Session::READING, false);
        self.place = self.place.max(cursor);
        self.knows_of(head);
        // What others had meanwhile brings it in step, if that is all.
        let upto = if self.is_acknowledged() { self.place } else { cursor };
        out.say(ChatRequest::Acknowledge { session: self.session, upto });
        self.pull_again(out);
    }

    fn knows_of(&mut self, head: Seq) {
        if head > self.place {
            let busy = self.busy();
            busy.head = busy.head.max(head);
        }
    }

    /// Whether there is more than it was given.
    fn is_behind(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.head > self.place)
    }

    /// Asks for more, if there is and nothing is on the way.
    pub(super) fn pull_again(&mut self, out: &mut Out) {
        let has_room = self.acks.as_ref().is_none_or(|acks| acks.has_room());
        let has_asked = self.has(Session::READING) || self.has(Session::ENTERING);
        let waits = has_asked || self.has(Session::DRAINING) || !has_room || self.is_put_off();
        if waits || !self.has(Session::AVAILABLE) || !self.is_behind() {
            return;
        }
        self.set(Session::READING, true);
        let (session, after) = (self.session, self.place);
        let (number, count) = (Reading::NUMBER, PAGE_MESSAGES);
        out.say(ChatRequest::Pull { session, number, after, count });
    }

    /// The service is too busy to read: it is asked again in a while.
    pub(super) fn reading_failed(&mut self, now: Now, out: &mut Out) {
        self.set(Session::READING, false);
        out.wake(now.after(READ_AGAIN));
    }

    /// A part of the inbox, which waited.
    pub(super) fn page(&mut self, page: &InboxPage, out: &mut Out) {
        self.set(Session::READING, false);
        self.knows_of(page.head);
        if !self.has(Session::AVAILABLE) || self.has(Session::ENTERING) {
            return;
        }
        let begins = out.bytes().len();
        let mut upto = page.upto;
        let begins_at = self.place;
        for (seq, message) in page.messages.iter().filter(|(seq, _)| *seq > begins_at) {
            self.place = self.place.max(*seq - 1); // before it there is nothing else
            self.replays_here(out);
            let written = out.bytes().len() - begins;
            let is_enough = written >= PAGE_WRITTEN_BYTES || out.backlog() > out.backlog_max();
            if is_enough || self.is_put_off() {
                upto = self.place;
                break;
            }
            self.write((*seq, message), true, out);
            self.place = *seq;
        }
        self.place = self.place.max(upto);
        for (_, event) in page.events.iter().filter(|(seq, _)| *seq > begins_at && *seq <= upto) {
            self.happens(event, out);
        }
        self.written(out);
    }

    /// A message that comes as it is said; or none, since something else has this place, of which
    /// XMPP has no words.
    pub(super) fn delivered(&mut self, seq: Seq, message: Option<&ChatMessage>, out: &mut Out) {
        if !self.has(Session::AVAILABLE) || seq <= self.place {
            return;
        }
        let is_given = !self.has(Session::READING) && !self.has(Session::ENTERING);
        let is_in_step = is_given && !self.is_behind() && !self.is_put_off();
        if is_in_step && out.backlog() <= out.backlog_max() {
            if let Some(message) = message {
                self.write((seq, message), false, out);
            }
            self.place = seq;
        } else {
            self.knows_of(seq);
        }
        self.written(out);
    }

    /// A message was addressed to the device, though it wants none that are for all. It waits for
    /// the account as ever, and is not shown here again.
    pub(super) fn addressed(&mut self, seq: Seq, message: &ChatMessage, out: &mut Out) {
        if self.has(Session::AVAILABLE) || !render::is_addressed_to(message, self.resource()) {
            return;
        }
        let how = Rendering { reader: self.jid(), delayed_by: None, is_carbon: false, asks: false };
        if render::write(message, how, out.bytes()) {
            let shown = &mut self.busy().addressed;
            if shown.len() >= ADDRESSED_MAX {
                shown.pop_front();
            }
            shown.push_back(seq);
            self.counts_sent(out);
        }
    }

    /// Handles the notice that the inbox has more.
    pub(super) fn notified(&mut self, head: Seq, out: &mut Out) {
        if self.has(Session::AVAILABLE) {
            self.knows_of(head);
            self.pull_again(out);
        }
    }

    /// Asks to go on once the socket has taken everything written so far.
    fn written(&mut self, out: &mut Out) {
        self.ask_for_ack(out);
        self.set(Session::DRAINING, true);
        out.tell_drained();
    }

    /// The socket has taken all.
    pub(super) fn drained(&mut self, now: Now, out: &mut Out) {
        self.marks(out);
        if self.has(Session::DRAINING) {
            self.set(Session::DRAINING, false);
            if self.is_acknowledged() {
                out.say(ChatRequest::Acknowledge { session: self.session, upto: self.place });
            }
        }
        self.settles(now, out);
        self.write_archive(out);
        self.pull_again(out);
        self.settles(now, out);
        self.rest();
    }

    /// Goes on at the device's place; `head` is the last place of the inbox.
    pub(super) fn goes_on(&mut self, head: Seq) {
        for flag in [Session::READING, Session::DRAINING, Session::PINGED, Session::HELD] {
            self.set(flag, false);
        }
        if self.has(Session::AVAILABLE) {
            self.knows_of(head);
        }
    }

    /// Appends what the device is to see of a message: of a group, as its room shows it; what it
    /// said itself it has; what others of its account said it gets as it is said, if it wants that.
    fn write(&mut self, (seq, message): (Seq, &ChatMessage), waited: bool, out: &mut Out) {
        let turn = self.turn_of(seq);
        let shown = self.busy.as_ref().map(|busy| &busy.addressed);
        if turn == Turn::Had || shown.is_some_and(|shown| shown.contains(&seq)) {
            return;
        }
        if message.to.is_group() {
            return self.write_of_room((seq, message), (waited, turn), out);
        }
        let is_own = message.from.as_str() == self.account();
        let is_to_self = message.to == message.from;
        let is_carbon = is_own && !is_to_self;
        // What the account says to itself is for all of its devices, but for what names another.
        let named = message.content.resource().is_some_and(|named| named != self.resource());
        let is_here = is_own && *message.device == *self.resource() && (!is_to_self || named);
        let has_missed = waited && !self.has_resumed();
        if is_here || (is_carbon && (has_missed || !self.has(Session::CARBONS))) {
            return;
        }
        let how = Rendering {
            reader: self.jid(),
            delayed_by: waited.then_some(self.domain()),
            is_carbon,
            asks: !is_own,
        };
        if render::write(message, how, out.bytes()) {
            self.counts_placed(seq, out);
        }
    }
}
