//! Sessions without a connection: how others see them, how they end, and which clients may resume
//! them.

use crate::directed::{ANN, BOB, befriend, comes, friends, sees};
use crate::nodes::{all, is_interested, publish};
use crate::world::{World, person};
use model::chat::*;
use model::ports::access::NameOwner;

const BOBS_TABLET: usize = BOB + 1;

fn priority(world: &World, at: usize, whom: u32) -> Option<i8> {
    world.devices[at].seen.get(&(person(whom), "d0".into())).map(|how| how.priority)
}

#[test]
fn who_loses_its_connection_is_there_until_its_time_is_over() {
    for shards in 1..=4 {
        let mut world = friends(shards);
        let told = world.devices[ANN].presences;
        world.breaks(BOB);
        world.rest();
        world.pass_ms(15_000);
        world.rest();
        assert_eq!((sees(&world, ANN, 1), world.devices[ANN].presences), (true, told));
        world.pass_ms(5_000);
        world.rest();
        assert_eq!((sees(&world, ANN, 1), world.devices[ANN].presences), (false, told + 1));
        world.connect(BOB);
        world.rest();
        assert_eq!(world.devices[BOB].not_resumed, [Some(7)], "what it had handled is known");
        comes(&mut world, BOBS_TABLET);
        world.heal();
        world.check();
    }
}

#[test]
fn who_comes_back_in_time_never_went_and_has_missed_nothing() {
    for shards in 1..=4 {
        let mut world = friends(shards);
        let told = world.devices[ANN].presences;
        world.breaks(BOB);
        world.rest();
        world.presents(ANN, Some(4));
        world.rest();
        world.presents(ANN, Some(5));
        world.rest();
        world.pass_ms(3_000);
        world.wants(ANN, 2, befriend());
        world.rest();
        world.connect(BOB);
        world.rest();
        assert_eq!((world.devices[BOB].resumed, priority(&world, BOB, 0)), (1, Some(5)));
        assert_eq!((sees(&world, ANN, 1), world.devices[ANN].presences), (true, told + 2), "own");
        world.pass_ms(60_000);
        world.rest();
        assert!(sees(&world, ANN, 1), "it is here again");
        world.presents(ANN, None);
        world.rest();
        assert!(!sees(&world, BOB, 0), "and is told");
        let messages = world.devices[BOB].messages;
        world.says(ANN, 1).expect("stored");
        assert_eq!(world.devices[BOB].messages, messages + 1, "what is said comes, too");
        for _ in 0..3 {
            world.breaks(BOB);
            world.connect(BOB);
            world.rest();
        }
        assert_eq!((world.devices[BOB].resumed, world.devices[BOB].not_resumed.len()), (4, 0));
        world.presents(ANN, Some(6));
        world.heal();
        world.check();
    }
}

#[test]
fn whoever_comes_last_has_the_session() {
    for shards in 1..=4 {
        let mut world = friends(shards);
        let told = world.devices[ANN].presences;
        world.comes_again(BOB);
        world.rest();
        assert_eq!((world.devices[BOB].resumed, world.devices[ANN].presences), (1, told));
        world.presents(ANN, Some(7));
        world.rest();
        assert_eq!(priority(&world, BOB, 0), Some(7));
        world.heal();
        world.check();
    }
}

#[test]
fn what_was_asked_before_the_connection_broke_is_answered_behind_it() {
    for shards in 1..=4 {
        let mut world = friends(shards);
        world.wants(BOB, 0, ContactOrder::Set { name: "A".into(), groups: [].into() });
        world.breaks(BOB);
        world.connect(BOB);
        world.rest();
        let name = |at: usize| world.devices[at].contacts[&person(0)].name.clone();
        assert_eq!(&*name(BOB), "A", "the list tells of it");
        world.heal();
        world.check();
    }
}

