//! Topics that begin with `$im/` are chat's: requests are handed back with their account, and reach
//! nobody but the device.

use crate::harness::{BrokerHarness, Client, access, connect, durable, message, will, wish};
use model::chat::{AccountDevice, ChatCall, EventsForm, EventsWanted, NoDevice};
use model::ports::access::*;
use model::ports::topics::{TopicAnswer, TopicCommand};
use model::session::*;
use model::topic::Qos;
use std::sync::Arc;

/// May nothing about topics.
#[derive(Debug)]
struct Nothing;

impl Rules for Nothing {
    fn may(&self, _: &Who<'_>, _: Act, _: &str) -> bool {
        false
    }

    fn reach(&self, _: &Who<'_>, _: &str) -> Reach {
        Reach::Nothing
    }
}

/// Everybody who has a name has an account of it, whose number is that of its letters.
struct Book;

impl Book {
    fn grant(user: Option<&str>) -> Grant {
        let account = user.map(|user| GrantedAccount { uid: user.len() as u64, epoch: 1 });
        let rules: Option<Arc<dyn Rules>> = Some(Arc::new(Nothing));
        Grant { user: user.map(Arc::from), rules, account, ..Grant::OPEN }
    }
}

impl Access for Book {
    fn admit(&self, _: u32, question: &Question) -> Admission {
        Admission::Granted(Book::grant(question.user.as_deref()), None)
    }

    fn renew(&self, who: &Who<'_>) -> Option<Grant> {
        Some(Grant { account: None, ..Book::grant(who.user) })
    }

    fn version(&self) -> u64 {
        0
    }
}

fn world() -> BrokerHarness {
    BrokerHarness::with(2, |settings| {
        settings.access = access(Book);
        settings.chat_domain = Some("a.example".into());
    })
}

fn of(user: &str, connect: ConnectRequest) -> ConnectRequest {
    ConnectRequest { user: Some(user.into()), ..connect }
}

/// The devices that a client's machine was told of since.
fn devices(world: &mut BrokerHarness, client: &Client) -> Vec<AccountDevice> {
    let told = world.heard(client.conn).into_iter().filter_map(|word| match word {
        SessionDelivery::Device(device) => Some(*device),
        _ => None,
    });
    told.collect()
}

