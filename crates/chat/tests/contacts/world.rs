//! A process of several shards over logs in memory, with people who subscribe, come and go.
//!
//! All that takes time is a queue, and the seed chooses which continues next. Messages between
//! shards may be lost, logs refuse, and a crash drops all calls that the logs had not carried out.

#[path = "device.rs"]
mod device;
#[path = "../people/world/names.rs"]
mod names;
#[path = "../house/plain.rs"]
mod plain;
#[path = "../people/world/shard.rs"]
mod shard;

use base::prng::Prng;
use base::slab::Key;
use base::time::{Instant, Now};
use chat::{ChatService, ChatWord};
pub use device::Device;
use model::account::AccountAddress;
use model::chat::*;
use model::id::{ConnRef, ShardId};
use model::limits::{ChatLimits, Limits};
use model::ports::access::{Access, NameOwner};
use model::ports::log::{Call, Done, ROWS_MAX, Read, Table};
pub use names::Names;
use plain::HOME;
use shard::Shard;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const DEVICES: u32 = 2;

/// The process, and all its clients.
pub struct World {
    pub rng: Prng,
    pub now: Now,
    shards: Vec<Shard>,
    /// Bags of words on their way, by sender and receiver.
    post: BTreeMap<(u16, u16), VecDeque<Vec<ChatWord>>>,
    /// Two devices of each person.
    pub devices: Vec<Device>,
    by_conn: BTreeMap<ConnRef, usize>,
    people: u32,
    conns: u32,
    /// Connections that the server believes alive, and the state that their machines will leave.
    forgotten: BTreeMap<ConnRef, ChatRequest>,
    calm: bool,
    /// Pairs of which the first ever allowed the second to see its presence, or would have.
    granted: BTreeSet<(AccountAddress, AccountAddress)>,
    /// Pairs of which one ever blocked the other, in either order.
    blocked: BTreeSet<(AccountAddress, AccountAddress)>,
    pub names: Arc<Names>,
    /// Number of words between shards in the last collection.
    pub words: usize,
    /// Number of crashes.
    pub kills: u32,
}

pub fn person(n: u32) -> AccountAddress {
    AccountAddress::parse(&format!("p{n}"), "a.example").expect("right")
}

/// With this many shards the usual limit of contacts holds.
pub const SHARDS_OF_STORM: u16 = 6;

/// Small limits, so that they are reached.
fn limits(shards: u16) -> Limits {
    let usual = ChatLimits::default().contacts_an_account_max;
    let chat = ChatLimits {
        contacts_an_account_max: if shards == SHARDS_OF_STORM { usual } else { 3 },
        contact_requests_an_account_max: 2,
        contacts_removed_max: 1,
        contacts_known_max: 8,
        presence_changes_a_minute_max: 3,
        presence_pause_ms: 1_000,
        resume_stanzas_max: 64,
        resume_bytes_max: 16 * 1024,
        nodes_an_account_max: 6,
        node_items_max: 5,
        node_item_bytes_max: 1_024,
        node_bytes_an_account_max: 4_096,
        node_subscribers_max: 2,
        nodes_known_max: 24,
        node_changes_untold_max: 4,
        profiles_known_max: 16,
        accounts_known_max: 1 << 16,
        redistribute_ms: 5_000,
        ..shard::limits(0).chat
    };
    Limits { chat, ..shard::limits(0) }
}

/// The service of a shard.
pub fn service((shard, shards): (ShardId, u16), _: u32, names: &Arc<Names>) -> ChatService {
    let limits = Arc::new(limits(shards));
    let plain = plain::settings(shard, shards);
    ChatService::new(chat::Settings { limits, access: names.clone(), ..plain })
}

impl World {
    pub fn new(seed: u64, shards: u16, people: u32) -> World {
        let now = Now::new(Instant::default(), 1_700_000_000_000);
        let names = Arc::new(Names::default());
        let devices = (0..people).flat_map(|one| (0..DEVICES).map(move |n| Device::new(one, n)));
        World {
            rng: Prng::new(seed),
            now,
            shards: (0..shards).map(|n| Shard::new(ShardId(n), shards, 0, &names)).collect(),
            post: BTreeMap::new(),
            devices: devices.collect(),
            by_conn: BTreeMap::new(),
            people,
            conns: 0,
            forgotten: BTreeMap::new(),
            calm: false,
            granted: BTreeSet::new(),
            blocked: BTreeSet::new(),
            names,
            words: 0,
            kills: 0,
        }
    }

