//! Both sides of a take-over in one process, each on a thread of its own.

use super::*;
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};

/// A folder, its server's listeners, and what its server hears.
struct Old {
    folder: tempfile::TempDir,
    given: Given,
    events: Receiver<TakeOverEvent>,
    offer: Option<Offer>,
    listener: TcpListener,
}

fn kept(name: &str, listener: &TcpListener) -> KeptSocket {
    let socket = listener.try_clone().expect("a copy").into();
    KeptSocket { name: name.to_owned(), socket }
}

impl Old {
    fn new() -> Old {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let given: Given =
            GivenListeners::of(vec![kept("mqtt.0", &listener), kept("api.0", &listener)]);
        let (more, events) = sync_channel(4);
        let offer = Offer::make(folder.path(), given.clone(), more).expect("a file");
        Old { folder, given, events, offer: Some(offer), listener }
    }

    fn ask(&self) -> std::result::Result<Option<(Predecessor, Vec<KeptSocket>)>, AskError> {
        Predecessor::ask(self.folder.path())
    }

    fn committed(&self) -> Successor {
        match self.events.recv().expect("an event") {
            TakeOverEvent::TakeOver(successor) => successor,
            _ => panic!("another event"),
        }
    }
}

fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(work).expect("a thread")
}

#[test]
fn listeners_come_with_their_names_and_the_end_is_told_to_both() {
    let old = Old::new();
    let (predecessor, sockets) = old.ask().expect("given").expect("one runs");
    assert_eq!(predecessor.pid() as u32, std::process::id());
    let names: Vec<&str> = sockets.iter().map(|kept| kept.name.as_str()).collect();
    assert_eq!(names, ["mqtt.0", "api.0"]);
    let same = TcpListener::from(sockets.into_iter().next().expect("two").socket);
    assert_eq!(same.local_addr().expect("bound"), old.listener.local_addr().expect("bound"));
    let waits = spawn(move || {
        predecessor.commit();
        predecessor.tell_serving();
    });
    let (more, events) = sync_channel(4);
    old.committed().closed(more).expect("a thread");
    assert!(matches!(events.recv(), Ok(TakeOverEvent::Served)));
    waits.join().expect("it waited until the logs were closed");
}

#[test]
fn who_does_not_commit_itself_changes_nothing_and_the_next_is_heard() {
    let old = Old::new();
    for _ in 0..3 {
        drop(old.ask().expect("given").expect("one runs"));
    }
    let (predecessor, _) = old.ask().expect("given").expect("one runs");
    let waits = spawn(move || predecessor.commit());
    let successor = old.committed();
    assert!(old.events.try_recv().is_err(), "nobody else was committed");
    // The old one dies: the new one goes on.
    drop(successor);
    waits.join().expect("it did not wait for ever");
}

#[test]
fn a_successor_that_ends_before_it_serves_is_lost() {
    let old = Old::new();
    let (predecessor, _) = old.ask().expect("given").expect("one runs");
    let waits = spawn(move || predecessor.commit());
    let successor = old.committed();
    let (more, events) = sync_channel(4);
    successor.closed(more.clone()).expect("a thread");
    waits.join().expect("told");
    assert!(matches!(events.recv(), Ok(TakeOverEvent::Lost)));
    successor.closed(more).expect("nobody is there");
    assert!(matches!(events.recv(), Ok(TakeOverEvent::Lost)), "the second time it is seen at once");
}

#[test]
fn without_a_server_there_is_nothing_to_take_over() {
    let mut old = Old::new();
    let mode = rustix::fs::stat(old.folder.path().join(FILE)).expect("there").st_mode;
    assert_eq!(mode & 0o777, 0o600);
    // A server that was killed leaves its file; the next one makes its own in its place.
    let left = rustix::fs::stat(old.folder.path().join(FILE)).expect("there").st_ino;
    let (more, _events) = sync_channel(4);
    let next = Offer::make(old.folder.path(), old.given.clone(), more).expect("a file");
    assert_ne!(rustix::fs::stat(old.folder.path().join(FILE)).expect("there").st_ino, left);
    drop((next, old.offer.take()));
    assert!(matches!(old.ask(), Ok(None)));
}

#[test]
fn a_server_that_ends_gives_nothing() {
    let old = Old::new();
    old.given.lock().expect("whole").sockets.clear();
    match old.ask() {
        Err(AskError::Refused(why)) => assert_eq!(why, "it is stopping or has no listener"),
        _ => panic!("it gave something"),
    }
}

#[test]
fn listeners_do_not_change_while_a_new_server_decides_whether_it_takes_them() {
    let mut old = Old::new();
    let hold = |old: &Old| old.given.lock().expect("whole").hold;
    assert_eq!(hold(&old), ListenerHold::Free);
    let asked = old.ask().expect("given").expect("one runs");
    assert_eq!(hold(&old), ListenerHold::Asked);
    drop(asked);
    while hold(&old) != ListenerHold::Free {
        std::thread::yield_now();
    }
    let (predecessor, _) = old.ask().expect("given").expect("one runs");
    let waits = spawn(move || predecessor.commit());
    drop((old.committed(), old.offer.take()));
    waits.join().expect("it hears the end");
    assert_eq!(hold(&old), ListenerHold::Asked, "it has committed itself");
}

#[test]
fn words_that_are_none_are_refused() {
    let old = Old::new();
    let link = Link(Link::socket().expect("a socket"));
    at_file(old.folder.path(), |at| rustix::net::connect(&link.0, at)).expect("it listens");
    link.say("TAKE-OVER 2").expect("said");
    let (word, _) = link.hear(None).expect("heard").expect("it is there");
    assert_eq!(word, "REFUSED the running server is of an incompatible version");
    assert!(link.hear(None).expect("heard").is_none());
    // A server that says something else is none.
    let other = tempfile::tempdir().expect("a folder");
    let socket = Link::socket().expect("a socket");
    at_file(other.path(), |at| rustix::net::bind(&socket, at)).expect("bound");
    rustix::net::listen(&socket, 1).expect("listens");
    let says = spawn(move || {
        for word in ["LISTENER without", "LISTENERS 1", "HELLO"] {
            let flags = SocketFlags::CLOEXEC;
            let link = Link(rustix::net::accept_with(&socket, flags).expect("one"));
            link.hear(None).expect("it says who it is");
            link.say(word).expect("said");
        }
    });
    for _ in 0..3 {
        assert!(matches!(Predecessor::ask(other.path()), Err(AskError::Strange(_))));
    }
    says.join().expect("all were heard");
}

#[test]
fn a_folder_whose_path_is_too_long_for_a_socket_has_one_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep = folder.path().join("x".repeat(120));
    std::fs::create_dir(&deep).expect("made");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let given: Given = GivenListeners::of(vec![kept("mqtt.0", &listener)]);
    let (more, _events) = sync_channel(4);
    let offer = Offer::make(&deep, given, more).expect("a file");
    let (_, sockets) = Predecessor::ask(&deep).expect("given").expect("one runs");
    assert_eq!(sockets.len(), 1);
    drop(offer);
    assert!(!deep.join(FILE).exists());
}
