//! Receipts and markers: what a client says of messages, and what it is told of its own.

use super::super::*;
use super::harness::*;
use model::chat::{ChatFault, DeliveredNews, HistoryPage, HistoryRange, InboxChange, InboxEvent};
use std::sync::Arc;

const SHOWN: &str = "<displayed xmlns='urn:xmpp:chat-markers:0' id='ID'/>";

fn shows(side: &mut Side, to: &str, id: &str) -> Vec<ChatRequest> {
    let marker = SHOWN.replace("ID", id);
    assert_eq!(says(side, &format!("<message to='{to}@a.example'>{marker}</message>")), "");
    let mut asked = words(side);
    // The carbon for the other devices.
    asked.retain(|request| !matches!(request, ChatRequest::HandTo(_)));
    asked
}

fn looks(number: u32, with: &str, from: u64) -> ChatRequest {
    let (with, backwards, count) = (address(with).into(), true, 64);
    let range = Box::new(HistoryRange { with, from, backwards, count });
    ChatRequest::History { session: SESSION, number, range }
}

/// The number of the one question.
fn number_of(asked: &[ChatRequest]) -> u32 {
    match asked {
        [ChatRequest::History { number, .. } | ChatRequest::Read { number, .. }] => *number,
        other => panic!("{other:?}"),
    }
}

fn said_by_bob(seq: u64, id: u8) -> Arc<model::chat::ChatMessage> {
    let message = (*message("bob", "phone", "ann", "x")).clone();
    let client_id = model::chat::ClientMessageId([id; 16]);
    Arc::new(model::chat::ChatMessage { seq, client_id, ..message })
}

