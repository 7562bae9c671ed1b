//! Unknown outcomes: the stream is read from the last batch that is known to count.
//!
//! That batch must be there: a stream that lacks it, or has another one there, has forgotten.
//! Batches of the queue that count behind it are acknowledged. Any other batch that counts is a
//! later leader's. At the end of the stream the rest is published again.

use super::{PAUSE, ShipEnd, Shipper, State};
use crate::batch::StreamBatch;
use crate::counting::{Anchor, Counted, Counting};
use crate::port::{ANSWER, Ask, LogCommand, StreamError, StreamPage};
use crate::rules::Rule;
use base::time::Instant;

/// A reading of the stream.
#[derive(Clone, Debug)]
pub(super) struct Settling {
    ask: Ask,
    /// When the question is asked again.
    again: Instant,
    /// Count of batches; `None` before the first page.
    counting: Option<Counting>,
    /// The batch that must be there was found.
    is_anchored: bool,
    /// How often the stream seemed to be too short.
    shorts: u8,
}

/// A stream is too short only if it is so often: a server that is behind may have answered.
const SHORTS_MAX: u8 = 3;

impl Settling {
    pub(super) fn deadline(&self) -> Instant {
        self.again
    }
}

impl Shipper {
    /// Gives up what is on its way, and reads the stream.
    pub(super) fn settle(&mut self, now: Instant, out: &mut Vec<LogCommand>) {
        self.give_up();
        self.has_looked = false;
        if !Rule::SettleByReading.holds() {
            return self.send(now, out);
        }
        self.ask(now, None, out);
    }

    /// Gives up what is on its way, and reads the stream after a while: it is full.
    pub(super) fn pause(&mut self, now: Instant) {
        self.give_up();
        self.asks += 1; // an answer to an older question is none to this one
        let (ask, again) = (self.asks, now + PAUSE);
        let (counting, is_anchored, shorts) = (None, false, 0);
        self.state = State::Settling(Settling { ask, again, counting, is_anchored, shorts });
    }

    fn give_up(&mut self) {
        self.expected -= self.flights.len() as u64;
        self.flights.clear();
        self.ready.clear();
        (self.cut, self.first) = (0, 0);
        self.round = self.round.wrapping_add(1);
    }

    fn ask(&mut self, now: Instant, counting: Option<Counting>, out: &mut Vec<LogCommand>) {
        self.asks += 1;
        let ask = self.asks;
        let shorts = match &self.state {
            State::Settling(settling) => settling.shorts,
            _ => 0,
        };
        let is_anchored = counting
            .as_ref()
            .is_some_and(|it| self.anchor.is_none_or(|anchor| it.next() > anchor.last));
        let begin = self.anchor.map_or(0, |anchor| anchor.first);
        let from = counting.as_ref().map_or(begin, Counting::next);
        let generation = self.route.generation;
        out.push(LogCommand::Read { generation, ask, from, wait: false });
        let again = now + ANSWER;
        self.state = State::Settling(Settling { ask, again, counting, is_anchored, shorts });
    }

    pub(super) fn tick_settling(&mut self, now: Instant, out: &mut Vec<LogCommand>) {
        if let State::Settling(settling) = &self.state
            && now >= settling.again
        {
            self.ask(now, None, out);
        }
    }

    /// The answer to a question of the settling.
    pub fn read(
        &mut self,
        now: Instant,
        ask: Ask,
        result: Result<StreamPage, StreamError>,
        out: &mut Vec<LogCommand>,
    ) {
        let State::Settling(settling) = &mut self.state else { return };
        if settling.ask != ask {
            return;
        }
        let page = match result {
            Ok(page) => page,
            Err(StreamError::Gone) => return self.stop(ShipEnd::Forgot),
            Err(_) => {
                settling.again = now + PAUSE;
                return;
            }
        };
        let begin = self.anchor.map_or(page.first, |anchor| anchor.first);
        let name = self.route.name;
        let mut counting = settling.counting.take().unwrap_or_else(|| Counting::new(name, begin));
        let is_short = self.anchor.is_some_and(|anchor| page.last < anchor.last);
        let is_short = is_short && Rule::NoticeForgetting.holds();
        if is_short && settling.shorts < SHORTS_MAX {
            (settling.shorts, settling.again) = (settling.shorts + 1, now + PAUSE);
            return;
        }
        if is_short || page.first > counting.next() {
            return self.stop(ShipEnd::Forgot);
        }
        for (sequence, message) in &page.messages {
            let Ok(counted) = counting.read(*sequence, message) else { break };
            if let Err(end) = self.settled(&counting, message.len(), counted, out) {
                return self.stop(end);
            }
        }
        if counting.is_void() {
            return self.stop(ShipEnd::Forgot); // parts of the first batch alone are there
        }
        if counting.ended().is_some() {
            return self.stop(ShipEnd::Deposed);
        }
        if counting.next() <= page.last {
            return self.ask(now, Some(counting), out);
        }
        (self.expected, self.has_looked) = (page.last, true);
        self.state = State::Shipping;
        self.send(now, out);
    }

    /// A message was read, and these batches count with it.
    fn settled(
        &mut self,
        counting: &Counting,
        bytes: usize,
        counted: Option<Counted>,
        out: &mut Vec<LogCommand>,
    ) -> Result<(), ShipEnd> {
        let State::Settling(settling) = &mut self.state else { return Ok(()) };
        if let Some(anchor) = self.anchor.filter(|_| !settling.is_anchored) {
            if counting.next() <= anchor.last {
                return Ok(());
            }
            settling.is_anchored = true;
            let is_there = counting.anchor().is_some_and(|it| it.end.is_same(&anchor.end));
            let is_there = is_there || !Rule::NoticeForgetting.holds();
            return if is_there { Ok(()) } else { Err(ShipEnd::Forgot) };
        }
        settling.is_anchored = true;
        self.held.message(bytes);
        let Some(Counted { at: Anchor { first, last, .. }, batches }) = counted else {
            return Ok(());
        };
        let own = |(own, (queued, _)): (&StreamBatch, &(StreamBatch, Instant))| {
            own.end().is_same(&queued.end())
        };
        let is_ours = batches.len() <= self.queue.len() && batches.iter().zip(&self.queue).all(own);
        if !is_ours {
            return Err(ShipEnd::Deposed);
        }
        self.complete(batches.len(), first, last, out);
        Ok(())
    }

    fn stop(&mut self, end: ShipEnd) {
        self.state = State::Stopped(end);
    }
}
