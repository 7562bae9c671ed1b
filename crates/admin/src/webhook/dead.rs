//! Dead letters: events that a webhook gave up, stored until they are redelivered or cleared.
//!
//! Each webhook has a file ([`file`]), read at the start and bounded ([`shelf`]): the oldest
//! letters make room, and are counted. It does not know why events are given up, nor how they are
//! posted. Invariant: a stored letter is on stable storage, and stays until it is redelivered,
//! cleared or displaced by newer ones.

mod file;
pub(crate) mod shelf;

use super::Webhook;
use base::hex;
use file::DeadFile;
use model::id::ProductKey;
use model::{event, tell};
use sha2::{Digest, Sha256};
use shelf::{Bounds, DeadLetter, Shelf, Why};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Dead letters kept for a webhook: a whole ring of events. One more, and the oldest goes.
pub const DEAD_LETTERS_MAX: usize = 65_536;

/// Their bytes. The file may have twice as many.
pub const DEAD_LETTERS_BYTES_MAX: u64 = 16 << 20;

/// Bytes of letters read at once, but for one that alone has more.
const PAGE_BYTES_MAX: u64 = 4 << 20;

/// Settings of dead letters: where they are kept, and how many.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetterSettings {
    /// The folder; made if it is not there. A webhook's file is named by its URL and product.
    pub folder: PathBuf,
    /// Letters of a webhook.
    pub count_max: usize,
    /// Their bytes.
    pub bytes_max: u64,
}

impl DeadLetterSettings {
    /// The usual bounds.
    pub fn in_folder(folder: PathBuf) -> DeadLetterSettings {
        let (count_max, bytes_max) = (DEAD_LETTERS_MAX, DEAD_LETTERS_BYTES_MAX);
        DeadLetterSettings { folder, count_max, bytes_max }
    }
}

/// Counts of dead letters since the start, and how many are stored.
#[derive(Default)]
pub(crate) struct DeadTally {
    pub(crate) count: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) redelivered: AtomicU64,
    pub(crate) cleared: AtomicU64,
    /// Gone for want of room.
    pub(crate) evicted: AtomicU64,
    /// Events not kept, because the disk refused.
    pub(crate) refused: AtomicU64,
}

/// The dead letters of one webhook.
pub(crate) struct DeadLetters {
    state: Mutex<DeadLetterState>,
    pub(crate) tally: DeadTally,
    /// Whether a redelivery is under way.
    is_lent: AtomicBool,
}

struct DeadLetterState {
    shelf: Shelf,
    file: DeadFile,
    /// The disk did not do what it was last asked.
    refuses: bool,
}

/// Some letters in a row.
#[derive(Default)]
pub(crate) struct Page {
    /// Undamaged letters: one that was damaged since the start is passed over.
    pub(crate) letters: Vec<DeadLetter>,
    /// Number of the last place that was looked at.
    pub(crate) last: u64,
    /// Whether letters follow behind it.
    pub(crate) more: bool,
}

/// The only one who redelivers letters of a webhook.
pub(crate) struct Lent<'a>(&'a DeadLetters);

impl DeadLetters {
    /// Opens the file of a webhook.
    pub(crate) fn open(settings: &DeadLetterSettings, hook: &Webhook) -> io::Result<DeadLetters> {
        std::fs::create_dir_all(&settings.folder)?;
        let path = settings.folder.join(file_name(hook));
        let (file, found) = DeadFile::open(path.clone())?;
        let DeadLetterSettings { count_max, bytes_max, .. } = *settings;
        let (shelf, damaged) = Shelf::read(Bounds { count_max, bytes_max }, &found);
        if damaged > 0 {
            let path = path.display();
            tell!(event::LETTERS_DAMAGED, %path, damaged);
        }
        let letters = shelf.count();
        if letters > 0 {
            let url = crate::shown_url(&hook.url);
            tell!(event::LETTERS_WAIT, url, letters);
        }
        let (tally, is_lent) = (DeadTally::default(), AtomicBool::new(false));
        tally.show(&shelf);
        Ok(DeadLetters {
            state: Mutex::new(DeadLetterState { shelf, file, refuses: false }),
            tally,
            is_lent,
        })
    }

