//! A test as a file: the target, the clients, the stages, and the rules that must hold. Times are
//! texts like `90s`, `2h`, `10ms`; `%i` is a client's number in its group.
//!
//! Rates are per second, for the whole group. Every load is bounded: a stage has a length, and a
//! group a number of clients.

mod conversation;
mod fault;
mod span;

pub use conversation::PlannedConversation;
pub use fault::{Fault, FaultKind, Network};
pub use span::Span;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A test.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its name: letters, digits, `-`, `_`.
    pub name: String,
    /// Purpose of the test, in one sentence.
    #[serde(default)]
    pub about: String,
    /// Named values: `$NAME` stands for one of them in any text; alone in quotes it stands for the
    /// value itself, even a number. `--set NAME=VALUE` changes one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Parameter>,
    /// Server under test.
    #[serde(default)]
    pub target: Target,
    /// Groups of identical clients.
    #[serde(rename = "group", default)]
    pub groups: Vec<Group>,
    /// Conversations of many members, which stages create and groups of clients send to (IM).
    #[serde(rename = "conversation", default, skip_serializing_if = "Vec::is_empty")]
    pub conversations: Vec<PlannedConversation>,
    /// The stages, in order.
    #[serde(rename = "stage", default)]
    pub stages: Vec<Stage>,
    /// Rules over the whole run: see [`Check`].
    #[serde(default)]
    pub pass: Vec<String>,
    /// Seed of everything random; absent: drawn, and shown in the report.
    #[serde(default)]
    pub seed: Option<u64>,
}

/// A named value.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    /// A whole number.
    Whole(i64),
    /// Another number.
    Number(f64),
    /// A text.
    Text(String),
}

/// The target of a plan, and how it can be observed.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Target {
    /// Where clients connect, e.g. `mqtt://10.0.0.1:1883`; several are used in turn.
    pub url: Vec<String>,
    /// Its process on this machine, to observe.
    pub pid: Option<u32>,
    /// A port of this machine whose listening process is observed.
    pub port: Option<u16>,
    /// Where its metrics are, in Prometheus' format.
    pub metrics: Option<String>,
    /// Holdline's API, for scenarios that push through it or check presence.
    pub api: Option<String>,
    /// The API's token.
    pub token: Option<String>,
    /// The command that starts the target, for scenarios that kill it.
    pub start: Vec<String>,
    /// Its Redis, for scenarios with Redis faults: `host:port`.
    pub redis: Option<String>,
    /// The Redis process on this machine, to pause or kill.
    pub redis_pid: Option<u32>,
    /// The command that starts Redis again.
    pub redis_start: Vec<String>,
}

