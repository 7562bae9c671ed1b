//! Top talkers of a shard: the names with the most traffic of the last one to two minutes.
//!
//! Messages are counted where requests and deliveries pass, bytes of connections where `net`
//! samples them. Two tables a kind: of this minute and of the one before. Invariant: what is not
//! sampled costs a comparison, and tables have a fixed number of names.

use super::AnyService;
use base::time::{Instant, Now};
use model::chat::{ChatDelivery, ChatRequest};
use model::id::ConnRef;
use model::ports::control::top::{Sampler, TopKind, TopPage, TopTable, TopTally};
use model::ports::trace::{TraceIdentity, TraceSubject};
use model::request::PushRequest;
use model::service::{Delivery, Request, ServiceKind};
use model::session::{SessionDelivery, SessionRequest};
use net::PassedBytes;
use std::net::SocketAddr;
use std::time::Duration;

/// Time that a table is filled.
const MINUTE: Duration = Duration::from_secs(60);

const KINDS: usize = TopKind::ALL.len();

/// Top talkers of one shard.
#[derive(Default)]
pub(super) struct TopList {
    heard: Sampler,
    told: Sampler,
    current: Minute,
    before: Minute,
    ends: Instant,
}

#[derive(Default)]
struct Minute {
    since_ms: u64,
    tables: [TopTable; KINDS],
}

impl Minute {
    fn count(&mut self, kind: TopKind, name: &str, tally: TopTally) {
        self.tables[kind as usize].count(name, tally);
    }

    fn count_address(&mut self, peer: SocketAddr, tally: TopTally) {
        self.count(TopKind::Addresses, &peer.ip().to_canonical().to_string(), tally);
    }

    fn count_client(&mut self, who: &TraceIdentity<'_>, tally: TopTally) {
        self.count(TopKind::Clients, &who.name(), tally);
        if let Some(user) = who.user {
            self.count(TopKind::Users, user, tally);
        }
    }
}

impl TopList {
    /// The names of a kind.
    pub(super) fn page(&mut self, now: Now, kind: TopKind) -> TopPage {
        self.advance(now);
        let mut page = TopPage { since_ms: self.before.since_ms, ..TopPage::default() };
        for minute in [&self.before, &self.current] {
            minute.tables[kind as usize].tell(&mut page);
        }
        page
    }

    /// Begins another minute, if this one is over.
    fn advance(&mut self, now: Now) -> &mut Minute {
        if now.mono >= self.ends {
            let fresh = Minute { since_ms: now.wall_ms, ..Minute::default() };
            self.before = std::mem::replace(&mut self.current, fresh);
            // A table that nobody filled for longer, or ever, says nothing of the minute before.
            if now.mono - self.ends >= MINUTE || self.before.since_ms == 0 {
                self.before = Minute { since_ms: now.wall_ms, ..Minute::default() };
            }
            self.ends = now.after(MINUTE);
        }
        &mut self.current
    }

    /// A client says something.
    pub(super) fn hears(
        &mut self,
        now: Now,
        conn: ConnRef,
        request: &Request,
        services: &[Box<dyn AnyService>],
    ) {
        if !is_message(request) {
            return;
        }
        let count = self.heard.take(now.mono, 1);
        if count == 0 {
            return;
        }
        let (subject, target, bytes) = match request {
            Request::Topics(SessionRequest::Publish { session, message, .. }) => {
                let subject = TraceSubject::Session(ServiceKind::Topics, *session);
                let bytes = message.payload().len();
                (subject, Some((TopKind::Topics, message.topic())), bytes)
            }
            Request::Chat(ChatRequest::Send { session, message, .. }) => {
                let subject = TraceSubject::Session(ServiceKind::Chat, *session);
                // A group is never named without its domain.
                let is_group = message.to.within("localhost").is_group();
                let group = is_group.then(|| (TopKind::Groups, message.to.as_str()));
                (subject, group, message.content.weight())
            }
            Request::Push(PushRequest::Report { device, body, .. }) => {
                (TraceSubject::Device(*device), None, body.len())
            }
            _ => return,
        };
        let minute = self.advance(now);
        let messages = TopTally { messages_in: count, ..TopTally::default() };
        if let Some((kind, name)) = target {
            let bytes_in = count * bytes as u64;
            minute.count(kind, name, TopTally { bytes_in, ..messages });
        }
        if let Some(who) = services.iter().find_map(|service| service.identity(conn, subject)) {
            minute.count_client(&who, messages);
            if let Some(peer) = who.peer {
                minute.count_address(peer, messages);
            }
        }
    }

