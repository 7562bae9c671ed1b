//! The file system as the store sees it: few calls, so that tests can make each of them fail.
//!
//! [`Disk`] is the real one. It knows nothing of records. Every file and folder is made for its
//! owner alone, for products' secrets are in the journal. Invariant: a call that returns `Ok` has
//! done what it says; whether that survives a power cut is [`File::sync`] and
//! [`Files::sync_folder`].

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

/// A file that is being written.
pub trait File: Send {
    /// Writes all of `bytes` at `offset`. After an error any part of them may be there.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Puts everything written on stable storage (`fdatasync`).
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts the file to `length` bytes.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

/// A file system.
pub trait Files: Send + Sync {
    /// Makes a folder, and those above it.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// The names in a folder.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// A file's whole contents.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Opens a file to write; makes an empty one when there is none.
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Gives a file another name, in place of whatever has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Puts a folder's names on stable storage.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(folder)?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
        Ok(Box::new(DiskFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        fs::File::open(folder)?.sync_all()
    }
}

struct DiskFile(fs::File);

impl File for DiskFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}

/// Writes a small file whole: after a crash it has either its old contents or its new ones.
pub(crate) fn write_whole(files: &dyn Files, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = files.open(&fresh)?;
    file.cut(0)?;
    file.write_at(0, bytes)?;
    file.sync()?;
    files.rename(&fresh, path)?;
    files.sync_folder(path.parent().unwrap_or(Path::new(".")))
}
