//! The durable log: appends, pages, recovery, memory, and what a shard feels of it.
//!
//! Ours stands beside a bare write with fdatasync and beside other embedded engines, on the same
//! disk, in the same run, in turns, by the same rule of group commit. Nothing here knows records
//! or indexes: our log is used as the server uses it. Invariant: what was acknowledged is read back
//! after every run, and a store that lost or doubled a row has no result but an error.

mod append;
mod audit;
mod chat_send;
pub mod disk;
mod drive;
mod lane;
mod memory;
mod meter;
pub mod orders;
mod ours;
mod posting;
mod pull;
mod recovery;
mod rival;
mod rivals;
mod shard;
mod stall;
mod traffic;

pub use append::{fanout, run as append};
pub use chat_send::run as chat_send;
pub use memory::run as memory;
pub use posting::run as posting;
pub use pull::run as pull;
pub use recovery::run as recovery;
pub use stall::run as stall;
