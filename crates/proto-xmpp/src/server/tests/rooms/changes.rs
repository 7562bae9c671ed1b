//! Changes of a group, as its room shows them.

use super::super::harness::*;
use super::*;

/// A change that somebody made, at the fifth place of the conversation.
fn change(side: &mut Side, by: &str, verb: GroupVerb, members: &[&str], title: &str) -> String {
    let member =
        |name: &&str| GroupMember { address: address(name), id: model::account::AccountId(1) };
    let members = members.iter().map(member).collect();
    let change = GroupChange { verb, title: title.into(), members };
    comes(side, 13, said(by, 5, change.content()))
}

#[test]
fn members_who_come_and_who_change_their_role_are_shown_as_they_are_now() {
    let item = |verb, by: &str, whom: &str| {
        let shown = stanzas(&change(&mut inside(), by, verb, &[whom], ""));
        let last = shown.last().expect("shown").clone();
        let from = format!("<presence from='lunch@conference.a.example/{whom}'");
        assert!(last.starts_with(&from), "{last}");
        let (_, item) = last.split_once("<item ").expect("an item");
        (shown.len(), item.split_once(" jid=").expect("a JID").0.to_owned())
    };
    let participant = "affiliation='member' role='participant'".to_owned();
    let admin = "affiliation='admin' role='moderator'".to_owned();
    let owner = "affiliation='owner' role='moderator'".to_owned();
    assert_eq!(item(GroupVerb::Add, "bob", "carol"), (1, participant.clone()));
    assert_eq!(item(GroupVerb::Promote, "bob", "ann"), (1, admin));
    assert_eq!(item(GroupVerb::Demote, "bob", "ann"), (1, participant));
    assert_eq!(item(GroupVerb::HandOver, "bob", "ann"), (2, owner));
    let shown = change(&mut inside(), "bob", GroupVerb::HandOver, &["ann"], "");
    assert!(stanzas(&shown)[0].contains("/bob'") && shown.contains("affiliation='admin'"));
}

#[test]
fn who_did_it_and_why_is_told_with_what_happened() {
    const WHY: &str = "<actor nick='bob' jid='bob@a.example'/><reason>&lt;why&gt;</reason></item>";
    for verb in [
        GroupVerb::Add,
        GroupVerb::Promote,
        GroupVerb::Demote,
        GroupVerb::HandOver,
        GroupVerb::Remove,
        GroupVerb::Ban,
    ] {
        for whom in ["ann", "carol"] {
            let shown = change(&mut inside(), "bob", verb, &[whom], "<why>");
            let last = stanzas(&shown).last().expect("shown").clone();
            assert!(last.contains(WHY), "{verb:?} {whom}: {last}");
            assert!(!change(&mut inside(), "bob", verb, &[whom], "").contains("<reason"));
        }
    }
    let shown = change(&mut inside(), "carol", GroupVerb::Leave, &["carol"], "bye");
    assert!(shown.contains("<reason>bye</reason></item>") && !shown.contains("<actor"), "{shown}");
    let shown = change(&mut inside(), "carol", GroupVerb::Join, &["carol"], "");
    assert!(!shown.contains("<actor"), "she came by herself: {shown}");
    let mut side = inside();
    change(&mut side, "bob", GroupVerb::Mute, &["ann"], "<why>");
    let (number, _) = asks_for_members(&mut side);
    let muted = [TWO[0], ("ann", GroupRole::Member, true)];
    let shown = told(&mut side, members(number, &muted, false));
    assert!(shown.contains("role='visitor'") && shown.contains(WHY), "{shown}");
}

#[test]
fn a_room_that_is_no_more_says_why_and_where_to_go() {
    let tea = "tea@conference.a.example";
    for (venue, why, told) in [
        (vec![], "over", "<destroy><reason>over</reason></destroy>"),
        (vec![tea], "", "<destroy jid='tea@conference.a.example'/>"),
        (vec![tea], "a", "<destroy jid='tea@conference.a.example'><reason>a</reason></destroy>"),
    ] {
        let mut side = inside();
        let shown = stanzas(&change(&mut side, "bob", GroupVerb::Dissolve, &venue, why));
        assert_eq!(shown.len(), 1, "the other room is no occupant: {shown:?}");
        assert!(shown[0].contains(&format!("{told}<status code='110'/></x>")), "{shown:?}");
        assert!(is_at_rest(&mut side));
    }
}

