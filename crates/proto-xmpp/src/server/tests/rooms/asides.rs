//! Asides of a room: declined invitations (XEP-0045 7.8.2), and requests for voice (7.13, 8.6).

use super::super::harness::*;
use super::*;
use crate::forms::FORMS;

const REQUEST: &str = "http://jabber.org/protocol/muc#request";

fn form(kind: &str, fields: &[(&str, &str)]) -> String {
    let field = |(name, value): &(&str, &str)| {
        format!("<field var='{name}'><value>{value}</value></field>")
    };
    let fields: String = fields.iter().map(field).collect();
    format!("<message id='v' to='{ROOM}'><x xmlns='{FORMS}' type='{kind}'>{fields}</x></message>")
}

fn wish() -> String {
    form("submit", &[("FORM_TYPE", REQUEST), ("muc#role", "participant")])
}

/// A moderator's answer about carol, by her address.
fn answer(allows: &str) -> String {
    let (role, jid) = (("muc#role", "participant"), ("muc#jid", "carol@a.example/x"));
    form("submit", &[("FORM_TYPE", REQUEST), role, jid, ("muc#request_allow", allows)])
}

/// Somebody who has entered, and is this; the room is closed, or not.
fn inside_as(own: Named, closed: bool) -> Side {
    let mut side = available();
    let silent = (own.2 || closed) && own.1 == GroupRole::Member;
    enters(&mut side, &[("bob", GroupRole::Owner, false), (own.0, own.1, silent)], &[]);
    side
}

fn asks_for_voice(side: &mut Side) {
    match asks(side) {
        ChatRequest::Voice { group, .. } => assert_eq!(group.within("a.example"), address(ROOM)),
        other => panic!("{other:?}"),
    }
}

fn aside(who: &str, what: AsideWhat) -> ChatDelivery {
    ChatDelivery::Aside(Arc::new(GroupAside { group: address(ROOM), who: address(who), what }))
}

#[test]
fn a_visitor_asks_for_voice_and_whoever_has_one_or_is_not_in_the_room_does_not() {
    let member = ("ann", GroupRole::Member, false);
    for (own, closed) in [(("ann", GroupRole::Member, true), false), (member, true)] {
        let mut side = inside_as(own, closed);
        assert_eq!(says(&mut side, &wish()), "");
        asks_for_voice(&mut side);
    }
    for (mut side, fault) in [
        (available(), "<not-acceptable "),
        (inside_as(member, false), "<not-allowed "),
        (inside_as(("ann", GroupRole::Admin, false), true), "<not-allowed "),
    ] {
        let told = says(&mut side, &wish());
        assert!(told.starts_with("<message type='error' id='v'") && told.contains(fault), "{told}");
        assert!(words(&mut side).is_empty());
    }
    // Who is muted later is known from what it is shown.
    for muted in [true, false] {
        let mut side = inside_as(("ann", GroupRole::Member, !muted), false);
        let own = occupant(("ann", GroupRole::Member, muted));
        told(&mut side, news(8, RoomEvent::Is(Arc::new(own), None)));
        assert_eq!(says(&mut side, &wish()).is_empty(), muted);
    }
}

/// The order that gives an occupant a voice.
fn voice(whom: OccupantName) -> OccupancyAsk {
    OccupancyAsk::SetRoles(vec![RoleItem { whom, role: RoomRole::Participant, reason: "".into() }])
}

#[test]
fn a_moderator_who_allows_it_unmutes_and_nobody_else_does() {
    let admin = || inside_as(("ann", GroupRole::Admin, false), false);
    let by_name = [("muc#roomnick", "carol"), ("muc#request_allow", "true")];
    let by_name = form("submit", &[&[("FORM_TYPE", REQUEST)], &by_name[..]].concat());
    let mut side = admin();
    assert_eq!(says(&mut side, &by_name), "");
    let (number, ask) = asks_room(&mut side);
    assert_eq!(ask, voice(OccupantName::Nick("carol".into())));
    assert!(failed(&mut side, number, ChatFault::UnknownAccount).contains("item-not-found"));
    {
        let mut side = admin();
        assert_eq!(says(&mut side, &answer("1")), "");
        let (number, ask) = asks_room(&mut side);
        assert_eq!(ask, voice(OccupantName::Account(address("carol"))));
        failed(&mut side, number, ChatFault::UnknownAccount);
        let (number, order) = gives_order(&mut side);
        let named: Vec<_> = order.members.iter().map(|it| it.as_str()).collect();
        assert_eq!((order.verb, &named[..]), (GroupVerb::Unmute, &["carol@a.example"][..]));
        // As by `participant` of an admin: of who is not muted nothing is changed.
        assert_eq!(failed(&mut side, number, ChatFault::Unchanged), "");
    }
    for nothing in [answer("0"), form("cancel", &[])] {
        let mut side = admin();
        assert_eq!(says(&mut side, &nothing), "");
        assert!(words(&mut side).is_empty());
    }
    for (mut side, fault) in [
        (available(), "<not-acceptable "),
        (inside_as(("ann", GroupRole::Member, false), false), "<forbidden "),
        (inside_as(("ann", GroupRole::Member, true), true), "<forbidden "),
    ] {
        for allows in ["1", "0"] {
            let told = says(&mut side, &answer(allows));
            assert!(told.contains(fault) && words(&mut side).is_empty(), "{told}");
        }
    }
}

