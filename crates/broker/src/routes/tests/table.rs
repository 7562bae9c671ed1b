//! The table against a matcher that looks at every filter, and what a filter costs.

use super::super::pattern::Patterns;
use super::super::table::{FilterRefused, FilterTable, LEVELS_MAX, SUBSCRIPTION_MAX};
use super::super::{RouteSlice, WalkPlace, matches};
use super::measure::{now, resident};
use super::random::Levels;
use base::hash::HashKey;
use base::prng::Prng;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

fn table() -> FilterTable {
    FilterTable::new(HashKey::new(1, 2))
}

fn found(table: &FilterTable, topic: &str) -> Vec<u64> {
    let mut found = Vec::new();
    let (mut place, mut walks) = (WalkPlace::default(), 0);
    loop {
        // Some at a time, as whoever has too many for one turn.
        let mut left = 1 + walks % 3;
        walks += 1;
        let walk = table.each_match(topic, &mut place, &mut |filter| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            let mut from = Some(0);
            while let Some(first) = from {
                let slice = RouteSlice { from: first, most: 2 };
                from = table.each_held(filter, slice, &mut |one| found.push(one));
            }
            ControlFlow::Continue(())
        });
        if walk.is_continue() {
            break;
        }
    }
    assert!(place.is_start());
    found.sort_unstable();
    found
}

/// Inserts a subscription that is new or not, and gives its filter's number.
fn insert(table: &mut FilterTable, filter: &str, one: u64, is_new: bool) -> u32 {
    let (number, was_new) = table.insert(filter, one).expect("room");
    assert_eq!(was_new, is_new, "{filter} {one}");
    number
}

/// The same by looking at every filter.
fn wanted(all: &BTreeMap<String, BTreeSet<u64>>, topic: &str) -> Vec<u64> {
    let matching = all.iter().filter(|(filter, _)| matches(filter, topic));
    let mut wanted: Vec<u64> = matching.flat_map(|(_, held)| held.iter().copied()).collect();
    wanted.sort_unstable();
    wanted
}

const LEVELS: Levels = Levels(&["a", "b", "", "$s", "ab", "\u{e4}"]);

#[test]
fn it_finds_what_looking_at_every_filter_finds() {
    for seed in 0..40 {
        let (mut rng, mut table) = (Prng::new(seed), table());
        let mut all: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
        let many = 1 + rng.below(60);
        for round in 0..400 {
            let (filter, one) = (LEVELS.filter(&mut rng, 3), rng.below(many));
            let held = all.entry(filter.clone()).or_default();
            if rng.one_in(3) || round > 300 {
                assert_eq!(table.remove(&filter, one), held.remove(&one), "{filter}");
            } else {
                let is_new = held.insert(one);
                let number = insert(&mut table, &filter, one, is_new);
                let was = *numbers.entry(filter.clone()).or_insert(number);
                assert_eq!(was, number, "{filter} keeps its number");
            }
            all.retain(|_, held| !held.is_empty());
            numbers.retain(|filter, _| all.contains_key(filter));
            for (filter, &number) in numbers.iter().filter(|_| round % 9 == 0) {
                assert_eq!(table.filter(number), *filter);
                let (first, last) = (all[filter].first(), all[filter].last());
                assert_eq!(table.held(number, 0, SUBSCRIPTION_MAX), first.copied());
                assert_eq!(
                    table.held(number, *last.expect("one"), SUBSCRIPTION_MAX).as_ref(),
                    last
                );
                assert_eq!(table.held(number, last.expect("one") + 1, SUBSCRIPTION_MAX), None);
            }
            let topic = LEVELS.topic(&mut rng);
            assert_eq!(found(&table, &topic), wanted(&all, &topic), "seed {seed}, {topic}");
            assert_eq!(table.filters(), all.len());
            assert_eq!(table.subscriptions(), all.values().map(BTreeSet::len).sum::<usize>());
        }
        let rest: Vec<_> = all.into_iter().collect();
        for (filter, held) in rest {
            assert!(held.iter().all(|&one| table.remove(&filter, one)), "{filter}");
        }
        assert_eq!((table.filters(), table.subscriptions()), (0, 0));
        for _ in 0..20 {
            assert!(found(&table, &LEVELS.topic(&mut rng)).is_empty());
        }
    }
}

