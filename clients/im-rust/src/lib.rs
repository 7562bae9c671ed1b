//! Instant messaging over Holdline's IM protocol. See README.md for a quick start.
//!
//! [`machine`] makes all decisions and knows no socket, clock, random source or disk; [`Client`]
//! runs it in a thread of its own. The rules are numbered in clients/conformance/README.md.

mod answer;
mod backoff;
mod client;
mod clock;
mod heartbeat;
mod inbox;
pub mod machine;
mod outbox;
#[expect(missing_docs, reason = "generated from im.proto, whose comments it has")]
pub mod pb;
pub mod proof;
mod sha256;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod transport;
pub mod wire;
mod words;

pub use client::{Change, Client, Ended, Event, Message, Observer, Options};
pub use clock::{Clock, ManualClock, RealClock};
pub use machine::{Credentials, Failed, Sent, State};
pub use pb::client_frame::Request;
pub use pb::server_frame::Answer;
/// The TLS library, in the version that this one uses, and with one source of cryptography.
#[cfg(feature = "tls")]
pub use rustls;
pub use store::{FileStore, MemoryStore, Store};
pub use transport::{Connector, Failure, Link, TcpConnector};
pub use words::Error;
