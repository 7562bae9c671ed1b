//! Clients come, go, and take over.

use crate::harness::{BrokerHarness, access, connect, durable, limits, message, wish};
use model::close::CloseReason;
use model::counters::TopicCounter;
use model::limits::Limits;
use model::ports::access::{Access, Admission, Grant, Question, Who};
use model::ports::events::ClientWhat;
use model::service::Service;
use model::session::*;
use model::topic::Qos;
use std::sync::Arc;

#[test]
fn a_newer_connection_takes_over() {
    let mut world = BrokerHarness::new(1);
    let old = world.client(durable("a"));
    world.subscribe(&old, "t", Qos::AtLeastOnce);
    let new = world.client(durable("a"));
    assert!(new.connected.present);
    match &world.heard(old.conn)[..] {
        [SessionDelivery::End(denied)] => {
            assert_eq!((denied.why, denied.reason), (Denial::TakenOver, CloseReason::Replaced));
        }
        other => panic!("{other:?}"),
    }
    world.cut(&old);
    let c = world.client(connect("c"));
    world.send(&c, 1, message("t", Qos::AtLeastOnce, "x"));
    assert_eq!(world.payloads(&new), ["x"], "what the old connection says changes nothing");
    world.publish(&old, "t", "ghost");
    assert_eq!(world.payloads(&new), [""; 0]);
    world.audit();
}

#[test]
fn clean_start_discards_the_session_and_no_other_does() {
    let mut world = BrokerHarness::new(1);
    let first = world.client(durable("a"));
    assert!(!first.connected.present, "without a session a new one begins");
    world.subscribe(&first, "t", Qos::AtLeastOnce);
    world.cut(&first);
    let second = world.client(durable("a"));
    assert!(second.connected.present, "it goes on");
    world.cut(&second);
    let source = world.client(connect("source"));
    world.send(&source, 1, message("t", Qos::AtLeastOnce, "x"));
    let third = world.client(ConnectRequest { clean_start: true, ..durable("a") });
    assert!(!third.connected.present);
    assert_eq!(world.payloads(&third), [""; 0]);
    world.send(&source, 2, message("t", Qos::AtLeastOnce, "y"));
    assert_eq!(world.payloads(&third), [""; 0], "its subscriptions went too");
    assert_eq!(world.status().subscriptions, 0);
    assert_eq!(world.dropped(Drop::SessionEnded), 1);
    world.audit();
}

#[test]
fn a_session_without_expiry_ends_with_its_connection() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    world.cut(&a);
    assert_eq!((world.status().sessions, world.status().subscriptions), (0, 0));
    let again = world.client(ConnectRequest { clean_start: false, ..connect("a") });
    assert!(!again.connected.present);
    let third = world.client(ConnectRequest { clean_start: false, ..connect("a") });
    assert!(!third.connected.present, "nor does it survive a take-over");
    world.audit();
}

#[test]
fn a_session_lasts_as_long_as_its_expiry_and_as_its_connection() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(ConnectRequest { expiry_s: 10, ..durable("a") });
    world.pass_s(100);
    assert_eq!(world.status().sessions, 1, "it is not discarded while it is connected");
    world.cut(&a);
    world.pass_s(9);
    assert_eq!(world.status().sessions, 1);
    world.pass_s(2);
    assert_eq!(world.status().sessions, 0);
    assert_eq!(world.count(TopicCounter::SessionsExpired), 1);
    assert!(world.happened("a").contains(&ClientWhat::SessionEnded));
    assert!(!world.client(durable("a")).connected.present);
    world.audit();
}

#[test]
fn a_farewell_may_change_the_expiry_but_not_give_one() {
    let mut world = BrokerHarness::new(1);
    for (expiry_s, change, lasts) in [(60, Some(0), false), (60, None, true), (0, Some(60), false)]
    {
        let a = world.client(ConnectRequest { expiry_s, clean_start: true, ..durable("a") });
        let (session, with_will) = (a.session, false);
        world.ask(a.conn, SessionRequest::Leave { session, with_will, expiry_s: change });
        assert_eq!(world.status().sessions, u64::from(lasts), "{expiry_s} {change:?}");
        world.audit();
    }
}

#[test]
fn the_expiry_and_the_keep_alive_are_cut_and_told() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        (limits.topics.session_expiry_s_max, limits.topics.keep_alive_s_max) = (100, 30);
        settings.limits = Arc::new(limits);
    });
    let a = world.client(ConnectRequest { expiry_s: u32::MAX, keep_alive_s: 0, ..durable("a") });
    assert_eq!((a.connected.expiry_s, a.connected.keep_alive_s), (100, 30));
    let b = world.client(ConnectRequest { keep_alive_s: 10, ..durable("b") });
    assert_eq!(b.connected.keep_alive_s, 10);
}

