//! Questions to the service and to rooms, and orders of admins.

use super::super::harness::*;
use super::*;

fn iq(kind: &str, to: &str, inner: &str) -> String {
    format!("<iq type='{kind}' id='q' to='{to}'>{inner}</iq>")
}

fn admin(kind: &str, items: &str) -> String {
    let query = format!("<query xmlns='http://jabber.org/protocol/muc#admin'>{items}</query>");
    iq(kind, ROOM, &query)
}

const DONE: &str =
    "<iq type='result' id='q' from='lunch@conference.a.example' to='ann@a.example/desk'></iq>";

/// Orders for the group that a stanza leads to, when they are answered so; and the output.
fn done(side: &mut Side, stanza: &str, answers: &[Option<ChatFault>]) -> (Vec<String>, String) {
    let mut shown = says(side, stanza);
    let mut orders = Vec::new();
    for answer in answers {
        let (number, order) = match asks(side) {
            ChatRequest::Group { number, order, .. } => {
                assert_eq!(order.group, Some(address(ROOM).into()));
                let whom: Vec<_> = order.members.iter().map(|it| it.as_str()).collect();
                let what = [order.verb.word(), &order.title, &whom.join(" ")];
                (number, what.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join(" "))
            }
            ChatRequest::Room(asked) => (asked.number, ordered(asked.ask)),
            other => panic!("{other:?}"),
        };
        shown = match answer {
            None if order.starts_with("role ") => told(side, ChatDelivery::Done { number }),
            None => changed(side, number),
            Some(why) => failed(side, number, *why),
        };
        orders.push(order);
    }
    assert!(words(side).is_empty());
    (orders, shown)
}

/// An order for a room in a few words.
fn ordered(ask: OccupancyAsk) -> String {
    let items = match ask {
        OccupancyAsk::SetRoles(items) => {
            let whom = |it: &RoleItem| match &it.whom {
                OccupantName::Nick(nick) => nick.to_string(),
                OccupantName::Account(account) => account.to_string(),
            };
            let one = |it: &RoleItem| format!("role {} {} {}", it.role.word(), whom(it), it.reason);
            return items
                .iter()
                .map(|it| one(it).trim_end().to_owned())
                .collect::<Vec<_>>()
                .join(", ");
        }
        OccupancyAsk::Change { change: RoomChange::Affiliations(items), .. } => items,
        OccupancyAsk::Change { change: RoomChange::Settings(it), .. } => return settings(&it),
        other => panic!("{other:?}"),
    };
    let one = |it: &AffiliationItem| {
        format!("{} {} {}", it.affiliation.word(), it.account.as_str(), it.reason)
    };
    items.iter().map(one).map(|it| it.trim_end().to_owned()).collect::<Vec<_>>().join(", ")
}

/// Settings in a few words.
pub(super) fn settings(it: &GroupSettings) -> String {
    let texts = [("title", &it.title), ("description", &it.description)];
    let texts = texts.into_iter().filter_map(|(name, it)| Some(format!("{name}={}", it.as_ref()?)));
    let either = [
        ("closed", it.closed),
        ("unlocked", it.unlocked),
        ("public", it.public),
        ("temporary", it.temporary),
    ];
    let either = either.into_iter().filter_map(|(name, is)| Some(format!("{name}={}", is?)));
    let rules = it.rules.iter().map(|rule| format!("[{}]", rule.text()));
    texts.chain(either).chain(rules).collect::<Vec<_>>().join(" ")
}

