//! Listeners that are files. Those with ports are tested with the server.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

/// A folder that nobody else uses, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("net-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn door(path: &Path) -> ListenerSetup {
    ListenerSetup::plain("local", ListenEndpoint::Unix(path.to_path_buf(), 0o620))
}

#[test]
fn a_socket_file_has_its_permissions_and_is_removed_at_the_end() {
    let folder = Folder::new("mode");
    let path = folder.0.join("mqtt.sock");
    let opened = open(&[door(&path)], 2, 1_000, Vec::new()).expect("it is free");
    assert_eq!(opened.shards.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o620);
    assert!(UnixStream::connect(&path).is_ok());
    drop(opened);
    assert!(!path.exists());
}

#[test]
fn a_file_that_nobody_listens_at_is_replaced() {
    let folder = Folder::new("stale");
    let path = folder.0.join("mqtt.sock");
    drop(UnixListener::bind(&path).expect("free"));
    assert!(path.exists(), "the file outlives its listener");
    let opened = open(&[door(&path)], 1, 1_000, Vec::new()).expect("nobody listens");
    assert!(UnixStream::connect(&path).is_ok());
    drop(opened);
}

#[test]
fn a_check_finds_a_path_that_is_taken_and_makes_and_removes_nothing() {
    let folder = Folder::new("check");
    let path = folder.0.join("mqtt.sock");
    assert!(check(&door(&path)).is_ok() && !path.exists());
    let theirs = UnixListener::bind(&path).expect("free");
    let text = check(&door(&path)).expect_err("in use").to_string();
    assert!(text.contains("another program listens on"), "{text}");
    drop(theirs);
    assert!(check(&door(&path)).is_ok() && path.exists(), "a left-over file is replaced later");
    let nowhere = check(&door(&folder.0.join("nowhere/mqtt.sock"))).expect_err("no folder");
    assert!(nowhere.to_string().contains("cannot listen on"), "{nowhere}");
}

#[test]
fn a_file_that_somebody_uses_stays() {
    let folder = Folder::new("used");
    let path = folder.0.join("mqtt.sock");
    let theirs = UnixListener::bind(&path).expect("free");
    let text = open(&[door(&path)], 1, 1_000, Vec::new()).err().expect("in use").to_string();
    assert!(text.contains("another program listens on"), "{text}");
    assert!(path.exists());
    drop(theirs);
    std::fs::remove_file(&path).expect("it was there");
    std::fs::write(&path, "not a socket").expect("written");
    let text = open(&[door(&path)], 1, 1_000, Vec::new()).err().expect("a file").to_string();
    assert!(text.contains("is not a socket"), "{text}");
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "not a socket");
}

#[test]
fn a_path_that_is_too_long_is_said() {
    let path = PathBuf::from(format!("/tmp/{}", "x".repeat(120)));
    let text = open(&[door(&path)], 1, 1_000, Vec::new()).err().expect("too long").to_string();
    assert!(text.contains("is too long"), "{text}");
}
