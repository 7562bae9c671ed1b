//! Push notifications for offline devices, step by step, and over random histories with crashes.

use crate::world::pushes::{notified, summary};
use crate::world::{World, person};
use model::chat::{
    Adding, Affiliation, ChatFault, ConversationChange, GroupVerb, Loudness, MuteLevel,
    PrivacyWish, PushRoute, PushWish, QuietHours,
};
use model::ports::access::NameOwner;
use model::ports::notifications::Notified;

/// The first devices of four people, and the second one of the second.
const ANN: usize = 0;
const BOB: usize = 2;
const BOBS_OTHER: usize = 3;
const CAROL: usize = 4;
const DAVE: usize = 6;

/// Ann and Carol are connected; Bob has registered a device, and is offline.
fn world(shards: u16) -> World {
    world_with(shards, 0)
}

fn world_with(shards: u16, border: u32) -> World {
    let mut world = World::with_border(3, shards, border);
    for at in [ANN, BOB, CAROL] {
        world.connect(at);
        world.rest();
        assert!(world.is_here(at));
    }
    world.registers(BOB, "bobs token").expect("registered");
    world.leaves(BOB);
    world
}

fn told(world: &mut World) -> Vec<(Loudness, u32, u32, String)> {
    world.passes(3_000);
    world.carrier.take().iter().map(summary).collect()
}

fn high(badge: u32, count: u32, text: &str) -> (Loudness, u32, u32, String) {
    (Loudness::High, badge, count, text.into())
}

/// Bob reads the first messages of these people on his other device, which then disconnects.
fn reads_elsewhere(world: &mut World, with: &[u32]) {
    world.connect(BOBS_OTHER);
    world.rest();
    world.texts(BOBS_OTHER);
    for with in with {
        world.has_read(BOBS_OTHER, &person(*with), 1).expect("read");
    }
    world.texts(BOBS_OTHER);
    world.leaves(BOBS_OTHER);
}

#[test]
fn who_is_away_is_told_once_and_who_is_here_is_not() {
    for shards in 1..=4 {
        let mut world = world(shards);
        world.says(ANN, 1, "is anybody there").expect("sent");
        assert_eq!(told(&mut world), [high(1, 1, "is anybody there")]);
        assert_eq!(told(&mut world), [], "once");
        world.connect(BOB);
        world.rest();
        world.texts(BOB);
        world.says(ANN, 1, "there you are").expect("sent");
        world.texts(BOB);
        world.acknowledges_all(BOB);
        world.passes(60_000);
        assert_eq!(told(&mut world), [], "he is here");
        world.says(BOB, 0, "i said it myself").expect("sent");
        world.leaves(BOB);
        assert_eq!(told(&mut world), []);
    }
}

#[test]
fn an_invitation_wakes_who_is_away_and_no_other_change_of_a_group_does() {
    for (shards, border) in [(1, 0), (2, 0), (3, 0), (3, 1)] {
        let mut world = world_with(shards, border);
        world.connect(BOB);
        world.rest();
        let wish = PrivacyWish { adding: Some(Adding::Nobody), ..PrivacyWish::default() };
        world.wants_privacy(BOB, wish);
        world.leaves(BOB);
        world.orders(ANN, GroupVerb::Create, None, &[1, 2]).expect("made");
        let all = told(&mut world);
        assert_eq!(all.len(), 1, "{shards} shards: {all:?}");
        assert_eq!((all[0].0, all[0].1, all[0].2), (Loudness::High, 0, 1));
        assert_eq!(told(&mut world), [], "once");
        let group = world.groups().last().cloned().expect("made");
        world.connect(BOB);
        world.rest();
        world.orders(BOB, GroupVerb::Join, Some(&group), &[]).expect("he accepts");
        world.texts(BOB);
        world.acknowledges_all(BOB);
        world.leaves(BOB);
        told(&mut world);
        world.orders(ANN, GroupVerb::Promote, Some(&group), &[2]).expect("done");
        world.orders(ANN, GroupVerb::Remove, Some(&group), &[1]).expect("done");
        assert_eq!(told(&mut world), [], "what happens in a group wakes nobody");
    }
}

