//! A process of several shards over logs in memory, with people who communicate.
//!
//! All that takes time is a queue, and the seed chooses which continues next: calls to the logs,
//! their answers (reads later than writes behind them), messages between shards (some are lost). A
//! crash drops all of them; calls that the logs had carried out stay.

mod abroad;
mod amendments;
mod archive;
mod device;
mod erasure;
mod groups;
mod knowledge;
mod members;
mod names;
#[path = "../../house/plain.rs"]
mod plain;
pub mod pushes;
mod recalls;
mod receipts;
mod shard;
mod shows;
mod transients;

use abroad::Abroad;
use base::prng::Prng;
use base::slab::Key;
use base::time::{Instant, Now};
use chat::{ChatService, ChatWord};
use device::{Device, put};
use model::account::AccountAddress;
use model::chat::foreign::ForeignDomains;
use model::chat::{
    ChatDelivery, ChatFault, ChatMessage, ChatRequest, ClientMessageId, Content, GroupOrder,
    GroupVerb,
};
use model::counters::ChatCounter;
use model::id::{ConnRef, ShardId};
use model::ports::access::{Access, NameOwner};
use model::service::Service;
use model::timeline::Seq;
pub use names::Names;
use plain::HOME;
use recalls::Recalled;
use shard::Shard;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use testkit::crossing::crossed_all;
use transients::Told;

const PEOPLE: u32 = 4;
const DEVICES: u32 = 2;

/// A message that was sent: sender and client id.
pub type Said = (AccountAddress, ClientMessageId);

/// Every so-manieth bag has its parcels sent twice.
const DOUBLED_EVERY: u32 = 40;

/// The process, and all its clients.
pub struct World {
    pub rng: Prng,
    pub now: Now,
    shards: Vec<Shard>,
    /// Bags of words on their way, by sender and receiver.
    post: BTreeMap<(u16, u16), VecDeque<Vec<ChatWord>>>,
    /// Bags that arrived.
    bags: u32,
    devices: Vec<Device>,
    conns: u32,
    /// Confirmed messages: number, offset and text.
    sent: BTreeMap<Said, (u64, Seq, String)>,
    /// All messages that devices tried to send.
    tried: BTreeMap<Said, (AccountAddress, String)>,
    /// All orders about groups.
    orders: BTreeMap<Said, GroupOrder>,
    /// Recalls that were answered, in that order, with their answers.
    recalled: Vec<(Recalled, (u64, Seq))>,
    /// Number of transients that were received, and of amended messages that were read.
    pub heard: usize,
    pub amended: usize,
    /// Transients that were sent, by number.
    told: Vec<Told>,
    calm: bool,
    /// Push notifications, and the carrier that takes them.
    pub carrier: pushes::Carrier,
    /// The owners of names.
    pub names: Arc<Names>,
    /// People of other servers, if any exist.
    abroad: Abroad,
}

pub fn person(n: u32) -> AccountAddress {
    AccountAddress::parse(&format!("p{n}"), "a.example").expect("right")
}

impl World {
    pub fn new(seed: u64, shards: u16) -> World {
        World::with_border(seed, shards, 0)
    }

    /// A world in which groups of more members are read.
    pub fn with_border(seed: u64, shards: u16, border: u32) -> World {
        let now = Now::new(Instant::default(), 1_700_000_000_000);
        let names = Arc::new(Names::default());
        let devices = (0..PEOPLE)
            .flat_map(|person| (0..DEVICES).map(move |n| Device::new(person, n)))
            .collect();
        World {
            rng: Prng::new(seed),
            now,
            shards: (0..shards).map(|n| Shard::new(ShardId(n), shards, border, &names)).collect(),
            post: BTreeMap::new(),
            bags: 0,
            devices,
            conns: 0,
            sent: BTreeMap::new(),
            tried: BTreeMap::new(),
            orders: BTreeMap::new(),
            recalled: Vec::new(),
            told: Vec::new(),
            heard: 0,
            amended: 0,
            calm: false,
            carrier: pushes::Carrier::default(),
            names,
            abroad: Abroad::default(),
        }
    }

