//! The network by itself: what is sent arrives, edges are edges, ends end.

use super::*;
use base::prng::Prng;
use net::transport::Got;
use std::io::IoSlice;
use std::net::SocketAddr;

const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

/// Two hosts and a link between them, accepted and watched under tokens 7 and 8.
fn link(seed: u64, weather: Weather) -> (Fabric, Socket, Socket) {
    let mut fabric = Fabric::new(seed, weather);
    let (caller, callee) = (fabric.add_host(), fabric.add_host());
    fabric.listen(callee, 0, HERE);
    let one = fabric.dial(caller, HERE);
    fabric.adopt(caller, &one, 7);
    fabric.pass(Duration::from_secs(1));
    let other = fabric.accept(callee, 0).expect("somebody called");
    fabric.adopt(callee, &other, 8);
    ready(&mut fabric, 0);
    ready(&mut fabric, 1);
    (fabric, one, other)
}

fn ready(fabric: &mut Fabric, host: HostId) -> Vec<ReadyEvent> {
    let mut ready = Vec::new();
    while {
        let before = ready.len();
        fabric.wait(host, None, &mut ready);
        ready.len() > before
    } {}
    ready
}

fn send(fabric: &mut Fabric, socket: &Socket, bytes: &[u8]) -> usize {
    match fabric.send(socket, &[IoSlice::new(bytes)]) {
        Got::Bytes(count) => count,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bytes_arrive_in_order_however_they_are_cut() {
    for seed in 0..200 {
        let weather = Weather {
            window_bytes_min: 1,
            window_bytes_max: 60,
            split_in: 1,
            short_write_in: 3,
            jitter_us: 4_000,
            ..Weather::calm()
        };
        let (mut fabric, one, other) = link(seed, weather);
        let mut rng = Prng::new(seed);
        let bytes: Vec<u8> = (0..2_000).map(|_| rng.draw() as u8).collect();
        let (mut sent, mut got, mut writable) = (0, Vec::new(), true);
        while got.len() < bytes.len() {
            while writable && sent < bytes.len() {
                match fabric.send(&one, &[IoSlice::new(&bytes[sent..])]) {
                    Got::Bytes(count) => sent += count,
                    Got::Later => writable = false,
                    other => panic!("{other:?}"),
                }
            }
            fabric.pass(Duration::from_micros(300));
            // Both sides act on edges alone: one that is missing would hang here.
            if !ready(&mut fabric, 1).is_empty() {
                let mut buffer = [0; 64];
                while let Got::Bytes(count) = fabric.receive(&other, &mut buffer) {
                    got.extend_from_slice(&buffer[..count]);
                }
            }
            writable |= !ready(&mut fabric, 0).is_empty();
            assert!(fabric.now().mono.secs() < 600, "it does not come to an end");
        }
        assert_eq!(got, bytes);
    }
}

#[test]
fn what_arrives_before_a_link_breaks_has_no_gap() {
    for seed in 0..200 {
        let faults = if seed % 2 == 0 { (2, 0) } else { (0, 2) };
        let weather = Weather {
            cut_in: faults.0,
            reset_in: faults.1,
            split_in: 2,
            short_write_in: 2,
            jitter_us: 4_000,
            ..Weather::calm()
        };
        let (mut fabric, one, other) = link(seed, weather);
        let bytes: Vec<u8> = (0..200).collect();
        let mut sent = 0;
        // The sender goes on until it hears that the link is broken, as a real one does.
        while sent < bytes.len() {
            match fabric.send(&one, &[IoSlice::new(&bytes[sent..])]) {
                Got::Bytes(count) => sent += count,
                Got::Later => {}
                _ => break,
            }
            fabric.pass(Duration::from_micros(100));
        }
        fabric.pass(Duration::from_secs(1));
        let (mut got, mut buffer) = (Vec::new(), [0; 64]);
        while let Got::Bytes(count) = fabric.receive(&other, &mut buffer) {
            got.extend_from_slice(&buffer[..count]);
        }
        assert!(bytes.starts_with(&got), "seed {seed}: {got:?}");
    }
}

#[test]
fn an_edge_is_told_once() {
    let (mut fabric, one, other) = link(1, Weather::calm());
    send(&mut fabric, &one, b"x");
    assert_eq!(ready(&mut fabric, 1), [], "not before it arrived");
    fabric.pass(Duration::from_millis(5));
    let edge = ReadyEvent::Socket { token: 8, readable: true, writable: true, ended: false };
    assert_eq!(ready(&mut fabric, 1), [edge]);
    fabric.pass(Duration::from_secs(5));
    assert_eq!(ready(&mut fabric, 1), [], "unread bytes alone are no edge");
    assert_eq!(fabric.receive(&other, &mut [0; 9]), Got::Bytes(1));
    assert_eq!(fabric.receive(&other, &mut [0; 9]), Got::Later);
}

#[test]
fn an_end_comes_behind_the_bytes_and_a_reset_is_told() {
    let (mut fabric, one, other) = link(2, Weather::calm());
    send(&mut fabric, &one, b"bye");
    fabric.close(one, false);
    fabric.pass(Duration::from_millis(5));
    let edge = ReadyEvent::Socket { token: 8, readable: true, writable: true, ended: true };
    assert_eq!(ready(&mut fabric, 1), [edge]);
    assert_eq!(fabric.receive(&other, &mut [0; 9]), Got::Bytes(3));
    assert_eq!(fabric.receive(&other, &mut [0; 9]), Got::End);
    send(&mut fabric, &other, b"nobody reads this");
    fabric.pass(Duration::from_millis(5));
    let broken = Got::Failed(CloseReason::PeerReset);
    assert_eq!(fabric.receive(&other, &mut [0; 9]), broken);
    fabric.close(other, false);
    assert_eq!((fabric.open_at(0), fabric.open_at(1)), (0, 0));
}

#[test]
fn whoever_sends_into_the_void_times_out() {
    let (mut fabric, one, other) = link(3, Weather::calm());
    fabric.vanish_all();
    send(&mut fabric, &one, b"hello?");
    fabric.pass(Duration::from_secs(29));
    assert_eq!((ready(&mut fabric, 0), ready(&mut fabric, 1)), (vec![], vec![]));
    fabric.pass(Duration::from_secs(2));
    let timed_out = Got::Failed(CloseReason::TimedOut);
    assert_eq!(fabric.receive(&one, &mut [0; 9]), timed_out);
    assert_eq!(ready(&mut fabric, 0).len(), 1);
    assert_eq!(fabric.receive(&other, &mut [0; 9]), Got::Later, "the other end knows nothing");
}

#[test]
fn a_call_to_nobody_is_refused() {
    let mut fabric = Fabric::new(4, Weather::calm());
    let host = fabric.add_host();
    let socket = fabric.dial(host, HERE);
    fabric.adopt(host, &socket, 7);
    fabric.pass(Duration::from_secs(1));
    assert_eq!(ready(&mut fabric, host).len(), 1);
    assert_eq!(fabric.dialled(&socket), Err(CloseReason::ConnectRefused));
}
