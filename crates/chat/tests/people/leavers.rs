//! Former and late members of a group: which states of amended messages they read.

use crate::world::{World, person};
use model::account::AccountAddress;
use model::chat::{ChatMessage, Content, GroupVerb, SearchRange};
use model::timeline::Seq;
use std::sync::Arc;

/// The first devices of three people.
const ANN: usize = 0;
const BOB: usize = 2;
const CAROL: usize = 4;

/// Ann has created a group with Bob; with a border of 1 it is a read group.
fn group(shards: u16, border: u32) -> (World, AccountAddress) {
    let mut world = World::with_border(23, shards, border);
    for at in [ANN, BOB, CAROL] {
        world.connect(at);
        world.rest();
    }
    world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
    let group = world.groups().first().cloned().expect("everybody has heard of it");
    (world, group)
}

/// The message with this text, as a device has it after it has pulled its whole inbox again.
fn pulled(world: &mut World, at: usize, text: &str) -> Option<Arc<ChatMessage>> {
    world.forgets(at);
    world.texts(at);
    world.has(at).into_iter().find(|it| *it.content.text == *text)
}

/// The accounts that have reacted to a message.
fn reactors(message: &ChatMessage) -> Vec<AccountAddress> {
    let reactions = message.amended.iter().flat_map(|it| &it.reactions);
    reactions.map(|it| it.by.clone()).collect()
}

fn finds(world: &mut World, at: usize, text: &str) -> Vec<String> {
    let range = SearchRange {
        text: text.into(),
        with: None,
        from: None,
        since_ms: 0,
        until_ms: u64::MAX,
        before: Seq::MAX,
        count: 5,
    };
    let found = world.searches(at, range).expect("it may").found;
    found.iter().map(|(_, it)| it.content.text.to_string()).collect()
}

#[test]
fn who_has_left_reads_nothing_of_what_was_amended_afterwards() {
    for (shards, border) in [(1, 0), (3, 0), (1, 1), (3, 1)] {
        let (mut world, group) = group(shards, border);
        world.says_to(ANN, &group, "first").expect("an owner");
        world.says_to(ANN, &group, "the plan").expect("an owner");
        let first = pulled(&mut world, ANN, "first").expect("she has it");
        let plan = pulled(&mut world, ANN, "the plan").expect("she has it");
        world.reacts(BOB, &group, (&first, "👍")).expect("a member");
        world.edits(ANN, &group, (&first, "first, edited")).expect("her own");
        world.orders(ANN, GroupVerb::Remove, Some(&group), &[1]).expect("an owner may");
        world.reacts(ANN, &group, (&first, "🎉")).expect("an owner");
        world.edits(ANN, &group, (&plan, "a secret")).expect("her own");
        world.edits(ANN, &group, (&first, "another secret")).expect("her own");
        for _ in 0..2 {
            let read = pulled(&mut world, BOB, "first, edited").expect("as it was when he left");
            assert_eq!(reactors(&read), [person(1)], "{shards} {border}");
            let plan = pulled(&mut world, BOB, "the plan").expect("as it was when he left");
            assert_eq!(plan.amended, None);
            assert_eq!(finds(&mut world, BOB, "secret"), [""; 0]);
            assert_eq!(finds(&mut world, BOB, "plan"), ["the plan"]);
            let texts = world.texts(BOB);
            assert!(!texts.iter().any(|text| text.contains("secret")), "{texts:?}");
            // Ann reads the present state, also after a restart.
            let now = pulled(&mut world, ANN, "another secret").expect("edited");
            assert_eq!(reactors(&now), [person(1), person(0)]);
            world.dies();
            for at in [ANN, BOB, CAROL] {
                world.connect(at);
                world.rest();
            }
        }
        // A recall holds for everyone.
        world.recalls(ANN, &group, plan.seq).expect("her own");
        assert_eq!(pulled(&mut world, BOB, "the plan"), None);
        let kinds: Vec<u16> = world.has(BOB).iter().map(|it| it.content.kind).collect();
        assert!(kinds.contains(&Content::RECALLED));
        // When he is a member again, he reads the present state.
        world.orders(ANN, GroupVerb::Add, Some(&group), &[1]).expect("an owner may");
        assert!(pulled(&mut world, BOB, "another secret").is_some());
    }
}

#[test]
fn who_was_removed_while_away_draws_what_was_said_as_it_was_then() {
    for shards in 1..=3 {
        let (mut world, group) = group(shards, 1);
        world.says_to(ANN, &group, "all are here").expect("an owner");
        world.leaves(BOB);
        world.says_to(ANN, &group, "the plan").expect("an owner");
        let plan = pulled(&mut world, ANN, "the plan").expect("she has it");
        world.orders(ANN, GroupVerb::Remove, Some(&group), &[1]).expect("an owner may");
        world.edits(ANN, &group, (&plan, "a secret")).expect("her own");
        world.connect(BOB);
        world.rest();
        let texts = world.texts(BOB);
        assert!(texts.iter().any(|text| text == "the plan"), "{texts:?}");
        assert!(!texts.iter().any(|text| text == "a secret"), "{texts:?}");
        world.heal();
    }
}

#[test]
fn who_comes_behind_many_that_were_amended_reads_on_from_there() {
    for shards in [1, 3] {
        let (mut world, group) = group(shards, 0);
        for n in 0..60 {
            world.says_to(ANN, &group, &format!("early {n}")).expect("an owner");
            if n % 5 == 0 {
                let said = pulled(&mut world, ANN, &format!("early {n}")).expect("she has it");
                world.reacts(BOB, &group, (&said, "👍")).expect("a member");
            }
        }
        world.orders(ANN, GroupVerb::Add, Some(&group), &[2]).expect("an owner may");
        for n in 0..3 {
            world.says_to(BOB, &group, &format!("late {n}")).expect("a member");
        }
        let late = pulled(&mut world, BOB, "late 1").expect("he has it");
        world.reacts(ANN, &group, (&late, "👍")).expect("an owner");
        for backwards in [false, true] {
            let read = world.history(CAROL, &group, backwards);
            let texts: Vec<_> = read.iter().map(|it| it.content.text.to_string()).collect();
            let late: Vec<_> = texts.iter().filter(|text| text.starts_with("late")).collect();
            let mut all = ["late 0", "late 1", "late 2"];
            if backwards {
                all.reverse();
            }
            assert_eq!(late, all, "{texts:?}");
            assert!(!texts.iter().any(|text| text.starts_with("early")), "{texts:?}");
        }
    }
}
