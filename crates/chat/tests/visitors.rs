//! Members of groups from other servers, and groups of ten thousand.

mod house;

use chat::Settings;
use house::{House, plain};
use model::account::{AccountAddress, Addressee};
use model::chat::foreign::*;
use model::chat::*;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::{ChatLimits, Limits};
use model::ports::chat::{ChatAnswer, ChatCommand, ErrandWhat};
use model::ports::log::{Call, Write};
use model::service::Service;
use model::timeline::Space;
use std::sync::Arc;

type Device = (ConnRef, SessionRef);

const EVE: &str = "eve@b.example";
const MALLORY: &str = "mallory@b.example";
const YARD: &str = "yard@conference.a.example";

fn address(text: &str) -> AccountAddress {
    AccountAddress::parse(text, "a.example").expect("right")
}

fn house(group_members_max: u32) -> House {
    // The group is written at any size.
    let limits =
        ChatLimits { group_members_max, group_written_members_max: 0, ..ChatLimits::default() };
    house_of(Arc::new(Limits { chat: limits, ..Limits::default() }))
}

fn house_of(limits: Arc<Limits>) -> House {
    let (own, federates) = ("a.example".into(), true);
    let domains = ForeignDomains { own, federates, ..ForeignDomains::default() };
    House::of(Settings { limits, foreign: Arc::new(domains), ..plain::settings(ShardId(0), 1) })
}

fn order(verb: GroupVerb, id: u8, members: &[String]) -> GroupOrder {
    let members = members.iter().map(|it| Addressee::from(address(it))).collect();
    let (group, client_id) = (Some(address(YARD).into()), ClientMessageId([id; 16]));
    GroupOrder { group, client_id, verb, title: "yard".into(), members }
}

/// The text of a message, or the verb of a change and the members that it names.
fn told(content: &Content) -> String {
    match GroupChange::of(content) {
        None => content.text.to_string(),
        Some(change) => {
            let named = change.members.iter().map(|it| format!(" {}", it.address));
            change.verb.word().to_owned() + &named.collect::<String>()
        }
    }
}

trait Visited {
    fn device(&mut self, name: &str) -> Device;
    fn orders(&mut self, device: Device, order: GroupOrder) -> Result<(), ChatFault>;
    fn visits(&mut self, account: &str, what: ErrandWhat) -> ChatDelivery;
    fn joins(&mut self, account: &str, id: u8) -> Result<(), ChatFault>;
    fn says(&mut self, account: &str, id: u8, text: &str) -> ChatDelivery;
    fn goes_out(&mut self) -> Vec<RoomWord>;
}

impl Visited for House {
    fn device(&mut self, name: &str) -> Device {
        let conn = self.conn(ShardId(0));
        let login = plain::login(address(name), "phone");
        let told = self.ask(conn, ChatRequest::Login(Box::new(login)));
        let [(_, ChatDelivery::LoggedIn(logged_in))] = &told[..] else { panic!("{told:?}") };
        (conn, logged_in.session)
    }

    fn orders(&mut self, (conn, session): Device, order: GroupOrder) -> Result<(), ChatFault> {
        let request = ChatRequest::Group { session, number: 1, order: Box::new(order) };
        let told = self.ask(conn, request);
        let fault = |(_, it): &(ConnRef, ChatDelivery)| match it {
            ChatDelivery::Failed { why, .. } => Some(*why),
            _ => None,
        };
        told.iter().find_map(fault).map_or(Ok(()), Err)
    }

    /// A request of an account of another server.
    fn visits(&mut self, account: &str, what: ErrandWhat) -> ChatDelivery {
        let what = ArrivalWhat::Ask { device: "phone".into(), what: Box::new(what) };
        let arrival = Box::new(ForeignArrival { home: address(account), what });
        Service::command(&mut self.chat, self.now, 7, ChatCommand::Foreign(arrival), &mut self.fx);
        self.rest();
        match self.fx.answers.pop() {
            Some((7, ChatAnswer::Told(Some(told)))) => *told,
            other => panic!("{other:?}"),
        }
    }

