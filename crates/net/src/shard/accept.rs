//! Accepting and calling: how connections come.
//!
//! Accepting never stops, however full it is: a connection beyond the limit is let in to be told
//! BUSY in its protocol's words, one beyond that is reset. A caller always gets an answer.

use super::census::{Census, NO_BUCKET};
use super::{Conn, GivenConnection, Shard, ShardMessageOf};
use crate::connection::ConnectionRecord;
use crate::detail::{Detail, Reached};
use crate::layer::{Layers, ListenerSetup};
use crate::logic::tap::Tapped;
use crate::logic::{ConnectionOrigin, Dial, ShardLogic};
use crate::transport::{Accepted, Net};
use base::slab::Key;
use model::close::CloseReason;
use model::counters::ProcessCounter;
use model::link::{Link, Source, TlsFacts};
use model::machine::Machine;
use model::ports::bans::BanAct;
use rustix::io::Errno;
use std::net::SocketAddr;

impl<N, S, H> Shard<N, H>
where
    H: ShardLogic,
    N: Net<Socket = S, Message = ShardMessageOf<H, S>>,
    S: Send,
{
    /// Takes in what waits at a listener, up to a turn's share. True: nobody waits any more.
    pub(super) fn accept(&mut self, door: u8) -> bool {
        for _ in 0..self.settings.limits.accepts_per_turn {
            match self.net.accept(door) {
                Accepted::Socket(socket, peer) => {
                    self.handle.counters.count(ProcessCounter::Accepted);
                    self.take_in(door, socket, peer);
                }
                Accepted::Nobody => return true,
                Accepted::NoDescriptor => {
                    self.handle.counters.count(ProcessCounter::Accepted);
                    self.handle.counters.count(ProcessCounter::AcceptFailed);
                    self.handle.counters.closed(CloseReason::NoDescriptor);
                    self.notice(CloseReason::NoDescriptor.name(), None, None);
                }
            }
        }
        false
    }

    fn take_in(&mut self, door: u8, socket: N::Socket, peer: SocketAddr) {
        let listener = self.settings.doors[door as usize].clone();
        // Behind a proxy the header says who it is.
        if !listener.proxy && !self.logic.lets_in(self.now, peer.ip(), BanAct::Refuses) {
            return self.refuse_banned(socket, peer);
        }
        let (bucket, beyond) = self.admit(&listener, peer);
        if beyond > self.settings.limits.crowd_max {
            return self.reject(door, bucket, (socket, peer));
        }
        let mut layers = Layers::accepted(listener, H::WIRES, peer, beyond > 0);
        layers.stop_behind_header();
        let mut extra = self.new_extra();
        extra.layers = Some(Box::new(layers));
        let record = ConnectionRecord::new(socket, self.now.ms_wrapping(), 0, door, extra);
        let Ok(key) = self.watch(record) else {
            return self.settings.census.leave_source(bucket);
        };
        self.set_bucket(key, bucket);
        self.tell_came(key, peer);
        self.limit_opening(key);
    }

    /// Takes a connection that somebody beside the shards gives: its protocol begins at once.
    pub(super) fn take_given(&mut self, given: GivenConnection<N::Socket>) {
        let GivenConnection { socket, peer, protocol, encrypted, door } = given;
        self.handle.counters.count(ProcessCounter::Accepted);
        if !self.logic.lets_in(self.now, peer.ip(), BanAct::Refuses) {
            return self.refuse_banned(socket, peer);
        }
        let listener = self.settings.doors[usize::from(door)].clone();
        let (bucket, beyond) = self.admit(&listener, peer);
        if beyond > self.settings.limits.crowd_max {
            return self.reject(door, bucket, (socket, peer));
        }
        let is_encrypted = if encrypted { Conn::<N, H>::ENCRYPTED } else { 0 };
        let (flags, extra) = (Conn::<N, H>::GIVEN | is_encrypted, self.new_extra());
        let record = ConnectionRecord::new(socket, self.now.ms_wrapping(), flags, door, extra);
        let Ok(key) = self.watch(record) else {
            return self.settings.census.leave_source(bucket);
        };
        self.set_bucket(key, bucket);
        self.tell_came(key, peer);
        let tls = encrypted.then(TlsFacts::default);
        let link =
            Link { peer, near: false, crowded: beyond > 0, tls, door, ..Link::loopback(protocol) };
        self.begin(key, &link, ConnectionOrigin::Accepted(door));
    }

    /// Counts a connection: where it is counted by its source, and how many too many there are.
    fn admit(&mut self, listener: &ListenerSetup, peer: SocketAddr) -> (u16, u32) {
        let most = self.settings.limits.connections_max;
        let open = self.settings.census.enter();
        let through = listener.open.enter();
        let most_through = match listener.connections_max {
            0 => u32::MAX,
            most => most,
        };
        let bucket = match listener.proxy {
            // It is told in a moment who it is.
            true => NO_BUCKET,
            false => self.bucket(peer),
        };
        let pressed = open.saturating_sub(self.settings.census.most());
        let beyond = open.saturating_sub(most).max(through.saturating_sub(most_through));
        let beyond = beyond.max(pressed).max(self.beyond_source(bucket));
        if pressed > 0 {
            self.handle.counters.count(ProcessCounter::PressedConnections);
        }
        (bucket, beyond)
    }

    /// Closes a socket for which there is not even room for a BUSY.
    fn reject(&mut self, door: u8, bucket: u16, (socket, peer): (N::Socket, SocketAddr)) {
        self.settings.census.leave();
        self.settings.census.leave_source(bucket);
        self.settings.doors[usize::from(door)].open.leave();
        self.handle.counters.closed(CloseReason::Full);
        self.notice(CloseReason::Full.name(), Some(peer), None);
        self.remember_reject(door, peer);
        self.net.close(socket, true);
    }

    /// Where a connection from there is counted: who is of this machine is not.
    fn bucket(&self, peer: SocketAddr) -> u16 {
        let address = peer.ip().to_canonical();
        match address.is_loopback() {
            true => NO_BUCKET,
            false => Census::bucket(self.settings.hash_key, Source::of(address)),
        }
    }

    /// One more of this bucket: how many too many are that?
    fn beyond_source(&mut self, bucket: u16) -> u32 {
        let many = self.settings.census.enter_source(bucket);
        let beyond = many.saturating_sub(self.settings.limits.source_max());
        if beyond > 0 {
            self.handle.counters.count(ProcessCounter::SourceFull);
        }
        beyond
    }

    /// A proxy has told who it is. One beyond the limit is refused, as others are when they are
    /// accepted.
    pub(super) fn count_told(&mut self, key: Key, link: &mut Link) -> Result<(), CloseReason> {
        let Some(conn) = self.conns.at(key) else { return Ok(()) };
        let told = !conn.has(Conn::<N, H>::DIALLED)
            && self.settings.doors[usize::from(conn.door)].proxy
            && self.bucket_of(key) == NO_BUCKET;
        if !told {
            return Ok(());
        }
        let address = link.peer.ip().to_canonical();
        let bucket = Census::bucket(self.settings.hash_key, Source::of(address));
        let beyond = self.beyond_source(bucket);
        self.set_bucket(key, bucket);
        link.crowded |= beyond > 0;
        if beyond > self.settings.limits.crowd_max { Err(CloseReason::Full) } else { Ok(()) }
    }

    /// Layers must be open in time: nobody else would end a connection whose peer falls silent.
    pub(super) fn limit_opening(&mut self, key: Key) {
        let bind_ms = u64::from(self.settings.limits.bind_ms_max);
        let deadline = self.now.after(std::time::Duration::from_millis(bind_ms));
        self.wheel.insert(deadline, key.pack());
    }

    /// Makes the calls that the logic ordered.
    pub(super) fn dial_all(&mut self) {
        for dial in std::mem::take(&mut self.handle.dials) {
            let Dial { to, from, layers, tag } = dial;
            let socket = match self.net.dial(&to, from) {
                Ok(socket) => socket,
                Err(reason) => {
                    let (detail, reached) = (self.net.detail(), Reached::Connect);
                    (self.handle.detail, self.handle.reached) = (detail, reached);
                    self.logic.dial_failed(self.now, tag, reason, &mut self.handle);
                    // It goes on with the next address at once.
                    self.logic_next = Some(self.now.mono);
                    continue;
                }
            };
            self.settings.census.enter();
            let mut extra = self.new_extra();
            extra.call = Some(Box::new((tag, layers)));
            let flags = Conn::<N, H>::DIALLED | Conn::<N, H>::CONNECTING;
            // A failure has been told to the logic by then.
            if let Ok(key) =
                self.watch(ConnectionRecord::new(socket, self.now.ms_wrapping(), flags, 0, extra))
            {
                self.logic.dialling(self.now, tag, self.conn_ref(key));
            }
        }
    }

    /// A call came through, or failed.
    pub(super) fn on_dialled(&mut self, key: Key) {
        let Some(conn) = self.conns.at_mut(key) else { return };
        let came = self.net.dialled(&conn.socket);
        let detail = self.net.detail();
        // Only a connection that stood can be reset: before, the same answer is a refusal.
        let reset = matches!(detail, Detail::Errno(Errno::CONNRESET | Errno::PIPE));
        if came.is_ok() || reset {
            conn.flags &= !Conn::<N, H>::CONNECTING;
            let call = conn.extra.as_ref().and_then(|extra| extra.call.as_deref());
            if let Some((tag, _)) = call {
                self.logic.connected(self.now, *tag);
            }
        }
        if let Err(reason) = came {
            return self.end_knowing(key, reason, detail);
        }
        let Some(extra) = conn.extra.as_mut() else { return };
        let Some((tag, client)) = extra.call.as_deref() else { return };
        let (tag, client) = (*tag, client.clone());
        let plain = client.is_plain();
        let link = Link::loopback(client.protocol);
        if plain {
            extra.call = extra.call.take().filter(|call| call.1.may_start_tls());
            return self.begin(key, &link, ConnectionOrigin::Dialled(tag));
        }
        let mut outer = Vec::new();
        match Layers::dialled(client, link.peer, &mut outer) {
            Ok(layers) => {
                extra.layers = Some(Box::new(layers));
                extra.out.push(&outer);
                self.mark_dirty(key);
                self.limit_opening(key);
            }
            Err(reason) => self.end(key, reason),
        }
    }

    /// The layers are open: the protocol begins.
    pub(super) fn begin(&mut self, key: Key, link: &Link, how: ConnectionOrigin) {
        let mut link = link.clone();
        if let Err(reason) = self.count_told(key, &mut link) {
            return self.end(key, reason);
        }
        let Some(conn) = self.conns.at(key) else { return };
        link.door = conn.door;
        link.may_start_tls = self.may_start_tls(conn);
        let link = &link;
        let Some(machine) = self.logic.machine(self.now, link, how) else {
            return self.end(key, CloseReason::ProtocolNotServed);
        };
        self.tell_begun(key, link);
        let Some(conn) = self.conns.at_mut(key) else { return };
        conn.remember(link);
        conn.machine = Some(machine);
        if self.handle.tapping {
            self.tap(key, Tapped::Opened(link));
        }
        self.drive(key, |machine, now, out| machine.opened(now, link, out));
        self.settle();
        self.rest_if_idle(key);
    }

    fn watch(&mut self, record: Conn<N, H>) -> Result<Key, ()> {
        match self.conns.insert(record) {
            Ok(key) => {
                let conn = self.conns.at(key).expect("it was just put in");
                match self.net.adopt(&conn.socket, key.pack()) {
                    Ok(()) => Ok(key),
                    Err(reason) => {
                        self.end_knowing(key, reason, self.net.detail());
                        Err(())
                    }
                }
            }
            Err(record) => {
                self.leave_census(&record, NO_BUCKET);
                self.handle.counters.closed(CloseReason::Full);
                let call = record.extra.as_ref().and_then(|extra| extra.call.as_deref());
                if let Some((tag, _)) = call {
                    let (detail, reached) = (Detail::Nothing, Reached::Connect);
                    (self.handle.detail, self.handle.reached) = (detail, reached);
                    self.logic.dial_failed(self.now, *tag, CloseReason::Full, &mut self.handle);
                }
                self.net.close(record.socket, true);
                Err(())
            }
        }
    }
}
