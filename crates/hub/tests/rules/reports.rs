//! Reports for webhooks are on stable storage before they are accepted.

use crate::harness::{HubHarness, Seat, product, settings};
use hub::decode_event;
use model::counters::PushCounter;
use model::id::ProductKey;
use model::ports::backlog::ReportHook;
use model::ports::events::DeviceWhat;
use model::ports::log::StoreError;
use model::product::Product;
use model::request::{PushDelivery, PushRequest, Refusal};
use model::service::Service as _;
use model::timeline::{Space, TimelineId};

fn hook(name: &str) -> TimelineId {
    TimelineId::of(Space::Reports, settings().home, &[name.as_bytes()])
}

fn hooked() -> HubHarness {
    let other = ProductKey::parse("q").expect("a name");
    let report_hooks = vec![
        ReportHook { product: None, timeline: hook("all") },
        ReportHook { product: Some(product().key), timeline: hook("p") },
        ReportHook { product: Some(other), timeline: hook("q") },
    ];
    let product = Product { reports_per_s: 1_000, ..product() };
    let mut world = HubHarness::with(product, hub::Settings { report_hooks, ..settings() });
    world.keeps = false;
    world
}

fn report(world: &mut HubHarness, seat: &Seat, seq: u32) {
    let body = Box::from(*b"21.5");
    world.ask(seat.conn, PushRequest::Report { term: 0, device: seat.device, seq, body });
}

#[test]
fn a_report_is_taken_when_it_is_stored_for_those_who_want_it() {
    let mut world = hooked();
    let seat = world.seat("d");
    world.settle();
    world.deliveries();
    world.events();
    report(&mut world, &seat, 5);
    assert_eq!((world.deliveries(), world.events()), (vec![], vec![]));
    world.hub.audit();
    world.complete(Ok(()));
    assert_eq!(world.deliveries(), [(seat.conn, PushDelivery::ReportTaken { term: 0, seq: 5 })]);
    let events = world.events();
    assert_eq!(events.len(), 1, "whoever listens hears of it too");
    assert_eq!(events[0].what, DeviceWhat::Report { seq: 5, body: Box::from(*b"21.5") });
    assert_eq!(world.log.messages(hook("q")).len(), 0);
    for name in ["all", "p"] {
        let messages = world.log.messages(hook(name));
        assert_eq!(messages.len(), 1);
        assert_eq!(decode_event(&messages[0].body).as_ref(), Some(&events[0]));
    }
    world.restart();
    assert_eq!(world.log.kept(Space::Reports).len(), 2, "they are the couriers' to remove");
    world.hub.audit();
}

#[test]
fn a_report_that_is_not_stored_is_refused() {
    for error in [StoreError::Full, StoreError::Busy, StoreError::Failed] {
        let mut world = hooked();
        let seat = world.seat("d");
        world.settle();
        world.deliveries();
        world.events();
        report(&mut world, &seat, 5);
        world.complete(Err(error));
        let (term, seq, why) = (0, 5, Refusal::Busy);
        assert_eq!(
            world.deliveries(),
            [(seat.conn, PushDelivery::ReportRefused { term, seq, why })]
        );
        assert_eq!((world.count(PushCounter::ReportsRefused), world.events().len()), (1, 0));
        world.hub.audit();
    }
}

#[test]
fn who_left_meanwhile_is_told_nothing() {
    let mut world = hooked();
    let seat = world.seat("d");
    report(&mut world, &seat, 5);
    world.close(&seat);
    let later = world.seat("d");
    world.deliveries();
    world.settle();
    assert_eq!((world.deliveries(), world.count(PushCounter::Reports)), (vec![], 1));
    world.close(&later);
    world.settle();
    world.hub.audit_idle();
}

#[test]
fn reports_that_wait_are_bounded() {
    let mut world = hooked();
    let seat = world.seat("d");
    world.settle();
    world.deliveries();
    (0..1_030).for_each(|seq| report(&mut world, &seat, seq));
    let refused = world.deliveries();
    assert_eq!(refused.len(), 6);
    assert!(refused.iter().all(|(_, delivery)| {
        matches!(delivery, PushDelivery::ReportRefused { why: Refusal::Busy, .. })
    }));
    world.settle();
    report(&mut world, &seat, 2_000);
    world.complete(Ok(()));
    assert_eq!(world.count(PushCounter::Reports), 1_025);
    world.hub.audit();
}

#[test]
fn webhooks_come_and_go_while_the_hub_runs() {
    let mut world = hooked();
    let seat = world.seat("d");
    world.settle();
    report(&mut world, &seat, 1);
    let hooks = ["new", "p"].map(|name| ReportHook { product: None, timeline: hook(name) });
    world.hub.set_report_hooks(&hooks);
    report(&mut world, &seat, 2);
    world.complete(Ok(()));
    world.complete(Ok(()));
    let count = |world: &HubHarness, name| world.log.messages(hook(name)).len();
    assert_eq!(["all", "p", "new"].map(|name| count(&world, name)), [1, 2, 1]);
    world.hub.set_report_hooks(&[]);
    world.deliveries();
    report(&mut world, &seat, 3);
    let taken = PushDelivery::ReportTaken { term: 0, seq: 3 };
    assert_eq!(world.deliveries(), [(seat.conn, taken)], "no webhook wants it: nothing is stored");
    assert_eq!(["all", "p", "new"].map(|name| count(&world, name)), [1, 2, 1]);
}
