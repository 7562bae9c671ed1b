//! What a fleet shall do: how many pilots, how fast they come, and what each of them does then.
//!
//! A plan says nothing of threads' shares or of time that has passed; the house works it off. Every
//! rate is for the whole fleet, a second.

use net::layer::ClientLayers;
use proto_miop::client::Profile;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// What a fleet shall do.
#[derive(Clone)]
pub struct FleetPlan {
    /// Whom to call; pilots take the addresses in turn.
    pub to: Vec<SocketAddr>,
    /// Pilots.
    pub count: u32,
    /// First calls a second, at planned times (open loop: latency counts from the planned time).
    /// `None`: as fast as `window` allows (closed loop).
    pub connects_per_s: Option<f64>,
    /// Calls and Binds under way at once, of the whole fleet. Closed loop only.
    pub window: u32,
    /// Threads, each with its share of the pilots. At most one a pilot.
    pub threads: u16,
    /// What the devices have in common. Its `beats` must be off: the house says when.
    pub profile: Arc<Profile>,
    /// What goes around the protocol.
    pub layers: ClientLayers,
    /// Source addresses, taken in turn. Empty: the kernel's choice; towards an IPv4 loopback
    /// address with more than [`PILOTS_A_SOURCE`] pilots, as many addresses of 127.0.0.0/8 as
    /// their ports need.
    pub sources: Vec<IpAddr>,
    /// Number of the first device; the others follow.
    pub first_number: u32,
    /// When heartbeats are sent.
    pub heartbeat: Heartbeat,
    /// Reports, if any.
    pub reports: Option<ReportPlan>,
    /// What becomes of a pilot whose connection has ended.
    pub reconnect: Reconnect,
    /// Time for a call, for the answer to a Bind, and for the answer to a heartbeat. A call or Bind
    /// without answer is given up; a heartbeat is counted and its answer counts as late.
    pub timeout: Duration,
    /// The fleet stops itself after this time.
    pub stop_after: Option<Duration>,
}

/// Pilots that share one source address: as many ports as Linux's default range is sure to have.
pub const PILOTS_A_SOURCE: u32 = 25_000;

impl FleetPlan {
    /// `count` pilots on one thread, 256 Binds at a time, that beat as agreed, send nothing else,
    /// wait 15 seconds for any answer and do not come back.
    pub fn new(to: SocketAddr, count: u32, profile: Arc<Profile>) -> FleetPlan {
        let protocol = model::link::Protocol::Miop;
        FleetPlan {
            to: vec![to],
            count,
            connects_per_s: None,
            window: 256,
            threads: 1,
            profile,
            layers: ClientLayers { tls: None, web_socket: None, protocol },
            sources: Vec::new(),
            first_number: 0,
            heartbeat: Heartbeat::Agreed,
            reports: None,
            reconnect: Reconnect::Never,
            timeout: Duration::from_secs(15),
            stop_after: None,
        }
    }

    /// What is wrong with it, in words.
    pub fn check(&self) -> Result<(), String> {
        let rate = |rate: f64| rate.is_finite() && rate > 0.0;
        let beats = match self.heartbeat {
            Heartbeat::Rate(beats) => rate(beats),
            Heartbeat::Every(span) => !span.is_zero(),
            _ => true,
        };
        let reports = match &self.reports {
            Some(ReportPlan { pace: ReportPace::Rate(reports), .. }) => rate(*reports),
            Some(ReportPlan { pace: ReportPace::Window(window), .. }) => *window > 0,
            None => true,
        };
        let rules = [
            (!self.to.is_empty(), "there is no address to call"),
            (self.count > 0, "there must be at least one pilot"),
            (self.threads > 0 && self.threads < 1_024, "threads must be 1 to 1023"),
            (self.window > 0, "the window must let at least one connect"),
            (self.connects_per_s.is_none_or(rate), "connects a second must be above zero"),
            (beats, "the heartbeats' rate or time must be above zero"),
            (reports, "the reports' rate or window must be above zero"),
            (!self.timeout.is_zero(), "the timeout must be above zero"),
            (!self.profile.beats, "the house says when to beat: profile.beats must be off"),
            (
                self.first_number.checked_add(self.count).is_some(),
                "first number and count must fit 32 bits",
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(rule.to_owned()),
            None => Ok(()),
        }
    }

    /// The source addresses that are used.
    pub(crate) fn sources(&self) -> Vec<IpAddr> {
        let loopback = self.to.iter().all(|to| to.is_ipv4() && to.ip().is_loopback());
        if !self.sources.is_empty() || !loopback || self.count <= PILOTS_A_SOURCE {
            return self.sources.clone();
        }
        let source = |n: u32| {
            let [_, b, c, d] = (0x0001_0000 + (n / 250) * 256 + n % 250 + 1).to_be_bytes();
            IpAddr::from([127, b, c, d])
        };
        (0..self.count.div_ceil(PILOTS_A_SOURCE)).map(source).collect()
    }
}

/// When heartbeats are sent. A pilot has one under way at a time.
#[derive(Clone)]
pub enum Heartbeat {
    /// After the time that the server and the device agreed on, from the Bind on.
    Agreed,
    /// At this interval; first beats are spread over it by the devices' numbers.
    Every(Duration),
    /// Not at all.
    Never,
    /// So long after the answer to the last one (or to the Bind).
    ClosedLoop(Think),
    /// So many a second in the whole fleet at planned times, each by whichever pilot has waited
    /// longest. When all wait for answers the plan goes on: latency counts from the planned time.
    Rate(f64),
}

/// Time between an answer and the next heartbeat.
#[derive(Clone)]
pub enum Think {
    /// Always this; zero: at once.
    Fixed(Duration),
    /// Drawn anew each time, for this device's number.
    Drawn(Arc<dyn Fn(u32) -> Duration + Send + Sync>),
}

/// What devices report.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportPlan {
    /// Bytes of each body.
    pub bytes: u32,
    /// When they are sent.
    pub pace: ReportPace,
}

/// When reports are sent.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportPace {
    /// Each device keeps so many under way.
    Window(u16),
    /// So many a second in the whole fleet at planned times, by the online devices in turn.
    Rate(f64),
}

/// What becomes of a pilot whose connection has ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconnect {
    /// It stays away.
    Never,
    /// It comes back after `base`, doubled with each try up to `max`, half of it drawn at random;
    /// not before the time the server told it, and not at all after a permanent refusal.
    Backoff {
        /// The first wait.
        base: Duration,
        /// The longest wait.
        max: Duration,
    },
}
