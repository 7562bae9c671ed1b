//! Enhanced authentication, at the beginning and again (MQTT5 4.12).

use super::desk::{Desk, SESSION, connected, denied};
use crate::codec::auth::{Auth, Disconnect};
use crate::codec::block::Block;
use crate::codec::connect::Connect;
use crate::codec::property::Property;
use crate::codec::{Packet, ReasonCode, Version};
use model::close::CloseReason;
use model::session::{Connected, Denial, SessionDelivery as Down, SessionRequest as Up};

fn auth(desk: &mut Desk, reason: ReasonCode, method: &str, data: &[u8]) {
    let block = Block::of(&[Property::AuthMethod(method), Property::AuthData(data)]);
    let block = block.expect("short");
    desk.packet(&Packet::Auth(Auth { reason, properties: block.properties() }));
}

/// A client that named a method and has a challenge to answer.
fn challenged() -> Desk {
    let block = Block::of(&[Property::AuthMethod("m"), Property::AuthData(b"1")]);
    let block = block.expect("short");
    let mut desk = Desk::strict();
    desk.connect(&Connect { properties: block.properties(), ..Connect::of(Version::V5, "d") });
    desk.take_words();
    desk.tell(Down::Challenge { method: "m".into(), data: b"2"[..].into() });
    let line = "auth reason=continue_authentication {auth_method=\"m\", auth_data=32}";
    assert_eq!(desk.take_sent(), [line]);
    desk
}

fn bound() -> Desk {
    let mut desk = challenged();
    auth(&mut desk, ReasonCode::ContinueAuthentication, "m", b"3");
    let method = Some(("m".into(), b"4"[..].into()));
    desk.tell(Down::Connected(Box::new(Connected { method, ..connected() })));
    let sent = desk.take_sent();
    assert!(sent[0].starts_with("connack reason=success {"), "{sent:?}");
    assert!(sent[0].ends_with("auth_method=\"m\", auth_data=34}"), "{sent:?}");
    desk.take_words();
    desk
}

#[test]
fn an_exchange_goes_back_and_forth_before_connack() {
    let mut desk = challenged();
    auth(&mut desk, ReasonCode::ContinueAuthentication, "m", b"3");
    let Up::Proceed(proceed) = desk.word() else { panic!() };
    assert_eq!((proceed.session, &*proceed.method, &*proceed.data), (None, "m", &b"3"[..]));
    desk.tell(Down::Challenge { method: "m".into(), data: Box::default() });
    assert_eq!(desk.take_sent(), ["auth reason=continue_authentication {auth_method=\"m\"}"]);
    auth(&mut desk, ReasonCode::ContinueAuthentication, "m", b"5");
    assert_eq!(desk.take_words().len(), 1);
    desk.tell(Down::Connected(Box::new(connected())));
    assert!(desk.sent[0].contains("auth_method=\"m\""), "it is always named: {:?}", desk.sent);
}

#[test]
fn a_wrong_proof_is_refused() {
    let mut desk = challenged();
    auth(&mut desk, ReasonCode::ContinueAuthentication, "m", b"3");
    desk.tell(Down::Refused(denied(Denial::NotAuthorized)));
    assert_eq!(desk.sent, ["connack reason=not_authorized"]);
    assert_eq!(desk.ended, Some(CloseReason::AuthFailed));
}

#[test]
fn while_a_challenge_stands_only_its_answer_is_taken() {
    let cases: [fn(&mut Desk); 5] = [
        |desk| auth(desk, ReasonCode::ContinueAuthentication, "other", b"3"),
        |desk| auth(desk, ReasonCode::ReAuthenticate, "m", b"3"),
        |desk| desk.packet(&Packet::Pingreq),
        |desk| desk.hear(b"\x30\x05\x00\x01a\x00x"),
        |desk| desk.connect(&Connect::of(Version::V5, "d")),
    ];
    for case in cases {
        let mut desk = challenged();
        case(&mut desk);
        assert_eq!(desk.sent, ["connack reason=protocol_error"], "no DISCONNECT before CONNACK");
        assert_eq!(desk.ended, Some(CloseReason::OutOfOrder));
        assert_eq!(desk.word(), Up::Gone);
    }
    let mut desk = challenged();
    desk.packet(&Packet::Disconnect(Disconnect::of(ReasonCode::Success)));
    assert_eq!((desk.ended, desk.sent.len()), (Some(CloseReason::Unbound), 0));
    assert_eq!(desk.word(), Up::Gone);
}

