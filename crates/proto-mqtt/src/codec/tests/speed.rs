//! Cost of reading and writing, in nanoseconds a packet: numbers to know, nothing is asserted.
//!
//! `cargo test --release -- --ignored --nocapture nanoseconds`

use crate::codec::ack::Ack;
use crate::codec::block::Properties;
use crate::codec::fanout::{Alias, FanoutMessage, ReceiverFields, Shape, patch};
use crate::codec::{
    DecodeRules, PacketKind, Qos, Sender, Terms, Version, connect::Connect, decode, decode_first,
};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: u32 = 1_000_000;

/// The best of five, printed.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
pub(crate) fn time(what: &str, mut once: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        (0..ROUNDS / 5).for_each(|_| once());
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS / 5));
    }
    println!("{what:50} {best:8.1} ns");
}

/// A message as it comes and goes: a topic of three levels and 64 bytes.
fn publish(version: Version, qos: Qos) -> Vec<u8> {
    let properties = Properties::default();
    let payload = &[7; 64];
    let message =
        FanoutMessage { topic: "dev/device-0001/out", properties, expiry_s: None, payload };
    let mut bytes = Vec::new();
    let id_at = message.frame(Shape { version, qos, retain: false }, &mut bytes).expect("it fits");
    if let Some(id_at) = id_at {
        patch(&mut bytes, id_at, 1, false);
    }
    bytes
}

#[test]
#[ignore = "a measurement"]
fn nanoseconds_a_packet_read() {
    for version in [Version::V311, Version::V5] {
        let rules = DecodeRules::strict(Sender::Client, version);
        for qos in [Qos::AtMostOnce, Qos::AtLeastOnce] {
            let bytes = publish(version, qos);
            let what = format!("read PUBLISH {} {qos:?}, 64 bytes", version.name());
            time(&what, || drop(black_box(decode(black_box(&bytes), &rules))));
        }
        let bytes = [0x40, 2, 0, 1];
        time(&format!("read PUBACK {}", version.name()), || {
            drop(black_box(decode(black_box(&bytes), &rules)))
        });
        time(&format!("read PINGREQ {}", version.name()), || {
            drop(black_box(decode(black_box(&[0xc0, 0]), &rules)))
        });
        let mut bytes = Vec::new();
        Connect::of(version, "device-0000-0001").write(&Terms::of(version), &mut bytes).unwrap();
        time(&format!("read CONNECT {}", version.name()), || {
            drop(black_box(decode_first(black_box(&bytes), &rules)))
        });
    }
}

#[test]
#[ignore = "a measurement"]
fn nanoseconds_a_packet_written() {
    let properties = Properties::default();
    let payload = &[7; 64];
    let message =
        FanoutMessage { topic: "dev/device-0001/out", properties, expiry_s: None, payload };
    let mut out = Vec::with_capacity(4_096);
    for version in [Version::V311, Version::V5] {
        let shape = Shape { version, qos: Qos::AtLeastOnce, retain: false };
        time(&format!("make a frame {}", version.name()), || {
            out.clear();
            let _ = black_box(message.frame(shape, &mut out));
        });
        let mut frame = Vec::new();
        let id_at = message.frame(shape, &mut frame).expect("it fits").expect("QoS 1");
        time(&format!("copy and patch a frame {}", version.name()), || {
            out.clear();
            out.extend_from_slice(black_box(&frame));
            patch(&mut out, id_at, black_box(5), false);
            black_box(&out);
        });
        let (terms, mut tail) = (Terms::of(version), Vec::new());
        let length = message.tail(version, &mut tail);
        let own =
            ReceiverFields { id: 5, alias: Alias::Known(9), subscription_ids: &[4], dup: false };
        time(&format!("write a head of one's own {}", version.name()), || {
            out.clear();
            let _ = black_box(message.head(shape, black_box(&own), length, &terms, &mut out));
        });
        time(&format!("write PUBACK {}", version.name()), || {
            out.clear();
            let _ = black_box(Ack::of(black_box(5)).write(PacketKind::Puback, &terms, &mut out));
        });
    }
}
