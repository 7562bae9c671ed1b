//! Sessions with very many subscriptions come, go and get other rules, a slice a turn.

use crate::harness::{BrokerHarness, Client, access, connect, durable, message, wish};
use broker::UNITS_A_CALL_MAX;
use model::close::CloseReason;
use model::counters::ProcessCounter;
use model::ports::access::*;
use model::session::*;
use model::topic::Qos;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const MANY: usize = 10_000;

/// Whether what ends with an odd number may be read: the rules of those who are let in from now on.
#[derive(Default)]
struct Door(AtomicBool);

#[derive(Debug)]
struct Even;

fn is_odd(topic: &str) -> bool {
    topic.bytes().last().is_some_and(|byte| byte % 2 == 1)
}

impl Rules for Even {
    fn may(&self, _: &Who<'_>, act: Act, topic: &str) -> bool {
        act == Act::Publish || !is_odd(topic)
    }

    fn reach(&self, _: &Who<'_>, filter: &str) -> Reach {
        if is_odd(filter) { Reach::Nothing } else { Reach::All }
    }
}

struct Key(Arc<Door>);

impl Access for Key {
    fn admit(&self, _: u32, _: &Question) -> Admission {
        let rules: Option<Arc<dyn Rules>> = match self.0.0.load(Ordering::Relaxed) {
            true => Some(Arc::new(Even)),
            false => None,
        };
        Admission::Granted(Grant { rules, ..Grant::OPEN }, None)
    }

    fn renew(&self, _: &Who<'_>) -> Option<Grant> {
        None
    }

    fn version(&self) -> u64 {
        0
    }
}

fn world(shards: u16) -> (BrokerHarness, Arc<Door>) {
    let door = Arc::new(Door::default());
    let key = Arc::clone(&door);
    let world = BrokerHarness::with(shards, move |settings| {
        settings.access = access(Key(Arc::clone(&key)))
    });
    (world, door)
}

fn bounded(world: &BrokerHarness) {
    for node in &world.nodes {
        let most = node.broker.units_most();
        assert!(most <= UNITS_A_CALL_MAX, "{most} units in one call");
    }
}

fn spent(world: &BrokerHarness) -> u64 {
    world.nodes.iter().map(|node| node.broker.units_spent()).sum()
}

fn subscribe(world: &mut BrokerHarness, client: &Client, prefix: &str) {
    let filter = |n| format!("{prefix}t/{n}");
    let wishes = (0..MANY).map(|n| wish(&filter(n), Qos::AtLeastOnce)).collect();
    let results = world.subscribe_with(client, wishes, None);
    assert!(results.iter().all(Result::is_ok));
}

/// Comes again; what it is told stays in its inbox. Not a turn passes.
fn come(world: &mut BrokerHarness, id: &str) -> Client {
    let conn = world.conn(id);
    world.tell(conn, SessionRequest::Connect(Box::new(durable(id))));
    let shard = usize::from(conn.shard().0);
    world.collect(shard);
    let Some(SessionDelivery::Connected(connected)) = world.heard(conn).pop() else {
        panic!("not connected");
    };
    Client { conn, session: connected.session, connected: *connected }
}

#[test]
fn who_comes_back_with_the_same_rights_costs_nothing_for_its_filters() {
    let (mut world, _) = world(1);
    let a = world.client(durable("a"));
    subscribe(&mut world, &a, "");
    world.cut(&a);
    let before = spent(&world);
    let a = world.client(durable("a"));
    assert!(spent(&world) - before < 16, "{}", spent(&world) - before);
    assert!(a.connected.present);
    world.audit();
}

#[test]
fn other_rights_hold_at_once_and_are_found_out_in_slices() {
    let (mut world, door) = world(1);
    let a = world.client(durable("a"));
    subscribe(&mut world, &a, "");
    let source = world.client(connect("source"));
    world.cut(&a);
    door.0.store(true, Ordering::Relaxed);
    let a = come(&mut world, "a");
    for (id, n) in [(1, 9_998), (2, 9_999), (3, 0), (4, 1)] {
        let message = Arc::new(message(&format!("t/{n}"), Qos::AtMostOnce, &n.to_string()));
        let (session, again) = (source.session, false);
        let word = SessionRequest::Publish { session, id, again, message };
        world.tell(source.conn, word);
    }
    world.collect(0);
    assert_eq!(world.payloads(&a), ["9998", "0"], "what it may not read is not for it any more");
    assert!(world.status().subscriptions > MANY as u64 / 2, "and not all is looked at");
    bounded(&world);
    world.run();
    bounded(&world);
    assert_eq!(world.status().subscriptions, MANY as u64 / 2);
    world.publish(&source, "t/4711", "x");
    world.publish(&source, "t/4712", "y");
    assert_eq!(world.payloads(&a), ["y"]);
    world.audit();
    world.crash();
    assert_eq!(world.status().subscriptions, MANY as u64 / 2, "and its rows agree");
}

