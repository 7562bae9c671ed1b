//! Commands of the API.

use crate::harness::{BrokerHarness, connect, durable, message, retained, wish};
use model::ports::topics::{ClientFilter, TopicAnswer, TopicCommand};
use model::session::{Denial, SessionDelivery};
use model::topic::{Publication, Qos};
use std::sync::Arc;

#[test]
fn clients_and_their_subscriptions_are_told() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    let mut first = wish("t/#", Qos::AtLeastOnce);
    first.no_local = true;
    world.subscribe_with(&a, vec![first], Some(3));
    world.subscribe(&a, "$share/g/u", Qos::AtMostOnce);
    world.client(connect("b"));
    world.cut(&a);
    let source = world.client(connect("c"));
    world.send(&source, 1, message("t/1", Qos::AtLeastOnce, "x"));
    let TopicAnswer::Client(Some(state)) = world.command(0, TopicCommand::Client("a".into()))
    else {
        panic!("it is known")
    };
    assert_eq!((state.online, state.subscriptions, state.queued), (false, 2, 1));
    assert!(state.queued_bytes > 0 && state.peer.is_none() && state.reason.is_some());
    let TopicAnswer::Subscriptions(Some(all)) =
        world.command(0, TopicCommand::Subscriptions("a".into()))
    else {
        panic!("it is known")
    };
    let seen: Vec<_> =
        all.iter().map(|s| (&*s.wish.filter, s.granted, s.subscription_id)).collect();
    let expected = [("t/#", Qos::AtLeastOnce, Some(3)), ("$share/g/u", Qos::AtMostOnce, None)];
    assert_eq!(seen, expected);
    let flags = all.iter().map(|s| (s.wish.no_local, s.wish.retain_as_published));
    assert_eq!(flags.collect::<Vec<_>>(), [(true, false), (false, false)]);
    let mut names = Vec::new();
    let mut after = None;
    loop {
        let command = TopicCommand::Clients { of: ClientFilter::default(), after, count: 2 };
        let TopicAnswer::Clients { clients, next } = world.command(0, command) else {
            panic!("a page")
        };
        names.extend(clients.into_iter().map(|client| client.client_id));
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(names, ["a".into(), "b".into(), Box::<str>::from("c")]);
    assert_eq!(world.command(0, TopicCommand::Client("x".into())), TopicAnswer::Client(None));
}

#[test]
fn an_operator_publishes_subscribes_kicks_and_drops() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    let done = TopicAnswer::Done;
    let subscribe = |id: &str| TopicCommand::Subscribe(id.into(), wish("t", Qos::AtLeastOnce));
    assert_eq!(world.command(0, subscribe("a")), done(true));
    assert_eq!(world.command(0, subscribe("x")), done(false));
    let publish = |delay_s| {
        let message = Arc::new(message("t", Qos::AtLeastOnce, "x"));
        TopicCommand::Publish { message, delay_s }
    };
    let answer = world.command(0, publish(0));
    assert_eq!(answer, TopicAnswer::Published { matched: true });
    assert_eq!(world.payloads(&a), ["x"]);
    world.command(0, publish(10));
    world.pass_s(11);
    assert_eq!(world.payloads(&a), ["x"]);
    let node = &mut world.nodes[0];
    node.broker.publish(world.now, Publication::new("t", &[], b"own"), &mut node.fx);
    world.run();
    assert_eq!(world.payloads(&a), ["own"]);
    let unsubscribe = TopicCommand::Unsubscribe("a".into(), "t".into());
    assert_eq!(world.command(0, unsubscribe.clone()), done(true));
    assert_eq!(world.command(0, unsubscribe), done(false));
    assert_eq!(world.command(0, TopicCommand::Kick("a".into())), done(true));
    match &world.heard(a.conn)[..] {
        [SessionDelivery::End(denied)] => assert_eq!(denied.why, Denial::AdminKick),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.command(0, TopicCommand::Kick("a".into())), done(false));
    assert_eq!(world.command(0, TopicCommand::DropSession("a".into())), done(true));
    assert_eq!(world.command(0, TopicCommand::DropSession("a".into())), done(false));
    world.audit();
}

#[test]
fn retained_messages_are_listed_and_cleared() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(connect("a"));
    for n in 0..5 {
        world.send(&a, 0, retained(&format!("t/{n}"), Qos::AtMostOnce, "x"));
    }
    let page = |after: Option<&str>| TopicCommand::Retained {
        filter: "t/+".into(),
        after: after.map(Box::from),
        count: 3,
    };
    let TopicAnswer::Retained { messages, next } = world.command(0, page(None)) else {
        panic!("a page")
    };
    assert_eq!((messages.len(), next.as_deref()), (3, Some("t/2")));
    let TopicAnswer::Retained { messages, next } = world.command(0, page(next.as_deref())) else {
        panic!("a page")
    };
    assert_eq!((messages.len(), next), (2, None));
    let clear = || TopicCommand::ClearRetained("t/1".into());
    assert_eq!(world.command(0, clear()), TopicAnswer::Done(true));
    assert_eq!(world.command(0, clear()), TopicAnswer::Done(false));
    assert_eq!(world.status().retained, 4);
}
