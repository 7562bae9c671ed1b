//! State that is derived from the log, in an embedded engine behind a narrow port.
//!
//! Written only at checkpoints; everything in it can be said again by the log from the
//! checkpoint's place on. It knows keys and values, no timelines. Invariant of every
//! implementation: a batch is seen and survives whole or not at all, and after a crash the batches
//! there are those up to some moment at or after the last [`State::persist`] or [`State::load`].

mod fjall;
mod memory;
mod sorted;

pub use fjall::FjallState;
pub use memory::MemoryState;
pub use sorted::Sorted;

use std::fmt;

/// The spaces of keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Keep {
    /// The checkpoint.
    Meta,
    /// Timelines, by id.
    Heads,
    /// Their entries, by id and first seq.
    Runs,
    /// Their readers, by id and reader.
    Cursors,
    /// Appends that are remembered, by key.
    Once,
    /// Rows of tables, by table and key.
    Rows,
}

impl Keep {
    /// Every space.
    pub const ALL: [Keep; 6] =
        [Keep::Meta, Keep::Heads, Keep::Runs, Keep::Cursors, Keep::Once, Keep::Rows];
}

/// One change of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateChange {
    /// Keyspace that is changed.
    pub space: Keep,
    /// Key of the row.
    pub key: Vec<u8>,
    /// Its value from now on; `None` removes it.
    pub value: Option<Vec<u8>>,
}

impl StateChange {
    pub(crate) fn put(space: Keep, key: impl Into<Vec<u8>>, value: Vec<u8>) -> StateChange {
        StateChange { space, key: key.into(), value: Some(value) }
    }

    /// Rows of a space as changes of a batch.
    fn of_rows(space: Keep, rows: &Sorted) -> Vec<StateChange> {
        let change = |(key, value): (&[u8], Option<&[u8]>)| StateChange {
            space,
            key: key.into(),
            value: value.map(Into::into),
        };
        rows.iter().map(change).collect()
    }

    /// Memory, bytes.
    fn memory(&self) -> usize {
        let value = self.value.as_ref().map_or(0, Vec::capacity);
        size_of::<StateChange>() + self.key.capacity() + value
    }

    pub(crate) fn delete(space: Keep, key: impl Into<Vec<u8>>) -> StateChange {
        StateChange { space, key: key.into(), value: None }
    }
}

/// Reason why state cannot be read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateError {
    /// For want of room, which may come back.
    pub full: bool,
    /// The engine's words.
    pub why: String,
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for StateError {}

/// Memory of derived state, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StateMemory {
    /// Blocks of its tables that were read.
    pub cached: u64,
    /// Rows that wait to be written to its tables.
    pub unwritten: u64,
}

/// Derived state.
pub trait State: Send + Sync {
    /// A value.
    fn get(&self, space: Keep, key: &[u8]) -> Result<Option<Vec<u8>>, StateError>;

    /// Keys from the first of `span` up to but without the second, in their order or backwards,
    /// until `each` says false. All of them as of one moment.
    fn range(
        &self,
        space: Keep,
        span: (&[u8], &[u8]),
        backwards: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StateError>;

    /// Carries out one batch.
    fn write(&self, changes: Vec<StateChange>) -> Result<(), StateError>;

    /// Makes many rows of a space part of state: all of them or none, and on stable storage, with
    /// every batch before them. Cheaper than a batch, but it waits for the disk.
    fn load(&self, space: Keep, rows: &Sorted) -> Result<(), StateError>;

    /// Puts all batches on stable storage.
    fn persist(&self) -> Result<(), StateError>;

    /// Its memory; none where that is not known.
    fn memory(&self) -> StateMemory {
        StateMemory::default()
    }
}
