//! Chatrooms as rooms: entering, what is said, what is not sent to who does not read, moderators.

use super::super::super::*;
use super::super::harness::*;
use super::stanzas;
use base::hash::HashKey;
use model::account::AccountAddress;
use model::chat::*;
use model::timeline::{Space, TimelineId};
use std::sync::Arc;

const ENTER: &str = "<presence id='e' to='lobby@live.a.example/ann'>\
    <x xmlns='http://jabber.org/protocol/muc'/></presence>";

fn room() -> AccountAddress {
    AccountAddress::parse("lobby", "live.a.example").expect("right")
}

fn timeline() -> TimelineId {
    TimelineId::of(Space::Conversation, HashKey::new(1, 2), &[b"lobby"])
}

fn state(announcement: &str) -> Arc<ChatroomState> {
    let (title, announcement) = ("The <lobby>".into(), announcement.into());
    Arc::new(ChatroomState { title, announcement, quiet: false, here: 2, head: 7 })
}

fn said(text: &str, important: bool) -> Arc<ChatroomMessage> {
    let mut message = (*message("bob", "desk", "bob", text)).clone();
    message.to = room();
    Arc::new(ChatroomMessage { timeline: timeline(), frame: 1, important, message })
}

/// The only request to a chatroom.
fn asks(side: &mut Side) -> (u32, ChatroomAsk) {
    match super::asks(side) {
        ChatRequest::Chatroom(asked) => (asked.number, asked.ask),
        other => panic!("{other:?}"),
    }
}

fn joined(number: u32, role: GroupRole, muted: bool) -> ChatDelivery {
    ChatDelivery::ChatroomJoined(Box::new(ChatroomJoined {
        number,
        room: room(),
        timeline: timeline(),
        role,
        muted,
        state: state(""),
        history: vec![said("one", false), said("two", false)],
    }))
}

/// Somebody who has entered the lobby.
fn inside(role: GroupRole) -> Side {
    let mut side = available();
    says(&mut side, ENTER);
    let (number, _) = asks(&mut side);
    told(&mut side, joined(number, role, false));
    side
}

#[test]
fn whoever_enters_is_shown_itself_what_was_said_and_the_subject_in_this_order() {
    let mut side = available();
    assert_eq!(says(&mut side, ENTER), "");
    let (number, ask) = asks(&mut side);
    let lobby = room().into();
    assert_eq!(ask, ChatroomAsk::Join { room: lobby, history: 20 });
    let shown = stanzas(&told(&mut side, joined(number, GroupRole::Member, true)));
    assert_eq!(shown.len(), 4, "{shown:?}");
    assert!(
        shown[0].starts_with("<presence") && shown[0].contains("from='lobby@live.a.example/ann'")
    );
    assert!(shown[0].contains("role='visitor'") && shown[0].contains("code='110'"), "{}", shown[0]);
    for (at, text) in [(1, "one"), (2, "two")] {
        assert!(shown[at].contains(text) && shown[at].contains("urn:xmpp:delay"), "{}", shown[at]);
        assert!(shown[at].contains("from='lobby@live.a.example/bob'"));
        assert!(!shown[at].contains("stanza-id"), "it is in no archive");
    }
    assert!(shown[3].contains("<subject>The &lt;lobby&gt;</subject>"), "{}", shown[3]);
}

#[test]
fn who_may_not_enter_hears_why_and_is_not_in_it() {
    for (why, condition) in [
        (ChatFault::NoChatroom, "item-not-found"),
        (ChatFault::ChatroomFull, "service-unavailable"),
        (ChatFault::ChatroomBanned, "forbidden"),
        (ChatFault::ChatroomsFull, "policy-violation"),
        (ChatFault::Busy, "resource-constraint"),
    ] {
        let mut side = available();
        says(&mut side, ENTER);
        let (number, _) = asks(&mut side);
        let refused = told(&mut side, ChatDelivery::Failed { number, why });
        assert!(refused.starts_with("<presence type='error' id='e'"), "{refused}");
        assert!(refused.contains(condition), "{refused}");
        let talk = "<message type='groupchat' to='lobby@live.a.example'><body>a</body></message>";
        assert!(says(&mut side, talk).contains("not-acceptable"));
    }
    let mut side = available();
    let nameless = ENTER.replace("/ann", "");
    assert!(says(&mut side, &nameless).contains("jid-malformed"));
}

