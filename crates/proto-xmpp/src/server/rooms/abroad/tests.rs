//! Rooms for occupants of other servers: how they enter, speak, hear and go, and what is bounded.

mod asides;

use super::*;
use crate::xml::scan::Scan;
use model::account::AccountId;
use model::chat::{
    ChatMessage, Content, GroupChange, GroupMember, GroupRole, GroupVerb, HistoryPage, Occupant,
    OccupantShow, PublicGroup, PublicPage, Relayed, RelayedKind, RoomActor, RoomEntered, RoomEvent,
    RoomExit,
};
use std::sync::Arc;

const ROOM: &str = "yard@conference.a.example";
const EVE: &str = "eve@b.example/phone";

fn address(text: &str) -> AccountAddress {
    AccountAddress::parse(text, "a.example").expect("an address")
}

fn now() -> Now {
    Now { wall_ms: 1_700_000_000_000, ..Now::default() }
}

/// Rooms with these limits on those who are in them: in all, and of a domain.
fn rooms_with(occupants_max: u32, occupants_a_domain_max: u32) -> RoomsAbroad {
    let limits =
        FederationLimits { occupants_max, occupants_a_domain_max, ..FederationLimits::default() };
    RoomsAbroad::new("a.example", &limits, 7)
}

fn rooms() -> RoomsAbroad {
    rooms_with(10, 10)
}

/// Requests of the rooms, with their numbers; stanzas are collected.
fn asked(rooms: &mut RoomsAbroad, shown: &mut Vec<String>) -> Vec<(u64, String, ErrandWhat)> {
    let mut all = Vec::new();
    for word in rooms.take_out() {
        match word {
            AbroadWord::Ask { number, account, what, .. } => {
                all.push((number, account.to_string(), *what));
            }
            AbroadWord::Stanza { domain, xml } => {
                let text = String::from_utf8(xml.into()).expect("UTF-8");
                let scan = Scan::of_peer(text.as_bytes()).expect("XML");
                let to = scan.root().attribute("to").expect("whom it is for").into_owned();
                assert_eq!(crate::jid::domain_of(&to).expect("an address"), domain);
                shown.push(text);
            }
        }
    }
    all
}

/// The one thing that it asks.
fn asks(rooms: &mut RoomsAbroad) -> (u64, ErrandWhat) {
    let mut all = asked(rooms, &mut Vec::new());
    assert_eq!(all.len(), 1, "{all:?}");
    let (number, _, what) = all.remove(0);
    (number, what)
}

fn shown(rooms: &mut RoomsAbroad) -> Vec<String> {
    let mut shown = Vec::new();
    let all = asked(rooms, &mut shown);
    assert!(all.is_empty(), "{all:?}");
    shown
}

/// Stanzas, and how many questions.
fn shown_and_asked(rooms: &mut RoomsAbroad) -> (Vec<String>, usize) {
    let mut shown = Vec::new();
    let all = asked(rooms, &mut shown);
    (shown, all.len())
}

fn message(from: &str, seq: u64, content: Content) -> Arc<ChatMessage> {
    let (from, to, device) = (address(from), address(ROOM), "x".into());
    let client_id = ClientMessageId([7; 16]);
    let at_ms = 1_700_000_000_000;
    Arc::new(ChatMessage {
        id: seq,
        seq,
        at_ms,
        from,
        device,
        to,
        client_id,
        content,
        amended: None,
    })
}

fn word(message: Arc<ChatMessage>, to: &[&str]) -> RoomWord {
    RoomWord { message, to: to.iter().map(|it| address(it)).collect() }
}

fn change_because(verb: GroupVerb, name: &str, why: &str) -> Content {
    Content { text: why.into(), ..change(verb, name) }
}

fn change(verb: GroupVerb, name: &str) -> Content {
    let member = GroupMember { address: address(name), id: AccountId::FOREIGN };
    GroupChange { verb, title: "".into(), members: vec![member] }.content()
}

fn history(messages: Vec<Arc<ChatMessage>>) -> ChatDelivery {
    ChatDelivery::History(Box::new(HistoryPage { number: 0, messages, more: false }))
}

/// A device that is in the room, with this role as a member.
fn occupant(who: &str, role: Option<GroupRole>) -> Occupant {
    let (account, device) = who.split_once('/').unwrap_or((who, ""));
    let account = address(account);
    let (nick, device) = (account.name().into(), device.into());
    let (silent, moderates, show) = (false, false, OccupantShow::default());
    Occupant { nick, account, device, role, silent, moderates, show }
}

