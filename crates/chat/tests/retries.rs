//! Writes that the log refuses and that are asked for again: what was written since stays.

mod house;

use base::time::Now;
use house::{House, plain};
use model::account::AccountAddress;
use model::chat::*;
use model::id::ShardId;
use model::ports::chat::{ChatAnswer, ChatCommand};
use model::ports::log::{Call, Completion, StoreError, Table, Ticket, Write};
use model::service::Service;
use std::time::Duration;

fn address(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

fn is_put(call: &Call) -> bool {
    matches!(call, Call::Write(Write::Put { table: Table::ChatApart, .. }))
}

fn is_delete(call: &Call) -> bool {
    matches!(call, Call::Write(Write::Delete { table: Table::ChatApart, .. }))
}

/// Time passes, and the log is asked whatever it is asked then.
fn asked(house: &mut House) -> Vec<(Ticket, Call)> {
    let later = house.now.after(Duration::from_secs(1));
    house.now = Now::new(later, house.now.wall_ms + 1_000);
    Service::turn(&mut house.chat, house.now, &mut house.fx);
    std::mem::take(&mut house.fx.calls)
}

/// Ann has said something, and is being erased.
fn begun() -> House {
    let mut house = House::of(plain::settings(ShardId(0), 1));
    for name in ["ann", "bob"] {
        let conn = house.conn(ShardId(0));
        let login = plain::login(address(name), "phone");
        let told = house.ask(conn, ChatRequest::Login(Box::new(login)));
        let [(_, ChatDelivery::LoggedIn(logged_in))] = &told[..] else { panic!("{told:?}") };
        let (session, client_id) = (logged_in.session, ClientMessageId([7; 16]));
        let (to, content) = (address("ann").into(), Content::text("hello"));
        let message = Box::new(NewMessage { to, client_id, content });
        house.ask(conn, ChatRequest::Send { session, number: 1, message });
    }
    let erase = ChatCommand::Erase(address("ann"));
    Service::command(&mut house.chat, house.now, 7, erase, &mut house.fx);
    house.rest();
    assert!(matches!(house.fx.answers.pop(), Some((7, ChatAnswer::Erasing(Some(_))))));
    house
}

#[test]
fn a_row_that_was_deleted_since_is_not_written_again() {
    let mut house = begun();
    let (mut refused, mut is_gone) = (0, false);
    for _ in 0..60 {
        for (ticket, call) in asked(&mut house) {
            assert!(!(is_gone && is_put(&call)), "the erasure would begin anew: {call:?}");
            if is_put(&call) {
                refused += 1;
                let full: Completion = (ticket, Err(StoreError::Full));
                Service::complete(&mut house.chat, house.now, full, &mut house.fx);
                continue;
            }
            is_gone |= is_delete(&call);
            house.answers((ticket, call));
        }
    }
    assert!(refused > 0 && is_gone, "{refused} refused, {is_gone}");
    assert_eq!(house.chat.unsettled(), 0, "nothing is left to do");
}
