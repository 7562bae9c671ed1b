//! News of a room: who comes, changes and goes (XEP-0045 7.6, 7.7, 8, 9), and messages for
//! visitors.

use super::super::harness::*;
use super::*;

fn presence(nick: &str, inner: &str) -> String {
    format!("<presence id='p' to='{ROOM}/{nick}'>{inner}</presence>")
}

fn of(name: &'static str, role: GroupRole) -> Occupant {
    occupant((name, role, false))
}

fn actor(reason: &str) -> Box<RoomActor> {
    Box::new(RoomActor { by: address("bob"), nick: "Bo<b".into(), reason: reason.into() })
}

/// Stanzas of news about ann, or carol.
fn shows(name: &'static str, event: impl Fn(Arc<Occupant>) -> RoomEvent) -> Vec<String> {
    let of = Arc::new(of(name, GroupRole::Member));
    stanzas(&told(&mut inside(), news(8, event(of))))
}

/// The requests to the room.
fn room_words(side: &mut Side) -> Vec<OccupancyAsk> {
    let words = side.take_words_as::<ChatRequest>().into_iter();
    let asks = words.filter_map(|word| match word {
        ChatRequest::Room(asked) => Some(asked.ask),
        _ => None,
    });
    asks.collect()
}

#[test]
fn one_says_how_one_is_there_by_ones_own_name_and_in_so_many_words() {
    let mut side = inside();
    let away = presence("ann", "<show>away</show><status>t &amp; c</status>");
    assert_eq!(says(&mut side, &away), "");
    let status = "t & c".into();
    let show = OccupantShow { show: Show::Away, status, extra: None };
    assert_eq!(room_words(&mut side), [OccupancyAsk::Show(show)]);
    let long = format!("<status>{}</status>", "x".repeat(STATUS_BYTES_MAX + 1));
    assert!(says(&mut side, &presence("ann", &long)).contains("<policy-violation"));
    let leave = format!("<presence type='unavailable' to='{ROOM}/ann'/>");
    assert!(says(&mut side, &leave).contains("type='unavailable'"));
    assert_eq!(room_words(&mut side), [OccupancyAsk::Leave]);
    assert!(says(&mut side, &presence("ann", "")).contains("<not-acceptable"), "it is not in");
}

#[test]
fn elements_of_a_presence_go_along_but_those_that_rooms_and_servers_write() {
    const CAPS: &str = "<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='n' ver='v'/>";
    const AVATAR: &str = "<x xmlns='vcard-temp:x:update'><photo>ab</photo></x>";
    let forged = "<x xmlns='http://jabber.org/protocol/muc#user'/><priority>5</priority>\
        <hats xmlns='urn:xmpp:hats:0'/><occupant-id xmlns='urn:xmpp:occupant-id:0' id='x'/>\
        <delay xmlns='urn:xmpp:delay' stamp='2023-11-14T22:13:20Z'/>";
    let mut side = inside();
    let extra = |inner: String| {
        says(&mut side, &presence("ann", &inner));
        match &room_words(&mut side)[..] {
            [OccupancyAsk::Show(show)] => show.extra.clone(),
            other => panic!("{other:?}"),
        }
    };
    let mut extra = extra;
    let both = extra(format!("{CAPS}{forged}<show>away</show>{AVATAR}")).expect("some");
    assert_eq!(**both, *format!("{CAPS}{AVATAR}"));
    assert_eq!(extra(forged.into()), None);
    let long = |size: usize| format!("<a xmlns='y'>{}</a>", "x".repeat(size));
    let beside = long(0).len();
    assert!(extra(long(OCCUPANT_EXTRA_BYTES_MAX - beside)).is_some());
    assert_eq!(extra(long(OCCUPANT_EXTRA_BYTES_MAX - beside + 1)), None, "all of it");
    let show = OccupantShow { extra: Some(both), ..OccupantShow::default() };
    let shown = shows("carol", |it| {
        RoomEvent::Is(Arc::new(Occupant { show: show.clone(), ..(*it).clone() }), None)
    });
    assert!(shown[0].contains(&format!("to='ann@a.example/desk'>{CAPS}{AVATAR}<x ")), "{shown:?}");
}

