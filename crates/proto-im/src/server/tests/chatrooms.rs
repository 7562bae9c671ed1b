//! Chatrooms at the seam: what is asked, what is told, and what is not sent to who does not read.

use super::super::*;
use super::harness::*;
use crate::codec::chatroom::{ChatroomOrderFields, JoinFields, LeaveFields};
use base::hash::HashKey;
use model::account::{AccountAddress, Addressee};
use model::chat::{
    ChatFault, ChatMessage, ChatroomAsk, ChatroomJoined, ChatroomMessage, ChatroomMissed,
    ChatroomNews, ChatroomOrder, ChatroomOut, ChatroomRequest, ChatroomState, ChatroomVerb,
    ChatroomWhat, ClientMessageId, Content, GroupRole,
};
use model::counters::{ChatCounter, Counter};
use model::timeline::{Space, TimelineId};

fn room() -> AccountAddress {
    AccountAddress::parse("lobby", "live.a.example").expect("right")
}

fn timeline() -> TimelineId {
    TimelineId::of(Space::Conversation, HashKey::new(1, 2), &[b"lobby"])
}

fn state() -> Arc<ChatroomState> {
    let (title, announcement) = ("Lobby".into(), "Be kind.".into());
    Arc::new(ChatroomState { title, announcement, quiet: false, here: 2, head: 7 })
}

fn said(text: &str, important: bool) -> Arc<ChatroomMessage> {
    let message = ChatMessage {
        id: 9,
        seq: 8,
        at_ms: 7,
        from: AccountAddress::parse("bob", "a.example").expect("right"),
        device: "desk".into(),
        to: room(),
        client_id: ClientMessageId([b'x'; 16]),
        content: Content::text(text),
        amended: None,
    };
    Arc::new(ChatroomMessage { timeline: timeline(), frame: 1, important, message })
}

/// Frames for a delivery while so many bytes wait for the device, and requests to the service.
fn told(waiting: usize, delivery: ChatDelivery) -> (Vec<String>, Vec<Request>) {
    let mut side = in_session();
    let mut out = Out::new(HashKey::new(1, 2), [0; 32]);
    out.set_backlog(waiting, 100);
    assert_eq!(side.machine.command(now(), delivery.into(), &mut out), Ok(()));
    let mut wire = Vec::new();
    out.look_at_wire(|bytes| wire.extend_from_slice(bytes));
    (frames(&wire), out.words().collect())
}

fn missed(missed: u32, again: bool) -> Vec<Request> {
    let (session, room) = (SESSION, timeline());
    vec![ChatRequest::ChatroomMissed { session, room, missed, again }.into()]
}

#[test]
fn what_makes_no_sense_fails_and_is_counted_and_asked_of_nobody() {
    let order = |verb, room: &'static str, accounts: Vec<&'static str>| {
        ClientFrame::ChatroomOrder(ChatroomOrderFields {
            number: 7,
            verb,
            room,
            accounts,
            ..ChatroomOrderFields::default()
        })
    };
    let all = [
        order(0, "lobby", vec![]),
        order(14, "lobby", vec![]),
        order(1, "", vec![]),
        order(1, "The Lobby", vec![]),
        order(9, "lobby", vec!["Bob"]),
        ClientFrame::JoinChatroom(JoinFields { number: 7, room: "", history: 1 }),
        ClientFrame::LeaveChatroom(LeaveFields { number: 7, room: "L" }),
    ];
    for frame in &all {
        let expected = vec!["failed { number: 7 fault: FAULT_INVALID word: \"invalid\" }".into()];
        let counted = vec![Counter::from(ChatCounter::Invalid)];
        assert_eq!(super::harness::said(frame), (expected, counted, 0), "{frame:?}");
    }
}

