//! Enhanced authentication, at the beginning and again (MQTT5 4.12).

use super::harness::{SESSION, ServerHarness, connected, denied};
use crate::codec::auth::{Auth, Disconnect};
use crate::codec::block::Block;
use crate::codec::connect::Connect;
use crate::codec::property::Property;
use crate::codec::{Packet, ReasonCode, Version};
use model::close::CloseReason;
use model::session::{Connected, Denial, SessionDelivery as Down, SessionRequest as Up};

fn auth(harness: &mut ServerHarness, reason: ReasonCode, method: &str, data: &[u8]) {
    let block = Block::of(&[Property::AuthMethod(method), Property::AuthData(data)]);
    let block = block.expect("short");
    harness.packet(&Packet::Auth(Auth { reason, properties: block.properties() }));
}

/// A client that named a method and has a challenge to answer.
fn challenged() -> ServerHarness {
    let block = Block::of(&[Property::AuthMethod("m"), Property::AuthData(b"1")]);
    let block = block.expect("short");
    let mut harness = ServerHarness::strict();
    harness.connect(&Connect { properties: block.properties(), ..Connect::of(Version::V5, "d") });
    harness.take_words();
    harness.tell(Down::Challenge { method: "m".into(), data: b"2"[..].into() });
    let line = "auth reason=continue_authentication {auth_method=\"m\", auth_data=32}";
    assert_eq!(harness.take_sent(), [line]);
    harness
}

fn bound() -> ServerHarness {
    let mut harness = challenged();
    auth(&mut harness, ReasonCode::ContinueAuthentication, "m", b"3");
    let method = Some(("m".into(), b"4"[..].into()));
    harness.tell(Down::Connected(Box::new(Connected { method, ..connected() })));
    let sent = harness.take_sent();
    assert!(sent[0].starts_with("connack reason=success {"), "{sent:?}");
    assert!(sent[0].ends_with("auth_method=\"m\", auth_data=34}"), "{sent:?}");
    harness.take_words();
    harness
}

#[test]
fn an_exchange_goes_back_and_forth_before_connack() {
    let mut harness = challenged();
    auth(&mut harness, ReasonCode::ContinueAuthentication, "m", b"3");
    let Up::Proceed(proceed) = harness.word() else { panic!() };
    assert_eq!((proceed.session, &*proceed.method, &*proceed.data), (None, "m", &b"3"[..]));
    harness.tell(Down::Challenge { method: "m".into(), data: Box::default() });
    assert_eq!(harness.take_sent(), ["auth reason=continue_authentication {auth_method=\"m\"}"]);
    auth(&mut harness, ReasonCode::ContinueAuthentication, "m", b"5");
    assert_eq!(harness.take_words().len(), 1);
    harness.tell(Down::Connected(Box::new(connected())));
    assert!(
        harness.sent[0].contains("auth_method=\"m\""),
        "it is always named: {:?}",
        harness.sent
    );
}

#[test]
fn a_wrong_proof_is_refused() {
    let mut harness = challenged();
    auth(&mut harness, ReasonCode::ContinueAuthentication, "m", b"3");
    harness.tell(Down::Refused(denied(Denial::NotAuthorized)));
    assert_eq!(harness.sent, ["connack reason=not_authorized"]);
    assert_eq!(harness.ended, Some(CloseReason::AuthFailed));
}

#[test]
fn while_a_challenge_stands_only_its_answer_is_taken() {
    let cases: [fn(&mut ServerHarness); 5] = [
        |harness| auth(harness, ReasonCode::ContinueAuthentication, "other", b"3"),
        |harness| auth(harness, ReasonCode::ReAuthenticate, "m", b"3"),
        |harness| harness.packet(&Packet::Pingreq),
        |harness| harness.hear(b"\x30\x05\x00\x01a\x00x"),
        |harness| harness.connect(&Connect::of(Version::V5, "d")),
    ];
    for case in cases {
        let mut harness = challenged();
        case(&mut harness);
        assert_eq!(harness.sent, ["connack reason=protocol_error"], "no DISCONNECT before CONNACK");
        assert_eq!(harness.ended, Some(CloseReason::OutOfOrder));
        assert_eq!(harness.word(), Up::Gone);
    }
    let mut harness = challenged();
    harness.packet(&Packet::Disconnect(Disconnect::of(ReasonCode::Success)));
    assert_eq!((harness.ended, harness.sent.len()), (Some(CloseReason::Unbound), 0));
    assert_eq!(harness.word(), Up::Gone);
}

