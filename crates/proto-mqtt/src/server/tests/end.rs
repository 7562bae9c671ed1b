//! How connections end, and what is said of it.

use super::harness::{SESSION, ServerHarness, connected, denied};
use crate::codec::auth::Disconnect;
use crate::codec::block::Block;
use crate::codec::connect::Connect;
use crate::codec::property::Property;
use crate::codec::{Packet, ReasonCode, Version};
use model::close::CloseReason;
use model::counters::ProcessCounter;
use model::session::{Connected, Denial, Denied, SessionDelivery as Down, SessionRequest as Up};

fn left(harness: &mut ServerHarness) -> (bool, Option<u32>) {
    assert_eq!(harness.ended, Some(CloseReason::Unbound));
    assert!(harness.sent.is_empty(), "a farewell is not answered");
    let [Up::Leave { session, with_will, expiry_s }, Up::Closed { reason, .. }] = harness.words[..]
    else {
        panic!("{:?}", harness.words)
    };
    assert_eq!((session, reason), (SESSION, CloseReason::Unbound));
    (with_will, expiry_s)
}

#[test]
fn a_farewell_says_what_becomes_of_will_and_session() {
    for version in Version::ALL {
        let mut harness = ServerHarness::strict().bound(version);
        harness.hear(&[0xe0, 0, 0xc0, 0]);
        assert_eq!(left(&mut harness), (false, None), "what comes behind it is not heard");
    }
    for (reason, with_will) in [
        (ReasonCode::Success, false),
        (ReasonCode::DisconnectWithWill, true),
        (ReasonCode::UnspecifiedError, true),
    ] {
        let mut harness = ServerHarness::strict().bound(Version::V5);
        harness.packet(&Packet::Disconnect(Disconnect::of(reason)));
        assert_eq!(left(&mut harness), (with_will, None), "only the plain one discards the will");
    }
}

#[test]
fn a_farewell_may_change_the_expiry_but_not_from_0() {
    for (asked, said) in [(Some(60), 0), (Some(60), 90), (Some(60), u32::MAX), (None, 0)] {
        let before: Vec<_> = asked.map(Property::SessionExpiry).into_iter().collect();
        let before = Block::of(&before).expect("short");
        let mut harness = ServerHarness::strict();
        harness
            .connect(&Connect { properties: before.properties(), ..Connect::of(Version::V5, "") });
        harness.tell(Down::Connected(Box::new(connected())));
        harness.take_words();
        harness.take_sent();
        let block = Block::of(&[Property::SessionExpiry(said)]).expect("short");
        let (reason, properties) = (ReasonCode::Success, block.properties());
        harness.packet(&Packet::Disconnect(Disconnect { reason, properties }));
        assert_eq!(left(&mut harness), (false, Some(said)));
    }
    let mut harness = ServerHarness::strict().bound(Version::V5);
    let block = Block::of(&[Property::SessionExpiry(1)]).expect("short");
    let (reason, properties) = (ReasonCode::Success, block.properties());
    harness.packet(&Packet::Disconnect(Disconnect { reason, properties }));
    assert!(harness.sent[0].starts_with("disconnect reason=protocol_error"), "{:?}", harness.sent);
    assert!(
        matches!(harness.words[..], [Up::Closed { .. }]),
        "it has not left: {:?}",
        harness.words
    );
}

