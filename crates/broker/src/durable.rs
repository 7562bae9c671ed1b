//! Durable state of the broker: rows, timelines of sessions, and the calls that write them.
//!
//! `entries` and `rows` are the forms of what is written, `calls` what was asked of the log and
//! not answered, `rows_now` what a refused row is by now, `pages` what comes back of what waits,
//! `restore` the start.

pub(crate) mod bytes;
pub(crate) mod calls;
pub(crate) mod entries;
mod pages;
pub(crate) mod restore;
pub(crate) mod rows;
pub(crate) mod rows_now;
pub(crate) mod sweep;
