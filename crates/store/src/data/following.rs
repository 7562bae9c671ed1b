//! An open data folder whose logs follow those of another node.
//!
//! Each log is opened, closed, copied anew and opened again by itself; when all lead, the folder is
//! one like any other. It has no thread: whoever has it gives each log its batches, syncs it, and
//! runs its upkeep. Invariant: a log is open or copied, never both.

use crate::OpenError;
use crate::data::folder::{OpenLog, log_folder};
use crate::data::lost::{self, LostRecords};
use crate::data::{Base, Copying, OpenFolder, Place, Settings};
use crate::engine::{Engine, EngineSettings, State};
use model::id::NodeId;
use model::ports::files::FileSystem;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// An open data folder that follows. Dropping it lets the folder go.
pub struct FollowingFolder {
    place: Place,
    settings: Settings,
    logs: Vec<Option<OpenLog>>,
}

impl FollowingFolder {
    pub(crate) fn new(place: Place, settings: Settings, logs: u16) -> FollowingFolder {
        let logs = (0..logs).map(|_| None).collect();
        FollowingFolder { place, settings, logs }
    }

    /// How many logs there are.
    pub fn count(&self) -> u16 {
        self.logs.len() as u16
    }

    /// The data folder.
    pub fn path(&self) -> &Path {
        &self.place.path
    }

    /// Remembers records that were acknowledged and are in a log no more.
    pub fn note_lost(&self, lost: LostRecords) -> io::Result<()> {
        lost::note(&*self.place.files, &self.place.path, lost)
    }

    /// The node's number in the cluster.
    pub fn node(&self) -> NodeId {
        self.place.node
    }

    /// The fingerprint of the cluster's secret.
    pub fn fingerprint(&self) -> u64 {
        self.place.secrets.cluster.fingerprint()
    }

    /// The number of this start.
    pub fn boot(&self) -> u64 {
        self.place.boot
    }

    /// Opens a log, after cutting off what stands behind the record with the index `keep`, if that
    /// is given. After an error a copy may take its place.
    pub fn open(&mut self, log: u16, keep: Option<u64>) -> Result<&mut Engine, OpenError> {
        self.close(log);
        let open = |files: Arc<dyn FileSystem>,
                    folder: &Path,
                    settings: EngineSettings,
                    state: Arc<dyn State>| {
            Engine::open_to_follow(files, folder, settings, state, keep)
        };
        let opened = self.place.open_log((log, ""), self.count(), &self.settings, &open)?;
        Ok(&mut self.logs[usize::from(log)].insert(opened).engine)
    }

    /// A log that is open.
    pub fn engine(&mut self, log: u16) -> Option<&mut Engine> {
        self.logs[usize::from(log)].as_mut().map(|log| &mut log.engine)
    }

    /// Closes a log: what it has in memory is dropped.
    pub fn close(&mut self, log: u16) {
        self.logs[usize::from(log)] = None;
    }

    /// Closes a log and begins to copy a base of it, or goes on with the copy that was begun.
    pub fn copy(&mut self, log: u16, list: &[u8]) -> Result<Copying, OpenError> {
        self.close(log);
        let folder = log_folder(&self.place.path, log, "");
        Copying::begin(Arc::clone(&self.place.files), &folder, list)
    }

    /// Puts a copy of which everything has come in place of its log, and opens that.
    pub fn install(&mut self, log: u16, copying: Copying) -> Result<&mut Engine, OpenError> {
        copying.install(&*self.place.states)?;
        self.open(log, None)
    }

    /// A base of a log that is open, for another follower. All of it must be acknowledged.
    pub fn base(&mut self, log: u16, now_s: u32) -> Result<Base, OpenError> {
        let path = self.place.path.clone();
        let closed = || OpenError::Failed { path, error: io::Error::other("the log is not open") };
        let open = self.logs[usize::from(log)].as_mut().ok_or_else(closed)?;
        Base::of(&mut open.engine, &self.place.files, &open.folder, &*open.state, now_s)
    }

    /// The folder as one that is written, when each of its logs leads and all of it is
    /// acknowledged: replayed records are written into state first, so that it can be restored.
    pub fn lead(self, now_s: u32) -> Result<OpenFolder, OpenError> {
        let FollowingFolder { place, settings, logs } = self;
        let path = place.path.clone();
        let failed = |why| OpenError::Failed { path: path.clone(), error: io::Error::other(why) };
        let logs: Option<Vec<OpenLog>> = logs.into_iter().collect();
        let mut logs = logs.ok_or_else(|| failed("a log is not open"))?;
        for OpenLog { engine, .. } in &mut logs {
            if engine.follows() || !engine.checkpoint_now(now_s) {
                return Err(failed("a log does not lead, or not all of it is acknowledged"));
            }
        }
        Ok(OpenFolder::new(place, settings, logs))
    }
}
