//! Queries, Reports and their quota, gauges.

use crate::harness::{HubHarness, id, product, settings, tag};
use model::counters::PushCounter;
use model::id::ProductKey;
use model::ports::events::DeviceWhat;
use model::ports::pushes::{DeviceState, PushAnswer, PushCommand};
use model::product::Product;
use model::request::{PushDelivery, PushRequest, Refusal};

fn page(world: &mut HubHarness, command: PushCommand) -> (Vec<DeviceState>, Option<u64>) {
    match world.command(command) {
        PushAnswer::Page { devices, next } => (devices, next),
        other => panic!("no page: {other:?}"),
    }
}

fn all(world: &mut HubHarness, online: Option<bool>, tag: Option<&str>, count: u32) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), None);
    for _ in 0..100 {
        let product = Some(ProductKey::parse("p").expect("a name"));
        let tag = tag.map(crate::harness::tag);
        let (devices, next) = page(world, PushCommand::List { product, online, tag, after, count });
        assert!(devices.len() <= count as usize);
        names.extend(devices.into_iter().map(|state| state.device.to_string()));
        if next.is_none() {
            names.sort();
            return names;
        }
        after = next;
    }
    panic!("pages without end");
}

#[test]
fn pages_show_every_device_once() {
    let mut world = HubHarness::new();
    let seats: Vec<_> = (10..30).map(|n| world.seat(&format!("d{n}"))).collect();
    world.close(&seats[3]);
    let mut tagged = HubHarness::bind("tagged-with-a-long-name");
    tagged.tags = Some(vec![tag("t")]);
    world.seat_with(tagged);
    let names = all(&mut world, None, None, 7);
    assert_eq!(names.len(), 21);
    assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(all(&mut world, Some(false), None, 7), ["d13"]);
    assert_eq!(all(&mut world, Some(true), None, 20).len(), 20);
    assert_eq!(all(&mut world, None, Some("t"), 1), ["tagged-with-a-long-name"]);
    assert_eq!(all(&mut world, None, Some("u"), 1), [""; 0]);
    let everybody =
        PushCommand::List { product: None, online: None, tag: None, after: None, count: 99 };
    assert_eq!(page(&mut world, everybody).0.len(), 21);
}

#[test]
fn a_state_says_what_is_known() {
    let mut world = HubHarness::new();
    let mut bind = HubHarness::bind("d");
    (bind.inflight_max, bind.tags) = (1, Some(vec![tag("t")]));
    let seat = world.seat_with(bind);
    world.give("d");
    world.give("d");
    let state = world.state("d").expect("known");
    assert_eq!((state.online, state.protocol, state.epoch), (true, "miop7", seat.bound.epoch));
    assert_eq!((state.inflight, state.waiting), (1, 2));
    assert_eq!((state.heartbeat_s, state.tags.len()), (seat.bound.heartbeat_s, 1));
    assert_eq!((state.reason, state.blocked), (None, false));
    assert_eq!(world.state("stranger"), None);
}

#[test]
fn names_of_an_unknown_product_are_answered() {
    let mut world = HubHarness::new();
    let product = ProductKey::parse("q").expect("a name");
    for command in [
        PushCommand::States { product: product.clone(), devices: vec![id("d")] },
        PushCommand::Kick { product: product.clone(), device: id("d"), addrs: Vec::new() },
        PushCommand::SetTags { product: product.clone(), device: id("d"), tags: Vec::new() },
        PushCommand::Configure { product: product.clone() },
        PushCommand::Block { product: product.clone(), device: id("d"), blocked: true },
    ] {
        assert_eq!(world.command(command), PushAnswer::UnknownProduct);
    }
    let token = PushCommand::Token { product, device: id("d"), user: None, until: 0 };
    assert_eq!(world.command(token), PushAnswer::Token(None));
}

#[test]
fn a_report_is_told_and_taken() {
    let mut world = HubHarness::new();
    let seat = world.seat("d");
    world.events();
    let body: Box<[u8]> = Box::from(*b"21.5");
    let (term, seq, device) = (0, 5, seat.device);
    world.ask(seat.conn, PushRequest::Report { term, device, seq, body: body.clone() });
    assert_eq!(world.deliveries(), [(seat.conn, PushDelivery::ReportTaken { term, seq })]);
    let events = world.events();
    assert_eq!(events[0].what, DeviceWhat::Report { seq, body });
    assert_eq!((events[0].epoch, &events[0].device), (seat.bound.epoch, &id("d")));
}

#[test]
fn reports_over_quota_are_refused_until_time_has_passed() {
    let mut world = HubHarness::with(Product { reports_per_s: 2, ..product() }, settings());
    let seat = world.seat("d");
    let taken = |world: &mut HubHarness, count: u32| {
        for seq in 0..count {
            let (device, body) = (seat.device, Box::default());
            world.ask(seat.conn, PushRequest::Report { term: 0, device, seq, body });
        }
        let deliveries = world.deliveries();
        let refused = deliveries.iter().filter(|(_, delivery)| {
            matches!(delivery, PushDelivery::ReportRefused { why: Refusal::Quota, .. })
        });
        deliveries.len() - refused.count()
    };
    assert_eq!(taken(&mut world, 30), 20, "ten seconds' worth");
    world.pass_ms(1_000);
    assert_eq!(taken(&mut world, 30), 2);
    world.pass_ms(60_000);
    assert_eq!(taken(&mut world, 30), 20);
    assert_eq!(world.count(PushCounter::Reports), 42);
    assert_eq!(world.count(PushCounter::ReportsRefused), 48);
    world.hub.audit();
}

#[test]
fn reports_are_taken_when_nobody_listens() {
    let mut world = HubHarness::new();
    world.fx.events_wanted = false;
    let seat = world.seat("d");
    let (term, seq) = (0, 1);
    let ask = PushRequest::Report { term, device: seat.device, seq, body: Box::default() };
    world.ask(seat.conn, ask);
    assert_eq!(world.deliveries(), [(seat.conn, PushDelivery::ReportTaken { term, seq })]);
    assert_eq!((world.events().len(), world.count(PushCounter::Reports)), (0, 1));
}

#[test]
fn gauges_count_devices_and_pushes() {
    let mut world = HubHarness::new();
    let seat = world.seat("a");
    world.seat("b");
    world.give("c");
    world.close(&seat);
    let status = world.hub.status();
    assert_eq!((status.devices, status.online, status.waiting), (3, 1, 1));
    assert_eq!(status.waiting_bytes, 69);
}
