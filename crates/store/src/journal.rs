//! The journal: numbered segments of records, written at the end, deleted at the front.
//!
//! Owned by the writer's thread. Only the last segment is written; a new one begins after the old
//! one is on stable storage, so only the last can have a torn tail. A segment is deleted when it is
//! the foremost and all its waits are over: later segments may hold the `Over` of an earlier
//! wait, so the order matters. Invariant: whatever `commit` answered with `Ok` is found by
//! [`crate::replay`], under the operator's choice of [`Fsync`].

use crate::files::{File, Files};
use crate::live::Live;
use crate::{Fsync, Settings, entry, record};
use model::id::MessageId;
use model::ports::journal::{Entry, StoreError};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bodies remembered as written to the current segment. Beyond, they are forgotten and may be
/// written a second time.
const BODIES_REMEMBERED_MAX: usize = 65_536;

/// The file name of segment `number`.
pub(crate) fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:010}.log"))
}

/// The number of the segment with this file name.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() >= 10)?;
    digits.parse().ok()
}

struct Segment {
    number: u64,
    bytes: u64,
}

/// The segments, the last of them open.
pub(crate) struct Journal {
    files: Arc<dyn Files>,
    folder: PathBuf,
    settings: Settings,
    segments: VecDeque<Segment>,
    file: Box<dyn File>,
    /// Bytes of the last segment that are on stable storage.
    synced_bytes: u64,
    bodies: HashSet<MessageId>,
    live: Live,
    last_id: u64,
    state: State,
}

/// ```text
/// Good ⇄ Full     a write found no room; a later one did
///   └──────┴──→ Failed, for good
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    Full,
    Failed,
}

impl Journal {
    /// Begins segment `number` behind the segments `old` (number and bytes).
    pub(crate) fn begin(
        files: Arc<dyn Files>,
        folder: PathBuf,
        settings: Settings,
        old: Vec<(u64, u64)>,
        last_id: u64,
    ) -> io::Result<Journal> {
        let number = old.last().map_or(1, |(number, _)| number + 1);
        let (file, bytes) = begin_segment(&*files, &folder, number, last_id)?;
        let mut segments: VecDeque<_> =
            old.into_iter().map(|(number, bytes)| Segment { number, bytes }).collect();
        segments.push_back(Segment { number, bytes });
        let live = Live::new(&settings.secret);
        Ok(Journal {
            files,
            folder,
            settings,
            segments,
            file,
            synced_bytes: bytes,
            bodies: HashSet::new(),
            live,
            last_id,
            state: State::Good,
        })
    }

    /// Writes what is alive anew, then deletes the segments before `first`. After an error the
    /// old segments are all there and the new ones are removed as far as possible.
    pub(crate) fn compact(&mut self, entries: &[Entry]) -> io::Result<()> {
        let first = self.current().number;
        let done = self.copy(entries);
        if done.is_err() {
            for segment in self.segments.iter().rev().filter(|s| s.number >= first) {
                // The first error is told; a leftover is a torn or repeated tail to the next start.
                let _ = self.files.remove(&segment_path(&self.folder, segment.number));
            }
            return done;
        }
        while self.segments.front().is_some_and(|segment| segment.number < first) {
            self.remove_front()?;
        }
        Ok(())
    }

    /// Writes a batch. One answer an entry, in order.
    pub(crate) fn commit(&mut self, entries: &[Entry]) -> Vec<Result<(), StoreError>> {
        if self.state == State::Failed {
            return vec![Err(StoreError::Failed); entries.len()];
        }
        let mut answers = Vec::with_capacity(entries.len());
        let written = self.make_room().and_then(|()| {
            let batch = self.encode(entries, &mut answers);
            if answers.iter().any(Result::is_ok) {
                self.write(&batch)?;
            }
            if self.settings.fsync == Fsync::Always { self.sync() } else { Ok(()) }
        });
        if let Err(error) = written {
            let error = self.fault(&error);
            return vec![Err(error); entries.len()];
        }
        self.enter(if answers.contains(&Err(StoreError::Full)) {
            State::Full
        } else {
            State::Good
        });
        let number = self.current().number;
        for (entry, _) in entries.iter().zip(&answers).filter(|(_, answer)| answer.is_ok()) {
            self.live.note(entry, number);
        }
        self.sweep();
        answers
    }

    /// Puts everything written on stable storage.
    pub(crate) fn sync_now(&mut self) {
        if self.state != State::Failed
            && let Err(error) = self.sync()
        {
            self.fault(&error);
        }
    }

    /// Bytes of all segments, and their count, and the waits in them.
    pub(crate) fn sizes(&self) -> (u64, u64, u64) {
        (self.bytes(), self.segments.len() as u64, self.live.waits() as u64)
    }

    fn current(&self) -> &Segment {
        self.segments.back().expect("a journal always has the segment it writes")
    }

    fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    fn copy(&mut self, entries: &[Entry]) -> io::Result<()> {
        for some in entries.chunks(1_024) {
            self.make_room()?;
            self.append(some)?;
        }
        self.sync()
    }

    /// Writes entries that are already agreed to, whatever the limit.
    fn append(&mut self, entries: &[Entry]) -> io::Result<()> {
        let mut batch = self.batch();
        entries.iter().for_each(|entry| self.encode_one(entry, &mut batch));
        self.write(&batch)?;
        let number = self.current().number;
        entries.iter().for_each(|entry| self.live.note(entry, number));
        Ok(())
    }

