//! The hub's rules, one behaviour per test, through the hub's public interface only.

mod access;
mod audiences;
mod bodies;
mod cancels;
mod changes;
mod claims;
mod delivery;
mod fanout;
mod harness;
mod log;
mod many;
mod mirrors;
mod orders;
mod pauses;
mod platforms;
mod queries;
mod queue;
mod random;
mod reports;
mod restart;
mod rows;
mod schedules;
mod session;
mod store;
mod transitions;
mod users;
