//! Cases that the crash harness found: a kill, or a reconnect, between two writes that belong
//! together.

use crate::harness::{BrokerHarness, connect, durable, limits, message, payload, will};
use model::ports::log::{Call, StoreError, Write};
use model::session::*;
use model::timeline::Space;
use model::topic::Qos;
use std::sync::Arc;

#[test]
fn a_release_said_again_after_a_reconnect_is_completed_once() {
    let done = |unknown| SessionDelivery::Completed { id: 7, unknown };
    for answered_between in [false, true] {
        let mut world = BrokerHarness::new(1);
        let a = world.client(durable("a"));
        world.send(&a, 7, message("t", Qos::ExactlyOnce, "x"));
        world.keeps = false;
        world.release(&a, 7);
        world.cut(&a);
        let a = world.client(durable("a"));
        if answered_between {
            world.keeps = true;
            world.run();
            assert_eq!(world.heard(a.conn), [], "it has not asked over this connection");
        }
        world.release(&a, 7);
        world.keeps = true;
        world.run();
        assert_eq!(world.heard(a.conn), [done(answered_between)]);
        world.audit();
    }
}

#[test]
fn a_mark_that_is_written_behind_a_release_does_not_take_the_next_message() {
    for reconnects in 1..4 {
        let mut world = BrokerHarness::new(1);
        let receiver = world.client(durable("receiver"));
        world.subscribe(&receiver, "t", Qos::ExactlyOnce);
        world.cut(&receiver);
        let mut a = world.client(durable("a"));
        world.send(&a, 7, message("t", Qos::ExactlyOnce, "x"));
        assert!(matches!(world.taken(&a), Some((7, Ok(_)))));
        // The client goes, and the log is asked to remember that all receivers have the message;
        // the client comes back, and releases it before the log has answered.
        world.keeps = false;
        for _ in 0..reconnects {
            world.cut(&a);
            a = world.client(durable("a"));
        }
        world.release(&a, 7);
        let done = SessionDelivery::Completed { id: 7, unknown: false };
        let mut heard = world.heard(a.conn);
        while !heard.contains(&done) {
            assert!(world.complete_one(0), "the release is answered");
            heard = world.heard(a.conn);
        }
        world.crash();
        world.keeps = true;
        let a = world.client(durable("a"));
        world.send(&a, 7, message("t", Qos::ExactlyOnce, "y"));
        assert!(matches!(world.taken(&a), Some((7, Ok(_)))), "{reconnects}");
        let receiver = world.client(durable("receiver"));
        assert_eq!(world.payloads(&receiver), ["x", "y"], "{reconnects}");
        world.audit();
    }
}

#[test]
fn an_exchange_that_was_refused_halfway_takes_no_message_of_its_session_along() {
    let (mut world, source, _) = far_receiver();
    let a = world.client(durable(&source));
    world.subscribe(&a, "own", Qos::AtLeastOnce);
    world.keeps = false;
    world.send(&a, 7, message("t", Qos::ExactlyOnce, "x"));
    // The mark is written, and the receiver's log is full.
    let is_mark = |call: &Call| match call {
        Call::Write(Write::Append(append)) => {
            append.to.iter().any(|to| to.space() == Space::Exchanges)
        }
        _ => false,
    };
    for _ in 0..3 {
        world.complete(99, |call| if is_mark(call) { Ok(()) } else { Err(StoreError::Full) });
    }
    world.keeps = true;
    assert_eq!(world.taken(&a), Some((7, Err(Denial::StoreFull))));
    // A message that waits for the publisher has the place in its timeline that the mark has in
    // another one.
    world.send(&a, 8, message("own", Qos::AtLeastOnce, "kept"));
    world.send(&a, 7, message("t", Qos::ExactlyOnce, "y"));
    world.run();
    world.crash();
    let a = world.client(durable(&source));
    assert_eq!(world.payloads(&a), ["kept"]);
    world.audit();
}

