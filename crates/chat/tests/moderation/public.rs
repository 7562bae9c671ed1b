//! Public groups, which any account finds in the list of a domain.

use crate::errands::fault;
use crate::house::{Device, House};
use model::account::Addressee;
use model::chat::*;
use model::ports::chat::ErrandWhat;
use model::ports::log::{Call, Table, Write};

const A: &str = "conference.a.example";
const B: &str = "conference.b.example";

fn to(text: &str) -> Addressee {
    Addressee::parse(text).expect("right")
}

fn order(verb: GroupVerb, group: &str, id: u8, title: &str) -> Box<GroupOrder> {
    let (group, client_id, title) = (Some(to(group)), ClientMessageId([id; 16]), title.into());
    Box::new(GroupOrder { group, client_id, verb, title, members: vec![] })
}

/// Changes a group, each time with another id.
fn changes(
    house: &mut House,
    by: &str,
    verb: GroupVerb,
    group: &str,
    title: &str,
) -> Option<ChatFault> {
    house.pass_ms(1);
    let id = house.now.wall_ms as u8;
    match house.errand(by, false, ErrandWhat::Group(order(verb, group, id, title))) {
        ChatDelivery::Changed(_) => None,
        told => Some(fault(told)),
    }
}

/// A page of the list of a domain: names and titles.
fn listed(house: &mut House, range: PublicRange) -> Vec<(String, String)> {
    match house.errand("carol", false, ErrandWhat::PublicGroups(Box::new(range))) {
        ChatDelivery::PublicGroups(page) => page
            .groups
            .iter()
            .map(|it| (it.group.name().to_owned(), it.title.to_string()))
            .collect(),
        other => panic!("{other:?}"),
    }
}

fn names(house: &mut House, domain: &str) -> String {
    let (domain, from, backwards, count) = (domain.into(), None, false, PUBLIC_PAGE_MAX);
    let all = listed(house, PublicRange { domain, from, backwards, count });
    all.into_iter().map(|(name, _)| name).collect()
}

/// The description of a group that an account gets.
fn look(house: &mut House, by: &str, group: &str) -> Result<Box<MembersPage>, ChatFault> {
    let (version, from, count, banned) = (0, 0, 9, false);
    let range = MembersRange { group: to(group), version, from, count, banned };
    match house.errand(by, false, ErrandWhat::Members(Box::new(range))) {
        ChatDelivery::Members(page) => Ok(page),
        told => Err(fault(told)),
    }
}

/// Groups of Ann with these names, and one of another domain's Eve.
fn groups(mut house: House, all: &[&str]) -> (House, Device) {
    let ann = house.login("ann");
    for name in ["bob", "carol", "eve@b.example"] {
        house.login(name);
    }
    for name in all {
        let group = format!("{name}@{A}");
        assert_eq!(
            changes(&mut house, "ann", GroupVerb::Create, &group, &name.to_uppercase()),
            None
        );
    }
    let group = format!("d@{B}");
    assert_eq!(changes(&mut house, "eve@b.example", GroupVerb::Create, &group, "D"), None);
    (house, ann)
}

#[test]
fn a_group_under_the_name_of_one_that_was_public_is_hidden() {
    for shards in [1, 3] {
        let (mut house, _) = groups(House::new(shards), &["a", "b"]);
        let [a, b] = ["a", "b"].map(|name| format!("{name}@{A}"));
        for group in [&a, &b] {
            assert_eq!(changes(&mut house, "ann", GroupVerb::Reveal, group, ""), None);
            assert_eq!(changes(&mut house, "ann", GroupVerb::Dissolve, group, ""), None);
            assert_eq!(changes(&mut house, "bob", GroupVerb::Create, group, "Bob's"), None);
        }
        assert_eq!(changes(&mut house, "bob", GroupVerb::Reveal, &b, ""), None);
        for _ in 0..2 {
            assert_eq!(names(&mut house, A), "b");
            assert_eq!(look(&mut house, "carol", &a), Err(ChatFault::NotMember));
            assert_eq!(&*look(&mut house, "carol", &b).expect("public").title, "Bob's");
            house.restart();
        }
    }
}

