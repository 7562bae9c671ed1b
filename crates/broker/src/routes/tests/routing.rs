//! Several shards' tables together: what is subscribed anywhere is found everywhere.

use super::super::RouteSlice;
use super::super::{
    Elsewhere, Hit, LEVELS_MAX, RoutePlace, RouteSummary, Routes, SUBSCRIPTION_MAX, ShardSet,
    WalkPlace, matches,
};
use super::measure::now;
use super::random::Levels;
use base::hash::HashKey;
use base::prng::Prng;
use model::id::ShardId;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

fn shards(count: u16) -> (Arc<RouteSummary>, Vec<Routes>) {
    let summary = RouteSummary::new(count, HashKey::new(5, 6));
    let routes = (0..count).map(|shard| Routes::new(&summary, ShardId(shard), 8)).collect();
    (summary, routes)
}

const LEVELS: Levels = Levels(&["a", "b", "", "$s", "c1", "c2"]);

/// The subscriptions of one shard, as its sessions would remember them.
#[derive(Default)]
struct Known(BTreeMap<(String, u64), (RoutePlace, bool)>);

impl Known {
    /// Expected matches of a topic: numbers, and whether any and any durable one.
    fn wanted(&self, topic: &str) -> (Vec<u64>, bool, bool) {
        let matching = || self.0.iter().filter(|((filter, _), _)| matches(filter, topic));
        let mut numbers: Vec<u64> = matching().map(|((_, number), _)| *number).collect();
        numbers.sort_unstable();
        let durable = matching().any(|(_, (_, durable))| *durable);
        (numbers.clone(), !numbers.is_empty(), durable)
    }

    /// Actual matches of a topic: a form's match is looked up as a session's record would be.
    fn found(&self, routes: &Routes, topic: &str) -> Vec<u64> {
        let mut found = Vec::new();
        let all = routes.each_match(topic, &mut WalkPlace::default(), &mut |hit| {
            match hit {
                Hit::Filter(filter) => {
                    routes.each_held(filter, RouteSlice::ALL, &mut |number| found.push(number));
                }
                Hit::Form(form, client) => {
                    let filter = routes.filter(form, client);
                    let number = number_of(client);
                    let known = number.and_then(|number| self.0.get(&(filter, number)));
                    if known.is_some_and(|(place, _)| *place == RoutePlace::Form(form)) {
                        found.extend(number);
                    }
                }
            }
            ControlFlow::Continue(())
        });
        assert!(all.is_continue());
        found.sort_unstable();
        found
    }
}

fn number_of(client: &str) -> Option<u64> {
    client.strip_prefix('c')?.parse().ok()
}

/// One step of one shard's sessions.
fn change(rng: &mut Prng, routes: &mut Routes, known: &mut Known) {
    let number = 1 + rng.below(3);
    let client = format!("c{number}");
    let (filter, durable) = (LEVELS.filter(rng, 4), rng.one_in(3));
    let subscription = (filter, number);
    let known_one = known.0.remove(&subscription);
    let filter = &*subscription.0;
    match known_one {
        Some((RoutePlace::Form(form), durable)) => {
            assert_eq!(routes.form(filter, &client), Some(form));
            routes.unsubscribe_form(form, &client, durable);
        }
        Some((RoutePlace::Table(name), durable)) if rng.one_in(2) => {
            assert_eq!((routes.find(filter), &*routes.filter_of(name)), (Some(name), filter));
            assert_eq!(routes.held(name, 0, SUBSCRIPTION_MAX).map(|one| one <= number), Some(true));
            assert!(!routes.unsubscribe_ref(name, SUBSCRIPTION_MAX, durable));
            assert!(routes.unsubscribe_ref(name, number, durable));
        }
        Some((_, durable)) => assert!(routes.unsubscribe(filter, number, durable)),
        None => {
            let place = routes.subscribe(filter, &client, number, durable).expect("room");
            known.0.insert(subscription, (place, durable));
        }
    }
}

