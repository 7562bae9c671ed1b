//! XMPP without sockets: a stream of XML, and what it says in the words of the model.
//!
//! [`framer`] finds the pieces of a stream, [`scan`] reads a whole one, [`stream`], [`stanza`] and
//! [`sasl`] are what is said of streams, stanzas and logins, [`jid`] holds addresses to the rules
//! of accounts, and [`render`] turns messages of the model into stanzas and back. Nothing here
//! knows a socket, a clock, an account's contents or another connection; whatever bytes come, they
//! are read, more is waited for, or there is a stream error.
//!
//! The machine of a server is not there yet, and no listener serves XMPP.

pub mod fault;
pub mod framer;
pub mod jid;
pub mod render;
pub mod sasl;
pub mod scan;
pub mod stanza;
pub mod stream;
pub mod text;