#[test]
fn filters_that_share_levels_come_and_go_in_any_order() {
    let filters = ["a/+", "a/+/b", "a/+/b/#", "a/#", "+/#", "#", "a/b", "a/+/+", "+", "a/+/b/c"];
    for rotation in 0..filters.len() {
        let mut table = table();
        let order = || filters.iter().cycle().skip(rotation).take(filters.len());
        for (at, filter) in order().enumerate() {
            insert(&mut table, filter, at as u64, true);
            insert(&mut table, filter, at as u64, false);
        }
        let mut all: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for (at, filter) in order().enumerate() {
            all.insert((*filter).to_owned(), BTreeSet::from([at as u64]));
        }
        for (at, filter) in order().enumerate() {
            for topic in ["a", "a/b", "a/x/b", "a/x/b/c", "a/x/b/c/d", "b", "/", "a/", "$a/b"] {
                assert_eq!(found(&table, topic), wanted(&all, topic), "{topic}");
            }
            assert!(!table.remove(filter, 99), "it is not there");
            assert!(table.remove(filter, at as u64));
            assert!(!table.remove(filter, at as u64), "it has gone");
            all.remove(*filter);
        }
    }
}

#[test]
fn a_filter_of_many_subscriptions_gives_each() {
    let mut table = table();
    for filter in ["a/b", "a/+"] {
        for one in 0..1_000 {
            insert(&mut table, filter, SUBSCRIPTION_MAX - one, true);
        }
    }
    assert_eq!((table.filters(), table.subscriptions()), (2, 2_000));
    assert_eq!(found(&table, "a/b").len(), 2_000);
    for one in 0..1_000 {
        assert!(table.remove("a/b", SUBSCRIPTION_MAX - one));
    }
    assert_eq!(found(&table, "a/b").len(), 1_000);
    assert_eq!((table.filters(), table.subscriptions()), (1, 1_000));
}

#[test]
fn what_goes_leaves_room_for_what_comes() {
    let mut table = table();
    let filters: Vec<String> =
        (0..3_000).map(|n| format!("dev/{n}/{}", ["in", "+", "#"][n % 3])).collect();
    let mut before = 0;
    for round in 0..4 {
        for (at, filter) in filters.iter().enumerate() {
            insert(&mut table, filter, at as u64, true);
        }
        if round > 0 {
            assert_eq!(table.heap_bytes(), before);
        }
        before = table.heap_bytes();
        for (at, filter) in filters.iter().enumerate() {
            assert!(table.remove(filter, at as u64));
        }
    }
}

#[test]
fn filters_too_deep_or_too_long_are_refused() {
    let mut table = table();
    let deepest = vec!["+"; LEVELS_MAX].join("/");
    insert(&mut table, &deepest, 1, true);
    assert_eq!(table.insert(&format!("{deepest}/+"), 1), Err(FilterRefused::TooLong));
    assert_eq!(table.insert(&"x".repeat(65_536), 1), Err(FilterRefused::TooLong));
    insert(&mut table, &"x".repeat(65_535), 1, true);
    let topic = vec!["x"; LEVELS_MAX].join("/");
    assert_eq!(found(&table, &topic), [1]);
    assert_eq!(found(&table, &"/".repeat(65_535)), []);
}

