//! One session's record.
//!
//! 72 bytes, and the text of its identifier; [`More`] holds what only a busy session has, and goes
//! when there is nothing in it: parts with doors of their own, and what is the record's. The record
//! knows no other session and decides nothing.

use super::inbound::InboundMessages;
use super::shares::Shares;
use crate::durable::entries::{exchanges_of, timeline_of};
use crate::message::queue::Queue;
use crate::message::replay::RetainedReplays;
use base::hash::HashKey;
use base::slab::Key;
use base::time::Now;
use model::close::CloseReason;
use model::id::ConnRef;
use model::presence::{self, PresenceVersion};
use model::session::Will;
use model::timeline::{Seq, TimelineId};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

/// Bits of [`Session::flags`].
mod flag {
    /// The session outlives its connection, and is in the log.
    pub const DURABLE: u16 = 1;
    /// The client knows that it is connected.
    pub const WELCOME: u16 = 1 << 1;
    /// A bridge that marked itself.
    pub const BRIDGE: u16 = 1 << 2;
    /// A timer for its end is set, that comes no later than the end.
    pub const TIMED: u16 = 1 << 3;
    /// Marks a record without a session, which keeps the slot.
    pub const GRAVE: u16 = 1 << 4;
    /// How far its subscriptions reach is being found out: each message is looked at.
    pub const REACHING: u16 = 1 << 5;
    /// Its first row is on the way to the log.
    pub const UNWRITTEN: u16 = 1 << 6;
}

const NO_CONN: u64 = u64::MAX;
/// No subscription.
pub(crate) const NO_FILTER: u32 = u32::MAX;
/// An expiry of never.
pub(crate) const NEVER_S: u32 = u32::MAX;

/// One session.
pub(crate) struct Session {
    /// The client identifier.
    id: Box<str>,
    conn: u64,
    pub more: Option<Box<More>>,
    /// Number of its principal in [`super::principals::Principals`].
    principal: u32,
    /// Version of the last transition; without one, of when the session was made.
    version: PresenceVersion,
    /// Unix second since when it has a connection or none, by the wall: what lasts for a time is
    /// measured from here, for versions may be ahead of the wall.
    since_s: u32,
    expiry_s: u32,
    /// The filter of its first subscription, or [`NO_FILTER`].
    filter: u32,
    peer_ip: u32,
    peer_port: u16,
    window: u16,
    keep_alive_s: u16,
    flags: u16,
    protocol: u8,
    /// How its last connection ended; 255: it has not.
    reason: u8,
}

const _: () = assert!(size_of::<Option<Session>>() <= 72);

/// Terms between a session and the connection that it is bound to.
pub(crate) struct SessionTerms {
    /// Number of its protocol's name.
    pub protocol: u8,
    /// Seconds it outlives its connection; [`NEVER_S`]: for ever.
    pub expiry_s: u32,
    /// Seconds.
    pub keep_alive_s: u16,
    /// Deliveries of QoS 1 and 2 that may be on the way.
    pub window: u16,
    /// A bridge that marked itself.
    pub is_bridge: bool,
}

/// State that a session has only while it is busy.
#[derive(Default)]
pub(crate) struct More {
    /// Messages on the way to the client, and those that wait.
    pub queue: Queue,
    /// Messages that the client publishes at QoS 1 and 2.
    pub inbound: InboundMessages,
    /// Filters after the first, in order.
    filters: Vec<u32>,
    /// Identifiers of subscriptions: filter, number. In order.
    ids: Vec<(u32, u32)>,
    /// Its shared groups.
    pub shares: Shares,
    /// Retained messages on their way.
    pub replays: RetainedReplays,
    /// The will, with its moment (Unix s, 0: not yet).
    will: Option<Box<(Will, u32)>>,
    /// Its address, when that is not of IPv4.
    peer: Option<SocketAddr>,
    /// The name of the device that its client is, where it brought one.
    pub device: Option<Box<str>>,
    /// Unix second at which what it may do is over; 0: never.
    until_s: u32,
    /// Messages dropped since it began.
    dropped: u64,
    /// Appends to its timeline that are not answered.
    asked: u32,
    /// A page of its timeline is on its way.
    pulling: bool,
}

/// An exchange of one message of QoS 1 or 2 with a session's client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Exchange {
    pub session: Key,
    /// Its packet identifier.
    pub id: u16,
}

/// An entry of a session's timeline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct EntryRef {
    pub session: Key,
    pub seq: Seq,
}

impl Session {
    /// A session that nobody is bound to.
    pub fn new(id: &str) -> Session {
        Session {
            id: id.into(),
            conn: NO_CONN,
            more: None,
            principal: 0,
            version: PresenceVersion::default(),
            since_s: 0,
            expiry_s: 0,
            filter: NO_FILTER,
            peer_ip: 0,
            peer_port: 0,
            window: 1,
            keep_alive_s: 0,
            flags: 0,
            protocol: 0,
            reason: u8::MAX,
        }
    }

