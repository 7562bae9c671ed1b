//! Cost of a message in this service, from its request to its deliveries, over a log that answers
//! at once and keeps nothing. Run one test alone, in release, with `-- --ignored --nocapture NAME`;
//! on a machine that is shared, under `perf stat -e task-clock`.

#[path = "house/plain.rs"]
mod plain;

use base::slab::Key;
use base::time::{Instant, Now};
use chat::{ChatService, Effects, Settings};
use model::account::{AccountAddress, Addressee};
use model::chat::*;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::{ChatLimits, Limits};
use model::ports::log::{Appended, Call, Done, Page, Read, TimelineStatus, Write};
use model::service::Service;
use model::timeline::TimelineId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Shards with a log that assigns offsets and stores nothing.
struct Shards {
    chats: Vec<ChatService>,
    fx: Vec<Effects>,
    heads: HashMap<TimelineId, u64>,
    now: Now,
    delivered: u64,
    sent: u64,
    group: Option<AccountAddress>,
}

fn settings(shard: u16, shards: u16) -> Settings {
    let chat = ChatLimits {
        sends_an_account_per_s: 0,
        sends_a_group_per_s: 0,
        bytes_an_account_per_s: 0,
        share_an_account_percent: 0,
        groups_made_a_minute: 0,
        ..ChatLimits::default()
    };
    let limits = Arc::new(Limits { chat, ..Limits::default() });
    Settings { limits, ..plain::settings(ShardId(shard), shards) }
}

impl Shards {
    fn new(count: u16) -> Shards {
        Shards {
            chats: (0..count).map(|shard| ChatService::new(settings(shard, count))).collect(),
            fx: (0..count).map(|_| Effects::default()).collect(),
            heads: HashMap::new(),
            now: Now::new(Instant::default(), 1_700_000_000_000),
            delivered: 0,
            sent: 0,
            group: None,
        }
    }

    fn answer(&mut self, call: &Call) -> Done {
        let append = match call {
            Call::Write(Write::Append(append)) => append,
            Call::Write(Write::AppendWith(with)) => &with.append,
            Call::Write(_) => return Done::Written,
            Call::Read(Read::Row { .. }) => return Done::Row(None),
            Call::Read(Read::Rows { .. }) => return Done::Rows(Vec::new()),
            Call::Read(Read::Pull(_)) => {
                let (messages, damaged, more) = (Vec::new(), Vec::new(), false);
                return Done::Page(Page { messages, damaged, more });
            }
            Call::Read(_) => return Done::Standing(TimelineStatus::default()),
        };
        let place = |to: &TimelineId| {
            let head = self.heads.entry(*to).or_default();
            *head += 1;
            *head
        };
        let seqs = append.to.iter().map(place).collect();
        Done::Appended(Appended { new: true, id: append.message.id, seqs })
    }

    /// Lets everything come to rest; returns the session of the device that has logged in.
    fn rest(&mut self) -> Option<SessionRef> {
        let mut session = None;
        loop {
            let mut is_idle = true;
            for at in 0..self.chats.len() {
                Service::turn(&mut self.chats[at], self.now, &mut self.fx[at]);
                for (_, delivery) in self.fx[at].deliveries.drain(..) {
                    match delivery {
                        ChatDelivery::LoggedIn(it) => session = Some(it.session),
                        ChatDelivery::Sent { .. } => self.sent += 1,
                        ChatDelivery::Changed(it) => self.group = Some(it.group),
                        ChatDelivery::Failed { why, .. } => panic!("{why:?}"),
                        _ => self.delivered += 1,
                    }
                }
                let calls = std::mem::take(&mut self.fx[at].calls);
                is_idle &= calls.is_empty() && self.fx[at].peer_messages.is_empty();
                for (ticket, call) in calls {
                    let done = self.answer(&call);
                    let completion = (ticket, Ok(done));
                    Service::complete(&mut self.chats[at], self.now, completion, &mut self.fx[at]);
                }
                for (to, word) in std::mem::take(&mut self.fx[at].peer_messages) {
                    let (to, from) = (usize::from(to.0), ShardId(at as u16));
                    Service::peer_message(
                        &mut self.chats[to],
                        self.now,
                        from,
                        word,
                        &mut self.fx[to],
                    );
                }
            }
            if is_idle {
                return session;
            }
        }
    }