#[test]
fn what_a_member_gives_back_stands_in_the_log_until_another_has_it() {
    let mut world = BrokerHarness::new(2);
    let (a, b) = (world.name_on(0, "a"), world.name_on(1, "b"));
    let (a, b) = (world.client(durable(&a)), world.client(durable(&b)));
    for client in [&a, &b] {
        world.subscribe(client, "$share/g/t", Qos::AtLeastOnce);
    }
    let source = world.client(connect("source"));
    for n in 1..=4 {
        world.send(&source, n, message("t", Qos::AtLeastOnce, &n.to_string()));
    }
    let mut sent = (world.payloads(&a), world.payloads(&b));
    assert_eq!((sent.0.len(), sent.1.len()), (2, 2));
    world.carries = false;
    world.cut(&a);
    world.cut(&b);
    world.crash();
    world.carries = true;
    world.run();
    let names = [world.name_on(0, "a"), world.name_on(1, "b")];
    let [a, b] = names.map(|name| world.client(durable(&name)));
    let mut all = [world.payloads(&a), world.payloads(&b)].concat();
    all.sort_unstable();
    sent.0.append(&mut sent.1);
    sent.0.sort_unstable();
    all.dedup();
    assert_eq!(all, sent.0, "nothing is lost");
    world.audit();
}

#[test]
fn a_message_of_qos_2_reaches_a_group_though_its_peer_message_was_lost() {
    let mut world = BrokerHarness::new(2);
    // The publisher's shard owns the group and has a session of its own; the member is elsewhere.
    let names: Vec<_> = (0..2).map(|shard| world.name_on(shard, "own")).collect();
    let members: Vec<_> = (0..2).map(|shard| world.name_on(1 - shard, "member")).collect();
    for shard in 0..2 {
        let own = world.client(durable(&names[shard]));
        world.subscribe(&own, &format!("t/{shard}"), Qos::ExactlyOnce);
        let member = world.client(durable(&members[shard]));
        for group in 0..8 {
            let filter = format!("$share/{group}/t/{shard}");
            world.subscribe(&member, &filter, Qos::ExactlyOnce);
        }
        world.cut(&own);
        world.cut(&member);
    }
    for shard in 0..2 {
        let source = world.name_on(shard, "source");
        let client = world.client(durable(&source));
        world.carries = false;
        let topic = format!("t/{shard}");
        world.send(&client, 1, message(&topic, Qos::ExactlyOnce, "x"));
        world.crash();
        world.carries = true;
        world.run();
        let client = world.client(durable(&source));
        let session = client.session;
        let message = Arc::new(message(&topic, Qos::ExactlyOnce, "x"));
        let word = SessionRequest::Publish { session, id: 1, again: true, message };
        world.ask(client.conn, word);
        assert!(matches!(world.taken(&client), Some((1, Ok(_)))));
        let member = world.client(durable(&members[shard]));
        assert_eq!(world.payloads(&member).len(), 8, "each group has it");
        let own = world.client(durable(&names[shard]));
        assert_eq!(world.payloads(&own), ["x"], "and a session has it once");
    }
    world.audit();
}

/// A publisher of shard 0, and a receiver of shard 1 that is away.
fn far_receiver() -> (BrokerHarness, String, String) {
    let mut world = BrokerHarness::new(2);
    let (source, receiver) = (world.name_on(0, "source"), world.name_on(1, "receiver"));
    let client = world.client(durable(&receiver));
    world.subscribe(&client, "t", Qos::ExactlyOnce);
    world.cut(&client);
    (world, source, receiver)
}

#[test]
fn a_message_of_qos_2_that_was_taken_is_known_again_whatever_others_publish() {
    // The publisher does not hear that its message was taken, and is away when the process dies:
    // before the answer or behind it.
    for is_early in [false, true] {
        let (mut world, source, receiver) = far_receiver();
        let client = world.client(durable(&source));
        world.carries = !is_early;
        world.send(&client, 1, message("t", Qos::ExactlyOnce, "x"));
        world.cut(&client);
        world.carries = true;
        world.run();
        world.audit();
        world.crash();
        world.nodes.iter_mut().for_each(|node| node.log.forget_once());
        let client = world.client(durable(&source));
        world.send_again(&client, 1, message("t", Qos::ExactlyOnce, "x"));
        assert!(matches!(world.taken(&client), Some((1, Ok(_)))));
        world.release(&client, 1);
        assert!(matches!(
            world.heard(client.conn)[..],
            [SessionDelivery::Completed { id: 1, unknown: false }]
        ));
        // The identifier is free, here and in the log.
        world.crash();
        let client = world.client(durable(&source));
        world.send(&client, 1, message("t", Qos::ExactlyOnce, "y"));
        let client = world.client(durable(&receiver));
        assert_eq!(world.payloads(&client), ["x", "y"], "{is_early}");
        world.audit();
    }
}

