//! Orders and lists of members at the seam: what makes no sense first.

use super::super::*;
use super::harness::*;
use crate::codec::group::{GroupFields, MembersFields};
use base::hash::HashKey;
use model::account::{AccountAddress, AccountId, Addressee};
use model::chat::{
    ChatFault, ClientMessageId, GROUP_NAMED_MAX, GroupChanged, GroupMember, GroupOrder, GroupRole,
    GroupVerb, MemberStatus, MembersPage, MembersRange, RoomRules,
};
use model::counters::{ChatCounter, Counter};

const ID: &[u8; 16] = b"0123456789abcdef";
const GROUP: &str = "aaaaaaaaaaaaa@conference.a.example";

fn order(verb: u32) -> GroupFields<'static> {
    let group = if verb == 1 { "" } else { GROUP };
    GroupFields { number: 7, group, client_id: ID, verb, title: "us", members: vec!["bob"] }
}

/// A session's answer to a frame, its counts, and the number of its requests.
fn said(frame: &ClientFrame<'_>) -> (Vec<String>, Vec<Counter>, usize) {
    let mut side = in_session();
    let mut out = Out::new(HashKey::new(1, 2), [0; 32]);
    let bytes = client(frame);
    let mut input = Input::new(&bytes, &side.link, &side.limits);
    assert_eq!(side.machine.receive(now(), &mut input, &mut out), Ok(()));
    (frames(out.bytes()), out.counts().collect(), out.words().count())
}

#[test]
fn an_order_that_makes_no_sense_fails_is_counted_once_and_the_session_goes_on() {
    let bad = [
        GroupFields { verb: 0, ..order(2) },
        GroupFields { verb: 99, ..order(2) },
        GroupFields { verb: u32::MAX, ..order(2) },
        GroupFields { group: "", ..order(2) },
        GroupFields { group: "Us", ..order(2) },
        GroupFields { group: GROUP, ..order(1) },
        GroupFields { client_id: b"", ..order(2) },
        GroupFields { client_id: b"0123456789abcde", ..order(2) },
        GroupFields { members: vec!["bob", ""], ..order(2) },
        GroupFields { members: vec!["Bob"], ..order(2) },
        GroupFields { members: vec!["bob@"], ..order(2) },
    ];
    let mut all: Vec<_> = bad.into_iter().map(ClientFrame::Group).collect();
    all.push(ClientFrame::Members(MembersFields { number: 7, count: 1, ..Default::default() }));
    let members = MembersFields { number: 7, group: "A", count: 1, ..Default::default() };
    all.push(ClientFrame::Members(members));
    for frame in &all {
        let expected = vec!["failed { number: 7 fault: FAULT_INVALID word: \"invalid\" }".into()];
        let counted = vec![Counter::from(ChatCounter::Invalid)];
        assert_eq!(said(frame), (expected, counted, 0), "{frame:?}");
    }
}

#[test]
fn orders_are_said_in_the_models_words_and_one_name_too_many_is_the_services_to_refuse() {
    let mut side = in_session();
    // IM has no order for rules of rooms.
    let ordered = GroupVerb::ALL.iter().filter(|verb| **verb != GroupVerb::Set);
    for (verb, &expected) in (1..).zip(ordered) {
        assert!(side.hear(now(), &client(&ClientFrame::Group(order(verb)))).is_empty());
        let group = (verb != 1).then(|| Addressee::parse(GROUP).expect("right"));
        let order = GroupOrder {
            group,
            client_id: ClientMessageId(*ID),
            verb: expected,
            title: "us".into(),
            members: vec![Addressee::parse("bob").expect("right")],
        };
        let (session, order) = (SESSION, Box::new(order));
        let asked = [ChatRequest::Group { session, number: 7, order }];
        assert_eq!(side.take_words_as::<ChatRequest>(), asked);
    }
    let many = GroupFields { members: vec!["bob"; GROUP_NAMED_MAX + 100], ..order(2) };
    side.hear(now(), &client(&ClientFrame::Group(many)));
    let [ChatRequest::Group { order, .. }] = &side.take_words_as::<ChatRequest>()[..] else {
        panic!("it is asked")
    };
    assert_eq!(order.members.len(), GROUP_NAMED_MAX + 1);
}

