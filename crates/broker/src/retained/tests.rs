//! The store against one that looks at every topic.

use super::*;
use crate::routes::matches;
use crate::routes::tests::measure::{now, resident};
use crate::routes::tests::random::Levels;
use base::prng::Prng;
use std::collections::BTreeMap;

const MOST: Most = Most { count: 3, bytes: usize::MAX };

fn store(count_max: u32, bytes_max: u64) -> Retained {
    Retained::new(HashKey::new(1, 2), count_max, bytes_max)
}

fn message(topic: &str, expire_at: u32, payload: &[u8]) -> Arc<Publication> {
    let mut message = Publication::new(topic, &[], payload);
    (message.retain, message.expire_at) = (true, expire_at);
    Arc::new(message)
}

/// Every topic of a replay, by as many pages as it takes, none of which is too large.
fn replay(store: &Retained, unix_s: u32, filter: &str, most: Most) -> Vec<String> {
    let (mut topics, mut after) = (Vec::new(), None::<Box<str>>);
    loop {
        let page = store.page(unix_s, filter, after.as_deref(), most);
        assert!(page.messages.len() <= most.count);
        topics.extend(page.messages.iter().map(|message| message.topic().to_owned()));
        if let (Some(before), Some(next)) = (&after, &page.next) {
            assert!(order::compare(before, next).is_lt(), "it goes on: {before} {next}");
        }
        after = page.next;
        if after.is_none() {
            return topics;
        }
    }
}

/// In order, what a filter matches of all.
fn wanted(all: &BTreeMap<Vec<String>, u32>, unix_s: u32, filter: &str) -> Vec<String> {
    let alive = all.iter().filter(|&(_, &expire_at)| expire_at == 0 || expire_at > unix_s);
    let topics = alive.map(|(levels, _)| levels.join("/"));
    topics.filter(|topic| matches(filter, topic)).collect()
}

const LEVELS: Levels = Levels(&["a", "b", "", "$s", "ab", "a!", "%", "\u{1}", "$", "\u{e4}"]);

fn levels(topic: &str) -> Vec<String> {
    topic.split('/').map(str::to_owned).collect()
}

#[test]
fn it_keeps_and_gives_what_looking_at_every_topic_gives() {
    for seed in 0..12 {
        let (mut rng, mut store) = (Prng::new(seed), store(u32::MAX, u64::MAX));
        let mut all: BTreeMap<Vec<String>, u32> = BTreeMap::new();
        let mut bytes = 0;
        for round in 0..600 {
            let (topic, unix_s) = (LEVELS.topic(&mut rng), round / 10);
            if rng.one_in(4) || round > 450 {
                let was = all.remove(&levels(&topic));
                let cleared = store.clear(&topic);
                assert_eq!(cleared.as_ref().map(|gone| gone.expire_at), was);
                bytes -= cleared.map_or(0, |gone| gone.weight() as u64);
            } else {
                let expire_at = if rng.one_in(2) { 0 } else { unix_s + rng.below(20) as u32 };
                let new = message(&topic, expire_at, &vec![0; rng.below(20) as usize]);
                bytes += new.weight() as u64;
                let replaced = store.set(new).expect("room");
                assert_eq!(
                    replaced.as_ref().map(|was| was.expire_at),
                    all.insert(levels(&topic), expire_at)
                );
                bytes -= replaced.map_or(0, |was| was.weight() as u64);
            }
            if rng.one_in(8) {
                let mut gone = Vec::new();
                while store.expire(unix_s, 2, &mut gone) {}
                for gone in gone {
                    let was = all.remove(&levels(gone.topic()));
                    assert!(was.is_some_and(|at| at != 0 && at <= unix_s), "its time was over");
                    bytes -= gone.weight() as u64;
                }
                assert!(all.values().all(|&at| at == 0 || at > unix_s), "none is left");
            }
            assert_eq!((store.len(), store.bytes()), (all.len(), bytes), "seed {seed}");
            let found = store.get(&topic).map(|message| message.expire_at);
            assert_eq!(found, all.get(&levels(&topic)).copied());
            let filter = LEVELS.filter(&mut rng, 3);
            let most = Most { count: 1 + rng.below(5) as usize, ..MOST };
            let found = replay(&store, unix_s, &filter, most);
            assert_eq!(found, wanted(&all, unix_s, &filter), "seed {seed} {filter}");
        }
    }
}

