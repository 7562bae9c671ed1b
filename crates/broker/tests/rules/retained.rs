//! Retained messages when several shards have to do with them.
//!
//! The publisher's shard, the owner's of the topic and the subscriber's: whatever the order in
//! which their peer messages come and their logs answer, the message that was answered last is the
//! one that is kept, and a subscriber ends with it, once.

use crate::harness::{BrokerHarness, Client, connect, durable, limits, payload, retained, wish};
use base::prng::Prng;
use base::time::Now;
use model::ports::log::{Call, StoreError, Table, Write};
use model::session::*;
use model::topic::{Publication, Qos, RetainHandling, SubscriptionOptions};
use std::sync::Arc;

const QOS: [Qos; 3] = [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce];

/// Retained messages of a topic for somebody who subscribes now.
fn kept(world: &mut BrokerHarness, topic: &str) -> Vec<String> {
    let watch = world.client(connect("late"));
    world.subscribe(&watch, topic, Qos::AtMostOnce);
    let kept = world.payloads(&watch);
    world.leave(&watch);
    kept
}

/// Publishes, and releases at QoS 2; it must be answered.
fn publish(world: &mut BrokerHarness, client: &Client, message: Publication) {
    let qos = message.qos;
    world.send(client, 9, message);
    if qos != Qos::AtMostOnce {
        let (_, result) = world.taken(client).expect("an answer");
        assert!(result.is_ok(), "{result:?}");
    }
    if qos == Qos::ExactlyOnce {
        world.release(client, 9);
        world.heard(client.conn);
    }
}

#[test]
fn the_message_that_was_answered_last_is_kept_wherever_it_was_published() {
    for qos in QOS {
        for (first, second) in [("one", "two"), ("one", "")] {
            let mut world = BrokerHarness::new(3);
            let topic = world.topic_on(1, "t/");
            // Numbers of shard 2 are above those of shard 0 within a millisecond.
            let names = [world.name_on(2, "a"), world.name_on(0, "b")];
            let [a, b] = names.map(|name| world.client(connect(&name)));
            publish(&mut world, &a, retained(&topic, qos, first));
            publish(&mut world, &b, retained(&topic, qos, second));
            let wanted: Vec<&str> = [second].into_iter().filter(|it| !it.is_empty()).collect();
            assert_eq!(kept(&mut world, &topic), wanted, "{qos:?}");
            world.crash();
            assert_eq!(kept(&mut world, &topic), wanted, "{qos:?}, after a restart");
        }
    }
}

#[test]
fn a_clock_that_steps_back_keeps_no_old_message() {
    let mut world = BrokerHarness::new(2);
    let topic = world.topic_on(0, "t/");
    let names = [world.name_on(0, "a"), world.name_on(1, "b")];
    let [a, b] = names.map(|name| world.client(connect(&name)));
    publish(&mut world, &a, retained(&topic, Qos::AtLeastOnce, "one"));
    world.now = Now::new(world.now.mono, world.now.wall_ms - 3_600_000);
    publish(&mut world, &b, retained(&topic, Qos::AtLeastOnce, "two"));
    assert_eq!(kept(&mut world, &topic), ["two"]);
}

#[test]
fn a_row_that_is_written_again_does_not_undo_a_newer_one() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    world.keeps = false;
    publish(&mut world, &a, retained("t", Qos::AtMostOnce, "one"));
    let is_row =
        |call: &Call| matches!(call, Call::Write(Write::Put { table: Table::Retained, .. }));
    world.complete(usize::MAX, |call| match is_row(call) {
        true => Err(StoreError::Busy),
        false => Ok(()),
    });
    world.keeps = true;
    publish(&mut world, &a, retained("t", Qos::AtLeastOnce, "two"));
    world.pass_s(2);
    world.crash();
    assert_eq!(kept(&mut world, "t"), ["two"]);
}

/// The answer to a publisher: packet identifier and result.
type Told = (u16, Result<Routed, Denial>);

/// A publish of one shard and a subscription of another, until the subscription is answered.
struct Race {
    world: BrokerHarness,
    topic: String,
    source: Client,
    watch: Client,
}

