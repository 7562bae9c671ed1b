//! The journal: numbered segments of records, written at the end, deleted at the front.
//!
//! Owned by the writer's thread. Only the last segment is written; a new one begins after the old
//! one is on stable storage, so only the last can have a torn tail. A segment is deleted when it is
//! the foremost and all its waits are over: later segments may hold the `Over` of an earlier
//! wait, so the order matters. A disk without room takes only what ends something, in the room of
//! the [`Reserve`], until segments could be deleted. Invariant: whatever `commit` answered with
//! `Ok` is found by [`crate::replay`], under the operator's choice of [`Fsync`].

use crate::files::{File, Files};
use crate::live::Live;
use crate::reserve::{DELETING_BYTES, ENDING_BYTES, Reserve};
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

/// Bytes that must be won by beginning a new segment before the last one is long enough: a disk
/// gives room back in blocks of about so many.
const WON_BYTES_MIN: u64 = 4_096;

/// One answer an entry, in order.
type Answers = Vec<Result<(), StoreError>>;

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
    /// Bytes of the last segment that a new one in its place would repeat.
    kept_bytes: u64,
    bodies: HashSet<MessageId>,
    live: Live,
    last_id: u64,
    reserve: Reserve,
    state: State,
}

/// ```text
/// Good ⇄ Full     something found no room; something that ends nothing did later
///   └──────┴──→ Failed, for good
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    Full,
    Failed,
}

