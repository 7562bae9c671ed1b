//! State that outlives the process, and the promises about it.

use crate::harness::{BrokerHarness, connect, durable, message, payload, retained, wish};
use base::time::Now;
use model::counters::ProcessCounter;
use model::ports::log::{Restored, RowHome, StoreError};
use model::session::*;
use model::topic::Qos;

#[test]
fn what_was_taken_for_an_away_session_comes_after_a_crash() {
    for shards in [1, 3] {
        let mut world = BrokerHarness::new(shards);
        let away = world.client(durable("away"));
        world.subscribe_with(&away, vec![wish("t/#", Qos::ExactlyOnce)], Some(9));
        world.cut(&away);
        let source = world.client(connect("source"));
        for n in 0..5u16 {
            let qos = if n % 2 == 0 { Qos::AtLeastOnce } else { Qos::ExactlyOnce };
            let answer = world.publish_at(&source, n + 1, message("t/x", qos, &n.to_string()));
            assert_eq!(answer, Some(Ok(Routed::Matched)));
        }
        world.audit();
        assert!(world.status().queued_bytes < 1_200, "bodies are not kept in memory");
        world.crash();
        let back = world.client(durable("away"));
        assert!(back.connected.present);
        let messages = world.messages(&back);
        assert_eq!(messages.iter().map(payload).collect::<Vec<_>>(), ["0", "1", "2", "3", "4"]);
        assert!(messages.iter().all(|o| o.subscription_ids.as_deref() == Some(&[9])));
        world.audit();
    }
}

#[test]
fn nothing_is_answered_before_it_is_on_stable_storage_and_clean_receivers_are_not_waited_for() {
    for shards in [1, 2] {
        let mut world = BrokerHarness::new(shards);
        let name = world.name_on(usize::from(shards) - 1, "kept");
        let kept = world.client(durable(&name));
        world.subscribe(&kept, "kept", Qos::AtLeastOnce);
        let name = world.name_on(0, "source");
        let source = world.client(connect(&name));
        let loose = world.client(connect("loose"));
        world.subscribe(&loose, "+", Qos::AtLeastOnce);
        world.keeps = false;
        assert_eq!(world.publish_at(&source, 1, message("kept", Qos::AtLeastOnce, "x")), None);
        assert_eq!(world.payloads(&loose), ["x"], "who keeps nothing has it at once");
        assert_eq!(world.payloads(&kept), [""; 0]);
        world.complete(usize::MAX, |_| Ok(()));
        world.complete(usize::MAX, |_| Ok(()));
        assert_eq!(world.taken(&source), Some((1, Ok(Routed::Matched))));
        assert_eq!(world.payloads(&kept), ["x"]);
        let answer = world.publish_at(&source, 2, message("other", Qos::AtLeastOnce, "y"));
        assert_eq!(answer, Some(Ok(Routed::Matched)), "nobody durable wants it");
        world.audit();
    }
}

#[test]
fn what_is_unsubscribed_twice_is_answered_when_the_first_is_on_stable_storage() {
    let mut world = BrokerHarness::new(1);
    let kept = world.client(durable("kept"));
    world.subscribe(&kept, "t", Qos::AtLeastOnce);
    world.keeps = false;
    for id in [5, 6] {
        let filters = vec!["t".into()];
        let packet = UnsubscribeRequest { session: kept.session, id, filters };
        world.ask(kept.conn, SessionRequest::Unsubscribe(Box::new(packet)));
    }
    assert_eq!(world.heard(kept.conn), [], "a kill here would bring the subscription back");
    world.complete(usize::MAX, |_| Ok(()));
    let answers: Vec<_> = [(5, true), (6, false)]
        .map(|(id, was_there)| SessionDelivery::Unsubscribed {
            id,
            results: [Ok(was_there)].into(),
        })
        .into();
    assert_eq!(world.heard(kept.conn), answers);
    world.crash();
    world.keeps = true;
    let back = world.client(durable("kept"));
    assert_eq!(world.unsubscribe(&back, "t"), Ok(false));
}

#[test]
fn what_is_cleared_twice_is_answered_when_the_first_is_on_stable_storage() {
    for shards in [1, 2] {
        let mut world = BrokerHarness::new(shards);
        let source = world.client(connect("source"));
        let other = world.client(connect("other"));
        let retained = |payload| retained("t", Qos::AtLeastOnce, payload);
        assert!(matches!(world.publish_at(&source, 1, retained("x")), Some(Ok(_))));
        world.keeps = false;
        assert_eq!(world.publish_at(&source, 2, retained("")), None);
        assert_eq!(
            world.publish_at(&other, 1, retained("")),
            None,
            "it would be back after a kill"
        );
        world.complete(usize::MAX, |_| Ok(()));
        assert!(matches!(world.taken(&source), Some((2, Ok(_)))));
        assert!(matches!(world.taken(&other), Some((1, Ok(_)))));
    }
}

