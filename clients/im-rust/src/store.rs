//! Where a client keeps its state: its place in the inbox, messages that wait, heartbeats.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A place for a text of a few KiB, and of 2 MiB when the queue is full. It contains messages that
/// wait.
pub trait Store: Send {
    /// The last saved text.
    fn load(&mut self) -> io::Result<Option<String>>;
    /// Replaces it. A message or an acknowledgement leaves when this has returned.
    fn save(&mut self, text: &str) -> io::Result<()>;
}

/// Forgets everything with the process: messages that wait are lost with it. Clones share what they
/// keep.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Option<String>>>);

impl MemoryStore {
    /// A store that has kept this.
    pub fn new(text: Option<String>) -> MemoryStore {
        MemoryStore(Arc::new(Mutex::new(text)))
    }

    /// The text that is kept.
    pub fn text(&self) -> Option<String> {
        self.0.lock().expect("no thread panics with it").clone()
    }
}

impl Store for MemoryStore {
    fn load(&mut self) -> io::Result<Option<String>> {
        Ok(self.text())
    }

    fn save(&mut self, text: &str) -> io::Result<()> {
        *self.0.lock().expect("no thread panics with it") = Some(text.to_owned());
        Ok(())
    }
}

/// A file that only its owner reads. Each save replaces it whole, so that a crash leaves the state
/// before or after; it is on the disk when `save` returns.
pub struct FileStore {
    path: PathBuf,
}

impl FileStore {
    /// Keeps the state in this file.
    pub fn new(path: impl AsRef<Path>) -> FileStore {
        FileStore { path: path.as_ref().to_owned() }
    }
}

impl Store for FileStore {
    fn load(&mut self) -> io::Result<Option<String>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn save(&mut self, text: &str) -> io::Result<()> {
        let mut fresh = self.path.clone().into_os_string();
        fresh.push(".new");
        let mut file = create(Path::new(&fresh))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)
    }
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
