//! The data folder: who may use it, which version it has, its secrets, and its logs.
//!
//! ```text
//! LOCK             held with flock by whoever uses the folder; holds its process id
//! FORMAT           version of the folder's layout, whose it is, and how many logs there are
//! cluster.secret   32 random bytes, the same on all nodes of a cluster
//! node.secret      32 random bytes of this node
//! boot             number of its last start
//! log-00/          a log: 0000000001.log and so on, reserve, and state/ derived from them
//! log-00.new/      a log that is being made in place of others
//! ```
//! Knows paths and what can be wrong with each of them. Invariant: nothing is made in a folder that
//! is not ours, nothing in ours is changed before it is locked and its version is known, and what
//! `FORMAT` does not speak of does not count.

use crate::OpenError;
use crate::data::alive::Rest;
use crate::data::copying;
use crate::data::following::FollowingFolder;
use crate::data::log_base::base_folder;
use crate::data::opened::OpenFolder;
use crate::data::{Secrets, Settings};
use crate::engine::{Engine, EngineFound, EngineSettings, FjallState, Inspection, State};
use crate::files::write_whole;
use crate::log::{LogIdentity, Origin};
use base::hash::{Slot, SlotRange};
use base::secret::ClusterSecret;
use model::id::NodeId;
use model::ports::files::{FileSystem, Lock};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// Most logs of a folder: their names have two digits.
pub(crate) const LOGS_MAX: u16 = 99;

const FORMAT: &str = "holdline data 6\n";

/// The line of `FORMAT` that says that the logs with `.new` are those that count.
const SWITCHING: &str = "switching\n";

/// Files, beside logs, of a folder whose first start did not get to its end.
const FIRST_START: [&str; 7] =
    ["LOCK", CLUSTER_SECRET, "cluster.new", NODE_SECRET, "node.new", "FORMAT.new", "lost+found"];

/// The file of the cluster's secret.
pub const CLUSTER_SECRET: &str = "cluster.secret";

/// The file of the node's secret.
pub const NODE_SECRET: &str = "node.secret";

/// Opens the derived state of a log in a folder, with so many bytes of cache.
pub type States = dyn Fn(&Path, u64) -> Result<Arc<dyn State>, OpenError> + Send + Sync;

/// Opens an engine: [`Engine::open`], or to follow.
pub(crate) type OpenEngine<'a> = &'a (
        dyn Fn(
    Arc<dyn FileSystem>,
    &Path,
    EngineSettings,
    Arc<dyn State>,
) -> Result<(Engine, EngineFound), OpenError>
            + Sync
    );

/// Removes everything in a folder, as far as it can: what is left of one whose making failed, with
/// an error of its own that is returned.
pub(crate) fn empty_folder(files: &dyn FileSystem, path: &Path) {
    for name in files.names(path).unwrap_or_default() {
        if name != "lost+found" {
            let path = path.join(name);
            let _ = files.remove_folder(&path).or_else(|_| files.remove(&path));
        }
    }
}

/// Opens data folders.
pub struct Folder;

/// A folder that is locked: where it is, and by what means.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) files: Arc<dyn FileSystem>,
    pub(crate) states: Arc<States>,
    pub(crate) secrets: Secrets,
    /// Its number in the cluster.
    pub(crate) node: NodeId,
    /// Slots of which everything is here.
    pub(crate) slots: SlotRange,
    /// The number of this start; 0: a tool's.
    pub(crate) boot: u64,
    _lock: Box<dyn Send + Sync>,
}

/// A log that is open.
pub(crate) struct OpenLog {
    pub(crate) folder: PathBuf,
    pub(crate) engine: Engine,
    pub(crate) found: EngineFound,
    pub(crate) inspection: Inspection,
    pub(crate) state: Arc<dyn State>,
}

impl OpenLog {
    /// Its live data; a checkpoint has been made.
    pub(crate) fn rest(&mut self) -> Rest<'_> {
        Rest { folder: &self.folder, engine: &mut self.engine, state: &*self.state }
    }
}

/// Format that a folder says it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// The folder has no format yet.
    First,
    /// Content of `FORMAT`.
    Made(Layout),
}

