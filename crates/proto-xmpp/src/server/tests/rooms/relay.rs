//! Questions of occupants to each other.

use super::super::harness::*;
use super::*;

const PING: &str = "<ping xmlns='urn:xmpp:ping'/>";

fn iq(kind: &str, id: &str, inner: &str) -> String {
    format!("<iq type='{kind}' id='{id}' to='{ROOM}/bob'>{inner}</iq>")
}

fn relayed(kind: RelayedKind, id: &str, xml: &str) -> RoomEvent {
    let it = Arc::new(Relayed { kind, id: id.into(), xml: xml.into() });
    RoomEvent::Relayed(Arc::new(occupant(("bob", GroupRole::Owner, false))), it)
}

#[test]
fn a_question_goes_to_the_occupant_and_its_answer_comes_by_the_own_id() {
    let mut side = inside();
    assert_eq!(says(&mut side, &iq("get", "q7", PING)), "");
    let (number, ask) = asks_room(&mut side);
    let OccupancyAsk::Relay { nick, relayed: it } = ask else { panic!("{ask:?}") };
    assert_eq!((&*nick, it.kind), ("bob", RelayedKind::Get));
    assert_eq!((&*it.id, &*it.xml), ("q7", PING));
    assert_eq!(told(&mut side, ChatDelivery::Done { number }), "");
    let shown = told(&mut side, news(0, relayed(RelayedKind::Result, "q7", "")));
    let from = "from='lunch@conference.a.example/bob' to='ann@a.example/desk'";
    assert_eq!(shown, format!("<iq type='result' id='q7' {from}></iq>"));
    for (why, condition) in [
        (ChatFault::UnknownAccount, "item-not-found"),
        (ChatFault::NotMember, "not-acceptable"),
        (ChatFault::RateLimited, "resource-constraint"),
    ] {
        says(&mut side, &iq("set", "q8", "<q xmlns='y'/>"));
        let (number, _) = asks_room(&mut side);
        let shown = failed(&mut side, number, why);
        assert!(shown.starts_with("<iq type='error' id='q8'"), "{shown}");
        assert!(shown.contains(condition), "{shown}");
    }
}

#[test]
fn an_occupant_is_asked_and_answers_by_the_id_of_the_home() {
    let mut side = inside();
    let shown = told(&mut side, news(0, relayed(RelayedKind::Get, "71", PING)));
    assert!(shown.starts_with("<iq type='get' id='71' from='lunch@conference.a.example/bob'"));
    assert!(shown.ends_with(&format!(">{PING}</iq>")), "{shown}");
    let error = "<error type='cancel'><service-unavailable \
        xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>";
    for (kind, inner) in [("result", ""), ("error", error)] {
        says(&mut side, &iq(kind, "71", inner));
        let (number, ask) = asks_room(&mut side);
        let OccupancyAsk::Answer(it) = ask else { panic!("{ask:?}") };
        assert_eq!((&*it.id, it.kind.word(), &*it.xml), ("71", kind, inner));
        assert_eq!(failed(&mut side, number, ChatFault::UnknownAccount), "", "no answer to it");
    }
    for id in ["x", "-1", "18446744073709551616"] {
        assert_eq!(says(&mut side, &iq("result", id, "")), "");
        assert!(words(&mut side).is_empty(), "{id}: it answers nothing");
    }
}

#[test]
fn the_server_answers_for_a_vcard_and_lists_of_others_are_not_set() {
    let mut side = inside();
    says(&mut side, &iq("get", "v1", "<vCard xmlns='vcard-temp'/>"));
    let (number, ask) = asks_room(&mut side);
    assert_eq!(ask, OccupancyAsk::Find("bob".into()));
    let occupant = Arc::new(occupant(("bob", GroupRole::Owner, false)));
    assert_eq!(told(&mut side, ChatDelivery::Occupant { number, occupant }), "");
    let ChatRequest::Nodes(asked) = asks(&mut side) else { panic!("a vCard is asked for") };
    assert_eq!(asked.of.map(|of| of.as_str().to_owned()).as_deref(), Some("bob@a.example"));
    let roster = "<query xmlns='jabber:iq:roster'/>";
    assert!(says(&mut side, &iq("set", "r", roster)).contains("service-unavailable"));
    let long = format!("<q xmlns='y'>{}</q>", "x".repeat(RELAYED_BYTES_MAX));
    assert!(says(&mut side, &iq("set", "r", &long)).contains("policy-violation"));
    assert!(says(&mut available(), &iq("get", "r", "<q xmlns='y'/>")).contains("bad-request"));
}