    /// Lets a random event happen.
    pub fn step(&mut self) {
        match self.rng.below(100) {
            0..=24 => self.device_acts(),
            25..=49 => {
                let shard = self.a_shard();
                match self.rng.one_in(20) {
                    true => self.shards[shard].log_refuses(),
                    false => self.shards[shard].log_works(&mut self.rng),
                }
            }
            50..=74 => {
                let shard = self.a_shard();
                self.shards[shard].completes(self.now);
                self.collect(shard);
            }
            75..=89 => self.a_bag_arrives(),
            90..=97 => {
                let shard = self.a_shard();
                let ms = self.rng.below(300);
                self.pass_ms(ms);
                self.turn(shard);
            }
            98 if self.rng.one_in(8) => self.pass_ms(40_000),
            99 if self.rng.one_in(12) => self.kill(),
            _ => {}
        }
    }

    /// Lets a random event happen, without actions of devices.
    pub fn step_quietly(&mut self) {
        match self.rng.below(100) {
            0..=49 => {
                let shard = self.a_shard();
                self.shards[shard].log_works(&mut self.rng);
            }
            50..=79 => {
                let shard = self.a_shard();
                self.shards[shard].completes(self.now);
                self.collect(shard);
            }
            80..=89 => self.a_bag_arrives(),
            90..=97 => {
                let shard = self.a_shard();
                self.pass_ms(50);
                self.turn(shard);
            }
            98 if self.rng.one_in(2) => {
                let at = self.rng.below(self.devices.len() as u64) as usize;
                self.disconnect(at);
            }
            99 if self.rng.one_in(4) => self.kill(),
            _ => {}
        }
    }

    /// Lets logs refuse and mailboxes be full again, now and then.
    pub fn is_noisy(&mut self) {
        self.calm = false;
    }

    fn a_shard(&mut self) -> usize {
        self.rng.below(self.shards.len() as u64) as usize
    }

    pub fn pass_ms(&mut self, ms: u64) {
        self.now = Now::new(self.now.after(Duration::from_millis(ms)), self.now.wall_ms + ms);
    }

    fn turn(&mut self, shard: usize) {
        self.shards[shard].turn(self.now);
        self.collect(shard);
    }

    fn collect(&mut self, shard: usize) {
        let is_full = !self.calm && self.rng.one_in(60);
        let (deliveries, messages) = self.shards[shard].take(self.now, is_full);
        self.words = messages.len();
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
        let is_its = |at: &&usize| self.devices[**at].conn == Some(conn);
        let Some(&at) = self.by_conn.get(&conn).filter(is_its) else {
            if delivery == ChatDelivery::Yield
                && let Some(request) = self.forgotten.remove(&conn)
            {
                let shard = usize::from(conn.shard().0);
                self.shards[shard].request(self.now, conn, request);
                return self.collect(shard);
            }
            let shard = usize::from(conn.shard().0);
            return self.shards[shard].undelivered(self.now, conn, delivery);
        };
        if let ChatDelivery::Presence(presence) = &delivery
            && presence.availability.is_some()
        {
            let (from, to) = (presence.from.clone(), self.devices[at].account.clone());
            let may = from == to || self.granted.contains(&(from.clone(), to.clone()));
            assert!(may, "{to} is told of {from}, who never let it");
        }
        let is_login = matches!(delivery, ChatDelivery::LoggedIn(_));
        let is_nameless = matches!(delivery, ChatDelivery::NotResumed { .. });
        self.devices[at].hears(delivery);
        let request = match (is_login, is_nameless) {
            (true, _) => self.devices[at].wants_back(),
            (_, true) => self.devices[at].wants_name(),
            _ => None,
        };
        if let Some(request) = request {
            self.ask(at, request);
        }
    }

    fn a_bag_arrives(&mut self) {
        let ways = self.post.iter().filter(|(_, bags)| !bags.is_empty());
        let ways: Vec<(u16, u16)> = ways.map(|(way, _)| *way).collect();
        if ways.is_empty() {
            return;
        }
        let way = ways[self.rng.below(ways.len() as u64) as usize];
        let Some(bag) = self.post.get_mut(&way).and_then(VecDeque::pop_front) else { return };
        if !self.calm && self.rng.one_in(12) {
            return; // the mailbox was full
        }
        let to = usize::from(way.1);
        for message in bag {
            self.shards[to].hears(self.now, ShardId(way.0), message);
        }
        self.collect(to);
    }

