//! The way to one domain: what waits for it, and the stream that it goes over.
//!
//! ```text
//!   (idle) ─ something to say ─► calling ─► opening ─► ready ─► (idle)
//!      ▲                            └──── not reached ────┐
//!      └───────────── pause is over ◄───── failed ◄───────┘
//! ```
//! Where the domain's server counts what it has (XEP-0198), what is written is kept until it says
//! so, and waits again when the stream ends before that; elsewhere until the transport has taken
//! it. A stanza that was read from its queue in the log waits for its full time, however often the
//! domain is not reached: its sender may have been cut off by the start that found it, and comes
//! back meanwhile. It knows no stanza and no socket. Invariant: what waits and is kept is within
//! its limits, in the order in which it came, and each of it is written or given back.

use crate::logic::CallOpener;
use base::time::Instant;
use model::chat::foreign::QueuePlace;
use model::id::ConnRef;
use model::limits::FederationLimits;
use proto_xmpp::fault::StanzaFault;
use proto_xmpp::peer::DialbackProof;
use std::collections::VecDeque;

/// Bytes that are with a connection until it has written them.
const WINDOW_BYTES: usize = 64 * 1024;

/// Streams over which what was said is said again in vain.
const FRUITLESS_MAX: u8 = 2;

/// Stream of a route: its connection, and the number of its machine.
pub type StreamRef = (ConnRef, u64);

/// Where a route is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteState {
    /// No call is under way.
    Idle,
    /// Its domain is being called, under this number.
    Calling(u64),
    /// A connection exists, over which nothing may be said yet.
    Opening(StreamRef),
    /// A stream is ready.
    Ready(StreamRef),
    /// The domain was not reached, and is not called again until then.
    Failed(Instant, StanzaFault),
}

/// A stanza that goes out.
#[derive(PartialEq, Eq, Debug)]
pub struct OutgoingStanza {
    /// The stanza.
    pub xml: Box<[u8]>,
    /// Where its message stands until it is there, if it is stored.
    pub place: Option<QueuePlace>,
    /// Whether the message was queued before: then the limits have admitted it already, and it may
    /// wait for its full time.
    pub is_again: bool,
}

impl From<Box<[u8]>> for OutgoingStanza {
    /// One that is stored nowhere.
    fn from(xml: Box<[u8]>) -> OutgoingStanza {
        OutgoingStanza { xml, place: None, is_again: false }
    }
}

/// The way to one domain.
pub struct DomainRoute {
    /// State of the route.
    pub state: RouteState,
    waiting: VecDeque<(Instant, OutgoingStanza)>,
    /// Stanzas that were written over the stream and are kept until they are acknowledged.
    sent: VecDeque<OutgoingStanza>,
    /// How many were written over it before these.
    gone: u64,
    /// The domain's server counts.
    is_counted: bool,
    /// Whether the domain's server has acknowledged stanzas of this stream.
    has_some: bool,
    /// Streams, one after the other, of which it had nothing when they ended.
    fruitless: u8,
    /// Of all of these.
    bytes: u64,
    /// Its connection has something that is not written.
    is_writing: bool,
    /// Keys that its servers are to be asked about.
    pub proofs: Vec<DialbackProof>,
    /// Account or server that caused the route.
    pub opener: Option<CallOpener>,
}

impl Default for DomainRoute {
    fn default() -> DomainRoute {
        DomainRoute::of(None)
    }
}

impl DomainRoute {
    /// One that is somebody's doing.
    pub fn of(opener: Option<CallOpener>) -> DomainRoute {
        let (waiting, sent, proofs) = Default::default();
        let (gone, is_counted, has_some, fruitless, bytes, is_writing) = Default::default();
        let state = RouteState::Idle;
        DomainRoute {
            state,
            waiting,
            sent,
            gone,
            is_counted,
            has_some,
            fruitless,
            bytes,
            is_writing,
            proofs,
            opener,
        }
    }