/// This device has entered the room, in which Ann is.
fn entered(who: &str) -> ChatDelivery {
    let ann = occupant("ann@a.example", Some(GroupRole::Owner));
    ChatDelivery::RoomEntered(Box::new(RoomEntered {
        number: 0,
        group: address(ROOM),
        last: 7,
        own: Arc::new(occupant(who, None)),
        others: vec![Arc::new(ann)],
        title: "Yard".into(),
        titled_by: None,
    }))
}

fn news(number: u64, event: RoomEvent) -> Arc<RoomNews> {
    Arc::new(RoomNews { group: address(ROOM), number, event })
}

/// Devices, as the home of a room names them.
fn devices(all: &[&str]) -> Vec<(AccountAddress, Box<str>)> {
    let of = |it: &&str| {
        let (account, device) = it.split_once('/').expect("a device");
        (address(account), device.into())
    };
    all.iter().map(of).collect()
}

fn failed(why: ChatFault) -> ChatDelivery {
    ChatDelivery::Failed { number: 0, why }
}

fn says(rooms: &mut RoomsAbroad, stanza: &str) {
    rooms.takes(now(), stanza.as_bytes());
}

fn presence(from: &str, kind: &str) -> String {
    let x = "<x xmlns='http://jabber.org/protocol/muc'/>";
    format!("<presence id='p' from='{from}' to='{ROOM}/eve'{kind}>{x}</presence>")
}

/// Somebody enters; what is shown.
fn enters(rooms: &mut RoomsAbroad, who: &str) -> Vec<String> {
    says(rooms, &presence(who, ""));
    let (number, what) = asks(rooms);
    assert!(matches!(what, ErrandWhat::Room(_, OccupancyAsk::Enter(_))), "{what:?}");
    rooms.answered(now(), number, Some(&entered(who)));
    let (number, what) = asks(rooms);
    assert!(matches!(what, ErrandWhat::History(_)));
    rooms.answered(now(), number, Some(&history(vec![message("ann", 4, Content::text("old"))])));
    shown(rooms)
}

#[test]
fn somebody_of_another_server_enters_and_is_shown_what_is_there() {
    let mut rooms = rooms();
    let all = enters(&mut rooms, EVE);
    assert_eq!(all.len(), 4, "{all:?}");
    assert!(all[0].starts_with("<presence from='yard@conference.a.example/ann' to='eve@b.ex"));
    assert!(all[0].contains("affiliation='owner' role='moderator' jid='ann@a.example'"));
    let own = "from='yard@conference.a.example/eve' to='eve@b.example/phone'";
    assert!(all[1].contains(own) && all[1].contains("jid='eve@b.example/phone'"), "{}", all[1]);
    for code in ["100", "110"] {
        assert!(all[1].contains(&format!("<status code='{code}'/>")), "{code}: {}", all[1]);
    }
    assert!(all[2].starts_with("<message from='yard@conference.a.example/ann'"), "{}", all[2]);
    assert!(all[2].contains("<body>old</body>") && all[2].contains("<delay "));
    assert!(all[3].contains("<subject>Yard</subject>"));
    assert_eq!(rooms.occupants(), 1);
    // What is said is shown once, and what the history had is not.
    let said = message("ann", 5, Content::text("hello"));
    let to = ["eve@b.example"];
    rooms.said(now(), &word(said.clone(), &to));
    let all = shown(&mut rooms);
    assert!(all.len() == 1 && all[0].contains("<body>hello</body>"), "{all:?}");
    assert!(!all[0].contains("xmlns='jabber:client'") && !all[0].contains("<delay"));
    rooms.said(now(), &word(said, &to));
    rooms.said(now(), &word(message("ann", 4, Content::text("old")), &to));
    assert_eq!(shown(&mut rooms), [""; 0]);
    assert_eq!(enters(&mut rooms, "eve@b.example/desk").len(), 4);
    let mut both = rooms;
    both.said(now(), &word(message("ann", 5, Content::text("hello")), &to));
    assert_eq!(shown(&mut both).len(), 1, "whose history ended before");
    both.said(now(), &word(message("ann", 6, Content::text("both")), &to));
    assert_eq!(shown(&mut both).len(), 2);
    // What was lost on the way here is known by its place: nobody misses it in silence.
    both.said(now(), &word(message("ann", 8, Content::text("later")), &to));
    let all = shown_and_asked(&mut both);
    assert_eq!((all.0.len(), both.occupants()), (2, 0), "{all:?}");
    assert!(all.0.iter().all(|it| it.contains("<status code='333'/><status code='110'/>")));
}

