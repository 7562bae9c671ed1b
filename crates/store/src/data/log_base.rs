//! A base: a copy of one log as of a record, which a follower begins with and goes on from.
//!
//! ```text
//! log-00.base/0000000007.log …  segments: a second name of closed ones, a copy of the last
//! log-00.base/promised          up to where it goes
//! log-00.base/rows              derived state: | space u8 | key u16 | value u32 | key | value |
//! list: | version u8 | segment u32 | offset u32 | epoch u32 | index u64 | chain u32 | files u32 |
//!       each: name length u8, name, bytes u64, a CRC-32 for each chunk | crc32 of all u32 |
//! ```
//! It is made as a backup is, while the log goes on, and has nothing that is not acknowledged. A
//! follower that wants it asks for its list and then for chunks in any order, again and again. It
//! knows no network. Invariant: as long as a [`Base`] is kept its chunks stay as its list says.

use crate::OpenError;
use crate::data::alive::state_failed;
use crate::engine::{Engine, Keep, State, StateChange, StateError};
use crate::log::durable_mark::DurableMark;
use crate::log::record::SEGMENT_BYTES;
use crate::log::{Place, Position, segment_path};
use crate::tools::backup::{Still, copy};
use model::ports::files::{File, FileSystem, ReadFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a chunk; the last of a file is shorter.
pub const CHUNK_BYTES: u64 = 256 * 1024;

/// Rows that are written at once.
const ROWS_TOGETHER: usize = 1_024;

/// Bytes of rows that are written at once, about.
const ROWS_BYTES: usize = 1 << 20;

/// Longer than any key of derived state.
const LAST_KEY: [u8; 1024] = [u8::MAX; 1024];

/// The file of derived state.
pub(crate) const ROWS: &str = "rows";

const VERSION: u8 = 1;

/// One file of a base.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BaseFile {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// CRC-32 of each of its chunks.
    pub(crate) sums: Vec<u32>,
}

/// Parts of a base.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BaseList {
    /// Position behind its last batch.
    pub at: Position,
    /// Its files.
    pub files: Vec<BaseFile>,
}

impl BaseList {
    /// As bytes.
    pub fn write(&self) -> Vec<u8> {
        let Position { place, epoch, index, chain } = self.at;
        let mut out = vec![VERSION];
        for word in [place.segment, place.offset, epoch] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&index.to_le_bytes());
        for word in [chain, self.files.len() as u32] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for BaseFile { name, bytes, sums } in &self.files {
            out.push(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(&bytes.to_le_bytes());
            sums.iter().for_each(|sum| out.extend_from_slice(&sum.to_le_bytes()));
        }
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Content of these bytes; `None` if any of them is damaged.
    pub fn read(bytes: &[u8]) -> Option<BaseList> {
        let (said, crc) = bytes.split_last_chunk()?;
        let mut rest = Some(said).filter(|it| crc32fast::hash(it) == u32::from_le_bytes(*crc))?;
        let version = take::<1>(&mut rest)?[0];
        let mut word = || Some(u32::from_le_bytes(take(&mut rest)?));
        let place = Place { segment: word()?, offset: word()? };
        let epoch = word()?;
        let index = u64::from_le_bytes(take(&mut rest)?);
        let chain = u32::from_le_bytes(take(&mut rest)?);
        let count = u32::from_le_bytes(take(&mut rest)?);
        let mut files = Vec::new();
        for _ in 0..count {
            let length = usize::from(take::<1>(&mut rest)?[0]);
            let (name, behind) = rest.split_at_checked(length)?;
            rest = behind;
            let name = std::str::from_utf8(name).ok()?.to_owned();
            let bytes = u64::from_le_bytes(take(&mut rest)?);
            let sums = (0..bytes.div_ceil(CHUNK_BYTES)).map(|_| take(&mut rest));
            let sums = sums.map(|sum| sum.map(u32::from_le_bytes)).collect::<Option<_>>()?;
            files.push(BaseFile { name, bytes, sums });
        }
        let at = Position { place, epoch, index, chain };
        (version == VERSION && rest.is_empty()).then_some(BaseList { at, files })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*taken)
}

/// A base that is handed out. Dropping it lets its room go.
pub struct Base {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    list: BaseList,
}

impl Base {
    /// Makes a base of a log that nobody else uses, in a folder beside it. No upkeep task may be
    /// out, and all must be acknowledged.
    pub fn of(
        engine: &mut Engine,
        files: &Arc<dyn FileSystem>,
        folder: &Path,
        state: &dyn State,
        now_s: u32,
    ) -> Result<Base, OpenError> {
        let still = Still::of(engine, &**files, folder, now_s)?;
        Base::make(files, folder, &still, state)?.sum()
    }

    /// Takes the files of a log at rest. They have no sums yet.
    pub(crate) fn make(
        files: &Arc<dyn FileSystem>,
        folder: &Path,
        still: &Still,
        state: &dyn State,
    ) -> Result<Base, OpenError> {
        let to = base_folder(folder);
        let failed = |error| OpenError::at(&to, error);
        files.remove_folder(&to).and_then(|()| files.make_folder(&to)).map_err(failed)?;
        let at = still.acknowledged;
        let list = BaseList { at, files: Vec::new() };
        // From here on what is left of one that failed goes.
        let mut base = Base { files: Arc::clone(files), folder: to.clone(), list };
        for (&number, &length) in still.segments.range(..=at.place.segment) {
            let (from, to) = (segment_path(folder, number), segment_path(&to, number));
            let (bytes, is_last) = match number == at.place.segment {
                true => (at.place.offset.into(), true),
                false => (length, false),
            };
            let linked = !is_last && files.link(&from, &to).is_ok();
            if !linked {
                copy(&**files, &from, &to, bytes).map_err(|error| OpenError::at(&to, error))?;
            }
            base.add(&to, bytes);
        }
        DurableMark::begin(&**files, &to, at);
        base.add(&to.join("promised"), DurableMark::BYTES);
        let rows = to.join(ROWS);
        let mut out = RowFile::begin(&**files, &rows).map_err(failed)?;
        out.all(state).map_err(|error| state_failed(&rows, error))?;
        base.add(&rows, out.bytes);
        Ok(base)
    }