    /// A stanza is to go; it comes back if there is no room for it.
    pub fn put(
        &mut self,
        until: Instant,
        stanza: OutgoingStanza,
        limits: &FederationLimits,
    ) -> Result<(), OutgoingStanza> {
        let bytes = self.bytes + stanza.xml.len() as u64;
        let is_more = !stanza.is_again && self.waiting.len() >= limits.waiting_max as usize;
        if is_more || bytes > limits.waiting_bytes_max {
            return Err(stanza);
        }
        self.bytes = bytes;
        self.waiting.push_back((until, stanza));
        Ok(())
    }

    /// Takes the stanzas to write now, if a stream is ready for more: its connection, the bytes,
    /// and the number of stanzas.
    pub fn take(&mut self) -> Option<(ConnRef, Box<[u8]>, u32)> {
        let RouteState::Ready((conn, _)) = self.state else { return None };
        if self.is_writing || self.waiting.is_empty() {
            return None;
        }
        let (mut out, mut count) = (Vec::new(), 0);
        while out.len() < WINDOW_BYTES
            && let Some((_, stanza)) = self.waiting.pop_front()
        {
            out.extend_from_slice(&stanza.xml);
            self.sent.push_back(stanza);
            count += 1;
        }
        self.is_writing = true;
        Some((conn, out.into(), count))
    }

    /// Its connection has written all: which messages are there by that.
    pub fn drained(&mut self) -> Vec<QueuePlace> {
        self.is_writing = false;
        if self.is_counted { Vec::new() } else { self.has(u64::MAX) }
    }

    /// The domain's server counts from this stanza of the stream on; none: it does not. Likewise.
    pub fn counts(&mut self, from: Option<u64>) -> Vec<QueuePlace> {
        self.is_counted = from.is_some();
        match from {
            Some(from) => self.has(from),
            None if !self.is_writing => self.has(u64::MAX),
            None => Vec::new(),
        }
    }

    /// The domain's server has so many of the stream's stanzas. Likewise.
    pub fn acknowledged(&mut self, upto: u64) -> Vec<QueuePlace> {
        if self.gone < upto {
            (self.has_some, self.fruitless) = (true, 0);
        }
        self.has(upto)
    }

    /// Drops the stream's stanzas up to this number, which need not be kept any more.
    fn has(&mut self, upto: u64) -> Vec<QueuePlace> {
        let mut places = Vec::new();
        while self.gone < upto
            && let Some(stanza) = self.sent.pop_front()
        {
            self.bytes -= stanza.xml.len() as u64;
            self.gone += 1;
            places.extend(stanza.place);
        }
        places
    }

    /// Its stream is over. Stanzas that its domain's server counts and has not acknowledged wait
    /// again, before everything else; uncounted ones that were not written come back, and so do all
    /// of which the server had nothing over two streams: something of them may be why they end.
    pub fn interrupted(&mut self, until: Instant) -> Vec<OutgoingStanza> {
        let sent = std::mem::take(&mut self.sent);
        let is_counted = std::mem::take(&mut self.is_counted);
        let had_some = std::mem::take(&mut self.has_some);
        self.gone = 0;
        self.fruitless += u8::from(is_counted && !had_some && !sent.is_empty());
        let is_counted = is_counted && self.fruitless < FRUITLESS_MAX;
        if !is_counted {
            self.fruitless = 0;
            self.bytes -= sent.iter().map(|stanza| stanza.xml.len() as u64).sum::<u64>();
            return sent.into();
        }
        // Times rise from the front on.
        self.waiting.iter_mut().for_each(|(at, _)| *at = (*at).max(until));
        for stanza in sent.into_iter().rev() {
            self.waiting.push_front((until, stanza));
        }
        Vec::new()
    }

    /// Changes the state of the route.
    pub fn becomes(&mut self, state: RouteState) {
        (self.state, self.is_writing) = (state, false);
    }