#[test]
fn an_end_is_told_to_5_and_just_comes_to_others() {
    let table = [
        (Denial::TakenOver, "session_taken_over"),
        (Denial::AdminKick, "administrative_action"),
        (Denial::ShuttingDown, "server_shutting_down"),
        (Denial::Expired, "not_authorized"),
        (Denial::Quota, "quota_exceeded"),
        (Denial::Rate, "message_rate_too_high"),
        (Denial::UseAnother, "use_another_server"),
        (Denial::Moved, "server_moved"),
        (Denial::ReceiveMax, "receive_maximum_exceeded"),
        (Denial::Protocol, "protocol_error"),
        (Denial::BadMethod, "not_authorized"),
        (Denial::Unspecified, "unspecified_error"),
    ];
    for (why, word) in table {
        let mut harness = ServerHarness::strict().bound(Version::V5);
        harness.tell(Down::End(denied(why)));
        assert_eq!(
            harness.sent,
            [format!("disconnect reason={word}")
                .replace("reason=success", "reason=normal_disconnection")]
        );
        assert_eq!(harness.ended, Some(CloseReason::AuthFailed), "as the broker said");
        let mut harness = ServerHarness::strict().bound(Version::V311);
        harness.tell(Down::End(denied(why)));
        assert_eq!((harness.wire.len(), harness.ended), (0, Some(CloseReason::AuthFailed)));
        let reason = CloseReason::AuthFailed;
        assert_eq!(harness.word(), Up::Closed { session: SESSION, reason });
    }
}

#[test]
fn an_end_may_name_another_server_and_fits_the_client() {
    let denied = || {
        Box::new(Denied {
            text: Some("for a while".into()),
            server: Some("b:1883".into()),
            ..Denied::of(Denial::UseAnother, CloseReason::Redirected)
        })
    };
    let mut harness = ServerHarness::strict().bound(Version::V5);
    harness.tell(Down::End(denied()));
    let line = "disconnect reason=use_another_server {server_reference=\"b:1883\", \
                reason_string=\"for a while\"}";
    assert_eq!(harness.sent, [line]);
    let block = Block::of(&[Property::MaximumPacketSize(20)]).expect("short");
    let mut harness = ServerHarness::strict();
    harness.connect(&Connect { properties: block.properties(), ..Connect::of(Version::V5, "d") });
    harness.tell(Down::Connected(Box::new(connected())));
    harness.take_sent();
    harness.tell(Down::End(denied()));
    let line = "disconnect reason=use_another_server {server_reference=\"b:1883\"}";
    assert_eq!(harness.sent, [line], "without the words, which do not fit");
}

#[test]
fn a_silent_client_is_told_so() {
    let mut harness = ServerHarness::strict().bound(Version::V5);
    harness.fall_silent();
    assert_eq!(harness.sent, ["disconnect reason=keep_alive_timeout"]);
    let reason = CloseReason::KeepAliveTimeout;
    assert_eq!(harness.word(), Up::Closed { session: SESSION, reason });
    let mut harness = ServerHarness::strict().bound(Version::V311);
    harness.fall_silent();
    assert_eq!((harness.ended, harness.wire.len()), (Some(reason), 0));
}

#[test]
fn a_connection_that_ended_says_nothing_more() {
    let mut harness = ServerHarness::strict();
    harness.close(CloseReason::PeerReset);
    assert!(harness.words.is_empty(), "the broker never heard of it");
    let mut harness = ServerHarness::strict().bound(Version::V5);
    harness.close(CloseReason::PeerReset);
    assert_eq!(harness.take_words().len(), 1);
    harness.ended = None;
    harness.wake();
    harness.tell(Down::Release { id: 1, unknown: false });
    harness.hear(&[0xc0, 0]);
    harness.close(CloseReason::PeerReset);
    assert!(harness.words.is_empty() && harness.sent.is_empty());
}

#[test]
fn a_heartbeat_after_too_long_a_silence_is_answered_and_counted_as_late() {
    for version in Version::ALL {
        for (keep_alive_s, silent_ms, late) in
            [(60, 66_000, 0), (60, 66_001, 1), (60, 0, 0), (0, 9_999_000, 0)]
        {
            let mut harness = ServerHarness::strict();
            harness.connect(&Connect::of(version, "d"));
            let terms = Connected { keep_alive_s, ..connected() };
            harness.tell(Down::Connected(Box::new(terms)));
            harness.take_sent();
            harness.counts.clear();
            harness.was_silent(silent_ms);
            harness.packet(&Packet::Pingreq);
            assert_eq!((harness.take_sent().len(), harness.ended), (1, None));
            let counted =
                harness.counts.iter().filter(|count| **count == ProcessCounter::HeartbeatsLate);
            assert_eq!(counted.count(), late, "{keep_alive_s} {silent_ms}");
        }
    }
}
