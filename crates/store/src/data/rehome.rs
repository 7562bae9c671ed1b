//! Giving everything alive a new home when the number of logs changed, and when it is imported.
//!
//! New logs are made beside the old ones; when they are on stable storage `FORMAT` says that they
//! count, and only then the old ones go. A crash before that leaves the old ones as they were, one
//! after it the new ones. Names say where something lives, so nobody is asked. Invariant: a
//! timeline's numbers stay, unless two timelines of one name meet; then the later one's messages
//! follow behind the earlier one's, and its cursors are forgotten.

use crate::data::alive::{Alive, cannot};
use crate::data::folder::OpenLog;
use crate::data::opened::{OpenFolder, settle};
use crate::data::{Place, Settings};
use crate::engine::rosters;
use crate::engine::{Import, OnceRecord};
use crate::{Fsync, OpenError};
use base::hash::{Slot, SlotRange};
use model::ports::log::{Append, Roster, RosterId, RowHome, Table, Write};
use model::timeline::{Seq, TimelineId};

/// Rows, or entries, that are written together.
const TOGETHER: usize = 256;

/// Entries that are written together, bytes about.
const BYTES_TOGETHER: usize = 1 << 20;

impl OpenFolder {
    /// Gives everything alive a home among the logs of the settings, if they are not as many as
    /// those in the folder.
    pub fn rehome(mut self, now_s: u32) -> Result<OpenFolder, OpenError> {
        let logs = self.settings.logs;
        if self.logs_on_disk() == logs {
            return Ok(self);
        }
        self.settle(now_s)?;
        self.check_room()?;
        let mut into = Into::begin(&self.place, ".new", &self.settings, now_s)?;
        for log in &mut self.logs {
            log.rest().each(&mut |alive| into.take(alive, None))?;
        }
        into.end(&self.place)?;
        self.logs.clear();
        self.place.switch(logs)?;
        let logs = self.place.open_logs("", logs, &self.settings)?;
        Ok(OpenFolder::new(self.place, self.settings, logs))
    }

    /// Whether a second copy of what is alive finds room: better known before than after.
    fn check_room(&self) -> Result<(), OpenError> {
        let path = &self.place.path;
        let free = self.place.files.free_bytes(path).map_err(|error| OpenError::at(path, error))?;
        let live: u64 = self.logs.iter().map(|log| log.engine.sizes().live_bytes).sum();
        match live <= free {
            true => Ok(()),
            false => Err(OpenError::NoSpace { path: path.clone() }),
        }
    }
}

/// Logs that are being filled.
pub(crate) struct Into {
    logs: Vec<OpenLog>,
    /// Slots whose members of rosters these logs have.
    slots: SlotRange,
    now_s: u32,
    /// Rows that wait to be written, each with its log.
    rows: Vec<(Option<u16>, Write)>,
    /// Entries that wait to be written, all of them for one log, and their weight.
    entries: (usize, Vec<Import>, usize),
    /// A timeline of which the last number is still to be said, and its log.
    open: Option<(TimelineId, Seq, Option<u16>)>,
    current: Option<Current>,
    /// Remembered appends, each with its log: written last, in the order in which they are
    /// forgotten.
    remembered: Vec<(usize, OnceRecord)>,
}

/// The timeline that is being filled.
#[derive(Clone, Copy)]
struct Current {
    timeline: TimelineId,
    log: usize,
    /// One of its name was there already.
    meets: bool,
}

impl Into {
    /// New logs in a folder. They sync only at the end, and lose nothing unasked.
    pub(crate) fn begin(
        place: &Place,
        suffix: &str,
        settings: &Settings,
        now_s: u32,
    ) -> Result<Into, OpenError> {
        let retention = Vec::new();
        let settings = Settings { fsync: Fsync::Never, retention, ..settings.clone() };
        let logs = place.open_logs(suffix, settings.logs, &settings)?;
        let (entries, rows, remembered) = ((0, Vec::new(), 0), Vec::new(), Vec::new());
        let slots = place.slots;
        Ok(Into { logs, slots, now_s, rows, entries, open: None, current: None, remembered })
    }

