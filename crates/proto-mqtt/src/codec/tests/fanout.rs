//! One message for many receivers: every way of encoding it reads as the same message.

use crate::codec::block::Block;
use crate::codec::fanout::{Alias, FanoutMessage, ReceiverFields, Shape, patch};
use crate::codec::property::{Property, VarInt};
use crate::codec::publish::Publish;
use crate::codec::{DecodeRules, DecodeStep, Packet, Qos, Sender, Terms, Unsent, Version, decode};

const QOS: [Qos; 3] = [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce];

/// Properties that a publisher sent, with those that are not passed on.
fn sent() -> Block {
    Block::of(&[
        Property::UserProperty(("b", "2")),
        Property::TopicAlias(7),
        Property::MessageExpiry(100),
        Property::WillDelay(5), // if it was a will
        Property::PayloadFormat(1),
        Property::UserProperty(("a", "1")),
        Property::SubscriptionId(VarInt(3)),
        Property::ResponseTopic("r/t"),
        Property::CorrelationData(b"\x00\xff"),
        Property::ContentType("text"),
        Property::UserProperty(("b", "2")),
    ])
    .expect("they are short")
}

/// The properties that receivers get.
fn received(expiry_s: u32) -> Block {
    Block::of(&[
        Property::MessageExpiry(expiry_s),
        Property::UserProperty(("b", "2")),
        Property::PayloadFormat(1),
        Property::UserProperty(("a", "1")),
        Property::ResponseTopic("r/t"),
        Property::CorrelationData(b"\x00\xff"),
        Property::ContentType("text"),
        Property::UserProperty(("b", "2")),
    ])
    .expect("they are short")
}

fn read(bytes: &[u8], version: Version) -> Publish<'_> {
    match decode(bytes, &DecodeRules::strict(Sender::Server, version)) {
        Ok(DecodeStep::Packet { packet: Packet::Publish(publish), bytes: length, .. }) => {
            assert_eq!(length, bytes.len());
            publish
        }
        other => panic!("{other:?}"),
    }
}

fn shapes() -> impl Iterator<Item = Shape> {
    let each = |version| QOS.into_iter().map(move |qos| (version, qos));
    Version::ALL
        .into_iter()
        .flat_map(each)
        .flat_map(|(version, qos)| [false, true].map(|retain| Shape { version, qos, retain }))
}

#[test]
fn a_frame_is_made_once_and_patched_for_each_receiver() {
    let (sent, received) = (sent(), received(40));
    for payload in [&b""[..], b"x", &[7; 200], &[7; 20_000]] {
        let properties = sent.properties();
        let message = FanoutMessage { topic: "a/b", properties, expiry_s: Some(40), payload };
        for shape in shapes() {
            let mut frame = b"before".to_vec();
            let id_at = message.frame(shape, &mut frame).expect("it fits");
            let mut frame = frame.split_off(6);
            assert_eq!(id_at.is_some(), shape.qos != Qos::AtMostOnce);
            for (id, dup) in [(1, false), (65_535, true), (256, false)] {
                if let Some(id_at) = id_at {
                    patch(&mut frame, id_at, id, dup);
                }
                let publish = read(&frame, shape.version);
                let numbered = id_at.is_some();
                assert_eq!((publish.qos, publish.retain), (shape.qos, shape.retain));
                assert_eq!(publish.id, if numbered { id } else { 0 });
                assert_eq!(publish.dup, dup && numbered, "no DUP at QoS 0");
                assert_eq!((publish.topic, publish.payload), ("a/b", payload));
                let wanted =
                    if shape.version == Version::V5 { &received } else { &Block::default() };
                assert_eq!(publish.properties, wanted.properties());
            }
        }
    }
}

