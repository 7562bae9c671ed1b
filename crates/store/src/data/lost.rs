//! Records that were acknowledged and are in a log no more, as a data folder remembers them.
//!
//! ```text
//! acknowledged.lost   a line each: unix_s log first last records    written by the server alone
//! acknowledged.seen   how many records an operator has seen         written by a command alone
//! ```
//! Each file has one writer, so that a command may run beside the server. What a line says of
//! itself that cannot be read is passed over, and without the second file nothing counts as seen.
//! Invariant: the sum of all records never shrinks.

use crate::files::{Disk, write_whole};
use model::ports::files::FileSystem;
use std::fs::metadata;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

const LOST: &str = "acknowledged.lost";
const SEEN: &str = "acknowledged.seen";

/// Lines of the file. Beyond, the two oldest become one.
const LINES_MAX: usize = 1_000;

/// Records that one log lost at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostRecords {
    /// When this node removed them, Unix seconds.
    pub at_s: u64,
    /// The log.
    pub log: u16,
    /// Index of the first.
    pub first: u64,
    /// Index of the last.
    pub last: u64,
    /// How many there were: of several losses that were joined, the sum.
    pub records: u64,
}

/// All records that a node lost.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// The losses, oldest first.
    pub all: Vec<LostRecords>,
    /// Records that an operator has seen.
    pub seen: u64,
}

impl Lost {
    /// Records that were lost in all.
    pub fn total(&self) -> u64 {
        self.all.iter().fold(0, |sum, lost| sum.saturating_add(lost.records))
    }

    /// Records that no operator has seen.
    pub fn unseen(&self) -> u64 {
        self.total().saturating_sub(self.seen)
    }
}

/// Reads what a data folder remembers.
pub fn read(files: &dyn FileSystem, folder: &Path) -> io::Result<Lost> {
    let all = losses(files, folder)?;
    let seen = text_of(files, &folder.join(SEEN)).unwrap_or_default();
    Ok(Lost { all, seen: seen.trim().parse().unwrap_or(0) })
}

fn losses(files: &dyn FileSystem, folder: &Path) -> io::Result<Vec<LostRecords>> {
    let text = text_of(files, &folder.join(LOST))?;
    Ok(text.lines().filter_map(read_line).collect())
}

/// Adds a loss.
pub fn note(files: &dyn FileSystem, folder: &Path, lost: LostRecords) -> io::Result<()> {
    let mut all = losses(files, folder)?;
    all.push(lost);
    while all.len() > LINES_MAX {
        let oldest = all.remove(0);
        all[0].records = all[0].records.saturating_add(oldest.records);
    }
    let text: String = all.iter().map(line).collect();
    write_whole(files, &folder.join(LOST), text.as_bytes())
}

/// An operator has seen all of it. Returns what was not seen before. The file belongs to the owner
/// of the folder, also if the operator is root.
pub fn see(folder: &Path) -> io::Result<u64> {
    let (lost, path) = (read(&Disk, folder)?, folder.join(SEEN));
    if lost.unseen() > 0 {
        write_whole(&Disk, &path, format!("{}\n", lost.total()).as_bytes())?;
        let (owner, own) = (metadata(folder)?, metadata(&path)?);
        if owner.uid() != own.uid() {
            chown(&path, Some(owner.uid()), Some(owner.gid()))?;
        }
    }
    Ok(lost.unseen())
}

fn text_of(files: &dyn FileSystem, path: &Path) -> io::Result<String> {
    match files.read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

fn line(lost: &LostRecords) -> String {
    let LostRecords { at_s, log, first, last, records } = lost;
    format!("{at_s} {log} {first} {last} {records}\n")
}

fn read_line(line: &str) -> Option<LostRecords> {
    let mut words = line.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let mut next = || words.next().flatten();
    let (at_s, log, first, last, records) = (next()?, next()?, next()?, next()?, next()?);
    Some(LostRecords { at_s, log: u16::try_from(log).ok()?, first, last, records })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(at_s: u64, first: u64, last: u64) -> LostRecords {
        LostRecords { at_s, log: 3, first, last, records: last + 1 - first }
    }

    #[test]
    fn losses_are_remembered_until_they_are_seen_and_their_sum_for_good() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        assert_eq!(read(&Disk, path).expect("it reads"), Lost::default());
        assert_eq!(see(path).expect("it writes"), 0);
        note(&Disk, path, lost(10, 5, 9)).expect("it writes");
        note(&Disk, path, lost(20, 7, 7)).expect("it writes");
        let found = read(&Disk, path).expect("it reads");
        assert_eq!(found.all, [lost(10, 5, 9), lost(20, 7, 7)]);
        assert_eq!((found.total(), found.unseen()), (6, 6));
        assert_eq!(see(path).expect("it writes"), 6);
        note(&Disk, path, lost(30, 8, 9)).expect("it writes");
        let found = read(&Disk, path).expect("it reads");
        assert_eq!((found.total(), found.unseen()), (8, 2));
    }

    /// As root a file belongs to the folder's owner; else `chown` would not be allowed, and the
    /// owners are the same. A folder in place of the file is one that cannot be read.
    #[test]
    fn a_loss_is_noted_and_read_although_what_was_seen_cannot_be_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let is_root = metadata(path).expect("it is there").uid() == 0;
        if is_root {
            chown(path, Some(12_345), Some(12_345)).expect("root may");
        }
        note(&Disk, path, lost(10, 5, 9)).expect("it writes");
        assert_eq!(see(path).expect("it writes"), 5);
        let owner = |path: &Path| metadata(path).expect("it is there").uid();
        assert_eq!(owner(&path.join(SEEN)), owner(path));
        std::fs::remove_file(path.join(SEEN)).expect("it is there");
        std::fs::create_dir(path.join(SEEN)).expect("a disk");
        note(&Disk, path, lost(20, 7, 7)).expect("it writes");
        let found = read(&Disk, path).expect("it reads");
        assert_eq!((found.total(), found.unseen()), (6, 6), "nothing counts as seen");
    }

    #[test]
    fn many_losses_become_few_lines_with_the_same_sum() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        let many: String = (0..LINES_MAX as u64).map(|at| line(&lost(at, 1, 2))).collect();
        let text = format!("{many}what is this\n");
        std::fs::write(path.join(LOST), text).expect("a disk");
        note(&Disk, path, lost(5_000, 1, 10)).expect("it writes");
        let found = read(&Disk, path).expect("it reads");
        assert_eq!((found.all.len(), found.total()), (LINES_MAX, 2 * LINES_MAX as u64 + 10));
    }
}