    /// Gives back what has waited for too long.
    pub fn overdue(&mut self, now: Instant) -> Vec<OutgoingStanza> {
        let mut over = Vec::new();
        while let Some((until, _)) = self.waiting.front()
            && *until <= now
            && let Some((_, stanza)) = self.waiting.pop_front()
        {
            self.bytes -= stanza.xml.len() as u64;
            over.push(stanza);
        }
        over
    }

    /// Gives back all that waits, but for what was read from its queue, which has its time.
    pub fn give_up(&mut self) -> Vec<OutgoingStanza> {
        let (kept, over): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(_, it)| it.is_again);
        self.waiting = kept;
        self.bytes -= over.iter().map(|(_, stanza)| stanza.xml.len() as u64).sum::<u64>();
        over.into_iter().map(|(_, stanza)| stanza).collect()
    }

    /// Why what has waited too long is refused.
    pub fn fault(&self) -> StanzaFault {
        match self.state {
            RouteState::Failed(_, fault) => fault,
            // Nobody calls a component: it did not come.
            RouteState::Idle => StanzaFault::ServiceUnavailable,
            _ => StanzaFault::RemoteServerTimeout,
        }
    }

    /// Whether its domain is to be called again, for which something still waits.
    pub fn is_due(&self, now: Instant) -> bool {
        self.has_any() && matches!(self.state, RouteState::Failed(until, _) if until <= now)
    }

    /// Whether nothing waits and nothing is kept.
    pub fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty()
    }

    /// Whether anything waits.
    pub fn has_any(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The stream, ready or not.
    pub fn stream(&self) -> Option<StreamRef> {
        match self.state {
            RouteState::Opening(stream) | RouteState::Ready(stream) => Some(stream),
            _ => None,
        }
    }

    /// Whether nothing has to be known of it.
    pub fn is_over(&self, now: Instant) -> bool {
        let is_idle = match self.state {
            RouteState::Idle => true,
            RouteState::Failed(until, _) => until <= now,
            _ => false,
        };
        is_idle && self.waiting.is_empty() && self.proofs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::slab::Key;
    use base::time::Now;
    use model::id::ShardId;
    use std::time::Duration;

    fn limits() -> FederationLimits {
        FederationLimits { waiting_max: 3, waiting_bytes_max: 100, ..FederationLimits::default() }
    }

    fn stanza(text: &str) -> OutgoingStanza {
        Box::<[u8]>::from(text.as_bytes()).into()
    }

    fn conn() -> ConnRef {
        ConnRef::new(ShardId(0), Key { slot: 1, generation: 1 })
    }

    #[test]
    fn what_waits_is_bounded_and_goes_in_order_as_it_is_written() {
        let (mut route, at) = (DomainRoute::default(), Now::default().mono);
        for text in ["a", "b", "c"] {
            assert_eq!(route.put(at, stanza(text), &limits()), Ok(()));
        }
        let back = route.put(at, stanza("d"), &limits());
        assert_eq!(back, Err(stanza("d")), "one too many");
        let again = OutgoingStanza { is_again: true, ..stanza("d") };
        assert_eq!(route.put(at, again, &limits()), Ok(()), "it was one of those before a start");
        assert_eq!(route.take(), None, "there is no stream");
        route.becomes(RouteState::Ready((conn(), 7)));
        assert_eq!(route.take(), Some((conn(), b"abcd"[..].into(), 4)));
        assert_eq!(route.take(), None, "not before the rest is written");
        route.drained();
        let large = "x".repeat(101);
        assert!(route.put(at, stanza(&large), &limits()).is_err(), "too large");
        assert_eq!(route.put(at, stanza("e"), &limits()), Ok(()));
        assert_eq!(route.take(), Some((conn(), b"e"[..].into(), 1)));
        assert_eq!(route.interrupted(at), [stanza("e")], "nobody knows where it is");
        assert_eq!(route.bytes, 0);
    }

    #[test]
    fn what_a_server_that_counts_has_not_waits_again_in_order() {
        let (mut route, at) = (DomainRoute::default(), Now::default().mono);
        let limits = FederationLimits { waiting_max: 9, ..limits() };
        let put = |route: &mut DomainRoute, text: &str| {
            assert_eq!(route.put(at, stanza(text), &limits), Ok(()));
        };
        route.becomes(RouteState::Ready((conn(), 7)));
        put(&mut route, "before");
        assert!(route.take().is_some());
        for text in ["a", "b", "c"] {
            put(&mut route, text);
        }
        route.counts(Some(1));
        route.drained();
        assert_eq!(route.take(), Some((conn(), b"abc"[..].into(), 3)));
        route.drained();
        put(&mut route, "d");
        route.acknowledged(2);
        assert!(route.interrupted(at).is_empty());
        route.becomes(RouteState::Ready((conn(), 8)));
        assert_eq!(route.take(), Some((conn(), b"bcd"[..].into(), 3)), "all but the first");
        route.counts(Some(0));
        route.drained();
        route.counts(None);
        assert_eq!((route.bytes, route.sent.len()), (0, 0), "nobody counts");
    }

    #[test]
    fn what_ends_one_stream_after_the_other_comes_back() {
        let (mut route, at) = (DomainRoute::default(), Now::default().mono);
        assert_eq!(route.put(at, stanza("a"), &limits()), Ok(()));
        for round in 0..2 {
            route.becomes(RouteState::Ready((conn(), round)));
            assert!(route.take().is_some());
            route.counts(Some(0));
            let back = route.interrupted(at);
            assert_eq!(back.len(), round as usize, "after the second time");
        }
        assert_eq!((route.bytes, route.has_any()), (0, false));
    }

    #[test]
    fn what_waits_too_long_comes_back() {
        let mut route = DomainRoute::default();
        let at = |ms| Now::default().after(Duration::from_millis(ms));
        for (until, text) in [(1, "a"), (2, "b"), (9, "c")] {
            assert!(route.put(at(until), stanza(text), &limits()).is_ok());
        }
        assert_eq!(route.overdue(at(2)), [stanza("a"), stanza("b")]);
        assert!(!route.is_over(at(2)) && route.has_any());
        assert_eq!(route.give_up(), [stanza("c")]);
        assert!(route.is_over(at(2)));
        route.becomes(RouteState::Failed(at(5), StanzaFault::RemoteServerNotFound));
        assert!(!route.is_over(at(4)) && route.is_over(at(5)));
    }

    #[test]
    fn what_was_read_from_its_queue_waits_for_its_time_whatever_becomes_of_calls() {
        let mut route = DomainRoute::default();
        let at = |ms| Now::default().after(Duration::from_millis(ms));
        let again = |text| OutgoingStanza { is_again: true, ..stanza(text) };
        assert_eq!(route.fault(), StanzaFault::ServiceUnavailable, "a component that is away");
        for (until, stanza) in [(7, again("a")), (7, stanza("b")), (8, again("c"))] {
            assert_eq!(route.put(at(until), stanza, &limits()), Ok(()));
        }
        route.becomes(RouteState::Calling(1));
        assert_eq!(route.fault(), StanzaFault::RemoteServerTimeout);
        route.becomes(RouteState::Failed(at(5), StanzaFault::RemoteServerNotFound));
        assert_eq!(route.give_up(), [stanza("b")]);
        assert_eq!((route.give_up(), route.bytes), (vec![], 2));
        assert!(!route.is_due(at(4)) && route.is_due(at(5)) && !route.is_over(at(9)));
        assert_eq!(route.overdue(at(7)), [again("a")]);
        assert_eq!(route.fault(), StanzaFault::RemoteServerNotFound);
        route.becomes(RouteState::Ready((conn(), 1)));
        assert_eq!(route.take(), Some((conn(), b"c"[..].into(), 1)));
        route.becomes(RouteState::Failed(at(9), StanzaFault::RemoteServerTimeout));
        assert!(!route.is_due(at(9)), "nothing waits");
    }
}
