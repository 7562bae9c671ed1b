//! Rooms: what is asked of the service for them, and what is shown of its answers and of the inbox.

mod administration;
mod asides;
mod authority;
mod changes;
mod items;
mod live;
mod news;
mod relay;

use super::super::*;
use super::harness::*;
use crate::xml::scan::Scan;
use model::chat::*;
use std::sync::Arc;

const ROOM: &str = "lunch@conference.a.example";
const ENTER: &str = "<presence id='e' to='lunch@conference.a.example/ann'>\
    <x xmlns='http://jabber.org/protocol/muc'/></presence>";

/// A member: name, role, whether it may say nothing.
pub(super) type Named = (&'static str, GroupRole, bool);

pub(super) const TWO: [Named; 2] =
    [("bob", GroupRole::Owner, false), ("ann", GroupRole::Member, false)];

/// The only request to the service, besides acknowledgements.
pub(super) fn asks(side: &mut Side) -> ChatRequest {
    let mut all = words(side);
    all.retain(|word| !matches!(word, ChatRequest::Acknowledge { .. }));
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

pub(super) fn asks_for_members(side: &mut Side) -> (u32, MembersRange) {
    match asks(side) {
        ChatRequest::Members { number, range, .. } => (number, *range),
        other => panic!("{other:?}"),
    }
}

pub(super) fn gives_order(side: &mut Side) -> (u32, GroupOrder) {
    match asks(side) {
        ChatRequest::Group { number, order, .. } => (number, *order),
        other => panic!("{other:?}"),
    }
}

fn asks_for_history(side: &mut Side) -> (u32, HistoryRange) {
    match asks(side) {
        ChatRequest::History { number, range, .. } => (number, *range),
        other => panic!("{other:?}"),
    }
}

pub(super) fn failed(side: &mut Side, number: u32, why: ChatFault) -> String {
    told(side, ChatDelivery::Failed { number, why })
}

pub(super) fn changed(side: &mut Side, number: u32) -> String {
    let group = address(ROOM);
    let done = GroupChanged { number, group, id: 9, seq: 9, at_ms: 9, again: false };
    told(side, ChatDelivery::Changed(Box::new(done)))
}

/// The group is called "Lunch & co" and has these members.
pub(super) fn members(number: u32, members: &[Named], closed: bool) -> ChatDelivery {
    let status = |(name, role, muted): &Named| MemberStatus {
        member: GroupMember { address: address(name), id: model::account::AccountId(1) },
        role: *role,
        muted: *muted,
        reason: None,
    };
    ChatDelivery::Members(Box::new(MembersPage {
        number,
        group: address(ROOM),
        version: 7,
        title: "Lunch & co".into(),
        closed,
        description: Box::default(),
        unlocked: false,
        public: false,
        temporary: false,
        protected: false,
        rules: RoomRules::default(),
        occupants: members.len() as u32,
        own: None,
        total: members.len() as u32,
        from: 0,
        members: members.iter().map(status).collect(),
    }))
}

/// A message in the room, at a place of the conversation.
pub(super) fn said(from: &str, seq: u64, content: Content) -> Arc<ChatMessage> {
    let text = message(from, "phone", ROOM, "");
    Arc::new(ChatMessage { seq, id: seq, content, ..(*text).clone() })
}

pub(super) fn history(number: u32, messages: &[(u64, &str)]) -> ChatDelivery {
    let one = |&(seq, text): &(u64, &str)| said("bob", seq, Content::text(text));
    let messages = messages.iter().rev().map(one).collect();
    ChatDelivery::History(Box::new(HistoryPage { number, messages, more: true }))
}

/// The only request to the room, and its number.
pub(super) fn asks_room(side: &mut Side) -> (u32, OccupancyAsk) {
    match asks(side) {
        ChatRequest::Room(asked) => {
            assert!(asked.group.within("a.example").is_group());
            (asked.number, asked.ask)
        }
        other => panic!("{other:?}"),
    }
}

/// A member who is in the room by the name of its account.
pub(super) fn occupant((name, role, silent): Named) -> Occupant {
    let device = if name == "ann" { "desk" } else { "" };
    let (account, role, show) = (address(name), Some(role), OccupantShow::default());
    let (nick, device, moderates) = (name.into(), device.into(), false);
    Occupant { nick, account, device, role, silent, moderates, show }
}

/// Ann has entered the room, in which these are, herself among them.
pub(super) fn entered(number: u32, all: &[Named]) -> ChatDelivery {
    let (own, others): (Vec<_>, Vec<_>) =
        all.iter().map(|it| Arc::new(occupant(*it))).partition(|it| &*it.nick == "ann");
    let (group, title) = (address(ROOM), "Lunch & co".into());
    let own = own.into_iter().next().expect("herself");
    let titled_by = None;
    let (last, title) = (7, title);
    let it = RoomEntered { number, group, last, own, others, title, titled_by };
    ChatDelivery::RoomEntered(Box::new(it))
}

/// News of the room with this number.
pub(super) fn news(number: u64, event: RoomEvent) -> ChatDelivery {
    ChatDelivery::RoomNews(Arc::new(RoomNews { group: address(ROOM), number, event }))
}

/// Enters the room, with these members in it and this history; returns the output.
pub(super) fn enters(side: &mut Side, all: &[Named], texts: &[(u64, &str)]) -> String {
    assert_eq!(says(side, ENTER), "");
    let (number, _) = asks_room(side);
    assert_eq!(told(side, entered(number, all)), "");
    let (number, _) = asks_for_history(side);
    let shown = told(side, history(number, texts));
    side.take_words();
    shown
}

/// Somebody who has entered the room of two, whose conversation has four places.
pub(super) fn inside() -> Side {
    let mut side = available();
    enters(&mut side, &TWO, &[(4, "before")]);
    side
}

/// A message of the room takes a place of the inbox.
pub(super) fn comes(side: &mut Side, place: u64, message: Arc<ChatMessage>) -> String {
    let shown = told(side, ChatDelivery::Message { seq: place, message });
    side.drain(now());
    shown
}

/// The stanzas that were sent, each as XML.
pub(super) fn stanzas(sent: &str) -> Vec<String> {
    let mut framer = crate::xml::framer::Framer::default();
    let (mut rest, mut all) = (sent.as_bytes(), Vec::new());
    while let Ok(Some(crate::xml::framer::StreamPiece::Element(length))) =
        framer.next(rest, true, usize::MAX)
    {
        Scan::element(&rest[..length]).expect("XML");
        all.push(String::from_utf8(rest[..length].to_vec()).expect("UTF-8"));
        rest = &rest[length..];
    }
    assert!(rest.is_empty(), "{sent}");
    all
}

/// Whether nothing is kept of it but its record.
fn is_at_rest(side: &mut Side) -> bool {
    let phase = side.machine.0.take();
    let is_at_rest = matches!(&phase, Phase::Session(session) if session.busy.is_none());
    side.machine.0 = Packed::of(phase);
    is_at_rest
}

#[test]
fn whoever_enters_is_shown_who_is_there_what_was_said_and_the_title_in_this_order() {
    let mut side = available();
    assert_eq!(says(&mut side, ENTER), "");
    let (number, ask) = asks_room(&mut side);
    let show = OccupantShow::default();
    let nick = "ann".into();
    assert_eq!(ask, OccupancyAsk::Enter(Box::new(Entry { nick, show, ..Entry::default() })));
    assert_eq!(told(&mut side, entered(number, &TWO)), "");
    let (number, range) = asks_for_history(&mut side);
    assert_eq!((range.with, range.from), (address(ROOM).into(), u64::MAX));
    assert_eq!((range.backwards, range.count), (true, 40), "some of it may not be shown");
    let shown = told(&mut side, history(number, &[(3, "one"), (4, "<two>")]));
    let shown = stanzas(&shown);
    assert_eq!(
        shown[0],
        "<presence from='lunch@conference.a.example/bob' to='ann@a.example/desk'>\
         <x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='owner' role='moderator' \
         jid='bob@a.example'></item></x>\
         <occupant-id xmlns='urn:xmpp:occupant-id:0' id='bob@a.example'/></presence>"
    );
    assert!(shown[1].contains("from='lunch@conference.a.example/ann'"), "{}", shown[1]);
    assert!(shown[1].contains(
        "<item affiliation='member' role='participant' jid='ann@a.example/desk'></item>\
         <status code='100'/><status code='110'/></x>"
    ));
    let id = crate::render::stanza_id(&said("bob", 3, Content::text("one")));
    assert_eq!(
        shown[2],
        format!(
            "<message xmlns='jabber:client' from='lunch@conference.a.example/bob' \
             to='ann@a.example/desk' type='groupchat' id='07070707-0707-0707-0707-070707070707'>\
             <body>one</body>\
             <stanza-id xmlns='urn:xmpp:sid:0' id='{id}' by='lunch@conference.a.example'/>\
             <occupant-id xmlns='urn:xmpp:occupant-id:0' id='bob@a.example'/>\
             <delay xmlns='urn:xmpp:delay' from='lunch@conference.a.example' \
             stamp='2023-11-14T22:13:20.007Z'/></message>"
        )
    );
    assert!(shown[3].contains("<body>&lt;two&gt;</body>"));
    assert_eq!(
        shown[4],
        "<message type='groupchat' from='lunch@conference.a.example' to='ann@a.example/desk'>\
         <subject>Lunch &amp; co</subject></message>"
    );
    assert_eq!(shown.len(), 5);
}

#[test]
fn what_comes_while_a_room_is_entered_follows_the_end_of_its_conversation_once() {
    let mut side = available();
    says(&mut side, ENTER);
    let (number, _) = asks_room(&mut side);
    assert_eq!(comes(&mut side, 14, said("bob", 4, Content::text("in it, too"))), "");
    assert_eq!(told(&mut side, entered(number, &TWO)), "");
    let (number, _) = asks_for_history(&mut side);
    assert_eq!(comes(&mut side, 15, said("bob", 5, Content::text("behind it"))), "");
    let carol = RoomEvent::Is(Arc::new(occupant(("carol", GroupRole::Member, false))), None);
    assert_eq!(told(&mut side, news(7, carol.clone())), "", "she was there");
    assert_eq!(told(&mut side, news(8, carol)), "");
    assert!(words(&mut side).iter().all(|it| matches!(it, ChatRequest::Acknowledge { .. })));
    let shown = told(&mut side, history(number, &[(3, "in it"), (4, "in it, too")]));
    let shown = stanzas(&shown);
    assert_eq!(shown.len(), 6);
    assert!(shown[5].contains("/carol'"), "once, behind the subject");
    let pull = ChatRequest::Pull { session: SESSION, number: 0, after: 12, count: 64 };
    assert_eq!(words(&mut side), [pull]);
    let all = [(14, 4, "in it, too"), (15, 5, "behind it")];
    let one = |(place, seq, text)| (place, said("bob", seq, Content::text(text)));
    let (messages, events) = (all.into_iter().map(one).collect(), Vec::new());
    let page = InboxPage { number: 0, messages, events, upto: 15, head: 15 };
    let shown = told(&mut side, ChatDelivery::Page(Box::new(page)));
    assert_eq!(bodies(&shown), ["behind it+"]);
    side.drain(now());
    let next = comes(&mut side, 16, said("bob", 6, Content::text("live")));
    assert_eq!(bodies(&next), ["live"]);
}

#[test]
fn as_much_of_the_history_is_shown_as_is_wanted() {
    let shown = |wish: &str| {
        let mut side = available();
        let x = format!("<x xmlns='http://jabber.org/protocol/muc'><history {wish}/></x>");
        says(&mut side, &ENTER.replace("<x xmlns='http://jabber.org/protocol/muc'/>", &x));
        let (number, _) = asks_room(&mut side);
        told(&mut side, entered(number, &TWO));
        let (number, range) = asks_for_history(&mut side);
        let all = [(2, "one"), (3, "two"), (4, "three")];
        let sent = told(&mut side, history(number, &all[3 - usize::from(range.count.min(3))..]));
        let count = sent.matches("<body>").count();
        assert_eq!(comes(&mut side, 13, said("bob", 4, Content::text("three"))), "", "it had that");
        (range.count, count)
    };
    assert_eq!(shown("maxstanzas='2'"), (22, 2));
    assert_eq!(shown("maxstanzas='0'"), (1, 0));
    assert_eq!(shown("maxstanzas='1000'"), (50, 3));
    assert_eq!(shown("maxstanzas='x'"), (40, 3));
    assert_eq!(shown("maxchars='0'"), (40, 0));
    assert_eq!(shown("maxchars='500'"), (40, 1));
    assert_eq!(shown("seconds='0'").1, 3, "the clock of tests stands before what was said");
    assert_eq!(shown("since='2023-11-14T22:13:20Z'").1, 3);
    assert_eq!(shown("since='2023-11-14T22:13:21Z'").1, 0);
    assert_eq!(shown("since='2023-11-15T00:13:20+02:00'").1, 3);
    assert_eq!(shown("since='2023-11-14T22:13:20.007Z'").1, 3);
    assert_eq!(shown("since='2023-11-14T22:13:20.008Z'").1, 0);
    assert_eq!(shown("since='yesterday'").1, 3);
}

#[test]
fn a_room_that_there_never_was_is_made_and_one_that_is_another_s_is_not_entered() {
    let mut side = available();
    says(&mut side, &ENTER.replace("/ann'", "/Annie'"));
    let (number, _) = asks_room(&mut side);
    assert_eq!(failed(&mut side, number, ChatFault::NotMember), "");
    let (number, order) = gives_order(&mut side);
    assert_eq!((order.verb, order.group), (GroupVerb::Create, Some(address(ROOM).into())));
    assert_eq!((&*order.title, order.members.len()), ("lunch", 0));
    assert_eq!(changed(&mut side, number), "");
    let (number, ask) = asks_room(&mut side);
    assert!(matches!(ask, OccupancyAsk::Enter(entry) if entry.makes), "it is locked for others");
    told(&mut side, entered(number, &[("ann", GroupRole::Owner, false)]));
    let (number, _) = asks_for_history(&mut side);
    let shown = stanzas(&told(&mut side, history(number, &[])));
    let statuses: String =
        ["100", "110", "201", "210"].map(|code| format!("<status code='{code}'/>")).concat();
    assert!(shown[0].contains(&statuses) && shown[0].contains("role='moderator'"), "{}", shown[0]);
    let mut side = available();
    says(&mut side, ENTER);
    let (number, _) = asks_room(&mut side);
    failed(&mut side, number, ChatFault::NotMember);
    let (number, _) = gives_order(&mut side);
    assert_eq!(failed(&mut side, number, ChatFault::Conflict), "");
    let (number, order) = gives_order(&mut side);
    assert_eq!(order.verb, GroupVerb::Join, "if it was invited");
    assert_eq!(
        failed(&mut side, number, ChatFault::NotMember),
        "<presence type='error' id='e' from='lunch@conference.a.example/ann' \
         to='ann@a.example/desk'><x xmlns='http://jabber.org/protocol/muc'/><error type='auth'>\
         <registration-required xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>"
    );
    assert!(is_at_rest(&mut side));
}

/// Ann makes a room by entering it.
fn makes_room(side: &mut Side) {
    says(side, ENTER);
    let (number, _) = asks_room(side);
    failed(side, number, ChatFault::NotMember);
    let (number, _) = gives_order(side);
    changed(side, number);
    let (number, _) = asks_room(side);
    told(side, entered(number, &[("ann", GroupRole::Owner, false)]));
    let (number, _) = asks_for_history(side);
    told(side, history(number, &[]));
}

/// Answer of this kind to the configuration form of a room.
fn form(kind: &str, fields: &str) -> String {
    let form = format!("<x xmlns='jabber:x:data' type='{kind}'>{fields}</x>");
    let query = format!("<query xmlns='http://jabber.org/protocol/muc#owner'>{form}</query>");
    format!("<iq type='set' id='q' to='{ROOM}'>{query}</iq>")
}

#[test]
fn a_new_room_is_locked_until_its_first_form_and_then_what_settings_and_form_say() {
    let field = |name: &str, value: &str| {
        format!("<field var='muc#roomconfig_{name}'><value>{value}</value></field>")
    };
    let locked = field("membersonly", "1") + &field("publicroom", "0");
    for (is_open, is_public, fields, expected) in [
        (true, true, String::new(), "unlocked=true public=true"),
        (true, true, locked, "unlocked=false public=false"),
        (true, false, String::new(), "unlocked=true public=false"),
        (false, false, field("membersonly", "0"), "unlocked=true public=false"),
        (false, true, String::new(), "unlocked=false public=true"),
    ] {
        let mut side = available();
        (side.limits.chat.rooms_open, side.limits.chat.rooms_public) = (is_open, is_public);
        makes_room(&mut side);
        for answer in [Some(ChatFault::TooLarge), None] {
            says(&mut side, &form("submit", &fields));
            let (number, wanted) = configures(&mut side);
            let wanted = administration::settings(&wanted);
            assert_eq!(wanted, expected, "{is_open} {is_public} {fields}, refused at first");
            match answer {
                Some(why) => failed(&mut side, number, why),
                None => changed(&mut side, number),
            };
        }
        says(&mut side, &form("submit", ""));
        assert_eq!(configures(&mut side).1, GroupSettings::default(), "it is new no more");
    }
}

/// The only request to the room is a form of settings.
fn configures(side: &mut Side) -> (u32, GroupSettings) {
    match asks_room(side) {
        (number, OccupancyAsk::Change { change: RoomChange::Settings(wanted), .. }) => {
            (number, *wanted)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_room_that_its_maker_left_long_ago_is_joined_by_invitation_not_made() {
    let mut side = available();
    says(&mut side, ENTER);
    let (number, _) = asks_room(&mut side);
    failed(&mut side, number, ChatFault::NotMember);
    let (number, order) = gives_order(&mut side);
    assert_eq!(order.verb, GroupVerb::Create, "answered as the order of long ago");
    changed(&mut side, number);
    let (number, _) = asks_room(&mut side);
    failed(&mut side, number, ChatFault::NotMember);
    let (number, order) = gives_order(&mut side);
    assert_eq!(order.verb, GroupVerb::Join);
    changed(&mut side, number);
    let (number, _) = asks_room(&mut side);
    told(&mut side, entered(number, &TWO));
    let (number, _) = asks_for_history(&mut side);
    let shown = told(&mut side, history(number, &[]));
    assert!(!shown.contains("code='201'"), "{shown}");
}

#[test]
fn a_new_room_is_gone_when_its_first_form_is_cancelled_before_anything_happens_in_it() {
    for (is_used, answered, is_gone) in
        [(false, vec![], true), (false, vec!["submit"], false), (true, vec![], false)]
    {
        let mut side = available();
        (side.limits.chat.rooms_open, side.limits.chat.rooms_public) = (false, false);
        makes_room(&mut side);
        if is_used {
            let bob = Arc::new(occupant(("bob", GroupRole::Member, false)));
            told(&mut side, news(0, RoomEvent::Is(bob, None)));
        }
        for kind in &answered {
            says(&mut side, &form(kind, ""));
            let (number, _) = configures(&mut side);
            changed(&mut side, number);
        }
        let shown = says(&mut side, &form("cancel", ""));
        if is_gone {
            let ChatRequest::Group { order, .. } = asks(&mut side) else { panic!("an order") };
            assert_eq!((order.verb, &*shown), (GroupVerb::Dissolve, ""));
        } else {
            assert!(shown.contains("type='result'") && words(&mut side).is_empty(), "{shown}");
        }
    }
}

#[test]
fn the_cancel_of_a_first_form_waits_for_an_order_before_it() {
    let mut side = available();
    (side.limits.chat.rooms_open, side.limits.chat.rooms_public) = (true, true);
    makes_room(&mut side);
    let subject = "<message type='groupchat' to='lunch@conference.a.example'>\
        <subject>tea</subject></message>";
    says(&mut side, subject);
    assert_eq!(gives_order(&mut side).1.verb, GroupVerb::Rename);
    assert_eq!(says(&mut side, &form("cancel", "")), "");
    assert!(words(&mut side).is_empty(), "it waits");
}

#[test]
fn what_is_said_to_a_room_is_sent_and_shown_as_it_comes_back() {
    let mut side = inside();
    let hello = "<message type='groupchat' id='x' to='lunch@conference.a.example'>\
        <body>hello</body><y xmlns='urn:y'/></message>";
    assert_eq!(says(&mut side, hello), "");
    let ChatRequest::Send { number, message, .. } = asks(&mut side) else { panic!("sent") };
    assert_eq!((message.to.as_str(), &*message.content.text), (ROOM, "hello"));
    let sent = ChatDelivery::Sent { number, id: 1, seq: 5, at_ms: 1, again: false };
    assert_eq!(told(&mut side, sent), "", "the reflection says so");
    let own = ChatMessage { device: "desk".into(), ..(*said("ann", 5, message.content)).clone() };
    let shown = comes(&mut side, 13, Arc::new(own));
    assert!(
        shown.starts_with(
            "<message xmlns='jabber:client' from='lunch@conference.a.example/ann' \
         to='ann@a.example/desk' type='groupchat' id='x'><body>hello</body><y xmlns='urn:y'/>\
         <stanza-id "
        ),
        "{shown}"
    );
    assert!(!shown.contains("<delay"));
    for (why, condition) in [
        (ChatFault::Muted, "forbidden"),
        (ChatFault::NotMember, "not-acceptable"),
        (ChatFault::Busy, "resource-constraint"),
        (ChatFault::TooLarge, "policy-violation"),
    ] {
        says(&mut side, hello);
        let ChatRequest::Send { number, .. } = asks(&mut side) else { panic!("sent") };
        let shown = failed(&mut side, number, why);
        assert!(shown.starts_with("<message type='error' id='x' from='lunch@conference.a"));
        assert!(shown.contains(condition), "{shown}");
    }
    for (message, condition) in [
        (
            "<message to='lunch@conference.a.example/bob' type='groupchat'><body/></message>",
            "bad-request",
        ),
        (
            "<message type='groupchat' to='dinner@conference.a.example'><body>x</body></message>",
            "not-acceptable",
        ),
        (
            "<message to='lunch@conference.a.example'><body>x</body></message>",
            "service-unavailable",
        ),
        ("<message to='conference.a.example'><body>x</body></message>", "service-unavailable"),
    ] {
        let shown = says(&mut side, message);
        assert!(shown.contains(condition) && words(&mut side).is_empty(), "{message}: {shown}");
    }
}

#[test]
fn what_is_sent_once_more_is_reflected_once_more() {
    let mut side = inside();
    let again = |side: &mut Side, seq| {
        let say = "<message type='groupchat' to='lunch@conference.a.example'>";
        says(side, &format!("{say}<body>x</body></message>"));
        let ChatRequest::Send { number, .. } = asks(side) else { panic!("sent") };
        told(side, ChatDelivery::Sent { number, id: 1, seq, at_ms: 1, again: true })
    };
    assert_eq!(again(&mut side, 5), "");
    assert!(words(&mut side).is_empty(), "it is on its way");
    assert_eq!(again(&mut side, 3), "");
    let (number, range) = asks_for_history(&mut side);
    assert_eq!((range.from, range.count, range.backwards), (2, 1, false));
    let shown = told(&mut side, history(number, &[(3, "x")]));
    assert_eq!(bodies(&shown), ["x+"]);
    let mut side = available();
    says(&mut side, "<message to='bob@a.example'><body>x</body></message>");
    let ChatRequest::Send { number, .. } = asks(&mut side) else { panic!("sent") };
    told(&mut side, ChatDelivery::Sent { number, id: 1, seq: 1, at_ms: 1, again: true });
    assert!(words(&mut side).is_empty(), "nobody reflects that");
}

#[test]
fn whoever_leaves_is_told_so_and_is_shown_nothing_more_but_its_place_goes_on() {
    let mut side = inside();
    let leave = "<presence type='unavailable' to='lunch@conference.a.example/ann'/>";
    let shown = says(&mut side, leave);
    assert!(
        shown.starts_with("<presence type='unavailable' from='lunch@conference.a.example/ann'")
    );
    assert!(shown.contains("affiliation='member' role='none'") && shown.contains("code='110'"));
    assert!(is_at_rest(&mut side));
    assert_eq!(says(&mut side, leave), "", "it is not in it");
    assert_eq!(
        told(
            &mut side,
            ChatDelivery::Message { seq: 13, message: said("bob", 5, Content::text("unseen")) }
        ),
        ""
    );
    side.drain(now());
    assert_eq!(words(&mut side), [ChatRequest::Acknowledge { session: SESSION, upto: 13 }]);
    for gone in ["<presence type='unavailable'/>", "<presence><priority>-1</priority></presence>"] {
        let mut side = inside();
        assert!(says(&mut side, gone).contains("from='lunch@conference.a.example/ann'"), "{gone}");
        is_told(&mut side);
        assert!(is_at_rest(&mut side));
    }
    let mut side = available();
    says(&mut side, ENTER);
    let (number, _) = asks_room(&mut side);
    assert!(says(&mut side, leave).contains("unavailable"));
    assert_eq!(told(&mut side, entered(number, &TWO)), "", "it has left meanwhile");
    assert!(words(&mut side).is_empty() && is_at_rest(&mut side));
}

#[test]
fn a_subject_of_a_member_is_not_shown_for_the_title() {
    let mut side = inside();
    let stanza = |text: &str| {
        let extra = b"<message xmlns='jabber:client'><subject>forged</subject></message>";
        Content { kind: Content::STANZA, extra: extra[..].into(), ..Content::text(text) }
    };
    assert_eq!(comes(&mut side, 12, said("bob", 5, stanza(""))), "");
    let shown = comes(&mut side, 13, said("bob", 6, stanza("hi")));
    assert!(shown.contains("<body>hi</body><subject>forged</subject>"), "{shown}");
}

#[test]
fn rooms_are_entered_one_after_the_other_and_not_too_many() {
    let mut side = available();
    side.limits.chat.rooms_a_session_max = 2;
    let enter = |name: &str| ENTER.replace("lunch@", &format!("{name}@"));
    assert_eq!(says(&mut side, &enter("a")), "");
    assert_eq!(says(&mut side, &enter("b")), "");
    let third = says(&mut side, &enter("c"));
    assert!(third.contains("policy-violation"), "{third}");
    let (number, _) = asks_room(&mut side);
    let shown = failed(&mut side, number, ChatFault::Busy);
    assert!(shown.contains("resource-constraint") && shown.contains("from='a@"), "{shown}");
    asks_room(&mut side);
    assert_eq!(says(&mut side, &enter("c")), "", "one of them is not entered");
}

#[test]
fn what_makes_no_sense_is_refused_by_the_book() {
    let muc = "<x xmlns='http://jabber.org/protocol/muc'/>";
    for (to, inner, condition) in [
        ("lunch@conference.a.example", muc, "jid-malformed"),
        ("conference.a.example", muc, "jid-malformed"),
        ("conference.a.example/ann", muc, "jid-malformed"),
        ("lunch@conference.a.example/ann", "", "not-acceptable"),
    ] {
        let mut side = available();
        let shown = says(&mut side, &format!("<presence to='{to}'>{inner}</presence>"));
        assert!(shown.contains(condition), "{to}: {shown}");
        assert!(words(&mut side).is_empty());
    }
    let mut side = bound();
    assert!(says(&mut side, ENTER).contains("unexpected-request"));
    let mut side = inside();
    let to = |nick: &str| format!("<presence to='lunch@conference.a.example/{nick}'/>");
    assert_eq!(says(&mut side, &to("ann")), "");
}

#[test]
fn messages_of_a_room_are_acknowledged_as_those_of_people_are() {
    let mut side = available();
    says(&mut side, "<enable xmlns='urn:xmpp:sm:3'/>");
    let shown = enters(&mut side, &TWO, &[(3, "one"), (4, "two")]);
    assert_eq!(stanzas(&shown).len(), 5);
    let shown = comes(&mut side, 13, said("bob", 5, Content::text("three")));
    assert!(shown.ends_with("<r xmlns='urn:xmpp:sm:3'/>"), "{shown}");
    assert!(words(&mut side).is_empty());
    says(&mut side, "<a xmlns='urn:xmpp:sm:3' h='6'/>");
    assert_eq!(words(&mut side), [ChatRequest::Acknowledge { session: SESSION, upto: 13 }]);
}
