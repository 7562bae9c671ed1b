//! The machine's memory, its disk, and the faults between them.
//!
//! Every change is done to what is seen at once and waits beside it until a sync puts it on the
//! disk. It knows paths and bytes. Invariant: what is seen is the disk with every waiting change
//! done to it, but for what a failed sync threw away.

use base::prng::Prng;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// Bytes that a disk writes whole or not at all.
const SECTOR_BYTES: u64 = 512;

/// Bytes of a block: files take whole blocks of the disk.
const BLOCK_BYTES: u64 = 4096;

/// A file, whatever its names.
pub(super) type Id = u64;

/// Kinds of calls that can be made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file is cut.
    Cut,
    /// A file is synced.
    Sync,
    /// A file is made, renamed or removed.
    Name,
    /// A folder is synced.
    SyncFolder,
}

/// Error of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The disk failed (`EIO`).
    Io,
    /// The disk is full (`ENOSPC`).
    NoSpace,
    /// The quota is used up (`EDQUOT`).
    Quota,
    /// The file is too large (`EFBIG`).
    TooLarge,
    /// The file system may only be read (`EROFS`).
    ReadOnly,
}

/// Counts of the faults that have happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Calls that failed because they were told to.
    pub errors: u64,
    /// Calls that failed for want of room.
    pub full: u64,
    /// Waiting changes of which a crash kept nothing.
    pub lost: u64,
    /// Waiting writes of which a crash kept a part.
    pub torn: u64,
    /// Waiting changes that a crash kept though it lost an earlier one of the same file.
    pub reordered: u64,
    /// Changes of names that a crash lost.
    pub names_lost: u64,
    /// Changes that a failed sync threw away.
    pub dropped: u64,
}

#[derive(Clone)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Cut(u64),
}

#[derive(Clone)]
enum Naming {
    Made(PathBuf, Node),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Folder,
    File(Id),
}

#[derive(Default)]
struct Content {
    /// Blocks of what is seen that take room: those that were written.
    blocks: BTreeSet<u64>,
    seen: Vec<u8>,
    disk: Vec<u8>,
    waiting: Vec<Change>,
}

#[derive(Clone, Copy)]
struct Fault {
    op: Op,
    error: Error,
    /// Calls before it, or one in so many.
    count: u64,
    once: bool,
}

/// How a crash treats what waits: a disk that was busy is not the same as one that was idle.
#[derive(Clone, Copy)]
enum Mood {
    LosesAll,
    KeepsAll,
    KeepsFirst,
    KeepsAny,
}

pub(super) struct FaultSimulation {
    rng: Prng,
    contents: Vec<Content>,
    names: BTreeMap<PathBuf, Node>,
    disk_names: BTreeMap<PathBuf, Node>,
    namings: Vec<Naming>,
    faults: Vec<Fault>,
    pub(super) bytes_max: u64,
    pub(super) points: u64,
    pub(super) off_at: Option<u64>,
    pub(super) off: bool,
    pub(super) life: u64,
    pub(super) counts: FaultCounts,
}

impl FaultSimulation {
    pub(super) fn new(seed: u64) -> FaultSimulation {
        let root = BTreeMap::from([(PathBuf::from("/"), Node::Folder)]);
        FaultSimulation {
            rng: Prng::new(seed),
            contents: Vec::new(),
            names: root.clone(),
            disk_names: root,
            namings: Vec::new(),
            faults: Vec::new(),
            bytes_max: u64::MAX,
            points: 0,
            off_at: None,
            off: false,
            life: 0,
            counts: FaultCounts::default(),
        }
    }

    pub(super) fn plan(&mut self, op: Op, count: u64, error: Error) {
        self.faults.push(Fault { op, error, count, once: true });
    }

    pub(super) fn chance(&mut self, op: Op, n: u64, error: Error) {
        self.faults.retain(|fault| fault.once || fault.op != op);
        if n > 0 {
            self.faults.push(Fault { op, error, count: n, once: false });
        }
    }

