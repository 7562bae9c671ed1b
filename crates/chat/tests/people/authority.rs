//! Rights in groups: bans, open groups, recalls of others' messages; and the archive of a group.

use crate::world::{World, person};
use model::account::AccountAddress;
use model::chat::{
    ArchiveId, ArchiveRange, ChatFault, ChatMessage, GroupVerb, MembersPage, MembersRange,
    Moderated,
};
use std::sync::Arc;

/// The first devices of four people.
const ANN: usize = 0;
const BOB: usize = 2;
const CAROL: usize = 4;
const DAVE: usize = 6;

/// Ann has created a group with Bob.
fn group(shards: u16) -> (World, AccountAddress) {
    let mut world = World::new(47, shards);
    for at in [ANN, BOB, CAROL, DAVE] {
        world.connect(at);
        world.rest();
    }
    world.orders(ANN, GroupVerb::Create, None, &[1]).expect("made");
    let group = world.groups().first().cloned().expect("everybody has heard of it");
    (world, group)
}

fn heard(world: &mut World, at: usize, text: &str) -> bool {
    world.texts(at).iter().any(|it| it == text)
}

fn bans(world: &mut World, at: usize, group: &AccountAddress) -> Result<MembersPage, ChatFault> {
    let (version, from, count, banned) = (0, 0, 9, true);
    let range = MembersRange { group: group.clone().into(), version, from, count, banned };
    world.lists_so(at, range)
}

fn banned(world: &mut World, at: usize, group: &AccountAddress) -> Result<Vec<String>, ChatFault> {
    let page = bans(world, at, group)?;
    assert_eq!(page.total as usize, page.members.len());
    Ok(page.members.iter().map(|it| it.member.address.to_string()).collect())
}

#[test]
fn who_is_banned_is_out_and_stays_out_until_that_is_undone() {
    for shards in 1..=3 {
        let (mut world, group) = group(shards);
        let all = Some(&group);
        world.orders(ANN, GroupVerb::Ban, all, &[1]).expect("an owner may");
        assert_eq!(world.says_to(BOB, &group, "am I?"), Err(ChatFault::NotMember));
        assert_eq!(world.orders(ANN, GroupVerb::Add, all, &[1]), Err(ChatFault::GroupBanned));
        assert_eq!(world.orders(ANN, GroupVerb::Ban, all, &[1]), Err(ChatFault::Unchanged));
        // An account that was never a member can be banned, too; an unknown account cannot.
        world.orders(ANN, GroupVerb::Ban, all, &[3]).expect("before she comes");
        let both = [person(1).to_string(), person(3).to_string()];
        assert_eq!(banned(&mut world, ANN, &group), Ok(both.to_vec()));
        // Bans survive a restart.
        world.dies();
        world.heal();
        for at in [ANN, BOB, CAROL, DAVE] {
            world.connect(at);
            world.rest();
        }
        assert_eq!(world.orders(ANN, GroupVerb::Add, all, &[3]), Err(ChatFault::GroupBanned));
        let page = bans(&mut world, ANN, &group).expect("an owner may");
        // The text of the order is the reason.
        let why = page.members.iter().map(|it| it.reason.as_deref().unwrap_or_default());
        assert!(why.into_iter().all(|why| why.starts_with("title ")), "{page:?}");
        world.orders(ANN, GroupVerb::Unban, all, &[1]).expect("an owner may");
        assert_eq!(world.orders(ANN, GroupVerb::Unban, all, &[1]), Err(ChatFault::Unchanged));
        world.orders(ANN, GroupVerb::Add, all, &[1]).expect("he may come again");
        assert_eq!(banned(&mut world, BOB, &group), Err(ChatFault::Forbidden), "a member");
        assert_eq!(banned(&mut world, DAVE, &group), Err(ChatFault::NotMember));
        assert_eq!(world.orders(BOB, GroupVerb::Ban, all, &[2]), Err(ChatFault::Forbidden));
        world.orders(ANN, GroupVerb::Promote, all, &[1]).expect("an owner may");
        assert_eq!(world.orders(BOB, GroupVerb::Ban, all, &[0]), Err(ChatFault::Forbidden));
        assert_eq!(world.orders(BOB, GroupVerb::Ban, all, &[1]), Err(ChatFault::Forbidden));
        world.orders(BOB, GroupVerb::Ban, all, &[2]).expect("an admin may");
        world.heal();
        world.check();
    }
}

#[test]
fn a_group_has_so_many_banned_and_no_more() {
    let (mut world, group) = group(2);
    let all = Some(&group);
    world.orders(ANN, GroupVerb::Ban, all, &[1, 2]).expect("the limit of tests");
    assert_eq!(world.orders(ANN, GroupVerb::Ban, all, &[3]), Err(ChatFault::BansFull));
    world.orders(ANN, GroupVerb::Unban, all, &[2]).expect("an owner may");
    world.orders(ANN, GroupVerb::Ban, all, &[3]).expect("there is room");
}

