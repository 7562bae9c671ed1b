//! The faulty server fails as it is told, and counts it.

use super::*;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

fn call(server: &Faulty) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    stream.write_all(b"hello").expect("it is open");
    stream
}

fn all(mut stream: TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut bytes = Vec::new();
    let error = stream.read_to_end(&mut bytes).err().map(|error| error.kind());
    (bytes, error)
}

#[test]
fn every_fate_is_carried_out_and_counted_once() {
    let echo: FaultyAnswer = Arc::new(|heard: &mut Vec<u8>| std::mem::take(heard));
    let server = Faulty::start(vec![
        ConnectionFate::new(
            "clean",
            [FateStep::Hear, FateStep::Say(b"bye".to_vec()), FateStep::Close],
        ),
        ConnectionFate::new("reset", [FateStep::Hear, FateStep::Reset]),
        ConnectionFate::new(
            "slow",
            [FateStep::Drip(b"x".to_vec(), 3, Duration::from_millis(1)), FateStep::Close],
        ),
        ConnectionFate::new("echo", [FateStep::Reply(echo.clone()), FateStep::Close]),
        ConnectionFate::new("served", [FateStep::Serve(echo)]),
        ConnectionFate::new("held", [FateStep::Hold]),
    ]);
    let ends: Vec<_> = (0..4).map(|_| all(call(&server))).collect();
    let reset = Some(ErrorKind::ConnectionReset);
    let told = [&b"bye"[..], b"", b"xxx", b"hello"];
    for (at, (bytes, error)) in ends.iter().enumerate() {
        assert_eq!((&bytes[..], *error), (told[at], reset.filter(|_| at == 1)));
    }
    let mut served = call(&server);
    let mut back = [0; 5];
    served.read_exact(&mut back).expect("it answers");
    assert_eq!(&back, b"hello");
    let held = call(&server);
    // The seventh caller has the first fate again; once it has its answer, the sixth is held.
    assert_eq!(all(call(&server)).0, b"bye");
    assert_eq!((server.accepted(), server.count("clean"), server.count("reset")), (7, 2, 1));
    assert_eq!((server.count("served"), server.count("nothing")), (1, 0));
    drop(server);
    assert!(all(held).1.is_none_or(|kind| kind == ErrorKind::ConnectionReset), "it is over");
}

#[test]
fn what_one_says_reaches_another() {
    let to_next: Mediator = Arc::new(|from, heard: &mut Vec<u8>| {
        vec![((from + 1) % 2, std::mem::take(heard)), (from, b"passed".to_vec())]
    });
    let server = Faulty::start(vec![ConnectionFate::new(
        "passes",
        [FateStep::Hear, FateStep::Mediate(to_next)],
    )]);
    let [mut one, mut other] = [call(&server), call(&server)];
    assert!(server.wait("passes", 2, Duration::from_secs(30)), "both are there");
    one.write_all(b"to you").expect("it is open");
    let mut back = [0; 6];
    other.read_exact(&mut back).expect("it was passed on");
    assert_eq!(&back, b"to you");
    one.read_exact(&mut back).expect("it was told");
    assert_eq!(&back, b"passed");
}

#[test]
fn gates_refuse_or_stay_silent() {
    let closed = HeldPort::closed();
    let refused = TcpStream::connect(closed.address()).map_err(|error| error.kind());
    assert_eq!(refused.err(), Some(ErrorKind::ConnectionRefused));
    let full = HeldPort::full(0);
    let _first = TcpStream::connect(full.address()).expect("the kernel takes one");
    let span = Duration::from_millis(50);
    let second = TcpStream::connect_timeout(&full.address(), span).map_err(|error| error.kind());
    assert_eq!(second.err(), Some(ErrorKind::TimedOut));
}