#[test]
fn an_empty_identifier_is_replaced_by_a_new_one_at_home_here() {
    let mut world = BrokerHarness::new(3);
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let client = world.client(connect(""));
        let name = client.connected.assigned.clone().expect("a name was given");
        let (home, here) = (world.home(&name), usize::from(client.conn.shard().0));
        assert_eq!(home, here);
        assert!(names.insert(name));
    }
    let a = world.client(ConnectRequest { wants_response_information: true, ..connect("a") });
    assert_eq!(a.connected.assigned, None);
    assert!(a.connected.response_information.is_some_and(|prefix| prefix.contains('a')));
    let b = world.client(connect("b"));
    assert_eq!(b.connected.response_information, None);
}

#[test]
fn a_client_that_comes_too_often_is_answered_late_and_not_banned() {
    let mut world = BrokerHarness::new(1);
    for _ in 0..30 {
        let client = world.client(connect("a"));
        world.leave(&client);
    }
    for _ in 0..30 {
        let client = world.client(connect("a"));
        world.cut(&client);
    }
    assert_eq!(world.count(TopicCounter::SessionsDelayed), 0, "it takes nothing over");
    for _ in 0..11 {
        world.client(connect("a"));
    }
    let (conn, heard) = world.try_connect(connect("a"));
    assert_eq!(heard, [], "it has to wait");
    assert_eq!(world.count(TopicCounter::SessionsDelayed), 1);
    let (gone, _) = world.try_connect(connect("a"));
    world.ask(gone, SessionRequest::Gone);
    world.client(connect("b"));
    world.pass_ms(5_100);
    assert!(matches!(&world.heard(conn)[..], [SessionDelivery::Connected(_)]));
    assert_eq!(world.heard(gone), [], "who went is not answered");
    world.pass_s(10);
    world.client(connect("a"));
    world.audit();
}

#[test]
fn a_client_of_mqtt_5_is_told_a_longer_keep_alive_and_another_is_held_to_its_own() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        (limits.topics.keep_alive_s_min, limits.topics.keep_alive_jitter_percent) = (100, 20);
        settings.limits = Arc::new(limits);
    });
    let mut told: Vec<u16> = (0..50)
        .map(|n| world.client(ConnectRequest { keep_alive_s: 5, ..connect(&format!("c{n}")) }))
        .map(|client| client.connected.keep_alive_s)
        .collect();
    assert!(told.iter().all(|told_s| (100..=120).contains(told_s)));
    told.sort_unstable();
    told.dedup();
    assert!(told.len() > 10, "they are spread: {told:?}");
    let old = ConnectRequest { protocol: "mqtt311", keep_alive_s: 5, ..connect("old") };
    assert_eq!(world.client(old).connected.keep_alive_s, 5);
}

#[test]
fn who_cannot_show_that_it_is_the_client_does_not_delay_it() {
    let mut world = BrokerHarness::with(1, |settings| settings.access = access(Guarded));
    let user = |name: &str| ConnectRequest { user: Some(name.into()), ..durable("victim") };
    let victim = world.client(user("owner"));
    for _ in 0..50 {
        assert_eq!(world.refused(user("stranger")), Denial::BadCredentials);
        assert_eq!(world.refused(user("other")), Denial::NotAuthorized, "it is the owner's");
    }
    assert_eq!(world.heard(victim.conn), [], "it notices nothing");
    for _ in 0..10 {
        world.client(user("owner"));
    }
    assert_eq!(world.count(TopicCounter::SessionsDelayed), 0);
    let (_, heard) = world.try_connect(user("owner"));
    assert_eq!(heard, [], "its own are counted");
    world.audit();
}

#[test]
fn one_that_had_to_wait_is_looked_at_again() {
    let mut world = BrokerHarness::with(1, |settings| settings.access = access(Guarded));
    let user = |name: &str| ConnectRequest { user: Some(name.into()), ..connect("a") };
    let mut owner = world.client(user("owner"));
    for _ in 0..10 {
        owner = world.client(user("owner"));
    }
    let (conn, heard) = world.try_connect(user("owner"));
    assert_eq!(heard, [], "it has to wait");
    // Meanwhile the identifier has gone to somebody else.
    world.leave(&owner);
    let other = world.client(user("other"));
    world.pass_ms(5_100);
    assert!(matches!(&world.heard(conn)[..], [SessionDelivery::Refused(_)]));
    assert_eq!(world.heard(other.conn), []);
    world.audit();
}

/// Lets in everybody but strangers, under the name they bring.
struct Guarded;

