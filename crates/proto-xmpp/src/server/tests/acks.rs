//! Acknowledgements in both directions.

use super::super::*;
use super::harness::*;
use super::stream_error;
use model::chat::ChatFault;

const ENABLE: &str = "<enable xmlns='urn:xmpp:sm:3'/>";
const ASK: &str = "<r xmlns='urn:xmpp:sm:3'/>";
const TO_BOB: &str = "<message to='bob@a.example' type='chat' id='x'><body>hi</body></message>";
const PING: &str = "<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>";

fn has(h: u32) -> String {
    format!("<a xmlns='urn:xmpp:sm:3' h='{h}'/>")
}

fn enabled() -> Side {
    let mut side = available();
    assert_eq!(says(&mut side, ENABLE), "<enabled xmlns='urn:xmpp:sm:3'/>");
    side
}

fn sent(side: &mut Side, number: u32) -> String {
    told(side, ChatDelivery::Sent { number, id: 1, seq: 1, at_ms: 1, again: false })
}

/// One message comes; without the request that may stand behind it.
fn comes(side: &mut Side, seq: u64) -> bool {
    let hello = message("bob", "phone", "ann", "hello");
    let sent = told(side, ChatDelivery::Message { seq, message: hello });
    sent.ends_with(ASK)
}

fn acknowledged(side: &mut Side) -> Vec<u64> {
    let of = |word: ChatRequest| match word {
        ChatRequest::Acknowledge { upto, .. } => upto,
        other => panic!("{other:?}"),
    };
    words(side).into_iter().map(of).collect()
}

#[test]
fn it_is_offered_behind_a_login_and_begins_behind_a_resource() {
    let mut side = asked();
    told(&mut side, yes());
    assert!(says(&mut side, HEADER).contains("<sm xmlns='urn:xmpp:sm:3'/>"));
    let failed = |condition: &str| {
        format!(
            "<failed xmlns='urn:xmpp:sm:3'><{condition} \
             xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>"
        )
    };
    let resume = "<resume xmlns='urn:xmpp:sm:3' h='1' previd='x'/>";
    assert_eq!(says(&mut side, resume), failed("item-not-found"));
    assert_eq!(says(&mut side, ENABLE), failed("unexpected-request"));
    says(&mut side, BIND);
    told(&mut side, ChatDelivery::Bound { device: "desk".into() });
    assert_eq!(says(&mut side, ASK), failed("unexpected-request"));
    assert_eq!(says(&mut side, ENABLE), "<enabled xmlns='urn:xmpp:sm:3'/>");
    assert_eq!(says(&mut side, ENABLE), failed("unexpected-request"));
    assert_eq!(says(&mut side, resume), failed("unexpected-request"));
    assert_eq!(
        says(&mut side, "<x xmlns='urn:xmpp:sm:3'/>"),
        stream_error("unsupported-stanza-type")
    );
}

#[test]
fn a_message_counts_once_it_is_stored() {
    let mut side = available();
    says(&mut side, TO_BOB);
    assert_eq!(says(&mut side, &format!("{ENABLE}{ASK}")).matches("h='0'").count(), 1);
    assert_eq!(sent(&mut side, 1), "", "what was before does not count");
    says(&mut side, PING);
    assert_eq!(says(&mut side, ASK), has(1));
    says(&mut side, &format!("{TO_BOB}{PING}{TO_BOB}{PING}"));
    assert_eq!(says(&mut side, ASK), has(1), "the first message is not stored");
    assert_eq!(sent(&mut side, 2), "", "nor by another");
    assert_eq!(says(&mut side, ASK), has(1));
    assert_eq!(sent(&mut side, 1), has(5), "who has asked is told when all is");
    assert_eq!(says(&mut side, ASK), has(5));
    says(&mut side, &TO_BOB.repeat(2));
    assert_eq!(says(&mut side, ASK), has(5));
    let failed = told(&mut side, ChatDelivery::Failed { number: 1, why: ChatFault::Busy });
    assert!(failed.ends_with("</message>"), "{failed}");
    assert_eq!(sent(&mut side, 2), has(7), "an error is an answer too");
}

#[test]
fn what_a_client_has_is_what_it_says() {
    let mut side = enabled();
    side.take_words();
    assert!(comes(&mut side, 13), "it is asked");
    assert!(!comes(&mut side, 14), "once");
    side.drain(now());
    assert_eq!(acknowledged(&mut side), [0; 0], "that it is written says nothing");
    assert_eq!(says(&mut side, &has(1)), ASK, "there is another");
    assert_eq!(acknowledged(&mut side), [13]);
    assert_eq!(says(&mut side, &has(1)), ASK);
    assert_eq!(acknowledged(&mut side), [0; 0]);
    says(&mut side, PING);
    assert_eq!(says(&mut side, &has(3)), "");
    assert_eq!(acknowledged(&mut side), [14]);
    assert!(comes(&mut side, 15));
}

