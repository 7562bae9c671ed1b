//! A folder that looks like a machine, for tests: the files of a real one, and what a test changes.

use crate::place::KernelFiles;
use std::fs;
use std::path::{Path, PathBuf};

/// A copy of `fixtures/machine` that vanishes.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    /// The machine as it was.
    pub(crate) fn machine() -> Folder {
        let folder = Folder::empty();
        copy(&fixtures().join("machine"), folder.0.path());
        folder
    }

    /// A machine that shows nothing.
    pub(crate) fn empty() -> Folder {
        Folder(tempfile::tempdir().expect("a folder for tests"))
    }

    /// Writes a file, and the folders it is in.
    pub(crate) fn put(&self, path: &str, text: impl AsRef<[u8]>) -> &Folder {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("space");
        fs::write(path, text).expect("space");
        self
    }

    /// Makes a link, which need not lead anywhere.
    pub(crate) fn link(&self, path: &str, to: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("space");
        std::os::unix::fs::symlink(to, path).expect("space");
    }

    /// Takes a file or folder away.
    pub(crate) fn drop(&self, path: &str) {
        let path = self.0.path().join(path);
        let gone = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        gone.expect("it is there");
    }

    /// Reads a file.
    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.path().join(path)).expect("it is there")
    }

    /// Files of the folder's machine.
    pub(crate) fn place(&self) -> KernelFiles {
        KernelFiles::at(self.0.path())
    }

    /// All files in it, as paths below it, in order.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![self.0.path().to_owned()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).expect("it is there").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                } else if !path.is_symlink() {
                    let below = path.strip_prefix(self.0.path()).expect("it is below");
                    found.push(below.to_string_lossy().into_owned());
                }
            }
        }
        found.sort();
        found
    }
}

/// Where the fixtures are.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Compares with a golden file. The actual text is left beside the folders of the build, for a
/// reader who finds it right.
pub(crate) fn golden(name: &str, text: &str) {
    same(&fixtures().join(name), text);
}

/// As [`golden`], with a file at any path.
pub(crate) fn same(path: &Path, text: &str) {
    let known = fs::read_to_string(path).unwrap_or_default();
    if known != text {
        let name = path.file_name().expect("it is a file").to_string_lossy();
        let new = std::env::temp_dir().join(format!("holdline-observe-{name}"));
        fs::write(&new, text).expect("space");
        let lines = known.lines().zip(text.lines()).find(|(old, new)| old != new);
        panic!("{} is not {}; first {lines:?}", new.display(), path.display());
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("the fixtures are there").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            fs::create_dir_all(&to).expect("space");
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("space");
        }
    }
}