#[test]
fn affiliations_are_one_change_of_the_group_and_roles_orders_for_the_room() {
    const SAME: Option<ChatFault> = Some(ChatFault::Unchanged);
    let bob = "jid='bob@a.example/x'";
    for affiliation in ["owner", "admin", "member", "none", "outcast"] {
        for answer in [None, SAME] {
            let stanza = admin("set", &format!("<item affiliation='{affiliation}' {bob}/>"));
            let (asked, shown) = done(&mut available(), &stanza, &[answer]);
            assert_eq!(asked, [format!("{affiliation} bob@a.example")]);
            assert_eq!(shown, DONE);
        }
    }
    for (item, answers, orders) in [
        ("affiliation='none' jid='ann@a.example'".to_owned(), vec![None], "none ann@a.example"),
        ("role='none' nick='bob'".into(), vec![None], "role none bob"),
        (format!("role='none' {bob}"), vec![None], "role none bob@a.example"),
        ("role='moderator' nick='bob'".into(), vec![None], "role moderator bob"),
        ("role='visitor' nick='bob'".into(), vec![SAME], "role visitor bob"),
        // Of a member who is not in the room the group decides.
        (
            format!("role='visitor' {bob}"),
            vec![Some(ChatFault::UnknownAccount), None],
            "role visitor bob@a.example, mute bob@a.example",
        ),
        (
            format!("role='participant' {bob}"),
            vec![Some(ChatFault::UnknownAccount), SAME],
            "role participant bob@a.example, unmute bob@a.example",
        ),
    ] {
        let stanza = admin("set", &format!("<item {item}/>"));
        let (asked, shown) = done(&mut available(), &stanza, &answers);
        assert_eq!((asked.join(", ").as_str(), shown.as_str()), (orders, DONE), "{item}");
    }
    let all = "<item affiliation='outcast' jid='eve@b.example'><reason>spam</reason></item>\
               <item affiliation='member' jid='carol@a.example'/>";
    let (asked, shown) = done(&mut available(), &admin("set", all), &[None]);
    assert_eq!(asked, ["outcast eve@b.example spam, member carol@a.example"], "as a whole");
    assert_eq!(shown, DONE);
    let two = "<item role='none' nick='bob'/><item role='participant' nick='March Hare'/>";
    let (asked, shown) = done(&mut available(), &admin("set", two), &[None]);
    assert_eq!(
        (asked[0].as_str(), shown.as_str()),
        ("role none bob, role participant March Hare", DONE)
    );
    // Whom the group has muted it lets speak again.
    let mut side = available();
    says(&mut side, &admin("set", "<item role='participant' nick='Hare'/>"));
    let (number, _) = asks_room(&mut side);
    let found = Arc::new(Occupant { account: address("carol"), ..occupant(TWO[1]) });
    told(&mut side, ChatDelivery::Occupant { number, occupant: found });
    let (number, order) = gives_order(&mut side);
    assert_eq!(
        (order.verb, &order.members[..]),
        (GroupVerb::Unmute, &[address("carol").into()][..])
    );
    assert_eq!(changed(&mut side, number), DONE);
    for role in ["none", "moderator"] {
        let stanza = admin("set", &format!("<item role='{role}' {bob}/>"));
        let (_, shown) = done(&mut available(), &stanza, &[Some(ChatFault::UnknownAccount)]);
        assert!(shown.contains("item-not-found"), "{shown}");
    }
}

#[test]
fn affiliations_of_names_are_those_of_the_occupants_that_have_them() {
    let all = "<item affiliation='admin' nick='March Hare'/><item affiliation='none' nick='eve'/>\
               <item affiliation='member' jid='bob@a.example'/>";
    let mut side = available();
    says(&mut side, &admin("set", all));
    for (nick, account) in [("March Hare", "carol"), ("eve", "mallory")] {
        let (number, ask) = asks_room(&mut side);
        assert_eq!(ask, OccupancyAsk::Find(nick.into()));
        let found = Occupant { account: address(account), ..occupant(TWO[1]) };
        told(&mut side, ChatDelivery::Occupant { number, occupant: Arc::new(found) });
    }
    let (number, ask) = asks_room(&mut side);
    assert_eq!(ordered(ask), "admin carol@a.example, none mallory@a.example, member bob@a.example");
    assert_eq!(changed(&mut side, number), DONE);
    // An account that has the name of an occupant who left is somebody else.
    says(&mut side, &admin("set", "<item affiliation='outcast' nick='carol'/>"));
    let (number, _) = asks_room(&mut side);
    assert!(failed(&mut side, number, ChatFault::UnknownAccount).contains("item-not-found"));
    assert!(words(&mut side).is_empty());
}

#[test]
fn a_reason_goes_with_each_order_that_it_is_given_for_and_is_bounded() {
    let item = |what: &str, reason: &str| {
        let reason = format!("<reason>{reason}</reason>");
        admin("set", &format!("<item {what} jid='bob@a.example'>{reason}</item>"))
    };
    let (asked, _) = done(&mut available(), &item("role='none'", "a &lt; b"), &[None]);
    assert_eq!(asked, ["role none bob@a.example a < b"]);
    let longest = "x".repeat(REASON_BYTES_MAX);
    let (asked, _) = done(&mut available(), &item("affiliation='outcast'", &longest), &[None]);
    assert_eq!(asked, [format!("outcast bob@a.example {longest}")]);
    let mut side = available();
    for what in ["role='none'", "affiliation='outcast'"] {
        let shown = says(&mut side, &item(what, &format!("{longest}x")));
        assert!(shown.contains("policy-violation") && words(&mut side).is_empty(), "{shown}");
    }
}