/// Description of a folder by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// How many logs there are.
    pub(crate) logs: u16,
    /// Fingerprint of the cluster's secret.
    pub(crate) cluster: u64,
    /// Node of the folder.
    pub(crate) node: NodeId,
    /// Slots of which everything is here.
    pub(crate) slots: SlotRange,
    /// Whether the logs with `.new` count.
    pub(crate) switching: bool,
}

impl Folder {
    /// Opens a data folder, makes it if there is none, and reads its logs, each on a thread.
    pub fn open(
        path: &Path,
        settings: Settings,
        files: Arc<dyn FileSystem>,
    ) -> Result<OpenFolder, OpenError> {
        Folder::open_with(path, settings, files, Arc::new(fjall))
    }

    /// As [`open`](Self::open), with another upkeep thread of derived state.
    pub fn open_with(
        path: &Path,
        settings: Settings,
        files: Arc<dyn FileSystem>,
        states: Arc<States>,
    ) -> Result<OpenFolder, OpenError> {
        let (place, logs) = Place::start(path, &settings, files, states)?;
        let logs = place.open_logs("", logs, &settings)?;
        Ok(OpenFolder::new(place, settings, logs))
    }

    /// Opens a data folder whose logs follow those of another node, and reads them.
    pub fn open_to_follow(
        path: &Path,
        settings: Settings,
        files: Arc<dyn FileSystem>,
    ) -> Result<FollowingFolder, OpenError> {
        Folder::open_to_follow_with(path, settings, files, Arc::new(fjall))
    }

    /// As [`open_to_follow`](Self::open_to_follow), with another kind of derived state.
    pub fn open_to_follow_with(
        path: &Path,
        settings: Settings,
        files: Arc<dyn FileSystem>,
        states: Arc<States>,
    ) -> Result<FollowingFolder, OpenError> {
        let (place, logs) = Place::start(path, &settings, files, states)?;
        Ok(FollowingFolder::new(place, settings, logs))
    }
}

impl Place {
    /// Takes a folder for a server's start, and makes it if there is none. How many logs it has.
    fn start(
        path: &Path,
        settings: &Settings,
        files: Arc<dyn FileSystem>,
        states: Arc<States>,
    ) -> Result<(Place, u16), OpenError> {
        let (mut place, format) = Place::take(path, settings.secrets, files, states)?;
        let logs = match format {
            Format::First => {
                place.begin(settings.logs)?;
                settings.logs
            }
            Format::Made(Layout { logs, .. }) => {
                place.check_logs(logs)?;
                logs
            }
        };
        place.check_whole()?;
        place.raise_boot(settings.began_ms)?;
        Ok((place, logs))
    }

    /// Locks a folder, and brings what a crash left half done to its end.
    pub(crate) fn take(
        path: &Path,
        fresh: Secrets,
        files: Arc<dyn FileSystem>,
        states: Arc<States>,
    ) -> Result<(Place, Format), OpenError> {
        files.make_folder(path).map_err(|error| cannot_make(path, error))?;
        check_format(path, &*files)?; // before a lock is made in a folder that is not ours
        let lock = lock(path, &*files)?;
        // Again, for another server may have made its first start meanwhile.
        let format = check_format(path, &*files)?;
        let secrets = read_secrets(path, fresh, &*files, format == Format::First)?;
        let (node, slots) = match format {
            Format::First => (NodeId::ALONE, SlotRange::ALL),
            Format::Made(layout) => (layout.node, layout.slots),
        };
        let (path, boot) = (path.into(), 0);
        let place = Place { path, files, states, secrets, node, slots, boot, _lock: lock };
        if let Format::Made(layout) = format {
            place.check_cluster(layout.cluster)?;
            place.finish_switch(layout.logs, layout.switching)?;
            place.finish_copies(layout.logs)?;
        }
        Ok((place, format))
    }

    /// Makes the logs of a folder that is new; `FORMAT` comes last.
    pub(crate) fn begin(&self, logs: u16) -> Result<(), OpenError> {
        self.clear_logs()?;
        self.make_logs("", logs)?;
        self.write_format(logs, false)?;
        if let Some(parent) = self.path.canonicalize().ok().as_deref().and_then(Path::parent) {
            // The folder's own name, if we made it. A parent that may not be opened held it before.
            let _ = self.files.sync_folder(parent);
        }
        Ok(())
    }

