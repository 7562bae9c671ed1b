//! Bytes on a link: send, arrive, receive, close, and what may go wrong with each.

use super::{Arrival, Fabric, HostId, Socket};
use model::close::CloseReason;
use net::transport::Got;
use std::io::IoSlice;

/// Segments that a split send is cut into, at most.
const PIECES_MAX: u64 = 8;
/// Nanoseconds after which a send may be tried again that was short for no reason.
const SHORT_NS: u64 = 200_000;

impl Fabric {
    /// Watches a socket: an edge follows at once if it is ready.
    pub fn adopt(&mut self, host: HostId, socket: &Socket, token: u64) {
        let end = &mut self.ends[socket.0 as usize];
        end.holder = host;
        end.watcher = Some((host, token));
        self.queue(socket.0);
    }

    /// Watches it no more.
    pub fn release(&mut self, socket: &Socket) {
        let end = &mut self.ends[socket.0 as usize];
        if let Some((host, _)) = end.watcher.take()
            && std::mem::take(&mut end.queued)
        {
            self.hosts[host as usize].ready.retain(|ready| *ready != socket.0);
        }
    }

    /// Reads what is unread.
    pub fn receive(&mut self, socket: &Socket, into: &mut [u8]) -> Got {
        let end = &mut self.ends[socket.0 as usize];
        assert!(end.open, "a socket that is held is open");
        if end.inbox.is_empty() {
            return match (end.error, end.ended) {
                (Some(reason), _) => Got::Failed(reason),
                (None, true) => Got::End,
                (None, false) => Got::Later,
            };
        }
        let count = into.len().min(end.inbox.len());
        for (to, byte) in into.iter_mut().zip(end.inbox.drain(..count)) {
            *to = byte;
        }
        if end.inbox.is_empty() {
            end.inbox.shrink_to_fit();
        }
        let sender = socket.0 ^ 1;
        // A sender is told of room once a third of the window is free (tcp(7), as Linux does it).
        if self.ends[sender as usize].starved && self.room(sender) * 3 >= self.window(sender) {
            self.ends[sender as usize].starved = false;
            self.send_off(sender, Arrival::Room);
        }
        Got::Bytes(count)
    }

