//! A copy of a data folder, also of one that is in use.
//!
//! A log is brought to rest: a checkpoint is made, step by step between the commits of a log that
//! is in use, and then no upkeep task runs. From there on its segments and its derived state stay
//! as they are but for what is written behind the last segment's end. Closed
//! segments get a second name in the copy if both folders are on one file system, else they are
//! copied; derived state is written anew. It knows no record. Invariant: `FORMAT` comes last, so a
//! copy that was not finished is not taken for one.

use super::{Means, open};
use crate::OpenError;
use crate::data::alive::state_failed;
use crate::data::folder::{CLUSTER_SECRET, NODE_SECRET, empty_folder, log_folder};
use crate::data::{Place, Secrets};
use crate::engine::{CheckpointStep, Engine, Finished, Keep, State, StateChange, UpkeepTask};
use crate::files::write_whole;
use crate::log::{Position, recovery, segment_path};
use model::ports::files::FileSystem;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes that are copied at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Keys that are copied at once.
const KEYS_TOGETHER: usize = 1_024;

/// Longer than any key of derived state.
const LAST_KEY: [u8; 1024] = [u8::MAX; 1024];

/// Result of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    /// Segments.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Segments that share their place on the disk with the original.
    pub linked: u64,
}

/// Copies a folder that is not in use to one that is new or empty.
pub fn backup(path: &Path, to: &Path, means: &Means, now_s: u32) -> Result<Copied, OpenError> {
    let (place, mut logs) = open(path, means, now_s)?;
    let target = Target::begin(&place, to)?;
    let mut copied = Copied::default();
    for (number, log) in logs.iter_mut().enumerate() {
        let still = Still::of(&mut log.engine, &*place.files, &log.folder, now_s)?;
        target.log(number as u16, &still, &*log.state, &mut copied)?;
    }
    target.end(logs.len() as u16)?;
    Ok(copied)
}

/// A log at rest.
pub(crate) struct Still {
    folder: PathBuf,
    /// Numbers and lengths.
    pub(crate) segments: BTreeMap<u32, u64>,
    /// Position behind what is acknowledged: state knows nothing from there on.
    pub(crate) acknowledged: Position,
}

impl Still {
    /// Brings a log to rest that nobody uses.
    pub(crate) fn of(
        engine: &mut Engine,
        files: &dyn FileSystem,
        folder: &Path,
        now_s: u32,
    ) -> Result<Still, OpenError> {
        let (mut is_first, mut finished) = (true, None);
        loop {
            let visited = Still::step(engine, (files, folder), now_s, (is_first, finished));
            finished = match visited? {
                Rest::Still(still) => return Ok(still),
                Rest::Task(upkeep_task) => Some(upkeep_task.run()),
                Rest::More => None,
            };
            is_first = false;
        }
    }

    /// One step towards rest, on the thread that owns the engine, with what came of the task that
    /// the last one gave. No upkeep task may be given out besides until it was copied.
    pub(crate) fn step(
        engine: &mut Engine,
        (files, folder): (&dyn FileSystem, &Path),
        now_s: u32,
        (is_first, finished): (bool, Option<Finished>),
    ) -> Result<Rest, OpenError> {
        if let Some(finished) = finished {
            engine.finished(now_s, finished);
        }
        match engine.checkpoint_step(is_first) {
            CheckpointStep::Task(upkeep_task) => Ok(Rest::Task(upkeep_task)),
            CheckpointStep::More => Ok(Rest::More),
            CheckpointStep::Done(true) if engine.sync().is_ok() => {
                let segments = recovery::list(files, folder)?;
                let (folder, acknowledged) = (folder.into(), engine.acknowledged());
                Ok(Rest::Still(Still { folder, segments, acknowledged }))
            }
            CheckpointStep::Done(_) => {
                let error = io::Error::other("the log takes no checkpoint");
                Err(OpenError::Failed { path: folder.into(), error })
            }
        }
    }
}

/// How far a log is on its way to rest.
pub(crate) enum Rest {
    /// This is to be done, on any thread.
    Task(UpkeepTask),
    /// More must be done.
    More,
    /// The log is at rest.
    Still(Still),
}

