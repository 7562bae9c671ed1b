//! Contacts and presence, one case at a time, on one to four shards.

use crate::world::{Names, World, person};
use model::chat::*;
use model::ports::access::NameOwner;

/// Two people, with two devices each.
pub const ANN: usize = 0;
pub const BOB: usize = 2;
const BOBS_TABLET: usize = 3;

const SEES: SubscriptionVerb = SubscriptionVerb::Subscribe;
const LETS: SubscriptionVerb = SubscriptionVerb::Subscribed;
const UNSEES: SubscriptionVerb = SubscriptionVerb::Unsubscribe;
const REFUSES: SubscriptionVerb = SubscriptionVerb::Unsubscribed;

fn say(verb: SubscriptionVerb) -> ContactOrder {
    ContactOrder::Say(verb, Box::default())
}

pub fn befriend() -> ContactOrder {
    ContactOrder::Befriend("it is me".into())
}

/// Two people are connected, follow their contacts and are available.
fn world(shards: u16) -> World {
    let mut world = World::new(7, shards, 3);
    for at in [ANN, BOB] {
        comes(&mut world, at);
    }
    world
}

pub fn comes(world: &mut World, at: usize) {
    world.connect(at);
    world.rest();
    world.lists(at);
    world.rest();
    world.presents(at, Some(1));
    world.rest();
}

pub fn friends(shards: u16) -> World {
    let mut world = world(shards);
    world.orders(ANN, 1, befriend()).expect("done");
    world.orders(BOB, 0, befriend()).expect("done");
    assert_eq!(words(&world), ["both", "both"]);
    world
}

fn words(world: &World) -> [&'static str; 2] {
    [world.contact(0, 1), world.contact(1, 0)].map(|contact| contact.subscription.word())
}

/// Whether a device sees this person as available on the first device.
pub fn sees(world: &World, at: usize, whom: u32) -> bool {
    world.devices[at].seen.contains_key(&(person(whom), "d0".into()))
}

#[test]
fn who_asks_and_is_let_sees_who_is_there_and_who_goes() {
    for shards in 1..=4 {
        let mut world = world(shards);
        world.orders(ANN, 1, ContactOrder::Say(SEES, "it is ann".into())).expect("done");
        let asked = world.contact(1, 0);
        assert_eq!((&*asked.greeting, asked.is_listed), ("it is ann", false));
        assert_eq!(world.devices[BOB].told, [(person(0), SEES)]);
        assert!(!sees(&world, ANN, 1));
        world.orders(BOB, 0, say(LETS)).expect("done");
        assert_eq!((words(&world), world.devices[ANN].told.len()), (["to", "from"], 1));
        assert!(sees(&world, ANN, 1) && !sees(&world, BOB, 0));
        world.presents(BOB, Some(5));
        world.rest();
        let how = &world.devices[ANN].seen[&(person(1), "d0".into())];
        assert_eq!(how.priority, 5);
        world.disconnect(BOB);
        world.rest();
        assert!(!sees(&world, ANN, 1), "{shards}");
        comes(&mut world, BOB);
        assert!(sees(&world, ANN, 1));
        world.heal();
        world.check();
    }
}

#[test]
fn who_comes_later_is_told_who_is_there_and_what_waits() {
    for shards in 1..=4 {
        let mut world = world(shards);
        world.orders(ANN, 1, befriend()).expect("done");
        world.disconnect(BOB);
        world.kill();
        for at in [BOB, ANN, BOBS_TABLET] {
            comes(&mut world, at);
        }
        assert_eq!(world.devices[BOB].told.last(), Some(&(person(0), SEES)), "still asked");
        world.orders(BOBS_TABLET, 0, befriend()).expect("done");
        assert_eq!(words(&world), ["both", "both"]);
        assert!(sees(&world, ANN, 1) && sees(&world, BOB, 0) && sees(&world, BOBS_TABLET, 0));
        assert!(sees(&world, BOBS_TABLET, 1), "the other device of its own");
        world.heal();
        world.check();
    }
}

