//! Durable state of the broker: rows, timelines of sessions, and the calls that write them.
//!
//! `entries` and `rows` are the stored forms, `calls` the open calls to the log, `rows_now` the
//! current value of a refused row, `pages` reads queued messages back, `restore` is the start.

pub(crate) mod bytes;
pub(crate) mod calls;
pub(crate) mod entries;
mod pages;
pub(crate) mod restore;
pub(crate) mod rows;
pub(crate) mod rows_now;
pub(crate) mod sweep;
