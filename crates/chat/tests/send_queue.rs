//! Messages for other servers: each answered message goes out, in order, whatever is refused or
//! crashes, and stays in its queue until it is delivered.

#[path = "house/plain.rs"]
mod plain;
#[path = "house/shard.rs"]
mod shard;

use base::prng::Prng;
use base::slab::Key;
use base::time::{Instant, Now};
use chat::{ChatWord, Settings};
use model::account::AccountAddress;
use model::chat::foreign::{ForeignDomains, ForeignWord, QueuePlace, QueuedMessage};
use model::chat::*;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::{ChatLimits, Limits};
use model::ports::chat::ChatCommand;
use model::ports::control::Status;
use model::ports::log::{Append, Call, Restored, StoreError, Ticket, Write};
use model::service::Service;
use model::timeline::{Seq, Space};
use shard::Shard;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use testkit::crossing::crossed;

const SHARDS: u16 = 2;

/// Accounts on other servers.
const ABROAD: [&str; 3] = ["bob@b.example", "carol@c.example", "dan@b.example"];

/// Shards, and the federation service that delivers their messages to other servers.
struct Town {
    settings: Settings,
    shards: Vec<Shard>,
    now: Now,
    random: Prng,
    session: Option<(ConnRef, SessionRef)>,
    /// Number of messages that were sent; it makes their client ids.
    said: u8,
    /// Numbers of the messages that were answered as stored, by receiver, in order.
    sent: BTreeMap<AccountAddress, Vec<u64>>,
    /// Numbers of the messages that were handed out, by receiver, in the order of their first time.
    out: BTreeMap<AccountAddress, Vec<u64>>,
    /// All that were handed out since the last crash: receiver and number.
    since: BTreeSet<(AccountAddress, u64)>,
    /// Messages that were handed out and are not delivered.
    open: Vec<QueuePlace>,
    /// The federation service has room.
    has_room: bool,
    /// The last entry that each log has refused.
    refused: [Option<Ticket>; SHARDS as usize],
}

