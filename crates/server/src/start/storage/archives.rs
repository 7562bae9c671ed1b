//! The archive of messages as it is configured: which database, and where in the logs messages wait
//! for it.

use super::super::{Seeds, StartError};
use super::{Folder, Storage};
use crate::access::{LogWay, database_settings};
use crate::archive::{Archive, ArchiveCounts, ArchivePlace, ArchivePlaces, MessageReader};
use crate::config::Config;
use database::MySqlArchive;
use model::id::ShardId;
use model::ports::log::Party;
use std::sync::Arc;

/// Whether messages go to an archive.
pub(in crate::start) fn is_wanted(config: &Config) -> bool {
    !config.chat.archive.reveal().is_empty()
}

/// Faults of its configuration.
pub(in crate::start) fn unusable(config: &Config) -> Option<String> {
    open(config).err().map(|error| error.to_string())
}

/// The archive that is configured; nobody is called yet.
pub(in crate::start) fn open(config: &Config) -> Result<Option<Arc<Archive>>, StartError> {
    if !is_wanted(config) {
        return Ok(None);
    }
    let named = |why| StartError(format!("[mysql] {why}"));
    let settings = database_settings(config.chat.archive.reveal(), &config.mysql);
    let tables = MySqlArchive::new(&settings.map_err(named)?).map_err(named)?;
    let read = MessageReader {
        message: chat::archived,
        amended_row: chat::amended_row,
        state: chat::archived_state,
    };
    Ok(Some(Archive::new(Arc::new(tables), read)))
}

/// Where messages wait and will wait: those of each shard, of so many, and what an earlier number
/// of them left.
pub(in crate::start) fn places(
    folder: &mut Folder,
    is_there: bool,
    shards: usize,
) -> Result<ArchivePlaces, StartError> {
    let mut earlier = folder.archive_places(is_there)?;
    if !is_there {
        return Ok(ArchivePlaces { earlier, own: Vec::new() });
    }
    let place = |shard| {
        let timeline = chat::archive_timeline(folder.home, ShardId(shard), shards as u16);
        (shard, timeline)
    };
    let own: Vec<ArchivePlace> = (0..shards as u16).map(place).collect();
    earlier.retain(|place| !own.contains(place));
    Ok(ArchivePlaces { earlier, own })
}

/// Starts its thread.
pub(in crate::start) fn begin(
    archive: Option<&Arc<Archive>>,
    seeds: &Seeds,
    storage: &Arc<Storage>,
    places: ArchivePlaces,
) -> Result<(), StartError> {
    let Some(archive) = archive else { return Ok(()) };
    let logs = storage.logs.clone();
    let way = LogWay {
        submit: Box::new(move |log, calls| logs.submit(Party::Archive, log, calls).is_ok()),
        home: seeds.home,
        shards: seeds.count as u16,
        node: seeds.node,
    };
    archive.begin(way, places).map_err(StartError)
}

/// Figures for whoever looks.
pub(in crate::start) fn readings(counts: ArchiveCounts) -> Vec<admin::MetricReading> {
    let reading = |name, help, value| admin::MetricReading { name, help, value };
    vec![
        reading("archive_up", "1 if the archive accepts messages.", counts.up),
        reading("archive_waiting", "Messages queued for the archive.", counts.waiting),
        reading("archive_waiting_seconds", "Age of the oldest queued message.", counts.waiting_s),
        reading("archive_taken_total", "Messages accepted by the archive.", counts.taken),
        reading("archive_lost_total", "Messages dropped before the archive had them.", counts.lost),
        reading("archive_faults_total", "Failed calls to the archive.", counts.faults),
    ]
}
