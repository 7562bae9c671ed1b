//! Standing interests, and retained messages for them.

use crate::harness::{BrokerHarness, connect, durable, limits, message, payload, wish};
use broker::rewrite::{AutoSubscribe, AutoSubscribes, RewriteRule, Rewrites};
use model::counters::TopicCounter;
use model::ports::log::{Call, StoreError, Table, Write};
use model::session::*;
use model::topic::{Publication, Qos, RetainHandling, SubscriptionOptions};
use std::sync::Arc;

fn retained(topic: &str, qos: Qos, payload: &str) -> Publication {
    let mut message = message(topic, qos, payload);
    message.retain = true;
    message
}

#[test]
fn each_filter_of_a_packet_is_answered_alone() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        limits.topics.subscriptions_a_session_max = 2;
        settings.limits = Arc::new(limits);
    });
    let a = world.client(connect("a"));
    let filters = ["x", "y/#", "x", "z", "$share/g/t", "$share/g"];
    let wishes = filters.iter().map(|filter| wish(filter, Qos::AtLeastOnce)).collect();
    let results = world.subscribe_with(&a, wishes, None);
    let (granted, full) = (Ok(Qos::AtLeastOnce), Err(Denial::Quota));
    let wrong = Err(Denial::FilterInvalid);
    assert_eq!(results, [granted, granted, granted, full, full, wrong]);
    assert_eq!(world.count(TopicCounter::SubscribesRefused), 3);
    world.audit();
}

#[test]
fn the_same_filter_replaces_the_subscription() {
    for make in [connect, durable] {
        let mut world = BrokerHarness::new(1);
        let a = world.client(make("a"));
        world.send(&a, 0, retained("t", Qos::AtMostOnce, "kept"));
        world.subscribe_with(&a, vec![wish("t", Qos::ExactlyOnce)], Some(4));
        assert_eq!(world.payloads(&a), ["kept"]);
        world.subscribe_with(&a, vec![wish("t", Qos::AtMostOnce)], Some(5));
        assert_eq!(world.payloads(&a), ["kept"], "retained messages come again");
        world.send(&a, 0, message("t", Qos::AtMostOnce, "x"));
        let messages = world.messages(&a);
        assert_eq!((messages.len(), messages[0].qos), (1, Qos::AtMostOnce));
        assert_eq!(messages[0].subscription_ids.as_deref(), Some(&[5][..]));
        assert_eq!(world.status().subscriptions, 1);
        world.subscribe_with(&a, vec![wish("t", Qos::AtMostOnce)], None);
        world.messages(&a);
        world.send(&a, 0, message("t", Qos::AtMostOnce, "x"));
        assert_eq!(world.messages(&a)[0].subscription_ids, None);
        world.audit();
    }
}

#[test]
fn a_delivery_has_the_lower_of_both_qos() {
    let mut world = BrokerHarness::new(2);
    let all = [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce];
    for granted in all {
        for sent in all {
            let name = format!("c{}{}", granted as u8, sent as u8);
            let (a, b) = (world.client(connect(&name)), world.client(connect("pub")));
            world.subscribe(&a, "t", granted);
            world.send(&b, 1, message("t", sent, "x"));
            assert_eq!(world.messages(&a)[0].qos, granted.min(sent));
            world.leave(&a);
        }
    }
}

#[test]
fn filters_are_compared_character_by_character_and_nothing_new_comes_for_a_deleted_one() {
    for make in [connect, durable] {
        let mut world = BrokerHarness::new(1);
        let a = world.client(ConnectRequest { receive_max: 1, ..make("a") });
        world.subscribe(&a, "t/+", Qos::AtLeastOnce);
        let b = world.client(connect("b"));
        world.send(&b, 1, message("t/1", Qos::AtLeastOnce, "1"));
        world.send(&b, 2, message("t/1", Qos::AtLeastOnce, "2"));
        assert_eq!(world.unsubscribe(&a, "t/1"), Ok(false));
        assert_eq!(world.unsubscribe(&a, "t/+"), Ok(true));
        assert_eq!(world.unsubscribe(&a, "t/+"), Ok(false));
        world.send(&b, 3, message("t/1", Qos::AtLeastOnce, "3"));
        let first = world.messages(&a);
        world.puback(&a, first[0].id);
        assert_eq!((payload(&first[0]), world.payloads(&a)), ("1".into(), vec!["2".into()]));
        assert_eq!(world.status().subscriptions, 0);
        world.audit();
    }
}