    /// Lets a random event happen.
    pub fn step(&mut self) {
        if self.abroad.is_on && self.rng.one_in(6) {
            return self.passes_abroad();
        }
        match self.rng.below(100) {
            0..=29 => self.device_acts(),
            30..=54 => {
                let shard = self.a_shard();
                match self.rng.one_in(20) {
                    true => self.shards[shard].log_refuses(),
                    false => self.shards[shard].log_works(&mut self.rng),
                }
            }
            55..=79 => {
                let shard = self.a_shard();
                self.shards[shard].completes(self.now);
                self.collect(shard);
            }
            80..=89 => self.a_bag_arrives(),
            90..=91 => self.carries(),
            92..=97 => {
                let shard = self.a_shard();
                let ms = self.rng.below(200);
                self.pass_ms(ms);
                self.shards[shard].turn(self.now);
                self.collect(shard);
            }
            98 if self.rng.one_in(8) => self.pass_ms(40_000),
            99 if self.rng.one_in(12) => self.kill(),
            _ => {}
        }
    }

    fn a_shard(&mut self) -> usize {
        self.rng.below(self.shards.len() as u64) as usize
    }

    pub fn pass_ms(&mut self, ms: u64) {
        self.now = Now::new(self.now.after(Duration::from_millis(ms)), self.now.wall_ms + ms);
    }

    /// Collects a shard's effects: deliveries to devices, messages to other shards.
    fn collect(&mut self, shard: usize) {
        let is_full = !self.calm && self.rng.one_in(60);
        let (deliveries, messages) = self.shards[shard].take(self.now, is_full);
        let mut answers = std::mem::take(&mut self.shards[shard].answers);
        answers.retain(|(ask, answer)| !self.they_hear(*ask, answer));
        self.shards[shard].answers = answers;
        self.goes_abroad(shard, is_full);
        let mut bags = BTreeMap::<u16, Vec<ChatWord>>::new();
        for (to, message) in messages {
            assert_ne!(usize::from(to.0), shard, "what is for itself is done at once");
            bags.entry(to.0).or_default().push(message);
        }
        for (to, bag) in bags {
            self.post.entry((shard as u16, to)).or_default().push_back(bag);
        }
        for (conn, delivery) in deliveries {
            self.deliver(conn, delivery);
        }
    }

    fn deliver(&mut self, conn: ConnRef, delivery: ChatDelivery) {
        let Some(at) = self.devices.iter().position(|device| device.conn == Some(conn)) else {
            return self.undelivered(conn, delivery);
        };
        let device = &mut self.devices[at];
        if let ChatDelivery::Sent { number, id, seq, .. } = &delivery
            && let Some((with, target)) = device.recalling.remove(number)
        {
            let account = device.account.clone();
            return self.recall_answered(&account, &with, target, (*id, *seq));
        }
        let stored = match &delivery {
            ChatDelivery::Sent { number, id, seq, again, .. } => Some((number, id, seq, again)),
            ChatDelivery::Changed(it) => Some((&it.number, &it.id, &it.seq, &it.again)),
            _ => None,
        };
        if let Some((number, id, seq, again)) = stored {
            let (said, text) = device.waiting.remove(number).expect("it was asked");
            let first = self.sent.get(&said);
            let order = self.orders.get(&said);
            let said_is_making = order.is_some_and(|it| it.verb == GroupVerb::Create);
            if let Some((first_id, first_seq, _)) = first {
                // The offset of the order that created a group anew is forgotten after a while.
                let is_unknown = said_is_making && [*first_seq, *seq].contains(&0);
                let is_place = first_seq == seq || is_unknown;
                assert!(first_id == id && is_place, "the first answer: {delivery:?}");
                assert!(*again, "it was sent before");
            }
            self.sent.insert(said, (*id, *seq, text));
        }
        let asked = match &delivery {
            ChatDelivery::Page(page) => device.asked.remove(&page.number),
            ChatDelivery::History(page) => device.asked.remove(&page.number),
            ChatDelivery::Archive(page) => device.asked.remove(&page.number),
            ChatDelivery::Conversations(page) => device.asked.remove(&page.number),
            _ => None,
        };
        if let ChatDelivery::Delivered(news) = &delivery {
            self.is_delivered(at, news);
        }
        self.devices[at].hears(delivery.clone());
        if let Some(asked) = asked {
            self.says_nothing_recalled(at, &delivery, asked);
        }
    }

