//! The roof's side of a shard: what it must answer, and the handle where it leaves its orders.

pub mod dialler;
#[cfg(test)]
pub(crate) mod mute;
pub mod tap;

use crate::detail::{Detail, Reached};
use crate::layer::ClientLayers;
use crate::shard::ListenerChange;
use crate::tcp::TcpFacts;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::counters::Counters;
use model::id::{ConnRef, ShardId};
use model::latency::LatencyPhase;
use model::limits::Limits;
use model::link::{Link, Protocol, WireProfile};
use model::machine::Machine;
use model::ports::bans::BanAct;
use model::ports::control::slow_clients::SlowReader;
use model::session::Denial;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tap::{TapNotes, Tapped};

type Up<H> = <<H as ShardLogic>::Machine as Machine>::Up;
type Down<H> = <<H as ShardLogic>::Machine as Machine>::Down;

/// Logic of a shard: what it drives besides its connections.
pub trait ShardLogic: Sized {
    /// The machines of all protocols, in one type.
    type Machine: Machine;
    /// Messages from the logic of one shard to that of another.
    type Mail: Send;
    /// The protocols that may come.
    const WIRES: &'static [WireProfile];
    /// Whether [`disconnected`](Self::disconnected), [`slow`](Self::slow) and
    /// [`passed`](Self::passed) are called: they cost system calls.
    const WATCHES: bool = false;

    /// The machine for a connection whose layers are open; `None`: this protocol is not served.
    fn machine(&mut self, now: Now, link: &Link, how: ConnectionOrigin) -> Option<Self::Machine>;

    /// A machine said something.
    fn word(&mut self, now: Now, from: ConnRef, word: Up<Self>, handle: &mut ShardHandle<Self>);

    /// Whether a connection from this address may come in, asked before anything of it is read; or,
    /// of one that is open, whether it goes on.
    fn lets_in(&mut self, _now: Now, _peer: IpAddr, _act: BanAct) -> bool {
        true
    }

    /// Rises when open connections must be asked about again.
    fn bans_version(&self) -> u64 {
        0
    }

    /// All open connections were asked about since that was the version.
    fn asked_again(&mut self, _version: u64) {}

    /// Mail from another shard, or from a thread outside the shards.
    fn mail(&mut self, now: Now, mail: Self::Mail, handle: &mut ShardHandle<Self>);

    /// The phase that ends when a connection with this machine is let in; none where nobody asks.
    fn login_phase(_machine: &Self::Machine) -> Option<LatencyPhase> {
        None
    }

    /// Work of its own: a slice of it. Returns when it wants its next turn at the latest.
    fn turn(&mut self, now: Now, handle: &mut ShardHandle<Self>) -> Option<Instant>;

    /// Sends the messages gathered for other shards. Called before bytes are written to peers, and
    /// again after the messages that this led to.
    fn tell_shards(&mut self, _now: Now, _handle: &mut ShardHandle<Self>) {}

    /// The turn is over.
    fn turned(&mut self, _now: Now, _handle: &mut ShardHandle<Self>) {}

    /// Whether this shard, or one it works for, has more to do than it can: until this is over its
    /// connections are not read, and their peers' windows fill.
    fn congested(&self) -> bool {
        false
    }

    /// A delivery found its connection gone.
    fn undelivered(
        &mut self,
        now: Now,
        to: ConnRef,
        down: Down<Self>,
        handle: &mut ShardHandle<Self>,
    );

    /// A connection has ended. Its machine has had its last word. The handle knows more of it:
    /// [`ShardHandle::detail`].
    fn ended(
        &mut self,
        _now: Now,
        _machine: &Self::Machine,
        _reason: CloseReason,
        _handle: &mut ShardHandle<Self>,
    ) {
    }

    /// A connection that was accepted has ended; its machine, if it had one, has had its last word.
    /// Without a `conn`: it was not let in at all.
    fn disconnected(&mut self, _now: Now, _conn: Option<ConnRef>, _end: &ConnectionEnd) {}

    /// Handles a connection that may be slow: its queued bytes, and whether its peer reads too
    /// slowly. Called about once a second, until nothing waits.
    fn slow(
        &mut self,
        _now: Now,
        _conn: ConnRef,
        _machine: &mut Self::Machine,
        (_reader, _is_slow): (SlowReader, bool),
    ) {
    }

    /// Bytes passed on a connection: of a sample of all reads and writes, each standing for those
    /// before it.
    fn passed(
        &mut self,
        _now: Now,
        _conn: ConnRef,
        _machine: &mut Self::Machine,
        _passed: PassedBytes,
    ) {
    }

