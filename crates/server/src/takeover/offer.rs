//! The running server's part of a takeover: it offers its place at a socket file, hands out its
//! listeners, and waits for the successor's commit.
//!
//! A successor that asks and does not commit has changed nothing. One is served at a time, with a
//! time limit; a further one waits. Invariant: after a commit no other successor is accepted.

use super::{FILE, HELLO, Link, PATIENCE, at_file};
use model::{event, tell};
use net::listen::KeptSocket;
use rustix::fs::{self, Mode};
use rustix::io::{Errno, Result};
use rustix::net::{Shutdown, SocketFlags, accept_with, bind, shutdown};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

/// Event for the code that runs a server while it serves.
pub enum TakeOverEvent {
    /// A signal of this number.
    Signal(i32),
    /// This process takes the server's place.
    TakeOver(Successor),
    /// The successor serves now.
    Served,
    /// The successor has ended before it served.
    Lost,
}

/// New servers that wait to be heard. One more is refused by the kernel.
const QUEUE: i32 = 2;

/// The listeners that a server would give, until it ends.
pub type Given = Arc<Mutex<GivenListeners>>;

/// Copies of a server's listeners, for a successor.
#[derive(Default)]
pub struct GivenListeners {
    /// The copies.
    pub sockets: Vec<KeptSocket>,
    /// Whether the listeners may change.
    pub hold: ListenerHold,
}

/// Reason why a server's listeners stay as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ListenerHold {
    /// No reason: they may change.
    #[default]
    Free,
    /// A new server has been given them and decides whether it takes them.
    Asked,
    /// The server stops, or another one has its place.
    Gone,
}

impl GivenListeners {
    /// Listeners of a running server.
    pub fn of(sockets: Vec<KeptSocket>) -> Given {
        Arc::new(Mutex::new(GivenListeners { sockets, hold: ListenerHold::Free }))
    }
}

/// The socket file of a server that offers its place. Dropping it removes the file; a successor
/// that is connected at that moment is refused, or finds that the server ends.
pub struct Offer {
    listener: Arc<OwnedFd>,
    path: PathBuf,
}

impl Offer {
    /// Offers the place of the server of this data folder, with its listeners.
    pub fn make(
        data: &Path,
        listeners: Given,
        events: SyncSender<TakeOverEvent>,
    ) -> std::io::Result<Offer> {
        let path = data.join(FILE);
        let listener = Arc::new(listen(data, &path)?);
        let theirs = listener.clone();
        let thread = Builder::new().name("take-over".into());
        thread.spawn(move || hear_all(&theirs, &listeners, &events))?;
        Ok(Offer { listener, path })
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        // The file first: who connects from now on is not left waiting at it.
        let _ = fs::unlink(&self.path);
        // Closing it wakes the thread, unless that has ended already.
        let _ = shutdown(&*self.listener, Shutdown::Both);
    }
}

fn listen(data: &Path, path: &Path) -> Result<OwnedFd> {
    let socket = Link::socket()?;
    // This process holds the folder's lock, so a file that exists here is left over.
    match fs::unlink(path) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    at_file(data, |address| bind(&socket, address))?;
    fs::chmod(path, Mode::RUSR | Mode::WUSR)?;
    rustix::net::listen(&socket, QUEUE)?;
    Ok(socket)
}

/// Serves one successor after the other, until one commits or the offer ends.
fn hear_all(listener: &OwnedFd, listeners: &Given, events: &SyncSender<TakeOverEvent>) {
    loop {
        let link = match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(link) => Link(link),
            Err(Errno::INTR | Errno::CONNABORTED) => continue,
            Err(_) => return,
        };
        match heard(&link, listeners) {
            Ok(Some(pid)) => {
                let successor = Successor { link: Arc::new(link), pid };
                // The server is ending already and does not read this; the successor notices that.
                let _ = events.send(TakeOverEvent::TakeOver(successor));
                return;
            }
            Ok(None) => tell!(event::SUCCESSION_DROPPED),
            Err(error) => tell!(event::SUCCESSION_BROKEN, %error),
        }
        let mut given = lock(listeners);
        if given.hold == ListenerHold::Asked {
            given.hold = ListenerHold::Free;
        }
    }
}

fn lock(given: &Given) -> MutexGuard<'_, GivenListeners> {
    given.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process that commits itself to serve with these listeners.
fn heard(link: &Link, listeners: &Given) -> Result<Option<i32>> {
    let (is_ours, pid) = link.peer()?;
    if !is_ours {
        tell!(event::SUCCESSOR_FOREIGN, pid);
        link.say("REFUSED it does not run as the server's user")?;
        return Ok(None);
    }
    match link.hear(Some(PATIENCE))? {
        Some((word, _)) if word == HELLO => {}
        Some(_) => {
            link.say("REFUSED the running server is of an incompatible version")?;
            return Ok(None);
        }
        None => return Ok(None),
    }
    tell!(event::SUCCESSOR_ASKS, pid);
    let copies = {
        let mut given = lock(listeners);
        if given.hold == ListenerHold::Free {
            given.hold = ListenerHold::Asked;
        }
        super::copies(&given.sockets)
    };
    let copies = copies.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?;
    if copies.is_empty() {
        link.say("REFUSED it is stopping or has no listener")?;
        return Ok(None);
    }
    for KeptSocket { name, socket } in &copies {
        link.hand(name, socket.as_fd())?;
    }
    link.say(&format!("LISTENERS {}", copies.len()))?;
    drop(copies);
    let word = link.hear(Some(PATIENCE))?.map(|(word, _)| word);
    Ok((word.as_deref() == Some("COMMIT")).then_some(pid))
}

/// A new server that has committed itself.
pub struct Successor {
    link: Arc<Link>,
    pid: i32,
}

impl Successor {
    /// The successor's process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Reports to the successor that the logs are closed, and sends the outcome as an event.
    pub fn closed(&self, events: SyncSender<TakeOverEvent>) -> std::io::Result<()> {
        if self.link.say("CLOSED").is_err() {
            let _ = events.send(TakeOverEvent::Lost);
            return Ok(());
        }
        let link = self.link.clone();
        let wait = move || {
            // The successor may take long to read its logs. When it dies the connection ends.
            let word = link.hear(None).ok().flatten().map(|(word, _)| word);
            let serves = word.as_deref() == Some("SERVING");
            let _ = events.send(if serves { TakeOverEvent::Served } else { TakeOverEvent::Lost });
        };
        Builder::new().name("successor".into()).spawn(wait)?;
        Ok(())
    }
}
