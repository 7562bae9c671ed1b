//! Transients, sent and received by a device.

use super::super::*;
use super::harness::*;
use model::account::Addressee;
use model::chat::{ChatFault, ChatState, Content, NewTransient, SendRejected, Transient};
use std::sync::Arc;

const STATES: &str = "http://jabber.org/protocol/chatstates";

fn tells(side: &mut Side, stanza: &str) -> Vec<NewTransient> {
    assert_eq!(says(side, stanza), "");
    let words = words(side).into_iter();
    let told = words.map(|word| match word {
        ChatRequest::Transient { session: SESSION, transient, .. } => *transient,
        other => panic!("{other:?}"),
    });
    told.collect()
}

fn hears(side: &mut Side, to: &str, state: Option<ChatState>, content: Content) -> String {
    let (from, device) = (address("bob"), "phone".into());
    let transient = Transient { from, device, to: address(to), state, content };
    told(side, ChatDelivery::Transient(Arc::new(transient)))
}

#[test]
fn a_chat_state_is_told_and_not_stored_and_a_text_with_one_is_stored() {
    let mut side = available();
    let bob = "to='bob@a.example/phone' type='chat'";
    let typing = format!("<message {bob}><composing xmlns='{STATES}'/></message>");
    let (to, content) = (Addressee::from(address("bob")), Content::default());
    let expected = NewTransient { to, state: Some(ChatState::Composing), content };
    assert_eq!(tells(&mut side, &typing), [expected]);
    let hidden =
        format!("<message {bob}><body>psst</body><no-store xmlns='urn:xmpp:hints'/></message>");
    let told = tells(&mut side, &hidden);
    assert_eq!((told.len(), &*told[0].content.text, told[0].state), (1, "psst", None));
    says(&mut side, &format!("<message {bob}><body>hi</body><active xmlns='{STATES}'/></message>"));
    assert!(matches!(&words(&mut side)[..], [ChatRequest::Send { .. }]));
    says(&mut side, "<message to='bob@a.example' type='error'><composing/></message>");
    assert!(words(&mut side).is_empty());
}

#[test]
fn what_is_kept_nowhere_is_answered_by_an_error_if_the_service_refuses_it() {
    let mut side = available();
    side.take_words();
    let stanza =
        "<message id='7' to='bob@a.example/phone'><move xmlns='urn:example:game'/></message>";
    let rejected = |number| {
        let (why, reason) = (ChatFault::RateLimited, "too many".into());
        let rejected = SendRejected { number, why, reason, retry_after_ms: 3_000 };
        ChatDelivery::Rejected(Box::new(rejected))
    };
    let failed = |why| move |number| ChatDelivery::Failed { number, why };
    let cases: [(&dyn Fn(u32) -> ChatDelivery, &str); 4] = [
        (&rejected, "resource-constraint"),
        (&failed(ChatFault::TooLarge), "policy-violation"),
        (&failed(ChatFault::UnknownAccount), "service-unavailable"),
        (&failed(ChatFault::Silenced), "forbidden"),
    ];
    for (answer, condition) in cases {
        assert_eq!(says(&mut side, stanza), "");
        let number = match words(&mut side).pop() {
            Some(ChatRequest::Transient { number, .. }) => number,
            other => panic!("{other:?}"),
        };
        let error = told(&mut side, answer(number));
        assert!(error.starts_with("<message type='error' id='7'"), "{error}");
        assert!(error.contains(condition), "{error}");
    }
    assert_eq!(says(&mut side, stanza), "");
    let Some(ChatRequest::Transient { number, .. }) = words(&mut side).pop() else { panic!() };
    assert_eq!(told(&mut side, ChatDelivery::Done { number }), "", "it was passed on");
}

#[test]
fn whoever_is_there_is_told_and_nobody_else() {
    let composing = Some(ChatState::Composing);
    let mut side = bound();
    assert_eq!(hears(&mut side, "ann", composing, Content::default()), "", "it is not there");
    let mut side = available();
    let sent = hears(&mut side, "ann", composing, Content::default());
    let expected = format!(
        "<message xmlns='jabber:client' from='bob@a.example/phone' to='ann@a.example/desk' \
         type='chat'><composing xmlns='{STATES}'/></message>"
    );
    assert_eq!(sent, expected);
    let room = "lunch@conference.a.example";
    assert_eq!(hears(&mut side, room, composing, Content::default()), "", "it is not in it");
    assert!(words(&mut side).is_empty(), "nothing answers it");
}

#[test]
fn what_an_application_of_another_protocol_tells_is_not_shown() {
    let mut side = available();
    let content = Content { kind: 1_000, extra: [1].into(), ..Content::default() };
    assert_eq!(hears(&mut side, "ann", None, content), "");
    let broken = Content { kind: Content::STANZA, extra: [b'<'].into(), ..Content::default() };
    assert_eq!(hears(&mut side, "ann", None, broken), "");
}