#[test]
fn a_message_that_was_released_before_its_mark_was_written_leaves_none() {
    let (mut world, source, receiver) = far_receiver();
    let client = world.client(durable(&source));
    world.send(&client, 1, message("t", Qos::ExactlyOnce, "x"));
    world.keeps = false;
    world.cut(&client);
    let client = world.client(durable(&source));
    world.release(&client, 1);
    world.keeps = true;
    world.run();
    world.crash();
    let client = world.client(durable(&source));
    world.send_again(&client, 1, message("t", Qos::ExactlyOnce, "y"));
    let client = world.client(durable(&receiver));
    assert_eq!(world.payloads(&client), ["x", "y"]);
    world.audit();
}

#[test]
fn a_will_stands_in_the_log_until_every_shard_has_it_and_comes_once() {
    let mut world = BrokerHarness::new(2);
    let names = [world.name_on(0, "near"), world.name_on(1, "far")];
    for name in &names {
        let client = world.client(durable(name));
        world.subscribe(&client, "gone", Qos::AtLeastOnce);
    }
    let mortal = world.name_on(0, "mortal");
    let will = Some(will("gone", "last words", 0));
    let mortal = world.client(ConnectRequest { will, ..connect(&mortal) });
    world.carries = false;
    world.cut(&mortal);
    world.crash();
    world.crash();
    world.carries = true;
    world.run();
    for _ in 0..2 {
        world.crash();
        for name in &names {
            let client = world.client(durable(name));
            assert_eq!(world.payloads(&client), ["last words"], "{name}");
        }
    }
    world.audit();
}

#[test]
fn a_client_with_a_will_is_connected_when_the_will_is_in_the_log() {
    let mut world = BrokerHarness::new(1);
    world.client(durable("kept"));
    for (id, expiry_s) in [("kept", 3_600), ("new", 3_600), ("clean", 0)] {
        world.keeps = false;
        let will = Some(will("gone", id, 0));
        let clean_start = expiry_s == 0;
        let asked = ConnectRequest { will, expiry_s, clean_start, ..connect(id) };
        let (conn, heard) = world.try_connect(asked);
        assert_eq!(heard, [], "{id}");
        world.keeps = true;
        world.run();
        let heard = world.heard(conn);
        let is_in = matches!(heard.first(), Some(SessionDelivery::Connected(_)));
        assert!(is_in, "{id}: {heard:?}");
    }
    let watch = world.client(durable("watch"));
    world.subscribe(&watch, "gone", Qos::AtLeastOnce);
    world.crash();
    let watch = world.client(durable("watch"));
    let mut all = world.payloads(&watch);
    all.sort_unstable();
    assert_eq!(all, ["clean", "kept", "new"]);
    world.audit();
}

#[test]
fn a_will_that_cannot_be_kept_refuses_the_connection_and_not_the_session() {
    let mut world = BrokerHarness::new(1);
    let kept = world.client(durable("kept"));
    world.subscribe(&kept, "t", Qos::AtLeastOnce);
    world.cut(&kept);
    world.keeps = false;
    let asked = ConnectRequest { will: Some(will("gone", "x", 0)), ..durable("kept") };
    let (conn, _) = world.try_connect(asked);
    world.complete(usize::MAX, |_| Err(StoreError::Full));
    let heard = world.heard(conn);
    let is_refused = matches!(heard.first(), Some(SessionDelivery::Refused(denied))
        if denied.why == Denial::StoreFull);
    assert!(is_refused, "{heard:?}");
    world.keeps = true;
    world.pass_s(2);
    let kept = world.client(durable("kept"));
    assert!(kept.connected.present);
    world.audit();
}

