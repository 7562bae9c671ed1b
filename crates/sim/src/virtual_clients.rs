//! The callers of a world: one logic whose seats dial, act, misbehave and come back.
//!
//! A seat belongs to a device, and a device has two, so that they take the device over from each
//! other. Most connections carry the shipped client machine; some say what no client would.
//! Observations of proper clients are kept: the checks compare them with the server's own account
//! of deliveries.

mod machine;

pub use machine::{ClientMachine, ConnectionScript, Saw, ScriptOrder};

use base::prng::Prng;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::counters::PushCounter;
use model::id::{ConnRef, MessageId, ProductKey};
use model::link::{Link, Protocol, WireProfile};
use model::ports::virtual_client::{Action, Observation};
use model::request::HeartbeatWish;
use net::layer::ClientLayers;
use net::layer::websocket::UpgradeTarget;
use net::{ConnectionOrigin, Dial, ShardHandle, ShardLogic};
use proto_miop::client::{Client, Profile};
use proto_miop::codec::Version;
use proto_miop::codec::frame::{Frame, Opcode};
use proto_miop::codec::property::Props;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Seconds after which a seat gives a connection up that is not bound.
const PATIENCE_S: u64 = 25;

/// Behaviour of seats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientMood {
    /// Anything.
    Wild,
    /// One seat of each device binds, fetches what waits and stays.
    Calm,
    /// No client calls or acts; heartbeats go on.
    Still,
    /// All clients say farewell.
    Leaving,
}

struct VirtualClient {
    device: u32,
    client: Arc<Mutex<Client>>,
    pulls: bool,
    web_socket: bool,
    /// The device's first seat: the one that comes when all are calm.
    first: bool,
    state: State,
    conn: Option<ConnRef>,
    /// When its connection opened.
    open_at: Instant,
    next_at: Instant,
    script: ConnectionScript,
    /// Devices that are bound on its connection besides.
    guests: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Away,
    Calling,
    Open,
    Bound,
}

/// The logic of a world's callers.
pub struct ClientLogic {
    rng: Prng,
    to: SocketAddr,
    seats: Vec<VirtualClient>,
    profiles: Vec<Arc<Profile>>,
    mood: ClientMood,
    /// Pushes that proper clients saw, by device, with how often.
    seen: BTreeMap<(u32, MessageId), u32>,
    /// Pushes that came, with when the latest connection opened over which they did.
    came_over: BTreeMap<MessageId, Instant>,
    refused: BTreeMap<u32, u32>,
    /// Refusals that said when to come back.
    retries: u32,
    go_aways: u32,
}

impl ClientLogic {
    /// Two seats for each of so many devices, that call `to`.
    pub fn new(seed: u64, to: SocketAddr, product: &ProductKey, devices: u32) -> ClientLogic {
        let mut rng = Prng::new(seed);
        let (mut seats, mut profiles) = (Vec::new(), Vec::new());
        for device in 0..devices {
            let profile = Arc::new(profile(device, product));
            for place in 0..2 {
                seats.push(VirtualClient {
                    device,
                    client: Arc::new(Mutex::new(Client::new(profile.clone(), device))),
                    pulls: profile.pulls,
                    web_socket: rng.one_in(5),
                    first: place == 0,
                    state: State::Away,
                    conn: None,
                    open_at: Instant::default(),
                    next_at: Instant::from_nanos(rng.below(5_000_000_000)),
                    script: ConnectionScript::Proper,
                    guests: Vec::new(),
                });
            }
            profiles.push(profile);
        }
        ClientLogic {
            rng,
            to,
            seats,
            profiles,
            mood: ClientMood::Wild,
            seen: BTreeMap::new(),
            came_over: BTreeMap::new(),
            refused: BTreeMap::new(),
            retries: 0,
            go_aways: 0,
        }
    }

    /// The id of a device.
    pub fn device_id(device: u32) -> String {
        profile_name(device)
    }

    /// Whether a device speaks version 5.
    pub fn speaks_5(device: u32) -> bool {
        version(device) == Version::V5
    }

    /// Changes what seats do, at once.
    pub fn set_mood(&mut self, mood: ClientMood) {
        self.mood = mood;
        self.seats.iter_mut().for_each(|seat| seat.next_at = Instant::default());
    }

    /// How often a device's clients saw a push.
    pub fn seen(&self, device: u32, id: MessageId) -> u32 {
        self.seen.get(&(device, id)).copied().unwrap_or(0)
    }

    /// When the latest connection opened over which a push came.
    pub fn came_over(&self, id: MessageId) -> Option<Instant> {
        self.came_over.get(&id).copied()
    }

    /// Devices with a client that is bound.
    pub fn bound(&self) -> usize {
        self.seats.iter().filter(|seat| seat.state == State::Bound).count()
    }

    /// Seats with a connection, or a call for one.
    pub fn busy(&self) -> usize {
        self.seats.iter().filter(|seat| seat.state != State::Away).count()
    }

