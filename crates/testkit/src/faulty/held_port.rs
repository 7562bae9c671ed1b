//! Ports at which nobody answers: one that refuses, and one whose queue is full.

use rustix::fd::OwnedFd;
use rustix::net::{self, AddressFamily, SocketType};
use std::net::SocketAddr;

/// A port that is held, and answered by the kernel alone.
pub struct HeldPort {
    address: SocketAddr,
    _socket: OwnedFd,
}

impl HeldPort {
    /// A port of loopback where nobody listens, and nobody else will: callers are refused.
    pub fn closed() -> HeldPort {
        HeldPort::bind(None)
    }

    /// A listener that never accepts. The kernel completes `backlog + 1` calls for it and then
    /// leaves those that follow without an answer.
    pub fn full(backlog: i32) -> HeldPort {
        HeldPort::bind(Some(backlog))
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn bind(backlog: Option<i32>) -> HeldPort {
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        net::bind(&socket, &loopback).expect("a free port");
        if let Some(backlog) = backlog {
            net::listen(&socket, backlog).expect("a bound socket may listen");
        }
        let name = net::getsockname(&socket).expect("it is bound");
        let address = SocketAddr::try_from(name).expect("it is of IPv4");
        HeldPort { address, _socket: socket }
    }
}
