//! Listening sockets, how many connections wait for accept at each, and how many may.
//!
//! The kernel is asked for the listeners alone (sock_diag(7)), which costs the same whatever the
//! number of connections. Where that is not possible, /proc/net/tcp tells what waits, not what may:
//! listeners stand at its beginning, and no more than those is read.

pub(crate) mod diag;

use crate::place::KernelFiles;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// Listeners that are looked at, at most.
const LISTENERS_MAX: usize = 1_024;
/// Bytes of a line of /proc/net/tcp, at most.
const LINE_BYTES_MAX: u64 = 512;

/// A listening socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListeningSocket {
    /// Its port.
    pub port: u16,
    /// Number of the socket, by which the descriptors of processes name it.
    pub inode: u64,
    /// Connections that wait for accept: Recv-Q of `ss -lt`.
    pub waiting: u32,
    /// Most connections that may wait: Send-Q of `ss -lt`; `None`: unknown.
    pub backlog: Option<u32>,
    /// SYNs and connections that it has dropped, most often because too many waited; `None`:
    /// unknown.
    pub drops: Option<u32>,
}

/// The listeners of this machine, or of a folder that looks like one.
pub fn of(place: &KernelFiles) -> Vec<ListeningSocket> {
    read(place, "proc/net")
}

/// The listeners that one finds under a folder of the network's counters.
pub(crate) fn read(place: &KernelFiles, net: &str) -> Vec<ListeningSocket> {
    let askable = place.is_real() && net == "proc/net";
    if let Some(found) = askable.then(|| diag::listeners(LISTENERS_MAX)).flatten() {
        return found;
    }
    let mut found = Vec::new();
    for name in ["tcp", "tcp6"] {
        if let Ok(file) = File::open(place.path(&format!("{net}/{name}"))) {
            found.extend(listed(BufReader::with_capacity(4_096, file)));
        }
    }
    found.truncate(LISTENERS_MAX);
    found
}

/// Of several listeners the one whose queue is fullest, measured by its room.
pub(crate) fn fullest<'a>(
    all: impl Iterator<Item = &'a ListeningSocket>,
) -> Option<&'a ListeningSocket> {
    let fill =
        |one: &ListeningSocket| f64::from(one.waiting) / f64::from(one.backlog.unwrap_or(1).max(1));
    all.max_by(|one, other| fill(one).total_cmp(&fill(other)))
}

/// The listeners at the beginning of /proc/net/tcp.
fn listed(mut file: impl BufRead) -> Vec<ListeningSocket> {
    let mut found = Vec::new();
    let mut line = String::new();
    for at in 0..=LISTENERS_MAX {
        line.clear();
        match file.by_ref().take(LINE_BYTES_MAX).read_line(&mut line) {
            Ok(bytes) if bytes > 0 => {}
            _ => break,
        }
        match listener(&line) {
            Some(one) => found.push(one),
            None if at == 0 => {}
            None => break,
        }
    }
    found
}

/// A line of /proc/net/tcp that tells of a listener.
fn listener(line: &str) -> Option<ListeningSocket> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    let [_, local, _, "0A", queues, .., inode] = words[..] else { return None };
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let port = hex(local.rsplit_once(':')?.1).and_then(|port| u16::try_from(port).ok())?;
    let waiting = hex(queues.split_once(':')?.1)?;
    Some(ListeningSocket { port, inode: inode.parse().ok()?, waiting, backlog: None, drops: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n";
    const LISTENS: &str = "   0: 00000000:07E8 00000000:0000 0A 00000000:0000000B 00:00000000 \
                           00000000     0        0 1076 1 00000000b1345ffd 100 0 0 10 0\n";
    const STANDS: &str = "   1: 0100007F:07E8 0100007F:9C40 01 00000000:00000000 00:00000000 \
                          00000000     0        0 1077 1 00000000b1345ffd 20 4 30 10 -1\n";

    #[test]
    fn only_the_listeners_at_the_beginning_are_read() {
        let text = format!("{HEAD}{LISTENS}{STANDS}{LISTENS}");
        let one =
            ListeningSocket { port: 2_024, inode: 1_076, waiting: 11, backlog: None, drops: None };
        assert_eq!(listed(text.as_bytes()), [one]);
    }

    #[test]
    fn nonsense_ends_the_reading() {
        for text in ["", "\n", HEAD, "0A 0A 0A 0A 0A 0A 0A 0A 0A 0A", &"A".repeat(70_000)] {
            assert_eq!(listed(text.as_bytes()), [], "{text}");
        }
        assert_eq!(listed(&[0xff, 0xfe, b'\n'][..]), []);
        assert_eq!(listener("0: 0:1FFFF 0:0 0A 0:0 0 0 0 0 5"), None);
    }

    #[test]
    fn the_fullest_is_the_one_nearest_to_its_bound() {
        let one =
            |waiting, backlog| ListeningSocket { port: 1, inode: 1, waiting, backlog, drops: None };
        let all = [one(100, Some(4_096)), one(8, Some(16)), one(0, Some(0))];
        assert_eq!(fullest(all.iter()), Some(&all[1]));
        assert_eq!(fullest([].iter()), None);
    }
}