    fn ask(&mut self, at: usize, request: ChatRequest) {
        let Some(conn) = self.devices[at].conn else { return };
        let shard = usize::from(conn.shard().0);
        self.shards[shard].request(self.now, conn, request);
        self.collect(shard);
    }

    fn device_acts(&mut self) {
        let at = self.rng.below(self.devices.len() as u64) as usize;
        if self.devices[at].conn.is_none() {
            return self.connect(at);
        }
        match self.rng.below(16) {
            0 if self.rng.one_in(2) => self.disconnect(at),
            0 => self.breaks(at),
            1 => self.devices[at].forgets(),
            2 if self.rng.one_in(2) => self.lists(at),
            2 => self.pages(at),
            3..=6 => {
                let priority = self.rng.below(4) as i8;
                self.presents(at, (priority > 0).then_some(priority));
            }
            _ => {
                let order = self.an_order();
                let whom = self.rng.below(self.people.into()) as u32;
                self.wants(at, whom, order);
            }
        }
    }

    fn an_order(&mut self) -> ContactOrder {
        let text = |n: u64| format!("text {n}").into_boxed_str();
        let n = self.rng.below(5);
        match self.rng.below(12) {
            0 | 1 => ContactOrder::Set { name: text(n), groups: [text(n)].into() },
            2 => ContactOrder::Remove,
            3 | 4 => ContactOrder::Befriend(text(n)),
            5 if self.rng.one_in(3) => ContactOrder::Block,
            6 => ContactOrder::Unblock,
            _ => {
                let verb = SubscriptionVerb::ALL[self.rng.below(4) as usize];
                ContactOrder::Say(verb, text(n))
            }
        }
    }

    /// Gives a device's order about a contact.
    pub fn wants(&mut self, at: usize, whom: u32, order: ContactOrder) {
        let (own, contact) = (self.devices[at].account.clone(), person(whom));
        if matches!(
            order,
            ContactOrder::Befriend(_) | ContactOrder::Say(SubscriptionVerb::Subscribed, _)
        ) {
            self.granted.insert((own.clone(), contact.clone()));
        }
        if order == ContactOrder::Block {
            self.blocked.insert((own.clone(), contact.clone()));
            self.blocked.insert((contact.clone(), own));
        }
        let ask = PeopleAsk::Wish(Box::new(ContactWish { contact: contact.into(), order }));
        self.asks(at, ask);
    }

    /// Gives a device's order about a contact; returns the answer, when everything is at rest.
    pub fn orders(&mut self, at: usize, whom: u32, order: ContactOrder) -> Result<(), ChatFault> {
        self.wants(at, whom, order);
        self.rest();
        self.devices[at].failed.take().map_or(Ok(()), Err)
    }

    /// Requests contacts that a device lacks; where its list is incomplete, the next page.
    pub fn lists(&mut self, at: usize) {
        if self.devices[at].is_paging() {
            return self.pages(at);
        }
        let after = self.devices[at].version;
        if !self.devices[at].is_listing() {
            self.asks(at, PeopleAsk::Contacts { after });
        }
    }

    /// Requests a page of contacts that a device lacks.
    pub fn pages(&mut self, at: usize) {
        let count = 1 + self.rng.below(2) as u16;
        if !self.devices[at].is_listing() {
            let ask = self.devices[at].next_page(count);
            self.asks(at, ask);
        }
    }

    /// Requests pages until a device has all of them.
    pub fn pages_all(&mut self, at: usize) {
        self.pages(at);
        self.rest();
        while self.devices[at].is_paging() {
            self.pages(at);
            self.rest();
        }
    }

    /// Makes a device's request about nodes; returns its number.
    pub fn asks_nodes(&mut self, at: usize, of: Option<u32>, ask: NodesAsk) -> Option<u32> {
        let (number, request) = self.devices[at].asks_nodes(of.map(person), ask)?;
        self.ask(at, request);
        Some(number)
    }

    /// Makes a device's request about nodes; returns the answer, when everything is at rest.
    pub fn nodes(
        &mut self,
        at: usize,
        of: Option<u32>,
        ask: NodesAsk,
    ) -> Result<NodesFound, NodesFault> {
        let number = self.asks_nodes(at, of, ask).expect("it is here");
        self.rest();
        self.devices[at].answers.remove(&number).expect("it is answered")
    }

