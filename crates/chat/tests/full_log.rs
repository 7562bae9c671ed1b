//! A full log accepts messages but no entries of inboxes, or neither: logins still work, and
//! accepted messages are delivered when there is room.

#[path = "house/plain.rs"]
mod plain;
#[path = "house/shard.rs"]
mod shard;

use base::slab::Key;
use base::time::{Instant, Now};
use chat::Settings;
use model::account::AccountAddress;
use model::chat::*;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::{ChatLimits, Limits};
use model::ports::control::Status;
use model::ports::log::{Append, Call, StoreError, Write};
use model::service::Service;
use model::timeline::Space;
use shard::Shard;
use std::sync::Arc;
use std::time::Duration;

/// Largest size of accepted messages that are not in inboxes, bytes: small, so that it is reached.
const UNDISTRIBUTED: u64 = 1 << 20;

const ANN: u32 = 1;
const BOB: u32 = 2;
const CAROL: u32 = 3;

/// One shard, its log, and the answers to its accounts.
struct Town {
    settings: Settings,
    shard: Shard,
    now: Now,
    /// Sessions by account.
    sessions: [Option<SessionRef>; 4],
    /// Kinds of timelines to which the log refuses appends.
    full: Vec<Space>,
    said: u32,
    answers: Vec<Result<MessageKey, ChatFault>>,
}

/// A message as its sender knows it.
type MessageKey = (u64, u64);

fn address(who: u32) -> AccountAddress {
    let name = ["", "ann", "bob", "carol"][who as usize];
    AccountAddress::parse(name, "a.example").expect("right")
}

fn conn(who: u32) -> ConnRef {
    ConnRef::new(ShardId(0), Key { slot: who, generation: 1 })
}

impl Town {
    fn new() -> Town {
        let chat = ChatLimits {
            sends_an_account_per_s: 0,
            bytes_an_account_per_s: 0,
            share_an_account_percent: 0,
            undistributed_bytes_max: UNDISTRIBUTED,
            ..ChatLimits::default()
        };
        let limits = Arc::new(Limits { chat, ..Limits::default() });
        let settings = Settings { limits, ..plain::settings(ShardId(0), 1) };
        let mut town = Town {
            settings: settings.clone(),
            shard: Shard::new(&settings, 0),
            now: Now::new(Instant::default(), 1_700_000_000_000),
            sessions: [None; 4],
            full: Vec::new(),
            said: 0,
            answers: Vec::new(),
        };
        assert!(town.logs_in(ANN) && town.logs_in(BOB));
        town
    }

    /// Kills the shard, and starts it again over the same log.
    fn dies(&mut self) {
        self.passes_s(1);
        self.shard.restart(self.now, &self.settings, 0);
        self.sessions = [None; 4];
    }

    fn is_refused(&self, call: &Call) -> bool {
        let Call::Write(Write::Append(Append { to, .. })) = call else { return false };
        to.iter().any(|to| self.full.contains(&to.space()))
    }

    fn goes_on(&mut self) {
        for _ in 0..1_000 {
            Service::turn(&mut self.shard.chat, self.now, &mut self.shard.fx);
            let calls = std::mem::take(&mut self.shard.fx.calls);
            if calls.is_empty() {
                break;
            }
            for (ticket, call) in calls {
                let answer = match self.is_refused(&call) {
                    true => Err(StoreError::Full),
                    false => self.shard.log.answer(&call),
                };
                let done = (ticket, answer);
                Service::complete(&mut self.shard.chat, self.now, done, &mut self.shard.fx);
            }
        }
        for (to, delivery) in std::mem::take(&mut self.shard.fx.deliveries) {
            match delivery {
                ChatDelivery::LoggedIn(it) => {
                    self.sessions[to.key().slot as usize] = Some(it.session);
                }
                ChatDelivery::Sent { id, seq, .. } => self.answers.push(Ok((id, seq))),
                ChatDelivery::Failed { why, .. } => self.answers.push(Err(why)),
                _ => {}
            }
        }
    }

    fn asks(&mut self, who: u32, request: ChatRequest) {
        Service::request(&mut self.shard.chat, self.now, conn(who), request, &mut self.shard.fx);
        self.goes_on();
    }

    fn logs_in(&mut self, who: u32) -> bool {
        self.asks(who, ChatRequest::Login(Box::new(plain::login(address(who), "phone"))));
        self.sessions[who as usize].is_some()
    }

    fn says(&mut self, bytes: usize) -> Result<MessageKey, ChatFault> {
        self.said += 1;
        let (session, number) = (self.sessions[ANN as usize].expect("she is here"), self.said);
        let client_id = ClientMessageId(u128::from(number).to_be_bytes());
        let content = Content::text(&"x".repeat(bytes));
        let message = Box::new(NewMessage { to: address(BOB).into(), client_id, content });
        self.asks(ANN, ChatRequest::Send { session, number, message });
        self.answers.pop().expect("answered at once")
    }

    fn passes_s(&mut self, seconds: u64) {
        for _ in 0..seconds {
            let later = self.now.after(Duration::from_secs(1));
            self.now = Now::new(later, self.now.wall_ms + 1_000);
            self.goes_on();
        }
    }

    fn undistributed(&self) -> u64 {
        let mut status = Status::default();
        Service::status(&self.shard.chat, &mut status);
        status.chat_undistributed
    }
}

#[test]
fn a_shard_whose_inboxes_are_full_reads_on_lets_in_and_says_store_full() {
    let mut town = Town::new();
    town.full = vec![Space::Inbox];
    let mut accepted = 0;
    let refused = loop {
        match town.says(50_000) {
            Ok(_) => accepted += 1,
            Err(why) => break why,
        }
        assert!(accepted < 100, "so much is not accepted");
        town.passes_s(1);
    };
    assert!(accepted > 10 && town.undistributed() == accepted, "{accepted}");
    assert_eq!(refused, ChatFault::StoreFull, "it is not busy: nothing goes on");
    assert!(!Service::is_behind(&town.shard.chat), "to read nobody would help nobody");
    assert!(town.logs_in(CAROL), "whoever comes is let in");
    town.dies();
    for _ in 0..30 {
        town.passes_s(1);
    }
    assert!(!Service::is_behind(&town.shard.chat), "nor after a start");
    assert!(town.logs_in(ANN) && town.undistributed() == accepted);
    town.full.clear();
    town.passes_s(60);
    assert_eq!((town.undistributed(), town.says(10).is_ok()), (0, true));
}

#[test]
fn a_shard_that_distributes_too_slowly_reads_no_more_until_it_has() {
    let mut town = Town::new();
    town.full = vec![Space::Inbox];
    while !Service::is_behind(&town.shard.chat) {
        assert!(town.says(50_000).is_ok(), "there is room for as much again");
    }
    town.full.clear();
    town.passes_s(10);
    assert!(!Service::is_behind(&town.shard.chat) && town.undistributed() == 0);
}
