//! The server's machine with a service that is told: malformed input first.

mod acks;
mod amendments;
mod archive;
mod disco;
mod domains;
pub(crate) mod foreign;
pub(crate) mod harness;
mod inbox;
mod inline;
mod login;
mod nodes;
pub(crate) mod people;
mod receipts;
mod resumption;
mod rooms;
mod session;
mod transients;
mod web_socket;

use super::*;
use harness::*;
use model::chat::SessionEnd;
use model::machine::OtherServer;
use model::session::Denial;
use testkit::vector;

const FAULTS: &str = include_str!("../../../vectors/1-faults.txt");
const STANZAS: &str = include_str!("../../../vectors/2-stanzas.txt");

fn stream_error(fault: &str) -> String {
    format!(
        "<stream:error><{fault} xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>\
         </stream:stream>"
    )
}

#[test]
fn what_must_not_be_taken_ends_the_stream_however_it_is_cut() {
    for vector in vector::read(FAULTS) {
        let bytes = vector.need("in").replace("HEADER", HEADER);
        for cut in 0..=bytes.len() {
            let mut side = in_state(vector.need("state"));
            side.take_words();
            let mut sent = side.hear(now(), &bytes.as_bytes()[..cut]);
            sent.extend(side.hear(now(), &bytes.as_bytes()[cut..]));
            let sent = String::from_utf8(sent).expect("UTF-8");
            let expected = stream_error(vector.need("fault"));
            assert!(sent.ends_with(&expected), "{} at {cut}: {sent}", vector.name);
            let begins = sent.starts_with("<?xml") || sent.len() == expected.len();
            assert!(begins, "{} at {cut}: an error is within a stream: {sent}", vector.name);
            let close = side.ended.map(CloseReason::name);
            assert_eq!(close, Some(vector.need("close")), "{}", vector.name);
        }
    }
}

#[test]
fn stanzas_are_answered_however_they_are_cut() {
    for vector in vector::read(STANZAS) {
        let bytes = vector.need("in");
        let expected = vector.text("out").unwrap_or("").replace("FULL", "ann@a.example/desk");
        for cut in 0..=bytes.len() {
            let mut side = in_state(vector.need("state"));
            let mut sent = side.hear(now(), &bytes.as_bytes()[..cut]);
            sent.extend(side.hear(now(), &bytes.as_bytes()[cut..]));
            assert_eq!(String::from_utf8_lossy(&sent), expected, "{} at {cut}", vector.name);
            assert_eq!((side.ended, side.untaken().len()), (None, 0), "{}", vector.name);
            let said = words(&mut side)
                .iter()
                .map(|word| match word {
                    ChatRequest::Send { .. } => "send",
                    ChatRequest::Transient { .. } => "transient",
                    ChatRequest::HandTo(_) => "hand-to",
                    ChatRequest::Standing { .. } => "standing",
                    ChatRequest::Members { .. } => "members",
                    ChatRequest::Room(_) => "room",
                    ChatRequest::History { .. } => "history",
                    ChatRequest::Group { .. } => "group",
                    ChatRequest::Conversations { .. } => "conversations",
                    other => panic!("{}: {other:?}", vector.name),
                })
                .collect::<Vec<_>>()
                .join(" ");
            assert_eq!(said, vector.text("says").unwrap_or(""), "{}", vector.name);
        }
    }
}

#[test]
fn whoever_is_not_bound_in_time_is_told_so() {
    let wake = |side: &mut Side, ms: u64| {
        let mut out = Out::new(base::hash::HashKey::new(1, 2), [0; 32]);
        let later = now().after(std::time::Duration::from_millis(ms));
        let result = side.machine.wake(Now::new(later, 0), &mut out);
        (result, String::from_utf8(out.bytes().clone()).expect("UTF-8"))
    };
    for state in ["plain", "begun", "asked", "challenged", "granted"] {
        let mut side = in_state(state);
        assert_eq!(wake(&mut side, 9_999), (Ok(()), String::new()), "{state}");
        let (result, said) = wake(&mut side, 10_000);
        assert_eq!(result, Err(CloseReason::BindTimeout), "{state}");
        assert!(said.ends_with(&stream_error("connection-timeout")), "{said}");
        assert_eq!(said.starts_with("<?xml"), state == "plain");
    }
    assert_eq!(wake(&mut bound(), 1 << 40), (Ok(()), String::new()));
}

