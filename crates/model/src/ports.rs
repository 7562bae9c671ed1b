//! The outer contracts: what the outside may ask of the hub, and what the hub asks of the store.
//!
//! Submit and complete: whoever asks hands over a place for the answer and goes on; nobody waits
//! inside. [`control`] is the way in for the HTTP API, [`log`] the way out to stable storage, and
//! [`backlog`] what waits there for webhooks. [`directory`] is a copy of presence outside,
//! [`presence_queries`] what is asked about it. [`access`] says who may do what, [`users`] changes
//! it, [`tokens`] keeps what opens the API, and [`topics`] is the part of [`control`] that is about
//! topics and sessions.

pub mod access;
pub mod backlog;
pub mod control;
pub mod directory;
pub mod log;
pub mod presence_queries;
pub mod tokens;
pub mod topics;
pub mod users;
