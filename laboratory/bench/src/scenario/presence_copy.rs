//! Presence: what a transition costs, what a million devices hold, and how soon the copy agrees.
//!
//! Tracker and replicator are driven as the roof drives them, by one thread, over the table in the
//! process or a real redis-server of the bench's own. Nobody connects: transitions are made up.
//! Invariant: a run after which memory and directory do not agree has no result but an error.

mod agree;
mod hold;
mod hour;
mod rig;
mod store;
mod turns;

pub use agree::run as audit;
pub use hold::{orders, run as memory};
pub use hour::run as hour;
pub use store::run as redis;
pub use turns::run as note;

/// Devices of the large scenarios.
const DEVICES: u32 = 1_000_000;
