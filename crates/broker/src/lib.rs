//! The rules of topics and sessions over one shard's part of them.
//!
//! A [`Broker`] is pure and synchronous: it is told the time, takes one request, letter, command,
//! admission or completion, and says in [`Effects`] what is to be done. It knows no packet,
//! socket, file or clock.

mod effects;
mod letter;

pub use effects::Effects;
pub use letter::Letter;

use base::hash::HashKey;
use base::time::{Instant, Now};
use model::id::{ConnRef, ShardId};
use model::limits::Limits;
use model::ports::access::{Access, Admission};
use model::ports::control::Status;
use model::ports::log::{Completion, Restored};
use model::ports::topics::TopicCommand;
use model::session::{SessionDelivery, SessionRequest};
use std::sync::Arc;

/// What a broker is told once. Where `limits` speak of the process, it takes its shard's share.
#[derive(Clone)]
pub struct Settings {
    /// The shard it runs on.
    pub shard: ShardId,
    /// How many there are.
    pub shards: u16,
    /// The limits in force.
    pub limits: Arc<Limits>,
    /// The process's key for tables.
    pub hash_key: HashKey,
    /// The key by which sessions and topics are at home on a shard: the same over restarts, and
    /// the key that chooses shards. A session's identity is `["mqtt", client identifier]`.
    pub home: HashKey,
    /// Who may do what.
    pub access: Arc<dyn Access>,
    /// For identifiers that are given to clients, and for jitter.
    pub seed: u64,
}

/// The broker of one shard.
pub struct Broker {
    _settings: Settings,
}

impl Broker {
    /// A broker that knows no session.
    pub fn new(settings: Settings) -> Broker {
        Broker { _settings: settings }
    }

    /// Takes in what the log gives back (tables `Sessions` to `Delayed`, space `Sessions`), before
    /// anything else is asked. False when it could not be read; it stays in the log then.
    pub fn restore(&mut self, _now: Now, _restored: Restored<'_>) -> bool {
        true
    }

    /// Everything has come.
    pub fn restored(&mut self, _now: Now, _fx: &mut Effects) {}

    /// A machine asks.
    pub fn request(&mut self, _now: Now, _from: ConnRef, _word: SessionRequest, _fx: &mut Effects) {
    }

    /// The broker of another shard says something.
    pub fn letter(&mut self, _now: Now, _letter: Letter, _fx: &mut Effects) {}

    /// The answer to a question that was handed out.
    pub fn admitted(&mut self, _now: Now, _question: u64, _answer: Admission, _fx: &mut Effects) {}

    /// The log has completed a call.
    pub fn complete(&mut self, _now: Now, _completion: Completion, _fx: &mut Effects) {}

    /// The API asks; the answer comes in `fx.answers` under `ask`.
    pub fn command(&mut self, _now: Now, _ask: u64, _command: TopicCommand, _fx: &mut Effects) {}

    /// A delivery found its connection gone.
    pub fn undelivered(
        &mut self,
        _now: Now,
        _to: ConnRef,
        _delivery: SessionDelivery,
        _fx: &mut Effects,
    ) {
    }

    /// Goes on with whatever goes on, a slice of each, and says when it wants to be called again at
    /// the latest.
    pub fn turn(&mut self, _now: Now, _fx: &mut Effects) -> Option<Instant> {
        None
    }

    /// From now on clients are told that the server is going.
    pub fn drain(&mut self) {}

    /// Calls to the log that are not completed, and rows that are not written.
    pub fn unsettled(&self) -> usize {
        0
    }

    /// Adds this shard's gauges.
    pub fn status(&self, _status: &mut Status) {}
}

/// The hash that chooses the shard of what a log gives back, if it is the broker's.
pub fn home_of(_home: HashKey, _restored: &Restored<'_>) -> Option<u64> {
    None
}