fn address(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

impl Town {
    fn new(seed: u64) -> Town {
        let chat = ChatLimits { sends_an_account_per_s: 0, ..ChatLimits::default() };
        let limits = Arc::new(Limits { chat, ..Limits::default() });
        let domains =
            ForeignDomains { own: "a.example".into(), federates: true, ..Default::default() };
        let foreign = Arc::new(domains);
        let settings = Settings { limits, foreign, ..plain::settings(ShardId(0), SHARDS) };
        Town {
            shards: (0..SHARDS).map(|n| Shard::new(&settings, n)).collect(),
            settings,
            now: Now::new(Instant::default(), 1_700_000_000_000),
            random: Prng::new(seed),
            session: None,
            said: 0,
            sent: BTreeMap::new(),
            out: BTreeMap::new(),
            since: BTreeSet::new(),
            open: Vec::new(),
            has_room: true,
            refused: [None; SHARDS as usize],
        }
    }

    /// Lets the shards continue until nothing is left to do, or for this many rounds.
    fn goes_on(&mut self, rounds: usize, refuses: bool) {
        for _ in 0..rounds {
            let mut post = Vec::<(u16, ShardId, ChatWord)>::new();
            let mut is_still = true;
            for n in 0..self.shards.len() {
                let shard = &mut self.shards[n];
                Service::turn(&mut shard.chat, self.now, &mut shard.fx);
                for (ticket, call) in std::mem::take(&mut shard.fx.calls) {
                    is_still = false;
                    let mut is_refused = refuses && self.random.one_in(20);
                    if let Call::Write(Write::Append(Append { heard: Some(heard), .. })) = call {
                        // Appends on their way behind a refused one are refused, too.
                        is_refused |= self.refused[n].is_some_and(|last| heard <= last);
                        self.refused[n] = if is_refused { Some(ticket) } else { self.refused[n] };
                    }
                    let answer = match is_refused {
                        true => Err(StoreError::Busy),
                        false => shard.log.answer(&call),
                    };
                    Service::complete(&mut shard.chat, self.now, (ticket, answer), &mut shard.fx);
                }
                let told = shard.fx.peer_messages.drain(..);
                post.extend(told.map(|(to, word)| (n as u16, to, word)));
                let words = std::mem::take(&mut shard.fx.foreign);
                let deliveries = std::mem::take(&mut shard.fx.deliveries);
                shard.fx.answers.clear();
                self.are_told(deliveries);
                is_still &= words.is_empty();
                self.go_out(n, words);
                Service::audit(&self.shards[n].chat);
            }
            is_still &= post.is_empty();
            for (from, to, word) in post {
                let shard = &mut self.shards[usize::from(to.0)];
                let from = ShardId(from);
                Service::peer_message(
                    &mut shard.chat,
                    self.now,
                    from,
                    crossed(word),
                    &mut shard.fx,
                );
            }
            if is_still {
                return;
            }
        }
    }

    fn are_told(&mut self, deliveries: Vec<(ConnRef, ChatDelivery)>) {
        for (conn, delivery) in deliveries {
            match delivery {
                ChatDelivery::LoggedIn(it) => self.session = Some((conn, it.session)),
                ChatDelivery::Sent { number, id, again: false, .. } => {
                    let to = address(ABROAD[number as usize % ABROAD.len()]);
                    self.sent.entry(to).or_default().push(id);
                }
                _ => {}
            }
        }
    }

    /// Hands a shard's words to the federation service, unless it has no room.
    fn go_out(&mut self, n: usize, words: Vec<ForeignWord>) {
        if words.is_empty() {
            return;
        }
        let shard = &mut self.shards[n];
        if !self.has_room {
            return Service::not_out(&mut shard.chat, self.now, words, &mut shard.fx);
        }
        for word in words {
            let ForeignWord::Message(QueuedMessage { message, place, .. }) = word else { continue };
            let is_new = self.since.insert((message.to.clone(), message.id));
            assert!(is_new, "once, unless somebody dies");
            let out = self.out.entry(message.to.clone()).or_default();
            if !out.contains(&message.id) {
                out.push(message.id);
            }
            self.open.push(place);
        }
    }

    fn says(&mut self) {
        let Some((conn, session)) = self.session else { return };
        self.said += 1;
        let number = u32::from(self.said);
        let to = address(ABROAD[number as usize % ABROAD.len()]).into();
        let (client_id, content) = (ClientMessageId([self.said; 16]), Content::text("hello"));
        let message = Box::new(NewMessage { to, client_id, content });
        let request = ChatRequest::Send { session, number, message };
        self.asks(conn, request);
    }

    fn asks(&mut self, conn: ConnRef, request: ChatRequest) {
        let shard = &mut self.shards[usize::from(conn.shard().0)];
        Service::request(&mut shard.chat, self.now, conn, request, &mut shard.fx);
    }

    fn logs_in(&mut self) {
        let account = address("ann");
        let home = ShardId(base::hash::home(account.home_hash(plain::HOME), SHARDS));
        let conn = ConnRef::new(home, Key { slot: 1, generation: u32::from(self.said) });
        self.asks(conn, ChatRequest::Login(Box::new(plain::login(account, "phone"))));
        self.goes_on(1_000, false);
        assert!(self.session.is_some());
    }

    /// Delivers some of the messages that were handed out.
    fn arrives(&mut self, most: usize) {
        let count = self.open.len().min(most);
        for QueuePlace { queue, seq } in self.open.drain(..count) {
            let home = usize::from(base::hash::home(queue.home_hash(), SHARDS));
            let shard = &mut self.shards[home];
            let left = ChatCommand::LeftQueue { queue, seqs: [seq].into() };
            Service::command(&mut shard.chat, self.now, 1, left, &mut shard.fx);
        }
    }

    fn passes(&mut self, ms: u64) {
        let later = self.now.after(Duration::from_millis(ms));
        self.now = Now::new(later, self.now.wall_ms + ms);
    }

    /// Kills all shards in the middle of their work, and starts them again.
    fn dies(&mut self) {
        self.passes(1_000); // a start takes time, since numbers of messages are made of the time
        for (n, shard) in self.shards.iter_mut().enumerate() {
            shard.restart(self.now, &self.settings, n as u16);
        }
        (self.session, self.has_room, self.refused) = (None, true, [None; SHARDS as usize]);
        self.open.clear();
        self.since.clear();
    }

    /// Numbers of the messages in the queues.
    fn queued(&self) -> Vec<u64> {
        let mut ids = Vec::new();
        for shard in &self.shards {
            shard.log.restoration().each(|restored| {
                if let Restored::Entry { timeline, id, .. } = restored
                    && timeline.space() == Space::SendQueue
                {
                    ids.push(id);
                }
                true
            });
        }
        ids.sort_unstable();
        ids
    }

    /// Number of queued messages, as in the operator's status.
    fn status(&self) -> u64 {
        let mut status = Status::default();
        self.shards.iter().for_each(|shard| Service::status(&shard.chat, &mut status));
        status.chat_queued_out
    }

    /// Lets everything come to rest, and all messages be delivered.
    fn rests(&mut self) {
        self.has_room = true;
        for _ in 0..20 {
            self.passes(6_000);
            self.goes_on(1_000, false);
            self.arrives(Seq::MAX as usize);
        }
        self.goes_on(1_000, false);
    }
}

fn history(seed: u64) {
    let mut town = Town::new(seed);
    town.logs_in();
    for _ in 0..120 {
        match town.random.below(12) {
            0..5 => town.says(),
            5 => {
                let most = town.random.below(4) as usize;
                town.arrives(most);
            }
            6 => town.has_room = town.random.one_in(2),
            7 => town.passes(1_200),
            8 if town.random.one_in(4) => {
                town.dies();
                town.logs_in();
            }
            _ => {
                let rounds = town.random.below(6) as usize;
                town.goes_on(rounds, true);
            }
        }
    }
    town.rests();
    assert_eq!(town.out, town.out_of_sent(), "seed {seed}");
    assert_eq!(town.queued(), [], "seed {seed}: all of it has left");
}

impl Town {
    /// The messages that should have gone out: all answered ones, and those stored without an
    /// answer that did go out.
    fn out_of_sent(&self) -> BTreeMap<AccountAddress, Vec<u64>> {
        let mut all = BTreeMap::new();
        for (to, out) in &self.out {
            let sent = self.sent.get(to).cloned().unwrap_or_default();
            assert!(sent.iter().all(|id| out.contains(id)), "what was answered went out: {to}");
            let mut sorted = out.clone();
            sorted.sort_unstable();
            all.insert(to.clone(), sorted);
        }
        assert!(self.sent.keys().all(|to| self.out.contains_key(to)));
        all
    }
}

#[test]
fn what_was_answered_goes_out_in_order_whatever_is_refused_and_whoever_dies() {
    (0..150).for_each(history);
}

#[test]
fn what_is_not_with_its_server_is_said_again_after_a_start_and_what_is_there_is_not() {
    let mut town = Town::new(1);
    town.logs_in();
    for _ in 0..9 {
        town.says();
    }
    town.goes_on(1_000, false);
    assert_eq!((town.open.len(), town.queued().len(), town.status()), (9, 9, 9));
    town.arrives(4);
    town.goes_on(1_000, false);
    assert_eq!((town.queued().len(), town.status()), (5, 5));
    let left = town.queued();
    town.dies();
    town.logs_in();
    let mut again: Vec<u64> = town.since.iter().map(|(_, id)| *id).collect();
    again.sort_unstable();
    assert_eq!((again, town.status()), (left, 5), "these, and no others");
    town.says();
    town.goes_on(1_000, false);
    assert_eq!(town.since.len(), 6, "and what is said now");
    town.rests();
    assert_eq!(town.queued(), []);
}

#[test]
fn what_finds_no_room_goes_later_and_nothing_overtakes_it() {
    let mut town = Town::new(2);
    town.logs_in();
    town.has_room = false;
    for _ in 0..200 {
        town.says();
        town.goes_on(1_000, false);
    }
    assert_eq!((town.open.len(), town.queued().len()), (0, 200));
    town.has_room = true;
    town.goes_on(1_000, false);
    assert_eq!(town.open.len(), 0, "it is not tried at once");
    town.says();
    town.rests();
    assert_eq!(town.out, town.out_of_sent());
    assert_eq!(town.out.values().map(Vec::len).sum::<usize>(), 201);
    assert_eq!(town.queued(), []);
}