#[test]
fn one_form_serves_every_name() {
    let mut patterns = Patterns::new(HashKey::new(3, 4), 3);
    let into = patterns.insert("dev/d1/in", "d1").expect("it has the name");
    assert_eq!(patterns.insert("dev/d2/in", "d2"), Some(into));
    let all = patterns.insert("d1/#", "d1").expect("it has the name");
    assert_ne!(into, all);
    assert_eq!(patterns.filter(into, "d9"), "dev/d9/in");
    assert_eq!(patterns.filter(all, "d9"), "d9/#");
    let matching = |patterns: &Patterns, topic: &'static str| {
        let mut found = Vec::new();
        patterns.each_match(topic, &mut |form, name| found.push((form, name)));
        found.sort_unstable();
        found
    };
    assert_eq!(matching(&patterns, "dev/d2/in"), [(into, "d2"), (all, "dev")]);
    assert_eq!(matching(&patterns, "dev/d2/out"), [(all, "dev")]);
    assert_eq!(matching(&patterns, "$SYS/d1"), []);
    patterns.remove(into);
    assert_eq!(matching(&patterns, "dev/d2/in").len(), 2, "another one still has it");
    patterns.remove(into);
    assert_eq!(matching(&patterns, "dev/d2/in"), [(all, "dev")]);
    assert_eq!(patterns.insert("+/x/d1", "d1"), Some(into), "its number is used again");
    assert_eq!(matching(&patterns, "a/x/d7"), [(into, "d7"), (all, "a")]);
}

#[test]
fn what_has_no_place_for_a_name_is_an_ordinary_filter() {
    let mut patterns = Patterns::new(HashKey::new(3, 4), 2);
    for (filter, name) in
        [("dev/d1/in", "d2"), ("a/+/b", "+"), ("a//b", ""), ("a/#", "#"), ("$d/a", "$d")]
    {
        assert_eq!(patterns.insert(filter, name), None, "{filter} {name}");
    }
    assert!(patterns.insert("a/d", "d").is_some() && patterns.insert("b/d", "d").is_some());
    assert_eq!(patterns.insert("c/d", "d"), None, "there is no room");
    assert_eq!(patterns.len(), 2);
    let same = (patterns.insert("+/d", "d"), patterns.insert("d/+", "d"));
    assert_eq!(same, (None, None));
}

#[test]
fn a_form_tells_the_same_place_apart() {
    let mut patterns = Patterns::new(HashKey::new(3, 4), 8);
    let (last, first) = (patterns.insert("+/d", "d"), patterns.insert("d/+", "d"));
    let mut found = Vec::new();
    patterns.each_match("x/y", &mut |form, name| found.push((form, name)));
    found.sort_unstable();
    assert_eq!(found, [(last.expect("a form"), "y"), (first.expect("a form"), "x")]);
}

#[test]
#[ignore = "a measurement"]
fn bytes_a_unique_filter() {
    const COUNT: u64 = 2_000_000;
    const ASKED: u64 = 100_000;
    let mut tables = Vec::new(); // kept, so that no table grows into the room of another
    println!();
    for (what, end) in [("exact", "in"), ("one level", "+/set"), ("all below", "#")] {
        let filter = |n: u64| format!("dev/device-{n:09}/{end}");
        let before = resident();
        let mut table = table();
        for n in 0..COUNT {
            table.insert(&filter(n), n).expect("room");
        }
        let each = (resident() - before) as f64 / COUNT as f64;
        let mut rng = Prng::new(9);
        let topic = |n: u64| filter(n).replace(['+', '#'], "x");
        let topics: Vec<String> = (0..ASKED).map(|_| topic(rng.below(COUNT))).collect();
        let (mut best, mut found) = (u64::MAX, 0);
        for some in topics.chunks(1_000) {
            let start = now(); // the best of a hundred: others use the machine too
            for topic in some {
                let _ = table.each_match(topic, &mut WalkPlace::default(), &mut |_| {
                    found += 1;
                    ControlFlow::Continue(())
                });
            }
            best = best.min((now() - start).as_nanos() as u64 / 1_000);
        }
        assert_eq!(found, ASKED);
        let text = filter(0).len();
        let over = each - text as f64;
        println!(
            "{what:10} {each:6.1} bytes, {over:5.1} above its {text} of text, {best} ns a match"
        );
        tables.push(table);
    }
}
