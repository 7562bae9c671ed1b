//! Requests of a session, and what comes back.

use super::super::*;
use super::harness::*;
use crate::codec::client_frame::{HistoryFields, PullFields};
use crate::codec::frame::{PAGE_BYTES_MAX, SERVER_BYTES_MAX};
use base::hash::HashKey;
use model::account::{AccountAddress, Addressee};
use model::chat::{
    ChatFault, ChatMessage, ClientMessageId, Content, HistoryPage, HistoryRange, InboxPage,
    MENTIONS_HARD_MAX, Mentions, NewMessage,
};
use model::timeline::Seq;

const ID: &[u8; 16] = b"0123456789abcdef";

fn send(to: &str, client_id: &[u8], kind: u32) -> Vec<u8> {
    let content = ContentFields { uncounted: true, ..ContentFields::new(kind, "hi", b"\x01") };
    client(&ClientFrame::Send(SendFields { number: 7, to, client_id, content }))
}

pub(super) fn message(seq: Seq, text_bytes: usize) -> Arc<ChatMessage> {
    let address = |text| AccountAddress::parse(text, "a.example").expect("right");
    Arc::new(ChatMessage {
        id: 100 + seq,
        seq,
        at_ms: 5,
        from: address("ann"),
        device: "phone".into(),
        to: address("bob"),
        client_id: ClientMessageId(*ID),
        content: Content::text(&"x".repeat(text_bytes)),
        amended: None,
    })
}

#[test]
fn requests_are_said_in_the_models_words() {
    let mut side = in_session();
    let addressee = |text| Addressee::parse(text).expect("right");
    let history = |from, backwards, count| {
        client(&ClientFrame::History(HistoryFields {
            number: 9,
            with: "bob",
            from,
            backwards,
            count,
        }))
    };
    let pull = PullFields { number: 8, after: 3, count: 1_000_000 };
    let bytes = [
        send("bob", ID, 0),
        client(&ClientFrame::Pull(pull)),
        history(0, true, 20),
        history(0, false, 0),
        history(5, true, 1),
        client(&ClientFrame::Acknowledge(11)),
    ];
    assert!(side.hear(now(), &bytes.concat()).is_empty());
    let session = SESSION;
    let content =
        Content { counts: false, extra: b"\x01".as_slice().into(), ..Content::text("hi") };
    let message = NewMessage { to: addressee("bob"), client_id: ClientMessageId(*ID), content };
    let range = |from, backwards, count| ChatRequest::History {
        session,
        number: 9,
        range: Box::new(HistoryRange { with: addressee("bob"), from, backwards, count }),
    };
    let expected = [
        ChatRequest::Send { session, number: 7, message: Box::new(message) },
        ChatRequest::Pull { session, number: 8, after: 3, count: 256 },
        range(Seq::MAX, true, 20),
        range(0, false, 0),
        range(5, true, 1),
        ChatRequest::Acknowledge { session, upto: 11 },
    ];
    assert_eq!(side.take_words_as::<ChatRequest>(), expected);
}

#[test]
fn a_request_that_makes_no_sense_fails_and_the_session_goes_on() {
    let history = HistoryFields { number: 7, with: "B", ..HistoryFields::default() };
    for bytes in [
        send("", ID, 1),
        send("Bob", ID, 1),
        send("bob@", ID, 1),
        send("bob", b"", 1),
        send("bob", b"0123456789abcde", 1),
        send("bob", b"0123456789abcdefg", 1),
        send("bob", ID, 65_536),
        client(&ClientFrame::History(history)),
    ] {
        let mut side = in_session();
        let sent = side.hear(now(), &bytes);
        let expected = ["failed { number: 7 fault: FAULT_INVALID word: \"invalid\" }"];
        assert_eq!(frames(&sent), expected);
        assert!(side.words.is_empty() && side.ended.is_none());
    }
}

