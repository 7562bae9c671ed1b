//! Devices that get their name after the login: their names, and the cursor that they share.

mod house;

use base::time::Now;
use house::{House, plain};
use model::account::AccountAddress;
use model::chat::*;
use model::close::CloseReason;
use model::id::{ConnRef, SessionRef, ShardId};
use model::session::Denial;
use std::time::Duration;

type Device = (ConnRef, SessionRef);

fn person(name: &str) -> AccountAddress {
    AccountAddress::parse(name, "a.example").expect("right")
}

impl House {
    fn new() -> House {
        House::of(plain::settings(ShardId(0), 1))
    }

    fn login(&mut self, name: &str, device: &str, binds: bool) -> (ConnRef, ChatDelivery) {
        let conn = self.conn(ShardId(0));
        let login = Login { protocol: "xmpp", binds, ..plain::login(person(name), device) };
        let mut told = self.ask(conn, ChatRequest::Login(Box::new(login)));
        assert_eq!(told.len(), 1, "{told:?}");
        (conn, told.remove(0).1)
    }

    fn nameless(&mut self, name: &str) -> Device {
        match self.login(name, "", true) {
            (conn, ChatDelivery::LoggedIn(told)) => (conn, told.session),
            (_, other) => panic!("{other:?}"),
        }
    }

    /// A device with this name, and the connections whose sessions ended in its favour.
    fn bound(&mut self, name: &str, device: &str) -> (Device, Vec<ConnRef>) {
        let (conn, session) = self.nameless(name);
        let wish = Some(device.into());
        let mut told = self.ask(conn, ChatRequest::Bind { session, device: wish });
        let answer = told.pop().expect("an answer");
        assert_eq!(answer, (conn, ChatDelivery::Bound { device: device.into() }));
        let ended = |(conn, delivery): (ConnRef, ChatDelivery)| match delivery {
            ChatDelivery::End(end) => {
                assert_eq!((end.why, end.reason), (Denial::TakenOver, CloseReason::Replaced));
                conn
            }
            other => panic!("{other:?}"),
        };
        ((conn, session), told.into_iter().map(ended).collect())
    }

    fn standing(&mut self, (conn, session): Device) -> (u64, u64) {
        match &self.ask(conn, ChatRequest::Standing { session, number: 7 })[..] {
            [(to, ChatDelivery::Standing { number: 7, cursor, head })] if *to == conn => {
                (*cursor, *head)
            }
            other => panic!("{other:?}"),
        }
    }

    fn say(&mut self, (conn, session): Device, to: &str, id: u8) -> Vec<ConnRef> {
        let message = Box::new(NewMessage {
            to: person(to).into(),
            client_id: ClientMessageId([id; 16]),
            content: Content::text("hello"),
        });
        let told = self.ask(conn, ChatRequest::Send { session, number: 1, message });
        let is_message = |(_, delivery): &&(ConnRef, ChatDelivery)| {
            matches!(delivery, ChatDelivery::Message { .. })
        };
        told.iter().filter(is_message).map(|(to, _)| *to).collect()
    }

    fn acknowledge(&mut self, (conn, session): Device, upto: u64) {
        assert!(self.ask(conn, ChatRequest::Acknowledge { session, upto }).is_empty());
    }

    fn goes(&mut self, (conn, session): Device) {
        let reason = CloseReason::PeerClosed;
        // The position is stored now, so the senders are notified of the delivery.
        let told = self.ask(conn, ChatRequest::Closed { session, reason });
        assert!(told.iter().all(|(_, it)| matches!(it, ChatDelivery::Delivered(_))), "{told:?}");
    }

    fn pass(&mut self, seconds: u64) {
        let now = &mut self.now;
        *now = Now::new(now.after(Duration::from_secs(seconds)), now.wall_ms + seconds * 1_000);
        self.rest();
    }
}

