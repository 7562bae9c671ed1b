//! What single features of the service must do, one module each, on a shard or a few of them.
//!
//! One executable: each would build and link the service anew.

#[path = "../house/mod.rs"]
mod house;

mod announcements;
mod binding;
mod blocked_domains;
mod book_orders;
mod entering;
mod erasing;
mod foreign;
mod full_log;
mod handing;
mod left;
mod paced_reads;
mod send_queue;
mod temporary;
mod tokens;
mod uploads;
mod visitors;
