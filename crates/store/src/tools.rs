//! Tools of an operator for a data folder that no server uses.
//!
//! Each tool locks the folder, reads it as a start does (a torn tail is cut off, a checkpoint is
//! made) and returns values; printing is for whoever calls. They know no clock: `now_s` is Unix
//! seconds, for ages. Invariant: damage is never skipped in silence.

pub mod backup;
pub mod check;
pub mod compact;
pub mod export;
pub mod import;
pub mod member;
pub mod salvage;
pub mod secret;
pub mod split;
pub mod stats;
#[cfg(test)]
mod tests;
mod text;

pub use text::Sums;

use crate::OpenError;
use crate::data::folder::{Format, Layout, OpenLog};
use crate::data::opened::settle;
use crate::data::{Place, Secrets, Settings, States};
use crate::files::Disk;
use model::ports::files::FileSystem;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// By what means a folder is read: the real disk and fjall, unless a test says otherwise.
#[derive(Clone)]
pub struct Means {
    pub(crate) files: Arc<dyn FileSystem>,
    pub(crate) states: Arc<States>,
}

impl Default for Means {
    fn default() -> Means {
        Means { files: Arc::new(Disk), states: Arc::new(crate::data::folder::fjall) }
    }
}

/// Settings under which a tool opens a folder with so many logs: no limit, nothing is dropped.
fn settings(secrets: Secrets, logs: u16) -> Settings {
    let (log_bytes_max, once_count_max, once_age_s_max) = (u64::MAX / 4, usize::MAX, u32::MAX);
    let settings = Settings::new(secrets, logs);
    Settings { log_bytes_max, once_count_max, once_age_s_max, ..settings }
}

/// Locks a folder of this version that is there.
fn take(path: &Path, means: &Means) -> Result<(Place, u16), OpenError> {
    let format = path.join("FORMAT");
    if let Err(error) = means.files.read(&format) {
        let error = match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::new(io::ErrorKind::NotFound, "there is no data folder here")
            }
            _ => error,
        };
        return Err(OpenError::at(&format, error));
    }
    let (files, states) = (Arc::clone(&means.files), Arc::clone(&means.states));
    match Place::take(path, Secrets::of([0; 64]), files, states)? {
        (place, Format::Made(Layout { logs, .. })) => {
            place.check_logs(logs)?;
            Ok((place, logs))
        }
        (_, Format::First) => Err(OpenError::UnknownFormat { path: format, found: "".into() }),
    }
}

/// The logs of a folder, with a checkpoint made.
fn open(path: &Path, means: &Means, now_s: u32) -> Result<(Place, Vec<OpenLog>), OpenError> {
    let (place, logs) = take(path, means)?;
    let mut logs = place.open_logs("", logs, &settings(place.secrets, logs))?;
    logs.iter_mut().try_for_each(|log| settle(&place, &mut log.engine, now_s))?;
    Ok((place, logs))
}
