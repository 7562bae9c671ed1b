//! One session with a broker, from a thread that waits: for bridges and the command line.
//!
//! A [`Session`] is the client machine of `proto-mqtt` with a link under it: TCP, TLS, WebSocket or
//! a Unix socket. It connects, comes back when the connection is lost, goes on with its session,
//! subscribes again when the server has none, and has [`Event`]s for whoever polls. It knows no
//! rule of the protocol: those are the machine's.
//!
//! The invariant: a call returns within the time it was given, but for connecting, which has a
//! time of its own ([`Settings::connect_timeout`]).

mod address;
mod clock;
mod fault;
mod link;
mod scram;
mod session;
mod settings;
mod trust;

pub use address::{Address, Place};
pub use clock::now;
pub use fault::{Fault, What};
pub use link::wait;
pub use model::topic::{Publication, Qos, RetainHandling, Wish};
pub use proto_mqtt::client::{
    Accepted, Acks, Clean, Event, Farewell, Formula, Profile, Unpublished, Will, properties_of,
    publication,
};
pub use proto_mqtt::codec::block::{Block, Properties};
pub use proto_mqtt::codec::name::matches;
pub use proto_mqtt::codec::property::{Property, VarInt};
pub use proto_mqtt::codec::{PacketKind, ReasonCode, Unsent, Version};
pub use session::Session;
pub use settings::{Retry, Scram, Settings};
pub use trust::{Check, Trust};
