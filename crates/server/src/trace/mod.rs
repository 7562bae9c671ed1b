//! Traces: decoded frames of connections, live, for an operator.
//!
//! A shard's [`TraceTap`] finds the connections that a trace follows and copies their frames; it
//! hands those over once a turn, by a bounded channel. A thread for each trace, started by the
//! [`TraceDesk`], decodes them ([`decode`]) and passes them to the trace's caller. Nothing is
//! decoded on a shard, and a slow reader loses events, which are counted and reported, and slows no
//! shard. Invariant: credentials leave [`decode`] as a length.

mod decode;
mod desk;
mod follower;
mod newcomers;
mod seen;
mod tap;
#[cfg(test)]
mod tests;

pub use desk::{TraceDesk, TraceTally};
pub use seen::ActiveTrace;
pub use tap::TraceTap;
pub(crate) use tap::subject_of;