    /// Makes a device's request about its profile.
    pub fn says_profile(&mut self, at: usize, said: ProfileSaid) {
        if let Some(request) = self.devices[at].says_profile(said) {
            self.ask(at, request);
        }
    }

    /// Removes a person's account from the book; the name goes to the next owner, or to none.
    pub fn removes(&mut self, who: u32, uid: u64, next: NameOwner) {
        let address = person(who);
        let home = base::hash::home(address.home_hash(HOME), self.shards.len() as u16);
        let row = chat::row_of_parting(HOME, (&address, uid), None);
        self.shards[usize::from(home)].log.answer(&Call::Write(row)).expect("stored");
        self.names.give(address.name(), next);
    }

    /// Number of rows of a table in all logs.
    pub fn rows(&mut self, table: Table) -> usize {
        let rows = |shard: &mut Shard| {
            let prefix = Box::default();
            let read = Read::Rows { table, prefix, after: None, count: ROWS_MAX };
            match shard.log.answer(&Call::Read(read)).expect("it reads") {
                Done::Rows(rows) => rows.len(),
                other => panic!("{other:?}"),
            }
        };
        self.shards.iter_mut().map(rows).sum()
    }

    /// Sends a device's presence.
    pub fn presents(&mut self, at: usize, priority: Option<i8>) {
        if !self.devices[at].is_here() {
            return;
        }
        let availability = priority.map(|priority| Availability { priority, ..Default::default() });
        self.devices[at].says = availability.clone();
        self.asks(at, PeopleAsk::Present(availability.map(Box::new)));
    }

    pub fn asks(&mut self, at: usize, ask: PeopleAsk) {
        if let Some(request) = self.devices[at].asks(ask) {
            self.ask(at, request);
        }
    }

    /// Sends a device's message to a person; returns the answer, when everything is at rest.
    pub fn says(&mut self, at: usize, to: u32) -> Result<(), ChatFault> {
        if let Some(request) = self.devices[at].sends(person(to)) {
            self.ask(at, request);
        }
        self.rest();
        self.devices[at].failed.take().map_or(Ok(()), Err)
    }

    pub fn connect(&mut self, at: usize) {
        let device = &mut self.devices[at];
        let proves = self.names.owner(device.account.name()) != NameOwner::Unknown;
        let shard = base::hash::home(device.account.home_hash(HOME), self.shards.len() as u16);
        self.conns += 1;
        let key = Key { slot: self.conns, generation: 0 };
        let conn = ConnRef::new(ShardId(shard), key);
        self.by_conn.insert(conn, at);
        let login = device.comes(conn, proves);
        self.ask(at, login);
    }

    pub fn disconnect(&mut self, at: usize) {
        let Some(conn) = self.devices[at].conn else { return };
        let request = self.devices[at].goes();
        let shard = usize::from(conn.shard().0);
        self.shards[shard].request(self.now, conn, request);
        self.collect(shard);
    }

    /// Breaks a device's connection; the session is kept.
    pub fn breaks(&mut self, at: usize) {
        let secret = u128::from(self.rng.draw());
        let Some(conn) = self.devices[at].conn else { return };
        if self.devices[at].is_away || self.devices[at].kept.is_none() {
            let Some(request) = self.devices[at].keeps(secret) else { return };
            self.ask(at, request);
        }
        let shard = usize::from(conn.shard().0);
        if let Some(request) = self.devices[at].is_parted() {
            self.shards[shard].request(self.now, conn, request);
            self.collect(shard);
        }
    }

    /// Reconnects a device while the server believes its old connection alive.
    pub fn comes_again(&mut self, at: usize) {
        let secret = u128::from(self.rng.draw());
        let (conn, request) = (self.devices[at].conn, self.devices[at].keeps(secret));
        self.ask(at, request.expect("it is here"));
        let left = self.devices[at].is_parted().expect("it is kept");
        self.forgotten.insert(conn.expect("it is here"), left);
        self.connect(at);
    }

    /// Kills the process, and starts it again from its logs.
    pub fn kill(&mut self) {
        self.kills += 1;
        self.post.clear();
        self.forgotten.clear();
        self.devices.iter_mut().for_each(Device::is_cut);
        for shard in &mut self.shards {
            shard.restart(self.now, &mut self.rng);
        }
        for shard in 0..self.shards.len() {
            self.collect(shard);
        }
    }

