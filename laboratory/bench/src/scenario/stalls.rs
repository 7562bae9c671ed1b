//! How long one client can hold a shard up: the longest call of a broker, by what is asked of it.
//!
//! One broker over the log's reference in memory, driven as a shard drives it: a request, then
//! turns until nothing goes on, each call timed by itself. Sockets, codec and disk have no part
//! in it. Times are of a run without anything else on the core, or they are too long.

use super::Scale;
use crate::clock;
use crate::results::Outcome;
use base::hash::HashKey;
use base::slab::Key;
use base::time::{Instant, Now};
use broker::{Broker, Effects, Settings, routes};
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::Limits;
use model::ports::access::AllowAll;
use model::ports::lead::LeadProof;
use model::ports::log::Restored;
use model::session::{
    ConnectRequest, SessionDelivery, SessionRequest, SubscribeRequest, UnsubscribeRequest,
};
use model::topic::{Publication, Qos, RetainHandling, SubscriptionOptions};
use serde_json::json;
use std::io;
use std::sync::Arc;
use testkit::log::{LogOptions, MemoryLog};

const WALL_MS: u64 = 1_800_000_000_000;

/// One broker, its log and the time.
struct Shard {
    broker: Broker,
    fx: Effects,
    log: MemoryLog,
    now: Now,
    conns: u32,
    /// Nanoseconds of the longest call since the last look.
    longest: u128,
}

/// Measures all inputs.
pub fn run(scale: Scale) -> io::Result<Outcome> {
    let (filters, messages) = (scale.of(10_000), scale.of(100_000));
    let mut outcome = Outcome::new(json!({ "filters": filters, "messages": messages }));
    let mut told = |name: &str, ms: f64| outcome.figure(name, ms, "ms");
    for (kind, expiry_s) in [("clean", 0), ("kept", 60)] {
        let mut shard = Shard::new();
        let a = shard.client("a", expiry_s);
        let ms = shard.subscribe(a, wishes(filters), Some(7));
        told(&format!("SUBSCRIBE of {filters} filters, {kind}"), ms);
        let ms = shard.publish(a, "dev/1/in", Qos::AtMostOnce);
        told(&format!("publish to one of {filters} with identifiers, {kind}"), ms);
        let all = wishes(filters).into_iter().map(|wish| wish.filter).collect();
        let packet = UnsubscribeRequest { session: a.1, id: 2, filters: all };
        let ms = shard.ask(a.0, SessionRequest::Unsubscribe(Box::new(packet)));
        told(&format!("UNSUBSCRIBE of {filters} filters, {kind}"), ms);
        shard.subscribe(a, wishes(filters), None);
        let ms = shard.ask(a.0, leave(a.1)) + shard.pass_s(120);
        told(&format!("the end of a session with {filters} filters, {kind}"), ms);
    }
    let mut shard = Shard::new();
    let a = shard.client("a", 60);
    let equal = vec![wish("t".into(), Qos::AtLeastOnce); 17 * filters as usize];
    told(&format!("SUBSCRIBE of {} equal filters", equal.len()), shard.subscribe(a, equal, None));
    shard.ask(a.0, leave(a.1));
    let source = shard.client("source", 0);
    for _ in 0..messages {
        shard.publish(source, "t", Qos::AtLeastOnce);
    }
    told(&format!("expiry of a session with {messages} messages"), shard.pass_s(120));

    let mut shard = Shard::new();
    let a = shard.client("a", 0);
    for some in (0..8_192).collect::<Vec<u32>>().chunks(1_024) {
        let some = some.iter().map(|&n| wish(overlapping(n), Qos::AtMostOnce)).collect();
        shard.subscribe(a, some, None);
    }
    let ms = shard.publish(a, &["x"; 13].join("/"), Qos::AtMostOnce);
    told("publish to 8192 overlapping filters of one session", ms);

    let mut shard = Shard::new();
    for n in 0..messages {
        let client = shard.client(&n.to_string(), 60);
        shard.subscribe(client, vec![wish("t".into(), Qos::AtMostOnce)], None);
    }
    let a = shard.client("source", 0);
    let ms = shard.publish(a, "t", Qos::AtMostOnce);
    told(&format!("publish to {messages} sessions, without their sockets"), ms);
    shard.forsake();
    told(&format!("{messages} sessions that expire at once"), shard.pass_s(120));
    Ok(outcome)
}

impl Shard {
    fn new() -> Shard {
        let now = Now::new(Instant::from_nanos(1_000_000_000), WALL_MS);
        let key = HashKey::new(1, 2);
        let limits = Limits { binds_per_s: 10_000_000, ..Limits::default() };
        let broker = Broker::new(Settings {
            shard: ShardId(0),
            shards: 1,
            limits: Arc::new(limits),
            hash_key: key,
            home: key,
            access: Arc::new(AllowAll),
            summary: routes::RouteSummary::new(1, key),
            exclusives: Arc::default(),
            rewrites: None,
            auto_subscribes: None,
            chat_domain: None,
            seed: 7,
            secrets: [7; 32],
            lead_proof: LeadProof::default(),
        });
        let log = MemoryLog::new(LogOptions { now_s: now.unix_s(), ..LogOptions::default() });
        Shard { broker, fx: Effects::default(), log, now, conns: 0, longest: 0 }
    }

