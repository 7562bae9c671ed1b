//! Messages of each QoS, both ways, and what answers them.

use super::harness::{SESSION, ServerHarness};
use crate::codec::ack::Ack;
use crate::codec::block::Block;
use crate::codec::property::Property;
use crate::codec::publish::Publish;
use crate::codec::{Packet, Qos, ReasonCode, Version};
use model::close::CloseReason;
use model::counters::TopicCounter;
use model::session::{AckStep, Denial, Routed, SessionDelivery as Down, SessionRequest as Up};

/// A message without properties.
pub fn publish(qos: Qos, id: u16) -> Publish<'static> {
    let properties = Default::default();
    Publish { dup: false, qos, retain: false, topic: "a/b", id, properties, payload: b"x" }
}

fn ack(id: u16, reason: ReasonCode) -> Ack<'static> {
    Ack { reason, ..Ack::of(id) }
}

#[test]
fn a_message_becomes_a_publication() {
    let block = Block::of(&[
        Property::PayloadFormat(1),
        Property::MessageExpiry(60),
        Property::UserProperty(("k", "1")),
        Property::UserProperty(("k", "0")),
        Property::ResponseTopic("r"),
        Property::CorrelationData(&[9]),
        Property::ContentType("t"),
    ]);
    let block = block.expect("short");
    let mut harness = ServerHarness::strict().bound(Version::V5);
    let properties = block.properties();
    let packet = Publish { properties, retain: true, ..publish(Qos::AtLeastOnce, 5) };
    harness.packet(&Packet::Publish(packet));
    let Up::Publish { session, id, again, message } = harness.word() else { panic!() };
    assert_eq!((session, id, again), (SESSION, 5, false));
    assert_eq!((message.topic(), message.payload()), ("a/b", &b"x"[..]));
    assert_eq!((message.qos, message.retain), (Qos::AtLeastOnce, true));
    assert_eq!((message.at_s, message.expire_at), (1_700_000_000, 1_700_000_060));
    let stays: Vec<_> = packet.properties.iter().filter(|p| p.id() != 2).collect();
    let stays = Block::of(&stays).expect("short");
    assert_eq!(message.properties(), stays.properties().block(), "all but the expiry, in order");
    assert!(harness.sent.is_empty(), "it is answered when the broker has it");
}

#[test]
fn a_message_before_5_has_no_properties() {
    let mut harness = ServerHarness::strict().bound(Version::V311);
    harness.packet(&Packet::Publish(Publish { dup: true, ..publish(Qos::ExactlyOnce, 9) }));
    let Up::Publish { id: 9, again: true, message, .. } = harness.word() else { panic!() };
    assert_eq!((message.properties(), message.expire_at), (&[][..], 0));
}

#[test]
fn what_the_broker_took_is_acknowledged_in_its_order() {
    for version in Version::ALL {
        let mut harness = ServerHarness::strict().bound(version);
        for (qos, id) in [(Qos::AtLeastOnce, 1), (Qos::ExactlyOnce, 2), (Qos::AtLeastOnce, 3)] {
            harness.packet(&Packet::Publish(publish(qos, id)));
        }
        assert!(harness.sent.is_empty());
        for (qos, id) in [(Qos::AtLeastOnce, 1), (Qos::ExactlyOnce, 2), (Qos::AtLeastOnce, 3)] {
            harness.tell(Down::Taken { id, qos, result: Ok(Routed::Matched) });
        }
        let all = [
            "puback id=1 reason=success",
            "pubrec id=2 reason=success",
            "puback id=3 reason=success",
        ];
        assert_eq!(harness.take_sent(), all);
        harness.take_words();
        harness.packet(&Packet::Pubrel(Ack::of(2)));
        assert_eq!(harness.word(), Up::Release { session: SESSION, id: 2 });
        harness.tell(Down::Completed { id: 2, unknown: false });
        assert_eq!(harness.sent, ["pubcomp id=2 reason=success"]);
        assert!(harness.machine.is_idle());
    }
}

