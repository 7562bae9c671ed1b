//! The contract of traces: decoded frames that connections send and receive, live, for an operator.
//!
//! The caller names a [`TraceScope`] and hands over a sink for events; the trace ends when the
//! [`Trace`] is dropped. It does not know shards, codecs or HTTP. Invariant: no value here contains
//! a secret: credentials are a [`TraceValue::Redacted`].

use crate::id::{DeviceRef, SessionRef};
use crate::service::ServiceKind;
use std::net::{IpAddr, SocketAddr};

/// Scope of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceScope {
    /// The client with this identifier: of MQTT; a device of MIOP; `name@domain/device` of IM and
    /// XMPP.
    Client(Box<str>),
    /// The clients of this user: of MQTT; an account of IM and XMPP, with or without its domain.
    User(Box<str>),
    /// Connections from this address.
    Address(IpAddr),
    /// Messages on topics that match this filter: who publishes and who is sent them.
    Topic(Box<str>),
}

/// How much of a payload is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PayloadShown {
    /// Only the payload's length.
    Nothing,
    /// The first [`HEAD_BYTES`] of the payload.
    Head,
    /// The whole payload, up to the limit `trace_payload_bytes_max`.
    Whole,
}

/// Bytes of the head of a payload.
pub const HEAD_BYTES: usize = 64;

/// A wish for a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceOrder {
    /// Scope of the trace.
    pub scope: TraceScope,
    /// How much of payloads is shown.
    pub payload: PayloadShown,
}

/// Identity of a connection, as its service knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceIdentity<'a> {
    /// Client identifier, or name of the device.
    pub client: &'a str,
    /// The name is one within those of the user: two users may each have it.
    pub within_user: bool,
    /// User or account.
    pub user: Option<&'a str>,
    /// Address, as far as it is known.
    pub peer: Option<SocketAddr>,
}

impl TraceIdentity<'_> {
    /// The client's name where it names one client alone.
    pub fn name(&self) -> String {
        match (self.within_user, self.user) {
            (true, Some(user)) => format!("{user}/{}", self.client),
            _ => self.client.to_owned(),
        }
    }
}

impl TraceScope {
    /// Whether a connection of this identity is followed.
    pub fn has(&self, identity: &TraceIdentity<'_>) -> bool {
        match self {
            TraceScope::Client(name) if identity.within_user => {
                let parts = name.split_once('/');
                parts.is_some_and(|(user, device)| {
                    device == identity.client && is_user(user, identity.user)
                })
            }
            TraceScope::Client(name) => **name == *identity.client,
            TraceScope::User(name) => is_user(name, identity.user),
            TraceScope::Address(address) => identity.peer.is_some_and(|peer| is_at(*address, peer)),
            TraceScope::Topic(_) => false,
        }
    }
}

/// Whether this is the user, by its whole name or without the domain.
fn is_user(wanted: &str, user: Option<&str>) -> bool {
    let is_name = |user: &str| user.split_once('@').is_some_and(|(name, _)| name == wanted);
    user.is_some_and(|user| user == wanted || is_name(user))
}

/// Whether a peer has this IP address.
pub fn is_at(address: IpAddr, peer: SocketAddr) -> bool {
    address.to_canonical() == peer.ip().to_canonical()
}

/// Reference of a machine to its client, which its service resolves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceSubject {
    /// A session of this service.
    Session(ServiceKind, SessionRef),
    /// A device.
    Device(DeviceRef),
}

/// Side that sent something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceDirection {
    /// The client.
    In,
    /// The server.
    Out,
}

/// Observation of a connection.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceEvent {
    /// Unix millisecond.
    pub at_ms: u64,
    /// Number of the connection in this process; of a message that is no connection's, 0.
    pub connection: u64,
    /// `miop5`, `mqtt311`, `im`, `xmpp` and so on.
    pub protocol: &'static str,
    /// Sender; of an observation or decision of the server: none.
    pub direction: Option<TraceDirection>,
    /// Name of the event: `CONNECT`, `Bind`, `Send`, `iq` for what was sent; in small letters for
    /// what the server noticed: `opened`, `closed`, `refused`, `dropped`.
    pub kind: String,
    /// The client, as far as it is known.
    pub client: Option<String>,
    /// The user, as far as it is known.
    pub user: Option<String>,
    /// The address, as far as it is known.
    pub peer: Option<SocketAddr>,
    /// Bytes of the frame on the wire; 0 if it was not sent on the wire.
    pub bytes: usize,
    /// Decoded fields.
    pub fields: Vec<TraceField>,
    /// The frame's payload.
    pub payload: Option<TracePayload>,
}