    fn joins(&mut self, account: &str, id: u8) -> Result<(), ChatFault> {
        match self.visits(account, ErrandWhat::Group(Box::new(order(GroupVerb::Join, id, &[])))) {
            ChatDelivery::Failed { why, .. } => Err(why),
            ChatDelivery::Changed(_) => Ok(()),
            other => panic!("{other:?}"),
        }
    }

    fn says(&mut self, account: &str, id: u8, text: &str) -> ChatDelivery {
        let client_id = ClientMessageId([id; 16]);
        let new = NewMessage { to: address(YARD).into(), client_id, content: Content::text(text) };
        self.visits(account, ErrandWhat::Send(Box::new(new)))
    }

    fn goes_out(&mut self) -> Vec<RoomWord> {
        let words = std::mem::take(&mut self.fx.foreign).into_iter();
        let of_rooms = words.filter_map(|word| match word {
            ForeignWord::Room(word) => Some(*word),
            _ => None,
        });
        of_rooms.collect()
    }
}

/// The texts of words to rooms, and their receivers.
fn shown(words: &[RoomWord]) -> Vec<(String, String)> {
    let names = |all: &[AccountAddress]| {
        let mut all: Vec<_> = all.iter().map(|it| it.name().to_owned()).collect();
        all.sort_unstable();
        all.join(" ")
    };
    let of = |it: &RoomWord| (told(&it.message.content), names(&it.to));
    words.iter().map(of).collect()
}

fn one(what: &str, to: &str) -> Vec<(String, String)> {
    vec![(what.into(), to.into())]
}

#[test]
fn people_of_other_servers_who_are_added_hear_and_say_what_members_do_and_go() {
    let mut house = house(10);
    let ann = house.device("ann");
    house.orders(ann, order(GroupVerb::Create, 1, &[])).expect("made");
    assert_eq!(house.joins(EVE, 2), Err(ChatFault::NotMember), "it is locked");
    house.orders(ann, order(GroupVerb::Unlock, 3, &[])).expect("the owner may");
    assert_eq!(house.goes_out(), [], "nobody is there");
    assert_eq!(house.joins(EVE, 4), Err(ChatFault::NotMember), "who enters becomes no member");
    house.orders(ann, order(GroupVerb::Add, 5, &[EVE.into()])).expect("the owner may");
    assert_eq!(shown(&house.goes_out()), one("add eve@b.example", "eve"));
    house.orders(ann, order(GroupVerb::Add, 6, &[MALLORY.into()])).expect("the owner may");
    let added = one("add mallory@b.example", "eve mallory");
    assert_eq!(shown(&house.goes_out()), added);
    assert!(matches!(house.says(EVE, 7, "hello"), ChatDelivery::Sent { seq: 5, .. }));
    assert_eq!(shown(&house.goes_out()), one("hello", "eve mallory"), "its own, too");
    house.orders(ann, order(GroupVerb::Mute, 8, &[EVE.into()])).expect("the owner may");
    house.goes_out();
    let muted = house.says(EVE, 9, "may I?");
    assert!(matches!(muted, ChatDelivery::Failed { why: ChatFault::Muted, .. }));
    house.orders(ann, order(GroupVerb::Promote, 10, &[EVE.into()])).expect("the owner may");
    let promoted = one("promote eve@b.example", "eve mallory");
    assert_eq!(shown(&house.goes_out()), promoted);
    let handed = house.orders(ann, order(GroupVerb::HandOver, 11, &[EVE.into()]));
    assert_eq!(handed, Err(ChatFault::Invalid), "it is owned by one of this server");
    house.orders(ann, order(GroupVerb::AddOwner, 16, &[EVE.into()])).expect("the owner may");
    house.goes_out();
    let goes = house.orders(ann, order(GroupVerb::Leave, 17, &[]));
    assert_eq!(goes, Err(ChatFault::Forbidden), "no owner of this server would be left");
    house.orders(ann, order(GroupVerb::Ban, 12, &[EVE.into()])).expect("the owner may");
    let banned = one("ban eve@b.example", "eve mallory");
    assert_eq!(shown(&house.goes_out()), banned, "who is banned hears of it");
    assert_eq!(house.joins(EVE, 13), Err(ChatFault::GroupBanned));
    let leave = house.visits(MALLORY, ErrandWhat::Group(order(GroupVerb::Leave, 14, &[]).into()));
    assert!(matches!(leave, ChatDelivery::Changed(_)));
    assert_eq!(shown(&house.goes_out()), one("leave mallory@b.example", "mallory"));
    house.orders(ann, order(GroupVerb::Rename, 15, &[])).expect("the owner may");
    assert_eq!(house.goes_out(), [], "nobody is there");
}

