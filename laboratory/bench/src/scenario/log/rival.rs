//! Engines against which the log is measured: they keep the same rows, each in its best manner.
//!
//! A rival keeps a message under its key of sixteen bytes (number and label) and a row a timeline
//! under timeline and place, which names the message. It is given for nothing what our log must
//! keep itself: how far each timeline is ([`Heads`]) is in memory only and never written.

use super::audit::Seen;
use super::lane::Ordered;
use super::traffic::Traffic;
use super::{ours, rivals};
use model::ports::log::{Appended, Completion, Done, Pull};
use model::timeline::{Message, Placed, Seq, TimelineId};
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// An engine under measurement, on one thread.
pub trait Rival: Send {
    /// Appends all of `batch`, which is on stable storage on return. Answers in order.
    fn commit(&mut self, batch: Vec<Ordered>) -> io::Result<Vec<Completion>>;

    /// A page of a timeline; never asked while something is written.
    fn page(&mut self, pull: &Pull) -> io::Result<Vec<Placed>>;

    /// Does what it has left to do and lets its files go.
    fn close(self: Box<Self>) -> io::Result<()>;

    /// Shows all messages and all rows, a timeline's rows in their order.
    fn scan(&mut self, seen: &mut Seen<'_>) -> io::Result<()>;

    /// Reads back everything of `traffic` and returns how many rows there were; whatever is
    /// missing, double or different is an error.
    fn audit(&mut self, traffic: &Traffic) -> io::Result<u64> {
        let mut seen = Seen::new(traffic);
        self.scan(&mut seen)?;
        seen.over()
    }
}

/// An engine by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A write and fdatasync of the same bytes, and no index at all: what the disk costs.
    Bare,
    /// Our engine, on the writer's thread.
    Engine,
    /// An LSM tree.
    Fjall,
    /// A B-tree with copy on write.
    Redb,
    /// A B-tree with a log, in C.
    Sqlite,
}

impl Kind {
    /// Everyone.
    pub const ALL: [Kind; 5] = [Kind::Bare, Kind::Engine, Kind::Fjall, Kind::Redb, Kind::Sqlite];

    /// Its name in figures.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Bare => "bare",
            Kind::Engine => "engine",
            Kind::Fjall => "fjall",
            Kind::Redb => "redb",
            Kind::Sqlite => "sqlite",
        }
    }

    /// Opens it in `folder`, which is made if it is missing, with `cache_bytes` for what it read.
    pub fn open(self, folder: &Path, cache_bytes: usize) -> io::Result<Box<dyn Rival>> {
        std::fs::create_dir_all(folder)?;
        Ok(match self {
            Kind::Bare => Box::new(rivals::bare::Bare::open(folder)?),
            Kind::Engine => Box::new(ours::Direct::open(folder)?),
            Kind::Fjall => Box::new(rivals::fjall::Fjall::open(folder, cache_bytes as u64)?),
            Kind::Redb => Box::new(rivals::redb::Redb::open(folder, cache_bytes)?),
            Kind::Sqlite => Box::new(rivals::sqlite::Sqlite::open(folder, cache_bytes)?),
        })
    }
}

/// How far each timeline is.
#[derive(Default)]
pub struct Heads(HashMap<TimelineId, Seq>);

impl Heads {
    /// The next place in `timeline`.
    pub fn next(&mut self, timeline: TimelineId) -> Seq {
        let head = self.0.entry(timeline).or_default();
        *head += 1;
        *head
    }
}

/// The completion of an append.
pub fn completion((ticket, append): &Ordered, seqs: Vec<Seq>) -> Completion {
    (*ticket, Ok(Done::Appended(Appended { new: true, id: append.message.id, seqs })))
}

/// A message's key: its number, and its label.
pub fn key(message: &Message) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&message.id.to_be_bytes());
    key[8..].copy_from_slice(&message.label);
    key
}

/// A row's key: its timeline's hash, and its place.
pub fn row(timeline: TimelineId, seq: Seq) -> [u8; 16] {
    let mut row = [0; 16];
    row[..8].copy_from_slice(&timeline.home_hash().to_be_bytes());
    row[8..].copy_from_slice(&seq.to_be_bytes());
    row
}

/// The place in a row's key.
pub fn seq_of(row: &[u8]) -> io::Result<Seq> {
    halves(row).map(|(_, seq)| seq)
}

/// The two numbers of a key: timeline's hash and place, or message and its label.
pub fn halves(key: &[u8]) -> io::Result<(u64, u64)> {
    let number = |at: usize| Some(u64::from_be_bytes(key.get(at..at + 8)?.try_into().ok()?));
    number(0).zip(number(8)).ok_or_else(|| io::Error::other("a key is short"))
}

/// The message with this key and body.
pub fn message(key: &[u8], body: &[u8]) -> io::Result<Message> {
    let short = || io::Error::other("a message's key is short");
    let (id, label) = key.split_first_chunk::<8>().ok_or_else(short)?;
    let id = u64::from_be_bytes(*id);
    Ok(Message { id, at_s: (id >> 16) as u32, label: label.into(), body: body.into() })
}

/// The range of rows that `pull` asks of a timeline: from (included) and to (included).
pub fn range(pull: &Pull) -> ([u8; 16], [u8; 16]) {
    match pull.backwards {
        false => (row(pull.timeline, pull.from + 1), row(pull.timeline, Seq::MAX)),
        true => (row(pull.timeline, 0), row(pull.timeline, pull.from.saturating_sub(1))),
    }
}