#[test]
fn everybody_whom_a_list_invites_is_told_whatever_the_reason() {
    for (shards, border) in [(1, 0), (2, 0), (3, 0), (3, 1)] {
        let mut world = world_with(shards, border);
        for at in [BOB, DAVE] {
            world.connect(at);
            world.rest();
            let wish = PrivacyWish { adding: Some(Adding::Nobody), ..PrivacyWish::default() };
            world.wants_privacy(at, wish);
        }
        world.leaves(BOB);
        world.orders(ANN, GroupVerb::Create, None, &[]).expect("made");
        let group = world.groups().last().cloned().expect("made");
        let items = [(3, Affiliation::Member, "first"), (1, Affiliation::Member, "second")];
        assert_eq!(world.affiliates(ANN, &group, &items), Ok(()));
        let all = told(&mut world);
        assert_eq!(all.len(), 1, "{shards} shards: {all:?}");
        assert_eq!((all[0].0, all[0].1, all[0].2), (Loudness::High, 0, 1));
        world.connect(BOB);
        world.rest();
        for at in [BOB, DAVE] {
            world.texts(at);
            assert_eq!(world.orders(at, GroupVerb::Join, Some(&group), &[]), Ok(()), "{at}");
        }
    }
}

#[test]
fn several_of_a_conversation_are_told_together_and_those_of_another_apart() {
    let mut world = world(2);
    for n in 0..3 {
        world.says(ANN, 1, &format!("text of ann {}", n + 4)).expect("sent");
    }
    world.says(CAROL, 1, "carol, too").expect("sent");
    let mut all = told(&mut world);
    all.sort_by(|a, b| a.3.cmp(&b.3));
    assert_eq!(all, [high(4, 1, "carol, too"), high(4, 3, "text of ann 6")]);
    world.says(ANN, 1, "it does not count: 7").expect("sent");
    assert_eq!(told(&mut world), []);
}

#[test]
fn what_a_device_that_is_here_does_not_acknowledge_wakes_the_others() {
    let mut world = world(2);
    world.connect(BOBS_OTHER);
    world.rest();
    world.says(ANN, 1, "you do not read").expect("sent");
    assert_eq!(told(&mut world), [], "it may yet");
    world.passes(20_000);
    assert_eq!(told(&mut world), [high(1, 1, "you do not read")]);
    world.says(ANN, 1, "and you go").expect("sent");
    world.leaves(BOBS_OTHER);
    assert_eq!(told(&mut world), [high(2, 1, "and you go")], "without waiting for it");
}

#[test]
fn what_is_muted_or_comes_in_quiet_hours_makes_no_sound() {
    let mut world = world(1);
    world.says(ANN, 1, "loud").expect("sent");
    assert_eq!(told(&mut world), [high(1, 1, "loud")]);
    world.connect(BOB);
    world.rest();
    world.keeps(BOB, &person(0), ConversationChange::Mute(MuteLevel::ButMentions)).expect("kept");
    world.texts(BOB);
    world.leaves(BOB);
    assert_eq!(told(&mut world), [(Loudness::Badge, 0, 0, String::new())], "it is not in it");
    world.says(ANN, 1, "muted").expect("sent");
    assert_eq!(told(&mut world), [(Loudness::Low, 0, 1, "muted".into())]);
    world.connect(BOB);
    world.rest();
    let minute = (world.now.unix_s() / 60 % 1_440) as u16;
    world.is_quiet(BOB, minute, (minute + 30) % 1_440);
    world.texts(BOB);
    world.leaves(BOB);
    world.says(CAROL, 1, "at night").expect("sent");
    assert_eq!(told(&mut world), [(Loudness::Low, 1, 1, "at night".into())]);
    world.pass_ms(31 * 60_000);
    world.says(CAROL, 1, "in the morning").expect("sent");
    assert_eq!(told(&mut world), [high(2, 1, "in the morning")]);
}

#[test]
fn a_mention_is_told_though_its_conversation_is_muted_and_nothing_else_of_it() {
    for shards in 1..=3 {
        let mut world = world(shards);
        world.says(ANN, 1, "loud").expect("sent");
        assert_eq!(told(&mut world), [high(1, 1, "loud")]);
        world.connect(BOB);
        world.rest();
        world
            .keeps(BOB, &person(0), ConversationChange::Mute(MuteLevel::ButMentions))
            .expect("kept");
        world.texts(BOB);
        world.leaves(BOB);
        assert_eq!(told(&mut world), [(Loudness::Badge, 0, 0, String::new())]);
        // The last figure of a text chooses the account that it mentions.
        for text in ["muted", "bob 1", "muted, too"] {
            world.says(ANN, 1, text).expect("sent");
        }
        assert_eq!(told(&mut world), [high(1, 1, "bob 1")], "the number has it, too");
        world.says(ANN, 1, "muted again").expect("sent");
        assert_eq!(told(&mut world), [(Loudness::Low, 1, 1, "muted again".into())]);
    }
}