    fn undelivered(&mut self, conn: ConnRef, delivery: ChatDelivery) {
        let shard = usize::from(conn.shard().0);
        self.shards[shard].undelivered(self.now, conn, delivery);
    }

    fn a_bag_arrives(&mut self) {
        let ways: Vec<(u16, u16)> =
            self.post.iter().filter(|(_, bags)| !bags.is_empty()).map(|(way, _)| *way).collect();
        if ways.is_empty() {
            return;
        }
        let way = ways[self.rng.below(ways.len() as u64) as usize];
        let Some(bag) = self.post.get_mut(&way).and_then(VecDeque::pop_front) else { return };
        if !self.calm && self.rng.one_in(20) {
            return; // the mailbox was full
        }
        self.bags += 1;
        if !self.calm && self.bags.is_multiple_of(DOUBLED_EVERY) {
            // Parcels that are sent again arrive twice, and late.
            let mut again = crossed_all(&bag);
            again.retain(|message| matches!(message, ChatWord::Place(_)));
            self.post.entry(way).or_default().push_back(again);
        }
        let to = usize::from(way.1);
        for message in crossed_all(&bag) {
            self.shards[to].hears(self.now, ShardId(way.0), message);
        }
        self.collect(to);
    }

    fn ask(&mut self, at: usize, request: ChatRequest) {
        let Some(conn) = self.devices[at].conn else { return };
        let shard = usize::from(conn.shard().0);
        if let ChatRequest::Pull { number, .. }
        | ChatRequest::History { number, .. }
        | ChatRequest::Archive { number, .. }
        | ChatRequest::Conversations { number, .. }
        | ChatRequest::Conversation { number, .. } = &request
        {
            self.devices[at].asked.insert(*number, self.recalled.len());
        }
        self.shards[shard].request(self.now, conn, request);
        self.collect(shard);
    }

    fn device_acts(&mut self) {
        let at = self.rng.below(self.devices.len() as u64) as usize;
        if self.devices[at].conn.is_none() {
            if self.carrier.is_rarely_here(at) && !self.rng.one_in(8) {
                return;
            }
            return self.connect(at);
        }
        if let Some(request) = self.devices[at].owes() {
            return self.ask(at, request);
        }
        match self.rng.below(39) {
            0 => self.disconnect(at),
            1 if self.rng.one_in(4) => self.devices[at].forgets(),
            2..=4 => {
                if let Some(request) = self.devices[at].acknowledges() {
                    self.ask(at, request);
                }
            }
            5 if self.rng.one_in(2) => {
                if let Some(request) = self.devices[at].looks_back(&mut self.rng, PEOPLE) {
                    self.ask(at, request);
                }
            }
            5 => {
                let group = if self.rng.one_in(2) { self.a_group() } else { None };
                if let Some(request) = self.devices[at].reads(&mut self.rng, PEOPLE, group) {
                    self.ask(at, request);
                }
            }
            6..=8 => self.say_again(at),
            9..=10 => self.order(at),
            20..=23 => {
                let group = self.a_group();
                let request = group.and_then(|it| self.devices[at].lists(&mut self.rng, it));
                request.into_iter().for_each(|request| self.ask(at, request));
            }
            24..=26 => self.reads_on(at),
            27 => self.sets(at),
            28..=30 => self.looks(at),
            31..=32 => self.calls_back(at),
            33 => self.asks_for_readers(at),
            34 => self.types(at),
            35..=38 => self.amends(at),
            _ => self.say(at),
        }
    }

    fn say(&mut self, at: usize) {
        let group = if self.rng.one_in(2) { self.a_group() } else { None };
        let to = match self.abroad.is_on && self.rng.one_in(3) {
            true => self.a_foreigner(),
            false => group.unwrap_or_else(|| person(self.rng.below(PEOPLE.into()) as u32)),
        };
        let number = self.tried.len();
        let text = format!("message {number}");
        let id = ClientMessageId((number as u128).to_be_bytes());
        let said = (self.devices[at].account.clone(), id);
        self.tried.insert(said.clone(), (to.clone(), text.clone()));
        self.say_this(at, said, to, text);
    }

