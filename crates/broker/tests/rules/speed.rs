//! Cost of a message, measured by hand: `cargo test -p broker --test rules speed -- --ignored
//! --nocapture`.

use crate::harness::{BrokerHarness, connect, message};
use model::session::*;
use model::topic::Qos;
use std::sync::Arc;

/// Subscribers to a filter, and deliveries of a message to them.
struct Shape {
    filter: &'static str,
    subscribers: usize,
    fan: usize,
    qos: Qos,
}

const fn shape(filter: &'static str, subscribers: usize, fan: usize, qos: Qos) -> Shape {
    Shape { filter, subscribers, fan, qos }
}

const SHAPES: [Shape; 6] = [
    shape("a/b/c", 1, 1, Qos::AtMostOnce),
    shape("a/b/c", 1, 1, Qos::AtLeastOnce),
    shape("a/b/c", 1_000, 1_000, Qos::AtMostOnce),
    shape("a/b/c", 1_000, 1_000, Qos::AtLeastOnce),
    shape("$share/g/a/b/c", 1_000, 1, Qos::AtMostOnce),
    shape("$share/g/a/b/c", 1_000, 1, Qos::AtLeastOnce),
];

#[test]
#[ignore = "a measurement"]
fn what_a_message_costs() {
    // One shape alone, for whoever counts instructions.
    let only: Option<usize> = std::env::var("SHAPE").ok().and_then(|text| text.parse().ok());
    for (at, shape) in SHAPES.iter().enumerate() {
        if only.is_none_or(|only| only == at) {
            measure(shape);
        }
    }
}

fn measure(&Shape { filter, subscribers, fan, qos }: &Shape) {
    let mut world = BrokerHarness::new(1);
    let clients: Vec<_> = (0..subscribers).map(|n| world.client(connect(&n.to_string()))).collect();
    for client in &clients {
        world.subscribe(client, filter, qos);
    }
    let source = world.client(connect("source"));
    let rounds = 1_000_000 / fan;
    let words: Vec<_> = (0..rounds)
        .map(|_| SessionRequest::Publish {
            session: source.session,
            id: u16::from(qos != Qos::AtMostOnce),
            again: false,
            message: Arc::new(message("a/b/c", qos, "0123456789abcdef")),
        })
        .collect();
    let node = &mut world.nodes[0];
    node.fx.events_wanted = false;
    let (before, mut turn) = (cpu(), 0);
    for word in words {
        node.broker.request(world.now, source.conn, word, &mut node.fx);
        if qos != Qos::AtMostOnce {
            let acks = node.fx.deliveries.iter().filter_map(|(conn, word)| match word {
                SessionDelivery::Publish(outgoing) => Some((*conn, outgoing.id)),
                _ => None,
            });
            let acks: Vec<_> = acks.collect();
            node.fx.deliveries.clear();
            for (conn, id) in acks {
                let client = &clients[turn % subscribers];
                turn += 1;
                assert_eq!(client.conn, conn, "they take turns");
                let step = AckStep::Puback(false);
                let word = SessionRequest::Acked { session: client.session, id, step };
                node.broker.request(world.now, conn, word, &mut node.fx);
            }
        }
        node.fx.deliveries.clear();
    }
    let nanos = (cpu() - before) / 1_000_000;
    eprintln!("{fan} of {subscribers} at {qos:?}, {filter}: {nanos} ns a delivery");
}

/// CPU time of this thread, nanoseconds, from /proc: no clock is read.
fn cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says it");
    text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number")
}