impl Race {
    /// The publisher's shard is 0, the owner's 1, the subscriber's 2.
    fn new(qos: Qos, wish_of: impl Fn(&str) -> SubscriptionOptions) -> Race {
        let mut world = BrokerHarness::new(3);
        let topic = world.topic_on(1, "t/");
        let names = [world.name_on(0, "p"), world.name_on(2, "s")];
        let [source, watch] = names.map(|name| world.client(connect(&name)));
        world.carries = false;
        // It is looked who is subscribed, and nobody is.
        world.send(&source, 5, retained(&topic, qos, "kept"));
        let wishes = vec![wish_of(&topic)];
        assert!(world.subscribe_with(&watch, wishes, None)[0].is_ok());
        Race { world, topic, source, watch }
    }

    /// The page is asked for before the message comes to be kept.
    fn end(mut self) -> (Vec<Outgoing>, Option<Told>) {
        while self.world.post_one(2, 1) || self.world.post_one(1, 2) {
            self.world.run();
        }
        self.world.carries = true;
        self.world.run();
        let messages = self.world.messages(&self.watch);
        let answer = self.world.taken(&self.source);
        assert_eq!(kept(&mut self.world, &self.topic), ["kept"]);
        (messages, answer)
    }
}

#[test]
fn who_subscribes_between_the_look_and_the_keeping_gets_the_message() {
    for qos in QOS {
        for filter in [None, Some("t/+"), Some("#")] {
            let race = Race::new(qos, |topic| wish(filter.unwrap_or(topic), qos));
            let (messages, answer) = race.end();
            let got: Vec<String> = messages.iter().map(payload).collect();
            assert_eq!(got, ["kept"], "{qos:?} {filter:?}");
            assert!(messages[0].retain && messages[0].qos == qos);
            if qos != Qos::AtMostOnce && filter.is_none() {
                assert_eq!(answer, Some((5, Ok(Routed::Matched))), "somebody gets it");
            }
        }
    }
}

#[test]
fn who_wants_no_retained_messages_gets_none_behind_a_page() {
    let handling = RetainHandling::DoNotSend;
    let race = Race::new(Qos::AtLeastOnce, |topic| SubscriptionOptions {
        retain_handling: handling,
        ..wish(topic, Qos::AtLeastOnce)
    });
    assert!(race.end().0.is_empty());
    let race = Race::new(Qos::AtLeastOnce, |topic| SubscriptionOptions {
        retain_handling: RetainHandling::SendIfNew,
        ..wish(topic, Qos::AtLeastOnce)
    });
    assert_eq!(race.end().0.len(), 1);
    let race =
        Race::new(Qos::AtLeastOnce, |topic| wish(&format!("$share/g/{topic}"), Qos::AtLeastOnce));
    assert!(race.end().0.is_empty(), "shared subscriptions get none (MQTT5 3.3.1.3)");
}

#[test]
fn what_came_before_a_later_subscription_comes_again_for_it() {
    let mut world = BrokerHarness::new(2);
    let topic = world.topic_on(1, "t/");
    let watch = world.client(connect("w"));
    let source = world.client(connect("s"));
    world.subscribe(&watch, "#", Qos::AtMostOnce);
    publish(&mut world, &source, retained(&topic, Qos::AtLeastOnce, "x"));
    assert_eq!(world.payloads(&watch), ["x"]);
    world.subscribe(&watch, &topic, Qos::AtMostOnce);
    assert_eq!(world.payloads(&watch), ["x"], "a new subscription, a new retained message");
}

/// A subscriber of the seeded run.
struct Watch {
    client: Client,
    /// Its subscription was asked for, and answered.
    asked: bool,
    granted: bool,
    got: Vec<String>,
}

