//! Whether this node can connect to the addresses that the other nodes advertise.
//!
//! Clients are sent to these addresses, and nobody but a client would notice a wrong one. A thread
//! of its own connects to each address of a node that beats, once, and again each minute while one
//! does not answer; the node's thread waits for none of it. It sends nothing. Invariant: one such
//! thread at a time.

use super::{Driver, Input};
use crate::turn::ClusterNotice;
use base::time::Instant;
use model::id::NodeId;
use std::collections::BTreeMap;
use std::net::{TcpStream, ToSocketAddrs};
use std::thread::Builder;
use std::time::Duration;

/// Longest wait for one connection.
const CONNECTS: Duration = Duration::from_secs(2);

/// Wait before a new node's addresses are tried. Its listeners are usually open when it beats.
const SETTLES: Duration = Duration::from_secs(10);

/// Time after which addresses that did not answer are tried again.
const AGAIN: Duration = Duration::from_secs(60);

/// The other nodes' addresses, and which of them did not answer.
#[derive(Default)]
pub(crate) struct Reach {
    nodes: BTreeMap<u16, Reached>,
    is_busy: bool,
}

#[derive(Default)]
struct Reached {
    /// The addresses of the last attempt.
    tried: Vec<String>,
    unreachable: Vec<String>,
    next: Instant,
}

impl Reach {
    /// Addresses of a node to which this one cannot connect.
    pub(super) fn unreachable(&self, node: u16) -> Vec<String> {
        self.nodes.get(&node).map(|known| known.unreachable.clone()).unwrap_or_default()
    }

    /// Whether these addresses of a node are to be tried now.
    fn is_due(&mut self, now: Instant, node: u16, addresses: &[String]) -> bool {
        let first = !self.nodes.contains_key(&node);
        let known = self.nodes.entry(node).or_default();
        if first {
            known.next = now + SETTLES;
        }
        let is_open = known.tried != addresses || !known.unreachable.is_empty();
        let is_due = is_open && now >= known.next && !self.is_busy;
        if is_due {
            known.tried = addresses.to_vec();
            known.next = now + AGAIN;
        }
        is_due
    }
}

impl Driver {
    /// A node beats: its addresses are tried, if it is time.
    pub(super) fn look_whether_reached(&mut self, now: Instant, node: NodeId) {
        let Some((_, entry)) = self.table.nodes.get(&node.number()) else { return };
        let addresses: Vec<String> = entry.addresses.iter().map(|it| it.to_string()).collect();
        if !self.reach.is_due(now, node.number(), &addresses) {
            return;
        }
        self.reach.is_busy = true;
        let to = self.to_self.clone();
        let work = move || {
            let unreachable = addresses.into_iter().filter(|it| !is_reached(it)).collect();
            let _ = to.send(Input::Reached { node, unreachable });
        };
        if Builder::new().name("holdline-reach".into()).spawn(work).is_err() {
            self.reach.is_busy = false;
        }
    }

    pub(super) fn reached(&mut self, node: NodeId, unreachable: Vec<String>) {
        self.reach.is_busy = false;
        let Some(known) = self.reach.nodes.get_mut(&node.number()) else { return };
        if known.unreachable != unreachable {
            known.unreachable.clone_from(&unreachable);
            self.notice(ClusterNotice::Unreachable { node, addresses: unreachable });
        }
    }
}

/// Whether somebody accepts connections at `NAME=host:port`. An address without a port is not
/// tried, since only its node knows the ports of its listeners.
fn is_reached(address: &str) -> bool {
    let place = address.split_once('=').map_or(address, |(_, place)| place);
    if place.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
        return true;
    }
    let found = place.to_socket_addrs().into_iter().flatten();
    found.take(4).any(|at| TcpStream::connect_timeout(&at, CONNECTS).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn an_address_is_reached_if_somebody_accepts_there() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let at = listener.local_addr().expect("it is bound");
        assert!(is_reached(&format!("mqtt={at}")));
        assert!(is_reached("10.0.0.1"), "without a port");
        drop(listener);
        assert!(!is_reached(&format!("mqtt={at}")));
    }

    #[test]
    fn addresses_are_tried_once_and_again_while_one_does_not_answer() {
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let (mut reach, addresses) = (Reach::default(), vec!["mqtt=a:1".to_owned()]);
        assert!(!reach.is_due(at(100), 2, &addresses), "the node may still be starting");
        assert!(reach.is_due(at(110), 2, &addresses));
        assert!(!reach.is_due(at(600), 2, &addresses), "they answered");
        assert!(reach.is_due(at(601), 2, &["mqtt=b:1".to_owned()]), "others");
        reach.nodes.get_mut(&2).expect("known").unreachable = vec!["mqtt=b:1".to_owned()];
        assert!(!reach.is_due(at(602), 2, &["mqtt=b:1".to_owned()]));
        assert!(reach.is_due(at(661), 2, &["mqtt=b:1".to_owned()]));
    }
}
