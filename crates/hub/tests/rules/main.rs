//! The hub's rules, one behaviour a test, through its public door only.

mod access;
mod delivery;
mod fanout;
mod orders;
mod queries;
mod queue;
mod random;
mod session;
mod store;
mod world;
