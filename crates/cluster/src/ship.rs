//! The leader's way from its disk to its answers: every batch to the stream, in order.
//!
//! ```text
//!           ┌── acknowledged in order ──┐
//! Shipping ─┴─► refused, silent ─► Settling ─► Shipping        Stopped, for good:
//!                                     └──────────────────────► deposed, forgot, gone
//! ```
//! Batches are cut into messages of up to 256 KiB; small ones travel together. At most
//! [`FLIGHTS_MAX`] messages are on their way, each under the sequence of the one before it. When an
//! answer is a refusal or does not come, nothing is known: the stream is read from the last batch
//! that is known to count, what counts is acknowledged, and the rest is published again.
//!
//! Invariant: [`LogCommand::Release`] names an index only if the stream has acknowledged every
//! batch up to it, at consecutive sequences behind one that counts.

use crate::batch::{LogLeader, StreamBatch};
use crate::counting::{Anchor, Counted, Counting};
use crate::held::{DuePurge, Held};
use crate::port::{ANSWER, Ask, LogCommand, PublishNumber, StreamError};
use crate::rules::Rule;
use crate::wire::message::{LogName, PIECE_BYTES_MAX, messages_of};
use base::time::{Instant, earliest};
use std::collections::VecDeque;
use std::time::Duration;

mod settle;
#[cfg(test)]
mod tests;

/// Messages on their way, at most.
pub const FLIGHTS_MAX: usize = 8;

/// A small batch waits so long for others while messages are on their way ...
const GATHER: Duration = Duration::from_millis(2);

/// ... unless there are so many bytes: from here on a message costs by its bytes.
const GATHER_BYTES: usize = 64 << 10;

/// A stream that was silent or full is asked again after so long.
const PAUSE: Duration = Duration::from_millis(500);

/// Why nothing more can be shipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShipEnd {
    /// Another node leads, or has ended the generation.
    Deposed,
    /// The stream lacks what it had acknowledged, or does not exist.
    Forgot,
}

/// The log, its leader, and the stream to which it is shipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShipRoute {
    /// The log.
    pub name: LogName,
    /// The leader.
    pub by: LogLeader,
    /// The generation of the stream.
    pub generation: u32,
}

/// The shipping of one log.
#[derive(Clone, Debug)]
pub struct Shipper {
    route: ShipRoute,
    /// The last batch that is known to count.
    anchor: Option<Anchor>,
    held: Held,
    /// Batches that are not acknowledged, oldest first, and since when they are there.
    queue: VecDeque<(StreamBatch, Instant)>,
    /// Number of batches in the queue that are in messages of this round.
    cut: usize,
    /// Messages that are cut and not sent.
    ready: VecDeque<Outgoing>,
    flights: VecDeque<Flight>,
    round: u64,
    asks: Ask,
    /// The stream was read to its end since it last was in doubt whether it goes on.
    has_looked: bool,
    /// The number of the first flight.
    first: u32,
    /// The sequence behind which the next message is to stand.
    expected: u64,
    state: State,
    last_released: Option<StreamBatch>,
}

#[derive(Clone, Debug)]
struct Outgoing {
    message: Vec<u8>,
    /// How many batches are whole with it.
    completes: usize,
    /// How many parts of a batch are there with it.
    parts: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    sequence: u64,
    sent: Instant,
    is_acknowledged: bool,
    bytes: usize,
    completes: usize,
    parts: u64,
}

/// Whether a message stands where it was expected to, directly behind the one before it.
fn is_expected(sequence: u64, flight: &Flight) -> bool {
    let is_blind = !Rule::LateAnswersAreVoid.holds() || !Rule::Fence.holds();
    sequence == flight.sequence || is_blind
}

#[derive(Clone, Debug)]
enum State {
    Shipping,
    Settling(settle::Settling),
    Stopped(ShipEnd),
}

