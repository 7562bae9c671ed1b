//! A network of sockets that are numbers, and the shard messages between the shards that hold them.

use crate::fabric::HostId;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::id::ShardId;
use net::DialAddress;
use net::transport::{Accepted, Got, Net, ReadyEvent};
use proto_im::codec::client_frame::{ClientFrame, LoginFields};
use proto_miop::codec::frame::{Frame, Opcode};
use proto_miop::codec::property::Props;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// Unix milliseconds at which it begins.
const WALL_MS: u64 = 1_800_000_000_000;
/// Nanoseconds a turn of a shard takes: 40,000 calls a second at 64 a turn, so that ten million are
/// there before the first heartbeat is due.
const TURN_NS: u64 = 1_600_000;

/// First bytes of a client of IM (IM 1.1).
const PREFACE: [u8; 4] = [0xc4, b'I', b'M', 1];

/// Simulated time after which a client that was refused calls again.
const AGAIN_NS: u64 = 1_000_000_000;

/// Sockets that are reported in a turn, the first first: as many as epoll is asked for.
const EVENTS: usize = 128;

/// Protocol of the clients that are held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoldProtocol {
    /// Devices of MIOP 7, bound.
    Miop,
    /// Clients of MQTT 3.1.1 with a subscription of their own each.
    Mqtt,
    /// Devices of IM, each of an account of its own that has just begun.
    Im,
}

impl HoldProtocol {
    /// First bytes of a client with a name of sixteen characters.
    fn hello(self, number: u32, product: &str) -> Vec<u8> {
        let name = format!("device-{number:09}");
        let mut bytes = Vec::new();
        match self {
            HoldProtocol::Miop => {
                let props = Props {
                    device_id: Some(name.as_bytes()),
                    product_key: Some(product.as_bytes()),
                    ..Props::default()
                };
                Frame::new(Opcode::Bind, props).write(&mut bytes);
            }
            HoldProtocol::Mqtt => {
                // A clean session, and an hour between two signs of life.
                bytes.extend([0x10, 12 + name.len() as u8]);
                bytes.extend(b"\0\x04MQTT\x04\x02\x0e\x10\0\x10");
                bytes.extend(name.as_bytes());
                // Not its own name: that would be kept once for all of them.
                let filter = format!("room/{number:09}/set");
                bytes.extend([0x82, 5 + filter.len() as u8, 0, 1, 0, filter.len() as u8]);
                bytes.extend(filter.as_bytes());
                bytes.push(0);
            }
            HoldProtocol::Im => {
                let login = LoginFields { name: &name, device: "phone", ..LoginFields::default() };
                bytes.extend(PREFACE);
                ClientFrame::Login(login).write(&mut bytes);
            }
        }
        bytes
    }
}

/// Input of a socket when it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Brings {
    Nothing,
    Hello,
    Ping,
    Reset,
}

/// State that the views of all shards share.
pub(super) struct Sparse<L> {
    now_ns: u64,
    /// Clients that have not called yet are those from here on.
    next: u32,
    clients: u32,
    /// By socket.
    brings: Vec<Brings>,
    ready: Vec<VecDeque<(u32, u64)>>,
    mailboxes: Vec<VecDeque<L>>,
    protocol: HoldProtocol,
    product: String,
    /// Absent: nothing is known of a client but what it says.
    pub storm: Option<Storm>,
    /// Bytes that the server sent.
    pub sent: u64,
}

/// Clients that lose their connections all at once and call again, and others that go on.
#[derive(Default)]
pub(super) struct Storm {
    /// Where a client's connection is.
    places: Vec<(HostId, u64)>,
    /// Answer to each client since it called.
    told: Vec<Option<bool>>,
    /// Clients that will call, each with the time in nanoseconds: cut ones at once, refused ones
    /// later.
    calls: VecDeque<(u64, u32)>,
    pings: BTreeMap<u32, u64>,
    pub tally: StormTally,
}

/// Result of a storm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StormTally {
    /// Clients whose connections were cut at once.
    pub clients: u64,
    /// Clients that have a session again.
    pub back: u64,
    /// Simulated milliseconds until all had.
    pub ms: u64,
    /// Times that a client was asked to come later.
    pub refused: u64,
    /// Times that a connection ended without an answer.
    pub silent: u64,
    /// Connections of others that ended.
    pub lost: u64,
    /// Pings of others meanwhile, and those that were answered.
    pub pings: u64,
    /// Answers to them.
    pub pongs: u64,
    /// The longest that one waited, simulated milliseconds.
    pub pong_ms_max: u64,
}

