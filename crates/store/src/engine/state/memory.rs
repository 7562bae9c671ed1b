//! State in maps, for tests: it can lose what was not persisted, and fail.

use super::{Keep, Sorted, State, StateChange, StateError};
use base::prng::Prng;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Maps = BTreeMap<(Keep, Vec<u8>), Vec<u8>>;

/// State in memory.
#[derive(Default)]
pub struct MemoryState(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    now: Maps,
    persisted: Maps,
    /// Batches since.
    pending: Vec<Vec<StateChange>>,
    /// Writes that will still succeed, if not all.
    writes_left: Option<u64>,
}

impl MemoryState {
    /// As after a power cut: some of the batches since the last `persist` are there, the earlier
    /// ones.
    pub fn crash(&self, rng: &mut Prng) {
        let mut inner = self.inner();
        let kept = rng.below(inner.pending.len() as u64 + 1) as usize;
        let pending = std::mem::take(&mut inner.pending);
        let mut maps = std::mem::take(&mut inner.persisted);
        pending.into_iter().take(kept).for_each(|batch| apply(&mut maps, batch));
        inner.persisted = maps.clone();
        inner.now = maps;
        inner.writes_left = None;
    }

    /// Has all writes fail after so many more; `None` ends that.
    pub fn fail_after(&self, writes: Option<u64>) {
        self.inner().writes_left = writes;
    }

    /// Removes all state, as when its folder is removed.
    pub fn clear(&self) {
        *self.inner() = Inner::default();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State for MemoryState {
    fn get(&self, space: Keep, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        Ok(self.inner().now.get(&(space, key.to_vec())).cloned())
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
        let (from, to) = ((space, from.to_vec()), (space, to.to_vec()));
        let inner = self.inner();
        let mut range = inner.now.range((Bound::Included(from), Bound::Excluded(to)));
        let mut next = || if backwards { range.next_back() } else { range.next() };
        while let Some(((_, key), value)) = next() {
            if !each(key, value) {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, changes: Vec<StateChange>) -> Result<(), StateError> {
        let mut inner = self.inner();
        inner.may_write()?;
        apply(&mut inner.now, changes.clone());
        inner.pending.push(changes);
        Ok(())
    }

    fn load(&self, space: Keep, rows: &Sorted) -> Result<(), StateError> {
        self.inner().may_write()?;
        self.persist()?;
        let mut inner = self.inner();
        let changes = StateChange::of_rows(space, rows);
        apply(&mut inner.now, changes.clone());
        apply(&mut inner.persisted, changes);
        Ok(())
    }

    fn persist(&self) -> Result<(), StateError> {
        let mut inner = self.inner();
        let pending = std::mem::take(&mut inner.pending);
        pending.into_iter().for_each(|batch| apply(&mut inner.persisted, batch));
        Ok(())
    }
}

impl Inner {
    fn may_write(&mut self) -> Result<(), StateError> {
        if let Some(left) = &mut self.writes_left {
            if *left == 0 {
                return Err(StateError { full: true, why: "no room, as was asked for".into() });
            }
            *left -= 1;
        }
        Ok(())
    }
}

fn apply(maps: &mut Maps, changes: Vec<StateChange>) {
    for StateChange { space, key, value } in changes {
        match value {
            Some(value) => maps.insert((space, key), value),
            None => maps.remove(&(space, key)),
        };
    }
}
