//! The list of the rooms of a service: what is asked for it, in which order it is told, and pages.

use super::super::harness::*;
use super::*;

const PLACE: &str = "conference.a.example";
const RSM: &str = "http://jabber.org/protocol/rsm";

fn lists(to: &str, set: &str) -> String {
    let query = format!("<query xmlns='http://jabber.org/protocol/disco#items'>{set}</query>");
    format!("<iq type='get' id='q' to='{to}'>{query}</iq>")
}

fn part(inner: &str) -> String {
    format!("<set xmlns='{RSM}'>{inner}</set>")
}

/// Answers with some conversations, which must be asked for before this place.
fn own(side: &mut Side, expected: u64, all: &[(u64, &str)], more: bool) -> String {
    let ChatRequest::Conversations { number, before, count: 256, .. } = asks(side) else {
        panic!("conversations")
    };
    assert_eq!(before, expected);
    let conversations = all.iter().map(|(place, with)| conversation(*place, with)).collect();
    let page = ConversationsPage { number, upto: 9, conversations, more };
    told(side, ChatDelivery::Conversations(Box::new(page)))
}

/// Answers with public groups, which must be asked for so: behind or before which name, backwards,
/// how many.
fn public(side: &mut Side, expected: (Option<&str>, bool, u16), names: &[&str]) -> String {
    let ChatRequest::PublicGroups { number, range, .. } = asks(side) else { panic!("public ones") };
    assert_eq!((range.from.as_deref(), range.backwards, range.count), expected);
    assert_eq!(&*range.domain, PLACE);
    let of = |name: &&str| PublicGroup {
        group: address(&format!("{name}@{PLACE}")),
        title: name.to_uppercase().into(),
    };
    let groups = names.iter().map(of).collect();
    told(side, ChatDelivery::PublicGroups(Box::new(PublicPage { number, groups })))
}

/// Items of the list: names and titles.
fn items(shown: &str) -> Vec<(String, String)> {
    let scan = Scan::element(shown.as_bytes()).expect("a stanza");
    let query = scan.root().children().next().expect("a query");
    let items = query.children().filter(|it| it.name() == "item");
    let of = |name: &str, it: &crate::xml::scan::Element<'_, '_>| {
        it.attribute(name).expect("it has one").into_owned()
    };
    items.map(|it| (of("jid", &it).replace("@conference.a.example", ""), of("name", &it))).collect()
}

fn some(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(name, title)| ((*name).to_owned(), (*title).to_owned())).collect()
}

#[test]
fn rooms_that_the_account_is_in_and_public_ones_are_listed_by_their_titles() {
    let mut side = available();
    says(&mut side, &lists(PLACE, ""));
    let gone = "gone@conference.a.example";
    let elsewhere = "x@conference.b.example";
    assert_eq!(own(&mut side, u64::MAX, &[(9, "bob"), (7, ROOM), (6, elsewhere)], true), "");
    assert_eq!(own(&mut side, 6, &[(5, gone), (4, "yard@conference.a.example")], false), "");
    // Of what is public the title is known.
    assert_eq!(public(&mut side, (None, false, 256), &["bar", "yard"]), "");
    let (number, range) = asks_for_members(&mut side);
    assert_eq!((range.group.as_str(), range.count), (gone, 1));
    assert_eq!(failed(&mut side, number, ChatFault::NotMember), "");
    let (number, range) = asks_for_members(&mut side);
    assert_eq!(range.group.as_str(), ROOM);
    assert_eq!(
        told(&mut side, members(number, &TWO, false)),
        "<iq type='result' id='q' from='conference.a.example' to='ann@a.example/desk'>\
         <query xmlns='http://jabber.org/protocol/disco#items'>\
         <item jid='bar@conference.a.example' name='BAR'/>\
         <item jid='lunch@conference.a.example' name='Lunch &amp; co'/>\
         <item jid='yard@conference.a.example' name='YARD'/></query></iq>"
    );
    says(&mut side, &lists(PLACE, ""));
    assert_eq!(own(&mut side, u64::MAX, &[], false), "");
    assert_eq!(items(&public(&mut side, (None, false, 256), &[])), []);
    says(&mut side, &lists(PLACE, ""));
    assert_eq!(own(&mut side, u64::MAX, &[], false), "");
    let ChatRequest::PublicGroups { number, .. } = asks(&mut side) else { panic!("public ones") };
    assert!(failed(&mut side, number, ChatFault::Busy).contains("resource-constraint"));
}

