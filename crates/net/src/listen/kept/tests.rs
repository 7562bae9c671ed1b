//! Kept sockets: whose they are, and that callers who wait at them are served.

use super::*;
use crate::layer::ListenerSetup;
use crate::listen::{OpenListeners, complete, open};
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

fn tcp(address: &str) -> ListenEndpoint {
    ListenEndpoint::Tcp(address.parse().expect("an address"))
}

fn door(name: &str, address: ListenEndpoint) -> ListenerSetup {
    ListenerSetup::plain(name, address)
}

fn kept(name: &str, socket: impl Into<OwnedFd>) -> KeptSocket {
    KeptSocket { name: name.into(), socket: socket.into() }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

/// Sockets of these listeners that a service manager would keep.
fn keep(open: &OpenListeners, doors: &[ListenerSetup]) -> Vec<KeptSocket> {
    let keep = |(name, socket): (String, rustix::fd::BorrowedFd<'_>)| KeptSocket {
        name,
        socket: socket.try_clone_to_owned().expect("a descriptor"),
    };
    open.fresh(doors).map(keep).collect()
}

/// The callers that wait at the sockets of a shard.
fn waiting(sockets: &[OwnedFd]) -> usize {
    let accept = |socket: &OwnedFd| net::accept_with(socket, net::SocketFlags::CLOEXEC).is_ok();
    sockets.iter().map(|socket| std::iter::from_fn(|| accept(socket).then_some(())).count()).sum()
}

#[test]
fn a_name_or_an_address_makes_it_a_listeners() {
    let at = |text: &str| Place::Tcp(text.parse().expect("an address"));
    let file = |path: &str| Place::Unix(path.into());
    let unix = |path: &str| ListenEndpoint::Unix(path.into(), 0o600);
    for (name, found, wanted, fit) in [
        ("mqtt.3", at("127.0.0.1:1883"), tcp("127.0.0.1:1883"), true),
        ("mqtt.3", at("127.0.0.1:1883"), tcp("127.0.0.1:1884"), false),
        ("mqtt.3", at("127.0.0.1:1883"), tcp("127.0.0.1:0"), true),
        ("mqtt.3", at("127.0.0.1:1883"), tcp("0.0.0.0:0"), false),
        ("mqtt", at("0.0.0.0:99"), tcp("127.0.0.1:1884"), true),
        ("stored", at("[::1]:1883"), tcp("[::1]:1883"), true),
        ("stored", at("127.0.0.1:1883"), tcp("127.0.0.1:0"), false),
        ("mqtt-ws.0", at("127.0.0.1:7"), tcp("127.0.0.1:0"), false),
        ("mqtt.x", at("127.0.0.1:7"), tcp("127.0.0.1:0"), false),
        ("", at("127.0.0.1:7"), tcp("127.0.0.1:7"), true),
        ("mqtt", file("/run/a"), unix("/run/b"), true),
        ("mqtt.0", file("/run/a"), unix("/run/b"), false),
        ("other", file("/run/a"), unix("/run/a"), true),
        ("mqtt", file("/run/a"), tcp("127.0.0.1:7"), false),
        ("mqtt", at("127.0.0.1:7"), unix("/run/a"), false),
    ] {
        assert_eq!(fits(name, &found, ("mqtt", &wanted)), fit, "{name} {found:?} {wanted:?}");
    }
}

#[test]
fn callers_who_came_while_nobody_was_there_are_served() {
    let doors = [door("mqtt", tcp("127.0.0.1:0"))];
    let first = open(&doors, 3, 1_000, Vec::new()).expect("port 0");
    let ListenEndpoint::Tcp(at) = first.addresses[0] else { panic!("it has a port") };
    let store = keep(&first, &doors);
    let names: Vec<&str> = store.iter().map(|kept| kept.name.as_str()).collect();
    assert_eq!(names, ["mqtt.0", "mqtt.1", "mqtt.2"]);
    drop(first);
    let _callers: Vec<TcpStream> =
        (0..30).map(|_| TcpStream::connect(at).expect("it is taken in")).collect();
    // Fewer shards than before: what waits at the sockets that are too many is theirs as well.
    let again = open(&doors, 2, 1_000, store).expect("they were kept");
    assert_eq!(again.addresses, [ListenEndpoint::Tcp(at)]);
    assert_eq!((again.fresh(&doors).count(), again.unclaimed.len()), (0, 0));
    assert_eq!(again.shards.iter().map(|shard| shard[0].len()).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(again.shards.iter().map(|shard| waiting(&shard[0])).sum::<usize>(), 30);
}

#[test]
fn one_socket_does_for_many_shards() {
    let (listener, at) = listener();
    let doors = [door("mqtt", tcp("127.0.0.1:1")), door("miop", tcp("127.0.0.1:0"))];
    let opened = open(&doors, 3, 1_000, vec![kept("mqtt", listener)]).expect("they are free");
    assert_eq!(opened.addresses[0], ListenEndpoint::Tcp(at), "its name is the listener's");
    assert!(opened.shards.iter().all(|shard| shard[0].len() == 1));
    let caller = TcpStream::connect(at).expect("it listens");
    assert_eq!(waiting(&opened.shards[2][0]), 1, "each shard may take whoever comes");
    drop(caller);
    let fresh: Vec<String> = opened.fresh(&doors).map(|(name, _)| name).collect();
    assert_eq!(fresh, ["miop.0", "miop.1", "miop.2"], "the other one is the manager's own");
}

#[test]
fn what_is_no_listeners_is_left_over() {
    let (elsewhere, old) = listener();
    let (own, other) = UnixStream::pair().expect("a pair");
    let stream = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let store = vec![
        kept("mqtt.0", elsewhere),
        kept("mqtt", own),
        kept("mqtt", stream),
        kept("gone.0", other),
    ];
    let doors = [door("mqtt", tcp("127.0.0.1:0"))];
    // Port 0 is any: the first one fits, what does not listen never does.
    let opened = open(&doors, 1, 1_000, store).expect("a free port");
    assert_eq!(opened.addresses, [ListenEndpoint::Tcp(old)]);
    let left: Vec<&str> = opened.unclaimed.iter().map(|kept| kept.name.as_str()).collect();
    assert_eq!(left, ["mqtt", "mqtt", "gone.0"]);
}

#[test]
fn an_address_that_was_changed_wins() {
    let ((first, _), (second, new)) = (listener(), listener());
    drop(second);
    let doors = [door("mqtt", ListenEndpoint::Tcp(new))];
    let opened = open(&doors, 1, 1_000, vec![kept("mqtt.0", first)]).expect("it is free");
    assert_eq!(opened.addresses, [ListenEndpoint::Tcp(new)]);
    assert_eq!((opened.unclaimed.len(), opened.fresh(&doors).count()), (1, 1));
}

#[test]
fn a_kept_socket_neither_waits_nor_is_inherited() {
    let (listener, _) = listener();
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::empty()).expect("it is open");
    let doors = [door("mqtt", tcp("127.0.0.1:0"))];
    let opened = open(&doors, 1, 1_000, vec![kept("mqtt", listener)]).expect("kept");
    let socket = &opened.shards[0][0][0];
    let flags = rustix::io::fcntl_getfd(socket).expect("it is open");
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    let nobody = TcpListener::from(socket.try_clone().expect("a descriptor")).accept();
    assert_eq!(nobody.expect_err("nobody calls").kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_socket_file_stays_for_whoever_keeps_its_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mqtt.sock");
    let doors = [door("local", ListenEndpoint::Unix(path.clone(), 0o620))];
    let mut first = open(&doors, 2, 1_000, Vec::new()).expect("it is free");
    let store = keep(&first, &doors);
    assert_eq!(store.len(), 1, "all shards have the same");
    first.files.leave();
    drop(first);
    let _caller = UnixStream::connect(&path).expect("it is taken in");
    let again = open(&doors, 2, 1_000, store).expect("it was kept");
    assert_eq!(again.addresses, [doors[0].address.clone()]);
    assert_eq!(waiting(&again.shards[1][0]), 1);
    drop(again);
    assert!(path.exists(), "whoever keeps it may hand it over again");
}

#[test]
fn a_socket_whose_file_is_gone_is_not_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mqtt.sock");
    let orphan = UnixListener::bind(&path).expect("free");
    std::fs::remove_file(&path).expect("it was there");
    let doors = [door("local", ListenEndpoint::Unix(path.clone(), 0o620))];
    let opened = open(&doors, 1, 1_000, vec![kept("local.0", orphan)]).expect("it is free");
    assert_eq!((opened.unclaimed.len(), opened.fresh(&doors).count()), (1, 1));
    assert!(UnixStream::connect(&path).is_ok(), "it listens anew");
}

#[test]
fn copies_are_all_sockets_each_once_and_another_server_is_served_at_them() {
    let folder = std::env::temp_dir().join(format!("net-copies-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("local.sock");
    let doors = [
        door("mqtt", tcp("127.0.0.1:0")),
        door("local", ListenEndpoint::Unix(file.clone(), 0o600)),
    ];
    let mut old = open(&doors, 2, 1_000, Vec::new()).expect("free");
    let copies = old.copies(&doors).expect("descriptors");
    let mut names: Vec<_> = copies.iter().map(|kept| kept.name.clone()).collect();
    names.sort_unstable();
    assert_eq!(names, ["local.0", "mqtt.0", "mqtt.1"], "a file has one socket for all shards");
    let ListenEndpoint::Tcp(address) = old.addresses[0] else { panic!("a port") };
    old.files.leave();
    drop(old);
    let callers = (TcpStream::connect(address), UnixStream::connect(&file));
    assert!(callers.0.is_ok() && callers.1.is_ok(), "they wait");
    // The next one has another number of shards, and takes the file with its socket.
    let mut new = open(&doors, 1, 1_000, copies).expect("they are kept");
    new.files.adopt(new.addresses.clone().iter());
    assert_eq!(new.addresses[0], ListenEndpoint::Tcp(address));
    assert_eq!(waiting(&new.shards[0][0]) + waiting(&new.shards[0][1]), 2);
    drop(new);
    assert!(!file.exists());
    std::fs::remove_dir_all(&folder).expect("it is empty");
}

#[test]
fn what_is_missing_is_opened_before_and_found_among_those_that_are_kept() {
    let (socket, address) = listener();
    let doors = [door("mqtt", ListenEndpoint::Tcp(address)), door("new", tcp("127.0.0.1:0"))];
    let mut kept = vec![kept("mqtt.0", socket)];
    let files = complete(&doors, 2, 1_000, &mut kept).expect("free");
    let names: Vec<_> = kept.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["mqtt.0", "new.0", "new.1"]);
    let open = open(&doors, 2, 1_000, kept).expect("all are kept");
    assert!(open.unclaimed.is_empty() && open.fresh(&doors).next().is_none());
    drop(files);
    // An address that another program has is told, and what is kept stays as it was.
    let (_theirs, taken) = listener();
    let wanted = [door("more", ListenEndpoint::Tcp(taken))];
    let mut kept = Vec::new();
    let error = complete(&wanted, 2, 1_000, &mut kept).err().expect("in use");
    assert!(error.to_string().contains("is in use") && kept.is_empty(), "{error}");
}