/// Identical clients.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Where its clients connect; empty: the plan's target.
    #[serde(default)]
    pub url: Vec<String>,
    /// Client or device id, with `%i`. Default: `NAME-%i`.
    #[serde(default)]
    pub id: Option<String>,
    /// Number of the first client.
    #[serde(default)]
    pub first: u32,
    /// Step from one client's number to the next: agents take turns with the numbers. Zero means
    /// one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step: u32,
    /// Source addresses, in turn: an address, a range like `127.0.1.0/24`, `auto` (loopback: as
    /// many of 127.0.0.0/8 as needed for ports; otherwise all of the host's). Empty: `auto`.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Requested keep-alive. Zero: none.
    #[serde(default = "default::keep_alive")]
    pub keep_alive: Span,
    /// Whether the clients send heartbeats to keep it.
    #[serde(default = "default::yes")]
    pub beats: bool,
    /// Timeout of an answer.
    #[serde(default = "default::timeout")]
    pub timeout: Span,
    /// First wait before a client reconnects, doubled each time. Zero: it does not reconnect.
    #[serde(default)]
    pub back_after: Span,
    /// Longest wait before a client reconnects.
    #[serde(default = "default::back_max")]
    pub back_max: Span,
    /// Topics that it subscribes to, with `%i` (MQTT).
    #[serde(default)]
    pub subscribe: Vec<String>,
    /// Quality of service of its subscriptions (MQTT).
    #[serde(default)]
    pub subscribe_qos: u8,
    /// Whether its sessions outlive connections (MQTT: clean start off, no expiry).
    #[serde(default)]
    pub keep_session: bool,
    /// MQTT: 3, 4 or 5; MIOP: 5, 6 or 7. Absent: MQTT 4 (3.1.1), MIOP 7.
    #[serde(default)]
    pub version: Option<u8>,
    /// User name (MQTT), or account (IM), with `%i`. Absent in IM: the `id`.
    #[serde(default)]
    pub user: Option<String>,
    /// Password (MQTT, IM).
    #[serde(default)]
    pub password: Option<String>,
    /// Whether it logs in by SCRAM-SHA-256 instead of sending the password (IM).
    #[serde(default)]
    pub scram: bool,
    /// Product key (MIOP).
    #[serde(default)]
    pub product: Option<String>,
    /// Product secret in hexadecimal (MIOP).
    #[serde(default)]
    pub secret: Option<String>,
    /// A file of trusted authorities (TLS). Absent: any certificate is accepted.
    #[serde(default)]
    pub authority: Option<String>,
    /// Threads; zero: one a core, or fewer for few clients.
    #[serde(default)]
    pub threads: u16,
    /// Whether each client answers every message by publishing it to this topic, where `%s` is the
    /// sender's number if the message carries one (round trips).
    #[serde(default)]
    pub answer_to: Option<String>,
    /// Messages that each client should receive for one message of this group, by which losses are
    /// detected. `{ sender = receivers of one message, in all }`. Absent: derived from topics and
    /// subscriptions where these are simple.
    #[serde(default)]
    pub hears: BTreeMap<String, f64>,
    /// Whether its clients audit: each fetches what its account was sent, the stage's hold ends
    /// when all have finished, and the result is compared with what the target acknowledged (IM;
    /// `audit.*` in rules).
    #[serde(default)]
    pub audits: bool,
    /// Whether its clients only send, and neither fetch nor acknowledge messages for them (IM).
    #[serde(default)]
    pub lite: bool,
    /// Whether its clients connect through the built-in fault proxy, which applies network faults.
    /// If no group sets this and a stage has such a fault, all do.
    #[serde(default)]
    pub proxied: bool,
}

impl Group {
    /// The number of the client at this place in the group, from 0 on.
    pub fn number_of(&self, place: u32) -> u32 {
        self.first.wrapping_add(place.wrapping_mul(self.step.max(1)))
    }
}

fn is_zero(step: &u32) -> bool {
    *step == 0
}

/// How clients arrive.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrival {
    /// This many a second, evenly (open loop).
    Rate {
        /// Connections a second.
        per_s: f64,
    },
    /// This many a second, at random moments (open loop).
    Poisson {
        /// Connections a second, on average.
        per_s: f64,
    },
    /// All at once.
    Burst,
    /// This many at once, then again after a while.
    Steps {
        /// Clients in each step.
        clients: u32,
        /// Interval between steps.
        every: Span,
    },
    /// The next ones as soon as others are bound (closed loop).
    Window {
        /// Connections that are not bound yet, at the same time.
        open: u32,
    },
}

/// Traffic of a group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Kind of the traffic.
    pub what: What,
    /// Topic (MQTT) or account (IM, XMPP) that receives it, with `%i`; or the name of conversations
    /// (IM).
    #[serde(default)]
    pub topic: Option<String>,
    /// Addresses that the topic's numbers stand for, from 0 on: the run fills in those of
    /// conversations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The topic's number is drawn anew for each message, below this value.
    #[serde(default)]
    pub among: Option<u32>,
    /// The number is drawn only among this many that follow the client's own number, like the
    /// contacts of a user (IM, XMPP).
    #[serde(default)]
    pub contacts: Option<u32>,
    /// The number is not drawn: each client sends to all of them in turn, this many rounds; then it
    /// has sent everything for this run (IM, XMPP, with `window` or `every`).
    #[serde(default)]
    pub loops: Option<u32>,
    /// Quality of service (MQTT).
    #[serde(default)]
    pub qos: u8,
    /// Whether the message is to be retained (MQTT).
    #[serde(default)]
    pub retain: bool,
    /// Bytes of its body, at least 16. From 36 on it carries data that detects duplicates and
    /// changes.
    #[serde(default = "default::bytes")]
    pub bytes: u32,
    /// Messages of the whole group, in all; after them no more are sent, and the stage's hold ends
    /// when all groups with a number have sent theirs. Absent: until the stage ends.
    #[serde(default)]
    pub messages: Option<u64>,
    /// The pace: `{ per_s = 100 }`, `{ window = 10 }`, `{ every = "60s" }`, `{ wave = { … } }`.
    pub pace: Pace,
}

