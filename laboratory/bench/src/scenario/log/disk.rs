//! Files of a folder: how much there is, and how to make the kernel forget what it has of them.

use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::path::Path;

/// Bytes of all files below `folder`, by their lengths.
pub fn bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    each(folder, &mut |file| {
        bytes += file.metadata()?.len();
        Ok(())
    })?;
    Ok(bytes)
}

/// Bytes that this process has read from files so far, whoever had them (`rchar`).
pub fn read_by_us() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let number = text.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok());
    number.ok_or_else(|| io::Error::other("/proc/self/io lacks rchar"))
}

/// Writes all files below `folder` back and asks the kernel to drop their pages
/// (`POSIX_FADV_DONTNEED`), which needs no rights. Caches below the kernel may still have them.
pub fn forget(folder: &Path) -> io::Result<()> {
    each(folder, &mut |file| {
        file.sync_all()?;
        Ok(fadvise(file, 0, None, Advice::DontNeed)?)
    })
}

fn each(folder: &Path, what: &mut dyn FnMut(&File) -> io::Result<()>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            each(&path, what)?;
            continue;
        }
        match File::open(&path) {
            Ok(file) => what(&file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {} // its owner removed it
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
