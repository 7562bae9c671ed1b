//! The new server's part of a takeover: it asks for the listeners, commits, and waits until the old
//! one has drained its clients and closed its logs.
//!
//! A closed connection means that the old server has ended: then there is nothing to wait for, and
//! the listeners received so far are all. Invariant: before the commit nothing is changed for the
//! old server.

use super::{FILE, HELLO, LISTENERS_MAX, Link, PATIENCE, at_file};
use model::{event, tell};
use net::listen::KeptSocket;
use rustix::io::Errno;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often it is said that the old server is not done yet.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// The server whose place is taken.
pub struct Predecessor {
    link: Link,
    /// Process id.
    pid: i32,
}

/// Reason why a place cannot be taken.
#[derive(Debug)]
pub enum AskError {
    /// The running server refused, for this reason.
    Refused(String),
    /// The answer is none of the known words.
    Strange(PathBuf),
    /// This failed.
    Failed(PathBuf, Errno),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Refused(why) => {
                write!(f, "the running server refused the take-over: {why}. It continues to serve")
            }
            AskError::Strange(file) => write!(
                f,
                "{}: the process that answers is not a Holdline server. It continues to run",
                file.display()
            ),
            AskError::Failed(file, Errno::ACCESS) => write!(
                f,
                "{}: the running server belongs to another user: take over as that user. It \
                 continues to serve",
                file.display()
            ),
            AskError::Failed(file, Errno::AGAIN) => write!(
                f,
                "{}: the running server does not answer. It may continue to serve; stop it \
                 and start without --take-over",
                file.display()
            ),
            AskError::Failed(file, errno) => {
                write!(f, "{}: {errno}. The running server continues to serve", file.display())
            }
        }
    }
}

impl std::error::Error for AskError {}

impl Predecessor {
    /// Asks the server that runs on this data folder for its listeners. Nothing: none runs.
    pub fn ask(data: &Path) -> Result<Option<(Predecessor, Vec<KeptSocket>)>, AskError> {
        let file = data.join(FILE);
        let failed = |errno| AskError::Failed(file.clone(), errno);
        let link = Link(Link::socket().map_err(failed)?);
        match at_file(data, |address| rustix::net::connect(&link.0, address)) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        }
        let (is_ours, pid) = link.peer().map_err(failed)?;
        if !is_ours {
            return Err(failed(Errno::ACCESS));
        }
        link.say(HELLO).map_err(failed)?;
        let mut sockets = Vec::new();
        loop {
            match link.hear(Some(PATIENCE)).map_err(failed)? {
                Some((word, socket)) => match (word.split_once(' '), socket) {
                    (Some(("LISTENER", name)), Some(socket)) if sockets.len() < LISTENERS_MAX => {
                        sockets.push(KeptSocket { name: name.to_owned(), socket });
                    }
                    (Some(("LISTENERS", count)), None) if count == sockets.len().to_string() => {
                        return Ok(Some((Predecessor { link, pid }, sockets)));
                    }
                    (Some(("REFUSED", why)), _) => return Err(AskError::Refused(why.to_owned())),
                    _ => return Err(AskError::Strange(file)),
                },
                // The old server has died: its place is free, with the listeners received so far.
                None => return Ok(Some((Predecessor { link, pid }, sockets))),
            }
        }
    }

    /// The old server's process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Commits this process to serve, and waits until the old one has closed its logs or is gone.
    pub fn commit(&self) {
        if self.link.say("COMMIT").is_err() {
            return tell!(event::PREDECESSOR_GONE, pid = self.pid);
        }
        tell!(event::PREDECESSOR_DRAINS, pid = self.pid);
        loop {
            match self.link.hear(Some(TOLD_EVERY)) {
                Ok(Some((word, _))) if word == "CLOSED" => {
                    return tell!(event::PREDECESSOR_CLOSED, pid = self.pid);
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => tell!(event::PREDECESSOR_SLOW, pid = self.pid),
                Ok(None) | Err(_) => {
                    return tell!(event::PREDECESSOR_GONE, pid = self.pid);
                }
            }
        }
    }

    /// Reports to the old server that its listeners are served, so that it ends.
    pub fn tell_serving(self) {
        // An old server that has ended needs no report.
        let _ = self.link.say("SERVING");
    }
}
