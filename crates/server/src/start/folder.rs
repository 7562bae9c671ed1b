//! Secrets in the data folder: the API's token, which is the roof's, and who can read which.

use super::{StartError, failed, random};
use crate::config::Config;
use base::hex;
use model::{event, tell};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use store::data::{CLUSTER_SECRET, NODE_SECRET};

/// Name of the token's file in the data folder.
pub(crate) const TOKEN_FILE: &str = "api.token";

/// Warns of the store's secrets that others on this machine can read.
pub(super) fn tell_readers(data: &Path) {
    for name in [CLUSTER_SECRET, NODE_SECRET] {
        let path = data.join(name);
        if let Some(mode) = read_by_others(&path) {
            tell!(event::SECRET_READABLE, path = %path.display(), mode = format!("{mode:03o}"));
        }
    }
}

/// The API's token: the configured one, or the one in the data folder, made at the first start and
/// readable by its owner only.
pub(super) fn api_token(config: &Config) -> Result<(String, Option<PathBuf>), StartError> {
    token_in(&config.server.data, config.api.token.reveal())
}

fn token_in(data: &Path, configured: &str) -> Result<(String, Option<PathBuf>), StartError> {
    if !configured.is_empty() {
        return Ok((configured.to_string(), None));
    }
    let path = data.join(TOKEN_FILE);
    match fs::read_to_string(&path) {
        Ok(token) if !token.trim().is_empty() => {
            if let Some(mode) = read_by_others(&path) {
                let path = path.display();
                tell!(event::TOKEN_READABLE, %path, mode = format!("{mode:03o}"));
            }
            return Ok((token.trim().into(), Some(path)));
        }
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(StartError(format!("{}: {error}", path.display()))),
    }
    Ok((make_token(&path)?, Some(path)))
}

fn make_token(path: &Path) -> Result<String, StartError> {
    let bytes: [u8; 24] = random()?;
    let token = hex::encode(&bytes);
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).map_err(failed)?;
    file.write_all(token.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    Ok(token)
}

/// Puts another first token in place of that of a data folder; its file. It belongs to whoever the
/// folder belongs to, for root may call this.
pub(crate) fn reset_token(data: &Path) -> Result<PathBuf, String> {
    let path = data.join(TOKEN_FILE);
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let folder = fs::metadata(data).map_err(|error| format!("{}: {error}", data.display()))?;
    if !data.join(CLUSTER_SECRET).exists() {
        return Err(format!("{} is not a data folder of a server", data.display()));
    }
    let new = data.join("api.token.new");
    make_token(&new).map_err(|error| error.to_string())?;
    std::os::unix::fs::chown(&new, Some(folder.uid()), Some(folder.gid())).map_err(told)?;
    fs::rename(&new, &path).map_err(told)?;
    Ok(path)
}

/// The file's mode, if others than its owner may read or change it.
fn read_by_others(path: &Path) -> Option<u32> {
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o066 != 0).then_some(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_reset_is_another_one_and_for_its_owner_only() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(reset_token(folder.path()).is_err(), "no server ever ran here");
        fs::write(folder.path().join(CLUSTER_SECRET), "secret").expect("written");
        let (first, _) = token_in(folder.path(), "").expect("made");
        let file = reset_token(folder.path()).expect("reset");
        let (second, _) = token_in(folder.path(), "").expect("read");
        assert!(first != second && second.len() == 48, "{second}");
        assert_eq!(read_by_others(&file), None);
    }

    #[test]
    fn a_token_is_made_once_and_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, file) = token_in(folder.path(), "").expect("made");
        assert_eq!((first.len(), file), (48, Some(folder.path().join(TOKEN_FILE))));
        let (second, _) = token_in(folder.path(), "").expect("read");
        assert_eq!(first, second);
        let file = folder.path().join(TOKEN_FILE);
        assert_eq!(read_by_others(&file), None, "it is made for its owner");
        for (mode, told) in [(0o640, Some(0o640)), (0o604, Some(0o604)), (0o600, None)] {
            fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("set");
            assert_eq!(read_by_others(&file), told);
        }
        let (configured, file) = token_in(folder.path(), "0123456789abcdef").expect("given");
        assert_eq!((configured.as_str(), file), ("0123456789abcdef", None));
    }
}
