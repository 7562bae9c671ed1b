//! Facts about a machine: what it is, and whether it is fit for what is asked of it.

use serde::{Deserialize, Serialize};

/// Description of a machine.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Environment {
    /// Its name.
    pub host: String,
    /// The processor's name.
    pub cpu: String,
    /// Cores that may be used.
    pub cores: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// Container, virtual machine or what else is known; empty: nothing.
    pub around: String,
    /// Version (and commit, where known) of the program that looked.
    pub version: String,
}

/// End of the connections that a machine is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The machine accepts connections.
    Server,
    /// The machine makes connections.
    Client,
}

/// Demands on a machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Need {
    /// Connections held at once.
    pub connections: u64,
    /// Which end of them.
    pub role: Role,
    /// Source addresses that the connections are spread over (client).
    pub sources: u32,
    /// Ports (or addresses) of the target that they are spread over (client).
    pub targets: u32,
    /// Processes that they are spread over.
    pub processes: u32,
    /// The process that will hold them, where it runs already.
    pub pid: Option<u32>,
}

impl Need {
    /// Need of so many connections, in one process, to one port, from one address.
    pub fn of(connections: u64, role: Role) -> Need {
        Need { connections, role, sources: 1, targets: 1, processes: 1, pid: None }
    }
}

/// How a machine's setting stands to what is needed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fitness {
    /// The setting is sufficient.
    Good,
    /// The setting cannot be read here, or does not exist in this kernel.
    Unknown,
    /// The setting is sufficient, and may cost speed or comfort.
    Weak,
    /// The setting is not sufficient.
    Bad,
}

/// One row of the doctor's list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostRow {
    /// The setting, by the name that its manual gives it.
    pub item: String,
    /// Value of the setting.
    pub value: String,
    /// Needed value.
    pub need: String,
    /// Whether that is so.
    pub fitness: Fitness,
    /// Symptom of a wrong setting, and the counter that shows it.
    pub symptom: String,
    /// The command that sets it right; empty: nothing to do.
    pub remedy: String,
    /// Whether that command needs root.
    pub root: bool,
    /// Connections that it lets through, where it is a limit of their number.
    pub connections_max: Option<u64>,
}