#[test]
fn no_local_keeps_ones_own_messages_away() {
    let mut world = BrokerHarness::new(1);
    let (a, b) = (world.client(connect("a")), world.client(connect("b")));
    let own = SubscriptionOptions { no_local: true, ..wish("t", Qos::AtMostOnce) };
    world.subscribe_with(&a, vec![own], None);
    world.publish(&a, "t", "mine");
    world.publish(&b, "t", "yours");
    assert_eq!(world.payloads(&a), ["yours"]);
    let bridge =
        world.client(ConnectRequest { is_bridge: true, protocol: "mqtt311", ..connect("br") });
    world.subscribe(&bridge, "t", Qos::AtMostOnce);
    world.publish(&bridge, "t", "mine");
    world.send(&b, 0, retained("t", Qos::AtMostOnce, "kept"));
    let messages = world.messages(&bridge);
    assert_eq!((messages.len(), messages[0].retain), (1, true), "a bridge gets flags as published");
}

#[test]
fn retain_handling_says_when_retained_messages_come() {
    for shards in [1, 3] {
        let mut world = BrokerHarness::new(shards);
        let b = world.client(connect("b"));
        world.send(&b, 1, retained("t/1", Qos::AtLeastOnce, "kept"));
        let a = world.client(connect("a"));
        for (handling, times) in [
            (RetainHandling::DoNotSend, 0),
            (RetainHandling::SendIfNew, 0),
            (RetainHandling::Send, 1),
            (RetainHandling::Send, 1),
        ] {
            let wish =
                SubscriptionOptions { retain_handling: handling, ..wish("t/+", Qos::AtMostOnce) };
            world.subscribe_with(&a, vec![wish], None);
            let messages = world.messages(&a);
            assert_eq!(messages.len(), times, "{handling:?}");
            assert!(messages.iter().all(|outgoing| outgoing.retain), "RETAIN is set");
        }
        world.unsubscribe(&a, "t/+").expect("done");
        let new = SubscriptionOptions {
            retain_handling: RetainHandling::SendIfNew,
            ..wish("t/+", Qos::AtMostOnce)
        };
        world.subscribe_with(&a, vec![new], None);
        assert_eq!(world.payloads(&a), ["kept"], "it did not exist");
        let share = world.subscribe_with(&a, vec![wish("$share/g/t/+", Qos::AtMostOnce)], None);
        assert_eq!((share, world.payloads(&a)), (vec![Ok(Qos::AtMostOnce)], vec![]), "MQTT5 4.8.2");
    }
}

#[test]
fn the_retain_flag_goes_unless_it_is_wanted() {
    let mut world = BrokerHarness::new(1);
    let (a, b) = (world.client(connect("a")), world.client(connect("b")));
    let as_published =
        SubscriptionOptions { retain_as_published: true, ..wish("t", Qos::AtMostOnce) };
    world.subscribe_with(&a, vec![as_published], None);
    world.subscribe(&b, "t", Qos::AtMostOnce);
    world.send(&b, 0, retained("t", Qos::AtMostOnce, "x"));
    assert!(world.messages(&a)[0].retain);
    assert!(!world.messages(&b)[0].retain, "not on what is sent for an old subscription");
}

#[test]
fn the_last_retained_message_stands_until_an_empty_one_clears_it() {
    let mut world = BrokerHarness::new(3);
    let (a, watch) = (world.client(connect("a")), world.client(connect("watch")));
    let see = |world: &mut BrokerHarness| {
        world.subscribe(&watch, "t", Qos::AtMostOnce);
        world.payloads(&watch)
    };
    world.send(&a, 0, retained("t", Qos::AtMostOnce, "one"));
    world.send(&a, 0, message("t", Qos::AtMostOnce, "loose"));
    assert_eq!(see(&mut world), ["one"], "without RETAIN nothing changes");
    world.send(&a, 2, retained("t", Qos::AtLeastOnce, "two"));
    world.messages(&watch);
    world.crash();
    let watch = world.client(connect("watch"));
    world.subscribe(&watch, "t", Qos::AtMostOnce);
    assert_eq!(world.payloads(&watch), ["two"], "and it outlives the process");
    let a = world.client(connect("a"));
    world.send(&a, 0, retained("t", Qos::AtMostOnce, ""));
    assert_eq!(world.payloads(&watch), [""], "subscribers are told");
    world.subscribe(&watch, "t", Qos::AtMostOnce);
    assert_eq!(world.payloads(&watch), [""; 0], "and it is not stored");
    assert_eq!((world.status().retained, world.count(TopicCounter::RetainedCleared)), (0, 1));
}

