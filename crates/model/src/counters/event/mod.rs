//! The vocabulary of events: everything that the server tells of itself, declared once each.
//!
//! A line of the log is written by [`tell!`](crate::tell), which takes level, words and names of
//! fields from here and from nowhere else. Events that applications get by streams and webhooks
//! have their names from here. The log's page and figures in console and metrics, and
//! `docs/events.md`, are made of [`all`]. It does not know who listens. Invariant: a name belongs
//! to one kind, and no line is written with a field that its kind does not declare.

#[macro_use]
mod declare;
mod applications;
mod cluster;
mod connections;
mod outside;
mod process;
mod storage;

#[cfg(test)]
mod page;

pub use applications::*;
pub use cluster::*;
pub use connections::*;
pub use outside::*;
pub use process::*;
pub use storage::*;

/// A kind of event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventKind {
    /// The word by which it is known everywhere: `event` of a line of the log, `type` in a stream.
    pub name: &'static str,
    /// Subject of the event.
    pub of: EventGroup,
    /// Place where the event is reported.
    pub told: Told,
    /// Names of its fields.
    pub fields: &'static [&'static str],
    /// The metric that counts the same, without the prefix `holdline_`.
    pub counter: Option<&'static str>,
    /// Meaning and remedy: lines.
    pub meaning: &'static [&'static str],
}

/// Place where a kind of event is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// The log, with this level and text.
    Logged(Severity, &'static str),
    /// Streams and webhooks that name no types, and those that name this one.
    Streamed,
    /// Streams and webhooks that name this type.
    StreamedByName,
}

/// How much a line of the log matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// A person must act.
    Error,
    /// The server is degraded, or a limit was reached.
    Warn,
    /// The life of the process.
    Info,
    /// The life of a connection.
    Debug,
}

impl Severity {
    /// Every one.
    pub const ALL: [Severity; 4] =
        [Severity::Error, Severity::Warn, Severity::Info, Severity::Debug];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warn => "warn",
            Severity::Info => "info",
            Severity::Debug => "debug",
        }
    }
}

/// Subject of a kind of event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventGroup {
    /// The server's start, end, configuration and threads.
    Process,
    /// Logs, checkpoints, the data folder.
    Storage,
    /// Requests to external services, and their answers.
    Outside,
    /// The cluster: who leads, and how the copies of the logs are.
    Cluster,
    /// Connections, whoever has them.
    Connections,
    /// Devices that are pushed to.
    Devices,
    /// Clients of topics.
    Clients,
    /// Accounts and conversations.
    Chat,
    /// The server as a whole.
    Server,
}

impl EventGroup {
    /// Every one.
    pub const ALL: [EventGroup; 9] = [
        EventGroup::Process,
        EventGroup::Storage,
        EventGroup::Outside,
        EventGroup::Cluster,
        EventGroup::Connections,
        EventGroup::Devices,
        EventGroup::Clients,
        EventGroup::Chat,
        EventGroup::Server,
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            EventGroup::Process => "process",
            EventGroup::Storage => "storage",
            EventGroup::Outside => "outside",
            EventGroup::Cluster => "cluster",
            EventGroup::Connections => "connections",
            EventGroup::Devices => "devices",
            EventGroup::Clients => "clients",
            EventGroup::Chat => "chat",
            EventGroup::Server => "server",
        }
    }
}

impl EventKind {
    /// Whether a line of it may have this field.
    pub const fn has(&self, field: &str) -> bool {
        let mut at = 0;
        while at < self.fields.len() {
            if is_same(self.fields[at], field) {
                return true;
            }
            at += 1;
        }
        false
    }

    /// How much a line of it matters.
    pub const fn severity(&self) -> Severity {
        match self.told {
            Told::Logged(severity, _) => severity,
            Told::Streamed | Told::StreamedByName => panic!("it is no line of the log"),
        }
    }

    /// Words of a line of it, before its fields.
    pub const fn says(&self) -> &'static str {
        match self.told {
            Told::Logged(_, says) => says,
            Told::Streamed | Told::StreamedByName => panic!("it is no line of the log"),
        }
    }

    /// Whether it is a line of the log that says that something is wrong.
    pub const fn is_trouble(&self) -> bool {
        matches!(self.told, Told::Logged(Severity::Error | Severity::Warn, _))
    }

    /// Whether applications hear of it.
    pub const fn is_streamed(&self) -> bool {
        matches!(self.told, Told::Streamed | Told::StreamedByName)
    }

    /// Meaning, on one line.
    pub fn means(&self) -> String {
        let lines: Vec<&str> = self.meaning.iter().map(|line| line.trim()).collect();
        lines.join(" ")
    }
}

/// Equality of texts that can be asked while compiling.
const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// All kinds, those of a group together.
pub fn all() -> impl Iterator<Item = &'static EventKind> {
    let of_server = [process::KINDS, storage::KINDS, outside::KINDS, cluster::KINDS];
    of_server.into_iter().chain([connections::KINDS, applications::KINDS]).flatten()
}

/// Number of kinds that applications hear of.
const STREAMED: usize = applications::KINDS.len();

/// Their names, in their order: devices, clients, chat, the server.
pub const STREAMED_NAMES: [&str; STREAMED] = {
    let mut names = [""; STREAMED];
    let mut at = 0;
    while at < STREAMED {
        names[at] = applications::KINDS[at].name;
        at += 1;
    }
    names
};

/// The kind with this name that applications hear of.
pub fn streamed(name: &str) -> Option<&'static EventKind> {
    applications::KINDS.iter().find(|kind| kind.name == name)
}