    /// Makes empty folders for logs, for good.
    pub(crate) fn make_logs(&self, suffix: &str, logs: u16) -> Result<(), OpenError> {
        for number in 0..logs {
            let log = log_folder(&self.path, number, suffix);
            self.files.make_folder(&log).map_err(|error| OpenError::at(&log, error))?;
        }
        self.sync()
    }

    /// Whether the logs of which `FORMAT` speaks are there: an empty one in place of one that is
    /// missing would be a loss that nobody hears of.
    pub(crate) fn check_logs(&self, logs: u16) -> Result<(), OpenError> {
        let names = self.names()?;
        match (0..logs).map(log_name).find(|log| !names.contains(log)) {
            None => Ok(()),
            Some(log) => {
                let path = self.path.join(log);
                Err(OpenError::Corrupt { path, offset: 0, why: "the log is missing" })
            }
        }
    }

    /// Opens logs, each on a thread of its own.
    pub(crate) fn open_logs(
        &self,
        suffix: &str,
        logs: u16,
        settings: &Settings,
    ) -> Result<Vec<OpenLog>, OpenError> {
        self.make_logs(suffix, logs)?;
        let open_one = |number| self.open_log((number, suffix), logs, settings, &Engine::open);
        let opened: Vec<Result<_, OpenError>> = thread::scope(|scope| {
            let spawn = |number: u16| {
                let builder = thread::Builder::new().name(format!("holdline-open-{number}"));
                builder.spawn_scoped(scope, move || open_one(number))
            };
            let threads: Vec<_> = (0..logs).map(spawn).collect();
            let join = |thread: io::Result<thread::ScopedJoinHandle<'_, _>>| {
                let failed = |error| OpenError::Failed { path: self.path.clone(), error };
                let panicked = |_| failed(io::Error::other("a thread that read a log panicked"));
                thread.map_err(failed)?.join().map_err(panicked)?
            };
            threads.into_iter().map(join).collect()
        });
        opened.into_iter().collect()
    }

    /// Opens one of so many logs.
    pub(crate) fn open_log(
        &self,
        (number, suffix): (u16, &str),
        logs: u16,
        settings: &Settings,
        open: OpenEngine<'_>,
    ) -> Result<OpenLog, OpenError> {
        let cache_bytes = settings.cache_bytes / u64::from(logs.max(1));
        let folder = log_folder(&self.path, number, suffix);
        let state = (self.states)(&folder.join("state"), cache_bytes)?;
        let mut engine = settings.engine(logs);
        engine.log.whose = self.whose(number);
        engine.log.origin = Origin { node: self.node, boot: self.boot };
        let (engine, found) = open(Arc::clone(&self.files), &folder, engine, Arc::clone(&state))?;
        let upto = (found.from, settings.inspect_bytes_max / u64::from(logs.max(1)));
        let failed = |error| crate::data::alive::state_failed(&folder, error);
        let inspection = engine.inspect(&folder, upto).map_err(failed)?;
        Ok(OpenLog { folder, engine, found, inspection, state })
    }

    /// Identity of the segments of a log.
    pub(crate) fn whose(&self, number: u16) -> LogIdentity {
        LogIdentity { cluster: self.secrets.cluster.fingerprint(), log: number.into() }
    }

    /// The logs with `.new` are those that count from now on.
    pub(crate) fn switch(&self, logs: u16) -> Result<(), OpenError> {
        self.write_format(logs, true)?;
        self.finish_switch(logs, true)
    }

    pub(crate) fn write_format(&self, logs: u16, switching: bool) -> Result<(), OpenError> {
        self.write_format_of(&self.path, logs, switching)
    }

    /// Writes the format of a folder of the same cluster. Everything written before is on stable
    /// storage.
    pub(crate) fn write_format_of(
        &self,
        folder: &Path,
        logs: u16,
        switching: bool,
    ) -> Result<(), OpenError> {
        let (cluster, node) = (self.secrets.cluster.fingerprint(), self.node);
        let layout = Layout { logs, cluster, node, slots: self.slots, switching };
        let path = folder.join("FORMAT");
        write_whole(&*self.files, &path, layout.text().as_bytes())
            .map_err(|error| OpenError::at(&path, error))
    }

    /// Gives this start a number above those of all before it, on stable storage. `began_ms` keeps
    /// it above those of a folder that was lost, or of which this is a copy.
    fn raise_boot(&mut self, began_ms: u64) -> Result<(), OpenError> {
        let path = self.path.join("boot");
        let failed = |error| OpenError::at(&path, error);
        let (last, is_new) = match self.files.read(&path) {
            Ok(bytes) => {
                (std::str::from_utf8(&bytes).ok().and_then(|it| it.trim().parse().ok()), false)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (None, true),
            Err(error) => return Err(failed(error)),
        };
        self.boot = last.map_or(1, |last: u64| last.saturating_add(1)).max(began_ms);
        // Written over, not anew: that needs no room on a full disk.
        let mut file = self.files.open(&path).map_err(failed)?;
        let text = format!("{:020}\n", self.boot);
        file.write_at(0, text.as_bytes()).and_then(|()| file.sync()).map_err(failed)?;
        if is_new { self.sync() } else { Ok(()) }
    }

    /// Whether the secret is the one under which everything here is named.
    fn check_cluster(&self, wanted: u64) -> Result<(), OpenError> {
        let found = self.secrets.cluster.fingerprint();
        let path = self.path.join(CLUSTER_SECRET);
        match found == wanted {
            true => Ok(()),
            false => Err(OpenError::OtherCluster { path, found, wanted }),
        }
    }

    /// An error when it has a part of the slots alone.
    pub(crate) fn check_whole(&self) -> Result<(), OpenError> {
        let is_whole = self.slots == SlotRange::ALL;
        if is_whole { Ok(()) } else { Err(OpenError::OnlyAPart { path: self.path.clone() }) }
    }

    /// Removes every log, for nothing speaks of them.
    pub(crate) fn clear_logs(&self) -> Result<(), OpenError> {
        for name in self.names()?.iter().filter(|name| is_log(name)) {
            self.remove_folder(&self.path.join(name))?;
        }
        self.sync()
    }

    /// Finishes a switch, once more after a crash in the middle of it.
    fn finish_switch(&self, logs: u16, switching: bool) -> Result<(), OpenError> {
        let names = self.names()?;
        for name in names.iter().filter(|name| is_log(name)) {
            let path = self.path.join(name);
            match name.strip_suffix(".new") {
                Some(kept) if switching => {
                    let kept = self.path.join(kept);
                    self.remove_folder(&kept)?;
                    self.files.rename(&path, &kept).map_err(|e| OpenError::at(&path, e))?;
                }
                Some(_) => self.remove_folder(&path)?,
                None if (0..logs).all(|number| *name != log_name(number)) => {
                    self.remove_folder(&path)?;
                }
                None => {}
            }
        }
        self.sync()?;
        if switching {
            self.write_format(logs, false)?;
        }
        Ok(())
    }

    /// A copy that came whole takes its log's place; what was handed out as a base goes.
    fn finish_copies(&self, logs: u16) -> Result<(), OpenError> {
        (0..logs).map(|number| log_folder(&self.path, number, "")).try_for_each(|log| {
            self.remove_folder(&base_folder(&log))?;
            copying::finish(&*self.files, &log)
        })
    }

    fn names(&self) -> Result<Vec<String>, OpenError> {
        self.files.names(&self.path).map_err(|error| OpenError::at(&self.path, error))
    }

    fn remove_folder(&self, path: &Path) -> Result<(), OpenError> {
        self.files.remove_folder(path).map_err(|error| OpenError::at(path, error))
    }

    fn sync(&self) -> Result<(), OpenError> {
        self.files.sync_folder(&self.path).map_err(|error| OpenError::at(&self.path, error))
    }
}

