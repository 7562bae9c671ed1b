//! One thread's share of the world: the event loop.
//!
//! A turn: wait; accept, read and feed machines; shard messages; timers; a slice of the keep-alive
//! sweep; the logic's own slice; then one write for every connection that has something to say.
//! Nothing in a turn waits, and nothing in it is longer than a slice, so that no connection is late
//! because another is busy.
//!
//! The shard knows connections; what they mean is the machines' and the logic's business. The
//! parts are in siblings: [`accept`](self::accept), [`listeners`](self::listeners),
//! [`read`](self::read), [`partial`](self::partial), [`write`](self::write), [`taps`](self::taps),
//! [`timers`](self::timers).

mod accept;
mod bans;
mod census;
mod ends;
mod handing;
mod listeners;
mod notices;
pub mod outqueue;
mod partial;
mod passed;
mod read;
mod slow;
mod start_tls;
mod taps;
mod timers;
mod told;
mod write;

pub use self::census::Census;
use self::census::NO_BUCKET;
pub use self::listeners::ListenerChange;
use crate::connection::{ConnectionRecord, Extra, PartialFrame};
use crate::detail::Detail;
use crate::layer::ListenerSetup;
use crate::logic::tap::{TapNotes, Tapped};
use crate::logic::{ShardHandle, ShardLogic};
use crate::transport::{Net, ReadyEvent};
use base::hash::HashKey;
use base::prng::Prng;
use base::slab::{Key, Slab};
use base::time::{Instant, Now, earliest};
use base::wheel::Wheel;
use model::close::CloseReason;
use model::counters::ProcessCounter;
use model::id::{ConnRef, ShardId};
use model::limits::Limits;
use model::link::{FrameLimits, Protocol, WireProfile};
use model::machine::{Machine, Outbox, TurnAway};
use model::ports::control::top::Sampler;
use model::request::Refusal;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Bytes read at once: the one read buffer of the shard.
const READ_BYTES: usize = 64 * 1024;
/// Time after which a logic that was congested is asked again.
const CONGESTED: Duration = Duration::from_millis(1);
/// Extras kept for reuse.
const POOL_MAX: usize = 128;

/// Message between shards.
pub enum ShardMessage<M: Machine, Mail, S> {
    /// A connection that comes to live here.
    Moved(Box<Moved<M, S>>),
    /// A delivery for a connection here.
    Deliver(ConnRef, M::Down),
    /// Mail between the shards' logic.
    Mail(Mail),
    /// A connection from somebody beside the shards.
    Given(Box<GivenConnection<S>>),
}

/// A connection that somebody beside the shards gives to one: its socket is of this process, and
/// what is to be known of it is what that one says.
pub struct GivenConnection<S> {
    /// The shard's end.
    pub socket: S,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Its protocol.
    pub protocol: Protocol,
    /// Whether the connection is encrypted on its way to the client.
    pub encrypted: bool,
    /// The listener that it came through, in another form.
    pub door: u8,
}

/// A connection on its way to its owner's shard.
pub struct Moved<M, S> {
    record: ConnectionRecord<M, S>,
    /// Bytes the machine has not taken yet.
    unread: Vec<u8>,
    /// Bucket of its source in the counts.
    bucket: u16,
    /// Notes of the trace that follows it.
    notes: Option<TapNotes>,
}

/// The shard messages of a shard with logic `H` over network `N`.
pub type ShardMessageOf<H, S> =
    ShardMessage<<H as ShardLogic>::Machine, <H as ShardLogic>::Mail, S>;

type Conn<N, H> = ConnectionRecord<<H as ShardLogic>::Machine, <N as Net>::Socket>;

