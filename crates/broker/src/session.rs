//! Sessions: how they come, go and end.
//!
//! A session is a record of 72 bytes; whatever an idle one does not need is boxed beside it. A
//! request of a connection counts only while the session is bound to it.

pub(crate) mod access;
pub(crate) mod admissions;
pub(crate) mod allowed;
pub(crate) mod chat_calls;
pub(crate) mod connect;
pub(crate) mod endings;
pub(crate) mod events;
pub(crate) mod inbound;
pub(crate) mod keep_alive;
pub(crate) mod leave;
#[cfg(test)]
pub(crate) mod made;
pub(crate) mod principals;
pub(crate) mod record;
pub(crate) mod rights;
pub(crate) mod sessions;
pub(crate) mod shares;
pub(crate) mod timers;
