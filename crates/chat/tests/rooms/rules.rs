//! Rules of a room: its password, how many enter it, what members and others may do there; and a
//! room that is being made.

use crate::world::*;
use model::chat::*;

fn sets(world: &mut World, at: usize, rules: &[RoomRule]) -> Result<(), ChatFault> {
    let settings = GroupSettings { rules: rules.to_vec(), ..GroupSettings::default() };
    let client_id = ClientMessageId((3 << 64 | u128::from(world.number())).to_be_bytes());
    let change = RoomChange::Settings(Box::new(settings));
    world.of_room(at, OccupancyAsk::Change { client_id, change })
}

/// Whether a device enters with this password.
fn enters_with(world: &mut World, at: usize, password: Option<&str>) -> Result<(), ChatFault> {
    let entry =
        Entry { nick: PEOPLE[at].into(), password: password.map(Into::into), ..Entry::default() };
    enters(world, at, entry)
}

fn enters(world: &mut World, at: usize, entry: Entry) -> Result<(), ChatFault> {
    let number = world.number();
    world.devices[at].place = Place::Entering(number);
    world.asks_room(at, number, OccupancyAsk::Enter(Box::new(entry)));
    world.rest();
    match world.devices[at].place {
        Place::Room => Ok(()),
        _ => world.devices[at].answer.take().expect("it is answered"),
    }
}

fn leaves(world: &mut World, at: usize) {
    world.leaves(at);
    world.rest();
}

#[test]
fn nobody_enters_a_room_with_a_password_without_it_and_members_write_by_im_all_the_same() {
    let (right, wrong) = (Some("sesame"), Err(ChatFault::BadPassword));
    for shards in 1..=3 {
        let mut world = World::new(shards);
        world.orders(CAROL, GroupVerb::Leave, &[]).expect("she is no member");
        world.orders(ANN, GroupVerb::Unlock, &[]).expect("open");
        let password = RoomRule::Password("sesame".into());
        assert_eq!(
            sets(&mut world, BOB, std::slice::from_ref(&password)),
            Err(ChatFault::Forbidden)
        );
        let key = RoomRule::Key("x".into());
        assert_eq!(sets(&mut world, ANN, &[key]), Err(ChatFault::Invalid), "it sets nothing");
        assert_eq!(sets(&mut world, ANN, std::slice::from_ref(&password)), Ok(()));
        assert_eq!(sets(&mut world, ANN, &[password]), Err(ChatFault::Unchanged));
        for at in [ANN, BOB, CAROL] {
            assert_eq!(enters_with(&mut world, at, None), wrong, "{at}: its owner, too");
            assert_eq!(enters_with(&mut world, at, Some("Sesame")), wrong);
        }
        assert_eq!(world.orders(CAROL, GroupVerb::Join, &[]), Err(ChatFault::NotMember));
        world.says(BOB, "by IM").expect("a member");
        for at in [ANN, BOB, CAROL] {
            assert_eq!(enters_with(&mut world, at, right), Ok(()));
        }
        assert_eq!(world.members(ANN), ["ann", "bob"]);
        // The log has all changes that were made.
        world.restarts();
        assert_eq!(enters_with(&mut world, BOB, None), wrong);
        assert_eq!(sets(&mut world, ANN, &[RoomRule::Password("".into())]), Ok(()));
        assert_eq!(enters_with(&mut world, BOB, None), Ok(()));
        assert_eq!(enters_with(&mut world, CAROL, None), Ok(()));
    }
}

#[test]
fn wrong_passwords_are_taken_so_often_in_a_minute_whatever_the_session() {
    let mut world = World::new(2);
    assert_eq!(sets(&mut world, ANN, &[RoomRule::Password("sesame".into())]), Ok(()));
    for _ in 0..20 {
        assert_eq!(enters_with(&mut world, BOB, Some("sesame")), Ok(()), "no guess");
        assert_eq!(enters_with(&mut world, CAROL, None), Err(ChatFault::BadPassword), "none");
    }
    leaves(&mut world, BOB);
    for _ in 0..10 {
        let wrong = enters_with(&mut world, BOB, Some("wrong"));
        assert_eq!(wrong, Err(ChatFault::BadPassword));
    }
    world.breaks(BOB);
    world.connects(BOB);
    assert_eq!(enters_with(&mut world, BOB, Some("sesame")), Err(ChatFault::RateLimited));
    assert_eq!(enters_with(&mut world, CAROL, Some("sesame")), Ok(()), "another account");
    world.now.mono = world.now.mono + std::time::Duration::from_secs(60);
    assert_eq!(enters_with(&mut world, BOB, Some("sesame")), Ok(()));
}