fn uuid(id: u8) -> String {
    let hex = format!("{id:02x}").repeat(16);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

fn answer(side: &mut Side, number: u32, messages: Vec<Arc<model::chat::ChatMessage>>, more: bool) {
    let page = HistoryPage { number, messages, more };
    assert_eq!(told(side, ChatDelivery::History(Box::new(page))), "");
}

#[test]
fn a_displayed_message_is_looked_for_and_the_cursor_moved_up_to_it() {
    let mut side = available();
    let asked = shows(&mut side, "bob", &uuid(7));
    let number = number_of(&asked);
    assert_eq!(asked, [looks(number, "bob", u64::MAX)]);
    answer(&mut side, number, vec![said_by_bob(9, 1), said_by_bob(8, 2)], true);
    let asked = words(&mut side);
    let number = number_of(&asked);
    assert_eq!(asked, [looks(number, "bob", 8)], "further back");
    answer(&mut side, number, vec![said_by_bob(7, 7)], false);
    let asked = words(&mut side);
    let (number, with) = (number_of(&asked), Box::new(address("bob").into()));
    assert_eq!(asked, [ChatRequest::Read { session: SESSION, number, with, upto: 7 }]);
    assert_eq!(told(&mut side, ChatDelivery::Read { number, upto: 7 }), "");
    assert!(words(&mut side).is_empty());
}

#[test]
fn a_marker_goes_to_the_accounts_other_devices_as_a_carbon() {
    let mut side = available();
    let marker = SHOWN.replace("ID", "a");
    for (hint, copied) in
        [("", true), ("<private xmlns='urn:xmpp:carbons:2'/>", false), ("<x/>", true)]
    {
        let stanza = format!("<message id='7' to='bob@a.example'>{marker}{hint}</message>");
        assert_eq!(says(&mut side, &stanza), "");
        let handed = words(&mut side).into_iter().find_map(|request| match request {
            ChatRequest::HandTo(handing) => Some(handing),
            _ => None,
        });
        assert_eq!(handed.is_some(), copied, "{hint}");
        let Some(handing) = handed else { continue };
        assert_eq!((handing.to.as_str(), &handing.device), ("ann@a.example", &None));
        let failed =
            ChatDelivery::Failed { number: handing.number, why: ChatFault::UnknownAccount };
        assert_eq!(told(&mut side, failed), "", "nobody else is there");
        // It comes back to the device that said it, too, and is none for that.
        let own = ChatDelivery::Stanza(handing.xml.clone());
        let xml = String::from_utf8_lossy(&handing.xml).into_owned();
        let others = xml.replace("ann@a.example/desk", "ann@a.example/phone");
        let others = ChatDelivery::Stanza(others.into_bytes().into());
        assert_eq!(told(&mut side, others.clone()), "", "carbons are not enabled");
        let enable = "<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>";
        assert!(says(&mut side, enable).contains("result"));
        assert_eq!(told(&mut side, own), "");
        let shown = told(&mut side, others);
        let whole = format!(
            "<message type='chat' from='ann@a.example' to='ann@a.example/desk'>\
             <sent xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'>\
             <message xmlns='jabber:client' id='7' to='bob@a.example' \
             from='ann@a.example/phone'>{marker}{hint}</message></forwarded></sent></message>"
        );
        assert_eq!(shown, whole);
        let disable = enable.replace("enable", "disable");
        assert!(says(&mut side, &disable).contains("result"));
    }
}

#[test]
fn one_is_looked_for_at_a_time_and_of_one_conversation_the_newest_is_next() {
    let mut side = available();
    let number = number_of(&shows(&mut side, "bob", "a"));
    for (to, id) in [("bob", "b"), ("cid", "c"), ("bob", "d")] {
        assert!(shows(&mut side, to, id).is_empty());
    }
    told(&mut side, ChatDelivery::Failed { number, why: ChatFault::Busy });
    let asked = words(&mut side);
    let number = number_of(&asked);
    assert_eq!(asked, [looks(number, "bob", u64::MAX)]);
    answer(&mut side, number, vec![], false);
    let asked = words(&mut side);
    assert_eq!(asked, [looks(number_of(&asked), "cid", u64::MAX)]);
}

#[test]
fn receipts_are_no_messages_and_markers_without_sense_change_nothing() {
    let mut side = available();
    for inner in [
        "<received xmlns='urn:xmpp:receipts' id='a'/>",
        "<received xmlns='urn:xmpp:chat-markers:0' id='a'/>",
        "<displayed xmlns='urn:xmpp:chat-markers:0'/>",
        "<displayed xmlns='urn:xmpp:chat-markers:0' id=''/>",
    ] {
        assert_eq!(says(&mut side, &format!("<message to='bob@a.example'>{inner}</message>")), "");
        assert!(words(&mut side).is_empty(), "{inner}");
    }
}

#[test]
fn whoever_asks_is_told_what_is_there_and_what_is_read_each_once() {
    let mut side = available();
    for id in ["one", "two", "three"] {
        let wants = "<request xmlns='urn:xmpp:receipts'/>\
                     <markable xmlns='urn:xmpp:chat-markers:0'/>";
        let wants = if id == "two" { "" } else { wants };
        says(
            &mut side,
            &format!("<message to='bob@a.example/r' id='{id}'><body>x</body>{wants}</message>"),
        );
        let number = match &words(&mut side)[..] {
            [ChatRequest::Send { number, .. }] => *number,
            other => panic!("{other:?}"),
        };
        let seq = match id {
            "one" => 5,
            "two" => 6,
            _ => 7,
        };
        told(&mut side, ChatDelivery::Sent { number, id: 1, seq, at_ms: 1, again: false });
    }
    let stanza = |name: &str, id: &str| {
        let namespace = if name == "received" { "receipts" } else { "chat-markers:0" };
        format!(
            "<message type='chat' from='bob@a.example' to='ann@a.example/desk'>\
             <{name} xmlns='urn:xmpp:{namespace}' id='{id}'/></message>"
        )
    };
    let news = |with: &str, upto| {
        ChatDelivery::Delivered(Box::new(DeliveredNews { with: address(with), upto }))
    };
    assert_eq!(told(&mut side, news("cid", 9)), "", "another one");
    assert_eq!(told(&mut side, news("bob", 5)), stanza("received", "one"));
    assert_eq!(told(&mut side, news("bob", 5)), "", "once");
    let with = address("bob");
    let read = InboxEvent { with, what: InboxChange::PeerRead(7) };
    let event = ChatDelivery::Event { seq: 13, event: Arc::new(read) };
    let expected = [stanza("received", "three"), stanza("displayed", "three")].concat();
    assert_eq!(told(&mut side, event.clone()), expected, "the last alone is displayed");
    assert_eq!(told(&mut side, event), "");
}

#[test]
fn what_comes_asks_for_both_unless_its_sender_has() {
    let mut side = available();
    let sent = told(
        &mut side,
        ChatDelivery::Message { seq: 13, message: message("bob", "phone", "ann", "x") },
    );
    assert!(sent.contains("<request xmlns='urn:xmpp:receipts'/>"), "{sent}");
    assert!(sent.contains("<markable xmlns='urn:xmpp:chat-markers:0'/>"), "{sent}");
}