#[test]
fn a_conversation_of_which_nothing_is_to_make_noise_is_silent_when_it_mentions_one_too() {
    let mut world = world(2);
    world.connect(BOB);
    world.rest();
    world.keeps(BOB, &person(0), ConversationChange::Mute(MuteLevel::Everything)).expect("kept");
    world.texts(BOB);
    world.leaves(BOB);
    world.says(ANN, 1, "bob 1").expect("sent");
    assert_eq!(told(&mut world), [(Loudness::Low, 0, 1, "bob 1".into())], "nor has the number it");
    world.connect(BOB);
    world.rest();
    world.keeps(BOB, &person(0), ConversationChange::Mute(MuteLevel::ButMentions)).expect("kept");
    world.texts(BOB);
    world.leaves(BOB);
    world.says(ANN, 1, "bob 1").expect("sent");
    assert_eq!(told(&mut world).pop(), Some(high(2, 1, "bob 1")), "both mention him");
}

#[test]
fn what_was_read_elsewhere_or_called_back_is_a_smaller_number_and_nothing_else() {
    for shards in 1..=3 {
        let mut world = world(shards);
        world.says(ANN, 1, "one").expect("sent");
        world.says(ANN, 1, "two").expect("sent");
        assert_eq!(told(&mut world), [high(2, 2, "two")]);
        world.recalls(ANN, &person(1), 2).expect("called back");
        assert_eq!(told(&mut world), [(Loudness::Badge, 1, 0, String::new())]);
        reads_elsewhere(&mut world, &[0]);
        assert_eq!(told(&mut world), [(Loudness::Badge, 0, 0, String::new())]);
        world.says(ANN, 1, "three").expect("sent");
        world.recalls(ANN, &person(1), 4).expect("called back");
        assert_eq!(told(&mut world), [], "nobody had been told of it");
    }
}

#[test]
fn what_is_read_before_the_gateway_has_answered_is_a_smaller_number_all_the_same() {
    for shards in 1..=3 {
        let mut world = world(shards);
        world.carrier.is_slow = true;
        world.says(ANN, 1, "one").expect("sent");
        assert_eq!(told(&mut world), [high(1, 1, "one")]);
        reads_elsewhere(&mut world, &[0]);
        assert_eq!(told(&mut world), [], "one after the other");
        world.gateway_answers();
        assert_eq!(told(&mut world), [(Loudness::Badge, 0, 0, String::new())]);
    }
}

#[test]
fn what_one_answer_of_two_says_is_shown_is_taken_back_when_it_is_read() {
    for shards in 1..=3 {
        let mut world = world(shards);
        world.carrier.is_slow = true;
        world.says(ANN, 1, "one").expect("sent");
        world.says(CAROL, 1, "two").expect("sent");
        assert_eq!(told(&mut world).len(), 2, "one of each conversation");
        // The other notification is to be repeated, and its message is read before that.
        world.carrier.unanswered[1].2 = Notified::Later { rest_ms: 1_000 };
        world.gateway_answers();
        reads_elsewhere(&mut world, &[0, 2]);
        assert_eq!(told(&mut world), [(Loudness::Badge, 0, 0, String::new())]);
    }
}

#[test]
fn members_of_a_group_are_told_who_said_it_there() {
    let mut world = world(3);
    world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
    let group = world.groups()[0].clone();
    world.passes(3_000);
    world.carrier.take();
    world.says_to(ANN, &group, "to all of us").expect("sent");
    world.passes(3_000);
    let all = world.carrier.take();
    let said = all[0].said.as_ref().expect("something was said");
    assert_eq!((all.len(), &said.conversation, &said.sender), (1, &Some(group), &Some(person(0))));
}

#[test]
fn a_gateway_that_is_down_for_an_hour_is_told_when_it_is_back_and_the_other_way_at_once() {
    let mut world = World::new(5, 2);
    for at in [ANN, BOB] {
        world.connect(at);
        world.rest();
    }
    world.leaves(ANN);
    world.is_rarely_here();
    world.carrier.is_down = true;
    world.says(BOB, 0, "the first").expect("sent");
    let all = told(&mut world);
    assert_eq!(all, [high(1, 1, "the first")], "by the hub");
    for _ in 0..60 {
        world.passes(60_000);
    }
    assert!((20..600).contains(&world.carrier.put_off), "{} times", world.carrier.put_off);
    world.says(BOB, 0, "the second").expect("sent");
    world.passes(1_000);
    world.carrier.is_down = false;
    world.passes(40_000);
    let mut all: Vec<_> = world.carrier.take().iter().map(summary).collect();
    all.sort_by_key(|it| it.2);
    assert_eq!(all, [high(2, 1, "the second"), high(2, 2, "the second")], "each what it lacked");
}

