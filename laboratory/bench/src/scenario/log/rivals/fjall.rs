//! fjall 3: an LSM tree with a journal; messages and rows are two keyspaces, a batch is one write.
//!
//! The journal is synced as fdatasync does (`SyncData`), like everyone's. Work that its threads
//! flush and compact meanwhile and afterwards is in its CPU.

use crate::scenario::log::audit::Seen;
use crate::scenario::log::lane::Ordered;
use crate::scenario::log::rival::{
    Heads, Rival, completion, halves, key, message, range, row, seq_of,
};
use fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode};
use model::ports::log::{Completion, Pull};
use model::timeline::Placed;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// See the module.
pub struct Fjall {
    database: Database,
    messages: Keyspace,
    rows: Keyspace,
    heads: Heads,
}

impl Fjall {
    /// Opens the database in `folder`.
    pub fn open(folder: &Path, cache_bytes: u64) -> io::Result<Fjall> {
        let builder = Database::builder(folder.join("fjall")).cache_size(cache_bytes);
        let database = builder.open().map_err(io::Error::other)?;
        let keyspace = |name: &str| {
            database.keyspace(name, KeyspaceCreateOptions::default).map_err(io::Error::other)
        };
        let (messages, rows) = (keyspace("messages")?, keyspace("rows")?);
        Ok(Fjall { database, messages, rows, heads: Heads::default() })
    }

    fn placed(&self, guard: Guard) -> io::Result<Placed> {
        let (row, key) = guard.into_inner().map_err(io::Error::other)?;
        let body = self.messages.get(&key).map_err(io::Error::other)?;
        let body = body.ok_or_else(|| io::Error::other("a row's message is missing"))?;
        Ok(Placed { seq: seq_of(&row)?, message: Arc::new(message(&key, &body)?) })
    }
}

impl Rival for Fjall {
    fn commit(&mut self, batch: Vec<Ordered>) -> io::Result<Vec<Completion>> {
        let mut changes = self.database.batch().durability(Some(PersistMode::SyncData));
        let mut answers = Vec::with_capacity(batch.len());
        for ordered in batch {
            let append = &ordered.1;
            let key = key(&append.message);
            changes.insert(&self.messages, key, &*append.message.body);
            let mut seqs = Vec::with_capacity(append.to.len());
            for &timeline in &append.to {
                let seq = self.heads.next(timeline);
                changes.insert(&self.rows, row(timeline, seq), key);
                seqs.push(seq);
            }
            answers.push(completion(&ordered, seqs));
        }
        changes.commit().map_err(io::Error::other)?;
        Ok(answers)
    }

    fn page(&mut self, pull: &Pull) -> io::Result<Vec<Placed>> {
        let (from, to) = range(pull);
        let rows = self.rows.range(from..=to);
        let placed = |guard| self.placed(guard);
        match pull.backwards {
            false => rows.take(pull.count_max).map(placed).collect(),
            true => rows.rev().take(pull.count_max).map(placed).collect(),
        }
    }

    fn scan(&mut self, seen: &mut Seen<'_>) -> io::Result<()> {
        for guard in self.messages.iter() {
            let (key, body) = guard.into_inner().map_err(io::Error::other)?;
            seen.message(&message(&key, &body)?)?;
        }
        for guard in self.rows.iter() {
            let (row, key) = guard.into_inner().map_err(io::Error::other)?;
            let (timeline, seq) = halves(&row)?;
            seen.row(timeline, seq, halves(&key)?.0)?;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        // What is read later shall come from its tables and not from memtables made again.
        for keyspace in [&self.messages, &self.rows] {
            keyspace.rotate_memtable_and_wait().map_err(io::Error::other)?;
        }
        self.database.persist(PersistMode::SyncData).map_err(io::Error::other)
    }
}
