//! Durable state of the hub: what the log keeps of it, and how it comes back.
//!
//! The hub hands over calls and goes on; [`tickets`] remembers what each of them was for. Pushes
//! that have to wait go there ([`keep`]) and their bodies come back when they can be sent
//! ([`bodies`]); devices have [`rows`]; orders with an idempotency key are claimed first
//! ([`claims`]). [`durable`] is how all that looks in bytes, [`restore`] what becomes of it at the
//! next start.

pub(crate) mod bodies;
pub(crate) mod claims;
pub(crate) mod cleanup;
pub(crate) mod durable;
pub(crate) mod epochs;
pub(crate) mod keep;
pub(crate) mod restore;
pub(crate) mod rows;
pub(crate) mod tickets;
