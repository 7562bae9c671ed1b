//! Topic aliases, both ways.

use super::acks::publish;
use super::deliver::{arrives, outgoing};
use super::harness::{ServerHarness, connected};
use crate::codec::block::Block;
use crate::codec::connect::Connect;
use crate::codec::property::Property;
use crate::codec::publish::Publish;
use crate::codec::{Packet, Qos, Version};
use model::session::{SessionDelivery as Down, SessionRequest as Up};

fn says(harness: &mut ServerHarness, topic: &'static str, alias: u16) -> Option<String> {
    let block = Block::of(&[Property::TopicAlias(alias)]).expect("short");
    let properties = block.properties();
    harness.packet(&Packet::Publish(Publish { topic, properties, ..publish(Qos::AtMostOnce, 0) }));
    harness.take_words().into_iter().find_map(|word| match word {
        Up::Publish { message, .. } => {
            assert!(message.properties().is_empty(), "the alias does not go on");
            Some(message.topic().to_owned())
        }
        _ => None,
    })
}

#[test]
fn an_alias_stands_for_the_topic_that_came_with_it_last() {
    let mut harness = ServerHarness::strict().bound(Version::V5);
    assert_eq!(says(&mut harness, "a", 1).as_deref(), Some("a"));
    assert_eq!(says(&mut harness, "b", 16).as_deref(), Some("b"), "every alias up to the maximum");
    assert_eq!(says(&mut harness, "", 1).as_deref(), Some("a"));
    assert_eq!(says(&mut harness, "", 16).as_deref(), Some("b"));
    assert_eq!(says(&mut harness, "c", 1).as_deref(), Some("c"));
    assert_eq!(says(&mut harness, "", 1).as_deref(), Some("c"));
    assert_eq!(harness.ended, None);
}

#[test]
fn an_alias_that_is_not_known_not_allowed_or_0_ends_the_connection() {
    let known = |harness: &mut ServerHarness| assert!(says(harness, "a", 2).is_some());
    let (invalid, unknown) = ("topic_alias_invalid", "protocol_error");
    for (topic, alias, reason) in [
        ("", 1, unknown),
        ("", 16, unknown),
        ("", 17, invalid),
        ("a", 17, invalid),
        ("a", 65_535, invalid),
        ("", 0, invalid),
        ("a", 0, invalid),
    ] {
        let mut harness = ServerHarness::strict().bound(Version::V5);
        known(&mut harness);
        assert_eq!(says(&mut harness, topic, alias), None);
        let line = format!("disconnect reason={reason}");
        assert!(harness.sent[0].starts_with(&line), "{topic} {alias}: {:?}", harness.sent);
    }
    let mut harness = ServerHarness::strict().bound(Version::V5);
    assert_eq!(says(&mut harness, "", 1), None, "another connection's are not known");
    assert!(harness.ended.is_some());
    let mut harness = ServerHarness::strict();
    harness.limits.topics.topic_alias_max = 0;
    let mut harness = harness.bound(Version::V5);
    assert_eq!(says(&mut harness, "a", 1), None);
    assert!(harness.ended.is_some(), "a server that takes none has said so");
}

/// A client that takes so many aliases, of a server that gives three.
fn takes(most: u16) -> ServerHarness {
    takes_of(most, 3)
}

fn takes_of(most: u16, out_max: u16) -> ServerHarness {
    let block = Block::of(&[Property::TopicAliasMaximum(most)]).expect("short");
    let properties = block.properties();
    let mut harness = ServerHarness::strict();
    harness.limits.topics.topic_alias_out_max = out_max;
    harness.connect(&Connect { properties, ..Connect::of(Version::V5, "d") });
    harness.tell(Down::Connected(Box::new(connected())));
    harness.take_sent();
    harness
}

#[test]
fn the_server_says_a_topic_once_and_then_its_alias() {
    let mut harness = takes(9);
    let mut gets = |topic: &str| arrives(&mut harness, outgoing(topic, b"x", Qos::AtMostOnce));
    let first = "publish qos=0 topic=\"some/topic\" {topic_alias=1} payload=78";
    assert_eq!(gets("some/topic"), first);
    assert_eq!(gets("some/topic"), "publish qos=0 topic=\"\" {topic_alias=1} payload=78");
    assert!(gets("other/2").contains("topic=\"other/2\" {topic_alias=2}"));
    assert!(gets("other/3").contains("topic=\"other/3\" {topic_alias=3}"));
    assert!(gets("some/topic").contains("topic=\"\" {topic_alias=1}"));
    assert!(gets("other/4").contains("topic=\"other/4\" {topic_alias=2}"), "the oldest goes");
    assert!(gets("other/2").contains("topic=\"other/2\" {topic_alias=3}"));
    assert!(gets("other/4").contains("topic=\"\" {topic_alias=2}"));
    assert_eq!(gets("abc"), "publish qos=0 topic=\"abc\" payload=78", "it would save nothing");
}

#[test]
fn no_alias_above_the_clients_maximum_is_sent() {
    let mut harness = takes(1);
    for topic in ["topic/1", "topic/2", "topic/1"] {
        let line = arrives(&mut harness, outgoing(topic, b"x", Qos::AtMostOnce));
        assert!(line.contains(&format!("topic=\"{topic}\" {{topic_alias=1}}")), "{line}");
    }
    for mut harness in [takes(0), ServerHarness::strict().bound(Version::V5)] {
        for _ in 0..3 {
            let line = arrives(&mut harness, outgoing("topic/1", b"x", Qos::AtMostOnce));
            assert_eq!(line, "publish qos=0 topic=\"topic/1\" payload=78");
        }
        assert!(harness.machine.is_idle());
    }
}

#[test]
fn an_alias_whose_announcement_was_not_sent_is_not_known() {
    let block = Block::of(&[Property::TopicAliasMaximum(9), Property::MaximumPacketSize(60)]);
    let block = block.expect("short");
    let mut harness = ServerHarness::strict();
    harness.connect(&Connect { properties: block.properties(), ..Connect::of(Version::V5, "d") });
    harness.tell(Down::Connected(Box::new(connected())));
    harness.take_sent();
    harness.tell(Down::Publish(outgoing("some/topic", &[7; 60], Qos::AtMostOnce)));
    assert!(harness.take_sent().is_empty(), "it is too large");
    let line = arrives(&mut harness, outgoing("some/topic", b"x", Qos::AtMostOnce));
    assert!(line.contains("topic=\"some/topic\" {topic_alias=1}"), "{line}");
}

#[test]
fn sixty_four_topics_have_an_alias_whatever_both_sides_allow() {
    let mut harness = takes_of(u16::MAX, 1_000);
    let mut gets = |topic: &str| arrives(&mut harness, outgoing(topic, b"x", Qos::AtMostOnce));
    for number in 1..=64 {
        let (topic, alias) = (format!("t{number:03}"), format!("{{topic_alias={number}}}"));
        assert!(gets(&topic).contains(&alias), "four bytes are more than an alias");
        assert!(gets(&topic).contains(&format!("topic=\"\" {alias}")));
    }
    assert!(gets("t065").contains("topic=\"t065\" {topic_alias=1}"), "the oldest goes");
    assert!(gets("t064").contains("topic=\"\" {topic_alias=64}"));
}