#[test]
fn what_is_said_while_somebody_enters_is_missed_by_nobody_and_told_once() {
    let mut rooms = rooms();
    says(&mut rooms, &presence(EVE, ""));
    let (number, _) = asks(&mut rooms);
    let to = ["eve@b.example"];
    for (seq, text) in [(5, "in the history"), (6, "behind it")] {
        rooms.said(now(), &word(message("ann", seq, Content::text(text)), &to));
    }
    rooms.answered(now(), number, Some(&entered(EVE)));
    let (number, _) = asks(&mut rooms);
    let carol = Arc::new(occupant("carol@a.example", None));
    for number in [7, 8] {
        let is = RoomEvent::Is(carol.clone(), None);
        rooms.news(now(), &news(number, is), &devices(&[EVE]));
    }
    rooms.said(now(), &word(message("ann", 7, Content::text("then")), &to));
    let last = message("ann", 5, Content::text("in the history"));
    rooms.answered(now(), number, Some(&history(vec![last])));
    let all = shown(&mut rooms);
    assert_eq!(all.iter().filter(|it| it.contains("/carol'")).count(), 1, "{all:?}");
    let bodies: Vec<_> = ["in the history", "behind it", "then"]
        .map(|text| all.iter().filter(|it| it.contains(text)).count())
        .into();
    assert_eq!(bodies, [1, 1, 1], "{all:?}");
    // One who misses more than is kept is told to try again.
    says(&mut rooms, &presence("eve@b.example/desk", ""));
    let (number, _) = asks(&mut rooms);
    for seq in 8..400 {
        rooms.said(now(), &word(message("ann", seq, Content::text("much")), &to));
    }
    shown(&mut rooms);
    rooms.answered(now(), number, Some(&entered("eve@b.example/desk")));
    let (number, _) = asks(&mut rooms);
    rooms.answered(now(), number, Some(&history(vec![])));
    let mut all = Vec::new();
    let leaves = asked(&mut rooms, &mut all);
    assert!(matches!(leaves[..], [(_, _, ErrandWhat::Room(_, OccupancyAsk::Leave))]), "{leaves:?}");
    assert!(all.len() == 1 && all[0].contains("resource-constraint"), "{all:?}");
    assert_eq!(rooms.occupants(), 1);
}

#[test]
fn what_an_occupant_says_is_said_in_its_name_and_refused_as_the_book_has_it() {
    let mut rooms = rooms();
    let say = |from: &str| {
        format!(
            "<message id='m' type='groupchat' from='{from}' to='{ROOM}'><body>hi</body></message>"
        )
    };
    says(&mut rooms, &say(EVE));
    let refused = shown(&mut rooms);
    assert!(refused[0].contains("not-acceptable") && refused[0].contains("id='m'"));
    enters(&mut rooms, EVE);
    says(&mut rooms, &say(EVE));
    let (number, what) = asks(&mut rooms);
    let ErrandWhat::Send(new) = what else { panic!("{what:?}") };
    assert_eq!((new.to.as_str(), &*new.content.text), (ROOM, "hi"));
    rooms.answered(now(), number, Some(&failed(ChatFault::Muted)));
    let refused = shown(&mut rooms);
    assert!(refused[0].contains("type='error'") && refused[0].contains("<forbidden "));
    says(&mut rooms, &say("eve@b.example/other"));
    assert!(shown(&mut rooms)[0].contains("not-acceptable"), "that device is not in it");
    let subject = format!(
        "<message id='s' type='groupchat' from='{EVE}' to='{ROOM}'><subject>x</subject></message>"
    );
    says(&mut rooms, &subject);
    let (number, what) = asks(&mut rooms);
    let ErrandWhat::Group(order) = what else { panic!("{what:?}") };
    assert_eq!((order.verb, &*order.title), (GroupVerb::Rename, "x"));
    rooms.answered(now(), number, Some(&failed(ChatFault::Forbidden)));
    assert!(shown(&mut rooms)[0].contains("<forbidden "));
    let private = |nick: &str| {
        format!("<message type='chat' from='{EVE}' to='{ROOM}/{nick}'><body>psst</body></message>")
    };
    says(&mut rooms, &private("hatter"));
    let (number, what) = asks(&mut rooms);
    let ErrandWhat::Room(_, OccupancyAsk::Whisper { nick, content }) = what else {
        panic!("{what:?}")
    };
    assert_eq!((&*nick, &*content.text), ("hatter", "psst"));
    rooms.answered(now(), number, Some(&failed(ChatFault::UnknownAccount)));
    assert!(shown(&mut rooms)[0].contains("item-not-found"));
    let ann = Arc::new(occupant("ann@a.example", None));
    let whispered = RoomEvent::Whispered(ann.clone(), content);
    rooms.news(now(), &news(0, whispered), &devices(&[EVE]));
    let told = shown(&mut rooms);
    let head = format!("<message from='{ROOM}/{}' to='{EVE}' type='chat'>", ann.nick);
    assert!(told.len() == 1 && told[0].starts_with(&head), "{told:?}");
    assert!(told[0].contains("<body>psst</body><x xmlns='http://jabber.org/protocol/muc#user'/>"));
}

