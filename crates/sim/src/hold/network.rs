//! A network of sockets that are numbers, and the shard messages between the shards that hold them.

use crate::fabric::HostId;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::id::ShardId;
use net::transport::{Accepted, Got, Net, ReadyEvent};
use proto_miop::codec::frame::{Frame, Opcode};
use proto_miop::codec::property::Props;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// Unix milliseconds at which it begins.
const WALL_MS: u64 = 1_800_000_000_000;
/// Nanoseconds a turn of a shard takes: 40,000 calls a second at 64 a turn, so that ten million are
/// there before the first heartbeat is due.
const TURN_NS: u64 = 1_600_000;

/// What the views of all shards share.
pub(super) struct Sparse<L> {
    now_ns: u64,
    /// Devices that have not called yet are those from here on.
    next: u32,
    devices: u32,
    /// Sockets that have said their Bind, a bit each.
    said: Vec<u64>,
    ready: Vec<Vec<(u32, u64)>>,
    mailboxes: Vec<VecDeque<L>>,
    product: String,
    /// Bytes that the server sent.
    pub sent: u64,
}

impl<L> Sparse<L> {
    /// A network from which so many devices of a product call.
    pub fn new(shards: u16, devices: u32, product: &str) -> Sparse<L> {
        Sparse {
            now_ns: 0,
            next: 0,
            devices,
            said: vec![0; devices as usize / 64 + 1],
            ready: (0..shards).map(|_| Vec::new()).collect(),
            mailboxes: (0..shards).map(|_| VecDeque::new()).collect(),
            product: product.to_owned(),
            sent: 0,
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, span: Duration) {
        self.now_ns += span.as_nanos() as u64;
    }

    /// Whether everybody has called.
    pub fn all_called(&self) -> bool {
        self.next == self.devices
    }

    /// The Bind of a device with a name of sixteen characters.
    fn bind(&self, number: u32) -> Vec<u8> {
        let device = format!("device-{number:09}");
        let props = Props {
            device_id: Some(device.as_bytes()),
            product_key: Some(self.product.as_bytes()),
            ..Props::default()
        };
        let mut bytes = Vec::new();
        Frame::new(Opcode::Bind, props).write(&mut bytes);
        bytes
    }

    fn has_said(&self, socket: u32) -> bool {
        self.said[socket as usize / 64] & (1 << (socket % 64)) != 0
    }
}

/// One shard's view of it.
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

    fn wait(&mut self, _: Option<Duration>, ready: &mut Vec<ReadyEvent>) {
        let mut shared = self.shared.borrow_mut();
        shared.now_ns += TURN_NS;
        let sockets = std::mem::take(&mut shared.ready[self.host as usize]);
        ready.extend(sockets.into_iter().map(|(_, token)| ReadyEvent::Socket {
            token,
            readable: true,
            writable: true,
            ended: false,
        }));
        if !shared.all_called() {
            ready.push(ReadyEvent::Door(0));
        }
        if !shared.mailboxes[self.host as usize].is_empty() {
            ready.push(ReadyEvent::Mailbox);
        }
    }

    fn accept(&mut self, _: u8) -> Accepted<u32> {
        let mut shared = self.shared.borrow_mut();
        if shared.all_called() {
            return Accepted::Nobody;
        }
        shared.next += 1;
        Accepted::Socket(shared.next - 1, SocketAddr::from(([127, 0, 0, 1], 1)))
    }

    fn stop_listening(&mut self) {}

    fn dial(&mut self, _: SocketAddr, _: Option<IpAddr>) -> Result<u32, CloseReason> {
        Err(CloseReason::ConnectFailed)
    }

    fn dialled(&mut self, _: &u32) -> Result<(), CloseReason> {
        Err(CloseReason::ConnectFailed)
    }

    fn adopt(&mut self, socket: &u32, token: u64) -> Result<(), CloseReason> {
        let mut shared = self.shared.borrow_mut();
        if !shared.has_said(*socket) {
            shared.ready[self.host as usize].push((*socket, token));
        }
        Ok(())
    }

    fn release(&mut self, _: &u32) {}

    fn receive(&mut self, socket: &u32, into: &mut [u8]) -> Got {
        let mut shared = self.shared.borrow_mut();
        if shared.has_said(*socket) {
            return Got::Later;
        }
        shared.said[*socket as usize / 64] |= 1 << (socket % 64);
        let bind = shared.bind(*socket);
        into[..bind.len()].copy_from_slice(&bind);
        Got::Bytes(bind.len())
    }

    fn send(&mut self, _: &u32, pieces: &[IoSlice<'_>]) -> Got {
        let count: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.shared.borrow_mut().sent += count as u64;
        if count == 0 { Got::Later } else { Got::Bytes(count) }
    }

    fn close(&mut self, _: u32, _: bool) {}

    fn post(&mut self, to: ShardId, shard_message: L) -> Result<(), L> {
        self.shared.borrow_mut().mailboxes[to.0 as usize].push_back(shard_message);
        Ok(())
    }

    fn wake_posted(&mut self) {}

    fn shard_messages(&mut self, into: &mut Vec<L>) {
        into.extend(self.shared.borrow_mut().mailboxes[self.host as usize].drain(..));
    }
}
