//! The laboratory: fleets of simulated devices, and what they measure.
//!
//! A [`Fleet`] is the client machines of a protocol under the same shards as the server's: it
//! tests whatever speaks the protocol and does not know how a server is built. [`wrk`] drives one
//! from wrk's own command line. What a pilot costs is asserted in `pilot`.
//!
//! The invariant: every attempt to connect has exactly one outcome or is still open, and
//! [`Snapshot::conserved`] says so. Start with [`plan`], then [`snapshot`].

pub mod effort;
pub mod fleet;
mod house;
mod pace;
mod pilot;
pub mod plan;
pub mod snapshot;
pub mod stamp;
mod tally;
pub mod trust;
pub mod wrk;

pub use fleet::Fleet;
pub use plan::{FleetPlan, Heartbeat, Reconnect, ReportPace, ReportPlan, Think};
pub use snapshot::Snapshot;
pub use tally::{Codes, Ends, Side, side_of};