/// A seeded run: shards act in any order, their peer messages come in the order in which they were
/// given to a shard, logs answer when they like.
struct Run {
    world: BrokerHarness,
    rng: Prng,
    topic: String,
    sources: Vec<Client>,
    watches: Vec<Watch>,
    filter: String,
    qos: Qos,
    /// Peer messages on their way to each shard: who sent the next.
    lanes: Vec<Vec<u16>>,
    /// Publisher and QoS of the message without an answer.
    open: Option<(usize, Qos)>,
    sent: u32,
    last: Option<String>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Prng::new(seed);
        let shards = 2 + rng.below(3) as u16;
        let mut world = BrokerHarness::new(shards);
        let topic = world.topic_on(rng.below(shards.into()) as usize, "t/");
        let client = |world: &mut BrokerHarness, rng: &mut Prng, prefix: &str, lasts: bool| {
            let name = world.name_on(rng.below(shards.into()) as usize, prefix);
            world.client(if lasts { durable(&name) } else { connect(&name) })
        };
        let lasts = rng.one_in(3);
        let names = ["p", "q"];
        let sources: Vec<Client> =
            names.iter().map(|name| client(&mut world, &mut rng, name, lasts)).collect();
        let watch = |world: &mut BrokerHarness, rng: &mut Prng, n: usize| Watch {
            client: client(world, rng, &format!("w{n}-"), false),
            asked: false,
            granted: false,
            got: Vec::new(),
        };
        let watches = (0..4).map(|n| watch(&mut world, &mut rng, n)).collect();
        let filter = if rng.one_in(2) { topic.clone() } else { "t/+".into() };
        let qos = QOS[rng.below(3) as usize];
        (world.carries, world.keeps) = (false, false);
        let lanes = vec![Vec::new(); usize::from(shards)];
        let (open, sent, last) = (None, 0, None);
        Run { world, rng, topic, sources, watches, filter, qos, lanes, open, sent, last }
    }

    fn step(&mut self) {
        match self.rng.below(10) {
            0 => self.publish(),
            1 => self.subscribe(),
            2..5 => {
                let at = self.rng.below(self.lanes.len() as u64) as usize;
                self.world.complete_one(at);
            }
            5 if self.rng.one_in(6) => {
                let now = self.world.now;
                self.world.now = Now::new(now.mono, now.wall_ms + self.rng.below(2));
            }
            _ => self.carry(),
        }
        (0..self.lanes.len()).for_each(|at| self.world.collect(at));
        self.line_up();
        self.listen();
    }

    /// Queues the peer messages sent since the last call in their receivers' mailboxes.
    fn line_up(&mut self) {
        for (&(from, to), peer_messages) in &self.world.peer_messages {
            let lane = &mut self.lanes[usize::from(to)];
            let known = lane.iter().filter(|&&of| of == from).count();
            lane.extend(std::iter::repeat_n(from, peer_messages.len() - known));
        }
    }

    fn carry(&mut self) {
        let to = self.rng.below(self.lanes.len() as u64) as usize;
        self.carry_to(to);
    }

    fn carry_to(&mut self, to: usize) {
        if !self.lanes[to].is_empty() {
            let from = self.lanes[to].remove(0);
            assert!(self.world.post_one(from, to as u16));
        }
    }

    /// One publisher after the other: each publishes when the one before was answered.
    fn publish(&mut self) {
        if self.open.is_some() || self.sent == 6 {
            return;
        }
        let at = self.rng.below(self.sources.len() as u64) as usize;
        let qos = QOS[1 + self.rng.below(2) as usize];
        self.sent += 1;
        let text = if self.rng.one_in(5) { String::new() } else { self.sent.to_string() };
        // An answer is heard when what was sent with it stands in mailboxes: a shard looks into its
        // own before it takes what its connections say next.
        let shard = usize::from(self.sources[at].conn.shard().0);
        while !self.lanes[shard].is_empty() {
            self.carry_to(shard);
        }
        let client = &self.sources[at];
        let (session, id) = (client.session, self.sent as u16);
        let message = Arc::new(retained(&self.topic, qos, &text));
        let word = SessionRequest::Publish { session, id, again: false, message };
        self.world.tell(client.conn, word);
        (self.open, self.last) = (Some((at, qos)), Some(text));
    }

    fn subscribe(&mut self) {
        let at = self.rng.below(self.watches.len() as u64) as usize;
        let watch = &mut self.watches[at];
        if watch.asked {
            return;
        }
        watch.asked = true;
        let (session, wishes) = (watch.client.session, vec![wish(&self.filter, self.qos)]);
        let packet = SubscribeRequest { session, id: 77, subscription_id: None, wishes };
        self.world.tell(watch.client.conn, SessionRequest::Subscribe(Box::new(packet)));
    }

    fn listen(&mut self) {
        if let Some((at, qos)) = self.open
            && let Some((id, result)) = self.world.taken(&self.sources[at])
        {
            assert!(result.is_ok());
            self.open = None;
            if qos == Qos::ExactlyOnce {
                let client = &self.sources[at];
                let word = SessionRequest::Release { session: client.session, id };
                self.world.tell(client.conn, word);
            }
        }
        for watch in &mut self.watches {
            let (conn, session) = (watch.client.conn, watch.client.session);
            for word in self.world.heard(conn) {
                match word {
                    SessionDelivery::Publish(outgoing) => {
                        watch.got.push(payload(&outgoing));
                        let id = outgoing.id;
                        let step = match outgoing.qos {
                            Qos::AtMostOnce => None,
                            Qos::AtLeastOnce => Some(AckStep::Puback(false)),
                            Qos::ExactlyOnce => Some(AckStep::Pubrec(false)),
                        };
                        if let Some(step) = step {
                            self.world.tell(conn, SessionRequest::Acked { session, id, step });
                        }
                    }
                    SessionDelivery::Release { id, .. } => {
                        let step = AckStep::Pubcomp;
                        self.world.tell(conn, SessionRequest::Acked { session, id, step });
                    }
                    SessionDelivery::Subscribed { .. } => watch.granted = true,
                    _ => {}
                }
            }
            self.world.tell(conn, SessionRequest::Ready { session });
        }
    }

    /// Everything comes to rest; what was not as it must be.
    fn end(mut self) -> Vec<String> {
        for _ in 0..20_000 {
            for at in 0..self.lanes.len() {
                self.world.complete_one(at);
                let node = &mut self.world.nodes[at];
                node.broker.turn(self.world.now, &mut node.fx);
                self.world.collect(at);
            }
            self.line_up();
            self.carry();
            self.listen();
            let calls = self.world.nodes.iter().any(|node| !node.fx.calls.is_empty());
            if self.lanes.iter().all(|lane| lane.is_empty()) && !calls && self.open.is_none() {
                break;
            }
        }
        (self.world.carries, self.world.keeps) = (true, true);
        self.world.run();
        self.listen();
        let mut wrong = Vec::new();
        let last: Vec<String> =
            self.last.clone().into_iter().filter(|text| !text.is_empty()).collect();
        let mut look = |world: &mut BrokerHarness, when: &str| {
            let kept = kept(world, &self.topic);
            if kept != last {
                wrong.push(format!("kept {kept:?} {when}, answered last {last:?}"));
            }
        };
        look(&mut self.world, "at the end");
        for watch in self.watches.iter().filter(|watch| watch.granted) {
            let end: Vec<_> = watch.got.last().filter(|it| !it.is_empty()).into_iter().collect();
            if end != last.iter().collect::<Vec<_>>() {
                wrong.push(format!("a subscriber got {:?}, kept is {last:?}", watch.got));
            }
            let mut numbers: Vec<&String> = watch.got.iter().filter(|it| !it.is_empty()).collect();
            let count = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            if numbers.len() != count {
                wrong.push(format!("twice: {:?}", watch.got));
            }
        }
        self.world.crash();
        let kept = kept(&mut self.world, &self.topic);
        if kept != last {
            wrong.push(format!("kept {kept:?} after a restart, answered last {last:?}"));
        }
        wrong
    }
}

