//! Ground floor: what the standard library could have had.
//!
//! Time that is an argument and never read, slots whose ids cannot be mistaken for a later tenant,
//! a hash index that never pauses to grow, a wheel for short timers, bytes that are taken off the
//! front, straight-line functions that wait for answers, the pace at which a crowd is let in, rates
//! of many names, strangers' text made fit to be shown, bytes as hexadecimal digits, the word that
//! a typing error meant, keys of a configuration with their texts and types, the secret of a
//! cluster, the encoding of messages between processes. Nothing here knows a protocol, a socket, a
//! file or the clock; everything is memory.
//!
//! Read [`time`] first, then [`slab`]: every long-lived record of the server lives in one.

// The derive names this crate.
extern crate self as base;

pub mod bytes;
pub mod calendar;
pub mod encoding;
pub mod flows;
pub mod hash;
pub mod hex;
pub mod index;
pub mod never;
pub mod pace;
pub mod prng;
pub mod rounds;
pub mod secret;
pub mod setting;
pub mod slab;
pub mod small_map;
pub mod text;
pub mod thin_queue;
pub mod time;
pub mod typo;
pub mod wheel;
