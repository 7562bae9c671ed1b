//! Names of hosts to addresses, within a time.
//!
//! The system's resolver has limits of its own, of many seconds, and cannot be stopped: so it works
//! on a thread that is left to itself when time is over. At most one such thread remains for each
//! call that ran out of time, and the resolver ends each.

use crate::clock::Deadline;
use crate::url::HostPort;
use model::ports::presence::directory::DirectoryError;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::Builder;

/// The addresses of a host.
pub(crate) fn resolve(
    place: &HostPort,
    deadline: Deadline,
) -> Result<Vec<SocketAddr>, DirectoryError> {
    if let Ok(address) = place.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, place.port)]);
    }
    let (sender, answer) = sync_channel(1);
    let name = (place.host.to_string(), place.port);
    let work = move || {
        let found = name.to_socket_addrs().map(Vec::from_iter);
        // Whoever asked may have gone.
        let _ = sender.send(found);
    };
    let unreachable =
        |why: &dyn std::fmt::Display| DirectoryError::Unreachable(format!("{place}: {why}"));
    Builder::new().name("resolver".into()).spawn(work).map_err(|error| unreachable(&error))?;
    match answer.recv_timeout(deadline.left()?) {
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(unreachable(&error)),
        Err(RecvTimeoutError::Timeout) => Err(unreachable(&"the name was not resolved in time")),
        Err(RecvTimeoutError::Disconnected) => Err(unreachable(&"the resolver has stopped")),
    }
}
