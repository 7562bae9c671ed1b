//! Plan of a fleet: who its virtual clients are, how they come, what each of them does then.
//!
//! A plan says nothing of threads' shares or of time that has passed; the logic works it off. Every
//! rate is for the whole fleet, a second.

use super::client::FleetProfile;
use lab::plan::{Arrival, Pace, Traffic, What};
use net::layer::ClientLayers;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Plan of a fleet.
#[derive(Clone)]
pub struct FleetPlan {
    /// Addresses to call; virtual clients take them in turn.
    pub to: Vec<SocketAddr>,
    /// Virtual clients at the beginning; more may be called up later.
    pub count: u32,
    /// How they come.
    pub arrival: Arrival,
    /// Threads, each with its share of the virtual clients.
    pub threads: u16,
    /// Profile of the clients.
    pub profile: FleetProfile,
    /// Layers around the protocol.
    pub layers: ClientLayers,
    /// Source addresses, taken in turn. Empty: the kernel's choice.
    pub sources: Vec<IpAddr>,
    /// Number of the first client; the others follow.
    pub first_number: u32,
    /// From one client's number to the next one's.
    pub number_step: u32,
    /// When heartbeats are sent that keep the connection alive.
    pub heartbeat: HeartbeatMode,
    /// Messages and requests to send.
    pub traffic: Vec<Traffic>,
    /// Handling of messages that arrive.
    pub hearing: Hearing,
    /// Behaviour of a virtual client after its connection has ended.
    pub reconnect: Reconnect,
    /// Time for a call, for the answer to a Bind, and for the answer to a heartbeat. A call or Bind
    /// without answer is given up; a heartbeat is counted and its answer counts as late.
    pub timeout: Duration,
    /// Time after which a client without an answer to its heartbeat gives its connection up.
    /// `None`: never.
    pub gives_up: Option<Duration>,
    /// Tells this fleet's numbers in a row from those of others, 1 to 127.
    pub tag: u8,
    /// Seeds all that is random.
    pub seed: u64,
}

/// Virtual clients that share one source address: as many ports as Linux's default range is sure to
/// have.
pub const PILOTS_A_SOURCE: u32 = 25_000;

/// Handling of messages that arrive.
#[derive(Clone, Default)]
pub struct Hearing {
    /// Each is answered by publishing its head to this topic. `%i`: the receiver's number; `%s`:
    /// the sender's, if the message says it, else the receiver's.
    pub answer_to: Option<Box<str>>,
    /// QoS of the answers.
    pub answer_qos: u8,
    /// Messages are read long after they came: how late that is says nothing.
    pub audits: bool,
    /// People talk to each other: numbers in a row are those from one to another.
    pub is_chat: bool,
    /// Numbers in a row are looked at: each client hears one sender.
    pub checks_rows: bool,
    /// Each client hears only topics with its own number.
    pub hears_own: bool,
    /// One of all clients gets a message: a copy may come to another one.
    pub is_shared: bool,
    /// One of all clients gets a message, and some of these clients are of another process.
    pub is_shared_elsewhere: bool,
}

impl FleetPlan {
    /// `count` virtual clients on one thread, 256 Binds at a time, that beat as agreed, send
    /// nothing else, wait 15 seconds for any answer and do not come back.
    pub fn new(to: SocketAddr, count: u32, profile: impl Into<FleetProfile>) -> FleetPlan {
        let profile = profile.into();
        FleetPlan {
            to: vec![to],
            count,
            arrival: Arrival::Window { open: 256 },
            threads: 1,
            layers: ClientLayers::plain(profile.protocol()),
            profile,
            sources: Vec::new(),
            first_number: 0,
            number_step: 1,
            heartbeat: HeartbeatMode::Agreed,
            traffic: Vec::new(),
            hearing: Hearing::default(),
            reconnect: Reconnect::Never,
            timeout: Duration::from_secs(15),
            gives_up: None,
            tag: 1,
            seed: 1,
        }
    }

    /// Checks the plan; an error says in words what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let beats = match self.heartbeat {
            HeartbeatMode::Every(span) => !span.is_zero(),
            _ => true,
        };
        let rules = [
            (!self.to.is_empty(), "no target address"),
            (self.threads > 0 && self.threads < 1_024, "threads must be 1 to 1023"),
            (beats, "the heartbeats' time must be above zero"),
            (!self.timeout.is_zero(), "the timeout must be above zero"),
            (
                !self.profile.beats(),
                "the lab sends the heartbeats: those of the profile must be \
                                     off",
            ),
            (
                self.first_number.checked_add(self.count).is_some(),
                "first number and count must fit 32 bits",
            ),
        ];
        if let Some((_, rule)) = rules.into_iter().find(|(holds, _)| !holds) {
            return Err(rule.to_owned());
        }
        check_arrival(&self.arrival)?;
        check_traffic(&self.traffic, &self.profile)
    }
}