#[test]
fn what_is_too_old_is_given_up_and_counted() {
    let mut world = world(1);
    world.carrier.is_down = true;
    world.says(ANN, 1, "nobody hears it").expect("sent");
    world.passes(3_000);
    for _ in 0..25 {
        world.passes(3_600_000);
    }
    world.carrier.is_down = false;
    assert_eq!(told(&mut world), []);
    world.says(ANN, 1, "but this").expect("sent");
    assert_eq!(told(&mut world), [high(2, 1, "but this")]);
}

#[test]
fn what_was_owed_at_a_kill_is_told_after_it_once_or_twice() {
    for shards in 1..=3 {
        let mut world = world(shards);
        world.says(ANN, 1, "long ago").expect("sent");
        assert_eq!(told(&mut world).len(), 1);
        world.pass_ms(600_000);
        world.carrier.is_down = true;
        world.says(ANN, 1, "before it").expect("sent");
        world.passes(3_000);
        world.dies();
        world.rest();
        world.carrier.is_down = false;
        assert_eq!(told(&mut world), [high(2, 1, "before it")], "and nothing of long ago");
        world.dies();
        world.rest();
        assert_eq!(told(&mut world), [], "it was told");
    }
}

#[test]
fn a_device_that_is_gone_is_told_nothing_any_more() {
    let mut world = world(2);
    world.carrier.gone.insert("bobs token".into());
    world.says(ANN, 1, "to nobody").expect("sent");
    assert_eq!(told(&mut world).len(), 1, "the gateway says that it is gone");
    world.says(ANN, 1, "again").expect("sent");
    assert_eq!(told(&mut world), []);
    world.connect(BOB);
    world.rest();
    assert!(world.push_status(BOB).registrations.is_empty());
}

#[test]
fn an_account_that_lost_its_name_is_told_nothing_any_more() {
    let mut world = world(2);
    world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
    let group = world.groups()[0].clone();
    world.passes(3_000);
    world.carrier.take();
    world.names.give("p1", NameOwner::Account(7));
    world.says_to(ANN, &group, "is it still you").expect("sent");
    assert_eq!(told(&mut world), []);
    world.says_to(ANN, &group, "or you").expect("sent");
    assert_eq!(told(&mut world), []);
}

#[test]
fn registrations_are_kept_replaced_counted_and_taken_back() {
    let mut world = world(2);
    world.connect(BOB);
    world.rest();
    world.registers(BOB, "another token").expect("in its place");
    let route = PushRoute::gateway("app", "third").expect("allowed");
    let named = |name: &str| PushWish::Register {
        name: Some(name.into()),
        route: route.clone(),
        code: None,
        shared: false,
    };
    world.wishes(BOB, named("tablet")).expect("registered");
    world.registers_at(BOB, "push.example", "n").expect("registered");
    assert_eq!(world.wishes(BOB, named("one too many")), Err(ChatFault::PushFull));
    assert_eq!(world.wishes(BOB, named("")), Err(ChatFault::Invalid));
    let names = |world: &mut World| {
        let all = world.push_status(BOB).registrations;
        all.into_iter().map(|it| it.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&mut world), ["d0", "push.example n", "tablet"]);
    world
        .wishes(BOB, PushWish::Disable { service: Some("push.example".into()), node: None })
        .expect("disabled");
    assert_eq!(names(&mut world), ["d0", "tablet"]);
    world.dies();
    world.rest();
    world.connect(BOB);
    world.rest();
    assert_eq!(names(&mut world), ["d0", "tablet"]);
    let hours = QuietHours::of(60, 120, -60);
    world.wishes(BOB, PushWish::Quiet(hours)).expect("kept");
    assert_eq!(world.push_status(BOB).quiet, hours);
    world.wishes(BOB, PushWish::Quiet(None)).expect("kept");
    assert_eq!(world.push_status(BOB).quiet, None);
    for name in [None, Some("tablet".into()), Some("tablet".into())] {
        world.wishes(BOB, PushWish::Remove { name }).expect("also what is not there");
    }
    assert!(names(&mut world).is_empty());
    world.leaves(BOB);
    world.says(ANN, 1, "to nobody").expect("sent");
    assert_eq!(told(&mut world), []);
}

