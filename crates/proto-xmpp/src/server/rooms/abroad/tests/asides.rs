//! Asides of a room to some occupants of other servers, and their requests for voice.

use super::*;
use model::chat::foreign::AsideWord;
use model::chat::{AsideWhat, GroupAside};
use model::chat::{OccupantName, RoleItem, RoomRole};

const REQUEST: &str = "http://jabber.org/protocol/muc#request";
const DESK: &str = "eve@b.example/desk";

fn form(from: &str, fields: &[(&str, &str)]) -> String {
    let field = |(name, value): &(&str, &str)| {
        format!("<field var='{name}'><value>{value}</value></field>")
    };
    let fields: String = fields.iter().map(field).collect();
    let kind = format!("<field var='FORM_TYPE'><value>{REQUEST}</value></field>");
    let x = format!("<x xmlns='jabber:x:data' type='submit'>{kind}{fields}</x>");
    format!("<message id='v' from='{from}' to='{ROOM}'>{x}</message>")
}

fn wish() -> String {
    form(EVE, &[("muc#role", "participant")])
}

fn answer() -> String {
    form(EVE, &[("muc#jid", "carol@c.example"), ("muc#request_allow", "1")])
}

fn aside(what: AsideWhat, to: &[&str]) -> AsideWord {
    let (group, who) = (address(ROOM), address("carol@c.example"));
    let to = to.iter().map(|it| address(it)).collect();
    AsideWord { aside: Arc::new(GroupAside { group, who, what }), to }
}

/// She is this from now on.
fn becomes(rooms: &mut RoomsAbroad, number: u64, role: GroupRole, silent: bool) {
    let is = Occupant { silent, ..occupant(EVE, Some(role)) };
    rooms.news(now(), &news(number, RoomEvent::Is(Arc::new(is), None)), &devices(&[EVE]));
    shown(rooms);
}

fn refused(rooms: &mut RoomsAbroad, stanza: &str, fault: &str) {
    says(rooms, stanza);
    let told = shown(rooms);
    assert!(told[0].contains("type='error'") && told[0].contains(fault), "{told:?}");
    assert_eq!(told.len(), 1);
}

#[test]
fn a_visitor_without_a_voice_asks_for_one_and_a_moderator_of_another_server_gives_it() {
    let mut rooms = rooms();
    refused(&mut rooms, &wish(), "<not-acceptable ");
    enters(&mut rooms, EVE);
    refused(&mut rooms, &wish(), "<not-allowed ");
    refused(&mut rooms, &answer(), "<forbidden ");
    becomes(&mut rooms, 8, GroupRole::Member, true);
    says(&mut rooms, &wish());
    let (number, what) = asks(&mut rooms);
    assert_eq!(what, ErrandWhat::Voice(address(ROOM).into()));
    rooms.answered(now(), number, Some(&ChatDelivery::Done { number: 0 }));
    assert_eq!(shown(&mut rooms), [""; 0]);
    becomes(&mut rooms, 9, GroupRole::Admin, false);
    refused(&mut rooms, &wish(), "<not-allowed ");
    says(&mut rooms, &answer());
    let (number, what) = asks(&mut rooms);
    let whom = OccupantName::Account(address("carol@c.example"));
    let (role, reason) = (RoomRole::Participant, "".into());
    let voice = OccupancyAsk::SetRoles(vec![RoleItem { whom, role, reason }]);
    assert_eq!(what, ErrandWhat::Room(address(ROOM).into(), voice));
    rooms.answered(now(), number, Some(&failed(ChatFault::UnknownAccount)));
    let (number, what) = asks(&mut rooms);
    let ErrandWhat::Group(order) = what else { panic!("{what:?}") };
    let named: Vec<_> = order.members.iter().map(|it| it.as_str()).collect();
    assert_eq!((order.verb, &named[..]), (GroupVerb::Unmute, &["carol@c.example"][..]));
    rooms.answered(now(), number, Some(&failed(ChatFault::Forbidden)));
    let told = shown(&mut rooms);
    assert!(told[0].contains("id='v'") && told[0].contains("<forbidden "), "{told:?}");
}

#[test]
fn each_device_of_a_moderator_in_the_room_is_asked_and_whoever_had_invited_is_told_at_its_server() {
    let mut rooms = rooms();
    enters(&mut rooms, EVE);
    enters(&mut rooms, DESK);
    enters(&mut rooms, "mallory@b.example/x");
    for (number, who) in (8..).zip([EVE, DESK]) {
        let is = Arc::new(occupant(who, Some(GroupRole::Admin)));
        let happened = news(number, RoomEvent::Is(is, None));
        rooms.news(now(), &happened, &devices(&[EVE, DESK, "mallory@b.example/x"]));
    }
    shown(&mut rooms);
    rooms.aside(&aside(AsideWhat::Voice, &["eve@b.example", "dan@d.example"]));
    let told = shown(&mut rooms);
    assert_eq!(told.len(), 2, "{told:?}");
    for (one, whom) in told.iter().zip([EVE, DESK]) {
        assert!(one.starts_with(&format!("<message from='{ROOM}' to='{whom}'>")), "{one}");
        assert!(one.contains(REQUEST) && one.contains("<value>carol@c.example</value>"), "{one}");
    }
    rooms.aside(&aside(AsideWhat::Declined("no time".into()), &["dan@d.example"]));
    let declined = "<decline from='carol@c.example'><reason>no time</reason></decline>";
    let told = shown(&mut rooms);
    assert!(told[0].starts_with(&format!("<message from='{ROOM}' to='dan@d.example'>")));
    assert!(told.len() == 1 && told[0].contains(declined), "{told:?}");
    let mut other = aside(AsideWhat::Voice, &["eve@b.example"]);
    Arc::make_mut(&mut other.aside).group = address("yard@conference.c.example");
    rooms.aside(&other);
    assert_eq!(shown(&mut rooms), [""; 0], "in no name that was shown to nobody");
}

#[test]
fn an_invitation_is_declined_to_whoever_sent_it() {
    let mut rooms = rooms();
    let decline = "<decline to='ann@a.example'><reason>no time</reason></decline>";
    let x = format!("<x xmlns='http://jabber.org/protocol/muc#user'>{decline}</x>");
    says(&mut rooms, &format!("<message from='{EVE}' to='{ROOM}'>{x}</message>"));
    let (_, what) = asks(&mut rooms);
    let ErrandWhat::Group(order) = what else { panic!("{what:?}") };
    assert_eq!((order.verb, &*order.title), (GroupVerb::Leave, "no time"));
    assert_eq!(order.members, [address("ann@a.example").into()]);
}