/// Settings of a shard.
#[derive(Clone)]
pub struct Settings {
    /// Which shard this is.
    pub shard: ShardId,
    /// How many there are.
    pub shards: u16,
    /// The process's key for hashing identities.
    pub hash_key: HashKey,
    /// The limits in force.
    pub limits: Arc<Limits>,
    /// Listeners, in the order of the network's doors.
    pub doors: Vec<Arc<ListenerSetup>>,
    /// Connections of the whole process.
    pub census: Arc<Census>,
    /// For jitter.
    pub seed: u64,
    /// Random, and this shard's alone: the key of the secrets that its machines draw.
    pub secrets: [u8; 32],
}

/// Limits of frames by protocol.
struct FrameTable([FrameLimits; Protocol::COUNT]);

impl FrameTable {
    /// While the layers open nobody knows what is in them: the widest holds.
    fn of(wires: &[WireProfile], limits: &Limits) -> FrameTable {
        let each = || wires.iter().map(|wire| (wire.protocol, (wire.frames)(limits)));
        let widest = |of: fn(&FrameLimits) -> usize| each().map(|(_, it)| of(&it)).max();
        let opening = FrameLimits {
            unbound_bytes_max: widest(|it| it.unbound_bytes_max).unwrap_or_default(),
            bytes_max: widest(|it| it.bytes_max).unwrap_or_default(),
            out_bytes_max: limits.out_bytes_max as usize,
            out_frames_max: limits.out_frames_max as usize,
            counts_shared_alone: false,
            backlog_bytes_max: usize::MAX,
        };
        let mut table = [opening; Protocol::COUNT];
        each().for_each(|(protocol, it)| table[protocol as usize] = it);
        FrameTable(table)
    }

    fn at(&self, protocol: Protocol) -> &FrameLimits {
        &self.0[protocol as usize]
    }
}

/// Connections that a shard may hold.
fn room(limits: &Limits) -> usize {
    limits.connections_max as usize + limits.crowd_max as usize
}