#[test]
fn pages_go_on_behind_the_last_and_before_the_first() {
    let mut side = available();
    let mut page = |set: &str, expected, names: &[&str]| {
        says(&mut side, &lists(PLACE, &part(set)));
        assert_eq!(own(&mut side, u64::MAX, &[(7, ROOM)], false), "");
        let mut shown = public(&mut side, expected, names);
        if shown.is_empty() {
            let (number, range) = asks_for_members(&mut side);
            assert_eq!(range.group.as_str(), ROOM);
            shown = told(&mut side, members(number, &TWO, false));
        }
        shown
    };
    let shown = page("<max>2</max>", (None, false, 2), &["bar", "pub"]);
    assert_eq!(items(&shown), some(&[("bar", "BAR"), ("lunch", "Lunch & co")]));
    let ends = "<first>bar@conference.a.example</first><last>lunch@conference.a.example</last>";
    assert!(shown.contains(&part(ends)), "{shown}");
    let after = |name: &str| format!("<max>2</max><after>{name}@{PLACE}</after>");
    let shown = page(&after("lunch"), (Some("lunch"), false, 2), &["pub", "yard"]);
    assert_eq!(items(&shown), some(&[("pub", "PUB"), ("yard", "YARD")]));
    // It need not be there any more.
    let shown = page(&after("zoo"), (Some("zoo"), false, 2), &[]);
    assert!(items(&shown).is_empty() && shown.contains(&part("")), "{shown}");
    let before = |name: &str| format!("<max>2</max><before>{name}</before>");
    let shown = page(&before(""), (None, true, 2), &["pub", "yard"]);
    assert_eq!(items(&shown), some(&[("pub", "PUB"), ("yard", "YARD")]));
    let shown = page(&before(&format!("pub@{PLACE}")), (Some("pub"), true, 2), &["bar"]);
    assert_eq!(items(&shown), some(&[("bar", "BAR"), ("lunch", "Lunch & co")]));
    let shown = page("<max>9999</max>", (None, false, 256), &["bar"]);
    assert!(shown.contains("<first>bar@") && shown.contains("<last>lunch@"), "{shown}");
}

#[test]
fn a_full_page_says_that_there_may_be_more_also_when_one_of_its_rooms_is_the_accounts_no_more() {
    let mut side = available();
    says(&mut side, &lists(PLACE, ""));
    assert_eq!(own(&mut side, u64::MAX, &[(7, ROOM)], false), "");
    let names: Vec<String> = (0..256).map(|n| format!("z{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(public(&mut side, (None, false, 256), &names), "");
    let (number, _) = asks_for_members(&mut side);
    let shown = failed(&mut side, number, ChatFault::NotMember);
    assert_eq!(items(&shown).len(), 255);
    assert!(shown.contains("<last>z254@conference.a.example</last>"), "{shown}");
}

#[test]
fn places_that_are_none_are_refused_and_ask_nothing() {
    for (set, condition) in [
        ("<after>lunch@conference.b.example</after>", "item-not-found"),
        ("<after>conference.a.example</after>", "item-not-found"),
        ("<before>a b@@</before>", "item-not-found"),
        ("<max>many</max>", "bad-request"),
        ("<index>3</index>", "feature-not-implemented"),
        (
            "<after>a@conference.a.example</after><before>b@conference.a.example</before>",
            "bad-request",
        ),
    ] {
        let mut side = available();
        let shown = says(&mut side, &lists(PLACE, &part(set)));
        assert!(shown.contains(condition) && words(&mut side).is_empty(), "{set}: {shown}");
    }
}

#[test]
fn channels_are_listed_to_those_who_subscribe() {
    let mut side = available();
    says(&mut side, &lists("channel.a.example", ""));
    let all = [(9, ROOM), (7, "news@channel.a.example")];
    assert_eq!(own(&mut side, u64::MAX, &all, false), "");
    let (number, range) = asks_for_members(&mut side);
    assert_eq!(range.group.as_str(), "news@channel.a.example");
    let shown = failed(&mut side, number, ChatFault::Forbidden);
    assert!(shown.contains("<item jid='news@channel.a.example' name='news'/>"), "{shown}");
}

#[test]
fn a_public_room_says_so_to_whoever_asks_and_to_strangers_not_how_it_is_configured() {
    const INFO: &str = "<query xmlns='http://jabber.org/protocol/disco#info'/>";
    const FORM: &str = "<query xmlns='http://jabber.org/protocol/muc#owner'/>";
    for (inner, expected) in [(INFO, "<feature var='muc_public'/>"), (FORM, "<forbidden ")] {
        let mut side = available();
        says(&mut side, &format!("<iq type='get' id='q' to='{ROOM}'>{inner}</iq>"));
        let (number, _) = asks_for_members(&mut side);
        let ChatDelivery::Members(page) = members(number, &[], false) else { panic!("a page") };
        let page = MembersPage { public: true, total: 2, ..*page };
        let shown = told(&mut side, ChatDelivery::Members(Box::new(page)));
        assert!(shown.contains(expected) && !shown.contains("muc_hidden"), "{shown}");
    }
}