    /// Placeholder that keeps the slot of a session that was taken out.
    pub fn grave() -> Session {
        Session { flags: flag::GRAVE, ..Session::new("") }
    }

    pub fn is_grave(&self) -> bool {
        self.flags & flag::GRAVE != 0
    }

    /// The client identifier.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Takes the record apart and returns the client identifier.
    pub fn into_id(self) -> Box<str> {
        self.id
    }

    /// The timeline of what waits for it: its name on every node.
    pub fn timeline(&self, home: HashKey) -> TimelineId {
        self.member().unwrap_or_else(|| timeline_of(home, &self.id))
    }

    /// The timeline of what it has to remember of exchanges.
    pub fn exchanges(&self, home: HashKey) -> TimelineId {
        exchanges_of(home, &self.id)
    }

    /// Its name as a member of groups; absent before it was one.
    pub fn member(&self) -> Option<TimelineId> {
        self.more.as_ref()?.shares.member()
    }

    /// Number of its principal in [`super::principals::Principals`].
    pub fn principal(&self) -> u32 {
        self.principal
    }

    /// Sets the principal; returns the one before.
    pub fn set_principal(&mut self, principal: u32) -> u32 {
        std::mem::replace(&mut self.principal, principal)
    }

    /// The version of its last transition; of one that has had none, of when it was made.
    pub fn version(&self) -> PresenceVersion {
        self.version
    }

    /// Its client came (`None`), or went for this reason.
    pub fn transit(&mut self, version: PresenceVersion, reason: Option<CloseReason>) {
        self.version = version;
        self.reason = reason.map_or(u8::MAX, |reason| reason as u8);
    }

    /// Unix second since when it has a connection or none.
    pub fn since_s(&self) -> u32 {
        self.since_s
    }

    /// Seconds it outlives its connection; [`NEVER_S`]: for ever.
    pub fn expiry_s(&self) -> u32 {
        self.expiry_s
    }

    /// Deliveries of QoS 1 and 2 that may be on the way.
    pub fn window(&self) -> u16 {
        self.window
    }

    /// Keep-alive, seconds.
    pub fn keep_alive_s(&self) -> u16 {
        self.keep_alive_s
    }

    /// Number of its protocol's name.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// A session that the log gives back: it has no connection since then.
    pub fn restore(&mut self, since_s: u32, terms: &SessionTerms) {
        self.since_s = since_s;
        self.agree(terms);
        self.set(flag::DURABLE, true);
        // Below all that are given from now on.
        let version = PresenceVersion::after(0, u64::from(since_s) * 1_000);
        self.transit(version, Some(CloseReason::ServerStopped));
    }

    /// Binds it to a connection, on these terms; a new session has its version. It is not welcome
    /// yet.
    pub fn bind(&mut self, now: Now, conn: ConnRef, terms: &SessionTerms) {
        self.set_conn(now, Some(conn));
        self.agree(terms);
    }

    /// Takes the connection away and returns it.
    pub fn unbind(&mut self, now: Now) -> Option<ConnRef> {
        let conn = self.conn();
        self.set_conn(now, None);
        conn
    }

    /// The connection it is bound to.
    pub fn conn(&self) -> Option<ConnRef> {
        (self.conn != NO_CONN).then(|| ConnRef::from_bits(self.conn))
    }

    /// Unix millisecond at which its client was certainly there for the last time.
    pub fn seen_ms(&self, now: Now) -> u64 {
        let since_ms = self.version.unix_ms();
        match self.online() {
            Some(_) => presence::seen_ms(now.wall_ms, since_ms, self.keep_alive_s),
            None => since_ms.min(now.wall_ms),
        }
    }

    /// The connection it may be sent something over.
    pub fn online(&self) -> Option<ConnRef> {
        self.conn().filter(|_| self.flags & flag::WELCOME != 0)
    }

    fn set_conn(&mut self, now: Now, conn: Option<ConnRef>) {
        self.conn = conn.map_or(NO_CONN, ConnRef::bits);
        self.since_s = now.unix_s();
        self.set(flag::WELCOME, false);
    }

    fn agree(&mut self, terms: &SessionTerms) {
        self.set_expiry_s(terms.expiry_s);
        self.protocol = terms.protocol;
        self.keep_alive_s = terms.keep_alive_s;
        self.window = terms.window;
        self.set(flag::BRIDGE, terms.is_bridge);
    }

    pub fn welcome(&mut self) {
        self.set(flag::WELCOME, true);
    }

    pub fn is_durable(&self) -> bool {
        self.flags & flag::DURABLE != 0
    }