    /// Repeats an earlier message of a device's account, answered or not.
    fn say_again(&mut self, at: usize) {
        let account = &self.devices[at].account;
        let own: Vec<Said> = self.tried.keys().filter(|(by, _)| by == account).cloned().collect();
        if own.is_empty() {
            return;
        }
        let said = own[self.rng.below(own.len() as u64) as usize].clone();
        let (to, text) = self.tried[&said].clone();
        self.say_this(at, said, to, text);
    }

    fn say_this(&mut self, at: usize, said: Said, to: AccountAddress, text: String) {
        self.devices[at].said.insert(said.clone());
        if let Some(request) = self.devices[at].says(said, to, text) {
            self.ask(at, request);
        }
    }

    pub fn connect(&mut self, at: usize) {
        let device = &mut self.devices[at];
        let shard = base::hash::home(device.account.home_hash(HOME), self.shards.len() as u16);
        self.conns += 1;
        let key = Key { slot: self.conns, generation: 0 };
        let conn = ConnRef::new(ShardId(shard), key);
        let proves = self.names.owner(device.account.name()) != NameOwner::Unknown;
        let login = device.comes(conn, proves);
        self.ask(at, login);
    }

    fn disconnect(&mut self, at: usize) {
        let Some(conn) = self.devices[at].conn else { return };
        let request = self.devices[at].goes();
        let shard = usize::from(conn.shard().0);
        self.shards[shard].request(self.now, conn, request);
        self.collect(shard);
    }

    /// Kills the process; all devices have to log in again.
    pub fn dies(&mut self) {
        self.kill();
    }

    /// Kills the process, and starts it again from its logs.
    fn kill(&mut self) {
        self.post.clear();
        self.devices.iter_mut().for_each(Device::is_cut);
        self.carrier.dies();
        self.abroad.dies();
        for shard in &mut self.shards {
            shard.restart(self.now, &mut self.rng);
        }
        for shard in 0..self.shards.len() {
            self.collect(shard);
        }
    }

    /// Stops all loss and refusal, and lets everything come to rest.
    pub fn heal(&mut self) {
        self.calm = true;
        for round in 0..400 {
            self.round();
            if round % 4 == 0 {
                self.pass_ms(6_000);
            }
            for at in 0..self.devices.len() {
                if self.devices[at].conn.is_none() {
                    self.connect(at);
                } else if let Some(request) = self.devices[at].owes() {
                    self.ask(at, request);
                }
            }
        }
        self.shards.iter().for_each(Shard::audit);
    }

    /// Lets everything come to rest; nothing is lost.
    pub fn rest(&mut self) {
        self.calm = true;
        (0..40).for_each(|_| self.round());
    }

    fn round(&mut self) {
        for shard in 0..self.shards.len() {
            while self.shards[shard].is_busy() {
                self.shards[shard].log_works(&mut self.rng);
                self.shards[shard].completes(self.now);
                self.collect(shard);
            }
            self.shards[shard].turn(self.now);
            self.collect(shard);
        }
        self.carries();
        self.all_gets_there();
        while self.post.values().any(|bags| !bags.is_empty()) {
            self.a_bag_arrives();
        }
    }

    /// Sends a device's message to a person; returns the answer, when everything is at rest.
    pub fn says(&mut self, at: usize, to: u32, text: &str) -> Result<(), ChatFault> {
        self.says_to(at, &person(to), text)
    }

    /// Sends a device's message to any address; returns the answer, when everything is at rest.
    pub fn says_to(&mut self, at: usize, to: &AccountAddress, text: &str) -> Result<(), ChatFault> {
        let id = ClientMessageId((self.tried.len() as u128).to_be_bytes());
        let said = (self.devices[at].account.clone(), id);
        self.tried.insert(said.clone(), (to.clone(), text.into()));
        self.say_this(at, said, to.clone(), text.into());
        self.rest();
        self.devices[at].failed.take().map_or(Ok(()), Err)
    }

    /// Texts of a device after it has pulled its whole inbox.
    pub fn texts(&mut self, at: usize) -> Vec<String> {
        while let Some(request) = self.devices[at].owes() {
            self.ask(at, request);
            self.rest();
        }
        self.devices[at].has.values().map(|message| message.content.text.to_string()).collect()
    }