#[test]
fn questions_to_and_of_somebody_of_another_server_are_relayed_and_weighed() {
    let limits = FederationLimits { taking_bytes_max: 65_536, ..FederationLimits::default() };
    let mut rooms = RoomsAbroad::new("a.example", &limits, 7);
    enters(&mut rooms, EVE);
    let ann = Arc::new(occupant("ann@a.example", None));
    let (kind, xml) = (RelayedKind::Get, "<q xmlns='y'/>".into());
    let relayed = Arc::new(Relayed { kind, id: "71".into(), xml });
    rooms.news(now(), &news(0, RoomEvent::Relayed(ann.clone(), relayed)), &devices(&[EVE]));
    let head = format!("<iq type='get' id='71' from='{ROOM}/{}' to='{EVE}'>", ann.nick);
    assert_eq!(shown(&mut rooms), [head + "<q xmlns='y'/></iq>"]);
    let to = format!("to='{ROOM}/{}'", ann.nick);
    says(&mut rooms, &format!("<iq type='result' id='71' from='{EVE}' {to}/>"));
    let (number, what) = asks(&mut rooms);
    let ErrandWhat::Room(_, OccupancyAsk::Answer(answer)) = what else { panic!("{what:?}") };
    assert_eq!((&*answer.id, answer.kind), ("71", RelayedKind::Result));
    rooms.answered(now(), number, Some(&failed(ChatFault::UnknownAccount)));
    assert_eq!(shown(&mut rooms), [""; 0], "no answer to an answer");
    let text = "x".repeat(40_000);
    for _ in 0..3 {
        let q = format!("<q xmlns='y'>{text}</q>");
        says(&mut rooms, &format!("<iq type='get' id='q' from='{EVE}' {to}>{q}</iq>"));
    }
    let mut all = Vec::new();
    let asked = asked(&mut rooms, &mut all);
    assert_eq!((asked.len(), all.len()), (2, 1));
    assert!(all[0].contains("resource-constraint"), "{all:?}");
    for (number, ..) in asked {
        rooms.answered(now(), number, Some(&ChatDelivery::Done { number: 0 }));
    }
    says(&mut rooms, &format!("<iq type='get' id='q' from='{EVE}' {to}><q xmlns='y'/></iq>"));
    assert!(matches!(asks(&mut rooms).1, ErrandWhat::Room(_, OccupancyAsk::Relay { .. })));
}

#[test]
fn whoever_goes_is_told_so_and_its_home_is_told() {
    let mut rooms = rooms();
    enters(&mut rooms, EVE);
    enters(&mut rooms, "eve@b.example/desk");
    for (device, left) in [("eve@b.example/desk", 1), (EVE, 0)] {
        says(&mut rooms, &presence(device, " type='unavailable'"));
        let mut all = Vec::new();
        let leaves = asked(&mut rooms, &mut all);
        assert!(all.len() == 1 && all[0].contains("type='unavailable'") && all[0].contains("110"));
        let [(number, _, ErrandWhat::Room(_, OccupancyAsk::Leave))] = &leaves[..] else {
            panic!("{leaves:?}")
        };
        rooms.answered(now(), *number, Some(&ChatDelivery::Done { number: 0 }));
        assert!(rooms.is_idle() && rooms.occupants() == left);
    }
    says(&mut rooms, &presence(EVE, " type='unavailable'"));
    assert_eq!(shown(&mut rooms), [""; 0], "it is gone already");
}

