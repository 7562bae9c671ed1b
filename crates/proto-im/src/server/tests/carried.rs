//! Frames that another protocol carries: numbers go there and back, and bad ones are answered.

use super::super::carried::{CarriedFrame, CarriedSession, failed, logged_in, notify};
use super::harness::*;
use super::requests::message;
use crate::codec::client_frame::PullFields;
use crate::codec::server_frame::ServerFrame;
use crate::codec::tests::schema;
use crate::codec::{WireFault, frame};
use crate::server::Out;
use base::hash::HashKey;
use model::chat::{ChatDelivery, ChatFault, ChatRequest};
use model::counters::ChatCounter;
use model::limits::Limits;
use model::service::Request;

const ID: &[u8; 16] = b"0123456789abcdef";

fn out() -> Out {
    Out::new(HashKey::new(1, 2), [0; 32])
}

/// A client's frame without its length.
fn bare(request: &ClientFrame<'_>) -> Vec<u8> {
    let bytes = client(request);
    frame::split(&bytes, bytes.len()).expect("a frame").expect("a whole one").0.to_vec()
}

fn send(to: &str) -> Vec<u8> {
    let content = ContentFields { kind: 1, text: "hi", ..ContentFields::EMPTY };
    bare(&ClientFrame::Send(SendFields { number: 7, to, client_id: ID, content }))
}

/// A server's frame without its length, as text.
fn told(bytes: &[u8]) -> String {
    let frame = ServerFrame::read(bytes).expect("well formed").expect("known");
    schema::text("ServerFrame", &frame)
}

#[test]
fn a_request_is_asked_under_the_carriers_number_and_answered_under_whichever_it_says() {
    let (mut session, mut out) = (CarriedSession::new(SESSION), out());
    assert_eq!(session.ask(&send("bob"), 1_000, &mut out), Ok(CarriedFrame::Asked(7)));
    let words: Vec<_> = out.words().collect();
    let [Request::Chat(ChatRequest::Send { session: whose, number: 1_000, .. })] = &words[..]
    else {
        panic!("{words:?}")
    };
    assert_eq!((*whose, session.session(), out.wire_is_empty()), (SESSION, SESSION, true));
    let sent = ChatDelivery::Sent { number: 7, id: 9, seq: 3, at_ms: 5, again: true };
    let answer = session.tell(sent, &mut out).expect("it goes on");
    assert_eq!(told(&answer), "sent { number: 7 id: 9 seq: 3 at_ms: 5 again: true }");
    assert!(out.wire_is_empty(), "the carrier sends it");
    let happens = ChatDelivery::Message { seq: 4, message: message(4, 2) };
    let event = session.tell(happens, &mut out).expect("it goes on");
    assert!(told(&event).starts_with("message { seq: 4 message { id: 104"), "{}", told(&event));
}

#[test]
fn what_the_lane_has_already_stays_before_what_is_said() {
    let (mut session, mut out) = (CarriedSession::new(SESSION), out());
    out.bytes().extend_from_slice(b"PUBACK");
    assert_eq!(session.ask(&send("bob"), 1, &mut out), Ok(CarriedFrame::Asked(7)));
    let answer = session.tell(ChatDelivery::Failed { number: 7, why: ChatFault::Busy }, &mut out);
    assert_eq!(told(&answer.unwrap()), "failed { number: 7 fault: FAULT_BUSY word: \"busy\" }");
    assert_eq!(out.bytes(), b"PUBACK");
}

#[test]
fn what_makes_no_sense_by_itself_is_answered_at_once_and_counted() {
    let (mut session, mut out) = (CarriedSession::new(SESSION), out());
    let Ok(CarriedFrame::Answered(answer)) = session.ask(&send("no body"), 1, &mut out) else {
        panic!("it was asked")
    };
    assert_eq!(told(&answer), "failed { number: 7 fault: FAULT_INVALID word: \"invalid\" }");
    assert_eq!(out.counts().collect::<Vec<_>>(), [ChatCounter::Invalid]);
    assert!(!out.has_words());
    let acknowledge = bare(&ClientFrame::Acknowledge(3));
    assert_eq!(session.ask(&acknowledge, 1, &mut out), Ok(CarriedFrame::Taken));
    assert!(out.has_words() && out.wire_is_empty());
}

#[test]
fn what_belongs_to_a_connection_or_is_malformed_is_a_fault() {
    let (mut session, mut out) = (CarriedSession::new(SESSION), out());
    let pull = bare(&ClientFrame::Pull(PullFields { number: 1, after: 2, count: 3 }));
    let login = ClientFrame::Login(LoginFields { name: "ann", ..LoginFields::default() });
    for (bytes, fault) in [
        (bare(&login), WireFault::OutOfOrder),
        (bare(&ClientFrame::Proceed(b"x")), WireFault::OutOfOrder),
        (bare(&ClientFrame::Ping), WireFault::OutOfOrder),
        (bare(&ClientFrame::Goodbye), WireFault::OutOfOrder),
        (Vec::new(), WireFault::NoRequest),
        (b"\xff\x01\x00".to_vec(), WireFault::WireType),
        (pull[..pull.len() - 1].to_vec(), WireFault::Truncated),
        (b"\x1a\x03\x12\x01\xff".to_vec(), WireFault::Text),
        (b"\x22\x06\x08\xff\xff\xff\xff\x1f".to_vec(), WireFault::Range),
    ] {
        assert_eq!(session.ask(&bytes, 1, &mut out), Err(fault), "{bytes:02x?}");
    }
    assert!(!out.has_words() && out.wire_is_empty(), "nobody is asked, and nothing is said");
    assert_eq!(session.ask(&pull, 1, &mut out), Ok(CarriedFrame::Asked(1)), "and it goes on");
}

#[test]
fn words_of_the_carriers_own_are_frames_of_the_schema() {
    let failed = failed(4, ChatFault::NoSession, "why");
    let expected =
        "failed { number: 4 fault: FAULT_NO_SESSION word: \"no_session\" reason: \"why\" }";
    assert_eq!(told(&failed), expected);
    assert_eq!(told(&notify(9)), "notify { head: 9 }");
    let ChatDelivery::LoggedIn(accepted) = yes() else { panic!("it is one") };
    let terms = told(&logged_in(&accepted, &Limits::default()));
    assert!(terms.starts_with("logged_in { account: \"ann@a.example\" head: 12 cursor: 10"));
    assert!(terms.contains("requests_max: 256"), "{terms}");
    assert!(!terms.contains("silence_s"), "that is the carrier's: {terms}");
}
