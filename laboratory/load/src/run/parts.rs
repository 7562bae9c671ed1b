//! Parts that a run is made with: the clock, the observers, the hand that breaks things, the
//! pushes, and the audits of presence.
//!
//! The runner knows these only as traits, so that a test gives it a told clock and a load generator
//! that exists on paper. Nothing here knows a plan's stages.

use lab::generator::LoadGenerator;
use lab::host::{Environment, HostRow};
use lab::plan::{FaultKind, Group, Traffic};
use lab::run::Counts;
use lab::series::Reading;
use std::collections::BTreeMap;

/// Clock of a run, and whether somebody wants it to end.
pub trait RunClock {
    /// Milliseconds since the clock began; it never goes back.
    fn now_ms(&mut self) -> u64;

    /// Unix time, milliseconds.
    fn unix_ms(&mut self) -> u64;

    /// Waits until then, or a little less when somebody interrupts.
    fn rest_until(&mut self, at_ms: u64);

    /// Whether somebody has interrupted (SIGINT, SIGTERM).
    fn is_interrupted(&mut self) -> bool;
}

/// Observers that read the counters of both machines and of the target.
pub trait Eyes {
    /// Figures by full names, `tester.` and `target.` and `server.` in front; and what is worth a
    /// note: a process that went, metrics that do not answer.
    fn read(&mut self) -> (Reading, Vec<String>);
}

/// Injector of faults that a load generator cannot make: processes, descriptors, the network,
/// Redis.
pub trait FaultInjector {
    /// Breaks it and says what was done; or why it cannot be, which is noted as skipped.
    fn begin(&mut self, what: &FaultKind) -> Result<String, String>;

    /// Lets it go on. `None`: there is nothing to end.
    fn end(&mut self, what: &FaultKind) -> Option<Result<String, String>>;

    /// Connections that it broke so far, as it counted them.
    fn broken(&mut self) -> Broken {
        Broken::default()
    }
}

/// Connections that were broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Broken {
    /// Reset.
    pub resets: u64,
    /// Closed.
    pub closed: u64,
}

/// Sender of pushes by the target's API.
pub trait Pushes {
    /// Sets the pushes to a group from now on; empty: none. Other traffic is left out. An error
    /// says what is missing.
    fn push(&mut self, group: &str, traffic: &[Traffic]) -> Result<(), String>;

    /// Counts of each group, from the beginning on.
    fn look(&mut self) -> BTreeMap<String, Counts>;
}

/// Starts audits, in which the target compares its memory of who is online with its directory.
pub trait Auditor {
    /// Has it begin; a difference that is gone after so many milliseconds is none.
    fn begin(&mut self, settle_ms: u32);

    /// Takes the result of the audit; `None`: it is not known yet.
    fn take(&mut self) -> Option<Result<Audited, String>>;
}

/// Result of an audit of presence.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Audited {
    /// Clients online by the target's memory.
    pub online: u64,
    /// Clients about whom memory and directory differed at first.
    pub differing: u64,
    /// Clients about whom they still differed, by how they differ.
    pub persistent: BTreeMap<String, u64>,
    /// The first of these: key and how it differs.
    pub first: Vec<(String, String)>,
    /// Milliseconds it took, the settle time not included.
    pub took_ms: u64,
    /// Age of the oldest change that the directory had not taken when it began, milliseconds.
    pub lag_ms: u64,
}

/// Maker of conversations of many.
pub trait Founder {
    /// Has it begin.
    fn begin(&mut self, wanted: WantedConversations);

    /// Their addresses, once all are made, or why they are not; `None`: that is not known yet.
    fn take(&mut self) -> Option<Result<Vec<String>, String>>;
}

/// Conversations that are to be made, all alike.
#[derive(Clone, PartialEq, Debug)]
pub struct WantedConversations {
    /// Their name in the plan.
    pub name: String,
    /// Number of conversations.
    pub count: u32,
    /// Whether they are chatrooms.
    pub rooms: bool,
    /// Clients like the one that makes them; it is the first of them.
    pub owner: Group,
    /// The other members' accounts.
    pub members: Vec<String>,
}

/// Parts of a run.
pub struct Parts<'a> {
    /// Generator of the load.
    pub generator: &'a mut dyn LoadGenerator,
    /// The clock.
    pub clock: &'a mut dyn RunClock,
    /// The counters.
    pub eyes: &'a mut dyn Eyes,
    /// The faults.
    pub breaker: &'a mut dyn FaultInjector,
    /// The pushes.
    pub pushes: &'a mut dyn Pushes,
    /// The audits.
    pub auditor: &'a mut dyn Auditor,
    /// The conversations.
    pub founder: &'a mut dyn Founder,
    /// Onlooker of the run.
    pub watch: &'a mut dyn super::Watch,
}

/// Facts known before a run begins.
#[derive(Clone, Default, Debug)]
pub struct Before {
    /// The command that made it.
    pub command: String,
    /// The tester's machine.
    pub environment: Environment,
    /// Settings of the machines, by whose they are: `tester`, `target`, an agent's name.
    pub doctor: Vec<(String, HostRow)>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Whether the run goes on when an agent is lost.
    pub go_on_without_agents: bool,
    /// Notes for before the run: what cannot be observed, and why.
    pub notes: Vec<String>,
    /// Stages that were left out of the plan, and why.
    pub skipped: Vec<(String, String)>,
    /// The plan as the report shows it, where it is not the one that is run.
    pub shown: Option<lab::plan::Plan>,
}

/// No eyes: tests, and machines without /proc.
pub struct Blind;

impl Eyes for Blind {
    fn read(&mut self) -> (Reading, Vec<String>) {
        (Reading::default(), Vec::new())
    }
}

/// Breaks nothing.
pub struct Harmless;

impl FaultInjector for Harmless {
    fn begin(&mut self, _what: &FaultKind) -> Result<String, String> {
        Err("faults cannot be injected from here".to_owned())
    }

    fn end(&mut self, _what: &FaultKind) -> Option<Result<String, String>> {
        None
    }
}

/// Pushes nothing.
pub struct Pushless;

impl Pushes for Pushless {
    fn push(&mut self, _group: &str, traffic: &[Traffic]) -> Result<(), String> {
        if traffic.is_empty() { Ok(()) } else { Err("no API for pushes was given".to_owned()) }
    }

    fn look(&mut self) -> BTreeMap<String, Counts> {
        BTreeMap::new()
    }
}

/// Makes no conversation.
pub struct Unfounded;

impl Founder for Unfounded {
    fn begin(&mut self, _wanted: WantedConversations) {}

    fn take(&mut self) -> Option<Result<Vec<String>, String>> {
        Some(Err("conversations cannot be created here".to_owned()))
    }
}

/// Audits nothing.
pub struct Unaudited;

impl Auditor for Unaudited {
    fn begin(&mut self, _settle_ms: u32) {}

    fn take(&mut self) -> Option<Result<Audited, String>> {
        Some(Err("no API of the target was given".to_owned()))
    }
}
