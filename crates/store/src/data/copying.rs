//! A follower's side of a base: chunks are put in as they come, and the whole takes the log's
//! place.
//!
//! ```text
//! begin: log-00.copy/list ─► chunks, any order ─► install: state/ from rows ─► whole
//!        ─► log-00 goes, log-00.copy is log-00     killed from `whole` on: the next start ends it
//! ```
//! Present chunks are known by reading them: one whose checksum is not the list's is wanted. It
//! knows no network. Invariant: after a kill at any step either the copy is not used, and goes on
//! from what it has, or it is the log.

use super::log_base::{BaseList, CHUNK_BYTES, ROWS, load_rows, read_chunk};
use crate::OpenError;
use crate::data::alive::state_failed;
use crate::data::folder::States;
use crate::files::write_whole;
use crate::log::segment_number;
use model::ports::files::FileSystem;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LIST: &str = "list";
const WHOLE: &str = "whole";

/// Memory of derived state while it is loaded, bytes.
const CACHE_BYTES: u64 = 1 << 20;

/// A base on its way here.
pub struct Copying {
    files: Arc<dyn FileSystem>,
    /// The log's.
    folder: PathBuf,
    list: BaseList,
    /// Files and chunks that are not here.
    wanted: BTreeSet<(u32, u64)>,
}

impl Copying {
    /// Begins to copy a base for the log in a folder, which is not in use, or goes on where a copy
    /// of the same base stopped. An error also when the list makes no sense.
    pub fn begin(
        files: Arc<dyn FileSystem>,
        folder: &Path,
        list: &[u8],
    ) -> Result<Copying, OpenError> {
        let to = copy_folder(folder);
        let failed = |error| OpenError::at(&to, error);
        let said =
            BaseList::read(list).filter(|said| said.files.iter().all(|it| is_part(&it.name)));
        let said = said.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        let is_same = files.read(&to.join(LIST)).is_ok_and(|there| there == list);
        if !is_same {
            files.remove_folder(&to).and_then(|()| files.make_folder(&to)).map_err(failed)?;
            write_whole(&*files, &to.join(LIST), list).map_err(failed)?;
            let above = to.parent().unwrap_or(Path::new("."));
            files.sync_folder(above).map_err(failed)?;
        }
        let mut wanted = BTreeSet::new();
        for (number, file) in (0..).zip(&said.files) {
            let source = files.source(&to.join(&file.name)).ok().filter(|_| is_same);
            for (chunk, sum) in (0..).zip(&file.sums) {
                let read = |source: &Arc<_>| read_chunk(&**source, file.bytes, chunk).ok();
                let there = source.as_ref().and_then(read);
                if there.is_none_or(|bytes| crc32fast::hash(&bytes) != *sum) {
                    wanted.insert((number, chunk));
                }
            }
        }
        Ok(Copying { files, folder: folder.into(), list: said, wanted })
    }

    /// Parts of the base.
    pub fn list(&self) -> &BaseList {
        &self.list
    }

    /// Files and chunks that are wanted, the next first.
    pub fn wanted(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.wanted.iter().copied()
    }

    /// A chunk has come. False if it is not what the list says: then it is still wanted.
    pub fn put(&mut self, file: u32, chunk: u64, bytes: &[u8]) -> io::Result<bool> {
        let said = self.list.files.get(file as usize);
        let sum = said.and_then(|said| said.sums.get(chunk as usize));
        let (Some(said), Some(sum)) = (said, sum) else { return Ok(false) };
        if crc32fast::hash(bytes) != *sum {
            return Ok(false);
        }
        let path = copy_folder(&self.folder).join(&said.name);
        self.files.open(&path)?.write_at(chunk * CHUNK_BYTES, bytes)?;
        self.wanted.remove(&(file, chunk));
        Ok(true)
    }

    /// Puts the copy in place of the log, of which everything must have come.
    pub fn install(self, states: &States) -> Result<(), OpenError> {
        let Copying { files, folder, list, wanted } = self;
        let from = copy_folder(&folder);
        let failed = |error| OpenError::at(&from, error);
        if !wanted.is_empty() {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        for file in &list.files {
            let path = from.join(&file.name);
            let mut open = files.open(&path).map_err(|error| OpenError::at(&path, error))?;
            let settled = open.cut(file.bytes).and_then(|()| open.sync());
            settled.map_err(|error| OpenError::at(&path, error))?;
        }
        let (rows, state) = (from.join(ROWS), from.join("state"));
        files.remove_folder(&state).map_err(failed)?; // half of it, of one that was killed
        let source = files.source(&rows).map_err(failed)?;
        let open = states(&state, CACHE_BYTES)?;
        load_rows(&*source, &*open).map_err(|error| state_failed(&state, error))?;
        drop(open);
        files.sync_folder(&from).map_err(failed)?;
        write_whole(&*files, &from.join(WHOLE), &[]).map_err(failed)?;
        finish(&*files, &folder)
    }
}

/// Ends the installation of a copy that is whole, if there is one.
pub(crate) fn finish(files: &dyn FileSystem, folder: &Path) -> Result<(), OpenError> {
    let from = copy_folder(folder);
    let failed = |error| OpenError::at(&from, error);
    match files.read(&from.join(WHOLE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(failed)?,
    };
    for name in [ROWS, LIST] {
        match files.remove(&from.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    files.sync_folder(&from).map_err(failed)?;
    files.remove_folder(folder).map_err(failed)?;
    files.rename(&from, folder).map_err(failed)?;
    files.sync_folder(folder.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    // No harm if it stays: it counts in a copy alone.
    let _ = files.remove(&folder.join(WHOLE));
    Ok(())
}

/// Where the copy for the log in a folder comes together.
fn copy_folder(folder: &Path) -> PathBuf {
    folder.with_extension("copy")
}

/// Whether a base has files of this name.
fn is_part(name: &str) -> bool {
    segment_number(name).is_some() || [ROWS, "promised"].contains(&name)
}
