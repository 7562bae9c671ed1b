//! The rows of the API's tokens: what is put is on stable storage before the answer.
//!
//! They are in the log of the users, and written the same way. What is in a row is the API's own.
//! Invariant: the shelf holds what the log has, and never before it has it.

use super::user_book::UserBook;
use super::{key_of, name_of};
use model::ports::log::{Table, Write};
use model::ports::tokens::{NotKept, TokenRows};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The shelf.
pub(super) struct TokenShelf {
    book: Arc<UserBook>,
    rows: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl TokenShelf {
    /// One that writes as the book of users does.
    pub(super) fn new(book: Arc<UserBook>) -> TokenShelf {
        TokenShelf { book, rows: Mutex::default() }
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

impl TokenRows for TokenShelf {
    fn all(&self) -> Vec<(String, Vec<u8>)> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.iter().map(|(name, row)| (name.clone(), row.clone())).collect()
    }

    fn put(&self, name: &str, row: Vec<u8>) -> Result<(), NotKept> {
        let (table, key) = (Table::ApiTokens, key_of(name));
        let written = self.book.write(Write::Put { table, key, value: row.clone().into() });
        written.map_err(|_| NotKept)?;
        self.change(|rows| drop(rows.insert(name.into(), row)));
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), NotKept> {
        let (table, key) = (Table::ApiTokens, key_of(name));
        self.book.write(Write::Delete { table, key }).map_err(|_| NotKept)?;
        self.change(|rows| drop(rows.remove(name)));
        Ok(())
    }
}
