//! Calls and listeners.
//!
//! Several hosts may listen at one address, as with SO_REUSEPORT: each has its own backlog, and who
//! gets a call is chosen at random. A full backlog refuses.

use super::{Arrival, End, Fabric, HostId, Socket};
use model::close::CloseReason;
use std::net::SocketAddr;

/// Calls that may wait at a listener.
const BACKLOG_MAX: usize = 4_096;

/// A host's listener at an address.
pub(super) struct Listener {
    address: SocketAddr,
    host: HostId,
    door: u8,
    backlog: Vec<u32>,
}

impl Fabric {
    /// The host listens at `address`; calls come through its door of this number.
    pub fn listen(&mut self, host: HostId, door: u8, address: SocketAddr) {
        self.listeners.push(Listener { address, host, door, backlog: Vec::new() });
    }

    /// Closes all listeners of a host; connections that wait there are reset.
    pub fn stop_listening(&mut self, host: HostId) {
        let listeners = std::mem::take(&mut self.listeners);
        let (gone, stay) = listeners.into_iter().partition(|listener| listener.host == host);
        self.listeners = stay;
        let gone: Vec<Listener> = gone;
        for socket in gone.into_iter().flat_map(|listener| listener.backlog) {
            self.close(Socket(socket), true);
        }
    }

    /// Begins a call.
    pub fn dial(&mut self, host: HostId, to: SocketAddr) -> Socket {
        let link = self.free.pop().unwrap_or_else(|| {
            self.ends.extend([End::default(), End::default()]);
            self.ends.len() as u32 / 2 - 1
        });
        let (least, most) = (self.weather.window_bytes_min, self.weather.window_bytes_max);
        for side in 0..2 {
            let window = (least + self.rng.below(most.saturating_sub(least) + 1)).max(1) as usize;
            let end = &mut self.ends[(link * 2 + side) as usize];
            let generation = end.generation + 1;
            *end = End { generation, open: true, window, holder: host, ..End::default() };
        }
        let at = self.now + 1_000_000 * self.rng.below(20_000);
        let stalls = self.strikes(self.weather.stall_in);
        let caller = &mut self.ends[(link * 2) as usize];
        caller.caller = true;
        caller.stalls_at = stalls.then_some(at);
        let callee = link * 2 + 1;
        self.send_off(callee, Arrival::Call(to));
        Socket(link * 2)
    }

    /// The next call that waits at a door: whichever.
    pub fn accept(&mut self, host: HostId, door: u8) -> Option<Socket> {
        let mine = |listener: &&mut Listener| listener.host == host && listener.door == door;
        let listener = self.listeners.iter_mut().find(mine)?;
        if listener.backlog.is_empty() {
            return None;
        }
        let at = self.rng.below(listener.backlog.len() as u64) as usize;
        let socket = listener.backlog.swap_remove(at);
        self.ends[socket as usize].holder = host;
        Some(Socket(socket))
    }

    /// Whether a call came through.
    pub fn dialled(&self, socket: &Socket) -> Result<(), CloseReason> {
        let end = &self.ends[socket.0 as usize];
        match end.error {
            Some(CloseReason::PeerReset) => Err(CloseReason::ConnectFailed),
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }

    /// Doors of a host at which somebody waits.
    pub(super) fn doors_of(&self, host: HostId) -> impl Iterator<Item = u8> {
        let mine = move |listener: &&Listener| listener.host == host;
        let called = self.listeners.iter().filter(mine);
        called.filter(|listener| !listener.backlog.is_empty()).map(|listener| listener.door)
    }

    /// A call reached its address.
    pub(super) fn called(&mut self, socket: u32, address: SocketAddr) {
        let at_address = |listener: &Listener| {
            listener.address == address && listener.backlog.len() < BACKLOG_MAX
        };
        let listeners = self.listeners.iter().enumerate();
        let takers: Vec<usize> =
            listeners.filter(|(_, listener)| at_address(listener)).map(|(at, _)| at).collect();
        if takers.is_empty() {
            self.ends[socket as usize].open = false;
            let refused = Arrival::Broken(CloseReason::ConnectRefused);
            self.send_off(socket ^ 1, refused);
            return self.free_if_over(socket);
        }
        let taker = takers[self.rng.below(takers.len() as u64) as usize];
        let listener = &mut self.listeners[taker];
        listener.backlog.push(socket);
        let end = &mut self.ends[socket as usize];
        end.holder = listener.host;
        end.connected = true;
        self.send_off(socket ^ 1, Arrival::Answered);
    }
}
