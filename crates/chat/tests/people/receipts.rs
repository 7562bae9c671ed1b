//! Receipts, step by step: delivered and read messages, their notices, the readers in a group, and
//! accounts that do not share read positions.

use crate::world::{World, person};
use model::account::AccountAddress;
use model::chat::{ChatFault, GroupVerb, ReadersPage};
use model::timeline::Seq;

const ANN: usize = 0;
const BOB: usize = 2;
const BOBS_OTHER: usize = 3;
const CAROL: usize = 4;

fn world(shards: u16) -> World {
    let mut world = World::new(3, shards);
    for at in [ANN, BOB, CAROL] {
        world.connect(at);
        world.rest();
    }
    world
}

/// The other party's positions in a conversation of two: delivered, and read.
fn positions(page: &ReadersPage) -> (Seq, Seq) {
    let [reader] = &page.readers[..] else { panic!("{page:?}") };
    (reader.delivered, reader.read)
}

fn says(world: &mut World, count: u32) {
    for n in 0..count {
        world.says(ANN, 1, &format!("text {n} of ann")).expect("sent");
    }
}

#[test]
fn what_a_device_acknowledges_is_delivered_and_told_once() {
    for shards in 1..=4 {
        let (mut world, ann, bob) = (world(shards), person(0), person(1));
        says(&mut world, 2);
        assert_eq!(world.delivered(ANN, &bob), 0, "he has said nothing of it");
        assert_eq!(positions(&world.readers(ANN, &bob, (0, 0, 1)).expect("told")), (0, 0));
        world.acknowledges(BOB);
        assert_eq!(world.delivered(ANN, &bob), 2, "the newest, once");
        assert_eq!(positions(&world.readers(ANN, &bob, (0, 0, 1)).expect("told")), (2, 0));
        says(&mut world, 1);
        assert_eq!(positions(&world.readers(ANN, &bob, (0, 0, 1)).expect("told")), (2, 0));
        assert_eq!(world.has_read(BOB, &ann, 2), Ok(2));
        assert_eq!(positions(&world.readers(ANN, &bob, (2, 0, 1)).expect("told")), (2, 2));
        world.heal();
        world.check();
    }
}

#[test]
fn what_was_delivered_outlives_a_kill_and_whichever_device_has_it_counts() {
    for shards in 1..=4 {
        let (mut world, bob) = (world(shards), person(1));
        says(&mut world, 2);
        world.acknowledges(BOB);
        says(&mut world, 1);
        world.dies();
        world.connect(ANN);
        world.rest();
        assert_eq!(positions(&world.readers(ANN, &bob, (0, 0, 1)).expect("told")), (2, 0));
        world.connect(BOBS_OTHER);
        world.rest();
        assert_eq!(world.texts(BOBS_OTHER).len(), 3);
        world.acknowledges(BOBS_OTHER);
        assert_eq!(world.delivered(ANN, &bob), 3, "of a page, too");
        assert_eq!(positions(&world.readers(ANN, &bob, (0, 0, 1)).expect("told")), (3, 0));
        world.heal();
        world.check();
    }
}

#[test]
fn cursors_of_one_second_are_stored_as_one() {
    for shards in 1..=4 {
        let (mut world, ann, bob) = (world(shards), person(0), person(1));
        says(&mut world, 5);
        let places = |world: &mut World, at| {
            world.texts(at);
            world.events(at).len()
        };
        world.reads_at_once(BOB, &ann, &[1, 2, 4, 3]);
        assert_eq!(world.answers_of_reads(BOB), [1], "the others wait");
        world.pass_ms(1_000);
        world.rest();
        assert_eq!(world.answers_of_reads(BOB), [1, 4, 4, 4], "each is answered");
        assert_eq!((places(&mut world, BOB), places(&mut world, ANN)), (2, 2), "one a second");
        assert_eq!(world.knows(ANN, &bob).expect("a conversation").peer_read, 4);
        world.heal();
        world.check();
    }
}

#[test]
fn of_however_many_cursors_of_one_second_each_is_answered_by_the_furthest() {
    for shards in 1..=3 {
        let (mut world, ann) = (world(shards), person(0));
        says(&mut world, 5);
        world.reads_at_once(BOB, &ann, &[1]);
        let many: Vec<Seq> = (0..100).map(|n| 2 + n % 4).collect();
        world.reads_at_once(BOB, &ann, &many);
        assert_eq!(world.answers_of_reads(BOB), [1], "they wait");
        world.pass_ms(1_000);
        world.rest();
        let answers = world.answers_of_reads(BOB);
        assert_eq!(answers.len(), 101, "each is answered");
        assert!(answers[1..].iter().all(|upto| *upto == 5), "{answers:?}");
        world.heal();
        world.check();
    }
}