    /// Handles traffic of a connection that the logic follows.
    fn tapped(
        &mut self,
        _now: Now,
        _conn: ConnRef,
        _machine: &mut Self::Machine,
        _tapped: Tapped<'_, Up<Self>>,
    ) {
    }

    /// The turn is over, and it has seen all that passed. Gives whether it wants to see more.
    fn tapped_turn(&mut self) -> bool {
        false
    }

    /// A connection leaves this shard: what it has noted of it goes along.
    fn tap_leaves(&mut self, _conn: ConnRef) -> Option<TapNotes> {
        None
    }

    /// A connection came from another shard, where this was noted of it.
    fn tap_comes(&mut self, _conn: ConnRef, _notes: TapNotes) {}

    /// A call is under way on this connection. It has no deadline of its own: a logic that wants
    /// one closes the connection, and hears of it by `dial_failed`.
    fn dialling(&mut self, _now: Now, _tag: u64, _conn: ConnRef) {}

    /// A call has come through as far as TCP. With layers they are opened next, without any
    /// [`machine`](Self::machine) follows at once.
    fn connected(&mut self, _now: Now, _tag: u64) {}

    /// A call failed before there was a machine. The handle knows more of it:
    /// [`ShardHandle::detail`], [`ShardHandle::reached`].
    fn dial_failed(
        &mut self,
        _now: Now,
        _tag: u64,
        _reason: CloseReason,
        _handle: &mut ShardHandle<Self>,
    ) {
    }
}

/// End of a connection that was accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionEnd {
    /// Why it ended.
    pub reason: CloseReason,
    /// Further details of the reason. May be empty.
    pub detail: &'static str,
    /// The peer's address, as far as it is still known.
    pub peer: Option<SocketAddr>,
    /// Its protocol; absent: the connection ended before that was known.
    pub protocol: Option<Protocol>,
    /// Name of the listener it came through.
    pub listener: Arc<str>,
    /// Its bytes, as the kernel counts them.
    pub tcp: Option<TcpFacts>,
}

/// Bytes of a connection, as the sample has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassedBytes {
    /// From the peer.
    pub received: u64,
    /// To the peer.
    pub sent: u64,
    /// The other end of the socket.
    pub peer: Option<SocketAddr>,
}

/// Origin of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionOrigin {
    /// Through this listener.
    Accepted(u8),
    /// By a call with this tag.
    Dialled(u64),
}

/// Address that is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DialAddress {
    /// An address and port.
    Tcp(SocketAddr),
    /// A socket file.
    Unix(Arc<Path>),
}

impl From<SocketAddr> for DialAddress {
    fn from(address: SocketAddr) -> DialAddress {
        DialAddress::Tcp(address)
    }
}

/// A call to make.
pub struct Dial {
    /// Address that is called.
    pub to: DialAddress,
    /// Local address, of TCP; `None`: the kernel chooses.
    pub from: Option<IpAddr>,
    /// Layers around the protocol.
    pub layers: ClientLayers,
    /// Given back with the connection.
    pub tag: u64,
}

/// Servers that clients are to use instead of this one, by the name of the listener through which
/// they came: the address, and the reason code for clients of MQTT 5 and XMPP
/// (`OtherServer::denial`).
pub type OtherServers = BTreeMap<Arc<str>, (Box<str>, Option<Denial>)>;

/// Fate of a shard's connections during a drain.
pub(crate) enum DrainOrder {
    /// The connections close over this time, and then the shard ends.
    Stop { over_ms: u32, to: Arc<OtherServers> },
    /// The connections close over this time.
    Evacuate { over_ms: u32 },
    /// The connections stay: the drain is cancelled.
    Stay,
}

