//! Durable state of the broker: rows, timelines of sessions, and the calls that write them.
//!
//! `entries` and `rows` are the forms of what is written, `calls` what was asked of the log and
//! not answered, `retaining` what becomes of retained messages until it is, `restore` the start.

pub(crate) mod bodies;
pub(crate) mod bytes;
pub(crate) mod calls;
pub(crate) mod entries;
pub(crate) mod restore;
pub(crate) mod retaining;
pub(crate) mod retries;
pub(crate) mod rows;