    pub fn set_durable(&mut self, durable: bool) {
        self.set(flag::DURABLE, durable);
    }

    /// Whether it is durable and its first row is not known to be on stable storage.
    pub fn is_unwritten(&self) -> bool {
        self.flags & flag::UNWRITTEN != 0
    }

    pub fn set_unwritten(&mut self, unwritten: bool) {
        self.set(flag::UNWRITTEN, unwritten);
    }

    /// Whether each message has to be looked at, whether it may be read.
    pub fn is_reaching(&self) -> bool {
        self.flags & flag::REACHING != 0
    }

    pub fn set_reaching(&mut self, reaching: bool) {
        self.set(flag::REACHING, reaching);
    }

    pub fn is_bridge(&self) -> bool {
        self.flags & flag::BRIDGE != 0
    }

    /// How long it outlives its connection from now on.
    pub fn set_expiry_s(&mut self, expiry_s: u32) {
        if expiry_s < self.expiry_s {
            // The timer that is set would come too late.
            self.set_timed(false);
        }
        self.expiry_s = expiry_s;
    }

    /// Whether a timer for its end is set.
    pub fn is_timed(&self) -> bool {
        self.flags & flag::TIMED != 0
    }

    pub fn set_timed(&mut self, timed: bool) {
        self.set(flag::TIMED, timed);
    }

    pub fn reason(&self) -> Option<CloseReason> {
        CloseReason::ALL.get(usize::from(self.reason)).copied()
    }

    /// Unix second at which what it may do is over; 0: never.
    pub fn until_s(&self) -> u32 {
        self.more.as_ref().map_or(0, |more| more.until_s)
    }

    /// Sets the Unix second at which the grant expires; 0: never.
    pub fn set_until_s(&mut self, until_s: u32) {
        if until_s != self.until_s() {
            self.more().until_s = until_s;
        }
    }

    /// Its client is the device of this name, or of its identifier's.
    pub fn set_device(&mut self, device: Option<Box<str>>) {
        if device.is_some() || self.more.as_ref().is_some_and(|more| more.device.is_some()) {
            self.more().device = device;
        }
    }

    /// Messages dropped since it began.
    pub fn dropped(&self) -> u64 {
        self.more.as_ref().map_or(0, |more| more.dropped)
    }

    /// Counts further dropped messages.
    pub fn drop_more(&mut self, count: u64) {
        self.more().dropped += count;
    }

    /// Its will, with the Unix second at which it is due; 0: it is not yet.
    pub fn will(&self) -> Option<(&Will, u32)> {
        let will = self.more.as_ref()?.will.as_deref()?;
        Some((&will.0, will.1))
    }

    /// Sets the will; returns the one before.
    pub fn set_will(&mut self, will: Will, due_s: u32) -> Option<Will> {
        self.more().will.replace(Box::new((will, due_s))).map(|before| before.0)
    }

    /// Its will is due then.
    pub fn set_will_due(&mut self, due_s: u32) {
        let will = self.more.as_mut().and_then(|more| more.will.as_mut());
        will.into_iter().for_each(|will| will.1 = due_s);
    }

    /// Takes the will away and returns it.
    pub fn take_will(&mut self) -> Option<Will> {
        self.more.as_mut()?.will.take().map(|will| will.0)
    }

