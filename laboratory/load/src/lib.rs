//! The laboratory: fleets of simulated clients, their orders, and their measurements.
//!
//! A [`Fleet`] is the client machines of a protocol under the same shards as the server's: it tests
//! whatever speaks the protocol and does not know how a server is built. [`LocalGenerator`] is a
//! load generator of such fleets, which [`run`] gives the orders of a plan; what a client costs is
//! asserted in `fleet/virtual_client.rs`, and which protocols there are stands in [`target`].
//!
//! The invariant: every attempt to connect has exactly one outcome or is still open, and
//! [`Snapshot::conserved`] says so. Start with [`plan`], then [`snapshot`].

pub mod agent;
pub mod coolpy7;
pub mod exporter;
pub mod fault;
pub mod fleet;
pub mod founder;
pub mod http;
pub mod local;
pub mod run;
pub mod scenario;

pub use fault::proxy;
pub use fleet::{Fleet, cause, client, effort, plan, snapshot, source, stamp, target, trust};
pub use local::LocalGenerator;
pub use plan::{FleetPlan, HeartbeatMode, Reconnect};
pub use snapshot::Snapshot;