impl Access for Guarded {
    fn admit(&self, _: u32, question: &Question) -> Admission {
        match question.user.as_deref() {
            Some("stranger") => Admission::Refused(Denial::BadCredentials),
            user => {
                let grant = Grant { user: user.map(Arc::from), ..Grant::OPEN };
                Admission::Granted(grant, None)
            }
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
fn the_pace_the_crowd_the_drain_and_the_number_of_sessions_have_their_answers() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = Limits { binds_per_s: 3, ..limits() };
        limits.topics.sessions_max = 2;
        settings.limits = Arc::new(limits);
    });
    assert_eq!(world.refused(ConnectRequest { crowded: true, ..connect("x") }), Denial::Full);
    let a = world.client(durable("a"));
    world.client(connect("b"));
    assert_eq!(world.refused(connect("c")), Denial::Full);
    assert_eq!(world.refused(connect("c")), Denial::Busy);
    world.pass_s(2);
    let new = world.client(durable("a"));
    assert!(new.connected.present, "who has a session needs no room");
    world.cut(&a);
    let now = world.now;
    world.nodes[0].broker.set_draining(now, true);
    assert_eq!(world.refused(connect("d")), Denial::ShuttingDown);
    world.nodes[0].broker.set_draining(now, false);
    assert_eq!(world.refused(connect("d")), Denial::Full, "it is judged as before");
    let long = "x".repeat(257);
    let mut world = BrokerHarness::new(1);
    assert_eq!(world.refused(connect(&long)), Denial::ClientIdInvalid);
    assert_eq!(world.count(TopicCounter::SessionsRefused), 1);
    assert_eq!(world.happened(&long).len(), 1);
}

#[test]
fn limits_that_change_hold_at_once_and_what_exceeds_them_stays() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        (limits.topics.sessions_max, limits.topics.retained_max) = (1, 1);
        settings.limits = Arc::new(limits);
    });
    let a = world.client(connect("a"));
    assert_eq!(world.refused(connect("b")), Denial::Full);
    let mut more = limits();
    (more.topics.sessions_max, more.topics.retained_max) = (2, 0);
    world.nodes[0].broker.configure(&Arc::new(more.clone()));
    world.client(connect("b"));
    world.send(&a, 0, crate::harness::retained("t", Qos::AtMostOnce, "x"));
    assert_eq!(world.status().retained, 0, "nothing is retained any more");
    more.topics.sessions_max = 1;
    world.nodes[0].broker.configure(&Arc::new(more));
    assert_eq!(world.refused(connect("c")), Denial::Full);
    assert_eq!(world.status().sessions, 2, "both stay");
}

#[test]
fn a_connection_that_went_before_the_answer_leaves_no_session_bound() {
    let mut world = BrokerHarness::new(1);
    world.keeps = false;
    let (conn, heard) = world.try_connect(durable("a"));
    assert_eq!(heard, [], "the row has to be written first");
    world.ask(conn, SessionRequest::Gone);
    world.complete(usize::MAX, |_| Ok(()));
    assert_eq!(world.heard(conn), []);
    world.complete(usize::MAX, |_| Ok(()));
    assert_eq!(world.status().sessions_online, 0);
    world.keeps = true;
    assert!(world.client(durable("a")).connected.present);
    world.audit();
}

#[test]
fn a_connection_that_cannot_be_told_that_it_is_connected_is_gone() {
    let mut world = BrokerHarness::new(1);
    let conn = world.conn("a");
    world.tell(conn, SessionRequest::Connect(Box::new(connect("a"))));
    let node = &mut world.nodes[0];
    let (_, delivery) = node.fx.deliveries.pop().expect("an answer");
    node.broker.undelivered(world.now, conn, delivery, &mut node.fx);
    assert_eq!(world.status().sessions, 0);
    world.audit();
}

#[test]
fn a_session_may_begin_to_outlive_its_connections() {
    let mut world = BrokerHarness::new(2);
    let name = world.name_on(1, "late");
    let a = world.client(durable(&name));
    world.subscribe_with(&a, vec![wish("t/#", Qos::AtLeastOnce)], Some(7));
    // It goes on without an expiry, and is as safe as it was until it ends.
    let b = world.client(ConnectRequest { expiry_s: 0, clean_start: false, ..connect(&name) });
    assert!(b.connected.present);
    let c = world.client(durable(&name));
    assert!(!c.connected.present, "the session without expiry ended with its connection");
    world.audit();
    world.crash();
    let d = world.client(durable(&name));
    assert!(d.connected.present);
    world.audit();
}

#[test]
fn events_tell_what_happened_to_a_client() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    world.subscribe(&a, "t", Qos::AtMostOnce);
    assert_eq!(world.unsubscribe(&a, "t"), Ok(true));
    world.leave(&a);
    let happened = world.happened("a");
    let names: Vec<_> = happened.iter().map(|what| what.name()).collect();
    assert_eq!(
        names,
        [
            "client_connected",
            "client_subscribed",
            "client_unsubscribed",
            "client_disconnected",
            "session_ended"
        ]
    );
}

#[test]
fn a_shorter_expiry_holds_though_a_longer_one_was_timed_before() {
    let mut world = BrokerHarness::new(1);
    let first = world.client(ConnectRequest { expiry_s: 50_000, ..durable("a") });
    world.cut(&first);
    let second = world.client(ConnectRequest { expiry_s: 60, ..durable("a") });
    world.cut(&second);
    world.pass_s(61);
    assert_eq!(world.status().sessions, 0);
    world.pass_s(100_000);
    world.audit();
}