#[test]
fn every_shard_finds_its_own_and_suspects_all_others_rightly() {
    for (seed, count) in [(1, 1), (2, 2), (3, 3), (4, 8), (5, 9), (6, 32), (7, 64), (8, 70)] {
        let (mut rng, (_, mut routes)) = (Prng::new(seed), shards(count));
        let mut known: Vec<Known> = (0..count).map(|_| Known::default()).collect();
        for round in 0..600 {
            let at = rng.below(u64::from(count)) as usize;
            change(&mut rng, &mut routes[at], &mut known[at]);
            if round % 3 != 0 {
                continue;
            }
            let (topic, asker) = (LEVELS.topic(&mut rng), rng.below(u64::from(count)) as usize);
            let elsewhere = routes[asker].elsewhere(&topic);
            for (shard, known) in known.iter().enumerate() {
                let (numbers, any, durable) = known.wanted(&topic);
                assert_eq!(known.found(&routes[shard], &topic), numbers, "seed {seed} {topic}");
                let id = ShardId(shard as u16);
                let says = (elsewhere.any.has(id), elsewhere.durable.has(id));
                if shard == asker {
                    assert_eq!(says, (false, false), "never itself");
                } else {
                    assert!(says.0 >= any && says.1 >= durable && says.0 >= says.1, "{topic}");
                }
            }
        }
    }
}

#[test]
fn when_all_have_gone_nobody_is_suspected() {
    for count in [2, 8, 40, 100] {
        let (summary, mut routes) = shards(count);
        let filters = ["a/b", "a/+", "#", "a/b/#", "+/c", "dev/d1/in"];
        for (at, filter) in filters.iter().cycle().take(60).enumerate() {
            let (shard, durable) = ((at / 6 + at) % usize::from(count), at / 6 % 4 < 2);
            routes[shard].subscribe(filter, "", at as u64, durable).expect("room");
        }
        let asked = ["a/b", "a/x", "a/b/c", "x/c", "dev/d1/in", "$x"];
        let found = asked.map(|topic| routes[0].elsewhere(topic));
        assert!(found[..5].iter().all(|found| !found.any.is_empty() && !found.durable.is_empty()));
        assert_eq!(found[5], Elsewhere::default(), "wildcards in front do not match `$`");
        assert_eq!(summary.depths(), 0b111);
        for (at, filter) in filters.iter().cycle().take(60).enumerate() {
            let (shard, durable) = ((at / 6 + at) % usize::from(count), at / 6 % 4 < 2);
            assert!(routes[shard].unsubscribe(filter, at as u64, durable));
        }
        assert_eq!(summary.depths(), 0);
        for topic in asked {
            assert_eq!(routes[0].elsewhere(topic), Elsewhere::default(), "{topic}");
        }
    }
}

#[test]
fn a_table_grows_and_shrinks_while_everything_is_found() {
    const EACH: u64 = 2_000;
    for count in [2u16, 8, 65] {
        let each = if count == 65 { 300 } else { EACH };
        let (summary, mut routes) = shards(count);
        let empty = summary.heap_bytes();
        let filter = |shard: u16, n: u64| match n % 3 {
            0 => format!("dev/{shard}-{n}/in"),
            1 => format!("dev/{shard}-{n}/#"),
            _ => format!("dev/{shard}-{n}/+/set"),
        };
        let topic = |shard: u16, n: u64| filter(shard, n).replace(['+', '#'], "in");
        let mut rng = Prng::new(u64::from(count));
        for n in 0..each {
            for shard in 0..count {
                let one = &mut routes[usize::from(shard)];
                one.subscribe(&filter(shard, n), "", n, n % 2 == 0).expect("room");
                let (other, old) = (rng.below(u64::from(count)) as u16, rng.below(n + 1));
                if other < shard {
                    let found = one.elsewhere(&topic(other, old));
                    assert!(found.any.has(ShardId(other)), "{other} {old} at {n}");
                    assert!(old % 2 != 0 || found.durable.has(ShardId(other)));
                }
            }
        }
        while routes.iter_mut().any(|routes| routes.grow(100)) {}
        let grown = summary.heap_bytes();
        assert!(grown >= 2 * empty, "{empty} {grown}");
        let mut vain = 0;
        for n in 0..1_000 {
            let found = routes[0].elsewhere(&format!("dev/none-{n}/in"));
            vain += found.any.len();
        }
        assert!(vain < 1_000 * usize::from(count) * 6 / 100, "{vain} of {count} thousand");
        for n in 0..each {
            for shard in 0..count {
                let one = &mut routes[usize::from(shard)];
                assert!(one.unsubscribe(&filter(shard, n), n, n % 2 == 0));
                let (other, late) = (rng.below(u64::from(count)) as u16, each - 1);
                if other > shard && n < late {
                    assert!(one.elsewhere(&topic(other, late)).any.has(ShardId(other)));
                }
            }
        }
        for _ in 0..50 {
            for one in &mut routes {
                for n in 0..100 {
                    one.subscribe("x", "", n, false).expect("room");
                    one.unsubscribe("x", n, false);
                }
            }
        }
        assert!(summary.heap_bytes() < grown, "it shrank");
        for n in 0..100 {
            assert_eq!(routes[0].elsewhere(&topic(1, n)), Elsewhere::default());
        }
    }
}