/// A field of a decoded frame: name and value.
pub type TraceField = (&'static str, TraceValue);

/// Value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceValue {
    /// A number.
    Number(u64),
    /// Whether it is so.
    Flag(bool),
    /// A text that may be anybody's.
    Text(String),
    /// Several.
    List(Vec<String>),
    /// A secret: that it was there, and of how many bytes.
    Redacted(usize),
}

impl From<&str> for TraceValue {
    fn from(text: &str) -> TraceValue {
        TraceValue::Text(text.to_owned())
    }
}

impl From<bool> for TraceValue {
    fn from(flag: bool) -> TraceValue {
        TraceValue::Flag(flag)
    }
}

macro_rules! numbers {
    ($($type:ty)+) => { $(
        impl From<$type> for TraceValue {
            fn from(number: $type) -> TraceValue {
                TraceValue::Number(number.into())
            }
        }
    )+ };
}

numbers! { u8 u16 u32 u64 }

/// A payload, or the part of it that is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TracePayload {
    /// Bytes of all of it.
    pub bytes: usize,
    /// Bytes that are shown.
    pub shown: Box<[u8]>,
}

/// Event of a trace.
#[derive(Clone, PartialEq, Debug)]
pub enum TraceTold {
    /// An observation.
    Event(Box<TraceEvent>),
    /// Number of observations that were left out, because they came too fast or were too large.
    LeftOut(u64),
}

/// Receiver of a trace. It may block as long as its reader is slow; it returns false once the
/// reader is gone.
pub type TraceSink = Box<dyn FnMut(TraceTold) -> bool + Send>;

/// A trace under way. It ends when this is dropped.
pub trait Trace: Send {}

/// Reason why a trace did not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceRefusal {
    /// The limit of traces is reached.
    Full,
    /// A resource is short; the caller may try again.
    Busy,
}

/// Port of traces: starts and follows them.
pub trait Traces: Send + Sync {
    /// Begins a trace.
    fn follow(&self, order: TraceOrder, sink: TraceSink) -> Result<Box<dyn Trace>, TraceRefusal>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity<'a>(client: &'a str, user: Option<&'a str>) -> TraceIdentity<'a> {
        let peer = "[::ffff:192.0.2.7]:1234".parse().ok();
        TraceIdentity { client, within_user: client == "phone", user, peer }
    }

    #[test]
    fn a_client_is_followed_by_the_whole_of_its_name() {
        let till = identity("till-7", Some("tills"));
        assert!(TraceScope::Client("till-7".into()).has(&till));
        for other in ["till", "till-70", "tills/till-7", ""] {
            assert!(!TraceScope::Client(other.into()).has(&till), "{other}");
        }
        let phone = identity("phone", Some("ann@a.example"));
        for name in ["ann@a.example/phone", "ann/phone"] {
            assert!(TraceScope::Client(name.into()).has(&phone), "{name}");
        }
        for other in ["phone", "bob/phone", "ann/phon", "ann@b.example/phone"] {
            assert!(!TraceScope::Client(other.into()).has(&phone), "{other}");
        }
        assert_eq!(
            (till.name().as_str(), phone.name().as_str()),
            ("till-7", "ann@a.example/phone")
        );
    }

    #[test]
    fn users_and_addresses_are_compared_as_people_write_them() {
        let till = identity("till-7", Some("tills"));
        assert!(TraceScope::User("tills".into()).has(&till));
        assert!(!TraceScope::User("till".into()).has(&till));
        assert!(!TraceScope::User("tills".into()).has(&identity("till-7", None)));
        let ann = identity("phone", Some("ann@a.example"));
        assert!(TraceScope::User("ann".into()).has(&ann));
        assert!(!TraceScope::User("a.example".into()).has(&ann));
        let at = |text: &str| TraceScope::Address(text.parse().expect("an address"));
        assert!(at("192.0.2.7").has(&till) && !at("192.0.2.8").has(&till));
        assert!(!TraceScope::Topic("#".into()).has(&till));
    }
}
