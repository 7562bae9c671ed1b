//! Cursors, settings, lists and recalls at the seam: what makes no sense first.

use super::super::*;
use super::harness::*;
use super::requests::message;
use crate::codec::client_frame::PullFields;
use crate::codec::conversation::{ChangeFields, ConversationsFields, PlaceFields, SetFields};
use crate::codec::frame::{PAGE_BYTES_MAX, SERVER_BYTES_MAX};
use base::hash::HashKey;
use model::account::{AccountAddress, Addressee};
use model::chat::{
    Conversation, ConversationChange, ConversationsPage, Excerpt, InboxChange, InboxEvent,
    InboxPage, PAGE_MESSAGES_MAX, RecallOrder,
};
use model::counters::{ChatCounter, Counter};
use model::timeline::Seq;

fn bob() -> AccountAddress {
    AccountAddress::parse("bob", "a.example").expect("right")
}

fn with_bob() -> Box<Addressee> {
    Box::new(Addressee::parse("bob").expect("right"))
}

fn place(seq: Seq) -> PlaceFields<'static> {
    PlaceFields { number: 7, with: "bob", seq }
}

fn set(setting: u32) -> SetFields<'static> {
    SetFields { number: 7, with: "bob", change: ChangeFields { setting, on: true, draft: "I" } }
}

#[test]
fn what_makes_no_sense_fails_is_counted_once_and_the_session_goes_on() {
    let bad = [
        ClientFrame::MarkRead(place(0)),
        ClientFrame::MarkRead(PlaceFields { with: "", ..place(1) }),
        ClientFrame::MarkRead(PlaceFields { with: "Bob", ..place(1) }),
        ClientFrame::Recall(place(0)),
        ClientFrame::Recall(PlaceFields { with: "bob@", ..place(1) }),
        ClientFrame::Set(set(0)),
        ClientFrame::Set(set(5)),
        ClientFrame::Set(set(u32::MAX)),
        ClientFrame::Set(SetFields { with: "", ..set(1) }),
        ClientFrame::Conversations(ConversationsFields {
            number: 7,
            with: "b o b",
            ..ConversationsFields::default()
        }),
    ];
    for frame in &bad {
        let expected = vec!["failed { number: 7 fault: FAULT_INVALID word: \"invalid\" }".into()];
        let counted = vec![Counter::from(ChatCounter::Invalid)];
        assert_eq!(said(frame), (expected, counted, 0), "{frame:?}");
    }
}

#[test]
fn what_is_asked_is_said_in_the_models_words() {
    let (session, number, with) = (SESSION, 7, with_bob());
    let change = |setting, change: ConversationChange| {
        let change = Box::new(change);
        let asked = ChatRequest::Set { session, number, with: with.clone(), change };
        (ClientFrame::Set(set(setting)), asked)
    };
    let list = |before, count, groups| {
        let fields = ConversationsFields { number, with: "", before, count, groups };
        ClientFrame::Conversations(fields)
    };
    let of_bob = ConversationsFields { number, with: "bob", before: 3, count: 0, groups: true };
    let listed = |before, count, groups| ChatRequest::Conversations {
        session,
        number,
        before,
        count,
        groups,
    };
    let (read, recall) = (ClientFrame::MarkRead(place(5)), ClientFrame::Recall(place(5)));
    let reason = Box::default();
    let order = Box::new(RecallOrder { with: (*with).clone(), seq: 5, reason });
    for (frame, expected) in [
        (read, ChatRequest::Read { session, number, with: with.clone(), upto: 5 }),
        (recall, ChatRequest::Recall { session, number, order }),
        change(1, ConversationChange::Pin(true)),
        change(2, ConversationChange::Mute(true.into())),
        change(3, ConversationChange::Hide(true)),
        change(4, ConversationChange::Draft("I".into())),
        (list(0, 1, false), listed(Seq::MAX, 1, false)),
        (list(9, 0, true), listed(9, 0, true)),
        (list(9, u32::MAX, false), listed(9, PAGE_MESSAGES_MAX, false)),
        (
            ClientFrame::Conversations(of_bob),
            ChatRequest::Conversation { session, number, with: with.clone() },
        ),
    ] {
        let mut side = in_session();
        assert!(side.hear(now(), &client(&frame)).is_empty());
        assert_eq!(side.take_words_as::<ChatRequest>(), [expected], "{frame:?}");
    }
}

fn event(what: InboxChange) -> std::sync::Arc<InboxEvent> {
    std::sync::Arc::new(InboxEvent { with: bob(), what })
}

fn conversation(place: Seq, draft: usize) -> Conversation {
    let (from, text) = (bob(), "x".into());
    Conversation {
        with: bob(),
        place,
        last_seq: 4,
        said_seq: 0,
        left: false,
        last: Some(Excerpt { id: 1, at_ms: 2, from, kind: 1, text, whole: true }),
        read: 3,
        peer_read: 2,
        mentions: 1,
        unread: 1,
        pinned: true,
        muted: false,
        hidden: false,
        draft: "d".repeat(draft).into(),
    }
}

