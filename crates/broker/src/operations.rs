//! What operators and tests want of the broker: commands, figures, events, an audit.

mod audit;
mod commands;
mod exclusives;
mod status;

pub use exclusives::Exclusives;
