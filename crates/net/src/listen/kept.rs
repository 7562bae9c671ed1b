//! Sockets that a service manager kept open while no server was there, and which listener each is.
//!
//! A socket comes with the name under which it was kept. One that this server had kept is called
//! `LISTENER.NUMBER` and is the listener's only as long as it listens where the listener shall: an
//! address that was changed in the configuration wins. One that the manager itself opened for a
//! listener has the listener's name, and is taken wherever it listens. All others are known by
//! their address. Invariant: callers who wait at a socket that is taken are served, by whichever
//! number of shards.

use super::ListenEndpoint;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, FileType, Mode};
use rustix::io::Errno;
use rustix::net::{self, SocketAddrAny, SocketAddrUnix, SocketType, sockopt};
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A socket that was kept.
#[derive(Debug)]
pub struct KeptSocket {
    /// Name of the socket.
    pub name: String,
    /// The listening socket.
    pub socket: OwnedFd,
}

/// Sockets of a listener that were kept.
pub struct TakenSockets {
    /// Address of the first.
    pub address: ListenEndpoint,
    /// The sockets.
    pub sockets: Vec<OwnedFd>,
    /// Names under which they were kept.
    pub names: Vec<String>,
}

/// Where a socket listens.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Where this socket listens. Nothing: it is none of ours.
fn place(socket: &OwnedFd) -> Option<Place> {
    let listens = sockopt::socket_acceptconn(socket).is_ok_and(|listens| listens);
    if !listens || sockopt::socket_type(socket) != Ok(SocketType::STREAM) {
        return None;
    }
    let address: SocketAddrAny = net::getsockname(socket).ok()?;
    if let Ok(address) = SocketAddr::try_from(address.clone()) {
        return Some(Place::Tcp(address));
    }
    let address = SocketAddrUnix::try_from(address).ok()?;
    let path = Path::new(OsStr::from_bytes(address.path_bytes()?));
    // Without its file nobody reaches it any more.
    let found = fs::lstat(path).ok()?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    is_socket.then(|| Place::Unix(path.to_path_buf()))
}

/// The name under which the socket of this number is kept.
pub fn kept_name(listener: &str, number: usize) -> String {
    format!("{listener}.{number}")
}

/// Whether a socket was kept under that name by a server that had this listener.
fn is_ours(kept: &str, listener: &str) -> bool {
    let number = kept.strip_prefix(listener).and_then(|rest| rest.strip_prefix('.'));
    number.is_some_and(|number| number.parse::<u16>().is_ok())
}

/// Whether a socket of that name, which listens there, is that of a listener.
fn fits(kept: &str, at: &Place, listener: (&str, &ListenEndpoint)) -> bool {
    let (name, address) = listener;
    match (address, at) {
        (ListenEndpoint::Tcp(wanted), Place::Tcp(found)) => {
            // Port 0 is any port, so it is the one that there is.
            let any = wanted.port() == 0 && wanted.ip() == found.ip();
            kept == name || wanted == found || (any && is_ours(kept, name))
        }
        (ListenEndpoint::Unix(wanted, _), Place::Unix(found)) => kept == name || wanted == found,
        _ => false,
    }
}

/// Whether a socket of a listener is among those that were kept.
pub fn has(kept: &[KeptSocket], listener: (&str, &ListenEndpoint)) -> bool {
    let mut kept = kept.iter();
    kept.any(|it| place(&it.socket).is_some_and(|at| fits(&it.name, &at, listener)))
}

/// Takes the sockets of a listener out of those that were kept.
pub fn take(kept: &mut Vec<KeptSocket>, listener: (&str, &ListenEndpoint)) -> Option<TakenSockets> {
    let mut taken: Option<TakenSockets> = None;
    let mut others = Vec::new();
    for KeptSocket { name, socket } in std::mem::take(kept) {
        let at = place(&socket).filter(|at| fits(&name, at, listener));
        let address = match (at, listener.1) {
            (Some(Place::Tcp(address)), _) => ListenEndpoint::Tcp(address),
            (Some(Place::Unix(path)), ListenEndpoint::Unix(_, mode)) => {
                ListenEndpoint::Unix(path, *mode)
            }
            _ => {
                others.push(KeptSocket { name, socket });
                continue;
            }
        };
        let none = || TakenSockets { address, sockets: Vec::new(), names: Vec::new() };
        let taken = taken.get_or_insert_with(none);
        taken.sockets.push(socket);
        taken.names.push(name);
    }
    *kept = others;
    taken
}

/// Gives sockets that were kept what those have that are opened here.
pub(super) fn prepare(
    address: &ListenEndpoint,
    sockets: &[OwnedFd],
    (user_timeout_ms, backlog): (u32, i32),
) -> Result<(), Errno> {
    for socket in sockets {
        rustix::io::ioctl_fionbio(socket, true)?;
        rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::CLOEXEC)?;
        if let ListenEndpoint::Tcp(_) = address {
            sockopt::set_tcp_nodelay(socket, true)?;
            sockopt::set_tcp_user_timeout(socket, user_timeout_ms)?;
            sockopt::set_socket_keepalive(socket, true)?;
        }
        // It listens already: this is for the length of the queue alone.
        net::listen(socket, backlog)?;
    }
    if let ListenEndpoint::Unix(path, mode) = address {
        // Whoever made the file for us may have kept it for itself.
        let _ = fs::chmod(path, Mode::from_raw_mode(*mode));
    }
    Ok(())
}

/// Shares sockets out to so many shards: each has one at least, and none of them is left out. Where
/// there are fewer sockets than shards, several have the same.
pub(super) fn share_out(sockets: Vec<OwnedFd>, count: usize) -> Result<Vec<Vec<OwnedFd>>, Errno> {
    let mut shards: Vec<Vec<OwnedFd>> = (0..count).map(|_| Vec::new()).collect();
    let many = sockets.len();
    for at in many..count {
        let again = rustix::io::fcntl_dupfd_cloexec(sockets[at % many].as_fd(), 0)?;
        shards[at].push(again);
    }
    for (at, socket) in sockets.into_iter().enumerate() {
        shards[at % count].push(socket);
    }
    Ok(shards)
}

#[cfg(test)]
mod tests;