    /// Sends as much as there is room for, or less.
    pub fn send(&mut self, socket: &Socket, pieces: &[IoSlice<'_>]) -> Got {
        let here = socket.0;
        let end = &self.ends[here as usize];
        assert!(end.open, "a socket that is held is open");
        if let Some(reason) = end.error {
            return Got::Failed(reason);
        }
        let mut bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        let wanted = bytes.len();
        let room = if end.connected { self.room(here) } else { 0 };
        bytes.truncate(room);
        if self.strikes(self.weather.short_write_in) {
            bytes.truncate(self.below(bytes.len() as u64 + 1) as usize);
            let (at, generation) = (self.now + SHORT_NS, self.ends[here as usize].generation);
            self.arrivals.put(at, here, generation, Arrival::Room);
        } else if bytes.len() < wanted {
            self.ends[here as usize].starved = true;
        }
        let count = bytes.len();
        if count == 0 {
            return Got::Later;
        }
        self.ends[(here ^ 1) as usize].coming += count;
        self.transmit(here, bytes);
        Got::Bytes(count)
    }

    /// Ends the holder's use of a socket.
    pub fn close(&mut self, socket: Socket, abort: bool) {
        self.release(&socket);
        let end = &mut self.ends[socket.0 as usize];
        assert!(end.open, "a socket is closed once");
        end.open = false;
        end.inbox = Default::default();
        let finished = end.finished && !abort;
        let peer = socket.0 ^ 1;
        if self.ends[peer as usize].open && !finished {
            let last = if abort { Arrival::Broken(CloseReason::PeerReset) } else { Arrival::End };
            self.send_off(peer, last);
        }
        self.free_if_over(socket.0);
    }

    pub(super) fn room(&self, sender: u32) -> usize {
        let peer = &self.ends[(sender ^ 1) as usize];
        peer.window.saturating_sub(peer.coming + peer.inbox.len())
    }

    fn window(&self, sender: u32) -> usize {
        self.ends[(sender ^ 1) as usize].window
    }

    pub(super) fn arrive(&mut self, to: u32, arrival: Arrival) {
        let end = &mut self.ends[to as usize];
        let lost = end.vanished && !matches!(arrival, Arrival::Broken(CloseReason::TimedOut));
        if lost && !matches!(arrival, Arrival::Call(_)) {
            return; // what was on its way stays counted: nobody acknowledges it
        }
        match arrival {
            Arrival::Call(address) => return self.called(to, address),
            Arrival::Answered => end.connected = true,
            Arrival::Bytes(bytes) if end.open => {
                end.coming -= bytes.len();
                end.inbox.extend(bytes);
            }
            Arrival::Bytes(_) => {
                // Nobody is there to read it.
                let peer = to ^ 1;
                if self.ends[peer as usize].open {
                    self.send_off(peer, Arrival::Broken(CloseReason::PeerReset));
                }
            }
            Arrival::End => end.ended = true,
            Arrival::Broken(reason) => end.error = end.error.or(Some(reason)),
            // Whoever was told to try again later, and cannot yet, is told when there is room.
            Arrival::Room => self.ends[to as usize].starved |= self.room(to) == 0,
        }
        self.queue(to);
    }

    /// Frees the link's number if both holders have let go.
    pub(super) fn free_if_over(&mut self, socket: u32) {
        let link = socket / 2;
        let pair = [link * 2, link * 2 + 1];
        if pair.iter().any(|&end| self.ends[end as usize].open) {
            return;
        }
        for end in pair {
            self.ends[end as usize].generation += 1;
            self.ends[end as usize].inbox = Default::default();
        }
        self.free.push(link);
    }

    fn transmit(&mut self, from: u32, mut bytes: Vec<u8>) {
        if self.ends[from as usize].finished {
            return; // the sender has not heard yet that the link is broken
        }
        if self.ends[from as usize].caller && self.strikes(self.weather.cut_in) {
            bytes.truncate(self.below(bytes.len() as u64) as usize);
            self.segments(from ^ 1, bytes);
            self.send_off(from ^ 1, Arrival::End);
            self.ends[from as usize].finished = true;
            return self.send_off(from, Arrival::Broken(CloseReason::PeerReset));
        }
        if self.strikes(self.weather.reset_in) {
            self.ends[from as usize].finished = true;
            self.send_off(from, Arrival::Broken(CloseReason::PeerReset));
            return self.send_off(from ^ 1, Arrival::Broken(CloseReason::PeerReset));
        }
        if self.strikes(self.weather.vanish_in) {
            self.vanish_link(from);
        }
        let end = &mut self.ends[from as usize];
        if end.vanished && !std::mem::replace(&mut end.doomed, true) {
            let at = self.now + self.weather.user_timeout_ms * 1_000_000;
            let broken = Arrival::Broken(CloseReason::TimedOut);
            self.arrivals.put(at, from, end.generation, broken);
        }
        self.segments(from ^ 1, bytes);
    }

    fn segments(&mut self, to: u32, bytes: Vec<u8>) {
        let mut rest = &bytes[..];
        if self.strikes(self.weather.split_in) {
            for _ in 0..self.below(PIECES_MAX) {
                let cut = self.below(rest.len() as u64 + 1) as usize;
                if cut > 0 {
                    self.send_off(to, Arrival::Bytes(rest[..cut].to_vec()));
                }
                rest = &rest[cut..];
            }
        }
        if !rest.is_empty() {
            self.send_off(to, Arrival::Bytes(rest.to_vec()));
        }
    }

    fn vanish_link(&mut self, socket: u32) {
        self.ends[socket as usize].vanished = true;
        self.ends[(socket ^ 1) as usize].vanished = true;
    }
}
