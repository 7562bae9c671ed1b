//! The file of one webhook's dead letters.
//!
//! The file stores lines where its caller says and does not know their meaning. Invariant: a write
//! that succeeded is on stable storage; a failed write leaves nothing behind that is read as
//! written, because the next one begins by cutting the file off.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file, open.
pub(crate) struct DeadFile {
    path: PathBuf,
    file: File,
    /// Whether there may be more in the file than was written with success.
    is_torn: bool,
    /// The folder's word of which file it is may not be on stable storage.
    is_unnamed: bool,
}

impl DeadFile {
    /// Opens or makes a file; with what is in it. The caller says where the whole lines end.
    pub(crate) fn open(path: PathBuf) -> io::Result<(DeadFile, Vec<u8>)> {
        let mut file = options().create(true).truncate(false).open(&path)?;
        let mut found = Vec::new();
        file.read_to_end(&mut found)?;
        Ok((DeadFile { path, file, is_torn: true, is_unnamed: true }, found))
    }

    /// Writes at the end, which is here.
    pub(crate) fn write(&mut self, end: u64, text: &str) -> io::Result<()> {
        if self.is_unnamed {
            sync_folder(&self.path)?;
            self.is_unnamed = false;
        }
        if self.is_torn {
            self.file.set_len(end)?;
        }
        self.is_torn = true;
        self.file.write_all_at(text.as_bytes(), end)?;
        self.file.sync_data()?;
        self.is_torn = false;
        Ok(())
    }

    /// Letter at this place.
    pub(crate) fn read(&self, place: Range<u64>) -> io::Result<Vec<u8>> {
        let mut piece = vec![0; (place.end - place.start) as usize];
        self.file.read_exact_at(&mut piece, place.start)?;
        Ok(piece)
    }

    /// Puts a new file in its place: this, and then what is in that place now.
    pub(crate) fn replace(&mut self, head: &str, rest: Range<u64>) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let mut new = options().create(true).truncate(true).open(&beside)?;
        new.write_all(head.as_bytes())?;
        self.file.seek(SeekFrom::Start(rest.start))?;
        let wanted = rest.end - rest.start;
        if io::copy(&mut (&self.file).take(wanted), &mut new)? < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        new.sync_all()?;
        fs::rename(&beside, &self.path)?;
        // From here on it is the file, though a crash may still bring the old one back.
        self.file = new;
        self.is_torn = false;
        self.is_unnamed = true;
        Ok(())
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}
