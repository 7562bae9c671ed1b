//! Shards over logs in memory, letters that may be lost, and sessions that come and go in rooms.
//!
//! The arena knows the messages of each room, by the answers to their senders, and for each session
//! the messages that it got, the number that it missed, and where it began: these must agree,
//! whatever was lost.

#[path = "../house/plain.rs"]
mod plain;
#[path = "../house/shard.rs"]
mod shard;

use base::hash::home;
use base::prng::Prng;
use base::slab::Key;
use base::time::{Instant, Now};
use chat::ChatWord;
use model::account::{AccountAddress, Addressee};
use model::chat::*;
use model::close::CloseReason;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::{ChatLimits, Limits};
use model::ports::chat::{ChatAnswer, ChatCommand, Errand, ErrandWhat};
use model::ports::events::ChatEvent;
use model::service::Service;
use model::timeline::Seq;
use plain::HOME;
use shard::Shard;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use testkit::crossing::crossed;

/// A session, with the state of its device.
pub struct Device {
    pub name: String,
    pub conn: ConnRef,
    pub session: SessionRef,
    /// The device reads its deliveries; otherwise it rejects them.
    pub reads: bool,
    pub seats: BTreeMap<AccountAddress, Seat>,
    /// Deliveries that no test has examined.
    pub told: Vec<ChatDelivery>,
    /// Notices that the session was removed from rooms.
    pub outs: Vec<ChatroomOut>,
    numbers: u32,
    saying: BTreeMap<u32, (AccountAddress, String)>,
}

/// Messages of a room that a device has got since it joined.
#[derive(Default, Debug)]
pub struct Seat {
    pub since: Seq,
    pub heard: Vec<Seq>,
    pub missed: u64,
    pub state: Arc<ChatroomState>,
}

pub struct Arena {
    pub rng: Prng,
    settings: chat::Settings,
    shards: Vec<Shard>,
    pub now: Now,
    post: BTreeMap<(u16, u16), VecDeque<ChatWord>>,
    pub devices: Vec<Device>,
    conns: u32,
    asks: u64,
    /// The shard that gets commands for all shards.
    asked_shard: usize,
    answers: Vec<(u64, ChatAnswer)>,
    /// One letter in this many is lost; 0: none.
    pub loses: u64,
    /// Messages of each room since the last start, by the answers to their senders.
    pub said: BTreeMap<AccountAddress, BTreeMap<Seq, String>>,
    pub refused: HashMap<ChatFault, usize>,
    /// Events for webhooks, where they are wanted.
    pub events: Vec<ChatEvent>,
}

pub fn person(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

pub fn room(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "live.a.example").expect("right")
}

pub fn addressee(name: &str) -> Addressee {
    Addressee::parse(name).expect("right")
}

pub fn order(name: &str, verb: ChatroomVerb, to: &[&str]) -> ChatroomOrder {
    let accounts = to.iter().map(|one| addressee(one)).collect();
    let (room, text) = (addressee(name), "words".into());
    ChatroomOrder { room, verb, text, accounts, keeps: 3, durable: false }
}

impl Arena {
    pub fn new(seed: u64, shards: u16, change: impl FnOnce(&mut ChatLimits)) -> Arena {
        let mut limits = Limits::default();
        change(&mut limits.chat);
        let limits = Arc::new(limits);
        let settings = chat::Settings { limits, ..plain::settings(ShardId(0), shards) };
        Arena {
            rng: Prng::new(seed),
            shards: (0..shards).map(|n| Shard::new(&settings, n)).collect(),
            settings,
            now: Now::new(Instant::default(), 1_700_000_000_000),
            post: BTreeMap::new(),
            devices: Vec::new(),
            conns: 0,
            asks: 0,
            asked_shard: 0,
            answers: Vec::new(),
            loses: 0,
            said: BTreeMap::new(),
            refused: HashMap::new(),
            events: Vec::new(),
        }
    }

    fn home_of(&self, account: &AccountAddress) -> usize {
        home(account.home_hash(HOME), self.shards.len() as u16).into()
    }