    /// Stops all loss and refusal, connects all devices, and lets everything come to rest.
    pub fn heal(&mut self) {
        self.calm = true;
        for round in 0..60 {
            self.round();
            self.pass_ms(if round % 4 == 0 { 6_000 } else { 10 });
            for at in 0..self.devices.len() {
                if self.devices[at].conn.is_none() {
                    self.connect(at);
                } else if self.devices[at].is_here()
                    && (!self.devices[at].follows || self.devices[at].is_paging())
                {
                    self.lists(at);
                } else if self.devices[at].is_here() && self.devices[at].says.is_none() {
                    self.presents(at, Some(9));
                }
            }
        }
        self.shards.iter().for_each(Shard::audit);
    }

    /// Lets everything come to rest; nothing is lost.
    pub fn rest(&mut self) {
        self.calm = true;
        for _ in 0..12 {
            self.round();
            self.pass_ms(100);
        }
    }

    fn round(&mut self) {
        for shard in 0..self.shards.len() {
            while self.shards[shard].is_busy() {
                self.shards[shard].log_works(&mut self.rng);
                self.shards[shard].completes(self.now);
                self.collect(shard);
            }
            self.turn(shard);
        }
        while self.post.values().any(|bags| !bags.is_empty()) {
            self.a_bag_arrives();
        }
    }

    /// Runs one turn of a device's shard; returns how many words it had for others.
    pub fn one_turn(&mut self, at: usize) -> usize {
        let Some(conn) = self.devices[at].conn else { return 0 };
        self.turn(usize::from(conn.shard().0));
        let words = self.words;
        while self.post.values().any(|bags| !bags.is_empty()) {
            self.a_bag_arrives();
        }
        words
    }

    /// An account's state of a contact, as its devices have it.
    pub fn contact(&self, of: u32, whom: u32) -> Contact {
        let device = &self.devices[(of * DEVICES) as usize];
        let nobody = || Arc::new(Contact::nobody(person(whom)));
        let contact = device.contacts.get(&person(whom)).cloned().unwrap_or_else(nobody);
        Contact { version: 0, ..(*contact).clone() }
    }

    /// Checks the final state of everyone.
    pub fn check(&mut self) {
        for shard in &self.shards {
            assert_eq!(model::service::Service::unsettled(&shard.chat), 0, "nothing is left");
        }
        for one in 0..self.people {
            let first = (one * DEVICES) as usize;
            let both = &self.devices[first..first + DEVICES as usize];
            assert_eq!(both[0].contacts, both[1].contacts, "devices of one account");
            for other in (0..self.people).filter(|other| *other != one) {
                self.check_pair(one, other);
            }
            both.iter().for_each(|device| self.check_presence(one, device));
        }
        self.check_lists();
    }

    /// Checks that each half of a subscription is that of the other's home.
    fn check_pair(&self, one: u32, other: u32) {
        let (seen, by) = (self.contact(one, other), self.contact(other, one));
        let (to, from) = (seen.subscription.to, by.subscription.from);
        // A blocked account keeps its request, of which the other knows nothing.
        let is_unheard = (to, from) == (Half::Pending, Half::None);
        let was_blocked = self.blocked.contains(&(person(one), person(other)));
        assert!(
            to == from || is_unheard && was_blocked,
            "{one} has {:?}, {other} has {:?}",
            seen.subscription,
            by.subscription
        );
    }

    /// Checks that a device has the presences of accounts that its own sees, and no others.
    fn check_presence(&self, one: u32, device: &Device) {
        let mut all = BTreeMap::new();
        for other in &self.devices {
            let n = other.person;
            let is_open = !self.contact(one, n).is_blocked && !self.contact(n, one).is_blocked;
            let sees = self.contact(one, n).subscription.to == Half::Subscribed && is_open;
            if n == one || sees {
                let says = other.says.clone().expect("all are here in the end");
                all.insert((person(n), other.name.clone()), says);
            }
        }
        assert_eq!(device.seen, all, "what {} {} knows", device.account, device.name);
    }

    /// Checks that a full list has what the others received bit by bit.
    fn check_lists(&mut self) {
        for at in 0..self.devices.len() {
            let before = self.devices[at].contacts.clone();
            for in_pages in [false, true] {
                self.devices[at].forgets();
                match in_pages {
                    true => self.pages_all(at),
                    false => self.lists(at),
                }
                self.rest();
                assert_eq!(self.devices[at].contacts, before, "in pages: {in_pages}");
            }
        }
    }
}