#[test]
fn an_occupant_is_shown_with_its_role_its_words_and_who_made_that_of_it() {
    let shown = shows("carol", |it| RoomEvent::Is(it, Some(actor("<why>"))));
    let actor_of = "<actor nick='Bo&lt;b' jid='bob@a.example'/><reason>&lt;why&gt;</reason></item>";
    assert!(shown.len() == 1 && shown[0].contains(actor_of), "{shown:?}");
    assert!(shown[0].contains("affiliation='member' role='participant'"));
    let own = shows("ann", |it| RoomEvent::Is(it, None));
    assert!(own[0].contains("</item><status code='110'/></x>"), "{own:?}");
    for (role, silent, item) in [
        (None, false, "affiliation='none' role='participant'"),
        (None, true, "affiliation='none' role='visitor'"),
        (Some(GroupRole::Member), true, "affiliation='member' role='visitor'"),
        (Some(GroupRole::Admin), false, "affiliation='admin' role='moderator'"),
        (Some(GroupRole::Owner), false, "affiliation='owner' role='moderator'"),
    ] {
        let show = OccupantShow { show: Show::ExtendedAway, status: "<x>".into(), extra: None };
        let one =
            |it: Arc<Occupant>| Occupant { role, silent, show: show.clone(), ..(*it).clone() };
        let shown = shows("carol", |it| RoomEvent::Is(Arc::new(one(it)), None));
        assert!(shown[0].contains(item) && shown[0].contains("<show>xa</show>"), "{shown:?}");
        assert!(shown[0].contains("<status>&lt;x&gt;</status>"), "{shown:?}");
    }
}

#[test]
fn who_goes_is_shown_by_the_code_of_how_and_oneself_is_out() {
    let venue = Some(address("tea@conference.a.example"));
    let tea = "<destroy jid='tea@conference.a.example'><reason>over</reason></destroy>";
    for (how, item, told_of) in [
        (RoomExit::Left, "member", ""),
        (RoomExit::Kicked(actor("")), "member", "<status code='307'/>"),
        (RoomExit::Removed(actor("")), "none", "<status code='321'/>"),
        (RoomExit::Locked(actor("")), "none", "<status code='322'/>"),
        (RoomExit::Banned(actor("")), "outcast", "<status code='301'/>"),
        (RoomExit::Dissolved("over".into(), venue), "none", tea),
    ] {
        let other = shows("carol", |it| RoomEvent::Gone(it, how.clone()));
        assert!(other[0].starts_with("<presence type='unavailable' from='lunch@conference.a.exa"));
        assert!(other[0].contains(&format!("{told_of}</x>")), "{other:?}");
        let mut side = inside();
        let gone = RoomEvent::Gone(Arc::new(of("ann", GroupRole::Member)), how);
        let own = told(&mut side, news(8, gone));
        let item = format!("affiliation='{item}' role='none'");
        assert!(own.contains(&item) && own.contains(&format!("{told_of}<status code='110'/></x>")));
        assert!(room_words(&mut side).is_empty(), "its home knows");
        let say = format!("<message type='groupchat' to='{ROOM}'><body>x</body></message>");
        assert!(says(&mut side, &say).contains("not-acceptable"));
        assert!(is_at_rest(&mut side));
    }
}