#[test]
fn who_may_speak_is_read_from_the_group_and_shown() {
    let mut side = inside();
    assert_eq!(change(&mut side, "bob", GroupVerb::Mute, &["ann"], ""), "");
    let (number, range) = asks_for_members(&mut side);
    assert_eq!(range.group.as_str(), ROOM);
    let muted = [TWO[0], ("ann", GroupRole::Member, true)];
    let shown = stanzas(&told(&mut side, members(number, &muted, false)));
    assert_eq!(shown.len(), 1);
    assert!(shown[0].contains("/ann'") && shown[0].contains("role='visitor'"));
    assert!(shown[0].contains("<status code='110'/>"));
    let mut side = inside();
    let shown = told(
        &mut side,
        ChatDelivery::Message { seq: 13, message: said("bob", 5, close().content()) },
    );
    assert!(shown.contains("type='groupchat'") && shown.contains("<status code='104'/>"));
    let (number, _) = asks_for_members(&mut side);
    let shown = stanzas(&told(&mut side, members(number, &TWO, true)));
    assert!(shown[0].contains("role='moderator'") && shown[1].contains("role='visitor'"));
    let whoever_comes = comes(&mut side, 14, said("bob", 6, add("carol").content()));
    assert!(whoever_comes.contains("role='visitor'"), "it is closed");
}

#[test]
fn what_waits_to_be_read_of_a_room_is_read_at_once() {
    let mut side = inside();
    let mute = |name: &str| GroupChange { verb: GroupVerb::Mute, ..add(name) };
    for (place, change) in
        [mute("ann"), mute("bob"), mute("carol"), close()].into_iter().enumerate()
    {
        comes(&mut side, 13 + place as u64, said("bob", 5 + place as u64, change.content()));
    }
    let is_list = |word: &ChatRequest| match word {
        ChatRequest::Members { number, .. } => Some(*number),
        _ => None,
    };
    let asked: Vec<_> = words(&mut side).iter().filter_map(is_list).collect();
    assert_eq!(asked.len(), 1);
    assert_eq!(stanzas(&told(&mut side, members(asked[0], &TWO, true))).len(), 1, "ann alone");
    let (number, _) = asks_for_members(&mut side);
    assert_eq!(stanzas(&told(&mut side, members(number, &TWO, true))).len(), 2, "then all");
    assert!(words(&mut side).is_empty());
}

fn close() -> GroupChange {
    GroupChange { verb: GroupVerb::Close, title: "".into(), members: Vec::new() }
}

fn add(name: &str) -> GroupChange {
    let member = GroupMember { address: address(name), id: model::account::AccountId(1) };
    GroupChange { verb: GroupVerb::Add, title: "".into(), members: vec![member] }
}

#[test]
fn a_title_is_a_subject_of_whoever_gave_it() {
    assert_eq!(
        change(&mut inside(), "bob", GroupVerb::Rename, &[], "<b>"),
        "<message type='groupchat' from='lunch@conference.a.example/bob' to='ann@a.example/desk'>\
         <subject>&lt;b&gt;</subject></message>"
    );
}