#[test]
fn answers_and_events_are_told_and_an_event_lets_no_request_in() {
    let mut side = in_session();
    side.limits.chat.requests_a_session_max = 3;
    side.hear(now(), &client(&ClientFrame::MarkRead(place(5))).repeat(7));
    assert_eq!(side.take_words().len(), 3);
    let (number, upto, more) = (8, 9, true);
    let conversations = vec![conversation(6, 1)];
    let page = Box::new(ConversationsPage { number, upto, conversations, more });
    let with = "with: \"bob@a.example\"";
    for (word, expected, next) in [
        (
            ChatDelivery::Event { seq: 13, event: event(InboxChange::Read(5)) },
            format!("event {{ seq: 13 {with} read: 5 }}"),
            0,
        ),
        (
            ChatDelivery::Event { seq: 14, event: event(InboxChange::PeerRead(6)) },
            format!("event {{ seq: 14 {with} peer_read: 6 }}"),
            0,
        ),
        (
            ChatDelivery::Event {
                seq: 15,
                event: event(InboxChange::Set(ConversationChange::Pin(true))),
            },
            format!("event {{ seq: 15 {with} change {{ setting: SETTING_PIN on: true }} }}"),
            0,
        ),
        (
            ChatDelivery::Read { number: 7, upto: 5 },
            "marked_read { number: 7 upto: 5 }".to_owned(),
            1,
        ),
        (ChatDelivery::Set { number: 7 }, "set { number: 7 }".to_owned(), 1),
        (
            ChatDelivery::Conversations(page),
            format!(
                "conversations {{ number: 8 upto: 9 conversations {{ {with} place: 6 last_seq: 4 \
                 last {{ id: 1 at_ms: 2 from: \"bob@a.example\" kind: 1 text: \"x\" whole: true }} \
                 read: 3 peer_read: 2 unread: 1 pinned: true draft: \"d\" \
                 mentions: 1 }} more: true }}"
            ),
            1,
        ),
    ] {
        assert_eq!(frames(&side.tell(now(), word)), [expected]);
        assert_eq!(side.take_words().len(), next);
    }
}

#[test]
fn a_device_that_does_not_read_is_told_that_there_is_more() {
    let mut side = in_session();
    let wish = ConversationsFields { number: 8, count: 1, ..ConversationsFields::default() };
    side.hear(now(), &client(&ClientFrame::Conversations(wish)));
    let conversations = vec![conversation(6, 1)];
    let page = Box::new(ConversationsPage { number: 8, upto: 9, conversations, more: false });
    for (word, expected) in [
        (
            ChatDelivery::Event { seq: 14, event: event(InboxChange::Read(5)) },
            "notify { head: 14 }",
        ),
        (
            ChatDelivery::Conversations(page),
            "failed { number: 8 fault: FAULT_BUSY word: \"busy\" }",
        ),
    ] {
        let mut out = Out::new(HashKey::new(1, 2), [0; 32]);
        out.set_backlog(101, 100);
        assert_eq!(side.machine.command(now(), Delivery::Chat(word), &mut out), Ok(()));
        assert_eq!(frames(out.bytes()), [expected]);
    }
}

/// An InboxPage whose uneven places are drafts of eight KiB and whose even ones are cursors.
fn drafts(count: Seq) -> InboxPage {
    let of = |seq: Seq| match seq % 2 {
        0 => (seq, event(InboxChange::Read(seq))),
        _ => {
            let draft = ConversationChange::Draft("d".repeat(8 * 1024).into());
            (seq, event(InboxChange::Set(draft)))
        }
    };
    let events = (1..=count).map(of).collect();
    InboxPage { number: 3, messages: vec![], events, upto: count, head: 900 }
}

#[test]
fn a_page_of_events_and_a_list_end_where_their_bytes_do() {
    let mut side = in_session();
    side.hear(now(), &client(&ClientFrame::Pull(PullFields::default())).repeat(4));
    let sent = side.tell(now(), ChatDelivery::Page(Box::new(drafts(200))));
    assert!(sent.len() <= SERVER_BYTES_MAX && sent.len() > PAGE_BYTES_MAX - 8 * 1024);
    let said = frames(&sent).remove(0);
    let (events, upto) = (said.matches("events {").count(), said.find(" upto: ").expect("a place"));
    assert!((50..100).contains(&events), "{events}");
    assert!(said[upto..].starts_with(&format!(" upto: {events} head: 900 events {{ seq: 1 ")));
    let sent = side.tell(now(), ChatDelivery::Page(Box::new(drafts(9))));
    let said = frames(&sent).remove(0);
    assert!(said.matches("events {").count() == 9 && said.contains(" upto: 9 head"));
    // Messages and events of one page: it ends with the fifth message, and what is before that.
    let messages = (1..=20).map(|at| (2 * at, message(at, 60_000))).collect();
    let events = (0..=20).map(|at| (2 * at + 1, event(InboxChange::Read(at + 1)))).collect();
    let page = InboxPage { number: 3, messages, events, upto: 41, head: 900 };
    let sent = side.tell(now(), ChatDelivery::Page(Box::new(page)));
    let said = frames(&sent).remove(0);
    let counts = (said.matches("entries {").count(), said.matches("events {").count());
    assert_eq!((counts, said.contains(" upto: 10 head: 900 ")), ((5, 5), true));
    let conversations = (1..=256).rev().map(|at| conversation(at, 8 * 1024)).collect();
    let page = ConversationsPage { number: 4, upto: 9, conversations, more: false };
    let sent = side.tell(now(), ChatDelivery::Conversations(Box::new(page)));
    assert!(sent.len() <= SERVER_BYTES_MAX && sent.len() > PAGE_BYTES_MAX - 8 * 1024);
    let said = frames(&sent).remove(0);
    assert!(said.ends_with("more: true }") && said.matches("place: ").count() < 40);
}