#[test]
fn retained_messages_expire_and_have_a_limit() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        (limits.topics.retained_max, limits.topics.retained_expiry_s_max) = (2, 50);
        settings.limits = Arc::new(limits);
    });
    let a = world.client(connect("a"));
    for n in 1..=3 {
        let mut message = retained(&format!("t/{n}"), Qos::AtLeastOnce, "x");
        message.expire_at = if n == 1 { world.now.unix_s() + 10 } else { 0 };
        let answer = world.publish_at(&a, n, message);
        let expected = if n == 3 { Err(Denial::Quota) } else { Ok(Routed::NoSubscriber) };
        assert_eq!(answer, Some(expected), "its publisher is told");
    }
    world.pass_s(20);
    world.subscribe(&a, "#", Qos::AtMostOnce);
    assert_eq!(world.messages(&a).len(), 1);
    world.pass_s(40);
    assert_eq!(world.status().retained, 0, "the server's own limit");
    assert_eq!(world.count(TopicCounter::RetainedRefused), 1);
}

#[test]
fn a_live_message_is_not_followed_by_an_older_retained_one() {
    let mut world = BrokerHarness::new(2);
    let topic = "news";
    let owner = base::hash::home(crate::harness::HOME.of(&[b"mqtt-topic", topic.as_bytes()]), 2);
    let other = 1 - usize::from(owner);
    let (name, source) = (world.name_on(other, "w"), world.name_on(other, "s"));
    let (watch, source) = (world.client(connect(&name)), world.client(connect(&source)));
    world.send(&source, 0, retained(topic, Qos::AtMostOnce, "old"));
    world.carries = false;
    world.subscribe(&watch, topic, Qos::AtMostOnce);
    world.send(&source, 0, retained(topic, Qos::AtMostOnce, "new"));
    assert_eq!(world.payloads(&watch), ["new"]);
    world.carries = true;
    world.run();
    assert_eq!(world.payloads(&watch), [""; 0]);
}

#[test]
fn exclusive_filters_have_one_holder() {
    let mut world = BrokerHarness::new(2);
    let (a, b) = (world.client(connect("a")), world.client(durable("b")));
    let exclusive = || vec![wish("$exclusive/t", Qos::AtLeastOnce)];
    assert_eq!(world.subscribe_with(&b, exclusive(), None), [Ok(Qos::AtLeastOnce)]);
    assert_eq!(world.subscribe_with(&b, exclusive(), None), [Ok(Qos::AtLeastOnce)]);
    assert_eq!(world.subscribe_with(&a, exclusive(), None), [Err(Denial::Quota)]);
    world.cut(&b);
    world.crash();
    let a = world.client(connect("a"));
    assert_eq!(world.subscribe_with(&a, exclusive(), None), [Err(Denial::Quota)]);
    let b = world.client(durable("b"));
    assert_eq!(world.unsubscribe(&b, "$exclusive/t"), Ok(true));
    assert_eq!(world.subscribe_with(&a, exclusive(), None), [Ok(Qos::AtLeastOnce)]);
    world.send(&b, 1, message("t", Qos::AtLeastOnce, "x"));
    assert_eq!(world.payloads(&a), ["x"]);
    world.audit();
}

#[test]
fn a_subscription_that_the_log_refuses_is_not_granted() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    world.keeps = false;
    let packet = SubscribeRequest {
        session: a.session,
        id: 7,
        subscription_id: None,
        wishes: vec![wish("x", Qos::AtLeastOnce), wish("y", Qos::AtLeastOnce)],
    };
    world.ask(a.conn, SessionRequest::Subscribe(Box::new(packet)));
    assert_eq!(world.heard(a.conn), [], "not before it is on stable storage");
    world.complete(usize::MAX, |call| match call {
        Call::Write(Write::Put { table: Table::Subscriptions, value, .. })
            if value.ends_with(b"y") =>
        {
            Err(StoreError::Full)
        }
        _ => Ok(()),
    });
    let results = [Ok(Qos::AtLeastOnce), Err(Denial::StoreFull)].into();
    assert_eq!(world.heard(a.conn), [SessionDelivery::Subscribed { id: 7, results }]);
    world.keeps = true;
    world.run();
    assert_eq!(world.status().subscriptions, 1);
    world.crash();
    assert_eq!(world.status().subscriptions, 1);
    world.audit();
}