#[test]
fn whoever_goes_is_shown_to_go_and_oneself_is_out_of_the_room() {
    let mut side = inside();
    let shown = change(&mut side, "bob", GroupVerb::Remove, &["carol"], "");
    assert!(
        shown.starts_with("<presence type='unavailable' from='lunch@conference.a.example/carol'")
    );
    assert!(
        shown.contains("<actor nick='bob' jid='bob@a.example'/></item><status code='321'/></x>")
    );
    let next = comes(&mut side, 14, said("bob", 6, Content::text("next")));
    assert_eq!(bodies(&next), ["next"]);
    for (verb, by, named, expected) in [
        (GroupVerb::Remove, "bob", vec!["ann"], "<status code='321'/><status code='110'/>"),
        (GroupVerb::Leave, "ann", vec!["ann"], "</item><status code='110'/>"),
        (GroupVerb::Dissolve, "bob", vec![], "</item><destroy/><status code='110'/>"),
    ] {
        let mut side = inside();
        let shown = change(&mut side, by, verb, &named, "");
        assert!(shown.contains("type='unavailable'") && shown.contains("affiliation='none'"));
        assert!(shown.contains(expected), "{verb:?}: {shown}");
        assert_eq!(comes(&mut side, 14, said("bob", 6, Content::text("unseen"))), "");
        side.take_words();
        let said =
            "<message type='groupchat' to='lunch@conference.a.example'><body>x</body></message>";
        assert!(says(&mut side, said).contains("not-acceptable"));
        assert!(is_at_rest(&mut side));
    }
}

#[test]
fn whoever_is_added_is_invited_unless_it_did_that_itself_or_is_in_the_room() {
    let mut side = available();
    let shown = change(&mut side, "bob", GroupVerb::Add, &["ann"], "");
    let id = crate::render::stanza_id(&said("bob", 5, Content::text("")));
    assert_eq!(
        shown,
        format!(
            "<message id='{id}' from='lunch@conference.a.example' to='ann@a.example/desk'>\
             <x xmlns='http://jabber.org/protocol/muc#user'><invite from='bob@a.example'/></x>\
             <x xmlns='jabber:x:conference' jid='lunch@conference.a.example'/></message>"
        )
    );
    let made = change(&mut available(), "bob", GroupVerb::Create, &["bob", "ann"], "Lunch");
    assert!(made.contains("<invite from='bob@a.example'/>"), "{made}");
    assert_eq!(change(&mut available(), "ann", GroupVerb::Create, &["ann"], "Lunch"), "");
    assert_eq!(change(&mut available(), "bob", GroupVerb::Add, &["carol"], ""), "");
    assert_eq!(change(&mut available(), "bob", GroupVerb::Promote, &["ann"], ""), "");
    assert!(!change(&mut inside(), "bob", GroupVerb::Add, &["ann"], "").contains("<invite"));
    let shown = change(&mut available(), "bob", GroupVerb::Add, &["ann"], "'hungry'?");
    assert!(shown.contains("<reason>&apos;hungry&apos;?</reason></invite>"), "{shown}");
    assert!(shown.contains("' reason='&apos;hungry&apos;?'/>"), "{shown}");
    assert!(!made.contains("reason"), "a title is none");
    let mut side = available();
    told(&mut side, ChatDelivery::Notify { head: 13 });
    let messages = vec![(13, said("bob", 5, add("ann").content()))];
    let page = InboxPage { number: 0, messages, events: Vec::new(), upto: 13, head: 13 };
    let shown = told(&mut side, ChatDelivery::Page(Box::new(page)));
    assert!(shown.contains("<invite ") && shown.contains("<delay xmlns='urn:xmpp:delay' "));
}

#[test]
fn what_happened_is_no_part_of_the_history() {
    let mut side = available();
    says(&mut side, ENTER);
    let (number, _) = asks_for_history(&mut side);
    let title = GroupChange { verb: GroupVerb::Rename, title: "x".into(), members: Vec::new() };
    let messages = vec![said("bob", 5, Content::text("said")), said("bob", 4, title.content())];
    let page = HistoryPage { number, messages, more: false };
    assert_eq!(told(&mut side, ChatDelivery::History(Box::new(page))), "");
    let (number, _) = asks_for_members(&mut side);
    let shown = told(&mut side, members(number, &TWO, false));
    assert_eq!(shown.matches("<body>").count(), 1);
}

#[test]
fn a_message_that_was_called_back_is_not_shown() {
    let recalled = Content { kind: Content::RECALLED, ..Content::default() };
    assert_eq!(comes(&mut inside(), 13, said("bob", 5, recalled)), "");
    let recall = Recall { seq: 4, id: 4 }.content("");
    let told = comes(&mut inside(), 13, said("bob", 5, recall));
    assert!(told.contains("<retract xmlns='urn:xmpp:message-retract:1' id='"), "{told}");
}