/// The folder of a log.
pub(crate) fn log_folder(folder: &Path, number: u16, suffix: &str) -> PathBuf {
    folder.join(log_name(number) + suffix)
}

impl Layout {
    /// Content of `FORMAT`.
    fn text(self) -> String {
        let Layout { logs, cluster, node, slots, switching } = self;
        let switching = if switching { SWITCHING } else { "" };
        let (node, (first, last)) = (node.number(), slots.ends());
        let slots = format!("slots {} {}-{}", Slot::BITS, first.number(), last.number());
        format!("{FORMAT}logs {logs}\ncluster {cluster:016x}\nnode {node}\n{slots}\n{switching}")
    }

    fn read(bytes: &[u8]) -> Option<Layout> {
        let mut lines =
            std::str::from_utf8(bytes).ok()?.strip_prefix(FORMAT)?.split_inclusive('\n');
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_suffix('\n');
        let logs = value("logs ")?.parse().ok().filter(|logs| (1..=LOGS_MAX).contains(logs))?;
        let cluster = value("cluster ").filter(|digits| digits.len() == 16)?;
        let cluster = u64::from_str_radix(cluster, 16).ok()?;
        let node = NodeId::new(value("node ")?.parse().ok()?)?;
        let (bits, slots) = value("slots ")?.split_once(' ')?;
        let (first, last) = slots.split_once('-').filter(|_| bits.parse() == Ok(Slot::BITS))?;
        let slot = |number: &str| Slot::new(number.parse().ok()?);
        let slots = SlotRange::new(slot(first)?, slot(last)?)?;
        let switching = match lines.next() {
            None => false,
            Some(SWITCHING) => true,
            Some(_) => return None,
        };
        lines.next().is_none().then_some(Layout { logs, cluster, node, slots, switching })
    }
}

