//! Virtual client: what the laboratory keeps of it, and its slot in a shard.
//!
//! A [`FleetSlot`] is what the shard drives: the protocol's client machine and the virtual client's
//! place in its logic. A [`VirtualClient`] is what the logic remembers of it between connections.
//! The budget of both, with the connection's record, is asserted here: it holds for a client of
//! MIOP, and for one of MQTT with its subscription, for what a subscription is follows from the
//! fleet's profile. A device that talks (IM) has [`IM_CLIENT_BYTES_MAX`] besides.
//!
//! [`IM_CLIENT_BYTES_MAX`]: super::client::im::IM_CLIENT_BYTES_MAX

use super::client::{Client, ClientAct};
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::link::{Link, StartTlsRefusal};
use model::machine::{Input, Machine, Outbox, TurnAway};
use model::ports::virtual_client::Observation;
use net::connection::ConnectionRecord;
use std::cell::Cell;
use std::collections::BinaryHeap;
use std::mem::size_of;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Where a virtual client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The client was not called up yet, or waits to come back.
    Away,
    /// Its call is under way, layers included.
    Calling,
    /// Its Bind is under way.
    Asking,
    /// The client is bound.
    Online,
    /// Its outcome is counted; the connection is about to end.
    Leaving,
    /// The client will not come back by itself.
    Gone,
}

/// One simulated client, as the logic knows it.
#[derive(Clone)]
pub(crate) struct VirtualClient {
    /// Its connection, as bits of a `ConnRef`; meaningless while it is away.
    pub conn: u64,
    /// When what it waits for was planned to begin; while leaving: when it may come back at the
    /// earliest.
    pub since: Instant,
    /// When its call was planned.
    pub call_at: Instant,
    /// How much later than planned what it waits for began, microseconds.
    pub late_us: u32,
    /// How much later than planned its call began, microseconds.
    pub call_late_us: u32,
    /// Number of the last message or request sent on this machine.
    pub sent: u32,
    /// Messages or requests without an answer, and the oldest and newest of them.
    pub open: u32,
    pub oldest: u32,
    pub newest: u32,
    /// Its last number in a row.
    pub row: u32,
    /// The last number in a row that it heard, with the sender's tag above; zero: none.
    pub heard: u32,
    /// When an unwanted end took it offline; see [`VirtualClient::lose`]. Zero: it did not.
    pub lost: u32,
    /// Agreed heartbeat, seconds.
    pub heartbeat_s: u16,
    /// Which of its timers counts.
    pub timer: u16,
    /// The plan of messages for which it has a timer of its own.
    pub every: u8,
    /// Tries since it was last bound.
    pub tries: u8,
    pub state: State,
    pub ears: Ears,
    pub flags: Flags,
}

/// How a virtual client on a connection behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ears {
    /// As it should.
    Open,
    /// The client sends, and reads nothing.
    Deaf,
    /// The client neither reads nor sends.
    Frozen,
}

/// Further facts about a client, one bit each.
#[derive(Clone, Copy, Default)]
pub(crate) struct Flags(u16);

impl Flags {
    /// A heartbeat is under way.
    pub const PINGING: u16 = 1;
    /// The client is overdue, and was counted so.
    pub const OVERDUE: u16 = 2;
    /// The client goes for good.
    pub const FAREWELL: u16 = 4;
    /// The client has been called before.
    pub const CALLED: u16 = 8;
    /// The client comes back at once, whatever the plan says.
    pub const AT_ONCE: u16 = 16;
    /// The client was told to say farewell.
    pub const TOLD: u16 = 32;
    /// The client was frozen or deaf on this connection, and nothing it sent since was answered.
    pub const FROZEN: u16 = 64;
    /// The client came with something stored for it, and has not pulled all of it yet.
    pub const BEHIND: u16 = 128;
    /// The client has been bound before, so a server that keeps sessions has one for it.
    pub const KNOWN: u16 = 256;
    /// An earlier session goes on with this connection: messages may come with DUP.
    pub const RESUMED: u16 = 512;
    /// All its subscriptions of this run were granted at the QoS that it asked for.
    pub const GRANTED: u16 = 1024;

    pub fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    pub fn set(&mut self, flag: u16) {
        self.0 |= flag;
    }

    /// Takes a flag away: whether it was there.
    pub fn take(&mut self, flag: u16) -> bool {
        let had = self.has(flag);
        self.0 &= !flag;
        had
    }
}

