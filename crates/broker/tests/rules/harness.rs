//! Several brokers, peer messages carried in their order, a log each that answers when it is told
//! to, and clients that say what the test says.

use base::hash::{HashKey, home};
use base::slab::Key;
use base::time::{Instant, Now};
use broker::{Broker, Effects, PeerMessage, Settings, routes};
use model::close::CloseReason;
use model::counters::Counter;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::Limits;
use model::ports::access::{Access, AllowAll, Question};
use model::ports::control::Status;
use model::ports::events::{ClientEvent, ClientWhat};
use model::ports::lead::LeadProof;
use model::ports::log::{Call, Done, Restored, StoreError};
use model::ports::requests::PortRequest;
use model::ports::topics::{TopicAnswer, TopicCommand};
use model::presence::Principal;
use model::service::Service;
use model::session::*;
use model::topic::{Publication, Qos, RetainHandling, SubscriptionOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use testkit::crossing::crossed;
use testkit::log::{LogOptions, MemoryLog};
use testkit::transitions::Roll;

/// Where the world's wall clock begins, Unix milliseconds.
pub const WALL_MS: u64 = 1_800_000_000_000;

pub const HOME: HashKey = HashKey::new(21, 22);

/// One shard.
pub struct Node {
    pub broker: Broker,
    pub fx: Effects,
    pub log: MemoryLog,
}

pub struct BrokerHarness {
    pub nodes: Vec<Node>,
    pub now: Now,
    /// Logs complete what they are handed at once.
    pub keeps: bool,
    /// Peer messages are carried at once.
    pub carries: bool,
    pub peer_messages: BTreeMap<(u16, u16), Vec<PeerMessage>>,
    inbox: BTreeMap<ConnRef, Vec<SessionDelivery>>,
    closed: BTreeSet<ConnRef>,
    make: Box<dyn Fn(&mut Settings)>,
    conns: u32,
    asks: u64,
    pub questions: Vec<(u16, u64, Box<Question>)>,
    pub events: Vec<ClientEvent>,
    /// Transitions since the last start.
    pub roll: Roll,
    answers: BTreeMap<u64, Vec<TopicAnswer>>,
}

/// A connected client.
#[derive(Clone, Debug)]
pub struct Client {
    pub conn: ConnRef,
    pub session: SessionRef,
    pub connected: Connected,
}

pub fn limits() -> Limits {
    Limits { binds_per_s: 10_000_000, ..Limits::default() }
}

/// CONNECT of a client of MQTT 5.
pub fn connect(id: &str) -> ConnectRequest {
    ConnectRequest {
        protocol: "mqtt5",
        client_id: id.into(),
        clean_start: true,
        expiry_s: 0,
        keep_alive_s: 60,
        receive_max: 65_535,
        is_bridge: false,
        wants_response_information: false,
        will: None,
        user: None,
        password: None,
        device: None,
        method: None,
        certificate: None,
        peer: "10.0.0.7:1234".parse().expect("an address"),
        near: false,
        door: 0,
        tls: false,
        crowded: false,
    }
}

/// The same, with a session that outlives its connections.
pub fn durable(id: &str) -> ConnectRequest {
    ConnectRequest { clean_start: false, expiry_s: 3_600, ..connect(id) }
}

pub fn message(topic: &str, qos: Qos, payload: &str) -> Publication {
    let mut message = Publication::new(topic, &[], payload.as_bytes());
    message.qos = qos;
    message
}

/// The same, to be retained.
pub fn retained(topic: &str, qos: Qos, payload: &str) -> Publication {
    let mut message = message(topic, qos, payload);
    message.retain = true;
    message
}

pub fn wish(filter: &str, qos: Qos) -> SubscriptionOptions {
    SubscriptionOptions {
        filter: filter.into(),
        qos,
        no_local: false,
        retain_as_published: false,
        retain_handling: RetainHandling::Send,
    }
}

pub fn will(topic: &str, payload: &str, delay_s: u32) -> Will {
    let message = Arc::new(message(topic, Qos::AtLeastOnce, payload));
    Will { message, delay_s, expiry_s: 0 }
}

impl BrokerHarness {
    pub fn new(shards: u16) -> BrokerHarness {
        BrokerHarness::with(shards, |_| {})
    }

    pub fn with(shards: u16, make: impl Fn(&mut Settings) + 'static) -> BrokerHarness {
        let now = Now::new(Instant::from_nanos(1_000_000_000), WALL_MS);
        let mut world = BrokerHarness {
            nodes: Vec::new(),
            now,
            keeps: true,
            carries: true,
            peer_messages: BTreeMap::new(),
            inbox: BTreeMap::new(),
            closed: BTreeSet::new(),
            make: Box::new(make),
            conns: 0,
            asks: 0,
            questions: Vec::new(),
            events: Vec::new(),
            roll: Roll::default(),
            answers: BTreeMap::new(),
        };
        let options = LogOptions { now_s: now.unix_s(), ..LogOptions::default() };
        let logs = (0..shards).map(|_| MemoryLog::new(options.clone())).collect();
        world.start(logs);
        world
    }

    /// The process dies, with whatever the logs had not completed, and begins again.
    pub fn crash(&mut self) {
        self.nodes.iter_mut().for_each(|node| self.roll.take(node.fx.transitions.drain(..)));
        // Its clock begins with the wall's: what rises over a restart is the directory's business.
        self.roll.forget();
        let logs = self.nodes.drain(..).map(|node| node.log).collect();
        (self.peer_messages, self.inbox) = (BTreeMap::new(), BTreeMap::new());
        self.questions.clear();
        self.start(logs);
    }

    fn start(&mut self, logs: Vec<MemoryLog>) {
        let shards = logs.len() as u16;
        let hash_key = HashKey::new(11, 12);
        let summary = routes::RouteSummary::new(shards, hash_key);
        let exclusives = Arc::default();
        for (at, log) in logs.into_iter().enumerate() {
            let mut settings = Settings {
                shard: ShardId(at as u16),
                shards,
                limits: Arc::new(limits()),
                hash_key,
                home: HOME,
                access: Arc::new(AllowAll),
                summary: summary.clone(),
                exclusives: Arc::clone(&exclusives),
                rewrites: None,
                auto_subscribes: None,
                chat_domain: None,
                seed: at as u64,
                secrets: [at as u8; 32],
                lead_proof: LeadProof::default(),
            };
            (self.make)(&mut settings);
            let mut broker = Broker::new(settings);
            let fx = Effects { events_wanted: true, ..Effects::default() };
            restore(&mut broker, self.now, &log);
            self.nodes.push(Node { broker, fx, log });
        }
        for node in &mut self.nodes {
            node.broker.restored(self.now, &mut node.fx);
        }
        self.run();
    }

    /// Lets time pass, and everybody do whatever falls due.
    pub fn pass_ms(&mut self, ms: u64) {
        let nanos = self.now.mono.nanos() + ms * 1_000_000;
        self.now = Now::new(Instant::from_nanos(nanos), self.now.wall_ms + ms);
        self.run();
    }

    pub fn pass_s(&mut self, s: u64) {
        self.pass_ms(s * 1_000);
    }

    /// Carries out whatever is to be done, until nothing is.
    pub fn run(&mut self) {
        for _ in 0..100_000 {
            let mut quiet = true;
            for at in 0..self.nodes.len() {
                let node = &mut self.nodes[at];
                let next = node.broker.turn(self.now, &mut node.fx);
                quiet &= next.is_none_or(|next| next > self.now.mono);
                quiet &= !self.carry(at);
            }
            quiet &= !self.post();
            if quiet {
                self.call_roll();
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    /// Takes in who came and went. The last of these must be the brokers' own view.
    fn call_roll(&mut self) {
        self.nodes.iter_mut().for_each(|node| self.roll.take(node.fx.transitions.drain(..)));
        for told in self.roll.all() {
            let Principal::Client(id) = &told.who else { panic!("{told:?}") };
            match self.nodes[self.home(id)].broker.find(self.now, &Principal::Client(id.clone())) {
                Some(found) => {
                    assert_eq!((found.version, found.state), (told.version, told.state));
                    assert_eq!(found.user.as_deref(), told.user.as_deref());
                    assert!(found.since_ms <= found.seen_ms && found.seen_ms <= self.now.wall_ms);
                }
                None => assert!(!told.state.is_online(), "{told:?} is forgotten"),
            }
        }
        assert_eq!(self.roll.online(), self.status().sessions_online);
    }

    /// Empties the lanes of a shard; whether something was done.
    fn carry(&mut self, at: usize) -> bool {
        let mut busy = false;
        let Node { broker, fx, log } = &mut self.nodes[at];
        for (conn, delivery) in std::mem::take(&mut fx.deliveries) {
            busy = true;
            match self.closed.contains(&conn) {
                true => broker.undelivered(self.now, conn, delivery, fx),
                false => self.inbox.entry(conn).or_default().push(delivery),
            }
        }
        for (to, peer_message) in std::mem::take(&mut fx.peer_messages) {
            self.peer_messages.entry((at as u16, to.0)).or_default().push(peer_message);
        }
        self.questions.extend(fx.port_requests.drain(..).map(|(n, request)| match request {
            PortRequest::Access(question) => (at as u16, n, question),
            other => panic!("{other:?}"),
        }));
        self.events.append(&mut fx.events);
        for (ask, answer) in fx.answers.drain(..) {
            self.answers.entry(ask).or_default().push(answer);
        }
        if self.keeps {
            for (ticket, call) in std::mem::take(&mut fx.calls) {
                busy = true;
                let result = log.answer(&call);
                broker.complete(self.now, (ticket, result), fx);
            }
        }
        busy
    }

    /// Carries peer messages; whether there were any.
    pub fn post(&mut self) -> bool {
        if !self.carries {
            return false;
        }
        let peer_messages = std::mem::take(&mut self.peer_messages);
        let busy = !peer_messages.is_empty();
        for ((_, to), peer_messages) in peer_messages {
            let node = &mut self.nodes[usize::from(to)];
            for peer_message in peer_messages {
                node.broker.peer_message(self.now, crossed(peer_message), &mut node.fx);
            }
        }
        busy
    }

    /// Takes what a shard has said to others out of its lanes, and answers to clients with it.
    pub fn collect(&mut self, at: usize) {
        let (keeps, carries) = (self.keeps, self.carries);
        (self.keeps, self.carries) = (false, false);
        self.carry(at);
        (self.keeps, self.carries) = (keeps, carries);
    }

    /// Carries the first peer message from one shard to another; whether there was one.
    pub fn post_one(&mut self, from: u16, to: u16) -> bool {
        let Some(lane) = self.peer_messages.get_mut(&(from, to)) else { return false };
        let peer_message = lane.remove(0);
        if lane.is_empty() {
            self.peer_messages.remove(&(from, to));
        }
        let node = &mut self.nodes[usize::from(to)];
        node.broker.peer_message(self.now, crossed(peer_message), &mut node.fx);
        self.collect(usize::from(to));
        true
    }

    /// The log of one shard completes the first call it was handed; whether there was one.
    pub fn complete_one(&mut self, at: usize) -> bool {
        let Node { broker, fx, log } = &mut self.nodes[at];
        if fx.calls.is_empty() {
            return false;
        }
        let (ticket, call) = fx.calls.remove(0);
        let result = log.answer(&call);
        broker.complete(self.now, (ticket, result), fx);
        self.collect(at);
        true
    }

    /// The logs complete so many of the calls they were handed, in order, and go on.
    pub fn complete(&mut self, count: usize, answer: impl Fn(&Call) -> Result<(), StoreError>) {
        for node in &mut self.nodes {
            let calls = std::mem::take(&mut node.fx.calls);
            for (at, (ticket, call)) in calls.into_iter().enumerate() {
                if at >= count {
                    node.fx.calls.push((ticket, call));
                    continue;
                }
                let result = answer(&call).and_then(|()| node.log.answer(&call));
                node.broker.complete(self.now, (ticket, result), &mut node.fx);
            }
        }
        self.run();
    }

    /// Logs carry out so many calls and the process dies before it hears of them.
    pub fn crash_after(&mut self, count: usize) {
        for node in &mut self.nodes {
            for (_, call) in node.fx.calls.iter().take(count) {
                let _: Result<Done, _> = node.log.answer(call);
            }
        }
        self.crash();
    }

    /// The shard on which a client's session is at home.
    pub fn home(&self, id: &str) -> usize {
        let hash = HOME.of(&[b"mqtt", id.as_bytes()]);
        usize::from(home(hash, self.nodes.len() as u16))
    }

    /// A topic that begins so and is at home on this shard.
    pub fn topic_on(&self, shard: usize, prefix: &str) -> String {
        let shards = self.nodes.len() as u16;
        let hash = |topic: &str| HOME.of(&[b"mqtt-topic", topic.as_bytes()]);
        let topics = (0..).map(|n| format!("{prefix}{n}"));
        let is_here = |topic: &String| usize::from(home(hash(topic), shards)) == shard;
        topics.into_iter().find(is_here).expect("there are enough")
    }

    /// An identifier that begins so, of a client at home on this shard.
    pub fn name_on(&self, shard: usize, prefix: &str) -> String {
        let names = (0..).map(|n| format!("{prefix}{n}"));
        names.into_iter().find(|name| self.home(name) == shard).expect("there are enough")
    }

    pub fn ask(&mut self, conn: ConnRef, word: SessionRequest) {
        self.tell(conn, word);
        self.run();
    }

    /// Says a word without waiting for what comes of it.
    pub fn tell(&mut self, conn: ConnRef, word: SessionRequest) {
        let node = &mut self.nodes[usize::from(conn.shard().0)];
        node.broker.request(self.now, conn, word, &mut node.fx);
    }

    /// A connection where this client is at home.
    pub fn conn(&mut self, id: &str) -> ConnRef {
        self.conns += 1;
        let shard = ShardId(self.home(id) as u16);
        ConnRef::new(shard, Key { slot: self.conns, generation: 1 })
    }

    /// Asks to be let in, and returns everything that is said to the connection at first.
    pub fn try_connect(&mut self, connect: ConnectRequest) -> (ConnRef, Vec<SessionDelivery>) {
        let conn = self.conn(&connect.client_id);
        self.ask(conn, SessionRequest::Connect(Box::new(connect)));
        (conn, self.heard(conn))
    }

    /// A client that is let in; what else is said to it stays in its inbox.
    pub fn client(&mut self, connect: ConnectRequest) -> Client {
        let (conn, mut heard) = self.try_connect(connect);
        assert!(!heard.is_empty(), "it is answered");
        match heard.remove(0) {
            SessionDelivery::Connected(connected) => {
                self.inbox.entry(conn).or_default().extend(heard);
                Client { conn, session: connected.session, connected: *connected }
            }
            other => panic!("not connected: {other:?}"),
        }
    }

    /// Why a client is not let in.
    pub fn refused(&mut self, connect: ConnectRequest) -> Denial {
        match self.try_connect(connect).1.pop() {
            Some(SessionDelivery::Refused(denied)) => denied.why,
            other => panic!("not refused: {other:?}"),
        }
    }

    /// The connection breaks.
    pub fn cut(&mut self, client: &Client) {
        self.closed.insert(client.conn);
        let (session, reason) = (client.session, CloseReason::PeerReset);
        self.ask(client.conn, SessionRequest::Closed { session, reason });
    }

    /// The client says farewell.
    pub fn leave(&mut self, client: &Client) {
        let word =
            SessionRequest::Leave { session: client.session, with_will: false, expiry_s: None };
        self.ask(client.conn, word);
        self.closed.insert(client.conn);
    }

    /// Takes the deliveries to a connection since the last call.
    pub fn heard(&mut self, conn: ConnRef) -> Vec<SessionDelivery> {
        self.inbox.remove(&conn).unwrap_or_default()
    }

    /// Puts deliveries back that were heard and not used, before all later ones.
    pub fn unhear(&mut self, conn: ConnRef, words: Vec<SessionDelivery>) {
        let later = std::mem::replace(self.inbox.entry(conn).or_default(), words);
        self.inbox.entry(conn).or_default().extend(later);
    }

    /// Messages since the last look; nothing else may have been said.
    pub fn messages(&mut self, client: &Client) -> Vec<Outgoing> {
        let heard = self.heard(client.conn).into_iter().map(|word| match word {
            SessionDelivery::Publish(outgoing) => outgoing,
            other => panic!("no message: {other:?}"),
        });
        heard.collect()
    }

    /// Their payloads.
    pub fn payloads(&mut self, client: &Client) -> Vec<String> {
        self.messages(client).iter().map(payload).collect()
    }

    pub fn subscribe_with(
        &mut self,
        client: &Client,
        wishes: Vec<SubscriptionOptions>,
        subscription_id: Option<u32>,
    ) -> Vec<Result<Qos, Denial>> {
        let (session, id) = (client.session, 77);
        let packet = SubscribeRequest { session, id, subscription_id, wishes };
        self.ask(client.conn, SessionRequest::Subscribe(Box::new(packet)));
        let inbox = self.inbox.entry(client.conn).or_default();
        let is_answer = |word: &SessionDelivery| matches!(word, SessionDelivery::Subscribed { .. });
        let at = inbox.iter().position(is_answer).expect("an answer");
        match inbox.remove(at) {
            SessionDelivery::Subscribed { id: 77, results } => results.to_vec(),
            other => panic!("another answer: {other:?}"),
        }
    }

    pub fn subscribe(&mut self, client: &Client, filter: &str, qos: Qos) {
        let results = self.subscribe_with(client, vec![wish(filter, qos)], None);
        assert_eq!(results, [Ok(qos)]);
    }

    pub fn unsubscribe(&mut self, client: &Client, filter: &str) -> Result<bool, Denial> {
        let (session, id) = (client.session, 78);
        let packet = UnsubscribeRequest { session, id, filters: vec![filter.into()] };
        self.ask(client.conn, SessionRequest::Unsubscribe(Box::new(packet)));
        let inbox = self.inbox.entry(client.conn).or_default();
        let is = |word: &SessionDelivery| matches!(word, SessionDelivery::Unsubscribed { .. });
        let at = inbox.iter().position(is).expect("an answer");
        match inbox.remove(at) {
            SessionDelivery::Unsubscribed { id: 78, results } => results[0],
            other => panic!("another answer: {other:?}"),
        }
    }

    /// Publishes; the answer is not looked at.
    pub fn send(&mut self, client: &Client, id: u16, message: Publication) {
        let (session, message) = (client.session, Arc::new(message));
        let word = SessionRequest::Publish { session, id, again: false, message };
        self.ask(client.conn, word);
    }

    /// Publishes what may have come before.
    pub fn send_again(&mut self, client: &Client, id: u16, message: Publication) {
        let (session, message) = (client.session, Arc::new(message));
        let word = SessionRequest::Publish { session, id, again: true, message };
        self.ask(client.conn, word);
    }

    /// Publishes at QoS 0.
    pub fn publish(&mut self, client: &Client, topic: &str, payload: &str) {
        self.send(client, 0, message(topic, Qos::AtMostOnce, payload));
    }

    /// Publishes and returns the answer, if it is there.
    pub fn publish_at(
        &mut self,
        client: &Client,
        id: u16,
        message: Publication,
    ) -> Option<Result<Routed, Denial>> {
        self.send(client, id, message);
        self.taken(client).map(|(of, result)| {
            assert_eq!(of, id);
            result
        })
    }

    /// The next answer to a message, if it is there.
    pub fn taken(&mut self, client: &Client) -> Option<(u16, Result<Routed, Denial>)> {
        let inbox = self.inbox.entry(client.conn).or_default();
        let is = |word: &SessionDelivery| matches!(word, SessionDelivery::Taken { .. });
        let at = inbox.iter().position(is)?;
        match inbox.remove(at) {
            SessionDelivery::Taken { id, result, .. } => Some((id, result)),
            _ => None,
        }
    }

    pub fn ack(&mut self, client: &Client, id: u16, step: AckStep) {
        self.ask(client.conn, SessionRequest::Acked { session: client.session, id, step });
    }

    pub fn puback(&mut self, client: &Client, id: u16) {
        self.ack(client, id, AckStep::Puback(false));
    }

    /// The client releases a message of its own.
    pub fn release(&mut self, client: &Client, id: u16) {
        self.ask(client.conn, SessionRequest::Release { session: client.session, id });
    }

    /// A command to one shard and its answer, which must be there.
    pub fn command(&mut self, shard: usize, command: TopicCommand) -> TopicAnswer {
        self.asks += 1;
        let ask = self.asks;
        let node = &mut self.nodes[shard];
        node.broker.command(self.now, ask, command, &mut node.fx);
        self.run();
        let mut answers = self.answers.remove(&ask).expect("an answer");
        assert_eq!(answers.len(), 1, "one answer");
        answers.remove(0)
    }

    pub fn count(&self, counter: impl Into<Counter> + Copy) -> u64 {
        self.nodes.iter().map(|node| node.fx.counters.of(counter)).sum()
    }

    pub fn dropped(&self, why: Drop) -> u64 {
        self.nodes.iter().map(|node| node.fx.counters.dropped_of(why)).sum()
    }

    pub fn status(&self) -> Status {
        let mut status = Status::default();
        self.nodes.iter().for_each(|node| node.broker.status(&mut status));
        status
    }

    pub fn audit(&self) {
        self.nodes.iter().for_each(|node| node.broker.audit());
    }

    /// Takes the events of a client since the last call.
    pub fn happened(&mut self, id: &str) -> Vec<ClientWhat> {
        let (mine, rest) =
            std::mem::take(&mut self.events).into_iter().partition(|e| *e.client_id == *id);
        self.events = rest;
        let mine: Vec<ClientEvent> = mine;
        mine.into_iter().map(|event| event.what).collect()
    }
}

pub fn payload(outgoing: &Outgoing) -> String {
    String::from_utf8_lossy(outgoing.message.payload()).into_owned()
}

fn restore(broker: &mut Broker, now: Now, log: &MemoryLog) {
    log.restoration().each(|restored: Restored<'_>| {
        assert!(broker.restore(now, restored), "everything is taken in: {restored:?}");
        matches!(restored, Restored::Timeline { timeline, .. } if broker.wants_entries(timeline))
    });
}

/// An access that the test makes.
pub fn access(access: impl Access + 'static) -> Arc<dyn Access> {
    Arc::new(access)
}
