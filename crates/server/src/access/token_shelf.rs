//! The rows of the API's tokens: what is put is on stable storage before the answer.
//!
//! The rows are in the first log. The API alone knows the content of a row. Invariant: the shelf
//! holds what the log has, and never before it has it.

use super::row_logs::RowLogs;
use model::ports::log::{RowHome, Table, Write};
use model::ports::tokens::{NotKept, TokenRows};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The shelf.
pub(super) struct TokenShelf {
    logs: Arc<RowLogs>,
    rows: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl TokenShelf {
    pub(super) fn new(logs: Arc<RowLogs>) -> TokenShelf {
        TokenShelf { logs, rows: Mutex::default() }
    }

    /// A row that the log kept. False: it cannot be read.
    pub(super) fn restore(&self, key: &[u8], value: &[u8]) -> bool {
        let Some(name) = name_of(key) else { return false };
        self.change(|rows| drop(rows.insert(name.into(), value.into())));
        true
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) {
        change(&mut self.rows.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn key_of(name: &str) -> Box<[u8]> {
    RowHome::PROCESS.key(&[name.as_bytes()])
}

/// The name in such a key.
fn name_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(RowHome::rest(key)?).ok()
}

impl TokenRows for TokenShelf {
    fn all(&self) -> Vec<(String, Vec<u8>)> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.iter().map(|(name, row)| (name.clone(), row.clone())).collect()
    }

    fn put(&self, name: &str, row: Vec<u8>) -> Result<(), NotKept> {
        let (table, key) = (Table::ApiTokens, key_of(name));
        let written = self.logs.write(vec![Write::Put { table, key, value: row.clone().into() }]);
        written.map_err(|_| NotKept)?;
        self.change(|rows| drop(rows.insert(name.into(), row)));
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), NotKept> {
        let (table, key) = (Table::ApiTokens, key_of(name));
        self.logs.write(vec![Write::Delete { table, key }]).map_err(|_| NotKept)?;
        self.change(|rows| drop(rows.remove(name)));
        Ok(())
    }
}
