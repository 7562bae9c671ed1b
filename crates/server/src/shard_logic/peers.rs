//! Messages of the services of one shard to the same services of others.
//!
//! A service's messages to another shard in a turn are packed into one bag, which is sent at the
//! end of the turn. Each shard's [`PeerBacklog`] counts the messages on their way to it: a shard
//! whose messages pile up at another stops reading from its connections until they are fewer; the
//! same applies when fan-outs pile up at a service. Invariant: the count of a bag is subtracted
//! from the backlog by the shard that reads the bag, or drops it.

use base::encoding::{self, Encoding};
use model::id::ShardId;
use model::limits::Limits;
use model::service::{ServiceKind, Weigh};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Words on their way to one shard beyond which those who send to it are read no further. Each may
/// be a fan-out, and the other shard reads all of them in one turn.
const WAITING_MAX: usize = 8 * 1024;

/// Words between services that are on their way, to each shard.
#[derive(Clone)]
pub struct PeerBacklog {
    lines: Arc<[Line]>,
    /// Bytes beyond which the same happens: `peer_messages_bytes_max`.
    bytes_max: u64,
    /// Messages travel encoded, as to another process.
    encodes: bool,
}

/// Messages on their way to one shard.
#[derive(Default)]
struct Line {
    words: AtomicUsize,
    bytes: AtomicU64,
    /// A service there works more slowly than messages come.
    behind: AtomicBool,
}

impl Line {
    fn is_long(&self, bytes_max: u64) -> bool {
        self.words.load(Ordering::Relaxed) > WAITING_MAX
            || self.bytes.load(Ordering::Relaxed) > bytes_max
            || self.behind.load(Ordering::Relaxed)
    }
}

impl PeerBacklog {
    /// An empty backlog between this many shards.
    pub fn new(shards: u16, limits: &Limits) -> PeerBacklog {
        let bytes_max = limits.topics.peer_messages_bytes_max;
        let lines = (0..shards).map(|_| Line::default()).collect();
        PeerBacklog { lines, bytes_max, encodes: false }
    }

    /// Sets whether messages travel encoded, as to another process: for simulations.
    pub fn encoding(self, encodes: bool) -> PeerBacklog {
        PeerBacklog { encodes, ..self }
    }

    /// Sets other limits, for the shard that holds this.
    pub(super) fn configure(&mut self, limits: &Limits) {
        self.bytes_max = limits.topics.peer_messages_bytes_max;
    }

    /// Notes of a shard whether one of its services is behind.
    pub(super) fn set_behind(&self, shard: ShardId, behind: bool) {
        self.at(shard).behind.store(behind, Ordering::Relaxed);
    }

    /// Whether too much is on its way to a shard other than this one, or waits there.
    pub(super) fn is_long_beside(&self, shard: ShardId) -> bool {
        let others = self.lines.iter().enumerate().filter(|(at, _)| *at != usize::from(shard.0));
        others.into_iter().any(|(_, line)| line.is_long(self.bytes_max))
    }

    fn at(&self, shard: ShardId) -> &Line {
        &self.lines[usize::from(shard.0)]
    }
}

/// Messages of a service of one shard to the same service of another in a turn: a `Vec` of its peer
/// messages. However it ends, its count is taken off the backlog.
pub struct PeerBag {
    pub(super) service: ServiceKind,
    pub(super) from: ShardId,
    pub(super) to: ShardId,
    messages: PeerMessages,
    words: usize,
    bytes: u64,
    backlog: PeerBacklog,
}

/// Content of a bag.
enum PeerMessages {
    /// A `Vec` of messages of the service, within a process.
    Values(Box<dyn Any + Send>),
    /// The same, encoded.
    Bytes(Vec<u8>),
}

impl PeerBag {
    /// A bag of these messages, from one shard to another.
    pub(super) fn new<T: Weigh + Encoding + Send + 'static>(
        service: ServiceKind,
        (from, to): (ShardId, ShardId),
        messages: Vec<T>,
        backlog: &PeerBacklog,
    ) -> PeerBag {
        let bytes = messages.iter().map(|message| message.weight() as u64).sum();
        let (words, backlog) = (messages.len(), backlog.clone());
        let line = backlog.at(to);
        line.words.fetch_add(words, Ordering::Relaxed);
        line.bytes.fetch_add(bytes, Ordering::Relaxed);
        let messages = match backlog.encodes {
            false => PeerMessages::Values(Box::new(messages)),
            true => PeerMessages::Bytes(encoding::encode(&messages)),
        };
        PeerBag { service, from, to, messages, words, bytes, backlog }
    }

    /// The shard it is for.
    pub fn to(&self) -> ShardId {
        self.to
    }

    /// Its content: messages of its service.
    pub(super) fn open<T: Encoding + 'static>(mut self) -> Vec<T> {
        let nothing = PeerMessages::Bytes(Vec::new());
        let messages = match std::mem::replace(&mut self.messages, nothing) {
            PeerMessages::Values(messages) => messages.downcast().ok().map(|messages| *messages),
            PeerMessages::Bytes(bytes) => encoding::decode(&bytes).ok(),
        };
        if base::never!(messages.is_none(), "a bag has the messages of its service") {
            return Vec::new();
        }
        messages.unwrap_or_default()
    }
}

impl Drop for PeerBag {
    fn drop(&mut self) {
        let line = self.backlog.at(self.to);
        line.words.fetch_sub(self.words, Ordering::Relaxed);
        line.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