impl<L> Sparse<L> {
    /// A network from which so many clients call.
    pub fn new(
        shards: u16,
        clients: u32,
        (protocol, product): (HoldProtocol, &str),
        storms: bool,
    ) -> Sparse<L> {
        let all = if storms { clients as usize } else { 0 };
        let storm = Storm { places: vec![(0, 0); all], told: vec![None; all], ..Storm::default() };
        Sparse {
            now_ns: 0,
            next: 0,
            clients,
            brings: vec![Brings::Hello; clients as usize],
            ready: (0..shards).map(|_| VecDeque::new()).collect(),
            mailboxes: (0..shards).map(|_| VecDeque::new()).collect(),
            protocol,
            product: product.to_owned(),
            storm: storms.then_some(storm),
            sent: 0,
        }
    }

    /// Simulated time since the beginning.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns)
    }

    /// Lets time pass.
    pub fn pass(&mut self, span: Duration) {
        self.now_ns += span.as_nanos() as u64;
    }

    /// Whether everybody has called.
    pub fn all_called(&self) -> bool {
        self.next == self.clients
    }

    /// A client's connection brings something.
    fn bring(&mut self, client: u32, what: Brings) {
        let Some(storm) = &self.storm else { return };
        let (host, token) = storm.places[client as usize];
        self.brings[client as usize] = what;
        self.ready[host as usize].push_back((client, token));
    }

    /// The connections of so many clients end at once.
    pub fn cut(&mut self, count: u32) {
        for client in 0..count {
            self.bring(client, Brings::Reset);
        }
        if let Some(storm) = &mut self.storm {
            storm.tally = StormTally { clients: count.into(), ..StormTally::default() };
        }
    }

    /// One that was not cut pings, if it is quiet.
    pub fn ping(&mut self, client: u32) {
        let now_ns = self.now_ns;
        let quiet = self.brings[client as usize] == Brings::Nothing;
        let Some(storm) = self.storm.as_mut().filter(|_| quiet) else { return };
        if storm.pings.insert(client, now_ns).is_none() {
            storm.tally.pings += 1;
            self.bring(client, Brings::Ping);
        }
    }

    /// The client that calls now, if one does.
    fn caller(&mut self) -> Option<u32> {
        if self.next < self.clients {
            self.next += 1;
            return Some(self.next - 1);
        }
        let calls = &mut self.storm.as_mut()?.calls;
        calls.pop_front_if(|(due_ns, _)| *due_ns <= self.now_ns).map(|(_, client)| client)
    }

    fn is_called(&self) -> bool {
        let due = |storm: &Storm| storm.calls.front().is_some_and(|(at, _)| *at <= self.now_ns);
        !self.all_called() || self.storm.as_ref().is_some_and(due)
    }

    /// The server sent this to a client.
    fn hear(&mut self, client: u32, bytes: &[u8]) {
        let now_ns = self.now_ns;
        let Some(storm) = &mut self.storm else { return };
        let Storm { told, pings, tally, .. } = storm;
        match bytes {
            [0x20, 2, _, code, ..] => {
                told[client as usize] = Some(*code == 0);
                if u64::from(client) < tally.clients {
                    let count = if *code == 0 { &mut tally.back } else { &mut tally.refused };
                    *count += 1;
                }
            }
            [0xd0, 0, ..] => {
                if let Some(since_ns) = pings.remove(&client) {
                    tally.pongs += 1;
                    tally.pong_ms_max = tally.pong_ms_max.max((now_ns - since_ns) / 1_000_000);
                }
            }
            _ => {}
        }
    }

    /// A connection has ended.
    fn ended(&mut self, client: u32) {
        let (cut, now_ns) = (self.brings[client as usize] == Brings::Reset, self.now_ns);
        self.brings[client as usize] = Brings::Hello;
        let Some(Storm { told, calls, tally, .. }) = &mut self.storm else { return };
        match told[client as usize].take() {
            _ if cut => return calls.push_front((now_ns, client)),
            Some(true) => tally.lost += 1,
            Some(false) => {}
            None => tally.silent += 1,
        }
        calls.push_back((now_ns + AGAIN_NS, client));
    }
}

