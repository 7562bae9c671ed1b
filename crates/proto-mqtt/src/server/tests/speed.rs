//! Cost of a packet in the machine, in nanoseconds: numbers to know, nothing is asserted.
//!
//! `cargo test -p proto-mqtt -- --ignored --nocapture machine_nanoseconds`

use super::acks::publish;
use super::deliver::outgoing;
use super::harness::{BIND_MS, connected};
use crate::codec::connect::Connect;
use crate::codec::tests::speed::time;
use crate::codec::{Packet, Qos, Sender, Terms, Version};
use crate::server::{ListenerProfile, Server};
use base::hash::HashKey;
use base::time::Now;
use model::limits::Limits;
use model::link::{Link, Protocol};
use model::machine::{Input, Machine, Outbox};
use model::service::{Delivery, Request};
use model::session::{Outgoing, Routed, SessionDelivery as Down};
use std::hint::black_box;

struct Bench {
    machine: Server,
    link: Link,
    limits: Limits,
    out: Outbox<Request>,
}

impl Bench {
    fn of(version: Version) -> Bench {
        let mut bench = Bench {
            machine: Server::new(ListenerProfile::strict(BIND_MS)),
            link: Link::loopback(Protocol::Mqtt),
            limits: Limits::default(),
            out: Outbox::new(HashKey::new(1, 2), [0; 32]),
        };
        bench.machine.opened(Now::default(), &bench.link, &mut bench.out).expect("open");
        let mut bytes = Vec::new();
        Connect::of(version, "d").write(&Terms::of(version), &mut bytes).expect("it fits");
        bench.hear(&bytes);
        bench.hear(&bytes);
        bench.tell(Down::Connected(Box::new(connected())));
        bench
    }

    fn hear(&mut self, bytes: &[u8]) {
        let mut input = Input::new(bytes, &self.link, &self.limits);
        self.machine.receive(Now::default(), &mut input, &mut self.out).expect("it is good");
        self.empty();
    }

    fn tell(&mut self, word: Down) {
        let down = Delivery::Topics(word);
        self.machine.command(Now::default(), down, &mut self.out).expect("it goes on");
        self.empty();
    }

    fn empty(&mut self) {
        self.out.drain_wire(|piece| drop(black_box(piece)));
        self.out.words().for_each(|word| drop(black_box(word)));
        self.out.take_home();
        self.out.take_wake();
        self.out.take_packets();
        self.out.take_tell_drained();
    }
}

#[test]
#[ignore = "a measurement"]
fn machine_nanoseconds() {
    for version in [Version::V311, Version::V5] {
        let name = version.name();
        let mut bench = Bench::of(version);
        time("the measurement itself", || bench.hear(&[]));
        time(&format!("{name}: PINGREQ"), || bench.hear(&[0xc0, 0]));
        let topic = "dev/device-0001/out";
        for qos in [Qos::AtMostOnce, Qos::AtLeastOnce] {
            let mut bytes = Vec::new();
            let packet =
                crate::codec::publish::Publish { topic, payload: &[7; 64], ..publish(qos, 1) };
            Packet::Publish(packet)
                .write(Sender::Client, &Terms::of(version), &mut bytes)
                .expect("it fits");
            time(&format!("{name}: PUBLISH {qos:?} and its answer"), || {
                bench.hear(black_box(&bytes));
                if qos != Qos::AtMostOnce {
                    bench.tell(Down::Taken { id: 1, qos, result: Ok(Routed::Matched) });
                }
            });
            for shared in [false, true] {
                let one = Outgoing { shared, ..outgoing(topic, &[7; 64], qos) };
                time(&format!("{name}: a delivery {qos:?}, shared: {shared}"), || {
                    bench.tell(Down::Publish(black_box(one.clone())));
                });
            }
        }
        let one = Outgoing { shared: true, ..outgoing(topic, &[7; 8_000], Qos::AtLeastOnce) };
        time(&format!("{name}: a delivery of 8,000 bytes, shared"), || {
            bench.tell(Down::Publish(black_box(one.clone())));
        });
    }
}
