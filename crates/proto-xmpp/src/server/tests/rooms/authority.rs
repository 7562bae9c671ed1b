//! Access to a room and its moderation: bans, rooms that anybody may enter, retracted messages; its
//! archive, and messages to one occupant.

use super::super::harness::*;
use super::*;
use crate::archive::id_text;

fn to_room(inner: &str) -> String {
    format!("<iq type='set' id='q' to='{ROOM}'>{inner}</iq>")
}

#[test]
fn a_password_goes_along_and_a_wrong_one_is_told() {
    let with = |inner: &str| {
        let x = format!("<x xmlns='http://jabber.org/protocol/muc'>{inner}</x>");
        ENTER.replace("<x xmlns='http://jabber.org/protocol/muc'/>", &x)
    };
    let long = "x".repeat(ROOM_PASSWORD_BYTES_MAX + 1);
    for (inner, expected) in [
        (String::new(), None),
        ("<password>a &lt; b</password>".into(), Some("a < b")),
        (format!("<password>{long}</password>"), None),
    ] {
        let mut side = available();
        says(&mut side, &with(&inner));
        let (number, ask) = asks_room(&mut side);
        let OccupancyAsk::Enter(entry) = ask else { panic!("{ask:?}") };
        assert_eq!((entry.password.as_deref(), entry.makes), (expected, false));
        let shown = failed(&mut side, number, ChatFault::BadPassword);
        assert!(shown.contains("<error type='auth'><not-authorized "), "{shown}");
    }
}

#[test]
fn a_room_that_is_being_made_by_another_is_not_there() {
    let mut side = available();
    says(&mut side, ENTER);
    let (number, _) = asks_room(&mut side);
    let shown = failed(&mut side, number, ChatFault::UnknownAccount);
    assert!(shown.contains("item-not-found") && words(&mut side).is_empty(), "{shown}");
}

#[test]
fn whoever_is_banned_or_does_not_get_in_is_told_why() {
    for (why, condition) in [
        (ChatFault::GroupBanned, "<error type='auth'><forbidden "),
        (ChatFault::NotMember, "<error type='auth'><registration-required "),
        (ChatFault::GroupFull, "service-unavailable"),
    ] {
        let mut side = available();
        says(&mut side, ENTER);
        let (number, _) = asks_room(&mut side);
        failed(&mut side, number, ChatFault::NotMember);
        let (number, _) = gives_order(&mut side);
        failed(&mut side, number, ChatFault::Conflict);
        let (number, _) = gives_order(&mut side);
        let shown = failed(&mut side, number, why);
        assert!(shown.contains(condition), "{why:?}: {shown}");
        assert!(words(&mut side).is_empty());
    }
    // One who was a member a moment ago is not asked in circles.
    let mut side = available();
    says(&mut side, ENTER);
    let (number, _) = asks_room(&mut side);
    failed(&mut side, number, ChatFault::NotMember);
    let (number, _) = gives_order(&mut side);
    failed(&mut side, number, ChatFault::Conflict);
    let (number, _) = gives_order(&mut side);
    changed(&mut side, number);
    let (number, _) = asks_room(&mut side);
    let shown = failed(&mut side, number, ChatFault::NotMember);
    assert!(shown.contains("registration-required"), "{shown}");
}