impl Shipper {
    /// Ships behind what was counted in a stream that was read to its end. Its questions and its
    /// rounds have this number and those behind it.
    pub fn new(route: ShipRoute, counting: &Counting, held: Held, ask: Ask) -> Shipper {
        Shipper {
            route,
            anchor: counting.anchor(),
            held,
            queue: VecDeque::new(),
            cut: 0,
            ready: VecDeque::new(),
            flights: VecDeque::new(),
            round: ask,
            asks: ask,
            has_looked: true,
            first: 0,
            expected: counting.next() - 1,
            state: State::Shipping,
            last_released: None,
        }
    }

    /// The generation of the stream.
    pub fn generation(&self) -> u32 {
        self.route.generation
    }

    /// A batch is on the leader's disk.
    pub fn push(&mut self, now: Instant, batch: StreamBatch, out: &mut Vec<LogCommand>) {
        if !Rule::WaitForTheStream.holds() {
            out.push(LogCommand::Release { index: batch.last_index() });
        }
        self.queue.push_back((batch, now));
        self.send(now, out);
    }

    /// Whether everything was acknowledged.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether everything was acknowledged and the stream is not being read: nobody else is known
    /// to lead.
    pub fn is_settled(&self) -> bool {
        self.is_idle() && matches!(self.state, State::Shipping)
    }

    /// Whether the stream is full by this node's own count.
    pub fn is_full(&self) -> bool {
        self.held.is_full()
    }

    /// Why nothing more can be shipped.
    pub fn stopped(&self) -> Option<ShipEnd> {
        match self.state {
            State::Stopped(end) => Some(end),
            _ => None,
        }
    }

    /// Batches that were not acknowledged, behind the last one that was: another generation begins
    /// with them.
    pub fn into_rest(self) -> Vec<StreamBatch> {
        let rest = self.queue.into_iter().map(|(batch, _)| batch);
        self.last_released.into_iter().chain(rest).collect()
    }

