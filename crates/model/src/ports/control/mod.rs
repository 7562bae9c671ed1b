//! Control port: what the API asks of the services.
//!
//! A [`Command`] about one of a service's own (a device, a client, a topic) goes to the shard that
//! owns it, one about all goes to all shards and the answers are merged; the API sees one answer
//! either way.

pub mod disconnections;
pub mod slow_clients;
pub mod top;

use crate::counters::Counters;
use crate::id::{MessageId, ShardId};
use crate::ports::chat::{ChatAnswer, ChatCommand};
use crate::ports::presence::queries::{PresenceAnswer, PresenceCommand};
use crate::ports::pushes::{PushAnswer, PushCommand};
use crate::ports::topics::{TopicAnswer, TopicCommand};
use crate::pressure::Pressure;
use crate::service::{Echo, ServiceKind};
use disconnections::{DisconnectionPage, DisconnectionQuery};
use slow_clients::SlowClient;
use top::{TopKind, TopPage};

/// A question or an order from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// About devices, pushes and products. Answer: `Push`.
    Push(PushCommand),
    /// About topics and sessions. Answer: `Topics`.
    Topics(TopicCommand),
    /// About an account and its conversations. Answer: `Chat`.
    Chat(ChatCommand),
    /// Bytes to send back. Answer: `Echo`.
    Echo(Echo),
    /// About who is online. Answer: `Presence`.
    Presence(PresenceCommand),
    /// The newest ended connections. Answer: `Disconnections`.
    Disconnections(Box<DisconnectionQuery>),
    /// Clients that do not keep up. Answer: `SlowClients`.
    SlowClients,
    /// Asks for the clients that cause most load. Answer: `Top`.
    Top(TopKind),
    /// Counters and gauges. Answer: `Status`.
    Status,
}

impl Command {
    /// The service it is for; absent: the shard itself answers.
    pub const fn service(&self) -> Option<ServiceKind> {
        match self {
            Command::Push(_) => Some(ServiceKind::Push),
            Command::Topics(_) => Some(ServiceKind::Topics),
            Command::Chat(_) => Some(ServiceKind::Chat),
            Command::Echo(_) => Some(ServiceKind::Echo),
            Command::Presence(_)
            | Command::Disconnections(_)
            | Command::SlowClients
            | Command::Top(_)
            | Command::Status => None,
        }
    }
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Answer to `Push`.
    Push(PushAnswer),
    /// Answer to `Topics`.
    Topics(TopicAnswer),
    /// Answer to `Chat`.
    Chat(ChatAnswer),
    /// Answer to `Echo`.
    Echo(Echo),
    /// Answer to `Presence`.
    Presence(PresenceAnswer),
    /// Answer to `Disconnections`.
    Disconnections(DisconnectionPage),
    /// Answer to `SlowClients`.
    SlowClients(Vec<SlowClient>),
    /// Answer to `Top`.
    Top(TopPage),
    /// Answer to `Status`.
    Status(Box<Status>),
    /// A mailbox is full, or no service handles the command: nothing was done, retry.
    Busy,
}

/// Counters and gauges of the process, added up over its shards.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// Counters.
    pub counters: Counters,
    /// Connections open.
    pub connections: u64,
    /// Devices with a record.
    pub devices: u64,
    /// Devices bound.
    pub online: u64,
    /// Pushes waiting for devices.
    pub waiting: u64,
    /// Their weight in bytes.
    pub waiting_bytes: u64,
    /// Shards that answered.
    pub shards: u32,
    /// Threads that run them.
    pub threads: u32,
    /// Longest turn of a shard's loop since the last question, microseconds.
    pub turn_us_max: u64,
    /// Sessions, online or not.
    pub sessions: u64,
    /// Sessions with a connection.
    pub sessions_online: u64,
    /// Subscriptions, those of shared groups included.
    pub subscriptions: u64,
    /// Retained messages, without those of the server itself.
    pub retained: u64,
    /// Their bytes.
    pub retained_bytes: u64,
    /// Messages that wait for sessions, those on the way included.
    pub queued: u64,
    /// Their bytes in memory.
    pub queued_bytes: u64,
    /// Publications for later.
    pub delayed: u64,
    /// Sessions of chat: devices of accounts that are here.
    pub chat_sessions: u64,
    /// Messages of chat that are stored and not yet in every inbox.
    pub chat_undistributed: u64,
    /// Messages of chat for other servers that are not with them.
    pub chat_queued_out: u64,
    /// Accounts of chat with something to tell devices that are away.
    pub chat_pushes_owing: u64,
    /// Clients in the list of those that do not keep up.
    pub slow_clients: u64,
    /// Chatrooms.
    pub chatrooms: u64,
    /// Sessions of chat that are in a chatroom, or have asked to be.
    pub chatroom_sessions: u64,
    /// How short memory is.
    pub pressure: Pressure,
    /// The shards' loops, in the order of their numbers.
    pub loops: Vec<ShardLoop>,
}