#[test]
fn whoever_leaves_before_it_is_in_and_comes_again_is_in() {
    let mut rooms = rooms();
    says(&mut rooms, &presence(EVE, ""));
    let (first, _) = asks(&mut rooms);
    says(&mut rooms, &presence(EVE, " type='unavailable'"));
    assert_eq!(shown(&mut rooms), [""; 0]);
    says(&mut rooms, &presence(EVE, ""));
    let (second, _) = asks(&mut rooms);
    for number in [first, second] {
        rooms.answered(now(), number, Some(&entered(EVE)));
        let (number, _) = asks(&mut rooms);
        rooms.answered(now(), number, Some(&history(Vec::new())));
        let (shown, _) = shown_and_asked(&mut rooms);
        let is_in = shown.iter().any(|it| it.contains("code='110'"));
        assert_eq!(is_in, rooms.occupants() == 1);
    }
    assert_eq!(rooms.occupants(), 1);
}

#[test]
fn kicks_bans_and_roles_are_shown_and_whoever_is_out_hears_nothing_more() {
    let both = devices(&[EVE, "mallory@b.example/x"]);
    let (by, nick) = (|| address("ann"), "ann");
    let actor = || Box::new(RoomActor { by: by(), nick: nick.into(), reason: "noise".into() });
    let tea = Some(address("tea@muc.b.example"));
    for (how, told) in [
        (RoomExit::Kicked(actor()), "<reason>noise</reason></item><status code='307'/>"),
        (RoomExit::Banned(actor()), "<reason>noise</reason></item><status code='301'/>"),
        (RoomExit::Dissolved("over".into(), tea), "<destroy jid='tea@muc.b.example'><reason>over"),
    ] {
        let mut rooms = rooms();
        enters(&mut rooms, EVE);
        enters(&mut rooms, "mallory@b.example/x");
        let eve = Arc::new(occupant(EVE, None));
        rooms.news(now(), &news(8, RoomEvent::Gone(eve, how)), &both);
        let all = shown(&mut rooms);
        assert!(all.len() == 2 && all.iter().all(|it| it.contains(told)), "{all:?}");
        let to_eve = all.iter().find(|it| it.contains("to='eve@")).expect("told");
        assert!(to_eve.contains("<status code='110'/></x>"), "{to_eve}");
        let other = all.iter().find(|it| it.contains("to='mallory@")).expect("told");
        assert!(other.contains("/eve'") && !other.contains("'110'"), "{other}");
        rooms.said(now(), &word(message("ann", 5, Content::text("x")), &[]));
        let all = shown(&mut rooms);
        assert!(all.len() == 1 && all[0].contains("to='mallory@b.example/x'"));
        assert_eq!(rooms.occupants(), 1);
    }
    let mut rooms = rooms();
    enters(&mut rooms, EVE);
    let admin = Arc::new(occupant(EVE, Some(GroupRole::Admin)));
    rooms.news(now(), &news(8, RoomEvent::Is(admin, Some(actor()))), &both[..1]);
    assert!(shown(&mut rooms)[0].contains("affiliation='admin' role='moderator'"));
    let hatter = Occupant { nick: "hatter".into(), ..occupant(EVE, Some(GroupRole::Admin)) };
    let renamed = RoomEvent::Renamed("eve".into(), Arc::new(hatter));
    rooms.news(now(), &news(9, renamed), &both[..1]);
    assert!(shown(&mut rooms)[0].contains("<status code='303'/><status code='110'/>"));
    says(
        &mut rooms,
        &format!("<message type='groupchat' from='{EVE}' to='{ROOM}'><body>x</body></message>"),
    );
    let (_, what) = asks(&mut rooms);
    let ErrandWhat::Send(new) = what else { panic!("{what:?}") };
    assert_eq!(new.content.nick.as_deref(), Some("hatter"));
    // One that has missed news is out, and its home is told.
    let carol = Arc::new(occupant("carol@a.example", None));
    rooms.news(now(), &news(11, RoomEvent::Is(carol.clone(), None)), &both[..1]);
    let mut all = Vec::new();
    let [(leave, _, _)] = asked(&mut rooms, &mut all)[..] else { panic!("it leaves") };
    assert!(all.len() == 1 && all[0].contains("<status code='333'/>"), "{all:?}");
    // News for a device that is not there: it leaves once more, when its leave was carried out.
    rooms.news(now(), &news(12, RoomEvent::Is(carol.clone(), None)), &both[..1]);
    assert!(shown(&mut rooms).is_empty());
    rooms.answered(now(), leave, Some(&ChatDelivery::Done { number: 0 }));
    rooms.news(now(), &news(13, RoomEvent::Is(carol, None)), &both[..1]);
    let (number, what) = asks(&mut rooms);
    assert_eq!(what, ErrandWhat::Room(address(ROOM).into(), OccupancyAsk::Leave));
    rooms.answered(now(), number, None);
}

