//! Delivery of an inbox to a device, in order, and its acknowledgement.

use super::super::*;
use super::harness::*;
use model::chat::{ChatFault, InboxChange, InboxEvent};
use std::sync::Arc;

fn pull(after: u64) -> ChatRequest {
    ChatRequest::Pull { session: SESSION, number: 0, after, count: 64 }
}

fn acknowledge(upto: u64) -> ChatRequest {
    ChatRequest::Acknowledge { session: SESSION, upto }
}

fn comes(side: &mut Side, seq: u64, text: &str) -> String {
    told(side, ChatDelivery::Message { seq, message: message("bob", "phone", "ann", text) })
}

fn drained(side: &mut Side) -> Vec<ChatRequest> {
    assert!(side.drain(now()).is_empty(), "nothing is said");
    words(side)
}

#[test]
fn nothing_comes_before_presence_and_what_waits_behind_it() {
    let mut side = bound();
    assert_eq!(comes(&mut side, 13, "unseen"), "");
    assert_eq!(told(&mut side, ChatDelivery::Notify { head: 13 }), "");
    assert!(words(&mut side).is_empty());
    says(&mut side, "<presence/>");
    assert_eq!(words(&mut side), [ChatRequest::Standing { session: SESSION, number: 0 }]);
    told(&mut side, ChatDelivery::Standing { number: 0, cursor: 11, head: 13 });
    assert_eq!(words(&mut side), [acknowledge(11), pull(11)]);
    assert_eq!(bodies(&told(&mut side, page(11, &["one", "two"], 13))), ["one+", "two+"]);
    assert!(words(&mut side).is_empty(), "it is not written yet");
    assert_eq!(drained(&mut side), [acknowledge(13)]);
    assert_eq!(bodies(&comes(&mut side, 14, "three")), ["three"]);
    assert_eq!(drained(&mut side), [acknowledge(14)]);
}

#[test]
fn what_comes_while_it_is_behind_is_pulled_in_its_order() {
    let mut side = bound();
    says(&mut side, "<presence/>");
    told(&mut side, ChatDelivery::Standing { number: 0, cursor: 0, head: 2 });
    assert_eq!(comes(&mut side, 3, "later"), "");
    assert_eq!(bodies(&told(&mut side, page(0, &["one", "two"], 2))), ["one+", "two+"]);
    side.take_words();
    assert_eq!(drained(&mut side), [acknowledge(2), pull(2)]);
    assert_eq!(comes(&mut side, 4, "last"), "");
    assert_eq!(bodies(&told(&mut side, page(2, &["later", "last"], 4))), ["later+", "last+"]);
    assert_eq!(drained(&mut side), [acknowledge(4)]);
    assert_eq!(comes(&mut side, 4, "last"), "", "it has that");
}

#[test]
fn whoever_is_told_of_more_pulls_once() {
    let mut side = available();
    told(&mut side, ChatDelivery::Notify { head: 14 });
    told(&mut side, ChatDelivery::Notify { head: 15 });
    assert_eq!(words(&mut side), [pull(12)]);
    told(&mut side, page(12, &["a", "b"], 14));
    assert_eq!(drained(&mut side), [acknowledge(14), pull(14)]);
    told(&mut side, page(14, &[], 14));
    assert_eq!(drained(&mut side), [acknowledge(14), pull(14)], "15 is not there yet");
}

#[test]
fn an_inbox_that_cannot_be_read_is_read_again_in_a_while() {
    let mut side = available();
    told(&mut side, ChatDelivery::Notify { head: 14 });
    side.take_words();
    told(&mut side, ChatDelivery::Failed { number: 0, why: ChatFault::Busy });
    assert!(words(&mut side).is_empty());
    let mut out = Out::new(base::hash::HashKey::new(1, 2), [0; 32]);
    side.machine.wake(now(), &mut out).expect("it goes on");
    let asked: Vec<_> = out.words().collect();
    assert_eq!(asked, [Request::from(pull(12))]);
}

