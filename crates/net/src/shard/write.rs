//! From the machine to the socket.
//!
//! The bytes that machines send in a turn are gathered in out-queues and written once per
//! connection at the end of the turn. Bytes that a socket does not take wait for its edge; a queue
//! over its limit ends the connection.

use super::{Conn, Shard, ShardMessageOf};
use crate::layer::websocket::WebSocket;
use crate::logic::ShardLogic;
use crate::transport::{Got, Net};
use base::slab::Key;
use model::close::CloseReason;
use model::counters::ProcessCounter;
use model::machine::{Machine, Piece};

/// Bytes gathered for a connection that are not kept until the end of the turn.
const FLUSH_BYTES: usize = 64 * 1024;
/// Bytes that may wait when the layers of a connection that is not let in yet answer: more than
/// the certificates of a handshake.
const ANSWERS_BYTES: usize = 64 * 1024;

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    /// Moves the outbox's wire lane to the connection's out-queue.
    pub(super) fn queue_wire(&mut self, key: Key) -> Result<(), CloseReason> {
        if self.outbox.wire_is_empty() {
            return Ok(());
        }
        let ends = self.outbox.take_ends();
        let Some(conn) = self.conns.at_mut(key) else {
            self.outbox.drain_wire(|_| {});
            return Ok(());
        };
        if conn.has(Conn::<N, H>::WEB_SOCKET) && !ends.is_empty() {
            return self.queue_messages(key, &ends);
        }
        let (web_socket, dialled) =
            (conn.has(Conn::<N, H>::WEB_SOCKET), conn.has(Conn::<N, H>::DIALLED));
        let extra = conn.extra_from(&mut self.pool);
        let layered = extra.layers.is_some() || (web_socket && dialled);
        if layered {
            let mut plain = Vec::with_capacity(self.outbox.wire_len());
            self.outbox.drain_wire(|piece| match piece {
                Piece::Own(bytes) => plain.extend_from_slice(bytes),
                Piece::Shared(frame) => plain.extend_from_slice(&frame),
            });
            let mut layers = self.take_layers(key);
            let mut outer = Vec::with_capacity(plain.len() + 64);
            let wrapped = layers.wrap(&plain, &mut outer);
            self.put_layers(key, layers);
            wrapped?;
            self.queue_raw(key, &outer);
        } else {
            if web_socket {
                let mut header = Vec::with_capacity(10);
                WebSocket::header(self.outbox.wire_len(), &mut header);
                extra.out.push(&header);
            }
            self.outbox.drain_wire(|piece| match piece {
                Piece::Own(bytes) => extra.out.push(bytes),
                Piece::Shared(frame) => extra.out.share(frame),
            });
            self.mark_dirty(key);
        }
        self.check_out(key)
    }

    /// Moves the wire lane of a protocol whose messages are those of a WebSocket.
    fn queue_messages(&mut self, key: Key, ends: &[usize]) -> Result<(), CloseReason> {
        let mut plain = Vec::with_capacity(self.outbox.wire_len());
        self.outbox.drain_wire(|piece| match piece {
            Piece::Own(bytes) => plain.extend_from_slice(bytes),
            Piece::Shared(frame) => plain.extend_from_slice(&frame),
        });
        let (mut outer, mut from) = (Vec::with_capacity(plain.len() + 14 * ends.len()), 0);
        let mut layers = self.take_layers(key);
        let mut wrapped = Ok(());
        for &end in ends {
            let message = plain.get(from..end).unwrap_or_default();
            wrapped = wrapped.and_then(|()| layers.wrap(message, &mut outer));
            from = end;
        }
        self.put_layers(key, layers);
        wrapped?;
        self.queue_raw(key, &outer);
        self.check_out(key)
    }

    /// Queues bytes that are what the socket shall carry.
    pub(super) fn queue_raw(&mut self, key: Key, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let Some(conn) = self.conns.at_mut(key) else { return };
        conn.extra_from(&mut self.pool).out.push(bytes);
        self.mark_dirty(key);
    }

    /// Queues what the layers answer. Only one who reads gets more of it: alerts, new keys and
    /// farewells are asked for by whoever likes to, and count for more before a machine let it in.
    pub(super) fn queue_answers(&mut self, key: Key, bytes: &[u8]) -> Result<(), CloseReason> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.queue_raw(key, bytes);
        self.check_out(key)?;
        let Some(conn) = self.conns.at(key) else { return Ok(()) };
        let trusted = conn.has(Conn::<N, H>::BOUND) || conn.has(Conn::<N, H>::DIALLED);
        let much = !trusted && conn.backlog() > ANSWERS_BYTES;
        if much { Err(CloseReason::SlowConsumer) } else { Ok(()) }
    }

    /// Sends the pong that waited until nothing else did.
    fn pay_pong(&mut self, key: Key) -> Result<(), CloseReason> {
        let mut layers = self.take_layers(key);
        let mut outer = Vec::new();
        let wrapped = layers.pong(&mut outer);
        self.put_layers(key, layers);
        self.queue_raw(key, &outer);
        wrapped
    }

    /// Writes early what is much, and says when too much is left: many frames in one turn are not
    /// a slow reader, so the socket has its say first.
    fn check_out(&mut self, key: Key) -> Result<(), CloseReason> {
        let Some(conn) = self.conns.at(key) else { return Ok(()) };
        let blocked = conn.has(Conn::<N, H>::BLOCKED);
        if self.over(key) || (!blocked && conn.backlog() >= FLUSH_BYTES) {
            self.flush(key);
        }
        if self.over(key) { Err(CloseReason::SlowConsumer) } else { Ok(()) }
    }

    /// Whether more waits for the socket than may.
    fn over(&self, key: Key) -> bool {
        let Some(conn) = self.conns.at(key) else { return false };
        let Some(extra) = conn.extra.as_ref() else { return false };
        let limits = self.frames.at(conn.protocol);
        let frames = match limits.counts_shared_alone {
            true => extra.out.shared_frames(),
            false => extra.out.frames() as usize,
        };
        extra.out.bytes() > limits.out_bytes_max || frames > limits.out_frames_max
    }

    pub(super) fn mark_dirty(&mut self, key: Key) {
        let Some(conn) = self.conns.at_mut(key) else { return };
        if !conn.has(Conn::<N, H>::DIRTY) {
            conn.flags |= Conn::<N, H>::DIRTY;
            self.dirty.push(key);
        }
    }

    /// Writes what was gathered in this turn.
    pub(super) fn flush_dirty(&mut self) {
        let mut at = 0;
        // Ending a connection may make the logic say something to others.
        while at < self.dirty.len() {
            let key = self.dirty[at];
            at += 1;
            if let Some(conn) = self.conns.at_mut(key) {
                conn.flags &= !Conn::<N, H>::DIRTY;
                self.flush(key);
            }
            if at == self.dirty.len() {
                self.settle();
            }
        }
        self.dirty.clear();
    }

    /// Its machine wants to know when all is written: noted, or due at once.
    pub(super) fn tell_when_drained(&mut self, key: Key) {
        let Some(conn) = self.conns.at_mut(key) else { return };
        if conn.backlog() > 0 {
            conn.flags |= Conn::<N, H>::TELLS;
        } else {
            conn.flags &= !Conn::<N, H>::TELLS;
            self.drained.push(key);
        }
    }

    /// Tells those machines that wanted to know that all is written. Their further output is
    /// written at once; those that wait for it again wait for the next turn, so that a fast reader
    /// does not keep the shard to itself.
    pub(super) fn tell_drained(&mut self) {
        if self.drained.is_empty() {
            return;
        }
        for key in std::mem::take(&mut self.drained) {
            // Something may have been said to it since.
            if self.conns.at(key).is_some_and(|conn| conn.backlog() > 0) {
                self.tell_when_drained(key);
                continue;
            }
            self.drive(key, |machine, now, out| machine.drained(now, out));
            self.settle();
        }
        self.flush_dirty();
    }

    fn flush(&mut self, key: Key) {
        let Some(conn) = self.conns.at_mut(key) else { return };
        let Some(extra) = conn.extra.as_mut() else { return };
        conn.flags &= !Conn::<N, H>::BLOCKED;
        let (mut failed, mut sent) = (None, 0);
        while !extra.out.is_empty() {
            let waiting = extra.out.bytes();
            let (net, socket) = (&mut self.net, &conn.socket);
            let counters = &mut self.handle.counters;
            let taken = extra.out.write(|pieces| {
                counters.count(ProcessCounter::Writes);
                match net.send(socket, pieces) {
                    Got::Bytes(count) => count,
                    Got::Failed(reason) => {
                        failed = Some(reason);
                        0
                    }
                    Got::Later | Got::End => 0,
                }
            });
            counters.count_by(ProcessCounter::BytesOut, taken as u64);
            sent += taken;
            if taken < waiting {
                counters.count(ProcessCounter::ShortWrites);
            }
            if taken == 0 {
                conn.flags |= Conn::<N, H>::BLOCKED;
                break;
            }
        }
        if H::WATCHES && failed.is_none() {
            self.slow.wrote(key, !extra.out.is_empty());
        }
        if let Some(reason) = failed {
            return self.end_knowing(key, reason, self.net.detail());
        }
        let owes = extra.layers.as_ref().is_some_and(|layers| layers.owes_pong());
        if owes
            && extra.out.is_empty()
            && let Err(reason) = self.pay_pong(key)
        {
            return self.end(key, reason);
        }
        self.pass(key, 0, sent);
        let Some(conn) = self.conns.at_mut(key) else { return };
        if conn.has(Conn::<N, H>::TELLS) {
            self.tell_when_drained(key);
        }
        self.rest_if_idle(key);
    }

    /// The last write of a connection that ends: farewells and what still waits.
    pub(super) fn last_write(&mut self, key: Key, reason: CloseReason) {
        let broken = matches!(
            reason,
            CloseReason::PeerReset
                | CloseReason::TimedOut
                | CloseReason::IoError
                | CloseReason::SlowConsumer
                | CloseReason::ConnectRefused
                | CloseReason::ConnectFailed
                | CloseReason::LocalLimit
        );
        let Some(conn) = self.conns.at_mut(key) else { return };
        if broken || conn.has(Conn::<N, H>::CONNECTING) || conn.has(Conn::<N, H>::RESET) {
            return;
        }
        let layered = conn.has(Conn::<N, H>::WEB_SOCKET)
            || conn.extra.as_ref().is_some_and(|extra| extra.layers.is_some());
        if layered && conn.machine.is_some() {
            let mut layers = self.take_layers(key);
            let mut outer = Vec::new();
            layers.farewell(reason, &mut outer);
            self.put_layers(key, layers);
            self.queue_raw(key, &outer);
        }
        let Some(conn) = self.conns.at_mut(key) else { return };
        let Some(extra) = conn.extra.as_mut() else { return };
        let (net, socket, counters) = (&mut self.net, &conn.socket, &mut self.handle.counters);
        while !extra.out.is_empty() {
            let taken = extra.out.write(|pieces| match net.send(socket, pieces) {
                Got::Bytes(count) => count,
                _ => 0,
            });
            counters.count(ProcessCounter::Writes);
            counters.count_by(ProcessCounter::BytesOut, taken as u64);
            if taken == 0 {
                break;
            }
        }
    }

    /// Gives back the extra of a connection that has come to rest.
    pub(super) fn rest_if_idle(&mut self, key: Key) {
        let Some(conn) = self.conns.at_mut(key) else { return };
        let Some(extra) = conn.extra.as_mut() else { return };
        if !extra.is_idle() {
            // TLS keeps its extra, but not what its flights took in the out-queue.
            return extra.out.rest();
        }
        if let Some(extra) = conn.extra.take() {
            self.pool_extra(extra);
        }
    }
}