#[test]
fn who_is_refused_or_removed_sees_nothing_and_knows_it() {
    for shards in 1..=4 {
        let mut world = world(shards);
        world.orders(ANN, 1, say(SEES)).expect("done");
        world.orders(BOB, 0, say(REFUSES)).expect("done");
        assert_eq!(words(&world), ["none", "none"]);
        assert_eq!(world.devices[ANN].told, [(person(1), REFUSES)]);
        let mut world = friends(shards);
        world.orders(BOB, 0, say(UNSEES)).expect("done");
        assert_eq!(words(&world), ["to", "from"]);
        assert!(sees(&world, ANN, 1) && !sees(&world, BOB, 0));
        world.orders(BOB, 0, ContactOrder::Remove).expect("done");
        assert_eq!(words(&world), ["none", "none"]);
        assert!(world.contact(1, 0).is_gone() && world.contact(0, 1).is_listed);
        assert!(!sees(&world, ANN, 1));
        world.presents(BOB, Some(3));
        world.rest();
        assert!(!sees(&world, ANN, 1));
        world.heal();
        world.check();
    }
}

#[test]
fn nothing_passes_between_two_of_whom_one_has_blocked_the_other() {
    for shards in 1..=4 {
        let mut world = friends(shards);
        world.orders(BOB, 0, ContactOrder::Block).expect("done");
        assert!(!sees(&world, ANN, 1) && !sees(&world, BOB, 0));
        assert_eq!(words(&world), ["both", "both"], "it is as it was, but silent");
        assert_eq!(world.says(ANN, 1), Err(ChatFault::UnknownAccount), "as if there was nobody");
        assert_eq!(world.says(BOB, 0), Err(ChatFault::Blocked));
        assert_eq!((world.devices[ANN].messages, world.devices[BOB].messages), (0, 0));
        for at in [ANN, BOB] {
            world.presents(at, Some(7));
            world.rest();
        }
        assert!(!sees(&world, ANN, 1) && !sees(&world, BOB, 0));
        let told = world.devices[BOB].told.len();
        world.orders(ANN, 1, say(UNSEES)).expect("done");
        world.orders(ANN, 1, say(SEES)).expect("done");
        assert_eq!(world.devices[BOB].told.len(), told, "nothing of it");
        world.kill();
        for at in [ANN, BOB] {
            comes(&mut world, at);
        }
        assert_eq!(world.says(ANN, 1), Err(ChatFault::UnknownAccount), "after a start, too");
        world.orders(BOB, 0, ContactOrder::Unblock).expect("done");
        world.says(ANN, 1).expect("sent");
        assert!(sees(&world, BOB, 0) && !sees(&world, ANN, 1), "the wish was not heard");
        world.orders(ANN, 1, say(SEES)).expect("done");
        world.orders(BOB, 0, say(LETS)).expect("done");
        assert!(sees(&world, ANN, 1));
        world.heal();
        world.check();
    }
}

#[test]
fn whoever_is_not_there_is_no_contact_but_may_be_named_and_blocked() {
    let mut world = world(2);
    assert_eq!(world.orders(ANN, 2, say(SEES)), Err(ChatFault::UnknownAccount));
    let name = ContactOrder::Set { name: "Carol".into(), groups: ["b".into(), "a".into()].into() };
    world.orders(ANN, 2, name).expect("done");
    world.orders(ANN, 2, ContactOrder::Block).expect("done");
    let carol = world.contact(0, 2);
    assert!(carol.is_blocked && carol.is_listed && &*carol.name == "Carol");
    assert_eq!(*carol.groups, ["a".into(), "b".into()]);
    assert_eq!(world.orders(ANN, 0, say(SEES)), Err(ChatFault::Invalid), "itself");
    comes(&mut world, 4);
    world.orders(4, 0, befriend()).expect("done");
    assert!(world.devices[ANN].told.is_empty());
    assert_eq!(world.says(4, 0), Err(ChatFault::UnknownAccount), "from the first word on");
}