    pub(super) fn find(&mut self, path: &Path) -> io::Result<Id> {
        self.guard(Op::Read)?;
        match self.names.get(path) {
            Some(Node::File(id)) => Ok(*id),
            Some(Node::Folder) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn length(&mut self, id: Id) -> io::Result<u64> {
        self.guard(Op::Read)?;
        Ok(self.content(id).seen.len() as u64)
    }

    pub(super) fn read_at(&mut self, id: Id, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.guard(Op::Read)?;
        let seen = &self.content(id).seen;
        let bytes = seen.get(offset as usize..).and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    pub(super) fn write(&mut self, id: Id, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let guard = self.change(Op::Write);
        let room = self.room(id, offset, bytes.len() as u64);
        let fits = match &guard {
            Ok(()) if room == bytes.len() as u64 => room,
            Ok(()) => room,
            Err(_) => self.rng.below(bytes.len() as u64 + 1).min(room),
        };
        if fits > 0 {
            let bytes = bytes[..fits as usize].to_vec();
            self.content(id).wait(Change::Write { offset, bytes });
        }
        guard?;
        match fits == bytes.len() as u64 {
            true => Ok(()),
            false => {
                self.counts.full += 1;
                Err(Error::NoSpace.into())
            }
        }
    }

    pub(super) fn cut(&mut self, id: Id, length: u64) -> io::Result<()> {
        self.change(Op::Cut)?;
        let content = self.content(id);
        if content.seen.len() as u64 != length {
            content.wait(Change::Cut(length));
        }
        Ok(())
    }

    pub(super) fn sync(&mut self, id: Id) -> io::Result<()> {
        let done = self.change(Op::Sync);
        if self.off {
            return done;
        }
        let waiting = std::mem::take(&mut self.content(id).waiting);
        if done.is_ok() {
            waiting.iter().for_each(|change| change.apply(&mut self.content(id).disk));
            return done;
        }
        // Any part of what was written got there; the rest counts as clean and is never written.
        // A new length is not forgotten: it goes through the file system's own journal.
        let (writes, cuts): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|change| matches!(change, Change::Write { .. }));
        self.counts.dropped += writes.len() as u64;
        self.settle(id, writes);
        self.content(id).waiting = cuts;
        done
    }

    pub(super) fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        let mut above: Vec<_> = path.ancestors().collect();
        above.reverse();
        for folder in above {
            match self.names.get(folder) {
                Some(Node::Folder) => {}
                Some(Node::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                None => {
                    self.change(Op::Name)?;
                    self.name(Naming::Made(folder.into(), Node::Folder));
                }
            }
        }
        Ok(())
    }

    pub(super) fn names(&mut self, folder: &Path) -> io::Result<Vec<String>> {
        self.guard(Op::Read)?;
        if self.names.get(folder) != Some(&Node::Folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let below = self.names.keys().filter(|path| path.parent() == Some(folder));
        let names = below.filter_map(|path| path.file_name());
        Ok(names.map(|name| name.to_string_lossy().into_owned()).collect())
    }

    pub(super) fn open(&mut self, path: &Path) -> io::Result<Id> {
        match self.names.get(path) {
            Some(Node::File(id)) => {
                let id = *id;
                self.guard(Op::Read).map(|()| id)
            }
            Some(Node::Folder) => Err(io::ErrorKind::IsADirectory.into()),
            None => {
                self.folder_of(path)?;
                self.change(Op::Name)?;
                let id = self.contents.len() as Id;
                self.contents.push(Content::default());
                self.name(Naming::Made(path.into(), Node::File(id)));
                Ok(id)
            }
        }
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        if !self.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.folder_of(to)?;
        self.change(Op::Name)?;
        self.name(Naming::Renamed(from.into(), to.into()));
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        if !self.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.change(Op::Name)?;
        self.name(Naming::Removed(path.into()));
        Ok(())
    }

    pub(super) fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        let below = self.names.keys().filter(|name| name.starts_with(path));
        for name in below.rev().cloned().collect::<Vec<_>>() {
            if name == path {
                // What was done in it goes with it: another folder may have its name later.
                self.namings.retain(|naming| !naming.is_below(path));
            }
            self.remove(&name)?;
        }
        Ok(())
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.find(from)?;
        self.folder_of(to)?;
        if self.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.change(Op::Name)?;
        self.name(Naming::Made(to.into(), Node::File(id)));
        Ok(())
    }

    /// A failure leaves the names waiting: they go through a file system's own journal, and that
    /// does not forget what it could not write as the pages of a file are forgotten.
    pub(super) fn sync_folder(&mut self, folder: &Path) -> io::Result<()> {
        self.change(Op::SyncFolder)?;
        let (here, others): (Vec<_>, Vec<_>) =
            self.namings.drain(..).partition(|naming| naming.concerns(folder));
        self.namings = others;
        here.into_iter().for_each(|naming| naming.apply(&mut self.disk_names));
        Ok(())
    }

    pub(super) fn crash(&mut self) {
        for id in 0..self.contents.len() as Id {
            let waiting = std::mem::take(&mut self.content(id).waiting);
            self.settle(id, waiting);
            let content = self.content(id);
            content.seen = content.disk.clone();
            content.take_blocks();
        }
        let mood = self.mood();
        let namings = std::mem::take(&mut self.namings);
        let first = self.rng.below(namings.len() as u64 + 1) as usize;
        for (at, naming) in namings.into_iter().enumerate() {
            match self.keeps(mood, at, first) {
                true => naming.apply(&mut self.disk_names),
                false => self.counts.names_lost += 1,
            }
        }
        let names = self.disk_names.clone();
        let is_rooted = |path: &Path| {
            path.ancestors().skip(1).all(|above| names.get(above) == Some(&Node::Folder))
        };
        self.disk_names.retain(|path, _| is_rooted(path));
        self.names = self.disk_names.clone();
        self.kill();
        self.forget_nameless();
        self.faults.clear();
        (self.off, self.off_at) = (false, None);
    }

    /// Nobody can open a file without a name any more.
    fn forget_nameless(&mut self) {
        let named: BTreeSet<_> = self.names.values().copied().collect();
        for (id, content) in self.contents.iter_mut().enumerate() {
            if !named.contains(&Node::File(id as Id)) {
                *content = Content::default();
            }
        }
    }

    pub(super) fn kill(&mut self) {
        self.life += 1;
    }

    pub(super) fn used(&self) -> u64 {
        let files = self.names.values().filter_map(|node| match node {
            Node::File(id) => Some(self.contents[*id as usize].blocks.len() as u64),
            Node::Folder => None,
        });
        files.map(|blocks| blocks * BLOCK_BYTES).sum()
    }

    pub(super) fn rot(&mut self, path: &Path, offset: u64, bits: u8) {
        let Some(Node::File(id)) = self.names.get(path).copied() else {
            panic!("{} is not a file", path.display());
        };
        let content = self.content(id);
        content.seen[offset as usize] ^= bits;
        if let Some(byte) = content.disk.get_mut(offset as usize) {
            *byte ^= bits;
        }
    }

    fn content(&mut self, id: Id) -> &mut Content {
        &mut self.contents[id as usize]
    }

    fn folder_of(&self, path: &Path) -> io::Result<()> {
        match path.parent().and_then(|folder| self.names.get(folder)) {
            Some(Node::Folder) => Ok(()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn name(&mut self, naming: Naming) {
        naming.apply(&mut self.names);
        self.namings.push(naming);
    }

    /// A change is about to be made: the power may fail here.
    fn change(&mut self, op: Op) -> io::Result<()> {
        if self.off_at.is_some_and(|at| self.points >= at) {
            self.off = true;
        }
        self.points += 1;
        self.guard(op)
    }

    fn guard(&mut self, op: Op) -> io::Result<()> {
        if self.off {
            return Err(io::Error::other("the power is off"));
        }
        let mut failed = None;
        for fault in self.faults.iter_mut().filter(|fault| fault.op == op) {
            match fault.once {
                true if fault.count > 0 => fault.count -= 1,
                false if !self.rng.one_in(fault.count) => {}
                _ => failed = failed.or(Some(*fault)),
            }
        }
        let Some(failed) = failed else { return Ok(()) };
        if failed.once {
            let spent = |fault: &Fault| fault.once && fault.count == 0 && fault.op == op;
            self.faults.retain(|fault| !spent(fault));
        }
        self.counts.errors += 1;
        Err(failed.error.into())
    }

    /// Bytes of a write that find room.
    fn room(&self, id: Id, offset: u64, bytes: u64) -> u64 {
        let mut free = self.bytes_max.saturating_sub(self.used()) / BLOCK_BYTES;
        let mine = &self.contents[id as usize].blocks;
        let mut end = offset;
        while end < offset + bytes {
            let block = end / BLOCK_BYTES;
            if !mine.contains(&block) {
                match free.checked_sub(1) {
                    Some(left) => free = left,
                    None => break,
                }
            }
            end = (block + 1) * BLOCK_BYTES;
        }
        end.min(offset + bytes) - offset
    }

    fn mood(&mut self) -> Mood {
        match self.rng.below(8) {
            0 => Mood::LosesAll,
            1 => Mood::KeepsAll,
            2 | 3 => Mood::KeepsFirst,
            _ => Mood::KeepsAny,
        }
    }

    fn keeps(&mut self, mood: Mood, at: usize, first: usize) -> bool {
        match mood {
            Mood::LosesAll => false,
            Mood::KeepsAll => true,
            Mood::KeepsFirst => at < first,
            Mood::KeepsAny => self.rng.one_in(2),
        }
    }

    /// Puts on the disk what a crash keeps of the waiting changes.
    fn settle(&mut self, id: Id, waiting: Vec<Change>) {
        let mood = self.mood();
        let sectors: u64 = waiting.iter().map(Change::sectors).sum();
        let first = self.rng.below(sectors + 1) as usize;
        let (mut at, mut lost_one) = (0, false);
        for change in waiting {
            let pieces = change.pieces();
            let (count, mut kept) = (pieces.len(), 0);
            for piece in pieces {
                if self.keeps(mood, at, first) {
                    piece.apply(&mut self.content(id).disk);
                    kept += 1;
                }
                at += 1;
            }
            self.counts.lost += u64::from(kept == 0);
            self.counts.torn += u64::from(kept > 0 && kept < count);
            self.counts.reordered += u64::from(kept > 0 && lost_one);
            lost_one |= kept < count;
        }
    }
}

impl Content {
    fn wait(&mut self, change: Change) {
        change.apply(&mut self.seen);
        match &change {
            Change::Cut(length) => {
                let end = length.div_ceil(BLOCK_BYTES);
                self.blocks.retain(|block| *block < end);
            }
            Change::Write { offset, bytes } => {
                let end = (offset + bytes.len() as u64).div_ceil(BLOCK_BYTES);
                self.blocks.extend(offset / BLOCK_BYTES..end);
            }
        }
        self.waiting.push(change);
    }

    /// After a crash: what took room takes it still, and so does what is not zeros.
    fn take_blocks(&mut self) {
        let end = (self.seen.len() as u64).div_ceil(BLOCK_BYTES);
        self.blocks.retain(|block| *block < end);
        let blocks = self.seen.chunks(BLOCK_BYTES as usize).zip(0..);
        let written = blocks.filter(|(block, _)| block.iter().any(|byte| *byte != 0));
        self.blocks.extend(written.map(|(_, at)| at));
    }
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Change::Cut(length) => to.resize(*length as usize, 0),
            Change::Write { offset, bytes } => {
                let end = *offset as usize + bytes.len();
                to.resize(to.len().max(end), 0);
                to[*offset as usize..end].copy_from_slice(bytes);
            }
        }
    }

    fn sectors(&self) -> u64 {
        match self {
            Change::Cut(_) => 1,
            Change::Write { offset, bytes } => {
                (offset + bytes.len() as u64).div_ceil(SECTOR_BYTES) - offset / SECTOR_BYTES
            }
        }
    }

    /// Its parts, each of which a disk does whole or not at all.
    fn pieces(self) -> Vec<Change> {
        let Change::Write { mut offset, bytes } = self else { return vec![self] };
        let mut rest = &bytes[..];
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let count = (SECTOR_BYTES - offset % SECTOR_BYTES).min(rest.len() as u64);
            let (piece, after) = rest.split_at(count as usize);
            pieces.push(Change::Write { offset, bytes: piece.to_vec() });
            (rest, offset) = (after, offset + count);
        }
        pieces
    }
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            Naming::Made(path, node) => drop(names.insert(path.clone(), *node)),
            Naming::Removed(path) => names.retain(|name, _| !name.starts_with(path)),
            Naming::Renamed(from, to) => {
                let below = names.keys().filter(|path| path.starts_with(from));
                for path in below.cloned().collect::<Vec<_>>() {
                    let node = names.remove(&path).expect("it was listed just now");
                    let rest = path.strip_prefix(from).expect("it begins with it");
                    let moved = match rest.as_os_str().is_empty() {
                        true => to.clone(),
                        false => to.join(rest),
                    };
                    names.insert(moved, node);
                }
            }
        }
    }

    fn concerns(&self, folder: &Path) -> bool {
        self.path().parent() == Some(folder)
    }

    fn is_below(&self, folder: &Path) -> bool {
        self.path() != folder && self.path().starts_with(folder)
    }

    fn path(&self) -> &Path {
        let (Naming::Made(path, _) | Naming::Removed(path) | Naming::Renamed(_, path)) = self;
        path
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::from_raw_os_error(match error {
            Error::Io => 5,
            Error::NoSpace => 28,
            Error::Quota => 122,
            Error::TooLarge => 27,
            Error::ReadOnly => 30,
        })
    }
}
