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

fn add(name: &str) -> GroupChange {
    let member = GroupMember { address: address(name), id: model::account::AccountId(1) };
    GroupChange { verb: GroupVerb::Add, title: "".into(), members: vec![member] }
}

#[test]
fn settings_that_change_are_told_and_who_is_concerned_is_told_by_news() {
    use GroupVerb::{Close, Describe, Hide, Lock, Open, Persist, Reveal, Unlock, Unpersist};
    let settings = [Close, Describe, Hide, Lock, Open, Persist, Reveal, Unlock, Unpersist];
    for rule in [RoomRule::OccupantsMax(3), RoomRule::Password("x".into())] {
        let shown = comes(&mut inside(), 13, said("bob", 5, GroupChange::of_rule(&rule).content()));
        assert!(shown.contains("<status code='104'/>"), "{shown}");
    }
    for verb in GroupVerb::ALL {
        let shown = change(&mut inside(), "bob", *verb, &["ann"], "x");
        let is_of_settings = settings.contains(verb);
        assert_eq!(shown.contains("<status code='104'/>"), is_of_settings, "{verb:?}: {shown}");
        assert_eq!(shown.contains("<subject>"), *verb == GroupVerb::Rename, "{verb:?}");
        assert!(!shown.contains("<presence"), "{shown}");
    }
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
fn a_title_comes_from_the_name_under_which_it_was_given() {
    let (verb, title, members) = (GroupVerb::Rename, "Tea".into(), Vec::new());
    let content = GroupChange { verb, title, members }.content();
    let content = Content { nick: Some("Hatter".into()), ..content };
    let shown = comes(&mut inside(), 13, said("bob", 5, content));
    assert!(shown.contains("from='lunch@conference.a.example/Hatter'"), "{shown}");
    let mut side = available();
    says(&mut side, ENTER);
    let (number, _) = asks_room(&mut side);
    let ChatDelivery::RoomEntered(it) = entered(number, &TWO) else { panic!("entered") };
    let it = RoomEntered { titled_by: Some("Hatter".into()), ..*it };
    told(&mut side, ChatDelivery::RoomEntered(Box::new(it)));
    let (number, _) = asks_for_history(&mut side);
    let shown = told(&mut side, history(number, &[]));
    let subject = stanzas(&shown).pop().expect("the subject");
    assert!(subject.contains("from='lunch@conference.a.example/Hatter'"), "{subject}");
    assert!(subject.contains("<subject>Lunch &amp; co</subject>"), "{subject}");
}

#[test]
fn an_invitation_has_the_password_and_is_no_change_of_settings() {
    let all = [add("ann"), GroupChange::of_rule(&RoomRule::Key("se<same".into()))];
    let added = said("bob", 5, GroupChange::content_of(&all));
    let shown = comes(&mut available(), 13, added.clone());
    assert!(shown.contains("<invite from='bob@a.example'/><password>se&lt;same</password></x>"));
    assert!(shown.contains("jid='lunch@conference.a.example' password='se&lt;same'/>"), "{shown}");
    assert_eq!(comes(&mut inside(), 13, added), "", "of others who are in the room");
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
    let (number, _) = asks_room(&mut side);
    told(&mut side, entered(number, &TWO));
    let (number, _) = asks_for_history(&mut side);
    let title = GroupChange { verb: GroupVerb::Rename, title: "x".into(), members: Vec::new() };
    let messages = vec![said("bob", 5, Content::text("said")), said("bob", 4, title.content())];
    let page = HistoryPage { number, messages, more: false };
    let shown = told(&mut side, ChatDelivery::History(Box::new(page)));
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
