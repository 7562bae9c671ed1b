//! Memory that others can make grow is counted as it is allocated, and stays below its limit.

use crate::harness::{BrokerHarness, Client, connect, durable, limits, message, retained, wish};
use model::session::*;
use model::topic::{Qos, RetainHandling, SubscriptionOptions};
use std::sync::Arc;

/// Memory of an entry, bytes: `ENTRY_BYTES` of the broker.
const ENTRY: u64 = 45;

fn with(change: impl Fn(&mut model::limits::TopicLimits) + 'static) -> BrokerHarness {
    BrokerHarness::with(1, move |settings| {
        let mut limits = limits();
        change(&mut limits.topics);
        settings.limits = Arc::new(limits);
    })
}

#[test]
fn places_in_queues_are_counted_and_bounded() {
    const MOST: u64 = 1_000_000;
    for keeps in [true, false] {
        // What waits for who is here and reads no more is in memory, and what is in the log of who
        // is away only while the log is asked.
        let mut world = with(|limits| limits.queues_bytes_max = MOST);
        for n in 0..100 {
            let wish = if keeps { connect(&n.to_string()) } else { durable(&n.to_string()) };
            let client = world.client(ConnectRequest { receive_max: 1, ..wish });
            world.subscribe(&client, "t", Qos::AtLeastOnce);
            if !keeps {
                world.cut(&client);
            }
        }
        let source = world.client(ConnectRequest { receive_max: u16::MAX, ..connect("source") });
        // A log that does not answer yet is no way around the limit.
        world.keeps = keeps;
        for id in 1..=900 {
            world.send(&source, id, message("t", Qos::AtLeastOnce, "x"));
        }
        world.keeps = true;
        world.run();
        let status = world.status();
        assert!(!keeps || status.queued_bytes >= status.queued * ENTRY, "{status:?}");
        assert!(status.queued_bytes <= MOST, "{status:?}");
        assert_eq!(status.queued + world.dropped(Drop::QueueBytes), 90_000);
        assert!(status.queued > 7_000, "what there is room for is kept: {status:?}");
        world.audit();
        for n in 0..100 {
            world.client(connect(&n.to_string()));
        }
        assert_eq!((world.status().queued, world.status().queued_bytes), (0, 0));
        world.audit();
    }
}

#[test]
fn a_session_has_its_places_within_its_own_limit() {
    let mut world = with(|limits| limits.queue_bytes_max = 50_000);
    let away = world.client(durable("a"));
    world.subscribe(&away, "t", Qos::AtLeastOnce);
    world.cut(&away);
    let source = world.client(connect("source"));
    for id in 1..=1_000 {
        world.send(&source, id, message("t", Qos::AtLeastOnce, "x"));
    }
    let queued = world.status().queued;
    assert!(queued * ENTRY < 50_000 && queued > 200, "{queued}");
    assert_eq!(world.dropped(Drop::QueueBytes), 1_000 - queued);
}

/// A client behind a page that it does not read, with many subscriptions behind it.
fn walker(world: &mut BrokerHarness, id: &str, filters: usize) -> Client {
    let client = world.client(connect(id));
    world.subscribe_with(&client, vec![wish("p/#", Qos::AtMostOnce)], None);
    let wishes = (0..filters).map(|n| wish(&format!("t/{n}"), Qos::AtMostOnce)).collect();
    world.subscribe_with(&client, wishes, None);
    let live = SubscriptionOptions {
        retain_handling: RetainHandling::DoNotSend,
        ..wish("l/#", Qos::AtMostOnce)
    };
    world.subscribe_with(&client, vec![live], None);
    client
}

#[test]
fn a_session_replays_once_at_a_time_and_notes_within_a_limit() {
    const FILTERS: usize = 3_000;
    const MOST: u64 = 65_536;
    let mut world = with(|limits| limits.retained_walks_bytes_max = MOST);
    let source = world.client(connect("source"));
    for n in 0..FILTERS {
        world.send(&source, 0, retained(&format!("t/{n}"), Qos::AtMostOnce, "kept"));
    }
    (0..200)
        .for_each(|n| world.send(&source, 0, retained(&format!("p/{n}"), Qos::AtMostOnce, "kept")));
    let walkers: Vec<_> = (0..4).map(|n| walker(&mut world, &n.to_string(), FILTERS)).collect();
    for n in 0..2_000 {
        world.send(&source, 0, retained(&format!("l/{n}"), Qos::AtMostOnce, "live"));
        let bytes = world.nodes[0].broker.replays_bytes();
        assert!(bytes > 0 && bytes <= MOST, "{bytes} after {n}");
    }
    let mut kept = 0;
    loop {
        let messages = world.messages(&walkers[0]);
        if messages.is_empty() {
            break;
        }
        kept += messages.iter().filter(|it| it.message.topic().starts_with('t')).count();
        let session = walkers[0].session;
        world.ask(walkers[0].conn, SessionRequest::Ready { session });
    }
    assert_eq!(kept, FILTERS, "what waited comes");
    walkers.iter().for_each(|walker| world.cut(walker));
    world.pass_s(60);
    assert_eq!(world.nodes[0].broker.replays_bytes(), 0);
    world.audit();
}
