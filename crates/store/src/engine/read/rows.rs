//! Rows: what changed lately from memory, all others from state.

use super::{Plan, state_failed};
use crate::engine::Engine;
use crate::engine::index::rows::{RowMap, row_key};
use crate::engine::index::{rosters, senseless};
use crate::engine::state::{Keep, State, StateError};
use model::ports::log::{Done, ROW_KEY_BYTES_MAX, Roster, RosterId, StoreError, Table};
use std::ops::Bound;
use std::sync::Arc;

/// Key and value.
type Row = (Box<[u8]>, Box<[u8]>);

/// One row that memory does not know.
pub(super) struct RowPlan {
    state: Arc<dyn State>,
    key: Box<[u8]>,
}

/// Rows of a table.
pub(super) struct RowsPlan {
    state: Arc<dyn State>,
    prefix: Box<[u8]>,
    /// Where to begin; without that one if a page ended there.
    from: (Box<[u8]>, bool),
    count: usize,
    changed: RowMap,
}

impl Engine {
    pub(super) fn plan_row(&self, table: Table, key: &[u8]) -> Plan {
        let key = row_key(table, key);
        match self.index.rows.find(&key) {
            Some(value) => Plan::Ready(Ok(Done::Row(value.clone()))),
            None => Plan::Row(RowPlan { state: Arc::clone(&self.index.state), key }),
        }
    }

    pub(super) fn plan_roster(&self, id: RosterId) -> Plan {
        if let Some(known) = self.index.rosters.get(id) {
            return Plan::Ready(Ok(Done::Roster(Some(known.roster.clone()))));
        }
        match self.plan_row(Table::Rosters, &id.row_key()) {
            Plan::Ready(Ok(Done::Row(value))) => Plan::Ready(roster(value).map(Done::Roster)),
            Plan::Row(plan) => Plan::Roster(plan),
            other => other,
        }
    }

    pub(super) fn plan_rows(
        &self,
        table: Table,
        prefix: &[u8],
        after: Option<&[u8]>,
        count: usize,
    ) -> RowsPlan {
        let prefix = row_key(table, prefix);
        let after = after.map(|after| row_key(table, after)).filter(|after| *after >= prefix);
        let from = match after {
            Some(after) => (after, false),
            None => (prefix.clone(), true),
        };
        let bound = if from.1 { Bound::Included(&*from.0) } else { Bound::Excluded(&*from.0) };
        let changed = self.index.rows.some(&prefix, bound, count);
        RowsPlan { state: Arc::clone(&self.index.state), prefix, from, count, changed }
    }
}

impl RowPlan {
    pub(super) fn finish(self) -> Result<Option<Box<[u8]>>, StoreError> {
        let value = self.state.get(Keep::Rows, &self.key).map_err(|error| state_failed(&error))?;
        Ok(value.map(Into::into))
    }
}

/// The roster of a row.
pub(super) fn roster(value: Option<Box<[u8]>>) -> Result<Option<Roster>, StoreError> {
    let read = |value: Box<[u8]>| rosters::read(&value).ok_or_else(senseless);
    value.map(read).transpose().map_err(|error| state_failed(&error))
}

impl RowsPlan {
    pub(super) fn finish(self) -> Result<Done, StoreError> {
        self.rows().map(Done::Rows).map_err(|error| state_failed(&error))
    }

    fn rows(self) -> Result<Vec<Row>, StateError> {
        let RowsPlan { state, prefix, from: (from, with), count, mut changed } = self;
        let mut found = RowMap::new();
        let mut live = 0;
        let to = match prefix[0].checked_add(1) {
            Some(next) => vec![next],
            None => vec![u8::MAX; ROW_KEY_BYTES_MAX + 2], // longer than any key of the last table
        };
        if count > 0 {
            state.range(Keep::Rows, (&from, &to), false, &mut |key, value| {
                if !key.starts_with(&prefix) {
                    return false;
                }
                if (with || *key != *from) && !changed.contains_key(key) {
                    found.insert(key.into(), Some(value.into()));
                    live += 1;
                }
                live < count
            })?;
        }
        found.append(&mut changed);
        let rows = found.into_iter().filter_map(|(key, value)| Some((key[1..].into(), value?)));
        Ok(rows.take(count).collect())
    }
}