#[test]
fn what_is_too_long_or_too_much_is_refused() {
    let mut world = world(2);
    let long = |n: usize| "x".repeat(n).into_boxed_str();
    let set = |name, groups| ContactOrder::Set { name, groups };
    let too_large = Err(ChatFault::TooLarge);
    let max = CONTACT_NAME_BYTES_MAX;
    assert_eq!(world.orders(ANN, 1, set(long(max + 1), Box::default())), too_large);
    assert_eq!(world.orders(ANN, 1, set(long(max), Box::default())), Ok(()));
    let groups: Box<[_]> = (0..=CONTACT_GROUPS_MAX).map(|n| long(n + 1)).collect();
    assert_eq!(world.orders(ANN, 1, set(long(1), groups[1..].into())), Ok(()));
    assert_eq!(world.orders(ANN, 1, set(long(1), groups)), too_large);
    let group = |bytes| set(long(1), [long(bytes)].into());
    assert_eq!(world.orders(ANN, 1, group(CONTACT_GROUP_BYTES_MAX)), Ok(()));
    assert_eq!(world.orders(ANN, 1, group(CONTACT_GROUP_BYTES_MAX + 1)), too_large);
    let greeting = |bytes| ContactOrder::Befriend(long(bytes));
    assert_eq!(world.orders(ANN, 1, greeting(GREETING_BYTES_MAX + 1)), too_large);
    assert_eq!(world.orders(ANN, 1, greeting(GREETING_BYTES_MAX)), Ok(()));
    // In tests the limit is three contacts, and one pending request besides.
    for n in [2, 3] {
        world.orders(ANN, n, set(long(n as usize), Box::default())).expect("there is room");
    }
    let full = Err(ChatFault::ContactsFull);
    assert_eq!(world.orders(ANN, 4, set(long(1), Box::default())), full);
    assert_eq!(world.orders(ANN, 4, ContactOrder::Block), full);
    world.orders(ANN, 3, ContactOrder::Remove).expect("done");
    assert_eq!(world.orders(ANN, 4, ContactOrder::Block), Ok(()));
}

#[test]
fn wishes_beyond_what_an_account_may_have_unanswered_are_refused_in_its_name() {
    let mut world = World::new(3, 3, 4);
    for at in [0, 2, 4, 6] {
        comes(&mut world, at);
    }
    for at in [2, 4, 6] {
        world.orders(at, 0, say(SEES)).expect("done");
    }
    let halves = [1, 2, 3].map(|n| world.contact(n, 0).subscription.to);
    assert_eq!(halves, [Half::Pending, Half::Pending, Half::None], "the limit of tests is two");
    assert_eq!(world.devices[6].told, [(person(0), REFUSES)]);
    world.heal();
    world.check();
}

#[test]
fn a_device_that_was_away_gets_what_changed_or_all_if_that_is_forgotten() {
    let mut world = friends(2);
    let name = |n: u32| ContactOrder::Set { name: format!("{n}").into(), groups: [].into() };
    world.orders(ANN, 2, name(2)).expect("done");
    comes(&mut world, ANN + 1);
    let had = world.devices[ANN + 1].version;
    world.disconnect(ANN + 1);
    world.orders(ANN, 2, ContactOrder::Remove).expect("done");
    comes(&mut world, ANN + 1);
    assert_eq!(world.devices[ANN + 1].contacts, world.devices[ANN].contacts);
    assert!(world.devices[ANN + 1].version > had);
    // In tests one removed contact is remembered: the other is forgotten, and the whole list is
    // sent.
    world.disconnect(ANN + 1);
    for n in [2, 3] {
        world.orders(ANN, n, name(n)).expect("done");
        world.orders(ANN, n, ContactOrder::Remove).expect("done");
    }
    comes(&mut world, ANN + 1);
    assert_eq!(world.devices[ANN + 1].contacts, world.devices[ANN].contacts);
    world.heal();
    world.check();
}