#[test]
fn what_comes_behind_an_answer_waits_for_the_broker() {
    let mut harness = challenged();
    auth(&mut harness, ReasonCode::ContinueAuthentication, "m", b"3");
    harness.packet(&Packet::Pingreq);
    assert_eq!(harness.take_words().len(), 1);
    assert!(harness.sent.is_empty() && harness.held);
    harness.tell(Down::Connected(Box::new(connected())));
    assert_eq!(harness.sent.last().map(String::as_str), Some("pingresp"));
}

#[test]
fn one_who_is_silent_at_a_challenge_is_not_authorized() {
    let mut harness = challenged();
    harness.pass(std::time::Duration::from_secs(3_600));
    assert_eq!(harness.sent, ["connack reason=not_authorized"]);
    assert_eq!((harness.ended, harness.word()), (Some(CloseReason::BindTimeout), Up::Gone));
}

#[test]
fn a_bound_client_may_authenticate_again() {
    let mut harness = bound();
    for _ in 0..2 {
        auth(&mut harness, ReasonCode::ReAuthenticate, "m", b"6");
        let Up::Proceed(proceed) = harness.word() else { panic!() };
        assert_eq!((proceed.session, &*proceed.data), (Some(SESSION), &b"6"[..]));
        harness.packet(&Packet::Pingreq);
        assert_eq!(harness.take_sent(), ["pingresp"], "everything else goes on");
        harness.tell(Down::Challenge { method: "m".into(), data: b"7"[..].into() });
        auth(&mut harness, ReasonCode::ContinueAuthentication, "m", b"8");
        assert!(matches!(harness.word(), Up::Proceed(_)));
        harness.take_sent();
        harness.tell(Down::Authenticated { method: "m".into(), data: b"9"[..].into() });
        let line = "auth reason=success {auth_method=\"m\", auth_data=39}";
        assert_eq!(harness.take_sent(), [line]);
    }
}

#[test]
fn a_new_authentication_that_fails_ends_the_connection() {
    let mut harness = bound();
    auth(&mut harness, ReasonCode::ReAuthenticate, "m", b"6");
    harness.take_words();
    harness.tell(Down::End(denied(Denial::NotAuthorized)));
    assert_eq!(harness.sent, ["disconnect reason=not_authorized"]);
    assert!(matches!(harness.word(), Up::Closed { .. }));
}

#[test]
fn auth_out_of_step_or_of_another_method_is_a_protocol_error() {
    let cases: [fn(&mut ServerHarness); 4] = [
        |harness| auth(harness, ReasonCode::ContinueAuthentication, "m", b""),
        |harness| auth(harness, ReasonCode::ReAuthenticate, "other", b""),
        |harness| {
            auth(harness, ReasonCode::ReAuthenticate, "m", b"");
            auth(harness, ReasonCode::ReAuthenticate, "m", b"");
        },
        |harness| {
            auth(harness, ReasonCode::ReAuthenticate, "m", b"");
            harness.tell(Down::Challenge { method: "m".into(), data: Box::default() });
            harness.take_sent();
            auth(harness, ReasonCode::ReAuthenticate, "m", b"");
        },
    ];
    for case in cases {
        let mut harness = bound();
        case(&mut harness);
        assert!(
            harness.sent[0].starts_with("disconnect reason=protocol_error"),
            "{:?}",
            harness.sent
        );
    }
    let mut harness = ServerHarness::strict().bound(Version::V5);
    auth(&mut harness, ReasonCode::ReAuthenticate, "m", b"");
    assert!(harness.sent[0].starts_with("disconnect reason=protocol_error"), "none was named");
}
