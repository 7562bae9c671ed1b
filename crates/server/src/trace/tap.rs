//! A shard's side of traces: which connections are followed, and the events of them.
//!
//! The identity of a connection comes from its service ([`AnyService::identity`]), or, before it
//! has a session, from the login that its machine asks for. It is looked up again at each event of
//! a connection that no trace follows: that costs a look into a table, needs no memory, and is all
//! that others pay for a trace. Nothing is decoded here. Invariant: a connection is in `followed`
//! while an active trace follows it.

use super::newcomers::{Newcomer, Newcomers};
use super::seen::{ActiveTrace, LinkFacts, Names, Seen, SeenWhat, WireKind};
use crate::machines::ServerMachine;
use crate::shard_logic::AnyService;
use base::time::Now;
use model::close::CloseReason;
use model::id::{ConnRef, ShardId};
use model::link::{Link, Protocol};
use model::machine::Outbox;
use model::ports::trace::{TraceDirection, TraceIdentity, TraceScope, TraceSubject};
use model::service::{Request, ServiceKind};
use net::{TapNotes, Tapped};
use std::collections::HashMap;
use std::sync::Arc;

mod words;

/// A trace with its events for the end of the turn.
struct Running {
    trace: Arc<ActiveTrace>,
    batch: Vec<Arc<Seen>>,
    /// Memory of the batch, bytes.
    weight: usize,
}

impl Running {
    /// Whether the batch may have so much more. A lone entry always fits.
    fn has_room(&self, weight: usize) -> bool {
        self.batch.is_empty() || self.weight + weight <= self.trace.waiting_max()
    }
}

/// A connection that is followed.
#[derive(Default)]
struct Followed {
    number: u64,
    /// Numbers of the traces that follow it.
    by: Vec<u64>,
    /// Traces up to this number were held against who it is.
    asked: u64,
    facts: LinkFacts,
}

/// Taps of a shard's connections.
pub struct TraceTap {
    shard: ShardId,
    running: Vec<Running>,
    followed: HashMap<ConnRef, Followed>,
    newcomers: Newcomers,
    /// Messages that were handed to connections, whose machines are about to send them.
    on_way: words::OnWay,
    connections: u64,
}

/// Moment of an event on a connection, by its machine and the clock.
#[derive(Clone, Copy)]
struct Moment {
    at_ms: u64,
    conn: ConnRef,
    wire: WireKind,
}

impl TraceTap {
    /// The tap of a shard on which no connection is followed.
    pub fn new(shard: ShardId) -> TraceTap {
        let (running, followed, connections) = Default::default();
        let (newcomers, on_way) = Default::default();
        TraceTap { shard, running, followed, newcomers, on_way, connections }
    }

    /// Starts one more trace.
    pub fn begin(&mut self, trace: Arc<ActiveTrace>) {
        self.running.push(Running { trace, batch: Vec::new(), weight: 0 });
    }

    /// Whether any trace goes on.
    pub fn is_active(&self) -> bool {
        !self.running.is_empty()
    }

    /// Hands over the events of the turn. Returns whether any trace is active.
    pub fn turn(&mut self) -> bool {
        for running in self.running.iter_mut().filter(|running| !running.batch.is_empty()) {
            let batch = std::mem::take(&mut running.batch);
            running.trace.hand_over((batch, std::mem::take(&mut running.weight)));
        }
        self.on_way.clear();
        if self.running.iter().any(|running| running.trace.is_over()) {
            self.running.retain(|running| !running.trace.is_over());
            let running = &self.running;
            let goes_on = |number: &u64| running.iter().any(|it| it.trace.number == *number);
            self.followed.retain(|_, followed| {
                followed.by.retain(goes_on);
                !followed.by.is_empty()
            });
        }
        if self.running.is_empty() {
            self.newcomers.clear();
        }
        self.is_active()
    }

    /// Handles traffic of a connection.
    pub(crate) fn tapped(
        &mut self,
        now: Now,
        conn: ConnRef,
        machine: &mut ServerMachine,
        tapped: Tapped<'_, Request>,
        services: &[Box<dyn AnyService>],
    ) {
        let (wire, subject) = spoken(machine);
        let at = Moment { at_ms: now.wall_ms, conn, wire };
        if let Tapped::Opened(link) = tapped {
            return self.opened(at, link);
        }
        self.find_out(at, subject, services);
        match tapped {
            Tapped::Opened(_) => {}
            Tapped::Received(bytes) => {
                let copy = || SeenWhat::Bytes(TraceDirection::In, bytes.into());
                self.saw_bytes(at, TraceDirection::In, bytes.len(), copy);
            }
            Tapped::Untaken(bytes) => self.saw(at, || SeenWhat::Untaken(bytes.len())),
            Tapped::Says(outbox) => self.says(at, outbox, subject, services),
            Tapped::Ended(reason) => self.ended(at, reason),
        }
    }

