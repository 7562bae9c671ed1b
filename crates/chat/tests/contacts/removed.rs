//! Removed accounts leave the lists of their contacts, also when another account gets the name.

use crate::directed::comes;
use crate::world::{World, person};
use model::chat::*;
use model::ports::access::NameOwner;
use model::ports::log::Table;

const ANN: usize = 0;
const BOB: usize = 2;
const CARL: usize = 4;
const FIRST: u64 = 1;

/// Ann has an account of the book, Bob as a contact, and an unanswered request of Carl.
fn world(seed: u64, shards: u16) -> World {
    let mut world = World::new(seed, shards, 3);
    world.names.give("p0", NameOwner::Account(FIRST));
    world.rest(); // from now on nothing is lost
    for at in [ANN, BOB, CARL] {
        comes(&mut world, at);
    }
    befriend(&mut world);
    world.orders(CARL, 0, said(SubscriptionVerb::Subscribe)).expect("asked");
    assert_eq!(world.contact(1, 0).subscription.word(), "both");
    assert_eq!(world.contact(2, 0).subscription.to, Half::Pending);
    assert!(sees(&world, BOB));
    world
}

fn said(verb: SubscriptionVerb) -> ContactOrder {
    ContactOrder::Say(verb, Box::default())
}

fn befriend(world: &mut World) {
    for (at, whom) in [(ANN, 1), (BOB, 0)] {
        world.orders(at, whom, ContactOrder::Befriend(Box::default())).expect("done");
    }
    world.rest();
}

/// Whether a device sees Ann as available.
fn sees(world: &World, at: usize) -> bool {
    world.devices[at].seen.keys().any(|(who, _)| *who == person(0))
}

/// Lets everything that follows a removal be done.
fn settles(world: &mut World) {
    for _ in 0..4 {
        world.rest();
        world.pass_ms(6_000);
    }
    world.rest();
}

fn is_over(world: &mut World) {
    for other in [1, 2] {
        let contact = world.contact(other, 0);
        assert_eq!(contact.subscription, Subscription::default(), "{other}: {contact:?}");
    }
    assert_eq!((world.rows(Table::ChatPartings), world.rows(Table::ChatOwing)), (0, 0));
}

#[test]
fn an_account_that_is_removed_is_in_nobodys_list_as_somebody_who_is_seen() {
    for shards in 1..=4 {
        let mut world = world(1, shards);
        world.removes(0, FIRST, NameOwner::Unknown);
        settles(&mut world);
        is_over(&mut world);
        assert!(!sees(&world, BOB));
        let told = |at: usize| world.devices[at].told.iter().map(|(_, verb)| *verb);
        let all = [SubscriptionVerb::Unsubscribe, SubscriptionVerb::Unsubscribed];
        assert!(all.iter().all(|verb| told(BOB).any(|it| it == *verb)), "{shards} shards");
        assert!(told(CARL).any(|verb| verb == SubscriptionVerb::Unsubscribed));
        assert!(world.contact(1, 0).is_listed, "what Bob has written down is Bob's");
    }
}

#[test]
fn who_has_the_name_next_makes_friends_of_its_own_while_the_ties_of_the_first_end() {
    for shards in 1..=4 {
        let mut world = world(2, shards);
        world.removes(0, FIRST, NameOwner::Account(FIRST + 1));
        // The next account exists before the first one's ties were examined.
        world.connect(ANN);
        world.rest();
        world.devices[ANN].forgets();
        world.lists(ANN);
        world.rest();
        assert!(world.devices[ANN].contacts.is_empty(), "{:?}", world.devices[ANN].contacts);
        world.presents(ANN, Some(1));
        befriend(&mut world);
        settles(&mut world);
        assert_eq!(world.contact(1, 0).subscription.word(), "both", "{shards} shards");
        assert_eq!(world.contact(0, 1).subscription.word(), "both", "{shards} shards");
        assert_eq!(world.contact(2, 0).subscription, Subscription::default());
        assert!(sees(&world, BOB));
        assert_eq!(world.rows(Table::ChatPartings), 0);
    }
}

#[test]
fn a_kill_at_any_moment_leaves_nothing_half_done() {
    let mut kills = 0;
    for seed in 0..60 {
        let mut world = world(seed, 1 + (seed % 4) as u16);
        world.removes(0, FIRST, NameOwner::Account(FIRST + 1));
        world.is_noisy();
        for _ in 0..seed * 2 {
            world.step_quietly();
        }
        world.kill();
        kills += world.kills;
        world.heal();
        is_over(&mut world);
    }
    assert!(kills >= 60, "{kills}");
}

#[test]
fn a_removal_that_did_not_come_about_ends_nothing() {
    let mut world = world(3, 2);
    world.removes(0, FIRST, NameOwner::Account(FIRST));
    settles(&mut world);
    assert_eq!(world.contact(1, 0).subscription.word(), "both");
    world.kill();
    world.names.give("p0", NameOwner::Unknown);
    world.heal();
    is_over(&mut world);
}