#[test]
fn the_order_is_that_of_levels_however_many_come_and_go() {
    for seed in 0..3 {
        let (mut rng, mut store) = (Prng::new(seed), store(u32::MAX, u64::MAX));
        let mut all: BTreeMap<Vec<String>, u32> = BTreeMap::new();
        let topic = |n: u64| format!("{}/{}/x", n % 97, n / 97);
        for round in 0..12_000u64 {
            let n = if seed == 0 { round } else { rng.below(6_000) };
            if round > 7_000 {
                let n = rng.below(12_000);
                let cleared = store.clear(&topic(n));
                assert_eq!(cleared.is_some(), all.remove(&levels(&topic(n))).is_some());
            } else {
                store.set(message(&topic(n), 0, b"")).expect("room");
                all.insert(levels(&topic(n)), 0);
            }
            if round % 2_000 == 1_999 {
                let most = Most { count: 100, ..MOST };
                for filter in ["#", "+/17/+", "5/#", "+/+/y"] {
                    assert_eq!(replay(&store, 0, filter, most), wanted(&all, 0, filter));
                }
            }
        }
    }
}

#[test]
fn limits_are_kept_and_a_replacement_counts_only_once() {
    let weight = message("a", 0, b"12").weight() as u64;
    let mut store = store(2, 2 * weight);
    assert_eq!(store.set(message("a", 0, b"12")), Ok(None));
    assert_eq!(store.set(message("b", 0, b"12")), Ok(None));
    assert_eq!(store.set(message("c", 0, b"")), Err(RetainedFull), "the count");
    assert!(store.set(message("a", 0, b"34")).is_ok_and(|was| was.is_some()));
    assert_eq!(store.set(message("a", 0, b"345")), Err(RetainedFull), "the bytes");
    assert_eq!(store.get("a").map(|message| message.payload()), Some(&b"34"[..]));
    assert!(store.set(message("a", 0, b"1")).is_ok());
    assert_eq!((store.len(), store.bytes()), (2, 2 * weight - 1));
    assert!(store.clear("a").is_some() && store.clear("a").is_none() && store.clear("b").is_some());
    assert_eq!((store.len(), store.bytes(), store.is_empty()), (0, 0, true));
}

#[test]
fn what_the_server_says_of_itself_takes_nobodys_room() {
    let weight = message("a", 0, b"12").weight() as u64;
    let mut store = store(1, weight);
    for payload in [&b"1"[..], b"12345"] {
        for number in 0..9 {
            let own = message(&format!("$SYS/broker/{number}"), 0, payload);
            assert!(store.set(own).is_ok());
        }
    }
    assert_eq!(store.set(message("a", 0, b"12")), Ok(None), "there is room for one");
    assert_eq!((store.len(), store.of_users()), (10, (1, weight)));
    assert_eq!(store.set(message("b", 0, b"")), Err(RetainedFull));
    assert!(store.clear("$SYS/broker/3").is_some());
    assert_eq!(store.set(message("b", 0, b"")), Err(RetainedFull), "that was no room of theirs");
    assert_eq!(store.len(), 9);
    assert!(store.clear("a").is_some());
    assert_eq!(store.set(message("b", 0, b"12")), Ok(None));
}

#[test]
fn a_page_is_limited_by_bytes_but_gives_one() {
    let mut store = store(u32::MAX, u64::MAX);
    (0..9).for_each(|n| drop(store.set(message(&n.to_string(), 0, &[0; 1_000]))));
    let weight = store.get("0").expect("it is there").weight();
    for (bytes, wanted) in [(0, 1), (weight, 1), (2 * weight, 2), (3 * weight - 1, 2)] {
        let page = store.page(0, "#", None, Most { count: 5, bytes });
        assert_eq!(page.messages.len(), wanted);
        assert_eq!(page.next.as_deref(), Some(&*(wanted - 1).to_string()));
    }
    let page = store.page(0, "#", Some("3"), Most { count: 5, bytes: usize::MAX });
    assert_eq!((page.messages.len(), page.next), (5, None));
}

