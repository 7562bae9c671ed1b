//! Stanzas of a bound device, and their results.

use super::super::*;
use super::harness::*;
use super::stream_error;
use crate::xml::scan::Scan;
use model::chat::{ChatFault, NewMessage};

const TO_BOB: &str = "<message to='bob@a.example/any' type='chat' id='x'><body>hi</body></message>";

fn sends(side: &mut Side) -> Vec<(u32, NewMessage)> {
    let of = |word| match word {
        ChatRequest::Send { session: SESSION, number, message } => (number, *message),
        other => panic!("{other:?}"),
    };
    words(side).into_iter().map(of).collect()
}

#[test]
fn a_device_at_rest_has_one_box_and_its_jid() {
    let is_at_rest = |side: &mut Side| {
        let mut rests = false;
        side.machine.with(&mut Out::new(base::hash::HashKey::new(1, 2), [0; 32]), |phase, _| {
            rests = matches!(phase, Phase::Session(session) if session.busy.is_none());
        });
        rests
    };
    assert!(is_at_rest(&mut bound()) && is_at_rest(&mut available()));
    let mut side = available();
    says(&mut side, "<message to='bob@a");
    assert!(!is_at_rest(&mut side), "a stanza that is not whole");
    says(&mut side, ".example'><body>x</body></message> ");
    assert!(!is_at_rest(&mut side), "a message that is not answered");
    let (number, _) = sends(&mut side)[0];
    let sent = ChatDelivery::Sent { number, id: 1, seq: 1, at_ms: 1, again: false };
    assert_eq!(told(&mut side, sent), "");
    assert!(is_at_rest(&mut side));
    let hello = ChatDelivery::Message { seq: 13, message: message("bob", "x", "ann", "hello") };
    told(&mut side, hello);
    assert!(is_at_rest(&mut side));
    assert_eq!(size_of::<Server>(), 12);
}

#[test]
fn a_message_goes_to_its_account_with_an_id_of_its_own() {
    let mut side = bound();
    let uuid = "01234567-89ab-cdef-0123-456789abcdef";
    says(&mut side, &TO_BOB.replace("'x'", &format!("'{uuid}'")));
    says(&mut side, &TO_BOB.repeat(2));
    let sent = sends(&mut side);
    let numbers: Vec<u32> = sent.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(sent.iter().all(|(_, message)| message.to.as_str() == "bob@a.example"));
    let ids: Vec<String> = sent
        .iter()
        .map(|(_, it)| format!("{:032x}", u128::from_be_bytes(it.client_id.0)))
        .collect();
    assert_eq!(ids[0], uuid.replace('-', ""));
    assert_ne!(ids[1], ids[2]);
    for id in &ids[1..] {
        assert_eq!((&id[12..13], "89ab".contains(&id[16..17])), ("8", true), "{id}");
        assert_eq!(&id[..12], "018bcfe56800", "by the time");
    }
}

#[test]
fn what_was_not_stored_is_told_with_its_id() {
    for (to, why, condition) in [
        ("bob@a.example/any", ChatFault::UnknownAccount, "cancel'><service-unavailable"),
        ("bob@b.example", ChatFault::UnknownAccount, "cancel'><remote-server-not-found"),
        ("bob@a.example", ChatFault::Busy, "wait'><resource-constraint"),
        ("bob@a.example", ChatFault::TooLarge, "modify'><policy-violation"),
        ("bob@a.example", ChatFault::Conflict, "cancel'><conflict"),
    ] {
        let mut side = bound();
        says(&mut side, &TO_BOB.replace("bob@a.example/any", to).repeat(2));
        let numbers: Vec<u32> = sends(&mut side).iter().map(|(number, _)| *number).collect();
        let sent = ChatDelivery::Sent { number: 1, id: 1, seq: 1, at_ms: 1, again: false };
        assert_eq!((numbers, told(&mut side, sent)), (vec![1, 2], String::new()));
        let said = told(&mut side, ChatDelivery::Failed { number: 2, why });
        assert_eq!(
            said,
            format!(
                "<message type='error' id='x' from='{to}' to='ann@a.example/desk'>\
                 <body>hi</body><error type='{condition} \
                 xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
            )
        );
    }
}

