//! An MQTT broker of few words that lies as it is told, over `testkit`'s faulty server, and counts
//! what it did: the known truth.
//!
//! The broker knows CONNECT with kept sessions, SUBSCRIBE of plain filters, `#` behind a slash and
//! `$share`, PUBLISH at every QoS in both directions, PINGREQ and DISCONNECT, in 3.1.1 and in 5
//! without properties of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use testkit::faulty::{ConnectionFate, FateStep, Faulty, Mediator};

/// How it lies. Every [`EACH`]th message is concerned where nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    None,
    Drop,
    Repeat,
    DropAndRepeat,
    /// A message waits for the next one, and comes after it.
    Swap,
    /// The last byte of the body.
    Flip,
    /// A byte of the number.
    FlipNumber,
    Shorten,
    Lengthen,
    Empty,
    /// To the next client in place of the right one.
    Astray,
    /// To the next client too.
    Spill,
    /// A message of its own besides.
    Invent,
    /// To two members of a shared subscription.
    ShareTwice,
    /// No PUBACK, no PUBREC.
    NoAck,
    /// No PUBCOMP.
    NoComp,
    /// PUBACK, and nobody gets it.
    AckAndDrop,
    /// PUBACK of 5 with this code, and nobody gets it.
    AckWith(u8),
    /// SUBACK with this code, to every second client.
    SubackWith(u8),
    /// No SUBACK and no subscription.
    NoSuback,
    /// CONNACK with this code, to every second client.
    ConnackWith(u8),
    /// No PINGRESP to anybody.
    NoPong,
    /// These bytes once a client has subscribed.
    Blurt(&'static [u8]),
    /// A delivery one QoS lower than it should be.
    LowerQos,
    /// SUBACK with QoS 0, to every second client, which is served so.
    LowerGrant,
    /// Under the topic `u/…` in place of `t/…`.
    OtherTopic,
    /// With RETAIN.
    Retain,
    /// With DUP.
    Dup,
    /// Session Present 0 for a session that is to be kept.
    Forget,
}

/// So many messages to one that is concerned.
pub const EACH: u64 = 10;

/// Counts of what the server did.
#[derive(Clone, Default, Debug)]
pub struct Truth {
    /// CONNACKs without and with a refusal.
    pub accepted: u64,
    pub refused: u64,
    /// Filters that came, and those answered in SUBACKs.
    pub filters: u64,
    pub subacks: u64,
    /// PUBLISHes that came, and those sent.
    pub heard: u64,
    pub sent: u64,
    /// PUBACKs and PUBCOMPs sent, without and with a refusal.
    pub acked: u64,
    pub nacked: u64,
    /// Answers that were never sent.
    pub owed: u64,
    /// Messages that were lied about.
    pub lied: u64,
    /// Deliveries at QoS 1 and 2 that no client has acknowledged yet.
    pub unacknowledged: u64,
}

#[derive(Default)]
struct State {
    truth: Truth,
    connections: u64,
    subscriptions: Vec<(u64, String)>,
    is_new: BTreeMap<u64, bool>,
    waits: Option<(u64, String, Vec<u8>)>,
    id: u16,
    /// PUBRELs that came.
    released: u64,
    /// The connection of each session that is kept, and whose session a connection has.
    sessions: BTreeMap<String, u64>,
    names: BTreeMap<u64, String>,
    /// QoS that was granted on a connection.
    granted: BTreeMap<u64, u8>,
    /// Deliveries that were not acknowledged: packet id, connection, QoS, and the rest of the
    /// packet.
    unacknowledged: BTreeMap<u16, (u64, u8, Vec<u8>)>,
    delivered: u16,
}

/// How a message is delivered.
#[derive(Clone, Copy, Default)]
struct Manner {
    qos: u8,
    retain: bool,
    dup: bool,
}

/// The broker.
pub struct Broker {
    server: Faulty,
    state: Arc<Mutex<State>>,
}

