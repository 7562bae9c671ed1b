//! A stream in WebSocket messages.

use super::super::*;
use super::harness::*;
use crate::stream::FRAMING;
use crate::xml::scan::Scan;
use base::time::Instant;

const OPEN: &str =
    "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='a.example' version='1.0'/>";

fn link() -> Link {
    Link { web_socket: true, ..encrypted() }
}

/// Output of a side, message by message. Each is one element that stands for itself.
fn messages(side: &mut Side, sent: &str) -> Vec<String> {
    let mut from = 0;
    let ends = side.ends.clone();
    assert_eq!(ends.last().copied().unwrap_or(0), sent.len(), "nothing is outside of a message");
    let of = |end: usize| {
        let message = sent[std::mem::replace(&mut from, end)..end].to_owned();
        // As a document of its own it has no prefix that it does not declare.
        let tag = message.split(['/', '>']).next().expect("a tag").to_owned();
        assert!(tag.contains(" xmlns") || message.contains(" xmlns"), "{message}");
        assert!(Scan::element(message.as_bytes()).is_ok(), "{message}");
        message
    };
    ends.into_iter().map(of).collect()
}

fn says_all(side: &mut Side, text: &str) -> Vec<String> {
    let sent = says(side, text);
    messages(side, &sent)
}

fn bound_in_web_socket() -> Side {
    let mut side = over(link());
    says_all(&mut side, OPEN);
    says(&mut side, &auth("PLAIN", "\0ann\0secret"));
    let success = told(&mut side, yes());
    assert_eq!(messages(&mut side, &success).len(), 1);
    says_all(&mut side, OPEN);
    says(&mut side, BIND);
    told(&mut side, ChatDelivery::Bound { device: "desk".into() });
    side.take_words();
    side
}

#[test]
fn a_stream_is_opened_and_each_element_says_its_namespaces() {
    let mut side = over(link());
    let told = says_all(&mut side, OPEN);
    assert_eq!(told.len(), 2);
    assert!(told[0].starts_with(&format!("<open xmlns='{FRAMING}' id='")), "{}", told[0]);
    assert!(told[0].ends_with("' from='a.example' version='1.0' xml:lang='en'/>"), "{}", told[0]);
    assert!(
        told[1].starts_with("<stream:features xmlns:stream='http://etherx.jabber.org/streams'>"),
        "{}",
        told[1]
    );
}

#[test]
fn stanzas_are_messages_of_their_own() {
    let mut side = bound_in_web_socket();
    let ping = "<iq xmlns='jabber:client' type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>";
    let pong = "<iq xmlns='jabber:client' type='result' id='1' to='ann@a.example/desk'></iq>";
    assert_eq!(says_all(&mut side, &ping.repeat(2)), [pong, pong]);
    says(&mut side, "<presence/>");
    told(&mut side, ChatDelivery::Standing { number: 0, cursor: 0, head: 2 });
    let sent = told(&mut side, page(0, &["one", "two"], 2));
    let all = messages(&mut side, &sent);
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|it| it.matches(" xmlns='jabber:client'").count() == 1), "{all:?}");
    let mut out = Out::new(base::hash::HashKey::new(1, 2), [0; 32]);
    side.machine.silent(Now::new(Instant::default(), 0), &mut out).expect("it is asked");
    assert_eq!(out.take_ends(), [out.bytes().len()]);
}

#[test]
fn a_stream_is_closed_by_an_element() {
    let close = format!("<close xmlns='{FRAMING}'/>");
    let mut begun = over(link());
    says(&mut begun, OPEN);
    for mut side in [begun, bound_in_web_socket()] {
        assert_eq!(says_all(&mut side, &close), std::slice::from_ref(&close));
        assert_eq!(side.ended, Some(CloseReason::Unbound));
    }
    let mut side = bound();
    says(&mut side, &close);
    assert_eq!(side.ended, Some(CloseReason::UnknownOpcode), "only in a WebSocket");
}

#[test]
fn an_error_is_told_between_open_and_close() {
    for (begins, fault) in [
        (HEADER.to_owned(), "restricted-xml"),
        (OPEN.replace("a.example", "b.example"), "host-unknown"),
        (OPEN.replace("framing", "other"), "invalid-namespace"),
        (OPEN.replace("1.0", "0.9"), "unsupported-version"),
    ] {
        let mut side = over(link());
        let told = says_all(&mut side, &begins);
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].starts_with("<open ") && told[2].starts_with("<close "), "{told:?}");
        assert!(told[1].starts_with("<stream:error xmlns:stream='"), "{told:?}");
        assert!(told[1].contains(&format!("<{fault} ")), "{told:?}");
    }
}

#[test]
fn a_carbon_of_the_deepest_stanza_there_may_be_is_a_message_too() {
    let mut side = bound_in_web_socket();
    says(&mut side, "<presence/>");
    told(&mut side, ChatDelivery::Standing { number: 0, cursor: 12, head: 12 });
    says(&mut side, "<iq type='set' id='1'><enable xmlns='urn:xmpp:carbons:2'/></iq>");
    let inside = usize::from(crate::xml::framer::DEPTH_MAX) - 1;
    let deep = format!("{}{}", "<a>".repeat(inside), "</a>".repeat(inside));
    let stanza = format!("<message><store xmlns='urn:xmpp:hints'/>{deep}</message>");
    let scan = Scan::element(stanza.as_bytes()).expect("as deep as may be");
    let content = crate::render::said(&scan.root()).expect("it is kept").content;
    let mine =
        model::chat::ChatMessage { content, ..(*message("ann", "phone", "bob", "")).clone() };
    let sent = told(&mut side, ChatDelivery::Message { seq: 13, message: Arc::new(mine) });
    assert_eq!(side.ends, [sent.len()]);
    assert!(sent.contains(&deep) && sent.ends_with("</forwarded></sent></message>"));
}
