//! Holding many clients, to measure what each costs, and what a storm of them comes to.
//!
//! The server's shards as they are shipped, over a network that owns nearly nothing for a
//! connection: a socket is its number, what it brings is what the client with that number says when
//! it comes, and what is sent to it is gone. So what the process holds is the server's. The logs,
//! the event feed and the clients are not in it.

mod measure;
mod network;

pub use measure::{HoldMeasurement, HoldPlan, HoldStage, ProcessMemory, hold, storm};
pub use network::{HoldProtocol, StormTally};