#[test]
fn whoever_is_added_is_invited() {
    let mut rooms = rooms();
    let to = ["eve@b.example"];
    let add = change_because(GroupVerb::Add, to[0], "hungry?");
    rooms.said(now(), &word(message("ann", 9, add), &to));
    let all = shown(&mut rooms);
    let invite = "<invite from='ann@a.example'><reason>hungry?</reason></invite>";
    assert!(all.len() == 1 && all[0].contains(invite), "{all:?}");
    assert!(all[0].contains("to='eve@b.example'") && all[0].contains("jabber:x:conference"));
    assert!(all[0].contains(" reason='hungry?'/>"), "{all:?}");
}

/// The leaves that chat is asked to carry out: their numbers, and the accounts.
fn leaves(rooms: &mut RoomsAbroad) -> Vec<(u64, String)> {
    let all = asked(rooms, &mut Vec::new()).into_iter();
    let of = |(number, account, what)| {
        assert!(matches!(what, ErrandWhat::Room(_, OccupancyAsk::Leave)), "{what:?}");
        (number, account)
    };
    all.map(of).collect()
}

#[test]
fn a_server_that_is_not_reached_takes_its_occupants_out_a_few_at_a_time() {
    let mut rooms = rooms_with(1_000, 1_000);
    let all: Vec<String> = (0..100).map(|at| format!("p{at}@b.example/x")).collect();
    for who in &all {
        enters(&mut rooms, who);
    }
    enters(&mut rooms, "kim@c.example/x");
    rooms.lost(now(), "b.example");
    assert_eq!(rooms.occupants(), 1);
    let (mut left, mut at) = (Vec::new(), 7);
    let mut orders = leaves(&mut rooms);
    while !orders.is_empty() {
        assert!(orders.len() <= LEAVES_MAX, "{}", orders.len());
        for (number, account) in std::mem::take(&mut orders) {
            // Those who are about to leave are told of who has left: they are no more leaves.
            at += 1;
            let gone = Arc::new(occupant(&format!("{account}/x"), None));
            let still: Vec<&str> = all.iter().map(String::as_str).skip(left.len() + 1).collect();
            let gone = news(at, RoomEvent::Gone(gone, RoomExit::Left));
            rooms.news(now(), &gone, &devices(&still));
            left.push(account);
            rooms.answered(now(), number, Some(&ChatDelivery::Done { number: 0 }));
            orders.extend(leaves(&mut rooms));
        }
    }
    assert_eq!(left.len(), 100, "each once");
    left.sort_unstable();
    left.dedup();
    assert_eq!(left.len(), 100);
    // One stanza that comes back is one device.
    let lost =
        format!("<message type='error' from='kim@c.example/x' to='{ROOM}'><error/></message>");
    rooms.bounced(now(), lost.as_bytes());
    let mut all = Vec::new();
    assert_eq!(asked(&mut rooms, &mut all).len(), 1);
    assert!(all[0].contains("<status code='333'/>") && rooms.occupants() == 0);
}

#[test]
fn a_leave_that_chat_did_not_hear_is_said_again_unless_the_device_has_come_back() {
    for comes_back in [false, true] {
        let mut rooms = rooms();
        enters(&mut rooms, EVE);
        says(&mut rooms, &presence(EVE, " type='unavailable'"));
        let [(number, _)] = leaves(&mut rooms)[..] else { panic!("it leaves") };
        if comes_back {
            enters(&mut rooms, EVE);
        }
        rooms.answered(now(), number, Some(&failed(ChatFault::Busy)));
        assert!(leaves(&mut rooms).is_empty(), "not at once");
        rooms.sweep(now());
        let again = leaves(&mut rooms);
        assert_eq!(again.len(), usize::from(!comes_back));
        for (number, _) in again {
            assert!(!rooms.is_idle());
            rooms.answered(now(), number, Some(&ChatDelivery::Done { number: 0 }));
        }
        assert!(rooms.is_idle());
    }
    // Whether it was let in nobody said.
    let mut rooms = rooms();
    says(&mut rooms, &presence(EVE, ""));
    let (number, _) = asks(&mut rooms);
    rooms.answered(now(), number, None);
    let mut all = Vec::new();
    assert_eq!(asked(&mut rooms, &mut all).len(), 1, "it leaves");
    assert!(all.len() == 1 && all[0].contains("resource-constraint"), "{all:?}");
}

