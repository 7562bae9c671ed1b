//! MIOP, versions 5, 6 and 7: the push protocol of many devices, as pure machines.
//!
//! [`codec`] turns bytes into frames and back, [`server::Server`] and [`client::Client`] are the
//! two ends of a connection, [`sign`] says which bytes a device signs. Nothing here knows a
//! socket, the time, a product's secret (the client's own excepted) or another device. Whatever
//! bytes come, a machine answers, waits or ends with a reason; it keeps nothing of them between
//! calls.
//!
//! The format is drawn byte by byte in `docs/wire/miop.md`; clauses are cited as `MIOP 4.2`.

pub mod client;
pub mod codec;
pub mod server;
pub mod sign;

#[cfg(test)]
mod fuzz;
