//! The lines of mosquitto's files: option and value, with file and line (mosquitto.conf(5), File
//! Format).
//!
//! A line is a comment only if its first character is `#`. A folder that is included gives its
//! `*.conf` in the order of their names; only the first file includes. It knows no option but
//! `include_dir`. Invariant: lines come in the order in which mosquitto reads them.

use super::OptionFault;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Largest file, bytes. A larger one is refused.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Most files of one folder. One more is refused.
const FILES_MAX: usize = 1_000;

/// Where a line is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The file, as it was named.
    pub(super) file: String,
    /// Its number, from 1.
    pub(super) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    pub(super) place: Place,
    /// 0 for the first file, and another number for each included one: what an option applies to
    /// does not reach over the end of a file.
    pub(super) file: usize,
    pub(super) option: String,
    /// The rest of the line, without spaces around it.
    pub(super) value: String,
}

/// The lines, and what is wrong with reading them.
pub(super) fn read(path: &Path) -> (Vec<Line>, Vec<OptionFault>) {
    let mut faults = Vec::new();
    let mut lines = Vec::new();
    let mut files = 0;
    let first = of_file(path, 0).unwrap_or_else(|why| {
        faults.push(unread(path, &why));
        Vec::new()
    });
    for line in first {
        if line.option != "include_dir" {
            lines.push(line);
            continue;
        }
        let folder = PathBuf::from(&line.value);
        lines.push(line.clone());
        match included(&folder) {
            Err(why) => faults.push(OptionFault::new(&line.place.to_string(), "include_dir", &why)),
            Ok(paths) => {
                for path in paths {
                    files += 1;
                    match of_file(&path, files) {
                        Ok(inner) => take(inner, &mut lines, &mut faults),
                        Err(why) => faults.push(unread(&path, &why)),
                    }
                }
            }
        }
    }
    (lines, faults)
}

fn unread(path: &Path, why: &str) -> OptionFault {
    OptionFault::new(&shown(path), "", &format!("cannot be read: {why}; name a file that can be"))
}

/// A path for people: it goes into comments too.
fn shown(path: &Path) -> String {
    path.display().to_string().replace(char::is_control, "?")
}

fn take(inner: Vec<Line>, lines: &mut Vec<Line>, faults: &mut Vec<OptionFault>) {
    for line in inner {
        if line.option == "include_dir" {
            let why = "only the first file may include others; move it there";
            faults.push(OptionFault::new(&line.place.to_string(), "include_dir", why));
        } else {
            lines.push(line);
        }
    }
}

fn of_file(path: &Path, file: usize) -> Result<Vec<Line>, String> {
    let shown = shown(path);
    if fs::metadata(path).map_err(|error| error.to_string())?.len() > FILE_BYTES_MAX {
        return Err(format!("it has more than {FILE_BYTES_MAX} bytes"));
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    let lines = lines.filter_map(|(index, line)| {
        let line = line.trim_start_matches(' ').trim_end();
        let (option, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let place = Place { file: shown.clone(), line: index + 1 };
        let (option, value) = (option.to_owned(), value.trim().to_owned());
        (!option.is_empty()).then_some(Line { place, file, option, value })
    });
    Ok(lines.collect())
}

fn included(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        if path.extension().is_some_and(|end| end == "conf") && path.is_file() {
            paths.push(path);
        }
        if paths.len() > FILES_MAX {
            return Err(format!("{} has more than {FILES_MAX} files", folder.display()));
        }
    }
    paths.sort();
    Ok(paths)
}