#[test]
fn an_id_of_another_account_or_one_that_was_not_given_resumes_nothing() {
    for shards in 1..=4 {
        let mut world = friends(shards);
        world.breaks(BOB);
        let kept = world.devices[BOB].kept;
        // Ann has found the id, or guesses it; her own session has another.
        world.breaks(ANN);
        let own = world.devices[ANN].kept;
        for stolen in [kept, own.map(|id| ResumptionId { secret: id.secret ^ 1, ..id })] {
            world.devices[ANN].kept = stolen;
            world.devices[ANN].is_away = true;
            world.devices[ANN].conn = None;
            world.connect(ANN);
            world.rest();
            assert_eq!(
                world.devices[ANN].not_resumed.pop(),
                Some(None),
                "and nothing is said of it"
            );
        }
        world.connect(BOB);
        world.rest();
        assert_eq!(world.devices[BOB].resumed, 1, "whose it is goes on");
        world.heal();
        world.check();
    }
}

#[test]
fn after_a_kill_no_session_is_known() {
    for shards in 1..=4 {
        let mut world = friends(shards);
        world.breaks(BOB);
        let kept = world.devices[BOB].kept;
        world.kill();
        comes(&mut world, ANN);
        assert!(!sees(&world, ANN, 1));
        (world.devices[BOB].kept, world.devices[BOB].is_away) = (kept, true);
        world.connect(BOB);
        world.rest();
        assert_eq!(world.devices[BOB].not_resumed, [None]);
        world.heal();
        world.check();
    }
}

#[test]
fn a_name_that_changes_hands_ends_sessions_that_are_away() {
    for shards in 1..=4 {
        let mut world = friends(shards);
        world.breaks(BOB);
        world.names.give("p1", NameOwner::Account(9));
        world.rest();
        assert!(!sees(&world, ANN, 1), "nobody waits for whom there is not");
        world.devices[BOB].is_away = true;
        world.connect(BOB);
        world.rest();
        assert_eq!(world.devices[BOB].resumed, 0);
    }
}

#[test]
fn more_than_is_kept_ends_the_session_and_presence_is_kept_once() {
    for shards in 1..=4 {
        let mut world = friends(shards);
        world.breaks(BOB);
        // Each presence is the newest, and replaces the one before.
        for priority in 0..100 {
            world.presents(ANN, Some(priority));
            world.rest();
            if priority % 10 == 9 {
                // Otherwise the time of Bob's detached session would be over.
                world.connect(BOB);
                world.rest();
                world.breaks(BOB);
            }
        }
        world.connect(BOB);
        world.rest();
        assert!(world.devices[BOB].not_resumed.is_empty());
        world.breaks(BOB);
        world.rest();
        comes(&mut world, BOBS_TABLET);
        for n in 0..80 {
            // Each change is delivered by itself.
            let name = format!("{n}").into_boxed_str();
            world.wants(BOBS_TABLET, 0, ContactOrder::Set { name, groups: [].into() });
        }
        world.rest();
        world.connect(BOB);
        world.rest();
        assert_eq!(world.devices[BOB].not_resumed, [Some(7)], "there were more than 64");
        world.heal();
        world.check();
    }
}

#[test]
fn what_is_told_of_nodes_counts_among_what_is_kept_by_its_items() {
    const ITEM_BYTES: usize = 1_000;
    for shards in 1..=4 {
        let mut world = friends(shards);
        is_interested(&mut world, BOB, "v1", &["mood"]);
        comes(&mut world, BOBS_TABLET);
        let mood = "x".repeat(ITEM_BYTES);
        let change = || NodesAsk::Change(vec![publish("mood", "1", &mood)]);
        // Few stanzas either way, and more bytes than are kept: answers to its requests ...
        world.nodes(BOBS_TABLET, None, change()).expect("done");
        for _ in 0..20 {
            world.asks_nodes(BOB, None, all("mood"));
        }
        world.breaks(BOB);
        world.rest();
        world.connect(BOB);
        world.rest();
        assert_eq!(world.devices[BOB].not_resumed, [Some(7)], "answers");
        // ... and notifications.
        world.presents(BOB, Some(1));
        world.rest();
        is_interested(&mut world, BOB, "v1", &["mood"]);
        for (changes, ended) in [(4, 1), (20, 2)] {
            world.breaks(BOB);
            for _ in 0..changes {
                world.asks_nodes(BOBS_TABLET, None, change());
            }
            world.rest();
            world.connect(BOB);
            world.rest();
            assert_eq!(world.devices[BOB].not_resumed.len(), ended, "after {changes}");
        }
        world.heal();
        world.check();
    }
}
