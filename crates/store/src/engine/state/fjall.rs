//! State in fjall: one database a log, six keyspaces.
//!
//! A batch goes to fjall's journal through a small buffer and is on stable storage only after
//! `persist` (its `SyncAll`, an `fsync`); before, any earlier part of the batches may survive a
//! crash, which the port allows. fjall takes nothing more after an error of a write: the database
//! is opened anew before the next one, and batches since the last `persist`, kept for this, are
//! said again. Reads are of one moment each. Invariant: what fjall needs in memory is bounded: its
//! cache, and as much in memtables that are being filled, of which a slow disk may owe it four more
//! each; what is kept, by a limit beyond which it is persisted.

use super::{Keep, Sorted, State, StateChange, StateError, StateMemory};
use crate::background;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};
use model::{event, tell};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Memtable of the keyspaces that see much, bytes, at most; a quarter of the cache where that is
/// less. The others have a quarter of that.
const MEMTABLE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// fjall's own journals, bytes: the least it allows.
const JOURNAL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Memory of batches that fjall might lose, bytes. Beyond, they are persisted and go: a checkpoint
/// behind an import has tens of megabytes of them.
const PENDING_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Tables on the first level of a keyspace, which fjall has not merged yet, beyond which rows go
/// the way of a batch: that waits for the merging.
const LOADED_TABLES_MAX: usize = 12;

/// State in a fjall database.
pub struct FjallState {
    folder: PathBuf,
    cache_bytes: u64,
    open: RwLock<Option<Arc<Opened>>>,
    /// Held by the thread that writes.
    writer: Mutex<Writer>,
}

#[derive(Default)]
struct Writer {
    /// Batches that fjall might lose: those since the last `persist`.
    pending: Vec<Vec<StateChange>>,
    /// Memory of it, bytes.
    pending_bytes: usize,
    /// fjall takes nothing more.
    broken: bool,
}

struct Opened {
    database: Database,
    keyspaces: [Keyspace; Keep::ALL.len()],
}

impl FjallState {
    /// Opens the database in `folder`, makes it if there is none. It keeps about `cache_bytes` of
    /// blocks in memory.
    pub fn open(folder: &Path, cache_bytes: u64) -> Result<FjallState, StateError> {
        let opened = Opened::open(folder, cache_bytes)?;
        let open = RwLock::new(Some(Arc::new(opened)));
        Ok(FjallState { folder: folder.into(), cache_bytes, open, writer: Mutex::default() })
    }

    fn opened(&self) -> Result<Arc<Opened>, StateError> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner).clone();
        match open {
            Some(opened) => Ok(opened),
            // It could not be opened anew after an error. Who writes reads first, so this tries.
            None => self.mend(&mut self.writer()),
        }
    }

    /// Opens the database anew if it is broken, and says again what it might have lost.
    fn mend(&self, writer: &mut Writer) -> Result<Arc<Opened>, StateError> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = open.as_ref().filter(|_| !writer.broken) {
            return Ok(Arc::clone(opened));
        }
        *open = None; // or the folder would still be locked
        let opened = Arc::new(Opened::open(&self.folder, self.cache_bytes)?);
        for changes in &writer.pending {
            opened.write(changes).map_err(told)?;
        }
        *open = Some(Arc::clone(&opened));
        writer.broken = false;
        tell!(event::STATE_OPENED_AGAIN, folder = %self.folder.display());
        Ok(opened)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    /// A batch that fjall has, and might lose.
    fn keep(&mut self, changes: Vec<StateChange>) {
        self.pending_bytes += changes.iter().map(StateChange::memory).sum::<usize>();
        self.pending.push(changes);
    }

    /// Puts on stable storage what is kept, which goes.
    fn persist(&mut self, opened: &Opened) -> Result<(), StateError> {
        opened.database.persist(PersistMode::SyncAll).map_err(|error| {
            self.broken = true;
            told(error)
        })?;
        (self.pending, self.pending_bytes) = (Vec::new(), 0);
        Ok(())
    }
}