impl Broker {
    /// Begins, lying so. The first client waits so long for whatever it asks first.
    pub fn start(lie: Lie, stall: Duration) -> Broker {
        let state = Arc::new(Mutex::new(State::default()));
        let mine = state.clone();
        let mediator: Mediator = Arc::new(move |from, heard: &mut Vec<u8>| {
            let mut state = mine.lock().unwrap_or_else(PoisonError::into_inner);
            let mut out = Vec::new();
            while let Some(packet) = take(heard) {
                state.packet(lie, from, &packet, &mut out);
            }
            out
        });
        let serves = || FateStep::Mediate(mediator.clone());
        let mut fates = vec![ConnectionFate::new("serves", [serves()])];
        if !stall.is_zero() {
            fates = vec![ConnectionFate::new("stalls", [FateStep::Stall(stall), serves()])];
            fates.extend((1..20).map(|_| ConnectionFate::new("serves", [serves()])));
        }
        Broker { server: Faulty::start(fates), state }
    }

    /// Where it listens.
    pub fn address(&self) -> std::net::SocketAddr {
        self.server.address()
    }
}

/// Server that knows its own counts.
pub trait TruthTeller {
    /// Counts so far.
    fn truth(&self) -> Truth;
}

impl TruthTeller for Broker {
    fn truth(&self) -> Truth {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).truth.clone()
    }
}