fn log_name(number: u16) -> String {
    format!("log-{number:02}")
}

fn is_log(name: &str) -> bool {
    let digits = name.strip_suffix(".new").unwrap_or(name).strip_prefix("log-");
    digits.is_some_and(|digits| digits.len() == 2 && digits.parse::<u16>().is_ok())
}

/// Format of the folder; an error when it belongs to something else.
pub(crate) fn check_format(folder: &Path, files: &dyn FileSystem) -> Result<Format, OpenError> {
    let path = folder.join("FORMAT");
    let bytes = match files.read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let names = files.names(folder).map_err(|error| OpenError::at(folder, error))?;
            let ours = |name: &str| FIRST_START.contains(&name) || is_log(name);
            return match names.into_iter().find(|name| !ours(name)) {
                Some(found) => Err(OpenError::Foreign { path: folder.into(), found }),
                None => Ok(Format::First),
            };
        }
        Err(error) => return Err(OpenError::at(&path, error)),
    };
    Layout::read(&bytes).map(Format::Made).ok_or_else(|| {
        let found = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).trim().to_owned();
        OpenError::UnknownFormat { path, found }
    })
}

fn read_secrets(
    folder: &Path,
    fresh: Secrets,
    files: &dyn FileSystem,
    first: bool,
) -> Result<Secrets, OpenError> {
    let read = |name: &str, fresh: &[u8; 32]| match read_secret(folder, name, files)? {
        Some(secret) => Ok(secret),
        None if first => {
            let path = folder.join(name);
            let written = write_whole(files, &path, fresh);
            written.map_err(|error| OpenError::at(&path, error)).map(|()| *fresh)
        }
        None => {
            let path = folder.join(name);
            Err(OpenError::Corrupt { path, offset: 0, why: "the secret is missing" })
        }
    };
    let cluster = ClusterSecret::new(read(CLUSTER_SECRET, fresh.cluster.bytes())?);
    Ok(Secrets { cluster, node: read(NODE_SECRET, &fresh.node)? })
}

