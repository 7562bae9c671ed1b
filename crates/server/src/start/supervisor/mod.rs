//! The supervisor that started this process, the service manager of systemd or whoever speaks as it
//! does: what it handed over, and the notices that it gets.
//!
//! The server informs its supervisor by datagrams to the socket that `NOTIFY_SOCKET` names
//! (sd_notify(3)): that it serves, reads its configuration again, closes its connections; that its
//! shards turn; and it sends the sockets of its listeners, which the supervisor keeps and hands
//! over to the next start (sd_listen_fds(3)). Without one nothing happens. Invariant: whatever the
//! supervisor does or does not, the server serves.

mod life_sign;

pub(super) use self::life_sign::LifeSign;

use model::{event, tell};
use net::listen::KeptSocket;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, sendmsg_addr, socket_with,
};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Sockets that are taken over, at most: as many as a unit's `FileDescriptorStoreMax=` of ours.
const SOCKETS_MAX: usize = 4_096;

/// How long a supervisor may take to take a datagram.
const PATIENCE: Duration = Duration::from_secs(5);

/// The names of what is handed over (sd_listen_fds(3)).
const NAMES: &str = "LISTEN_FDNAMES";

/// Sockets and notices that a process has from its supervisor.
#[derive(Default)]
pub struct Inherited {
    /// Receiver of the server's state.
    pub supervisor: Supervisor,
    /// Sockets that listen.
    pub sockets: Vec<KeptSocket>,
    /// Whether they are of another server, whose place this one takes, with their files.
    pub taken_over: bool,
}

impl Inherited {
    /// Takes the sockets and notices of the supervisor, as the environment names them. To be called
    /// once, before any thread is begun and anything is opened.
    pub fn take(environment: impl Iterator<Item = (String, String)>) -> Inherited {
        let words: BTreeMap<String, String> = environment.collect();
        let pid = std::process::id();
        let sockets = match life_sign::handed(&words, pid) {
            0 => Vec::new(),
            count if count > SOCKETS_MAX => {
                tell!(event::SOCKETS_TOO_MANY, count, most = SOCKETS_MAX);
                Vec::new()
            }
            count => sockets(&life_sign::names(words.get(NAMES).map(String::as_str), count)),
        };
        let watchdog = life_sign::watchdog(&words, pid);
        let supervisor = Supervisor::at(words.get("NOTIFY_SOCKET"), watchdog);
        Inherited { supervisor, sockets, taken_over: false }
    }
}

/// Takes over as many sockets as there are names.
fn sockets(names: &[String]) -> Vec<KeptSocket> {
    let mut handed = listenfd::ListenFd::from_env();
    let mut sockets = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let tcp = handed.take_tcp_listener(at).ok().flatten().map(OwnedFd::from);
        let either = match tcp {
            None => handed.take_unix_listener(at).ok().flatten().map(OwnedFd::from),
            tcp => tcp,
        };
        match either {
            Some(socket) => sockets.push(KeptSocket { name: name.clone(), socket }),
            None => tell!(event::SOCKET_IS_NONE, name),
        }
    }
    sockets
}

/// Receiver of the server's state. Cheap to clone.
#[derive(Clone, Default)]
pub struct Supervisor {
    way: Option<Arc<Way>>,
    watchdog: Option<Duration>,
}

/// The way to a supervisor.
struct Way {
    socket: OwnedFd,
    to: SocketAddrUnix,
    /// Whether the last message could not be sent.
    is_lost: AtomicBool,
}

impl Supervisor {
    /// The supervisor at this address, a path or `@` and an abstract name, which wants a sign of
    /// life within this time. Without an address there is none.
    pub fn at(address: Option<&String>, watchdog: Option<Duration>) -> Supervisor {
        let Some(address) = address.filter(|address| !address.is_empty()) else {
            return Supervisor::default();
        };
        match Way::to(address) {
            Ok(way) => Supervisor { way: Some(Arc::new(way)), watchdog },
            Err(error) => {
                tell!(event::SUPERVISOR_UNREACHED, address, %error);
                Supervisor::default()
            }
        }
    }

    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.way.is_some()
    }

    /// The time within which it wants a sign of life, if it does.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Tells it this.
    pub fn tell(&self, sign: LifeSign<'_>) {
        self.send(&sign, &[]);
    }

    /// Gives it a socket to keep, under this name.
    pub fn keep(&self, name: &str, socket: BorrowedFd<'_>) {
        self.send(&LifeSign::Keep(name), &[socket]);
    }

    fn send(&self, sign: &LifeSign<'_>, sockets: &[BorrowedFd<'_>]) {
        let Some(way) = &self.way else { return };
        let sent = way.send(sign.to_string().as_bytes(), sockets);
        let was_lost = way.is_lost.swap(sent.is_err(), Ordering::Relaxed);
        if let (Err(error), false) = (sent, was_lost) {
            tell!(event::SUPERVISOR_DEAF, %error);
        }
    }
}

impl Way {
    fn to(address: &str) -> rustix::io::Result<Way> {
        let to = match address.strip_prefix('@') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
            None => SocketAddrUnix::new(address)?,
        };
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        Ok(Way { socket, to, is_lost: AtomicBool::new(false) })
    }

    fn send(&self, text: &[u8], sockets: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !sockets.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(sockets));
        }
        let text = [IoSlice::new(text)];
        sendmsg_addr(&self.socket, &self.to, &text, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
