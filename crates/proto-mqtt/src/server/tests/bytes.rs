//! Bytes of real clients, split in any way: the machine does the same.

use super::harness::ServerHarness;
use crate::codec::tests::vectors::{Case, good};
use crate::codec::{PacketKind, Sender, Version};
use model::close::CloseReason;
use model::session::SessionRequest as Up;

/// Good packets of clients of a version, the first one a CONNECT, without farewells.
fn stream(version: Version) -> Vec<Vec<u8>> {
    let is_own = |case: &Case| case.rules.sender == Sender::Client && !case.is_first;
    let mut packets: Vec<Vec<u8>> = vec![connect(version)];
    for case in good().into_iter().filter(|case| is_own(case) && case.rules.version == version) {
        let kind = PacketKind::of(case.bytes[0] >> 4);
        let ends = [PacketKind::Connect, PacketKind::Disconnect, PacketKind::Auth].map(Some);
        // Vectors with aliases and large payloads are packets of another conversation.
        let is_alone = case.expected("means").is_some_and(|line| line.contains("topic_alias"));
        if !ends.contains(&kind) && !is_alone && case.bytes.len() < 400 {
            packets.push(case.bytes);
        }
    }
    packets
}

fn connect(version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    let connect = crate::codec::connect::Connect::of(version, "d");
    connect.write(&crate::codec::Terms::of(version), &mut bytes).expect("it fits");
    bytes
}

fn kind_harness(version: Version) -> ServerHarness {
    let mut harness = ServerHarness::strict();
    harness.version = version;
    harness.kind = true;
    harness.limits.topics.topic_bytes_max = u16::MAX;
    harness.limits.topics.topic_levels_max = u16::MAX;
    harness
}

/// Everything that can be seen from outside. PINGRESP does not wait for the broker, so it may come
/// before or behind its answers.
fn outcome(harness: ServerHarness) -> (Vec<String>, Vec<Up>, (u64, u64), usize) {
    assert_eq!(harness.ended, None, "{:?}", harness.sent.last());
    let untaken = harness.untaken();
    let sent = harness.sent.into_iter().filter(|line| line != "pingresp").collect();
    (sent, harness.words, harness.packets, untaken)
}

#[test]
fn a_conversation_is_the_same_wherever_it_is_split() {
    for version in Version::ALL {
        let packets = stream(version);
        let bytes = packets.concat();
        let mut whole = kind_harness(version);
        whole.hear(&bytes);
        let whole = outcome(whole);
        assert_eq!(whole.2.0, packets.len() as u64, "every packet was taken");
        assert!(packets.len() > 8 && whole.1.len() > 6, "{}", packets.len());
        for cut in 0..=bytes.len() {
            let mut harness = kind_harness(version);
            harness.hear(&bytes[..cut]);
            harness.hear(&bytes[cut..]);
            assert_eq!(outcome(harness), whole, "{version:?} cut at {cut}");
        }
        let mut harness = kind_harness(version);
        bytes.iter().for_each(|byte| harness.hear(std::slice::from_ref(byte)));
        assert_eq!(outcome(harness), whole, "{version:?} byte by byte");
    }
}

#[test]
fn what_real_clients_sent_first_is_taken() {
    let mut count = 0;
    for case in good().into_iter().filter(|case| case.bytes[0] >> 4 == 1) {
        let mut harness = ServerHarness::lenient();
        harness.kind = true;
        harness.limits.topics.client_id_bytes_max = u16::MAX;
        harness.limits.topics.topic_bytes_max = u16::MAX;
        harness.limits.topics.topic_levels_max = u16::MAX;
        harness.version = match case.expected("means").expect("a meaning") {
            line if line.starts_with("connect mqtt5") => Version::V5,
            line if line.starts_with("connect mqtt311") => Version::V311,
            _ => Version::V31,
        };
        harness.hear(&case.bytes);
        assert!(matches!(harness.words[0], Up::Connect(_)), "`{}`", case.name);
        // One of the vectors takes no packet of more than a few bytes.
        let is_tiny = harness.ended == Some(CloseReason::TooLarge);
        assert!(harness.ended.is_none() || is_tiny, "`{}`: {:?}", case.name, harness.ended);
        count += 1;
    }
    assert!(count > 15, "{count}");
}
