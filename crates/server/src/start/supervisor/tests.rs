//! A supervisor of the test's own: a socket of datagrams.

use super::*;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::IoSliceMut;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;

/// The next datagram, and the sockets that came with it.
fn next(supervisor: &UnixDatagram) -> (String, Vec<OwnedFd>) {
    let mut text = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut pieces = [IoSliceMut::new(&mut text)];
    let got =
        recvmsg(supervisor, &mut pieces, &mut control, RecvFlags::empty()).expect("a datagram");
    let sockets = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
        _ => None,
    });
    let sockets = sockets.flatten().collect();
    (String::from_utf8_lossy(&text[..got.bytes]).into_owned(), sockets)
}

#[test]
fn it_is_told_by_datagrams_to_its_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let theirs = UnixDatagram::bind(&path).expect("free");
    let address = path.to_str().expect("a path of letters").to_owned();
    let supervisor = Supervisor::at(Some(&address), Some(Duration::from_secs(3)));
    assert!(supervisor.is_there() && supervisor.watchdog() == Some(Duration::from_secs(3)));
    supervisor.tell(LifeSign::Ready("well"));
    assert_eq!(next(&theirs).0, "READY=1\nSTATUS=well");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    supervisor.keep("mqtt.0", listener.as_fd());
    let (text, sockets) = next(&theirs);
    assert_eq!((text.as_str(), sockets.len()), ("FDSTORE=1\nFDNAME=mqtt.0", 1));
    let same = TcpListener::from(sockets.into_iter().next().expect("one"));
    assert_eq!(same.local_addr().expect("bound"), listener.local_addr().expect("bound"));
}

#[test]
fn an_abstract_name_is_an_address_too() {
    let name = format!("holdline-supervisor-{}", std::process::id());
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("short");
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket");
    rustix::net::bind(&socket, &address).expect("free");
    let theirs = UnixDatagram::from(socket);
    Supervisor::at(Some(&format!("@{name}")), None).tell(LifeSign::Alive("x"));
    assert_eq!(next(&theirs).0, "WATCHDOG=1\nSTATUS=x");
}

#[test]
fn without_a_supervisor_or_with_one_that_is_gone_nothing_happens() {
    for address in
        [None, Some(String::new()), Some("x".repeat(200)), Some("/nowhere/notify".into())]
    {
        let supervisor = Supervisor::at(address.as_ref(), Some(Duration::from_secs(1)));
        supervisor.tell(LifeSign::Ready(""));
        supervisor.tell(LifeSign::Ready(""));
    }
    assert!(!Supervisor::at(None, Some(Duration::from_secs(1))).is_there());
    assert_eq!(Supervisor::at(None, Some(Duration::from_secs(1))).watchdog(), None);
}

#[test]
fn nothing_is_taken_over_that_is_another_processs() {
    let words = |pid: u32, count: &str| {
        let words = [("LISTEN_PID", pid.to_string()), ("LISTEN_FDS", count.to_owned())];
        Inherited::take(words.into_iter().map(|(name, value)| (name.to_owned(), value)))
    };
    assert!(words(std::process::id() + 1, "1").sockets.is_empty());
    assert!(words(std::process::id(), "5000").sockets.is_empty(), "too many are none");
}
