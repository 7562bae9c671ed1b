//! The files of the audit log: JSON, an entry a line, in two halves.
//!
//! `current.jsonl` grows to half of the permitted bytes; then it replaces `previous.jsonl`, and a
//! new one is begun. Every entry has a number, one above that of the entry before, also across
//! restarts. Of an entry's content it knows only the number. Invariant: an append with stable
//! storage is on the disk when it returns; a line that a crash cut off is skipped, not read as
//! another.

use super::{Entry, Numbered};
use serde_json::Value;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes read at once, from the end backwards.
const PIECE_BYTES: u64 = 64 * 1024;

const CURRENT: &str = "current.jsonl";
const PREVIOUS: &str = "previous.jsonl";

/// Some entries, the newest first.
#[derive(Default, Debug)]
pub(crate) struct Page {
    pub(crate) entries: Vec<Value>,
    /// Whether there may be more entries behind the last of them.
    pub(crate) more: bool,
}

/// The files, open.
pub(super) struct AuditFile {
    folder: PathBuf,
    half_bytes: AtomicU64,
    state: Mutex<AuditFileState>,
    /// Number up to which all entries are on stable storage.
    synced: Mutex<u64>,
}

struct AuditFileState {
    current: Arc<File>,
    bytes: u64,
    /// The last number that was given.
    last: u64,
}

impl AuditFile {
    pub(super) fn open(folder: &Path, bytes_max: u64) -> io::Result<AuditFile> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let current = current(folder)?;
        let bytes = current.metadata()?.len();
        let mut last = [0; 1];
        if bytes > 0 {
            current.read_exact_at(&mut last, bytes - 1)?;
        }
        if bytes > 0 && last != *b"\n" {
            // A line that a crash cut off ends here.
            (&current).write_all(b"\n")?;
        }
        let bytes = current.metadata()?.len();
        let state = AuditFileState { current: Arc::new(current), bytes, last: 0 };
        let (state, synced) = (Mutex::new(state), Mutex::new(0));
        let folder = folder.to_owned();
        let half_bytes = AtomicU64::new((bytes_max / 2).max(1));
        let file = AuditFile { folder, half_bytes, state, synced };
        let page = file.page(u64::MAX, 1, &|_| true)?;
        let last = page.entries.first().and_then(number).unwrap_or(0);
        file.state().last = last;
        *file.synced.lock().unwrap_or_else(PoisonError::into_inner) = last;
        Ok(file)
    }

    /// Sets the most bytes of both files. A longer one shrinks with the next entries.
    pub(super) fn set_bytes_max(&self, bytes_max: u64) {
        self.half_bytes.store((bytes_max / 2).max(1), Ordering::Relaxed);
    }

    fn half_bytes(&self) -> u64 {
        self.half_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn append(&self, entry: &Entry, sync: bool) -> io::Result<()> {
        let mut state = self.state();
        let number = state.last + 1;
        let told = serde_json::to_string(&Numbered { number: number.to_string(), entry })?;
        let line = told + "\n";
        if state.bytes > 0 && state.bytes + line.len() as u64 > self.half_bytes() {
            state.current.sync_data()?;
            fs::rename(self.folder.join(CURRENT), self.folder.join(PREVIOUS))?;
            state.current = Arc::new(current(&self.folder)?);
            state.bytes = 0;
            File::open(&self.folder)?.sync_all()?;
        }
        if let Err(error) = (&*state.current).write_all(line.as_bytes()) {
            // A part of a line that a full disk accepted is cut off: the next line begins here.
            state.current.set_len(state.bytes)?;
            return Err(error);
        }
        state.bytes += line.len() as u64;
        state.last = number;
        drop(state);
        if sync { self.sync(number) } else { Ok(()) }
    }

    /// Puts the entries up to this number on stable storage, and with them what others have written
    /// meanwhile.
    fn sync(&self, number: u64) -> io::Result<()> {
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if *synced >= number {
            return Ok(());
        }
        let state = self.state();
        let (current, upto) = (Arc::clone(&state.current), state.last);
        drop(state);
        current.sync_data()?;
        *synced = upto;
        Ok(())
    }

    pub(super) fn page(
        &self,
        before: u64,
        count: usize,
        wanted: &dyn Fn(&Value) -> bool,
    ) -> io::Result<Page> {
        let state = self.state();
        let current = Arc::clone(&state.current);
        let previous = match File::open(self.folder.join(PREVIOUS)) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let length = state.bytes;
        drop(state);
        let mut page = Page::default();
        let mut take = |line: &[u8]| {
            let Ok(entry) = serde_json::from_slice::<Value>(line) else { return true };
            if number(&entry).is_none_or(|number| number >= before) || !wanted(&entry) {
                return true;
            }
            page.more = page.entries.len() == count;
            if !page.more {
                page.entries.push(entry);
            }
            !page.more
        };
        if backwards(&current, length, &mut take)?
            && let Some(previous) = previous
        {
            let length = previous.metadata()?.len();
            backwards(&previous, length, &mut take)?;
        }
        Ok(page)
    }

    /// Locks the state. Nothing panics half way through a change of it.
    fn state(&self) -> MutexGuard<'_, AuditFileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn current(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600).open(folder.join(CURRENT))
}

