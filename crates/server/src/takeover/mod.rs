//! Takeover: a new server replaces a running one, and no client is refused.
//!
//! The running server listens at a socket file in its data folder. The new one asks it there for
//! its listeners, which come as descriptors, and checks whether it could serve with them; then it
//! commits. From there on the old one accepts no clients, drains its connections at a pace and
//! closes its logs, and the new one opens the folder and serves. Clients that connect meanwhile
//! wait in the queues of the listeners, which are never closed: the old one keeps them until the
//! new one reports that it serves, and serves again itself if that one dies first.
//!
//! ```text
//! new                                old
//! TAKE-OVER 1                 ────►  serves on
//!                             ◄────  LISTENER name (+ a descriptor), each; LISTENERS number
//! (could it serve?)
//! COMMIT                      ────►  lets its clients go, closes its logs
//!                             ◄────  CLOSED
//! (opens the data folder)
//! SERVING                     ────►  ends
//! ```
//! `REFUSED why` instead of an answer ends the takeover, and a closed connection means that the
//! other process has ended. It knows nothing of shards and of the store. Invariant: at each moment
//! one of the two holds the listeners.

mod offer;
mod predecessor;
#[cfg(test)]
mod tests;

pub use offer::{Given, GivenListeners, ListenerHold, Offer, Successor, TakeOverEvent};
pub use predecessor::{AskError, Predecessor};

use net::listen::KeptSocket;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
    socket_with,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// Name of the socket file in the data folder.
pub const FILE: &str = "take-over.sock";

/// The first word of a new server, with the version of this exchange.
const HELLO: &str = "TAKE-OVER 1";

/// Listeners that are handed over at most: those of any configuration, on as many shards as any.
const LISTENERS_MAX: usize = 4_096;

/// Longest word, bytes: a name, or the reason of a refusal. The rest is cut off.
const WORD_BYTES_MAX: usize = 1_024;

/// How long the other side may take for its next word, where it has nothing to wait for itself.
const PATIENCE: Duration = Duration::from_secs(30);

/// The connection between the two, a word a message.
struct Link(OwnedFd);

impl Link {
    /// A socket of this kind.
    fn socket() -> Result<OwnedFd> {
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
    }

    /// Sends a word.
    fn say(&self, word: &str) -> Result<()> {
        self.send(word, &[])
    }

    /// Hands over a listener of this name.
    fn hand(&self, name: &str, socket: BorrowedFd<'_>) -> Result<()> {
        self.send(&format!("LISTENER {name}"), &[socket])
    }

    fn send(&self, word: &str, sockets: &[BorrowedFd<'_>]) -> Result<()> {
        sockopt::set_socket_timeout(&self.0, Timeout::Send, Some(PATIENCE))?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !sockets.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(sockets));
        }
        let end = word.len().min(WORD_BYTES_MAX);
        let text = [IoSlice::new(&word.as_bytes()[..end])];
        sendmsg(&self.0, &text, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next word, with the descriptor that came along. Nothing: the other process is gone.
    fn hear(&self, within: Option<Duration>) -> Result<Option<(String, Option<OwnedFd>)>> {
        sockopt::set_socket_timeout(&self.0, Timeout::Recv, within)?;
        let mut text = [0; WORD_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut pieces = [IoSliceMut::new(&mut text)];
        let got = match recvmsg(&self.0, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(got) => got.bytes,
            Err(Errno::CONNRESET) => 0,
            Err(errno) => return Err(errno),
        };
        let sockets = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
            _ => None,
        });
        let socket = sockets.flatten().next();
        let word = String::from_utf8_lossy(&text[..got]).into_owned();
        Ok((got > 0).then_some((word, socket)))
    }

    /// Whether the process at the other end is of this process's user, or of root; and its id.
    fn peer(&self) -> Result<(bool, i32)> {
        let peer = sockopt::socket_peercred(&self.0)?;
        let is_ours = peer.uid == rustix::process::geteuid() || peer.uid.is_root();
        Ok((is_ours, peer.pid.as_raw_nonzero().get()))
    }
}

/// Calls `then` with the address of the socket file in a folder, however long the folder's path is:
/// a socket's address has room for 107 bytes.
fn at_file<T>(data: &Path, then: impl FnOnce(&SocketAddrUnix) -> Result<T>) -> Result<T> {
    match SocketAddrUnix::new(data.join(FILE)) {
        Err(Errno::NAMETOOLONG | Errno::INVAL) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = rustix::fs::open(data, flags, Mode::empty())?;
            let short = format!("/proc/self/fd/{}/{FILE}", folder.as_fd().as_raw_fd());
            then(&SocketAddrUnix::new(short)?)
        }
        address => then(&address?),
    }
}

/// Duplicates listeners, for a server that may ask for them.
pub(crate) fn copies(sockets: &[KeptSocket]) -> std::io::Result<Vec<KeptSocket>> {
    let copy = |kept: &KeptSocket| {
        Ok(KeptSocket { name: kept.name.clone(), socket: kept.socket.try_clone()? })
    };
    sockets.iter().map(copy).collect()
}