#[test]
fn what_a_group_tells_some_alone_goes_to_other_servers_and_comes_from_them() {
    let mut house = house(10);
    let ann = house.device("ann");
    house.orders(ann, order(GroupVerb::Create, 1, &[])).expect("made");
    house.orders(ann, order(GroupVerb::Add, 2, &[EVE.into(), MALLORY.into()])).expect("added");
    house.orders(ann, order(GroupVerb::Promote, 3, &[EVE.into()])).expect("the owner may");
    house.orders(ann, order(GroupVerb::Mute, 4, &[MALLORY.into()])).expect("the owner may");
    let asides = |house: &mut House| -> Vec<AsideWord> {
        let words = std::mem::take(&mut house.fx.foreign).into_iter();
        let of = |word| match word {
            ForeignWord::Aside(word) => Some(*word),
            _ => None,
        };
        words.filter_map(of).collect()
    };
    asides(&mut house);
    for expected in [1, 0] {
        let told = house.visits(MALLORY, ErrandWhat::Voice(address(YARD).into()));
        assert!(matches!(told, ChatDelivery::Done { .. }), "{told:?}");
        let all = asides(&mut house);
        assert_eq!(all.len(), expected, "once in a minute: {all:?}");
        for AsideWord { aside, to } in all {
            assert_eq!((&aside.who, &aside.what), (&address(MALLORY), &AsideWhat::Voice));
            assert_eq!(*to, [address(EVE)]);
        }
    }
    let leave = order(GroupVerb::Leave, 5, &[EVE.into()]);
    let told = house.visits(MALLORY, ErrandWhat::Group(leave.into()));
    assert!(matches!(told, ChatDelivery::Changed(_)), "{told:?}");
    let all = asides(&mut house);
    let [AsideWord { aside, to }] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&aside.who, &aside.group), (&address(MALLORY), &address(YARD)));
    assert_eq!((&aside.what, &**to), (&AsideWhat::Declined("yard".into()), &[address(EVE)][..]));
}

#[test]
fn whoever_is_of_another_server_is_told_which_groups_are_public_and_what_they_are() {
    let mut house = house(10);
    let ann = house.device("ann");
    house.orders(ann, order(GroupVerb::Create, 1, &[])).expect("made");
    for (id, verb, expected) in [(2, GroupVerb::Reveal, true), (3, GroupVerb::Hide, false)] {
        house.orders(ann, order(verb, id, &[])).expect("the owner may");
        let (domain, from, backwards) = ("conference.a.example".into(), None, false);
        let range = PublicRange { domain, from, backwards, count: 9 };
        let told = house.visits(EVE, ErrandWhat::PublicGroups(Box::new(range)));
        let ChatDelivery::PublicGroups(page) = told else { panic!("{told:?}") };
        assert_eq!(page.groups.iter().any(|it| it.group == address(YARD)), expected);
        let (group, version, from, count, banned) = (address(YARD).into(), 0, 0, 9, false);
        let range = MembersRange { group, version, from, count, banned };
        let told = house.visits(EVE, ErrandWhat::Members(Box::new(range)));
        let is_shown = matches!(&told, ChatDelivery::Members(it) if it.members.is_empty());
        assert_eq!(is_shown, expected, "{told:?}");
    }
}

