//! SQLite: write-ahead log, `synchronous=FULL`; a batch is one transaction.
//!
//! Messages are a table by number, which SQLite appends to; rows are a table without rowids by
//! timeline and place, which is its narrowest form of an index.

use crate::scenario::log::audit::Seen;
use crate::scenario::log::lane::Ordered;
use crate::scenario::log::rival::{Heads, Rival, completion};
use model::ports::log::{Completion, Pull};
use model::timeline::{Message, Placed};
use rusqlite::{Connection, Row, params};
use std::io;
use std::path::Path;
use std::sync::Arc;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, label BLOB, body BLOB);
    CREATE TABLE IF NOT EXISTS timelines (timeline INTEGER, seq INTEGER, message INTEGER,
        PRIMARY KEY (timeline, seq)) WITHOUT ROWID;";
const FORWARDS: &str = "
    SELECT seq, id, label, body FROM timelines JOIN messages ON id = message
    WHERE timeline = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
const BACKWARDS: &str = "
    SELECT seq, id, label, body FROM timelines JOIN messages ON id = message
    WHERE timeline = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3";

/// See the module.
pub struct Sqlite {
    connection: Connection,
    heads: Heads,
}

impl Sqlite {
    /// Opens the database in `folder`.
    pub fn open(folder: &Path, cache_bytes: usize) -> io::Result<Sqlite> {
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(folder.join("sqlite"))?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.pragma_update(None, "cache_size", -((cache_bytes / 1024) as i64))?;
            connection.execute_batch(TABLES)?;
            Ok(connection)
        };
        Ok(Sqlite { connection: open().map_err(io::Error::other)?, heads: Heads::default() })
    }

    fn write(&mut self, batch: Vec<Ordered>) -> rusqlite::Result<Vec<Completion>> {
        let transaction = self.connection.transaction()?;
        let mut answers = Vec::with_capacity(batch.len());
        {
            let mut put = transaction.prepare_cached("INSERT INTO messages VALUES (?1, ?2, ?3)")?;
            let mut row =
                transaction.prepare_cached("INSERT INTO timelines VALUES (?1, ?2, ?3)")?;
            for ordered in batch {
                let append = &ordered.1;
                let Message { id, label, body, .. } = &*append.message;
                let id = *id as i64;
                put.execute(params![id, &**label, &**body])?;
                let mut seqs = Vec::with_capacity(append.to.len());
                for &timeline in &append.to {
                    let seq = self.heads.next(timeline);
                    row.execute(params![timeline.home_hash() as i64, seq as i64, id])?;
                    seqs.push(seq);
                }
                answers.push(completion(&ordered, seqs));
            }
        }
        transaction.commit()?;
        Ok(answers)
    }

    fn read(&self, pull: &Pull) -> rusqlite::Result<Vec<Placed>> {
        let words = if pull.backwards { BACKWARDS } else { FORWARDS };
        let mut select = self.connection.prepare_cached(words)?;
        let from = i64::try_from(pull.from).unwrap_or(i64::MAX);
        let timeline = pull.timeline.home_hash() as i64;
        let placed = |row: &Row<'_>| {
            let seq = row.get::<_, i64>(0)? as u64;
            Ok(Placed { seq, message: Arc::new(message(row, 1)?) })
        };
        select.query_map(params![timeline, from, pull.count_max as i64], placed)?.collect()
    }
}

/// The message in a row's columns from `at` on: number, label, body.
fn message(row: &Row<'_>, at: usize) -> rusqlite::Result<Message> {
    let id = row.get::<_, i64>(at)? as u64;
    let (label, body): (Vec<u8>, Vec<u8>) = (row.get(at + 1)?, row.get(at + 2)?);
    Ok(Message { id, at_s: (id >> 16) as u32, label: label.into(), body: body.into() })
}

impl Rival for Sqlite {
    fn commit(&mut self, batch: Vec<Ordered>) -> io::Result<Vec<Completion>> {
        self.write(batch).map_err(io::Error::other)
    }

    fn page(&mut self, pull: &Pull) -> io::Result<Vec<Placed>> {
        self.read(pull).map_err(io::Error::other)
    }

    fn scan(&mut self, seen: &mut Seen<'_>) -> io::Result<()> {
        let prepare = |words| self.connection.prepare(words).map_err(io::Error::other);
        let mut select = prepare("SELECT id, label, body FROM messages")?;
        let messages = select.query_map([], |row| message(row, 0)).map_err(io::Error::other)?;
        for message in messages {
            seen.message(&message.map_err(io::Error::other)?)?;
        }
        let mut select = prepare("SELECT timeline, seq, message FROM timelines ORDER BY 1, 2")?;
        let row = |row: &Row<'_>| Ok::<[i64; 3], _>([row.get(0)?, row.get(1)?, row.get(2)?]);
        for row in select.query_map([], row).map_err(io::Error::other)? {
            let [timeline, seq, message] = row.map_err(io::Error::other)?.map(|it| it as u64);
            seen.row(timeline, seq, message)?;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.connection.close().map_err(|(_, error)| io::Error::other(error))
    }
}
