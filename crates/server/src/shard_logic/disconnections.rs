//! The last ended connections of a shard.
//!
//! A service says whose connection it is when its session or device leaves it, `net` says how it
//! ended a moment later; here the two meet and go into a ring. Nothing is kept for a connection
//! that is open. Invariant: the ring has at most its share of `disconnections_max`, the oldest make
//! room, and places in it only grow.

use base::time::Now;
use model::close::CloseReason;
use model::id::{ConnRef, ProductKey, ShardId};
use model::limits::Limits;
use model::ports::control::disconnections::{
    ByteCounts, Disconnection, DisconnectionPage, DisconnectionPlace, DisconnectionQuery, Parting,
    cut,
};
use model::service::LoginRefusal;
use net::ConnectionEnd;
use std::collections::{BTreeMap, VecDeque};

/// Partings that wait for the ends of their connections; mostly each waits for a moment. Those
/// beyond are forgotten: their connections end without a name.
const PARTINGS_MAX: usize = 16_384;

/// Whether the peer closed a connection on which it had sent nothing, as health checks of load
/// balancers and spare connections of browsers do. Unknown counts as no.
fn said_nothing(end: &ConnectionEnd) -> bool {
    let is_silent = end.tcp.is_some_and(|tcp| tcp.received == 0);
    is_silent && end.reason == CloseReason::PeerClosed
}

/// A shard's share of what `limits` allow.
fn share(limits: &Limits, shards: u16) -> usize {
    limits.disconnections_max.div_ceil(u32::from(shards.max(1))) as usize
}

/// Ended connections of one shard.
pub(super) struct Disconnections {
    shard: ShardId,
    ring: VecDeque<(DisconnectionPlace, Disconnection)>,
    max: usize,
    /// The number of the next one.
    next: u64,
    /// By connection.
    partings: BTreeMap<u64, Parting>,
}

impl Disconnections {
    /// An empty ring, of this shard's share of what `settings` allow.
    pub(super) fn new(settings: &net::Settings) -> Disconnections {
        Disconnections {
            shard: settings.shard,
            ring: VecDeque::new(),
            max: share(&settings.limits, settings.shards),
            next: 0,
            partings: BTreeMap::new(),
        }
    }

    /// Another length from now on: the oldest that are too many go.
    pub(super) fn set_max(&mut self, limits: &Limits, shards: u16) {
        self.max = share(limits, shards);
        self.ring.drain(..self.ring.len().saturating_sub(self.max));
    }

    /// A service says whose connection is about to end.
    pub(super) fn parts(&mut self, parting: Parting) {
        let conn = parting.conn.bits();
        if self.max > 0 && (self.partings.len() < PARTINGS_MAX || self.partings.contains_key(&conn))
        {
            self.partings.insert(conn, parting);
        }
    }

    /// A login is refused.
    pub(super) fn refused(&mut self, conn: ConnRef, refusal: &LoginRefusal<'_>) {
        self.parts(Parting {
            conn,
            client: cut(refusal.client.unwrap_or_default()).into(),
            product: refusal.product.and_then(|product| ProductKey::parse(product).ok()),
            user: refusal.user.map(|user| cut(user).into()),
            peer: None,
            since_ms: 0,
            detail: refusal.why,
        });
    }

    /// A connection has ended. Gives its entry, unless nothing was sent on it.
    pub(super) fn ended(
        &mut self,
        now: Now,
        conn: Option<ConnRef>,
        end: &ConnectionEnd,
    ) -> Option<&Disconnection> {
        if self.max == 0 {
            return None;
        }
        let parting = conn.and_then(|conn| self.partings.remove(&conn.bits()));
        if parting.is_none() && said_nothing(end) {
            return None;
        }
        let mut it = Disconnection {
            at_ms: now.wall_ms,
            client: Box::default(),
            product: None,
            user: None,
            peer: end.peer,
            listener: end.listener.clone(),
            protocol: end.protocol,
            reason: end.reason,
            detail: end.detail,
            lasted_ms: None,
            traffic: end
                .tcp
                .map(|tcp| ByteCounts { received: tcp.received, acknowledged: tcp.acknowledged }),
        };
        if let Some(parting) = parting {
            let Parting { client, product, user, peer, since_ms, detail, .. } = parting;
            // The service's address is that of the client, also behind a proxy.
            it.peer = peer.filter(|peer| !peer.ip().is_unspecified()).or(it.peer);
            (it.client, it.product, it.user) = (client, product, user);
            it.detail = if detail.is_empty() { it.detail } else { detail };
            it.lasted_ms = (since_ms > 0).then(|| now.wall_ms.saturating_sub(since_ms));
        }
        let mono_ms = now.mono.nanos() / 1_000_000;
        let place = DisconnectionPlace { mono_ms, shard: self.shard.0, number: self.next };
        self.next += 1;
        if self.ring.len() >= self.max {
            self.ring.pop_front();
        }
        self.ring.push_back((place, it));
        self.ring.back().map(|(_, it)| it)
    }

