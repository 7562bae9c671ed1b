//! People of other servers: messages to them leave the queue, messages from them come in, and they
//! are in groups, also as guests.
//!
//! ```text
//! queue ─► way of its domain, in order ─┬─► there      ─┬─► the queue hears that it has left
//!                 ▲ a kill empties it   └─► refused, told ┘
//! ```
//! While a domain is unreachable some messages for it are refused, and the rest wait. A sender
//! there repeats its message until it is answered.

use super::device::content_of;
use super::{PEOPLE, Said, World, person};
use model::account::AccountAddress;
use model::chat::foreign::{ArrivalWhat, ForeignArrival, ForeignWord, QueuedMessage, RoomWord};
use model::chat::*;
use model::ports::chat::{ChatAnswer, ChatCommand, ErrandWhat};
use model::ports::control::Status;
use model::ports::log::Restored;
use model::service::Service;
use model::timeline::{Seq, Space};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Accounts on other servers.
const ABROAD: [&str; 3] = ["bob@b.example", "carol@b.example", "dan@c.example"];

/// Numbers of their requests are above this one.
const ASKS: u64 = 1 << 32;

/// A message, by its sender, its receiver, and its offset between these: a start that takes no time
/// may use numbers again.
type Out = (AccountAddress, AccountAddress, Seq);

fn out_of(message: &ChatMessage) -> Out {
    (message.from.clone(), message.to.clone(), message.seq)
}

/// The exchange between the process and other servers.
#[derive(Default)]
pub struct Abroad {
    /// Such people exist in this world.
    pub is_on: bool,
    /// Domains that are unreachable.
    away: BTreeSet<Box<str>>,
    /// Messages that wait for a domain.
    ways: BTreeMap<Box<str>, VecDeque<QueuedMessage>>,
    /// Messages that were handed out since the process started.
    since: BTreeSet<Out>,
    /// Messages that their servers have, in the order of their first arrival.
    there: Vec<Arc<ChatMessage>>,
    /// Messages that were refused, with a notice to the sender.
    refused: BTreeSet<Out>,
    /// Messages of groups for them, and the last offset of each group since the process started.
    rooms: Vec<RoomWord>,
    rooms_last: BTreeMap<AccountAddress, Seq>,
    /// Their messages and orders that are not answered.
    asked: BTreeMap<u64, Said>,
    asks: u64,
}

impl Abroad {
    /// Drops all that was in the memory of the process that is killed.
    pub fn dies(&mut self) {
        self.ways.clear();
        self.since.clear();
        self.rooms_last.clear();
        self.asked.clear();
    }
}

fn abroad(n: u64) -> AccountAddress {
    AccountAddress::parse(ABROAD[n as usize % ABROAD.len()], "").expect("right")
}

pub(super) fn is_abroad(address: &AccountAddress) -> bool {
    !address.is_group() && address.domain() != "a.example"
}

impl World {
    /// A world with people of other servers.
    pub fn with_abroad(seed: u64, shards: u16, border: u32) -> World {
        let mut world = World::with_border(seed, shards, border);
        world.abroad.is_on = true;
        world
    }

    /// A random account of another server.
    pub(super) fn a_foreigner(&mut self) -> AccountAddress {
        abroad(self.rng.below(ABROAD.len() as u64))
    }

    /// Lets a random exchange with other servers happen.
    pub(super) fn passes_abroad(&mut self) {
        match self.rng.below(20) {
            0 => {
                let domain: Box<str> = self.a_foreigner().domain().into();
                if !self.abroad.away.remove(&domain) {
                    self.abroad.away.insert(domain);
                }
            }
            1..=10 => {
                let domain: Box<str> = self.a_foreigner().domain().into();
                self.goes_on_to(&domain);
            }
            11..=13 => self.they_say(),
            14..=15 => self.they_order(),
            _ => self.they_say_again(),
        }
    }

    /// Hands out a shard's words, unless the federation service has no room.
    pub(super) fn goes_abroad(&mut self, shard: usize, is_full: bool) {
        let words = std::mem::take(&mut self.shards[shard].fx.foreign);
        if is_full && !words.is_empty() {
            let it = &mut self.shards[shard];
            return Service::not_out(&mut it.chat, self.now, words, &mut it.fx);
        }
        for word in words {
            match word {
                ForeignWord::Message(queued) => self.waits(queued),
                ForeignWord::Room(word) => self.is_of_room(*word),
                // These people want no presence.
                _ => {}
            }
        }
    }