#[test]
fn a_public_group_is_in_the_list_of_its_domain_until_it_is_hidden_or_dissolved() {
    for shards in [1, 3] {
        let (mut house, _) = groups(House::new(shards), &["c", "a", "b", "e"]);
        assert_eq!(names(&mut house, A), "");
        let [a, b, c, e] = ["a", "b", "c", "e"].map(|name| format!("{name}@{A}"));
        for (by, group) in [("ann", &a), ("ann", &b), ("ann", &c), ("ann", &e)] {
            assert_eq!(changes(&mut house, by, GroupVerb::Reveal, group, ""), None);
        }
        let again = changes(&mut house, "ann", GroupVerb::Reveal, &a, "");
        assert_eq!(again, Some(ChatFault::Unchanged));
        let of_eve = format!("d@{B}");
        assert_eq!(changes(&mut house, "eve@b.example", GroupVerb::Reveal, &of_eve, ""), None);
        let stranger = changes(&mut house, "bob", GroupVerb::Hide, &a, "");
        assert_eq!(stranger, Some(ChatFault::NotMember));
        assert_eq!(changes(&mut house, "ann", GroupVerb::Rename, &b, "Yard"), None);
        for _ in 0..2 {
            assert_eq!((names(&mut house, A), names(&mut house, B)), ("abce".into(), "d".into()));
            let part = |from: Option<&str>, backwards| {
                let (domain, from) = (A.into(), from.map(Into::into));
                PublicRange { domain, from, backwards, count: 2 }
            };
            let two = |one: (&str, &str), other: (&str, &str)| {
                [one, other].map(|(name, title)| (name.to_owned(), title.to_owned())).to_vec()
            };
            let begin = listed(&mut house, part(None, false));
            assert_eq!(begin, two(("a", "A"), ("b", "Yard")));
            assert_eq!(listed(&mut house, part(Some("b"), false)), two(("c", "C"), ("e", "E")));
            assert_eq!(listed(&mut house, part(None, true)), two(("c", "C"), ("e", "E")));
            assert_eq!(listed(&mut house, part(Some("c"), true)), begin);
            // Any account gets the description, but not the members; the group is locked all the
            // same.
            let page = look(&mut house, "carol", &b).expect("it is public");
            assert_eq!((page.public, page.unlocked, page.members.len()), (true, false, 0));
            assert_eq!((&*page.title, page.total), ("Yard", 1));
            let joins = changes(&mut house, "carol", GroupVerb::Join, &b, "");
            assert_eq!(joins, Some(ChatFault::NotMember));
            house.restart();
            for name in ["ann", "bob", "carol"] {
                house.login(name);
            }
        }
        assert_eq!(changes(&mut house, "ann", GroupVerb::Hide, &a, ""), None);
        let again = changes(&mut house, "ann", GroupVerb::Hide, &a, "");
        assert_eq!(again, Some(ChatFault::Unchanged));
        assert_eq!(changes(&mut house, "ann", GroupVerb::Unlock, &b, ""), None);
        assert_eq!(changes(&mut house, "ann", GroupVerb::Dissolve, &b, ""), None);
        for _ in 0..2 {
            assert_eq!(names(&mut house, A), "ce");
            for gone in [&a, &b] {
                assert_eq!(look(&mut house, "carol", gone), Err(ChatFault::NotMember), "{gone}");
            }
            assert_eq!(names(&mut house, A), "ce", "they were looked at");
            house.restart();
            house.login("carol");
        }
    }
}

