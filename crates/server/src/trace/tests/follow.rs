//! Followed connections: from which moment, over which moves, and by which traces.

use crate::machines::{DoorProfile, ServerMachine};
use crate::trace::seen::{ActiveTrace, Seen, SeenWhat};
use crate::trace::tap::TraceTap;
use base::hash::HashKey;
use base::slab::Key;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::ApiLimits;
use model::link::{Link, Protocol};
use model::machine::Outbox;
use model::ports::trace::{TraceDirection, TraceScope};
use model::service::{Delivery, Request};
use model::session::{ConnectRequest, Denial, Denied, Outgoing, SessionDelivery, SessionRequest};
use model::topic::{Publication, Qos, SubscriptionIds};
use net::Tapped;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

pub(super) type Batches = Receiver<Vec<Arc<Seen>>>;

pub(super) fn active(
    number: u64,
    scope: TraceScope,
    limits: ApiLimits,
) -> (Arc<ActiveTrace>, Batches) {
    let (sender, batches) = sync_channel(4);
    (Arc::new(ActiveTrace::new(number, scope, limits, sender)), batches)
}

/// A shard's tap with its connections' machines.
struct Shard {
    tap: TraceTap,
    out: Outbox<Request>,
}

fn now() -> Now {
    Now::new(Instant::from_nanos(0), 5_000)
}

fn conn(number: u64) -> ConnRef {
    ConnRef::new(ShardId(0), Key::unpack(number))
}

fn link(peer: &str) -> Link {
    let peer: SocketAddr = peer.parse().expect("an address");
    Link { peer, ..Link::loopback(Protocol::Mqtt) }
}

fn machine() -> ServerMachine {
    let profile = DoorProfile::strict(1_000, "a.example");
    ServerMachine::new(&link("192.0.2.7:1"), &profile).expect("MQTT is served")
}

fn connect(client_id: &str, user: Option<&str>) -> Request {
    Request::Topics(SessionRequest::Connect(Box::new(ConnectRequest {
        protocol: "mqtt5",
        client_id: client_id.into(),
        clean_start: true,
        expiry_s: 0,
        keep_alive_s: 60,
        receive_max: 10,
        is_bridge: false,
        wants_response_information: false,
        will: None,
        user: user.map(Into::into),
        password: Some(b"secret"[..].into()),
        device: None,
        method: None,
        certificate: None,
        peer: "192.0.2.7:1".parse().expect("an address"),
        near: false,
        door: 0,
        tls: false,
        crowded: false,
    })))
}

impl Shard {
    fn new() -> Shard {
        let out = Outbox::new(HashKey::new(1, 2), [0; 32]);
        Shard { tap: TraceTap::new(ShardId(0)), out }
    }

    fn tapped(&mut self, to: u64, tapped: Tapped<'_, Request>) {
        self.tap.tapped(now(), conn(to), &mut machine(), tapped, &[]);
    }

    fn opens(&mut self, to: u64, peer: &str) {
        self.tapped(to, Tapped::Opened(&link(peer)));
    }

    fn hears(&mut self, to: u64, bytes: &[u8]) {
        self.tapped(to, Tapped::Received(bytes));
    }

    /// Its machine says something to the inside, and these bytes to its peer.
    fn says(&mut self, to: u64, word: Option<Request>, bytes: &[u8]) {
        word.into_iter().for_each(|word| self.out.say(word));
        self.out.bytes().extend_from_slice(bytes);
        self.tap.tapped(now(), conn(to), &mut machine(), Tapped::Says(&self.out), &[]);
        self.out.words().for_each(drop);
        self.out.drain_wire(|_| {});
    }

    /// Events that the turn gave a trace.
    fn turn(&mut self, batches: &Batches) -> Vec<String> {
        self.tap.turn();
        batches.try_iter().flatten().map(|seen| words(&seen)).collect()
    }
}

