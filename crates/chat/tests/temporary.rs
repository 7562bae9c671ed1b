//! Temporary groups end when the last occupant leaves their room, and not before, whatever is on
//! its way between shards.

#[path = "house/plain.rs"]
mod plain;
#[path = "house/shard.rs"]
mod shard;

use base::hash::home;
use base::prng::Prng;
use base::slab::Key;
use base::time::{Instant, Now};
use chat::ChatWord;
use model::account::{AccountAddress, Addressee};
use model::chat::foreign::{ArrivalWhat, ForeignArrival, ForeignDomains, ForeignWord};
use model::chat::*;
use model::close::CloseReason;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::{ChatLimits, Limits};
use model::ports::chat::{ChatCommand, ErrandWhat};
use model::ports::log::{Call, RowHome, Table, Ticket, Write};
use model::service::Service;
use model::timeline::{Space, TimelineId};
use plain::HOME;
use shard::Shard;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const ROOM: &str = "lunch@conference.a.example";
const EVE: &str = "eve@b.example";
const GRACE_S: u64 = 600;

const ANN: usize = 0;
const BOB: usize = 1;
const CAROL: usize = 2;
const PEOPLE: [&str; 3] = ["ann", "bob", "carol"];

/// Several shards, and one device for each of some people.
struct World {
    settings: chat::Settings,
    shards: Vec<Shard>,
    /// Words on their way between shards, by sender and receiver.
    post: BTreeMap<(u16, u16), VecDeque<ChatWord>>,
    calls: Vec<VecDeque<(Ticket, Call)>>,
    now: Now,
    conns: u32,
    devices: Vec<Device>,
    /// Queries of groups whether occupants of other servers are present, and the answer of those
    /// servers; none: they do not answer.
    asked_abroad: VecDeque<AttendanceAsked>,
    abroad: Option<bool>,
    numbers: u32,
    /// Reasons for the end of the group that devices were given.
    ended: Vec<String>,
    /// How often a device failed to enter the room, and how often one became a member by entering.
    missed: usize,
    joined: usize,
    /// Number of public groups in the last list.
    listed: Option<usize>,
}

struct Device {
    account: AccountAddress,
    conn: Option<ConnRef>,
    session: SessionRef,
    place: Place,
    /// The answer to the device's last request.
    answer: Option<Result<(), ChatFault>>,
}

/// State of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Elsewhere,
    /// The device reads the history, by this request; true: it has become a member for that.
    Entering(u32, bool),
    /// The device becomes a member, by this request.
    Joining(u32),
    Room,
}

fn address(text: &str) -> AccountAddress {
    AccountAddress::parse(text, "a.example").expect("right")
}

fn room() -> AccountAddress {
    address(ROOM)
}

fn shard_of(account: &AccountAddress, shards: usize) -> ShardId {
    ShardId(home(account.home_hash(HOME), shards as u16))
}

fn order(verb: GroupVerb, number: u32, members: &[&str]) -> Box<GroupOrder> {
    let members = members.iter().map(|it| Addressee::parse(it).expect("right")).collect();
    let client_id = ClientMessageId((1 << 64 | u128::from(number)).to_be_bytes());
    let (group, title) = (Some(room().into()), "Lunch".into());
    Box::new(GroupOrder { group, client_id, verb, title, members })
}

/// The room's conversation, as its home names it.
fn conversation_of_room() -> TimelineId {
    let own = HOME.of(&[b"group", ROOM.as_bytes()]);
    TimelineId::at_home(Space::Conversation, room().home_hash(HOME), own)
}

impl World {
    /// A group of Ann with Bob and Carol.
    fn new(shards: u16) -> World {
        World::with(shards, |_| {})
    }

