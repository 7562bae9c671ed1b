//! A bridge between two brokers that forget nothing, where any of the three is killed between any
//! two packets: each message of QoS 2 comes once.

use super::super::crossing::Bridge;
use super::super::leg::{LegId, LegMachine, LegOrder, LegState};
use super::super::map::BridgeSide;
use super::*;
use base::prng::Prng;
use base::slab::Key;
use base::time::{Instant, Now};
use client::{Block, ReasonCode};
use model::close::CloseReason;
use model::id::ConnRef;
use model::link::{Link, Protocol};
use model::machine::Outbox;
use proto_mqtt::codec::ack::{Ack, Reasons, Suback};
use proto_mqtt::codec::connack::Connack;
use proto_mqtt::codec::publish::Publish;
use proto_mqtt::codec::{DecodeRules, DecodeStep, Packet, Sender, Terms, decode};
use std::collections::{BTreeSet, VecDeque};
use testkit::pair::PairSide;

const NOW: Now = Now::new(Instant::from_nanos(1_000_000_000), 1_700_000_000_000);
const SIDES: [BridgeSide; 2] = [BridgeSide::Remote, BridgeSide::Local];
const COUNT: usize = 4;

/// A broker's session of the bridge. All of it outlives a kill but its connection.
struct Peer {
    version: Version,
    topic: &'static str,
    /// Messages queued for the bridge; those sent, and whether the bridge has acknowledged them.
    queue: VecDeque<String>,
    sent: Vec<(u16, String, bool)>,
    next_id: u16,
    /// Identifiers of what the bridge has not released, and what it has published.
    taken: BTreeSet<u16>,
    got: Vec<String>,
    has_session: bool,
}

impl Peer {
    fn new(version: Version, topic: &'static str, next_id: u16) -> Peer {
        let queue = (0..COUNT).map(|n| format!("{topic} {n}")).collect();
        let (sent, taken, got) = (Vec::new(), BTreeSet::new(), Vec::new());
        Peer { version, topic, queue, sent, next_id, taken, got, has_session: true }
    }

    fn say(&self, packet: &Packet<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        packet.write(Sender::Server, &Terms::of(self.version), &mut bytes).expect("written");
        bytes
    }

    fn publish(&self, (id, text): (u16, &str), dup: bool) -> Vec<u8> {
        let (qos, properties) = (proto_mqtt::codec::Qos::ExactlyOnce, Default::default());
        let (topic, payload) = (self.topic, text.as_bytes());
        self.say(&Packet::Publish(Publish {
            dup,
            qos,
            retain: false,
            topic,
            id,
            properties,
            payload,
        }))
    }

    /// Two at a time are on their way.
    fn pump(&mut self) -> Vec<Vec<u8>> {
        let mut said = Vec::new();
        while self.sent.len() < 2
            && let Some(text) = self.queue.pop_front()
        {
            let id = self.next_id;
            self.next_id = if id == u16::MAX { 1 } else { id + 1 };
            said.push(self.publish((id, &text), false));
            self.sent.push((id, text, false));
        }
        said
    }

    fn connect(&mut self) -> Vec<Vec<u8>> {
        let session_present = std::mem::replace(&mut self.has_session, true);
        let block = Block::default();
        let (reason, properties) = (ReasonCode::Success, block.properties());
        let connack = Connack { session_present, reason, properties };
        let mut said = vec![self.say(&Packet::Connack(connack))];
        said.extend(self.sent.iter().map(|(id, text, is_had)| match is_had {
            true => self.say(&Packet::Pubrel(Ack::of(*id))),
            false => self.publish((*id, text), true),
        }));
        said.extend(self.pump());
        said
    }