#[test]
fn what_became_of_a_message_is_told_to_5_alone() {
    let cases = [
        (Ok(Routed::NoSubscriber), "no_matching_subscribers"),
        (Err(Denial::NotAuthorized), "not_authorized"),
        (Err(Denial::StoreFull), "quota_exceeded"),
        (Err(Denial::StoreFailed), "implementation_specific_error"),
        (Err(Denial::TopicInvalid), "topic_name_invalid"),
        (Err(Denial::Unavailable), "implementation_specific_error"),
    ];
    for (result, word) in cases {
        for (qos, kind) in [(Qos::AtLeastOnce, "puback"), (Qos::ExactlyOnce, "pubrec")] {
            let mut harness = ServerHarness::strict().bound(Version::V5);
            harness.tell(Down::Taken { id: 4, qos, result });
            assert_eq!(harness.sent, [format!("{kind} id=4 reason={word}")]);
            let mut harness = ServerHarness::strict().bound(Version::V311);
            harness.tell(Down::Taken { id: 4, qos, result });
            match result {
                Err(Denial::StoreFull | Denial::StoreFailed) => {
                    let reason = Some(CloseReason::Full);
                    assert_eq!(
                        (harness.sent.len(), harness.ended),
                        (0, reason),
                        "it was not taken"
                    );
                }
                _ => assert_eq!(harness.sent, [format!("{kind} id=4 reason=success")]),
            }
        }
    }
    for (unknown, word) in [(true, "packet_identifier_not_found"), (false, "success")] {
        let mut harness = ServerHarness::strict().bound(Version::V5);
        harness.tell(Down::Completed { id: 4, unknown });
        harness.tell(Down::Release { id: 5, unknown });
        let all = [format!("pubcomp id=4 reason={word}"), format!("pubrel id=5 reason={word}")];
        assert_eq!(harness.sent, all);
    }
}

#[test]
fn what_a_subscriber_answers_reaches_the_session() {
    let mut harness = ServerHarness::strict().bound(Version::V5);
    let refused = ReasonCode::QuotaExceeded;
    harness.packet(&Packet::Puback(Ack::of(1)));
    harness.packet(&Packet::Puback(ack(2, refused)));
    harness.packet(&Packet::Pubrec(Ack::of(3)));
    harness.packet(&Packet::Pubrec(ack(4, refused)));
    harness.packet(&Packet::Pubcomp(ack(5, ReasonCode::PacketIdNotFound)));
    let steps = [
        (1, AckStep::Puback(false)),
        (2, AckStep::Puback(true)),
        (3, AckStep::Pubrec(false)),
        (4, AckStep::Pubrec(true)),
        (5, AckStep::Pubcomp),
    ];
    let all = steps.map(|(id, step)| Up::Acked { session: SESSION, id, step });
    assert_eq!(harness.take_words(), all);
}

#[test]
fn subscriptions_and_their_answers() {
    let mut harness = ServerHarness::strict().bound(Version::V5);
    // SUBSCRIBE with identifier 300 and three filters with different options.
    harness.hear(b"\x82\x0b\x00\x07\x03\x0b\xac\x02\x00\x01a\x00\x00\x02b+\x15");
    assert!(harness.ended.is_some(), "a wildcard inside a level");
    let mut harness = ServerHarness::strict().bound(Version::V5);
    harness.hear(b"\x82\x10\x00\x07\x03\x0b\xac\x02\x00\x01a\x00\x00\x03b/#\x2e");
    let Up::Subscribe(subscribe) = harness.word() else { panic!() };
    assert_eq!((subscribe.session, subscribe.id), (SESSION, 7));
    assert_eq!(subscribe.subscription_id, Some(300));
    let [first, second] = &subscribe.wishes[..] else { panic!() };
    assert_eq!((&*first.filter, first.qos), ("a", Qos::AtMostOnce));
    assert!(!first.no_local && !first.retain_as_published);
    assert_eq!(first.retain_handling, model::topic::RetainHandling::Send);
    assert_eq!((&*second.filter, second.qos), ("b/#", Qos::ExactlyOnce));
    assert!(second.no_local && second.retain_as_published);
    assert_eq!(second.retain_handling, model::topic::RetainHandling::DoNotSend);
    let results = Box::new([
        Ok(Qos::AtMostOnce),
        Ok(Qos::AtLeastOnce),
        Ok(Qos::ExactlyOnce),
        Err(Denial::NotAuthorized),
        Err(Denial::NoShared),
    ]);
    harness.tell(Down::Subscribed { id: 7, results: results.clone() });
    let line = "suback id=7 granted_qos_0 granted_qos_1 granted_qos_2 not_authorized \
                shared_subscriptions_not_supported";
    assert_eq!(harness.sent, [line]);
    let mut harness = ServerHarness::strict().bound(Version::V311);
    harness.tell(Down::Subscribed { id: 7, results: results.clone() });
    assert_eq!(harness.wire, [0x90, 7, 0, 7, 0, 1, 2, 0x80, 0x80]);
    let mut harness = ServerHarness::strict().bound(Version::V31);
    harness.tell(Down::Subscribed { id: 7, results });
    assert_eq!(harness.wire, [0x90, 7, 0, 7, 0, 1, 2, 0, 0], "3.1 knows no failure");
}

