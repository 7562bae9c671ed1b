//! How occupants of other servers say that they are there, and are told of others.

use super::*;
use model::chat::foreign::ShownWord;
use model::chat::{MemberShow, MemberShown, Show};

fn show(show: Show, status: &str) -> MemberShow {
    MemberShow { show, status: status.into() }
}

fn shown_word(who: &str, how: Option<MemberShow>, to: &[&str]) -> ShownWord {
    let member = GroupMember { address: address(who), id: AccountId(1) };
    let (role, muted, show) = (GroupRole::Member, false, how.map(Arc::new));
    let status = MemberStatus { member, role, muted, show, reason: None };
    let shown = Arc::new(MemberShown { group: address(ROOM), closed: false, status });
    ShownWord { shown, to: to.iter().map(|it| address(it)).collect() }
}

/// Presence of an occupant that is passed to chat.
fn says_of_itself(rooms: &mut RoomsAbroad) -> Vec<Option<MemberShow>> {
    let all = asked(rooms, &mut Vec::new());
    let of = |(number, _, what): (u64, String, ErrandWhat)| match what {
        ErrandWhat::Show(room, show) => {
            assert_eq!(room.within("a.example"), address(ROOM));
            rooms.answered(now(), number, Some(&ChatDelivery::Done { number: 0 }));
            show
        }
        other => panic!("{other:?}"),
    };
    all.into_iter().map(of).collect()
}

#[test]
fn a_visitor_says_how_it_is_there_at_a_pace_and_is_told_how_others_are() {
    let mut rooms = rooms();
    enters(&mut rooms, EVE, false);
    let own = "eve@b.example";
    let says_away = |rooms: &mut RoomsAbroad, now: Now, nick: &str, words: &str| {
        let inner = format!("<show>away</show><status>{words}</status>");
        let stanza = format!("<presence from='{EVE}' to='{ROOM}/{nick}'>{inner}</presence>");
        rooms.takes(now, stanza.as_bytes());
    };
    for at in 0..10 {
        says_away(&mut rooms, now(), own, &at.to_string());
        assert_eq!(says_of_itself(&mut rooms), [Some(show(Show::Away, &at.to_string()))]);
    }
    for words in ["more", "last"] {
        says_away(&mut rooms, now(), own, words);
    }
    rooms.sweep(now());
    assert!(says_of_itself(&mut rooms).is_empty(), "too often");
    let later = Now::new(now().after(Duration::from_secs(60)), now().wall_ms + 60_000);
    rooms.sweep(later);
    assert_eq!(says_of_itself(&mut rooms), [Some(show(Show::Away, "last"))]);
    for (nick, words, fault) in
        [("ann", "x".into(), "not-acceptable"), (own, "x".repeat(513), "policy-violation")]
    {
        says_away(&mut rooms, later, nick, &words);
        let told = shown(&mut rooms);
        assert!(told[0].contains("type='error'") && told[0].contains(fault), "{told:?}");
    }
    rooms.shown(&shown_word("ann@a.example", Some(show(Show::Away, "tea")), &[own]));
    let told = shown(&mut rooms);
    assert!(told[0].contains("/ann'") && told[0].contains("<status>tea</status>"), "{told:?}");
    rooms.shown(&shown_word("ann@a.example", None, &[]));
    assert!(shown(&mut rooms).is_empty(), "it is no member any more");
    rooms.shown(&shown_word(own, Some(show(Show::Away, "last")), &[own]));
    assert!(shown(&mut rooms)[0].contains("<status code='110'/>"));
    says(&mut rooms, &format!("<presence type='unavailable' from='{EVE}' to='{ROOM}/{own}'/>"));
    let all = asked(&mut rooms, &mut Vec::new());
    assert!(all.iter().any(|(_, _, what)| matches!(what, ErrandWhat::Show(_, None))), "{all:?}");
}

#[test]
fn what_is_shown_while_a_visitor_enters_is_shown_behind_the_others() {
    let mut rooms = rooms();
    says(&mut rooms, &presence(EVE, ""));
    let (number, _) = asks(&mut rooms);
    rooms.answered(now(), number, Some(&history(Vec::new())));
    let (number, _) = asks(&mut rooms);
    rooms.shown(&shown_word("ann@a.example", Some(show(Show::Away, "tea")), &["eve@b.example"]));
    assert!(shown(&mut rooms).is_empty());
    let all = [("ann@a.example", GroupRole::Owner), ("eve@b.example", GroupRole::Member)];
    rooms.answered(now(), number, Some(&members(&all)));
    let told = shown(&mut rooms);
    assert!(told.last().expect("shown").contains("<status>tea</status>"), "{told:?}");
}
