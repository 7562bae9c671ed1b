//! A process of several shards over logs in memory, and people who communicate.

#[path = "../house/plain.rs"]
mod plain;
#[path = "../house/shard.rs"]
mod shard;

use base::hash::{HashKey, home};
use base::slab::Key;
use base::time::{Instant, Now};
use chat::words::WordShelf;
use chat::{ChatWord, ReviewSettings};
use model::account::AccountAddress;
use model::chat::*;
use model::counters::ChatCounter;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::{ChatLimits, Limits};
use model::ports::access::ANONYMOUS;
use model::ports::chat::{ChatAnswer, ChatCommand, Errand, ErrandWhat};
use model::ports::events::{ChatEvent, ChatWhat};
use model::ports::log::{Call, Done, StoreError, Table, Ticket, Write};
use model::ports::requests::{PortReply, PortRequest};
use model::ports::reviews::{Review, ReviewVerdict};
use model::pressure::Pressure;
use model::service::Service;
use model::timeline::TimelineId;
use plain::HOME;
use shard::Shard;
use std::sync::Arc;
use std::time::Duration;
use testkit::crossing::crossed;

/// Calls of a shard to its log.
pub type Calls = Vec<(Ticket, Call)>;

/// A message for the hook: shard, number and contents.
pub type Asked = (u16, u64, Box<Review>);

pub struct House {
    settings: chat::Settings,
    shards: Vec<Shard>,
    pub now: Now,
    conns: u32,
    asks: u64,
    answers: Vec<(u64, ChatAnswer)>,
    /// Deliveries to devices, in order.
    pub told: Vec<(ConnRef, ChatDelivery)>,
    /// Messages for the hook, in order.
    pub asked: Vec<Asked>,
    pub events: Vec<ChatEvent>,
    /// Table of which the logs refuse to delete rows.
    pub refuses: Option<Table>,
}

#[derive(Clone, Copy)]
pub struct Device {
    pub conn: ConnRef,
    pub session: SessionRef,
}

