//! Real bytes through the proxy, whole and broken.

use super::*;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use testkit::faulty::{ConnectionFate, FateStep, Faulty, FaultyAnswer, HeldPort};

/// An echo behind a proxy.
fn echo() -> (Faulty, Proxy) {
    let answer: FaultyAnswer = Arc::new(|heard: &mut Vec<u8>| std::mem::take(heard));
    let server = Faulty::start(vec![ConnectionFate::new("echo", [FateStep::Serve(answer)])]);
    let proxy = before(server.address());
    (server, proxy)
}

fn before(to: SocketAddr) -> Proxy {
    Proxy::start(SocketAddr::from(([127, 0, 0, 1], 0)), vec![to]).expect("a free port")
}

fn call(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).expect("it listens");
    let patience = Some(Duration::from_secs(300));
    stream.set_read_timeout(patience).expect("it is a socket");
    stream
}

fn seen(proxy: &Proxy) -> ProxyCounts {
    proxy.counts().expect("its thread turns")
}

/// Says it and hears it again.
fn passes(stream: &mut TcpStream, word: &[u8]) -> std::io::Result<()> {
    stream.write_all(word)?;
    let mut back = vec![0; word.len()];
    stream.read_exact(&mut back)?;
    assert_eq!(back, word);
    Ok(())
}

#[test]
fn bytes_pass_both_ways_in_order_and_ends_are_passed_on() {
    let (_server, proxy) = echo();
    let streams: Vec<TcpStream> = (0..20).map(|_| call(&proxy)).collect();
    let work = streams.into_iter().enumerate().map(|(number, stream)| {
        let mut writer = stream.try_clone().expect("a descriptor");
        let bytes: Vec<u8> = (0..500_000u32).map(|at| (at * 7 + number as u32) as u8).collect();
        let sent = bytes.clone();
        let write = move || {
            writer.write_all(&sent).expect("it is read");
            writer.shutdown(std::net::Shutdown::Write).expect("it is open");
        };
        let write = std::thread::Builder::new().spawn(write).expect("a thread");
        (stream, bytes, write)
    });
    for (mut stream, bytes, write) in work.collect::<Vec<_>>() {
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("the end is passed on");
        assert!(back == bytes, "{} of {} bytes came back", back.len(), bytes.len());
        write.join().expect("it wrote all");
    }
    let counts = seen(&proxy);
    assert_eq!((counts.accepted, counts.bytes_up, counts.bytes_down), (20, 10_000_000, 10_000_000));
}

#[test]
fn what_is_silenced_goes_on_later() {
    let (_server, proxy) = echo();
    let mut streams: Vec<TcpStream> = (0..10).map(|_| call(&proxy)).collect();
    streams.iter_mut().for_each(|stream| passes(stream, b"one").expect("it passes"));
    assert_eq!(proxy.set(Network::Silence, 0.5), Ok(5));
    // Half of the newcomers are silent too; the kernel completes their calls.
    streams.extend((0..2).map(|_| call(&proxy)));
    let silent: Vec<bool> = streams
        .iter_mut()
        .map(|stream| {
            stream.set_read_timeout(Some(Duration::from_millis(30))).expect("it is a socket");
            passes(stream, b"two").is_err()
        })
        .collect();
    assert_eq!(silent.iter().filter(|silent| **silent).count(), 6);
    assert_eq!(proxy.clear(), Ok(0));
    for (stream, silent) in streams.iter_mut().zip(silent) {
        stream.set_read_timeout(Some(Duration::from_secs(300))).expect("it is a socket");
        let mut back = [0; 3];
        if silent {
            stream.read_exact(&mut back).expect("what was held passes now");
            assert_eq!(&back, b"two");
        }
        passes(stream, b"six").expect("it passes");
    }
}

#[test]
fn a_share_is_reset_and_the_others_are_not() {
    let (_server, proxy) = echo();
    let mut streams: Vec<TcpStream> = (0..20).map(|_| call(&proxy)).collect();
    streams.iter_mut().for_each(|stream| passes(stream, b"one").expect("it passes"));
    let meant = proxy.set(Network::Reset, 0.25).expect("it obeys") as usize;
    assert!((4..=6).contains(&meant), "{meant} of 20");
    assert_eq!(proxy.clear(), Ok(0));
    let kinds = streams.iter_mut().map(|stream| passes(stream, b"two").err().map(|e| e.kind()));
    let broken: Vec<ErrorKind> = kinds.flatten().collect();
    assert_eq!(broken.len(), meant, "{broken:?}");
    let fine = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    assert!(broken.iter().all(|kind| fine.contains(kind)), "{broken:?}");
    let counts = seen(&proxy);
    assert_eq!((counts.reset, counts.open), (meant as u64, 20 - meant as u64));
    passes(&mut call(&proxy), b"three").expect("who comes later passes");
}

