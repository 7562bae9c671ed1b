//! Calls of operators: readiness, status, backup. It knows no shard; figures are sums.

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

/// Whether the server accepts all requests.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Readiness {
    /// Whether it accepts all requests.
    ready: bool,
    /// Whether it is draining.
    draining: bool,
    /// Whether clients of a cluster belong here: `/readyz?lead` answers 200. A server that is alone
    /// leads.
    leads: bool,
    /// Each shard's log. A full log accepts data again when something is deleted; a failed one
    /// refuses writes until the disk is repaired and the server restarted.
    #[schemars(with = "Vec<LogWord>")]
    logs: Vec<&'static str>,
    /// Why it is not ready, in words; empty if it is.
    reasons: Vec<String>,
}

impl From<&crate::Readiness> for Readiness {
    fn from(readiness: &crate::Readiness) -> Readiness {
        Readiness {
            ready: readiness.is_ready(),
            draining: readiness.draining,
            leads: readiness.leads(),
            logs: readiness.logs.iter().map(|log| log.name()).collect(),
            reasons: readiness.reasons(),
        }
    }
}

/// Counters and gauges, summed over the shards.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Status {
    /// The server's version.
    version: &'static str,
    /// Whether the server is being drained or stopped: new clients are refused.
    draining: bool,
    /// Shards that answered.
    shards: u32,
    /// Threads that run the shards: one while the load is low.
    threads: u32,
    /// Open connections.
    connections: u64,
    /// Known devices, online or not.
    devices: u64,
    /// Online devices.
    online: u64,
    /// Pushes queued for devices.
    waiting: u64,
    /// Bytes of these.
    waiting_bytes: u64,
    /// Longest turn of a shard since the last call, microseconds.
    turn_us_max: u64,
    /// Requests that are refused because memory is short (limits.memory_max): nothing; new
    /// connections; also messages of QoS 0; also stores for offline clients.
    #[schemars(extend("enum" = Pressure::ALL.map(Pressure::name)))]
    memory_pressure: &'static str,
    /// MQTT sessions, online or not.
    sessions: u64,
    /// Connected sessions.
    sessions_online: u64,
    /// Subscriptions, including those of shared groups.
    subscriptions: u64,
    /// Retained messages, without the server's own ($SYS).
    retained: u64,
    /// Bytes of these messages.
    retained_bytes: u64,
    /// Messages queued for sessions, including unacknowledged ones.
    queued: u64,
    /// Bytes of these in memory.
    queued_bytes: u64,
    /// Delayed messages.
    delayed: u64,
    /// Connected devices of chat accounts.
    chat_sessions: u64,
    /// Chat messages stored and not yet in every inbox.
    chat_undistributed: u64,
    /// Chat messages queued for other XMPP servers.
    chat_queued_out: u64,
    /// Chat accounts with pending push notifications.
    chat_pushes_owing: u64,
    /// Clients that do not keep up: `GET /v1/slow_clients` lists them.
    slow_clients: u64,
    /// Chatrooms.
    chatrooms: u64,
    /// Sessions in chatrooms.
    chatroom_sessions: u64,
    /// The shards' loops, by number.
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
pub(crate) struct ShardLoop {
    /// Number of the shard.
    shard: u16,
    /// Open connections of the shard.
    connections: u64,
    /// Turns.
    turns: u64,
    /// Microseconds spent in them.
    busy_us: u64,
    /// Total delay of the turns, in microseconds. Up to a thousand for each turn is the resolution
    /// of the system's timer.
    lag_us: u64,
}

impl ShardLoop {
    fn new(of: &control::ShardLoop) -> ShardLoop {
        let &control::ShardLoop { shard, connections, turns, busy_us, lag_us } = of;
        ShardLoop { shard: shard.0, connections, turns, busy_us, lag_us }
    }
}

impl Status {
    pub(crate) fn new(
        (version, draining): (&'static str, bool),
        status: &control::Status,
    ) -> Status {
        let counters = &status.counters;
        Status {
            version,
            draining,
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
            slow_clients: status.slow_clients,
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

/// A complete backup.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BackedUp {
    /// The folder.
    pub(crate) to: PathBuf,
    /// Its size.
    pub(crate) bytes: u64,
}