#[test]
fn forms_that_say_nothing_of_voice_are_refused() {
    let kind = ("FORM_TYPE", REQUEST);
    let (role, allow) = (("muc#role", "participant"), ("muc#request_allow", "1"));
    for (stanza, fault) in [
        (form("form", &[kind, role]), "bad-request"),
        (form("submit", &[kind]), "bad-request"),
        (form("submit", &[kind, role, role]), "bad-request"),
        (form("submit", &[kind, ("muc#request_allow", "perhaps")]), "bad-request"),
        (form("submit", &[kind, role, allow]), "bad-request"),
        (form("submit", &[kind, ("muc#role", "moderator")]), "not-acceptable"),
        (form("submit", &[kind, allow, ("muc#jid", "@")]), "jid-malformed"),
        (form("submit", &[kind, allow, ("muc#jid", ROOM)]), "item-not-found"),
        (form("submit", &[("FORM_TYPE", "urn:x"), role]), "service-unavailable"),
        (form("submit", &[role]), "service-unavailable"),
    ] {
        let mut side = inside_as(("ann", GroupRole::Admin, true), false);
        let told = says(&mut side, &stanza);
        assert!(told.contains(&format!("<{fault} ")), "{stanza}: {told}");
        assert!(words(&mut side).is_empty());
    }
}

#[test]
fn moderators_who_are_in_the_room_are_asked_and_can_answer_with_the_form() {
    let wishes = || aside("carol", AsideWhat::Voice);
    let mut side = inside_as(("ann", GroupRole::Admin, false), false);
    let shown = told(&mut side, wishes());
    assert_eq!(stanzas(&shown).len(), 1);
    assert!(shown.starts_with("<message from='lunch@conference.a.example' to='ann@a.example/desk"));
    for field in [
        format!("<field var='FORM_TYPE' type='hidden'><value>{REQUEST}</value></field>"),
        "<field var='muc#jid' type='jid-single' label='Address'><value>carol@a.example</value>"
            .into(),
        "<value>carol</value>".into(),
        "<field var='muc#request_allow' type='boolean' label='Let it speak?'><value>0</value>"
            .into(),
        "<value>participant</value><option".into(),
    ] {
        assert!(shown.contains(&field), "{field}: {shown}");
    }
    // The form itself, filled in, is an answer.
    let filled = shown.replace("type='form'", "type='submit'").replace("<value>0<", "<value>1<");
    let filled = filled.replace("from='lunch@conference.a.example' to='ann@a.example/desk'", "");
    says(&mut side, &filled.replacen("<message", &format!("<message to='{ROOM}'"), 1));
    let (number, ask) = asks_room(&mut side);
    assert_eq!(ask, voice(OccupantName::Account(address("carol"))));
    failed(&mut side, number, ChatFault::UnknownAccount);
    assert_eq!(gives_order(&mut side).1.verb, GroupVerb::Unmute);
    for mut other in [available(), bound(), inside_as(("ann", GroupRole::Member, true), false)] {
        assert_eq!(told(&mut other, wishes()), "", "no moderator, or not in the room");
    }
}

#[test]
fn whoever_had_invited_is_told_who_declined_wherever_it_looks() {
    let shown = told(&mut available(), aside("carol", AsideWhat::Declined("<no time>".into())));
    let expected = "<message from='lunch@conference.a.example' to='ann@a.example/desk'>\
        <x xmlns='http://jabber.org/protocol/muc#user'><decline from='carol@a.example'>\
        <reason>&lt;no time&gt;</reason></decline></x></message>";
    assert_eq!(shown, expected);
    let shown = told(&mut inside(), aside("eve@b.example", AsideWhat::Declined("".into())));
    assert!(shown.contains("<decline from='eve@b.example'></decline>"), "{shown}");
    assert_eq!(told(&mut bound(), aside("carol", AsideWhat::Declined("".into()))), "");
}

#[test]
fn a_room_says_that_voice_may_be_asked_for_and_a_channel_does_not() {
    for (room, expected) in [(ROOM, true), ("news@channel.a.example", false)] {
        let mut side = available();
        let asked = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
        says(&mut side, &format!("<iq type='get' id='q' to='{room}'>{asked}</iq>"));
        let (number, _) = asks_for_members(&mut side);
        let shown = told(&mut side, members(number, &TWO, false));
        assert!(shown.contains("muc_hidden"), "{shown}");
        assert_eq!(shown.contains(&format!("<feature var='{REQUEST}'/>")), expected, "{shown}");
    }
}