    fn with(shards: u16, change: impl FnOnce(&mut ChatLimits)) -> World {
        let mut limits = Limits::default();
        change(&mut limits.chat);
        let (own, federates) = ("a.example".into(), true);
        let foreign = Arc::new(ForeignDomains { own, federates, ..ForeignDomains::default() });
        let plain = plain::settings(ShardId(0), shards);
        let settings = chat::Settings { limits: Arc::new(limits), foreign, ..plain };
        let device = |name: &&str| {
            let (account, conn, session) = (address(name), None, SessionRef::from_bits(0));
            Device { account, conn, session, place: Place::Elsewhere, answer: None }
        };
        let mut world = World {
            shards: (0..shards).map(|n| Shard::new(&settings, n)).collect(),
            settings,
            post: BTreeMap::new(),
            calls: (0..shards).map(|_| VecDeque::new()).collect(),
            now: Now::new(Instant::default(), 1_700_000_000_000),
            conns: 0,
            devices: PEOPLE.iter().map(device).collect(),
            asked_abroad: VecDeque::new(),
            abroad: Some(false),
            numbers: 0,
            ended: Vec::new(),
            missed: 0,
            joined: 0,
            listed: None,
        };
        (0..PEOPLE.len()).for_each(|at| world.connects(at));
        assert_eq!(world.orders(ANN, GroupVerb::Create, &["bob", "carol"]), Ok(()));
        world
    }

    fn collects(&mut self, n: usize) {
        let fx = &mut self.shards[n].fx;
        self.calls[n].extend(fx.calls.drain(..));
        for (to, word) in fx.peer_messages.drain(..) {
            self.post.entry((n as u16, to.0)).or_default().push_back(word);
        }
        for word in fx.foreign.drain(..) {
            if let ForeignWord::Attendance(asked) = word {
                self.asked_abroad.push_back(*asked);
            }
        }
        let told = std::mem::take(&mut fx.deliveries);
        told.into_iter().for_each(|(conn, told)| self.hears(conn, told));
    }

    fn hears(&mut self, conn: ConnRef, told: ChatDelivery) {
        let Some(at) = self.devices.iter().position(|it| it.conn == Some(conn)) else { return };
        let device = &mut self.devices[at];
        match told {
            ChatDelivery::LoggedIn(told) => device.session = told.session,
            ChatDelivery::History(page) => {
                if matches!(device.place, Place::Entering(it, _) if it == page.number) {
                    device.place = Place::Room;
                }
            }
            ChatDelivery::Failed { number, why } => match device.place {
                Place::Entering(it, has_joined) if it == number => {
                    assert!(!has_joined, "{at} has become a member, and is not let in: {why:?}");
                    self.joins(at);
                }
                Place::Joining(it) if it == number => {
                    self.missed += 1;
                    self.leaves(at);
                }
                _ => device.answer = Some(Err(why)),
            },
            ChatDelivery::Changed(it) if device.place == Place::Joining(it.number) => {
                self.joined += 1;
                self.reads(at, true);
            }
            ChatDelivery::Changed(_) | ChatDelivery::Members(_) => device.answer = Some(Ok(())),
            ChatDelivery::PublicGroups(page) => self.listed = Some(page.groups.len()),
            ChatDelivery::Message { message, .. } => {
                let Some(change) = GroupChange::of(&message.content) else { return };
                if change.verb == GroupVerb::Dissolve {
                    assert_ne!(device.place, Place::Room, "it has ended with {at} in it");
                    assert_eq!(message.from, address("ann"), "in its owner's name");
                    self.ended.push(change.reason().to_owned());
                }
            }
            _ => {}
        }
    }

    /// Delivers a word between shards, if one is on its way.
    fn a_word_arrives(&mut self, way: usize) -> bool {
        self.post.retain(|_, all| !all.is_empty());
        let way = way % self.post.len().max(1);
        let Some((&(from, to), all)) = self.post.iter_mut().nth(way) else { return false };
        let word = all.pop_front().expect("it is not empty");
        let shard = &mut self.shards[usize::from(to)];
        Service::peer_message(&mut shard.chat, self.now, ShardId(from), word, &mut shard.fx);
        self.collects(to.into());
        true
    }

    /// Lets a log carry out its first call.
    fn a_log_works(&mut self, n: usize) -> bool {
        let Some((ticket, call)) = self.calls[n].pop_front() else { return false };
        let shard = &mut self.shards[n];
        let result = shard.log.answer(&call);
        Service::complete(&mut shard.chat, self.now, (ticket, result), &mut shard.fx);
        self.collects(n);
        true
    }