/// Purpose of a timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Aim {
    /// To come back, or to beat: what [`VirtualClient::timer`] counts.
    Own,
    /// The next message of the plan with this number ([`VirtualClient::every`]) and place.
    Every(u8),
}

/// An entry of the logic's timers: when, whose, which of its timers, and what for.
pub(crate) type Timer = std::cmp::Reverse<(Instant, u32, u16, Aim)>;
/// The timers of a logic.
pub(crate) type Timers = BinaryHeap<Timer>;

/// Budget of a virtual client with an idle plain connection, bytes of user memory.
pub const PILOT_BYTES_MAX: usize = 250;

const _: () = {
    let connection = size_of::<Option<ConnectionRecord<FleetSlot, OwnedFd>>>();
    let place = size_of::<u32>(); // from the connection's slot to the virtual client
    let all = connection + size_of::<VirtualClient>() + size_of::<Timer>() + place;
    // Tables that grow may be half empty: only the timers' does here.
    assert!(all + size_of::<Timer>() + place <= PILOT_BYTES_MAX, "a pilot is too large");
    assert!(size_of::<VirtualClient>() <= 72);
    assert!(size_of::<FleetSlot>() <= 80);
};

/// No message under way.
pub(crate) const NONE: u32 = u32::MAX;
/// The grain of [`VirtualClient::lost`].
const LOST_NANOS: u64 = 64_000;

impl VirtualClient {
    pub(crate) const fn new() -> VirtualClient {
        VirtualClient {
            conn: 0,
            since: Instant::from_nanos(0),
            call_at: Instant::from_nanos(0),
            late_us: 0,
            call_late_us: 0,
            sent: 0,
            open: 0,
            oldest: NONE,
            newest: NONE,
            row: 0,
            heard: 0,
            lost: 0,
            heartbeat_s: 0,
            timer: 0,
            every: 0,
            tries: 0,
            state: State::Away,
            ears: Ears::Open,
            flags: Flags(0),
        }
    }

    /// Notes that the client was taken offline against its will, unless it is offline already. Kept
    /// in 64 microseconds, which wrap after three days.
    pub(crate) fn lose(&mut self, now: Instant) {
        if self.lost == 0 {
            self.lost = ((now.nanos() / LOST_NANOS) as u32).max(1);
        }
    }

    /// Notes that the client is back; returns how long it was offline.
    pub(crate) fn recover(&mut self, now: Instant) -> Option<Duration> {
        let lost = std::mem::take(&mut self.lost);
        let grains = ((now.nanos() / LOST_NANOS) as u32).wrapping_sub(lost);
        (lost != 0).then(|| Duration::from_nanos(u64::from(grains) * LOST_NANOS))
    }

    pub(crate) fn is_pinging(&self) -> bool {
        self.flags.has(Flags::PINGING)
    }
}

/// A virtual client's machine, while it has a connection.
pub(crate) struct FleetSlot {
    /// Taken out when the connection has ended, for the next one.
    client: Cell<Option<Client>>,
    /// Its place in the logic.
    pub virtual_client: u32,
}

impl FleetSlot {
    pub(crate) fn new(client: Client, virtual_client: u32) -> FleetSlot {
        FleetSlot { client: Cell::new(Some(client)), virtual_client }
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

impl Machine for FleetSlot {
    type Up = Observation;
    type Down = ClientAct;

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

    fn command(&mut self, now: Now, act: ClientAct, out: &mut Out) -> Result<(), CloseReason> {
        self.client().command(now, act, out)
    }

    fn wake(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        self.client().wake(now, out)
    }

    fn drained(&mut self, now: Now, out: &mut Out) -> Result<(), CloseReason> {
        self.client().drained(now, out)
    }

    fn tls_started(
        &mut self,
        _: Now,
        link: Result<&Link, StartTlsRefusal>,
        out: &mut Out,
    ) -> Result<(), CloseReason> {
        self.client().tls_started(link, out)
    }

    fn silent(&mut self, _: Now, _: &mut Out) -> Result<(), CloseReason> {
        Err(CloseReason::KeepAliveTimeout)
    }

    fn turn_away(&mut self, _: Now, _: TurnAway<'_>, _: &mut Out) {
        // Nobody turns away the connections of a fleet.
    }

    fn closed(&mut self, now: Now, reason: CloseReason, out: &mut Out) {
        self.client().closed(now, reason, out);
    }
}