    /// Takes one thing in, into this log, or else where it lives. Things come in the order of
    /// [`crate::data::alive::Rest::each`].
    pub(crate) fn take(&mut self, alive: Alive, log: Option<u16>) -> Result<(), OpenError> {
        let count = self.logs.len() as u16;
        let log = log.or(match alive.home() {
            RowHome::Slot(slot) => Some(slot.home(count)),
            RowHome::Everywhere => None,
        });
        match alive {
            Alive::Row { table: Table::Rosters, key, value } => self.roster(&key, &value, log),
            Alive::Row { table, key, value } => {
                self.rows.push((log, Write::Put { table, key, value }));
                if self.rows.len() >= TOGETHER { self.write_rows() } else { Ok(()) }
            }
            Alive::Once(remembered) => {
                self.remembered.push((usize::from(log.unwrap_or(0)), remembered));
                Ok(())
            }
            Alive::Damaged { file, offset, .. } => {
                let why = "unreadable message: `holdline store salvage` skips it";
                Err(OpenError::Corrupt { path: file, offset, why })
            }
            Alive::Timeline { timeline, last } => {
                self.place_last()?;
                (self.open, self.current) = (Some((timeline, last, log)), None);
                Ok(())
            }
            Alive::Entry { timeline, seq, message } => {
                let current = self.current(timeline, log)?;
                match current.meets {
                    false => self.place(current.log, Import::Entry(timeline, seq, message)),
                    true => {
                        let append = Append {
                            message,
                            to: vec![timeline],
                            once: None,
                            heard: None,
                            ends: false,
                        };
                        self.write(current.log, &[Write::Append(append)])
                    }
                }
            }
            Alive::Cursor { timeline, reader, upto } => {
                self.place_last()?;
                let current = self.current(timeline, log)?;
                match current.meets {
                    false => {
                        self.write(current.log, &[Write::Acknowledge { timeline, reader, upto }])
                    }
                    true => Ok(()), // its numbers mean other messages here
                }
            }
        }
    }

    /// Every log has of a roster whom it is home to.
    fn roster(&mut self, key: &[u8], value: &[u8], log: Option<u16>) -> Result<(), OpenError> {
        let Some((id, roster)) = RosterId::of_row(key).zip(rosters::read(value)) else {
            let (path, why) = (self.logs[0].folder.clone(), "invalid row of a roster");
            return Err(OpenError::Corrupt { path, offset: 0, why });
        };
        let count = self.logs.len() as u16;
        for to in log.map_or(0..count, |log| log..log + 1) {
            let here = |member: &&TimelineId| {
                let slot = Slot::of(member.home_hash());
                self.slots.has(slot) && (log.is_some() || slot.home(count) == to)
            };
            let members = roster.members.iter().filter(here).copied().collect();
            let roster = Roster { version: roster.version, members };
            self.place(to.into(), Import::Roster(id, roster))?;
        }
        Ok(())
    }

    /// The things of one log have been taken in: what is still to be said of the last of them is.
    pub(crate) fn pause(&mut self) -> Result<(), OpenError> {
        self.place_last()?;
        self.current = None;
        Ok(())
    }

    /// Puts everything on stable storage and lets the logs go.
    pub(crate) fn end(mut self, place: &Place) -> Result<(), OpenError> {
        self.pause()?;
        self.write_entries()?;
        self.write_rows()?;
        self.write_remembered()?;
        self.logs.iter_mut().try_for_each(|log| settle(place, &mut log.engine, self.now_s))
    }