    /// Keeps events, each a text of JSON. Those that the disk does not take are counted.
    pub(crate) fn keep(&self, kept_ms: u64, why: Why, events: &[String]) {
        let mut state = self.lock();
        let addition = state.shelf.lines(kept_ms, why, events);
        let end = state.shelf.end();
        let written = state.file.write(end, &addition.text);
        if state.seen(written).is_some() {
            let evicted = state.shelf.add(addition);
            state.tidy();
            self.tally.kept.fetch_add(events.len() as u64, Ordering::Relaxed);
            self.tally.evicted.fetch_add(evicted, Ordering::Relaxed);
            self.tally.show(&state.shelf);
        } else {
            self.tally.refused.fetch_add(events.len() as u64, Ordering::Relaxed);
        }
    }

    /// Letters after this number; nothing at the end.
    pub(crate) fn page(&self, after: u64, count: usize) -> io::Result<Option<Page>> {
        let state = self.lock();
        let Some((place, last)) = state.shelf.page(after, count, PAGE_BYTES_MAX) else {
            return Ok(None);
        };
        let letters = shelf::letters(&state.file.read(place)?);
        Ok(Some(Page { letters, last, more: last < state.shelf.newest() }))
    }

    /// Number of stored letters.
    pub(crate) fn left(&self) -> u64 {
        self.tally.count.load(Ordering::Relaxed)
    }

    /// Clears letters up to this number. How many were there.
    pub(crate) fn clear(&self, through: u64) -> io::Result<u64> {
        let cleared = self.end(through)?;
        self.tally.cleared.fetch_add(cleared, Ordering::Relaxed);
        Ok(cleared)
    }

    /// For redelivering, one at a time.
    pub(crate) fn lend(&self) -> Option<Lent<'_>> {
        (!self.is_lent.swap(true, Ordering::Acquire)).then_some(Lent(self))
    }

    fn end(&self, through: u64) -> io::Result<u64> {
        let mut state = self.lock();
        let (line, end) = (state.shelf.gone(through), state.shelf.end());
        let written = state.file.write(end, &line);
        if let Err(error) = &written {
            tell!(event::LETTERS_FILE_REFUSES, %error);
        }
        written?;
        let ended = state.shelf.end_through(through, &line);
        state.tidy();
        self.tally.show(&state.shelf);
        Ok(ended)
    }

    /// Locks the letters. Nothing panics half way through a change of them.
    fn lock(&self) -> MutexGuard<'_, DeadLetterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent<'_> {
    /// Removes the letters up to this number, which were taken.
    pub(crate) fn taken(&self, through: u64) -> io::Result<()> {
        let taken = self.0.end(through)?;
        self.0.tally.redelivered.fetch_add(taken, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.is_lent.store(false, Ordering::Release);
    }
}

impl DeadLetterState {
    /// Logs when the disk begins to refuse, and when it accepts again.
    fn seen<T>(&mut self, result: io::Result<T>) -> Option<T> {
        let refused = std::mem::replace(&mut self.refuses, result.is_err());
        match &result {
            Err(error) if !refused => tell!(event::LETTERS_UNKEPT, %error),
            Ok(_) if refused => tell!(event::LETTERS_KEPT),
            _ => {}
        }
        result.ok()
    }

    /// Writes the file anew where it has become too long. A refusal changes nothing: the next
    /// change tries it again.
    fn tidy(&mut self) {
        let Some(rewriting) = self.shelf.rewriting() else { return };
        match self.file.replace(&rewriting.head, rewriting.from..self.shelf.end()) {
            Ok(()) => self.shelf.rewritten(&rewriting),
            Err(error) => tell!(event::LETTERS_UNCUT, %error),
        }
    }
}

impl DeadTally {
    fn show(&self, shelf: &Shelf) {
        self.count.store(shelf.count() as u64, Ordering::Relaxed);
        self.bytes.store(shelf.bytes(), Ordering::Relaxed);
    }
}

/// Name of the webhook's file, which depends on its URL and product, and not on its place in the
/// configuration.
fn file_name(hook: &Webhook) -> String {
    let product = hook.product.as_ref().map_or("", ProductKey::as_str);
    let name = Sha256::digest(format!("{}\0{product}", hook.url));
    format!("{}.letters", hex::encode(&name[..8]))
}
