//! Attempts of a stranger: leaks from outside, answers that come too early or never, and ways
//! around the rules.

use crate::harness::{
    BrokerHarness, HOME, access, connect, durable, limits, message, retained, will, wish,
};
use base::hash::home;
use base::time::Now;
use broker::rewrite::{RewriteRule, Rewrites};
use model::close::CloseReason;
use model::ports::access::*;
use model::ports::log::StoreError;
use model::session::*;
use model::topic::{Qos, SubscriptionOptions};
use std::sync::Arc;

/// Refuses everybody without a method, and challenges those with one.
struct Closed;

impl Access for Closed {
    fn admit(&self, _: u32, question: &Question) -> Admission {
        match (&question.method, &question.dialogue) {
            (None, _) => Admission::Refused(Denial::BadCredentials),
            (_, None) => Admission::Continue { data: Box::default(), dialogue: Box::from(*b"1") },
            _ => Admission::Granted(Grant::OPEN, None),
        }
    }

    fn renew(&self, _: &Who<'_>) -> Option<Grant> {
        None
    }

    fn version(&self) -> u64 {
        0
    }
}

#[test]
fn whoever_is_refused_or_goes_leaves_nothing_behind() {
    let mut world = BrokerHarness::with(1, |settings| settings.access = access(Closed));
    assert_eq!(world.refused(connect("")), Denial::BadCredentials);
    world.audit();
    let method = || Some(("SCRAM".into(), Box::default()));
    let (conn, _) = world.try_connect(ConnectRequest { method: method(), ..connect("") });
    world.ask(conn, SessionRequest::Gone);
    world.audit();
    let (conn, _) = world.try_connect(ConnectRequest { method: method(), ..connect("a") });
    let proceed = |session| {
        let (method, data) = ("SCRAM".into(), Box::default());
        SessionRequest::Proceed(Box::new(Proceed { session, method, data }))
    };
    world.ask(conn, proceed(None));
    let session = match &world.heard(conn)[..] {
        [SessionDelivery::Connected(connected)] => connected.session,
        other => panic!("{other:?}"),
    };
    world.ask(conn, proceed(Some(session)));
    let reason = CloseReason::PeerReset;
    world.ask(conn, SessionRequest::Closed { session, reason });
    world.audit();
}

#[test]
fn a_page_of_another_replay_is_not_taken_for_this_ones() {
    let mut world = BrokerHarness::new(2);
    let a = world.client(connect(&world.name_on(0, "a")));
    let b = world.client(connect("b"));
    // A topic that is at home on the other shard.
    for n in 0..8 {
        world.send(&b, 1, retained(&format!("old/{n}"), Qos::AtLeastOnce, "old"));
        world.send(&b, 1, retained(&format!("new/{n}"), Qos::AtLeastOnce, "new"));
    }
    world.taken(&b);
    world.carries = false;
    let ready = SessionRequest::Ready { session: a.session };
    world.subscribe(&a, "old/#", Qos::AtMostOnce);
    world.ask(a.conn, ready.clone());
    assert_eq!(world.unsubscribe(&a, "old/#"), Ok(true));
    world.heard(a.conn);
    world.subscribe(&a, "new/#", Qos::AtMostOnce);
    world.ask(a.conn, ready.clone());
    world.carries = true;
    world.run();
    let mut count = 0;
    for _ in 0..9 {
        for outgoing in world.messages(&a) {
            assert!(outgoing.message.topic().starts_with("new/"), "{:?}", outgoing.message);
            count += 1;
        }
        world.ask(a.conn, ready.clone());
    }
    assert_eq!(count, 8);
}