#[test]
fn a_room_is_destroyed_for_a_reason_and_for_another_one() {
    let destroy = |attribute: &str, inner: &str| {
        let destroy = format!("<destroy{attribute}>{inner}</destroy>");
        let query =
            format!("<query xmlns='http://jabber.org/protocol/muc#owner'>{destroy}</query>");
        iq("set", ROOM, &query)
    };
    let long = format!("<reason>{}</reason>", "x".repeat(REASON_BYTES_MAX + 1));
    for (attribute, inner, order) in [
        ("", "", "dissolve"),
        (" jid=''", "<reason>over</reason>", "dissolve over"),
        (" jid='tea@muc.b.example'", "<reason>moved</reason>", "dissolve moved tea@muc.b.example"),
    ] {
        let (asked, shown) = done(&mut available(), &destroy(attribute, inner), &[None]);
        assert_eq!((asked, shown.as_str()), (vec![order.to_owned()], DONE));
    }
    for (attribute, inner, condition) in [
        (" jid='b.example'", "", "jid-malformed"),
        (" jid='@'", "", "jid-malformed"),
        ("", long.as_str(), "policy-violation"),
    ] {
        let mut side = available();
        let shown = says(&mut side, &destroy(attribute, inner));
        assert!(shown.contains(condition) && words(&mut side).is_empty(), "{shown}");
    }
}

#[test]
fn orders_that_are_refused_end_with_the_fault_of_the_book() {
    let remove = admin("set", "<item role='none' nick='bob'/><item role='none' nick='eve'/>");
    let leave = admin("set", "<item affiliation='none' jid='ann@a.example'/>");
    let unregister = iq("set", ROOM, "<query xmlns='jabber:iq:register'><remove/></query>");
    for (stanza, why, condition) in [
        (&remove, ChatFault::Forbidden, "forbidden"),
        (&remove, ChatFault::Outranked, "not-allowed"),
        (&remove, ChatFault::NotMember, "forbidden"),
        (&remove, ChatFault::Busy, "resource-constraint"),
        (&leave, ChatFault::LastOwner, "conflict"),
        (&leave, ChatFault::Outranked, "not-allowed"),
        (&unregister, ChatFault::Forbidden, "conflict"),
    ] {
        let (asked, shown) = done(&mut available(), stanza, &[Some(why)]);
        assert!(shown.contains(condition) && asked.len() == 1, "{why:?}: {shown}");
    }
    let add = admin("set", "<item affiliation='member' jid='bob@a.example'/>");
    for (why, condition) in [
        (ChatFault::UnknownAccount, "item-not-found"),
        (ChatFault::GroupFull, "service-unavailable"),
        (ChatFault::BansFull, "resource-constraint"),
        (ChatFault::InvitationNeeded, "not-acceptable"),
    ] {
        let (_, shown) = done(&mut available(), &add, &[Some(why)]);
        assert!(shown.contains(condition), "{why:?}: {shown}");
    }
    for (items, condition) in [
        ("".to_owned(), "bad-request"),
        ("<item affiliation='member'/>".to_owned(), "bad-request"),
        ("<item jid='bob@a.example'/>".to_owned(), "bad-request"),
        ("<item affiliation='outcast' jid='ann@a.example'/>".to_owned(), "conflict"),
        ("<item affiliation='king' jid='bob@a.example'/>".to_owned(), "bad-request"),
        ("<item affiliation='none' role='none' nick='bob'/>".to_owned(), "bad-request"),
        (
            "<item role='none' nick='bob'/><item affiliation='member' jid='b@a.example'/>".into(),
            "bad-request",
        ),
        ("<item affiliation='member' jid='b b@a.example'/>".to_owned(), "jid-malformed"),
        ("<item affiliation='member' jid='a.example'/>".to_owned(), "item-not-found"),
        ("<item affiliation='none' jid='x@conference.a.example'/>".to_owned(), "item-not-found"),
        ("<item role='none' nick='bob'/>".repeat(65), "policy-violation"),
    ] {
        let mut side = available();
        let shown = says(&mut side, &admin("set", &items));
        assert!(shown.contains(condition) && words(&mut side).is_empty(), "{items}: {shown}");
    }
}