    fn waits(&mut self, queued: QueuedMessage) {
        let is_new = self.abroad.since.insert(out_of(&queued.message));
        assert!(is_new, "once, unless somebody dies: {queued:?}");
        let domain = queued.message.to.domain().into();
        self.abroad.ways.entry(domain).or_default().push_back(queued);
    }

    fn is_of_room(&mut self, word: RoomWord) {
        let RoomWord { message, to, .. } = &word;
        assert!(to.iter().all(is_abroad), "{word:?}");
        let last = self.abroad.rooms_last.insert(message.to.clone(), message.seq);
        assert!(last.is_none_or(|last| last < message.seq), "once and in order: {word:?}");
        self.abroad.rooms.push(word);
    }

    /// Delivers the first message that waits for a domain; an unreachable domain's message is
    /// refused or waits on.
    fn goes_on_to(&mut self, domain: &str) {
        let is_away = !self.calm && self.abroad.away.contains(domain);
        if is_away && !self.rng.one_in(3) {
            return;
        }
        let way = self.abroad.ways.get_mut(domain);
        let Some(QueuedMessage { message, place, .. }) = way.and_then(VecDeque::pop_front) else {
            return;
        };
        let out = out_of(&message);
        match is_away {
            true => _ = self.abroad.refused.insert(out),
            false if self.abroad.there.iter().any(|it| out_of(it) == out) => {} // once more
            false => self.abroad.there.push(message),
        }
        let home = base::hash::home(place.queue.home_hash(), self.shards.len() as u16);
        let left = ChatCommand::LeftQueue { queue: place.queue, seqs: [place.seq].into() };
        let it = &mut self.shards[usize::from(home)];
        Service::command(&mut it.chat, self.now, ASKS, left, &mut it.fx);
        self.collect(home.into());
    }

    /// Sends a message of an account on another server to a local account, or to a group.
    fn they_say(&mut self) {
        let group = if self.rng.one_in(3) { self.a_group() } else { None };
        let to = group.unwrap_or_else(|| person(self.rng.below(PEOPLE.into()) as u32));
        let number = self.tried.len();
        let said = (self.a_foreigner(), ClientMessageId((number as u128).to_be_bytes()));
        self.tried.insert(said.clone(), (to, format!("message {number}")));
        self.they_say_this(said);
    }

    /// Lets an account on another server enter the room of a group, or leave the room or the group.
    fn they_order(&mut self) {
        let Some(group) = self.a_group() else { return };
        if self.rng.one_in(2) {
            let home = self.a_foreigner();
            let (nick, show) = (home.as_str().into(), OccupantShow::default());
            let enters = !self.rng.one_in(4);
            let ask = if enters {
                OccupancyAsk::Enter(Box::new(Entry { nick, show, ..Entry::default() }))
            } else {
                OccupancyAsk::Leave
            };
            let what = ErrandWhat::Room(group.into(), ask).into();
            let what = ArrivalWhat::Ask { device: "phone".into(), what };
            return self.arrives(ForeignArrival { home, what }, None);
        }
        let number = self.tried.len() + self.orders.len();
        let client_id = ClientMessageId((1 << 64 | number as u128).to_be_bytes());
        let verb = if self.rng.one_in(4) { GroupVerb::Leave } else { GroupVerb::Join };
        let said = (self.a_foreigner(), client_id);
        let (group, title, members) = (Some(group.into()), Box::default(), Vec::new());
        self.orders.insert(said.clone(), GroupOrder { group, client_id, verb, title, members });
        self.they_say_this(said);
    }

    /// Repeats a message or order that was not answered.
    fn they_say_again(&mut self) {
        let all = self.tried.keys().chain(self.orders.keys());
        let is_asked = |said: &Said| self.abroad.asked.values().any(|it| it == said);
        let all = all.filter(|it| is_abroad(&it.0) && !self.sent.contains_key(it) && !is_asked(it));
        let all: Vec<Said> = all.cloned().collect();
        if !all.is_empty() {
            let said = all[self.rng.below(all.len() as u64) as usize].clone();
            self.they_say_this(said);
        }
    }

    fn they_say_this(&mut self, said: Said) {
        let (home, client_id) = said.clone();
        let device = "phone".into();
        let what = match (self.tried.get(&said), self.orders.get(&said)) {
            (Some((to, text)), _) => {
                let (is_room, to) = (to.is_group(), to.clone().into());
                let message = Box::new(NewMessage { to, client_id, content: content_of(text) });
                match is_room {
                    true => ArrivalWhat::Ask { device, what: ErrandWhat::Send(message).into() },
                    false => ArrivalWhat::Send { device, message },
                }
            }
            (_, Some(order)) => {
                let what = ErrandWhat::Group(Box::new(order.clone()));
                ArrivalWhat::Ask { device, what: what.into() }
            }
            _ => return,
        };
        self.arrives(ForeignArrival { home, what }, Some(said));
    }

