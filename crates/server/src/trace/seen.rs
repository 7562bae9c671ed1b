//! Events of followed connections, from shards to their trace.
//!
//! An event is shared by all traces that want it, and copied once. Invariant: `waiting` is the sum
//! of the weights of what was handed over and is not decoded yet.

use model::close::CloseReason;
use model::limits::ApiLimits;
use model::ports::trace::{TraceDirection, TraceField, TraceScope};
use model::topic::Publication;
use proto_mqtt::codec::Version;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

/// Batches that wait for a trace's thread; what they weigh has its own limit.
pub(super) const BATCHES_MAX: usize = 1_024;

/// Weight of an entry beside its bytes.
const ENTRY_BYTES: usize = 128;

/// Event that a shard saw on a connection.
pub(super) struct Seen {
    /// Number of the connection; 0: a message without one.
    pub(super) connection: u64,
    /// Unix millisecond.
    pub(super) at_ms: u64,
    pub(super) wire: WireKind,
    pub(super) what: SeenWhat,
}

/// Protocol of a connection, as far as its machine knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WireKind {
    Miop,
    Mqtt(Option<Version>),
    Im,
    Xmpp,
}

/// Event that was seen.
pub(super) enum SeenWhat {
    /// The connection begins, or is followed from here on.
    Opened { facts: LinkFacts, was_there: bool },
    /// The connection is this client's, or claims to be.
    Is(Names),
    /// Bytes that a machine took or said.
    Bytes(TraceDirection, Box<[u8]>),
    /// Number of bytes that were too many to be copied.
    TooMany(TraceDirection, usize),
    /// Number of bytes that were not taken.
    Untaken(usize),
    /// The server noticed or decided something.
    Noticed(&'static str, Vec<TraceField>),
    /// A message on a topic that is followed.
    Message { kind: &'static str, who: Names, message: Arc<Publication>, fields: Vec<TraceField> },
    /// The connection ended.
    Closed(CloseReason),
}

/// Facts of a connection's link, as far as they are known.
#[derive(Clone, Copy, Default)]
pub(super) struct LinkFacts {
    pub(super) peer: Option<SocketAddr>,
    pub(super) tls: Option<&'static str>,
    pub(super) web_socket: bool,
}

/// Names of whoever speaks on a connection, as far as they are known.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Names {
    pub(super) client: Option<String>,
    pub(super) user: Option<String>,
    pub(super) peer: Option<SocketAddr>,
}

impl Seen {
    /// An event of the same moment.
    pub(super) fn with(&self, what: SeenWhat) -> Seen {
        Seen { what, ..*self }
    }

    /// Approximate memory, bytes.
    pub(super) fn weight(&self) -> usize {
        let own = match &self.what {
            SeenWhat::Bytes(_, bytes) => bytes.len(),
            SeenWhat::Message { message, .. } => message.weight(),
            _ => 0,
        };
        own + ENTRY_BYTES
    }
}

/// A trace under way, as shards know it.
pub struct ActiveTrace {
    /// Number above those of all earlier traces.
    pub(super) number: u64,
    pub(super) scope: TraceScope,
    pub(super) limits: ApiLimits,
    sender: SyncSender<Vec<Arc<Seen>>>,
    waiting: AtomicUsize,
    left_out: AtomicU64,
    is_over: AtomicBool,
}

impl ActiveTrace {
    pub(super) fn new(
        number: u64,
        scope: TraceScope,
        limits: ApiLimits,
        sender: SyncSender<Vec<Arc<Seen>>>,
    ) -> ActiveTrace {
        let (waiting, left_out, is_over) = Default::default();
        ActiveTrace { number, scope, limits, sender, waiting, left_out, is_over }
    }

    /// Bytes that may wait for its thread.
    pub(super) fn waiting_max(&self) -> usize {
        self.limits.trace_waiting_bytes_max as usize
    }

    /// Hands over what a shard saw, of this weight; what there is no room for is left out.
    pub(super) fn hand_over(&self, (batch, weight): (Vec<Arc<Seen>>, usize)) {
        let count = batch.len() as u64;
        let waits = self.waiting.fetch_add(weight, Ordering::Relaxed);
        let fits = waits == 0 || waits + weight <= self.waiting_max();
        let sent = if fits { self.sender.try_send(batch) } else { Err(TrySendError::Full(batch)) };
        if sent.is_err() {
            self.waiting.fetch_sub(weight, Ordering::Relaxed);
            self.leave_out(count);
        }
    }

    /// Its thread has what was handed over.
    pub(super) fn taken(&self, batch: &[Arc<Seen>]) {
        let weight: usize = batch.iter().map(|seen| seen.weight()).sum();
        self.waiting.fetch_sub(weight, Ordering::Relaxed);
    }

    /// Counts events that are left out of the trace.
    pub(super) fn leave_out(&self, count: u64) {
        if self.left_out.fetch_add(count, Ordering::Relaxed) == 0 {
            self.wake();
        }
    }

    /// Has its thread look. With no room for that, it is looking.
    fn wake(&self) {
        let _ = self.sender.try_send(Vec::new());
    }

    /// Takes how much was left out since this was asked last.
    pub(super) fn take_left_out(&self) -> u64 {
        self.left_out.swap(0, Ordering::Relaxed)
    }

    /// Ends the trace: its reader is gone.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.wake();
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