#[test]
fn no_more_is_read_than_may_be_unanswered() {
    let mut side = bound();
    side.limits.chat.requests_a_session_max = 2;
    says(&mut side, &TO_BOB.repeat(3));
    assert_eq!((sends(&mut side).len(), side.untaken().len()), (2, TO_BOB.len()));
    let mut out = Out::new(base::hash::HashKey::new(1, 2), [0; 32]);
    assert_eq!(side.machine.silent(now(), &mut out), Ok(()), "it is not heard");
    assert!(out.bytes().is_empty());
    told(&mut side, ChatDelivery::Sent { number: 2, id: 1, seq: 1, at_ms: 1, again: false });
    assert_eq!((sends(&mut side).len(), side.untaken().len()), (1, 0));
}

#[test]
fn whoever_is_silent_is_asked_once_and_then_let_go() {
    let mut side = bound();
    let silent = |side: &mut Side| {
        let mut out = Out::new(base::hash::HashKey::new(1, 2), [0; 32]);
        let result = side.machine.silent(now(), &mut out);
        (result, String::from_utf8(out.bytes().clone()).expect("UTF-8"), out.take_silence())
    };
    let ping = "<iq type='get' id='ping' from='a.example' to='ann@a.example/desk'>\
        <ping xmlns='urn:xmpp:ping'/></iq>";
    assert_eq!(silent(&mut side), (Ok(()), ping.into(), Some(330_000)));
    assert_eq!(says(&mut side, " "), "", "any byte will do");
    assert_eq!(side.silence_ms, 300_000);
    assert_eq!(silent(&mut side), (Ok(()), ping.into(), Some(330_000)));
    let end = Err(CloseReason::KeepAliveTimeout);
    assert_eq!(silent(&mut side), (end, stream_error("connection-timeout"), None));
    let nothing = (Ok(()), String::new(), None);
    assert_eq!(silent(&mut granted()), nothing, "whoever is not bound has a time for that");
}

#[test]
fn an_id_that_is_too_long_is_not_given_back() {
    let mut side = bound();
    let id = "x".repeat(1_025);
    let long = TO_BOB.replace("'x'", &format!("'{id}'"));
    let said = says(&mut side, &long);
    assert!(said.contains("<bad-request ") && !said.contains("id="), "{said}");
    let ping = format!("<iq type='get' id='{id}'><ping xmlns='urn:xmpp:ping'/></iq>");
    let said = says(&mut side, &ping);
    assert!(said.contains("<bad-request ") && !said.contains("id="), "{said}");
    let said = says(&mut side, &format!("<presence id='{id}'/>"));
    assert!(said.starts_with("<presence from="), "{said}");
}

#[test]
fn an_echo_of_presence_declares_the_prefixes_that_it_is_written_with() {
    let mut side = bound();
    let presence = "<presence xmlns:c='urn:c'><c:x c:y='1'/></presence>";
    let said = says(&mut side, presence);
    let scan = Scan::element(said.as_bytes()).expect("XML that stands for itself");
    assert!(scan.root().child("x", "urn:c").is_some(), "{said}");
}

#[test]
fn what_is_no_address_for_its_length_is_not_said_back() {
    let mut side = bound();
    let long = "'".repeat(200_000);
    for name in ["message", "presence", "iq"] {
        let body = "<body>x</body>";
        let said =
            says(&mut side, &format!("<{name} type='get' id='1' to=\"{long}\">{body}</{name}>"));
        assert!(said.len() < 400 && said.contains("<jid-malformed "), "{} bytes", said.len());
    }
}

#[test]
fn a_device_that_is_refused_because_of_its_rate_is_read_more_slowly() {
    let at = |ms: u64| Now::new(base::time::Instant::from_nanos(ms * 1_000_000), 0);
    let mut side = available();
    says(&mut side, TO_BOB);
    let (number, _) = sends(&mut side)[0];
    side.tell(at(0), ChatDelivery::Failed { number, why: ChatFault::RateLimited });
    assert!(side.is_held(), "it is not read");
    side.pass(at(10));
    assert!(side.is_held(), "until the pause is over");
    side.pass(at(20));
    assert!(!side.is_held());
    // Whatever else it is refused for does not slow it.
    says(&mut side, TO_BOB);
    let (number, _) = sends(&mut side)[0];
    side.tell(at(20), ChatDelivery::Failed { number, why: ChatFault::Busy });
    assert!(!side.is_held());
}
