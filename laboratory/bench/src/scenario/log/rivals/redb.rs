//! redb 4: a B-tree with copy on write; messages and rows are two tables, a batch is one
//! transaction of immediate durability.

use crate::scenario::log::audit::Seen;
use crate::scenario::log::lane::Ordered;
use crate::scenario::log::rival::{
    Heads, Rival, completion, halves, key, message, range, row, seq_of,
};
use model::ports::log::{Completion, Pull};
use model::timeline::Placed;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::io;
use std::path::Path;
use std::sync::Arc;

const MESSAGES: TableDefinition<[u8; 16], &[u8]> = TableDefinition::new("messages");
const ROWS: TableDefinition<[u8; 16], [u8; 16]> = TableDefinition::new("rows");

/// See the module.
pub struct Redb {
    database: Database,
    heads: Heads,
}

impl Redb {
    /// Opens the database in `folder`.
    pub fn open(folder: &Path, cache_bytes: usize) -> io::Result<Redb> {
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        let database = builder.create(folder.join("redb")).map_err(io::Error::other)?;
        Ok(Redb { database, heads: Heads::default() })
    }

    fn write(&mut self, batch: Vec<Ordered>) -> Result<Vec<Completion>, redb::Error> {
        let transaction = self.database.begin_write()?;
        let mut answers = Vec::with_capacity(batch.len());
        {
            let mut messages = transaction.open_table(MESSAGES)?;
            let mut rows = transaction.open_table(ROWS)?;
            for ordered in batch {
                let append = &ordered.1;
                let key = key(&append.message);
                messages.insert(key, &*append.message.body)?;
                let mut seqs = Vec::with_capacity(append.to.len());
                for &timeline in &append.to {
                    let seq = self.heads.next(timeline);
                    rows.insert(row(timeline, seq), key)?;
                    seqs.push(seq);
                }
                answers.push(completion(&ordered, seqs));
            }
        }
        transaction.commit()?;
        Ok(answers)
    }

    fn read(&self, pull: &Pull) -> Result<Vec<Placed>, redb::Error> {
        let transaction = self.database.begin_read()?;
        let (messages, rows) = (transaction.open_table(MESSAGES)?, transaction.open_table(ROWS)?);
        let (from, to) = range(pull);
        let mut rows = rows.range(from..=to)?;
        let mut page = Vec::with_capacity(pull.count_max.min(128));
        while page.len() < pull.count_max {
            let next = if pull.backwards { rows.next_back() } else { rows.next() };
            let Some(found) = next.transpose()? else { break };
            let (row, key) = (found.0.value(), found.1.value());
            let body = messages.get(key)?;
            let body = body.ok_or_else(|| io::Error::other("a row's message is missing"))?;
            let message = Arc::new(message(&key, body.value())?);
            page.push(Placed { seq: seq_of(&row)?, message });
        }
        Ok(page)
    }

    fn read_all(&self, seen: &mut Seen<'_>) -> Result<(), redb::Error> {
        let transaction = self.database.begin_read()?;
        for found in transaction.open_table(MESSAGES)?.iter()? {
            let (key, body) = found?;
            seen.message(&message(&key.value(), body.value())?)?;
        }
        for found in transaction.open_table(ROWS)?.iter()? {
            let (row, key) = found?;
            let (timeline, seq) = halves(&row.value())?;
            seen.row(timeline, seq, halves(&key.value())?.0)?;
        }
        Ok(())
    }
}

impl Rival for Redb {
    fn commit(&mut self, batch: Vec<Ordered>) -> io::Result<Vec<Completion>> {
        self.write(batch).map_err(io::Error::other)
    }

    fn page(&mut self, pull: &Pull) -> io::Result<Vec<Placed>> {
        self.read(pull).map_err(io::Error::other)
    }

    fn scan(&mut self, seen: &mut Seen<'_>) -> io::Result<()> {
        self.read_all(seen).map_err(io::Error::other)
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
