//! The built-in fault proxy: a network that breaks when it is told to.
//!
//! The proxy stands between the clients and a target, passes bytes both ways, and does to a share
//! of its connections what a plan's [`Network`] says, from one moment to the next. One thread
//! serves all of them, tens of thousands: an idle one owns two sockets and no buffer. Which
//! connections the share means is fixed when they come, evenly spread: half of them now is the same
//! half later.
//!
//! The proxy knows no protocol. It stands above TCP, so a cut is as the ends see it: while nothing
//! passes the kernel still completes calls and acknowledges what it has room for. The invariant:
//! bytes of a connection pass in order and once, or the connection ends.

mod pipe;
mod works;

use lab::plan::Network;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use works::Works;

/// Connections that it carries, at most; those beyond are reset. Each takes two descriptors.
pub const PIPES_MAX: usize = 250_000;
/// Bytes of one direction of a connection that wait, at most: then it is not read.
pub const QUEUE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of all connections that wait, at most: then none is read.
pub const QUEUED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Error when the thread has ended.
const GONE: &str = "the proxy's thread has ended";

/// A network that breaks when it is told to. Dropping it ends it, with all connections.
pub struct Proxy {
    address: SocketAddr,
    /// Rung when there is an order.
    bell: Arc<OwnedFd>,
    orders: SyncSender<Order>,
    thread: Option<JoinHandle<()>>,
}

/// Counts of the proxy.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ProxyCounts {
    /// Connections taken in.
    pub accepted: u64,
    /// Connections among them that are open.
    pub open: u64,
    /// Connections among them that were reset at once because they were to be refused. (While all
    /// are to be refused the kernel does it, uncounted.)
    pub refused: u64,
    /// Connections reset because the plan wants it.
    pub reset: u64,
    /// Connections closed in the middle of what was to pass.
    pub truncated: u64,
    /// Connections reset because the target could not be called.
    pub unreachable: u64,
    /// Times nobody could be taken in, for want of descriptors.
    pub starved: u64,
    /// Bytes that passed from clients to the target.
    pub bytes_up: u64,
    /// Bytes that passed from the target to clients.
    pub bytes_down: u64,
}

/// Order to the thread, with the channel of its answer: how many connections are meant, or its
/// counts.
enum Order {
    Set(Option<Network>, f64, SyncSender<Result<u64, String>>),
    Show(SyncSender<ProxyCounts>),
    End,
}

impl Proxy {
    /// Listens at `listen` (port 0: any) and passes what comes to the addresses of `to`, in turn.
    pub fn start(listen: SocketAddr, to: Vec<SocketAddr>) -> io::Result<Proxy> {
        if to.is_empty() {
            return Err(io::Error::other("the proxy has no target"));
        }
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (orders, received) = sync_channel(4);
        let mut works = Works::new(listen, to, bell.clone(), received)?;
        let address = works.address();
        let builder = std::thread::Builder::new().name("proxy".to_owned());
        let thread = Some(builder.spawn(move || works.run())?);
        Ok(Proxy { address, bell, orders, thread })
    }

    /// Address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Applies a fault to a share of the connections, 0 to 1, in place of the one before. Returns
    /// how many open connections it affects; it holds for new ones too.
    pub fn set(&self, how: Network, share: f64) -> Result<u64, String> {
        self.order(Some(how), share)
    }

    /// Ends the fault: all traffic passes.
    pub fn clear(&self) -> Result<u64, String> {
        self.order(None, 0.0)
    }

    /// Counts of the proxy so far.
    pub fn counts(&self) -> Result<ProxyCounts, String> {
        let (to, answer) = sync_channel(1);
        self.tell(Order::Show(to))?;
        answer.recv().map_err(|_| GONE.to_owned())
    }

    fn order(&self, how: Option<Network>, share: f64) -> Result<u64, String> {
        let (to, answer) = sync_channel(1);
        self.tell(Order::Set(how, share, to))?;
        answer.recv().map_err(|_| GONE.to_owned())?
    }

    fn tell(&self, order: Order) -> Result<(), String> {
        self.orders.send(order).map_err(|_| GONE.to_owned())?;
        // A bell that is full rings already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // If the thread is gone nobody hears it, which is what is wanted.
        let _ = self.tell(Order::End);
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

#[cfg(test)]
mod tests;
