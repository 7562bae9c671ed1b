//! Traces: what connections say and hear, decoded, for an operator who looks on.
//!
//! A shard's [`TraceTap`] finds the connections that some trace follows and copies what passes on
//! them; it hands that over once a turn, by a bounded channel. A thread for each trace, begun by
//! the [`TraceDesk`], decodes it ([`decode`]) and gives it to whoever asked. Nothing is decoded on
//! a shard, and a reader that is slow loses events, which are counted and told, and slows nobody.
//! Invariant: what proves somebody's identity leaves [`decode`] as a length.

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
