//! MQTT 3.1, 3.1.1 and 5.0, as pure code.
//!
//! [`codec`] turns bytes into packets and back, for both ends of a connection: a server decodes
//! what clients send, a client what servers send. Whatever bytes come, it answers with a packet,
//! with how many more bytes it needs, or with one fault that names the clause it breaks and the
//! answer it demands. [`server`] and [`client`] are one side of one connection each, as pure state
//! machines: packets become words of the model, and words packets. Nothing here knows a socket, a
//! clock, a session's contents or another connection.
//!
//! Clauses are cited as `MQTT5 3.3.1-4` (the numbered statements of 5.0), `MQTT3 2.3.1-1` (those
//! of 3.1.1) and `MQTT31 3.1` (sections of 3.1, which numbers none). `statements.txt` lists every
//! numbered statement that is kept here with its place and its test, and
//! docs/mqtt-statements.md those of every crate.
#![forbid(unsafe_code)]

pub mod client;
pub mod codec;
pub mod server;

#[cfg(test)]
mod fuzz;
