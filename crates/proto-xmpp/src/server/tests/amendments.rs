//! Corrections, reactions, retractions and marks: what is asked of the service for them.

use super::super::*;
use super::harness::*;
use model::account::Addressee;
use model::chat::*;
use std::sync::Arc;

const BOB: &str = "to='bob@a.example' type='chat'";

fn correct(id: &str) -> String {
    format!(
        "<message {BOB} id='c1'><body>new</body>\
         <replace xmlns='urn:xmpp:message-correct:0' id='{id}'/></message>"
    )
}

fn react(id: &str) -> String {
    format!(
        "<message {BOB} id='c2'><reactions xmlns='urn:xmpp:reactions:0' id='{id}'>\
         <reaction>👍</reaction></reactions></message>"
    )
}

fn retract(id: &str) -> String {
    format!(
        "<message {BOB} id='c3'><retract xmlns='urn:xmpp:message-retract:1' id='{id}'/></message>"
    )
}

fn displayed(id: &str) -> String {
    format!(
        "<message {BOB} id='c4'><displayed xmlns='urn:xmpp:chat-markers:0' id='{id}'/></message>"
    )
}

/// Request for the conversation with Bob, in search of a message.
fn looks(side: &mut Side) -> (u32, u64) {
    let mut asked = words(side);
    // A marker goes to the account's other devices, too.
    asked.retain(|request| !matches!(request, ChatRequest::HandTo(_)));
    match &asked[..] {
        [ChatRequest::History { number, range, .. }] => {
            assert_eq!(range.with, Addressee::from(address("bob")));
            assert!(range.backwards);
            (*number, range.from)
        }
        other => panic!("{other:?}"),
    }
}

/// A message of somebody, at a place, whose stanza had this id.
fn one(from: &str, seq: u64, id: &str) -> Arc<ChatMessage> {
    let content = Content::named_text("old", id);
    let of = message(from, "phone", if from == "ann" { "bob" } else { "ann" }, "");
    Arc::new(ChatMessage { id: 100 + seq, seq, content, ..(*of).clone() })
}

fn page(side: &mut Side, number: u32, messages: &[Arc<ChatMessage>], more: bool) -> String {
    let page = HistoryPage { number, messages: messages.to_vec(), more };
    told(side, ChatDelivery::History(Box::new(page)))
}

fn target(content: &Content) -> (u64, u64) {
    let target = content.target().expect("a target");
    (target.seq, target.id)
}

#[test]
fn a_correction_is_of_ones_own_message_with_that_id_however_far_it_is() {
    let mut side = available();
    assert_eq!(says(&mut side, &correct("m1")), "");
    let (number, from) = looks(&mut side);
    assert_eq!(from, u64::MAX);
    let others = [one("bob", 9, "m1"), one("ann", 8, "m2")];
    assert_eq!(page(&mut side, number, &others, true), "");
    assert_eq!(looks(&mut side), (number, 8), "on from there");
    page(&mut side, number, &[one("ann", 7, "m1")], true);
    let words = words(&mut side);
    let [ChatRequest::Send { number: same, message, .. }] = &words[..] else { panic!("{words:?}") };
    assert_eq!((*same, message.content.kind, &*message.content.text), (number, 6, "new"));
    assert_eq!(target(&message.content), (7, 107));
    let sent = ChatDelivery::Sent { number, id: 1, seq: 10, at_ms: 1, again: false };
    assert_eq!(told(&mut side, sent), "");
}