#[test]
fn what_is_said_goes_to_the_room_and_comes_back_as_to_all() {
    let mut side = inside(GroupRole::Member);
    let talk =
        "<message id='7' type='groupchat' to='lobby@live.a.example'><body>a</body></message>";
    assert_eq!(says(&mut side, talk), "");
    let ChatRequest::Send { number, message, .. } = super::asks(&mut side) else {
        panic!("it sends")
    };
    assert_eq!(message.to, room().into());
    let (id, seq, at_ms, again) = (1, 8, 9, false);
    assert_eq!(told(&mut side, ChatDelivery::Sent { number, id, seq, at_ms, again }), "");
    let back = told(&mut side, ChatDelivery::ChatroomSaid(said("<a>", false)));
    assert!(back.contains("type='groupchat'") && back.contains("<body>&lt;a&gt;</body>"), "{back}");
    assert!(!back.contains("delay") && !back.contains("stanza-id"), "{back}");
    says(&mut side, talk);
    let ChatRequest::Send { number, .. } = super::asks(&mut side) else { panic!("it sends") };
    let refused = told(&mut side, ChatDelivery::Failed { number, why: ChatFault::Muted });
    assert!(refused.contains("type='error'") && refused.contains("forbidden"), "{refused}");
    let ping = "<iq type='get' id='p' to='lobby@live.a.example/ann'>\
        <ping xmlns='urn:xmpp:ping'/></iq>";
    assert!(says(&mut side, ping).contains("type='result'"));
}

#[test]
fn leaving_is_shown_at_once_and_whoever_leaves_before_it_is_in_leaves_all_the_same() {
    let mut side = inside(GroupRole::Member);
    let leave = "<presence type='unavailable' to='lobby@live.a.example/ann'/>";
    let gone = says(&mut side, leave);
    assert!(gone.contains("type='unavailable'") && gone.contains("code='110'"), "{gone}");
    let (number, ask) = asks(&mut side);
    assert_eq!(ask, ChatroomAsk::Leave(room().into()));
    assert_eq!(told(&mut side, ChatDelivery::Done { number }), "");
    says(&mut side, ENTER);
    let (number, _) = asks(&mut side);
    assert_eq!(says(&mut side, leave), "");
    assert_eq!(told(&mut side, joined(number, GroupRole::Member, false)), "");
    assert_eq!(asks(&mut side).1, ChatroomAsk::Leave(room().into()));
    // Whoever is not there any more is in no room either.
    let mut side = inside(GroupRole::Member);
    says(&mut side, "<presence type='unavailable'/>");
    let left = words(&mut side).into_iter().any(|word| matches!(word, ChatRequest::Chatroom(_)));
    assert!(left);
}

#[test]
fn who_does_not_read_is_left_out_and_told_so_by_the_room() {
    let mut side = inside(GroupRole::Member);
    let mut out = Out::new(HashKey::new(1, 2), [0; 32]);
    let mut tell = |waiting, delivery: ChatDelivery| {
        out.set_backlog(waiting, 100);
        side.machine.command(now(), delivery.into(), &mut out).expect("it goes on");
        let mut wire = Vec::new();
        out.look_at_wire(|bytes| wire.extend_from_slice(bytes));
        out.drain_wire(|_| {});
        let words: Vec<_> = out.words().collect();
        (String::from_utf8(wire).expect("UTF-8"), words.len())
    };
    assert_eq!(tell(51, ChatDelivery::ChatroomSaid(said("a", false))), (String::new(), 1));
    assert_eq!(tell(100, ChatDelivery::ChatroomSaid(said("a", true))).1, 0);
    let word = || {
        let it = ChatroomMissed { room: room(), timeline: timeline(), missed: 30 };
        ChatDelivery::ChatroomMissed(Box::new(it))
    };
    assert_eq!(tell(51, word()), (String::new(), 1));
    let (told, words) = tell(0, word());
    assert!(told.contains("from='lobby@live.a.example'") && words == 0, "{told}");
    assert!(told.contains("<body>30 messages were left out.</body>"), "{told}");
}

