//! Words of sessions that outlive their connection (XEP-0198 5).
//!
//! ```text
//! Keep ─► (the connection ends) ─► Detach ─► kept, for a time ─► Resume ─► Resumed
//!                                                 └─► over: the session ends, as if it had closed
//! ```
//! The service does not know what a machine keeps of a session; it keeps it for the machine.
//! Deliveries to the session wait beside it meanwhile, within bounds, but for entries of the inbox,
//! which wait there.

use super::ChatDelivery;
use crate::close::CloseReason;
use crate::id::SessionRef;
use crate::timeline::Seq;
use base::encoding::Encoding;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// State of a machine that the service keeps while the session has no connection, and returns
/// unchanged to the machine that resumes it.
#[derive(Clone)]
pub struct KeptSession(Arc<dyn Any + Send + Sync>);

impl KeptSession {
    /// Leaves this.
    pub fn new<T: Any + Send + Sync>(what: T) -> KeptSession {
        KeptSession(Arc::new(what))
    }

    /// Takes it back, if it is of this type and nobody else has it.
    pub fn take<T: Any + Send + Sync>(self) -> Option<T> {
        Arc::into_inner(self.0.downcast::<T>().ok()?)
    }
}

impl PartialEq for KeptSession {
    fn eq(&self, other: &KeptSession) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for KeptSession {}

impl fmt::Debug for KeptSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeptSession")
    }
}

/// Name of a session that may be resumed, with proof that the caller was given it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResumptionId {
    /// The session: one tenancy of its record, so an id never names a later one.
    pub session: SessionRef,
    /// Drawn for it.
    pub secret: u128,
}

/// A session is to outlive its connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keeping {
    /// Its name for whoever resumes it.
    pub id: ResumptionId,
    /// How long, seconds; zero: no longer.
    pub seconds: u32,
}

/// The connection of a session ended in the middle of its stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Detaching {
    /// The session.
    pub session: SessionRef,
    /// State that its machine needs to go on.
    pub kept: KeptSession,
    /// Weight of that, bytes.
    pub bytes: usize,
    /// Stanzas of the client that are handled: it gets the number if the session cannot be resumed.
    pub handled: u32,
    /// Reason why the connection ended.
    pub reason: CloseReason,
}

/// A session goes on over this connection.
#[derive(Clone, PartialEq, Eq, Debug, Encoding)]
pub struct Resumed {
    /// The session that goes on; the one that asked is no more.
    pub session: SessionRef,
    /// State kept by its machine.
    pub kept: KeptSession,
    /// Deliveries that were held back meanwhile, in order.
    pub waiting: Vec<ChatDelivery>,
    /// The last place of its inbox.
    pub head: Seq,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_given_back_once_and_as_what_it_was() {
        let kept = KeptSession::new(7_u64);
        assert_eq!(kept.clone().take::<u32>(), None, "it is something else");
        let other = kept.clone();
        assert_eq!(kept, other);
        assert_eq!(kept.take::<u64>(), None, "somebody else has it");
        assert_eq!(other.take::<u64>(), Some(7));
        assert_ne!(KeptSession::new(7_u64), KeptSession::new(7_u64));
    }
}