#[test]
fn what_is_not_found_or_not_allowed_is_answered_by_an_error_and_a_mark_by_nothing() {
    for stanza in [correct("m1"), react("m1"), retract("m1")] {
        let mut side = available();
        says(&mut side, &stanza);
        let (number, _) = looks(&mut side);
        let sent = page(&mut side, number, &[one("bob", 9, "other")], false);
        assert!(sent.contains("type='error'") && sent.contains("<item-not-found"), "{sent}");
        says(&mut side, &stanza);
        let (number, _) = looks(&mut side);
        let sent = told(&mut side, ChatDelivery::Failed { number, why: ChatFault::Busy });
        assert!(sent.contains("type='error'"), "{sent}");
        assert_eq!(says(&mut side, " "), "", "it goes on");
    }
    let mut side = available();
    says(&mut side, &displayed("m1"));
    let (number, _) = looks(&mut side);
    assert_eq!(page(&mut side, number, &[], false), "");
    says(&mut side, &displayed("m1"));
    let (number, _) = looks(&mut side);
    assert_eq!(told(&mut side, ChatDelivery::Failed { number, why: ChatFault::Busy }), "");
    let mut side = available();
    says(&mut side, &correct("m1"));
    for left in (0..8).rev() {
        let (number, _) = looks(&mut side);
        let sent = page(&mut side, number, &[one("ann", 100 + left, "x")], true);
        assert_eq!(sent.contains("<item-not-found"), left == 0, "it looks eight times: {left}");
    }
}

#[test]
fn reactions_and_retractions_become_the_models_words() {
    let mut side = available();
    says(&mut side, &react("m1"));
    let (number, _) = looks(&mut side);
    page(&mut side, number, &[one("bob", 9, "m1")], false);
    let told_words = words(&mut side);
    let [ChatRequest::Send { message, .. }] = &told_words[..] else { panic!("{told_words:?}") };
    assert_eq!((message.content.kind, &*message.content.text), (7, "👍"));
    assert_eq!(target(&message.content), (9, 109));
    says(&mut side, &retract("m1"));
    let (number, _) = looks(&mut side);
    page(&mut side, number, &[one("bob", 9, "m1"), one("ann", 5, "m1")], false);
    let with = Box::new(Addressee::from(address("bob")));
    let order = Box::new(RecallOrder { with: *with, seq: 5, reason: Box::default() });
    let recall = ChatRequest::Recall { session: SESSION, number, order };
    assert_eq!(words(&mut side), [recall]);
}

#[test]
fn receipts_are_kept_nowhere_though_they_ask_for_it() {
    let mut side = available();
    let receipt = format!(
        "<message {BOB} id='c5'><received xmlns='urn:xmpp:receipts' id='m1'/>\
         <store xmlns='urn:xmpp:hints'/></message>"
    );
    assert_eq!(says(&mut side, &receipt), "");
    assert_eq!(words(&mut side), []);
}

#[test]
fn what_becomes_of_messages_is_shown_in_xmpps_words() {
    let mut side = available();
    let about = TargetMessage { seq: 5, id: 7, name: "m1".into() };
    let edit = Content { kind: Content::EDIT, extra: about.extra(b""), ..Content::text("new") };
    let of = message("bob", "phone", "ann", "");
    let comes = |side: &mut Side, seq, content| {
        let message = Arc::new(ChatMessage { content, ..(*of).clone() });
        told(side, ChatDelivery::Message { seq, message })
    };
    let sent = comes(&mut side, 13, edit.clone());
    let replace = "<body>new</body><replace xmlns='urn:xmpp:message-correct:0' id='m1'/>";
    assert!(sent.contains(replace), "{sent}");
    let reaction = Content { kind: Content::REACTION, ..edit.clone() };
    let sent = comes(&mut side, 14, reaction);
    assert!(sent.contains("<reactions xmlns='urn:xmpp:reactions:0' id='m1'>"), "{sent}");
    assert!(!sent.contains("<body>"), "{sent}");
    let recall = Recall { seq: 5, id: 7 }.content("m1");
    let sent = comes(&mut side, 15, recall);
    assert!(sent.contains("<retract xmlns='urn:xmpp:message-retract:1' id='m1'/>"), "{sent}");
    assert_eq!(comes(&mut side, 16, Content { text: "".into(), ..edit }), "", "it says nothing");
}
