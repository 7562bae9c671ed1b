//! The caller against a listener of this process, over loopback and port 0.

use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// A listener whose connections are served, one after the other, by `serve`.
fn listen(count: usize, serve: fn(TcpStream)) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accept = move || {
        let taken: Vec<_> = (0..count).map(|_| listener.accept().unwrap().0).collect();
        taken.into_iter().for_each(serve);
    };
    (address, std::thread::Builder::new().spawn(accept).unwrap())
}

#[test]
fn mute_lines_open_and_exchange() {
    let (to, served) = listen(1, |mut stream| {
        let mut buffer = [0; 64];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            stream.write_all(&buffer[..count]).unwrap();
        }
    });
    let mut caller = Caller::new(to, Speech::Mute).unwrap();
    caller.open(1, 5, 0).unwrap();
    assert_eq!(caller.exchange(Duration::ZERO, 16).unwrap(), 16);
    assert_eq!(caller.exchange(Duration::ZERO, 1).unwrap(), 1);
    caller.close();
    served.join().unwrap();
}

#[test]
fn a_line_that_the_other_end_closes_is_an_error() {
    let (to, served) = listen(1, |_| {});
    let mut caller = Caller::new(to, Speech::Hello).unwrap();
    assert!(caller.open(1, 1, 0).is_err());
    served.join().unwrap();
}
