//! The columns of the series that verdicts are made from, by name.
//!
//! The observer provides them; a machine may lack any of them. Names are written here once.

/// First words of column names: whose figure it is. Agents prefix their own name.
pub const OWNERS: [&str; 6] = ["clients", "tester", "target", "server", "redis", "agent"];

/// Whether a name is of this owner; of agents whatever their number.
pub fn is_of(name: &str, owner: &str) -> bool {
    let first = name.split('.').next().unwrap_or_default();
    first == owner || (owner == "agent" && first.starts_with("agent-"))
}

/// Clients that are bound.
pub const ONLINE: &str = "clients.online";
/// Resident memory of the target's process.
pub const TARGET_RSS: &str = "target.process.rss";
/// Open descriptors of the target's process.
pub const TARGET_FDS: &str = "target.process.fds";
