//! The sessions: which there are, and how one begins.
//!
//! A session is known by its id alone, 128 random bits, and by whether its requests are encrypted:
//! who heard an id in plain text gets nothing of a session that is not. Invariant: there are never
//! more than may be, in all or of one source, and one that is over is not found.

use crate::door::{BoshSettings, Caller};
use crate::task::{self, SessionStart};
use base::hex;
use model::limits::BoshLimits;
use model::limits::seats::{NoSeat, SourceSeat, SourceSeats};
use model::link::Source;
use proto_xmpp::bosh::{BoshRequest, BoshTerms};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

/// Requests that may wait for their session to look at them. One more waits outside.
const QUEUE_MAX: usize = 4;

/// Gives a session its stream.
pub trait StreamGiver: Send + Sync {
    /// Gives a shard its end of a pair of sockets, for whoever asks. False: there is no room.
    fn give(&self, socket: OwnedFd, caller: Caller) -> bool;
}

/// A request on its way to its session.
pub(crate) struct Posted {
    pub(crate) request: BoshRequest,
    /// Where its answer goes.
    pub(crate) reply: oneshot::Sender<Arc<[u8]>>,
    /// Its share of `reading_bytes_max`, held until the session looks at the request.
    pub(crate) room: SourceSeat,
}

/// All sessions.
pub(crate) struct Sessions {
    open: Arc<Mutex<HashMap<Box<str>, Seat>>>,
    seats: Arc<SourceSeats>,
    giver: Arc<dyn StreamGiver>,
    now_us: fn() -> u64,
    random: fn(&mut [u8]),
}

struct Seat {
    to: mpsc::Sender<Posted>,
    encrypted: bool,
    _seat: SourceSeat,
}

impl Sessions {
    pub(crate) fn new(settings: &BoshSettings) -> Sessions {
        let limits = &settings.bounds.limits;
        Sessions {
            open: Arc::default(),
            seats: SourceSeats::new(limits.sessions_max, limits.sessions_a_source_max),
            giver: settings.giver.clone(),
            now_us: settings.now_us,
            random: settings.random,
        }
    }

    /// Sets the most sessions. Those beyond stay.
    pub(crate) fn set_max(&self, limits: &BoshLimits) {
        self.seats.set_max(limits.sessions_max, limits.sessions_a_source_max);
    }

    /// How many there are.
    pub(crate) fn open(&self) -> u64 {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    /// Where requests of a session go.
    pub(crate) fn find(&self, sid: &str, caller: Caller) -> Option<mpsc::Sender<Posted>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(sid).filter(|seat| seat.encrypted == caller.encrypted).map(|seat| seat.to.clone())
    }

    /// Begins a session. `Err`: there is no room, and the request has no answer.
    pub(crate) fn begin(
        &self,
        (caller, terms): (Caller, BoshTerms),
        posted: Posted,
    ) -> Result<(), NoSeat> {
        let seat = self.seats.take(Source::of(caller.peer.ip()))?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(|_| NoSeat::Full)?;
        let ready = ours.set_nonblocking(true).and_then(|()| theirs.set_nonblocking(true));
        let stream = ready.and_then(|()| UnixStream::from_std(ours));
        let stream = stream.map_err(|_| NoSeat::Full)?;
        let mut id = [0; 16];
        (self.random)(&mut id);
        let sid: Box<str> = hex::encode(&id).into();
        let (to, from) = mpsc::channel(QUEUE_MAX);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.giver.give(theirs.into(), caller) {
            return Err(NoSeat::Full);
        }
        open.insert(sid.clone(), Seat { to, encrypted: caller.encrypted, _seat: seat });
        drop(open);
        let place = Place { open: self.open.clone(), sid: sid.clone() };
        let start = SessionStart { terms, sid, now_us: self.now_us };
        tokio::spawn(async move {
            task::run(start, posted, from, stream).await;
            drop(place);
        });
        Ok(())
    }
}

/// A session's place among all, until it is dropped.
struct Place {
    open: Arc<Mutex<HashMap<Box<str>, Seat>>>,
    sid: Box<str>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.sid);
    }
}
