//! The crate with the sockets.
//!
//! A [`Shard`] is one core's share of the world: a poller, connections in a slab, a wheel of
//! short timers, a sweep for keep-alive, a mailbox. A thread runs one, or an [`Executor`] with as
//! many as there is work for. A shard drives machines ([`model::machine`]) and a
//! [`ShardLogic`], the roof's side. Of a protocol it knows what [`model::link::WireProfile`] says:
//! how it begins, what it is called, how much of it may be under way.
//! Sockets themselves are behind [`Net`]: [`epoll`] is the real one, `sim` has the simulated one.
//!
//! The invariant: a connection belongs to exactly one shard, and every connection that was ever
//! accepted or dialled ends with exactly one counted `CloseReason`.
//!
//! Read [`shard`], then [`connection`].

pub mod connection;
pub mod descriptors;
pub mod detail;
pub mod epoll;
pub mod executor;
pub mod layer;
pub mod listen;
pub mod logic;
pub mod mailbox;
pub mod shard;
pub mod tcp;
pub mod transport;
#[cfg(test)]
mod wires;

pub use detail::{Detail, Reached};
pub use executor::Executor;
pub use logic::dialler::{CallFault, Dialler, NamedCall};
pub use logic::tap::{TapNotes, Tapped};
pub use logic::{
    ConnectionEnd, ConnectionOrigin, Dial, DialAddress, OtherServers, PassedBytes, ShardHandle,
    ShardLogic,
};
pub use shard::{Settings, Shard};
pub use transport::{Accepted, Got, NestedWait, Net, ReadyEvent};