/// Events in words.
fn words(seen: &Seen) -> String {
    match &seen.what {
        SeenWhat::Opened { was_there, .. } => format!("opened {was_there}"),
        SeenWhat::Is(names) => {
            let of = |name: &Option<String>| name.clone().unwrap_or("?".into());
            format!("is {} of {}", of(&names.client), of(&names.user))
        }
        SeenWhat::Bytes(TraceDirection::In, bytes) => {
            format!("in {}", String::from_utf8_lossy(bytes))
        }
        SeenWhat::Bytes(TraceDirection::Out, bytes) => {
            format!("out {}", String::from_utf8_lossy(bytes))
        }
        SeenWhat::TooMany(_, count) => format!("too many: {count}"),
        SeenWhat::Untaken(count) => format!("untaken {count}"),
        SeenWhat::Noticed(kind, fields) => {
            let last = fields.last().expect("a reason");
            format!("{kind} {:?}", last.1)
        }
        SeenWhat::Message { kind, message, .. } => format!("{kind} {}", message.topic()),
        SeenWhat::Closed(reason) => format!("closed {}", reason.name()),
    }
}

fn client(name: &str) -> TraceScope {
    TraceScope::Client(name.into())
}

#[test]
fn a_turn_keeps_no_more_of_a_trace_than_may_wait() {
    let mut shard = Shard::new();
    let limits = ApiLimits { trace_waiting_bytes_max: 100_000, ..ApiLimits::default() };
    let (trace, batches) = active(1, client("till-7"), limits);
    shard.tap.begin(trace.clone());
    shard.opens(1, "192.0.2.7:1");
    shard.says(1, Some(connect("till-7", None)), b"");
    shard.turn(&batches);
    for _ in 0..100 {
        shard.says(1, None, &[b'x'; 40_000]);
    }
    let told = shard.turn(&batches);
    let whole = told.iter().filter(|told| told.starts_with("out ")).count();
    assert_eq!(whole, 2, "{}", told.len());
    assert!(told[2..].iter().all(|told| told == "too many: 40000"));
    assert_eq!(told.len() as u64 + trace.take_left_out(), 100);
}

#[test]
fn a_client_is_followed_from_its_first_byte_to_its_end_and_nobody_else_is() {
    let mut shard = Shard::new();
    let (trace, batches) = active(1, client("till-7"), ApiLimits::default());
    shard.tap.begin(trace);
    for to in [1, 2] {
        shard.opens(to, "192.0.2.7:1");
        shard.hears(to, b"CONNECT");
    }
    assert_eq!(shard.turn(&batches), [""; 0], "nobody knows yet who they are");
    shard.says(1, Some(connect("till-7", Some("tills"))), b"");
    shard.says(2, Some(connect("till-70", Some("tills"))), b"other");
    let denied = Denied::of(Denial::BadCredentials, CloseReason::AuthFailed);
    let refused = Delivery::Topics(SessionDelivery::Refused(Box::new(denied)));
    shard.tap.delivers(now(), conn(1), &refused);
    shard.tap.delivers(now(), conn(2), &refused);
    shard.says(1, None, b"CONNACK");
    for to in [1, 2] {
        shard.tapped(to, Tapped::Ended(CloseReason::AuthFailed));
    }
    assert_eq!(
        shard.turn(&batches),
        [
            "is till-7 of tills",
            "opened false",
            "in CONNECT",
            "refused Text(\"bad_credentials\")",
            "out CONNACK",
            "closed auth_failed",
        ]
    );
    shard.hears(1, b"of nobody");
    assert_eq!(shard.turn(&batches), [""; 0]);
}

#[test]
fn an_address_is_followed_from_the_beginning_and_users_by_their_login() {
    let mut shard = Shard::new();
    let address = TraceScope::Address("192.0.2.7".parse().expect("an address"));
    let (by_address, of_address) = active(1, address, ApiLimits::default());
    let (by_user, of_user) = active(2, TraceScope::User("tills".into()), ApiLimits::default());
    shard.tap.begin(by_address);
    shard.tap.begin(by_user);
    shard.opens(1, "192.0.2.7:1");
    shard.opens(2, "192.0.2.8:1");
    shard.hears(1, b"CONNECT");
    shard.tapped(1, Tapped::Untaken(b"wrong"));
    assert_eq!(shard.turn(&of_address), ["opened false", "in CONNECT", "untaken 5"]);
    assert_eq!(of_user.try_iter().count(), 0);
    shard.says(1, Some(connect("till-7", Some("tills"))), b"CONNACK");
    let both = ["is till-7 of tills", "out CONNACK"];
    let told = shard.turn(&of_address);
    assert_eq!(told, both);
    let told: Vec<String> = of_user.try_iter().flatten().map(|seen| words(&seen)).collect();
    let early = ["opened false", "in CONNECT", "untaken 5"];
    assert_eq!(told, [&both[..1], &early, &both[1..]].concat());
}

