//! The copy of a log on this disk, as its machine knows it.

use cluster::batch::{LogEnd, StreamBatch};
use cluster::own_log::OwnLog;
use store::engine::Engine;
use store::log::{Position, ReadError};

/// Records whose batches are remembered, about: what a stream may differ in without a new copy.
const RECORDS: u64 = 50_000;

/// The end of a log as the machines name it.
pub(crate) fn end_of(at: Position) -> LogEnd {
    let Position { place, epoch, index, chain } = at;
    LogEnd { segment: place.segment, offset: place.offset, epoch, index, chain }
}

/// The copy of an engine: the ends of its last batches, and how far it is acknowledged.
pub(crate) fn own_log(engine: &Engine) -> OwnLog {
    let (end, acknowledged) = (engine.position(), engine.acknowledged());
    // Segments that died leave holes: then what is behind the acknowledged end must do.
    let from = [end.index.saturating_sub(RECORDS).max(1), acknowledged.index.max(1)];
    let ends = from.iter().find_map(|from| ends(engine, *from).ok().filter(|it| !it.is_empty()));
    let mut ends = ends.unwrap_or_default();
    // Where nothing is remembered, and where the log begins a segment that is still empty.
    if ends.last().is_none_or(|last| !last.is_same(&end_of(end))) {
        ends = vec![end_of(end)];
    } else if let Some(last) = ends.last_mut() {
        *last = end_of(end);
    }
    OwnLog::new(ends, acknowledged.index)
}

fn ends(engine: &Engine, from: u64) -> Result<Vec<LogEnd>, ReadError> {
    let mut ends = Vec::new();
    let Some(mut batches) = engine.batches(from)? else { return Ok(ends) };
    if from == 1 {
        ends.push(LogEnd::default());
    }
    while let Some(batch) = batches.read()? {
        ends.push(end_of(batch.end()));
    }
    Ok(ends)
}

/// The batches of a log from an index on.
pub(crate) fn batches_from(engine: &Engine, from: u64) -> Result<Vec<StreamBatch>, ReadError> {
    let mut all = Vec::new();
    let Some(mut batches) = engine.batches(from)? else { return Ok(all) };
    while let Some(batch) = batches.read()? {
        all.extend(StreamBatch::take(&mut &batch.bytes[..]));
    }
    Ok(all)
}

/// Index up to which a new copy equals the old one, whose acknowledged end was `before`. It tells
/// whether anything acknowledged is missing, not how much of it: the old copy is gone.
pub(crate) fn kept(engine: &Engine, before: Position) -> u64 {
    let end = engine.position();
    if before.index == 0 || end.index < before.index {
        return end.index.min(before.index);
    }
    let found = engine.batches(before.index).ok().flatten();
    let Some(mut batches) = found else { return before.index }; // compaction removed it
    match batches.read() {
        Ok(Some(batch)) if batch.last == before.index && batch.chain == before.chain => {
            before.index
        }
        Ok(Some(_)) => before.index - 1,
        Ok(None) | Err(_) => before.index,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::batch::LogLeader;
    use cluster::own_log::Compared;
    use model::id::NodeId;
    use std::path::Path;
    use std::sync::Arc;
    use store::data::{Folder, FollowingFolder, Secrets, Settings};
    use store::files::Disk;
    use store::log::Followed;

    const NOW_S: u32 = 1_700_000_000;

    fn open(path: &Path) -> FollowingFolder {
        let settings = Settings::new(Secrets::of([7; 64]), 1);
        Folder::open_to_follow(path, settings, Arc::new(Disk)).expect("it opens")
    }

    /// A log of so many Leads of a node.
    fn leads(engine: &mut Engine, node: u16, count: u32) -> Vec<StreamBatch> {
        let leader = LogLeader { node: NodeId::new(node).expect("a node"), boot: 1 };
        let mut all = Vec::new();
        for _ in 0..count {
            let at = own_log(engine).end();
            let lead = StreamBatch::lead(at, at.epoch + 1, leader);
            let followed = engine.follow(NOW_S, lead.bytes());
            assert_eq!(followed, Ok(Followed::New), "it stands where the store wants it");
            engine.sync().expect("a disk");
            all.push(lead);
        }
        all
    }

    #[test]
    fn the_machines_and_the_store_agree_where_a_lead_stands_and_what_a_log_has() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut following = open(folder.path());
        let engine = following.open(0, None).expect("it is new");
        let empty = own_log(engine);
        assert_eq!((empty.end().index, empty.acknowledged()), (0, 0));
        let all = leads(engine, 1, 3);
        assert!(all.windows(2).all(|pair| pair[1].end().segment == pair[0].end().segment + 1));
        for begun in [own_log(engine), {
            drop(following);
            following = open(folder.path());
            own_log(following.open(0, None).expect("it opens"))
        }] {
            assert!(begun.end().is_same(&all[2].end()));
            assert!(all.iter().all(|lead| begun.compare(lead) == Compared::Has));
            assert_eq!(begun.synced(), 3);
        }
        let engine = following.engine(0).expect("it is open");
        let read = batches_from(engine, 2).expect("it reads");
        assert!(read.iter().zip(&all[1..]).all(|(read, lead)| read.end() == lead.end()));
        assert_eq!((read.len(), batches_from(engine, 4).expect("none").len()), (2, 0));
    }

    #[test]
    fn a_new_copy_that_lacks_what_was_acknowledged_is_noticed() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let [mut one, mut other] = folders.each_ref().map(|it| open(it.path()));
        let one = one.open(0, None).expect("it is new");
        leads(one, 1, 2);
        let before = one.position();
        leads(one, 1, 1);
        assert_eq!(kept(one, before), 2, "it has that and more");
        assert_eq!(kept(one, one.position()), 3);
        let other = other.open(0, None).expect("it is new");
        leads(other, 2, 1);
        assert_eq!(kept(other, before), 1, "it is shorter");
        leads(other, 2, 2);
        assert_eq!(kept(other, before), 1, "another batch stands there");
        assert_eq!(kept(other, Position::default()), 0, "nothing was known");
    }
}
