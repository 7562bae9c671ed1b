//! Search, step by step: results, and where the next page continues.

use crate::world::{World, person};
use model::chat::{ChatFault, GroupVerb, SearchRange};
use model::timeline::Seq;

const ANN: usize = 0;
const BOB: usize = 2;
const CAROL: usize = 4;

fn world(shards: u16) -> World {
    let mut world = World::new(11, shards);
    for at in [ANN, BOB, CAROL] {
        world.connect(at);
        world.rest();
    }
    world
}

fn range(text: &str) -> SearchRange {
    SearchRange {
        text: text.into(),
        with: None,
        from: None,
        since_ms: 0,
        until_ms: u64::MAX,
        before: Seq::MAX,
        count: 5,
    }
}

/// Texts of all results, page by page.
fn all(world: &mut World, at: usize, range: &SearchRange) -> Vec<String> {
    let (mut range, mut found) = (range.clone(), Vec::new());
    for _ in 0..100 {
        let page = world.searches(at, range.clone()).expect("it is read");
        found.extend(page.found.iter().map(|(_, it)| it.content.text.to_string()));
        if !page.more {
            return found;
        }
        assert!(page.before < range.before, "it gets on");
        range.before = page.before;
    }
    panic!("it goes on for ever");
}

#[test]
fn texts_are_found_in_whichever_case_and_script_the_newest_first() {
    for shards in 1..=4 {
        let mut world = world(shards);
        for text in ["Lunch at NOON", "今天下午三点开会", "Straße", "nothing", "lunch again"]
        {
            world.says(ANN, 1, text).expect("sent");
        }
        world.says(CAROL, 1, "a lunch by carol").expect("sent");
        world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
        let group = world.groups()[0].clone();
        world.says_to(ANN, &group, "lunch for all").expect("sent");
        let found = |world: &mut World, range: &SearchRange| all(world, BOB, range);
        let lunch = ["lunch for all", "a lunch by carol", "lunch again", "Lunch at NOON"];
        assert_eq!(found(&mut world, &range("LUNCH")), lunch);
        assert_eq!(found(&mut world, &range("下午")), ["今天下午三点开会"]);
        assert_eq!(found(&mut world, &range("STRASSE")), ["Straße"]);
        assert!(found(&mut world, &range("明天")).is_empty());
        let with = SearchRange { with: Some(person(2).into()), ..range("lunch") };
        assert_eq!(found(&mut world, &with), ["a lunch by carol"]);
        let from = SearchRange { from: Some(person(0).into()), ..range("lunch") };
        assert_eq!(found(&mut world, &from), [lunch[0], lunch[2], lunch[3]]);
        let one = SearchRange { count: 1, ..range("lunch") };
        assert_eq!(found(&mut world, &one), lunch, "page by page");
        assert_eq!(all(&mut world, CAROL, &range("lunch")), ["a lunch by carol"], "her own alone");
        let later = SearchRange { since_ms: u64::MAX / 2, ..range("lunch") };
        assert!(found(&mut world, &later).is_empty());
        let before = SearchRange { until_ms: 1, ..range("lunch") };
        assert!(found(&mut world, &before).is_empty());
    }
}

#[test]
fn what_was_edited_is_found_as_it_is_now_and_what_was_called_back_is_not() {
    for shards in 1..=4 {
        let (mut world, bob) = (world(shards), person(1));
        world.says(ANN, 1, "an old word").expect("sent");
        world.says(ANN, 1, "a secret word").expect("sent");
        world.texts(BOB);
        let old = world.has(BOB)[0].clone();
        assert_eq!(world.edits(ANN, &bob, (&old, "a new word")), Ok(()));
        assert_eq!(world.recalls(ANN, &bob, 2), Ok(()));
        assert_eq!(all(&mut world, BOB, &range("word")), ["a new word"]);
        assert!(all(&mut world, BOB, &range("old")).is_empty());
    }
}

#[test]
fn however_much_there_is_a_search_looks_at_so_much_and_says_where_it_goes_on() {
    let mut world = world(2);
    for n in 0..300 {
        let text = if n % 100 == 0 { format!("needle {n}") } else { format!("hay {n}") };
        world.says(ANN, 1, &text).expect("sent");
    }
    let page = world.searches(BOB, range("needle")).expect("it is read");
    assert!(page.more && page.found.len() == 1, "the limit of tests is 128 entries: {page:?}");
    assert_eq!(all(&mut world, BOB, &range("needle")), ["needle 200", "needle 100", "needle 0"]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut world = world(1);
    let long = "x".repeat(257);
    assert_eq!(world.searches(BOB, range("")).unwrap_err(), ChatFault::Invalid);
    assert_eq!(world.searches(BOB, range(&long)).unwrap_err(), ChatFault::TooLarge);
    let none = SearchRange { count: 0, ..range("x") };
    assert_eq!(world.searches(BOB, none).unwrap_err(), ChatFault::Invalid);
    assert!(world.searches(BOB, range(&long[1..])).is_ok());
}

#[test]
fn a_page_has_no_more_than_so_many_bytes_and_says_where_it_goes_on() {
    let mut world = world(2);
    for n in 0..6 {
        world.says(ANN, 1, &format!("{n}{}", "x".repeat(65_535))).expect("sent");
    }
    let page = world.searches(BOB, range("xx")).expect("it is read");
    assert!((3..5).contains(&page.found.len()) && page.more, "{}", page.found.len());
    assert_eq!(all(&mut world, BOB, &range("xx")).len(), 6);
}

#[test]
fn without_a_text_all_of_one_conversation_is_found_also_after_the_account_was_removed() {
    for shards in 1..=3 {
        let mut world = world(shards);
        world.says(CAROL, 1, "aside").expect("sent");
        world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
        let group = world.groups()[0].clone();
        for text in ["one", "two"] {
            world.says_to(ANN, &group, text).expect("sent");
        }
        world.orders(ANN, GroupVerb::Remove, Some(&group), &[1]).expect("an owner may");
        world.says_to(ANN, &group, "behind his back").expect("sent");
        let of_group = SearchRange { with: Some(group.into()), ..range("") };
        assert_eq!(
            all(&mut world, BOB, &of_group),
            ["title 4", "two", "one", "title 1"],
            "changes, too"
        );
        let page = world.searches(BOB, of_group).expect("it is read");
        assert!(page.found[0].1.content.extra.starts_with(b"remove "), "how it ended");
    }
}
