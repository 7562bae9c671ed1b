//! Sessions over HTTP, through connections that are handed over, before a stream that is a script.

use super::*;
use crate::tally::BoshOutcome;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

const HEADER: &str = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' \
    xmlns:stream='http://etherx.jabber.org/streams' id='7' from='a.example' version='1.0'>";

/// The other ends of the streams that were given.
#[derive(Default)]
struct Shards {
    given: Mutex<Vec<(UnixStream, Caller)>>,
    is_full: bool,
}

impl StreamGiver for Shards {
    fn give(&self, socket: OwnedFd, caller: Caller) -> bool {
        let socket = UnixStream::from(socket);
        socket.set_nonblocking(false).expect("it can");
        self.given.lock().expect("nobody failed").push((socket, caller));
        !self.is_full
    }
}

struct House {
    door: BoshDoor,
    shards: Arc<Shards>,
}

const CALLER: Caller = Caller {
    door: 0,
    peer: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7),
    encrypted: false,
};

fn bounds(limits: BoshLimits) -> BoshBounds {
    BoshBounds {
        limits,
        stanza_bytes_max: 1_000,
        unproven_bytes_max: 1_000,
        out_bytes_max: 10_000,
        request_ms_max: 10_000,
    }
}

impl House {
    fn new(limits: BoshLimits, is_full: bool) -> House {
        House::with(limits, is_full, |bytes| bytes.fill(7))
    }

    fn with(limits: BoshLimits, is_full: bool, random: fn(&mut [u8])) -> House {
        let shards = Arc::new(Shards { is_full, ..Shards::default() });
        let listener = BoshListener { path: "/bind".into(), ..BoshListener::default() };
        let door = BoshDoor::start(BoshSettings {
            bounds: bounds(limits),
            giver: shards.clone(),
            now_us: || 0,
            random,
        });
        let door = door.expect("it starts");
        door.set_listener(0, listener);
        House { door, shards }
    }

    /// Sends a body; the connection.
    fn post(&self, caller: Caller, attributes: &str, inner: &str) -> UnixStream {
        let body = format!("<body xmlns='{}' {attributes}>{inner}</body>", proto_xmpp_bind());
        let request = format!(
            "POST /bind HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n\
             {body}",
            body.len()
        );
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        theirs.set_nonblocking(true).expect("it can");
        let said = request.into_bytes();
        let incoming = Incoming {
            socket: theirs.into(),
            cipher: None,
            said,
            unsent: Vec::new(),
            seat: Box::new(()),
        };
        assert!(self.door.take(incoming, caller), "there is room");
        ours
    }

    /// The end of the stream that was given last.
    fn stream(&self) -> UnixStream {
        self.shards.given.lock().expect("nobody failed").pop().expect("it was given").0
    }
}

fn proto_xmpp_bind() -> &'static str {
    proto_xmpp::bosh::HTTP_BIND
}

fn answer(mut connection: UnixStream) -> String {
    let mut text = String::new();
    connection.read_to_string(&mut text).expect("it ends");
    text
}

/// Reads up to this.
fn until(stream: &mut UnixStream, text: &str) -> String {
    let (mut heard, mut byte) = (Vec::new(), [0]);
    while !heard.ends_with(text.as_bytes()) {
        assert_eq!(stream.read(&mut byte).expect("it goes on"), 1, "{heard:?}");
        heard.push(byte[0]);
    }
    String::from_utf8(heard).expect("UTF-8")
}

/// A session that has begun, and its stream.
fn begun(house: &House) -> UnixStream {
    let first = house.post(CALLER, "rid='1' to='a.example' wait='60'", "");
    let mut stream = loop {
        if !house.shards.given.lock().expect("nobody failed").is_empty() {
            break house.stream();
        }
        std::thread::yield_now();
    };
    until(&mut stream, ">");
    write!(stream, "{HEADER}<stream:features/>").expect("it takes it");
    let told = answer(first);
    assert!(told.starts_with("HTTP/1.1 200 OK\r\n"), "{told}");
    assert!(told.contains(&format!(" sid='{}'", "07".repeat(16))), "{told}");
    stream
}

fn of_session(rid: u64) -> String {
    format!("rid='{rid}' sid='{}'", "07".repeat(16))
}