#[test]
fn topics_are_rewritten_and_new_sessions_subscribed() {
    let mut world = BrokerHarness::with(1, |settings| {
        let (filter, to) = ("old/+".into(), "new/$1".into());
        let rule = RewriteRule { filter, to, publish: true, subscribe: true };
        settings.rewrites = Some(Arc::new(Rewrites::new(vec![rule]).expect("a rule")));
        let auto = AutoSubscribe {
            filter: "inbox/%c".into(),
            qos: Qos::AtLeastOnce,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::Send,
        };
        let auto = AutoSubscribes::new(vec![auto]).expect("a filter");
        settings.auto_subscribes = Some(Arc::new(auto));
    });
    let (a, b) = (world.client(connect("a")), world.client(connect("b")));
    world.subscribe(&a, "new/x", Qos::AtMostOnce);
    world.publish(&b, "old/x", "renamed");
    world.publish(&b, "inbox/a", "to a");
    let heard: Vec<_> = world.messages(&a);
    let seen: Vec<_> = heard.iter().map(|o| (o.message.topic(), payload(o))).collect();
    assert_eq!(seen, [("new/x", "renamed".into()), ("inbox/a", "to a".to_string())]);
    world.subscribe(&b, "old/y", Qos::AtMostOnce);
    assert_eq!(world.unsubscribe(&b, "old/y"), Ok(true));
}

#[test]
fn filters_with_ones_own_name_are_held_once_for_all() {
    for shards in [1, 3] {
        let mut world = BrokerHarness::new(shards);
        let names: Vec<String> = (0..20).map(|n| format!("d{n}")).collect();
        let clients: Vec<_> = names.iter().map(|name| world.client(durable(name))).collect();
        for (name, client) in names.iter().zip(&clients) {
            world.subscribe(client, &format!("dev/{name}/in"), Qos::AtMostOnce);
            let again = vec![wish(&format!("dev/{name}/in"), Qos::AtLeastOnce)];
            world.subscribe_with(client, again, Some(8));
        }
        assert_eq!(world.status().subscriptions, 20);
        world.crash();
        let clients: Vec<_> = names.iter().map(|name| world.client(durable(name))).collect();
        let source = world.client(connect("source"));
        for name in &names {
            let topic = format!("dev/{name}/in");
            let answer = world.publish_at(&source, 1, message(&topic, Qos::ExactlyOnce, name));
            assert_eq!(answer, Some(Ok(Routed::Matched)));
            world.release(&source, 1);
            world.heard(source.conn);
        }
        for (name, client) in names.iter().zip(&clients) {
            let messages = world.messages(client);
            assert_eq!((messages.len(), &payload(&messages[0])), (1, name));
            assert_eq!(messages[0].subscription_ids.as_deref(), Some(&[8][..]));
            assert_eq!(world.unsubscribe(client, &format!("dev/{name}/in")), Ok(true));
            assert_eq!(world.unsubscribe(client, &format!("dev/{name}/in")), Ok(false));
        }
        let answer = world.publish_at(&source, 2, message("dev/d1/in", Qos::AtLeastOnce, "x"));
        assert_eq!(answer, Some(Ok(Routed::NoSubscriber)));
        assert_eq!(world.status().subscriptions, 0);
        world.audit();
    }
}

#[test]
fn the_name_of_a_shared_subscription_has_a_limit() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        limits.topics.share_name_bytes_max = 4;
        limits.topics.topic_bytes_max = 6;
        settings.limits = std::sync::Arc::new(limits);
    });
    let a = world.client(connect("a"));
    let ask = |filter: &str| wish(filter, Qos::AtLeastOnce);
    let wishes = ["$share/four/t", "$share/fifth/t", "$share/g/sixsix", "$share/g/seventy"];
    let answers = world.subscribe_with(&a, wishes.map(ask).to_vec(), None);
    let (good, bad) = (Ok(Qos::AtLeastOnce), Err(Denial::FilterInvalid));
    assert_eq!(answers, [good, bad, good, bad], "each by itself");
}

#[test]
fn shared_subscriptions_count_as_others_do() {
    let mut world = BrokerHarness::with(1, |settings| {
        let mut limits = limits();
        limits.topics.subscriptions_max = 3;
        settings.limits = std::sync::Arc::new(limits);
    });
    let (a, b) = (world.client(durable("a")), world.client(connect("b")));
    let wishes = |filters: &[&str]| -> Vec<_> {
        filters.iter().map(|filter| wish(filter, Qos::AtLeastOnce)).collect()
    };
    let (good, full) = (Ok(Qos::AtLeastOnce), Err(Denial::Quota));
    assert_eq!(world.subscribe_with(&a, wishes(&["$share/g/t", "t"]), None), [good, good]);
    assert_eq!(world.subscribe_with(&b, wishes(&["$share/g/t", "t"]), None), [good, full]);
    assert_eq!(world.subscribe_with(&b, wishes(&["$share/g/t", "$share/h/t"]), None), [good, full]);
    world.leave(&b);
    world.crash();
    let b = world.client(connect("b"));
    assert_eq!(world.subscribe_with(&b, wishes(&["$share/g/t", "t"]), None), [good, full]);
    assert_eq!(world.unsubscribe(&b, "$share/g/t"), Ok(true));
    assert_eq!(world.subscribe_with(&b, wishes(&["t"]), None), [good]);
}
