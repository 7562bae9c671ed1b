//! The nouns of Holdline, and the contracts between its crates.
//!
//! The types that every crate may use to speak to every other: ids, pushes, the requests of a
//! protocol to a service and the deliveries it gets, the reasons why a connection ends, the limits,
//! the events, and three contracts: the inner one ([`machine`]), what a service is ([`service`]),
//! and the outer ones ([`ports`]). No wire format, no I/O, no `async`, no serialisation and no
//! clock: values only.
//!
//! Read [`close`], [`limits`] and [`machine`] first.

pub mod account;
pub mod audience;
pub mod calendar;
pub mod chat;
pub mod close;
pub mod counters;
mod encodings;
pub mod id;
pub mod limits;
pub mod link;
pub mod machine;
pub mod media;
pub mod ports;
pub mod presence;
pub mod product;
pub mod push;
pub mod request;
pub mod service;
pub mod session;
pub mod timeline;
pub mod topic;
pub mod zone;

pub use counters::{event, latency};
pub use limits::pressure;