    /// A connection leaves for another shard.
    pub(crate) fn leaves(&mut self, conn: ConnRef) -> Option<TapNotes> {
        let notes = (self.followed.remove(&conn), self.newcomers.take(conn));
        (notes.0.is_some() || notes.1.is_some()).then(|| Box::new(notes) as TapNotes)
    }

    /// A connection comes from another shard.
    pub(crate) fn comes(&mut self, conn: ConnRef, notes: TapNotes) {
        type Notes = (Option<Followed>, Option<Newcomer>);
        let Ok(notes) = notes.downcast::<Notes>() else { return };
        let (followed, newcomer) = *notes;
        if let Some(followed) = followed.filter(|_| self.has_room()) {
            self.followed.insert(conn, followed);
        }
        if let Some(newcomer) = newcomer {
            self.newcomers.move_in(conn, newcomer, self.newcomers_max());
        }
    }

    fn opened(&mut self, at: Moment, link: &Link) {
        let facts = LinkFacts {
            peer: Some(link.peer),
            tls: link.tls.as_ref().map(|facts| facts.version.name()),
            web_socket: link.web_socket,
        };
        let number = self.number();
        self.newcomers.come(at.conn, number, facts, self.newcomers_max());
        let by = TraceIdentity { client: "", within_user: false, user: None, peer: facts.peer };
        // Only an address is known yet.
        let is_at = |it: &&Running| {
            matches!(it.trace.scope, TraceScope::Address(_)) && it.trace.scope.has(&by)
        };
        let by: Vec<u64> = self.running.iter().filter(is_at).map(|it| it.trace.number).collect();
        if !by.is_empty() && self.has_room_for(&by) {
            self.followed.insert(at.conn, Followed { number, by, asked: 0, facts });
        }
        self.saw(at, || SeenWhat::Opened { facts, was_there: false });
    }

    /// Asks the services whose connection this is, if some trace has not been held against that.
    fn find_out(
        &mut self,
        at: Moment,
        subject: Option<TraceSubject>,
        services: &[Box<dyn AnyService>],
    ) {
        let newest = self.running.last().map_or(0, |running| running.trace.number);
        let is_known = self.followed.get(&at.conn).is_some_and(|it| it.asked >= newest);
        let (false, Some(subject)) = (is_known, subject) else { return };
        let identity = services.iter().find_map(|service| service.identity(at.conn, subject));
        if let Some(identity) = identity {
            self.is(at, identity, true);
        }
    }

    /// Sets the identity of a connection, or (not settled) the one that its login claims.
    fn is(&mut self, at: Moment, identity: TraceIdentity<'_>, settled: bool) {
        let newcomer = if settled { self.newcomers.take(at.conn) } else { None };
        let known = self.followed.get(&at.conn);
        let facts = newcomer.as_ref().map(|it| it.facts).or(known.map(|it| it.facts));
        let mut facts = facts.unwrap_or_default();
        facts.peer = identity.peer.or(facts.peer);
        let identity = TraceIdentity { peer: facts.peer, ..identity };
        let (asked, by) = known.map_or((0, &[][..]), |it| (it.asked, &it.by));
        let is_new = |it: &&Running| {
            let number = it.trace.number;
            number > asked && !by.contains(&number) && it.trace.scope.has(&identity)
        };
        let new: Vec<u64> = self.running.iter().filter(is_new).map(|it| it.trace.number).collect();
        if known.is_none() && (new.is_empty() || !self.has_room_for(&new)) {
            return;
        }
        let newest = self.running.last().map_or(0, |running| running.trace.number);
        let early = match settled {
            true => newcomer.map(|it| (it.number, it.seen)),
            false => self.newcomers.take(at.conn).map(|it| (it.number, it.seen)),
        };
        let fresh = early.as_ref().map(|it| it.0);
        let number = known.map(|it| it.number).or(fresh).unwrap_or_else(|| self.number());
        let seen = match early {
            Some((_, seen)) => seen,
            None if new.is_empty() => Vec::new(),
            None => {
                let what = SeenWhat::Opened { facts, was_there: true };
                vec![seen(at, number, what)]
            }
        };
        let followed = self.followed.entry(at.conn).or_default();
        (followed.number, followed.facts) = (number, facts);
        followed.by.extend(&new);
        if settled {
            followed.asked = newest;
        }
        let by = followed.by.clone();
        let names = Names {
            client: Some(identity.name()).filter(|name| !name.is_empty()),
            user: identity.user.map(str::to_owned),
            peer: facts.peer,
        };
        self.tell(&by, &self::seen(at, number, SeenWhat::Is(names)));
        seen.iter().for_each(|seen| self.tell(&new, seen));
    }

    fn ended(&mut self, at: Moment, reason: CloseReason) {
        self.saw(at, || SeenWhat::Closed(reason));
        self.newcomers.take(at.conn);
        self.followed.remove(&at.conn);
    }