#[test]
fn what_was_sent_at_qos_2_comes_with_dup_though_what_was_before_it_is_still_in_the_log() {
    let small = |settings: &mut broker::Settings| {
        let mut limits = limits();
        limits.topics.inflight_max = 4;
        settings.limits = Arc::new(limits);
    };
    let mut world = BrokerHarness::with(1, small);
    let a = world.client(durable("a"));
    world.subscribe(&a, "t", Qos::ExactlyOnce);
    let source = world.client(connect("source"));
    for n in 1..=8 {
        world.send(&source, n, message("t", Qos::ExactlyOnce, &n.to_string()));
    }
    let first = world.messages(&a);
    assert_eq!(first.len(), 4);
    world.keeps = false;
    for outgoing in &first {
        world.ack(&a, outgoing.id, AckStep::Pubrec(false));
    }
    // The log knows that the client has them, and has not removed them yet.
    world.complete(usize::MAX, |call| match call {
        Call::Write(Write::Remove { .. }) => Err(StoreError::Busy),
        _ => Ok(()),
    });
    for outgoing in &first {
        world.ack(&a, outgoing.id, AckStep::Pubcomp);
    }
    let heard = world.heard(a.conn).into_iter().filter_map(|word| match word {
        SessionDelivery::Publish(outgoing) => Some(payload(&outgoing)),
        _ => None,
    });
    let second: Vec<_> = heard.collect();
    assert_eq!(second, ["5", "6", "7", "8"]);
    world.keeps = true;
    world.crash();
    let a = world.client(durable("a"));
    for outgoing in &first {
        world.ack(&a, outgoing.id, AckStep::Pubcomp);
    }
    let heard = world.heard(a.conn).into_iter().filter_map(|word| match word {
        SessionDelivery::Publish(outgoing) => Some((payload(&outgoing), outgoing.again)),
        _ => None,
    });
    let again: Vec<_> = heard.filter(|(payload, _)| second.contains(payload)).collect();
    assert_eq!(again.len(), 4, "the window is free for them");
    assert!(again.iter().all(|(_, again)| *again), "{again:?}");
    world.audit();
}

#[test]
fn what_a_client_has_at_qos_2_does_not_come_again_behind_what_it_has_not_answered() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    world.subscribe(&a, "t", Qos::ExactlyOnce);
    let source = world.client(connect("source"));
    world.send(&source, 1, message("t", Qos::AtLeastOnce, "open"));
    world.send(&source, 2, message("t", Qos::ExactlyOnce, "had"));
    let first = world.messages(&a);
    world.ack(&a, first[1].id, AckStep::Pubrec(false));
    // It is told that it may let it go, and the connection breaks; the log has it still.
    let release = SessionDelivery::Release { id: first[1].id, unknown: false };
    assert_eq!(world.heard(a.conn), std::slice::from_ref(&release));
    world.cut(&a);
    world.send(&source, 3, message("t", Qos::ExactlyOnce, "new"));
    let a = world.client(durable("a"));
    let mut heard = world.heard(a.conn);
    assert_eq!(heard.remove(0), release);
    world.ack(&a, first[1].id, AckStep::Pubcomp);
    let heard = heard.into_iter().map(|word| match word {
        SessionDelivery::Publish(outgoing) => (payload(&outgoing), outgoing.again),
        other => panic!("{other:?}"),
    });
    let expected = [("open".to_owned(), true), ("new".to_owned(), false)];
    assert_eq!(heard.collect::<Vec<_>>(), expected);
    world.audit();
}

#[test]
fn what_may_have_been_sent_before_a_kill_may_have_been_so_after_the_next_one() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    world.subscribe(&a, "t", Qos::ExactlyOnce);
    let source = world.client(connect("source"));
    world.send(&source, 1, message("t", Qos::ExactlyOnce, "x"));
    assert_eq!(world.payloads(&a), ["x"]);
    world.crash();
    // It is back, and gone before the log has shown what waits for it.
    world.keeps = false;
    let a = world.client(durable("a"));
    world.cut(&a);
    world.crash_after(usize::MAX);
    world.keeps = true;
    let a = world.client(durable("a"));
    let again: Vec<_> = world.messages(&a).iter().map(|it| (payload(it), it.again)).collect();
    assert_eq!(again, [("x".to_owned(), true)]);
    world.audit();
}
