//! Listeners: for an address, one socket a shard that share its port; for a path, one socket that
//! all shards share, since its file has room for no second.
//!
//! Invariant: a socket file is replaced only when nobody listens at it, and removed by whoever
//! made it.

use crate::layer::{ListenEndpoint, ListenerSetup};
use rustix::fd::OwnedFd;
use rustix::fs::{self, FileType, Mode};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Reason why a listener could not be opened.
#[derive(Debug)]
pub struct ListenError {
    /// The listener's name in the configuration.
    pub name: String,
    /// Its address.
    pub address: ListenEndpoint,
    errno: Errno,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, address) = (&self.name, &self.address);
        if let ListenEndpoint::Unix(path, _) = address {
            return self.about_file(path, f);
        }
        match self.errno {
            Errno::ADDRINUSE => write!(
                f,
                "listen.{name}: address {address} is in use by another program (or by an outgoing \
                 connection, if its port lies in net.ipv4.ip_local_port_range). Stop it, or set \
                 listen.{name}.address to a free port; `ss -ltnp` shows who has it"
            ),
            Errno::ACCESS => write!(
                f,
                "listen.{name}: ports below 1024 need a privilege: give the binary \
                 CAP_NET_BIND_SERVICE, or set listen.{name}.address to a port above 1023 \
                 (now {address})"
            ),
            Errno::ADDRNOTAVAIL => write!(
                f,
                "listen.{name}: no interface of this machine has the address of {address}; \
                 `ip address` shows those it has"
            ),
            errno => write!(f, "listen.{name}: cannot listen at {address}: {errno}"),
        }
    }
}

impl std::error::Error for ListenError {}

impl ListenError {
    fn about_file(&self, path: &Path, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, path) = (&self.name, path.display());
        match self.errno {
            Errno::ADDRINUSE => write!(
                f,
                "listen.{name}: another program listens at {path}. Stop it, or name another file \
                 in listen.{name}.address"
            ),
            Errno::EXIST => write!(
                f,
                "listen.{name}: {path} is there and is no socket. Take it away, or name another \
                 file in listen.{name}.address"
            ),
            Errno::NAMETOOLONG | Errno::INVAL => write!(
                f,
                "listen.{name}: the path {path} is longer than a socket's may be (107 bytes)"
            ),
            errno => write!(f, "listen.{name}: cannot listen at {path}: {errno}"),
        }
    }
}

/// Opens `count` sockets for each door, one a shard. The first of a door is opened without sharing,
/// so that an address another server holds (even one that shares its ports) is told as in use.
/// Port 0 is resolved once, for all shards: the address that came out is in the result.
pub fn open(
    doors: &[ListenerSetup],
    count: usize,
    user_timeout_ms: u32,
) -> Result<OpenListeners, ListenError> {
    let mut open = OpenListeners {
        shards: (0..count).map(|_| Vec::new()).collect(),
        addresses: Vec::new(),
        files: SocketFiles::default(),
    };
    for door in doors {
        let failed = |errno| {
            let (name, address) = (door.name.clone(), door.address.clone());
            ListenError { name, address, errno }
        };
        match &door.address {
            ListenEndpoint::Tcp(address) => {
                let address = probe(*address).map_err(failed)?;
                for shard in &mut open.shards {
                    let socket = listener(address, user_timeout_ms, door.backlog);
                    shard.push(socket.map_err(failed)?);
                }
                open.addresses.push(ListenEndpoint::Tcp(address));
            }
            ListenEndpoint::Unix(path, mode) => {
                let socket =
                    unix_listener((path, door.backlog), *mode, &mut open.files).map_err(failed)?;
                for shard in &mut open.shards {
                    let again = rustix::io::fcntl_dupfd_cloexec(&socket, 0).map_err(failed)?;
                    shard.push(again);
                }
                open.addresses.push(door.address.clone());
            }
        }
    }
    Ok(open)
}

/// Listeners that are open.
pub struct OpenListeners {
    /// For each shard, its socket of each door.
    pub shards: Vec<Vec<OwnedFd>>,
    /// The address of each door.
    pub addresses: Vec<ListenEndpoint>,
    /// Socket files.
    pub files: SocketFiles,
}

/// Socket files that were made here. They are removed with this, unless another program has put
/// its own in their place.
#[derive(Default)]
pub struct SocketFiles(Vec<(PathBuf, u64)>);

impl Drop for SocketFiles {
    fn drop(&mut self) {
        for (path, inode) in self.0.drain(..) {
            if fs::lstat(&path).is_ok_and(|found| found.st_ino == inode) {
                // If it cannot be removed, the next start finds that nobody listens at it.
                let _ = fs::unlink(&path);
            }
        }
    }
}

/// Finds out whether the address is free, and which port it is if none was named.
fn probe(address: SocketAddr) -> Result<SocketAddr, Errno> {
    let socket = socket_for(address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &address)?;
    let bound = net::getsockname(&socket)?;
    SocketAddr::try_from(bound).map_err(|_| Errno::AFNOSUPPORT)
}

fn listener(address: SocketAddr, user_timeout_ms: u32, backlog: i32) -> Result<OwnedFd, Errno> {
    let socket = socket_for(address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    // Accepted sockets inherit these: no call for each of them.
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_tcp_user_timeout(&socket, user_timeout_ms)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, backlog)?;
    Ok(socket)
}

fn unix_listener(
    (path, backlog): (&Path, i32),
    mode: u32,
    files: &mut SocketFiles,
) -> Result<OwnedFd, Errno> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    if let Ok(found) = fs::lstat(path) {
        if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
            return Err(Errno::EXIST);
        }
        let caller = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        match net::connect(&caller, &address) {
            Err(Errno::CONNREFUSED) => fs::unlink(path)?,
            Ok(()) | Err(Errno::AGAIN) => return Err(Errno::ADDRINUSE),
            Err(errno) => return Err(errno),
        }
    }
    net::bind(&socket, &address)?;
    files.0.push((path.to_path_buf(), fs::lstat(path)?.st_ino));
    fs::chmod(path, Mode::from_raw_mode(mode))?;
    net::listen(&socket, backlog)?;
    Ok(socket)
}

fn socket_for(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    net::socket_with(family, SocketType::STREAM, flags, None)
}

#[cfg(test)]
mod tests;