    fn home(&self, account: &AccountAddress) -> usize {
        usize::from(base::hash::home(account.home_hash(plain::HOME), self.chats.len() as u16))
    }

    fn asks(&mut self, at: usize, conn: ConnRef, request: ChatRequest) {
        Service::request(&mut self.chats[at], self.now, conn, request, &mut self.fx[at]);
    }

    /// Logs a device of an account in; returns its shard, connection and session.
    fn device(&mut self, name: &str, slot: u32) -> (usize, ConnRef, SessionRef) {
        let account = AccountAddress::parse(name, "a.example").expect("right");
        let at = self.home(&account);
        let conn = ConnRef::new(ShardId(at as u16), Key { slot, generation: 0 });
        let login = plain::login(account, "phone");
        self.asks(at, conn, ChatRequest::Login(Box::new(login)));
        (at, conn, self.rest().expect("it is let in"))
    }

    /// Nanoseconds per message, for this many messages of a device, a few at once.
    #[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
    fn cost(&mut self, from: (usize, ConnRef, SessionRef), to: &str, count: u32) -> u64 {
        const AT_ONCE: u32 = 16;
        let (at, conn, session) = from;
        let to = Addressee::parse(to).expect("right");
        let sent = self.sent;
        let began = std::time::Instant::now();
        for round in 0..count / AT_ONCE {
            for n in 0..AT_ONCE {
                let number = round * AT_ONCE + n;
                let client_id = ClientMessageId((u128::from(number) << 64 | 7).to_be_bytes());
                let content = Content::text("a message of some forty bytes, as they are");
                let message = Box::new(NewMessage { to: to.clone(), client_id, content });
                self.asks(at, conn, ChatRequest::Send { session, number, message });
            }
            self.now = Now::new(self.now.after(Duration::from_millis(1)), self.now.wall_ms + 1);
            self.rest();
        }
        let ns = began.elapsed().as_nanos() as u64 / u64::from(count);
        assert_eq!(self.sent - sent, u64::from(count), "all are sent");
        ns
    }
}

fn two(shards: u16, count: u32) -> u64 {
    let mut shards = Shards::new(shards);
    let ann = shards.device("ann", 1);
    shards.device("bob", 2);
    shards.cost(ann, "bob", count)
}

/// The cost of messages to a group of this many members, of whom only the owner is online.
fn group(shards: u16, members: u32, count: u32) -> u64 {
    let mut shards = Shards::new(shards);
    let ann = shards.device("ann", 1);
    let (at, conn, session) = ann;
    for n in 0..members {
        shards.device(&format!("m{n}"), n + 2);
    }
    let named = |n| Addressee::parse(&format!("m{n}")).expect("right");
    let (verb, client_id) = (GroupVerb::Create, ClientMessageId([9; 16]));
    let (title, members) = ("town".into(), (0..members).map(named).collect());
    let order = Box::new(GroupOrder { group: None, client_id, verb, title, members });
    shards.asks(at, conn, ChatRequest::Group { session, number: 1, order });
    shards.rest();
    let group = shards.group.take().expect("it is made");
    shards.cost(ann, group.as_str(), count)
}

#[test]
fn a_message_is_sent_for_each_that_is_measured() {
    two(1, 32);
    two(3, 32);
    group(3, 20, 32);
}

#[test]
#[ignore = "a measurement"]
fn a_message_to_an_account() {
    println!("{} ns", two(1, 400_000));
}

#[test]
#[ignore = "a measurement"]
fn a_message_to_an_account_of_another_shard() {
    println!("{} ns", two(3, 400_000));
}

#[test]
#[ignore = "a measurement"]
fn a_message_to_a_group_of_twenty() {
    println!("{} ns", group(3, 20, 100_000));
}