#[test]
fn a_name_is_changed_and_one_that_is_another_s_is_refused() {
    let mut side = inside();
    assert_eq!(says(&mut side, &presence("Hatter", "")), "");
    let (number, ask) = asks_room(&mut side);
    assert_eq!(ask, OccupancyAsk::Rename("Hatter".into()));
    let refused = failed(&mut side, number, ChatFault::Conflict);
    assert!(refused.contains("from='lunch@conference.a.example/Hatter'"), "{refused}");
    assert!(refused.contains("<conflict "), "{refused}");
    says(&mut side, &presence("Hatter", ""));
    let (number, _) = asks_room(&mut side);
    let hatter = Occupant { nick: "Hatter".into(), ..of("ann", GroupRole::Member) };
    let shown = told(&mut side, news(8, RoomEvent::Renamed("ann".into(), Arc::new(hatter))));
    let shown = stanzas(&shown);
    let former = "<presence type='unavailable' from='lunch@conference.a.example/ann'";
    assert!(shown.len() == 2 && shown[0].starts_with(former), "{shown:?}");
    assert!(shown[0].contains("nick='Hatter'></item><status code='303'/><status code='110'/>"));
    assert!(shown[1].contains("/Hatter'") && shown[1].contains("<status code='110'/>"));
    assert_eq!(told(&mut side, ChatDelivery::Done { number }), "");
    let show = OccupantShow::default();
    assert_eq!(says(&mut side, &presence("Hatter", "")), "");
    assert_eq!(room_words(&mut side), [OccupancyAsk::Show(show)]);
    let hare = Occupant { nick: "Hare".into(), ..of("bob", GroupRole::Owner) };
    let shown =
        stanzas(&told(&mut side, news(9, RoomEvent::Renamed("bob".into(), Arc::new(hare)))));
    assert!(shown.len() == 2 && !shown.concat().contains("'110'"), "{shown:?}");
    let mut side = available();
    says(&mut side, ENTER);
    let (number, _) = asks_room(&mut side);
    assert!(failed(&mut side, number, ChatFault::Conflict).contains("<conflict "));
}

#[test]
fn messages_come_under_the_name_that_their_sender_had() {
    let named = Content { nick: Some("Hatter".into()), ..Content::text("tea") };
    let shown = comes(&mut inside(), 13, said("bob", 5, named));
    assert!(shown.contains(" from='lunch@conference.a.example/Hatter'"), "{shown}");
    assert!(shown.contains("occupant-id:0' id='bob@a.example'"));
}

#[test]
fn whoever_missed_news_is_out_and_told_so_and_nothing_is_shown_twice() {
    let carol =
        |number| news(number, RoomEvent::Is(Arc::new(of("carol", GroupRole::Member)), None));
    let mut side = inside();
    assert_eq!(told(&mut side, carol(7)), "", "it was there when she entered");
    assert!(told(&mut side, carol(8)).contains("/carol'"));
    assert!(told(&mut side, carol(0)).contains("/carol'"), "not for everybody");
    let lost = told(&mut side, carol(10));
    assert!(lost.contains("<status code='333'/><status code='110'/>"), "{lost}");
    assert_eq!(room_words(&mut side), [OccupancyAsk::Leave]);
    assert_eq!(told(&mut side, carol(11)), "");
    assert_eq!(told(&mut available(), carol(1)), "");
}

#[test]
fn a_visitor_is_told_messages_in_order_and_reads_those_that_did_not_come() {
    let say = |side: &mut Side, seq, text| {
        told(side, news(0, RoomEvent::Said(said("bob", seq, Content::text(text)))))
    };
    let mut side = inside();
    assert_eq!(say(&mut side, 4, "before"), "", "its history had that");
    assert_eq!(bodies(&say(&mut side, 5, "five")), ["five"]);
    assert_eq!(say(&mut side, 5, "five"), "");
    assert_eq!(say(&mut side, 8, "eight"), "");
    assert_eq!(say(&mut side, 9, "nine"), "");
    let (number, range) = asks_for_history(&mut side);
    assert_eq!((range.from, range.backwards), (5, false));
    let page = |number, all: &[(u64, &str)]| {
        let one = |&(seq, text): &(u64, &str)| said("bob", seq, Content::text(text));
        let messages = all.iter().map(one).collect();
        ChatDelivery::History(Box::new(HistoryPage { number, messages, more: true }))
    };
    let shown = told(&mut side, page(number, &[(6, "six"), (7, "seven"), (8, "eight")]));
    assert_eq!(bodies(&shown), ["six+", "seven+", "eight+"]);
    let (number, range) = asks_for_history(&mut side);
    assert_eq!(range.from, 8);
    assert_eq!(bodies(&told(&mut side, page(number, &[(9, "nine")]))), ["nine+"]);
    assert_eq!(bodies(&say(&mut side, 10, "ten")), ["ten"]);
    say(&mut side, 12, "twelve");
    let (number, _) = asks_for_history(&mut side);
    let lost = failed(&mut side, number, ChatFault::NotMember);
    assert!(lost.contains("<status code='333'/>"), "it may read no more: {lost}");
}

