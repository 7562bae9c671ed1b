//! The file system as the store sees it: few calls, so that tests can make each of them fail.
//!
//! `store::files::Disk` is the real one, `testkit::files` one that fails on purpose. Nothing here
//! knows records. Invariant: a call that returns `Ok` has done what it says; whether that survives
//! a power cut is [`File::sync`] and [`FileSystem::sync_folder`].

use std::io;
use std::path::Path;
use std::sync::Arc;

/// A file that is being read. Written bytes are seen at once, synced or not, and also after the
/// file's name is gone.
pub trait ReadFile: Send + Sync {
    /// Reads into all of `into` from `offset`; an error of the kind `UnexpectedEof` when the file
    /// is shorter.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Its length, bytes.
    fn length(&self) -> io::Result<u64>;
}

/// A file that is being written.
pub trait File: Send {
    /// Writes all of `bytes` at `offset`. After an error any part of them may be there.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Puts everything written on stable storage (`fdatasync`).
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts the file to `length` bytes, or lengthens it with zeros that take no room.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

/// A file system.
pub trait FileSystem: Send + Sync {
    /// Makes a folder, and those above it.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// The names in a folder.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// A file's whole contents.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Opens a file for writing; creates an empty one if it does not exist.
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Opens a file to read pieces of it.
    fn source(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>>;

    /// Gives a file another name, in place of whatever has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Puts a folder's names on stable storage.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Removes a folder with all its content; `Ok` if it does not exist.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;

    /// Gives a file a second name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Locks a file for this process until the result is dropped; creates it if it does not exist,
    /// and writes the process's id into it.
    fn lock(&self, path: &Path) -> io::Result<Lock>;

    /// Bytes that could still be written to the disk of this folder.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;
}

/// The answer to [`FileSystem::lock`].
pub enum Lock {
    /// The lock is ours until this value is dropped.
    Taken(Box<dyn Send + Sync>),
    /// Another process holds the lock: its id, if it could be read.
    Held(Option<u32>),
}
