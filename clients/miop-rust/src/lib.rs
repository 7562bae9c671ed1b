//! Push messages from a Holdline server to a device, by MIOP 7. See README.md for a quick start.
//!
//! [`machine`] makes all decisions and knows no socket, clock, random source or disk; [`Client`]
//! runs it in a thread of its own. The rules are numbered in clients/conformance/README.md.

mod backoff;
mod client;
mod clock;
mod credentials;
mod heartbeat;
pub mod machine;
mod reports;
mod sha256;
mod state;
mod store;
mod transport;
pub mod wire;

pub use client::{Client, Ended, Event, Observer, Options, Push, ReportError};
pub use clock::{Clock, ManualClock, RealClock};
pub use machine::{Credentials, State};
/// The TLS library, in the version that this one uses, and with one source of cryptography.
#[cfg(feature = "tls")]
pub use rustls;
pub use store::{FileStore, MemoryStore, Store};
pub use transport::{Connector, Failure, Link, TcpConnector};
