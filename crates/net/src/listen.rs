//! Listeners: one socket a shard for every address, sharing its port.

use crate::layer::Door;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::fmt;
use std::net::SocketAddr;

/// Connections that may wait to be accepted. The kernel clips it to `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// Why a listener could not be opened.
#[derive(Debug)]
pub struct ListenError {
    /// The listener's name in the configuration.
    pub name: String,
    /// Its address.
    pub address: SocketAddr,
    errno: Errno,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, address) = (&self.name, self.address);
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

/// Opens `count` sockets for each door, one a shard. The first of a door is opened without sharing,
/// so that an address another server holds (even one that shares its ports) is told as in use.
/// Port 0 is resolved once, for all shards: the address that came out is in the result.
pub fn open(doors: &[Door], count: usize, user_timeout_ms: u32) -> Result<Open, ListenError> {
    let mut shards: Vec<Vec<OwnedFd>> = (0..count).map(|_| Vec::new()).collect();
    let mut addresses = Vec::new();
    for door in doors {
        let failed = |errno| ListenError { name: door.name.clone(), address: door.address, errno };
        let address = probe(door.address).map_err(failed)?;
        for shard in &mut shards {
            shard.push(listener(address, user_timeout_ms).map_err(failed)?);
        }
        addresses.push(address);
    }
    Ok(Open { shards, addresses })
}

/// Listeners that are open.
pub struct Open {
    /// For each shard, its socket of each door.
    pub shards: Vec<Vec<OwnedFd>>,
    /// The address of each door.
    pub addresses: Vec<SocketAddr>,
}

/// Finds out whether the address is free, and which port it is if none was named.
fn probe(address: SocketAddr) -> Result<SocketAddr, Errno> {
    let socket = socket_for(address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &address)?;
    let bound = net::getsockname(&socket)?;
    SocketAddr::try_from(bound).map_err(|_| Errno::AFNOSUPPORT)
}

fn listener(address: SocketAddr, user_timeout_ms: u32) -> Result<OwnedFd, Errno> {
    let socket = socket_for(address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    // Accepted sockets inherit these: no call for each of them.
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_tcp_user_timeout(&socket, user_timeout_ms)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn socket_for(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    net::socket_with(family, SocketType::STREAM, flags, None)
}
