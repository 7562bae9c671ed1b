//! State of a connection, and how it is kept in twelve bytes.
//!
//! [`Phase`] is what the machine works with; [`Packed`] is what stays while nothing happens. Words
//! of eight bytes are packed to a boundary of four, so that the table of protocols finds room for
//! its own tag beside them.

use super::ImListener;
use super::login::{Asked, Fresh};
use super::session::{Heard, Session};
use model::id::SessionRef;
use std::sync::Arc;

/// Eight bytes on a boundary of four. Moved in and out, never borrowed.
#[repr(Rust, packed(4))]
struct Narrow<T>(T);

/// A phase at rest.
pub(super) struct Packed(State);

const _: () = assert!(size_of::<Packed>() <= 12 && align_of::<Packed>() <= 4);

enum State {
    New(Narrow<Arc<ImListener>>),
    Fresh(Narrow<Box<Fresh>>),
    Asked(Narrow<Box<Asked>>),
    Session { session: Narrow<u64>, unanswered: u16, heard: Heard },
    Over,
}

/// Where a connection is.
pub(super) enum Phase {
    /// The connection is not opened.
    New(Arc<ImListener>),
    /// No Login has been taken; one is due.
    Fresh(Box<Fresh>),
    /// The login is with the service, or its challenge with the client.
    Asked(Box<Asked>),
    /// The device has its session.
    Session(Session),
    /// The connection has ended: nothing more is read or written.
    Over,
}

impl Packed {
    /// State of a connection that is not opened.
    pub(super) const fn new(listener: Arc<ImListener>) -> Packed {
        Packed(State::New(Narrow(listener)))
    }

    /// Packs a phase.
    pub(super) fn of(phase: Phase) -> Packed {
        Packed(match phase {
            Phase::New(listener) => State::New(Narrow(listener)),
            Phase::Fresh(fresh) => State::Fresh(Narrow(fresh)),
            Phase::Asked(asked) => State::Asked(Narrow(asked)),
            Phase::Session(Session { session, unanswered, heard }) => {
                State::Session { session: Narrow(session.bits()), unanswered, heard }
            }
            Phase::Over => State::Over,
        })
    }

    /// Whether it is a logged-in device's, which has no heap.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.0, State::Session { .. })
    }

    /// Takes the phase out; until one is put in again, the connection is over.
    pub(super) fn take(&mut self) -> Phase {
        match std::mem::replace(&mut self.0, State::Over) {
            State::New(Narrow(listener)) => Phase::New(listener),
            State::Fresh(Narrow(fresh)) => Phase::Fresh(fresh),
            State::Asked(Narrow(asked)) => Phase::Asked(asked),
            State::Session { session: Narrow(session), unanswered, heard } => {
                let session = SessionRef::from_bits(session);
                Phase::Session(Session { session, unanswered, heard })
            }
            State::Over => Phase::Over,
        }
    }
}