    /// Notes bytes, unless they are so many that they would never fit.
    fn saw_bytes(
        &mut self,
        at: Moment,
        direction: TraceDirection,
        count: usize,
        copy: impl FnOnce() -> SeenWhat,
    ) {
        let most = self.running.iter().map(|it| it.trace.waiting_max()).max().unwrap_or(0);
        // What no batch of this turn has room for is not copied.
        let by = self.followed.get(&at.conn).map_or(&[][..], |it| &it.by);
        let mut follow = self.running.iter().filter(|it| by.contains(&it.trace.number));
        let is_newcomer = self.newcomers.number(at.conn).is_some();
        let has_room = is_newcomer || follow.any(|it| it.has_room(count));
        match count <= most / 2 && has_room {
            true => self.saw(at, copy),
            false => self.saw(at, || SeenWhat::TooMany(direction, count)),
        }
    }

    /// Notes something, if anybody wants it.
    fn saw(&mut self, at: Moment, what: impl FnOnce() -> SeenWhat) {
        let followed = self.followed.get(&at.conn);
        let newcomer = self.newcomers.number(at.conn);
        let Some(number) = followed.map(|it| it.number).or(newcomer) else { return };
        let seen = seen(at, number, what());
        if newcomer.is_some() {
            self.newcomers.keep(at.conn, &seen);
        }
        if let Some(followed) = followed {
            let by = followed.by.clone();
            self.tell(&by, &seen);
        }
    }

    /// Tells these traces at the end of the turn.
    fn tell(&mut self, traces: &[u64], seen: &Arc<Seen>) {
        let running = self.running.iter_mut();
        let weight = seen.weight();
        for running in running.filter(|running| traces.contains(&running.trace.number)) {
            if running.has_room(weight) {
                running.weight += weight;
                running.batch.push(seen.clone());
            } else {
                running.trace.leave_out(1);
            }
        }
    }

    /// Whether one more connection is followed; if not, these traces learn that it is left out.
    fn has_room_for(&self, traces: &[u64]) -> bool {
        if self.has_room() {
            return true;
        }
        let wanted = self.running.iter().filter(|it| traces.contains(&it.trace.number));
        wanted.for_each(|it| it.trace.leave_out(1));
        false
    }

    fn has_room(&self) -> bool {
        let most = self.running.first().map_or(0, |it| it.trace.limits.trace_connections_max);
        self.followed.len() < most as usize
    }

    fn newcomers_max(&self) -> usize {
        self.running.first().map_or(0, |it| it.trace.limits.trace_newcomers_max as usize)
    }

    /// The number of one more connection, for good.
    fn number(&mut self) -> u64 {
        self.connections += 1;
        (u64::from(self.shard.0) << 40) | self.connections
    }
}

fn seen(at: Moment, connection: u64, what: SeenWhat) -> Arc<Seen> {
    Arc::new(Seen { connection, at_ms: at.at_ms, wire: at.wire, what })
}

/// Where its service knows the client of a machine, and what that speaks.
pub(crate) fn subject_of(machine: &mut ServerMachine) -> Option<(TraceSubject, Protocol)> {
    let (wire, subject) = spoken(machine);
    let protocol = match wire {
        WireKind::Miop => Protocol::Miop,
        WireKind::Mqtt(_) => Protocol::Mqtt,
        WireKind::Im => Protocol::Im,
        WireKind::Xmpp => Protocol::Xmpp,
    };
    subject.map(|subject| (subject, protocol))
}

/// Protocol of a machine, and the identity it speaks for.
fn spoken(machine: &mut ServerMachine) -> (WireKind, Option<TraceSubject>) {
    let chat = |session| TraceSubject::Session(ServiceKind::Chat, session);
    let mqtt = |machine: &mut proto_mqtt::server::Server| {
        let (session, version) = machine.spoken();
        let topics = |session| TraceSubject::Session(ServiceKind::Topics, session);
        (WireKind::Mqtt(version), session.map(topics))
    };
    match machine {
        ServerMachine::Miop(machine) => {
            (WireKind::Miop, machine.first_device().map(TraceSubject::Device))
        }
        ServerMachine::Mqtt(machine) => mqtt(machine),
        ServerMachine::ChatOverMqtt(machine) => mqtt(machine.mqtt()),
        ServerMachine::Im(machine) => (WireKind::Im, machine.session().map(chat)),
        ServerMachine::Xmpp(machine) => (WireKind::Xmpp, machine.session().map(chat)),
    }
}

impl TraceTap {
    /// A machine has acted: what it says to the inside first, for that tells who it is.
    fn says(
        &mut self,
        at: Moment,
        outbox: &Outbox<Request>,
        subject: Option<TraceSubject>,
        services: &[Box<dyn AnyService>],
    ) {
        for word in outbox.look_at_words() {
            self.word(at, word, subject, services);
        }
        if !outbox.wire_is_empty() {
            self.sends(at, subject, services);
            let copy = || {
                let mut wire = Vec::with_capacity(outbox.wire_len());
                outbox.look_at_wire(|bytes| wire.extend_from_slice(bytes));
                SeenWhat::Bytes(TraceDirection::Out, wire.into())
            };
            self.saw_bytes(at, TraceDirection::Out, outbox.wire_len(), copy);
        }
    }
}