#[test]
fn a_replay_goes_on_where_its_last_topic_was_although_that_has_gone() {
    let mut store = store(u32::MAX, u64::MAX);
    ["a", "a/b", "a/b/c", "a!", "b"]
        .iter()
        .for_each(|topic| drop(store.set(message(topic, 0, b""))));
    let page = store.page(0, "#", None, Most { count: 2, ..MOST });
    assert_eq!(page.next.as_deref(), Some("a/b"));
    store.clear("a/b");
    store.set(message("a/a", 0, b"")).expect("room");
    store.set(message("a/b/b", 0, b"")).expect("room");
    let page = store.page(0, "#", page.next.as_deref(), Most { count: 9, ..MOST });
    let topics: Vec<&str> = page.messages.iter().map(|message| message.topic()).collect();
    assert_eq!(topics, ["a/b/b", "a/b/c", "a!", "b"]);
}

#[test]
fn a_page_looks_at_few_topics_and_says_where_it_stopped() {
    let mut store = store(u32::MAX, u64::MAX);
    for n in 0..100_000 {
        store.set(message(&format!("a/{}/{}", n / 1_000, n % 1_000), 0, b"")).expect("room");
    }
    store.set(message("z/last", 0, b"")).expect("room");
    // One in each of a hundred thousands: jumped to, so that one page has them all.
    let most = Most { count: 100, ..MOST };
    let page = store.page(0, "a/+/500", None, most);
    assert_eq!((page.messages.len(), page.next), (100, None));
    let page = store.page(0, "+/last", None, most);
    assert_eq!((page.messages.len(), page.next), (1, None));
    // None at all, and each has to be looked at: the page ends early, the replay does not.
    let page = store.page(0, "a/+/+/x", None, most);
    assert!(page.messages.is_empty() && page.next.is_some());
    assert_eq!(replay(&store, 0, "a/+/+/x", most), [""; 0]);
    assert_eq!(replay(&store, 0, "#", most).len(), 100_001);
}

#[test]
fn what_is_often_replaced_leaves_few_expiries() {
    let mut store = store(u32::MAX, u64::MAX);
    for n in 0..10_000 {
        store.set(message("a", 100 + n, b"")).expect("room");
    }
    assert!(store.expiries.len() <= 70, "{}", store.expiries.len());
    let mut gone = Vec::new();
    while store.expire(10_098, 10, &mut gone) {}
    assert!(gone.is_empty());
    assert_eq!(store.next_expiry(), Some(10_099));
    assert!(!store.expire(10_099, 10, &mut gone) && gone.len() == 1 && store.is_empty());
}

#[test]
#[ignore = "a measurement"]
fn bytes_a_retained_message() {
    const COUNT: u64 = 1_000_000;
    let topic = |n: u64| format!("dev/device-{n:07}/state");
    let mut store = store(u32::MAX, u64::MAX);
    let before = resident();
    let start = now();
    for n in 0..COUNT {
        let n = n.wrapping_mul(611_953) % COUNT; // prime to the count: every number once
        store.set(message(&topic(n), 0, &[7; 20])).expect("room");
    }
    let took = now() - start;
    let each = (resident() - before) as f64 / COUNT as f64;
    let text = topic(0).len() + 20;
    println!("\n{each:.1} bytes, {:.1} above {text} of topic and payload", each - text as f64);
    println!("new: {} ns", took.as_nanos() as u64 / COUNT);
    let start = now();
    for n in 0..COUNT {
        let n = n.wrapping_mul(305_899) % COUNT;
        store.set(message(&topic(n), 0, &[8; 20])).expect("room");
    }
    println!("replaced: {} ns", (now() - start).as_nanos() as u64 / COUNT);
    for filter in ["#", "dev/+/state", "dev/+/none", "+/device-0500000/+"] {
        let (mut after, mut pages, mut found, mut worst) = (None::<Box<str>>, 0, 0, 0);
        let start = now();
        loop {
            let begin = now();
            let page = store.page(0, filter, after.as_deref(), Most { count: 64, bytes: 1 << 20 });
            worst = worst.max((now() - begin).as_micros());
            (pages, found, after) = (pages + 1, found + page.messages.len(), page.next);
            if after.is_none() {
                break;
            }
        }
        let took = (now() - start).as_micros();
        println!("{filter}: {found} in {pages} pages, {took} us, the slowest page {worst} us");
    }
}