/// A copy in the making.
pub(crate) struct Target<'a> {
    place: &'a Place,
    path: &'a Path,
    whole: bool,
}

impl<'a> Target<'a> {
    /// Begins a copy in a folder that is new or empty.
    pub(crate) fn begin(place: &'a Place, path: &'a Path) -> Result<Target<'a>, OpenError> {
        let failed = |error| OpenError::at(path, error);
        place.files.make_folder(path).map_err(failed)?;
        let names = place.files.names(path).map_err(failed)?;
        match names.into_iter().find(|name| name != "lost+found") {
            Some(found) => Err(OpenError::Foreign { path: path.into(), found }),
            None => Ok(Target { place, path, whole: false }),
        }
    }

    /// Copies a log.
    pub(crate) fn log(
        &self,
        number: u16,
        still: &Still,
        state: &dyn State,
        copied: &mut Copied,
    ) -> Result<(), OpenError> {
        let files = &*self.place.files;
        let to = log_folder(self.path, number, "");
        let failed = |error| OpenError::at(&to, error);
        files.make_folder(&to).map_err(failed)?;
        let last = still.segments.last_key_value().map(|(number, _)| *number);
        for (&segment, &length) in &still.segments {
            let (from, to) = (segment_path(&still.folder, segment), segment_path(&to, segment));
            // The last one is still written.
            let linked = Some(segment) != last && files.link(&from, &to).is_ok();
            if !linked {
                copy(files, &from, &to, length).map_err(|error| OpenError::at(&to, error))?;
            }
            copied.segments += 1;
            copied.bytes += length;
            copied.linked += u64::from(linked);
        }
        files.sync_folder(&to).map_err(failed)?;
        let path = to.join("state");
        let new = (self.place.states)(&path, 1 << 20)?;
        copy_state(state, &*new).map_err(|error| state_failed(&path, error))
    }

    /// Makes it a data folder.
    pub(crate) fn end(mut self, logs: u16) -> Result<(), OpenError> {
        let files = &*self.place.files;
        let Secrets { cluster, node } = &self.place.secrets;
        for (name, secret) in [(CLUSTER_SECRET, cluster.bytes()), (NODE_SECRET, node)] {
            let path = self.path.join(name);
            write_whole(files, &path, secret).map_err(|error| OpenError::at(&path, error))?;
        }
        self.place.write_format_of(self.path, logs, false)?;
        if let Some(parent) = self.path.canonicalize().ok().as_deref().and_then(Path::parent) {
            // The folder's own name, if we made it.
            let _ = files.sync_folder(parent);
        }
        self.whole = true;
        Ok(())
    }
}

/// Removes a copy that failed: its links would hold the room of segments that are removed.
impl Drop for Target<'_> {
    fn drop(&mut self) {
        if !self.whole {
            empty_folder(&*self.place.files, self.path);
        }
    }
}

pub(crate) fn copy(files: &dyn FileSystem, from: &Path, to: &Path, length: u64) -> io::Result<()> {
    let (source, mut file) = (files.source(from)?, files.open(to)?);
    let mut at = 0;
    while at < length {
        let mut bytes = vec![0; (length - at).min(PIECE_BYTES) as usize];
        source.read_at(at, &mut bytes)?;
        file.write_at(at, &bytes)?;
        at += bytes.len() as u64;
    }
    file.sync()
}

fn copy_state(from: &dyn State, to: &dyn State) -> Result<(), crate::engine::StateError> {
    for space in Keep::ALL {
        let mut next = Vec::new();
        loop {
            let mut changes = Vec::new();
            from.range(space, (&next, &LAST_KEY), false, &mut |key, value| {
                let (key, value) = (key.to_vec(), Some(value.to_vec()));
                changes.push(StateChange { space, key, value });
                changes.len() < KEYS_TOGETHER
            })?;
            let Some(last) = changes.last() else { break };
            next = [&last.key[..], &[0]].concat();
            to.write(changes)?;
        }
    }
    to.persist()
}
