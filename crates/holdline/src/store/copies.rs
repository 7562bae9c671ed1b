//! `holdline store backup` and `holdline store restore`: copies of a data folder.
//!
//! A running server makes its own copy, and it may see other folders than this command: systemd
//! gives it a private `/tmp`, a container other mounts. Invariant: a backup is reported as made
//! only if this command finds it where it asked for it.

use super::check;
use crate::client::{LONG, Server};
use serde_json::json;
use server::tools::{self, BackupError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;
use std::process::ExitCode;

/// The file of a data folder that is written last: a folder that has it is complete.
const FORMAT: &str = "FORMAT";

/// Copies a data folder to a new one, or has its server do it.
pub fn backup(data: &Path, to: &Path, server: &Server) -> Result<ExitCode, String> {
    let to = std::path::absolute(to).map_err(|error| error.to_string())?;
    // Before the server is asked: what it calls a new folder may be another one than this.
    if to.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(format!("{} is not empty: name a new folder", to.display()));
    }
    note!("copying {} to {} ...", data.display(), to.display());
    match tools::backup(data, &to) {
        Ok(copied) => {
            let (segments, linked) = (copied.segments, copied.linked);
            out!("{} bytes in {segments} segments, {linked} of them shared", copied.bytes);
        }
        Err(BackupError::InUse) => {
            note!("a running server uses the folder: asking it for the backup ...");
            let body = json!({ "to": to });
            let answer = server.call_within(Some(LONG), "POST", "/v1/backup", Some(&body))?;
            is_seen(&to)?;
            out!("{} bytes", answer["bytes"]);
        }
        Err(BackupError::Failed(why)) => return Err(why),
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether the copy that a server reports is where it was asked for.
fn is_seen(to: &Path) -> Result<(), String> {
    let place = to.display();
    match to.join(FORMAT).symlink_metadata() {
        Ok(_) => Ok(()),
        // A copy belongs to the server's user, and others cannot look into it.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            note!("{place}: this user cannot look into the copy, so it was not verified");
            Ok(())
        }
        Err(_) => Err(format!(
            "the server made the backup, but {place} is not here: the server has other folders \
             than this command. systemd gives the server a private /tmp and /var/tmp, and a \
             container has mounts of its own. The copy may be lost when the server stops. Back up \
             to a folder that both share, such as /var/backups/holdline of the Debian package."
        )),
    }
}

/// Makes a data folder of a backup, and reads it once.
pub fn restore(from: &Path, data: &Path) -> Result<ExitCode, String> {
    if from.join(FORMAT).symlink_metadata().is_err_and(|it| it.kind() == ErrorKind::NotFound) {
        return Err(format!("{} is not a backup: it has no file {FORMAT}", from.display()));
    }
    if data.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(format!(
            "{} is not empty: move it away, or name another folder with --data",
            data.display()
        ));
    }
    note!("copying {} to {} ...", from.display(), data.display());
    match tools::backup(from, data) {
        Ok(_) => {}
        Err(BackupError::InUse) => {
            return Err(format!("{} is in use by a running server", from.display()));
        }
        Err(BackupError::Failed(why)) => return Err(why),
    }
    let checked = check(data)?;
    give_to_owner_of(from, data)
        .map_err(|error| format!("{}: the owner cannot be set: {error}", data.display()))?;
    if checked == ExitCode::SUCCESS {
        out!("restored to {}", data.display());
    } else {
        note!("the backup is damaged: try an older one, or `holdline store salvage`");
    }
    Ok(checked)
}

/// Gives the new folder the owner of the backup: files that root restores would be root's, and the
/// server runs as another user.
fn give_to_owner_of(from: &Path, data: &Path) -> io::Result<()> {
    // The folder itself may have been here before.
    let (owner, made) = (from.metadata()?, data.join(FORMAT).metadata()?);
    if (owner.uid(), owner.gid()) == (made.uid(), made.gid()) || made.uid() != 0 {
        return Ok(());
    }
    give(data, (owner.uid(), owner.gid()))
}

/// Gives everything below a path to this user and group; links are not followed.
fn give(path: &Path, (user, group): (u32, u32)) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        for entry in path.read_dir()? {
            give(&entry?.path(), (user, group))?;
        }
    }
    lchown(path, Some(user), Some(group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_not_where_it_was_asked_for_is_no_backup() {
        let folder = tempfile::tempdir().expect("a folder");
        let why = is_seen(&folder.path().join("monday")).expect_err("it is not there");
        assert!(why.contains("private /tmp") && why.contains("monday is not here"), "{why}");
        std::fs::write(folder.path().join(FORMAT), "").expect("a file");
        is_seen(folder.path()).expect("it is there");
    }

    #[test]
    fn a_restore_refuses_a_folder_with_something_in_it_and_what_is_no_backup() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, data) = (folder.path().join("from"), folder.path().join("data"));
        std::fs::create_dir(&from).expect("a folder");
        let why = restore(&from, &data).expect_err("no backup");
        assert!(why.contains("is not a backup"), "{why}");
        std::fs::write(from.join(FORMAT), "6\n").expect("a file");
        std::fs::create_dir(&data).expect("a folder");
        std::fs::write(data.join("precious"), "").expect("a file");
        let why = restore(&from, &data).expect_err("it is not empty");
        assert!(why.contains("is not empty"), "{why}");
        assert!(data.join("precious").exists());
    }

    #[test]
    fn a_backup_refuses_a_folder_with_something_in_it_before_anything_is_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("old"), "").expect("a file");
        let server = Server::at("http://127.0.0.1:1".into(), None, "nowhere".into());
        let why = backup(Path::new("nowhere"), folder.path(), &server).expect_err("not empty");
        assert!(why.contains("is not empty"), "{why}");
    }
}
