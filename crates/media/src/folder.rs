//! A folder of files, each written once and whole, and removed when its time is over.
//!
//! ```text
//! folder/<day of its end>/<id>.part ─► written, synced ─► folder/<day of its end>/<id>
//! ```
//! Names are ids of ours, so nothing that a stranger says is part of a path. A folder is one
//! process's. It knows no HTTP and no clock. Invariants: a file under its own name is whole and on
//! stable storage; what is being written counts as if it were there.

use base::hex;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const DAY_S: u64 = 86_400;
/// Extension of a file while it is written.
const PART: &str = "part";

/// The folder.
pub(crate) struct Folder {
    root: PathBuf,
    bytes_max: u64,
    /// Bytes of all files, and of those that are being written.
    bytes: Arc<AtomicU64>,
}

/// Why a file cannot be put there.
#[derive(Debug)]
pub(crate) enum Unwritten {
    /// The file exists, or is being written.
    Taken,
    /// The folder is full.
    Full,
    /// The disk says no.
    Failed(io::Error),
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Unwritten {
        match error.kind() {
            ErrorKind::AlreadyExists => Unwritten::Taken,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Unwritten::Full,
            _ => Unwritten::Failed(error),
        }
    }
}

impl Folder {
    /// The folder at a path, which is made if it is not there. Files that were not written to their
    /// end are removed; all others are counted.
    pub(crate) fn open(root: &Path, bytes_max: u64) -> io::Result<Folder> {
        make(root)?;
        let mut bytes = 0;
        for (_, day) in days(root)? {
            for entry in fs::read_dir(day)? {
                let entry = entry?;
                match entry.path().extension() {
                    Some(ending) if ending == PART => fs::remove_file(entry.path())?,
                    _ => bytes += entry.metadata()?.len(),
                }
            }
        }
        let (root, bytes) = (root.to_owned(), Arc::new(AtomicU64::new(bytes)));
        Ok(Folder { root, bytes_max, bytes })
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Begins to write a file of this size that is kept until then.
    pub(crate) fn create(
        &self,
        id: &[u8; 16],
        kept_until_s: u64,
        bytes: u64,
    ) -> Result<Written, Unwritten> {
        let path = self.path(id, kept_until_s);
        let room = Room::take(&self.bytes, bytes, self.bytes_max).ok_or(Unwritten::Full)?;
        make(path.parent().expect("it is in the folder of its day"))?;
        let part = path.with_extension(PART);
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&part)?;
        let mut written = Written { file, part: Some(part), path, room: Some(room) };
        match written.path.try_exists() {
            Ok(false) => Ok(written),
            Ok(true) => Err(Unwritten::Taken),
            Err(error) => {
                written.give_up();
                Err(error.into())
            }
        }
    }

    /// A file that is there, and its size.
    pub(crate) fn open_file(&self, id: &[u8; 16], kept_until_s: u64) -> io::Result<(File, u64)> {
        let file = File::open(self.path(id, kept_until_s))?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes))
    }

    /// Removes what need not be kept any more at this time; how many files that were.
    pub(crate) fn sweep(&self, now_s: u64) -> io::Result<u64> {
        let mut removed = 0;
        for (day, path) in days(&self.root)? {
            if day >= now_s / DAY_S {
                continue;
            }
            for entry in fs::read_dir(&path)? {
                let entry = entry?;
                let bytes = entry.metadata()?.len();
                fs::remove_file(entry.path())?;
                // One that is still being written gives its own room back.
                if entry.path().extension().is_none() {
                    self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                    removed += 1;
                }
            }
            fs::remove_dir(&path)?;
        }
        Ok(removed)
    }

    fn path(&self, id: &[u8; 16], kept_until_s: u64) -> PathBuf {
        self.root.join((kept_until_s / DAY_S).to_string()).join(hex::encode(id))
    }
}

/// A file that is being written. One that is not finished is removed.
pub(crate) struct Written {
    file: File,
    part: Option<PathBuf>,
    path: PathBuf,
    room: Option<Room>,
}

impl Written {
    /// Writes its next bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Unwritten> {
        Ok(self.file.write_all(bytes)?)
    }

    /// Finishes the file: when this returns, the whole file is on stable storage under its name.
    pub(crate) fn finish(mut self) -> Result<(), Unwritten> {
        self.file.sync_all()?;
        let Some(part) = self.part.take() else { return Ok(()) };
        if let Err(error) = fs::rename(&part, &self.path) {
            self.part = Some(part);
            return Err(error.into());
        }
        self.room.iter_mut().for_each(Room::keep);
        let folder = self.path.parent().expect("it is in the folder of its day");
        Ok(File::open(folder)?.sync_all()?)
    }

    fn give_up(&mut self) {
        if let Some(part) = self.part.take() {
            // What stays is removed at the next start.
            let _ = fs::remove_file(part);
        }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Room for a file, given back unless it is kept.
struct Room {
    all: Arc<AtomicU64>,
    bytes: u64,
}

impl Room {
    fn take(all: &Arc<AtomicU64>, bytes: u64, bytes_max: u64) -> Option<Room> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= bytes_max);
        all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Room { all: all.clone(), bytes })
    }

    fn keep(&mut self) {
        self.bytes = 0;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The folders of days.
fn days(root: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        let day = path.file_name().and_then(|name| name.to_str()).and_then(|it| it.parse().ok());
        found.extend(day.filter(|_| path.is_dir()).map(|day| (day, path)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