    /// An empty batch. When all before it is on stable storage its first record says so.
    fn batch(&self) -> Vec<u8> {
        let mut batch = Vec::new();
        let Segment { number, bytes } = *self.current();
        if self.synced_bytes == bytes {
            record::write_synced(number, bytes, &mut batch);
        }
        batch
    }

    fn encode(&mut self, entries: &[Entry], answers: &mut Vec<Result<(), StoreError>>) -> Vec<u8> {
        let mut batch = self.batch();
        let limit = self.settings.journal_bytes_max;
        let before = self.bytes();
        for entry in entries {
            // What ends something is always taken: else a full journal could never be less full.
            let ends = matches!(entry, Entry::Over { .. } | Entry::NoProduct(_));
            let start = batch.len();
            self.encode_one(entry, &mut batch);
            if ends || before + batch.len() as u64 <= limit {
                answers.push(Ok(()));
                continue;
            }
            batch.truncate(start);
            if let Entry::Waits { push, .. } = entry {
                self.bodies.remove(&push.id);
            }
            answers.push(Err(StoreError::Full));
        }
        batch
    }

    fn encode_one(&mut self, entry: &Entry, batch: &mut Vec<u8>) {
        if let Entry::Waits { push, .. } = entry {
            self.last_id = self.last_id.max(push.id.0);
            if self.bodies.len() >= BODIES_REMEMBERED_MAX {
                self.bodies.clear();
            }
            if self.bodies.insert(push.id) {
                entry::write_body(push, batch);
            }
        }
        entry::write(entry, batch);
    }

    /// Writes at the end of the last segment, all or nothing.
    fn write(&mut self, batch: &[u8]) -> io::Result<()> {
        let end = self.current().bytes;
        if let Err(error) = self.file.write_at(end, batch) {
            self.bodies.clear();
            self.file.cut(end)?;
            return Err(error);
        }
        self.segments.back_mut().expect("as current()").bytes += batch.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.synced_bytes != self.current().bytes {
            self.file.sync().map_err(no_second_chance)?;
            self.synced_bytes = self.current().bytes;
        }
        Ok(())
    }

    /// Begins a new segment when the last one is long enough.
    fn make_room(&mut self) -> io::Result<()> {
        if self.current().bytes < self.settings.segment_bytes {
            return Ok(());
        }
        self.sync()?;
        let number = self.current().number + 1;
        let begun = begin_segment(&*self.files, &self.folder, number, self.last_id);
        let (file, bytes) = begun.inspect_err(|_| {
            // A leftover is made empty when it is tried again, and cut off by the next start.
            let _ = self.files.remove(&segment_path(&self.folder, number));
        })?;
        self.file = file;
        self.segments.push_back(Segment { number, bytes });
        self.synced_bytes = bytes;
        self.bodies.clear();
        Ok(())
    }

    /// Deletes segments at the front whose waits are all over; what else is alive in them is said
    /// again first.
    fn sweep(&mut self) {
        while self.segments.len() > 1 && self.live.waits_in(self.segments[0].number) == 0 {
            let state = self.live.state_of(self.segments[0].number);
            let said = if state.is_empty() {
                Ok(())
            } else {
                self.append(&state).and_then(|()| self.sync())
            };
            if let Err(error) = said.and_then(|()| self.remove_front()) {
                self.fault(&error);
                return;
            }
        }
    }

    fn remove_front(&mut self) -> io::Result<()> {
        let number = self.segments[0].number;
        self.files.remove(&segment_path(&self.folder, number))?;
        // In this order on stable storage too: a missing middle would look like a loss.
        self.files.sync_folder(&self.folder)?;
        self.segments.pop_front();
        Ok(())
    }

    /// What an error of the outside means for the entries of the batch, and for later ones.
    fn fault(&mut self, error: &io::Error) -> StoreError {
        if is_full(error) {
            self.enter(State::Full);
            return StoreError::Full;
        }
        if self.state != State::Failed {
            tracing::error!(%error, folder = %self.folder.display(), "the journal failed: nothing \
                more is stored until the disk is mended and the server restarted");
        }
        self.state = State::Failed;
        StoreError::Failed
    }

    fn enter(&mut self, state: State) {
        match (self.state, state) {
            (State::Good, State::Full) => {
                let limit = self.settings.journal_bytes_max;
                tracing::warn!(bytes = self.bytes(), limit, "the journal or its disk is full");
            }
            (State::Full, State::Good) => tracing::info!("the journal has room again"),
            _ => {}
        }
        self.state = state;
    }
}

/// Whether an error means that there is no room, which may change.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// After a failed sync nobody knows what is on the disk, even if the reason was want of room: the
/// kernel may have dropped what it could not write, and a second sync would not tell.
fn no_second_chance(error: io::Error) -> io::Error {
    io::Error::other(format!("sync failed: {error}"))
}

fn begin_segment(
    files: &dyn Files,
    folder: &Path,
    number: u64,
    last_id: u64,
) -> io::Result<(Box<dyn File>, u64)> {
    let mut file = files.open(&segment_path(folder, number))?;
    let mut bytes = Vec::new();
    record::write_segment(number, last_id, &mut bytes);
    file.cut(0)?;
    file.write_at(0, &bytes)?;
    file.sync()?;
    files.sync_folder(folder)?;
    Ok((file, bytes.len() as u64))
}