fn positive(rate: f64) -> bool {
    rate.is_finite() && rate > 0.0
}

/// Checks an arrival; an error says in words what is wrong.
pub(crate) fn check_arrival(arrival: &Arrival) -> Result<(), String> {
    let (holds, rule) = match arrival {
        Arrival::Rate { per_s } | Arrival::Poisson { per_s } => {
            (positive(*per_s), "connects a second must be above zero")
        }
        Arrival::Burst => (true, ""),
        Arrival::Steps { clients, every } => {
            (*clients > 0 && !every.is_zero(), "a step's clients and time must be above zero")
        }
        Arrival::Window { open } => (*open > 0, "the window must let at least one connect"),
    };
    if holds { Ok(()) } else { Err(rule.to_owned()) }
}

/// Streams of messages that a fleet sends at once, at most.
pub const STREAMS_MAX: usize = 16;

/// Checks the traffic; an error says in words what is wrong.
pub(crate) fn check_traffic(traffic: &[Traffic], profile: &FleetProfile) -> Result<(), String> {
    if traffic.len() > STREAMS_MAX {
        return Err(format!("a group sends at most {STREAMS_MAX} kinds of messages at once"));
    }
    let windows = |what: What| {
        traffic.iter().filter(|t| t.what == what && matches!(t.pace, Pace::Window(_))).count()
    };
    let rounds = traffic.iter().any(|one| one.loops.is_some());
    if rounds && traffic.len() > 1 {
        return Err("a group with `loops` cannot send other traffic".to_owned());
    }
    for one in traffic {
        let paced = match one.pace {
            Pace::PerS(per_s) => positive(per_s),
            Pace::Window(window) => window > 0,
            Pace::Every(span) => !span.is_zero(),
            Pace::Wave { low, high, period } => {
                low.is_finite() && low >= 0.0 && positive(high) && high >= low && !period.is_zero()
            }
        };
        let is_chat = matches!(profile, FleetProfile::Im(_) | FleetProfile::Xmpp(_));
        let sends_requests = matches!(profile, FleetProfile::Http(_) | FleetProfile::Tcp);
        let rules = [
            (paced, "its rate, window or time must be above zero"),
            (one.among != Some(0), "`among` must be at least 1"),
            (
                one.addresses.is_empty()
                    || one.among.map(|it| it as usize) == Some(one.addresses.len()),
                "`addresses` must have as many entries as `among` says",
            ),
            (one.qos <= 2, "`qos` is 0, 1 or 2"),
            (
                one.what != What::Publish
                    || one.topic.is_some()
                    || !(is_chat || matches!(profile, FleetProfile::Mqtt(_))),
                "traffic over MQTT, IM or XMPP needs a topic",
            ),
            (
                one.loops.is_none() || one.among.is_some() && is_chat,
                "`loops` needs `among`, and im:// or xmpp://",
            ),
            (one.what != What::Request || sends_requests, "requests need a group with http or tcp"),
            (
                !matches!(one.what, What::Publish | What::Heartbeat) || !sends_requests,
                "groups with http or tcp send requests, no messages or heartbeats",
            ),
            (
                one.topic.as_ref().is_none_or(|topic| !topic.contains(['+', '#'])),
                "a topic must not have a wildcard",
            ),
            (windows(one.what) <= 1, "a client can have only one window"),
        ];
        if let Some((_, rule)) = rules.into_iter().find(|(holds, _)| !holds) {
            return Err(rule.to_owned());
        }
    }
    Ok(())
}

/// When heartbeats are sent that keep a connection alive. A virtual client has one under way at a
/// time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeartbeatMode {
    /// At the interval that the server and the client agreed on, from the Bind on.
    Agreed,
    /// At this interval; first beats are spread over it by the clients' numbers.
    Every(Duration),
    /// No heartbeats.
    Never,
}

/// Behaviour of a virtual client after its connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnect {
    /// The client stays away.
    Never,
    /// The client comes back after `base`, doubled with each try up to `max`, half of it drawn at
    /// random; not before the time the server told it, and not at all after a permanent refusal.
    Backoff {
        /// The first wait.
        base: Duration,
        /// The longest wait.
        max: Duration,
    },
}
