//! The server's machine with a service that is told: malformed input first.

mod carried;
mod chatrooms;
mod conversations;
mod groups;
pub(crate) mod harness;
mod login;
mod people;
mod requests;
mod words;

use super::*;
use crate::codec::frame::PREFACE;
use harness::*;
use model::machine::OtherServer;
use model::request::Refusal;
use model::session::Denial;
use testkit::vector;

const BAD: &str = include_str!("../../vectors/1-malformed.txt");
const FRAMES: &str = include_str!("../../vectors/2-frames.txt");

/// A side in the state that a vector names.
fn in_state(state: Option<&str>) -> Side {
    match state.unwrap_or("fresh") {
        "fresh" => opened(),
        "begun" => begun(),
        "challenged" => challenged(),
        "session" => in_session(),
        other => panic!("no state {other}"),
    }
}

#[test]
fn what_must_not_be_taken_is_answered_with_an_end() {
    for vector in vector::read(BAD) {
        let bytes = vector.bytes("bytes");
        for cut in 0..=bytes.len() {
            let mut side = in_state(vector.text("state"));
            if let Some(limit) = vector.text("limit") {
                side.limits.frame_bytes_unbound_max = limit.parse().expect("a number");
            }
            side.take_words();
            let mut sent = side.hear(now(), &bytes[..cut]);
            sent.extend(side.hear(now(), &bytes[cut..]));
            let said = frames(&sent);
            let word = vector.need("word");
            assert_eq!(said.len(), 1, "{}: {said:?}", vector.name);
            assert!(said[0].starts_with("end {"), "{}: {said:?}", vector.name);
            assert!(said[0].contains(&format!("word: \"{word}\"")), "{}: {said:?}", vector.name);
            let close = side.ended.map(CloseReason::name);
            assert_eq!(close, Some(vector.text("close").unwrap_or("malformed")), "{}", vector.name);
        }
    }
}

#[test]
fn good_frames_of_a_session_are_taken_whatever_their_pieces() {
    for vector in vector::read(FRAMES).iter().filter(|vector| vector.need("side") == "client") {
        let bytes = vector.bytes("bytes");
        let is_request = !vector.need("text").starts_with("login")
            && !vector.need("text").starts_with("proceed");
        for cut in (0..=bytes.len()).filter(|_| is_request) {
            let mut side = in_session();
            let mut sent = side.hear(now(), &bytes[..cut]);
            sent.extend(side.hear(now(), &bytes[cut..]));
            let is_goodbye = vector.need("text").starts_with("goodbye");
            assert_eq!(side.ended.is_some(), is_goodbye, "{} at {cut}", vector.name);
            assert!(side.untaken().is_empty() || is_goodbye);
            assert!(side.words.len() + sent.len() > 0, "{}", vector.name);
        }
    }
}

#[test]
fn an_idle_device_is_twelve_bytes_and_no_heap() {
    let mut side = in_session();
    assert!(side.machine.is_idle());
    side.hear(now(), &client(&ClientFrame::Pull(Default::default())));
    assert!(side.machine.is_idle(), "a request that is with the service is a number");
    assert!(!opened().machine.is_idle() && !begun().machine.is_idle());
}

#[test]
fn a_login_that_does_not_come_ends_the_connection() {
    let mut side = opened();
    assert_eq!(wake(&mut side, 9_999), "");
    assert_eq!(side.ended, None);
    assert_eq!(wake(&mut side, 10_000), END_LATE);
    assert_eq!(side.ended, Some(CloseReason::BindTimeout));
    let mut side = asked();
    side.take_words();
    assert_eq!(wake(&mut side, 10_000), END_LATE);
    assert_eq!(side.take_words_as::<ChatRequest>(), [ChatRequest::Gone]);
    let mut side = in_session();
    assert_eq!((wake(&mut side, 1 << 30).as_str(), side.ended), ("", None));
}

const END_LATE: &str = "end { reason: REASON_LOGIN_TIMEOUT word: \"login_timeout\" }";