#[test]
fn whatever_the_order_of_peer_messages_every_subscriber_ends_with_what_is_kept() {
    let seeds = match std::env::var("BROKER_SEED") {
        Ok(seed) => seed.parse().map(|seed: u64| seed..seed + 1).expect("a number"),
        Err(_) => 0..1_000,
    };
    let (mut wrong, mut all) = (Vec::new(), 0);
    for seed in seeds {
        let mut run = Run::new(seed);
        (0..300).for_each(|_| run.step());
        all += 1;
        wrong.extend(run.end().into_iter().map(|what| format!("seed {seed}: {what}")));
    }
    assert!(
        wrong.is_empty(),
        "{} of {all} seeds: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(8)]
    );
}

/// The calls of the only log are answered one by one, in this order, each so.
fn answer(world: &mut BrokerHarness, order: &[(usize, bool)]) {
    let node = &mut world.nodes[0];
    let mut calls: Vec<_> = std::mem::take(&mut node.fx.calls).into_iter().map(Some).collect();
    assert_eq!(calls.len(), order.len());
    for &(at, taken) in order {
        let (ticket, call) = calls[at].take().expect("each once");
        let result = if taken { node.log.answer(&call) } else { Err(StoreError::Full) };
        node.broker.complete(world.now, (ticket, result), &mut node.fx);
    }
}