    /// A client is sent something.
    pub(super) fn delivers(&mut self, now: Now, delivery: &Delivery) {
        let (kind, name, bytes) = match delivery {
            Delivery::Topics(SessionDelivery::Publish(outgoing)) => {
                let message = &outgoing.message;
                (TopKind::Topics, message.topic(), message.payload().len())
            }
            Delivery::Chat(ChatDelivery::Message { message, .. }) if message.to.is_group() => {
                (TopKind::Groups, message.to.as_str(), message.content.weight())
            }
            _ => return,
        };
        let count = self.told.take(now.mono, 1);
        if count > 0 {
            let bytes_out = count * bytes as u64;
            let tally = TopTally { messages_out: count, bytes_out, ..TopTally::default() };
            self.advance(now).count(kind, name, tally);
        }
    }

    /// Bytes passed on a connection.
    pub(super) fn passed(&mut self, now: Now, passed: PassedBytes, who: Option<TraceIdentity<'_>>) {
        let minute = self.advance(now);
        let PassedBytes { received, sent, peer } = passed;
        let tally = TopTally { bytes_in: received, bytes_out: sent, ..TopTally::default() };
        let known = who.and_then(|who| who.peer).filter(|peer| !peer.ip().is_unspecified());
        if let Some(peer) = known.or(peer) {
            minute.count_address(peer, tally);
        }
        if let Some(who) = who {
            minute.count_client(&who, tally);
        }
    }
}

fn is_message(request: &Request) -> bool {
    matches!(
        request,
        Request::Topics(SessionRequest::Publish { .. })
            | Request::Chat(ChatRequest::Send { .. })
            | Request::Push(PushRequest::Report { .. })
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::slab::Key;
    use model::id::{SessionRef, ShardId};
    use model::topic::Publication;
    use std::sync::Arc;

    fn now(s: u64) -> Now {
        Now::new(Instant::default() + Duration::from_secs(s), 1_000_000 + s * 1_000)
    }

    fn publish(topic: &str, payload: &[u8]) -> Request {
        let session = SessionRef::new(ShardId(0), Key { slot: 1, generation: 1 });
        let message = Arc::new(Publication::new(topic, &[], payload));
        Request::Topics(SessionRequest::Publish { session, id: 0, again: false, message })
    }

    fn conn() -> ConnRef {
        ConnRef::new(ShardId(0), Key { slot: 1, generation: 1 })
    }

    fn passed(received: u64, peer: &str) -> PassedBytes {
        PassedBytes { received, sent: 1, peer: peer.parse().ok() }
    }

    #[test]
    fn topics_are_counted_with_messages_and_payload() {
        let mut list = TopList::default();
        for _ in 0..3 {
            list.hears(now(100), conn(), &publish("a/b", b"12345"), &[]);
        }
        let page = list.page(now(101), TopKind::Topics);
        let tally = TopTally { messages_in: 3, bytes_in: 15, ..TopTally::default() };
        assert_eq!((page.since_ms, page.entries["a/b"]), (1_100_000, tally));
    }

    #[test]
    fn bytes_are_of_the_client_its_user_and_its_address() {
        let mut list = TopList::default();
        let peer = "10.0.0.9:5".parse().ok();
        let who = TraceIdentity { client: "phone", within_user: true, user: Some("ann"), peer };
        list.passed(now(1), passed(70, "127.0.0.1:9"), Some(who));
        list.passed(now(1), passed(5, "[::ffff:10.0.0.9]:7"), None);
        let mut of = |kind: TopKind| {
            let page = list.page(now(2), kind);
            page.entries.iter().map(|(name, it)| (name.to_string(), it.bytes_in)).collect()
        };
        let one = |name: &str, bytes| vec![(name.to_owned(), bytes)];
        assert_eq!(of(TopKind::Clients), one("ann/phone", 70));
        assert_eq!(of(TopKind::Users), one("ann", 70));
        let addresses: Vec<(String, u64)> = of(TopKind::Addresses);
        assert_eq!(addresses, one("10.0.0.9", 75), "the client's, not that of a proxy");
    }

    #[test]
    fn the_first_page_of_a_process_begins_with_it() {
        let mut list = TopList::default();
        assert_eq!(list.page(now(5), TopKind::Clients).since_ms, 1_005_000);
        assert_eq!(list.page(now(70), TopKind::Clients).since_ms, 1_005_000);
    }

    #[test]
    fn a_page_has_this_minute_and_the_one_before() {
        let mut list = TopList::default();
        let mut bytes = |s: u64, received: u64| {
            if received > 0 {
                list.passed(now(s), passed(received, "10.0.0.1:1"), None);
            }
            let page = list.page(now(s), TopKind::Addresses);
            page.entries.values().map(|it| it.bytes_in).sum::<u64>()
        };
        assert_eq!(bytes(10, 7), 7);
        assert_eq!(bytes(75, 20), 27);
        assert_eq!(bytes(140, 0), 20);
        assert_eq!(bytes(900, 0), 0);
    }
}