#[test]
fn a_message_is_called_back_by_the_id_that_the_room_gave_it() {
    let theirs = said("bob", 4, Content::text("spam"));
    let id = id_text(ArchiveId::of(&theirs));
    let moderate = |id: &str, inner: &str| {
        to_room(&format!(
            "<moderate xmlns='urn:xmpp:message-moderate:1' id='{id}'>{inner}</moderate>"
        ))
    };
    let retract = "<retract xmlns='urn:xmpp:message-retract:1'/>";
    let page = |number, messages: Vec<Arc<ChatMessage>>| {
        let page = HistoryPage { number, messages, more: false };
        ChatDelivery::History(Box::new(page))
    };
    let mut side = inside();
    assert_eq!(says(&mut side, &moderate(&id, retract)), "");
    let (number, range) = asks_for_history(&mut side);
    assert_eq!((range.from, range.count, range.backwards), (3, 1, false));
    assert_eq!(told(&mut side, page(number, vec![theirs.clone()])), "");
    let ChatRequest::Recall { number, order, .. } = asks(&mut side) else { panic!("recalled") };
    assert_eq!((order.with.as_str(), order.seq, &*order.reason), (ROOM, 4, ""));
    let sent = ChatDelivery::Sent { number, id: 9, seq: 9, at_ms: 9, again: false };
    let shown = told(&mut side, sent);
    assert!(shown.starts_with("<iq type='result' id='q' from='lunch@conf"), "{shown}");
    let because = format!("{retract}<reason>a &lt; b</reason>");
    says(&mut side, &moderate(&id, &because));
    let (number, _) = asks_for_history(&mut side);
    told(&mut side, page(number, vec![theirs.clone()]));
    let ChatRequest::Recall { number, order, .. } = asks(&mut side) else { panic!("recalled") };
    assert_eq!(&*order.reason, "a < b");
    told(&mut side, ChatDelivery::Sent { number, id: 9, seq: 9, at_ms: 9, again: true });
    // What stands there is another one; who asks may not.
    says(&mut side, &moderate(&id, retract));
    let (number, _) = asks_for_history(&mut side);
    let other = said("bob", 5, Content::text("other"));
    assert!(told(&mut side, page(number, vec![other])).contains("item-not-found"));
    says(&mut side, &moderate(&id, retract));
    let (number, _) = asks_for_history(&mut side);
    told(&mut side, page(number, vec![theirs]));
    let ChatRequest::Recall { number, .. } = asks(&mut side) else { panic!("recalled") };
    assert!(failed(&mut side, number, ChatFault::Forbidden).contains("forbidden"));
    let long = "x".repeat(REASON_BYTES_MAX + 1);
    for (stanza, condition) in [
        (moderate(&id, ""), "bad-request"),
        (moderate("nonsense", retract), "item-not-found"),
        (moderate(&id, &format!("{retract}<reason>{long}</reason>")), "policy-violation"),
        (moderate(&id, retract).replace(" id='AAA", " di='AAA"), "bad-request"),
    ] {
        let shown = says(&mut side, &stanza);
        assert!(shown.contains(condition) && words(&mut side).is_empty(), "{stanza}: {shown}");
    }
}

#[test]
fn who_has_moderated_a_message_is_told_by_the_room_and_left_in_its_archive() {
    const BY: &str = "<moderated xmlns='urn:xmpp:message-moderate:1' \
        by='lunch@conference.a.example/bob'><occupant-id xmlns='urn:xmpp:occupant-id:0' \
        id='bob@a.example'/></moderated><reason>&lt;spam&gt;</reason></retract";
    let it = Moderated { by: address("bob"), at_ms: 1_500, reason: "<spam>".into() };
    // As its author said it: the message that was called back is carol's.
    let recall = Recall { seq: 4, id: 4 }.moderated("n", Some(&it));
    let shown = comes(&mut inside(), 13, said("carol", 5, recall.clone()));
    let head = format!("<message xmlns='jabber:client' from='{ROOM}' to='ann@a.example/desk' ");
    assert!(shown.starts_with(&head), "the room says it: {shown}");
    assert!(shown.contains(&format!("{BY}>")) && shown.contains("<body>(A message was called"));
    assert!(!shown.contains("carol"), "{shown}");
    let by_herself = Recall { seq: 4, id: 4 }.content("n");
    let shown = comes(&mut inside(), 13, said("carol", 5, by_herself));
    assert!(shown.contains(&format!(" from='{ROOM}/carol'")) && !shown.contains("<moderated"));
    // Of what she called back herself nothing is shown.
    let left = Content { kind: Content::RECALLED, extra: it.write(), ..Content::default() };
    let gone = Content { kind: Content::RECALLED, ..Content::default() };
    assert_eq!(comes(&mut inside(), 13, said("carol", 5, left.clone())), "");
    let mut side = available();
    says(&mut side, &to_room("<query xmlns='urn:xmpp:mam:2'/>"));
    let ChatRequest::Archive { number, .. } = asks(&mut side) else { panic!("asked") };
    let messages = vec![said("carol", 3, gone), said("carol", 4, left), said("carol", 5, recall)];
    let page = ArchivePage { number, messages, goes_on: None };
    let all = stanzas(&told(&mut side, ChatDelivery::Archive(Box::new(page))));
    assert_eq!(all.len(), 3, "what is left, what tells of it, and the end: {all:?}");
    let retracted =
        "<retracted xmlns='urn:xmpp:message-retract:1' stamp='1970-01-01T00:00:01.500Z'>";
    assert!(all[0].contains(&format!("{retracted}{}ed>", BY)), "{all:?}");
    assert!(all[0].contains(&format!(" from='{ROOM}/carol'")) && !all[0].contains("<body"));
    assert!(all[0].contains("<occupant-id xmlns='urn:xmpp:occupant-id:0' id='carol@a.example'/>"));
    assert!(all[1].contains(&format!("{BY}>")) && !all[1].contains("carol"), "{all:?}");
}

