//! Announcements to all connected devices: their receivers, their pace, and the limit of the queue.

mod house;

use base::time::Now;
use house::{House, plain};
use model::account::AccountAddress;
use model::chat::*;
use model::id::{ConnRef, ShardId};
use model::ports::chat::{ChatAnswer, ChatCommand};
use model::ports::users::Announcement;
use model::service::Service;
use std::sync::Arc;
use std::time::Duration;

fn address(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

/// A device of XMPP that is available, or has sent no presence.
fn device(house: &mut House, name: &str, is_there: bool) -> ConnRef {
    let conn = house.conn(ShardId(0));
    let login = ChatRequest::Login(Box::new(plain::login(address(name), "")));
    let told = house.ask(conn, login);
    let [(_, ChatDelivery::LoggedIn(logged_in))] = &told[..] else { panic!("{told:?}") };
    let session = logged_in.session;
    house.ask(conn, ChatRequest::Bind { session, device: Some("desk".into()) });
    if is_there {
        let ask = PeopleAsk::Present(Some(Box::default()));
        let asked = PeopleRequest { session, number: 9, ask };
        house.ask(conn, ChatRequest::People(Box::new(asked)));
    }
    conn
}

/// Gives the command to announce this text; returns its answer.
fn announces(house: &mut House, body: &str) -> ChatAnswer {
    let command = ChatCommand::Announce(Arc::new(Announcement::new("", body).expect("right")));
    Service::command(&mut house.chat, house.now, 1, command, &mut house.fx);
    house.fx.answers.pop().expect("at once").1
}

fn heard(told: &[(ConnRef, ChatDelivery)]) -> Vec<(ConnRef, String)> {
    let of = |(conn, it): &(ConnRef, ChatDelivery)| match it {
        ChatDelivery::Announcement(it) => Some((*conn, it.body.to_string())),
        _ => None,
    };
    told.iter().filter_map(of).collect()
}

fn passes(house: &mut House, ms: u64) {
    house.now = Now::new(house.now.after(Duration::from_millis(ms)), house.now.wall_ms + ms);
}

#[test]
fn devices_that_want_messages_hear_of_it_once_and_no_others() {
    let mut house = House::of(plain::settings(ShardId(0), 1));
    let there = [device(&mut house, "ann", true), device(&mut house, "bob", true)];
    device(&mut house, "carol", false);
    let phone = house.conn(ShardId(0));
    house.ask(phone, ChatRequest::Login(Box::new(plain::login(address("dave"), "phone"))));
    assert_eq!(announces(&mut house, "one"), ChatAnswer::Announcing);
    let told = house.rest();
    assert_eq!(heard(&told), there.map(|conn| (conn, "one".to_owned())));
    assert_eq!(heard(&house.rest()), [], "once");
}

#[test]
fn it_is_said_in_slices_and_no_more_waits_than_may() {
    let mut house = House::of(plain::settings(ShardId(0), 1));
    let all = (0..300).map(|at| device(&mut house, &format!("p{at}"), true)).count();
    passes(&mut house, 1_000);
    let results: Vec<_> = (0..5).map(|at| announces(&mut house, &at.to_string())).collect();
    assert_eq!(results[..4], [(); 4].map(|()| ChatAnswer::Announcing));
    assert_eq!(results[4], ChatAnswer::Busy);
    let (first, none) = (heard(&house.rest()), heard(&house.rest()));
    assert_eq!((first.len(), none.len()), (256, 0), "then there is a pause");
    let mut rest = Vec::new();
    for _ in 0..12 {
        passes(&mut house, 50);
        rest.extend(heard(&house.rest()));
    }
    assert_eq!(first.len() + rest.len(), 4 * all, "each hears each of them once");
    let bodies: Vec<_> = rest.iter().map(|(_, body)| body.clone()).collect();
    assert!(bodies.is_sorted(), "one behind the other");
    assert_eq!(announces(&mut house, "again"), ChatAnswer::Announcing);
}
