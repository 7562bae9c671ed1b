//! What operators ask for: readiness, status, backup. It knows no shard; figures come added up.

use crate::texts::LogWord;
use model::close::CloseReason;
use model::counters::Counter;
use model::ports::control;
use model::pressure::Pressure;
use model::session::Drop;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Whether the server takes everything that belongs here.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Readiness {
    /// Whether it takes everything that belongs here.
    ready: bool,
    /// Whether it lets its connections go.
    draining: bool,
    /// Each shard's log. A full one has room again when something is taken from it; one that
    /// failed takes nothing until the disk is mended and the server restarted.
    #[schemars(with = "Vec<LogWord>")]
    logs: Vec<&'static str>,
    /// Why it is not ready, for people; empty when it is.
    reasons: Vec<String>,
}

impl From<&crate::Readiness> for Readiness {
    fn from(readiness: &crate::Readiness) -> Readiness {
        Readiness {
            ready: readiness.is_ready(),
            draining: readiness.draining,
            logs: readiness.logs.iter().map(|log| log.name()).collect(),
            reasons: readiness.reasons(),
        }
    }
}

/// Counters and gauges, added up over the shards.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Status {
    /// The server's version.
    version: &'static str,
    /// Shards that answered.
    shards: u32,
    /// Threads that run them: one while there is little to do.
    threads: u32,
    /// Connections open.
    connections: u64,
    /// Devices with a record.
    devices: u64,
    /// Devices bound.
    online: u64,
    /// Pushes waiting.
    waiting: u64,
    /// Their weight.
    waiting_bytes: u64,
    /// Longest turn of a shard since the last question, microseconds.
    turn_us_max: u64,
    /// What is given up because memory is short (limits.memory_max): nothing; new connections;
    /// messages of QoS 0, too; stores for those who are away, too.
    #[schemars(extend("enum" = Pressure::ALL.map(Pressure::name)))]
    memory_pressure: &'static str,
    /// Sessions of topics, online or not.
    sessions: u64,
    /// Sessions with a connection.
    sessions_online: u64,
    /// Subscriptions, those of shared groups included.
    subscriptions: u64,
    /// Retained messages.
    retained: u64,
    /// Their bytes.
    retained_bytes: u64,
    /// Messages that wait for sessions, those on the way included.
    queued: u64,
    /// Their bytes in memory.
    queued_bytes: u64,
    /// Publications for later.
    delayed: u64,
    /// Devices of accounts of chat that are here.
    chat_sessions: u64,
    /// Messages of chat that are stored and not in every inbox yet.
    chat_undistributed: u64,
    /// Messages of chat for other servers that are not with them.
    chat_queued_out: u64,
    /// Accounts of chat with something to tell devices that are away.
    chat_pushes_owing: u64,
    /// Chatrooms.
    chatrooms: u64,
    /// Devices that are in a chatroom.
    chatroom_sessions: u64,
    /// The shards' loops, in the order of their numbers.
    loops: Vec<ShardLoop>,
    /// Counted since the start, by name.
    counters: BTreeMap<&'static str, u64>,
    /// Connections ended since the start, by reason.
    closed: BTreeMap<&'static str, u64>,
    /// Messages not delivered to a session since the start, by reason.
    dropped: BTreeMap<&'static str, u64>,
}

/// The loop of one shard, since the start.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct ShardLoop {
    /// Which shard.
    shard: u16,
    /// Connections open there.
    connections: u64,
    /// Turns.
    turns: u64,
    /// Microseconds in them.
    busy_us: u64,
    /// Microseconds by which they began later than the shard wanted, by a timer or for what was
    /// left over. Up to a thousand a turn is the grain of the system's clock.
    lag_us: u64,
}

impl ShardLoop {
    fn new(of: &control::ShardLoop) -> ShardLoop {
        let &control::ShardLoop { shard, connections, turns, busy_us, lag_us } = of;
        ShardLoop { shard: shard.0, connections, turns, busy_us, lag_us }
    }
}

impl Status {
    pub(crate) fn new(version: &'static str, status: &control::Status) -> Status {
        let counters = &status.counters;
        Status {
            version,
            shards: status.shards,
            threads: status.threads,
            connections: status.connections,
            devices: status.devices,
            online: status.online,
            waiting: status.waiting,
            waiting_bytes: status.waiting_bytes,
            turn_us_max: status.turn_us_max,
            memory_pressure: status.pressure.name(),
            sessions: status.sessions,
            sessions_online: status.sessions_online,
            subscriptions: status.subscriptions,
            retained: status.retained,
            retained_bytes: status.retained_bytes,
            queued: status.queued,
            queued_bytes: status.queued_bytes,
            delayed: status.delayed,
            chat_sessions: status.chat_sessions,
            chat_undistributed: status.chat_undistributed,
            chat_queued_out: status.chat_queued_out,
            chat_pushes_owing: status.chat_pushes_owing,
            chatrooms: status.chatrooms,
            chatroom_sessions: status.chatroom_sessions,
            loops: status.loops.iter().map(ShardLoop::new).collect(),
            counters: Counter::ALL.iter().map(|&of| (of.name(), counters.of(of))).collect(),
            closed: CloseReason::ALL
                .iter()
                .map(|&of| (of.name(), counters.closed_of(of)))
                .collect(),
            dropped: Drop::ALL.iter().map(|&of| (of.name(), counters.dropped_of(of))).collect(),
        }
    }
}

/// A backup that is whole.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BackedUp {
    /// The folder.
    pub(crate) to: PathBuf,
    /// Its size.
    pub(crate) bytes: u64,
}