#[test]
fn what_is_no_stanza_is_had_with_what_was_before_it() {
    let mut side = enabled();
    side.take_words();
    assert!(comes(&mut side, 13));
    let own = message("ann", "phone", "bob", "mine");
    told(&mut side, ChatDelivery::Message { seq: 14, message: own.clone() });
    assert_eq!(says(&mut side, &has(1)), "");
    assert_eq!(acknowledged(&mut side), [14]);
    side.drain(now());
    assert_eq!(acknowledged(&mut side), [14]);
    told(&mut side, ChatDelivery::Message { seq: 15, message: own });
    side.drain(now());
    assert_eq!(acknowledged(&mut side), [15]);
}

#[test]
fn to_come_back_acknowledges_nothing_that_the_client_has_not() {
    let mut side = enabled();
    comes(&mut side, 13);
    says(&mut side, "<presence type='unavailable'/><presence/>");
    side.take_words();
    told(&mut side, ChatDelivery::Standing { number: 0, cursor: 12, head: 13 });
    assert_eq!(acknowledged(&mut side), [12]);
    side.drain(now());
    assert_eq!(acknowledged(&mut side), [0; 0]);
}

fn too_high(h: u32, sent: u32) -> String {
    let more = format!(
        "<handled-count-too-high xmlns='urn:xmpp:sm:3' h='{h}' send-count='{sent}'/></stream:error>"
    );
    stream_error("undefined-condition").replace("</stream:error>", &more)
}

#[test]
fn more_than_was_sent_is_had_by_nobody() {
    for h in ["1", "4294967295", "x", "-1", ""] {
        let mut side = enabled();
        let said = says(&mut side, &format!("<a xmlns='urn:xmpp:sm:3' h='{h}'/>"));
        let expected = match h.parse::<u32>() {
            Ok(h) => too_high(h, 0),
            Err(_) => stream_error("bad-format"),
        };
        assert_eq!(said, expected, "{h}");
    }
}

#[test]
fn what_was_had_once_is_not_given_back() {
    let mut side = enabled();
    comes(&mut side, 13);
    comes(&mut side, 14);
    for _ in 0..2 {
        assert_eq!(says(&mut side, &has(2)), "", "the same once more changes nothing");
    }
    assert_eq!(says(&mut side, &has(1)), too_high(1, 2));
}

#[test]
fn no_more_is_read_for_whoever_acknowledges_nothing() {
    let mut side = enabled();
    let mut after = 12;
    told(&mut side, ChatDelivery::Notify { head: 1_000 });
    let mut pages = 0;
    while words(&mut side).iter().any(|word| matches!(word, ChatRequest::Pull { .. })) {
        told(&mut side, page(after, &["x"; 64], 1_000));
        after += 64;
        pages += 1;
        side.drain(now());
    }
    assert_eq!(pages, 4);
    says(&mut side, &has(256));
    let pull = ChatRequest::Pull { session: SESSION, number: 0, after: 268, count: 64 };
    let upto = ChatRequest::Acknowledge { session: SESSION, upto: 268 };
    assert_eq!(words(&mut side), [upto, pull]);
}

#[test]
fn what_is_answered_by_nothing_counts_once_it_is_stored() {
    use super::rooms::{changed, gives_order, inside};
    let subject = "<message type='groupchat' to='lunch@conference.a.example'>\
        <subject>New</subject></message>";
    let invites = "<message to='lunch@conference.a.example'>\
        <x xmlns='http://jabber.org/protocol/muc#user'><invite to='eve@a.example'/></x></message>";
    for order in [subject, invites] {
        let mut side = inside();
        says(&mut side, ENABLE);
        assert_eq!(
            says(&mut side, &format!("{PING}{order}{PING}{ASK}")).matches("h='1'").count(),
            1
        );
        let (number, _) = gives_order(&mut side);
        assert_eq!(changed(&mut side, number), has(3), "{order}");
    }
    let mut side = enabled();
    side.take_words();
    let said = says(&mut side, &format!("<presence type='subscribe' to='bob@a.example'/>{ASK}"));
    assert_eq!(said, has(0));
    let number = match &side.take_words_as::<ChatRequest>()[..] {
        [ChatRequest::People(asked)] => asked.number,
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&mut side, ChatDelivery::Done { number }), has(1));
}