    /// Lets an open operation continue; false: none is open.
    pub fn goes_on(&mut self) -> bool {
        let mut is_more = false;
        for n in 0..self.shards.len() {
            let shard = &mut self.shards[n];
            let next = Service::turn(&mut shard.chat, self.now, &mut shard.fx);
            is_more |= next.is_some_and(|at| at <= self.now.mono);
            for (ticket, call) in std::mem::take(&mut shard.fx.calls) {
                is_more = true;
                let done = (ticket, shard.log.answer(&call));
                Service::complete(&mut shard.chat, self.now, done, &mut shard.fx);
            }
            self.collect(n);
        }
        let ways: Vec<(u16, u16)> = self.post.keys().copied().collect();
        for way in ways {
            while let Some(word) = self.post.get_mut(&way).and_then(VecDeque::pop_front) {
                is_more = true;
                if self.loses > 0 && self.rng.one_in(self.loses) {
                    continue;
                }
                let to = usize::from(way.1);
                let shard = &mut self.shards[to];
                let from = ShardId(way.0);
                Service::peer_message(
                    &mut shard.chat,
                    self.now,
                    from,
                    crossed(word),
                    &mut shard.fx,
                );
                self.collect(to);
            }
        }
        is_more
    }

    /// Lets everything come to rest.
    pub fn rest(&mut self) {
        while self.goes_on() {}
        self.shards.iter().for_each(|shard| Service::audit(&shard.chat));
    }

    pub fn pass_ms(&mut self, ms: u64) {
        self.now = Now::new(self.now.after(Duration::from_millis(ms)), self.now.wall_ms + ms);
        self.rest();
    }

    fn collect(&mut self, n: usize) {
        let fx = &mut self.shards[n].fx;
        let (deliveries, words) =
            (std::mem::take(&mut fx.deliveries), std::mem::take(&mut fx.peer_messages));
        self.answers.append(&mut fx.answers);
        self.events.append(&mut fx.events);
        for (to, word) in words {
            self.post.entry((n as u16, to.0)).or_default().push_back(word);
        }
        for (conn, delivery) in deliveries {
            let Some(at) = self.devices.iter().position(|it| it.conn == conn) else {
                let shard = &mut self.shards[usize::from(conn.shard().0)];
                Service::undelivered(&mut shard.chat, self.now, conn, delivery, &mut shard.fx);
                continue;
            };
            if let Some(request) = self.hears(at, delivery) {
                self.request(at, request);
            }
        }
    }

    /// Delivers something to a device; returns its machine's request.
    fn hears(&mut self, at: usize, delivery: ChatDelivery) -> Option<ChatRequest> {
        let device = &mut self.devices[at];
        let session = device.session;
        let missed =
            |room, missed, again| ChatRequest::ChatroomMissed { session, room, missed, again };
        match delivery {
            ChatDelivery::ChatroomSaid(it) if device.reads => {
                let seat = device.seats.get_mut(&it.message.to).expect("it is there");
                let last = seat.heard.last().copied().unwrap_or(seat.since);
                assert!(it.message.seq > last, "in order, once: {it:?} behind {last}");
                seat.heard.push(it.message.seq);
                self.is_said(&it.message.to, it.message.seq, &it.message.content.text);
            }
            ChatDelivery::ChatroomSaid(it) => return Some(missed(it.timeline, 1, false)),
            ChatDelivery::ChatroomMissed(it) if device.reads => {
                let seat = device.seats.get_mut(&it.room).expect("it is there");
                seat.missed += u64::from(it.missed);
            }
            ChatDelivery::ChatroomMissed(it) => {
                return Some(missed(it.timeline, it.missed, true));
            }
            ChatDelivery::ChatroomNews(it) => match &it.what {
                ChatroomWhat::State(state) => {
                    device.seats.get_mut(&it.room).expect("it is there").state = state.clone();
                }
                ChatroomWhat::Out(why) => {
                    device.seats.remove(&it.room);
                    device.outs.push(*why);
                }
            },
            ChatDelivery::ChatroomJoined(it) => {
                let (room, since, state) = (it.room.clone(), it.state.head, it.state.clone());
                let new = Seat { since, state, ..Seat::default() };
                device.seats.entry(room).or_insert(new);
                device.told.push(ChatDelivery::ChatroomJoined(it));
            }
            ChatDelivery::Sent { number, seq, .. } => {
                let (room, text) = device.saying.remove(&number).expect("it was said");
                device.told.push(delivery);
                self.is_said(&room, seq, &text);
            }
            ChatDelivery::Failed { why, .. } => {
                *self.refused.entry(why).or_default() += 1;
                device.told.push(delivery);
            }
            other => device.told.push(other),
        }
        None
    }

