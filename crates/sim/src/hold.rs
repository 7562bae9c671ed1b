//! Holding many devices, to measure what each costs.
//!
//! The server's shards as they are shipped, over a network that owns nothing for a connection: a
//! socket is its number, the only bytes it ever brings are the Bind of the device with that number,
//! and what is sent to it is gone. So what the process holds is the server's. The logs,
//! the event feed and the clients are not in it.

mod measure;
mod network;

pub use measure::{HoldMeasurement, HoldStage, ProcessMemory, hold};