pub fn person(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

pub fn message(to: &str, id: u8, text: &str) -> Box<NewMessage> {
    let to = model::account::Addressee::parse(to).expect("right");
    let (client_id, content) = (ClientMessageId([id; 16]), Content::text(text));
    Box::new(NewMessage { to, client_id, content })
}

impl House {
    /// Reloads changed limits.
    pub fn configure(&mut self, change: impl FnOnce(&mut ChatLimits)) {
        let mut limits = Limits::clone(&self.settings.limits);
        change(&mut limits.chat);
        self.settings.limits = Arc::new(limits);
        for shard in &mut self.shards {
            shard.chat.configure(&self.settings.limits);
        }
    }

    pub fn new(shards: u16) -> House {
        House::with(shards, None, |_| {})
    }

    pub fn with(
        shards: u16,
        reviews: Option<ReviewSettings>,
        change: impl FnOnce(&mut ChatLimits),
    ) -> House {
        let mut limits = Limits::default();
        change(&mut limits.chat);
        let plain = plain::settings(ShardId(0), shards);
        let settings = chat::Settings { limits: Arc::new(limits), reviews, ..plain };
        let shards = (0..shards).map(|n| Shard::new(&settings, n)).collect();
        House {
            settings,
            shards,
            now: Now::new(Instant::default(), 1_700_000_000_000),
            conns: 0,
            asks: 0,
            answers: Vec::new(),
            told: Vec::new(),
            asked: Vec::new(),
            events: Vec::new(),
            refuses: None,
        }
    }

    /// The hash key that assigns accounts and conversations to shards.
    pub fn home(&self) -> HashKey {
        HOME
    }

    /// Makes a call to the log of a timeline, past the service.
    pub fn asks_log(&mut self, of: TimelineId, call: &Call) -> Result<Done, StoreError> {
        let n = home(of.home_hash(), self.shards.len() as u16);
        self.shards[usize::from(n)].log.answer(call)
    }

    pub fn words(&self) -> &WordShelf {
        &self.settings.words
    }

    fn home_of(&self, account: &AccountAddress) -> u16 {
        home(account.home_hash(HOME), self.shards.len() as u16)
    }

    /// Lets everything come to rest, except messages that wait for the hook.
    pub fn rest(&mut self) {
        let mut is_more = true;
        while is_more {
            is_more = false;
            for n in 0..self.shards.len() {
                let shard = &mut self.shards[n];
                Service::turn(&mut shard.chat, self.now, &mut shard.fx);
                let calls = std::mem::take(&mut shard.fx.calls);
                is_more |= !calls.is_empty();
                for (ticket, call) in calls {
                    let refuses = |table| self.refuses == Some(table);
                    let result = match &call {
                        Call::Write(Write::Delete { table, .. }) if refuses(*table) => {
                            Err(StoreError::Busy)
                        }
                        call => shard.log.answer(call),
                    };
                    let done = (ticket, result);
                    Service::complete(&mut shard.chat, self.now, done, &mut shard.fx);
                }
                let said = std::mem::take(&mut shard.fx.peer_messages);
                is_more |= !said.is_empty();
                self.collect(n);
                said.into_iter().for_each(|(to, word)| self.hears(n, to, word));
            }
        }
        self.shards.iter().for_each(|shard| Service::audit(&shard.chat));
    }

    fn hears(&mut self, from: usize, to: ShardId, word: ChatWord) {
        let shard = &mut self.shards[usize::from(to.0)];
        let from = ShardId(from as u16);
        Service::peer_message(&mut shard.chat, self.now, from, crossed(word), &mut shard.fx);
    }

    fn collect(&mut self, n: usize) {
        let fx = &mut self.shards[n].fx;
        self.told.append(&mut fx.deliveries);
        self.answers.append(&mut fx.answers);
        self.events.append(&mut fx.events);
        let requests = fx.port_requests.drain(..);
        self.asked.extend(requests.map(|(number, request)| match request {
            PortRequest::Review(review) => (n as u16, number, review),
            other => panic!("{other:?}"),
        }));
    }

    /// Gives the hook's verdict on a message.
    pub fn verdict(&mut self, (shard, number): (u16, u64), verdict: ReviewVerdict) {
        let shard = &mut self.shards[usize::from(shard)];
        let reply = PortReply::Review(verdict);
        Service::port_reply(&mut shard.chat, self.now, number, reply, &mut shard.fx);
        self.rest();
    }

    pub fn pass_ms(&mut self, ms: u64) {
        self.now = Now::new(self.now.after(Duration::from_millis(ms)), self.now.wall_ms + ms);
        let now_s = self.now.unix_s();
        self.shards.iter_mut().for_each(|shard| shard.log.advance(now_s));
        self.rest();
    }

    pub fn ask(&mut self, device: Device, request: ChatRequest) {
        let shard = &mut self.shards[usize::from(device.conn.shard().0)];
        Service::request(&mut shard.chat, self.now, device.conn, request, &mut shard.fx);
        self.rest();
    }

    /// Makes a device's request while the log is slow; returns the calls to it, and their shard.
    pub fn asks_slow_log(&mut self, device: Device, request: ChatRequest) -> (usize, Calls) {
        let n = usize::from(device.conn.shard().0);
        let shard = &mut self.shards[n];
        Service::request(&mut shard.chat, self.now, device.conn, request, &mut shard.fx);
        (n, std::mem::take(&mut shard.fx.calls))
    }

    /// Gives a command while the log is slow; returns the calls to it, and their shard.
    pub fn begins_slow_log(&mut self, command: ChatCommand) -> (usize, Calls) {
        let n = usize::from(self.home_of(&command.account().expect("of an account")));
        self.begins(command);
        (n, std::mem::take(&mut self.shards[n].fx.calls))
    }

    /// Lets the log answer these calls.
    pub fn log_answers(&mut self, (n, calls): (usize, Calls)) {
        self.shards[n].fx.calls.extend(calls);
        self.rest();
    }

    /// Lets the log carry these calls out, and kills the process before it gets the answers.
    pub fn log_keeps(&mut self, (n, calls): (usize, Calls)) {
        calls.iter().for_each(|(_, call)| drop(self.shards[n].log.answer(call)));
        self.restart();
    }

    /// Logs a device of an account in, or returns the reason for the refusal.
    pub fn try_login(&mut self, name: &str) -> Result<Device, model::session::Denial> {
        match self.logs_in(name, "desk") {
            (conn, ChatDelivery::LoggedIn(told)) => Ok(Device { conn, session: told.session }),
            (_, ChatDelivery::Refused(refused)) => Err(refused.why),
            other => panic!("{other:?}"),
        }
    }

    /// Logs a device of an account in; one without a name gets it afterwards. Returns the first
    /// delivery.
    pub fn logs_in(&mut self, name: &str, device: &str) -> (ConnRef, ChatDelivery) {
        self.logs_in_from(name, device, 1)
    }

    /// Logs a device in from the address 127.0.0.`source`.
    pub fn logs_in_from(
        &mut self,
        name: &str,
        device: &str,
        source: u8,
    ) -> (ConnRef, ChatDelivery) {
        self.conns += 1;
        let key = Key { slot: self.conns, generation: 0 };
        let conn = ConnRef::new(ShardId(self.home_of(&person(name))), key);
        let peer = ([127, 0, 0, source], 1).into();
        let login = Login { peer, ..plain::login(person(name), device) };
        let session = SessionRef::from_bits(0);
        self.ask(Device { conn, session }, ChatRequest::Login(Box::new(login)));
        self.told.pop().expect("an answer")
    }

    /// Logs a guest in.
    pub fn login_guest(&mut self, name: &str) -> Device {
        self.conns += 1;
        let key = Key { slot: self.conns, generation: 0 };
        let conn = ConnRef::new(ShardId(self.home_of(&person(name))), key);
        let method = Some((ANONYMOUS.into(), Box::default()));
        let login = Login { method, ..plain::login(person(name), "desk") };
        let session = SessionRef::from_bits(0);
        self.ask(Device { conn, session }, ChatRequest::Login(Box::new(login)));
        match self.told.pop() {
            Some((conn, ChatDelivery::LoggedIn(told))) => Device { conn, session: told.session },
            other => panic!("{other:?}"),
        }
    }

    pub fn login(&mut self, name: &str) -> Device {
        self.try_login(name).expect("it is let in")
    }

    /// Sends a device's message; the answer may come later.
    pub fn says(&mut self, by: Device, number: u32, message: Box<NewMessage>) {
        self.ask(by, ChatRequest::Send { session: by.session, number, message });
    }

    /// The answers to a device's messages, in order, each with its fault.
    pub fn answered(&mut self, by: Device) -> Vec<(u32, Option<ChatFault>)> {
        let told = std::mem::take(&mut self.told);
        let (mine, others): (Vec<_>, Vec<_>) = told.into_iter().partition(|(conn, told)| {
            let is_answer = matches!(
                told,
                ChatDelivery::Sent { .. } | ChatDelivery::Failed { .. } | ChatDelivery::Rejected(_)
            );
            *conn == by.conn && is_answer
        });
        self.told = others;
        let of = |(_, told)| match told {
            ChatDelivery::Failed { number, why } => (number, Some(why)),
            ChatDelivery::Rejected(it) => (it.number, Some(it.why)),
            ChatDelivery::Sent { number, .. } => (number, None),
            other => panic!("{other:?}"),
        };
        mine.into_iter().map(of).collect()
    }

    /// The rejection that a device got for a message.
    pub fn rejection(&mut self, by: Device) -> SendRejected {
        let at = self
            .told
            .iter()
            .position(|(conn, told)| *conn == by.conn && matches!(told, ChatDelivery::Rejected(_)));
        match self.told.remove(at.expect("it was told")).1 {
            ChatDelivery::Rejected(rejected) => *rejected,
            other => panic!("{other:?}"),
        }
    }

    /// Texts of the messages that a device got, in order.
    pub fn texts(&mut self, to: Device) -> Vec<String> {
        let of = |(conn, told): &(ConnRef, ChatDelivery)| match told {
            ChatDelivery::Message { message, .. } if *conn == to.conn => {
                Some(message.content.text.to_string())
            }
            _ => None,
        };
        let texts = self.told.iter().filter_map(of).collect();
        self.told.retain(|told| of(told).is_none());
        texts
    }

    pub fn command(&mut self, command: ChatCommand) -> ChatAnswer {
        let ask = self.begins(command);
        self.rest();
        let at = self.answers.iter().position(|(number, _)| *number == ask);
        self.answers.remove(at.expect("it was answered")).1
    }

    /// Gives a command whose calls to the log wait; returns its number.
    pub fn begins(&mut self, command: ChatCommand) -> u64 {
        self.asks += 1;
        let home = usize::from(self.home_of(&command.account().expect("of an account")));
        let shard = &mut self.shards[home];
        Service::command(&mut shard.chat, self.now, self.asks, command, &mut shard.fx);
        self.asks
    }

    /// Runs an errand; returns the reply that a device would get.
    pub fn errand(&mut self, by: &str, is_operators: bool, what: ErrandWhat) -> ChatDelivery {
        let errand = Errand { by: person(by), is_operators, what };
        match self.command(ChatCommand::Errand(Box::new(errand))) {
            ChatAnswer::Told(Some(told)) => *told,
            other => panic!("{other:?}"),
        }
    }

    /// Count of all shards.
    pub fn counted(&self, counter: ChatCounter) -> u64 {
        self.shards.iter().map(|shard| shard.fx.counters.of(counter)).sum()
    }

    /// Puts all shards under this pressure.
    pub fn press(&mut self, pressure: Pressure) {
        self.shards.iter_mut().for_each(|shard| Service::press(&mut shard.chat, pressure));
    }

    /// Makes events wanted from now on.
    pub fn listen(&mut self) {
        self.shards.iter_mut().for_each(|shard| shard.fx.events_wanted = true);
    }

    /// Names of the events since the last call.
    pub fn happened(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.events).iter().map(|event| ChatWhat::name(&event.what)).collect()
    }

    /// Kills the process, and starts it again from its logs, without sessions.
    pub fn restart(&mut self) {
        for (n, shard) in (0..).zip(&mut self.shards) {
            shard.restart(self.now, &self.settings, n);
        }
        (self.told, self.asked) = (Vec::new(), Vec::new());
        self.rest();
    }
}