#[test]
fn who_is_turned_away_is_told_when_to_come_back() {
    for (why, reason, word) in
        [(Refusal::Busy, "BUSY", "busy"), (Refusal::Draining, "SHUTTING_DOWN", "shutting_down")]
    {
        for (side, frame) in [(opened(), "refused"), (asked(), "refused"), (in_session(), "end")] {
            let mut side = side;
            let mut out = Out::new(base::hash::HashKey::new(1, 2), [0; 32]);
            side.machine.turn_away(now(), TurnAway::of(why, 1_234), &mut out);
            let said = frames(out.bytes());
            let expected = format!(
                "{frame} {{ reason: REASON_{reason} word: \"{word}\" retry_after_ms: 1234 }}"
            );
            assert_eq!(said, [expected]);
        }
    }
}

#[test]
fn who_is_turned_away_to_another_server_is_told_which() {
    let server = Some(OtherServer { address: "b.example:7002", denial: None });
    let away = TurnAway { server, ..TurnAway::of(Refusal::Draining, 5) };
    for (side, frame) in [(asked(), "refused"), (in_session(), "end")] {
        let (mut side, mut out) = (side, Out::new(base::hash::HashKey::new(1, 2), [0; 32]));
        side.machine.turn_away(now(), away, &mut out);
        let told = format!(
            "{frame} {{ reason: REASON_USE_ANOTHER word: \"use_another\" retry_after_ms: 5 \
             server: \"b.example:7002\" }}"
        );
        assert_eq!(frames(out.bytes()), [told]);
    }
}

#[test]
fn an_end_of_the_service_is_told_and_ends() {
    let end = |why, reason| ChatDelivery::End(Box::new(model::chat::SessionEnd { why, reason }));
    let mut side = in_session();
    let sent = side.tell(now(), end(Denial::TakenOver, CloseReason::Replaced));
    assert_eq!(frames(&sent), ["end { reason: REASON_TAKEN_OVER word: \"taken_over\" }"]);
    assert_eq!(side.ended, Some(CloseReason::Replaced));
    let closed = ChatRequest::Closed { session: SESSION, reason: CloseReason::Replaced };
    assert_eq!(side.take_words_as::<ChatRequest>(), [closed]);
    let mut side = asked();
    let sent = side.tell(now(), end(Denial::AdminKick, CloseReason::AdminKick));
    assert_eq!(frames(&sent), ["end { reason: REASON_ADMIN_KICK word: \"admin_kick\" }"]);
    assert_eq!(side.ended, Some(CloseReason::AdminKick));
}

#[test]
fn silence_ends_a_session_unless_the_server_itself_does_not_listen() {
    let mut side = in_session();
    let mut out = Out::new(base::hash::HashKey::new(1, 2), [0; 32]);
    assert_eq!(side.machine.silent(now(), &mut out), Err(CloseReason::KeepAliveTimeout));
    assert_eq!(frames(out.bytes()), ["end { reason: REASON_SILENCE word: \"silence\" }"]);
    let mut side = in_session();
    side.limits.chat.requests_a_session_max = 1;
    let pulls = client(&ClientFrame::Pull(Default::default())).repeat(2);
    side.hear(now(), &pulls);
    let mut out = Out::new(base::hash::HashKey::new(1, 2), [0; 32]);
    assert_eq!(side.machine.silent(now(), &mut out), Ok(()));
}

#[test]
fn a_connection_that_ends_is_told_once_to_whom_it_concerns() {
    for (side, expected) in [
        (opened(), vec![]),
        (begun(), vec![]),
        (asked(), vec![ChatRequest::Gone]),
        (
            in_session(),
            vec![ChatRequest::Closed { session: SESSION, reason: CloseReason::PeerReset }],
        ),
    ] {
        let mut side = side;
        side.take_words();
        side.close(now(), CloseReason::PeerReset);
        assert_eq!(side.take_words_as::<ChatRequest>(), expected);
    }
}

#[test]
fn deliveries_of_a_session_that_is_over_change_nothing() {
    let mut side = opened();
    assert!(side.tell(now(), ChatDelivery::Notify { head: 1 }).is_empty());
    assert_eq!(side.ended, None);
    assert_eq!(PREFACE[0], 0xc4);
}
