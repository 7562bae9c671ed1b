//! Messages to the client.

use super::harness::BACKLOG_MAX;
use super::harness::{SESSION, ServerHarness, connected};
use crate::codec::block::Block;
use crate::codec::connect::Connect;
use crate::codec::property::Property;
use crate::codec::{Qos, Version};
use model::session::{AckStep, Drop, Outgoing, SessionDelivery as Down, SessionRequest as Up};
use model::topic::Publication;
use std::sync::Arc;
use std::time::Duration;

/// A message for one receiver; its identifier is 5 above QoS 0.
pub fn outgoing(topic: &str, payload: &[u8], qos: Qos) -> Outgoing {
    let mut message = Publication::new(topic, &[], payload);
    (message.id, message.qos) = (1_000, qos);
    let id = if qos == Qos::AtMostOnce { 0 } else { 5 };
    let (again, retain, shared, subscription_ids) = (false, false, false, None);
    Outgoing { message: Arc::new(message), id, qos, again, retain, shared, subscription_ids }
}

/// Delivers a message, which must be sent as one packet.
pub fn arrives(harness: &mut ServerHarness, outgoing: Outgoing) -> String {
    harness.tell(Down::Publish(outgoing));
    let sent = harness.take_sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    sent.into_iter().next().expect("one")
}

fn with(outgoing: Outgoing, change: impl FnOnce(&mut Publication)) -> Outgoing {
    let mut message = (*outgoing.message).clone();
    change(&mut message);
    Outgoing { message: Arc::new(message), ..outgoing }
}

#[test]
fn a_shared_frame_says_the_same_as_one_of_its_own() {
    for version in Version::ALL {
        for length in [0, 1, 100, 200, 1_023, 1_024, 20_000] {
            let mut harness = ServerHarness::strict().bound(version);
            let payload = vec![7; length];
            let mut message = 0;
            for qos in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce] {
                for (again, retain) in [(false, false), (true, false), (false, true)] {
                    message += 1;
                    let alone = Outgoing { again, retain, ..outgoing("a/topic", &payload, qos) };
                    let alone = with(alone, |publication| publication.id = message);
                    let shared = Outgoing { shared: true, ..alone.clone() };
                    let line = arrives(&mut harness, alone);
                    assert_eq!(line.contains("dup"), again && qos != Qos::AtMostOnce);
                    assert_eq!(line.contains("retain"), retain);
                    assert_eq!(arrives(&mut harness, shared.clone()), line);
                    assert_eq!(arrives(&mut harness, shared), line, "from the cache");
                }
            }
            assert_eq!(harness.shared > 0, length >= 1_024, "short frames are copied");
            assert_eq!(harness.packets, (0, 27));
        }
    }
}

#[test]
fn each_receiver_of_a_shared_frame_has_its_own_identifier() {
    let mut harness = ServerHarness::strict().bound(Version::V5);
    let one = Outgoing { shared: true, ..outgoing("a/topic", b"x", Qos::AtLeastOnce) };
    for id in [1, 500, 65_535] {
        let line = arrives(&mut harness, Outgoing { id, ..one.clone() });
        assert_eq!(line, format!("publish qos=1 id={id} topic=\"a/topic\" payload=78"));
    }
}

#[test]
fn properties_go_on_as_they_came() {
    let block = Block::of(&[
        Property::UserProperty(("b", "1")),
        Property::ContentType("t"),
        Property::UserProperty(("a", "1")),
    ]);
    let block = block.expect("short");
    let mut message = Publication::new("a/topic", block.properties().block(), b"x");
    message.id = 9;
    let message = Arc::new(message);
    for shared in [false, true] {
        let one = outgoing("", b"", Qos::AtMostOnce);
        let one = Outgoing { message: message.clone(), shared, ..one };
        let mut harness = ServerHarness::strict().bound(Version::V5);
        let line = "publish qos=0 topic=\"a/topic\" {user_property=\"b\":\"1\", \
                    content_type=\"t\", user_property=\"a\":\"1\"} payload=78";
        assert_eq!(arrives(&mut harness, one.clone()), line);
        let mut harness = ServerHarness::strict().bound(Version::V311);
        assert_eq!(arrives(&mut harness, one), "publish qos=0 topic=\"a/topic\" payload=78");
    }
}

#[test]
fn the_payload_of_a_large_message_is_sent_from_where_it_lies() {
    for version in Version::ALL {
        for (length, lies) in [(64 * 1024 - 1, 0), (64 * 1024, 1), (300_000, 1)] {
            let mut harness = ServerHarness::strict().bound(version);
            let payload = vec![7; length];
            let one = outgoing("a/topic", &payload, Qos::AtLeastOnce);
            let held = one.message.clone();
            let line = arrives(&mut harness, one);
            assert!(line.contains("a/topic") && line.contains("id="), "{}", &line[..60]);
            assert_eq!(harness.shared, lies, "{length} bytes");
            assert_eq!(Arc::strong_count(&held), 1, "what was sent is let go");
        }
    }
}