#[test]
fn whoever_wants_comes_into_a_group_that_is_unlocked_and_reads_what_was_said_since() {
    for shards in 1..=3 {
        let (mut world, group) = group(shards);
        let all = Some(&group);
        world.says_to(ANN, &group, "among us").expect("an owner");
        assert_eq!(world.orders(CAROL, GroupVerb::Join, all, &[]), Err(ChatFault::NotMember));
        assert_eq!(world.orders(BOB, GroupVerb::Unlock, all, &[]), Err(ChatFault::Forbidden));
        world.orders(ANN, GroupVerb::Unlock, all, &[]).expect("an owner may");
        assert_eq!(world.orders(ANN, GroupVerb::Unlock, all, &[]), Err(ChatFault::Unchanged));
        world.says_to(BOB, &group, "for everybody").expect("a member");
        // Any account gets the description of an open group, but not its members.
        let page = world.lists(CAROL, &group, (0, 0, 9)).expect("it is unlocked");
        assert_eq!((page.unlocked, page.total, page.members.len()), (true, 2, 0));
        world.orders(CAROL, GroupVerb::Join, all, &[]).expect("it is unlocked");
        assert_eq!(world.orders(CAROL, GroupVerb::Join, all, &[]), Err(ChatFault::Unchanged));
        world.says_to(CAROL, &group, "hello").expect("a member");
        assert!(heard(&mut world, ANN, "hello") && heard(&mut world, BOB, "hello"));
        let read = archive(&mut world, CAROL, &group, ArchiveRange::whole(false, 9));
        assert_eq!(texts(&read), ["for everybody", "hello"], "not what was said before");
        world.orders(ANN, GroupVerb::Lock, all, &[]).expect("an owner may");
        assert_eq!(world.lists(DAVE, &group, (0, 0, 9)), Err(ChatFault::NotMember));
        world.orders(CAROL, GroupVerb::Leave, all, &[]).expect("a member may");
        assert_eq!(world.orders(CAROL, GroupVerb::Join, all, &[]), Err(ChatFault::NotMember));
        world.orders(ANN, GroupVerb::Unlock, all, &[]).expect("an owner may");
        world.orders(ANN, GroupVerb::Ban, all, &[2]).expect("an owner may");
        assert_eq!(world.orders(CAROL, GroupVerb::Join, all, &[]), Err(ChatFault::GroupBanned));
    }
}

#[test]
fn owner_and_admins_call_back_what_those_below_them_have_said() {
    for shards in 1..=3 {
        let (mut world, group) = group(shards);
        world.orders(ANN, GroupVerb::Add, Some(&group), &[2]).expect("an owner may");
        world.says_to(BOB, &group, "spam").expect("a member");
        world.says_to(ANN, &group, "please").expect("an owner");
        world.pass_ms(3_601_000);
        assert_eq!(world.recalls(CAROL, &group, 3), Err(ChatFault::Forbidden), "a member");
        world.orders(ANN, GroupVerb::Promote, Some(&group), &[2]).expect("an owner may");
        assert_eq!(world.recalls(CAROL, &group, 4), Err(ChatFault::Forbidden), "the owner's");
        world.recalls(CAROL, &group, 3).expect("an admin may, however old it is");
        let left = archive(&mut world, BOB, &group, ArchiveRange::whole(false, 9));
        assert!(!texts(&left).contains(&"spam") && texts(&left).contains(&"please"));
        let all = |world: &mut World| archive(world, BOB, &group, ArchiveRange::whole(false, 19));
        let by = |world: &mut World| -> Vec<Moderated> {
            all(world).iter().filter_map(|it| Moderated::of(&it.content)).collect()
        };
        let first = by(&mut world);
        assert_eq!(first.len(), 2, "what is left, and what tells of it");
        assert!(first[0] == first[1] && first[0].by == person(2), "{first:?}");
        assert!(first[0].reason.starts_with("reason "), "{first:?}");
        // A repeated recall is delivered once, with the name of the account that made it.
        world.says_to(BOB, &group, "more").expect("a member");
        let seq = all(&mut world).last().expect("said").seq;
        world.recalls(CAROL, &group, seq).expect("an admin may");
        world.recalls(ANN, &group, seq).expect("it is so already");
        let both = by(&mut world);
        assert!(both.len() == 4 && both.iter().all(|it| it.by == person(2)), "{both:?}");
        // The sender recalls its message without a reason.
        world.says_to(BOB, &group, "oh").expect("a member");
        let seq = all(&mut world).last().expect("said").seq;
        world.recalls(BOB, &group, seq).expect("his own");
        assert_eq!(by(&mut world), both);
        assert_eq!(world.recalls(ANN, &group, 2), Err(ChatFault::Forbidden), "what happened");
    }
}

