//! Wills.

use crate::harness::{BrokerHarness, connect, durable, limits, payload, will};
use model::counters::TopicCounter;
use model::session::*;
use model::topic::{Publication, Qos};
use std::sync::Arc;

fn with_will(id: &str, delay_s: u32) -> ConnectRequest {
    ConnectRequest { will: Some(will("gone", id, delay_s)), ..durable(id) }
}

#[test]
fn a_will_is_published_unless_a_farewell_came() {
    let mut world = BrokerHarness::new(2);
    let watch = world.client(connect("watch"));
    world.subscribe(&watch, "gone", Qos::AtLeastOnce);
    for (id, cut) in [("x", true), ("y", false)] {
        let client = world.client(ConnectRequest { expiry_s: 0, ..with_will(id, 0) });
        if cut { world.cut(&client) } else { world.leave(&client) }
    }
    let plain = world.client(connect("plain"));
    world.cut(&plain);
    assert_eq!(world.payloads(&watch), ["x"], "and none without one");
    let z = world.client(with_will("z", 0));
    let (session, with_will) = (z.session, true);
    world.ask(z.conn, SessionRequest::Leave { session, with_will, expiry_s: None });
    assert_eq!(world.payloads(&watch), ["z"], "DISCONNECT with will");
    world.client(durable("z"));
    world.pass_s(10_000);
    assert_eq!(world.payloads(&watch), [""; 0], "once");
    world.crash();
    let watch = world.client(connect("watch"));
    world.subscribe(&watch, "gone", Qos::AtLeastOnce);
    world.pass_s(10_000);
    assert_eq!(world.payloads(&watch), [""; 0], "and its row is gone");
    world.audit();
}

#[test]
fn a_will_waits_for_its_delay_or_the_end_of_the_session_and_a_return_discards_it() {
    let mut world = BrokerHarness::new(1);
    let watch = world.client(connect("watch"));
    world.subscribe(&watch, "gone", Qos::AtMostOnce);
    let a = world.client(with_will("a", 100));
    world.cut(&a);
    world.pass_s(99);
    assert_eq!(world.payloads(&watch), [""; 0]);
    world.pass_s(2);
    assert_eq!(world.payloads(&watch), ["a"]);
    let b = world.client(with_will("b", 100));
    world.cut(&b);
    world.pass_s(50);
    let back = world.client(durable("b"));
    world.pass_s(200);
    assert_eq!(world.payloads(&watch), [""; 0], "it came back in time");
    world.leave(&back);
    let c = world.client(ConnectRequest { expiry_s: 10, ..with_will("c", 100) });
    world.cut(&c);
    world.pass_s(11);
    assert_eq!(world.payloads(&watch), ["c"], "its session ended first");
    let d = world.client(with_will("d", 100));
    world.cut(&d);
    world.client(ConnectRequest { clean_start: true, ..durable("d") });
    assert_eq!(world.payloads(&watch), ["d"], "a clean start ends the session");
    let old = world.client(with_will("e", 0));
    let new = world.client(with_will("e", 0));
    assert_eq!(world.payloads(&watch), ["e"], "the old connection's own will");
    world.cut(&old);
    assert_eq!(world.payloads(&watch), [""; 0]);
    world.cut(&new);
    assert_eq!(world.payloads(&watch), ["e"]);
    world.audit();
}

#[test]
fn a_will_outlives_a_crash_with_its_delay() {
    let mut world = BrokerHarness::new(2);
    world.client(ConnectRequest { expiry_s: 0, ..with_will("clean", 0) });
    world.client(with_will("kept", 100));
    let keeper = world.client(durable("keeper"));
    world.subscribe(&keeper, "gone", Qos::AtLeastOnce);
    world.crash();
    let keeper = world.client(durable("keeper"));
    let messages = world.messages(&keeper);
    assert_eq!(messages.iter().map(payload).collect::<Vec<_>>(), ["clean"]);
    world.puback(&keeper, messages[0].id);
    world.pass_s(101);
    assert_eq!(world.payloads(&keeper), ["kept"]);
    world.audit();
}

#[test]
fn a_will_is_retained_if_it_says_so_and_expires_from_its_publication() {
    let mut world = BrokerHarness::new(1);
    let mut message = Publication::new("gone", &[38, 0, 1, b'k', 0, 1, b'v'], b"x");
    message.retain = true;
    let will = Will { message: Arc::new(message), delay_s: 0, expiry_s: 30 };
    for (id, retain) in [("a", true), ("b", false)] {
        let mut will = will.clone();
        Arc::make_mut(&mut will.message).retain = retain;
        let client = world.client(ConnectRequest { will: Some(will), ..connect(id) });
        world.pass_s(if retain { 100 } else { 1 });
        world.cut(&client);
        assert_eq!(world.status().retained, 1, "{id}");
    }
    let watch = world.client(connect("watch"));
    world.subscribe(&watch, "gone", Qos::AtMostOnce);
    let first = &world.messages(&watch)[0];
    assert_eq!(first.message.properties(), [38, 0, 1, b'k', 0, 1, b'v'], "properties stay");
    world.pass_s(31);
    assert_eq!(world.status().retained, 0);
}

#[test]
fn a_storm_of_wills_is_spread_over_turns() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        limits.topics.wills_a_turn_max = 10;
        settings.limits = Arc::new(limits);
    });
    let watch = world.client(connect("watch"));
    world.subscribe(&watch, "gone", Qos::AtMostOnce);
    let clients: Vec<_> = (0..1_000).map(|n| world.client(with_will(&n.to_string(), 0))).collect();
    for client in &clients {
        let (session, reason) = (client.session, model::close::CloseReason::PeerReset);
        world.tell(client.conn, SessionRequest::Closed { session, reason });
    }
    let published = world.count(TopicCounter::WillsPublished);
    assert!(published <= 10, "{published} in one turn");
    world.run();
    assert_eq!(
        (world.count(TopicCounter::WillsPublished), world.messages(&watch).len()),
        (1_000, 1_000)
    );
    world.audit();
}
