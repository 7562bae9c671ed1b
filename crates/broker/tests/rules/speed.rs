//! What a message costs, measured by hand:
//! `cargo test -p broker --test rules speed -- --ignored --nocapture`.

use crate::harness::{BrokerHarness, connect, message};
use model::session::*;
use model::topic::Qos;
use std::sync::Arc;

/// Receivers, and at which QoS.
const SHAPES: [(usize, Qos); 4] = [
    (1, Qos::AtMostOnce),
    (1, Qos::AtLeastOnce),
    (1_000, Qos::AtMostOnce),
    (1_000, Qos::AtLeastOnce),
];

#[test]
#[ignore = "a measurement"]
fn what_a_message_costs() {
    for (fan, qos) in SHAPES {
        let mut world = BrokerHarness::new(1);
        let clients: Vec<_> = (0..fan).map(|n| world.client(connect(&n.to_string()))).collect();
        for client in &clients {
            world.subscribe(client, "a/b/c", qos);
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
        let before = cpu();
        for word in words {
            node.broker.request(world.now, source.conn, word, &mut node.fx);
            if qos != Qos::AtMostOnce {
                let acks = node.fx.deliveries.iter().filter_map(|(conn, word)| match word {
                    SessionDelivery::Publish(outgoing) => Some((*conn, outgoing.id)),
                    _ => None,
                });
                let acks: Vec<_> = acks.collect();
                node.fx.deliveries.clear();
                for (at, (conn, id)) in acks.into_iter().enumerate() {
                    let step = AckStep::Puback(false);
                    assert_eq!(clients[at].conn, conn);
                    let word = SessionRequest::Acked { session: clients[at].session, id, step };
                    node.broker.request(world.now, conn, word, &mut node.fx);
                }
            }
            node.fx.deliveries.clear();
        }
        eprintln!("1 to {fan} at {qos:?}: {} ns a delivery", (cpu() - before) / 1_000_000);
    }
}

/// CPU time of this thread, nanoseconds, from /proc: no clock is read.
fn cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says it");
    text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number")
}