#[test]
fn requests_over_several_connections_are_one_stream() {
    let house = House::new(BoshLimits::default(), false);
    let mut stream = begun(&house);
    assert_eq!(house.door.sessions(), 1);
    let held = house.post(CALLER, &of_session(2), "<iq id='1'/>");
    assert!(until(&mut stream, "'1'/>").ends_with("<iq id='1'/>"));
    let more = house.post(CALLER, &of_session(3), "<iq id='2'/>");
    until(&mut stream, "<iq id='2'/>");
    assert!(answer(held).ends_with("<body xmlns='http://jabber.org/protocol/httpbind'/>"));
    write!(stream, "<message/>").expect("it takes it");
    assert!(answer(more).contains("<message xmlns='jabber:client'/>"));
    let last = house.post(CALLER, &of_session(4), "");
    drop(stream);
    assert!(answer(last).contains("condition='remote-connection-failed'"));
    let gone = answer(house.post(CALLER, &of_session(5), ""));
    assert!(gone.contains("condition='item-not-found'"), "{gone}");
    assert_eq!(house.door.tally().of(BoshOutcome::Begun), 1);
    assert_eq!(house.door.tally().of(BoshOutcome::Taken), 3);
    assert_eq!(house.door.tally().of(BoshOutcome::Unknown), 1);
}

#[test]
fn a_session_is_not_found_by_who_is_not_encrypted_as_it_is() {
    let house = House::new(BoshLimits::default(), false);
    let _stream = begun(&house);
    let told = answer(house.post(Caller { encrypted: true, ..CALLER }, &of_session(2), ""));
    assert!(told.contains("condition='item-not-found'"), "{told}");
}

#[test]
fn there_are_as_many_as_there_may_be() {
    let limits = BoshLimits { sessions_max: 1, ..BoshLimits::default() };
    let house = House::new(limits, false);
    let stream = begun(&house);
    let begin = || answer(house.post(CALLER, "rid='1' to='a.example'", ""));
    assert!(begin().starts_with("HTTP/1.1 503 "));
    drop(stream);
    let _over = answer(house.post(CALLER, &of_session(2), ""));
    while house.door.sessions() > 0 {
        std::thread::yield_now();
    }
    let full = House::new(BoshLimits::default(), true);
    let told = answer(full.post(CALLER, "rid='1' to='a.example'", ""));
    assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("retry-after: 5"), "{told}");
    assert_eq!(full.door.sessions(), 0);
    let none = House::new(BoshLimits { connections_max: 1, ..BoshLimits::default() }, false);
    let _first = none.post(CALLER, "rid='1' to='a.example'", "");
    assert!(!none.door.has_room(CALLER.peer));
}

#[test]
fn other_bounds_hold_from_then_on() {
    let house = House::new(BoshLimits::default(), false);
    let _first = begun(&house);
    let one = BoshLimits { sessions_max: 1, ..BoshLimits::default() };
    house.door.set_bounds(bounds(one));
    let told = answer(house.post(CALLER, "rid='1' to='a.example'", ""));
    assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
    let _waits = house.post(CALLER, &of_session(2), "");
    let one = BoshLimits { connections_max: 1, ..BoshLimits::default() };
    house.door.set_bounds(bounds(one));
    assert!(!house.door.has_room(CALLER.peer), "one connection is open");
}

#[test]
fn one_source_begins_its_share_of_sessions_and_others_find_room() {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let random = |bytes: &mut [u8]| bytes.fill(NEXT.fetch_add(1, Ordering::Relaxed));
    let limits = BoshLimits { sessions_max: 4, ..BoshLimits::default() };
    let house = House::with(limits, false, random);
    let begin = |caller| house.post(caller, "rid='1' to='a.example'", "");
    // A shard is given the session a moment before it is counted.
    let wait_for = |count: u64| {
        while (house.shards.given.lock().expect("nobody failed").len() as u64) < count
            || house.door.tally().of(BoshOutcome::Begun) < count
        {
            std::thread::yield_now();
        }
    };
    let _crowd = [1, 2].map(|count| {
        let held = begin(CALLER);
        wait_for(count);
        held
    });
    let told = answer(begin(CALLER));
    assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("from your address"), "{told}");
    assert_eq!(house.door.tally().of(BoshOutcome::Source), 1);
    let other = Caller { peer: ([10, 0, 0, 9], 7).into(), ..CALLER };
    let _held = begin(other);
    wait_for(3); // one address does not shut BOSH
    assert_eq!((house.door.sessions(), house.door.tally().of(BoshOutcome::Begun)), (3, 3));
    let house = House::new(BoshLimits { connections_max: 2, ..BoshLimits::default() }, false);
    let _first = house.post(CALLER, "rid='1' to='a.example'", "");
    assert!(!house.door.has_room(CALLER.peer) && house.door.has_room(other.peer));
}
