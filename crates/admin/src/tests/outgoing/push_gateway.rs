//! A gateway that takes, refuses, names tokens that are gone, or is away.

use crate::tests::NOW_MS;
use crate::tests::hook::Application;
use crate::{PushGateway, PushGatewaySettings};
use model::account::AccountAddress;
use model::chat::{Loudness, Notification};
use model::id::MessageId;
use model::limits::NotificationLimits;
use model::ports::control::{self, Command, Control, Reply};
use model::ports::notifications::{
    NotificationOrder, NotificationTargets, NotificationWhat, Notified,
};
use model::ports::pushes::{PushAnswer, PushCommand};
use model::push::{Outcome, Priority, Rejection};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// A hub that says this of every device.
struct Hub(control::Answer);

impl Control for Hub {
    fn ask(&self, command: Command, reply: Reply) {
        let Command::Push(PushCommand::Push(order)) = command else { panic!("{command:?}") };
        assert_eq!((order.silent, order.priority), (false, Priority::High));
        assert!(order.body.starts_with(b"{\"version\":1,\"type\":\"badge\",\"account\":"));
        reply(self.0.clone());
    }

    fn next_id(&self) -> MessageId {
        MessageId(7)
    }
}

fn gateway(url: &str, limits: NotificationLimits, hub: control::Answer) -> Arc<PushGateway> {
    let gateway = PushGateway::new(PushGatewaySettings {
        url: url.into(),
        secret: b"key".into(),
        proxied: false,
        limits,
        wall_ms: Arc::new(|| NOW_MS),
        seed: 1,
    });
    gateway.begin(Arc::new(Hub(hub))).expect("threads");
    gateway
}

fn limits() -> NotificationLimits {
    NotificationLimits { requests_max: 1, waiting_max: 2, ..NotificationLimits::default() }
}

fn order(targets: NotificationTargets) -> Box<NotificationOrder> {
    let account = AccountAddress::parse("bob", "a.example").expect("right");
    let it = Notification { account, loudness: Loudness::High, badge: 1, said: None };
    Box::new(NotificationOrder { targets, what: NotificationWhat::Notification(it) })
}

fn by_token(token: &str) -> Box<NotificationOrder> {
    order(NotificationTargets::Gateway { app: "chat".into(), tokens: vec![token.into()] })
}

fn offered(gateway: &PushGateway, order: Box<NotificationOrder>) -> Receiver<Notified> {
    let (tell, told) = sync_channel(16);
    let reply = tell.clone();
    let offered = gateway.offer(order, Box::new(move |what| reply.send(what).expect("heard")));
    if let Err(what) = offered {
        tell.send(what).expect("heard");
    }
    told
}

fn next(told: &Receiver<Notified>) -> Notified {
    told.recv_timeout(Duration::from_secs(30)).expect("an answer")
}

#[test]
fn what_is_posted_is_signed_and_judged_by_its_status() {
    let application = Application::start();
    let none = control::Answer::Busy;
    for (status, expected) in [
        (200, Notified::Taken { gone: vec![] }),
        (410, Notified::Taken { gone: vec!["t".into()] }),
        (400, Notified::Refused),
        (302, Notified::Refused),
    ] {
        let gateway = gateway(&application.hook().url, limits(), none.clone());
        let told = offered(&gateway, by_token("t"));
        let (signature, body) = application.take(status);
        assert!(signature.starts_with("t=1760000000,v1="), "{signature}");
        assert_eq!((&body["app"], &body["tokens"][0]), (&"chat".into(), &"t".into()));
        assert_eq!(next(&told), expected, "{status}");
        gateway.end();
    }
}

#[test]
fn while_a_gateway_does_not_answer_all_is_put_off_at_once() {
    let application = Application::start();
    for status in [500, 429] {
        let gateway = gateway(&application.hook().url, limits(), control::Answer::Busy);
        let first = offered(&gateway, by_token("first"));
        let (_, _) = application.next();
        let waiting = [offered(&gateway, by_token("a")), offered(&gateway, by_token("b"))];
        let Notified::Later { .. } = next(&offered(&gateway, by_token("one too many"))) else {
            panic!("there is no room")
        };
        application.expect(status);
        for told in [&first, &waiting[0], &waiting[1], &offered(&gateway, by_token("after"))] {
            let Notified::Later { rest_ms } = next(told) else { panic!("{status}") };
            assert!((500..=1_000).contains(&rest_ms), "{rest_ms}");
        }
        gateway.end();
    }
    let nobody = gateway("http://127.0.0.1:1/", limits(), control::Answer::Busy);
    let Notified::Later { .. } = next(&offered(&nobody, by_token("t"))) else { panic!("nobody") };
    nobody.end();
    let none = gateway("", limits(), control::Answer::Busy);
    assert_eq!(next(&offered(&none, by_token("t"))), Notified::Refused);
}

#[test]
fn what_is_for_devices_of_miop_is_a_push_and_its_outcome_is_the_answer() {
    let device = |name: &str| model::id::DeviceId::parse(name).expect("allowed");
    let product = || model::id::ProductKey::parse("shop").expect("allowed");
    let pushed = |outcome| {
        let (id, outcomes) = (MessageId(7), vec![(device("phone"), outcome)]);
        let counts = model::ports::pushes::PushCounts::default();
        control::Answer::Push(PushAnswer::Pushed { id, outcomes, counts })
    };
    let rejected = |why| pushed(Outcome::Rejected(why));
    let later = Notified::Later { rest_ms: 0 };
    let taken = Notified::Taken { gone: vec![] };
    for (answer, expected) in [
        (pushed(Outcome::Stored), taken.clone()),
        (pushed(Outcome::Delivered), taken),
        (rejected(Rejection::UnknownDevice), Notified::Taken { gone: vec!["phone".into()] }),
        (rejected(Rejection::Busy), later.clone()),
        (control::Answer::Push(PushAnswer::UnknownProduct), Notified::Refused),
        (control::Answer::Push(PushAnswer::StoreFailed), later.clone()),
        (control::Answer::Busy, later),
    ] {
        let gateway = gateway("", limits(), answer);
        let (product, devices) = (product(), vec![device("phone")]);
        let told = offered(&gateway, order(NotificationTargets::Miop { product, devices }));
        assert_eq!(next(&told), expected);
        gateway.end();
    }
}
