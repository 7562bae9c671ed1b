//! What the laboratory keeps of one simulated device, and its seat in a shard.
//!
//! A [`Seat`] is what the shard drives: the protocol's client machine and the pilot's place in its
//! house. A [`Pilot`] is what the house remembers of it between connections. The budget of both,
//! with the connection's record, is asserted here.

use base::time::{Instant, Now};
use model::close::CloseReason;
use model::link::Link;
use model::machine::{Input, Machine, Outbox, TurnAway};
use model::pilot::{Action, Observation};
use net::connection::Record;
use proto_miop::client::Client;
use std::cell::Cell;
use std::collections::BinaryHeap;
use std::mem::size_of;
use std::os::fd::OwnedFd;

/// Where a pilot is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// It was not called up yet, or waits to come back.
    Away,
    /// Its call is under way.
    Calling,
    /// Its Bind is under way.
    Asking,
    /// It is bound.
    Online,
    /// Its outcome is counted; the connection is about to end.
    Leaving,
    /// It will not come back.
    Gone,
}

/// One simulated device, as the house knows it.
#[derive(Clone)]
pub(crate) struct Pilot {
    /// Its connection, as bits of a `ConnRef`; meaningless while it is away.
    pub conn: u64,
    /// When what it waits for began; while leaving: when it may come back at the earliest.
    pub since: Instant,
    /// When the timed Report was sent.
    pub report_at: Instant,
    /// Number of the last Report sent on this machine.
    pub sent: u32,
    /// Reports up to this number are settled.
    pub settled: u32,
    /// Number of the Report that is timed; zero: none.
    pub timed: u32,
    /// Number of the last Report that was refused.
    pub refused: u32,
    /// Refused Reports above `settled`.
    pub refused_open: u16,
    /// Agreed heartbeat, seconds.
    pub heartbeat_s: u16,
    /// Which of its timers counts.
    pub timer: u16,
    pub state: State,
    /// Tries since it was last bound.
    pub tries: u8,
    /// A heartbeat is under way.
    pub pinging: bool,
    /// It is overdue, and was counted so.
    pub overdue: bool,
    /// It was told to go for good.
    pub farewell: bool,
    /// It has been called before.
    pub called: bool,
}

/// An entry of the house's timers: when, whose, and which of its timers.
pub(crate) type Timer = std::cmp::Reverse<(Instant, u32, u16)>;
/// The timers of a house.
pub(crate) type Timers = BinaryHeap<Timer>;

/// Budget of a pilot with an idle plain connection, bytes of user memory.
pub const PILOT_BYTES_MAX: usize = 250;

const _: () = {
    let connection = size_of::<Option<Record<Seat, OwnedFd>>>();
    let place = size_of::<u32>(); // from the connection's slot to the pilot
    let all = connection + size_of::<Pilot>() + size_of::<Timer>() + place;
    // Tables that grow may be half empty: only the timers' does here.
    assert!(all + size_of::<Timer>() + place <= PILOT_BYTES_MAX, "a pilot is too large");
    assert!(size_of::<Pilot>() <= 56);
    assert!(size_of::<Seat>() <= 56);
};

impl Pilot {
    pub(crate) const fn new() -> Pilot {
        Pilot {
            conn: 0,
            since: Instant::from_nanos(0),
            report_at: Instant::from_nanos(0),
            sent: 0,
            settled: 0,
            timed: 0,
            refused: 0,
            refused_open: 0,
            heartbeat_s: 0,
            timer: 0,
            state: State::Away,
            tries: 0,
            pinging: false,
            overdue: false,
            farewell: false,
            called: false,
        }
    }

    /// Reports without an answer.
    pub(crate) fn open_reports(&self) -> u32 {
        self.sent - self.settled - u32::from(self.refused_open)
    }
}

/// A pilot's machine, while it has a connection.
pub(crate) struct Seat {
    /// Taken out when the connection has ended, for the next one.
    client: Cell<Option<Client>>,
    /// Its place in the house.
    pub pilot: u32,
}

impl Seat {
    pub(crate) fn new(client: Client, pilot: u32) -> Seat {
        Seat { client: Cell::new(Some(client)), pilot }
    }

    /// Takes the machine, which goes on with the next connection.
    pub(crate) fn vacate(&self) -> Option<Client> {
        self.client.take()
    }

    fn client(&mut self) -> &mut Client {
        self.client.get_mut().as_mut().expect("a seat is vacated when its connection has ended")
    }
}

type Out = Outbox<Observation>;

impl Machine for Seat {
    type Up = Observation;
    type Down = Action;

    fn opened(&mut self, now: Now, link: &Link, out: &mut Out) -> Result<(), CloseReason> {
        self.client().opened(now, link, out)
    }

    fn receive(
        &mut self,
        now: Now,
        input: &mut Input<'_>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        self.client().receive(now, input, out)
    }

    fn command(&mut self, now: Now, action: Action, out: &mut Out) -> Result<(), CloseReason> {
        self.client().command(now, action, out)
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        self.client().wake(now, out)
    }

    fn silent(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        self.client().silent(now, out)
    }

    fn turn_away(&mut self, now: Now, away: TurnAway, out: &mut Out) {
        self.client().turn_away(now, away, out);
    }

    fn closed(&mut self, now: Now, reason: CloseReason, out: &mut Out) {
        self.client().closed(now, reason, out);
    }
}