#[test]
fn a_shard_has_so_many_public_groups_and_no_more_and_channels_are_in_no_list() {
    let house = House::with(1, None, |limits| limits.public_groups_max = 1);
    let (mut house, _) = groups(house, &["a", "b"]);
    let [a, b] = ["a", "b"].map(|name| format!("{name}@{A}"));
    assert_eq!(changes(&mut house, "ann", GroupVerb::Reveal, &a, ""), None);
    let full = changes(&mut house, "ann", GroupVerb::Reveal, &b, "");
    assert_eq!(full, Some(ChatFault::PublicFull));
    assert_eq!(changes(&mut house, "ann", GroupVerb::Hide, &a, ""), None);
    assert_eq!(changes(&mut house, "ann", GroupVerb::Reveal, &b, ""), None);
    assert_eq!(names(&mut house, A), "b");
    let channel = "news@channel.a.example";
    assert_eq!(changes(&mut house, "ann", GroupVerb::Create, channel, "News"), None);
    assert_eq!(changes(&mut house, "ann", GroupVerb::Hide, &b, ""), None);
    let revealed = changes(&mut house, "ann", GroupVerb::Reveal, channel, "");
    assert_eq!(revealed, Some(ChatFault::Invalid));
}

#[test]
fn what_was_not_answered_before_a_crash_is_put_right_when_the_group_is_read() {
    for (verb, is_row, then, at_last) in [
        (GroupVerb::Reveal, true, "a", ""),
        (GroupVerb::Reveal, false, "", ""),
        (GroupVerb::Hide, true, "", "a"),
        (GroupVerb::Hide, false, "a", "a"),
    ] {
        let (mut house, ann) = groups(House::new(1), &["a"]);
        let a = format!("a@{A}");
        if verb == GroupVerb::Hide {
            assert_eq!(changes(&mut house, "ann", GroupVerb::Reveal, &a, ""), None);
        }
        let (session, number, order) = (ann.session, 9, order(verb, &a, 255, ""));
        let (n, calls) = house.asks_slow_log(ann, ChatRequest::Group { session, number, order });
        let is_of_row = |call: &Call| match call {
            Call::Write(Write::Put { table, .. } | Write::Delete { table, .. }) => {
                *table == Table::ChatPublic
            }
            _ => false,
        };
        assert!(calls.len() == 1 && is_of_row(&calls[0].1), "the row goes first: {calls:?}");
        house.log_keeps((n, calls.into_iter().take(usize::from(is_row)).collect()));
        house.login("carol");
        assert_eq!(names(&mut house, A), then, "{verb:?} {is_row}");
        let is_told = look(&mut house, "carol", &a).is_ok();
        assert_eq!(is_told, verb == GroupVerb::Hide, "as was stored");
        assert_eq!(names(&mut house, A), at_last, "{verb:?} {is_row}");
        house.restart();
        house.login("carol");
        assert_eq!(names(&mut house, A), at_last, "{verb:?} {is_row}");
    }
}

#[test]
fn what_the_list_cannot_lose_is_not_answered_as_hidden_or_dissolved() {
    for verb in [GroupVerb::Hide, GroupVerb::Dissolve] {
        let (mut house, _) = groups(House::new(1), &["a"]);
        let a = format!("a@{A}");
        assert_eq!(changes(&mut house, "ann", GroupVerb::Reveal, &a, ""), None);
        house.refuses = Some(Table::ChatPublic);
        assert_eq!(changes(&mut house, "ann", verb, &a, ""), Some(ChatFault::Busy), "{verb:?}");
        assert_eq!(names(&mut house, A), "a");
        house.refuses = None;
        for expected in ["a", ""] {
            house.restart();
            for name in ["ann", "carol"] {
                house.login(name);
            }
            assert_eq!(names(&mut house, A), expected, "{verb:?}");
            let told = look(&mut house, "carol", &a).is_ok();
            assert_eq!(told, expected == "a", "{verb:?}: the list says what the group is");
            if told {
                assert_eq!(changes(&mut house, "ann", verb, &a, ""), None);
            }
        }
    }
}