fn number(entry: &Value) -> Option<u64> {
    entry["number"].as_str()?.parse().ok()
}

/// Passes the lines of a file to `take`, last first, until it returns false. Returns whether it
/// wants more.
fn backwards(file: &File, length: u64, take: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<bool> {
    let (mut at, mut rest) = (length, Vec::new());
    while at > 0 {
        let from = at.saturating_sub(PIECE_BYTES);
        let mut piece = vec![0; (at - from) as usize];
        file.read_exact_at(&mut piece, from)?;
        piece.append(&mut rest);
        let mut end = piece.len();
        while let Some(newline) = piece[..end].iter().rposition(|&byte| byte == b'\n') {
            if newline + 1 < end && !take(&piece[newline + 1..end]) {
                return Ok(false);
            }
            end = newline;
        }
        piece.truncate(end);
        (at, rest) = (from, piece);
    }
    Ok(rest.is_empty() || take(&rest))
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    fn entry(at_ms: u64) -> Entry {
        Entry {
            at_ms,
            token: Some("ops".into()),
            peer: None,
            action: "DELETE /v1/users/{user}".into(),
            on: "x".repeat(200),
            outcome: Outcome::Done,
            status: 200,
            code: None,
            more: 0,
        }
    }

    fn times(page: &Page) -> Vec<u64> {
        page.entries.iter().map(|entry| entry["at_ms"].as_u64().expect("a time")).collect()
    }

    #[test]
    fn entries_come_newest_first_page_by_page_and_over_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = AuditFile::open(folder.path(), 1 << 20).expect("opens");
        for at_ms in 0..400 {
            file.append(&entry(at_ms), at_ms % 100 == 0).expect("kept"); // more than one piece
        }
        drop(file);
        let file = AuditFile::open(folder.path(), 1 << 20).expect("opens");
        file.append(&entry(400), true).expect("kept");
        let page = file.page(u64::MAX, 3, &|_| true).expect("read");
        assert_eq!((times(&page), page.more), (vec![400, 399, 398], true));
        assert_eq!(page.entries[0]["number"], "401");
        let page = file.page(399, 500, &|_| true).expect("read");
        assert_eq!((times(&page), page.more), ((0..398).rev().collect(), false));
        let few = |entry: &Value| entry["at_ms"].as_u64().is_some_and(|at| at % 150 == 0);
        let page = file.page(u64::MAX, 3, &few).expect("read");
        assert_eq!((times(&page), page.more), (vec![300, 150, 0], false));
    }

    #[test]
    fn the_older_half_makes_room_and_numbers_go_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = AuditFile::open(folder.path(), 4_096).expect("opens");
        for at_ms in 0..100 {
            file.append(&entry(at_ms), true).expect("kept");
            let size = |name| fs::metadata(folder.path().join(name)).map_or(0, |file| file.len());
            assert!(size(CURRENT) <= 2_048 && size(PREVIOUS) <= 2_048);
        }
        let page = file.page(u64::MAX, 100, &|_| true).expect("read");
        let kept = page.entries.len() as u64;
        assert!((6..=14).contains(&kept), "{kept}");
        assert_eq!(times(&page), (100 - kept..100).rev().collect::<Vec<_>>());
    }

    #[test]
    fn a_line_that_was_cut_off_is_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = AuditFile::open(folder.path(), 1 << 20).expect("opens");
        file.append(&entry(1), true).expect("kept");
        file.append(&entry(2), true).expect("kept");
        let whole = file.state().bytes;
        file.state().current.set_len(whole - 9).expect("torn");
        drop(file);
        let file = AuditFile::open(folder.path(), 1 << 20).expect("opens");
        file.append(&entry(3), true).expect("kept");
        let page = file.page(u64::MAX, 9, &|_| true).expect("read");
        assert_eq!(times(&page), [3, 1]);
        assert_eq!(page.entries[0]["number"], "2");
    }
}