#[test]
fn heads_of_receivers_go_before_one_tail() {
    let (sent, received) = (sent(), received(1));
    let payload = &[9; 300][..];
    let properties = sent.properties();
    let message = FanoutMessage { topic: "a/b", properties, expiry_s: Some(1), payload };
    for shape in shapes() {
        let mut tail = Vec::new();
        let length = message.tail(shape.version, &mut tail);
        assert_eq!(length.bytes(), tail.len());
        for alias in [Alias::None, Alias::Announced(9), Alias::Known(65_535)] {
            for subscription_ids in [&[][..], &[1], &[268_435_455, 1, 200]] {
                let own = ReceiverFields { id: 77, dup: true, alias, subscription_ids };
                let mut bytes = Vec::new();
                let terms = Terms::of(shape.version);
                message.head(shape, &own, length, &terms, &mut bytes).expect("it fits");
                bytes.extend_from_slice(&tail);
                let publish = read(&bytes, shape.version);
                assert_eq!(publish.payload, payload);
                let is_new = shape.version == Version::V5;
                let is_known = is_new && matches!(alias, Alias::Known(_));
                assert_eq!(publish.topic, if is_known { "" } else { "a/b" });
                let wanted: &[u32] = if is_new { subscription_ids } else { &[] };
                assert!(publish.properties.subscription_ids().eq(wanted.iter().copied()));
                let told = match alias {
                    Alias::Announced(alias) | Alias::Known(alias) if is_new => Some(alias),
                    _ => None,
                };
                assert_eq!(publish.topic_alias(), told);
                let shared: Vec<_> = publish.properties.iter().collect();
                let shared = shared.iter().filter(|property| {
                    !matches!(property, Property::SubscriptionId(_) | Property::TopicAlias(_))
                });
                let wanted = if is_new { received.clone() } else { Block::default() };
                assert!(shared.copied().eq(wanted.properties().iter()), "{shape:?}");
            }
        }
    }
}

#[test]
fn a_packet_above_the_receivers_size_is_not_begun() {
    let (sent, payload) = (sent(), &[1; 100]);
    let message =
        FanoutMessage { topic: "a", properties: sent.properties(), expiry_s: None, payload };
    for shape in shapes() {
        let mut tail = Vec::new();
        let length = message.tail(shape.version, &mut tail);
        let mut whole = Vec::new();
        message.frame(shape, &mut whole).expect("it fits");
        for (packet_bytes_max, fits) in [(whole.len(), true), (whole.len() - 1, false)] {
            let packet_bytes_max = packet_bytes_max as u32;
            let terms = Terms { packet_bytes_max, ..Terms::of(shape.version) };
            let mut head = Vec::new();
            let begun = message.head(shape, &ReceiverFields::default(), length, &terms, &mut head);
            assert_eq!(begun, if fits { Ok(()) } else { Err(Unsent::TooLarge) });
            assert_eq!(head.is_empty(), !fits);
        }
    }
}

#[test]
fn without_an_expiry_none_is_sent() {
    let sent = Block::of(&[Property::MessageExpiry(9)]).expect("it is short");
    let properties = sent.properties();
    let message = FanoutMessage { topic: "a", properties, expiry_s: None, payload: b"" };
    let shape = Shape { version: Version::V5, qos: Qos::AtMostOnce, retain: false };
    let mut bytes = Vec::new();
    message.frame(shape, &mut bytes).expect("it fits");
    assert_eq!(bytes, [0x30, 4, 0, 1, b'a', 0]);
}

#[test]
fn shapes_have_distinct_numbers() {
    let mut numbers: Vec<_> = shapes().map(Shape::number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 18);
}

#[test]
fn a_topic_that_is_too_long_is_not_sent() {
    let topic = "t".repeat(65_536);
    let properties = Default::default();
    let message = FanoutMessage { topic: &topic, properties, expiry_s: None, payload: b"" };
    for shape in shapes() {
        let mut bytes = Vec::new();
        assert_eq!(message.frame(shape, &mut bytes), Err(Unsent::TooLong));
        assert!(bytes.is_empty());
    }
}

#[test]
fn the_identifier_is_found_before_properties_of_every_length() {
    for length in [0, 1, 120, 124, 125, 126, 200, 16_375, 16_385, 20_000] {
        let text = "c".repeat(length);
        let block = Block::of(&[Property::ContentType(&text)]).expect("it is short enough");
        let (topic, properties) = ("t", block.properties());
        let message = FanoutMessage { topic, properties, expiry_s: None, payload: b"payload" };
        let shape = Shape { version: Version::V5, qos: Qos::ExactlyOnce, retain: false };
        let mut frame = Vec::new();
        let id_at = message.frame(shape, &mut frame).expect("it fits").expect("QoS 2");
        patch(&mut frame, id_at, 0xabcd, true);
        let publish = read(&frame, Version::V5);
        assert_eq!((publish.id, publish.dup, publish.payload), (0xabcd, true, &b"payload"[..]));
        assert_eq!(publish.properties, block.properties());
    }
}