#[test]
fn retained_messages_come_only_for_a_subscription_that_is_there() {
    let mut world = BrokerHarness::new(1);
    let b = world.client(connect("b"));
    world.send(&b, 1, retained("t", Qos::AtLeastOnce, "kept"));
    let a = world.client(durable("a"));
    world.keeps = false;
    let (session, wishes) = (a.session, vec![wish("t", Qos::AtMostOnce)]);
    let packet = SubscribeRequest { session, id: 1, subscription_id: None, wishes };
    world.ask(a.conn, SessionRequest::Subscribe(Box::new(packet)));
    world.complete(1, |_| Err(StoreError::Busy));
    match &world.heard(a.conn)[..] {
        [SessionDelivery::Subscribed { results, .. }] => assert!(results[0].is_err()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn ones_own_retained_message_is_local_too() {
    let mut world = BrokerHarness::new(1);
    let (a, b) = (world.client(connect("a")), world.client(connect("b")));
    world.send(&a, 1, retained("t/mine", Qos::AtLeastOnce, "mine"));
    world.taken(&a);
    world.send(&b, 1, retained("t/yours", Qos::AtLeastOnce, "yours"));
    let own = SubscriptionOptions { no_local: true, ..wish("t/+", Qos::AtMostOnce) };
    world.subscribe_with(&a, vec![own], None);
    assert_eq!(world.payloads(&a), ["yours"]);
}

#[test]
fn an_exclusive_filter_that_is_none_is_refused() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    let wishes = vec![wish("$exclusive/", Qos::AtMostOnce)];
    assert_eq!(world.subscribe_with(&a, wishes, None), [Err(Denial::FilterInvalid)]);
    world.audit();
}

#[test]
fn nobody_speaks_as_the_server() {
    for topic in ["$delayed/1/$SYS/x", "$delayed/1/$share/g/x", "$delayed/1/$delayed/1/x"] {
        let mut world = BrokerHarness::new(1);
        let a = world.client(connect("a"));
        let answer = world.publish_at(&a, 1, message(topic, Qos::AtLeastOnce, "x"));
        assert_eq!(answer, Some(Err(Denial::TopicInvalid)), "{topic}");
    }
    for topic in ["$SYS/broker/uptime", "$share/g/x", "$delayed/1/x"] {
        let mut world = BrokerHarness::new(1);
        let refused = ConnectRequest { will: Some(will(topic, "w", 0)), ..connect("w") };
        assert_eq!(world.refused(refused), Denial::TopicInvalid, "{topic}");
        world.audit();
    }
}

#[test]
fn a_bridge_of_another_broker_says_whether_it_is_there() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    world.subscribe(&a, "$SYS/broker/connection/+/state", Qos::AtMostOnce);
    let state = will("$SYS/broker/connection/far/state", "0", 0);
    let bridge = world.client(ConnectRequest { will: Some(state), ..connect("bridge") });
    let here = message("$SYS/broker/connection/far/state", Qos::AtLeastOnce, "1");
    assert!(world.publish_at(&bridge, 1, here).is_some_and(|answer| answer.is_ok()));
    world.cut(&bridge);
    assert_eq!(world.payloads(&a), ["1", "0"]);
    world.audit();
}

#[test]
fn what_is_delayed_or_left_as_a_will_is_rewritten_like_everything_else() {
    let mut world = BrokerHarness::with(1, |settings| {
        let (filter, to) = ("old/+".into(), "new/$1".into());
        let rule = RewriteRule { filter, to, publish: true, subscribe: false };
        settings.rewrites = Some(Arc::new(Rewrites::new(vec![rule]).expect("a rule")));
    });
    let a = world.client(connect("a"));
    world.subscribe(&a, "new/+", Qos::AtMostOnce);
    let b = world.client(connect("b"));
    world.publish(&b, "$delayed/1/old/x", "late");
    world.pass_s(2);
    let c = world.client(ConnectRequest { will: Some(will("old/y", "will", 0)), ..connect("c") });
    world.cut(&c);
    assert_eq!(world.payloads(&a), ["late", "will"]);
}

#[test]
fn bodies_that_come_for_one_who_went_again_do_not_fill_the_memory() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    world.cut(&a);
    let b = world.client(connect("b"));
    for id in 1..=9 {
        world.send(&b, id, message("t", Qos::AtLeastOnce, &"x".repeat(10_000)));
    }
    assert!(world.status().queued_bytes < 10_000, "its bodies are in the log");
    world.keeps = false;
    let a = world.client(durable("a"));
    world.cut(&a);
    world.keeps = true;
    world.run();
    assert_eq!(world.status().queued, 9);
    assert!(world.status().queued_bytes < 10_000);
    let a = world.client(durable("a"));
    assert_eq!(world.payloads(&a).len(), 9);
    world.audit();
}

#[test]
fn a_release_is_answered_though_the_log_was_busy() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    world.send(&a, 7, message("t", Qos::ExactlyOnce, "x"));
    assert_eq!(world.taken(&a), Some((7, Ok(Routed::NoSubscriber))));
    world.keeps = false;
    world.release(&a, 7);
    world.complete(1, |_| Err(StoreError::Busy));
    assert_eq!(world.heard(a.conn), []);
    world.keeps = true;
    world.pass_s(2);
    let completed = SessionDelivery::Completed { id: 7, unknown: false };
    assert_eq!(world.heard(a.conn), [completed]);
    world.audit();
}