#[test]
fn members_with_an_affiliation_or_a_role_are_listed() {
    let all = [
        ("bob", GroupRole::Owner, false),
        ("carol", GroupRole::Admin, true),
        ("dave", GroupRole::Member, true),
        ("ann", GroupRole::Member, false),
    ];
    let listed = |item: &str, closed| {
        let mut side = available();
        says(&mut side, &admin("get", &format!("<item {item}/>")));
        let (number, _) = asks_for_members(&mut side);
        let shown = told(&mut side, members(number, &all, closed));
        let names = all.iter().map(|(name, ..)| *name);
        let has = |name: &&str| shown.contains(&format!("jid='{name}@a.example' nick='{name}'"));
        names.filter(has).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(listed("affiliation='owner'", false), "bob");
    assert_eq!(listed("affiliation='admin'", false), "carol");
    assert_eq!(listed("affiliation='member'", false), "dave ann");
    let mut side = available();
    says(&mut side, &admin("get", "<item role='moderator'/>"));
    let (number, ask) = asks_room(&mut side);
    assert_eq!(ask, OccupancyAsk::List(RoomRole::Moderator));
    let hare =
        Occupant { nick: "March & Hare".into(), moderates: true, role: None, ..occupant(TWO[1]) };
    let shown =
        told(&mut side, ChatDelivery::Occupants { number, occupants: [Arc::new(hare)].into() });
    let item = "<item affiliation='none' role='moderator' jid='ann@a.example/desk' \
                nick='March &amp; Hare'/>";
    assert!(shown.contains(item), "of occupants, as they are in the room: {shown}");
    let mut side = available();
    says(&mut side, &admin("get", "<item role='visitor'/>"));
    let (number, _) = asks_room(&mut side);
    let long = Occupant { nick: "&".repeat(NICK_BYTES_MAX).into(), ..occupant(TWO[1]) };
    let occupants = std::iter::repeat_n(Arc::new(long), ROLES_LISTED_MAX).collect();
    let shown = told(&mut side, ChatDelivery::Occupants { number, occupants });
    assert!(shown.contains("<policy-violation"), "more than a stanza may have: {shown}");
    let long = "x".repeat(NICK_BYTES_MAX + 1);
    for item in ["role='visitor'", "affiliation='none'"] {
        let item = format!("<item nick='{long}' {item}/>");
        assert!(says(&mut available(), &admin("set", &item)).contains("<item-not-found"), "{item}");
    }
    let mut side = available();
    says(&mut side, &admin("get", "<item affiliation='outcast'/>"));
    let (number, range) = asks_for_members(&mut side);
    assert!(range.banned, "of those who are banned");
    let eve = [("eve@b.example", GroupRole::Member, true)];
    let shown = told(&mut side, members(number, &eve, false));
    assert!(shown.contains("'><item affiliation='outcast' jid='eve@b.example'/></query>"));
    says(&mut side, &admin("get", "<item affiliation='outcast'/>"));
    let (number, _) = asks_for_members(&mut side);
    let ChatDelivery::Members(mut page) = members(number, &eve, false) else { panic!("a page") };
    page.members[0].reason = Some("a & b".into());
    let shown = told(&mut side, ChatDelivery::Members(page));
    let item = "<item affiliation='outcast' jid='eve@b.example'><reason>a &amp; b</reason></item>";
    assert!(shown.contains(item), "{shown}");
    for (item, condition) in [("<item/>", "bad-request"), ("", "bad-request")] {
        assert!(says(&mut available(), &admin("get", item)).contains(condition));
    }
    let mut side = available();
    says(&mut side, &admin("get", "<item affiliation='owner'/>"));
    let (number, _) = asks_for_members(&mut side);
    assert!(failed(&mut side, number, ChatFault::NotMember).contains("forbidden"));
}

#[test]
fn all_who_are_banned_are_listed_and_their_reasons_as_far_as_they_have_room() {
    let mut side = available();
    says(&mut side, &admin("get", "<item affiliation='outcast'/>"));
    let mut shown = String::new();
    for from in (0..1_000).step_by(250) {
        assert_eq!(shown, "");
        let (number, range) = asks_for_members(&mut side);
        assert_eq!(range.from, from);
        let eve = [("eve@b.example", GroupRole::Member, true)];
        let ChatDelivery::Members(mut page) = members(number, &eve, false) else {
            panic!("a page")
        };
        (page.total, page.from) = (1_000, from);
        page.members[0].reason = Some("'".repeat(REASON_BYTES_MAX).into());
        page.members = vec![page.members[0].clone(); 250];
        shown = told(&mut side, ChatDelivery::Members(page));
    }
    assert_eq!(shown.matches("<item affiliation='outcast'").count(), 1_000);
    let (reasons, bytes) = (shown.matches("<reason>").count(), shown.len());
    assert!(reasons > 0 && bytes < 256 * 1024, "{reasons} reasons, {bytes} bytes");
}

#[test]
fn a_list_that_is_too_long_is_refused() {
    let mut side = available();
    says(&mut side, &admin("get", "<item affiliation='member'/>"));
    let mut shown = String::new();
    for from in (0..1_025).step_by(256) {
        assert_eq!(shown, "");
        let (number, range) = asks_for_members(&mut side);
        assert_eq!(range.from, from);
        let one = |n: u32| MemberStatus {
            member: GroupMember {
                address: address(&format!("m{n}")),
                id: model::account::AccountId(1),
            },
            role: GroupRole::Member,
            muted: false,
            reason: None,
        };
        shown = told(
            &mut side,
            ChatDelivery::Members(Box::new(MembersPage {
                number,
                group: address(ROOM),
                version: 7,
                title: "".into(),
                closed: false,
                description: Box::default(),
                unlocked: false,
                public: false,
                temporary: false,
                protected: false,
                rules: RoomRules::default(),
                occupants: 0,
                own: None,
                total: 1_025,
                from,
                members: (from..1_025.min(from + 256)).map(one).collect(),
            })),
        );
    }
    assert!(shown.contains("policy-violation"), "{shown}");
}

#[test]
fn subjects_invitations_and_declines_are_orders_that_are_answered_if_refused() {
    let message = |kind: &str, inner: &str| {
        format!("<message id='q' {kind} to='lunch@conference.a.example'>{inner}</message>")
    };
    let group = "type='groupchat'";
    let x = |inner: &str| format!("<x xmlns='http://jabber.org/protocol/muc#user'>{inner}</x>");
    let subject = message(group, "<subject>dinner</subject>");
    let (asked, shown) = done(&mut inside(), &subject, &[None]);
    assert_eq!((asked, shown), (vec!["rename dinner".to_owned()], String::new()));
    let with_empty = message(group, "<subject>dinner</subject><body/>");
    let (asked, _) = done(&mut inside(), &with_empty, &[None]);
    assert_eq!(asked, ["rename dinner"], "no text is none");
    let (_, shown) = done(&mut inside(), &subject, &[Some(ChatFault::Forbidden)]);
    assert!(shown.starts_with("<message type='error' id='q'") && shown.contains("forbidden"));
    let two =
        x("<invite to='bob@a.example'><reason>hi</reason></invite><invite to='eve@a.example/x'/>");
    let (asked, shown) = done(&mut available(), &message("", &two), &[None, None]);
    assert_eq!(asked, ["add hi bob@a.example", "add eve@a.example"], "those of one reason at once");
    assert_eq!(shown, "");
    let both = x("<invite to='bob@a.example'/><invite to='eve@a.example/x'/>");
    let (asked, _) = done(&mut available(), &message("", &both), &[None]);
    assert_eq!(asked, ["add bob@a.example eve@a.example"]);
    // Whoever had invited is named with the order to leave.
    for (inviter, reason, order) in [
        ("", "", "leave"),
        ("to='bob@a.example'", "", "leave bob@a.example"),
        ("to='eve@b.example/x'", "<reason>no time</reason>", "leave no time eve@b.example"),
        ("to='lunch@conference.a.example/bob'", "", "leave bob@a.example"),
        ("to='lunch@conference.a.example'", "", "leave"),
        ("to='other@conference.a.example/bob'", "", "leave"),
    ] {
        let decline = message("", &x(&format!("<decline {inviter}>{reason}</decline>")));
        let (asked, _) = done(&mut available(), &decline, &[None]);
        assert_eq!(asked, [order]);
    }
    let decline = message("", &x("<decline to='bob@a.example'/>"));
    let (_, shown) = done(&mut available(), &decline, &[Some(ChatFault::NotMember)]);
    assert!(shown.contains("<forbidden"), "a second time there is nothing to decline: {shown}");
    let long = format!("<reason>{}</reason>", "x".repeat(REASON_BYTES_MAX + 1));
    for (inner, condition) in [
        (String::new(), "bad-request"),
        ("<invite/>".to_owned(), "jid-malformed"),
        ("<invite to='a.example'/>".to_owned(), "jid-malformed"),
        ("<invite to='bob@a.example'/>".repeat(65), "policy-violation"),
        (format!("<invite to='bob@a.example'>{long}</invite>"), "policy-violation"),
        (format!("<decline>{long}</decline>"), "policy-violation"),
        ("<decline to='@'/>".to_owned(), "jid-malformed"),
    ] {
        let mut side = available();
        let shown = says(&mut side, &message("", &x(&inner)));
        assert!(shown.contains(condition) && words(&mut side).is_empty(), "{shown}");
    }
}

const ALL_ROLES: &str = "moderator</value><value>participant</value><value>visitor";

#[test]
fn a_room_is_configured_as_far_as_a_group_can_be() {
    let owner = |kind: &str, inner: &str| {
        let query = format!("<query xmlns='http://jabber.org/protocol/muc#owner'>{inner}</query>");
        iq(kind, ROOM, &query)
    };
    let form = |fields: &[(&str, &str)]| {
        let field = |(name, value): &(&str, &str)| {
            format!("<field var='muc#roomconfig_{name}'><value>{value}</value></field>")
        };
        let fields: String = fields.iter().map(field).collect();
        owner("set", &format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>"))
    };
    let long = "x".repeat(GROUP_TITLE_BYTES_MAX + 1);
    let secret = "x".repeat(ROOM_PASSWORD_BYTES_MAX + 1);
    let mut side = available();
    says(&mut side, &owner("get", ""));
    let (number, range) = asks_for_members(&mut side);
    assert_eq!(range.count, 1);
    let owner_alone = [("ann", GroupRole::Owner, false)];
    let shown = told(&mut side, members(number, &owner_alone, true));
    for (name, value) in
        [("roomname", "Lunch &amp; co"), ("moderatedroom", "1"), ("changesubject", "0")]
    {
        let field = format!("var='muc#roomconfig_{name}'");
        let (_, rest) = shown.split_once(&field).expect("a field");
        let (value_of, _) = rest.split_once("</value>").expect("a value");
        assert!(value_of.ends_with(&format!("<value>{value}")), "{name}: {value_of}");
    }
    assert!(!shown.contains("whois"), "clients choose a value that is refused");
    assert!(shown.contains("<field label='Name' var='muc#roomconfig_roomname'"), "{shown}");
    for (fields, expected) in [
        (vec![], ""),
        (vec![("whois", "anyone")], ""),
        (
            vec![("roomsecret", ""), ("maxusers", "none"), ("allowpm", "moderators")],
            "[occupants-max 0] [private-messages moderators] [password ]",
        ),
        (vec![("roomsecret", "sesame")], "[password sesame]"),
        (vec![("passwordprotectedroom", "1"), ("roomsecret", "a b")], "[password a b]"),
        (vec![("roomsecret", "sesame"), ("passwordprotectedroom", "0")], "[password ]"),
        (
            vec![("maxusers", "12"), ("allowinvites", "1"), ("changesubject", "1")],
            "[occupants-max 12] [members-invite 1] [open-subject 1]",
        ),
        (vec![("getmemberlist", ALL_ROLES), ("presencebroadcast", ALL_ROLES)], ""),
        (vec![("allowpm", "")], ""),
        (
            vec![("roomname", "Lunch &amp; co"), ("moderatedroom", "0")],
            "title=Lunch & co closed=false",
        ),
        (
            vec![("membersonly", "0"), ("roomdesc", "Soup"), ("publicroom", "1")],
            "description=Soup unlocked=true public=true",
        ),
        (
            vec![("roomname", "x"), ("persistentroom", "0"), ("membersonly", "true")],
            "title=x unlocked=false temporary=true",
        ),
    ] {
        for answer in [None, Some(ChatFault::Unchanged)] {
            let (asked, shown) = done(&mut available(), &form(&fields), &[answer]);
            assert_eq!((asked[0].as_str(), shown.as_str()), (expected, DONE), "as a whole");
        }
    }
    let (_, shown) =
        done(&mut available(), &form(&[("roomname", &long)]), &[Some(ChatFault::TooLarge)]);
    assert!(shown.contains("policy-violation"), "{shown}");
    for (fields, condition) in [
        (vec![("enablearchiving", "0")], "not-acceptable"),
        (vec![("persistentroom", "never")], "bad-request"),
        (vec![("membersonly", "0"), ("membersonly", "1")], "bad-request"),
        (vec![("membersonly", "king")], "bad-request"),
        (vec![("publicroom", "1"), ("publicroom", "1")], "bad-request"),
        (vec![("whois", "moderators")], "not-acceptable"),
        (vec![("passwordprotectedroom", "1")], "not-acceptable"),
        (vec![("passwordprotectedroom", "1"), ("roomsecret", "")], "not-acceptable"),
        (vec![("roomsecret", &secret)], "not-acceptable"),
        (vec![("roomsecret", "a"), ("roomsecret", "b")], "bad-request"),
        (vec![("allowpm", "friends")], "not-acceptable"),
        (vec![("maxusers", "few")], "bad-request"),
        (vec![("presencebroadcast", "moderator")], "not-acceptable"),
        (vec![("presencebroadcast", "moderator</value><value>participant")], "not-acceptable"),
        (vec![("getmemberlist", "participant")], "not-acceptable"),
        (vec![("roomowners", "bob@a.example")], "not-acceptable"),
        (vec![("changesubject", "perhaps")], "bad-request"),
        (vec![("moderatedroom", "perhaps")], "bad-request"),
    ] {
        let mut side = available();
        assert!(says(&mut side, &form(&fields)).contains(condition), "{fields:?}");
        assert!(words(&mut side).is_empty());
    }
    assert!(says(&mut available(), &owner("set", "")).contains("bad-request"));
    let (asked, shown) = done(&mut available(), &owner("set", "<destroy/>"), &[None]);
    assert_eq!((asked, shown.as_str()), (vec!["dissolve".to_owned()], DONE));
    let register = "<query xmlns='jabber:iq:register'><remove/></query>";
    let (asked, shown) = done(&mut available(), &iq("set", ROOM, register), &[None]);
    assert_eq!((asked, shown.as_str()), (vec!["leave".to_owned()], DONE));
}

#[test]
fn that_the_configuration_has_changed_is_shown_once_and_before_the_result() {
    const CONFIGURED: &str = "<status code='104'/>";
    let form = "<query xmlns='http://jabber.org/protocol/muc#owner'>\
        <x xmlns='jabber:x:data' type='submit'/></query>";
    let changes = [(GroupVerb::Unlock, ""), (GroupVerb::Rename, "Tea"), (GroupVerb::Reveal, "")];
    let changes =
        changes.map(|(verb, title)| GroupChange { verb, title: title.into(), members: Vec::new() });
    let content = GroupChange::content_of(&changes);
    let answer = |seq, again| {
        move |number| {
            let group = address(ROOM);
            ChatDelivery::Changed(Box::new(GroupChanged {
                number,
                group,
                id: 5,
                seq,
                at_ms: 9,
                again,
            }))
        }
    };
    let mut side = inside();
    says(&mut side, &iq("set", ROOM, form));
    let (number, _) = asks_room(&mut side);
    let shown = stanzas(&told(&mut side, answer(5, false)(number)));
    assert!(shown.len() == 2 && shown[0].contains(CONFIGURED) && shown[1] == DONE, "{shown:?}");
    let shown = comes(&mut side, 13, said("ann", 5, content.clone()));
    assert!(shown.contains("<subject>Tea</subject>") && !shown.contains(CONFIGURED), "{shown}");
    let shown = comes(&mut side, 14, said("bob", 6, content.clone()));
    assert_eq!(shown.matches(CONFIGURED).count(), 1, "another one's: {shown}");
    // The change comes first.
    says(&mut side, &iq("set", ROOM, form));
    let (number, _) = asks_room(&mut side);
    assert!(comes(&mut side, 15, said("ann", 7, content)).contains(CONFIGURED));
    assert_eq!(told(&mut side, answer(7, false)(number)), DONE);
    says(&mut side, &iq("set", ROOM, form));
    let (number, _) = asks_room(&mut side);
    assert_eq!(told(&mut side, answer(8, true)(number)), DONE, "it was so before");
}

#[test]
fn the_form_of_a_room_is_for_its_owners() {
    let get = iq("get", ROOM, "<query xmlns='http://jabber.org/protocol/muc#owner'/>");
    for (role, is_shown) in [(GroupRole::Owner, true), (GroupRole::Admin, false)] {
        let mut side = available();
        says(&mut side, &get);
        let (number, _) = asks_for_members(&mut side);
        let all = [("bob", GroupRole::Owner, false), ("ann", role, false)];
        let shown = told(&mut side, members(number, &all, false));
        assert_eq!((shown.contains("<field"), shown.contains("<forbidden")), (is_shown, !is_shown));
    }
}

#[test]
fn a_temporary_room_says_that_it_is_and_becomes_persistent_by_its_form() {
    const INFO: &str = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    let temporary = |number| {
        let ChatDelivery::Members(page) = members(number, &TWO, false) else { panic!("a page") };
        ChatDelivery::Members(Box::new(MembersPage { temporary: true, ..*page }))
    };
    let mut side = available();
    says(&mut side, &iq("get", ROOM, INFO));
    let (number, _) = asks_for_members(&mut side);
    let shown = told(&mut side, temporary(number));
    assert!(shown.contains("'muc_temporary'") && !shown.contains("'muc_persistent'"), "{shown}");
}

#[test]
fn rules_of_a_room_are_shown_in_its_description_and_its_password_in_the_form_alone() {
    let rules = RoomRules {
        password: "ses<me".into(),
        occupants_max: 7,
        open_subject: true,
        whispers: Whispers::Nobody,
        ..RoomRules::default()
    };
    let page = |number| {
        let all = [("ann", GroupRole::Owner, false)];
        let ChatDelivery::Members(page) = members(number, &all, false) else { panic!("a page") };
        let rules = rules.clone();
        ChatDelivery::Members(Box::new(MembersPage { protected: true, rules, ..*page }))
    };
    let value = |shown: &str, name: &str| {
        let (_, rest) = shown.split_once(&format!("var='muc#roomconfig_{name}'"))?;
        let (_, rest) = rest.split_once("<value>")?;
        Some(rest.split_once("</value>")?.0.to_owned())
    };
    let mut side = available();
    says(&mut side, &iq("get", ROOM, "<query xmlns='http://jabber.org/protocol/disco#info'/>"));
    let (number, _) = asks_for_members(&mut side);
    let shown = told(&mut side, page(number));
    assert!(shown.contains("'muc_passwordprotected'") && !shown.contains("muc_unsecured"));
    assert_eq!(value(&shown, "maxusers").as_deref(), Some("7"));
    assert_eq!(value(&shown, "changesubject").as_deref(), Some("1"));
    assert_eq!(value(&shown, "allowpm").as_deref(), Some("none"));
    assert!(!shown.contains("ses"), "{shown}");
    says(&mut side, &iq("get", ROOM, "<query xmlns='http://jabber.org/protocol/muc#owner'/>"));
    let (number, _) = asks_for_members(&mut side);
    let shown = told(&mut side, page(number));
    assert_eq!(value(&shown, "roomsecret").as_deref(), Some("ses&lt;me"));
    assert_eq!(value(&shown, "passwordprotectedroom").as_deref(), Some("1"));
    assert_eq!(value(&shown, "maxusers").as_deref(), Some("7"));
    assert!(shown.contains("<option><value>7</value></option>"), "{shown}");
}

#[test]
fn the_service_and_its_rooms_say_what_they_are_to_members() {
    const INFO: &str = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    let shown = says(&mut available(), &iq("get", "conference.a.example", INFO));
    assert!(shown.contains("<identity category='conference' type='text' name='Rooms'/>"));
    assert!(shown.contains("<feature var='http://jabber.org/protocol/muc'/>"), "{shown}");
    let mut side = available();
    says(&mut side, &iq("get", ROOM, INFO));
    let (number, _) = asks_for_members(&mut side);
    let shown = told(&mut side, members(number, &TWO, true));
    assert!(shown.contains("type='text' name='Lunch &amp; co'/>"));
    for feature in
        ["muc_membersonly", "muc_persistent", "muc_nonanonymous", "muc_moderated", "muc_hidden"]
    {
        assert!(shown.contains(&format!("<feature var='{feature}'/>")), "{feature}: {shown}");
    }
    assert!(shown.contains("<value>2</value>"), "occupants: {shown}");
    says(&mut side, &iq("get", ROOM, INFO));
    let (number, _) = asks_for_members(&mut side);
    assert!(failed(&mut side, number, ChatFault::NotMember).contains("item-not-found"));
    let nick = INFO.replace("/>", " node='x-roomuser-item'/>");
    assert!(says(&mut side, &iq("get", ROOM, &nick)).contains("name='ann'"));
    for inner in [INFO.replace("/>", " node='y'/>"), INFO.replace("#info'/>", "#items' node='y'/>")]
    {
        assert!(says(&mut side, &iq("get", ROOM, &inner)).contains("item-not-found"));
        assert!(says(&mut side, &iq("get", "conference.a.example", &inner)).contains("item-not-"));
    }
    assert!(says(&mut side, &iq("get", ROOM, "<x xmlns='y'/>")).contains("service-unavailable"));
}

#[test]
fn whoever_pings_itself_hears_whether_it_is_in_the_room() {
    let ping = |side: &mut Side, nick: &str| {
        let to = format!("lunch@conference.a.example/{nick}");
        says(side, &iq("get", &to, "<ping xmlns='urn:xmpp:ping'/>"))
    };
    assert!(ping(&mut inside(), "ann").starts_with("<iq type='result' id='q'"));
    for nick in ["ann", "bob"] {
        assert!(ping(&mut available(), nick).contains("not-acceptable"));
    }
}