    /// Seats that have a connection, for whoever wonders why.
    pub fn describe(&self) -> String {
        let busy = self.seats.iter().enumerate().filter(|(_, seat)| seat.state != State::Away);
        let lines = busy.take(8).map(|(at, seat)| {
            let (device, state, conn, script) = (seat.device, seat.state, seat.conn, &seat.script);
            format!(
                "seat {at} of device {device} {state:?} {conn:?} {script:?} next {:?}",
                seat.next_at
            )
        });
        lines.collect::<Vec<_>>().join("; ")
    }

    /// Pushes seen, each device's counted once.
    pub fn seen_count(&self) -> usize {
        self.seen.len()
    }

    /// Refusals heard that said when to come back.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// How often a client was asked to leave and come back.
    pub fn go_aways(&self) -> u32 {
        self.go_aways
    }

    /// Refusals heard, by the protocol's code.
    pub fn refused(&self) -> &BTreeMap<u32, u32> {
        &self.refused
    }

    fn act(&mut self, now: Now, at: usize, handle: &mut ShardHandle<Self>) {
        let pause_ms = match self.mood {
            ClientMood::Wild => self.rng.below(6_000),
            ClientMood::Calm | ClientMood::Still | ClientMood::Leaving => 2_000,
        };
        let seat = &mut self.seats[at];
        let started = seat.next_at;
        seat.next_at = now.after(Duration::from_millis(200 + pause_ms));
        match (seat.state, self.mood) {
            (State::Away, ClientMood::Wild) => self.call(now, at, handle),
            (State::Away, ClientMood::Calm) if seat.first => self.call(now, at, handle),
            (State::Away, _) | (State::Calling, _) | (_, ClientMood::Still) => {}
            (State::Open, ClientMood::Wild) if started == Instant::default() => {}
            (State::Open, _) => self.hang_up(at, handle),
            (State::Bound, ClientMood::Wild) => self.misbehave(at, handle),
            (State::Bound, ClientMood::Calm) if seat.first => {
                let order = if seat.pulls { pull() } else { ScriptOrder::Act(Action::Ping) };
                self.tell(at, order, handle);
            }
            (State::Bound, _) => self.tell(at, ScriptOrder::Act(Action::Unbind), handle),
        }
        let seat = &mut self.seats[at];
        if seat.state == State::Open {
            seat.next_at = now.after(Duration::from_secs(PATIENCE_S));
        }
    }

    fn call(&mut self, now: Now, at: usize, handle: &mut ShardHandle<Self>) {
        let wild = self.mood == ClientMood::Wild && self.rng.one_in(5);
        let mut script =
            if wild { ConnectionScript::drawn(&mut self.rng) } else { ConnectionScript::Proper };
        self.seats[at].guests.clear();
        if self.mood == ClientMood::Wild && script == ConnectionScript::Proper && self.rng.one_in(3)
        {
            script = self.invite(now, at);
        }
        let seat = &mut self.seats[at];
        let target = UpgradeTarget::open("sim", "/miop", &proto_miop::WIRE);
        let web_socket = seat.web_socket.then_some(target);
        let layers = ClientLayers { web_socket, ..ClientLayers::plain(Protocol::Miop) };
        seat.script = script;
        seat.state = State::Calling;
        seat.next_at = now.after(Duration::from_secs(PATIENCE_S));
        handle.dial(Dial { to: self.to.into(), from: None, layers, tag: at as u64 });
    }

    /// A version 5 seat may carry the Binds of other devices too.
    fn invite(&mut self, now: Now, at: usize) -> ConnectionScript {
        let host = self.seats[at].device;
        let mut others: Vec<u32> = (0..self.profiles.len() as u32).collect();
        others.retain(|&other| Self::speaks_5(host) && Self::speaks_5(other) && other != host);
        let mut binds = Vec::new();
        for other in others {
            if self.rng.one_in(2) {
                let client = Client::new(self.profiles[other as usize].clone(), other);
                binds.extend(machine::bind_bytes(now, client));
                self.seats[at].guests.push(other);
            }
        }
        if binds.is_empty() { ConnectionScript::Proper } else { ConnectionScript::Several(binds) }
    }

    fn misbehave(&mut self, at: usize, handle: &mut ShardHandle<Self>) {
        let order = match self.rng.below(20) {
            0..8 => ScriptOrder::Act(Action::Ping),
            8..13 => ScriptOrder::Act(Action::Report([7; 40].as_slice().into())),
            13..16 => ScriptOrder::Act(Action::Pull(1 + self.rng.below(4) as u16)),
            16 | 17 => ScriptOrder::Act(Action::Unbind),
            18 => return self.hang_up(at, handle),
            _ => ScriptOrder::Raw((0..self.rng.below(40)).map(|_| self.rng.draw() as u8).collect()),
        };
        self.tell(at, order, handle);
    }

    fn tell(&mut self, at: usize, order: ScriptOrder, handle: &mut ShardHandle<Self>) {
        if let Some(conn) = self.seats[at].conn {
            handle.deliver(conn, order);
        }
    }