    /// Its client's address, as far as it is known.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.conn()?;
        let more = self.more.as_ref().and_then(|more| more.peer);
        more.or(Some(SocketAddr::new(
            IpAddr::V4(Ipv4Addr::from_bits(self.peer_ip)),
            self.peer_port,
        )))
    }

    pub fn set_peer(&mut self, peer: SocketAddr) {
        if let Some(more) = &mut self.more {
            more.peer = None;
        }
        match peer.ip() {
            IpAddr::V4(ip) => (self.peer_ip, self.peer_port) = (ip.to_bits(), peer.port()),
            IpAddr::V6(_) => self.more().peer = Some(peer),
        }
    }

    /// State that only a busy session has; made if absent.
    pub fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// Its queue, if it has one.
    pub fn queue(&self) -> Option<&Queue> {
        self.more.as_ref().map(|more| &more.queue)
    }

    /// Frees what it does not need.
    pub fn rest(&mut self) {
        if self.more.as_ref().is_some_and(|more| more.is_idle()) {
            self.more = None;
        }
    }

    /// Unix second at which it ends, if it is away.
    pub fn ends_at_s(&self) -> u64 {
        match self.expiry_s {
            NEVER_S => u64::MAX,
            expiry_s => u64::from(self.since_s) + u64::from(expiry_s),
        }
    }

    /// The filters it is subscribed to, shared ones not among them.
    pub fn filters(&self) -> impl Iterator<Item = u32> {
        let first = Some(self.filter).filter(|&filter| filter != NO_FILTER);
        let others = self.more.iter().flat_map(|more| more.filters.iter().copied());
        first.into_iter().chain(others)
    }

    /// The one of its filters whose number lies in a range, if there is one.
    pub fn filter_in(&self, range: RangeInclusive<u32>) -> Option<u32> {
        if range.contains(&self.filter) {
            return Some(self.filter);
        }
        let filters = &self.more.as_ref()?.filters;
        let at = filters.partition_point(|filter| filter < range.start());
        filters.get(at).copied().filter(|filter| range.contains(filter))
    }

    /// The first of its filters from a number on.
    pub fn filter_from(&self, number: u32) -> Option<u32> {
        let first = Some(self.filter).filter(|&filter| filter != NO_FILTER && filter >= number);
        let filters = self.more.as_ref().map_or(&[][..], |more| &more.filters);
        let at = filters.partition_point(|&filter| filter < number);
        first.into_iter().chain(filters.get(at).copied()).min()
    }

    pub fn add_filter(&mut self, filter: u32) {
        if self.filter == NO_FILTER {
            self.filter = filter;
            return;
        }
        let filters = &mut self.more().filters;
        let at = filters.partition_point(|&other| other < filter);
        filters.insert(at, filter);
    }

    /// A filter has another number from now on.
    pub fn change_filter(&mut self, before: u32, number: u32) {
        if before == number {
            return;
        }
        let id = self.subscription_id(before);
        self.set_subscription_id(before, None);
        if self.filter == before {
            self.filter = number;
        } else if let Some(filters) = self.more.as_mut().map(|more| &mut more.filters)
            && let Ok(at) = filters.binary_search(&before)
        {
            filters.remove(at);
            let at = filters.partition_point(|&other| other < number);
            filters.insert(at, number);
        }
        self.set_subscription_id(number, id);
    }

    pub fn drop_filter(&mut self, filter: u32) {
        self.set_subscription_id(filter, None);
        if let Some(more) = &mut self.more {
            more.replays.stop(filter);
            if let Ok(at) = more.filters.binary_search(&filter) {
                more.filters.remove(at);
                return;
            }
        }
        if self.filter == filter {
            let next = self.more.as_mut().and_then(|more| more.filters.pop());
            self.filter = next.unwrap_or(NO_FILTER);
        }
    }

    /// Deliveries for a filter name this number, or none.
    pub fn set_subscription_id(&mut self, filter: u32, id: Option<u32>) {
        if id.is_none() && self.more.is_none() {
            return;
        }
        let ids = &mut self.more().ids;
        match (ids.binary_search_by_key(&filter, |&(of, _)| of), id) {
            (Ok(at), Some(id)) => ids[at].1 = id,
            (Ok(at), None) => _ = ids.remove(at),
            (Err(at), Some(id)) => ids.insert(at, (filter, id)),
            (Err(_), None) => {}
        }
    }

    /// Subscriptions, shared ones among them.
    pub fn subscriptions(&self) -> usize {
        let more = self.more.as_ref().map_or(0, |more| more.filters.len() + more.shares.len());
        more + usize::from(self.filter != NO_FILTER)
    }

    /// The number that deliveries for a filter name.
    pub fn subscription_id(&self, filter: u32) -> Option<u32> {
        let more = self.more.as_ref()?;
        let at = more.ids.binary_search_by_key(&filter, |&(of, _)| of).ok()?;
        Some(more.ids[at].1)
    }

    fn set(&mut self, bit: u16, on: bool) {
        self.flags = if on { self.flags | bit } else { self.flags & !bit };
    }
}

impl More {
    /// Appends to its timeline that are not answered.
    pub fn asked(&self) -> u32 {
        self.asked
    }

    /// One more append is asked for.
    pub fn ask(&mut self) {
        self.asked += 1;
    }

    /// An append was answered.
    pub fn answered(&mut self) {
        self.asked -= 1;
    }

    /// Whether a page of its timeline is on its way.
    pub fn is_pulling(&self) -> bool {
        self.pulling
    }

    /// A page of its timeline is on its way. False: one was.
    pub fn begin_pull(&mut self) -> bool {
        !std::mem::replace(&mut self.pulling, true)
    }

    /// The page came, or did not.
    pub fn end_pull(&mut self) {
        self.pulling = false;
    }

    /// Whether nothing in it is worth keeping.
    pub fn is_idle(&self) -> bool {
        self.queue.is_idle()
            && self.inbound.is_empty()
            && self.filters.is_empty()
            && self.ids.is_empty()
            && self.shares.is_empty()
            && self.replays.is_empty()
            && self.will.is_none()
            && self.peer.is_none()
            && self.device.is_none()
            && self.until_s == 0
            && self.dropped == 0
            && self.asked == 0
            && !self.pulling
    }
}