/// Takes the first whole packet.
fn take(heard: &mut Vec<u8>) -> Option<Vec<u8>> {
    let (mut length, mut at) = (0_usize, 1);
    loop {
        let byte = *heard.get(at)?;
        length |= usize::from(byte & 0x7f) << (7 * (at - 1));
        at += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    (heard.len() >= at + length).then(|| {
        let rest = heard.split_off(at + length);
        let packet = std::mem::replace(heard, rest);
        [&packet[..1], &packet[at..]].concat()
    })
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    let mut length = body.len();
    loop {
        let more = length > 127;
        out.push((length & 0x7f) as u8 | if more { 0x80 } else { 0 });
        length >>= 7;
        if !more {
            break;
        }
    }
    out.extend_from_slice(body);
    out
}

type Out = Vec<(u64, Vec<u8>)>;

/// The client id of a CONNECT, behind its protocol name, level, flags and keep-alive, and in 5 its
/// properties, which are shorter than 128 bytes.
fn name_of(body: &[u8], is_new: bool) -> String {
    let at = if is_new { 11 + usize::from(body[10]) } else { 10 };
    let length = usize::from(u16::from_be_bytes([body[at], body[at + 1]]));
    String::from_utf8_lossy(&body[at + 2..at + 2 + length]).into_owned()
}

impl State {
    fn packet(&mut self, lie: Lie, from: u64, packet_: &[u8], out: &mut Out) {
        let (first, body) = (packet_[0], &packet_[1..]);
        match first >> 4 {
            1 => self.connect(lie, from, body, out),
            3 => self.publish(lie, from, first, body, out),
            // PUBACK, PUBREC and PUBCOMP of a delivery.
            4 | 7 => {
                self.unacknowledged.remove(&u16::from_be_bytes([body[0], body[1]]));
                self.truth.unacknowledged = self.unacknowledged.len() as u64;
            }
            5 => out.push((from, packet(0x62, &body[..2]))),
            // PUBREL
            6 => {
                self.released += 1;
                if lie == Lie::NoComp && self.released.is_multiple_of(EACH) {
                    self.truth.owed += 1;
                } else {
                    self.truth.acked += 1;
                    out.push((from, packet(0x70, &body[..2])));
                }
            }
            8 => self.subscribe(lie, from, body, out),
            12 if lie != Lie::NoPong => out.push((from, vec![0xd0, 0])),
            12 => self.truth.lied += 1,
            _ => {}
        }
    }

    fn connect(&mut self, lie: Lie, from: u64, body: &[u8], out: &mut Out) {
        // The level stands behind the protocol's name.
        let is_new = body.get(6) == Some(&5);
        self.is_new.insert(from, is_new);
        self.connections += 1;
        let code = match lie {
            Lie::ConnackWith(code) if self.connections.is_multiple_of(2) => code,
            _ => 0,
        };
        *(if code == 0 { &mut self.truth.accepted } else { &mut self.truth.refused }) += 1;
        let properties: &[u8] = if is_new { &[0] } else { &[] };
        let (is_clean, name) = (body[7] & 2 != 0, name_of(body, is_new));
        let before = self.sessions.remove(&name).filter(|_| !is_clean && lie != Lie::Forget);
        if !is_clean {
            self.sessions.insert(name.clone(), from);
        }
        self.names.insert(from, name);
        let present = u8::from(before.is_some());
        out.push((from, packet(0x20, &[&[present, code], properties].concat())));
        if let Some(before) = before {
            self.resume(before, from, out);
        }
    }

    /// A session goes on with another connection: so do its subscriptions, and what it has not
    /// acknowledged is sent again.
    fn resume(&mut self, before: u64, from: u64, out: &mut Out) {
        let own = self.subscriptions.iter_mut().filter(|(to, _)| *to == before);
        own.for_each(|(to, _)| *to = from);
        if let Some(qos) = self.granted.remove(&before) {
            self.granted.insert(from, qos);
        }
        let own = self.unacknowledged.values_mut().filter(|(to, ..)| *to == before);
        for (to, qos, rest) in own {
            *to = from;
            out.push((from, packet(0x38 | *qos << 1, rest)));
        }
    }

    fn subscribe(&mut self, lie: Lie, from: u64, body: &[u8], out: &mut Out) {
        let is_new = self.is_new.get(&from) == Some(&true);
        let id = &body[..2];
        let mut rest = &body[if is_new { 3 } else { 2 }..];
        let mut codes = Vec::new();
        while rest.len() > 2 {
            let length = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
            let filter = String::from_utf8_lossy(&rest[2..2 + length]).into_owned();
            let qos = rest[2 + length] & 3;
            rest = &rest[3 + length..];
            let second = from % 2 == 1;
            self.truth.filters += 1;
            match lie {
                Lie::NoSuback => return,
                Lie::SubackWith(code) if second => {
                    self.truth.lied += 1;
                    codes.push(code);
                }
                _ => {
                    let is_lower = lie == Lie::LowerGrant && second;
                    self.truth.lied += u64::from(is_lower);
                    let qos = if is_lower { 0 } else { qos };
                    codes.push(qos);
                    self.granted.insert(from, qos);
                    self.subscriptions.push((from, filter));
                }
            }
        }
        self.truth.subacks += codes.len() as u64;
        let properties: &[u8] = if is_new { &[0] } else { &[] };
        out.push((from, packet(0x90, &[id, properties, &codes].concat())));
        if let Lie::Blurt(bytes) = lie {
            self.truth.lied += 1;
            out.push((from, bytes.to_vec()));
        }
    }

    /// Whether it is the turn of this message.
    fn concerned(&self) -> bool {
        self.truth.heard.is_multiple_of(EACH)
    }

    fn publish(&mut self, lie: Lie, from: u64, first: u8, body: &[u8], out: &mut Out) {
        self.truth.heard += 1;
        let is_new = self.is_new.get(&from) == Some(&true);
        let qos = (first >> 1) & 3;
        let length = usize::from(u16::from_be_bytes([body[0], body[1]]));
        let topic = String::from_utf8_lossy(&body[2..2 + length]).into_owned();
        let mut rest = &body[2 + length..];
        let id = rest.get(..2).unwrap_or_default().to_vec();
        rest = if qos > 0 { &rest[2..] } else { rest };
        rest = if is_new { &rest[1..] } else { rest };
        let concerned = self.concerned();
        let mut delivers = true;
        match (lie, qos) {
            (_, 0) => {}
            (Lie::NoAck, _) if concerned => self.truth.owed += 1,
            (Lie::AckWith(code), 1) if concerned => {
                self.truth.nacked += 1;
                delivers = false;
                out.push((from, packet(0x40, &[&id[..], &[code, 0]].concat())));
            }
            (_, 1) => {
                self.truth.acked += 1;
                out.push((from, packet(0x40, &id)));
            }
            _ => out.push((from, packet(0x50, &id))),
        }
        if lie == Lie::AckAndDrop && concerned {
            self.truth.lied += 1;
            delivers = false;
        }
        if delivers {
            self.deliver(lie, concerned, (&topic, qos), rest, out);
        }
    }

    fn deliver(
        &mut self,
        lie: Lie,
        concerned: bool,
        (topic, qos): (&str, u8),
        body: &[u8],
        out: &mut Out,
    ) {
        let mut manner = Manner { qos, ..Manner::default() };
        let mut name = topic.to_owned();
        let mut to = self.receivers(topic, lie == Lie::ShareTwice && concerned);
        let next = |to: u64, count: u64| (to + 1) % count.max(1);
        let connections = self.connections;
        let mut bodies = vec![body.to_vec()];
        if concerned {
            self.truth.lied += 1;
            match lie {
                Lie::Drop => bodies.clear(),
                Lie::Repeat => bodies.push(body.to_vec()),
                Lie::Flip => *bodies[0].last_mut().expect("a body") ^= 1,
                Lie::FlipNumber => bodies[0][28] ^= 1,
                Lie::Shorten => bodies[0].truncate(body.len() / 2),
                Lie::Lengthen => bodies[0].push(0),
                Lie::Empty => bodies[0].clear(),
                Lie::Invent => bodies.push(b"buy this".to_vec()),
                Lie::Astray => to.iter_mut().for_each(|to| *to = next(*to, connections)),
                Lie::Spill => to.extend(to.clone().into_iter().map(|to| next(to, connections))),
                Lie::DropAndRepeat if self.truth.heard.is_multiple_of(2 * EACH) => bodies.clear(),
                Lie::DropAndRepeat => bodies.push(body.to_vec()),
                Lie::Swap => {
                    to.iter().for_each(|to| {
                        self.waits = Some((*to, topic.to_owned(), body.to_vec()));
                    });
                    return;
                }
                Lie::ShareTwice => {}
                Lie::LowerQos => manner.qos -= 1,
                Lie::OtherTopic => name = name.replace("t/", "u/"),
                Lie::Retain => manner.retain = true,
                Lie::Dup => manner.dup = true,
                _ => self.truth.lied -= 1,
            }
        }
        for to in to {
            for body in &bodies {
                self.send(to, (&name, manner), body, out);
            }
        }
        if let Some((to, topic, body)) = self.waits.take() {
            self.send(to, (&topic, Manner::default()), &body, out);
        }
    }

    fn send(&mut self, to: u64, (topic, manner): (&str, Manner), body: &[u8], out: &mut Out) {
        let qos = manner.qos.min(self.granted.get(&to).copied().unwrap_or(0));
        let length = (topic.len() as u16).to_be_bytes();
        let is_new = self.is_new.get(&to) == Some(&true);
        let properties: &[u8] = if is_new { &[0] } else { &[] };
        self.truth.sent += 1;
        let mut id = Vec::new();
        if qos > 0 {
            self.delivered = self.delivered % u16::MAX + 1;
            id = self.delivered.to_be_bytes().to_vec();
        }
        let body = [&length[..], topic.as_bytes(), &id, properties, body].concat();
        let flags = qos << 1 | u8::from(manner.retain) | u8::from(manner.dup) << 3;
        out.push((to, packet(0x30 | flags, &body)));
        if qos > 0 {
            self.unacknowledged.insert(self.delivered, (to, qos, body));
            self.truth.unacknowledged = self.unacknowledged.len() as u64;
        }
    }

    /// Receivers of a message: all that subscribed, and of a shared subscription one, or two.
    fn receivers(&mut self, topic: &str, twice: bool) -> Vec<u64> {
        let meets = |filter: &str| match filter.strip_suffix("/#") {
            Some(front) => topic.starts_with(front),
            None => filter == topic,
        };
        let mut all = Vec::new();
        let mut members = Vec::new();
        for (to, filter) in &self.subscriptions {
            match filter.strip_prefix("$share/").and_then(|rest| rest.split_once('/')) {
                Some((_, filter)) if meets(filter) => members.push(*to),
                None if meets(filter) => all.push(*to),
                _ => {}
            }
        }
        if !members.is_empty() {
            self.id = self.id.wrapping_add(1);
            let first = usize::from(self.id);
            let count = if twice { 2 } else { 1 };
            all.extend((first..first + count).map(|at| members[at % members.len()]));
        }
        all
    }
}