#[test]
fn an_account_enters_and_a_device_changes_its_name_so_often_in_a_minute() {
    let mut rooms = rooms_with(99, 99);
    for at in 0..seats::SHOWS_A_MINUTE {
        enters(&mut rooms, &format!("eve@b.example/{at}"));
    }
    says(&mut rooms, &presence("eve@b.example/more", ""));
    assert!(shown(&mut rooms)[0].contains("type='error'"));
    enters(&mut rooms, "kim@b.example/x");
    let rename = format!("<presence id='p' from='kim@b.example/x' to='{ROOM}/other'/>");
    for _ in 0..seats::SHOWS_A_MINUTE {
        says(&mut rooms, &rename);
        let (_, what) = asks(&mut rooms);
        assert!(matches!(what, ErrandWhat::Room(_, OccupancyAsk::Rename(_))), "{what:?}");
    }
    says(&mut rooms, &rename);
    assert!(shown(&mut rooms)[0].contains("type='error'"));
    let later = Now { mono: now().after(Duration::from_secs(60)), ..now() };
    rooms.takes(later, presence("eve@b.example/more", "").as_bytes());
    let (_, what) = asks(&mut rooms);
    assert!(matches!(what, ErrandWhat::Room(_, OccupancyAsk::Enter(_))), "{what:?}");
}

#[test]
fn seats_and_questions_are_bounded() {
    let mut rooms = rooms_with(3, 2);
    enters(&mut rooms, "a@b.example/x");
    enters(&mut rooms, "b@b.example/x");
    says(&mut rooms, &presence("c@b.example/x", ""));
    assert!(shown(&mut rooms)[0].contains("resource-constraint"), "of one domain");
    enters(&mut rooms, "c@c.example/x");
    says(&mut rooms, &presence("d@d.example/x", ""));
    assert!(shown(&mut rooms)[0].contains("resource-constraint"), "of all");
    assert_eq!(rooms.take_refused(), ForeignRefused { dropped: 2, invalid: 0 });
    // Those who are about to have a seat count.
    let mut rooms = rooms_with(3, 2);
    for name in ["a", "b", "c"] {
        says(&mut rooms, &presence(&format!("{name}@b.example/x"), ""));
    }
    let mut all = Vec::new();
    assert_eq!((asked(&mut rooms, &mut all).len(), all.len()), (2, 1));
    // Who asks more than is answered is told to wait.
    let limits = FederationLimits { taking_max: 16, ..FederationLimits::default() };
    let mut rooms = RoomsAbroad::new("a.example", &limits, 7);
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    for _ in 0..20 {
        says(&mut rooms, &format!("<iq type='get' id='i' from='{EVE}' to='{ROOM}'>{info}</iq>"));
    }
    let mut all = Vec::new();
    assert_eq!((asked(&mut rooms, &mut all).len(), all.len()), (16, 4));
    assert!(all.iter().all(|it| it.contains("resource-constraint")));
    // Nobody answers: whoever asked is told, and there is room again.
    let later = Now { mono: now().after(ASKED_TIME), ..now() };
    rooms.sweep(later);
    assert_eq!((shown(&mut rooms).len(), rooms.is_idle()), (16, true));
}

#[test]
fn public_rooms_are_listed_to_whoever_asks_from_elsewhere() {
    let mut rooms = rooms();
    let items = "<query xmlns='http://jabber.org/protocol/disco#items'/>";
    let service = "conference.a.example";
    says(&mut rooms, &format!("<iq type='get' id='i' from='{EVE}' to='{service}'>{items}</iq>"));
    let (number, what) = asks(&mut rooms);
    let ErrandWhat::PublicGroups(range) = what else { panic!("{what:?}") };
    assert_eq!((&*range.domain, range.from, range.backwards), (service, None, false));
    let groups = vec![PublicGroup { group: address(ROOM), title: "Yard".into() }];
    let page = ChatDelivery::PublicGroups(Box::new(PublicPage { number: 0, groups }));
    rooms.answered(now(), number, Some(&page));
    let query = items.replace("/>", "><item jid='yard@conference.a.example' name='Yard'/></query>");
    let head = format!("<iq type='result' id='i' from='{service}' to='{EVE}'>");
    assert_eq!(shown(&mut rooms), [format!("{head}{query}</iq>")]);
    says(
        &mut rooms,
        &format!("<iq type='get' id='i' from='b.example' to='{service}'>{items}</iq>"),
    );
    assert!(shown(&mut rooms)[0].contains("item-not-found"), "a domain looks for none");
}