#[test]
fn whoever_is_added_gets_the_password_and_an_invited_account_enters_with_it_alone() {
    let mut world = World::new(1);
    world.orders(CAROL, GroupVerb::Leave, &[]).expect("she is no member");
    assert_eq!(sets(&mut world, ANN, &[RoomRule::Password("sesame".into())]), Ok(()));
    world.devices[CAROL].changes.clear();
    // She has left by herself: she is invited.
    world.orders(ANN, GroupVerb::Add, &["carol"]).expect("an admin");
    let told = world.devices[CAROL].changes.clone();
    assert_eq!(told, ["invite carol, set key sesame"]);
    let invited = enters_with(&mut world, CAROL, None);
    assert_eq!(invited, Err(ChatFault::BadPassword), "and becomes no member by that");
    assert_eq!(world.members(ANN), ["ann", "bob"]);
    let invited = enters_with(&mut world, CAROL, Some("sesame"));
    assert_eq!(invited, Err(ChatFault::NotMember), "until it has joined");
    world.orders(CAROL, GroupVerb::Join, &[]).expect("invited");
    assert_eq!(enters_with(&mut world, CAROL, Some("sesame")), Ok(()));
}

#[test]
fn a_visitor_reads_no_password_in_the_history() {
    for shards in 1..=3 {
        let mut world = World::new(shards);
        world.orders(CAROL, GroupVerb::Leave, &[]).expect("she is no member");
        world.orders(ANN, GroupVerb::Unlock, &[]).expect("open");
        assert_eq!(enters_with(&mut world, CAROL, None), Ok(()));
        assert_eq!(sets(&mut world, ANN, &[RoomRule::Password("sesame".into())]), Ok(()));
        world.orders(ANN, GroupVerb::Remove, &["bob"]).expect("an admin");
        world.orders(ANN, GroupVerb::Add, &["bob"]).expect("an admin");
        world.says(ANN, "later").expect("a member");
        let mut passwords = |at: usize| {
            let texts = world.reads(at).expect("it is there");
            assert!(texts.iter().any(|it| it == "ann: later"));
            let read = std::mem::take(&mut world.devices[at].read);
            let rules = read.iter().flat_map(GroupChange::all_of).filter_map(|it| it.rule());
            let is_one = |it: &RoomRule| matches!(it, RoomRule::Password(_) | RoomRule::Key(_));
            rules.filter(is_one).count()
        };
        assert_eq!((passwords(ANN), passwords(CAROL)), (2, 0));
    }
}

#[test]
fn as_many_occupants_enter_as_the_room_lets_in_and_admins_more() {
    for shards in 1..=2 {
        let mut world = World::new(shards);
        assert_eq!(sets(&mut world, ANN, &[RoomRule::OccupantsMax(1)]), Ok(()));
        assert_eq!(enters_with(&mut world, BOB, None), Ok(()));
        assert_eq!(enters_with(&mut world, BOB, None), Ok(()), "it enters anew");
        let full = Err(ChatFault::ChatroomFull);
        assert_eq!(enters_with(&mut world, CAROL, None), full);
        assert_eq!(enters_with(&mut world, ANN, None), Ok(()), "its owner");
        assert_eq!(enters_with(&mut world, CAROL, None), full);
        assert_eq!(sets(&mut world, ANN, &[RoomRule::OccupantsMax(0)]), Ok(()));
        assert_eq!(enters_with(&mut world, CAROL, None), Ok(()));
    }
}

#[test]
fn a_room_that_is_being_made_is_there_for_nobody_else_until_its_first_settings() {
    let mut world = World::new(2);
    world.orders(CAROL, GroupVerb::Leave, &[]).expect("she is no member");
    let makes = |at: usize| Entry { nick: PEOPLE[at].into(), makes: true, ..Entry::default() };
    assert_eq!(enters(&mut world, CAROL, makes(CAROL)), Err(ChatFault::NotMember));
    assert_eq!(enters(&mut world, BOB, makes(BOB)), Ok(()), "no owner: it makes nothing");
    assert_eq!(enters_with(&mut world, CAROL, None), Err(ChatFault::NotMember));
    leaves(&mut world, BOB);
    assert_eq!(enters(&mut world, ANN, makes(ANN)), Ok(()));
    assert_eq!(enters_with(&mut world, CAROL, None), Err(ChatFault::UnknownAccount));
    assert_eq!(enters_with(&mut world, BOB, None), Ok(()), "a member");
    assert_eq!(sets(&mut world, BOB, &[]), Err(ChatFault::Forbidden));
    assert_eq!(enters_with(&mut world, CAROL, None), Err(ChatFault::UnknownAccount));
    assert_eq!(sets(&mut world, ANN, &[]), Err(ChatFault::Unchanged), "as it is");
    assert_eq!(enters_with(&mut world, CAROL, None), Err(ChatFault::NotMember));
    // It is made by its maker: not when she has left, or when she sets it by IM.
    for at in [ANN, BOB] {
        leaves(&mut world, at);
    }
    assert_eq!(enters(&mut world, ANN, makes(ANN)), Ok(()));
    assert_eq!(enters_with(&mut world, BOB, None), Ok(()));
    assert_eq!(enters_with(&mut world, CAROL, None), Err(ChatFault::UnknownAccount));
    leaves(&mut world, ANN);
    assert_eq!(enters_with(&mut world, CAROL, None), Err(ChatFault::NotMember));
    leaves(&mut world, BOB);
    assert_eq!(enters(&mut world, ANN, makes(ANN)), Ok(()));
    world.orders(ANN, GroupVerb::Rename, &[]).expect("its owner");
    assert_eq!(enters_with(&mut world, CAROL, None), Err(ChatFault::UnknownAccount));
    world.orders(ANN, GroupVerb::Unlock, &[]).expect("its owner");
    assert_eq!(enters_with(&mut world, CAROL, None), Ok(()));
}

