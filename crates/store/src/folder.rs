//! The data folder: who may use it, which version it has, its secret, and what it said last time.
//!
//! ```text
//! LOCK          held with flock by the server that uses the folder; holds its process id
//! FORMAT        version of the folder's layout
//! node.secret   32 random bytes of this node, made at the first start
//! reserve       room for the end of what waits when the disk is full
//! journal/      0000000001.log and so on
//! ```
//! Knows paths and what can be wrong with each of them. Invariant: nothing is made in a folder that
//! is not ours, and nothing in ours is changed before it is locked and its version is known.

use crate::files::{Files, write_whole};
use crate::journal::{Journal, is_full, segment_number, segment_path};
use crate::replay::Replay;
use crate::reserve::Reserve;
use crate::{OpenError, Recovered, Settings, Torn};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FORMAT: &str = "holdline data 1\n";

/// What may be in a folder whose first start did not get to its end.
const FIRST_START: [&str; 6] =
    ["LOCK", "node.secret", "node.new", "FORMAT.new", "journal", "lost+found"];

/// Opens the folder, reads the journal and rewrites what is alive in it.
pub(crate) fn open(
    folder: &Path,
    settings: &Settings,
    files: Arc<dyn Files>,
) -> Result<(File, Journal, Recovered), OpenError> {
    if folder.exists() && !folder.is_dir() {
        return Err(OpenError::NotAFolder { path: folder.into() });
    }
    files.make_folder(folder).map_err(|error| cannot_make(folder, error))?;
    check_format(folder, &*files)?; // before a lock is made in a folder that is not ours
    let lock = lock(folder)?;
    // Again, for another server may have made its first start meanwhile.
    let first = check_format(folder, &*files)?;
    let secret = secret(folder, settings, &*files, first)?;
    let journal_folder = folder.join("journal");
    if first {
        let format = folder.join("FORMAT");
        files.make_folder(&journal_folder).map_err(|error| cannot(&journal_folder, error))?;
        write_whole(&*files, &format, FORMAT.as_bytes()).map_err(|error| cannot(&format, error))?;
        if let Some(parent) = folder.canonicalize().ok().as_deref().and_then(Path::parent) {
            // The folder's own name, if we made it. A parent that may not be opened held it before.
            let _ = files.sync_folder(parent);
        }
    }
    let settings = Settings { secret, ..settings.clone() };
    let reserve = folder.join("reserve");
    let (journal, recovered) = read_journal(journal_folder, settings, files, reserve)?;
    Ok((lock, journal, recovered))
}

/// Takes the folder for this process; the lock goes with the file's descriptor.
fn lock(folder: &Path) -> Result<File, OpenError> {
    let path = folder.join("LOCK");
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(&path).map_err(|error| cannot(&path, error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = String::new();
            // A pid that cannot be read is told as unknown.
            let _ = file.take(20).read_to_string(&mut text);
            return Err(OpenError::Locked { path: folder.into(), pid: text.trim().parse().ok() });
        }
        Err(error) => return Err(cannot(&path, error.into())),
    }
    // Written over, not anew: that needs no room on a full disk.
    let told = file.rewind().and_then(|()| writeln!(file, "{}", std::process::id()));
    told.and_then(|()| file.stream_position())
        .and_then(|end| file.set_len(end))
        .map_err(|error| cannot(&path, error))?;
    Ok(file)
}

/// Whether this is the folder's first start; an error when it belongs to something else.
fn check_format(folder: &Path, files: &dyn Files) -> Result<bool, OpenError> {
    let path = folder.join("FORMAT");
    match files.read(&path) {
        Ok(bytes) if bytes == FORMAT.as_bytes() => Ok(false),
        Ok(bytes) => {
            let found = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).trim().to_owned();
            Err(OpenError::UnknownFormat { path, found })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let names = files.names(folder).map_err(|error| cannot(folder, error))?;
            match names.into_iter().find(|name| !FIRST_START.contains(&name.as_str())) {
                Some(found) => Err(OpenError::Foreign { path: folder.into(), found }),
                None => Ok(true),
            }
        }
        Err(error) => Err(cannot(&path, error)),
    }
}