    /// Where a timeline goes: looked at once.
    fn current(&mut self, timeline: TimelineId, log: Option<u16>) -> Result<Current, OpenError> {
        if let Some(current) = self.current.filter(|current| current.timeline == timeline) {
            return Ok(current);
        }
        let by_hash = || base::hash::home(timeline.home_hash(), self.logs.len() as u16);
        let log = usize::from(log.unwrap_or_else(by_hash));
        self.write_entries()?;
        let standing = self.logs[log].rest().standing(timeline)?;
        let current = Current { timeline, log, meets: standing.last > 0 };
        self.current = Some(current);
        Ok(current)
    }

    /// The last timeline has had all its entries: its numbers go on behind the last one given.
    fn place_last(&mut self) -> Result<(), OpenError> {
        let Some((timeline, last, log)) = self.open.take() else { return Ok(()) };
        let current = self.current(timeline, log)?;
        match current.meets {
            false => self.place(current.log, Import::Last(timeline, last)),
            true => Ok(()),
        }
    }

    fn place(&mut self, log: usize, import: Import) -> Result<(), OpenError> {
        if self.entries.0 != log {
            self.write_entries()?;
        }
        let weight = match &import {
            Import::Entry(_, _, message) => message.weight(),
            Import::Roster(_, roster) => 16 * roster.members.len(),
            Import::Last(..) | Import::Once(_) => 0,
        };
        self.entries.0 = log;
        self.entries.1.push(import);
        self.entries.2 += weight;
        match self.entries.1.len() >= TOGETHER || self.entries.2 >= BYTES_TOGETHER {
            true => self.write_entries(),
            false => Ok(()),
        }
    }

    fn write_entries(&mut self) -> Result<(), OpenError> {
        let (log, entries, _) = std::mem::take(&mut self.entries);
        if entries.is_empty() {
            return Ok(());
        }
        let log = &mut self.logs[log];
        let placed = log.engine.import(self.now_s, &entries);
        let placed = placed.map_err(|error| cannot(&log.folder, error))?;
        // The number behind a timeline's last entry may be that entry's own.
        let mut all = placed.iter().zip(&entries);
        match all.all(|(new, entry)| *new || matches!(entry, Import::Last(..))) {
            true => Ok(()),
            false => {
                let why = "duplicate number in a timeline";
                Err(OpenError::Corrupt { path: log.folder.clone(), offset: 0, why })
            }
        }
    }

    fn write_rows(&mut self) -> Result<(), OpenError> {
        let rows = std::mem::take(&mut self.rows);
        for log in 0..self.logs.len() {
            let here = |home: &Option<u16>| home.is_none_or(|home| usize::from(home) == log);
            let some = rows.iter().filter(|(home, _)| here(home));
            let some: Vec<_> = some.map(|(_, write)| write.clone()).collect();
            self.write(log, &some)?;
        }
        Ok(())
    }

    fn write_remembered(&mut self) -> Result<(), OpenError> {
        let mut all = std::mem::take(&mut self.remembered);
        all.sort_by_key(|(log, remembered)| (*log, remembered.made_s, remembered.key));
        for some in all.chunk_by(|one, other| one.0 == other.0) {
            let OpenLog { engine, folder, .. } = &mut self.logs[some[0].0];
            for some in some.chunks(TOGETHER) {
                let imports = some.iter().map(|(_, remembered)| Import::Once(remembered.clone()));
                let imports: Vec<Import> = imports.collect();
                engine.import(self.now_s, &imports).map_err(|error| cannot(folder, error))?;
            }
        }
        Ok(())
    }

    /// Carries out writes behind the entries that wait.
    fn write(&mut self, log: usize, writes: &[Write]) -> Result<(), OpenError> {
        self.write_entries()?;
        if writes.is_empty() {
            return Ok(());
        }
        let log = &mut self.logs[log];
        let answers = log.engine.commit(self.now_s, writes);
        let failed = answers.into_iter().find_map(Result::err);
        failed.map_or(Ok(()), |error| Err(cannot(&log.folder, error)))
    }
}