    fn turns(&mut self, n: usize) {
        let shard = &mut self.shards[n];
        Service::turn(&mut shard.chat, self.now, &mut shard.fx);
        self.collects(n);
    }

    /// Lets everything come to rest.
    fn rest(&mut self) {
        let mut is_more = true;
        while is_more {
            is_more = false;
            for n in 0..self.shards.len() {
                self.turns(n);
                while self.a_log_works(n) {
                    is_more = true;
                }
            }
            while self.a_word_arrives(0) {
                is_more = true;
            }
            if let Some(attended) = self.abroad
                && let Some(asked) = self.asked_abroad.pop_front()
            {
                self.abroad_tells(asked.number, attended);
                is_more = true;
            }
        }
        self.shards.iter().for_each(|shard| Service::audit(&shard.chat));
    }

    fn pass_s(&mut self, s: u64) {
        let later = self.now.after(Duration::from_secs(s));
        self.now = Now::new(later, self.now.wall_ms + s * 1_000);
        let now_s = self.now.unix_s();
        self.shards.iter_mut().for_each(|shard| shard.log.advance(now_s));
        self.rest();
    }

    fn asks(&mut self, at: usize, request: ChatRequest) {
        let Some(conn) = self.devices[at].conn else { return };
        let n = usize::from(conn.shard().0);
        let shard = &mut self.shards[n];
        Service::request(&mut shard.chat, self.now, conn, request, &mut shard.fx);
        self.collects(n);
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    fn connects(&mut self, at: usize) {
        self.connects_as(at, "desk");
    }

    fn connects_as(&mut self, at: usize, device: &str) {
        self.conns += 1;
        let account = self.devices[at].account.clone();
        let key = Key { slot: self.conns, generation: 0 };
        let conn = ConnRef::new(shard_of(&account, self.shards.len()), key);
        self.devices[at].conn = Some(conn);
        self.asks(at, ChatRequest::Login(Box::new(plain::login(account, device))));
        self.rest();
    }

    /// Ends a device's connection without notice.
    fn breaks(&mut self, at: usize) {
        let (session, reason) = (self.devices[at].session, CloseReason::PeerClosed);
        self.asks(at, ChatRequest::Closed { session, reason });
        (self.devices[at].conn, self.devices[at].place) = (None, Place::Elsewhere);
    }

    fn looks(&mut self, at: usize, look: GroupLook) {
        let (session, group) = (self.devices[at].session, room().into());
        self.asks(at, ChatRequest::LookAtGroup(Box::new(LookAtGroup { session, group, look })));
    }

    /// Lets a device enter the room as an XMPP client does: it looks at the group, and reads.
    fn enters(&mut self, at: usize) {
        self.looks(at, GroupLook::Begins);
        self.reads(at, false);
    }

    fn reads(&mut self, at: usize, has_joined: bool) {
        let (session, number) = (self.devices[at].session, self.number());
        self.devices[at].place = Place::Entering(number, has_joined);
        let (with, from, backwards, count) = (room().into(), u64::MAX, true, 20);
        let range = Box::new(HistoryRange { with, from, backwards, count });
        self.asks(at, ChatRequest::History { session, number, range });
    }

    /// Lets a device become a member of an open group.
    fn joins(&mut self, at: usize) {
        let (session, number) = (self.devices[at].session, self.number());
        self.devices[at].place = Place::Joining(number);
        let order = order(GroupVerb::Join, number, &[]);
        self.asks(at, ChatRequest::Group { session, number, order });
    }

    fn leaves(&mut self, at: usize) {
        self.devices[at].place = Place::Elsewhere;
        self.looks(at, GroupLook::Ends);
    }

    /// Changes the group, and lets everything come to rest.
    fn orders(&mut self, at: usize, verb: GroupVerb, members: &[&str]) -> Result<(), ChatFault> {
        let (session, number) = (self.devices[at].session, self.number());
        let order = order(verb, number, members);
        self.asks(at, ChatRequest::Group { session, number, order });
        self.rest();
        self.devices[at].answer.take().expect("it is answered")
    }

    /// Whether the group exists, as a query that reads nothing shows.
    fn is_there(&mut self, at: usize) -> bool {
        let (session, number, group) = (self.devices[at].session, self.number(), room().into());
        let (version, from, count, banned) = (0, 0, 9, false);
        let range = Box::new(MembersRange { group, version, from, count, banned });
        self.asks(at, ChatRequest::Members { session, number, range });
        self.rest();
        self.devices[at].answer.take() == Some(Ok(()))
    }

    /// Number of groups in the list of the group's domain.
    fn public(&mut self) -> usize {
        let (session, number) = (self.devices[ANN].session, self.number());
        let (domain, from, backwards, count) = ("conference.a.example".into(), None, false, 9);
        let range = Box::new(PublicRange { domain, from, backwards, count });
        self.asks(ANN, ChatRequest::PublicGroups { session, number, range });
        self.rest();
        self.listed.take().expect("it is answered")
    }

    /// The answer of other servers to the group's home.
    fn abroad_tells(&mut self, number: u64, attended: bool) {
        let told = AttendanceTold { group: room(), number, attended };
        self.commands(ChatCommand::Attendance(told));
    }

    fn commands(&mut self, command: ChatCommand) {
        let account = command.account().expect("of one");
        let n = usize::from(shard_of(&account, self.shards.len()).0);
        let shard = &mut self.shards[n];
        Service::command(&mut shard.chat, self.now, 7, command, &mut shard.fx);
        self.collects(n);
    }

    /// Unlocks the group, so that Eve of another server joins it.
    fn eve_joins(&mut self) {
        assert_eq!(self.orders(ANN, GroupVerb::Unlock, &[]), Ok(()));
        let (group, client_id) = (Some(room().into()), ClientMessageId([9; 16]));
        let (verb, title, members) = (GroupVerb::Join, "".into(), vec![]);
        let order = GroupOrder { group, client_id, verb, title, members };
        let what = Box::new(ErrandWhat::Group(Box::new(order)));
        let what = ArrivalWhat::Ask { device: "phone".into(), what };
        let arrival = ForeignArrival { home: address(EVE), what };
        self.commands(ChatCommand::Foreign(Box::new(arrival)));
        self.rest();
    }

    /// Kills the process and starts it again; all devices log in, and enter no room.
    fn restarts(&mut self) {
        self.post.clear();
        self.calls.iter_mut().for_each(VecDeque::clear);
        for (n, shard) in (0..).zip(&mut self.shards) {
            shard.restart(self.now, &self.settings, n);
        }
        for at in 0..PEOPLE.len() {
            self.devices[at].place = Place::Elsewhere;
            self.connects(at);
        }
    }
}

#[test]
fn a_temporary_group_ends_with_the_last_who_is_in_its_room_and_its_name_is_free() {
    for shards in [1, 3] {
        let mut world = World::new(shards);
        world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
        assert_eq!(world.orders(ANN, GroupVerb::Unpersist, &[]), Err(ChatFault::Unchanged));
        for at in [ANN, BOB] {
            world.enters(at);
            world.rest();
            assert_eq!(world.devices[at].place, Place::Room);
        }
        world.leaves(ANN);
        world.rest();
        assert!(world.is_there(ANN), "bob is in its room");
        world.breaks(BOB);
        world.rest();
        assert!(!world.is_there(ANN));
        let reason = "The room was temporary, and nobody is in it any more.";
        assert_eq!(world.ended, [reason; 2], "ann and carol are told");
        // Carol creates a permanent group under the name.
        assert_eq!(world.orders(CAROL, GroupVerb::Create, &[]), Ok(()));
        world.enters(CAROL);
        world.rest();
        world.leaves(CAROL);
        world.rest();
        assert!(world.is_there(CAROL));
        world.pass_s(2 * GRACE_S);
        assert!(world.is_there(CAROL));
    }
}

#[test]
fn one_that_is_made_persistent_stays_and_its_owner_alone_says_which_it_is() {
    let mut world = World::new(3);
    world.orders(ANN, GroupVerb::Promote, &["bob"]).expect("an admin");
    assert_eq!(world.orders(BOB, GroupVerb::Unpersist, &[]), Err(ChatFault::Forbidden));
    assert_eq!(world.orders(ANN, GroupVerb::Persist, &[]), Err(ChatFault::Unchanged));
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    world.enters(ANN);
    world.rest();
    assert_eq!(world.orders(BOB, GroupVerb::Persist, &[]), Err(ChatFault::Forbidden));
    world.orders(ANN, GroupVerb::Persist, &[]).expect("persistent");
    world.leaves(ANN);
    world.pass_s(2 * GRACE_S);
    assert!(world.is_there(ANN));
    world.restarts();
    world.pass_s(2 * GRACE_S);
    assert!(world.is_there(ANN));
}

#[test]
fn who_is_in_its_room_when_it_becomes_temporary_keeps_it() {
    let mut world = World::new(3);
    world.enters(BOB);
    world.rest();
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    world.pass_s(2 * GRACE_S);
    assert!(world.is_there(ANN));
    world.leaves(BOB);
    world.rest();
    assert!(!world.is_there(ANN));
}

#[test]
fn without_anybody_it_stays_for_the_time_of_grace_after_a_start_too() {
    for comes_back in [false, true] {
        let mut world = World::new(3);
        world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
        world.pass_s(GRACE_S - 1);
        assert!(world.is_there(ANN));
        world.restarts();
        world.pass_s(GRACE_S - 1);
        assert!(world.is_there(ANN));
        if comes_back {
            world.enters(BOB);
            world.rest();
        }
        world.pass_s(2);
        assert_eq!(world.is_there(ANN), comes_back);
    }
}

#[test]
fn those_of_other_servers_keep_it_and_their_silence_does() {
    let mut world = World::new(3);
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    world.enters(ANN);
    world.rest();
    world.abroad = None;
    world.leaves(ANN);
    world.rest();
    let asked = world.asked_abroad.pop_front().expect("they are asked");
    assert!(world.is_there(ANN), "they have not answered");
    world.abroad_tells(asked.number, true);
    world.rest();
    assert!(world.is_there(ANN), "one is there");
    world.pass_s(GRACE_S);
    let asked = world.asked_abroad.pop_front().expect("they are asked again");
    assert!(world.is_there(ANN));
    world.abroad_tells(asked.number - 1, false);
    world.rest();
    assert!(world.is_there(ANN), "that was an answer to what was asked before");
    world.abroad_tells(0, false);
    world.rest();
    assert!(world.is_there(ANN) && world.asked_abroad.is_empty(), "it is asked already");
    world.abroad_tells(asked.number, false);
    world.rest();
    assert!(!world.is_there(ANN));
}

#[test]
fn the_last_of_another_server_ends_it() {
    let mut world = World::new(3);
    world.eve_joins();
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    world.abroad = Some(true);
    world.pass_s(2 * GRACE_S);
    assert!(world.is_there(ANN), "eve is there");
    world.abroad = Some(false);
    world.abroad_tells(0, false);
    world.rest();
    assert!(!world.is_there(ANN));
}

#[test]
fn a_server_that_is_stopped_ends_none() {
    for shards in [1, 3] {
        for stops in [1, shards] {
            let mut world = World::new(shards);
            world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
            world.enters(BOB);
            world.rest();
            // Bob's shard is the first to shut its sessions down.
            let first = shard_of(&address("bob"), shards.into()).0;
            for n in (0..shards).map(|n| (first + n) % shards).take(stops.into()) {
                let now = world.now;
                world.shards[usize::from(n)].chat.set_draining(now, true);
            }
            world.breaks(BOB);
            world.rest();
            world.restarts();
            assert!(world.is_there(ANN), "{stops} of {shards} shards");
            world.pass_s(GRACE_S);
            assert!(!world.is_there(ANN), "he does not come back");
        }
    }
}

#[test]
fn a_session_that_is_away_is_there_and_leaves_when_its_time_is_over() {
    let mut world = World::with(1, |limits| limits.temporary_group_grace_s = 86_400);
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    world.enters(BOB);
    world.rest();
    let session = world.devices[BOB].session;
    let id = ResumptionId { session, secret: 7 };
    world.asks(BOB, ChatRequest::Keep(Box::new(Keeping { id, seconds: 60 })));
    let (kept, reason) = (KeptSession::new(1_u8), CloseReason::PeerReset);
    let detaching = Detaching { session, kept, bytes: 1, handled: 0, reason };
    world.asks(BOB, ChatRequest::Detach(Box::new(detaching)));
    world.devices[BOB].place = Place::Elsewhere;
    // Another device of Bob's is connected, and enters no room.
    world.connects_as(BOB, "phone");
    world.enters(ANN);
    world.rest();
    world.leaves(ANN);
    world.pass_s(59);
    assert!(world.is_there(ANN), "he may come back");
    let later = world.now.after(Duration::from_secs(2));
    world.now = Now::new(later, world.now.wall_ms + 2_000);
    // Turns as a shard does: again when it asks for that, or has received something.
    loop {
        let shard = &mut world.shards[0];
        let next = Service::turn(&mut shard.chat, world.now, &mut shard.fx);
        world.collects(0);
        let mut is_more = next.is_some_and(|at| at <= world.now.mono);
        while world.a_log_works(0) {
            is_more = true;
        }
        if let Some(asked) = world.asked_abroad.pop_front() {
            world.abroad_tells(asked.number, false);
            is_more = true;
        }
        if !is_more {
            break;
        }
    }
    assert!(!world.ended.is_empty(), "nothing else woke the shard");
}

#[test]
fn two_devices_of_one_are_two_and_what_is_made_persistent_while_it_is_asked_stays() {
    let mut world = World::new(2);
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    world.enters(BOB);
    world.rest();
    let first = (world.devices[BOB].conn, world.devices[BOB].session);
    world.connects_as(BOB, "phone");
    world.enters(BOB);
    world.rest();
    world.breaks(BOB);
    world.rest();
    assert!(world.is_there(ANN), "the first is there");
    world.abroad = None;
    (world.devices[BOB].conn, world.devices[BOB].session) = first;
    world.breaks(BOB);
    world.rest();
    let asked = world.asked_abroad.pop_front().expect("all have left");
    world.orders(ANN, GroupVerb::Persist, &[]).expect("persistent");
    world.abroad_tells(asked.number, false);
    world.rest();
    assert!(world.is_there(ANN));
}

#[test]
fn a_shard_has_so_many_temporary_groups_and_no_more_and_channels_are_none() {
    let mut world = World::with(1, |limits| limits.temporary_groups_max = 0);
    assert_eq!(world.orders(ANN, GroupVerb::Unpersist, &[]), Err(ChatFault::TemporaryFull));
    let group = Addressee::parse("news@channel.a.example").expect("right");
    let session = world.devices[ANN].session;
    for (number, verb, expected) in [
        (901, GroupVerb::Create, Ok(())),
        (902, GroupVerb::Unpersist, Err(ChatFault::Invalid)),
        (903, GroupVerb::Persist, Err(ChatFault::Invalid)),
    ] {
        let (client_id, group) = (ClientMessageId([number as u8; 16]), Some(group.clone()));
        let (title, members) = ("News".into(), vec![]);
        let order = Box::new(GroupOrder { group, client_id, verb, title, members });
        world.asks(ANN, ChatRequest::Group { session, number, order });
        world.rest();
        assert_eq!(world.devices[ANN].answer.take(), Some(expected));
    }
}

#[test]
fn a_row_without_its_change_goes_and_a_change_without_its_row_is_put_right() {
    let mut world = World::new(1);
    world.orders(ANN, GroupVerb::Reveal, &[]).expect("public");
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    // The row is lost, and a message is sent to the group.
    let key = RowHome::key_of(conversation_of_room(), &[]);
    let delete = Call::Write(Write::Delete { table: Table::ChatTemporary, key });
    world.shards[0].log.answer(&delete).expect("it was there");
    world.restarts();
    world.pass_s(2 * GRACE_S);
    assert!(world.is_there(ANN), "nobody knew");
    world.pass_s(GRACE_S);
    assert!(!world.is_there(ANN), "now it was known");
    assert_eq!(world.public(), 0, "it is in no list");
    let mut world = World::new(1);
    let (session, number, client_id) = (world.devices[ANN].session, 99, ClientMessageId([8; 16]));
    let (group, verb) = (Some(room().into()), GroupVerb::Unpersist);
    let (title, members) = ("".into(), vec![]);
    let order = Box::new(GroupOrder { group, client_id, verb, title, members });
    world.asks(ANN, ChatRequest::Group { session, number, order });
    let is_of_row = |call: &Call| match call {
        Call::Write(Write::Put { table, .. }) => *table == Table::ChatTemporary,
        _ => false,
    };
    let calls = &world.calls[0];
    assert!(calls.len() == 1 && is_of_row(&calls[0].1), "the row goes first: {calls:?}");
    // The log has stored the row, and the process crashes.
    let (_, call) = world.calls[0].pop_front().expect("the row");
    world.shards[0].log.answer(&call).expect("it is stored");
    world.restarts();
    world.pass_s(2 * GRACE_S);
    assert!(world.is_there(ANN), "it never was temporary");
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    world.pass_s(2 * GRACE_S);
    assert!(!world.is_there(ANN), "now it was");
}

/// Devices come and go while words between shards lag; in the end no device is in the room. Returns
/// how often a device was in the room, how often the group ended before a device entered, and how
/// often one became a member by entering.
fn history(seed: u64, shards: u16) -> [usize; 3] {
    println!("seed {seed}, {shards} shards");
    let (mut world, mut rng) = (World::new(shards), Prng::new(seed));
    if seed.is_multiple_of(2) {
        world.orders(CAROL, GroupVerb::Leave, &[]).expect("she is no member");
        world.orders(ANN, GroupVerb::Unlock, &[]).expect("she may come");
    }
    world.orders(ANN, GroupVerb::Unpersist, &[]).expect("temporary");
    // An occupant of another server is present for a while.
    let mut eve = seed.is_multiple_of(3);
    world.abroad = None;
    let mut were_in = 0;
    for _ in 0..800 {
        let at = rng.below(PEOPLE.len() as u64) as usize;
        let n = rng.below(shards.into()) as usize;
        were_in += usize::from(world.devices.iter().any(|it| it.place == Place::Room));
        match (rng.below(16), world.devices[at].place) {
            (0, _) if world.devices[at].conn.is_none() => world.connects(at),
            (0 | 1, Place::Elsewhere) => world.enters(at),
            (0, _) if rng.one_in(4) => world.breaks(at),
            (0 | 1, _) => world.leaves(at),
            (2..=4, _) => drop(world.a_log_works(n)),
            (5..=10, _) => drop(world.a_word_arrives(rng.below(64) as usize)),
            (11, _) => {
                if let Some(asked) = world.asked_abroad.pop_front() {
                    world.abroad_tells(asked.number, eve);
                }
            }
            (12, _) if eve && rng.one_in(20) => {
                eve = false;
                world.abroad_tells(0, false);
            }
            _ => world.turns(n),
        }
        if !world.ended.is_empty() {
            assert!(!eve, "eve was there");
            break;
        }
    }
    (0..PEOPLE.len()).for_each(|at| world.leaves(at));
    world.abroad = Some(eve);
    world.rest();
    if world.devices[ANN].conn.is_none() {
        world.connects(ANN);
    }
    if eve {
        assert!(world.is_there(ANN), "eve is there");
        world.abroad = Some(false);
        world.pass_s(GRACE_S);
    }
    assert!(!world.is_there(ANN), "nobody is in it");
    [were_in, world.missed, world.joined]
}

#[test]
fn whatever_is_on_its_way_it_ends_with_nobody_in_it_and_with_nobody_it_ends() {
    let mut all = [0; 3];
    for seed in 0..600 {
        let seen = history(seed, 2 + (seed % 3) as u16);
        all.iter_mut().zip(seen).for_each(|(all, seen)| *all += seen);
    }
    let [were_in, missed, joined] = all;
    assert!(were_in > 1_000, "{were_in} steps with somebody in it");
    assert!(missed > 5 && joined > 50, "{missed} were too late, {joined} became members");
}
