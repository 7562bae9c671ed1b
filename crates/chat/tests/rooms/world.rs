//! Several shards with a group of three people, who enter its room and leave it.

use crate::plain::{self, HOME};
use crate::shard::Shard;
use base::hash::home;
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
use model::ports::log::{Call, Ticket};
use model::service::Service;
use model::timeline::{Space, TimelineId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use testkit::crossing::crossed;

pub const ROOM: &str = "lunch@conference.a.example";
pub const EVE: &str = "eve@b.example";
pub const GRACE_S: u64 = 600;

pub const ANN: usize = 0;
pub const BOB: usize = 1;
pub const CAROL: usize = 2;
pub const PEOPLE: [&str; 3] = ["ann", "bob", "carol"];

/// Several shards, and one device for each of some people.
pub struct World {
    pub settings: chat::Settings,
    pub shards: Vec<Shard>,
    /// Words on their way between shards, by sender and receiver.
    pub post: BTreeMap<(u16, u16), VecDeque<ChatWord>>,
    pub calls: Vec<VecDeque<(Ticket, Call)>>,
    pub now: Now,
    pub conns: u32,
    pub devices: Vec<Device>,
    /// Words to other servers.
    pub abroad: Vec<ForeignWord>,
    pub numbers: u32,
    /// Reasons for the end of the group that devices were given.
    pub ended: Vec<String>,
    /// How often a device failed to enter the room.
    pub missed: usize,
    /// Whether numbers of news may have gaps.
    pub may_miss: bool,
    /// Number of words that went between shards.
    pub words: usize,
    /// Number of public groups in the last list.
    pub listed: Option<usize>,
}

pub struct Device {
    pub account: AccountAddress,
    pub conn: Option<ConnRef>,
    pub session: SessionRef,
    pub place: Place,
    /// The answer to the device's last request.
    pub answer: Option<Result<(), ChatFault>>,
    /// Occupants when the device entered the room last: itself first.
    pub found: Vec<String>,
    /// News of the room since, and the number of the last.
    pub news: Vec<String>,
    pub last: u64,
    /// Texts that it was told of the group's conversation, by its inbox.
    pub texts: Vec<String>,
    /// Changes of several lines that it was told of there.
    pub changes: Vec<String>,
    /// Nick of the occupant who gave the title that it was shown on entering.
    pub titled_by: Option<Box<str>>,
    /// Contents of the last page of history.
    pub read: Vec<Content>,
}

/// State of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Elsewhere,
    /// The device has asked to enter, by this request.
    Entering(u32),
    Room,
}

pub fn address(text: &str) -> AccountAddress {
    AccountAddress::parse(text, "a.example").expect("right")
}

pub fn room() -> AccountAddress {
    address(ROOM)
}

pub fn shard_of(account: &AccountAddress, shards: usize) -> ShardId {
    ShardId(home(account.home_hash(HOME), shards as u16))
}

pub fn order(verb: GroupVerb, number: u32, members: &[&str]) -> Box<GroupOrder> {
    let members = members.iter().map(|it| Addressee::parse(it).expect("right")).collect();
    let client_id = ClientMessageId((1 << 64 | u128::from(number)).to_be_bytes());
    let (group, title) = (Some(room().into()), "Lunch".into());
    Box::new(GroupOrder { group, client_id, verb, title, members })
}

/// The room's conversation, as its home names it.
pub fn conversation_of_room() -> TimelineId {
    let own = HOME.of(&[b"group", ROOM.as_bytes()]);
    TimelineId::at_home(Space::Conversation, room().home_hash(HOME), own)
}

/// An occupant: name, account, role, whether it is silent, and its words.
pub fn occupant(it: &Occupant) -> String {
    let role = it.role.map_or("visitor", GroupRole::word);
    let silent = if it.silent { " silent" } else { "" };
    let silent = if it.moderates { " moderator" } else { silent };
    let status =
        if it.show.status.is_empty() { String::new() } else { format!(" \"{}\"", it.show.status) };
    let extra = it.show.extra.as_ref().map(|it| format!(" and {} bytes", it.len()));
    let extra = extra.unwrap_or_default();
    format!("{} {} {role}{silent}{status}{extra}", it.nick, it.account.name())
}