/// A secret of a folder, if it has it.
fn read_secret(
    folder: &Path,
    name: &str,
    files: &dyn FileSystem,
) -> Result<Option<[u8; 32]>, OpenError> {
    let path = folder.join(name);
    match files.read(&path) {
        Ok(bytes) => bytes.try_into().map(Some).map_err(|_| OpenError::Corrupt {
            path,
            offset: 0,
            why: "the secret does not have 32 bytes",
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::at(&path, error)),
    }
}

/// The secret of the cluster whose a folder is. It is not locked: nothing ever changes it.
pub(crate) fn cluster_of(
    folder: &Path,
    files: &dyn FileSystem,
) -> Result<ClusterSecret, OpenError> {
    let missing = || OpenError::Corrupt {
        path: folder.join(CLUSTER_SECRET),
        offset: 0,
        why: "the secret is missing",
    };
    let secret = read_secret(folder, CLUSTER_SECRET, files)?.ok_or_else(missing)?;
    Ok(ClusterSecret::new(secret))
}

/// Has a folder that is new or empty begin with this secret.
pub(crate) fn set_cluster(
    folder: &Path,
    secret: ClusterSecret,
    files: &dyn FileSystem,
) -> Result<(), OpenError> {
    files.make_folder(folder).map_err(|error| cannot_make(folder, error))?;
    let format = check_format(folder, files)?;
    let _lock = lock(folder, files)?;
    let path = folder.join(CLUSTER_SECRET);
    // After a first start that did not get to its end nothing is named under its secret yet.
    match format == Format::First && check_format(folder, files)? == Format::First {
        true => {
            let written = write_whole(files, &path, secret.bytes());
            written.map_err(|error| OpenError::at(&path, error))
        }
        false => Err(OpenError::HasCluster { path: folder.into() }),
    }
}

fn lock(folder: &Path, files: &dyn FileSystem) -> Result<Box<dyn Send + Sync>, OpenError> {
    let at = folder.join("LOCK");
    match files.lock(&at).map_err(|error| OpenError::at(&at, error))? {
        Lock::Taken(lock) => Ok(lock),
        Lock::Held(pid) => Err(OpenError::Locked { path: folder.into(), pid }),
    }
}

fn cannot_make(path: &Path, error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            OpenError::NotAFolder { path: path.into() }
        }
        _ => match OpenError::at(path, error) {
            OpenError::Failed { path, error } => OpenError::CannotCreate { path, error },
            other => other,
        },
    }
}

pub(crate) fn fjall(folder: &Path, cache_bytes: u64) -> Result<Arc<dyn State>, OpenError> {
    match FjallState::open(folder, cache_bytes) {
        Ok(state) => Ok(Arc::new(state)),
        Err(error) if error.full => Err(OpenError::NoSpace { path: folder.into() }),
        Err(error) => {
            let why = format!(
                "the state derived from the log is unreadable ({}). Move this folder away \
                 and start again: it is made anew if the log has everything from its beginning, \
                 and if not the start says so, and a backup is needed",
                error.why
            );
            Err(OpenError::Failed { path: folder.into(), error: io::Error::other(why) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_read_as_it_was_written_and_nothing_else_is() {
        for (logs, cluster, node, switching) in
            [(1, 0, 0, false), (4, u64::MAX, 1_023, true), (99, 7, 8, false)]
        {
            let node = NodeId::new(node).expect("allowed");
            let slots = SlotRange::ALL.parts(logs)[0];
            let layout = Layout { logs, cluster, node, slots, switching };
            let text = layout.text();
            assert_eq!(Layout::read(text.as_bytes()), Some(layout));
            for cut in 0..text.len() {
                let read = Layout::read(&text.as_bytes()[..cut]);
                let plain = Some(Layout { switching: false, ..layout });
                assert!(read.is_none() || read == plain && switching, "{cut}");
            }
        }
        let cluster = "cluster 0000000000000000\nnode 0\nslots 14 0-16383\n";
        for (logs, rest) in [
            ("logs 0\n", cluster),
            ("logs 100\n", cluster),
            ("logs 1\n", "\n"),
            ("logs 1\n", "cluster 0\nnode 0\nslots 14 0-16383\n"),
            ("logs 1\n", "cluster 0000000000000000\nnode 1024\nslots 14 0-16383\n"),
            ("logs 1\n", "cluster 0000000000000000\nnode 0\nslots 13 0-8191\n"),
            ("logs 1\n", "cluster 0000000000000000\nnode 0\nslots 14 0-16384\n"),
            ("logs 1\n", "cluster 0000000000000000\nnode 0\nslots 14 5-4\n"),
            ("logs 1\n", "cluster 000000000000000g\nnode 0\nslots 14 0-16383\n"),
            ("logs 1\n", "cluster 0000000000000000\nnode 0\nslots 14 0-16383\nother\n"),
        ] {
            let text = format!("{FORMAT}{logs}{rest}");
            assert_eq!(Layout::read(text.as_bytes()), None, "{text}");
        }
        let other = format!("holdline data 4\nlogs 1\n{cluster}");
        assert_eq!(Layout::read(other.as_bytes()), None);
    }

    #[test]
    fn names_of_logs_are_known_again() {
        assert!(is_log("log-00") && is_log("log-99.new"));
        assert!(!is_log("log-1") && !is_log("log-000") && !is_log("log-00.old"));
    }
}
