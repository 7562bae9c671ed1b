//! BOSH: a stream of XMPP in requests of HTTP (XEP-0124, XEP-0206).
//!
//! ```text
//! <body/> requests ─► BoshSession ─► a stream as over TCP ─► server machine
//! <body/> answers  ◄─ holds them  ◄─ what it says, taken apart into stanzas
//! ```
//! Pure: whoever has the requests and the stream tells what came and the time, and carries out what
//! is left in [`BoshOutput`]. It knows no HTTP. Invariant: every request is answered once, and of
//! each thing that can grow there is a bound in [`BoshTerms`].

mod body;
mod session;
#[cfg(test)]
mod tests;

pub use body::{BoshFault, BoshRequest, HTTP_BIND};
pub use session::{BoshOutput, BoshSession, BoshTerms};