/// The loop of one shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct ShardLoop {
    /// The shard.
    pub shard: ShardId,
    /// Connections open there.
    pub connections: u64,
    /// Turns since the start.
    pub turns: u64,
    /// Microseconds in them.
    pub busy_us: u64,
    /// Microseconds by which turns began later than the shard wanted, by a timer or for what was
    /// left over.
    pub lag_us: u64,
}

impl Status {
    /// Adds another shard's figures.
    pub fn add(&mut self, other: &Status) {
        self.counters.add(&other.counters);
        self.connections += other.connections;
        self.devices += other.devices;
        self.online += other.online;
        self.waiting += other.waiting;
        self.waiting_bytes += other.waiting_bytes;
        self.shards += other.shards;
        self.threads = self.threads.max(other.threads);
        self.pressure = self.pressure.max(other.pressure);
        self.turn_us_max = self.turn_us_max.max(other.turn_us_max);
        self.sessions += other.sessions;
        self.sessions_online += other.sessions_online;
        self.subscriptions += other.subscriptions;
        self.retained += other.retained;
        self.retained_bytes += other.retained_bytes;
        self.queued += other.queued;
        self.queued_bytes += other.queued_bytes;
        self.delayed += other.delayed;
        self.chat_sessions += other.chat_sessions;
        self.chat_undistributed += other.chat_undistributed;
        self.chat_queued_out += other.chat_queued_out;
        self.chat_pushes_owing += other.chat_pushes_owing;
        self.slow_clients += other.slow_clients;
        self.chatrooms += other.chatrooms;
        self.chatroom_sessions += other.chatroom_sessions;
        self.loops.extend(&other.loops);
        self.loops.sort_unstable();
    }
}

/// Callback that takes an answer: called once.
pub type Reply = Box<dyn FnOnce(Answer) + Send>;

/// The way in. Implemented by the roof, used by the API.
pub trait Control: Send + Sync {
    /// Asks; `reply` is called exactly once, from any thread, and must not block.
    fn ask(&self, command: Command, reply: Reply);

    /// The next push id.
    fn next_id(&self) -> MessageId;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::PushCounter;

    #[test]
    fn figures_of_shards_add_up_and_the_worst_of_them_stands() {
        let of = |n: u64, most, pressure| {
            let mut counters = Counters::default();
            counters.count_by(PushCounter::Binds, n);
            Status {
                counters,
                connections: 2 * n,
                devices: 3 * n,
                online: 4 * n,
                waiting: 5 * n,
                waiting_bytes: 6 * n,
                shards: n as u32,
                threads: most as u32,
                turn_us_max: most,
                sessions: 7 * n,
                sessions_online: 8 * n,
                subscriptions: 9 * n,
                retained: 10 * n,
                retained_bytes: 11 * n,
                queued: 12 * n,
                queued_bytes: 13 * n,
                delayed: 14 * n,
                chat_sessions: 15 * n,
                chat_undistributed: 16 * n,
                chat_queued_out: 17 * n,
                chat_pushes_owing: 18 * n,
                slow_clients: 21 * n,
                chatrooms: 19 * n,
                chatroom_sessions: 20 * n,
                pressure,
                loops: Vec::new(),
            }
        };
        let mut sum = of(1, 50, Pressure::Calm);
        sum.add(&of(10, 70, Pressure::Qos0));
        sum.add(&of(100, 60, Pressure::Connections));
        assert_eq!(sum, of(111, 70, Pressure::Qos0));
        for shard in [2, 0, 1] {
            let loops = vec![ShardLoop { shard: ShardId(shard), ..ShardLoop::default() }];
            sum.add(&Status { loops, ..Status::default() });
        }
        let shards: Vec<u16> = sum.loops.iter().map(|it| it.shard.0).collect();
        assert_eq!(shards, [0, 1, 2], "each by itself, in their order");
    }
}
