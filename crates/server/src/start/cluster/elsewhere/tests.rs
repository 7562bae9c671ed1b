//! Answers of a node that follows, for clients of each protocol.

use super::*;
use crate::machines::DoorProfile;
use base::time::Now;
use model::account::AccountAddress;
use model::id::{DeviceId, ProductKey};
use model::link::{Link, Protocol};
use model::request::{Bind, HeartbeatWish, Proof};
use std::net::SocketAddr;
use testkit::pair::PairSide;

const LEADER: Option<&str> = Some("10.0.0.7:1883");

fn now() -> Now {
    Now::new(base::time::Instant::default(), testkit::pair::WALL_MS)
}

fn peer() -> SocketAddr {
    ([127, 0, 0, 1], 1).into()
}

/// The answer to the CONNECT of an MQTT client of this level, and how its connection ends.
fn mqtt(level: u8, address: Option<&str>, redirect: Redirect) -> (Vec<u8>, Option<CloseReason>) {
    let profile = DoorProfile::strict(10_000, "a.example");
    let link = Link::loopback(Protocol::Mqtt);
    let machine = ServerMachine::new(&link, &profile).expect("it is served");
    let mut side = PairSide::new(machine, link);
    side.open(now());
    let properties: &[u8] = if level == 5 { &[0] } else { &[] };
    let rest = [&[0, 4][..], b"MQTT", &[level, 2, 0, 60], properties, &[0, 1, b'a']].concat();
    side.hear(now(), &[&[0x10, rest.len() as u8][..], &rest].concat());
    let words = side.take_words();
    let [request] = words.as_slice() else { panic!("{words:?}") };
    let Told::This(delivery) = answer(request, address, (redirect, 1_500)) else {
        panic!("MQTT has words for it")
    };
    (side.tell(now(), delivery), side.ended)
}

#[test]
fn mqtt_5_is_told_the_address_where_its_listener_says_so() {
    let server = [&[0x1c, 0, 13][..], b"10.0.0.7:1883"].concat();
    for (redirect, code) in [(Redirect::UseAnother, 0x9c), (Redirect::Moved, 0x9d)] {
        let (said, ended) = mqtt(5, LEADER, redirect);
        assert_eq!((said[0], said[3]), (0x20, code));
        assert!(said.windows(server.len()).any(|part| *part == *server), "{said:?}");
        assert_eq!(ended, Some(CloseReason::Redirected));
    }
    let (said, ended) = mqtt(5, LEADER, Redirect::Refuse);
    assert_eq!((said[3], ended), (0x88, Some(CloseReason::NotLeading)));
    let (said, ended) = mqtt(5, None, Redirect::Moved);
    assert_eq!((said[3], ended), (0x88, Some(CloseReason::NotLeading)), "nobody is known to lead");
}

#[test]
fn mqtt_3_is_told_that_the_server_is_unavailable() {
    for redirect in [Redirect::Refuse, Redirect::UseAnother, Redirect::Moved] {
        assert_eq!(mqtt(4, LEADER, redirect).0, [0x20, 2, 0, 3]);
    }
}

#[test]
fn a_device_is_redirected_and_told_to_come_back_where_nobody_leads() {
    let bind = Bind {
        term: 3,
        product: ProductKey::parse("demo").expect("a product"),
        device: DeviceId::parse("tom").expect("a device"),
        proof: Proof::None,
        protocol: "miop7",
        peer: None,
        from_loopback: true,
        crowded: false,
        heartbeat: HeartbeatWish::default(),
        inflight_max: 0,
        last_id: None,
        resume: None,
        pulls: false,
        tags: None,
    };
    let told = |address| {
        let request = Request::Push(PushRequest::Bind(Box::new(bind.clone())));
        match answer(&request, address, (Redirect::Refuse, 1_500)) {
            Told::This(Delivery::Push(PushDelivery::Refused(refused))) => *refused,
            other => panic!("{other:?}"),
        }
    };
    let refused = told(LEADER);
    assert_eq!((refused.term, refused.why, refused.retry_after_ms), (3, Refusal::Redirect, 1_500));
    assert_eq!(refused.addrs, ["10.0.0.7:1883"]);
    let refused = told(None);
    assert_eq!((refused.why, refused.addrs.len()), (Refusal::Busy, 0));
}

fn login(protocol: &'static str) -> Request {
    Request::Chat(ChatRequest::Login(Box::new(Login {
        protocol,
        account: AccountAddress::parse("ann", "a.example").expect("an account"),
        device: "desk".into(),
        binds: false,
        password: None,
        method: None,
        certificate: None,
        bindings: None,
        peer: peer(),
        near: true,
        door: 0,
        tls: false,
        crowded: false,
    })))
}

#[test]
fn im_is_always_told_the_address_and_xmpp_where_its_listener_says_so() {
    let told =
        |protocol, address, redirect| match answer(&login(protocol), address, (redirect, 1_500)) {
            Told::This(Delivery::Chat(ChatDelivery::Refused(refused))) => {
                Some((refused.why, refused.server))
            }
            Told::Nothing => None,
            other => panic!("{other:?}"),
        };
    let server: Option<Box<str>> = LEADER.map(Box::from);
    let elsewhere = Some((Denial::UseAnother, server));
    assert_eq!(told("im", LEADER, Redirect::Refuse), elsewhere);
    assert_eq!(told("im", None, Redirect::Refuse), Some((Denial::Unavailable, None)));
    assert_eq!(told("xmpp", LEADER, Redirect::UseAnother), elsewhere);
    assert_eq!(told("xmpp", LEADER, Redirect::Refuse), None, "it is closed");
    assert_eq!(told("xmpp", None, Redirect::Moved), None);
}

#[test]
fn the_end_of_a_connection_is_not_answered() {
    let gone = Request::Topics(SessionRequest::Gone);
    assert_eq!(answer(&gone, LEADER, (Redirect::Moved, 1)), Told::Over);
    let gone = Request::Chat(ChatRequest::Gone);
    assert_eq!(answer(&gone, LEADER, (Redirect::Moved, 1)), Told::Over);
}
