//! Replication of logs over streams: the rules, without a network, a disk or a clock.
//!
//! Every log is published to a stream that other nodes follow. The stream decides who leads and
//! what was written: no vote and no lease is ours. [`counting`] says which batches of a stream
//! count. `docs/adr/0079-replication-over-streams.md` has the reasons.

pub mod batch;
pub mod counting;
mod ending;
pub mod follow;
pub mod held;
pub mod node;
pub mod own_log;
pub mod port;
pub mod replica;
mod rules;
pub mod ship;
pub mod wire;

#[cfg(test)]
mod simulation;