#[test]
fn answers_are_told_with_their_numbers() {
    let mut side = in_session();
    let pulls = client(&ClientFrame::Pull(PullFields::default())).repeat(4);
    side.hear(now(), &pulls);
    let page = InboxPage {
        number: 3,
        messages: vec![(13, message(1, 1))],
        events: vec![],
        upto: 13,
        head: 20,
    };
    let history = HistoryPage { number: 4, messages: vec![message(1, 1)], more: true };
    let text = "from: \"ann@a.example\" device: \"phone\" to: \"bob@a.example\" \
        client_id: \"0123456789abcdef\" content { kind: 1 text: \"x\" }";
    let said = format!("{{ id: 101 seq: 1 at_ms: 5 {text} }}");
    for (word, expected) in [
        (
            ChatDelivery::Sent { number: 1, id: 2, seq: 3, at_ms: 4, again: true },
            "sent { number: 1 id: 2 seq: 3 at_ms: 4 again: true }".to_owned(),
        ),
        (
            ChatDelivery::Failed { number: 2, why: ChatFault::Busy },
            "failed { number: 2 fault: FAULT_BUSY word: \"busy\" }".to_owned(),
        ),
        (
            ChatDelivery::Page(Box::new(page)),
            format!("page {{ number: 3 entries {{ seq: 13 message {said} }} upto: 13 head: 20 }}"),
        ),
        (
            ChatDelivery::History(Box::new(history)),
            format!("history {{ number: 4 messages {said} more: true }}"),
        ),
        (
            ChatDelivery::Message { seq: 14, message: message(1, 1) },
            format!("message {{ seq: 14 message {said} }}"),
        ),
        (ChatDelivery::Notify { head: 15 }, "notify { head: 15 }".to_owned()),
    ] {
        assert_eq!(frames(&side.tell(now(), word)), [expected]);
    }
}

#[test]
fn as_many_requests_are_read_as_may_be_unanswered() {
    let mut side = in_session();
    side.limits.chat.requests_a_session_max = 2;
    let pull = client(&ClientFrame::Pull(PullFields::default()));
    side.hear(now(), &[&pull.repeat(3)[..], &client(&ClientFrame::Ping)].concat());
    assert_eq!(side.words.len(), 2, "the third waits");
    assert_eq!(side.untaken().len(), pull.len() + 3);
    let failed = ChatDelivery::Failed { number: 0, why: ChatFault::Busy };
    let sent = side.tell(now(), failed.clone());
    assert_eq!((frames(&sent).len(), side.words.len()), (1, 3), "one answer, one request more");
    let sent = side.tell(now(), failed);
    assert_eq!((frames(&sent).len(), side.untaken().len()), (2, 0), "the Ping behind it, too");
}

#[test]
fn reading_is_held_and_let_go_once_each() {
    let mut out = Out::new(HashKey::new(1, 2), [0; 32]);
    let mut side = in_session();
    side.limits.chat.requests_a_session_max = 1;
    let bytes = client(&ClientFrame::Pull(PullFields::default())).repeat(3);
    let mut input = Input::new(&bytes, &side.link, &side.limits);
    assert_eq!(side.machine.receive(now(), &mut input, &mut out), Ok(()));
    assert_eq!(out.take_hold(), Some(true));
    assert_eq!(side.machine.receive(now(), &mut input, &mut out), Ok(()));
    assert_eq!(out.take_hold(), None, "said already");
    let failed = Delivery::Chat(ChatDelivery::Failed { number: 0, why: ChatFault::Busy });
    assert_eq!(side.machine.command(now(), failed, &mut out), Ok(()));
    assert_eq!(out.take_hold(), Some(false));
}

#[test]
fn a_device_that_does_not_read_is_told_that_there_is_more() {
    let mut out = Out::new(HashKey::new(1, 2), [0; 32]);
    out.set_backlog(101, 100);
    let mut side = in_session();
    side.hear(now(), &client(&ClientFrame::Pull(PullFields::default())).repeat(2));
    let page = InboxPage {
        number: 3,
        messages: vec![(13, message(1, 1))],
        events: vec![],
        upto: 13,
        head: 20,
    };
    let history = HistoryPage { number: 4, messages: vec![message(1, 1)], more: false };
    for (word, expected) in [
        (ChatDelivery::Message { seq: 14, message: message(1, 1) }, "notify { head: 14 }"),
        (
            ChatDelivery::Page(Box::new(page)),
            "failed { number: 3 fault: FAULT_BUSY word: \"busy\" }",
        ),
        (
            ChatDelivery::History(Box::new(history)),
            "failed { number: 4 fault: FAULT_BUSY word: \"busy\" }",
        ),
    ] {
        out.bytes().clear();
        assert_eq!(side.machine.command(now(), Delivery::Chat(word), &mut out), Ok(()));
        assert_eq!(frames(out.bytes()), [expected]);
    }
}