#[test]
fn the_deepest_filter_is_found_and_a_deeper_topic_does_no_harm() {
    let (_, mut routes) = shards(2);
    let prefix = vec!["x"; LEVELS_MAX - 1].join("/");
    routes[1].subscribe(&format!("{prefix}/#"), "", 1, true).expect("room");
    let deeper = vec!["x"; 3 * LEVELS_MAX].join("/");
    for (topic, wanted) in [(&*prefix, true), (&*deeper, true), ("x/x", false)] {
        assert_eq!(routes[0].elsewhere(topic).durable.has(ShardId(1)), wanted);
    }
}

/// Filters whose bits lie close together come and go, also while a table grows: those that stay are
/// found, and when all have gone no bit is left.
#[test]
fn what_goes_takes_nothing_with_it_and_leaves_nothing_behind() {
    for (seed, count) in [(1, 2), (2, 8), (3, 40), (4, 80)] {
        let (mut rng, (summary, mut routes)) = (Prng::new(seed), shards(count));
        let mut known: BTreeMap<u64, (u16, bool)> = BTreeMap::new();
        let filter = |n: u64| if n & 1 == 0 { format!("x/{n}") } else { format!("x/{n}/+") };
        let topic = |n: u64| filter(n).replace('+', "y");
        for round in 0..6_000u64 {
            let leaves = if round < 4_000 { rng.below(5) < 2 } else { true };
            if leaves && !known.is_empty() {
                let from = rng.below(round);
                let at = known.range(from..).next().or(known.first_key_value());
                let (&n, &(shard, durable)) = at.expect("one is left");
                known.remove(&n);
                assert!(routes[usize::from(shard)].unsubscribe(&filter(n), n, durable));
            } else {
                let (shard, durable) = (1 + rng.below(u64::from(count - 1)) as u16, rng.one_in(2));
                known.insert(round, (shard, durable));
                let one = &mut routes[usize::from(shard)];
                one.subscribe(&filter(round), "", round, durable).expect("room");
            }
            if round % 100 == 0 {
                for (&n, &(shard, durable)) in &known {
                    let found = routes[0].elsewhere(&topic(n));
                    let has = (found.any.has(ShardId(shard)), found.durable.has(ShardId(shard)));
                    assert!(has.0 && has.1 >= durable, "seed {seed} round {round}: {n}");
                }
            }
        }
        for (n, (shard, durable)) in known {
            assert!(routes[usize::from(shard)].unsubscribe(&filter(n), n, durable));
        }
        while routes.iter_mut().any(|routes| routes.grow(100)) {}
        assert_eq!(summary.bits_set(), 0, "seed {seed}");
    }
}