#[test]
fn a_group_is_described_and_members_read_how() {
    let (mut world, group) = group(2);
    assert_eq!(
        world.orders(BOB, GroupVerb::Describe, Some(&group), &[]),
        Err(ChatFault::Forbidden)
    );
    world.orders(ANN, GroupVerb::Describe, Some(&group), &[]).expect("an owner may");
    let page = world.lists(BOB, &group, (0, 0, 1)).expect("a member");
    assert!(page.description.starts_with("title ") && page.description != page.title);
    world.heal();
    world.check();
}

/// The messages of a group's archive in a range, page by page.
fn archive(
    world: &mut World,
    at: usize,
    group: &AccountAddress,
    range: ArchiveRange,
) -> Vec<Arc<ChatMessage>> {
    let with = Some(group.clone().into());
    let (mut range, mut all) = (ArchiveRange { with, ..range }, Vec::new());
    loop {
        let page = world.archive(at, range.clone()).expect("it is read");
        match range.backwards {
            true => drop(all.splice(0..0, page.messages)),
            false => all.extend(page.messages),
        }
        let Some(id) = page.goes_on else { return all };
        let bound = if range.backwards { &mut range.before } else { &mut range.after };
        assert_ne!(*bound, [id], "it gets on");
        *bound = vec![id];
    }
}

/// Texts of these messages, without notices of changes of the group.
fn texts(messages: &[Arc<ChatMessage>]) -> Vec<&str> {
    let said = messages.iter().filter(|it| !it.content.is_reserved());
    said.map(|it| &*it.content.text).collect()
}

#[test]
fn the_archive_of_a_group_is_its_conversation_for_members_from_when_they_came() {
    for shards in 1..=4 {
        let (mut world, group) = group(shards);
        for n in 0..6 {
            world.says_to(ANN, &group, &format!("early {n}")).expect("an owner");
            world.pass_ms(1_000);
        }
        world.orders(ANN, GroupVerb::Add, Some(&group), &[2]).expect("an owner may");
        for n in 0..6 {
            world.says_to(BOB, &group, &format!("late {n}")).expect("a member");
            world.pass_ms(1_000);
        }
        let whole = archive(&mut world, ANN, &group, ArchiveRange::whole(false, 50));
        assert_eq!(texts(&whole).len(), 12);
        assert_eq!(archive(&mut world, ANN, &group, ArchiveRange::whole(true, 3)), whole);
        let with = Some(group.clone().into());
        let last = world.archive(ANN, ArchiveRange { with, ..ArchiveRange::whole(true, 3) });
        assert_eq!(texts(&last.expect("read").messages), ["late 3", "late 4", "late 5"]);
        // A later member reads no earlier messages, whatever its request.
        let own = archive(&mut world, CAROL, &group, ArchiveRange::whole(false, 50));
        assert_eq!(texts(&own), ["late 0", "late 1", "late 2", "late 3", "late 4", "late 5"]);
        let own = archive(&mut world, CAROL, &group, ArchiveRange::whole(true, 50));
        assert_eq!(texts(&own).len(), 6);
        for since_ms in [1, whole[3].at_ms, whole[10].at_ms] {
            let range = ArchiveRange { since_ms, ..ArchiveRange::whole(false, 50) };
            let own = archive(&mut world, CAROL, &group, range.clone());
            let expected: Vec<_> =
                whole.iter().filter(|it| it.at_ms >= since_ms && it.seq > 8).cloned().collect();
            assert_eq!(texts(&own), texts(&expected), "{since_ms}");
            let all = archive(&mut world, BOB, &group, range);
            let expected: Vec<_> =
                whole.iter().filter(|it| it.at_ms >= since_ms).cloned().collect();
            assert_eq!(texts(&all), texts(&expected), "{since_ms}");
        }
        let until_ms = whole[4].at_ms;
        let range = ArchiveRange { until_ms, ..ArchiveRange::whole(false, 50) };
        assert_eq!(texts(&archive(&mut world, CAROL, &group, range)), [""; 0]);
        let with = Some(group.clone().into());
        let after = vec![ArchiveId::of(&whole[3])];
        let range = ArchiveRange { with: with.clone(), after, ..ArchiveRange::whole(false, 5) };
        assert_eq!(world.archive_fault(CAROL, range.clone()), ChatFault::UnknownMessage);
        let other = ArchiveRange { after: Vec::new(), ..range };
        assert_eq!(world.archive_fault(DAVE, other), ChatFault::NotMember);
        let nowhere = AccountAddress::of_group(1, "a.example").expect("right");
        let range = ArchiveRange { with: Some(nowhere.into()), ..ArchiveRange::whole(false, 5) };
        assert_eq!(world.archive_fault(ANN, range), ChatFault::NotMember);
        world.heal();
        world.check();
    }
}
