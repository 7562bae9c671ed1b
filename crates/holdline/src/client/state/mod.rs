//! The state of a running server as a whole: shown once or live, its configuration read again, its
//! clients sent away.

pub mod drain;
pub mod reload;
pub mod status;
pub mod top;