#[test]
fn ends_of_subscriptions_and_their_answers() {
    let mut harness = ServerHarness::strict().bound(Version::V5);
    harness.hear(b"\xa2\x09\x00\x08\x00\x00\x01a\x00\x01b");
    let Up::Unsubscribe(words) = harness.word() else { panic!() };
    assert_eq!((words.session, words.id, words.filters.len()), (SESSION, 8, 2));
    let results = Box::new([Ok(true), Ok(false), Err(Denial::Quota)]);
    harness.tell(Down::Unsubscribed { id: 8, results: results.clone() });
    let line = "unsuback id=8 success no_subscription_existed unspecified_error";
    assert_eq!(harness.sent, [line]);
    let mut harness = ServerHarness::strict().bound(Version::V311);
    harness.tell(Down::Unsubscribed { id: 8, results });
    assert_eq!(harness.wire, [0xb0, 2, 0, 8]);
}

#[test]
fn a_ping_is_answered_at_once() {
    for version in Version::ALL {
        let mut harness = ServerHarness::strict().bound(version);
        harness.hear(&[0xc0, 0, 0xc0, 0]);
        assert_eq!((harness.sent.len(), harness.packets), (2, (2, 2)));
        assert!(harness.words.is_empty());
    }
}

#[test]
fn a_strict_client_of_5_that_exceeds_its_quota_ends() {
    let mut harness = ServerHarness::strict();
    harness.limits.topics.receive_max = 2;
    let mut harness = harness.bound(Version::V5);
    for (qos, id) in [(Qos::AtLeastOnce, 1), (Qos::ExactlyOnce, 2), (Qos::AtMostOnce, 0)] {
        harness.packet(&Packet::Publish(publish(qos, id)));
    }
    assert_eq!(harness.ended, None, "QoS 0 has no quota");
    harness.tell(Down::Taken { id: 2, qos: Qos::ExactlyOnce, result: Ok(Routed::Matched) });
    harness.take_sent();
    harness.packet(&Packet::Publish(publish(Qos::AtLeastOnce, 3)));
    let line = "disconnect reason=receive_maximum_exceeded";
    assert!(harness.sent[0].starts_with(line), "QoS 2 counts until PUBCOMP: {:?}", harness.sent);
}

#[test]
fn what_was_answered_is_open_again() {
    let mut harness = ServerHarness::strict();
    harness.limits.topics.receive_max = 1;
    let mut harness = harness.bound(Version::V5);
    for round in 1..50 {
        harness.packet(&Packet::Publish(publish(Qos::ExactlyOnce, round)));
        let denied = round % 3 == 0;
        let result = if denied { Err(Denial::Quota) } else { Ok(Routed::Matched) };
        harness.tell(Down::Taken { id: round, qos: Qos::ExactlyOnce, result });
        if !denied {
            harness.packet(&Packet::Pubrel(Ack::of(round)));
            harness.tell(Down::Completed { id: round, unknown: false });
        }
        harness.packet(&Packet::Publish(publish(Qos::AtLeastOnce, round)));
        harness.tell(Down::Taken { id: round, qos: Qos::AtLeastOnce, result });
        assert_eq!(harness.ended, None, "round {round}");
    }
    // A release of nothing wins nothing.
    harness.packet(&Packet::Publish(publish(Qos::AtLeastOnce, 59)));
    harness.tell(Down::Completed { id: 58, unknown: true });
    assert_eq!(harness.ended, None);
    harness.packet(&Packet::Publish(publish(Qos::AtLeastOnce, 58)));
    assert!(harness.ended.is_some());
}