#[test]
fn callers_are_refused_and_taken_in_again() {
    let (_server, proxy) = echo();
    let mut stays = call(&proxy);
    passes(&mut stays, b"one").expect("it passes");
    proxy.set(Network::Refuse, 1.0).expect("it obeys");
    let refused = TcpStream::connect(proxy.address()).map_err(|error| error.kind());
    assert_eq!(refused.err(), Some(ErrorKind::ConnectionRefused));
    passes(&mut stays, b"two").expect("who is there stays");
    proxy.set(Network::Refuse, 0.5).expect("it obeys");
    let lucky = (0..10).filter(|_| passes(&mut call(&proxy), b"three").is_ok()).count();
    assert_eq!((lucky, seen(&proxy).refused), (5, 5));
    proxy.clear().expect("it obeys");
    passes(&mut call(&proxy), b"four").expect("all pass again");
}

#[test]
fn delays_and_throttles_are_kept() {
    let (_server, proxy) = echo();
    let mut stream = call(&proxy);
    passes(&mut stream, b"one").expect("it passes");
    let span = Duration::from_millis(40);
    let timed = |stream: &mut TcpStream, word: &[u8]| {
        let began = now();
        passes(stream, word).expect("it passes");
        now() - began
    };
    proxy.set(Network::Delay(lab::plan::Span(span)), 1.0).expect("it obeys");
    let spent = timed(&mut stream, b"two");
    assert!(spent >= 2 * span, "there and back: {spent:?}");
    // 20,000 bytes at 100,000 a second are 200 ms, less what was saved up (50 ms).
    proxy.set(Network::Throttle(100_000), 1.0).expect("it obeys");
    let spent = timed(&mut stream, &[7; 20_000]);
    assert!(spent >= Duration::from_millis(150), "{spent:?}");
    proxy.clear().expect("it obeys");
    timed(&mut stream, &[9; 200_000]);
}

#[test]
fn what_waits_passes_at_once_when_the_delay_is_over() {
    let (_server, proxy) = echo();
    let mut stream = call(&proxy);
    passes(&mut stream, b"one").expect("it passes");
    let hour = Network::Delay(lab::plan::Span::from_secs(3_600));
    proxy.set(hour, 1.0).expect("it obeys");
    stream.write_all(b"two").expect("it is open");
    // What is due in an hour does not keep what a throttle lets pass.
    proxy.set(Network::Throttle(1_000), 1.0).expect("it obeys");
    let mut back = [0; 3];
    stream.read_exact(&mut back).expect("it passes slowly");
    assert_eq!(&back, b"two");
    proxy.set(hour, 1.0).expect("it obeys");
    stream.write_all(b"six").expect("it is open");
    // Whatever of it stands in the proxy by then is let go.
    proxy.clear().expect("it obeys");
    stream.read_exact(&mut back).expect("it passes");
    assert_eq!(&back, b"six");
}

#[test]
fn a_truncated_connection_ends_in_the_middle() {
    let (_server, proxy) = echo();
    let mut stream = call(&proxy);
    passes(&mut stream, b"one").expect("it passes");
    proxy.set(Network::Truncate, 1.0).expect("it obeys");
    stream.write_all(&[5; 100]).expect("it is open");
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("it ends in order");
    assert!(back.len() <= 50, "{} bytes", back.len());
    assert_eq!(seen(&proxy).truncated, 1);
}

#[test]
fn a_target_that_is_not_there_is_told() {
    let port = HeldPort::closed();
    let proxy = before(port.address());
    let mut stream = call(&proxy);
    let kind = stream.read(&mut [0; 8]).map_err(|error| error.kind());
    assert_eq!(kind, Err(ErrorKind::ConnectionReset));
    assert_eq!(seen(&proxy).unreachable, 1);
}

#[expect(clippy::disallowed_methods, reason = "a delay is a difference of two readings")]
fn now() -> Instant {
    Instant::now()
}