pub fn happened(event: &RoomEvent) -> String {
    let by = |it: &RoomActor| format!("{} \"{}\"", it.nick, it.reason);
    match event {
        RoomEvent::Is(it, None) => format!("is {}", occupant(it)),
        RoomEvent::Is(it, Some(actor)) => format!("is {} by {}", occupant(it), by(actor)),
        RoomEvent::Renamed(before, it) => format!("renamed {before}: {}", occupant(it)),
        RoomEvent::Gone(it, how) => match how {
            RoomExit::Left => format!("left {}", it.nick),
            RoomExit::Kicked(it_by) => format!("kicked {} by {}", it.nick, by(it_by)),
            RoomExit::Removed(it_by) => format!("removed {} by {}", it.nick, by(it_by)),
            RoomExit::Locked(it_by) => format!("locked {} by {}", it.nick, by(it_by)),
            RoomExit::Banned(it_by) => format!("banned {} by {}", it.nick, by(it_by)),
            RoomExit::Dissolved(why, _) => format!("dissolved {} \"{why}\"", it.nick),
        },
        RoomEvent::Relayed(by, it) => {
            format!("{} relays {} {} {}", by.nick, it.kind.word(), it.id, it.xml)
        }
        RoomEvent::Whispered(by, content) => format!("{} whispers {}", by.nick, content.text),
        RoomEvent::Said(message) => match GroupChange::of(&message.content) {
            Some(change) => format!("said {}", change.verb.word()),
            None => format!("said {}", said(message)),
        },
    }
}

/// A change in a few words.
fn line(change: &GroupChange) -> String {
    let names = change.members.iter().map(|it| it.address.name());
    let rule = change.rule().map(|rule| rule.text().to_string());
    let words = [change.verb.word()].into_iter().chain(names).chain(rule.as_deref());
    words.collect::<Vec<_>>().join(" ")
}

/// The text of a message, and its sender's name in the room.
pub fn said(message: &ChatMessage) -> String {
    if GroupChange::of(&message.content).is_some() {
        return String::new();
    }
    let nick = message.content.nick.as_deref().unwrap_or_else(|| message.from.name());
    format!("{nick}: {}", message.content.text)
}

impl World {
    /// A group of Ann with Bob and Carol.
    pub fn new(shards: u16) -> World {
        World::with(shards, |_| {})
    }

    pub fn with(shards: u16, change: impl FnOnce(&mut ChatLimits)) -> World {
        let mut limits = Limits::default();
        limits.chat.presence_changes_a_minute_max = u16::MAX;
        change(&mut limits.chat);
        let (own, federates) = ("a.example".into(), true);
        let foreign = Arc::new(ForeignDomains { own, federates, ..ForeignDomains::default() });
        let plain = plain::settings(ShardId(0), shards);
        let settings = chat::Settings { limits: Arc::new(limits), foreign, ..plain };
        let device = |name: &&str| {
            let (account, conn, session) = (address(name), None, SessionRef::from_bits(0));
            let (place, answer) = (Place::Elsewhere, None);
            let (found, news, last, texts) = (Vec::new(), Vec::new(), 0, Vec::new());
            let (changes, titled_by, read) = (Vec::new(), None, Vec::new());
            Device {
                account,
                conn,
                session,
                place,
                answer,
                found,
                news,
                last,
                texts,
                changes,
                titled_by,
                read,
            }
        };
        let mut world = World {
            shards: (0..shards).map(|n| Shard::new(&settings, n)).collect(),
            settings,
            post: BTreeMap::new(),
            calls: (0..shards).map(|_| VecDeque::new()).collect(),
            now: Now::new(Instant::default(), 1_700_000_000_000),
            conns: 0,
            devices: PEOPLE.iter().map(device).collect(),
            abroad: Vec::new(),
            numbers: 0,
            ended: Vec::new(),
            missed: 0,
            may_miss: false,
            words: 0,
            listed: None,
        };
        (0..PEOPLE.len()).for_each(|at| world.connects(at));
        assert_eq!(world.orders(ANN, GroupVerb::Create, &["bob", "carol"]), Ok(()));
        world
    }