#[test]
fn what_an_earlier_connection_began_is_no_quota_of_this_one() {
    let mut harness = ServerHarness::strict();
    harness.limits.topics.receive_max = 1;
    let mut harness = harness.bound(Version::V5);
    harness.tell(Down::Completed { id: 60, unknown: false });
    harness.packet(&Packet::Publish(publish(Qos::AtLeastOnce, 61)));
    harness.packet(&Packet::Publish(publish(Qos::AtLeastOnce, 62)));
    assert!(harness.ended.is_some());
}

#[test]
fn others_who_exceed_it_are_read_more_slowly() {
    for (harness, version) in
        [(ServerHarness::lenient(), Version::V5), (ServerHarness::strict(), Version::V311)]
    {
        let mut harness = harness;
        harness.limits.topics.receive_max = 2;
        let mut harness = harness.bound(version);
        for id in 1..=4 {
            harness.packet(&Packet::Publish(publish(Qos::ExactlyOnce, id)));
        }
        harness.packet(&Packet::Pubrel(Ack::of(1)));
        assert_eq!((harness.words.len(), harness.held, harness.ended), (2, true, None));
        assert!(harness.untaken() > 0 && harness.counts.contains(&TopicCounter::ReadsHeld.into()));
        assert_eq!(
            harness.counts.contains(&TopicCounter::TolerateOrder.into()),
            version == Version::V5
        );
        harness.fall_silent();
        assert_eq!(harness.ended, None, "who is not read is not silent");
        // It is read again once the broker has the message: nobody waits for the client.
        harness.tell(Down::Taken { id: 1, qos: Qos::ExactlyOnce, result: Ok(Routed::Matched) });
        assert_eq!(harness.words.len(), 3);
        harness.tell(Down::Taken { id: 2, qos: Qos::ExactlyOnce, result: Ok(Routed::Matched) });
        assert_eq!((harness.words.len(), harness.held, harness.untaken()), (5, false, 0));
        assert!(matches!(harness.words[4], Up::Release { id: 1, .. }));
    }
}

#[test]
fn a_payload_that_is_not_what_it_says_ends_the_strict() {
    let block = Block::of(&[Property::PayloadFormat(1)]).expect("short");
    let properties = block.properties();
    let packet = Publish { properties, payload: b"\xff", ..publish(Qos::AtMostOnce, 0) };
    let mut harness = ServerHarness::strict().bound(Version::V5);
    harness.packet(&Packet::Publish(packet));
    assert!(harness.sent[0].starts_with("disconnect reason=payload_format_invalid"));
    let mut harness = ServerHarness::lenient().bound(Version::V5);
    harness.packet(&Packet::Publish(packet));
    assert_eq!((harness.words.len(), harness.ended), (1, None));
}

#[test]
fn what_is_let_pass_is_counted() {
    let mut harness = ServerHarness::lenient().bound(Version::V311);
    harness.hear(b"\x38\x04\x00\x01ax");
    harness.hear(b"\x80\x06\x00\x01\x00\x01a\x00");
    harness.hear(b"\x82\x06\x00\x00\x00\x01a\x00");
    assert_eq!((harness.words.len(), harness.ended), (3, None));
    let flags = TopicCounter::TolerateFlags;
    assert_eq!(harness.counts, [flags, flags, TopicCounter::TolerateOther]);
}

#[test]
fn one_who_was_held_is_read_again_when_few_are_left() {
    let mut harness = ServerHarness::strict();
    harness.limits.topics.receive_max = 40;
    let mut harness = harness.bound(Version::V311);
    for id in 1..=41 {
        harness.packet(&Packet::Publish(publish(Qos::AtLeastOnce, id)));
    }
    assert_eq!((harness.take_words().len(), harness.held), (40, true));
    let mut answer = |id| {
        harness.tell(Down::Taken { id, qos: Qos::AtLeastOnce, result: Ok(Routed::Matched) });
        (harness.held, harness.take_words().len())
    };
    assert!((1..=7).all(|id| answer(id) == (true, 0)), "33 are left");
    assert_eq!(answer(8), (false, 1), "32 are");
}
