//! Packets that are well formed and must not come now.

use super::harness::ServerHarness;
use crate::codec::connect::Connect;
use crate::codec::{PacketKind, Terms, Version};
use model::close::CloseReason;
use testkit::vector;

#[test]
fn a_second_connect_ends_the_connection() {
    for version in Version::ALL {
        for second in Version::ALL {
            let mut harness = ServerHarness::strict().bound(version);
            let mut bytes = Vec::new();
            Connect::of(second, "d").write(&Terms::of(second), &mut bytes).expect("it fits");
            harness.hear(&bytes);
            assert_eq!(harness.ended, Some(CloseReason::OutOfOrder));
            assert_eq!(harness.wire.is_empty(), version != Version::V5);
        }
    }
    let mut harness = ServerHarness::strict().bound(Version::V5);
    harness.hear(&[0x10]);
    let line = "disconnect reason=protocol_error {reason_string=\"A second CONNECT.\"}";
    assert_eq!(harness.sent, [line], "its first byte says so");
}

#[test]
fn a_second_connect_behind_the_first_waits_and_ends_it() {
    let mut harness = ServerHarness::strict();
    harness.kind = true;
    let mut bytes = Vec::new();
    let connect = Connect::of(Version::V311, "d");
    harness.version = Version::V311;
    for _ in 0..2 {
        let terms = Terms::of(Version::V311);
        connect.write(&terms, &mut bytes).expect("it fits");
    }
    harness.hear(&bytes);
    assert_eq!(harness.sent, ["connack reason=success"], "one CONNACK a connection");
    assert_eq!(harness.ended, Some(CloseReason::OutOfOrder));
}

#[test]
fn before_connect_nothing_else_may_come() {
    for &kind in PacketKind::ALL.iter().filter(|&&kind| kind != PacketKind::Connect) {
        let mut harness = ServerHarness::strict();
        harness.hear(&[kind.first_byte()]);
        assert_eq!(harness.ended, Some(CloseReason::OutOfOrder), "{kind:?}");
        assert!(harness.wire.is_empty() && harness.words.is_empty());
    }
}

#[test]
fn what_only_servers_send_ends_the_connection() {
    let packets = ["20 02 00 00", "90 03 00 01 00", "b0 02 00 01", "d0 00"];
    for packet in packets {
        let bytes = vector::bytes(packet).expect("hex");
        for version in Version::ALL {
            let mut harness = ServerHarness::strict().bound(version);
            harness.hear(&bytes);
            assert_eq!(harness.ended, Some(CloseReason::OutOfOrder), "{packet}");
            assert_eq!(harness.sent.len(), usize::from(version == Version::V5));
        }
    }
}

#[test]
fn a_packet_above_the_limit_ends_the_connection_by_its_header() {
    let mut harness = ServerHarness::strict();
    harness.limits.topics.packet_bytes_max = 1_000;
    let mut harness = harness.bound(Version::V5);
    harness.hear(&[0x30, 0xe6, 0x07]);
    assert!(
        harness.sent[0].starts_with("disconnect reason=packet_too_large"),
        "{:?}",
        harness.sent
    );
    assert_eq!(harness.ended, Some(CloseReason::TooLarge));
}