/// One thread's share of the world.
pub struct Shard<N: Net, H: ShardLogic> {
    settings: Settings,
    net: N,
    logic: H,
    handle: ShardHandle<H>,
    conns: Slab<Conn<N, H>>,
    outbox: Outbox<<H::Machine as Machine>::Up>,
    /// Limits of each protocol for data in flight.
    frames: FrameTable,
    wheel: Wheel,
    jitter: Prng,
    now: Now,
    /// Connections with something to write.
    dirty: Vec<Key>,
    /// Connections whose unread bytes may be fed again.
    refeed: Vec<Key>,
    /// Reads put off to the next turn, with whether the peer's end was seen.
    deferred: VecDeque<(Key, bool)>,
    /// Connections whose machines wanted to know that all is written, and it is.
    drained: Vec<Key>,
    /// The logic has more to do than it can: nothing is read in this turn.
    congested: bool,
    /// Shard messages that found a full mailbox.
    unposted: VecDeque<(ShardId, N::Message)>,
    #[expect(clippy::vec_box, reason = "they move between here and records, which hold a box")]
    pool: Vec<Box<Extra>>,
    buffer: Vec<u8>,
    ready: Vec<ReadyEvent>,
    shard_messages: Vec<N::Message>,
    due: Vec<u64>,
    sweep: timers::Sweep,
    /// Looks at the silence of those whose keep-alive is too short for the sweep.
    looks: Wheel,
    notices: notices::Notices,
    slow: slow::SlowLooks,
    /// Bytes that pass.
    passed: Sampler,
    /// Connection whose end the logic reported itself: it is not reported again.
    last_away: Option<Key>,
    ban_walk: bans::BanWalk,
    changes: listeners::Changes,
    drain: Option<timers::Drain>,
    /// Bytes of frames that are not whole, of the connections here.
    partial_bytes: u64,
    /// Where connections are counted by their source, by slot; as long as it has to be.
    buckets: Vec<u16>,
    handshakes_left: u32,
    logic_next: Option<Instant>,
    stopped: bool,
}

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    /// A shard that has not turned yet.
    pub fn new(settings: Settings, mut net: N, logic: H) -> Self {
        let now = net.now();
        Shard {
            outbox: Outbox::new(settings.hash_key, settings.secrets),
            frames: FrameTable::of(H::WIRES, &settings.limits),
            jitter: Prng::new(settings.seed ^ u64::from(settings.shard.0)),
            conns: Slab::new(room(&settings.limits)),
            wheel: Wheel::default(),
            handle: ShardHandle::new(),
            dirty: Vec::new(),
            refeed: Vec::new(),
            deferred: VecDeque::new(),
            drained: Vec::new(),
            congested: false,
            unposted: VecDeque::new(),
            pool: Vec::new(),
            buffer: vec![0; READ_BYTES],
            ready: Vec::new(),
            shard_messages: Vec::new(),
            due: Vec::new(),
            sweep: timers::Sweep::default(),
            looks: Wheel::default(),
            notices: notices::Notices::default(),
            slow: slow::SlowLooks::default(),
            passed: Sampler::default(),
            last_away: None,
            ban_walk: bans::BanWalk::default(),
            changes: listeners::Changes::default(),
            drain: None,
            partial_bytes: 0,
            buckets: Vec::new(),
            handshakes_left: 0,
            logic_next: Some(now.mono),
            stopped: false,
            settings,
            net,
            logic,
            now,
        }
    }

    /// Turns until it is stopped.
    pub fn run(&mut self) {
        while self.turn() {}
    }

    /// One turn of the loop. False once the shard has ended and holds no connection.
    pub fn turn(&mut self) -> bool {
        let mut ready = std::mem::take(&mut self.ready);
        let timeout = self.next_turn().map(|at| at - self.now.mono);
        self.net.wait(timeout, &mut ready);
        let now = self.net.now();
        self.act(now, &mut ready);
        self.net.wake_posted(&mut |_| false);
        self.ready = ready;
        !self.stopped
    }

    /// The turn itself, over what is ready. Gives when it was over. Shards that were posted to are
    /// not woken yet.
    pub fn act(&mut self, now: Now, ready: &mut Vec<ReadyEvent>) -> Instant {
        self.now = now;
        self.handshakes_left = read::HANDSHAKES_PER_TURN;
        self.congested = self.logic.congested();
        // What other shards had to say before a peer was answered is heard before what that peer
        // says next, whichever shard it says it to.
        self.read_shard_messages();
        self.read_deferred();
        self.feed_again();
        for event in ready.drain(..) {
            match event {
                ReadyEvent::Socket { token, readable, writable, ended } => {
                    self.on_socket(Key::unpack(token), readable, writable, ended);
                }
                ReadyEvent::Door(door) => drop(self.accept(door)),
                ReadyEvent::Mailbox => {}   // it was read before all else
                ReadyEvent::Nested(_) => {} // whoever nested it looks there
            }
        }
        self.fire_timers();
        self.look_closely();
        self.tell_more();
        self.look_for_slow();
        self.sweep_slice();
        self.walk_bans();
        self.change_listeners();
        self.handle.connections = self.conns.len();
        self.logic_next = self.logic.turn(self.now, &mut self.handle);
        self.settle();
        self.drain_slice();
        self.tell_shards();
        self.flush_dirty();
        self.tell_drained();
        self.tell_shards();
        self.logic.turned(self.now, &mut self.handle);
        self.settle();
        if self.handle.tapping {
            self.handle.tapping = self.logic.tapped_turn();
        }
        self.post_again();
        let over = self.net.mono();
        let spent = over - self.now.mono;
        self.handle.turned(spent);
        over
    }

    /// Puts the logic's messages into the mailboxes of other shards, before bytes are written to
    /// peers.
    fn tell_shards(&mut self) {
        self.logic.tell_shards(self.now, &mut self.handle);
        self.settle();
    }

    /// Which one it is.
    pub fn number(&self) -> ShardId {
        self.settings.shard
    }

    /// Whether it has ended and holds no connection.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// The logic, to look at.
    pub fn logic(&self) -> &H {
        &self.logic
    }

    /// The logic, to prepare it before the first turn.
    pub fn logic_mut(&mut self) -> &mut H {
        &mut self.logic
    }

    /// Counters of this shard.
    pub fn handle(&self) -> &ShardHandle<H> {
        &self.handle
    }

    /// Leaves orders from outside a turn; they are carried out in the next one.
    pub fn handle_mut(&mut self) -> &mut ShardHandle<H> {
        &mut self.handle
    }

    /// The network, to look at.
    pub fn net(&self) -> &N {
        &self.net
    }

    /// The network, to wait with.
    pub fn net_mut(&mut self) -> &mut N {
        &mut self.net
    }

    /// Bytes that wait for sockets, of all connections here: a walk over them.
    pub fn waiting_bytes(&self) -> usize {
        let slots = 0..self.conns.slots();
        slots.filter_map(|slot| self.conns.tenant(slot)).map(|(_, conn)| conn.backlog()).sum()
    }

    /// Connections held.
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    /// When it wants to turn though nothing is ready: at once if that is past, for work was left
    /// over. Changes in a turn and not otherwise.
    pub fn next_turn(&self) -> Option<Instant> {
        let reads = !self.deferred.is_empty();
        let busy = (reads && !self.congested)
            || !self.unposted.is_empty()
            || !self.refeed.is_empty()
            || !self.drained.is_empty()
            || !self.dirty.is_empty()
            || self.ban_walk.is_under_way()
            || self.changes.is_under_way()
            || !self.handle.dials.is_empty();
        if busy {
            return Some(self.now.mono);
        }
        let again = reads.then(|| self.now.mono + CONGESTED);
        let (logic, sweep, drain) = (self.logic_next, self.next_sweep(), self.next_drain());
        let (wheel, looks, notices) = (self.wheel.next(), self.looks.next(), self.notices.next());
        earliest([logic, sweep, drain, wheel, looks, notices, self.slow.next(), again])
    }

    fn conn_ref(&self, key: Key) -> ConnRef {
        ConnRef::new(self.settings.shard, key)
    }

    /// Lets a machine do one thing and carries out what it wants. Words are passed to the logic;
    /// the logic's orders wait for [`settle`](Self::settle).
    fn drive(
        &mut self,
        key: Key,
        act: impl FnOnce(
            &mut H::Machine,
            Now,
            &mut Outbox<<H::Machine as Machine>::Up>,
        ) -> Result<(), CloseReason>,
    ) {
        let Some(conn) = self.conns.at_mut(key) else { return };
        let backlog_max = self.frames.at(conn.protocol).backlog_bytes_max;
        self.outbox.set_backlog(conn.backlog(), backlog_max);
        let Some(machine) = conn.machine.as_mut() else { return };
        let result = act(machine, self.now, &mut self.outbox);
        self.carry_out(key, result);
    }

    /// Empties the outbox after a machine has acted.
    fn carry_out(&mut self, key: Key, result: Result<(), CloseReason>) {
        let from = self.conn_ref(key);
        if self.handle.tapping {
            self.tap_output(key);
        }
        if let Some(at) = self.outbox.take_wake() {
            self.wheel.insert(at, key.pack());
        }
        if let Some(silence_ms) = self.outbox.take_silence() {
            self.agree_on_silence(key, silence_ms);
        }
        let beats = self.outbox.take_beats();
        self.handle.counters.count_by(ProcessCounter::Pings, beats);
        self.outbox.count_into(&mut self.handle.counters);
        if let Some(hold) = self.outbox.take_hold() {
            self.hold(key, hold);
        }
        let queued = self.queue_wire(key);
        let starts_tls = self.outbox.take_start_tls();
        if self.outbox.take_tell_drained() {
            self.tell_when_drained(key);
        }
        for word in self.outbox.words() {
            self.logic.word(self.now, from, word, &mut self.handle);
        }
        if let Err(reason) = result.and(queued) {
            self.end(key, reason);
        } else if starts_tls {
            self.start_tls(key);
        }
    }

    /// Carries out the logic's orders until none is left.
    fn settle(&mut self) {
        loop {
            self.tell_turned_away();
            while !self.handle.deliveries.is_empty() {
                let mut deliveries = std::mem::take(&mut self.handle.deliveries);
                for (to, down) in deliveries.drain(..) {
                    self.deliver(to, down);
                }
                if self.handle.deliveries.is_empty() {
                    self.handle.deliveries = deliveries; // its capacity is worth keeping
                }
            }
            for (to, mail) in std::mem::take(&mut self.handle.mail) {
                if to == self.settings.shard {
                    self.logic.mail(self.now, mail, &mut self.handle);
                } else {
                    self.post(to, ShardMessage::Mail(mail));
                }
            }
            for (conn, reason, reset) in std::mem::take(&mut self.handle.closes) {
                if let Some(conn) = self.conns.at_mut(conn.key()).filter(|_| reset) {
                    conn.flags |= Conn::<N, H>::RESET;
                }
                self.end(conn.key(), reason);
            }
            if self.handle.deliveries.is_empty() && self.handle.mail.is_empty() {
                break;
            }
        }
        self.dial_all();
        if let Some(order) = self.handle.drain.take() {
            self.order_drain(order);
        }
        if let Some(limits) = self.handle.limits.take() {
            self.frames = FrameTable::of(H::WIRES, &limits);
            self.conns.set_cap(room(&limits));
            self.settings.limits = limits;
        }
        self.changes.add(std::mem::take(&mut self.handle.listeners));
        if std::mem::take(&mut self.handle.stop) {
            self.stop_now();
        }
    }

    fn deliver(&mut self, to: ConnRef, down: <H::Machine as Machine>::Down) {
        if to.shard() != self.settings.shard {
            return self.post(to.shard(), ShardMessage::Deliver(to, down));
        }
        let key = to.key();
        let Some(conn) = self.conns.at_mut(key).filter(|conn| conn.machine.is_some()) else {
            return self.logic.undelivered(self.now, to, down, &mut self.handle);
        };
        let waits = conn.extra.as_ref().is_some_and(|extra| !extra.partial.is_empty());
        if waits && !conn.has(Conn::<N, H>::REFEED) {
            conn.flags |= Conn::<N, H>::REFEED;
            self.refeed.push(key);
        }
        self.drive(key, |machine, now, out| machine.command(now, down, out));
    }

    fn post(&mut self, to: ShardId, shard_message: N::Message) {
        self.handle.counters.count(ProcessCounter::ShardMessagesSent);
        // What waits for room is older and must not be overtaken.
        let first = self.unposted.is_empty();
        let posted = if first { self.net.post(to, shard_message) } else { Err(shard_message) };
        if let Err(shard_message) = posted {
            let room = self.settings.limits.mailbox_messages_max as usize;
            if self.unposted.len() < room {
                self.unposted.push_back((to, shard_message));
            } else {
                self.handle.counters.count(ProcessCounter::ShardMessagesRefused);
            }
        }
    }

    /// Tries shard messages again that found a full mailbox, in their order.
    fn post_again(&mut self) {
        for _ in 0..self.unposted.len() {
            let Some((to, shard_message)) = self.unposted.pop_front() else { break };
            if let Err(shard_message) = self.net.post(to, shard_message) {
                self.unposted.push_front((to, shard_message));
                break;
            }
        }
    }

    fn read_shard_messages(&mut self) {
        let mut shard_messages = std::mem::take(&mut self.shard_messages);
        self.net.shard_messages(&mut shard_messages);
        for shard_message in shard_messages.drain(..) {
            match shard_message {
                ShardMessage::Moved(moved) => self.move_in(*moved),
                ShardMessage::Deliver(to, down) => self.deliver(to, down),
                ShardMessage::Mail(mail) => self.logic.mail(self.now, mail, &mut self.handle),
                ShardMessage::Given(given) => self.take_given(*given),
            }
            self.settle();
        }
        self.shard_messages = shard_messages;
        self.feed_again();
    }

    /// Hands a connection to the shard that owns its identity.
    fn move_out(&mut self, key: Key, to: ShardId, unread: &[u8]) {
        let Some(mut record) = self.conns.remove(key) else { return };
        self.net.release(&record.socket);
        self.let_bytes_go(&mut record);
        record.flags &= !(Conn::<N, H>::DIRTY | Conn::<N, H>::REFEED | Conn::<N, H>::DEFERRED);
        record.flags &= !Conn::<N, H>::WATCHED;
        let bucket = self.take_bucket(key);
        let notes = self.tap_leaves(key);
        let moved = Moved { record, unread: unread.to_vec(), bucket, notes };
        match self.net.post(to, ShardMessage::Moved(Box::new(moved))) {
            Ok(()) => self.handle.counters.count(ProcessCounter::MovedOut),
            Err(ShardMessage::Moved(moved)) => {
                self.handle.counters.count(ProcessCounter::ShardMessagesRefused);
                self.turn_away_homeless(moved.record, moved.bucket);
            }
            Err(_) => unreachable!("the mailbox gives back the message it was given"),
        }
    }

    /// The owner's mailbox is full: the connection is told to come back.
    fn turn_away_homeless(&mut self, record: Conn<N, H>, bucket: u16) {
        if let Ok(key) = self.conns.insert(record) {
            self.set_bucket(key, bucket);
            let away = TurnAway::of(Refusal::Busy, self.retry_after_ms());
            self.drive(key, |machine, now, out| {
                machine.turn_away(now, away, out);
                Err(CloseReason::Busy)
            });
        }
    }

    fn move_in(&mut self, moved: Moved<H::Machine, N::Socket>) {
        let Moved { mut record, unread, bucket, notes } = moved;
        record.heard_by(self.now.ms_wrapping());
        let key = match self.conns.insert(record) {
            Ok(key) => key,
            Err(record) => {
                self.leave_census(&record, bucket);
                self.remember_end(None, &record, (CloseReason::Full, Detail::Nothing));
                self.net.close(record.socket, true);
                return self.handle.counters.closed(CloseReason::Full);
            }
        };
        self.set_bucket(key, bucket);
        if let Some(notes) = notes {
            self.logic.tap_comes(self.conn_ref(key), notes);
        }
        let conn = self.conns.at(key).expect("it was just put in");
        if let Err(reason) = self.net.adopt(&conn.socket, key.pack()) {
            return self.end_knowing(key, reason, self.net.detail());
        }
        if conn.extra.as_ref().is_some_and(|extra| !extra.out.is_empty()) {
            self.mark_dirty(key);
        } else if conn.has(Conn::<N, H>::TELLS) {
            self.tell_when_drained(key);
        }
        self.look_again(key);
        self.drive(key, |machine, now, out| machine.wake(now, out));
        self.feed(key, &unread);
        self.weigh(key);
    }

    /// Ends a connection: what is queued goes out as far as the socket takes it, the machine has
    /// its last word, the reason is counted.
    fn end(&mut self, key: Key, reason: CloseReason) {
        self.end_knowing(key, reason, Detail::Nothing);
    }

    /// Ends a connection of whose end more is known.
    fn end_knowing(&mut self, key: Key, reason: CloseReason, detail: Detail) {
        let reason = self.cause_of(key, reason);
        self.last_write(key, reason);
        let Some(mut conn) = self.conns.remove(key) else { return };
        (self.handle.detail, self.handle.reached) = (detail, conn.reached());
        if let Some(machine) = conn.machine.as_mut() {
            machine.closed(self.now, reason, &mut self.outbox);
            let from = self.conn_ref(key);
            self.outbox.drain_wire(|_| {});
            self.outbox.take_wake();
            self.outbox.take_silence();
            self.outbox.take_hold();
            self.outbox.take_start_tls();
            self.outbox.take_tell_drained();
            self.outbox.count_into(&mut self.handle.counters);
            for word in self.outbox.words() {
                self.logic.word(self.now, from, word, &mut self.handle);
            }
            if self.handle.tapping {
                self.logic.tapped(self.now, from, machine, Tapped::Ended(reason));
            }
            self.logic.ended(self.now, machine, reason, &mut self.handle);
        } else if let Some((tag, _)) = conn.extra.as_ref().and_then(|extra| extra.call.as_deref()) {
            self.logic.dial_failed(self.now, *tag, reason, &mut self.handle);
        }
        if reason == CloseReason::TlsFailed && !conn.has(Conn::<N, H>::DIALLED) {
            self.tell_tls_failed(&conn, detail);
        }
        self.remember_end(Some(key), &conn, (reason, detail));
        if let Some(extra) = conn.extra.take() {
            self.pool_extra(extra);
        }
        let abort =
            matches!(reason, CloseReason::SlowConsumer | CloseReason::TimedOut | CloseReason::Full)
                || conn.has(Conn::<N, H>::RESET);
        self.tell_end(key, &conn, reason);
        let bucket = self.take_bucket(key);
        self.leave_census(&conn, bucket);
        self.net.close(conn.socket, abort);
        self.handle.counters.closed(reason);
    }

    /// Where a connection is counted by its source.
    fn bucket_of(&self, key: Key) -> u16 {
        self.buckets.get(key.slot as usize).copied().unwrap_or(NO_BUCKET)
    }

    /// Sets the bucket that a connection is counted in. Those of this machine alone take no room.
    fn set_bucket(&mut self, key: Key, bucket: u16) {
        let slot = key.slot as usize;
        if slot >= self.buckets.len() && bucket != NO_BUCKET {
            self.buckets.resize(slot + 1, NO_BUCKET);
        }
        if let Some(found) = self.buckets.get_mut(slot) {
            *found = bucket;
        }
    }

    /// A connection leaves this slot.
    fn take_bucket(&mut self, key: Key) -> u16 {
        self.buckets.get_mut(key.slot as usize).map_or(NO_BUCKET, std::mem::take)
    }

    /// A connection is no longer counted: in the process, and at the listener it came through.
    fn leave_census(&self, conn: &Conn<N, H>, bucket: u16) {
        self.settings.census.leave();
        self.settings.census.leave_source(bucket);
        if !conn.has(Conn::<N, H>::DIALLED) {
            self.settings.doors[conn.door as usize].open.leave();
        }
    }

    fn new_extra(&mut self) -> Box<Extra> {
        self.pool.pop().unwrap_or_default()
    }

    fn pool_extra(&mut self, mut extra: Box<Extra>) {
        self.hold_bytes(extra.piece.held, 0);
        extra.piece = PartialFrame::default();
        if self.pool.len() < POOL_MAX {
            extra.out.clear();
            extra.partial = Vec::new();
            extra.layers = None;
            extra.call = None;
            self.pool.push(extra);
        }
    }

    /// Milliseconds after which somebody who is turned away may come back.
    fn retry_after_ms(&mut self) -> u32 {
        1_000 + self.jitter.below(u64::from(self.settings.limits.retry_jitter_ms) + 1) as u32
    }

    fn stop_now(&mut self) {
        self.net.stop_listening();
        for slot in 0..self.conns.slots() {
            if let Some((key, _)) = self.conns.tenant(slot) {
                self.end(key, CloseReason::ServerStopped);
            }
        }
        self.stopped = true;
    }
}

#[cfg(test)]
mod silence;
#[cfg(test)]
mod tests;
