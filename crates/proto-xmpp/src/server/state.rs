//! State of a connection, and how it is kept in twelve bytes.
//!
//! [`Phase`] is what the machine works with; [`Packed`] is what stays while nothing happens. Words
//! of eight bytes are packed to a boundary of four, so that the table of protocols finds room for
//! its own tag beside them.

use super::XmppListener;
use super::opening::Opening;
use super::session::Session;
use std::sync::Arc;

/// Eight bytes on a boundary of four. Moved in and out, never borrowed.
#[repr(Rust, packed(4))]
struct Narrow<T>(T);

/// A phase at rest.
pub(super) struct Packed(State);

const _: () = assert!(size_of::<Packed>() <= 12 && align_of::<Packed>() <= 4);

enum State {
    New(Narrow<Arc<XmppListener>>),
    Opening(Narrow<Box<Opening>>),
    Session(Narrow<Box<Session>>),
    Over,
}

/// Where a connection is.
pub(super) enum Phase {
    /// The connection is not opened.
    New(Arc<XmppListener>),
    /// The connection is not bound to a resource: streams, TLS, login.
    Opening(Box<Opening>),
    /// Bound.
    Session(Box<Session>),
    /// The connection has ended: nothing more is read or written.
    Over,
}

impl Packed {
    /// State of a connection that is not opened.
    pub(super) const fn new(listener: Arc<XmppListener>) -> Packed {
        Packed(State::New(Narrow(listener)))
    }

    /// Packs a phase.
    pub(super) fn of(phase: Phase) -> Packed {
        Packed(match phase {
            Phase::New(listener) => State::New(Narrow(listener)),
            Phase::Opening(opening) => State::Opening(Narrow(opening)),
            Phase::Session(session) => State::Session(Narrow(session)),
            Phase::Over => State::Over,
        })
    }

    /// Takes the phase out; until one is put in again, the connection is over.
    pub(super) fn take(&mut self) -> Phase {
        match std::mem::replace(&mut self.0, State::Over) {
            State::New(Narrow(listener)) => Phase::New(listener),
            State::Opening(Narrow(opening)) => Phase::Opening(opening),
            State::Session(Narrow(session)) => Phase::Session(session),
            State::Over => Phase::Over,
        }
    }
}