#[test]
fn a_list_in_pages_is_whole_whatever_changes_between_them() {
    let mut world = friends(2);
    let name = |n: u32| ContactOrder::Set { name: format!("{n}").into(), groups: [].into() };
    for n in [2, 3] {
        world.orders(ANN, n, name(n)).expect("done");
    }
    let tablet = ANN + 1;
    world.connect(tablet);
    world.rest();
    let mut changes = 0;
    loop {
        world.pages(tablet);
        world.rest();
        if !world.devices[tablet].is_paging() {
            break;
        }
        // An existing contact is changed, and one is removed for good.
        changes += 1;
        match changes {
            1 => world.orders(ANN, 1, name(7)).expect("done"),
            2 => world.orders(ANN, 2, ContactOrder::Remove).expect("done"),
            _ => {}
        }
    }
    assert!(changes > 0 && world.devices[tablet].pages > changes);
    assert_eq!(world.devices[tablet].contacts, world.devices[ANN].contacts);
    let pages = world.devices[tablet].pages;
    world.pages_all(tablet);
    assert_eq!(world.devices[tablet].pages, pages + 1, "there is nothing new");
    // The list starts anew when more contacts were removed meanwhile than are remembered.
    world.disconnect(tablet);
    for n in [2, 3] {
        world.orders(ANN, n, name(n)).expect("done");
        world.orders(ANN, n, ContactOrder::Remove).expect("done");
    }
    world.connect(tablet);
    world.rest();
    world.pages_all(tablet);
    assert_eq!(world.devices[tablet].contacts, world.devices[ANN].contacts);
    world.heal();
    world.check();
}

#[test]
fn who_asks_for_a_page_is_there_unless_it_has_said_otherwise() {
    for shards in 1..=4 {
        let mut world = friends(shards);
        world.connect(BOBS_TABLET);
        world.rest();
        let tablet = (person(1), "d1".into());
        assert!(!world.devices[ANN].seen.contains_key(&tablet), "it asked nothing");
        world.pages_all(BOBS_TABLET);
        assert_eq!(world.devices[ANN].seen.get(&tablet), Some(&Availability::default()));
        assert!(sees(&world, BOBS_TABLET, 0), "and it is told who is there");
        world.presents(BOBS_TABLET, Some(4));
        world.rest();
        world.pages_all(BOBS_TABLET);
        assert_eq!(world.devices[ANN].seen[&tablet].priority, 4, "as it said");
        world.presents(BOBS_TABLET, None);
        world.rest();
        world.pages_all(BOBS_TABLET);
        assert!(!world.devices[ANN].seen.contains_key(&tablet), "it is not to be seen");
        assert!(world.devices[BOBS_TABLET].seen.is_empty());
        world.disconnect(BOBS_TABLET);
        world.connect(BOBS_TABLET);
        world.rest();
        world.pages_all(BOBS_TABLET);
        assert!(world.devices[ANN].seen.contains_key(&tablet), "that held for its connection");
        world.heal();
        world.check();
    }
}

#[test]
fn a_page_of_nothing_is_none() {
    let mut world = world(1);
    let ask = PeopleAsk::Page(ContactsRange { after: 0, since: 0, count: 0 });
    world.asks(ANN, ask);
    world.rest();
    assert_eq!(world.devices[ANN].failed, Some(ChatFault::Invalid));
    let ask = PeopleAsk::Page(ContactsRange { after: u64::MAX, since: 3, count: u16::MAX });
    world.asks(ANN, ask);
    world.rest();
    assert_eq!(world.devices[ANN].failed, None, "what is not known is all");
    assert!(!world.devices[ANN].is_paging());
}

#[test]
fn who_has_a_name_later_is_not_taken_for_who_had_it() {
    for shards in 1..=4 {
        let mut world = World::new(5, shards, 2);
        Names::give(&world.names, "p1", NameOwner::Account(1));
        for at in [ANN, BOB] {
            comes(&mut world, at);
        }
        world.orders(ANN, 1, befriend()).expect("done");
        world.orders(BOB, 0, befriend()).expect("done");
        assert!(sees(&world, BOB, 0));
        Names::give(&world.names, "p1", NameOwner::Account(2));
        world.rest();
        assert!(!world.devices[BOB].is_here() && !sees(&world, ANN, 1));
        world.devices[BOB].forgets();
        comes(&mut world, BOB);
        world.presents(ANN, Some(6));
        world.rest();
        assert!(world.devices[BOB].contacts.is_empty() && !sees(&world, BOB, 0));
        assert!(!sees(&world, ANN, 1));
        world.orders(BOB, 0, say(SEES)).expect("done");
        assert_eq!(world.contact(0, 1).subscription.from, Half::Pending, "it has to ask");
        assert!(!sees(&world, BOB, 0));
    }
}
