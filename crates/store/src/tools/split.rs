//! A data folder in parts by slots, and parts as one folder again.
//!
//! A part has everything of its slots: rows, timelines with seqs and cursors, in the log in which
//! they were, and what is remembered under once keys. Every part has what every log has. Names say
//! which slot something is of, so nobody is asked. A part says which slots it has, and no server
//! starts over it. Each is a folder of its own, so a part can go to another machine. Invariant:
//! parts joined are equal, line by line of an export, to the folder that was split.

use super::text::Sums;
use super::{Means, import, open, settings};
use crate::OpenError;
use crate::data::alive::Alive;
use crate::data::folder::{OpenLog, empty_folder};
use crate::data::rehome::Into;
use crate::data::{Place, Secrets};
use base::hash::SlotRange;
use base::secret::ClusterSecret;
use model::ports::log::RowHome;
use std::path::{Path, PathBuf};

/// Folders that are made: where, and random bytes for the secret of each as a node.
pub type Targets<'a> = &'a [(PathBuf, [u8; 32])];

/// Splits a folder into as many new ones as are named, with an equal part of the slots each. Gives
/// what each has.
pub fn split(
    path: &Path,
    targets: Targets<'_>,
    (means, now_s): (&Means, u32),
) -> Result<Vec<Sums>, OpenError> {
    let (place, mut logs) = open(path, means, now_s)?;
    let count = logs.len() as u16;
    let ranges = place.slots.parts(targets.len() as u16);
    let mut parts = Vec::new();
    for (range, (to, node)) in ranges.into_iter().zip(targets) {
        let cluster = place.secrets.cluster;
        parts.push(Part::begin((to, range), (cluster, *node), count, (means, now_s))?);
    }
    for (number, log) in (0..).zip(&mut logs) {
        log.rest().each(&mut |alive| {
            let home = alive.home();
            let here = |part: &&mut Part| match home {
                RowHome::Slot(slot) => part.place.slots.has(slot),
                RowHome::Everywhere => true,
            };
            parts.iter_mut().filter(here).try_for_each(|part| part.take(number, alive.clone()))
        })?;
        parts.iter_mut().try_for_each(Part::pause)?;
    }
    parts.into_iter().map(|part| part.end(count)).collect()
}

/// Makes one folder of parts that are neighbours: of all there are, a whole one.
pub fn join(
    paths: &[PathBuf],
    (to, node): (&Path, [u8; 32]),
    (means, now_s): (&Means, u32),
) -> Result<Sums, OpenError> {
    let mut parts: Vec<(Place, Vec<OpenLog>)> = Vec::new();
    for path in paths {
        parts.push(open(path, means, now_s)?);
    }
    parts.sort_by_key(|(place, _)| place.slots);
    let mut slots: Option<SlotRange> = None;
    let first = parts.first().map(|(place, logs)| (place.secrets.cluster, logs.len()));
    for (place, logs) in &parts {
        let fits = first == Some((place.secrets.cluster, logs.len()));
        let joined = slots.map_or(Some(place.slots), |slots| slots.joined(place.slots));
        let unfit = || OpenError::UnfitPart { path: place.path.clone() };
        slots = Some(joined.filter(|_| fits).ok_or_else(unfit)?);
    }
    let (Some((cluster, count)), Some(slots)) = (first, slots) else {
        return Err(OpenError::UnfitPart { path: to.into() });
    };
    let count = count as u16;
    let mut whole = Part::begin((to, slots), (cluster, node), count, (means, now_s))?;
    for (_, logs) in &mut parts {
        for (number, log) in (0..).zip(logs) {
            log.rest().each(&mut |alive| whole.take(number, alive))?;
            whole.pause()?;
        }
    }
    whole.end(count)
}

/// A folder in the making; what is there of it goes when it is not ended.
pub(super) struct Part {
    place: Place,
    into: Option<Into>,
    sums: Sums,
    whole: bool,
}

impl Part {
    pub(super) fn begin(
        (to, slots): (&Path, SlotRange),
        (cluster, node): (ClusterSecret, [u8; 32]),
        logs: u16,
        (means, now_s): (&Means, u32),
    ) -> Result<Part, OpenError> {
        let secrets = Secrets { cluster, node };
        let mut place = import::begin(to, means, secrets)?;
        place.slots = slots;
        let into = Into::begin(&place, "", &settings(secrets, logs), now_s)?;
        Ok(Part { place, into: Some(into), sums: Sums::default(), whole: false })
    }

    pub(super) fn take(&mut self, log: u16, alive: Alive) -> Result<(), OpenError> {
        let Sums { rows, timelines, entries, cursors, once } = &mut self.sums;
        *match &alive {
            Alive::Row { .. } => rows,
            Alive::Timeline { .. } => timelines,
            Alive::Entry { .. } => entries,
            Alive::Cursor { .. } => cursors,
            Alive::Once(_) => once,
            // It is refused below.
            Alive::Damaged { .. } => entries,
        } += 1;
        self.into().take(alive, Some(log))
    }

    pub(super) fn pause(&mut self) -> Result<(), OpenError> {
        self.into().pause()
    }

    fn into(&mut self) -> &mut Into {
        self.into.as_mut().expect("it is taken at the end")
    }

    pub(super) fn end(mut self, logs: u16) -> Result<Sums, OpenError> {
        let into = self.into.take().expect("it ends once");
        into.end(&self.place)?;
        self.place.write_format(logs, false)?;
        self.whole = true;
        Ok(std::mem::take(&mut self.sums))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.into.take());
        if !self.whole {
            empty_folder(&*self.place.files, &self.place.path);
        }
    }
}