#[test]
fn one_who_moves_to_another_shard_is_followed_there() {
    let (mut here, mut there) = (Shard::new(), Shard::new());
    let (trace, batches) = active(1, client("till-7"), ApiLimits::default());
    here.tap.begin(trace.clone());
    there.tap.begin(trace);
    here.opens(1, "192.0.2.7:1");
    here.hears(1, b"first");
    let notes = here.tap.leaves(conn(1)).expect("it is remembered");
    assert!(here.tap.leaves(conn(1)).is_none() && here.tap.leaves(conn(9)).is_none());
    there.tap.comes(conn(5), notes);
    there.hears(5, b"CONNECT");
    there.says(5, Some(connect("till-7", None)), b"");
    let told = there.turn(&batches);
    assert_eq!(told, ["is till-7 of ?", "opened false", "in first", "in CONNECT"]);
    let notes = there.tap.leaves(conn(5)).expect("it is followed");
    here.tap.comes(conn(1), notes);
    here.hears(1, b"more");
    assert_eq!(here.turn(&batches), ["in more"]);
}

#[test]
fn without_room_a_newcomer_is_followed_from_its_login_and_a_connection_is_left_out() {
    let mut shard = Shard::new();
    let limits =
        ApiLimits { trace_newcomers_max: 0, trace_connections_max: 1, ..ApiLimits::default() };
    let (trace, batches) = active(1, TraceScope::User("tills".into()), limits);
    shard.tap.begin(trace.clone());
    for to in [1, 2] {
        shard.opens(to, "192.0.2.7:1");
        shard.hears(to, b"CONNECT");
        shard.says(to, Some(connect("till-7", Some("tills"))), b"CONNACK");
    }
    let told = shard.turn(&batches);
    assert_eq!(told, ["is till-7 of tills", "opened true", "out CONNACK"]);
    assert_eq!((trace.take_left_out(), trace.take_left_out()), (1, 0));
}

#[test]
fn a_trace_that_is_over_costs_nothing_any_more() {
    let mut shard = Shard::new();
    let (first, of_first) = active(1, client("till-7"), ApiLimits::default());
    let (second, of_second) = active(2, client("till-7"), ApiLimits::default());
    shard.tap.begin(first.clone());
    shard.says(1, Some(connect("till-7", None)), b"");
    assert!(shard.tap.turn());
    shard.tap.begin(second.clone());
    first.end();
    assert!(shard.tap.turn(), "the other goes on");
    assert_eq!(of_first.try_iter().flatten().count(), 2);
    shard.says(1, Some(connect("till-7", None)), b"");
    assert_eq!(shard.turn(&of_second), ["is till-7 of ?", "opened true"]);
    second.end();
    assert!(!shard.tap.turn() && !shard.tap.is_active());
}

#[test]
fn of_a_topic_it_is_told_who_publishes_and_what_is_sent() {
    let mut shard = Shard::new();
    let (trace, batches) = active(1, TraceScope::Topic("a/+".into()), ApiLimits::default());
    shard.tap.begin(trace);
    for topic in ["a/b", "a/b/c"] {
        let message = Arc::new(Publication::new(topic, &[], b"payload"));
        let session = SessionRef::new(ShardId(0), Key::unpack(0));
        let publish = SessionRequest::Publish { session, id: 3, again: false, message };
        shard.says(1, Some(Request::Topics(publish)), b"PUBACK");
        let outgoing = Outgoing {
            message: Arc::new(Publication::new(topic, &[], b"payload")),
            id: 4,
            qos: Qos::AtLeastOnce,
            again: false,
            retain: false,
            shared: false,
            subscription_ids: SubscriptionIds::default(),
        };
        let delivery = Delivery::Topics(SessionDelivery::Publish(outgoing));
        for to in [2, 3] {
            shard.tap.delivers(now(), conn(to), &delivery);
        }
        shard.says(2, None, b"PUBLISH");
    }
    // The machine of the third has not written it: it was dropped there.
    assert_eq!(shard.turn(&batches), ["published a/b", "delivered a/b"]);
    shard.says(3, None, b"something else");
    assert_eq!(shard.turn(&batches), [""; 0], "what a turn has not sent is not told later");
}