#[test]
fn moderators_order_and_whoever_is_shown_out_hears_how() {
    let mut side = inside(GroupRole::Owner);
    let subject =
        "<message type='groupchat' to='lobby@live.a.example'><subject>S</subject></message>";
    assert_eq!(says(&mut side, subject), "");
    let (number, ChatroomAsk::Order(order)) = asks(&mut side) else { panic!("an order") };
    assert_eq!((order.verb, &*order.text), (ChatroomVerb::Announce, "S"));
    let what = ChatroomWhat::State(state("S"));
    let news = Arc::new(ChatroomNews { room: room(), timeline: timeline(), what });
    let shown = told(&mut side, ChatDelivery::ChatroomNews(news.clone()));
    assert!(shown.contains("<subject>S</subject>"), "{shown}");
    assert_eq!(told(&mut side, ChatDelivery::ChatroomNews(news)), "", "it is no news any more");
    assert_eq!(told(&mut side, ChatDelivery::Done { number }), "");
    for (item, verb) in [
        ("nick='bob' role='none'", ChatroomVerb::Kick),
        ("nick='bob' role='visitor'", ChatroomVerb::Mute),
        ("nick='bob' role='participant'", ChatroomVerb::Unmute),
        ("jid='bob@a.example' affiliation='outcast'", ChatroomVerb::Ban),
        ("jid='bob@a.example' affiliation='none'", ChatroomVerb::Unban),
        ("jid='bob@a.example' affiliation='admin'", ChatroomVerb::Promote),
        ("jid='bob@a.example' affiliation='member'", ChatroomVerb::Demote),
    ] {
        let iq = format!(
            "<iq type='set' id='i' to='lobby@live.a.example'>\
             <query xmlns='http://jabber.org/protocol/muc#admin'><item {item}/></query></iq>"
        );
        assert_eq!(says(&mut side, &iq), "");
        let (number, ChatroomAsk::Order(order)) = asks(&mut side) else { panic!("an order") };
        assert_eq!((order.verb, order.accounts), (verb, vec![address("bob").into()]), "{item}");
        assert!(told(&mut side, ChatDelivery::Done { number }).contains("type='result' id='i'"));
    }
    for (why, code) in [
        (ChatroomOut::Kicked, "code='307'"),
        (ChatroomOut::Banned, "code='301'"),
        (ChatroomOut::Closed, "<destroy/>"),
    ] {
        let mut side = inside(GroupRole::Member);
        let what = ChatroomWhat::Out(why);
        let news = Arc::new(ChatroomNews { room: room(), timeline: timeline(), what });
        let gone = told(&mut side, ChatDelivery::ChatroomNews(news));
        assert!(gone.contains("type='unavailable'") && gone.contains(code), "{gone}");
    }
}

#[test]
fn the_service_and_its_rooms_say_what_they_are_and_not_who_is_there() {
    let mut side = inside(GroupRole::Member);
    let mut asks = |to: &str, what: &str| {
        says(&mut side, &format!("<iq type='get' id='d' to='{to}'>{what}</iq>"))
    };
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    let items = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    assert!(asks("live.a.example", info).contains("http://jabber.org/protocol/muc"));
    assert!(asks("lobby@live.a.example", info).contains("name='The &lt;lobby&gt;'"));
    for to in ["live.a.example", "lobby@live.a.example"] {
        assert!(!asks(to, items).contains("<item"), "{to}");
    }
    assert!(asks("a.example", items).contains("jid='live.a.example'"));
}