    /// Checks that all who know the message at an offset of a room know the same.
    fn is_said(&mut self, room: &AccountAddress, seq: Seq, text: &str) {
        let said = self.said.entry(room.clone()).or_default();
        let before = said.entry(seq).or_insert_with(|| text.into());
        assert_eq!(before, text, "one message at {seq} of {room}");
    }

    fn request(&mut self, at: usize, request: ChatRequest) {
        let conn = self.devices[at].conn;
        let n = usize::from(conn.shard().0);
        let shard = &mut self.shards[n];
        Service::request(&mut shard.chat, self.now, conn, request, &mut shard.fx);
        self.collect(n);
    }

    /// Logs a device of an account in; returns its index.
    pub fn login(&mut self, name: &str) -> usize {
        self.conns += 1;
        let key = Key { slot: self.conns, generation: 0 };
        let conn = ConnRef::new(ShardId(self.home_of(&person(name)) as u16), key);
        let login = plain::login(person(name), &format!("d{}", self.conns));
        self.devices.push(Device {
            name: name.into(),
            conn,
            session: SessionRef::from_bits(0),
            reads: true,
            seats: BTreeMap::new(),
            told: Vec::new(),
            outs: Vec::new(),
            numbers: 0,
            saying: BTreeMap::new(),
        });
        let at = self.devices.len() - 1;
        let loses = std::mem::take(&mut self.loses);
        self.request(at, ChatRequest::Login(Box::new(login)));
        self.rest();
        self.loses = loses;
        let Some(ChatDelivery::LoggedIn(told)) = self.devices[at].told.pop() else {
            panic!("{name} is let in");
        };
        self.devices[at].session = told.session;
        at
    }

    /// Ends a device's connection.
    pub fn goes(&mut self, at: usize) {
        let session = self.devices[at].session;
        self.request(at, ChatRequest::Closed { session, reason: CloseReason::PeerClosed });
        self.devices.remove(at);
    }

    pub fn asks(&mut self, at: usize, ask: ChatroomAsk) {
        let device = &mut self.devices[at];
        device.numbers += 1;
        let request = ChatroomRequest { session: device.session, number: device.numbers, ask };
        self.request(at, ChatRequest::Chatroom(Box::new(request)));
    }

    pub fn says(&mut self, at: usize, name: &str, text: &str) {
        let device = &mut self.devices[at];
        device.numbers += 1;
        let (number, session, to) = (device.numbers, device.session, room(name));
        let mut id = [0; 16];
        id[..8].copy_from_slice(&u64::from(number).to_be_bytes());
        id[8..].copy_from_slice(&device.conn.bits().to_be_bytes());
        device.saying.insert(number, (to.clone(), text.into()));
        let (client_id, content) = (ClientMessageId(id), Content::text(text));
        let message = Box::new(NewMessage { to: to.into(), client_id, content });
        self.request(at, ChatRequest::Send { session, number, message });
    }

    /// The answer to a device, when everything is at rest.
    pub fn answer(&mut self, at: usize) -> ChatDelivery {
        self.rest();
        let told = std::mem::take(&mut self.devices[at].told);
        let [one] = <[ChatDelivery; 1]>::try_from(told).expect("one answer");
        one
    }

    pub fn answered(&mut self, at: usize, ask: ChatroomAsk) -> Result<ChatDelivery, ChatFault> {
        self.asks(at, ask);
        match self.answer(at) {
            ChatDelivery::Failed { why, .. } => Err(why),
            told => Ok(told),
        }
    }

    pub fn ordered(&mut self, at: usize, order: ChatroomOrder) -> Result<(), ChatFault> {
        self.answered(at, ChatroomAsk::Order(order)).map(|_| ())
    }

    /// Lets a device join; returns whether it is answered after one more turn of every shard.
    pub fn joins_now(&mut self, at: usize, name: &str) -> bool {
        self.asks(at, ChatroomAsk::Join { room: addressee(name), history: 0 });
        self.goes_on();
        let is_joined = |it: ChatDelivery| matches!(it, ChatDelivery::ChatroomJoined(_));
        std::mem::take(&mut self.devices[at].told).into_iter().any(is_joined)
    }