    fn hear(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let rules = DecodeRules::strict(Sender::Client, self.version);
        let Ok(DecodeStep::Packet { packet, .. }) = decode(bytes, &rules) else {
            panic!("a whole packet: {bytes:?}");
        };
        match packet {
            Packet::Connect(_) => self.connect(),
            Packet::Subscribe(subscribe) => {
                let granted = vec![2; subscribe.subscriptions.iter().count()];
                let (reasons, properties) = (Reasons::over(&granted), Default::default());
                let suback = Suback { id: subscribe.id, properties, reasons };
                vec![self.say(&Packet::Suback(suback))]
            }
            Packet::Publish(publish) => {
                // Ours does so with one of which it stored only half before it was killed.
                if self.taken.insert(publish.id) || !publish.dup {
                    self.got.push(String::from_utf8_lossy(publish.payload).into_owned());
                }
                vec![self.say(&Packet::Pubrec(Ack::of(publish.id)))]
            }
            Packet::Pubrel(ack) => {
                self.taken.remove(&ack.id);
                vec![self.say(&Packet::Pubcomp(Ack::of(ack.id)))]
            }
            Packet::Pubrec(ack) => {
                let found = self.sent.iter_mut().find(|(id, ..)| *id == ack.id);
                found.into_iter().for_each(|sent| sent.2 = true);
                vec![self.say(&Packet::Pubrel(Ack::of(ack.id)))]
            }
            Packet::Pubcomp(ack) => {
                assert!(!self.sent.iter().any(|(id, _, is_had)| *id == ack.id && !is_had));
                self.sent.retain(|(id, ..)| *id != ack.id);
                self.pump()
            }
            other => panic!("{other:?}"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kill {
    /// The process of the bridge, in which the local broker is.
    Process,
    /// The remote broker, or the connection to it.
    Remote,
    /// The connection to the local broker.
    Local,
}

struct World {
    settings: BridgeSection,
    folder: tempfile::TempDir,
    bridge: Bridge,
    legs: [Option<PairSide<LegMachine>>; 2],
    peers: [Peer; 2],
    to_peer: [VecDeque<Vec<u8>>; 2],
    to_bridge: [VecDeque<Vec<u8>>; 2],
    random: Prng,
    conns: u32,
}

fn at(side: BridgeSide) -> usize {
    usize::from(side == BridgeSide::Local)
}

fn begun(settings: &BridgeSection, folder: &Path) -> Bridge {
    let address = "localhost:1".to_owned();
    let folder = Some(folder.to_owned());
    let local = LocalBroker { address, user: None, password: None, folder: folder.clone() };
    let plans = [settings.remote().expect("good"), settings.ours(&local).expect("good")];
    let status = Arc::new(Mutex::new(BridgeStatus::default()));
    Bridge::new(settings.clone(), plans, 1, ("mark".into(), status), folder).expect("a bridge")
}

impl World {
    /// `in_step`: what the file of an earlier process says.
    fn new(seed: u64, protocol: BridgeProtocol, in_step: Option<&str>) -> World {
        let settings = BridgeSection {
            addresses: vec!["localhost:2".into()],
            protocol,
            notifications: false,
            try_private: false,
            topics: vec!["up/# out 2".into(), "down/# in 2".into()],
            ..BridgeSection::named("test").expect("a name")
        };
        let folder = tempfile::tempdir().expect("a folder");
        if let Some(text) = in_step {
            std::fs::write(folder.path().join("test.in-step"), text).expect("room");
        }
        let version = if protocol == BridgeProtocol::Mqtt311 { Version::V311 } else { Version::V5 };
        let bridge = begun(&settings, folder.path());
        let peers = [Peer::new(version, "down/x", 65_534), Peer::new(Version::V5, "up/x", 65_533)];
        let (to_peer, to_bridge, legs) = Default::default();
        let random = Prng::new(seed);
        World { settings, folder, bridge, legs, peers, to_peer, to_bridge, random, conns: 0 }
    }

    fn file(&self) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join("test.in-step")).ok()
    }

    fn sent(&mut self, side: BridgeSide, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let digits = rest[1..].iter().take_while(|&&byte| byte >= 128).count() + 1;
            let length = rest[1..=digits]
                .iter()
                .rev()
                .fold(0, |sum, &byte| sum * 128 + usize::from(byte & 127));
            let (packet, more) = rest.split_at(1 + digits + length);
            self.to_peer[at(side)].push_back(packet.to_vec());
            rest = more;
        }
    }

    fn heard(&mut self, side: BridgeSide) {
        let Some(pair) = &mut self.legs[at(side)] else { return };
        let conn = self.bridge.leg(side).conn();
        pair.take_words().into_iter().for_each(|word| self.bridge.event(side, conn, word));
        loop {
            let orders = self.bridge.take_orders();
            if orders.is_empty() {
                return;
            }
            for (side, order) in orders {
                let id = LegId(at(side) as u16);
                let conn = self.bridge.leg(side).conn();
                match &mut self.legs[at(side)] {
                    Some(pair) => {
                        let bytes = pair.tell(NOW, LegOrder { id, order });
                        let words = pair.take_words();
                        self.sent(side, &bytes);
                        words.into_iter().for_each(|word| self.bridge.event(side, conn, word));
                    }
                    None => {
                        let mut out = Outbox::new(HashKey::new(1, 2), [0; 32]);
                        self.bridge.leg(side).order(NOW, order, &mut out);
                        out.words().for_each(|word| self.bridge.event(side, None, word));
                    }
                }
            }
        }
    }

    fn connect(&mut self, side: BridgeSide) {
        if self.legs[at(side)].is_some() {
            return;
        }
        self.conns += 1;
        let conn = ConnRef::new(ShardId(0), Key { slot: self.conns, generation: 1 });
        let leg = self.bridge.leg(side);
        leg.state = LegState::Calling(NOW.after(Duration::from_secs(5)));
        let machine = leg.opened(LegId(at(side) as u16), conn).expect("it is called");
        let mut pair = PairSide::new(machine, Link::loopback(Protocol::Mqtt));
        let bytes = pair.open(NOW);
        self.legs[at(side)] = Some(pair);
        self.sent(side, &bytes);
        self.heard(side);
    }

    /// Carries one packet, if there is one.
    fn step(&mut self) -> bool {
        let mut ways = Vec::new();
        for side in SIDES {
            ways.extend((!self.to_peer[at(side)].is_empty()).then_some((side, true)));
            ways.extend((!self.to_bridge[at(side)].is_empty()).then_some((side, false)));
        }
        if ways.is_empty() {
            return false;
        }
        let (side, is_up) = ways[self.random.below(ways.len() as u64) as usize];
        if is_up {
            let packet = self.to_peer[at(side)].pop_front().expect("it is not empty");
            let said = self.peers[at(side)].hear(&packet);
            self.to_bridge[at(side)].extend(said);
            return true;
        }
        let packet = self.to_bridge[at(side)].pop_front().expect("it is not empty");
        let pair = self.legs[at(side)].as_mut().expect("it is connected");
        let bytes = pair.hear(NOW, &packet);
        assert_eq!(pair.ended, None);
        self.sent(side, &bytes);
        self.heard(side);
        true
    }

    fn cut(&mut self, side: BridgeSide) {
        self.to_peer[at(side)].clear();
        self.to_bridge[at(side)].clear();
        let Some(mut pair) = self.legs[at(side)].take() else { return };
        pair.close(NOW, CloseReason::PeerReset);
        self.bridge.ended(NOW, side, &pair.machine, CloseReason::PeerReset);
    }

    fn kill(&mut self, kill: Kill) {
        match kill {
            Kill::Process => {
                SIDES.into_iter().for_each(|side| self.cut(side));
                self.bridge = begun(&self.settings, self.folder.path());
            }
            Kill::Remote => self.cut(BridgeSide::Remote),
            Kill::Local => self.cut(BridgeSide::Local),
        }
    }

    /// Runs to the end, with kills before these steps. How many steps it took.
    fn run(&mut self, kills: &[(usize, Kill)]) -> usize {
        for count in 0.. {
            kills.iter().filter(|kill| kill.0 == count).for_each(|kill| self.kill(kill.1));
            SIDES.into_iter().for_each(|side| self.connect(side));
            if !self.step() {
                return count;
            }
        }
        unreachable!("it ends")
    }

    fn assert_once(&self, what: &dyn std::fmt::Debug) {
        for (from, to) in [(0, 1), (1, 0)] {
            let topic = self.peers[from].topic;
            let all: Vec<_> = (0..COUNT).map(|n| format!("{topic} {n}")).collect();
            assert_eq!(self.peers[to].got, all, "{what:?}");
            assert!(
                self.peers[from].sent.is_empty() && self.peers[to].taken.is_empty(),
                "{what:?}"
            );
        }
    }
}

/// Content of the file when both brokers have the sessions of these worlds.
fn in_step(protocol: BridgeProtocol) -> String {
    let mut world = World::new(0, protocol, None);
    world.run(&[]);
    world.assert_once(&protocol);
    world.file().expect("both brokers have freed their identifiers")
}

#[test]
fn a_message_of_qos_2_crosses_once_whatever_is_killed_between_two_packets() {
    for protocol in [BridgeProtocol::Mqtt311, BridgeProtocol::Mqtt5] {
        let file = in_step(protocol);
        let steps = World::new(1, protocol, Some(&file)).run(&[]);
        assert!(steps > 8 * COUNT, "{steps}");
        for step in 0..steps {
            for kill in [Kill::Process, Kill::Remote, Kill::Local] {
                let mut world = World::new(1, protocol, Some(&file));
                world.run(&[(step, kill)]);
                world.assert_once(&(step, kill));
            }
        }
    }
}

#[test]
fn a_message_of_qos_2_crosses_once_however_often_something_is_killed() {
    let protocol = BridgeProtocol::Mqtt5;
    let file = in_step(protocol);
    for seed in 0..1_000 {
        let mut random = Prng::new(seed);
        let all = [Kill::Process, Kill::Remote, Kill::Local];
        let kills: Vec<_> = (0..random.below(8))
            .map(|_| (random.below(120) as usize, all[random.below(3) as usize]))
            .collect();
        let mut world = World::new(seed, protocol, Some(&file));
        world.run(&kills);
        world.assert_once(&(seed, kills));
    }
}

#[test]
fn a_new_session_loses_nothing_to_identifiers_that_the_other_broker_still_holds() {
    let file = in_step(BridgeProtocol::Mqtt5);
    for lost in SIDES {
        let mut world = World::new(3, BridgeProtocol::Mqtt5, Some(&file));
        // The broker of the other side holds the identifiers that come next.
        let next = world.peers[at(lost)].next_id;
        let other = &mut world.peers[at(lost) ^ 1];
        other.taken.extend([next, next + 1]);
        world.peers[at(lost)].has_session = false;
        world.run(&[]);
        world.assert_once(&lost);
        assert!(world.file().is_some());
    }
}

#[test]
fn between_two_new_sessions_messages_cross_at_once() {
    for protocol in [BridgeProtocol::Mqtt311, BridgeProtocol::Mqtt5] {
        for seed in 0..20 {
            let mut world = World::new(seed, protocol, None);
            world.peers.iter_mut().for_each(|peer| peer.has_session = false);
            let steps = world.run(&[]);
            world.assert_once(&(protocol, seed));
            assert!(steps < 100, "{steps} packets: identifiers were freed that nobody holds");
            assert!(world.file().is_some_and(|sessions| !sessions.is_empty()));
        }
    }
}

#[test]
fn two_new_sessions_lose_nothing_whatever_is_killed_between_two_packets() {
    for step in 0..60 {
        for kill in [Kill::Process, Kill::Remote, Kill::Local] {
            let mut world = World::new(7, BridgeProtocol::Mqtt5, None);
            world.peers.iter_mut().for_each(|peer| peer.has_session = false);
            world.run(&[(step, kill)]);
            world.assert_once(&(step, kill));
        }
    }
}

#[test]
fn after_an_upgrade_identifiers_of_the_build_before_are_freed() {
    let mut world = World::new(4, BridgeProtocol::Mqtt5, None);
    world.peers[0].taken.extend([65_533, 65_534]);
    world.peers[1].taken.extend([65_534, 65_535]);
    world.run(&[]);
    world.assert_once(&"upgrade");
}

/// A broker that frees its identifiers long before the other one must not be sent messages yet:
/// the next process, which finds no file, would have it free those messages' identifiers too.
#[test]
fn a_kill_between_the_first_steps_of_both_brokers_doubles_nothing() {
    for arrived in 0..COUNT {
        let mut world = World::new(5, BridgeProtocol::Mqtt5, None);
        for count in 0.. {
            // The remote broker begins anew whenever it is nearly done.
            if count % 100_000 == 90_000 {
                world.kill(Kill::Remote);
            }
            SIDES.into_iter().for_each(|side| world.connect(side));
            let got = &world.peers[at(BridgeSide::Local)].got;
            if got.len() > arrived || count == 400_000 || !world.step() {
                break;
            }
        }
        world.kill(Kill::Process);
        world.run(&[]);
        world.assert_once(&arrived);
    }
}
