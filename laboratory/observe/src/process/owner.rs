//! Owner of a socket: this module searches the descriptors of processes, for the kernel keeps no
//! list.

use super::{Identity, identity};
use crate::listeners;
use crate::place::KernelFiles;
use std::collections::HashSet;

/// Descriptors of a process that are looked at first: listeners are opened early.
const EARLY: usize = 1_024;
/// Descriptors of a process that are looked at, at most.
const LATE: usize = 65_536;

/// The oldest process that listens on a port.
pub(super) fn of_port(place: &KernelFiles, port: u16) -> Result<Identity, String> {
    let listeners = listeners::read(place, "proc/net");
    let inodes = listeners.iter().filter(|one| one.port == port).map(|one| one.inode);
    let inodes: HashSet<u64> = inodes.collect();
    if inodes.is_empty() {
        return Err(format!("no process listens on port {port} of this machine"));
    }
    for most in [EARLY, LATE] {
        let holds = |pid: &u32| sockets_of(place, *pid, most).any(|inode| inodes.contains(&inode));
        let owners = place.numbers("proc").filter(holds);
        let owners = owners.filter_map(|pid| identity(place, pid));
        if let Some(oldest) = owners.min_by_key(|owner| (owner.started, owner.pid)) {
            return Ok(oldest);
        }
    }
    Err(format!(
        "the process on port {port} is not visible to this user; give its pid, or run as \
                 root"
    ))
}

/// The sockets of a process, by number.
pub(crate) fn sockets(place: &KernelFiles, pid: u32) -> impl Iterator<Item = u64> + use<> {
    sockets_of(place, pid, LATE)
}

fn sockets_of(place: &KernelFiles, pid: u32, most: usize) -> impl Iterator<Item = u64> + use<> {
    let folder = format!("proc/{pid}/fd");
    let (links, place) = (place.numbers(&folder).take(most), place.clone());
    links.filter_map(move |fd| socket(&place.link(&format!("{folder}/{fd}"))?))
}

/// The number in `socket:[4711]`.
fn socket(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_socket_tells_its_number() {
        assert_eq!(socket("socket:[4711]"), Some(4_711));
        for link in ["", "/dev/null", "pipe:[4711]", "socket:[4711", "socket:[]", "socket:[-1]"] {
            assert_eq!(socket(link), None, "{link}");
        }
    }
}
