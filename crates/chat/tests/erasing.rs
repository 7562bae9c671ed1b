//! Erasures while the log refuses background writes, and while others use the account: a finished
//! erasure stays finished, and answered writes stay.

#[path = "house/plain.rs"]
mod plain;
#[path = "house/shard.rs"]
mod shard;

use base::slab::Key;
use base::time::{Instant, Now};
use chat::Settings;
use model::account::{AccountAddress, AccountId};
use model::chat::*;
use model::id::{ConnRef, ShardId};
use model::limits::{ChatLimits, Limits};
use model::ports::chat::{ChatAnswer, ChatCommand, Errand, ErrandWhat};
use model::ports::log::{Call, Done, Read, StoreError, Table, Ticket, Write};
use model::service::Service;
use shard::Shard;
use std::sync::Arc;
use std::time::Duration;

/// A shard, and its clock.
struct House {
    settings: Settings,
    shard: Shard,
    now: Now,
    conns: u32,
}

type Asked = Vec<(Ticket, Call)>;

fn address(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

fn is_put(call: &Call) -> bool {
    matches!(call, Call::Write(Write::Put { table: Table::ChatApart, .. }))
}

fn is_delete(call: &Call) -> bool {
    matches!(call, Call::Write(Write::Delete { table: Table::ChatApart, .. }))
}

fn takes_the_account(call: &Call) -> bool {
    matches!(call, Call::Write(Write::Delete { table: Table::ChatAccounts, .. }))
}

impl House {
    fn new() -> House {
        let chat = ChatLimits { accounts_known_max: 2, ..ChatLimits::default() };
        let limits = Arc::new(Limits { chat, ..Limits::default() });
        let settings = Settings { limits, ..plain::settings(ShardId(0), 1) };
        let shard = Shard::new(&settings, 0);
        let now = Now::new(Instant::default(), 1_700_000_000_000);
        House { settings, shard, now, conns: 0 }
    }

    /// Lets a second pass, and takes the calls to the log that follow.
    fn asked(&mut self) -> Asked {
        let later = self.now.after(Duration::from_secs(1));
        self.now = Now::new(later, self.now.wall_ms + 1_000);
        Service::turn(&mut self.shard.chat, self.now, &mut self.shard.fx);
        std::mem::take(&mut self.shard.fx.calls)
    }

    fn hears(&mut self, ticket: Ticket, answer: Result<Done, StoreError>) {
        Service::complete(&mut self.shard.chat, self.now, (ticket, answer), &mut self.shard.fx);
    }

    fn answers(&mut self, calls: Asked) {
        for (ticket, call) in calls {
            let answer = self.shard.log.answer(&call);
            self.hears(ticket, answer);
        }
    }

    /// Lets everything come to rest while the clock stands still.
    fn rest(&mut self) {
        loop {
            Service::turn(&mut self.shard.chat, self.now, &mut self.shard.fx);
            let calls = std::mem::take(&mut self.shard.fx.calls);
            if calls.is_empty() {
                return;
            }
            self.answers(calls);
        }
    }

    fn asks(&mut self, name: &str, device: &str) -> ConnRef {
        self.conns += 1;
        let conn = ConnRef::new(ShardId(0), Key { slot: self.conns, generation: 0 });
        let login = ChatRequest::Login(Box::new(plain::login(address(name), device)));
        Service::request(&mut self.shard.chat, self.now, conn, login, &mut self.shard.fx);
        conn
    }

    /// Logs in as this account, and sends a message to Ann.
    fn says(&mut self, name: &str) {
        let conn = self.asks(name, "phone");
        self.rest();
        let told = std::mem::take(&mut self.shard.fx.deliveries);
        let Some((_, ChatDelivery::LoggedIn(logged_in))) = told.last() else { panic!("{told:?}") };
        let (session, client_id) = (logged_in.session, ClientMessageId([7; 16]));
        let (to, content) = (address("ann").into(), Content::text("hello"));
        let message = Box::new(NewMessage { to, client_id, content });
        let send = ChatRequest::Send { session, number: 1, message };
        Service::request(&mut self.shard.chat, self.now, conn, send, &mut self.shard.fx);
        self.rest();
        self.shard.fx.deliveries.clear();
    }

    fn command(&mut self, command: ChatCommand) {
        Service::command(&mut self.shard.chat, self.now, 9, command, &mut self.shard.fx);
    }

    /// The answer to a command, while nothing else happens.
    fn told(&mut self, command: ChatCommand) -> Option<ChatAnswer> {
        self.command(command);
        while self.shard.fx.answers.is_empty() && !self.shard.fx.calls.is_empty() {
            let calls = std::mem::take(&mut self.shard.fx.calls);
            self.answers(calls);
        }
        self.shard.fx.answers.pop().map(|(_, answer)| answer)
    }

    fn opens(&mut self) -> Option<AccountId> {
        match self.told(ChatCommand::Open(address("ann"))) {
            Some(ChatAnswer::Account(Some(status))) => Some(status.id),
            Some(ChatAnswer::Erasing(Some(_))) => None,
            other => panic!("{other:?}"),
        }
    }
}

/// Ann has sent a message, and an operator's command to erase her is given.
fn wanted() -> House {
    let mut house = House::new();
    ["ann", "bob"].into_iter().for_each(|name| house.says(name));
    house.command(ChatCommand::Erase(address("ann")));
    house
}

/// Ann's erasure has begun.
fn begun() -> House {
    let mut house = wanted();
    while house.shard.fx.answers.is_empty() {
        let calls = std::mem::take(&mut house.shard.fx.calls);
        assert!(!calls.is_empty(), "the command is answered");
        house.answers(calls);
    }
    let answer = house.shard.fx.answers.pop();
    assert!(matches!(answer, Some((9, ChatAnswer::Erasing(Some(_))))), "{answer:?}");
    house
}

#[test]
fn a_row_that_was_deleted_since_is_not_written_again() {
    let mut house = begun();
    let (mut refused, mut is_gone) = (0, false);
    for _ in 0..60 {
        for (ticket, call) in house.asked() {
            assert!(!(is_gone && is_put(&call)), "the erasure would begin anew: {call:?}");
            if is_put(&call) {
                refused += 1;
                house.hears(ticket, Err(StoreError::Full));
                continue;
            }
            is_gone |= is_delete(&call);
            house.answers(vec![(ticket, call)]);
        }
    }
    assert!(refused > 0 && is_gone, "{refused} refused, {is_gone}");
    assert_eq!(house.shard.chat.unsettled(), 0, "nothing is left to do");
}

/// Commands that would write data of Ann, which come too late.
fn wishes() -> Vec<ChatCommand> {
    let (contact, order) = (address("bob").into(), ContactOrder::Block);
    let what = ErrandWhat::Contact(Box::new(ContactWish { contact, order }));
    let errand = Errand { by: address("ann"), is_operators: true, what };
    let moved = MovedMessage {
        with: address("bob").into(),
        is_own: true,
        device: "old".into(),
        at_ms: 1_600_000_000_000,
        client_id: ClientMessageId([8; 16]),
        content: Content::text("hello"),
    };
    let order = GroupOrder {
        group: None,
        client_id: ClientMessageId([9; 16]),
        verb: GroupVerb::Create,
        title: "".into(),
        members: Vec::new(),
    };
    vec![
        ChatCommand::Open(address("ann")),
        ChatCommand::Errand(Box::new(errand)),
        ChatCommand::MoveIn(address("ann"), Box::new(moved)),
        ChatCommand::ChangeMoved(address("ann"), Box::new(MovedChange { order, at_ms: 0 })),
        ChatCommand::MovedUpTo(address("ann"), 1),
    ]
}

#[test]
fn what_would_be_gone_in_a_moment_is_not_begun_until_an_erasure_is_over() {
    for mut house in [wanted(), begun()] {
        for wish in wishes() {
            house.command(wish.clone());
            let answer = house.shard.fx.answers.pop();
            let is_told = matches!(answer, Some((9, ChatAnswer::Erasing(Some(_)))));
            assert!(is_told, "{wish:?}: {answer:?}");
        }
    }
    let mut house = begun();
    let looked = house.told(ChatCommand::Account(address("ann")));
    assert!(matches!(looked, Some(ChatAnswer::Account(_))), "{looked:?}");
    // A client tries again and again, and is admitted when the erasure is over.
    let (mut waited, mut id) = (0, None);
    for _ in 0..60 {
        let told = house.opens();
        waited += usize::from(told.is_none());
        assert!(id.is_none() || id == told, "it stays what it was");
        id = told;
        let calls = house.asked();
        let goes = id.is_some() && calls.iter().any(|(_, call)| takes_the_account(call));
        assert!(!goes, "it was answered, and vanishes");
        house.answers(calls);
    }
    assert!(waited > 3 && id.is_some(), "{waited}");
}

#[test]
fn an_account_that_was_read_a_moment_before_it_went_is_not_taken_for_the_next() {
    let mut house = begun();
    let mut late = None;
    for _ in 0..60 {
        // The erasure goes on when all this is done.
        let mut calls = std::mem::take(&mut house.shard.fx.calls);
        // Other accounts drive hers out of memory; its row is read, and the answer comes late.
        for name in ["carol", "dave", "erin"] {
            house.told(ChatCommand::Open(address(name)));
        }
        house.asks("ann", "desk");
        let read = std::mem::take(&mut house.shard.fx.calls);
        let [(ticket, call)] = &read[..] else { panic!("{read:?}") };
        assert!(matches!(call, Call::Read(Read::Row { table: Table::ChatAccounts, .. })));
        let answer = house.shard.log.answer(call);
        calls.extend(house.asked());
        if calls.iter().any(|(_, call)| takes_the_account(call)) {
            late = Some((*ticket, answer));
            house.answers(calls);
            break;
        }
        house.hears(*ticket, answer);
        house.answers(calls);
    }
    // Her account is erased meanwhile.
    house.rest();
    let (ticket, answer) = late.expect("it was erased");
    assert!(matches!(answer, Ok(Done::Row(Some(_)))), "{answer:?}");
    house.hears(ticket, answer);
    house.rest();
    let id = house.opens().expect("nothing is left");
    house.shard.restart(house.now, &house.settings, 0);
    assert_eq!(house.opens(), Some(id), "it is in the log");
}
