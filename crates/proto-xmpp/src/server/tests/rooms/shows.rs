//! How occupants are there (XEP-0045 7.6, 7.7).

use super::super::harness::*;
use super::*;

const MUC_X: &str = "<x xmlns='http://jabber.org/protocol/muc'/>";

fn presence(nick: &str, inner: &str) -> String {
    format!("<presence id='p' to='{ROOM}/{nick}'>{inner}</presence>")
}

fn show(show: Show, status: &str) -> MemberShow {
    MemberShow { show, status: status.into() }
}

/// How it looks at the room, and says that it is there.
fn looks(side: &mut Side) -> Vec<GroupLook> {
    let words = side.take_words_as::<ChatRequest>().into_iter();
    let looks = words.filter_map(|word| match word {
        ChatRequest::LookAtGroup(looking) => {
            assert_eq!(looking.group.within("a.example"), address(ROOM));
            Some(looking.look)
        }
        _ => None,
    });
    looks.collect()
}

fn is_shown(show: MemberShow) -> [GroupLook; 1] {
    [GroupLook::Shows(show)]
}

fn shown(name: &str, role: GroupRole, show: Option<MemberShow>) -> Arc<MemberShown> {
    let member = GroupMember { address: address(name), id: model::account::AccountId(1) };
    let (show, reason) = (show.map(Arc::new), None);
    let status = MemberStatus { member, role, muted: false, show, reason };
    Arc::new(MemberShown { group: address(ROOM), closed: false, status })
}

fn hears(side: &mut Side, shown: &Arc<MemberShown>) -> String {
    told(side, ChatDelivery::MemberShown(shown.clone()))
}

#[test]
fn one_says_how_one_is_there_by_ones_own_name_and_in_so_many_words() {
    let mut side = inside();
    assert_eq!(
        says(&mut side, &presence("ann", "<show>away</show><status>t &amp; c</status>")),
        ""
    );
    assert_eq!(looks(&mut side), is_shown(show(Show::Away, "t & c")));
    assert_eq!(says(&mut side, &presence("ann", "")), "");
    assert_eq!(looks(&mut side), is_shown(MemberShow::default()), "it is back");
    for nick in ["bob", "queen"] {
        let told = says(&mut side, &presence(nick, "<show>away</show>"));
        assert!(told.contains("type='error'") && told.contains("<not-acceptable"), "{told}");
    }
    let long = format!("<status>{}</status>", "x".repeat(STATUS_BYTES_MAX + 1));
    for inner in [long.clone(), format!("{long}{MUC_X}")] {
        assert!(says(&mut side, &presence("ann", &inner)).contains("<policy-violation"));
    }
    assert!(words(&mut side).is_empty());
    let leave = format!("<presence type='unavailable' to='{ROOM}/ann'/>");
    assert!(says(&mut side, &leave).contains("type='unavailable'"));
    assert_eq!(looks(&mut side), [GroupLook::Ends], "it is there no more");
    assert!(says(&mut side, &presence("ann", "")).contains("<not-acceptable"), "it is not in");
}