#[test]
fn what_the_log_refuses_is_not_retained() {
    for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
        for (payload, wanted) in [("second", "first"), ("", "first")] {
            let mut world = BrokerHarness::new(1);
            let source = world.client(connect("source"));
            publish(&mut world, &source, retained("t", qos, "first"));
            world.keeps = false;
            world.send(&source, 2, retained("t", qos, payload));
            answer(&mut world, &[(0, false)]);
            world.keeps = true;
            world.run();
            assert_eq!(world.taken(&source), Some((2, Err(Denial::StoreFull))));
            assert_eq!(kept(&mut world, "t"), [wanted]);
            world.crash();
            assert_eq!(kept(&mut world, "t"), [wanted]);
        }
    }
}

#[test]
fn whichever_rows_the_log_refuses_the_last_it_took_is_retained() {
    // Two rows of a topic are asked for; a refusal may come before an earlier row's answer.
    for first in [false, true] {
        for second in [false, true] {
            for order in [[0, 1], [1, 0]] {
                if second && order == [1, 0] {
                    continue; // what is taken is taken in order
                }
                let mut world = BrokerHarness::new(1);
                let source = world.client(connect("source"));
                publish(&mut world, &source, retained("t", Qos::AtLeastOnce, "old"));
                world.keeps = false;
                world.send(&source, 2, retained("t", Qos::AtLeastOnce, "first"));
                world.send(&source, 3, retained("t", Qos::AtLeastOnce, "second"));
                let taken = [first, second];
                answer(&mut world, &order.map(|at| (at, taken[at])));
                world.keeps = true;
                world.run();
                let wanted = match (first, second) {
                    (_, true) => "second",
                    (true, false) => "first",
                    (false, false) => "old",
                };
                assert_eq!(kept(&mut world, "t"), [wanted], "{first} {second} {order:?}");
                world.crash();
                assert_eq!(kept(&mut world, "t"), [wanted], "{first} {second} {order:?}");
            }
        }
    }
}

#[test]
fn what_nobody_is_told_of_stays_though_the_row_before_it_is_refused() {
    let mut world = BrokerHarness::new(1);
    let source = world.client(connect("source"));
    world.keeps = false;
    world.send(&source, 2, retained("t", Qos::AtLeastOnce, "refused"));
    world.send(&source, 0, retained("t", Qos::AtMostOnce, "light"));
    answer(&mut world, &[(0, false), (1, true)]);
    world.keeps = true;
    world.run();
    assert_eq!(kept(&mut world, "t"), ["light"]);
    world.crash();
    assert_eq!(kept(&mut world, "t"), ["light"]);
}

/// Retained topics of shard 1, and a subscriber of shard 0 that is told of no page before the test
/// carries it.
fn far_subscriber(count: usize) -> (BrokerHarness, Client, Vec<String>) {
    let mut world = BrokerHarness::new(2);
    let source = world.client(connect("source"));
    let topics: Vec<String> = (0..count).map(|n| world.topic_on(1, &format!("big/{n}/"))).collect();
    for topic in &topics {
        publish(&mut world, &source, retained(topic, Qos::AtLeastOnce, topic));
    }
    let name = world.name_on(0, "w");
    let watch = world.client(connect(&name));
    world.carries = false;
    (world, watch, topics)
}

fn subscribe_again(world: &mut BrokerHarness, watch: &Client, filter: &str) {
    let results = world.subscribe_with(watch, vec![wish(filter, Qos::AtMostOnce)], None);
    assert!(results[0].is_ok());
}

#[test]
fn a_client_that_subscribes_again_and_again_has_one_page_on_its_way() {
    let (mut world, watch, topics) = far_subscriber(3);
    (0..100).for_each(|_| subscribe_again(&mut world, &watch, "big/#"));
    let asked = world.peer_messages.get(&(0, 1)).map_or(0, Vec::len);
    assert_eq!(asked, 1, "one page is asked for, however many SUBSCRIBE packets came");
    world.carries = true;
    world.run();
    let mut got = world.payloads(&watch);
    got.sort_unstable();
    assert_eq!(got, topics, "all of them come once, behind the last SUBACK");
    world.audit();
}