    fn arrives(&mut self, arrival: ForeignArrival, said: Option<Said>) {
        let command = ChatCommand::Foreign(Box::new(arrival));
        let concerned = command.account().expect("about somebody");
        let shards = self.shards.len() as u16;
        let shard = usize::from(base::hash::home(concerned.home_hash(super::HOME), shards));
        self.abroad.asks += 1;
        let ask = ASKS + self.abroad.asks;
        said.map(|said| self.abroad.asked.insert(ask, said));
        let it = &mut self.shards[shard];
        Service::command(&mut it.chat, self.now, ask, command, &mut it.fx);
        self.collect(shard);
    }

    /// Handles the answer to one of their requests; false: the number is not of theirs.
    pub(super) fn they_hear(&mut self, ask: u64, answer: &ChatAnswer) -> bool {
        if ask < ASKS {
            return false;
        }
        let Some(said) = self.abroad.asked.remove(&ask) else { return true };
        let ChatAnswer::Told(Some(told)) = answer else { return true };
        let (id, seq, again) = match &**told {
            ChatDelivery::Sent { id, seq, again, .. } => (*id, *seq, *again),
            ChatDelivery::Changed(it) => (it.id, it.seq, it.again),
            _ => return true,
        };
        if let Some((first_id, first_seq, _)) = self.sent.get(&said) {
            assert!(again && (*first_id, *first_seq) == (id, seq), "the first answer");
        }
        let text = self.tried.get(&said).map(|(_, text)| text.clone()).unwrap_or_default();
        self.sent.insert(said, (id, seq, text));
        true
    }

    /// Delivers all waiting messages.
    pub(super) fn all_gets_there(&mut self) {
        for domain in ["b.example", "c.example"] {
            while self.abroad.ways.get(domain).is_some_and(|way| !way.is_empty()) {
                self.goes_on_to(domain);
            }
        }
    }

    /// Checks that each message for another server has left its queue: it was delivered, in order,
    /// or refused with a notice. Returns how many were delivered, refused, received from there, and
    /// sent in groups with such people.
    pub fn check_abroad(&self) -> [usize; 4] {
        for shard in &self.shards {
            let mut status = Status::default();
            Service::status(&shard.chat, &mut status);
            assert_eq!(status.chat_queued_out, 0, "all have left");
            shard.log.restoration().each(|restored| {
                let is_queued = matches!(restored, Restored::Entry { timeline, .. }
                    if timeline.space() == Space::SendQueue);
                assert!(!is_queued, "its log has none");
                true
            });
        }
        let Abroad { there, refused, rooms, .. } = &self.abroad;
        let is_out = |out: &Out| there.iter().any(|it| out_of(it) == *out) || refused.contains(out);
        for (said, (_, seq, _)) in &self.sent {
            let Some((to, _)) = self.tried.get(said).filter(|(to, _)| is_abroad(to)) else {
                continue;
            };
            let out = (said.0.clone(), to.clone(), *seq);
            assert!(is_out(&out), "{said:?} was answered, and is nowhere");
        }
        for n in 0..PEOPLE {
            let inbox = self.inbox_of(n);
            let mut out = inbox.values().filter(|it| is_abroad(&it.to));
            assert!(out.all(|it| is_out(&out_of(it))), "what stands in a conversation goes out");
        }
        let mut last = BTreeMap::<(&AccountAddress, &AccountAddress), Seq>::new();
        for message in there {
            let (to, text) = self
                .tried
                .get(&(message.from.clone(), message.client_id))
                .map_or((&message.to, &*message.content.text), |(to, text)| (to, &**text));
            // A message that was edited before a start handed it out goes out in its edited form.
            let is_edited = message.amended.as_ref().is_some_and(|it| it.edited_ms > 0);
            let is_text = message.content.kind == Content::TEXT && !is_edited;
            let is_said = !is_text || *message.content.text == *text;
            assert!(message.to == *to && is_said, "{message:?}");
            if !refused.contains(&out_of(message)) {
                let before = last.insert((&message.from, &message.to), message.seq);
                assert!(before.is_none_or(|before| before < message.seq), "in order: {message:?}");
            }
        }
        let from_there = self.sent.keys().filter(|said| is_abroad(&said.0)).count();
        [there.len(), refused.len(), from_there, rooms.len()]
    }
}