    fn hang_up(&mut self, at: usize, handle: &mut ShardHandle<Self>) {
        if let Some(conn) = self.seats[at].conn {
            handle.close(conn, CloseReason::OwnStop);
        }
    }

    fn gone(&mut self, now: Now, at: usize) {
        let pause_ms = 50 + self.rng.below(3_000);
        let seat = &mut self.seats[at];
        seat.state = State::Away;
        seat.conn = None;
        seat.next_at = now.after(Duration::from_millis(pause_ms));
    }
}

impl ShardLogic for ClientLogic {
    type Machine = ClientMachine;
    type Mail = ();
    const WIRES: &'static [WireProfile] = &[proto_miop::WIRE, proto_mqtt::WIRE];

    fn machine(&mut self, _: Now, _: &Link, how: ConnectionOrigin) -> Option<ClientMachine> {
        let ConnectionOrigin::Dialled(tag) = how else { return None };
        let seat = &self.seats[tag as usize];
        Some(ClientMachine::new(tag as u32, seat.client.clone(), seat.script.clone()))
    }

    fn word(&mut self, now: Now, from: ConnRef, word: Saw, handle: &mut ShardHandle<Self>) {
        let (at, seen) = match word {
            Saw::Open(at) => (at, None),
            Saw::Said(at, seen) => (at, Some(seen)),
        };
        let seat = &mut self.seats[at as usize];
        match seen {
            None => {
                seat.state = State::Open;
                seat.conn = Some(from);
                seat.open_at = now.mono;
                seat.next_at = now.after(Duration::from_secs(PATIENCE_S));
            }
            Some(Observation::Bound { .. }) => {
                seat.state = State::Bound;
                seat.next_at = now.after(Duration::from_millis(500));
                handle.counters.count(PushCounter::Binds);
            }
            Some(Observation::Message { id, .. }) => {
                // A classic push does not say whom it is for: it counts for all who are there.
                for device in seat.guests.iter().copied().chain([seat.device]) {
                    *self.seen.entry((device, id)).or_default() += 1;
                }
                let came_over = self.came_over.entry(id).or_default();
                *came_over = seat.open_at.max(*came_over);
            }
            Some(Observation::Refused { code, retry_after_ms }) => {
                *self.refused.entry(code).or_default() += 1;
                self.retries += u32::from(retry_after_ms > 0);
            }
            Some(Observation::GoAway { .. }) => self.go_aways += 1,
            Some(_) => {}
        }
    }

    fn mail(&mut self, _: Now, (): (), _: &mut ShardHandle<Self>) {}

    fn turn(&mut self, now: Now, handle: &mut ShardHandle<Self>) -> Option<Instant> {
        for at in 0..self.seats.len() {
            if self.seats[at].next_at <= now.mono {
                self.act(now, at, handle);
            }
        }
        self.seats.iter().map(|seat| seat.next_at).min()
    }

    fn undelivered(&mut self, _: Now, _: ConnRef, _: ScriptOrder, _: &mut ShardHandle<Self>) {}

    fn ended(&mut self, now: Now, gone: &ClientMachine, _: CloseReason, _: &mut ShardHandle<Self>) {
        self.gone(now, gone.seat() as usize);
    }

    fn dial_failed(&mut self, now: Now, tag: u64, _: CloseReason, _: &mut ShardHandle<Self>) {
        self.gone(now, tag as usize);
    }
}

/// Asks for whatever waits, without a cursor: a push with a lower id than the highest one seen may
/// still wait, and `Action::Pull` would pass over it.
fn pull() -> ScriptOrder {
    let mut frame = Frame::new(Opcode::Pull, Props::default());
    frame.props.count = Some(50);
    let mut bytes = Vec::new();
    frame.write(&mut bytes);
    ScriptOrder::Raw(bytes)
}

fn profile_name(device: u32) -> String {
    // Some ids are too long to stand in the hub's record.
    if device % 3 == 2 {
        format!("device-with-a-long-name-{device}")
    } else {
        format!("d-{device}")
    }
}

fn version(device: u32) -> Version {
    [Version::V7, Version::V7, Version::V6, Version::V5][device as usize % 4]
}

/// Profile of a device: its version and habits follow from its number.
fn profile(device: u32, product: &ProductKey) -> Profile {
    let version = version(device);
    let name = profile_name(device);
    let (prefix, _) = name.rsplit_once('-').expect("names end in a hyphen and a number");
    Profile {
        heartbeat: HeartbeatWish { want_s: 30, min_s: 0, max_s: 0 },
        pulls: version == Version::V7 && device % 8 == 1,
        resumes: version == Version::V7 && device % 8 == 4,
        beats: true,
        inflight_max: 1 + (device % 5) as u16 * 3,
        nonce_seed: [device as u8; 32],
        ..Profile::new(version, product.clone(), prefix)
    }
}

/// The lock is never held by a thread that panicked without ending the world.
pub(crate) fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