#[test]
fn thousands_of_shared_subscriptions_come_and_go_in_slices() {
    for shards in [1, 2] {
        let (mut world, door) = world(shards);
        let a = world.client(durable("a"));
        subscribe(&mut world, &a, "$share/g/");
        bounded(&world);
        let source = world.client(connect("source"));
        world.cut(&a);
        bounded(&world);
        // It is away, and its groups know: another one that comes is preferred.
        let b = world.client(connect("b"));
        let share = wish("$share/g/t/9998", Qos::AtLeastOnce);
        world.subscribe_with(&b, vec![share], None);
        for id in 1..=4 {
            world.send(&source, id, message("t/9998", Qos::AtLeastOnce, "x"));
        }
        assert_eq!(world.messages(&b).len(), 4, "{shards}");
        door.0.store(true, Ordering::Relaxed);
        let a = come(&mut world, "a");
        world.run();
        bounded(&world);
        assert_eq!(world.status().subscriptions, MANY as u64 / 2 + 1, "{shards}");
        for id in 5..=8 {
            world.send(&source, id, message("t/9998", Qos::AtLeastOnce, "x"));
        }
        assert_eq!((world.messages(&a).len(), world.messages(&b).len()), (2, 2), "in turn");
        assert_eq!(world.dropped(Drop::NoMember) + world.dropped(Drop::NoReader), 0);
        world.audit();
    }
}

#[test]
fn who_goes_while_its_groups_are_told_that_it_came_is_away_in_the_end() {
    let (mut world, _) = world(1);
    let a = world.client(durable("a"));
    subscribe(&mut world, &a, "$share/g/");
    world.cut(&a);
    let a = come(&mut world, "a");
    let (session, reason) = (a.session, CloseReason::PeerReset);
    world.tell(a.conn, SessionRequest::Closed { session, reason });
    world.run();
    bounded(&world);
    let b = world.client(connect("b"));
    let wishes = [0, 9_999].map(|n| wish(&format!("$share/g/t/{n}"), Qos::AtLeastOnce)).to_vec();
    world.subscribe_with(&b, wishes, None);
    let source = world.client(connect("source"));
    for (id, n) in [(1, 0), (2, 9_999), (3, 0), (4, 9_999)] {
        world.send(&source, id, message(&format!("t/{n}"), Qos::AtLeastOnce, "x"));
    }
    assert_eq!(world.messages(&b).len(), 4, "who is online is preferred");
}

#[test]
fn the_work_of_a_long_queue_is_given_away_without_looking_at_it_again_and_again() {
    const COUNT: u16 = 20_000;
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    let wishes = ["$share/g/t", "own"].map(|filter| wish(filter, Qos::AtLeastOnce)).to_vec();
    world.subscribe_with(&a, wishes, None);
    world.cut(&a);
    world.pass_s(10);
    let source = world.client(connect("source"));
    // Most of what waits for it is its own, in front of what it shares.
    for id in 1..=COUNT {
        let topic = if id < COUNT - 2_000 { "own" } else { "t" };
        let message = Arc::new(message(topic, Qos::AtLeastOnce, "x"));
        let (session, again) = (source.session, false);
        world.tell(source.conn, SessionRequest::Publish { session, id, again, message });
        if id % 500 == 0 {
            world.run();
        }
    }
    world.run();
    let a = come(&mut world, "a");
    let b = world.client(durable("b"));
    world.subscribe(&b, "$share/g/t", Qos::AtLeastOnce);
    let before = spent(&world);
    world.cut(&a);
    world.pass_s(1);
    let looked = spent(&world) - before;
    assert!(looked < 3_000, "{looked} units for 20,000 entries, 64 of which are one");
    bounded(&world);
    let mut got = 0;
    loop {
        let messages = world.messages(&b);
        if messages.is_empty() {
            break;
        }
        got += messages.len();
        messages.iter().for_each(|it| world.puback(&b, it.id));
    }
    assert_eq!(got, 2_001);
    assert_eq!(world.count(ProcessCounter::PullsFailed), 0);
    world.audit();
}
