//! Operations on the broker: commands, figures, events, an audit, for operators and tests.

mod commands;
mod exclusives;
mod status;

pub use exclusives::Exclusives;
