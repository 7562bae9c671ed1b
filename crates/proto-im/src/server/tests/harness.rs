//! Sides in each state, and frames as text.

pub(crate) use crate::codec::client_frame::{ClientFrame, LoginFields, SendFields};
pub(crate) use crate::codec::content::ContentFields;
use crate::codec::frame::{PREFACE, split};
use crate::codec::server_frame::ServerFrame;
use crate::codec::tests::schema;
use crate::server::{ImListener, Out, Server};
use base::hash::HashKey;
use base::time::{Instant, Now};
use model::account::{AccountAddress, AccountId};
use model::chat::{ChatDelivery, LoggedIn};
use model::counters::Counter;
use model::id::SessionRef;
use model::link::{Link, Protocol};
use model::machine::{Input, Machine};
use std::sync::Arc;
use testkit::pair::PairSide;

pub(crate) type Side = PairSide<Server>;

pub(crate) const SESSION: SessionRef = SessionRef::from_bits(5);

pub(crate) fn now() -> Now {
    Now::default()
}

/// A connection that stands, and has ten seconds for its Login.
pub(crate) fn opened() -> Side {
    let listener = ImListener { bind_ms_max: 10_000, domain: "a.example".into() };
    let mut side = PairSide::new(Server::new(Arc::new(listener)), Link::loopback(Protocol::Im));
    assert!(side.open(now()).is_empty(), "the client speaks first");
    side
}

/// The preface has come.
pub(crate) fn begun() -> Side {
    let mut side = opened();
    assert!(side.hear(now(), &PREFACE).is_empty());
    side
}

/// The Login is with the service.
pub(crate) fn asked() -> Side {
    let mut side = begun();
    let login = LoginFields { name: "ann", device: "phone", ..LoginFields::default() };
    assert!(side.hear(now(), &client(&ClientFrame::Login(login))).is_empty());
    side
}

/// A challenge is with the client.
pub(crate) fn challenged() -> Side {
    let mut side = asked();
    let sent = side.tell(now(), ChatDelivery::Challenge(b"r=xy".as_slice().into()));
    assert_eq!(frames(&sent), ["challenge { data: \"r=xy\" }"]);
    side
}

/// The device is logged in; what was said is taken.
pub(crate) fn in_session() -> Side {
    let mut side = asked();
    side.tell(now(), yes());
    side.take_words();
    side
}

/// The service's yes.
pub(crate) fn yes() -> ChatDelivery {
    ChatDelivery::LoggedIn(Box::new(LoggedIn {
        session: SESSION,
        account: AccountId(1),
        address: AccountAddress::parse("ann", "a.example").expect("right"),
        head: 12,
        cursor: 10,
        server_ms: 1_700_000_000_000,
        data: None,
    }))
}

/// A client's frame as bytes.
pub(crate) fn client(frame: &ClientFrame<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.write(&mut bytes);
    bytes
}

/// Frames of a server, as text.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<String> {
    let mut seen = Vec::new();
    while !bytes.is_empty() {
        let (frame, length) = split(bytes, 1 << 30).expect("a frame").expect("a whole one");
        let frame = ServerFrame::read(frame).expect("well formed").expect("known");
        seen.push(schema::text("ServerFrame", &frame));
        bytes = &bytes[length..];
    }
    seen
}

/// Wakes the machine so many milliseconds later; what it says.
pub(crate) fn wake(side: &mut Side, ms: u64) -> String {
    let mut out = model::machine::Outbox::new(base::hash::HashKey::new(1, 2), [0; 32]);
    let later = Now::new(Instant::from_nanos(ms * 1_000_000), 0);
    if let Err(reason) = side.machine.wake(later, &mut out) {
        side.close(later, reason);
    }
    frames(out.bytes()).concat()
}

/// A new session's answer to a frame, its counts, and the number of its requests to the service.
pub(super) fn said(frame: &ClientFrame<'_>) -> (Vec<String>, Vec<Counter>, usize) {
    let mut side = in_session();
    let mut out = Out::new(HashKey::new(1, 2), [0; 32]);
    let bytes = client(frame);
    let mut input = Input::new(&bytes, &side.link, &side.limits);
    assert_eq!(side.machine.receive(now(), &mut input, &mut out), Ok(()));
    (frames(out.bytes()), out.counts().collect(), out.words().count())
}