    /// When it wants to be ticked.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Stopped(_) => None,
            State::Settling(settling) => Some(settling.deadline()),
            State::Shipping => {
                let is_open = self.flights.len() < FLIGHTS_MAX;
                let waits = self.queue.get(self.cut).filter(|_| is_open);
                let gathers = waits.map(|(_, since)| *since + GATHER);
                let answer = self.flights.front().map(|flight| flight.sent + ANSWER);
                earliest([gathers, answer])
            }
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant, out: &mut Vec<LogCommand>) {
        match &self.state {
            State::Stopped(_) => {}
            State::Settling(_) => self.tick_settling(now, out),
            State::Shipping => {
                let late = |flight: &Flight| now.since(flight.sent) >= ANSWER;
                match self.flights.front().is_some_and(late) {
                    true => self.settle(now, out),
                    false => self.send(now, out),
                }
            }
        }
    }

    /// The answer to a message.
    pub fn published(
        &mut self,
        now: Instant,
        number: PublishNumber,
        result: Result<u64, StreamError>,
        out: &mut Vec<LogCommand>,
    ) {
        let is_void = number.round != self.round && Rule::LateAnswersAreVoid.holds();
        if is_void || !matches!(self.state, State::Shipping) {
            return;
        }
        let at = number.number.wrapping_sub(self.first) as usize;
        let Some(flight) = self.flights.get_mut(at) else { return };
        match result {
            Ok(sequence) if is_expected(sequence, flight) => {
                flight.is_acknowledged = true;
                if !Rule::AcknowledgedInOrder.holds() {
                    self.flights.iter_mut().take(at).for_each(|it| it.is_acknowledged = true);
                }
                self.acknowledge(out);
                self.send(now, out);
            }
            Err(StreamError::Full) => self.pause(now),
            Ok(_) | Err(_) => self.settle(now, out),
        }
    }

    /// A purge that is due, when these indexes are on the disks of the leader and its followers.
    pub fn due_purge(&self, own: u64, followers: &[u64], copies_min: usize) -> Option<DuePurge> {
        self.held.due(own, followers, copies_min).filter(|_| self.stopped().is_none())
    }

    /// The stream is purged.
    pub fn purged(&mut self, below: u64) {
        self.held.purged(below);
    }

    /// Reads the stream: perhaps somebody else leads.
    pub fn look(&mut self, now: Instant, out: &mut Vec<LogCommand>) {
        self.has_looked = false;
        if matches!(self.state, State::Shipping) {
            self.settle(now, out);
        }
    }

    /// Whether the stream was read since it was last looked at, and goes on.
    pub fn has_looked(&self) -> bool {
        self.has_looked
    }

    /// Releases what is acknowledged with all before it.
    fn acknowledge(&mut self, out: &mut Vec<LogCommand>) {
        while let Some(flight) = self.flights.pop_front_if(|flight| flight.is_acknowledged) {
            self.first = self.first.wrapping_add(1);
            self.held.message(flight.bytes);
            if flight.completes > 0 {
                let first = flight.sequence + 1 - flight.parts;
                self.complete(flight.completes, first, flight.sequence, out);
            }
        }
    }

    /// The first batches of the queue count, and stand at these sequences.
    fn complete(&mut self, count: usize, first: u64, last: u64, out: &mut Vec<LogCommand>) {
        let batches: Vec<StreamBatch> = self.queue.drain(..count).map(|(batch, _)| batch).collect();
        self.cut = self.cut.saturating_sub(count);
        let Some(newest) = batches.last() else { return };
        let at = Anchor { first, last, end: newest.end() };
        out.push(LogCommand::Release { index: at.end.index });
        (self.anchor, self.last_released) = (Some(at), Some(newest.clone()));
        self.held.count(&Counted { at, batches });
    }

    /// Sends what there is, as far as messages may be on their way.
    fn send(&mut self, now: Instant, out: &mut Vec<LogCommand>) {
        if !matches!(self.state, State::Shipping) {
            return;
        }
        while self.flights.len() < FLIGHTS_MAX {
            if self.ready.is_empty() && !self.gather(now) {
                return;
            }
            let Some(Outgoing { message, completes, parts }) = self.ready.pop_front() else {
                return;
            };
            let (expected, bytes) = (self.expected, message.len());
            let number = self.first.wrapping_add(self.flights.len() as u32);
            self.expected += 1;
            let sequence = self.expected;
            let is_acknowledged = false;
            let flight = Flight { sequence, sent: now, is_acknowledged, bytes, completes, parts };
            self.flights.push_back(flight);
            let generation = self.route.generation;
            let number = PublishNumber { round: self.round, number };
            out.push(LogCommand::Publish { generation, number, expected, message });
        }
    }

    /// Cuts the next batches into messages, if they need not wait for more.
    fn gather(&mut self, now: Instant) -> bool {
        let Some((first, since)) = self.queue.get(self.cut) else { return false };
        let (mut bytes, mut count) = (first.bytes().len(), 1);
        for (batch, _) in self.queue.range(self.cut + 1..) {
            if bytes + batch.bytes().len() > PIECE_BYTES_MAX {
                break;
            }
            bytes += batch.bytes().len();
            count += 1;
        }
        let is_due = self.flights.is_empty() || bytes >= GATHER_BYTES;
        if !is_due && now.since(*since) < GATHER {
            return false;
        }
        let batches = self.queue.range(self.cut..self.cut + count).map(|(batch, _)| batch.clone());
        let batches: Vec<StreamBatch> = batches.collect();
        let messages = messages_of(self.route.name, self.route.by, &batches);
        let last = messages.len() - 1;
        let outgoing = messages.into_iter().enumerate().map(|(at, message)| {
            let completes = if at == last { count } else { 0 };
            Outgoing { message, completes, parts: at as u64 + 1 }
        });
        self.ready.extend(outgoing);
        self.cut += count;
        true
    }
}
