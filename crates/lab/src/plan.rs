//! A test as a file: whom to test, who the clients are, what happens stage by stage, and what must
//! hold. Times are texts like `90s`, `2h`, `10ms`; `%i` is a client's number in its group.
//!
//! Every rate is for the whole group, a second. Every load is bounded: a stage has a length, and a
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
    /// What it shows, in a sentence.
    #[serde(default)]
    pub about: String,
    /// Values with names: `$NAME` stands for one of them in any text, and alone in quotes for its
    /// value, be it a number. `--set NAME=VALUE` changes one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Parameter>,
    /// Whom it tests.
    #[serde(default)]
    pub target: Target,
    /// Groups of clients that are alike.
    #[serde(rename = "group", default)]
    pub groups: Vec<Group>,
    /// Conversations of many, that stages make and groups of clients send to (IM).
    #[serde(rename = "conversation", default, skip_serializing_if = "Vec::is_empty")]
    pub conversations: Vec<PlannedConversation>,
    /// What happens, in order.
    #[serde(rename = "stage", default)]
    pub stages: Vec<Stage>,
    /// What must hold over the whole run: see [`Check`].
    #[serde(default)]
    pub pass: Vec<String>,
    /// Seeds all that is random; absent: drawn, and told in the report.
    #[serde(default)]
    pub seed: Option<u64>,
}

/// A value with a name.
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

/// Whom a plan tests, and what may be asked about it.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Target {
    /// Where clients call, e.g. `mqtt://10.0.0.1:1883`; several are taken in turn.
    pub url: Vec<String>,
    /// Its process on this machine, to be observed.
    pub pid: Option<u32>,
    /// A port of this machine whose listening process is to be observed.
    pub port: Option<u16>,
    /// Where it shows metrics in Prometheus' format.
    pub metrics: Option<String>,
    /// Holdline's API, for scenarios that push by it or are judged by presence.
    pub api: Option<String>,
    /// The token for it.
    pub token: Option<String>,
    /// The command that starts it, for scenarios that kill it.
    pub start: Vec<String>,
    /// Its Redis, for scenarios that disturb it: `host:port`.
    pub redis: Option<String>,
    /// The Redis' process on this machine, to be paused or killed.
    pub redis_pid: Option<u32>,
    /// The command that starts it again.
    pub redis_start: Vec<String>,
}

/// Clients that are alike.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Whom its clients call; empty: the plan's target.
    #[serde(default)]
    pub url: Vec<String>,
    /// Client or device id, with `%i`. Default: `NAME-%i`.
    #[serde(default)]
    pub id: Option<String>,
    /// Number of the first client.
    #[serde(default)]
    pub first: u32,
    /// From one client's number to the next one's: agents take turns with the numbers. Zero is one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step: u32,
    /// Source addresses, in turn: an address, a range like `127.0.1.0/24`, `auto` (loopback:
    /// as many of 127.0.0.0/8 as ports need; else all the host has). Empty: `auto`.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Keep-alive that is asked for. Zero: none.
    #[serde(default = "default::keep_alive")]
    pub keep_alive: Span,
    /// Whether the clients keep it by heartbeats.
    #[serde(default = "default::yes")]
    pub beats: bool,
    /// How long an answer may take.
    #[serde(default = "default::timeout")]
    pub timeout: Span,
    /// First wait of a client that comes back, doubled each time. Zero: it stays away.
    #[serde(default)]
    pub back_after: Span,
    /// Longest wait of a client that comes back.
    #[serde(default = "default::back_max")]
    pub back_max: Span,
    /// Topics it subscribes to, with `%i` (MQTT).
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
    /// Whether it is proved by SCRAM-SHA-256 and not shown (IM).
    #[serde(default)]
    pub scram: bool,
    /// Product key (MIOP).
    #[serde(default)]
    pub product: Option<String>,
    /// Product secret in hexadecimal (MIOP).
    #[serde(default)]
    pub secret: Option<String>,
    /// A file of authorities to trust (TLS). Absent: any certificate.
    #[serde(default)]
    pub authority: Option<String>,
    /// Threads; zero: one a core, or fewer for few clients.
    #[serde(default)]
    pub threads: u16,
    /// Whether each client answers every message by publishing it to this topic, where `%s` is the
    /// sender's number if the message carries one (round trips).
    #[serde(default)]
    pub answer_to: Option<String>,
    /// Messages that each of its clients should receive for one that this group sends: what makes
    /// a lost message known. `{ sender = receivers of one message, in all }`. Absent: what topics
    /// and subscriptions say, where they are plain.
    #[serde(default)]
    pub hears: BTreeMap<String, f64>,
    /// Whether its clients are there to audit: each pulls what its account was sent, the stage's
    /// hold is over when all have, and what they found is held against what the target
    /// acknowledged (IM; `audit.*` in rules).
    #[serde(default)]
    pub audits: bool,
    /// Whether its clients only send: what is for them they neither pull nor acknowledge (IM).
    #[serde(default)]
    pub lite: bool,
    /// Whether its clients call through the built-in fault proxy, which network faults work on.
    /// Where no group says so and a stage has such a fault, all do.
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