#[test]
fn what_is_asked_is_said_in_the_models_words() {
    let mut side = in_session();
    let order = ChatroomOrderFields {
        number: 1,
        room: "lobby",
        verb: 9,
        text: "x",
        accounts: vec!["bob"; 70],
        keeps: 1 << 20,
        durable: true,
    };
    side.hear(now(), &client(&ClientFrame::ChatroomOrder(order)));
    let join = JoinFields { number: 2, room: "lobby", history: u32::MAX };
    side.hear(now(), &client(&ClientFrame::JoinChatroom(join)));
    let leave = LeaveFields { number: 3, room: "lobby" };
    side.hear(now(), &client(&ClientFrame::LeaveChatroom(leave)));
    let lobby = Addressee::parse("lobby").expect("right");
    let order = ChatroomOrder {
        room: lobby.clone(),
        verb: ChatroomVerb::Ban,
        text: "x".into(),
        accounts: vec![Addressee::parse("bob").expect("right"); 65],
        keeps: u16::MAX,
        durable: true,
    };
    let asks = [
        ChatroomAsk::Order(order),
        ChatroomAsk::Join { room: lobby.clone(), history: 200 },
        ChatroomAsk::Leave(lobby),
    ];
    let of = |(number, ask)| {
        let request = ChatroomRequest { session: SESSION, number, ask };
        Request::Chat(ChatRequest::Chatroom(Box::new(request)))
    };
    let expected: Vec<Request> = (1..).zip(asks).map(of).collect();
    assert_eq!(side.take_words(), expected);
}

#[test]
fn a_device_is_told_what_happens_and_answers_are_answers() {
    let mut side = in_session();
    let join = JoinFields { number: 2, room: "lobby", history: 1 };
    side.hear(now(), &client(&ClientFrame::JoinChatroom(join)));
    let joined = ChatroomJoined {
        number: 2,
        room: room(),
        timeline: timeline(),
        role: GroupRole::Owner,
        muted: false,
        state: state(),
        history: vec![said("before", false)],
    };
    let sent = side.tell(now(), ChatDelivery::ChatroomJoined(Box::new(joined)));
    let [joined] = &frames(&sent)[..] else { panic!("one frame") };
    for part in ["number: 2", "title: \"Lobby\"", "here: 2", "GROUP_ROLE_OWNER", "\"before\""] {
        assert!(joined.contains(part), "{joined}");
    }
    let (told_it, words) = told(0, ChatDelivery::ChatroomSaid(said("hello", true)));
    assert!(told_it[0].contains("text: \"hello\"") && told_it[0].ends_with("important: true }"));
    assert!(words.is_empty());
    let long = "x".repeat(5_000);
    let (told_it, _) = told(0, ChatDelivery::ChatroomSaid(said(&long, false)));
    assert!(told_it[0].contains(&long), "a long one is shared, and is the same");
    for (why, word) in ChatroomOut::ALL.into_iter().zip(["KICKED", "BANNED", "CLOSED"]) {
        let what = ChatroomWhat::Out(why);
        let news = Arc::new(ChatroomNews { room: room(), timeline: timeline(), what });
        let (told_it, _) = told(1_000, ChatDelivery::ChatroomNews(news));
        let state = "state { room: \"lobby@live.a.example\" }";
        assert_eq!(told_it, [format!("chatroom_news {{ {state} out: CHATROOM_OUT_{word} }}")]);
    }
    let leave = LeaveFields { number: 3, room: "lobby" };
    side.hear(now(), &client(&ClientFrame::LeaveChatroom(leave)));
    let failed = side.tell(now(), ChatDelivery::Failed { number: 3, why: ChatFault::NoChatroom });
    assert!(frames(&failed)[0].contains("FAULT_NO_CHATROOM"));
}

#[test]
fn of_what_a_device_does_not_read_either_a_frame_goes_out_or_the_service_hears_of_it() {
    let ordinary = || ChatDelivery::ChatroomSaid(said("a", false));
    let important = || ChatDelivery::ChatroomSaid(said("a", true));
    assert_eq!(told(50, ordinary()).1, []);
    assert_eq!(told(51, ordinary()), (vec![], missed(1, false)));
    assert_eq!((told(100, important()).0.len(), told(100, important()).1), (1, vec![]));
    assert_eq!(told(101, important()), (vec![], missed(1, false)));
    let word = |missed| {
        let it = ChatroomMissed { room: room(), timeline: timeline(), missed };
        ChatDelivery::ChatroomMissed(Box::new(it))
    };
    let expected = "chatroom_missed { room: \"lobby@live.a.example\" missed: 30 }";
    assert_eq!(told(50, word(30)), (vec![expected.into()], vec![]));
    assert_eq!(told(51, word(30)), (vec![], missed(30, true)));
    let news = || {
        let what = ChatroomWhat::State(state());
        ChatDelivery::ChatroomNews(Arc::new(ChatroomNews {
            room: room(),
            timeline: timeline(),
            what,
        }))
    };
    assert_eq!(told(51, news()), (vec![], missed(0, true)));
    assert_eq!(told(50, news()).0.len(), 1);
}