#[test]
fn a_device_is_of_whoever_registered_it_last() {
    for shards in 1..=4 {
        let mut world = world(shards);
        world.connect(BOB);
        world.rest();
        world.registers_at(BOB, "push.example", "n").expect("registered");
        let names = |world: &mut World, at| {
            let all = world.push_status(at).registrations;
            all.into_iter().map(|it| it.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(&mut world, BOB), ["d0", "push.example n"]);
        // The phone is Carol's now, and its app registers it with the same token.
        world.registers(CAROL, "bobs token").expect("registered");
        assert_eq!(
            (names(&mut world, BOB), names(&mut world, CAROL)),
            (vec!["push.example n".into()], vec!["d0".to_owned()])
        );
        world.registers_at(CAROL, "push.example", "n").expect("registered");
        assert_eq!(names(&mut world, BOB), [""; 0]);
        world.leaves(BOB);
        world.says(ANN, 1, "for bob").expect("sent");
        assert_eq!(told(&mut world), [], "the phone shows nothing of him");
        // The registration survives a restart, and the phone passes back to Bob.
        world.dies();
        world.rest();
        for at in [ANN, BOB, CAROL] {
            world.connect(at);
            world.rest();
        }
        world.registers(BOB, "bobs token").expect("registered");
        assert_eq!(names(&mut world, CAROL), ["push.example n"]);
        // A client that wants the device for both accounts says so.
        let route = PushRoute::gateway("app", "bobs token").expect("allowed");
        let shared = PushWish::Register { name: None, route, code: None, shared: true };
        world.wishes(CAROL, shared).expect("registered");
        assert_eq!((names(&mut world, BOB).len(), names(&mut world, CAROL).len()), (1, 2));
        // A device is registered once, also under another name of the same account.
        let route = PushRoute::gateway("app", "bobs token").expect("allowed");
        let name = Some("another name".into());
        world
            .wishes(BOB, PushWish::Register { name, route, code: None, shared: false })
            .expect("registered");
        assert_eq!(names(&mut world, BOB), ["another name"]);
        assert_eq!(names(&mut world, CAROL), ["push.example n"]);
        world.heal();
    }
}

#[test]
fn a_device_of_miop_is_bound_by_the_code_that_was_pushed_to_it() {
    let mut world = world(1);
    world.connect(BOB);
    world.rest();
    let route = PushRoute::miop("shop", "somebodys").expect("allowed");
    let wish = |code: &str| PushWish::Register {
        name: None,
        route: route.clone(),
        code: Some(code.into()),
        shared: false,
    };
    assert_eq!(world.wishes(BOB, wish("aaaaaaaa")), Err(ChatFault::BadCode));
    assert_eq!(world.wishes(BOB, wish("")), Err(ChatFault::BadCode));
    let asks = PushWish::Register { name: None, route: route.clone(), code: None, shared: false };
    world.wishes(BOB, asks.clone()).expect("a code is pushed");
    assert_eq!(world.wishes(BOB, asks), Err(ChatFault::Busy), "not one after another");
}

/// People communicate while shards lag, logs refuse, the process crashes and the gateway fails; the
/// first person is rarely connected. Messages that count and stay unread must have been announced.
fn history(seed: u64, (shards, border): (u16, u32), steps: u32) -> (usize, usize) {
    println!("seed {seed}, {shards} shards, groups beyond {border} are read");
    let mut world = World::with_border(seed, shards, border);
    world.is_rarely_here();
    world.has_a_service();
    for _ in 0..steps {
        world.step();
    }
    let had = world.tells_all();
    let all = world.carrier.told.clone();
    world.heal();
    world.check();
    let told = all.iter().filter_map(notified).filter(|it| it.said.is_some()).count();
    (world.check_told(had, &all), told)
}

#[test]
fn whatever_happens_what_stays_unread_was_told_of() {
    let (mut looked, mut told) = (0, 0);
    // The further seeds once left an account without its notification until a device connected.
    for seed in (0..60).chain([118, 300]) {
        let seen = history(seed, (1 + (seed % 3) as u16, seed as u32 / 3 % 2), 1_500);
        (looked, told) = (looked + seen.0, told + seen.1);
    }
    assert!(looked > 100 && told > 100, "{looked} messages, {told} notifications");
}

#[test]
#[ignore = "as many as one has time for: CHAT_SEEDS"]
fn many_histories() {
    let seeds = std::env::var("CHAT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000);
    for seed in 1_000..1_000 + seeds {
        history(seed, (1 + (seed % 4) as u16, seed as u32 / 4 % 2), 3_000);
    }
}