impl Journal {
    /// Begins a segment behind the segments `old` (number and bytes).
    pub(crate) fn begin(
        (files, folder): (Arc<dyn Files>, PathBuf),
        settings: Settings,
        old: Vec<(u64, u64)>,
        last_id: u64,
        reserve: Reserve,
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
            kept_bytes: bytes,
            bodies: HashSet::new(),
            live,
            last_id,
            reserve,
            state: State::Good,
        })
    }

    /// Writes what is alive anew, deletes the segments before that, and makes the reserve if there
    /// is room. After an error of the first step the old segments are all there and the new ones
    /// are removed as far as possible.
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
        self.reserve.make().map(drop)
    }

    /// Writes a batch.
    pub(crate) fn commit(&mut self, entries: &[Entry]) -> Answers {
        if self.state == State::Failed {
            return vec![Err(StoreError::Failed); entries.len()];
        }
        let answers = match self.take_what_fits(entries) {
            Ok(answers) => answers,
            Err(error) => return vec![Err(self.fault(&error)); entries.len()],
        };
        if answers.contains(&Err(StoreError::Full)) {
            self.enter(State::Full);
        } else if !entries.iter().all(ends) {
            self.enter(State::Good);
        }
        let number = self.current().number;
        for (entry, _) in entries.iter().zip(&answers).filter(|(_, answer)| answer.is_ok()) {
            self.live.note(entry, number);
        }
        if let Err(error) = self.make_less() {
            self.fault(&error);
        }
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

    /// Writes the batch; if there is no room for it, again when there is less to keep; if there
    /// still is none, what ends something.
    fn take_what_fits(&mut self, entries: &[Entry]) -> io::Result<Answers> {
        let mut taken = self.take(entries);
        if found_no_room(&taken) {
            self.enter(State::Full);
            match self.make_less() {
                Ok(true) => taken = self.take(entries),
                Err(error) if !is_full(&error) => return Err(error),
                _ => {}
            }
        }
        if found_no_room(&taken) { self.take_enders(entries) } else { taken }
    }

    /// Writes the batch as far as the limit allows. After an error nothing of it is there.
    fn take(&mut self, entries: &[Entry]) -> io::Result<Answers> {
        if !entries.iter().all(ends) && !self.reserve.make()? {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.make_room()?;
        self.write_below(self.settings.journal_bytes_max, entries)
    }

    /// Writes what ends something, in the room of the reserve. A wait whose end finds none
    /// even so is over nevertheless: it holds no segment any more, and may come back at a start.
    fn take_enders(&mut self, entries: &[Entry]) -> io::Result<Answers> {
        let nothing = vec![Err(StoreError::Full); entries.len()];
        if !entries.iter().any(ends) {
            return Ok(nothing);
        }
        self.reserve.keep(DELETING_BYTES)?;
        match self.write_below(0, entries) {
            Err(error) if is_full(&error) => {
                let number = self.current().number;
                let over = entries.iter().filter(|entry| matches!(entry, Entry::Over { .. }));
                over.for_each(|entry| self.live.note(entry, number));
                Ok(nothing)
            }
            taken => taken,
        }
    }

    /// Writes what ends something, and the rest as long as the journal stays below `limit` bytes.
    fn write_below(&mut self, limit: u64, entries: &[Entry]) -> io::Result<Answers> {
        let mut answers = Vec::with_capacity(entries.len());
        let batch = self.encode(limit, entries, &mut answers);
        if answers.iter().any(Result::is_ok) {
            self.write(&batch)?;
        }
        if self.settings.fsync == Fsync::Always {
            self.sync()?;
        }
        Ok(answers)
    }

    fn encode(&mut self, limit: u64, entries: &[Entry], answers: &mut Answers) -> Vec<u8> {
        let mut batch = self.batch();
        let before = self.bytes();
        for entry in entries {
            let start = batch.len();
            self.encode_one(entry, &mut batch);
            if ends(entry) || before + batch.len() as u64 <= limit {
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
        match self.current().bytes < self.settings.segment_bytes {
            true => Ok(()),
            false => self.begin_next(),
        }
    }

    fn begin_next(&mut self) -> io::Result<()> {
        self.sync()?;
        let number = self.current().number + 1;
        let begun = begin_segment(&*self.files, &self.folder, number, self.last_id);
        let (file, bytes) = begun.inspect_err(|_| {
            // A leftover is made empty when it is tried again, and cut off by the next start.
            let _ = self.files.remove(&segment_path(&self.folder, number));
        })?;
        self.file = file;
        self.segments.push_back(Segment { number, bytes });
        (self.synced_bytes, self.kept_bytes) = (bytes, bytes);
        self.bodies.clear();
        Ok(())
    }

    /// Deletes what need not be kept. Whether that was anything; then the reserve is made again.
    fn make_less(&mut self) -> io::Result<bool> {
        let front = self.segments[0].number;
        self.sweep()?;
        if self.state == State::Full || !self.reserve.stands() {
            self.turn_over()?;
        }
        let less = self.segments[0].number != front;
        if less {
            self.reserve.make()?;
        }
        Ok(less)
    }

    /// Begins a new segment behind the only one, which then goes when its last wait is over.
    fn turn_over(&mut self) -> io::Result<()> {
        let Segment { number, bytes } = *self.current();
        if self.segments.len() > 1 || bytes.saturating_sub(self.kept_bytes) < WON_BYTES_MIN {
            return Ok(());
        }
        let waits = self.live.waits_in(number);
        let kept = if waits == 0 { 0 } else { ENDING_BYTES };
        match self.spend(kept, Journal::begin_next) {
            Err(error) if is_full(&error) && waits > 0 => Ok(()), // later, with all the reserve
            Err(error) => Err(error),
            Ok(()) => self.sweep(),
        }
    }

    /// Deletes segments at the front whose waits are all over.
    fn sweep(&mut self) -> io::Result<()> {
        while self.segments.len() > 1 && self.live.waits_in(self.segments[0].number) == 0 {
            self.spend(0, Journal::sweep_front)?;
        }
        Ok(())
    }

    /// Says again what else is alive in the foremost segment, and deletes it.
    fn sweep_front(&mut self) -> io::Result<()> {
        let state = self.live.state_of(self.segments[0].number);
        if !state.is_empty() {
            let before = self.current().bytes;
            self.append(&state)?;
            self.sync()?;
            self.kept_bytes += self.current().bytes - before;
        }
        self.remove_front()
    }

    /// Takes a step towards more room. When there is none for it: once more in the room of the
    /// reserve, of which `kept` bytes stay.
    fn spend(&mut self, kept: u64, step: fn(&mut Journal) -> io::Result<()>) -> io::Result<()> {
        match step(self) {
            Err(error) if is_full(&error) => {
                self.reserve.keep(kept)?;
                step(self)
            }
            done => done,
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

/// Whether an entry ends something. Such are always taken if at all possible: else a full journal
/// could never become less full.
fn ends(entry: &Entry) -> bool {
    matches!(entry, Entry::Over { .. } | Entry::NoProduct(_))
}

fn found_no_room(taken: &io::Result<Answers>) -> bool {
    taken.as_ref().is_err_and(is_full)
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