#[test]
fn whoever_does_not_read_is_given_nothing_more_until_it_does() {
    let mut side = available();
    let mut out = Out::new(base::hash::HashKey::new(1, 2), [0; 32]);
    out.set_backlog(1_000, 999);
    let hello = message("bob", "phone", "ann", "hello");
    let word = ChatDelivery::Message { seq: 13, message: hello };
    side.machine.command(now(), word.into(), &mut out).expect("it goes on");
    assert!(out.bytes().is_empty() && out.take_tell_drained());
    side.machine.drained(now(), &mut out).expect("it goes on");
    let asked: Vec<_> = out.words().collect();
    assert_eq!(asked, [acknowledge(12), pull(12)].map(Request::from));
    side.machine.command(now(), page(12, &["hello"], 13).into(), &mut out).expect("it goes on");
    assert!(out.bytes().is_empty() && out.take_tell_drained(), "nor of a page");
    out.set_backlog(0, 999);
    side.machine.drained(now(), &mut out).expect("it goes on");
    assert_eq!(out.words().next_back(), Some(Request::from(pull(12))));
}

#[test]
fn a_large_page_goes_out_in_parts() {
    let mut side = available();
    told(&mut side, ChatDelivery::Notify { head: 16 });
    side.take_words();
    let long = "x".repeat(40_000);
    let texts = [&*long, &long, "short", "last"];
    assert_eq!(bodies(&told(&mut side, page(12, &texts, 16))).len(), 2);
    assert_eq!(drained(&mut side), [acknowledge(14), pull(14)]);
    assert_eq!(bodies(&told(&mut side, page(14, &texts[2..], 16))), ["short+", "last+"]);
    assert_eq!(drained(&mut side), [acknowledge(16)]);
}

#[test]
fn whoever_is_away_gets_nothing_and_goes_on_where_it_was() {
    let mut side = available();
    says(&mut side, "<presence type='unavailable'/>");
    assert_eq!(comes(&mut side, 13, "x"), "");
    says(&mut side, "<presence><priority> -5 </priority></presence>");
    assert_eq!(comes(&mut side, 14, "y"), "");
    assert!(words(&mut side).is_empty());
    says(&mut side, "<presence><priority>0</priority></presence>");
    side.take_words();
    told(&mut side, ChatDelivery::Standing { number: 0, cursor: 12, head: 14 });
    assert_eq!(words(&mut side), [acknowledge(12), pull(12)]);
}

#[test]
fn others_of_the_account_are_heard_by_whom_it_concerns() {
    let own = |device: &str, to: &str| ChatDelivery::Message {
        seq: 13,
        message: message("ann", device, to, "mine"),
    };
    let mut side = available();
    assert_eq!(told(&mut side, own("phone", "bob")), "", "nobody asked for carbons");
    assert_eq!(drained(&mut side), [acknowledge(13)]);
    let enable = "<iq type='set' id='1'><enable xmlns='urn:xmpp:carbons:2'/></iq>";
    let carbon = |device: &str, to: &str| {
        let mut side = available();
        says(&mut side, enable);
        told(&mut side, own(device, to))
    };
    let sent = carbon("phone", "bob");
    assert!(sent.starts_with(
        "<message from='ann@a.example' to='ann@a.example/desk' type='chat'>\
         <sent xmlns='urn:xmpp:carbons:2'>"
    ));
    assert!(sent.contains(" from='ann@a.example/phone' to='bob@a.example' type='chat' "));
    assert_eq!(carbon("desk", "bob"), "", "its own");
    assert_eq!(bodies(&carbon("phone", "ann")), ["mine"], "to oneself");
    assert_eq!(carbon("phone", "g@conference.a.example"), "", "it has not entered the room");
}

#[test]
fn a_message_has_the_server_s_id_for_it() {
    let mut side = available();
    let sent = comes(&mut side, 13, "x");
    let id = crate::render::stanza_id(&message("bob", "phone", "ann", "x"));
    assert_eq!(id.len(), 22);
    let expected = format!("<stanza-id xmlns='urn:xmpp:sid:0' id='{id}' by='ann@a.example'/>");
    assert!(sent.contains(&expected), "{sent}");
}

#[test]
fn what_an_account_has_read_is_no_stanza_and_its_place_is_taken() {
    let read = |seq| {
        let event = InboxEvent { with: address("bob"), what: InboxChange::Read(3) };
        ChatDelivery::Event { seq, event: Arc::new(event) }
    };
    let mut side = available();
    assert_eq!(told(&mut side, read(13)), "");
    assert_eq!(drained(&mut side), [acknowledge(13)]);
    assert_eq!(bodies(&comes(&mut side, 14, "next")), ["next"], "nothing is missing");
    for mut side in [granted(), bound()] {
        side.take_words();
        assert_eq!(told(&mut side, read(13)), "");
        assert_eq!((words(&mut side), side.ended), (Vec::new(), None), "it did not ask yet");
    }
}