fn secret(
    folder: &Path,
    settings: &Settings,
    files: &dyn Files,
    first: bool,
) -> Result<[u8; 32], OpenError> {
    let path = folder.join("node.secret");
    match files.read(&path) {
        Ok(bytes) => bytes.try_into().map_err(|_| OpenError::Corrupt {
            path,
            offset: 0,
            why: "the node's secret does not have 32 bytes",
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound && first => {
            let written = write_whole(files, &path, &settings.secret);
            written.map_err(|error| cannot(&path, error))?;
            Ok(settings.secret)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(OpenError::Corrupt { path, offset: 0, why: "the node's secret is missing" })
        }
        Err(error) => Err(cannot(&path, error)),
    }
}

fn read_journal(
    folder: PathBuf,
    settings: Settings,
    files: Arc<dyn Files>,
    reserve: PathBuf,
) -> Result<(Journal, Recovered), OpenError> {
    let mut old = numbers(&folder, &*files)?;
    let mut replay = Replay::default();
    let mut recovered = Recovered { secret: settings.secret, ..Recovered::default() };
    for at in 0..old.len() {
        let path = segment_path(&folder, old[at].0);
        let bytes = files.read(&path).map_err(|error| cannot(&path, error))?;
        let read = replay.segment(old[at].0, &bytes, at + 1 == old.len());
        let (good, torn) = read.map_err(|bad| OpenError::Corrupt {
            path: path.clone(),
            offset: bad.offset as u64,
            why: bad.why,
        })?;
        old[at].1 = good as u64;
        recovered.bytes += bytes.len() as u64;
        if let Some(bad) = torn {
            let lost = (bytes.len() - good) as u64;
            cut(&path, good as u64, &*files).map_err(|error| cannot(&path, error))?;
            recovered.torn =
                Some(Torn { file: path, offset: good as u64, bytes: lost, why: bad.why });
        }
    }
    recovered.segments = old.len() as u64;
    old.retain(|(_, bytes)| *bytes > 0);
    recovered.records = replay.records;
    recovered.last_id = replay.last_id;
    recovered.entries = replay.entries();
    // Given up first: what is alive needs room for a second copy.
    let reserve = Reserve::new(Arc::clone(&files), reserve.clone())
        .map_err(|error| cannot(&reserve, error))?;
    let place = (files, folder.clone());
    let begun = Journal::begin(place, settings, old, recovered.last_id, reserve);
    let mut journal = begun.map_err(|error| cannot(&folder, error))?;
    journal.compact(&recovered.entries).map_err(|error| cannot(&folder, error))?;
    Ok((journal, recovered))
}

/// Numbers of the segments, in order, with none missing between them.
fn numbers(folder: &Path, files: &dyn Files) -> Result<Vec<(u64, u64)>, OpenError> {
    let names = files.names(folder).map_err(|error| cannot(folder, error))?;
    let mut numbers: Vec<_> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    if let Some(gap) = numbers.windows(2).find(|pair| pair[0] + 1 != pair[1]) {
        let path = segment_path(folder, gap[0] + 1);
        return Err(OpenError::Corrupt { path, offset: 0, why: "the segment is missing" });
    }
    Ok(numbers.into_iter().map(|number| (number, 0)).collect())
}

/// Cuts a torn tail off, so that no later start takes it for a corrupt middle.
fn cut(path: &Path, length: u64, files: &dyn Files) -> io::Result<()> {
    let mut file = files.open(path)?;
    if length == 0 {
        // Not even its first record is whole: its number is used again.
        drop(file);
        files.remove(path)?;
        return files.sync_folder(path.parent().unwrap_or(Path::new(".")));
    }
    file.cut(length)?;
    file.sync()
}

fn cannot_make(path: &Path, error: io::Error) -> OpenError {
    match cannot(path, error) {
        OpenError::Failed { path, error } => OpenError::CannotCreate { path, error },
        other => other,
    }
}

fn cannot(path: &Path, error: io::Error) -> OpenError {
    let path = path.to_path_buf();
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            OpenError::ReadOnly { path }
        }
        _ if is_full(&error) => OpenError::NoSpace { path },
        _ => OpenError::Failed { path, error },
    }
}
