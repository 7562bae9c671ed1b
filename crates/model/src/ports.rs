//! The outer contracts: what the outside may ask of the hub, and what the hub asks of the store.
//!
//! Submit and complete: whoever asks hands over a place for the answer and goes on; nobody waits
//! inside. [`control`] is the way in for the HTTP API, [`journal`] the way out to stable storage.

pub mod control;
pub mod journal;