    fn add(&mut self, path: &Path, bytes: u64) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.list.files.push(BaseFile { name, bytes, sums: Vec::new() });
    }

    /// Reads it once, to say what each chunk is.
    pub(crate) fn sum(mut self) -> Result<Base, OpenError> {
        for file in &mut self.list.files {
            let path = self.folder.join(&file.name);
            let failed = |error| OpenError::at(&path, error);
            let source = self.files.source(&path).map_err(failed)?;
            for chunk in 0..file.bytes.div_ceil(CHUNK_BYTES) {
                let bytes = read_chunk(&*source, file.bytes, chunk).map_err(failed)?;
                file.sums.push(crc32fast::hash(&bytes));
            }
        }
        Ok(self)
    }

    /// Its parts.
    pub fn list(&self) -> &BaseList {
        &self.list
    }

    /// A chunk of a file, by their numbers from 0.
    pub fn chunk(&self, file: u32, chunk: u64) -> io::Result<Vec<u8>> {
        let file = self.list.files.get(file as usize).ok_or(io::ErrorKind::NotFound)?;
        if chunk >= file.bytes.div_ceil(CHUNK_BYTES) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let source = self.files.source(&self.folder.join(&file.name))?;
        read_chunk(&*source, file.bytes, chunk)
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        let _ = self.files.remove_folder(&self.folder); // or the next start does
    }
}

/// Where the base of the log in a folder is.
pub(crate) fn base_folder(folder: &Path) -> PathBuf {
    folder.with_extension("base")
}

/// A chunk of a file that is so long.
pub(crate) fn read_chunk(source: &dyn ReadFile, length: u64, chunk: u64) -> io::Result<Vec<u8>> {
    let offset = chunk * CHUNK_BYTES;
    let mut bytes = vec![0; (length - offset).min(CHUNK_BYTES) as usize];
    source.read_at(offset, &mut bytes).map(|()| bytes)
}

/// Derived state as one file, in the making.
struct RowFile {
    file: Box<dyn File>,
    bytes: u64,
    buffer: Vec<u8>,
}

impl RowFile {
    fn begin(files: &dyn FileSystem, path: &Path) -> io::Result<RowFile> {
        let mut file = files.open(path)?;
        file.cut(0)?;
        Ok(RowFile { file, bytes: 0, buffer: Vec::new() })
    }

    fn all(&mut self, state: &dyn State) -> Result<(), StateError> {
        for space in Keep::ALL {
            let mut next = Vec::new();
            loop {
                let (mut rows, mut last) = (0, Vec::new());
                let buffer = &mut self.buffer;
                state.range(space, (&next, &LAST_KEY), false, &mut |key, value| {
                    buffer.push(space as u8);
                    buffer.extend_from_slice(&(key.len() as u16).to_le_bytes());
                    buffer.extend_from_slice(&(value.len() as u32).to_le_bytes());
                    buffer.extend_from_slice(key);
                    buffer.extend_from_slice(value);
                    rows += 1;
                    last = key.to_vec();
                    rows < ROWS_TOGETHER && buffer.len() < ROWS_BYTES
                })?;
                self.flush().map_err(row_failed)?;
                if rows == 0 {
                    break;
                }
                next = [&last[..], &[0]].concat();
            }
        }
        self.file.sync().map_err(row_failed)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(self.bytes, &self.buffer)?;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

fn row_failed(error: io::Error) -> StateError {
    StateError { full: crate::files::is_full(&error), why: error.to_string() }
}

/// Puts the rows of a file into state, for good.
pub(crate) fn load_rows(source: &dyn ReadFile, state: &dyn State) -> Result<(), StateError> {
    let senseless = || StateError { full: false, why: "invalid row of a base".into() };
    let length = source.length().map_err(row_failed)?;
    let (mut at, mut changes, mut bytes) = (0, Vec::new(), 0);
    while at < length {
        let mut head = [0; 7];
        source.read_at(at, &mut head).map_err(row_failed)?;
        let space = Keep::ALL.into_iter().find(|space| *space as u8 == head[0]);
        let space = space.ok_or_else(senseless)?;
        let key = usize::from(u16::from_le_bytes([head[1], head[2]]));
        let value = u32::from_le_bytes([head[3], head[4], head[5], head[6]]) as usize;
        let behind = at + 7 + key as u64 + value as u64;
        if behind > length {
            return Err(senseless());
        }
        let mut row = vec![0; key + value];
        source.read_at(at + 7, &mut row).map_err(row_failed)?;
        let value = row.split_off(key);
        bytes += row.len() + value.len();
        changes.push(StateChange { space, key: row, value: Some(value) });
        at = behind;
        if changes.len() == ROWS_TOGETHER || bytes >= ROWS_BYTES || at == length {
            state.write(std::mem::take(&mut changes))?;
            bytes = 0;
        }
    }
    state.persist()
}

const _: () =
    assert!(SEGMENT_BYTES < CHUNK_BYTES as usize, "a segment's first record is a chunk's");