#[test]
fn a_wish_for_many_members_is_cut_and_one_for_none_is_the_services_to_refuse() {
    let mut side = in_session();
    for (count, expected) in [(0, 0), (1, 1), (256, 256), (257, 256), (u32::MAX, 256)] {
        let banned = count == 1;
        let (number, version, from) = (8, 5, 9);
        let fields = MembersFields { number, group: GROUP, version, from, count, banned };
        side.hear(now(), &client(&ClientFrame::Members(fields)));
        let group = Addressee::parse(GROUP).expect("right");
        let count = expected;
        let range = Box::new(MembersRange { group, version, from, count, banned });
        let asked = [ChatRequest::Members { session: SESSION, number: 8, range }];
        assert_eq!(side.take_words_as::<ChatRequest>(), asked);
    }
}

fn page() -> MembersPage {
    let address = |text| AccountAddress::parse(text, "a.example").expect("right");
    let member = |text, id, role, muted| {
        let member = GroupMember { address: address(text), id: AccountId(id) };
        MemberStatus { member, role, muted, reason: None }
    };
    MembersPage {
        number: 8,
        group: address(GROUP),
        version: 5,
        title: "us".into(),
        description: "of lunch".into(),
        closed: true,
        unlocked: true,
        public: true,
        temporary: true,
        protected: false,
        rules: RoomRules::default(),
        occupants: 0,
        own: None,
        total: 9,
        from: 7,
        members: vec![
            member("ann", 1, GroupRole::Owner, false),
            member("bob", 2, GroupRole::Member, true),
        ],
    }
}

#[test]
fn answers_are_told_and_let_the_next_request_in() {
    let mut side = in_session();
    side.limits.chat.requests_a_session_max = 2;
    let asked = client(&ClientFrame::Group(order(2)));
    side.hear(now(), &asked.repeat(4));
    assert_eq!(side.take_words().len(), 2);
    let group = AccountAddress::parse(GROUP, "").expect("right");
    let changed = GroupChanged { number: 7, group, id: 2, seq: 3, at_ms: 4, again: true };
    let sent = side.tell(now(), ChatDelivery::Changed(Box::new(changed)));
    let expected =
        format!("changed {{ number: 7 group: \"{GROUP}\" id: 2 seq: 3 at_ms: 4 again: true }}");
    assert_eq!((frames(&sent), side.take_words().len()), (vec![expected], 1));
    let sent = side.tell(now(), ChatDelivery::Members(Box::new(page())));
    let expected = format!(
        "members {{ number: 8 group: \"{GROUP}\" version: 5 title: \"us\" closed: true total: 9 \
         from: 7 members {{ address: \"ann@a.example\" account: 1 role: GROUP_ROLE_OWNER }} \
         members {{ address: \"bob@a.example\" account: 2 role: GROUP_ROLE_MEMBER muted: true }} \
         description: \"of lunch\" unlocked: true public: true temporary: true }}"
    );
    assert_eq!((frames(&sent), side.take_words().len()), (vec![expected], 1));
    let page = MembersPage { protected: true, ..page() };
    let sent = side.tell(now(), ChatDelivery::Members(Box::new(page)));
    assert!(!frames(&sent)[0].contains("unlocked"), "nobody joins it by itself");
}

#[test]
fn a_page_for_a_device_that_does_not_read_is_put_off() {
    let mut out = Out::new(HashKey::new(1, 2), [0; 32]);
    out.set_backlog(101, 100);
    let mut side = in_session();
    let fields = MembersFields { number: 8, group: GROUP, count: 1, ..Default::default() };
    side.hear(now(), &client(&ClientFrame::Members(fields)));
    let down = Delivery::Chat(ChatDelivery::Members(Box::new(page())));
    assert_eq!(side.machine.command(now(), down, &mut out), Ok(()));
    assert_eq!(frames(out.bytes()), ["failed { number: 8 fault: FAULT_BUSY word: \"busy\" }"]);
    assert_eq!(ChatFault::Busy.name(), "busy");
}