#[test]
fn a_replay_that_was_stopped_while_its_page_was_on_its_way_makes_room_for_the_next() {
    let (mut world, watch, topics) = far_subscriber(2);
    subscribe_again(&mut world, &watch, "big/#");
    assert_eq!(world.unsubscribe(&watch, "big/#"), Ok(true));
    subscribe_again(&mut world, &watch, &topics[1]);
    world.carries = true;
    world.run();
    assert_eq!(world.payloads(&watch), [topics[1].as_str()]);
    // The same when the page never comes.
    world.carries = false;
    subscribe_again(&mut world, &watch, "big/#");
    world.peer_messages.clear();
    assert_eq!(world.unsubscribe(&watch, "big/#"), Ok(true));
    subscribe_again(&mut world, &watch, &topics[0]);
    world.carries = true;
    (0..120).for_each(|_| world.pass_s(1));
    assert_eq!(world.payloads(&watch), [topics[0].as_str()]);
}

#[test]
fn retained_messages_at_qos_1_come_as_far_as_they_are_acknowledged() {
    let mut world = BrokerHarness::new(1);
    let source = world.client(connect("source"));
    let text = "x".repeat(40 * 1_024);
    for n in 0..8 {
        publish(&mut world, &source, retained(&format!("big/{n}"), Qos::AtLeastOnce, &text));
    }
    let watch = world.client(connect("w"));
    world.subscribe(&watch, "big/#", Qos::AtLeastOnce);
    let mut open: Vec<u16> = world.messages(&watch).iter().map(|it| it.id).collect();
    assert!(open.len() < 5, "{} of 40 KB each are on their way", open.len());
    let mut count = open.len();
    while let Some(id) = open.pop() {
        world.puback(&watch, id);
        let more: Vec<u16> = world.messages(&watch).iter().map(|it| it.id).collect();
        count += more.len();
        open.extend(more);
    }
    assert_eq!(count, 8, "all of them come");
}

#[test]
fn replays_of_all_sessions_together_are_bounded_between_two_turns() {
    let mut world = BrokerHarness::new(1);
    let source = world.client(connect("source"));
    for n in 0..3_000 {
        publish(&mut world, &source, retained(&format!("big/{n}/a"), Qos::AtLeastOnce, "x"));
    }
    publish(&mut world, &source, retained("big/9/b", Qos::AtLeastOnce, "wanted"));
    let names = (0..50).map(|n| format!("w{n}"));
    let clients: Vec<Client> = names.map(|name| world.client(connect(&name))).collect();
    let before = world.nodes[0].broker.units_spent();
    for client in &clients {
        for id in 1..=10 {
            let wishes = vec![wish("big/+/b", Qos::AtMostOnce)];
            let (session, subscription_id) = (client.session, None);
            let packet = SubscribeRequest { session, id, subscription_id, wishes };
            world.tell(client.conn, SessionRequest::Subscribe(Box::new(packet)));
        }
    }
    let spent = world.nodes[0].broker.units_spent() - before;
    assert!(spent < 10_000, "{spent} units of 500 packets");
    world.run();
    for client in &clients {
        let heard = world.heard(client.conn);
        let is_wanted = |word: &SessionDelivery| matches!(word, SessionDelivery::Publish(_));
        assert!(heard.iter().any(is_wanted), "they all come");
    }
    world.audit();
}

#[test]
fn retained_messages_are_sent_at_their_rate_to_all_clients_together() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        limits.topics.retained_sent_bytes_per_s = 100_000;
        settings.limits = Arc::new(limits);
    });
    let source = world.client(connect("source"));
    let page = "x".repeat(10_000);
    for n in 0..20 {
        publish(&mut world, &source, retained(&format!("big/{n}"), Qos::AtLeastOnce, &page));
    }
    let clients: Vec<Client> = (0..5).map(|n| world.client(connect(&format!("w{n}")))).collect();
    for client in &clients {
        world.subscribe(client, "big/#", Qos::AtLeastOnce);
    }
    // A million bytes: two seconds' worth and the pages that were begun, the rest in eight seconds.
    let mut came = vec![0; clients.len()];
    let mut by_second = Vec::new();
    for _ in 0..14 {
        for _ in 0..20 {
            world.run();
            for (client, came) in clients.iter().zip(&mut came) {
                for heard in world.messages(client) {
                    *came += 1;
                    if heard.id != 0 {
                        world.puback(client, heard.id);
                    }
                }
            }
            world.pass_ms(50);
        }
        by_second.push(came.iter().sum::<usize>());
    }
    assert!(by_second[0] <= 50, "{by_second:?}");
    assert!((60..=95).contains(&by_second[5]), "{by_second:?}");
    assert_eq!(came, [20; 5], "all of them come");
    world.audit();
}