    /// Value of a counter since the process started.
    pub fn counted(&self, counter: ChatCounter) -> u64 {
        self.shards.iter().map(|shard| shard.fx.counters.of(counter)).sum()
    }

    pub fn is_here(&self, at: usize) -> bool {
        self.devices[at].is_here()
    }

    /// A device is installed anew.
    pub fn forgets(&mut self, at: usize) {
        self.devices[at].forgets();
    }

    /// Checks the final state of everyone.
    pub fn check(&mut self) {
        for shard in &self.shards {
            assert_eq!(shard.chat.unsettled(), 0, "nothing is left to do");
            let mut status = model::ports::control::Status::default();
            Service::status(&shard.chat, &mut status);
            assert_eq!(status.chat_undistributed, 0, "all is distributed");
        }
        for n in 0..PEOPLE {
            let all: Vec<&Device> =
                self.devices.iter().filter(|device| device.account == person(n)).collect();
            let inbox = whole(&all);
            self.check_inbox(&person(n), &inbox);
            for device in all {
                device.check(&inbox);
            }
        }
        self.check_groups();
        self.check_knowledge();
        self.check_recalls();
        self.heard = self.check_transients();
        (0..PEOPLE).for_each(|n| self.check_archive(n));
        self.check_receipts();
        self.amended = self.check_amendments();
    }

    fn check_inbox(&self, person: &AccountAddress, inbox: &BTreeMap<Seq, Arc<ChatMessage>>) {
        let mut once = BTreeSet::new();
        let mut last = BTreeMap::<&AccountAddress, Seq>::new();
        for message in inbox.values() {
            let said = (message.from.clone(), message.client_id);
            assert!(once.insert(said.clone()), "{person} has {said:?} twice");
            if self.orders.contains_key(&said) {
                continue; // events of groups are checked with the groups
            }
            if message.content.kind == Content::TEXT {
                let (to, text) = &self.tried[&said];
                let is_edited = message.amended.as_ref().is_some_and(|it| it.edited_ms > 0);
                assert_eq!(message.to, *to);
                assert!(is_edited || *message.content.text == **text, "{message:?}: {text}");
            }
            if message.to.is_group() {
                continue;
            }
            let partner = if message.from == *person { &message.to } else { &message.from };
            let before = last.insert(partner, message.seq).unwrap_or(0);
            let is_of_two = |it: &&Arc<ChatMessage>| !it.to.is_group();
            let all = inbox.values().filter(is_of_two);
            let all = all.filter(|it| [&it.from, &it.to].contains(&partner));
            let all: Vec<_> = all.map(|it| (it.seq, it.content.text.clone())).collect();
            let next = before + 1;
            assert_eq!(message.seq, next, "{person} with {partner}: in order, no gap: {all:?}");
        }
        for (said, (id, seq, _)) in &self.sent {
            let Some((to, _)) = self.tried.get(said).filter(|(to, _)| !to.is_group()) else {
                continue;
            };
            if said.0 == *person || to == person {
                let found = inbox.values().find(|it| (&it.from, it.client_id) == (&said.0, said.1));
                let found = found.unwrap_or_else(|| panic!("{person} lacks {said:?}"));
                assert_eq!((found.id, found.seq), (*id, *seq));
            }
        }
    }
}

/// All messages of an account's devices together.
fn whole(devices: &[&Device]) -> BTreeMap<Seq, Arc<ChatMessage>> {
    let mut inbox = BTreeMap::new();
    for device in devices {
        for (seq, message) in &device.has {
            put(&mut inbox, *seq, message.clone());
        }
    }
    inbox
}

/// The service of a shard.
pub fn service((id, shards): (ShardId, u16), border: u32, names: &Arc<Names>) -> ChatService {
    let (limits, access, push) = (Arc::new(shard::limits(border)), names.clone(), pushes::POLICY);
    let own = "a.example".into();
    let foreign = Arc::new(ForeignDomains { own, federates: true, ..ForeignDomains::default() });
    ChatService::new(chat::Settings {
        limits,
        access,
        push,
        foreign,
        ..plain::settings(id, shards)
    })
}