#[test]
fn nobody_is_welcomed_to_a_session_whose_first_row_is_on_its_way() {
    let mut world = BrokerHarness::new(1);
    world.keeps = false;
    let first = world.conn("kept");
    world.ask(first, SessionRequest::Connect(Box::new(durable("kept"))));
    let (second, told) = world.try_connect(durable("kept"));
    assert_eq!(told, [], "a kill here would lose what it is told is there");
    world.complete(usize::MAX, |_| Ok(()));
    let told = world.heard(second);
    let is_present =
        |word: &SessionDelivery| matches!(word, SessionDelivery::Connected(it) if it.present);
    assert!(told.iter().any(is_present), "{told:?}");
    world.crash();
    world.keeps = true;
    assert!(world.client(durable("kept")).connected.present);
}

#[test]
fn a_clean_start_is_welcomed_when_the_session_before_it_is_gone_for_good() {
    let mut world = BrokerHarness::new(1);
    let kept = world.client(durable("kept"));
    world.subscribe(&kept, "t", Qos::AtLeastOnce);
    world.cut(&kept);
    world.keeps = false;
    let clean = ConnectRequest { clean_start: true, ..connect("kept") };
    let (conn, told) = world.try_connect(clean);
    assert_eq!(told, [], "a kill here would bring the session back");
    for _ in 0..4 {
        world.complete(usize::MAX, |_| Ok(()));
    }
    let told = world.heard(conn);
    assert!(matches!(told[..], [SessionDelivery::Connected(_), ..]), "{told:?}");
    world.crash();
    world.keeps = true;
    assert!(!world.client(durable("kept")).connected.present);
}

#[test]
fn a_message_that_the_log_refuses_is_not_taken() {
    for (error, why) in [
        (StoreError::Full, Denial::StoreFull),
        (StoreError::Busy, Denial::Busy),
        (StoreError::Failed, Denial::StoreFailed),
    ] {
        for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
            let mut world = BrokerHarness::new(2);
            let kept = world.client(durable("kept"));
            world.subscribe(&kept, "t", Qos::ExactlyOnce);
            let source = world.client(connect("source"));
            world.keeps = false;
            world.send(&source, 1, message("t", qos, "x"));
            world.complete(usize::MAX, |_| Err(error));
            assert_eq!(world.taken(&source), Some((1, Err(why))));
            assert_eq!(world.dropped(Drop::StoreFull), 1);
            world.keeps = true;
            let answer = world.publish_at(&source, 1, message("t", qos, "y"));
            assert_eq!(answer, Some(Ok(Routed::Matched)), "the identifier is a new message's");
            assert_eq!(world.payloads(&kept), ["y"]);
            assert!(world.count(ProcessCounter::StoreFailures) > 0);
            world.audit();
        }
    }
}

#[test]
fn an_identifier_of_qos_2_is_remembered_over_a_crash() {
    for shards in [1, 3] {
        let mut world = BrokerHarness::new(shards);
        let kept = world.client(durable("kept"));
        world.subscribe(&kept, "t", Qos::ExactlyOnce);
        let source = world.client(durable("source"));
        let first = world.publish_at(&source, 5, message("t", Qos::ExactlyOnce, "x"));
        assert_eq!(first, Some(Ok(Routed::Matched)));
        world.crash();
        let source = world.client(durable("source"));
        world.send_again(&source, 5, message("t", Qos::ExactlyOnce, "x"));
        assert!(matches!(world.taken(&source), Some((5, Ok(_)))));
        world.keeps = false;
        world.release(&source, 5);
        assert_eq!(world.heard(source.conn), [], "the mark has to go first");
        world.keeps = true;
        world.run();
        let done = SessionDelivery::Completed { id: 5, unknown: false };
        assert_eq!(world.heard(source.conn), [done]);
        let kept = world.client(durable("kept"));
        assert_eq!(world.payloads(&kept), ["x"], "once");
        world.send(&source, 5, message("t", Qos::ExactlyOnce, "y"));
        assert_eq!(world.payloads(&kept), ["y"]);
        world.audit();
    }
}

#[test]
fn a_new_durable_session_is_told_when_its_row_is_written_or_refused() {
    let mut world = BrokerHarness::new(1);
    world.keeps = false;
    let (conn, heard) = world.try_connect(durable("a"));
    assert_eq!(heard, []);
    world.complete(usize::MAX, |_| Err(StoreError::Full));
    match &world.heard(conn)[..] {
        [SessionDelivery::Refused(denied)] => assert_eq!(denied.why, Denial::StoreFull),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.status().sessions, 0);
    world.keeps = true;
    world.pass_s(3);
    assert!(!world.client(durable("a")).connected.present);
    world.audit();
}