#[test]
fn what_was_on_its_way_to_a_member_that_left_the_group_goes_to_another() {
    let mut world = BrokerHarness::new(2);
    let names = [world.name_on(0, "m"), world.name_on(1, "m")];
    let members: Vec<_> = names.iter().map(|name| world.client(connect(name))).collect();
    let source = world.client(connect("source"));
    for member in &members {
        world.subscribe(member, "$share/g/t", Qos::AtLeastOnce);
    }
    world.carries = false;
    for id in 1..=4 {
        world.send(&source, id, message("t", Qos::AtLeastOnce, "x"));
    }
    // Whoever is not at home where the group is has two of them on their way.
    for member in &members {
        let (session, filters) = (member.session, vec!["$share/g/t".into()]);
        let packet = UnsubscribeRequest { session, id: 78, filters };
        let here =
            world.heard(member.conn).iter().any(|w| matches!(w, SessionDelivery::Publish(_)));
        if !here {
            world.ask(member.conn, SessionRequest::Unsubscribe(Box::new(packet)));
        }
    }
    world.carries = true;
    world.run();
    assert_eq!(world.dropped(Drop::NoMember), 0);
}

#[test]
fn a_retained_message_is_replaced_though_the_clock_went_back() {
    let mut world = BrokerHarness::new(2);
    let b = world.client(connect("b"));
    // Kept by a shard that is not the publisher's.
    let owner = |topic: &str| usize::from(home(HOME.of(&[b"mqtt-topic", topic.as_bytes()]), 2));
    let topics = (0..20).map(|n| format!("t/{n}"));
    let topics: Vec<String> = topics.filter(|topic| owner(topic) != world.home("b")).collect();
    for topic in &topics {
        world.send(&b, 1, retained(topic, Qos::AtLeastOnce, "old"));
    }
    world.now = Now::new(world.now.mono, world.now.wall_ms - 86_400_000);
    world.crash();
    let b = world.client(connect("b"));
    for topic in &topics {
        world.send(&b, 1, retained(topic, Qos::AtLeastOnce, "new"));
    }
    let a = world.client(connect("a"));
    world.subscribe(&a, "t/+", Qos::AtMostOnce);
    let mut all = Vec::new();
    for _ in 0..4 {
        all.extend(world.payloads(&a));
        world.ask(a.conn, SessionRequest::Ready { session: a.session });
    }
    assert_eq!(all, vec!["new"; topics.len()]);
}

/// User `half` may read what begins with `open/`, everybody else everything.
struct Half;

#[derive(Debug)]
struct OpenOnly;

impl Rules for OpenOnly {
    fn may(&self, _: &Who<'_>, _: Act, topic: &str) -> bool {
        topic.starts_with("open/")
    }

    fn reach(&self, _: &Who<'_>, _: &str) -> Reach {
        Reach::Partly
    }
}

impl Access for Half {
    fn admit(&self, _: u32, question: &Question) -> Admission {
        let rules: Option<Arc<dyn Rules>> = match question.user.as_deref() {
            Some("half") => Some(Arc::new(OpenOnly)),
            _ => None,
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

#[test]
fn what_a_member_was_not_given_does_not_fill_its_window() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        limits.topics.inflight_max = 2;
        (settings.access, settings.limits) = (access(Half), Arc::new(limits));
    });
    let a = world.client(ConnectRequest { user: Some("half".into()), ..connect("a") });
    let b = world.client(connect("b"));
    let source = world.client(connect("source"));
    for member in [&a, &b] {
        world.subscribe(member, "$share/g/#", Qos::AtLeastOnce);
    }
    let mut counts = [0, 0];
    for (topic, times) in [("shut/x", 8), ("open/x", 8)] {
        counts = [0, 0];
        for id in 1..=times {
            world.send(&source, id, message(topic, Qos::AtLeastOnce, "x"));
            for (member, count) in [&a, &b].into_iter().zip(&mut counts) {
                for outgoing in world.messages(member) {
                    *count += 1;
                    world.puback(member, outgoing.id);
                }
            }
        }
    }
    assert_eq!(counts, [4, 4]);
}