#[test]
fn a_name_that_is_taken_ends_who_had_it_and_nameless_ones_end_nobody() {
    let mut house = House::new();
    let (first, ended) = house.bound("ann", "desk");
    assert!(ended.is_empty());
    let (_, ended) = house.bound("ann", "sofa");
    assert!(ended.is_empty());
    house.nameless("ann");
    house.nameless("ann");
    let (second, ended) = house.bound("ann", "desk");
    assert_eq!(ended, [first.0]);
    let (conn, session) = second;
    let told = house.ask(conn, ChatRequest::Bind { session, device: Some("desk".into()) });
    assert_eq!(told, [(conn, ChatDelivery::Bound { device: "desk".into() })], "it stays itself");
    let (_, ended) = house.bound("bob", "desk");
    assert!(ended.is_empty(), "another account's");
}

#[test]
fn who_wants_no_name_or_too_long_a_one_is_given_its_own() {
    let mut house = House::new();
    let mut names = Vec::new();
    for wish in [None, None, Some(""), Some("x".repeat(65).as_str())] {
        let (conn, session) = house.nameless("ann");
        let told = house.ask(conn, ChatRequest::Bind { session, device: wish.map(Into::into) });
        match &told[..] {
            [(_, ChatDelivery::Bound { device })] => names.push(device.clone()),
            other => panic!("{other:?}"),
        }
    }
    assert!(names.iter().all(|name| name.len() == 16), "{names:?}");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 4);
}

#[test]
fn a_login_says_a_name_or_that_it_binds() {
    let mut house = House::new();
    for (device, binds) in [("", false), ("desk", true)] {
        match house.login("ann", device, binds).1 {
            ChatDelivery::Refused(refused) => assert_eq!(refused.why, Denial::ClientIdInvalid),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_device_that_binds_is_sent_what_it_says_to_a_group_or_its_own_account_and_no_other_is() {
    let mut house = House::new();
    let (ann, _) = house.bound("ann", "desk");
    let (conn, session) = ann;
    let group = AccountAddress::parse("lunch@conference.a.example", "").expect("right");
    let order = Box::new(GroupOrder {
        group: Some(group.into()),
        client_id: ClientMessageId([9; 16]),
        verb: GroupVerb::Create,
        title: "lunch".into(),
        members: Vec::new(),
    });
    let told = house.ask(conn, ChatRequest::Group { session, number: 1, order });
    assert_eq!(told.len(), 2, "the answer, and what happened: {told:?}");
    assert_eq!(house.say(ann, "lunch@conference.a.example", 1), [conn], "it is reflected");
    assert_eq!(house.say(ann, "ann", 2), [conn], "to its own account too (RFC 6121 8.5.2.1.1)");
    let (conn, phone) = match house.login("ann", "phone", false) {
        (conn, ChatDelivery::LoggedIn(told)) => (conn, told.session),
        (_, other) => panic!("{other:?}"),
    };
    house.acknowledge((conn, phone), 3);
    assert_eq!(house.say((conn, phone), "lunch@conference.a.example", 3), [ann.0]);
}

#[test]
fn devices_that_bind_go_on_where_any_of_them_was() {
    let mut house = House::new();
    let (ann, _) = house.bound("ann", "desk");
    let (bob, _) = house.bound("bob", "one");
    assert_eq!(house.say(ann, "bob", 1), [bob.0]);
    house.say(ann, "bob", 2);
    assert_eq!(house.standing(bob), (0, 2));
    house.acknowledge(bob, 1);
    let (other, _) = house.bound("bob", "two");
    assert_eq!(house.standing(other), (1, 2), "before it is stored");
    house.acknowledge(bob, 2);
    house.goes(bob);
    assert_eq!(house.standing(other), (2, 2), "though it came before");
    house.say(ann, "bob", 3);
    house.goes(other);
    house.pass(2);
    let (third, _) = house.bound("bob", "made-up-anew");
    assert_eq!(house.standing(third), (2, 3));
    let ChatDelivery::LoggedIn(named) = house.login("bob", "phone", false).1 else {
        panic!("it is let in")
    };
    assert_eq!((named.cursor, named.head), (0, 3), "a device of its own name has its own place");
}
