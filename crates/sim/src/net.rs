//! View of one shard of the simulated network: `net::Net` over a [`Fabric`] and a post office.
//!
//! Shards of one world share both; everything runs in one thread. A wait never blocks: when
//! nothing is ready it tells the fabric how long the shard would sleep, and the world turns the
//! shard again when that time has come or something has arrived.

use crate::fabric::{Fabric, HostId, Socket};
use crate::post::SimMailboxes;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::id::ShardId;
use net::DialAddress;
use net::transport::{Accepted, Got, NestedWait, Net, ReadyEvent};
use std::cell::RefCell;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// View of one shard of the network. A call for a connection takes the time that the weather says,
/// so that a thread with much to do is busy.
pub struct SimNet<L> {
    fabric: Rc<RefCell<Fabric>>,
    post: Rc<RefCell<SimMailboxes<L>>>,
    host: HostId,
    shard: ShardId,
    posted: Vec<ShardId>,
    /// Shards that are waited for with this one.
    nested: Vec<ShardId>,
}

impl<L> SimNet<L> {
    /// The view of `shard`, whose host in the fabric and place in the post office is the same.
    pub fn new(
        fabric: Rc<RefCell<Fabric>>,
        post: Rc<RefCell<SimMailboxes<L>>>,
        shard: ShardId,
    ) -> Self {
        let host = post.borrow().host(shard);
        SimNet { fabric, post, host, shard, posted: Vec::new(), nested: Vec::new() }
    }
}

impl<L: Send> Net for SimNet<L> {
    type Socket = Socket;
    type Message = L;

    fn now(&mut self) -> Now {
        self.fabric.borrow().now()
    }

    fn mono(&mut self) -> Instant {
        self.fabric.borrow().now().mono
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<ReadyEvent>) {
        let mut fabric = self.fabric.borrow_mut();
        fabric.wait(self.host, timeout, ready);
        let post = self.post.borrow();
        let nested = self.nested.iter().filter(|&&shard| fabric.is_due(post.host(shard)));
        ready.extend(nested.map(|&shard| ReadyEvent::Nested(shard)));
    }

    fn accept(&mut self, door: u8) -> Accepted<Socket> {
        let mut fabric = self.fabric.borrow_mut();
        let Some(socket) = fabric.accept(self.host, door) else { return Accepted::Nobody };
        let no_descriptor_in = fabric.weather().no_descriptor_in;
        if fabric.strikes(no_descriptor_in) {
            fabric.close(socket, true);
            return Accepted::NoDescriptor;
        }
        Accepted::Socket(socket, SocketAddr::from(([127, 0, 0, 1], 40_000)))
    }

    fn stop_listening(&mut self) {
        self.fabric.borrow_mut().stop_listening(self.host);
    }

    /// Refuses: nothing listens at socket files here.
    fn dial(&mut self, to: &DialAddress, _: Option<IpAddr>) -> Result<Socket, CloseReason> {
        let DialAddress::Tcp(to) = to else { return Err(CloseReason::ConnectFailed) };
        let mut fabric = self.fabric.borrow_mut();
        fabric.stir(self.host);
        Ok(fabric.dial(self.host, *to))
    }

    fn dialled(&mut self, socket: &Socket) -> Result<(), CloseReason> {
        self.fabric.borrow().dialled(socket)
    }

    fn adopt(&mut self, socket: &Socket, token: u64) -> Result<(), CloseReason> {
        let mut fabric = self.fabric.borrow_mut();
        fabric.stir(self.host);
        fabric.adopt(self.host, socket, token);
        Ok(())
    }

    fn release(&mut self, socket: &Socket) {
        self.fabric.borrow_mut().release(socket);
    }

    fn receive(&mut self, socket: &Socket, into: &mut [u8]) -> Got {
        let mut fabric = self.fabric.borrow_mut();
        fabric.work(socket);
        fabric.receive(socket, into)
    }

    fn send(&mut self, socket: &Socket, pieces: &[IoSlice<'_>]) -> Got {
        let mut fabric = self.fabric.borrow_mut();
        fabric.stir(self.host);
        fabric.work(socket);
        fabric.send(socket, pieces)
    }

    fn close(&mut self, socket: Socket, abort: bool) {
        let mut fabric = self.fabric.borrow_mut();
        fabric.stir(self.host);
        fabric.close(socket, abort);
    }

    fn post(&mut self, to: ShardId, shard_message: L) -> Result<(), L> {
        let mut fabric = self.fabric.borrow_mut();
        fabric.stir(self.host);
        let refuse_shard_message_in = fabric.weather().refuse_shard_message_in;
        if fabric.strikes(refuse_shard_message_in) {
            return Err(shard_message);
        }
        self.post.borrow_mut().put(Some(self.shard), to, shard_message)?;
        self.posted.push(to);
        Ok(())
    }

    fn wake_posted(&mut self, is_here: &mut dyn FnMut(ShardId) -> bool) {
        for to in self.posted.drain(..).filter(|&to| !is_here(to)) {
            self.fabric.borrow_mut().ring(self.post.borrow().host(to));
        }
    }

    fn shard_messages(&mut self, into: &mut Vec<L>) {
        let mut fabric = self.fabric.borrow_mut();
        let more = self.post.borrow_mut().take(self.shard, &mut fabric, into);
        fabric.looked(self.host, more);
    }
}

impl<L: Send> NestedWait for SimNet<L> {
    fn poll(&mut self, ready: &mut Vec<ReadyEvent>) -> bool {
        self.fabric.borrow_mut().poll(self.host, ready);
        false
    }

    fn nest(&mut self, other: &Self) -> bool {
        let mut fabric = self.fabric.borrow_mut();
        let refuse_nest_in = fabric.weather().refuse_nest_in;
        if fabric.strikes(refuse_nest_in) {
            return false;
        }
        self.nested.push(other.shard);
        true
    }

    fn unnest(&mut self, other: &Self) {
        self.nested.retain(|&shard| shard != other.shard);
        self.fabric.borrow_mut().stir(other.host);
    }

    fn wake(&mut self, shard: ShardId) {
        self.fabric.borrow_mut().ring(self.post.borrow().host(shard));
    }
}