#[test]
fn who_is_turned_away_is_told_within_a_stream() {
    for (why, fault) in
        [(Refusal::Busy, "resource-constraint"), (Refusal::Draining, "system-shutdown")]
    {
        for state in ["plain", "begun", "asked", "granted", "bound"] {
            let mut side = in_state(state);
            let mut out = Out::new(base::hash::HashKey::new(1, 2), [0; 32]);
            side.machine.turn_away(now(), TurnAway::of(why, 1), &mut out);
            let said = String::from_utf8(out.bytes().clone()).expect("UTF-8");
            assert!(said.ends_with(&stream_error(fault)), "{said}");
            assert_eq!(said.starts_with("<?xml"), state == "plain");
        }
    }
}

#[test]
fn who_is_turned_away_to_another_server_is_told_which_if_the_listener_says_so() {
    for (denial, element) in [(Some(Denial::Moved), "see-other-host"), (None, "system-shutdown")] {
        let server = Some(OtherServer { address: "b.example:5222", denial });
        let away = TurnAway { server, ..TurnAway::of(Refusal::Draining, 5) };
        let (mut side, mut out) = (bound(), Out::new(base::hash::HashKey::new(1, 2), [0; 32]));
        side.machine.turn_away(now(), away, &mut out);
        let said = String::from_utf8(out.bytes().clone()).expect("UTF-8");
        assert!(said.starts_with(&format!("<stream:error><{element} ")), "{said}");
        assert_eq!(said.contains(">b.example:5222<"), denial.is_some(), "{said}");
    }
}

#[test]
fn an_end_of_the_service_is_told_and_ends() {
    for (why, reason, fault) in [
        (Denial::TakenOver, CloseReason::Replaced, "conflict"),
        (Denial::AdminKick, CloseReason::AdminKick, "policy-violation"),
        (Denial::Expired, CloseReason::AuthFailed, "reset"),
    ] {
        for state in ["granted", "bound", "available"] {
            let mut side = in_state(state);
            side.take_words();
            let end = ChatDelivery::End(Box::new(SessionEnd { why, reason }));
            assert_eq!(told(&mut side, end), stream_error(fault));
            assert_eq!(side.ended, Some(reason));
            assert_eq!(words(&mut side), [ChatRequest::Closed { session: SESSION, reason }]);
        }
    }
}

#[test]
fn a_connection_that_ends_is_told_once_to_whom_it_concerns() {
    let closed = ChatRequest::Closed { session: SESSION, reason: CloseReason::PeerReset };
    for (state, expected) in [
        ("plain", vec![]),
        ("begun", vec![]),
        ("asked", vec![ChatRequest::Gone]),
        ("challenged", vec![ChatRequest::Gone]),
        ("granted", vec![closed.clone()]),
        ("available", vec![closed]),
    ] {
        let mut side = in_state(state);
        side.take_words();
        side.close(now(), CloseReason::PeerReset);
        assert_eq!(words(&mut side), expected, "{state}");
    }
}

#[test]
fn a_stream_that_is_closed_is_closed_in_turn() {
    for state in ["begun", "granted", "bound"] {
        let mut side = in_state(state);
        assert_eq!(says(&mut side, "</stream:stream >"), "</stream:stream>");
        assert_eq!(side.ended, Some(CloseReason::Unbound));
    }
}

#[test]
fn a_full_server_says_so_in_a_stream() {
    let mut side = over(Link { crowded: true, ..bare() });
    let said = says(&mut side, HEADER);
    assert!(said.ends_with(&stream_error("resource-constraint")), "{said}");
    assert_eq!(side.ended, Some(CloseReason::Full));
}

#[test]
fn what_is_too_long_ends_the_stream() {
    let mut side = over(encrypted());
    let long = "x".repeat(side.limits.frame_bytes_unbound_max as usize);
    let said = says(&mut side, &format!("<stream:stream {long}"));
    assert!(said.ends_with(&stream_error("policy-violation")), "{said}");
    assert_eq!(side.ended, Some(CloseReason::TooLarge));
    let mut side = bound();
    side.limits.chat.stanza_bytes_max = 10_000;
    let stanza = |bytes: usize| {
        let frame = "<message to='bob@a.example'><body></body></message>".len();
        let text = "x".repeat(bytes - frame);
        format!("<message to='bob@a.example'><body>{text}</body></message>")
    };
    assert_eq!(says(&mut side, &stanza(10_000)), "");
    assert_eq!(says(&mut side, &stanza(10_001)), stream_error("policy-violation"));
    assert_eq!(side.ended, Some(CloseReason::TooLarge));
}