#[test]
fn who_enters_is_shown_how_others_are_there_and_says_how_it_is_itself() {
    let mut side = available();
    let enter = presence("ann", &format!("{MUC_X}<show>dnd</show><status>busy</status>"));
    assert_eq!(says(&mut side, &enter), "");
    let (number, _) = asks_for_history(&mut side);
    assert_eq!(told(&mut side, history(number, &[])), "");
    let (number, _) = asks_for_members(&mut side);
    let ChatDelivery::Members(mut page) = members(number, &TWO, false) else { panic!("members") };
    page.members[0].show = Some(Arc::new(show(Show::ExtendedAway, "<gone>")));
    let all = told(&mut side, ChatDelivery::Members(page));
    let all = stanzas(&all);
    assert!(all[0].contains("/bob'") && all[0].contains("<show>xa</show>"), "{all:?}");
    assert!(all[0].contains("<status>&lt;gone&gt;</status><x xmlns="), "{all:?}");
    assert!(all[1].contains("/ann'") && !all[1].contains("<show>"), "{all:?}");
    assert_eq!(looks(&mut side), is_shown(show(Show::DoNotDisturb, "busy")));
    let own = hears(&mut side, &shown("ann", GroupRole::Member, Some(show(Show::Away, ""))));
    assert!(own.contains("<show>away</show>") && own.contains("<status code='110'/>"), "{own}");
    // Whoever is made an admin is there as before.
    let change = GroupChange {
        verb: GroupVerb::Promote,
        title: "".into(),
        members: vec![GroupMember { address: address("bob"), id: model::account::AccountId(1) }],
    };
    let promoted = comes(&mut side, 13, said("ann", 5, change.content()));
    assert!(promoted.contains("role='moderator'") && promoted.contains("<show>xa</show>"));
    let back = hears(&mut side, &shown("bob", GroupRole::Admin, None));
    assert!(back.contains("/bob'") && !back.contains("<show>") && back.contains("'moderator'"));
    let promoted = comes(&mut side, 14, said("ann", 6, change.content()));
    assert!(!promoted.contains("<show>"), "{promoted}");
}

#[test]
fn of_rooms_that_are_not_entered_nothing_is_shown_and_while_nobody_looks_the_last_waits() {
    let away = |words: &str| shown("bob", GroupRole::Owner, Some(show(Show::Away, words)));
    assert_eq!(hears(&mut available(), &away("x")), "");
    assert_eq!(hears(&mut bound(), &away("x")), "");
    let mut side = inside();
    says(&mut side, "<inactive xmlns='urn:xmpp:csi:0'/>");
    assert_eq!(hears(&mut side, &away("first")), "");
    assert_eq!(hears(&mut side, &away("last")), "");
    let kept = says(&mut side, "<active xmlns='urn:xmpp:csi:0'/>");
    assert!(kept.contains("<status>last</status>") && !kept.contains("first"), "{kept}");
}

#[test]
fn a_room_is_looked_at_from_before_it_is_read_until_one_has_left_or_is_not_let_in() {
    let leave = format!("<presence type='unavailable' to='{ROOM}/ann'/>");
    let mut side = available();
    says(&mut side, ENTER);
    let all = side.take_words_as::<ChatRequest>();
    let [ChatRequest::LookAtGroup(looking), ChatRequest::History { number, .. }] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!(looking.look, GroupLook::Begins);
    assert!(failed(&mut side, *number, ChatFault::Busy).contains("type='error'"));
    assert_eq!(looks(&mut side), [GroupLook::Ends], "it is not let in");
    // It leaves before it is in, and comes again.
    says(&mut side, ENTER);
    says(&mut side, &leave);
    says(&mut side, ENTER);
    let both = [GroupLook::Begins, GroupLook::Ends, GroupLook::Begins];
    assert_eq!(looks(&mut side), both);
    let mut side = inside();
    // It wants to be in where it is, and may not: it is in still.
    says(&mut side, ENTER);
    let (number, _) = asks_for_history(&mut side);
    failed(&mut side, number, ChatFault::Busy);
    assert_eq!(looks(&mut side), []);
    says(&mut side, &leave);
    assert_eq!(looks(&mut side), [GroupLook::Ends]);
    for (verb, name) in [(GroupVerb::Remove, "ann"), (GroupVerb::Dissolve, "bob")] {
        let mut side = inside();
        let member = GroupMember { address: address(name), id: model::account::AccountId(1) };
        let change = GroupChange { verb, title: "".into(), members: vec![member] };
        comes(&mut side, 13, said("bob", 5, change.content()));
        assert_eq!(looks(&mut side), [GroupLook::Ends], "{verb:?}");
    }
    let mut side = inside();
    says(&mut side, "<presence type='unavailable'/>");
    assert_eq!(looks(&mut side), [GroupLook::Ends]);
}