/// Handle in which the logic leaves its orders during a call; the shard carries them out
/// afterwards.
pub struct ShardHandle<H: ShardLogic> {
    pub(crate) deliveries: Vec<(ConnRef, Down<H>)>,
    pub(crate) mail: Vec<(ShardId, H::Mail)>,
    pub(crate) dials: Vec<Dial>,
    pub(crate) closes: Vec<(ConnRef, CloseReason, bool)>,
    /// Clients that were turned away, and the reasons.
    pub(crate) turned_away: Vec<(ConnRef, &'static str, Option<Box<str>>)>,
    pub(crate) drain: Option<DrainOrder>,
    pub(crate) limits: Option<Arc<Limits>>,
    pub(crate) listeners: Vec<ListenerChange>,
    pub(crate) stop: bool,
    pub(crate) tapping: bool,
    pub(crate) detail: Detail,
    pub(crate) reached: Reached,
    /// Counters of this shard, to which the logic adds.
    pub counters: Counters,
    /// Connections of this shard.
    pub connections: usize,
    /// Longest turn since it was last set to zero, microseconds.
    pub turn_us_max: u64,
    /// Turns.
    pub turns: u64,
    /// Time in them.
    pub busy: Duration,
    /// Time by which they began later than the shard wanted.
    pub late: Duration,
}

impl<H: ShardLogic> ShardHandle<H> {
    pub(crate) fn new() -> Self {
        ShardHandle {
            deliveries: Vec::new(),
            mail: Vec::new(),
            dials: Vec::new(),
            closes: Vec::new(),
            turned_away: Vec::new(),
            drain: None,
            limits: None,
            listeners: Vec::new(),
            stop: false,
            tapping: false,
            detail: Detail::Nothing,
            reached: Reached::Connect,
            counters: Counters::default(),
            connections: 0,
            turn_us_max: 0,
            turns: 0,
            busy: Duration::ZERO,
            late: Duration::ZERO,
        }
    }

    /// A turn lasted so long.
    pub(crate) fn turned(&mut self, spent: Duration) {
        self.counters.lasted(LatencyPhase::Turn, spent);
        self.turn_us_max = self.turn_us_max.max(spent.as_micros() as u64);
        (self.turns, self.busy) = (self.turns + 1, self.busy + spent);
    }

    /// A turn begins so much later than the shard wanted.
    pub(crate) fn is_late(&mut self, by: Duration) {
        self.counters.lasted(LatencyPhase::Lag, by);
        self.late += by;
    }

    /// Tells a connection's machine something, on whichever shard it lives.
    pub fn deliver(&mut self, to: ConnRef, down: Down<H>) {
        self.deliveries.push((to, down));
    }

    /// Sends mail to the logic of another shard (or of this one). When its mailbox is full the
    /// mail is dropped and counted: senders that need to know keep their own account.
    pub fn post(&mut self, to: ShardId, mail: H::Mail) {
        self.mail.push((to, mail));
    }

    /// Tells the operator that this connection was turned away, at a bounded rate. Call it before
    /// its machine is told.
    pub fn turned_away(&mut self, conn: ConnRef, reason: &'static str, who: Option<&str>) {
        self.turned_away.push((conn, reason, who.map(Box::from)));
    }

    /// Makes a call.
    pub fn dial(&mut self, dial: Dial) {
        self.dials.push(dial);
    }

    /// Ends a connection of this shard.
    pub fn close(&mut self, conn: ConnRef, reason: CloseReason) {
        self.closes.push((conn, reason, false));
    }

    /// Ends a connection of this shard with a reset, and without a farewell.
    pub fn reset(&mut self, conn: ConnRef, reason: CloseReason) {
        self.closes.push((conn, reason, true));
    }

    /// Sets whether the logic is shown the traffic of this shard's connections.
    pub fn set_tapping(&mut self, on: bool) {
        self.tapping = on;
    }

    /// Details of an end beyond its reason, while the logic is notified of it.
    pub fn detail(&self) -> Detail {
        self.detail
    }

    /// How far the connection had come, while the logic handles its end.
    pub fn reached(&self) -> Reached {
        self.reached
    }

    /// Stops listening and lets the connections go over so many milliseconds; the shard ends when
    /// all are gone.
    pub fn drain(&mut self, over_ms: u32) {
        self.drain_to(over_ms, Arc::default());
    }

    /// As [`drain`](Self::drain), and sends each client to another server, if there is one for its
    /// listener.
    pub fn drain_to(&mut self, over_ms: u32, to: Arc<OtherServers>) {
        self.drain = Some(DrainOrder::Stop { over_ms, to });
    }

    /// Lets the connections go over so many milliseconds. The shard goes on, and accepts who comes.
    pub fn evacuate(&mut self, over_ms: u32) {
        self.drain = Some(DrainOrder::Evacuate { over_ms });
    }

    /// Ends an [`evacuate`](Self::evacuate): whoever is still there stays.
    pub fn stay(&mut self) {
        self.drain = Some(DrainOrder::Stay);
    }

    /// Sets new limits. Connections and buffers that exceed a lower limit stay.
    pub fn set_limits(&mut self, limits: Arc<Limits>) {
        self.limits = Some(limits);
    }

    /// Opens, changes or closes a listener. Its connections stay.
    pub fn change_listener(&mut self, change: ListenerChange) {
        self.listeners.push(change);
    }

    /// Ends the shard after this turn, with all its connections.
    pub fn stop(&mut self) {
        self.stop = true;
    }
}