    /// Lets a device join; returns the messages that it gets.
    pub fn joins(&mut self, at: usize, name: &str) -> Result<Vec<String>, ChatFault> {
        let room = addressee(name);
        match self.answered(at, ChatroomAsk::Join { room, history: 10 })? {
            ChatDelivery::ChatroomJoined(it) => {
                Ok(it.history.iter().map(|it| it.message.content.text.to_string()).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn said(&mut self, at: usize, name: &str, text: &str) -> Result<Seq, ChatFault> {
        self.says(at, name, text);
        match self.answer(at) {
            ChatDelivery::Sent { seq, .. } => Ok(seq),
            ChatDelivery::Failed { why, .. } => Err(why),
            ChatDelivery::Rejected(it) => Err(it.why),
            other => panic!("{other:?}"),
        }
    }

    pub fn members(&mut self, at: usize, name: &str, from: u32) -> Result<MembersPage, ChatFault> {
        let device = &mut self.devices[at];
        device.numbers += 1;
        let (session, number) = (device.session, device.numbers);
        let range =
            MembersRange { group: room(name).into(), version: 1, from, count: 2, banned: false };
        self.request(at, ChatRequest::Members { session, number, range: Box::new(range) });
        match self.answer(at) {
            ChatDelivery::Members(page) => Ok(*page),
            ChatDelivery::Failed { why, .. } => Err(why),
            other => panic!("{other:?}"),
        }
    }

    pub fn command(&mut self, command: ChatCommand) -> ChatAnswer {
        self.asks += 1;
        let n = command.account().map_or(self.asked_shard, |account| self.home_of(&account));
        let shard = &mut self.shards[n];
        Service::command(&mut shard.chat, self.now, self.asks, command, &mut shard.fx);
        self.rest();
        let at = self.answers.iter().position(|(ask, _)| *ask == self.asks);
        self.answers.remove(at.expect("it was answered")).1
    }

    /// Makes events wanted.
    pub fn wants_events(&mut self) {
        self.shards.iter_mut().for_each(|shard| shard.fx.events_wanted = true);
    }

    /// Gives commands for all shards to the next shard from now on.
    pub fn next_shard(&mut self) {
        self.asked_shard += 1;
    }

    /// Sends a device's message with the id of its last one.
    pub fn says_again(&mut self, at: usize, name: &str, text: &str) -> Result<Seq, ChatFault> {
        self.devices[at].numbers -= 1;
        self.said(at, name, text)
    }

    /// Gives an operator's order about a chatroom, by the server's own account.
    pub fn operator(&mut self, order: ChatroomOrder) -> ChatDelivery {
        let by = person("system");
        let what = ErrandWhat::Chatroom(Box::new(order));
        let errand = Box::new(Errand { by, is_operators: true, what });
        match self.command(ChatCommand::Errand(errand)) {
            ChatAnswer::Told(Some(told)) => *told,
            other => panic!("{other:?}"),
        }
    }

    /// Kills the process, and starts it again from its logs, without sessions.
    pub fn restart(&mut self) {
        self.post.clear();
        self.devices.clear();
        self.said.clear();
        for (n, shard) in (0..).zip(&mut self.shards) {
            shard.restart(self.now, &self.settings, n);
        }
        self.rest();
    }

    /// Stops all loss, lets all devices read, and lets time pass until everything is delivered.
    pub fn heal(&mut self) {
        self.loses = 0;
        self.devices.iter_mut().for_each(|device| device.reads = true);
        for _ in 0..40 {
            self.pass_ms(2_000);
        }
    }

    /// Checks that the messages that each session got, and those it was told it missed, are all
    /// messages of the rooms at their homes.
    pub fn check(&mut self) -> u64 {
        let mut heads = BTreeMap::new();
        for shard in 0..self.shards.len() {
            self.asked_shard = shard;
            let found = self.command(ChatCommand::Chatrooms { after: None, count: 9 });
            let ChatAnswer::Chatrooms(found) = found else { panic!("{found:?}") };
            heads.extend(found.into_iter().map(|it| (it.room, it.state.head)));
        }
        let mut missed = 0;
        for device in &self.devices {
            for (room, seat) in &device.seats {
                let head = heads[room];
                let all = head - seat.since;
                let had = seat.heard.len() as u64 + seat.missed;
                assert_eq!(had, all, "{} in {room}: {seat:?} of {head}", device.name);
                missed += seat.missed;
            }
        }
        missed
    }
}