#[test]
fn the_archive_of_a_room_is_asked_of_the_room_and_shown_as_it_was_said_there() {
    const MAM: &str = "urn:xmpp:mam:2";
    let mut side = available();
    let query = to_room(&format!("<query xmlns='{MAM}' queryid='x'/>"));
    assert_eq!(says(&mut side, &query), "");
    let ChatRequest::Archive { number, range, .. } = asks(&mut side) else { panic!("asked") };
    assert_eq!(range.with.as_ref().map(|it| it.as_str()), Some(ROOM));
    let (verb, title, members) = (GroupVerb::Rename, "x".into(), Vec::new());
    let renamed = GroupChange { verb, title, members };
    let messages = vec![said("bob", 3, renamed.content()), said("bob", 4, Content::text("hello"))];
    let id = id_text(ArchiveId::of(&messages[1]));
    let page = ArchivePage { number, messages, goes_on: None };
    let shown = told(&mut side, ChatDelivery::Archive(Box::new(page)));
    let all = stanzas(&shown);
    assert_eq!(all.len(), 2, "a message, and the end: {shown}");
    let head = format!("<message from='{ROOM}' to='ann@a.example/desk'><result xmlns='{MAM}' ");
    assert!(all[0].starts_with(&head), "{shown}");
    assert!(all[0].contains(&format!("queryid='x' id='{id}'")), "{shown}");
    assert!(all[0].contains(
        "<message xmlns='jabber:client' from='lunch@conference.a.example/bob' type='groupchat'"
    ));
    assert!(all[0].contains("<item jid='bob@a.example'/>") && !all[0].contains(" to='lunch"));
    assert!(all[1].contains("complete='true'") && all[1].contains(&format!("<last>{id}</last>")));
    for (why, condition) in [
        (ChatFault::NotMember, "<error type='auth'><forbidden "),
        (ChatFault::UnknownMessage, "item-not-found"),
    ] {
        says(&mut side, &query);
        let ChatRequest::Archive { number, .. } = asks(&mut side) else { panic!("asked") };
        let shown = failed(&mut side, number, why);
        assert!(shown.contains(condition) && shown.contains(&format!("from='{ROOM}'")), "{shown}");
    }
    let preferences = to_room(&format!("<prefs xmlns='{MAM}' default='never'/>"));
    assert!(says(&mut side, &preferences).contains("bad-request"), "everything is kept");
}

#[test]
fn whoever_is_not_in_the_room_says_nothing_to_its_occupants() {
    let say = format!("<message type='chat' id='p' to='{ROOM}/bob'><body>psst</body></message>");
    let mut side = available();
    assert!(says(&mut side, &say).contains("not-acceptable") && words(&mut side).is_empty());
}

#[test]
fn a_channel_is_a_room_that_one_subscribes_to_by_entering_it() {
    const NEWS: &str = "news@channel.a.example";
    let enter = format!(
        "<presence id='e' to='{NEWS}/ann'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
    );
    let published = |seq| {
        let message = said("bob", seq, Content::text("extra, extra"));
        Arc::new(ChatMessage { to: address(NEWS), ..(*message).clone() })
    };
    let mut side = available();
    assert_eq!(says(&mut side, &enter), "");
    let (number, _) = asks_for_history(&mut side);
    failed(&mut side, number, ChatFault::NotMember);
    let (number, order) = gives_order(&mut side);
    assert_eq!(order.verb, GroupVerb::Join, "it is made in IM");
    assert_eq!(changed(&mut side, number), "");
    let (number, _) = asks_for_history(&mut side);
    let page = HistoryPage { number, messages: vec![published(4)], more: false };
    assert_eq!(told(&mut side, ChatDelivery::History(Box::new(page))), "");
    let (number, _) = asks_for_members(&mut side);
    let shown = stanzas(&failed(&mut side, number, ChatFault::Forbidden));
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert!(shown[0].contains("role='visitor'") && shown[0].contains("<status code='110'/>"));
    assert!(shown[1].contains("<body>extra, extra</body>") && shown[1].contains("<delay"));
    assert!(shown[2].contains("<subject>news</subject>"));
    let shown = comes(&mut side, 13, published(5));
    assert!(shown.contains("from='news@channel.a.example/bob'"), "{shown}");
    // One that is not there.
    let mut side = available();
    says(&mut side, &enter);
    let (number, _) = asks_for_history(&mut side);
    failed(&mut side, number, ChatFault::NotMember);
    let (number, _) = gives_order(&mut side);
    assert!(failed(&mut side, number, ChatFault::NotMember).contains("item-not-found"));
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    let ask = |to: &str| format!("<iq type='get' id='q' to='{to}'>{info}</iq>");
    assert!(says(&mut side, &ask("channel.a.example")).contains("name='Channels'"));
    says(&mut side, &ask(NEWS));
    let (number, _) = asks_for_members(&mut side);
    let shown = failed(&mut side, number, ChatFault::Forbidden);
    assert!(shown.contains("name='news'") && shown.contains("'muc_open'"), "{shown}");
}
