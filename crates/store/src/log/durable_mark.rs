//! Position up to which a log's answers have been given: a file of 28 bytes beside the segments.
//!
//! ```text
//! | segment u32 | offset u32 | epoch u32 | index u64 | chain u32 | crc32 u32 |   little endian
//! ```
//! It is written over in place when a batch is where the policy wants it and before anybody hears
//! of it, and never synced but at the start: a call of the system a batch, and no wait. So after a
//! crash of the process it is exact, after one of the machine it may be older than what was
//! promised, and it is newer than the log only if the log has lost what was promised. It decides
//! nothing: a log whose end is torn is cut as it would be without. Invariant: what cannot be read
//! is not known, and claims nothing.

use super::{Place, Position};
use model::ports::files::{File, FileSystem};
use model::{event, tell};
use std::io;
use std::path::{Path, PathBuf};

const BYTES: usize = 28;

/// The file, while a log is written.
pub(crate) struct DurableMark {
    path: PathBuf,
    /// Gone after the first error.
    file: Option<Box<dyn File>>,
}

/// Position promised by an earlier process, if that is known.
pub(crate) fn read(files: &dyn FileSystem, folder: &Path) -> Option<Position> {
    let bytes: [u8; BYTES] = files.read(&path(folder)).ok()?.try_into().ok()?;
    let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("inside"));
    let index = u64::from_le_bytes(*bytes[12..].first_chunk().expect("inside"));
    let place = Place { segment: word(0), offset: word(4) };
    let position = Position { place, epoch: word(8), index, chain: word(20) };
    (write(position) == bytes).then_some(position)
}

impl DurableMark {
    /// Length of the file.
    pub(crate) const BYTES: u64 = BYTES as u64;

    /// Begins anew: so much is there, and on stable storage. Without room for the file nothing is
    /// known at the next start.
    pub(crate) fn begin(files: &dyn FileSystem, folder: &Path, end: Position) -> DurableMark {
        let path = path(folder);
        let begin = || -> io::Result<Box<dyn File>> {
            let mut file = files.open(&path)?;
            file.write_at(0, &write(end))?;
            file.sync()?;
            files.sync_folder(folder)?;
            Ok(file)
        };
        let begun = begin().inspect_err(|error| unknown(&path, error));
        DurableMark { file: begun.ok(), path }
    }

    /// Answers up to `end` are about to be given.
    pub(crate) fn reach(&mut self, end: Position) {
        let Some(file) = &mut self.file else { return };
        if let Err(error) = file.write_at(0, &write(end)) {
            unknown(&self.path, &error);
            self.file = None;
        }
    }
}

fn unknown(path: &Path, error: &io::Error) {
    tell!(event::MARK_UNWRITTEN, %error, file = %path.display());
}

fn path(folder: &Path) -> PathBuf {
    folder.join("promised")
}

fn write(Position { place, epoch, index, chain }: Position) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..4].copy_from_slice(&place.segment.to_le_bytes());
    bytes[4..8].copy_from_slice(&place.offset.to_le_bytes());
    bytes[8..12].copy_from_slice(&epoch.to_le_bytes());
    bytes[12..20].copy_from_slice(&index.to_le_bytes());
    bytes[20..24].copy_from_slice(&chain.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..24]);
    bytes[24..].copy_from_slice(&crc.to_le_bytes());
    bytes
}