#[test]
fn a_page_ends_where_its_bytes_do_and_goes_on_from_there() {
    let mut side = in_session();
    side.hear(now(), &client(&ClientFrame::Pull(PullFields::default())).repeat(2));
    let messages: Vec<_> = (1..=20).map(|seq| message(seq, 60_000)).collect();
    let entries = messages.iter().enumerate().map(|(at, m)| (50 + at as u64, m.clone())).collect();
    let page = InboxPage { number: 3, messages: entries, events: vec![], upto: 900, head: 1_000 };
    let sent = side.tell(now(), ChatDelivery::Page(Box::new(page)));
    assert!(sent.len() <= SERVER_BYTES_MAX && sent.len() > PAGE_BYTES_MAX);
    assert!(frames(&sent)[0].ends_with("upto: 54 head: 1000 }"), "five fit");
    let history = HistoryPage { number: 4, messages, more: false };
    let sent = side.tell(now(), ChatDelivery::History(Box::new(history)));
    let said = frames(&sent).remove(0);
    assert_eq!((said.matches("messages {").count(), said.ends_with("more: true }")), (5, true));
}

#[test]
fn whom_messages_mention_counts_among_the_bytes_of_a_page() {
    let mut side = in_session();
    side.hear(now(), &client(&ClientFrame::Pull(PullFields::default())));
    let name = |at: usize| Addressee::parse(&format!("{at:060}@a.example")).expect("right");
    let mentions = Mentions::of((0..MENTIONS_HARD_MAX.into()).map(name).collect(), false);
    let of = |seq| {
        let mut message = (*message(seq, 1)).clone();
        message.content.mentions = mentions.clone();
        Arc::new(message)
    };
    let messages = (1..=100).map(of).collect();
    let history = HistoryPage { number: 4, messages, more: false };
    let sent = side.tell(now(), ChatDelivery::History(Box::new(history)));
    assert!(sent.len() <= SERVER_BYTES_MAX, "{}", sent.len());
    assert!(frames(&sent)[0].ends_with("more: true }"));
}

#[test]
fn a_ping_is_answered_and_is_a_heartbeat() {
    let mut side = in_session();
    let ping = client(&ClientFrame::Ping);
    let mut out = Out::new(HashKey::new(1, 2), [0; 32]);
    let mut input = Input::new(&ping, &side.link, &side.limits);
    assert_eq!(side.machine.receive(now(), &mut input, &mut out), Ok(()));
    assert_eq!((frames(out.bytes()), out.take_beats()), (vec!["pong { }".to_owned()], 1));
}

#[test]
fn a_goodbye_ends_the_connection() {
    let mut side = in_session();
    assert!(side.hear(now(), &client(&ClientFrame::Goodbye)).is_empty());
    assert_eq!(side.ended, Some(CloseReason::Unbound));
    let closed = ChatRequest::Closed { session: SESSION, reason: CloseReason::Unbound };
    assert_eq!(side.take_words_as::<ChatRequest>(), [closed]);
}

#[test]
fn a_device_that_is_refused_because_of_its_rate_is_read_more_slowly() {
    let at = |ms: u64| Now::new(base::time::Instant::from_nanos(ms * 1_000_000), 0);
    let mut side = in_session();
    side.take_words();
    side.hear(at(0), &send("bob", ID, 0));
    assert_eq!(side.take_words().len(), 1);
    side.tell(at(0), ChatDelivery::Failed { number: 7, why: ChatFault::RateLimited });
    assert!(side.is_held(), "it is not read");
    side.pass(at(10));
    assert!(side.is_held(), "until the pause is over");
    side.pass(at(20));
    assert!(!side.is_held());
    // Whatever else it is refused for does not slow it.
    side.hear(at(20), &send("bob", ID, 0));
    side.tell(at(20), ChatDelivery::Failed { number: 7, why: ChatFault::Busy });
    assert!(!side.is_held());
}