/// Each thread is a shard that subscribes, tells the others by a channel what it has, and looks
/// for what they have told: whatever is told was subscribed, so it must be found.
#[test]
fn what_another_thread_has_subscribed_is_found() {
    const EACH: u64 = 3_000;
    let (_, routes) = shards(3);
    let lanes: Vec<_> = (0..3).map(|_| std::sync::mpsc::sync_channel(4 * EACH as usize)).collect();
    let (senders, receivers): (Vec<_>, Vec<_>) = lanes.into_iter().unzip();
    std::thread::scope(|scope| {
        for ((me, mut routes), told) in routes.into_iter().enumerate().zip(receivers) {
            let others: Vec<_> =
                (0..3).filter(|&at| at != me).map(|at| senders[at].clone()).collect();
            let run = move || {
                let mut left = 2 * EACH;
                for n in 0.. {
                    if n < EACH {
                        let topic = format!("t/{me}/{n}");
                        let filter = if n % 2 == 0 { topic.clone() } else { format!("{topic}/#") };
                        routes.subscribe(&filter, "", n, n % 4 < 2).expect("room");
                        for other in &others {
                            let news = (ShardId(me as u16), topic.clone(), n % 4 < 2);
                            other.send(news).expect("it listens");
                        }
                        if n % 5 == 4 {
                            routes.subscribe("t/passing", "", n, false).expect("room");
                            routes.unsubscribe("t/passing", n, false);
                        }
                    }
                    while let Some((shard, topic, durable)) = match n < EACH {
                        true => told.try_recv().ok(),
                        false if left > 0 => Some(told.recv().expect("they tell everything")),
                        false => None,
                    } {
                        left -= 1;
                        let found = routes.elsewhere(&topic);
                        assert!(found.any.has(shard) && found.durable.has(shard) >= durable);
                    }
                    if n >= EACH && left == 0 {
                        break;
                    }
                }
            };
            std::thread::Builder::new().spawn_scoped(scope, run).expect("a thread");
        }
    });
}

#[test]
fn a_set_of_shards_knows_its_own() {
    let mut set = ShardSet::default();
    assert!(set.is_empty() && set.iter().next().is_none());
    set.add_word(0, 1 << 63 | 1);
    set.add_word(1, 2);
    set.add_word(15, 1 << 63);
    set.add_word(7, 0);
    let all: Vec<u16> = set.iter().map(|shard| shard.0).collect();
    assert_eq!(all, [0, 63, 65, 1_023]);
    assert!(set.len() == 4 && set.has(ShardId(65)) && !set.has(ShardId(64)));
    all.into_iter().for_each(|shard| set.remove(ShardId(shard)));
    assert!(set.is_empty());
}

#[test]
#[ignore = "a measurement"]
fn what_the_summary_costs() {
    const COUNT: u64 = 1_000_000;
    println!();
    for count in [2u16, 4, 8, 16, 64] {
        let (summary, mut routes) = shards(count);
        let home = HashKey::new(8, 9);
        let filter = |n: u64| format!("dev/device-{n:07}/in");
        let of = |n: u64| (home.of(&[&n.to_le_bytes()]) % u64::from(count)) as usize;
        let begin = now();
        for n in 0..COUNT {
            routes[of(n)].part.add(&filter(n), n % 4 == 0);
        }
        let added = (now() - begin).as_nanos() as u64 / COUNT;
        while routes.iter_mut().any(|routes| routes.grow(4_096)) {}
        let own: usize = routes.iter().map(|routes| routes.part.heap_bytes()).sum();
        let each = |bytes: usize| bytes as f64 / COUNT as f64;
        let topics: Vec<String> = (0..100_000).map(|n| filter(n * 7 + COUNT / 2)).collect();
        let (begin, mut found) = (now(), 0);
        for topic in &topics {
            found += routes[0].elsewhere(topic).any.len();
        }
        let asked = (now() - begin).as_nanos() as usize / topics.len();
        let there = topics.iter().enumerate().filter(|(n, _)| *n as u64 * 7 < COUNT / 2);
        let there = there.filter(|(n, _)| of(*n as u64 * 7 + COUNT / 2) != 0).count();
        let vain = (found - there) as f64 / topics.len() as f64;
        println!(
            "{count:3} shards: {:.2} bytes shared, {:.2} own a filter; {vain:.3} shards asked in \
             vain a topic; {added} ns to add, {asked} ns to look",
            each(summary.heap_bytes()),
            each(own),
        );
    }
}
