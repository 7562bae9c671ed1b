//! Formats that nodes exchange through NATS: messages of a log's stream, values of the table,
//! beats.
//!
//! Each format has a version and limits; whatever does not decode is `None` and changes nothing.
//! Numbers are little endian.

pub mod beat;
pub mod message;
pub mod table;
