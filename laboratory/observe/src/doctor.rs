//! Whether a machine is fit for so many connections: every setting that is known to stop or hurt
//! a long-connection server or its tester, what it is, what it must be, and how it is set right.
//!
//! The checks work for any user and change nothing, [`apply`] excepted. A setting that cannot be
//! read is [`Fitness::Unknown`], never good. The invariant: a row that is bad or weak says what to
//! do, and one with `connections_max` is a hard bound of their number.

mod apply;
mod files;
mod firewall;
mod kernel;
mod lasting;
mod listen;
mod memory;
mod network;
mod ports;
mod row;

pub use apply::{Applied, apply, apply_at};
pub use lasting::lasting;
pub use row::grouped;

use crate::place::KernelFiles;
use lab::host::{Fitness, HostRow, Need, Role};
use row::Say;

/// Connections that are asked for, at most.
const CONNECTIONS_MAX: u64 = 1 << 40;

/// The machine that is checked, and what it must be fit for.
pub(crate) struct Look<'a> {
    place: &'a KernelFiles,
    need: &'a Need,
}

impl Look<'_> {
    /// Connections that each process holds.
    fn each(&self) -> u64 {
        self.need.connections.div_ceil(u64::from(self.need.processes.max(1)))
    }

    fn is_server(&self) -> bool {
        self.need.role == Role::Server
    }

    /// The text of a kernel setting, by its name with dots.
    fn setting(&self, name: &str) -> Option<String> {
        let text = self.place.text(&format!("proc/sys/{}", name.replace('.', "/")))?;
        Some(text.trim().replace('\t', " "))
    }

    /// The number that a kernel setting is.
    fn number(&self, name: &str) -> Option<u64> {
        self.setting(name)?.parse().ok()
    }
}

/// Looks at this machine: all rows, in the order of the list.
pub fn examine(need: &Need) -> Vec<HostRow> {
    examine_at(&KernelFiles::real(), need)
}

/// Looks at the machine whose files are there.
pub fn examine_at(place: &KernelFiles, need: &Need) -> Vec<HostRow> {
    // No machine holds more; sums of settings and needs stay far from the end of their type.
    let need = Need { connections: need.connections.min(CONNECTIONS_MAX), ..need.clone() };
    let look = Look { place, need: &need };
    let parts = [
        files::rows,
        memory::rows,
        listen::rows,
        network::rows,
        firewall::rows,
        ports::rows,
        kernel::rows,
    ];
    let all = parts.iter().flat_map(|rows| rows(&look));
    foreign(&look).into_iter().chain(all).collect()
}

/// A process of another network namespace has other settings than those that are read here.
fn foreign(look: &Look) -> Option<HostRow> {
    let pid = look.need.pid?;
    (crate::network_of(look.place, Some(pid)) != "proc/net").then(|| {
        let value = format!("process {pid} has its own");
        row::row("network namespace", value, "run doctor inside it")
            .judged(Fitness::Weak)
            .symptom("the rows of net.* below are this namespace's, not the process's")
            .by_root(format!("nsenter --net=/proc/{pid}/ns/net holdline doctor ..."))
    })
}

/// Whether nothing is bad.
pub fn fit(rows: &[HostRow]) -> bool {
    rows.iter().all(|row| row.fitness != Fitness::Bad)
}

/// The row that ends the number of connections first.
pub fn first_limit(rows: &[HostRow]) -> Option<&HostRow> {
    let bounds = rows.iter().filter(|row| row.connections_max.is_some());
    bounds.min_by_key(|row| row.connections_max)
}

#[cfg(test)]
mod tests;
