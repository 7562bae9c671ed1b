//! Rows that changed since the last checkpoint. All others are in state.
//!
//! A checkpoint takes what there is aside and writes it slice by slice; what changes meanwhile is
//! newer and stands before it. Invariant: the newest word on a row is in `now`, else in `aside`,
//! else in state.

use crate::engine::state::{Keep, StateChange};
use model::ports::log::Table;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Rows by table and key; `None` is gone.
pub(crate) type RowMap = BTreeMap<Box<[u8]>, Option<Box<[u8]>>>;

/// The rows.
#[derive(Default)]
pub(crate) struct Rows {
    now: RowMap,
    aside: Arc<RowMap>,
}

/// The key of a row in state.
pub(crate) fn row_key(table: Table, key: &[u8]) -> Box<[u8]> {
    let mut whole = Vec::with_capacity(1 + key.len());
    whole.push(table as u8);
    whole.extend_from_slice(key);
    whole.into()
}

impl Rows {
    /// Changes a row; what `now` said before.
    pub(crate) fn set(
        &mut self,
        key: Box<[u8]>,
        value: Option<Box<[u8]>>,
    ) -> Option<Option<Box<[u8]>>> {
        self.now.insert(key, value)
    }

    /// The last change did not happen.
    pub(crate) fn take_back(&mut self, key: Box<[u8]>, before: Option<Option<Box<[u8]>>>) {
        match before {
            Some(before) => self.now.insert(key, before),
            None => self.now.remove(&key),
        };
    }

    /// A row as memory knows it, without derived state.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&Option<Box<[u8]>>> {
        self.now.get(key).or_else(|| self.aside.get(key))
    }

    /// Changed rows from `from` on that begin with `prefix`, until `count` of them are live.
    pub(crate) fn some(&self, prefix: &[u8], from: Bound<&[u8]>, count: usize) -> RowMap {
        let mut found = RowMap::new();
        let range = (from, Bound::Unbounded);
        let mut aside = self.aside.range::<[u8], _>(range).peekable();
        let mut now = self.now.range::<[u8], _>(range).peekable();
        let mut live = 0;
        while live < count {
            let newer = match (now.peek(), aside.peek()) {
                (None, None) => break,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some((a, _)), Some((b, _))) => {
                    let (a, b) = (*a, *b);
                    if a == b {
                        aside.next();
                    }
                    a <= b
                }
            };
            let (key, value) = if newer { now.next() } else { aside.next() }.expect("peeked");
            if !key.starts_with(prefix) {
                break;
            }
            live += usize::from(value.is_some());
            found.insert(key.clone(), value.clone());
        }
        found
    }

    pub(crate) fn has_changed(&self) -> bool {
        !self.now.is_empty() || !self.aside.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.now.len() + self.aside.len()
    }

    /// Takes what changed aside, for a checkpoint.
    pub(crate) fn put_aside(&mut self) -> Arc<RowMap> {
        self.tell_again();
        self.aside = Arc::new(std::mem::take(&mut self.now));
        Arc::clone(&self.aside)
    }

    /// State knows all that was aside.
    pub(crate) fn told(&mut self) {
        self.aside = Arc::default();
    }

    /// State may not know what was aside.
    pub(crate) fn tell_again(&mut self) {
        let aside = std::mem::take(&mut self.aside);
        for (key, value) in aside.iter() {
            self.now.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// The changes that tell state of the next rows after `after`, about `bytes_max` bytes of them,
/// and the last one's key; `None` when there are no more.
pub(crate) fn changes(
    rows: &RowMap,
    after: Option<&[u8]>,
    bytes_max: usize,
) -> Option<(Vec<StateChange>, Box<[u8]>)> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let (mut changes, mut last, mut bytes) = (Vec::new(), None, 0);
    for (key, value) in rows.range::<[u8], _>((from, Bound::Unbounded)) {
        if bytes >= bytes_max {
            break;
        }
        bytes += key.len() + value.as_ref().map_or(0, |value| value.len()) + 64;
        changes.push(StateChange {
            space: Keep::Rows,
            key: key.to_vec(),
            value: value.as_ref().map(|value| value.to_vec()),
        });
        last = Some(key.clone());
    }
    Some((changes, last?))
}