/// How clients come.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrival {
    /// So many a second, evenly (open loop).
    Rate {
        /// Connections a second.
        per_s: f64,
    },
    /// So many a second, at random moments (open loop).
    Poisson {
        /// Connections a second, on average.
        per_s: f64,
    },
    /// All at once.
    Burst,
    /// So many at once, then again after a while.
    Steps {
        /// Clients a step.
        clients: u32,
        /// From step to step.
        every: Span,
    },
    /// The next ones as soon as others are bound (closed loop).
    Window {
        /// Connections that are not bound yet, at once.
        open: u32,
    },
}

/// What a group sends.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// What.
    pub what: What,
    /// Topic (MQTT) or account (IM, XMPP) that it is for, with `%i`; or the name of conversations
    /// (IM).
    #[serde(default)]
    pub topic: Option<String>,
    /// What the topic's numbers stand for, from 0 on: of conversations the run puts it in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The topic's number is drawn anew for each message, below this: any of so many.
    #[serde(default)]
    pub among: Option<u32>,
    /// It is drawn among so many alone, those that follow the client's own number: the people whom
    /// somebody knows (IM, XMPP).
    #[serde(default)]
    pub contacts: Option<u32>,
    /// The number is not drawn: each client sends to all of them in turn, and does so often; then
    /// it has sent what it should, in this run (IM, XMPP, with `window` or `every`).
    #[serde(default)]
    pub loops: Option<u32>,
    /// Quality of service (MQTT).
    #[serde(default)]
    pub qos: u8,
    /// Whether the message is to be retained (MQTT).
    #[serde(default)]
    pub retain: bool,
    /// Bytes of its body, at least 16. From 36 on it carries what tells copies and changes.
    #[serde(default = "default::bytes")]
    pub bytes: u32,
    /// Messages of the whole group, in all; when they have been sent, no more is sent, and the
    /// stage's hold is over when all that is counted so has been. Absent: until the stage ends.
    #[serde(default)]
    pub messages: Option<u64>,
    /// When: `{ per_s = 100 }`, `{ window = 10 }`, `{ every = "60s" }`, `{ wave = { … } }`.
    pub pace: Pace,
}

impl Traffic {
    /// Messages that so many clients will have sent in a run when they have gone their rounds;
    /// `None`: there are no rounds.
    pub fn rounds(&self, clients: u32) -> Option<u64> {
        let each = u64::from(self.loops?) * u64::from(self.among?);
        Some(each * u64::from(clients))
    }
}

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Heartbeats, besides those that keep the connection alive.
    Heartbeat,
    /// A message to others (MQTT, IM), or a report to the server (MIOP).
    Publish,
    /// A request (HTTP), or bytes to be echoed (TCP).
    Request,
    /// A push by Holdline's API to this group's devices.
    Push,
}

/// When it is sent.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// So many a second in the whole group, at planned moments (open loop).
    PerS(f64),
    /// Each client keeps so many unanswered (closed loop).
    Window(u16),
    /// Each client, so often.
    Every(Span),
    /// A wave between two rates in the whole group: up and down once in a period (open loop).
    Wave {
        /// Messages a second, at least.
        low: f64,
        /// Messages a second, at most.
        high: f64,
        /// From one low to the next.
        period: Span,
    },
}

/// A part of the run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Clients of each group, in all, that shall be there.
    #[serde(default)]
    pub clients: BTreeMap<String, u32>,
    /// How they come.
    #[serde(default = "default::arrival")]
    pub arrive: Arrival,
    /// Whether all clients leave first and come anew.
    #[serde(default)]
    pub anew: bool,
    /// The stage goes on when all are there, or after this time.
    #[serde(default = "default::arrive_max")]
    pub arrive_max: Span,
    /// Conversations that are made once its clients are there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub makes: Vec<String>,
    /// What groups send in it; a group that is not named goes on as before.
    #[serde(default)]
    pub traffic: BTreeMap<String, Vec<Traffic>>,
    /// Time that is held when all are there.
    #[serde(default)]
    pub hold: Span,
    /// What is broken on purpose while it is held.
    #[serde(rename = "fault", default)]
    pub faults: Vec<Fault>,
    /// What must hold at its end: see [`Check`].
    #[serde(default)]
    pub pass: Vec<String>,
    /// Whether the run ends when it has not passed.
    #[serde(default)]
    pub stop_on_failure: bool,
}

/// A rule that must hold, as text: `FIGURE OPERATOR VALUE`, e.g. `errors == 0`,
/// `bind.p99 < 500ms`, `heartbeats.lost_share < 1e-5`, `target.process.rss.drift < 1%`. The figures
/// are listed in docs/laboratory.md; operators are `<`, `<=`, `>`, `>=`, `==`.
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