    pub fn collects(&mut self, n: usize) {
        let fx = &mut self.shards[n].fx;
        self.calls[n].extend(fx.calls.drain(..));
        for (to, word) in fx.peer_messages.drain(..) {
            self.post.entry((n as u16, to.0)).or_default().push_back(word);
        }
        self.abroad.append(&mut fx.foreign);
        let told = std::mem::take(&mut fx.deliveries);
        told.into_iter().for_each(|(conn, told)| self.hears(conn, told));
    }

    pub fn hears(&mut self, conn: ConnRef, told: ChatDelivery) {
        let Some(at) = self.devices.iter().position(|it| it.conn == Some(conn)) else { return };
        let device = &mut self.devices[at];
        match told {
            ChatDelivery::LoggedIn(told) => device.session = told.session,
            ChatDelivery::RoomEntered(entered)
                if device.place == Place::Entering(entered.number) =>
            {
                device.place = Place::Room;
                let all = [&entered.own].into_iter().chain(&entered.others);
                device.found = all.map(|it| occupant(it)).collect();
                device.last = entered.last;
                device.titled_by.clone_from(&entered.titled_by);
            }
            ChatDelivery::RoomNews(news) => {
                if news.number > 0 && device.place == Place::Room {
                    if news.number != device.last + 1 {
                        assert!(self.may_miss, "without gaps");
                        device.news.push("missed some".into());
                    }
                    device.last = news.number;
                }
                device.news.push(happened(&news.event));
            }
            ChatDelivery::Rejected(it) => device.answer = Some(Err(it.why)),
            ChatDelivery::Transient(it) => device.news.push(format!("transient of {}", it.from)),
            ChatDelivery::Failed { number, why } => {
                if device.place == Place::Entering(number) {
                    (self.missed, device.place) = (self.missed + 1, Place::Elsewhere);
                }
                device.answer = Some(Err(why));
            }
            ChatDelivery::Occupant { occupant: it, .. } => {
                device.found = vec![occupant(&it)];
                device.answer = Some(Ok(()));
            }
            ChatDelivery::Occupants { occupants, .. } => {
                device.found = occupants.iter().map(|it| occupant(it)).collect();
                device.answer = Some(Ok(()));
            }
            ChatDelivery::History(page) => {
                device.found = page.messages.iter().map(|it| said(it)).collect();
                device.read = page.messages.iter().map(|it| it.content.clone()).collect();
                device.answer = Some(Ok(()));
            }
            ChatDelivery::Members(page) => {
                let members = page.members.iter().map(|it| it.member.address.name().to_owned());
                device.found = members.collect();
                device.found.sort_unstable();
                device.answer = Some(Ok(()));
            }
            ChatDelivery::Changed(_) | ChatDelivery::Sent { .. } | ChatDelivery::Done { .. } => {
                device.answer = Some(Ok(()))
            }
            ChatDelivery::PublicGroups(page) => self.listed = Some(page.groups.len()),
            ChatDelivery::Message { message, .. } => {
                let changes = GroupChange::all_of(&message.content);
                if changes.len() > 1 {
                    device.changes.push(changes.iter().map(line).collect::<Vec<_>>().join(", "));
                }
                let Some(change) = GroupChange::of(&message.content) else {
                    return device.texts.push(said(&message));
                };
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
    pub fn a_word_arrives(&mut self, way: usize) -> bool {
        self.post.retain(|_, all| !all.is_empty());
        let way = way % self.post.len().max(1);
        let Some((&(from, to), all)) = self.post.iter_mut().nth(way) else { return false };
        let word = all.pop_front().expect("it is not empty");
        self.words += 1;
        let shard = &mut self.shards[usize::from(to)];
        Service::peer_message(
            &mut shard.chat,
            self.now,
            ShardId(from),
            crossed(word),
            &mut shard.fx,
        );
        self.collects(to.into());
        true
    }

    /// Lets a log carry out its first call.
    pub fn a_log_works(&mut self, n: usize) -> bool {
        let Some((ticket, call)) = self.calls[n].pop_front() else { return false };
        let shard = &mut self.shards[n];
        let result = shard.log.answer(&call);
        Service::complete(&mut shard.chat, self.now, (ticket, result), &mut shard.fx);
        self.collects(n);
        true
    }

    pub fn turns(&mut self, n: usize) {
        let shard = &mut self.shards[n];
        Service::turn(&mut shard.chat, self.now, &mut shard.fx);
        self.collects(n);
    }

    /// Lets everything come to rest.
    pub fn rest(&mut self) {
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
        }
        self.shards.iter().for_each(|shard| Service::audit(&shard.chat));
    }

    pub fn pass_s(&mut self, s: u64) {
        let later = self.now.after(Duration::from_secs(s));
        self.now = Now::new(later, self.now.wall_ms + s * 1_000);
        let now_s = self.now.unix_s();
        self.shards.iter_mut().for_each(|shard| shard.log.advance(now_s));
        self.rest();
    }

    pub fn asks(&mut self, at: usize, request: ChatRequest) {
        let Some(conn) = self.devices[at].conn else { return };
        let n = usize::from(conn.shard().0);
        let shard = &mut self.shards[n];
        Service::request(&mut shard.chat, self.now, conn, request, &mut shard.fx);
        self.collects(n);
    }

    pub fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    pub fn connects(&mut self, at: usize) {
        self.connects_as(at, "desk");
    }

    pub fn connects_as(&mut self, at: usize, device: &str) {
        self.conns += 1;
        let account = self.devices[at].account.clone();
        let key = Key { slot: self.conns, generation: 0 };
        let conn = ConnRef::new(shard_of(&account, self.shards.len()), key);
        self.devices[at].conn = Some(conn);
        self.asks(at, ChatRequest::Login(Box::new(plain::login(account, device))));
        self.rest();
    }

    /// Ends a device's connection without notice.
    pub fn breaks(&mut self, at: usize) {
        let (session, reason) = (self.devices[at].session, CloseReason::PeerClosed);
        self.asks(at, ChatRequest::Closed { session, reason });
        (self.devices[at].conn, self.devices[at].place) = (None, Place::Elsewhere);
    }

    /// Makes a device's request about the room.
    pub fn asks_room(&mut self, at: usize, number: u32, ask: OccupancyAsk) {
        let (session, group) = (self.devices[at].session, room().into());
        let asked = OccupancyRequest { session, number, group, ask };
        self.asks(at, ChatRequest::Room(Box::new(asked)));
    }

    /// A device's account blocks another one.
    pub fn blocks(&mut self, at: usize, whom: &str) {
        let (session, number) = (self.devices[at].session, self.number());
        let contact = Addressee::parse(whom).expect("right");
        let wish = Box::new(ContactWish { contact, order: ContactOrder::Block });
        let request = PeopleRequest { session, number, ask: PeopleAsk::Wish(wish) };
        self.asks(at, ChatRequest::People(Box::new(request)));
        self.rest();
    }

    /// Makes a device's request about the room; returns the answer, when everything is at rest.
    pub fn of_room(&mut self, at: usize, ask: OccupancyAsk) -> Result<(), ChatFault> {
        let number = self.number();
        self.asks_room(at, number, ask);
        self.rest();
        self.devices[at].answer.take().expect("it is answered")
    }

    /// Lets a device enter the room by the name of its account.
    pub fn enters(&mut self, at: usize) {
        self.enters_as(at, PEOPLE[at]);
    }

    pub fn enters_as(&mut self, at: usize, nick: &str) {
        let number = self.number();
        self.devices[at].place = Place::Entering(number);
        self.devices[at].news.clear();
        let (nick, show) = (nick.into(), OccupantShow::default());
        self.asks_room(
            at,
            number,
            OccupancyAsk::Enter(Box::new(Entry { nick, show, ..Entry::default() })),
        );
    }

    pub fn shows(&mut self, at: usize, show: Show, status: &str) {
        let show = OccupantShow { show, status: status.into(), ..OccupantShow::default() };
        self.asks_room(at, 0, OccupancyAsk::Show(show));
        self.rest();
    }

    pub fn leaves(&mut self, at: usize) {
        self.devices[at].place = Place::Elsewhere;
        self.asks_room(at, 0, OccupancyAsk::Leave);
    }

    /// Lets a device say something in the group.
    pub fn says(&mut self, at: usize, text: &str) -> Result<(), ChatFault> {
        let (session, number) = (self.devices[at].session, self.number());
        let client_id = ClientMessageId((2 << 64 | u128::from(number)).to_be_bytes());
        let content = Content::text(text);
        let message = Box::new(NewMessage { to: room().into(), client_id, content });
        self.asks(at, ChatRequest::Send { session, number, message });
        self.rest();
        self.devices[at].answer.take().expect("it is answered")
    }

    /// The texts of the group's conversation that a device may read.
    pub fn reads(&mut self, at: usize) -> Result<Vec<String>, ChatFault> {
        let (session, number) = (self.devices[at].session, self.number());
        let (with, from, backwards, count) = (room().into(), 0, false, 50);
        let range = Box::new(HistoryRange { with, from, backwards, count });
        self.asks(at, ChatRequest::History { session, number, range });
        self.rest();
        self.devices[at].answer.take().expect("it is answered")?;
        Ok(self.devices[at].found.drain(..).filter(|it| !it.is_empty()).collect())
    }

    /// News that a device has got since the last call.
    pub fn hears_of(&mut self, at: usize) -> Vec<String> {
        std::mem::take(&mut self.devices[at].news)
    }

    /// Changes the group, and lets everything come to rest.
    pub fn orders(
        &mut self,
        at: usize,
        verb: GroupVerb,
        members: &[&str],
    ) -> Result<(), ChatFault> {
        let (session, number) = (self.devices[at].session, self.number());
        let order = order(verb, number, members);
        self.asks(at, ChatRequest::Group { session, number, order });
        self.rest();
        self.devices[at].answer.take().expect("it is answered")
    }

    /// Whether the group exists, as a query that reads nothing shows.
    pub fn is_there(&mut self, at: usize) -> bool {
        let (session, number, group) = (self.devices[at].session, self.number(), room().into());
        let (version, from, count, banned) = (0, 0, 9, false);
        let range = Box::new(MembersRange { group, version, from, count, banned });
        self.asks(at, ChatRequest::Members { session, number, range });
        self.rest();
        self.devices[at].answer.take() == Some(Ok(()))
    }

    /// The names of the members of the group.
    pub fn members(&mut self, at: usize) -> Vec<String> {
        assert!(self.is_there(at));
        std::mem::take(&mut self.devices[at].found)
    }

    /// Number of groups in the list of the group's domain.
    pub fn public(&mut self) -> usize {
        let (session, number) = (self.devices[ANN].session, self.number());
        let (domain, from, backwards, count) = ("conference.a.example".into(), None, false, 9);
        let range = Box::new(PublicRange { domain, from, backwards, count });
        self.asks(ANN, ChatRequest::PublicGroups { session, number, range });
        self.rest();
        self.listed.take().expect("it is answered")
    }

    pub fn commands(&mut self, command: ChatCommand) {
        let account = command.account().expect("of one");
        let n = usize::from(shard_of(&account, self.shards.len()).0);
        let shard = &mut self.shards[n];
        Service::command(&mut shard.chat, self.now, 7, command, &mut shard.fx);
        self.collects(n);
    }

    /// A request of Eve, of another server, about the room.
    pub fn eve(&mut self, ask: OccupancyAsk) {
        self.eve_asks(ErrandWhat::Room(room().into(), ask));
    }

    pub fn eve_asks(&mut self, what: ErrandWhat) {
        let what = Box::new(what);
        let what = ArrivalWhat::Ask { device: "phone".into(), what };
        let arrival = ForeignArrival { home: address(EVE), what };
        self.commands(ChatCommand::Foreign(Box::new(arrival)));
        self.rest();
    }

    pub fn eve_enters(&mut self) {
        let show = OccupantShow::default();
        self.eve(OccupancyAsk::Enter(Box::new(Entry {
            nick: EVE.into(),
            show,
            ..Entry::default()
        })));
    }

    /// Kills the process and starts it again; all devices log in, and enter no room.
    pub fn restarts(&mut self) {
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
