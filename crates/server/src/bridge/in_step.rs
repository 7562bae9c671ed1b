//! Whether the packet identifiers that both sessions of a bridge know stand for the same messages.
//!
//! A message crosses under the identifier of the session that it comes from, so a session that is
//! new gives its messages identifiers which the other broker may still hold for messages of the one
//! before: it would take a new message for an old one, and drop it. Such identifiers are freed
//! first, at both brokers. A file says that this was done, and for which two sessions; it is
//! removed before a new session is used, and written when both brokers have freed theirs. A new
//! session holds none, so between two new sessions nothing is freed. Without the file, after an
//! upgrade or on another broker, they are freed once more, which may double what is on its way at
//! QoS 2 but loses nothing.

use super::map::BridgeSide;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

/// Whether a broker holds identifiers for messages that are over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stale {
    /// The broker may hold some.
    Perhaps,
    /// The broker was told to free them.
    Asked,
    /// The broker holds none.
    No,
}

/// State of the identifiers in both sessions of a bridge.
pub(super) struct InStep {
    /// The file; `None`: nothing outlives the process.
    file: Option<PathBuf>,
    /// The two sessions; empty until they are known.
    sessions: String,
    stale: [Stale; 2],
}

impl InStep {
    /// As the file says.
    pub fn of(file: Option<PathBuf>) -> InStep {
        let read = |file: &PathBuf| fs::read_to_string(file).unwrap_or_default();
        let sessions = file.as_ref().map(read).unwrap_or_default();
        let stale = if sessions.is_empty() { Stale::Perhaps } else { Stale::No };
        InStep { file, sessions, stale: [stale; 2] }
    }

    /// A broker has accepted the bridge, with a session that it had or with a new one. `sessions`
    /// names both, where it is the remote one. Whether they are out of step from now on.
    pub fn accepted(&mut self, side: BridgeSide, present: bool, sessions: Option<String>) -> bool {
        let is_other = sessions.is_some_and(|sessions| {
            let is_other = sessions != self.sessions;
            self.sessions = sessions;
            is_other
        });
        if present && !is_other {
            if self.stale[at(side)] == Stale::Asked {
                self.stale[at(side)] = Stale::Perhaps;
            }
            return false;
        }
        if self.is_settled() {
            // Messages have crossed since, and the other broker may hold their identifiers.
            self.stale[at(side) ^ 1] = Stale::Perhaps;
        }
        self.stale[at(side)] = if present { Stale::Perhaps } else { Stale::No };
        self.forget();
        if self.is_settled() {
            // Two new sessions: neither broker holds anything.
            self.remember();
        }
        true
    }

    /// Whether a broker is to be told now to free identifiers.
    pub fn ask(&mut self, side: BridgeSide) -> bool {
        let is_due = self.stale[at(side)] == Stale::Perhaps;
        if is_due {
            self.stale[at(side)] = Stale::Asked;
        }
        is_due
    }

    /// A broker has freed them.
    pub fn cleared(&mut self, side: BridgeSide) {
        self.stale[at(side)] = Stale::No;
        if self.is_settled() {
            self.remember();
        }
    }

    /// Whether neither broker holds identifiers for messages that are over.
    pub fn is_settled(&self) -> bool {
        self.stale == [Stale::No; 2]
    }

    fn forget(&self) {
        let Some(file) = &self.file else { return };
        if fs::remove_file(file).is_ok() {
            let _ = self.settle();
        }
    }

    /// Writes the file. If that fails, the next process frees the identifiers again.
    fn remember(&self) {
        let Some(file) = &self.file else { return };
        let write = || {
            let new = file.with_extension("new");
            fs::create_dir_all(file.parent().unwrap_or(file))?;
            fs::write(&new, &self.sessions)?;
            File::open(&new)?.sync_all()?;
            fs::rename(&new, file)
        };
        if write().is_ok() {
            let _ = self.settle();
        }
    }

    fn settle(&self) -> io::Result<()> {
        let folder = self.file.as_ref().and_then(|file| file.parent());
        folder.map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }
}

fn at(side: BridgeSide) -> usize {
    usize::from(side == BridgeSide::Local)
}