impl State for FjallState {
    /// One value needs no snapshot, which fjall would have to remember and forget: a first touch of
    /// a timeline is this call and little else.
    fn get(&self, space: Keep, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        let get = |opened: &Opened| opened.keyspace(space).get(key).map_err(told);
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let found = match &*open {
            Some(opened) => get(opened)?,
            None => {
                drop(open);
                get(&*self.opened()?)?
            }
        };
        Ok(found.map(|value| value.to_vec()))
    }

    fn range(
        &self,
        space: Keep,
        (from, to): (&[u8], &[u8]),
        backwards: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StateError> {
        if from >= to {
            return Ok(());
        }
        let opened = self.opened()?;
        let snapshot = opened.database.snapshot();
        let mut range = snapshot.range(opened.keyspace(space), from..to);
        while let Some(guard) = if backwards { range.next_back() } else { range.next() } {
            let (key, value) = guard.into_inner().map_err(told)?;
            if !each(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, changes: Vec<StateChange>) -> Result<(), StateError> {
        let mut writer = self.writer();
        let opened = self.mend(&mut writer)?;
        opened.write(&changes).map_err(|error| {
            writer.broken = true;
            told(error)
        })?;
        writer.keep(changes);
        match writer.pending_bytes > PENDING_BYTES_MAX {
            true => writer.persist(&opened),
            false => Ok(()),
        }
    }

    fn load(&self, space: Keep, rows: &Sorted) -> Result<(), StateError> {
        if self.opened()?.keyspace(space).l0_table_count() > LOADED_TABLES_MAX {
            self.write(StateChange::of_rows(space, rows))?;
            return self.persist();
        }
        // What is pending would be said again over what is newer.
        self.persist()?;
        let mut writer = self.writer();
        let opened = self.mend(&mut writer)?;
        opened.load(space, rows).map_err(|error| {
            writer.broken = true;
            told(error)
        })
    }

    fn persist(&self) -> Result<(), StateError> {
        let mut writer = self.writer();
        let opened = self.mend(&mut writer)?;
        writer.persist(&opened)
    }

    /// Returns nothing while the database is being reopened, instead of waiting for it.
    fn memory(&self) -> StateMemory {
        let Ok(open) = self.open.try_read() else { return StateMemory::default() };
        let of = |Opened { database, .. }: &Opened| StateMemory {
            cached: database.cache_size(),
            unwritten: database.write_buffer_size(),
        };
        open.as_deref().map(of).unwrap_or_default()
    }
}

impl Opened {
    fn open(folder: &Path, cache_bytes: u64) -> Result<Opened, StateError> {
        let builder = Database::builder(folder)
            .cache_size(cache_bytes)
            .worker_threads(1)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .manual_journal_persist(true);
        // Its own threads, which write tables and merge them, are begun with it.
        let opened = background::begin(|| builder.open()).map_err(fjall::Error::Io).flatten();
        let database = opened.map_err(told)?;
        let memtable_bytes = MEMTABLE_BYTES_MAX.min(cache_bytes / 4);
        let keyspaces = Keep::ALL.map(|space| {
            let bytes = match space {
                Keep::Heads | Keep::Runs | Keep::Rows => memtable_bytes,
                Keep::Meta | Keep::Cursors | Keep::Once => memtable_bytes / 4,
            };
            let options = || {
                KeyspaceCreateOptions::default()
                    .max_memtable_size(bytes)
                    .manual_journal_persist(true)
            };
            database.keyspace(name(space), options).map_err(told)
        });
        let [meta, heads, runs, cursors, once, rows] = keyspaces;
        let keyspaces = [meta?, heads?, runs?, cursors?, once?, rows?];
        Ok(Opened { database, keyspaces })
    }

    fn write(&self, changes: &[StateChange]) -> fjall::Result<()> {
        let mut batch = self.database.batch();
        for StateChange { space, key, value } in changes {
            match value {
                Some(value) => batch.insert(self.keyspace(*space), &key[..], &value[..]),
                None => batch.remove(self.keyspace(*space), &key[..]),
            }
        }
        batch.commit()
    }

    /// Tables made of these rows become part of the keyspace at once, past journal and memtable.
    fn load(&self, space: Keep, rows: &Sorted) -> fjall::Result<()> {
        let mut tables = self.keyspace(space).start_ingestion()?;
        for (key, value) in rows.iter() {
            match value {
                Some(value) => tables.write(key, value)?,
                None => tables.write_tombstone(key)?,
            }
        }
        tables.finish()
    }

    fn keyspace(&self, space: Keep) -> &Keyspace {
        &self.keyspaces[space as usize]
    }
}

fn name(space: Keep) -> &'static str {
    match space {
        Keep::Meta => "meta",
        Keep::Heads => "heads",
        Keep::Runs => "runs",
        Keep::Cursors => "cursors",
        Keep::Once => "once",
        Keep::Rows => "rows",
    }
}

fn told(error: fjall::Error) -> StateError {
    use fjall::Error::{Io, Locked, Poisoned, Storage};
    let full = match &error {
        Io(error) | Storage(fjall::LsmError::Io(error)) => is_full(error),
        // An earlier error will be told by the next opening, and a reader lets go of the folder.
        Poisoned | Locked => true,
        _ => false,
    };
    StateError { full, why: error.to_string() }
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: u32 = 40;

    fn put(row: u32) -> Vec<StateChange> {
        let key = row.to_be_bytes();
        vec![StateChange::put(Keep::Rows, key, vec![7; 1 << 20])]
    }

    /// Its memtables have room for a row.
    fn opened(folder: &Path) -> FjallState {
        FjallState::open(folder, 16 << 20).expect("fjall opens")
    }

    #[test]
    fn what_is_kept_of_a_long_checkpoint_is_bounded_and_said_again() {
        let folder = tempfile::tempdir().expect("there is room");
        let state = opened(folder.path());
        let (mut most, mut is_kept_over) = (0, false);
        for row in 0..ROWS {
            let before = state.writer().pending.len();
            state.write(put(row)).expect("fjall takes it");
            let writer = state.writer();
            let held = writer.pending.iter().flatten().map(StateChange::memory).sum::<usize>();
            assert_eq!(writer.pending_bytes, held);
            (most, is_kept_over) = (most.max(held), is_kept_over || writer.pending.len() > before);
        }
        assert!(is_kept_over && most <= PENDING_BYTES_MAX, "{most}");
        // What was persisted on the way is there, what is kept is said once more.
        state.writer().broken = true;
        state.write(put(ROWS)).expect("it is opened anew");
        for row in 0..=ROWS {
            let value = state.get(Keep::Rows, &row.to_be_bytes()).expect("fjall reads");
            assert_eq!(value.map(|value| value.len()), Some(1 << 20), "{row}");
        }
        state.persist().expect("fjall persists");
        let writer = state.writer();
        assert_eq!((writer.pending.len(), writer.pending_bytes), (0, 0));
    }

    #[test]
    fn memory_is_what_was_read_and_what_is_to_be_written() {
        let folder = tempfile::tempdir().expect("there is room");
        let state = opened(folder.path());
        let empty = state.memory();
        state.write(put(0)).expect("fjall takes it");
        assert!(state.memory().unwritten >= empty.unwritten + (1 << 20));
        let mut rows = Sorted::default();
        rows.put(&1u32.to_be_bytes(), |value| value.extend_from_slice(&[7; 4_096]));
        state.load(Keep::Rows, &rows).expect("a table is made");
        state.get(Keep::Rows, &1u32.to_be_bytes()).expect("fjall reads");
        assert!(state.memory().cached >= empty.cached + 4_096);
    }
}
