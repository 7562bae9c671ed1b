//! Many timelines that state takes together: their rows are gathered in their order, become tables
//! of state at once, and the timelines then end one slice after the other.
//!
//! ```text
//! gather … ─► load: that there is a load, runs, heads ─► end …  ─► gather …
//! ```
//! State takes a space's rows wholly or not at all, and runs before heads, so a crash may leave
//! runs that are newer than their heads: a mark in state, which goes with the checkpoint's seal,
//! has the next start doubt whatever the log tells of. It knows no log. Invariant: a timeline
//! counts as changed until state has its head.

use super::checkpoint::Slice;
use super::flush::{self, Rows};
use crate::engine::index::Index;
use crate::engine::index::tail::Flush;
use crate::engine::state::{Keep, Sorted, State, StateChange, StateError};
use std::sync::Arc;

/// Key of the mark that a load is under way.
const LOADING: &[u8] = b"loading";

/// Timelines that end in one slice.
const ENDED_TOGETHER: usize = 1_024;

/// The timelines of a checkpoint, and how far they are.
#[derive(Default)]
pub(super) struct Bulk {
    pub(super) rows: Gathered,
    /// Owner of these rows.
    pub(super) held: Vec<Arc<Flush>>,
    /// State has them.
    pub(super) is_loaded: bool,
}

impl Bulk {
    /// The next slice: timelines to end in state, or gathered ones to load once they are enough, or
    /// all. `None`: more may be gathered.
    pub(super) fn slice(
        &mut self,
        index: &mut Index,
        is_last: bool,
        load_bytes_max: usize,
    ) -> Option<Slice> {
        if self.is_loaded {
            let rest = self.held.len().saturating_sub(ENDED_TOGETHER);
            let ended = self.held.split_off(rest);
            index.look_at(ended.iter().map(|timeline| timeline.at));
            ended.iter().for_each(|timeline| index.end_flush(timeline, true));
            self.is_loaded = !self.held.is_empty();
            return Some(Slice::Ended(ended));
        }
        let is_due = is_last || self.rows.bytes() >= load_bytes_max;
        (is_due && !self.rows.is_empty()).then(|| Slice::Load(std::mem::take(&mut self.rows)))
    }
}

/// Rows of timelines.
#[derive(Default)]
pub(in crate::engine) struct Gathered {
    runs: Sorted,
    heads: Sorted,
    /// Of readers: few, and told at once.
    cursors: Vec<StateChange>,
}

impl Gathered {
    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.runs.bytes() + self.heads.bytes()
    }

    /// Adds those of some more timelines.
    pub(super) fn gather(
        &mut self,
        state: &dyn State,
        timelines: &[Arc<Flush>],
    ) -> Result<(), StateError> {
        timelines.iter().try_for_each(|timeline| flush::changes(state, timeline, self))?;
        super::write(state, std::mem::take(&mut self.cursors))
    }

    /// Makes them part of state.
    pub(super) fn load(&self, state: &dyn State) -> Result<(), StateError> {
        state.write(vec![StateChange::put(Keep::Meta, LOADING, Vec::new())])?;
        state.persist()?;
        if !self.runs.is_empty() {
            state.load(Keep::Runs, &self.runs)?;
        }
        state.load(Keep::Heads, &self.heads)
    }
}

impl Rows for Gathered {
    fn put(&mut self, space: Keep, key: &[u8], fill: impl FnOnce(&mut Vec<u8>)) {
        match space {
            Keep::Runs => self.runs.put(key, fill),
            Keep::Heads => self.heads.put(key, fill),
            _ => self.cursors.put(space, key, fill),
        }
    }

    fn delete(&mut self, space: Keep, key: &[u8]) {
        match space {
            Keep::Runs => self.runs.delete(key),
            Keep::Heads => self.heads.delete(key),
            _ => self.cursors.delete(space, key),
        }
    }
}

/// Whether an earlier process was ended between a load and its checkpoint's seal.
pub(in crate::engine) fn is_loading(state: &dyn State) -> Result<bool, StateError> {
    Ok(state.get(Keep::Meta, LOADING)?.is_some())
}

/// The change that notes that no load is under way.
pub(super) fn no_load() -> StateChange {
    StateChange::delete(Keep::Meta, LOADING)
}
