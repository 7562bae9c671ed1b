//! Transients at the seam: what makes no sense first.

use super::super::*;
use super::harness::*;
use super::requests::message;
use crate::codec::search::SearchFields;
use crate::codec::transient::TransientFields;
use base::hash::HashKey;
use model::account::{AccountAddress, Addressee};
use model::chat::{
    ChatFault, ChatState, Content, NewTransient, PAGE_MESSAGES_MAX, SearchPage, SearchRange,
    Transient,
};
use model::counters::{ChatCounter, Counter};
use std::sync::Arc;

const TYPING: TransientFields<'static> = TransientFields {
    from: "",
    device: "",
    to: "bob",
    state: 1,
    content: ContentFields::EMPTY,
    number: 0,
};

#[test]
fn a_transient_that_makes_no_sense_is_dropped_and_counted_once_and_is_not_answered() {
    let kind = ContentFields { kind: 70_000, ..ContentFields::EMPTY };
    for fields in [
        TransientFields { to: "", ..TYPING },
        TransientFields { to: "b o b", ..TYPING },
        TransientFields { content: kind, ..TYPING },
    ] {
        let counted = vec![Counter::from(ChatCounter::TransientsDropped)];
        assert_eq!(
            said(&ClientFrame::Transient(fields.clone())),
            (vec![], counted, 0),
            "{fields:?}"
        );
    }
}

#[test]
fn a_transient_with_a_number_is_answered() {
    let wrong = TransientFields { to: "", number: 7, ..TYPING };
    let failed = vec!["failed { number: 7 fault: FAULT_INVALID word: \"invalid\" }".into()];
    let counted = vec![Counter::from(ChatCounter::TransientsDropped)];
    assert_eq!(said(&ClientFrame::Transient(wrong)), (failed, counted, 0));
    let mut side = in_session();
    side.hear(now(), &client(&ClientFrame::Transient(TransientFields { number: 7, ..TYPING })));
    let asked = side.take_words_as::<ChatRequest>();
    assert!(matches!(asked[..], [ChatRequest::Transient { number: 7, .. }]), "{asked:?}");
    let why = ChatFault::RateLimited;
    assert_ne!(side.tell(now(), ChatDelivery::Failed { number: 7, why }), b"");
}

#[test]
fn a_transient_is_the_models_and_leaves_room_for_requests() {
    let mut side = in_session();
    side.limits.chat.requests_a_session_max = 1;
    let beside = ContentFields { kind: 1_000, extra: b"x", ..ContentFields::EMPTY };
    for (fields, state, content) in [
        (TYPING, Some(ChatState::Composing), Content::text("")),
        (
            TransientFields { state: 9, content: beside, from: "eve@a.example", ..TYPING },
            None,
            Content { kind: 1_000, extra: b"x".as_slice().into(), ..Content::text("") },
        ),
    ] {
        side.hear(now(), &client(&ClientFrame::Transient(fields)));
        let to = Addressee::parse("bob").expect("right");
        let transient = Box::new(NewTransient { to, state, content });
        let expected = ChatRequest::Transient { session: SESSION, number: 0, transient };
        assert_eq!(side.take_words_as::<ChatRequest>(), [expected]);
    }
}

#[test]
fn a_search_is_the_models_and_one_that_makes_no_sense_is_refused() {
    let search = SearchFields { number: 7, text: "x", count: 9_999, ..SearchFields::default() };
    for fields in [SearchFields { with: "b o b", ..search }, SearchFields { from: "@", ..search }] {
        let failed = vec!["failed { number: 7 fault: FAULT_INVALID word: \"invalid\" }".into()];
        let counted = vec![Counter::from(ChatCounter::Invalid)];
        assert_eq!(said(&ClientFrame::Search(fields)), (failed, counted, 0), "{fields:?}");
    }
    let mut side = in_session();
    side.hear(now(), &client(&ClientFrame::Search(SearchFields { with: "bob", ..search })));
    let range = Box::new(SearchRange {
        text: "x".into(),
        with: Some(Addressee::parse("bob").expect("right")),
        from: None,
        since_ms: 0,
        until_ms: u64::MAX,
        before: u64::MAX,
        count: PAGE_MESSAGES_MAX,
    });
    let expected = ChatRequest::Search { session: SESSION, number: 7, range };
    assert_eq!(side.take_words_as::<ChatRequest>(), [expected]);
}

#[test]
fn a_page_of_what_was_found_is_cut_where_it_is_too_large_and_goes_on_there() {
    let mut side = in_session();
    let search = SearchFields { number: 7, text: "x", count: 9, ..SearchFields::default() };
    side.hear(now(), &client(&ClientFrame::Search(search)));
    let found: Vec<_> = (0..8).map(|n| (20 - n, message(n, 60_000))).collect();
    let page = SearchPage { number: 7, found, before: 3, more: false };
    let sent = side.tell(now(), ChatDelivery::Found(Box::new(page)));
    let text = frames(&sent).concat();
    assert_eq!(text.matches("found { seq").count(), 5, "as many as bring it beyond 256 KiB");
    assert!(text.ends_with("before: 16 more: true }"), "{}", &text[text.len() - 60..]);
}

#[test]
fn who_reads_is_told_and_who_does_not_is_not() {
    let mut side = in_session();
    let name = |name| AccountAddress::parse(name, "a.example").expect("right");
    let (from, to, state) = (name("bob"), name("ann"), Some(ChatState::Paused));
    let content = Content::text("");
    let told = Arc::new(Transient { from, device: "desk".into(), to, state, content });
    let sent = side.tell(now(), ChatDelivery::Transient(told.clone()));
    let expected = "transient { to: \"ann@a.example\" state: CHAT_STATE_PAUSED \
         from: \"bob@a.example\" device: \"desk\" }";
    assert_eq!(frames(&sent), [expected]);
    let mut out = Out::new(HashKey::new(1, 2), [0; 32]);
    out.set_backlog(101, 100);
    let told = Delivery::Chat(ChatDelivery::Transient(told));
    assert_eq!(side.machine.command(now(), told, &mut out), Ok(()));
    assert!(out.bytes().is_empty());
    let dropped = Counter::from(ChatCounter::TransientsDropped);
    assert_eq!(out.counts().collect::<Vec<_>>(), [dropped]);
}