    /// The newest that are wanted, newest first.
    pub(super) fn page(&self, query: &DisconnectionQuery) -> DisconnectionPage {
        let newest = self.ring.iter().rev();
        let behind = newest.filter(|(place, _)| query.before.is_none_or(|before| *place < before));
        let wanted = behind.filter(|(_, it)| query.filter.wants(it));
        wanted.take(query.count as usize).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::slab::Key;
    use base::time::Instant;
    use model::link::Protocol;
    use model::ports::control::disconnections::DisconnectionFilter;
    use net::tcp::TcpFacts;
    use std::time::Duration;

    fn ring(max: u32) -> Disconnections {
        Disconnections {
            shard: ShardId(3),
            ring: VecDeque::new(),
            max: max as usize,
            next: 0,
            partings: BTreeMap::new(),
        }
    }

    fn conn(slot: u32) -> ConnRef {
        ConnRef::new(ShardId(3), Key { slot, generation: 1 })
    }

    fn at(ms: u64) -> Now {
        Now::new(Instant::default() + Duration::from_millis(ms), 1_000_000 + ms)
    }

    fn end(reason: CloseReason, detail: &'static str) -> ConnectionEnd {
        ConnectionEnd {
            reason,
            detail,
            peer: "10.0.0.1:9".parse().ok(),
            protocol: Some(Protocol::Mqtt),
            listener: "tls".into(),
            tcp: None,
        }
    }

    fn parting(slot: u32, client: &str) -> Parting {
        Parting {
            conn: conn(slot),
            client: client.into(),
            product: None,
            user: Some("ann".into()),
            peer: None,
            since_ms: 1_000_000,
            detail: "",
        }
    }

    fn all() -> DisconnectionQuery {
        let (filter, before) = (DisconnectionFilter::default(), None);
        DisconnectionQuery { filter, before, count: 100 }
    }

    #[test]
    fn whose_it_was_and_how_it_ended_are_one_entry() {
        let mut ends = ring(10);
        ends.parts(parting(1, "till-7"));
        let it = ends.ended(at(2_500), Some(conn(1)), &end(CloseReason::PeerReset, ""));
        let it = it.expect("kept").clone();
        assert_eq!(
            (&*it.client, it.user.as_deref(), &*it.listener),
            ("till-7", Some("ann"), "tls")
        );
        assert_eq!(
            (it.lasted_ms, it.at_ms, it.reason),
            (Some(2_500), 1_002_500, CloseReason::PeerReset)
        );
        assert_eq!(it.peer, "10.0.0.1:9".parse().ok());
        assert!(ends.partings.is_empty(), "nothing is kept beside the ring");
        let other = ends.ended(at(2_500), Some(conn(2)), &end(CloseReason::BindTimeout, ""));
        assert_eq!(other.map(|it| (&*it.client, it.lasted_ms)), Some(("", None)));
    }

    #[test]
    fn a_refused_login_and_a_failed_handshake_tell_why() {
        let mut ends = ring(10);
        let refusal = LoginRefusal {
            why: "bad_credentials",
            name: Some("shop/till-7"),
            client: Some("till-7"),
            product: Some("shop"),
            user: Some("tills"),
        };
        ends.refused(conn(1), &refusal);
        let it = ends.ended(at(1), Some(conn(1)), &end(CloseReason::AuthFailed, ""));
        let it = it.expect("kept");
        assert_eq!(
            (&*it.client, it.product.as_ref().map(ProductKey::as_str)),
            ("till-7", Some("shop"))
        );
        assert_eq!((it.user.as_deref(), it.detail), (Some("tills"), "bad_credentials"));
        let it = ends.ended(at(2), Some(conn(2)), &end(CloseReason::TlsFailed, "not TLS"));
        assert_eq!(it.map(|it| (it.detail, it.lasted_ms)), Some(("not TLS", None)));
        assert!(ends.ended(at(3), None, &end(CloseReason::Full, "")).is_some());
    }

    #[test]
    fn health_checks_that_send_nothing_do_not_fill_the_ring() {
        let mut ends = ring(10);
        let tcp = |received| Some(TcpFacts { received, ..TcpFacts::default() });
        let silent = ConnectionEnd { tcp: tcp(0), ..end(CloseReason::PeerClosed, "") };
        assert!(ends.ended(at(1), Some(conn(1)), &silent).is_none());
        let refused = ConnectionEnd { tcp: tcp(0), ..end(CloseReason::Full, "") };
        let spoke = ConnectionEnd { tcp: tcp(1), ..end(CloseReason::PeerClosed, "") };
        for end in [refused, spoke] {
            assert!(ends.ended(at(2), Some(conn(2)), &end).is_some());
        }
    }

    #[test]
    fn the_oldest_make_room_and_pages_go_from_the_newest_on() {
        let mut ends = ring(5);
        for n in 0..8 {
            ends.parts(parting(n, &format!("c{n}")));
            ends.ended(at(7), Some(conn(n)), &end(CloseReason::PeerClosed, ""));
        }
        let names = |page: &DisconnectionPage| -> Vec<String> {
            page.iter().map(|(_, it)| it.client.to_string()).collect()
        };
        assert_eq!(names(&ends.page(&all())), ["c7", "c6", "c5", "c4", "c3"]);
        let first = ends.page(&DisconnectionQuery { count: 2, ..all() });
        let before = first.last().map(|(place, _)| *place);
        let second = ends.page(&DisconnectionQuery { before, count: 2, ..all() });
        assert_eq!(
            (names(&first), names(&second)),
            (vec!["c7".into(), "c6".into()], vec!["c5".into(), "c4".into()])
        );
        let filter = DisconnectionFilter { client: Some("c4".into()), ..Default::default() };
        assert_eq!(names(&ends.page(&DisconnectionQuery { filter, ..all() })), ["c4"]);
    }

    #[test]
    fn none_is_kept_where_none_may_be_and_partings_are_bounded() {
        let mut none = ring(0);
        none.parts(parting(1, "a"));
        assert!(none.ended(at(1), Some(conn(1)), &end(CloseReason::PeerClosed, "")).is_none());
        assert!(none.partings.is_empty() && none.page(&all()).is_empty());
        let mut ends = ring(5);
        (0..PARTINGS_MAX as u32 + 9).for_each(|slot| ends.parts(parting(slot, "a")));
        assert_eq!(ends.partings.len(), PARTINGS_MAX);
    }
}
