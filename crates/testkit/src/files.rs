//! A file system that exists in memory and fails as real ones do, by a seed.
//!
//! For tests and the simulation; nothing of a running server uses it. A machine that loses its
//! power ([`FaultyFiles::crash`]) loses what was not synced, or keeps any part of it: sectors of a
//! write, a later write without an earlier one, a name without another. A failed sync throws away
//! what it should have written and the next one says `Ok`. It knows nothing of records. Invariant:
//! what was synced with `Ok`, and whose name was, is there after every crash, and the same seed
//! and calls give the same faults.

mod simulation;
#[cfg(test)]
mod tests;

use model::ports::files::{File, FileSystem, Lock, ReadFile};
pub use simulation::{Error, FaultCounts, Op};
use simulation::{FaultSimulation, Id};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file system. Clones are the same one.
#[derive(Clone)]
pub struct FaultyFiles(Arc<Mutex<FaultSimulation>>);

impl FaultyFiles {
    /// An empty one.
    pub fn new(seed: u64) -> FaultyFiles {
        FaultyFiles(Arc::new(Mutex::new(FaultSimulation::new(seed))))
    }

    /// Changes so far: writes, cuts, syncs, and changes of names. Each is a point to crash at.
    pub fn points(&self) -> u64 {
        self.world().points
    }

    /// The power fails in the middle of the change after the first `points`; every call from there
    /// on is an error, until [`FaultyFiles::crash`].
    pub fn crash_at(&self, points: u64) {
        self.world().off_at = Some(points);
    }

    /// Whether the power has failed.
    pub fn is_off(&self) -> bool {
        self.world().off
    }

    /// The machine starts again after a power cut, now or earlier: what is there is what survived.
    /// Open files are no good any more, and no fault is planned.
    pub fn crash(&self) {
        self.world().crash();
    }

    /// The process ended, the machine did not: files are as they were last seen, and what was not
    /// synced still is not. Open files are no good any more.
    pub fn kill(&self) {
        self.world().kill();
    }

    /// The call of this kind after the next `count` of them fails.
    pub fn fail_after(&self, op: Op, count: u64, error: Error) {
        self.world().plan(op, count, error);
    }

    /// Calls of this kind fail once in `n` times from now on; never with 0.
    pub fn fail_one_in(&self, op: Op, n: u64, error: Error) {
        self.world().chance(op, n, error);
    }

    /// Files may have so many bytes together, in blocks of 4096. Beyond: no space.
    pub fn resize(&self, bytes_max: u64) {
        self.world().bytes_max = bytes_max;
    }

    /// Bytes of all files that have names, in blocks of 4096.
    pub fn used(&self) -> u64 {
        self.world().used()
    }

    /// Changes bits of one byte of a file, as a bad disk does.
    pub fn rot(&self, path: &Path, offset: u64, bits: u8) {
        self.world().rot(path, offset, bits);
    }

    /// How often each fault has happened.
    pub fn counts(&self) -> FaultCounts {
        self.world().counts
    }

    /// Nothing panics while it holds the lock, so a poisoned one is as good as another.
    fn world(&self) -> MutexGuard<'_, FaultSimulation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, id: Id) -> Handle {
        Handle { files: self.clone(), id, life: self.world().life }
    }
}

/// An open file: good for one life of the process.
struct Handle {
    files: FaultyFiles,
    id: Id,
    life: u64,
}

impl Handle {
    fn world(&self) -> io::Result<MutexGuard<'_, FaultSimulation>> {
        let world = self.files.world();
        match world.life == self.life {
            true => Ok(world),
            false => Err(io::Error::other("a file of an earlier life")),
        }
    }
}

impl File for Handle {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.world()?.write(self.id, offset, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.world()?.sync(self.id)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.world()?.cut(self.id, length)
    }
}

impl ReadFile for Handle {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.world()?.read_at(self.id, offset, into)
    }

    fn length(&self) -> io::Result<u64> {
        self.world()?.length(self.id)
    }
}

impl FileSystem for FaultyFiles {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.world().make_folder(path)
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.world().names(folder)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut world = self.world();
        let id = world.find(path)?;
        let mut bytes = vec![0; world.length(id)? as usize];
        world.read_at(id, 0, &mut bytes)?;
        Ok(bytes)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let id = self.world().open(path)?;
        Ok(Box::new(self.handle(id)))
    }

    fn source(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let id = self.world().find(path)?;
        Ok(Arc::new(self.handle(id)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.world().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.world().remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.world().sync_folder(folder)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.world().remove_folder(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.world().link(from, to)
    }

    /// Nobody else is there.
    fn lock(&self, path: &Path) -> io::Result<Lock> {
        FileSystem::open(self, path).map(|_| Lock::Taken(Box::new(())))
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        let world = self.world();
        Ok(world.bytes_max.saturating_sub(world.used()))
    }
}