    fn timed(&mut self, call: impl FnOnce(&mut Broker, &mut Effects)) {
        let began = clock::now();
        call(&mut self.broker, &mut self.fx);
        self.longest = self.longest.max(clock::since(began).as_nanos());
    }

    /// Asks, goes on until nothing is left to do, and gives the longest call in milliseconds.
    fn ask(&mut self, from: ConnRef, word: SessionRequest) -> f64 {
        let now = self.now;
        self.timed(|broker, fx| broker.request(now, from, word, fx));
        self.settle()
    }

    fn settle(&mut self) -> f64 {
        let now = self.now;
        loop {
            let mut next = None;
            self.timed(|broker, fx| next = broker.turn(now, fx));
            // As a shard does, which takes them along after every call.
            self.fx.events.clear();
            self.fx.transitions.clear();
            let calls = std::mem::take(&mut self.fx.calls);
            let quiet = calls.is_empty() && next.is_none_or(|next| next > now.mono);
            for (ticket, call) in calls {
                let result = self.log.answer(&call);
                self.timed(|broker, fx| broker.complete(now, (ticket, result), fx));
            }
            if quiet {
                break;
            }
        }
        std::mem::take(&mut self.longest) as f64 / 1e6
    }

    fn pass_s(&mut self, s: u64) -> f64 {
        let nanos = self.now.mono.nanos() + s * 1_000_000_000;
        self.now = Now::new(Instant::from_nanos(nanos), self.now.wall_ms + s * 1_000);
        self.fx.deliveries.clear();
        self.settle()
    }

    fn client(&mut self, id: &str, expiry_s: u32) -> (ConnRef, SessionRef) {
        self.conns += 1;
        let conn = ConnRef::new(ShardId(0), Key { slot: self.conns, generation: 1 });
        self.fx.deliveries.clear();
        self.ask(conn, SessionRequest::Connect(Box::new(connect(id, expiry_s))));
        let welcome = self.fx.deliveries.iter().find_map(|(to, word)| match word {
            SessionDelivery::Connected(connected) if *to == conn => Some(connected.session),
            _ => None,
        });
        (conn, welcome.expect("nobody is refused here"))
    }

    fn subscribe(
        &mut self,
        (conn, session): (ConnRef, SessionRef),
        wishes: Vec<SubscriptionOptions>,
        subscription_id: Option<u32>,
    ) -> f64 {
        let packet = SubscribeRequest { session, id: 1, subscription_id, wishes };
        self.ask(conn, SessionRequest::Subscribe(Box::new(packet)))
    }

    fn publish(&mut self, (conn, session): (ConnRef, SessionRef), topic: &str, qos: Qos) -> f64 {
        let mut message = Publication::new(topic, &[], b"x");
        message.qos = qos;
        let id = u16::from(qos != Qos::AtMostOnce);
        self.fx.deliveries.clear();
        let message = Arc::new(message);
        self.ask(conn, SessionRequest::Publish { session, id, again: false, message })
    }

    /// The process dies, and a new one knows of all sessions from the log.
    fn forsake(&mut self) {
        let log = std::mem::replace(&mut self.log, Shard::new().log);
        let mut new = Shard::new();
        log.restoration().each(|restored| {
            new.broker.restore(new.now, restored);
            matches!(restored, Restored::Timeline { timeline, .. }
                if new.broker.wants_entries(timeline))
        });
        (new.log, new.conns) = (log, self.conns);
        new.broker.restored(new.now, &mut new.fx);
        new.settle();
        // As with a process: its memory is not given back call by call of the next one.
        std::mem::forget(std::mem::replace(self, new));
    }
}

fn connect(id: &str, expiry_s: u32) -> ConnectRequest {
    ConnectRequest {
        protocol: "mqtt5",
        client_id: id.into(),
        clean_start: false,
        expiry_s,
        keep_alive_s: 60,
        receive_max: u16::MAX,
        is_bridge: false,
        wants_response_information: false,
        will: None,
        user: None,
        password: None,
        device: None,
        method: None,
        certificate: None,
        peer: std::net::SocketAddr::from(([127, 0, 0, 1], 1)),
        door: 0,
        near: true,
        tls: false,
        crowded: false,
    }
}

fn leave(session: SessionRef) -> SessionRequest {
    SessionRequest::Leave { session, with_will: false, expiry_s: None }
}

fn wish(filter: String, qos: Qos) -> SubscriptionOptions {
    let (no_local, retain_as_published) = (false, false);
    let (filter, retain_handling) = (filter.into(), RetainHandling::Send);
    SubscriptionOptions { filter, qos, no_local, retain_as_published, retain_handling }
}

fn wishes(count: u32) -> Vec<SubscriptionOptions> {
    (0..count).map(|n| wish(format!("dev/{n}/in"), Qos::AtLeastOnce)).collect()
}

/// One of the filters that match a topic of thirteen levels `x`.
fn overlapping(number: u32) -> String {
    let levels = (0..13).map(|bit| if number >> bit & 1 == 0 { "+" } else { "x" });
    levels.collect::<Vec<_>>().join("/")
}
