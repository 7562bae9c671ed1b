//! Where the kernel's files are: the machine's own root, or a folder that looks like it.
//!
//! Files are read whole, up to a bound; one that is absent, forbidden or no text is `None`, for on
//! some kernel, in some container or for some user each of them is. It knows no format.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a file that are read, at most; what is beyond is left out.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Entries of a folder that are read, at most.
const ENTRIES_MAX: usize = 1 << 22;

/// Where the kernel's files are.
#[derive(Clone, Debug)]
pub struct KernelFiles {
    root: PathBuf,
}

impl KernelFiles {
    /// This machine.
    pub fn real() -> KernelFiles {
        KernelFiles { root: PathBuf::from("/") }
    }

    /// A folder with `proc` and `sys` in it.
    pub fn at(root: &Path) -> KernelFiles {
        KernelFiles { root: root.to_owned() }
    }

    /// Whether it is this machine, which can be asked in other ways, too.
    pub(crate) fn is_real(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Where `proc/net/tcp` or the like is.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// A file's text.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let mut bytes = Vec::new();
        File::open(self.path(path)).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The number that a file holds.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    /// Whether there is such a file or folder.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Where a link points to, as text.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        let to = std::fs::read_link(self.path(path)).ok()?;
        Some(to.to_string_lossy().into_owned())
    }

    /// Names in a folder, in no order.
    pub(crate) fn names(&self, path: &str) -> impl Iterator<Item = String> + use<> {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        entries.take(ENTRIES_MAX).map(|entry| entry.file_name().to_string_lossy().into_owned())
    }

    /// Names in a folder that are numbers, in no order: processes, threads, descriptors.
    pub(crate) fn numbers(&self, path: &str) -> impl Iterator<Item = u32> + use<> {
        self.names(path).filter_map(|name| name.parse().ok())
    }
}
