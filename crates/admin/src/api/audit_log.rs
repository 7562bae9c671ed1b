//! The audit log: what callers of the API did, and what they were refused.
//!
//! An entry says who (a token's name, and from where), when, what, on what, and what came of it.
//! Each call that changes something has one of its own, on stable storage before the call is
//! answered; messages and refusals, which others can make as many as they like, are gathered where
//! they are alike ([`pace`]). The [file](file) is bounded. It knows neither routes nor tokens.
//! Invariant: nothing of a body is in it.

mod book_note;
mod file;
mod pace;

pub use book_note::BookNote;
pub(crate) use book_note::note;
use file::AuditFile;
pub(crate) use file::Page;
use model::{event, tell};
use pace::Pace;
use schemars::JsonSchema;
use serde::Serialize;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a text in an entry; what is longer is cut.
const TEXT_BYTES_MAX: usize = 512;

/// An entry of the audit log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub(crate) struct Entry {
    /// When it was over, Unix milliseconds.
    pub(crate) at_ms: u64,
    /// Name of the token, or `xmpp:` and the user; null: the request had none, or an unknown one.
    pub(crate) token: Option<String>,
    /// Address of the caller, where it is known.
    pub(crate) peer: Option<String>,
    /// Method and route; `any` for calls without a good token; `XMPP` and what was ordered, for
    /// orders about users that came that way.
    pub(crate) action: String,
    /// Path and query as they came, or what the body was about; nothing else of a body is kept.
    pub(crate) on: String,
    /// Whether it was done.
    pub(crate) outcome: Outcome,
    /// Status of the answer.
    pub(crate) status: u16,
    /// The error code of the answer, if it was a refusal.
    pub(crate) code: Option<&'static str>,
    /// Number of further calls that were alike since the last entry of their kind.
    pub(crate) more: u64,
}

/// An entry as stored and returned: numbers rise by one.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AuditLogEntry")]
pub(crate) struct Numbered<'a> {
    /// Number above those of all earlier entries, also over a restart.
    pub(crate) number: String,
    #[serde(flatten)]
    pub(crate) entry: &'a Entry,
}

/// Outcome of the call: it was done, the caller may not do it, or it failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AuditOutcome")]
pub(crate) enum Outcome {
    Done,
    Refused,
    Failed,
}

impl Outcome {
    pub(crate) const ALL: [(&str, Outcome); 3] =
        [("done", Outcome::Done), ("refused", Outcome::Refused), ("failed", Outcome::Failed)];

    pub(crate) fn of(status: u16) -> Outcome {
        match status {
            200..=299 => Outcome::Done,
            401 | 403 => Outcome::Refused,
            _ => Outcome::Failed,
        }
    }
}

/// How an entry is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keep {
    /// Alone, on stable storage.
    Each,
    /// Gathered with similar entries, within this many milliseconds.
    Gathered(u64),
}

/// The log.
pub(crate) struct AuditLog {
    file: Option<AuditFile>,
    pace: Mutex<Pace>,
    /// Entries that the disk did not take, since the start.
    pub(crate) lost: AtomicU64,
    fails: AtomicBool,
}

impl AuditLog {
    /// Opens the log in this folder, which is made; without a folder nothing is kept.
    pub(crate) fn open(folder: Option<&Path>, bytes_max: u64) -> io::Result<AuditLog> {
        let file = folder.map(|folder| AuditFile::open(folder, bytes_max)).transpose()?;
        let (lost, fails) = (AtomicU64::new(0), AtomicBool::new(false));
        Ok(AuditLog { file, pace: Mutex::default(), lost, fails })
    }

    /// Sets the most bytes of its files.
    pub(crate) fn set_bytes_max(&self, bytes_max: u64) {
        if let Some(file) = &self.file {
            file.set_bytes_max(bytes_max);
        }
    }

    /// The entries to keep now, of this one and of those gathered before: mostly none while they
    /// are gathered, so that a stranger's refusals cost no thread.
    pub(crate) fn gather(&self, keep: Keep, entry: Entry) -> Vec<Entry> {
        match keep {
            Keep::Each => vec![entry],
            Keep::Gathered(ms) => self.pace().take(ms, entry),
        }
    }

    /// Keeps entries. Blocks.
    pub(crate) fn keep(&self, keep: Keep, entries: &[Entry]) {
        entries.iter().for_each(|entry| self.write(entry, keep == Keep::Each));
    }

    /// Writes gathered entries that are not written yet.
    pub(crate) fn flush(&self) {
        let left = self.pace().flush();
        left.iter().for_each(|entry| self.write(entry, false));
    }

    /// Entries, the newest first, that came before this number and are wanted. Blocks.
    pub(crate) fn page(
        &self,
        before: Option<u64>,
        count: usize,
        wanted: &dyn Fn(&serde_json::Value) -> bool,
    ) -> io::Result<Page> {
        self.flush();
        match &self.file {
            Some(file) => file.page(before.unwrap_or(u64::MAX), count, wanted),
            None => Ok(Page::default()),
        }
    }

    fn write(&self, entry: &Entry, sync: bool) {
        let Some(file) = &self.file else { return };
        match file.append(entry, sync) {
            Ok(()) => self.fails.store(false, Ordering::Relaxed),
            Err(error) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                if !self.fails.swap(true, Ordering::Relaxed) {
                    tell!(event::AUDIT_LOG_UNWRITTEN, %error);
                }
            }
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.flush();
    }
}

/// A text as it stands in an entry.
pub(crate) fn cut(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.into();
    }
    format!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)])
}