#[test]
fn what_is_left_of_the_expiry_is_told() {
    let now_s = 1_700_000_000;
    for (shared, length) in [(false, 1), (true, 1), (true, 5_000), (false, 70_000), (true, 70_000)]
    {
        let mut harness = ServerHarness::strict().bound(Version::V5);
        let payload = vec![7; length];
        let one = Outgoing { shared, ..outgoing("a/topic", &payload, Qos::AtLeastOnce) };
        let one = with(one, |message| message.expire_at = now_s + 60);
        assert!(arrives(&mut harness, one.clone()).contains("{message_expiry=60}"));
        harness.pass(Duration::from_secs(1));
        assert!(arrives(&mut harness, one.clone()).contains("{message_expiry=59}"), "no old frame");
        harness.pass(Duration::from_secs(200));
        let late = arrives(&mut harness, one);
        assert!(late.contains("{message_expiry=0}"), "what is sent again does not expire: {late}");
    }
}

#[test]
fn subscription_identifiers_are_told_to_5_alone() {
    for (shared, length) in [(false, 1), (true, 1), (true, 5_000), (false, 70_000), (true, 70_000)]
    {
        let payload = vec![7; length];
        let ids: Arc<[u32]> = Arc::from([1, 268_435_455]);
        let one = outgoing("a/topic", &payload, Qos::AtMostOnce);
        let one = Outgoing { shared, subscription_ids: Some(ids), ..one };
        let mut harness = ServerHarness::strict().bound(Version::V5);
        let line = arrives(&mut harness, one.clone());
        assert!(line.contains("{subscription_id=1, subscription_id=268435455}"), "{line}");
        let mut harness = ServerHarness::strict().bound(Version::V311);
        assert!(!arrives(&mut harness, one).contains("subscription"));
    }
}

#[test]
fn a_message_above_the_clients_size_is_never_sent() {
    for (shared, length) in
        [(false, 200), (true, 200), (true, 5_000), (false, 70_000), (true, 70_000)]
    {
        let block = Block::of(&[Property::MaximumPacketSize(199)]).expect("short");
        let properties = block.properties();
        let mut harness = ServerHarness::strict();
        harness.connect(&Connect { properties, ..Connect::of(Version::V5, "d") });
        harness.tell(Down::Connected(Box::new(connected())));
        harness.take_sent();
        harness.take_words();
        let one = |qos| Outgoing { shared, ..outgoing("a/topic", &vec![7; length], qos) };
        harness.tell(Down::Publish(one(Qos::AtMostOnce)));
        let why = Drop::TooLarge;
        assert_eq!(harness.word(), Up::Dropped { session: SESSION, count: 1, why });
        for qos in [Qos::AtLeastOnce, Qos::ExactlyOnce] {
            harness.tell(Down::Publish(one(qos)));
            let step = AckStep::Unsendable;
            assert_eq!(harness.word(), Up::Acked { session: SESSION, id: 5, step });
        }
        assert!(harness.sent.is_empty());
        let fits = outgoing("a/topic", &[7; 184], Qos::AtLeastOnce);
        let fits = with(fits, |message| message.id = 1_001);
        arrives(&mut harness, Outgoing { shared, ..fits });
    }
}

#[test]
fn a_reader_who_is_too_slow_misses_qos_0_and_the_broker_is_told_in_batches() {
    let mut harness = ServerHarness::strict().bound(Version::V311);
    let most = BACKLOG_MAX;
    harness.set_backlog(most / 2);
    arrives(&mut harness, outgoing("a", b"x", Qos::AtMostOnce));
    assert!(!harness.tell_drained);
    harness.set_backlog(most);
    arrives(&mut harness, outgoing("a", b"x", Qos::AtMostOnce));
    assert!(harness.tell_drained);
    harness.set_backlog(most + 1);
    for _ in 0..100 {
        harness.tell(Down::Publish(outgoing("a", b"x", Qos::AtMostOnce)));
    }
    let dropped = |count| Up::Dropped { session: SESSION, count, why: Drop::SlowReader };
    assert!(harness.sent.is_empty());
    assert_eq!(harness.take_words(), [dropped(64)]);
    arrives(&mut harness, outgoing("a", b"x", Qos::AtLeastOnce));
    assert_eq!(harness.word(), dropped(36));
    for _ in 0..1_500 {
        harness.tell(Down::Publish(outgoing("a", b"x", Qos::AtMostOnce)));
    }
    let batches: Vec<_> = (0..23).map(|_| dropped(64)).collect();
    assert_eq!(harness.take_words(), batches);
    harness.drain();
    assert_eq!(harness.take_words(), [dropped(28), Up::Ready { session: SESSION }]);
    assert!(harness.machine.is_idle());
    arrives(&mut harness, outgoing("a", b"x", Qos::AtMostOnce));
    harness.set_backlog(most + 1);
    harness.tell(Down::Publish(outgoing("a", b"x", Qos::AtMostOnce)));
    harness.close(model::close::CloseReason::PeerReset);
    assert_eq!(harness.words[0], dropped(1), "told before the end");
}

#[test]
fn more_retained_messages_are_asked_for_when_these_are_written() {
    let mut harness = ServerHarness::strict().bound(Version::V5);
    let one = outgoing("a", b"x", Qos::AtMostOnce);
    arrives(&mut harness, Outgoing { retain: true, ..one });
    assert!(harness.tell_drained);
    harness.drain();
    assert_eq!(harness.word(), Up::Ready { session: SESSION });
    let one = outgoing("a", b"x", Qos::AtLeastOnce);
    arrives(&mut harness, Outgoing { retain: true, ..one });
    assert!(!harness.tell_drained, "the window paces these");
}