#[test]
fn while_nobody_looks_the_last_of_each_occupant_waits() {
    let away = |number, words: &str| {
        let show = OccupantShow { show: Show::Away, status: words.into(), extra: None };
        let it = Occupant { show, ..of("bob", GroupRole::Owner) };
        news(number, RoomEvent::Is(Arc::new(it), None))
    };
    let mut side = inside();
    says(&mut side, "<inactive xmlns='urn:xmpp:csi:0'/>");
    assert_eq!(told(&mut side, away(8, "first")), "");
    assert_eq!(told(&mut side, away(9, "last")), "");
    let kept = says(&mut side, "<active xmlns='urn:xmpp:csi:0'/>");
    assert!(kept.contains("<status>last</status>") && !kept.contains("first"), "{kept}");
}

#[test]
fn news_that_wait_end_with_the_stay_in_the_room() {
    let carol =
        |number| news(number, RoomEvent::Is(Arc::new(of("carol", GroupRole::Member)), None));
    for is_lost in [false, true] {
        let mut side = inside();
        says(&mut side, "<inactive xmlns='urn:xmpp:csi:0'/>");
        assert_eq!(told(&mut side, carol(8)), "");
        if is_lost {
            assert!(told(&mut side, carol(10)).contains("<status code='333'/>"));
        } else {
            says(&mut side, &format!("<presence type='unavailable' to='{ROOM}/ann'/>"));
        }
        room_words(&mut side);
        enters(&mut side, &TWO, &[(4, "before")]);
        let kept = says(&mut side, "<active xmlns='urn:xmpp:csi:0'/>");
        assert!(!kept.contains("/carol'"), "{kept}");
    }
}

#[test]
fn a_message_to_an_occupant_goes_by_the_names_of_both_and_is_of_the_room() {
    const X: &str = "<x xmlns='http://jabber.org/protocol/muc#user'/>";
    let mut side = inside();
    let whisper =
        |inner: &str| format!("<message id='w' type='chat' to='{ROOM}/Hatter'>{inner}</message>");
    let inner = format!("{X}<body>psst</body><y xmlns='urn:y'/>");
    assert_eq!(says(&mut side, &whisper(&inner)), "");
    let (number, ask) = asks_room(&mut side);
    let OccupancyAsk::Whisper { nick, content } = ask else { panic!("{ask:?}") };
    assert_eq!((&*nick, &*content.text), ("Hatter", "psst"));
    assert_eq!(told(&mut side, ChatDelivery::Done { number }), "");
    // So it comes, at once.
    says(&mut side, "<inactive xmlns='urn:xmpp:csi:0'/>");
    let hare = Occupant { nick: "March Hare".into(), ..of("bob", GroupRole::Owner) };
    let shown = told(&mut side, news(0, RoomEvent::Whispered(Arc::new(hare), content)));
    assert_eq!(
        shown,
        format!(
            "<message from='{ROOM}/March Hare' to='ann@a.example/desk' type='chat' id='w'>\
             <body>psst</body><y xmlns='urn:y'/>{X}\
             <occupant-id xmlns='urn:xmpp:occupant-id:0' id='bob@a.example'/></message>"
        )
    );
    assert_eq!(says(&mut side, &whisper("")), "", "it says nothing");
    assert!(words(&mut side).is_empty());
    for (why, condition) in [
        (ChatFault::UnknownAccount, "<item-not-found "),
        (ChatFault::NotMember, "<not-acceptable "),
        (ChatFault::Silenced, "<forbidden "),
    ] {
        says(&mut side, &whisper("<body>psst</body>"));
        let (number, _) = asks_room(&mut side);
        let refused = failed(&mut side, number, why);
        assert!(refused.contains("id='w'") && refused.contains(condition), "{refused}");
    }
}