#[test]
fn nonsense_is_answered_by_the_protocols_own_error_and_asks_nothing() {
    let x = "<x xmlns='http://jabber.org/protocol/muc'/>";
    for (stanza, condition) in [
        (format!("<presence from='{EVE}' to='{ROOM}'>{x}</presence>"), "jid-malformed"),
        (format!("<presence from='{EVE}' to='conference.a.example/x'>{x}</presence>"), "jid-malf"),
        (format!("<presence from='eve@b.example' to='{ROOM}/e'>{x}</presence>"), "jid-malformed"),
        (format!("<presence from='b.example' to='{ROOM}/e'>{x}</presence>"), "jid-malformed"),
        (format!("<presence from='{EVE}' to='{ROOM}/eve'/>"), "not-acceptable"),
        (format!("<message from='{EVE}' to='{ROOM}'><body>x</body></message>"), "service-unav"),
        (
            format!("<message type='groupchat' from='{EVE}' to='{ROOM}/x'><body/></message>"),
            "bad-request",
        ),
        (format!("<iq type='get' id='i' from='{EVE}' to='{ROOM}'/>"), "bad-request"),
        (
            format!("<iq type='get' id='i' from='{EVE}' to='{ROOM}'><x xmlns='y'/></iq>"),
            "service-unavailable",
        ),
        (
            format!(
                "<iq type='get' id='i' from='{EVE}' to='{ROOM}/eve@b.example'>\
                 <ping xmlns='urn:xmpp:ping'/></iq>"
            ),
            "not-acceptable",
        ),
        (format!("<message id='{}' from='{EVE}' to='{ROOM}'/>", "i".repeat(2_000)), "bad-request"),
        // Of names that no account has here.
        (format!("<presence from='jürgen@b.example/x' to='{ROOM}/j'>{x}</presence>"), "jid-malf"),
        (format!("<iq type='get' id='i' from='a b@b.example/x' to='{ROOM}'><q/></iq>"), "jid-malf"),
    ] {
        let mut rooms = rooms();
        says(&mut rooms, &stanza);
        let all = shown(&mut rooms);
        assert!(all.len() == 1 && all[0].contains(condition), "{stanza}: {all:?}");
        assert!(all[0].contains("type='error'"));
        assert_eq!(rooms.take_refused(), ForeignRefused { dropped: 0, invalid: 1 }, "{stanza}");
    }
    for silent in [
        format!("<presence type='error' from='{EVE}' to='{ROOM}/x'/>"),
        format!("<message type='error' from='{EVE}' to='{ROOM}'/>"),
        format!("<iq type='result' id='i' from='{EVE}' to='{ROOM}'/>"),
        format!("<presence type='subscribe' from='{EVE}' to='{ROOM}'/>"),
        "<presence".to_owned(),
    ] {
        let mut rooms = rooms();
        says(&mut rooms, &silent);
        assert_eq!(shown(&mut rooms), [""; 0], "{silent}");
    }
    // A room whose members nobody may join is for them alone.
    let mut rooms = rooms();
    says(&mut rooms, &presence(EVE, ""));
    for why in [ChatFault::NotMember, ChatFault::NotMember] {
        let (number, _) = asks(&mut rooms);
        rooms.answered(now(), number, Some(&failed(why)));
    }
    let all = shown(&mut rooms);
    assert!(all.len() == 1 && all[0].contains("registration-required"), "{all:?}");
    assert!(all[0].contains("<x xmlns='http://jabber.org/protocol/muc'/>"));
}

#[test]
fn a_room_of_another_domain_says_nothing_to_other_servers() {
    let (mut rooms, to) = (rooms(), ["eve@b.example"]);
    let added = message("ann", 9, change(GroupVerb::Add, to[0]));
    let elsewhere = ChatMessage { to: address("lunch@conference.c.example"), ..(*added).clone() };
    rooms.said(now(), &word(Arc::new(elsewhere), &to));
    assert_eq!(shown(&mut rooms), [""; 0], "it would be a name that nobody has shown");
}