#[test]
fn what_comes_behind_an_answer_waits_for_the_broker() {
    let mut desk = challenged();
    auth(&mut desk, ReasonCode::ContinueAuthentication, "m", b"3");
    desk.packet(&Packet::Pingreq);
    assert_eq!(desk.take_words().len(), 1);
    assert!(desk.sent.is_empty() && desk.held);
    desk.tell(Down::Connected(Box::new(connected())));
    assert_eq!(desk.sent.last().map(String::as_str), Some("pingresp"));
}

#[test]
fn one_who_is_silent_at_a_challenge_is_not_authorized() {
    let mut desk = challenged();
    desk.pass(std::time::Duration::from_secs(3_600));
    assert_eq!(desk.sent, ["connack reason=not_authorized"]);
    assert_eq!((desk.ended, desk.word()), (Some(CloseReason::BindTimeout), Up::Gone));
}

#[test]
fn a_bound_client_may_authenticate_again() {
    let mut desk = bound();
    for _ in 0..2 {
        auth(&mut desk, ReasonCode::ReAuthenticate, "m", b"6");
        let Up::Proceed(proceed) = desk.word() else { panic!() };
        assert_eq!((proceed.session, &*proceed.data), (Some(SESSION), &b"6"[..]));
        desk.packet(&Packet::Pingreq);
        assert_eq!(desk.take_sent(), ["pingresp"], "everything else goes on");
        desk.tell(Down::Challenge { method: "m".into(), data: b"7"[..].into() });
        auth(&mut desk, ReasonCode::ContinueAuthentication, "m", b"8");
        assert!(matches!(desk.word(), Up::Proceed(_)));
        desk.take_sent();
        desk.tell(Down::Authenticated { method: "m".into(), data: b"9"[..].into() });
        let line = "auth reason=success {auth_method=\"m\", auth_data=39}";
        assert_eq!(desk.take_sent(), [line]);
    }
}

#[test]
fn a_new_authentication_that_fails_ends_the_connection() {
    let mut desk = bound();
    auth(&mut desk, ReasonCode::ReAuthenticate, "m", b"6");
    desk.take_words();
    desk.tell(Down::End(denied(Denial::NotAuthorized)));
    assert_eq!(desk.sent, ["disconnect reason=not_authorized"]);
    assert!(matches!(desk.word(), Up::Closed { .. }));
}

#[test]
fn auth_out_of_step_or_of_another_method_is_a_protocol_error() {
    let cases: [fn(&mut Desk); 4] = [
        |desk| auth(desk, ReasonCode::ContinueAuthentication, "m", b""),
        |desk| auth(desk, ReasonCode::ReAuthenticate, "other", b""),
        |desk| {
            auth(desk, ReasonCode::ReAuthenticate, "m", b"");
            auth(desk, ReasonCode::ReAuthenticate, "m", b"");
        },
        |desk| {
            auth(desk, ReasonCode::ReAuthenticate, "m", b"");
            desk.tell(Down::Challenge { method: "m".into(), data: Box::default() });
            desk.take_sent();
            auth(desk, ReasonCode::ReAuthenticate, "m", b"");
        },
    ];
    for case in cases {
        let mut desk = bound();
        case(&mut desk);
        assert!(desk.sent[0].starts_with("disconnect reason=protocol_error"), "{:?}", desk.sent);
    }
    let mut desk = Desk::strict().bound(Version::V5);
    auth(&mut desk, ReasonCode::ReAuthenticate, "m", b"");
    assert!(desk.sent[0].starts_with("disconnect reason=protocol_error"), "none was named");
}