fn call(world: &mut BrokerHarness, client: &Client, id: u16, qos: Qos) -> ChatCall {
    world.send(client, id, message("$im/req/send", qos, "hello"));
    let heard = world.heard(client.conn).into_iter();
    let mut heard = heard.filter(|word| !matches!(word, SessionDelivery::Device(_)));
    match (heard.next(), heard.next()) {
        (Some(SessionDelivery::Call(call)), None) => *call,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_is_handed_back_with_whose_device_its_publisher_is() {
    let mut world = world();
    let named =
        ConnectRequest { device: Some("watch".into()), ..of("bob@b.example", durable("b")) };
    let (ann, bob) = (world.client(of("ann", connect("a"))), world.client(named));
    let nobody = world.client(connect("n"));
    let asked = call(&mut world, &ann, 7, Qos::AtLeastOnce);
    let device = asked.device.expect("it is somebody's");
    assert_eq!(
        (asked.id, asked.qos, asked.message.payload()),
        (7, Qos::AtLeastOnce, &b"hello"[..])
    );
    assert_eq!((device.address.as_str(), &*device.user), ("ann@a.example", "ann"));
    assert_eq!((device.account.uid, &*device.device, &*asked.client_id), (3, "a", "a"));
    assert_eq!(device.events, EventsWanted::default());
    let device = call(&mut world, &bob, 0, Qos::AtMostOnce).device.expect("it is somebody's");
    assert_eq!((device.address.as_str(), &*device.device), ("bob@b.example", "watch"));
    let none = call(&mut world, &nobody, 1, Qos::AtLeastOnce).device;
    assert_eq!(none, Err(NoDevice::NoAccount));
    assert_eq!(world.taken(&ann), None, "its machine answers");
    world.audit();
}

/// The book, whose grants are over at a second that the proof names, if there is one.
struct Proofs;

impl Access for Proofs {
    fn admit(&self, _: u32, question: &Question) -> Admission {
        let grant = Book::grant(question.user.as_deref());
        let proof = question.method.as_ref().and_then(|(_, data)| data.first());
        let until_s = proof.map_or(0, |at| 2_000_000_000 + u32::from(*at));
        Admission::Granted(Grant { until_s, ..grant }, None)
    }

    fn renew(&self, who: &Who<'_>) -> Option<Grant> {
        Book.renew(who)
    }

    fn version(&self) -> u64 {
        0
    }
}

#[test]
fn a_device_whose_client_proves_itself_again_hears_until_when() {
    let mut world = BrokerHarness::with(1, |settings| {
        settings.access = access(Proofs);
        settings.chat_domain = Some("a.example".into());
    });
    let proof = |at: u8| Some(("TOKEN".into(), Box::from([at])));
    let ann = world.client(ConnectRequest { method: proof(1), ..of("ann", connect("a")) });
    let device = call(&mut world, &ann, 1, Qos::AtLeastOnce).device.expect("it is somebody's");
    assert_eq!(device.until_s, 2_000_000_001);
    let (session, (method, data)) = (Some(ann.session), proof(2).expect("one"));
    let again = Proceed { session, method, data };
    world.ask(ann.conn, SessionRequest::Proceed(Box::new(again)));
    let told = devices(&mut world, &ann);
    assert_eq!(told.iter().map(|it| it.until_s).collect::<Vec<_>>(), [2_000_000_002]);
}

#[test]
fn without_chat_it_is_nobodys_device() {
    let mut world = BrokerHarness::with(1, |settings| settings.access = access(Book));
    let ann = world.client(of("ann", connect("a")));
    assert_eq!(call(&mut world, &ann, 1, Qos::AtLeastOnce).device, Err(NoDevice::Off));
    let refused = world.subscribe_with(&ann, vec![wish("$im/evt", Qos::AtMostOnce)], None);
    assert_eq!(refused, [Err(Denial::NotAuthorized)]);
}

#[test]
fn only_the_server_speaks_under_its_topics() {
    let mut world = world();
    let ann = world.client(of("ann", connect("a")));
    for topic in ["$im/evt", "$im/res/a", "$im/req", "$im/", "$im/x"] {
        let answer = world.publish_at(&ann, 3, message(topic, Qos::AtLeastOnce, "forged"));
        assert_eq!(answer, Some(Err(Denial::NotAuthorized)), "{topic}");
        world.publish(&ann, topic, "forged");
        assert_eq!(world.heard(ann.conn), [], "{topic}");
    }
    let later = message("$delayed/1/$im/req/send", Qos::AtLeastOnce, "later");
    assert_eq!(world.publish_at(&ann, 4, later), Some(Err(Denial::TopicInvalid)));
    let last_word = ConnectRequest { will: Some(will("$im/evt", "w", 0)), ..connect("w") };
    assert_eq!(world.refused(of("ann", last_word)), Denial::TopicInvalid);
    let ann = world.client(of("ann", connect("a")));
    world.subscribe(&ann, "$im/evt", Qos::AtMostOnce);
    world.heard(ann.conn);
    let order = message("$im/evt", Qos::AtMostOnce, "of an operator");
    let order = TopicCommand::Publish { message: Arc::new(order), delay_s: 0 };
    for shard in 0..2 {
        let answer = world.command(shard, order.clone());
        assert_eq!(answer, TopicAnswer::Published { matched: false });
    }
    assert_eq!(world.heard(ann.conn), []);
    let longer = message("$im/req/x", Qos::AtMostOnce, "/payload").is_under("$im/req/x/");
    assert!(!longer, "what a message says is no part of its topic");
}

#[test]
fn what_happens_is_heard_by_the_device_alone_and_in_its_forms() {
    let mut world = world();
    let ann = world.client(of("ann", connect("a")));
    let refused = [
        "$im/#",
        "$im/+",
        "$im",
        "$im/evt/#",
        "$im/res/b",
        "$im/res/+",
        "$im/res/",
        "$im/req/send",
        "$share/g/$im/evt",
        "$exclusive/$im/evt",
    ];
    for filter in refused {
        let answer = world.subscribe_with(&ann, vec![wish(filter, Qos::AtMostOnce)], None);
        assert_eq!(answer, [Err(Denial::NotAuthorized)], "{filter}");
    }
    world.heard(ann.conn);
    for filter in ["$im/evt", "$im/res", "$im/res/a"] {
        let answer = world.subscribe_with(&ann, vec![wish(filter, Qos::ExactlyOnce)], None);
        assert_eq!(answer, [Ok(Qos::AtMostOnce)], "{filter}: what is told is at QoS 0");
    }
    let device = call(&mut world, &ann, 0, Qos::AtMostOnce).device.expect("it is somebody's");
    assert_eq!(device.events, EventsWanted { plain: Some(EventsForm::default()), json: None });
    world.subscribe_with(&ann, vec![wish("$im/evt/json", Qos::AtMostOnce)], Some(7));
    assert_eq!(world.unsubscribe(&ann, "$im/evt"), Ok(true));
    let device = call(&mut world, &ann, 0, Qos::AtMostOnce).device.expect("it is somebody's");
    assert_eq!(
        device.events,
        EventsWanted { plain: None, json: Some(EventsForm { subscription_id: Some(7) }) }
    );
    let nobody = world.client(connect("n"));
    let answer = world.subscribe_with(&nobody, vec![wish("$im/evt", Qos::AtMostOnce)], None);
    assert_eq!(answer, [Err(Denial::NotAuthorized)]);
    world.audit();
}

#[test]
fn its_machine_is_told_when_what_a_device_wants_changes() {
    let mut world = world();
    let ann = world.client(of("ann", connect("a")));
    let subscribe = |filter: &str| {
        SessionRequest::Subscribe(Box::new(SubscribeRequest {
            session: ann.session,
            id: 5,
            subscription_id: None,
            wishes: vec![wish(filter, Qos::AtMostOnce)],
        }))
    };
    world.ask(ann.conn, subscribe("$im/evt"));
    let heard = world.heard(ann.conn);
    let [SessionDelivery::Subscribed { id: 5, .. }, SessionDelivery::Device(device)] = &heard[..]
    else {
        panic!("{heard:?}")
    };
    assert!(device.events.plain.is_some(), "behind the answer");
    world.ask(ann.conn, subscribe("$im/res"));
    assert_eq!(devices(&mut world, &ann), [], "that is nothing that happens");
    let filters = vec!["$im/evt".into()];
    let unsubscribe = UnsubscribeRequest { session: ann.session, id: 6, filters };
    world.ask(ann.conn, SessionRequest::Unsubscribe(Box::new(unsubscribe)));
    let told = devices(&mut world, &ann);
    assert!(matches!(&told[..], [device] if !device.events.any()), "{told:?}");
}

#[test]
fn a_session_that_comes_back_is_told_so_also_after_a_kill() {
    let mut world = world();
    let ann = world.client(of("ann", durable("a")));
    world.subscribe(&ann, "$im/evt", Qos::AtMostOnce);
    world.cut(&ann);
    let told = |world: &mut BrokerHarness| {
        let ann = world.client(of("ann", durable("a")));
        assert!(ann.connected.present);
        devices(world, &ann)
    };
    let device = &told(&mut world)[0];
    assert_eq!((device.address.as_str(), device.events.any()), ("ann@a.example", true));
    world.crash();
    assert_eq!(told(&mut world).len(), 1, "rules that allow nothing do not speak of it");
    assert_eq!(world.status().queued, 0, "nothing waited for it");
    world.audit();
}