#[test]
fn a_visitor_makes_no_group_and_reads_none_that_it_is_not_in() {
    let mut house = house(10);
    let ann = house.device("ann");
    house.orders(ann, order(GroupVerb::Create, 1, &[])).expect("made");
    for group in [YARD, "mine@conference.b.example"] {
        let group = Some(address(group).into());
        let order = GroupOrder { group, ..order(GroupVerb::Create, 2, &[]) };
        let told = house.visits(EVE, ErrandWhat::Group(Box::new(order)));
        assert!(matches!(told, ChatDelivery::Failed { .. }), "{told:?}");
    }
    let with = Some(address(YARD).into());
    let range = ArchiveRange { with, ..ArchiveRange::whole(false, 5) };
    let told = house.visits(EVE, ErrandWhat::Archive(Box::new(range.clone())));
    assert!(matches!(told, ChatDelivery::Failed { why: ChatFault::NotMember, .. }), "{told:?}");
    house.orders(ann, order(GroupVerb::Add, 3, &[EVE.into()])).expect("the owner may");
    let told = house.visits(EVE, ErrandWhat::Archive(Box::new(range)));
    let ChatDelivery::Archive(page) = told else { panic!("{told:?}") };
    assert_eq!(page.messages.len(), 1, "that it was added, and nothing of before");
}

#[test]
fn what_is_said_to_ten_thousand_is_shared_and_goes_in_parts() {
    const ALL: usize = 10_000;
    let mut house = house(2 * ALL as u32 + 1);
    let ann = house.device("ann");
    house.orders(ann, order(GroupVerb::Create, 1, &[])).expect("made");
    let (here, there): (Vec<_>, Vec<_>) =
        (0..ALL).map(|at| (format!("m{at}@a.example"), format!("m{at}@b.example"))).unzip();
    for one in &here {
        let open = ChatCommand::Open(address(one));
        Service::command(&mut house.chat, house.now, 7, open, &mut house.fx);
        house.rest();
        house.fx.answers.clear();
    }
    for (at, some) in here.chunks(GROUP_NAMED_MAX).chain(there.chunks(GROUP_NAMED_MAX)).enumerate()
    {
        let client_id = ClientMessageId((at as u128 + 1_000).to_be_bytes());
        let order = GroupOrder { client_id, ..order(GroupVerb::Add, 0, some) };
        house.orders(ann, order).expect("there is room");
    }
    house.goes_out();
    let (conn, session) = ann;
    let client_id = ClientMessageId([9; 16]);
    let new = NewMessage { to: address(YARD).into(), client_id, content: Content::text("hello") };
    let request = ChatRequest::Send { session, number: 1, message: Box::new(new) };
    Service::request(&mut house.chat, house.now, conn, request, &mut house.fx);
    // Step by step: each read asks the log for a number of inboxes, and for each inbox once.
    let (mut inboxes, mut parts) = (0, 0);
    loop {
        Service::turn(&mut house.chat, house.now, &mut house.fx);
        let calls = std::mem::take(&mut house.fx.calls);
        if calls.is_empty() {
            break;
        }
        for (ticket, call) in calls {
            if let Call::Write(Write::Append(append)) = &call {
                let of = append.to.iter().filter(|it| it.space() == Space::Inbox).count();
                assert!(of <= 256, "{of} at once");
                assert!(append.to.iter().all(|it| it.space() != Space::Foreign));
                (inboxes, parts) = (inboxes + of, parts + usize::from(of > 0));
            }
            house.answers((ticket, call));
        }
    }
    assert_eq!(inboxes, ALL + 1, "each of ours has it once, and who said it");
    assert_eq!(parts, 2 + ALL.div_ceil(256) - 1);
    // For other servers it is one word, which shares its list with the message before.
    let first = house.goes_out();
    assert_eq!((first.len(), first[0].to.len()), (1, ALL));
    house.says("m1@b.example", 77, "hello yourself");
    let second = house.goes_out();
    assert!(Arc::ptr_eq(&first[0].to, &second[0].to), "shared, as long as nobody comes or goes");
}