/// View of one shard of it.
pub(super) struct SparseNet<L> {
    pub shared: Rc<RefCell<Sparse<L>>>,
    pub host: HostId,
}

impl<L: Send> Net for SparseNet<L> {
    type Socket = u32;
    type Message = L;

    fn now(&mut self) -> Now {
        let nanos = self.shared.borrow().now_ns;
        Now::new(Instant::from_nanos(nanos), WALL_MS + nanos / 1_000_000)
    }

    fn mono(&mut self) -> Instant {
        Instant::from_nanos(self.shared.borrow().now_ns)
    }

    fn wait(&mut self, _: Option<Duration>, ready: &mut Vec<ReadyEvent>) {
        let mut shared = self.shared.borrow_mut();
        shared.now_ns += TURN_NS;
        let sockets = &mut shared.ready[self.host as usize];
        let some = sockets.len().min(EVENTS);
        ready.extend(sockets.drain(..some).map(|(_, token)| ReadyEvent::Socket {
            token,
            readable: true,
            writable: true,
            ended: false,
        }));
        if shared.is_called() {
            ready.push(ReadyEvent::Door(0));
        }
        if !shared.mailboxes[self.host as usize].is_empty() {
            ready.push(ReadyEvent::Mailbox);
        }
    }

    fn accept(&mut self, _: u8) -> Accepted<u32> {
        match self.shared.borrow_mut().caller() {
            Some(client) => Accepted::Socket(client, SocketAddr::from(([127, 0, 0, 1], 1))),
            None => Accepted::Nobody,
        }
    }

    fn stop_listening(&mut self) {}

    fn dial(&mut self, _: &DialAddress, _: Option<IpAddr>) -> Result<u32, CloseReason> {
        Err(CloseReason::ConnectFailed)
    }

    fn dialled(&mut self, _: &u32) -> Result<(), CloseReason> {
        Err(CloseReason::ConnectFailed)
    }

    fn adopt(&mut self, socket: &u32, token: u64) -> Result<(), CloseReason> {
        let (mut shared, host) = (self.shared.borrow_mut(), self.host);
        if let Some(storm) = &mut shared.storm {
            storm.places[*socket as usize] = (host, token);
        }
        if shared.brings[*socket as usize] != Brings::Nothing {
            shared.ready[host as usize].push_back((*socket, token));
        }
        Ok(())
    }

    fn release(&mut self, _: &u32) {}

    fn receive(&mut self, socket: &u32, into: &mut [u8]) -> Got {
        let mut shared = self.shared.borrow_mut();
        let bytes = match shared.brings[*socket as usize] {
            Brings::Nothing => return Got::Later,
            Brings::Reset => return Got::Failed(CloseReason::PeerReset),
            Brings::Hello => shared.protocol.hello(*socket, &shared.product),
            Brings::Ping => vec![0xc0, 0],
        };
        shared.brings[*socket as usize] = Brings::Nothing;
        into[..bytes.len()].copy_from_slice(&bytes);
        Got::Bytes(bytes.len())
    }

    fn send(&mut self, socket: &u32, pieces: &[IoSlice<'_>]) -> Got {
        let count: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut shared = self.shared.borrow_mut();
        shared.sent += count as u64;
        // What a client is told first stands in the first piece.
        if let Some(first) = pieces.first() {
            shared.hear(*socket, first);
        }
        if count == 0 { Got::Later } else { Got::Bytes(count) }
    }

    fn close(&mut self, socket: u32, _: bool) {
        self.shared.borrow_mut().ended(socket);
    }

    fn post(&mut self, to: ShardId, shard_message: L) -> Result<(), L> {
        self.shared.borrow_mut().mailboxes[to.0 as usize].push_back(shard_message);
        Ok(())
    }

    fn wake_posted(&mut self, _: &mut dyn FnMut(ShardId) -> bool) {}

    fn shard_messages(&mut self, into: &mut Vec<L>) {
        into.extend(self.shared.borrow_mut().mailboxes[self.host as usize].drain(..));
    }
}