#[test]
fn members_invite_and_others_set_the_subject_where_a_rule_lets_them() {
    for shards in 1..=2 {
        let mut world = World::new(shards);
        world.orders(ANN, GroupVerb::Remove, &["carol"]).expect("an admin");
        world.orders(ANN, GroupVerb::Unlock, &[]).expect("open");
        let forbidden = Err(ChatFault::Forbidden);
        assert_eq!(world.orders(BOB, GroupVerb::Add, &["carol"]), forbidden);
        assert_eq!(world.orders(BOB, GroupVerb::Rename, &[]), forbidden);
        let rules = [RoomRule::MembersInvite(true), RoomRule::OpenSubject(true)];
        assert_eq!(sets(&mut world, ANN, &rules), Ok(()));
        let stranger = Err(ChatFault::NotMember);
        assert_eq!(world.orders(CAROL, GroupVerb::Rename, &[]), stranger);
        assert_eq!(enters_with(&mut world, CAROL, None), Ok(()));
        assert_eq!(world.orders(CAROL, GroupVerb::Rename, &[]), Ok(()), "a visitor with a voice");
        assert_eq!(world.orders(CAROL, GroupVerb::Add, &["carol"]), stranger);
        assert_eq!(world.orders(BOB, GroupVerb::Rename, &[]), Ok(()), "a member by IM");
        assert_eq!(world.orders(BOB, GroupVerb::Add, &["carol"]), Ok(()));
        world.orders(ANN, GroupVerb::Mute, &["bob"]).expect("an admin");
        assert_eq!(world.orders(BOB, GroupVerb::Rename, &[]), forbidden);
        assert_eq!(world.orders(BOB, GroupVerb::Remove, &["carol"]), forbidden);
    }
}

#[test]
fn what_is_done_under_a_name_is_shown_by_that_name() {
    for shards in 1..=3 {
        let mut world = World::new(shards);
        assert_eq!(enters_with(&mut world, CAROL, None), Ok(()));
        assert_eq!(world.devices[CAROL].titled_by, None, "as it was made");
        let hatter = Entry { nick: "Hatter".into(), ..Entry::default() };
        assert_eq!(enters(&mut world, ANN, hatter), Ok(()));
        world.hears_of(CAROL);
        world.orders(ANN, GroupVerb::Promote, &["carol"]).expect("its owner");
        world.orders(ANN, GroupVerb::Rename, &[]).expect("its owner");
        assert_eq!(world.hears_of(CAROL), ["is carol carol admin by Hatter \"Lunch\""]);
        let items = vec![RoleItem {
            whom: OccupantName::Nick("Hatter".into()),
            role: RoomRole::None,
            reason: "".into(),
        }];
        let kick = world.of_room(CAROL, OccupancyAsk::SetRoles(items));
        assert_eq!(kick, Err(ChatFault::Outranked));
        assert_eq!(enters_with(&mut world, BOB, None), Ok(()));
        assert_eq!(world.devices[BOB].titled_by.as_deref(), Some("Hatter"));
        // The log has it.
        world.restarts();
        assert_eq!(enters_with(&mut world, BOB, None), Ok(()));
        assert_eq!(world.devices[BOB].titled_by.as_deref(), Some("Hatter"));
        world.orders(ANN, GroupVerb::Rename, &[]).expect("its owner, who is not in it");
        assert_eq!(enters_with(&mut world, CAROL, None), Ok(()));
        assert_eq!(world.devices[CAROL].titled_by.as_deref(), Some("ann"));
    }
}

#[test]
fn private_messages_are_for_whom_the_rule_names() {
    for shards in 1..=2 {
        let mut world = World::new(shards);
        world.orders(ANN, GroupVerb::Mute, &["carol"]).expect("an admin");
        for at in [ANN, BOB, CAROL] {
            assert_eq!(enters_with(&mut world, at, None), Ok(()));
        }
        let mut may = |rule: Whispers| {
            let _ = sets(&mut world, ANN, &[RoomRule::Whispers(rule)]);
            [ANN, BOB, CAROL].map(|at| {
                let nick = PEOPLE[(at + 1) % PEOPLE.len()].into();
                let content = Box::new(Content::text("psst"));
                world.of_room(at, OccupancyAsk::Whisper { nick, content }).is_ok()
            })
        };
        assert_eq!(may(Whispers::Anyone), [true, true, true]);
        assert_eq!(may(Whispers::Participants), [true, true, false]);
        assert_eq!(may(Whispers::Moderators), [true, false, false]);
        assert_eq!(may(Whispers::Nobody), [false, false, false]);
    }
}