#[test]
fn members_of_a_group_ask_who_has_read_a_message() {
    for shards in 1..=4 {
        let mut world = world(shards);
        world.orders(ANN, GroupVerb::Create, None, &[1, 2]).expect("made");
        let group = world.groups()[0].clone();
        world.says_to(ANN, &group, "to all").expect("sent");
        assert_eq!(world.has_read(BOB, &group, 2), Ok(2));
        let page = world.readers(ANN, &group, (2, 0, 5)).expect("told");
        let all: Vec<_> = page.readers.iter().map(|it| (it.account.clone(), it.read)).collect();
        assert_eq!(all, [(person(1), 2), (person(2), 0)]);
        assert_eq!((page.total, page.read), (2, 1));
        let page = world.readers(CAROL, &group, (1, 1, 1)).expect("told");
        let all: Vec<_> = page.readers.iter().map(|it| it.account.clone()).collect();
        assert_eq!((all, page.from, page.read), (vec![person(1)], 1, 1), "ann said it");
        world.connect(6);
        world.rest();
        assert_eq!(world.readers(6, &group, (1, 0, 5)), Err(ChatFault::NotMember));
        for count in [0, 257] {
            assert_eq!(world.readers(ANN, &group, (1, 0, count)), Err(ChatFault::Invalid));
        }
        let nobody = AccountAddress::parse("nobody", "a.example").expect("right");
        assert_eq!(world.readers(ANN, &nobody, (1, 0, 5)), Err(ChatFault::UnknownAccount));
        world.heal();
        world.check();
    }
}

#[test]
fn who_keeps_what_it_reads_private_is_told_of_nobody_and_nobody_of_it() {
    for shards in 1..=4 {
        let (mut world, ann, bob) = (world(shards), person(0), person(1));
        world.orders(ANN, GroupVerb::Create, None, &[1, 2]).expect("made");
        let group = world.groups()[0].clone();
        says(&mut world, 2);
        world.says(BOB, 0, "one of bob's own").expect("sent");
        assert!(world.privacy(BOB, None), "shared by default");
        assert!(!world.privacy(BOB, Some(false)));
        assert_eq!(world.has_read(BOB, &ann, 2), Ok(2));
        assert_eq!(world.has_read(BOB, &group, 1), Ok(1));
        assert_eq!(world.knows(BOB, &ann).expect("a conversation").read, 2, "his own have it");
        assert_eq!(world.knows(ANN, &bob).expect("a conversation").peer_read, 0);
        assert_eq!(positions(&world.readers(ANN, &bob, (2, 0, 1)).expect("told")).1, 0);
        assert_eq!(world.readers(ANN, &group, (1, 0, 5)).expect("told").read, 0);
        assert_eq!(world.has_read(ANN, &bob, 3), Ok(3));
        let heard = world.events(BOB);
        assert_eq!(world.knows(BOB, &ann).expect("a conversation").peer_read, 0, "{heard:?}");
        assert_eq!(positions(&world.readers(BOB, &ann, (3, 0, 1)).expect("told")).1, 0);
        assert_eq!(world.readers(BOB, &group, (1, 0, 5)), Err(ChatFault::ReadsPrivate));
        world.texts(ANN);
        world.acknowledges(ANN);
        assert_eq!(world.delivered(BOB, &ann), 3, "what is delivered is told");
        world.dies();
        world.connect(BOB);
        world.rest();
        assert!(!world.privacy(BOB, None), "it outlives a kill");
        assert!(world.privacy(BOB, Some(true)));
        assert_eq!(world.knows(BOB, &ann).expect("a conversation").peer_read, 3);
    }
}

#[test]
fn a_subscriber_of_a_channel_hears_of_no_other_by_asking_who_has_read() {
    for shards in 1..=4 {
        let mut world = world(shards);
        let channel = AccountAddress::parse("news@channel.a.example", "").expect("right");
        world.orders(ANN, GroupVerb::Create, Some(&channel), &[]).expect("made");
        for at in [BOB, CAROL] {
            world.orders(at, GroupVerb::Join, Some(&channel), &[]).expect("whoever wants");
        }
        world.says_to(ANN, &channel, "first").expect("she publishes");
        assert_eq!(world.readers(BOB, &channel, (2, 0, 5)), Err(ChatFault::Forbidden));
        assert_eq!(world.readers(ANN, &channel, (2, 0, 5)).map(|page| page.total), Ok(2));
    }
}

#[test]
fn who_is_blocked_hears_of_no_receipt_and_calls_nothing_back() {
    for shards in 1..=4 {
        let (mut world, ann, bob) = (world(shards), person(0), person(1));
        says(&mut world, 2);
        world.blocks(BOB, &ann);
        world.acknowledges(BOB);
        assert_eq!(world.delivered(ANN, &bob), 0, "what he has is not told");
        assert_eq!(world.has_read(BOB, &ann, 2), Ok(2), "his own devices know it");
        assert_eq!(world.knows(ANN, &bob).expect("a conversation").peer_read, 0);
        let told = world.readers(ANN, &bob, (2, 0, 1));
        assert_eq!(told, Err(ChatFault::UnknownAccount), "as of nobody");
        assert_eq!(world.readers(BOB, &ann, (2, 0, 1)), Err(ChatFault::Blocked));
        assert_eq!(world.recalls(ANN, &bob, 1), Err(ChatFault::UnknownAccount));
        assert_eq!(world.texts(BOB).len(), 2, "he is told of no recall");
    }
}