impl Traffic {
    /// Messages that this many clients will have sent when they have completed their rounds;
    /// `None`: without rounds.
    pub fn rounds(&self, clients: u32) -> Option<u64> {
        let each = u64::from(self.loops?) * u64::from(self.among?);
        Some(each * u64::from(clients))
    }
}

/// Kind of traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Heartbeats, in addition to those that keep the connection alive.
    Heartbeat,
    /// A message to others (MQTT, IM), or a report to the server (MIOP).
    Publish,
    /// A request (HTTP), or bytes to be echoed (TCP).
    Request,
    /// A push by Holdline's API to this group's devices.
    Push,
}

/// The pace of sending.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// This many a second in the whole group, at planned moments (open loop).
    PerS(f64),
    /// Each client keeps this many unanswered (closed loop).
    Window(u16),
    /// Each client, at this interval.
    Every(Span),
    /// A wave between two rates in the whole group, up and down once in a period (open loop).
    Wave {
        /// Messages a second, at least.
        low: f64,
        /// Messages a second, at most.
        high: f64,
        /// From one minimum to the next.
        period: Span,
    },
}

/// A stage of the run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Target number of connected clients of each group.
    #[serde(default)]
    pub clients: BTreeMap<String, u32>,
    /// How they arrive.
    #[serde(default = "default::arrival")]
    pub arrive: Arrival,
    /// Whether all clients disconnect first and connect anew.
    #[serde(default)]
    pub anew: bool,
    /// The stage continues when all are connected, or after this time.
    #[serde(default = "default::arrive_max")]
    pub arrive_max: Span,
    /// Conversations that are created once its clients are connected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub makes: Vec<String>,
    /// Traffic of groups in this stage; a group that is not listed continues as before.
    #[serde(default)]
    pub traffic: BTreeMap<String, Vec<Traffic>>,
    /// Duration of the hold, which begins when all are connected.
    #[serde(default)]
    pub hold: Span,
    /// Faults during the hold.
    #[serde(rename = "fault", default)]
    pub faults: Vec<Fault>,
    /// Rules at its end: see [`Check`].
    #[serde(default)]
    pub pass: Vec<String>,
    /// Whether the run ends if the stage fails.
    #[serde(default)]
    pub stop_on_failure: bool,
}

/// A rule, as text: `FIGURE OPERATOR VALUE`, e.g. `errors == 0`, `bind.p99 < 500ms`,
/// `heartbeats.lost_share < 1e-5`, `target.process.rss.drift < 1%`. The figures are listed in
/// docs/laboratory.md; operators are `<`, `<=`, `>`, `>=`, `==`.
pub type Check = String;

mod default {
    use super::{Arrival, Span};

    pub fn yes() -> bool {
        true
    }

    pub fn all() -> f64 {
        1.0
    }

    pub fn bytes() -> u32 {
        64
    }

    pub fn keep_alive() -> Span {
        Span::from_secs(60)
    }

    pub fn timeout() -> Span {
        Span::from_secs(15)
    }

    pub fn back_max() -> Span {
        Span::from_secs(60)
    }

    pub fn arrive_max() -> Span {
        Span::from_secs(600)
    }

    pub fn arrival() -> Arrival {
        Arrival::Window { open: 512 }
    }
}