#[test]
fn an_ended_session_leaves_nothing_behind() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(ConnectRequest { expiry_s: 10, ..durable("a") });
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    world.subscribe(&a, "$share/g/u", Qos::AtLeastOnce);
    let source = world.client(connect("source"));
    world.send(&source, 1, message("t", Qos::AtLeastOnce, "x"));
    world.cut(&a);
    world.crash();
    world.pass_s(11);
    assert_eq!(world.status().sessions, 0);
    let left = world.nodes[0].log.restoration();
    let left: Vec<_> = left.keys().map(|(table, key)| (table, key.to_vec())).collect();
    assert_eq!(left, [], "no row");
    assert_eq!(world.nodes[0].log.restoration().entries(), 0);
    world.audit();
}

#[test]
fn delayed_messages_wait_over_a_crash() {
    let mut world = BrokerHarness::new(2);
    let a = world.client(durable("a"));
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    let answer = world.publish_at(&a, 1, message("$delayed/60/t", Qos::AtLeastOnce, "late"));
    assert_eq!(answer, Some(Ok(Routed::NoSubscriber)));
    assert_eq!(world.status().delayed, 1);
    world.crash();
    let a = world.client(durable("a"));
    world.pass_s(59);
    assert_eq!(world.payloads(&a), [""; 0]);
    world.pass_s(2);
    assert_eq!(world.payloads(&a), ["late"]);
    world.crash();
    assert_eq!(world.status().delayed, 0);
}

#[test]
fn a_delayed_message_waits_its_seconds_whole() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    let second_ms = world.now.wall_ms / 1_000 * 1_000;
    world.now = Now::new(world.now.mono, second_ms + 1_990);
    world.publish_at(&a, 1, message("$delayed/1/t", Qos::AtLeastOnce, "late"));
    world.pass_ms(999);
    assert_eq!(world.payloads(&a), [""; 0]);
    world.pass_ms(1_001);
    assert_eq!(world.payloads(&a), ["late"]);
}

#[test]
fn a_delayed_message_whose_row_is_refused_is_never_published() {
    let mut world = BrokerHarness::new(1);
    let a = world.client(durable("a"));
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    world.keeps = false;
    for qos in [Qos::AtMostOnce, Qos::AtLeastOnce] {
        world.send(&a, 1, message("$delayed/2/t", qos, "late"));
        // Its time comes before the log has answered.
        world.pass_s(3);
        world.complete(usize::MAX, |_| Err(StoreError::Full));
        let refused = (qos != Qos::AtMostOnce).then_some((1, Err(Denial::StoreFull)));
        assert_eq!(world.taken(&a), refused);
        assert_eq!(world.status().delayed, 0);
    }
    world.keeps = true;
    world.pass_s(10);
    assert_eq!(world.payloads(&a), [""; 0]);
    world.crash();
    let a = world.client(durable("a"));
    world.pass_s(10);
    assert_eq!(world.payloads(&a), [""; 0], "nor after a start");
    world.audit();
}

#[test]
fn a_subscription_that_is_refused_when_it_is_renewed_stays_as_it_was() {
    for filter in ["t", "$share/g/t"] {
        let mut world = BrokerHarness::new(1);
        let a = world.client(durable("a"));
        let once = vec![wish(filter, Qos::AtMostOnce)];
        assert_eq!(world.subscribe_with(&a, once, None), [Ok(Qos::AtMostOnce)]);
        world.keeps = false;
        let (session, id, wishes) = (a.session, 77, vec![wish(filter, Qos::AtLeastOnce)]);
        let packet = SubscribeRequest { session, id, subscription_id: Some(7), wishes };
        world.ask(a.conn, SessionRequest::Subscribe(Box::new(packet)));
        world.complete(usize::MAX, |_| Err(StoreError::Full));
        let refused = [Err(Denial::StoreFull)].into();
        let expected = SessionDelivery::Subscribed { id: 77, results: refused };
        assert_eq!(world.heard(a.conn), [expected], "{filter}");
        world.keeps = true;
        let source = world.client(connect("source"));
        world.send(&source, 1, message("t", Qos::AtLeastOnce, "x"));
        let heard = world.messages(&a);
        assert_eq!(heard.len(), 1, "{filter}: it is subscribed still");
        assert_eq!(heard[0].qos, Qos::AtMostOnce, "{filter}: as before");
        world.crash();
        assert_eq!(world.status().subscriptions, 1, "{filter}");
        world.audit();
    }
}

#[test]
fn everything_of_a_client_has_one_home() {
    let mut world = BrokerHarness::new(3);
    let mut wish = durable("a");
    wish.will = Some(crate::harness::will("gone", "x", 0));
    let a = world.client(wish);
    world.subscribe(&a, "t", Qos::AtLeastOnce);
    let source = world.client(connect("source"));
    world.send(&source, 1, retained("t", Qos::AtLeastOnce, "x"));
    let mut seen = 0;
    for (at, node) in world.nodes.iter().enumerate() {
        node.log.restoration().each(|restored: Restored<'_>| {
            let RowHome::Slot(slot) = restored.home() else { panic!("{restored:?}") };
            assert_eq!(usize::from(slot.home(3)), at, "{restored:?}");
            seen += 1;
            true
        });
    }
    assert_eq!(seen, 6, "session, subscription, will, retained message, timeline, entry");
}
