//! Error of opening a data folder, with the path and the remedy, for people.
//!
//! Each message stands alone: the operator reads it on a terminal and knows what to do next.

use crate::files::is_full;
use crate::log::LogIdentity;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why a data folder cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// The folder's name is that of something else.
    NotAFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The folder is not there and cannot be made.
    CannotCreate {
        /// The folder.
        path: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// The folder has files of another program.
    Foreign {
        /// The folder.
        path: PathBuf,
        /// One of the files.
        found: String,
    },
    /// The folder cannot be written, or cannot be read.
    ReadOnly {
        /// File or folder that was to be made, written or read.
        path: PathBuf,
    },
    /// The disk is full.
    NoSpace {
        /// File that was to be written.
        path: PathBuf,
    },
    /// Another server uses it.
    Locked {
        /// The folder.
        path: PathBuf,
        /// The other server's process id, if it could be read.
        pid: Option<u32>,
    },
    /// Another version made it.
    UnknownFormat {
        /// The file that says so.
        path: PathBuf,
        /// Format that the folder names.
        found: String,
    },
    /// The folder has a cluster's secret, and data named under it.
    HasCluster {
        /// The folder.
        path: PathBuf,
    },
    /// The folder has only a part of the slots.
    OnlyAPart {
        /// The folder.
        path: PathBuf,
    },
    /// The part is no neighbour of the parts before it, or of another folder.
    UnfitPart {
        /// The folder.
        path: PathBuf,
    },
    /// Its secret is not the one under which everything in it is named.
    OtherCluster {
        /// The file of the secret.
        path: PathBuf,
        /// The secret's fingerprint.
        found: u64,
        /// That of the folder.
        wanted: u64,
    },
    /// The file is a segment of another log, or of another cluster.
    OtherLog {
        /// The file.
        path: PathBuf,
        /// Log and cluster that the file names.
        found: LogIdentity,
        /// Log and cluster of the folder that it was found in.
        wanted: LogIdentity,
    },
    /// The content of a file is not what was written.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Bytes before the place.
        offset: u64,
        /// Kind of the damage.
        why: &'static str,
    },
    /// Another error of the system.
    Failed {
        /// File or folder that was to be made, written or read.
        path: PathBuf,
        /// The system's words.
        error: io::Error,
    },
}

impl OpenError {
    /// The error for an operator of a system error at `path`.
    pub(crate) fn at(path: &Path, error: io::Error) -> OpenError {
        let path = path.to_path_buf();
        match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                OpenError::ReadOnly { path }
            }
            _ if is_full(&error) => OpenError::NoSpace { path },
            _ => OpenError::Failed { path, error },
        }
    }
}

impl OpenError {
    /// The words for what concerns the cluster, and parts of its data.
    fn of_cluster(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::HasCluster { path } => write!(
                f,
                "{} has a cluster's secret already, and everything in it is named under that: give \
                 a new or empty data folder with --data",
                path.display()
            ),
            OpenError::OnlyAPart { path } => write!(
                f,
                "{} is a part of a data folder that was split: make one of all parts with \
                 `holdline store join`, or give another with --data",
                path.display()
            ),
            OpenError::UnfitPart { path } => write!(
                f,
                "{} does not fit the other parts: name all parts that one split of a folder made, \
                 each once",
                path.display()
            ),
            OpenError::OtherCluster { path, found, wanted } => write!(
                f,
                "{} is the secret of the cluster {found:016x}, but the folder is of the cluster \
                 {wanted:016x}: put back the folder's own, which every node and every backup of \
                 that cluster has",
                path.display()
            ),
            OpenError::OtherLog { path, found, wanted } => write!(
                f,
                "{} is a segment of log {} of the cluster {:016x}, but was found in log {} of the \
                 cluster {:016x}: nothing was changed. Put back the log's own file, or restore the \
                 data folder from a backup",
                path.display(),
                found.log,
                found.cluster,
                wanted.log,
                wanted.cluster
            ),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NotAFolder { path } => write!(
                f,
                "{} is not a folder: remove it or give another data folder with --data",
                path.display()
            ),
            OpenError::CannotCreate { path, error } => write!(
                f,
                "{} cannot be made: {error}: make it, or give another data folder with --data",
                path.display()
            ),
            OpenError::Foreign { path, found } => write!(
                f,
                "{} has files that are not Holdline's, such as {found:?}: give an empty or new \
                 data folder with --data",
                path.display()
            ),
            OpenError::ReadOnly { path } => write!(
                f,
                "{} may not be read and written: give it to this user (chown, chmod), mount it \
                 writable, or give another data folder with --data",
                path.display()
            ),
            OpenError::NoSpace { path } => write!(
                f,
                "{}: no space left on its disk: make room there, or give a data folder on another \
                 disk with --data",
                path.display()
            ),
            OpenError::Locked { path, pid } => {
                write!(f, "{} is used by another server", path.display())?;
                if let Some(pid) = pid {
                    write!(f, " (process {pid})")?;
                }
                write!(f, ": stop that one, or give another data folder with --data")
            }
            OpenError::UnknownFormat { path, found } => write!(
                f,
                "{} says {found:?}, which this version cannot read: use the version of Holdline \
                 that made the folder, or give another one with --data",
                path.display()
            ),
            OpenError::HasCluster { .. }
            | OpenError::OnlyAPart { .. }
            | OpenError::UnfitPart { .. }
            | OpenError::OtherLog { .. }
            | OpenError::OtherCluster { .. } => self.of_cluster(f),
            OpenError::Corrupt { path, offset, why } => write!(
                f,
                "{} is damaged at byte {offset}: {why}. Nothing was changed. Restore the data \
                 folder from a backup, or move it away to start empty",
                path.display()
            ),
            OpenError::Failed { path, error } => write!(
                f,
                "{}: {error}. Check the path, its permissions and the room on the disk",
                path.display()
            ),
        }
    }
}

impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_says_where_what_and_what_to_do() {
        let path = || PathBuf::from("/data");
        let error = || io::Error::other("it broke");
        for (error, words) in [
            (OpenError::NotAFolder { path: path() }, ["is not a folder", "remove it"]),
            (
                OpenError::CannotCreate { path: path(), error: error() },
                ["cannot be made: it broke", "make it"],
            ),
            (
                OpenError::Foreign { path: path(), found: "x.txt".into() },
                ["not Holdline's, such as \"x.txt\"", "empty or new"],
            ),
            (OpenError::ReadOnly { path: path() }, ["may not be read and written", "chown"]),
            (OpenError::NoSpace { path: path() }, ["no space left", "make room"]),
            (
                OpenError::Locked { path: path(), pid: Some(7) },
                ["used by another server (process 7):", "stop that one"],
            ),
            (
                OpenError::Locked { path: path(), pid: None },
                ["used by another server: stop", "another data folder"],
            ),
            (
                OpenError::UnknownFormat { path: path(), found: "holdline data 9".into() },
                ["says \"holdline data 9\"", "the version of Holdline that made"],
            ),
            (OpenError::OnlyAPart { path: path() }, ["that was split", "store join"]),
            (OpenError::UnfitPart { path: path() }, ["does not fit", "each once"]),
            (OpenError::HasCluster { path: path() }, ["secret already", "new or empty"]),
            (
                OpenError::OtherCluster { path: path(), found: 0xab, wanted: 0xcd },
                ["of the cluster 00000000000000ab, but", "00000000000000cd: put back"],
            ),
            (
                OpenError::OtherLog {
                    path: path(),
                    found: LogIdentity { cluster: 0xab, log: 1 },
                    wanted: LogIdentity { cluster: 0xcd, log: 2 },
                },
                ["log 1 of the cluster 00000000000000ab, but", "log 2 of the cluster"],
            ),
            (
                OpenError::Corrupt { path: path(), offset: 9, why: "a bit fell" },
                ["damaged at byte 9: a bit fell", "from a backup"],
            ),
            (OpenError::Failed { path: path(), error: error() }, [": it broke.", "Check the path"]),
        ] {
            let told = error.to_string();
            assert!(told.starts_with("/data"), "{told}");
            assert!(words.iter().all(|word| told.contains(word)), "{told}");
        }
    }

    #[test]
    fn an_error_of_the_system_means_something_to_the_operator() {
        let of = |kind: io::ErrorKind| OpenError::at(Path::new("/data"), kind.into());
        assert!(matches!(of(io::ErrorKind::PermissionDenied), OpenError::ReadOnly { .. }));
        assert!(matches!(of(io::ErrorKind::ReadOnlyFilesystem), OpenError::ReadOnly { .. }));
        assert!(matches!(of(io::ErrorKind::StorageFull), OpenError::NoSpace { .. }));
        assert!(matches!(of(io::ErrorKind::TimedOut), OpenError::Failed { .. }));
    }
}