#[test]
fn visitors_hear_what_was_being_stored_while_their_group_was_forgotten() {
    // Each group that gets a message drives the others out of memory.
    let limits = ChatLimits { group_members_known_max: 1, ..ChatLimits::default() };
    let limits = Arc::new(Limits { chat: limits, ..Limits::default() });
    let mut house = house_of(limits);
    let ann = house.device("ann");
    house.orders(ann, order(GroupVerb::Create, 1, &[])).expect("made");
    house.orders(ann, order(GroupVerb::Add, 2, &[EVE.into()])).expect("the owner may");
    house.goes_out();
    let (conn, session) = ann;
    let client_id = ClientMessageId([9; 16]);
    let new = NewMessage { to: address(YARD).into(), client_id, content: Content::text("hello") };
    let request = ChatRequest::Send { session, number: 1, message: Box::new(new) };
    Service::request(&mut house.chat, house.now, conn, request, &mut house.fx);
    let stores = |(_, call): &(u64, Call)| matches!(call, Call::Write(Write::AppendWith(_)));
    let mut held = Vec::new();
    while held.is_empty() {
        let calls = std::mem::take(&mut house.fx.calls);
        let (stored, read): (Vec<_>, Vec<_>) = calls.into_iter().partition(stores);
        read.into_iter().for_each(|call| house.answers(call));
        held = stored;
    }
    let group = Some(address("other@conference.a.example").into());
    let other = GroupOrder { group, ..order(GroupVerb::Create, 3, &[]) };
    house.orders(ann, other).expect("made");
    assert_eq!(house.goes_out(), [], "the log has not answered");
    held.into_iter().for_each(|call| house.answers(call));
    house.rest();
    assert_eq!(shown(&house.goes_out()), one("hello", "eve"));
}

#[test]
fn what_moves_in_goes_out_to_nobody_and_a_visitor_reads_it_there() {
    let mut house = house(10);
    house.device("ann");
    let hour_ms = 3_600_000;
    let begin_ms = house.now.wall_ms - 10 * hour_ms;
    let mut moves = |command: ChatCommand| {
        Service::command(&mut house.chat, house.now, 7, command, &mut house.fx);
        house.rest();
        match house.fx.answers.pop() {
            Some((7, ChatAnswer::Told(Some(told)))) => *told,
            other => panic!("{other:?}"),
        }
    };
    for (verb, members) in [(GroupVerb::Create, &[][..]), (GroupVerb::Add, &[EVE.to_owned()])] {
        let moved = MovedChange { order: order(verb, 100 + verb as u8, members), at_ms: begin_ms };
        let told = moves(ChatCommand::ChangeMoved(address("ann"), Box::new(moved)));
        assert!(matches!(told, ChatDelivery::Changed(_)), "{told:?}");
    }
    for (id, by) in [(1, "ann"), (2, EVE), (3, MALLORY)] {
        let moved = MovedMessage {
            with: address(YARD).into(),
            is_own: true,
            device: "".into(),
            at_ms: begin_ms + u64::from(id) * hour_ms,
            client_id: ClientMessageId([id; 16]),
            content: Content::text(by),
        };
        let told = moves(ChatCommand::MoveIn(address(by), Box::new(moved)));
        assert!(matches!(told, ChatDelivery::Sent { again: false, .. }), "{told:?}");
    }
    assert!(house.fx.foreign.is_empty(), "{:?}", house.fx.foreign);
    let range = HistoryRange { with: address(YARD).into(), from: 0, backwards: false, count: 9 };
    let page = match house.visits(EVE, ErrandWhat::History(Box::new(range))) {
        ChatDelivery::History(page) => page,
        other => panic!("{other:?}"),
    };
    let texts: Vec<_> = page.messages.iter().map(|it| told(&it.content)).collect();
    assert_eq!(texts, ["add eve@b.example", "ann", EVE, MALLORY]);
    assert!(matches!(house.says(EVE, 4, "now"), ChatDelivery::Sent { .. }));
    assert_eq!(shown(&house.goes_out()), one("now", "eve"));
}
