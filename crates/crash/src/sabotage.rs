//! Damage on purpose: the newest segment of each log loses half of what is in it, or is gone.
//!
//! A harness that cannot fail proves nothing. Damage that is done here must be found, by the server
//! at its start or by the audit after it.

use crate::plan::Sabotage;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Hurts the newest segments under `folder`; what was done.
pub fn hurt(folder: &Path, how: Sabotage) -> io::Result<Vec<String>> {
    let mut done = Vec::new();
    for path in newest(folder)? {
        let length = fs::metadata(&path)?.len();
        match how {
            Sabotage::Delete => fs::remove_file(&path)?,
            Sabotage::Truncate => {
                // The file is longer than what is in it: zeros are behind that.
                let written = fs::read(&path)?.iter().rposition(|byte| *byte != 0).unwrap_or(0);
                fs::File::options().write(true).open(&path)?.set_len(written as u64 / 2)?
            }
        }
        done.push(format!("{how:?} {} of {length} bytes", path.display()));
    }
    Ok(done)
}

/// Copies a folder and all files in it; sockets say nothing of what was stored.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// In each folder that has segments (digits and `.log`), the one with the highest number.
fn newest(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut found, mut best) = (Vec::new(), None::<PathBuf>);
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(newest(&path)?);
            continue;
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let number = name.as_deref().and_then(|name| name.strip_suffix(".log"));
        let counts = number.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
        if counts && best.as_ref().is_none_or(|best| path.file_name() > best.file_name()) {
            best = Some(path);
        }
    }
    found.extend(best);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_segment_of_each_log_is_hurt_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["log-00/0000000001.log", "log-00/0000000002.log", "log-01/7.log", "x.log"] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, [&[7; 11][..], &[0; 30]].concat()).unwrap();
        }
        assert_eq!(hurt(folder.path(), Sabotage::Truncate).unwrap().len(), 2);
        let length = |path: &str| fs::metadata(folder.path().join(path)).map(|it| it.len()).ok();
        assert_eq!(length("log-00/0000000001.log"), Some(41));
        assert_eq!(length("log-00/0000000002.log"), Some(5));
        assert_eq!((length("log-01/7.log"), length("x.log")), (Some(5), Some(41)));
        hurt(folder.path(), Sabotage::Delete).unwrap();
        assert_eq!(length("log-00/0000000002.log"), None);
    }
}
