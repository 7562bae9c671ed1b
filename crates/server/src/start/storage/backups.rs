//! Scheduled backups: a copy of the data folder every `[backup] every_h`, and the removal of old
//! ones.
//!
//! One thread, which nobody waits for at the end of the server: a copy may take long. The folder
//! of copies is the only state, so a restart neither skips nor repeats a copy. Invariant: only
//! folders that this file named are removed, and a copy has its final name only when it is
//! complete.

use super::{Storage, tell_made};
use crate::clock;
use crate::config::BackupSection;
use base::calendar::{date, hour, unix_day};
use model::{event, tell};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Builder;
use std::time::Duration;
use store::tools::backup::Copied;

/// Names of copies begin so; the rest is the time at which they began, UTC.
const PREFIX: &str = "holdline-";

/// Names of incomplete copies end so.
const INCOMPLETE: &str = ".incomplete";

/// Seconds until a copy that failed is tried again.
const RETRY_S: u64 = 3_600;

/// Results of scheduled backups, for the metrics.
#[derive(Default)]
struct BackupTally {
    made: AtomicU64,
    failed: AtomicU64,
    /// Unix second of the newest copy; 0: none.
    newest_s: AtomicU64,
    /// Seconds between two copies.
    every_s: AtomicU64,
}

impl BackupTally {
    fn readings(&self) -> Vec<admin::MetricReading> {
        let reading = |name, help, value: &AtomicU64| admin::MetricReading {
            name,
            help,
            value: value.load(Ordering::Relaxed),
        };
        vec![
            reading("backups_total", "Scheduled backups made since the start.", &self.made),
            reading("backup_failures_total", "Scheduled backups that failed.", &self.failed),
            reading(
                "backup_newest_timestamp_seconds",
                "Unix time of the newest scheduled backup; 0: none.",
                &self.newest_s,
            ),
            reading(
                "backup_interval_seconds",
                "Time between two scheduled backups ([backup] every_h).",
                &self.every_s,
            ),
        ]
    }
}

/// Whether the server stops, and how that wakes the thread.
type Over = (Mutex<bool>, Condvar);

/// Makes a copy at a path, which does not exist yet.
type Copy<'a> = &'a dyn Fn(&Path) -> Result<Copied, String>;

/// Scheduled backups as `[backup]` has them, which a reload may change.
pub(in crate::start) struct Backups {
    storage: Weak<Storage>,
    tally: Arc<BackupTally>,
    running: Mutex<Option<RunningBackups>>,
    /// Held while a copy is made: one at a time, whatever settings it is made for.
    one: Arc<Mutex<()>>,
}

/// The thread. It ends soon after this is dropped.
struct RunningBackups {
    over: Arc<Over>,
}

impl Backups {
    /// Makes the schedule before any backup.
    pub(in crate::start) fn new(storage: &Arc<Storage>) -> Backups {
        let storage = Arc::downgrade(storage);
        Backups { storage, tally: Arc::default(), running: Mutex::default(), one: Arc::default() }
    }

    /// Sets the schedule of copies, if a folder is configured. A copy that is being made for the
    /// settings of before is completed first.
    pub(in crate::start) fn change(&self, section: &BackupSection) -> io::Result<()> {
        let folder = section.folder.clone();
        let next = folder.map(|folder| self.start(folder, section)).transpose()?;
        *self.running() = next;
        Ok(())
    }

    /// Stops making copies.
    pub(in crate::start) fn stop(&self) {
        *self.running() = None;
    }

    /// Their results; none while there are no backups.
    pub(in crate::start) fn readings(&self) -> Vec<admin::MetricReading> {
        let is_on = self.running().is_some();
        if is_on { self.tally.readings() } else { Vec::new() }
    }

    fn running(&self) -> MutexGuard<'_, Option<RunningBackups>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, folder: PathBuf, section: &BackupSection) -> io::Result<RunningBackups> {
        let (over, tally) = (Arc::<Over>::default(), Arc::clone(&self.tally));
        let running = RunningBackups { over: Arc::clone(&over) };
        let every_s = u64::from(section.every_h) * 3_600;
        tally.every_s.store(every_s, Ordering::Relaxed);
        let (keep, told) = (section.keep as usize, Arc::clone(&over));
        let schedule = Schedule { folder, every_s, keep, tally, over: told };
        let (storage, one) = (Weak::clone(&self.storage), Arc::clone(&self.one));
        let life = move || {
            let copy = |to: &Path| match storage.upgrade() {
                Some(storage) => storage.copy(to),
                None => Err("the server is stopping".to_owned()),
            };
            let mut wait = Duration::ZERO;
            while !is_over(&over, wait) && Weak::strong_count(&storage) > 0 {
                let _one = one.lock().unwrap_or_else(PoisonError::into_inner);
                wait = schedule.turn(clock::unix_s().into(), &copy);
            }
        };
        Builder::new().name("backup".into()).spawn(life)?;
        Ok(running)
    }
}

impl Drop for RunningBackups {
    fn drop(&mut self) {
        *self.over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.over.1.notify_all();
    }
}

/// Waits for so long, or until the server stops.
fn is_over((over, ended): &Over, wait: Duration) -> bool {
    let over = over.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = ended.wait_timeout_while(over, wait, |over| !*over);
    *waited.unwrap_or_else(PoisonError::into_inner).0
}

/// When copies are due, and which are kept.
struct Schedule {
    folder: PathBuf,
    every_s: u64,
    keep: usize,
    tally: Arc<BackupTally>,
    over: Arc<Over>,
}

impl Schedule {
    /// Makes a copy if one is due; gives the time to the next look.
    fn turn(&self, now_s: u64, copy: Copy<'_>) -> Duration {
        let wait_s = match self.attempt(now_s, copy) {
            Ok(wait_s) => wait_s,
            // The end of the server cuts a copy off, which is no fault of anybody.
            Err(_) if is_over(&self.over, Duration::ZERO) => RETRY_S,
            Err(error) => {
                self.tally.failed.fetch_add(1, Ordering::Relaxed);
                let to = self.folder.display();
                tell!(event::BACKUP_FAILED, %to, error);
                RETRY_S
            }
        };
        // A clock that is set back must not put a copy off for longer than usual.
        Duration::from_secs(wait_s.clamp(1, self.every_s))
    }

    /// Makes a copy if one is due; gives the seconds until the next.
    fn attempt(&self, now_s: u64, copy: Copy<'_>) -> Result<u64, String> {
        let names = self.names()?;
        let newest_s = names.iter().filter_map(|name| made_s(name)).max();
        self.tally.newest_s.store(newest_s.unwrap_or_default(), Ordering::Relaxed);
        let due_s = newest_s.map_or(0, |made_s| made_s.min(now_s) + self.every_s);
        if now_s < due_s {
            return Ok(due_s - now_s);
        }
        for name in names.iter().filter(|name| is_incomplete(name)) {
            self.remove(name)?;
        }
        let name = name(now_s);
        let to = self.folder.join(&name);
        let unfinished = self.folder.join(format!("{name}{INCOMPLETE}"));
        let made = copy(&unfinished).and_then(|copied| {
            std::fs::rename(&unfinished, &to).map_err(at(&to))?;
            Ok(copied)
        });
        match made {
            Ok(copied) => tell_made(&to, &copied),
            Err(why) => {
                // Of a copy that failed nothing is left but perhaps its folder.
                let _ = std::fs::remove_dir_all(&unfinished);
                return Err(why);
            }
        }
        self.tally.made.fetch_add(1, Ordering::Relaxed);
        self.tally.newest_s.store(now_s, Ordering::Relaxed);
        for old in beyond(self.names()?, self.keep) {
            self.remove(&old)?;
        }
        Ok(self.every_s)
    }

    /// Names in the folder, which is created if it is missing.
    fn names(&self) -> Result<Vec<String>, String> {
        std::fs::create_dir_all(&self.folder).map_err(at(&self.folder))?;
        let entries = std::fs::read_dir(&self.folder).map_err(at(&self.folder))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.collect())
    }

    fn remove(&self, name: &str) -> Result<(), String> {
        let path = self.folder.join(name);
        std::fs::remove_dir_all(&path).map_err(at(&path))
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// The name of a copy that begins at this Unix second.
fn name(unix_s: u64) -> String {
    let minute = hour(unix_s).replace(':', "-");
    format!("{PREFIX}{}T{minute}-{:02}Z", date(unix_s), unix_s % 60)
}

/// The Unix second in the name of a complete copy.
fn made_s(found: &str) -> Option<u64> {
    let mut parts = found.strip_prefix(PREFIX)?.strip_suffix('Z')?.split(['-', 'T']);
    let mut part = || parts.next()?.parse::<u16>().ok();
    let (year, month, day) = (part()?, part()?, part()?);
    let (hours, minutes, seconds) = (part()?, part()?, part()?);
    let day = unix_day(year, month.try_into().ok()?, day.try_into().ok()?)?;
    let of_day = u64::from(hours) * 3_600 + u64::from(minutes) * 60 + u64::from(seconds);
    let unix_s = u64::try_from(day).ok()? * 86_400 + of_day;
    // Another spelling of the same time is not a name of ours.
    (name(unix_s) == found).then_some(unix_s)
}

fn is_incomplete(name: &str) -> bool {
    name.strip_suffix(INCOMPLETE).is_some_and(|whole| made_s(whole).is_some())
}

/// Complete copies but for so many of the newest.
fn beyond(names: Vec<String>, keep: usize) -> Vec<String> {
    let mut copies: Vec<(u64, String)> =
        names.into_iter().filter_map(|name| Some((made_s(&name)?, name))).collect();
    copies.sort_unstable();
    copies.truncate(copies.len().saturating_sub(keep));
    copies.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-29 08:03:21 UTC.
    const NOW_S: u64 = 1_795_939_401;
    const DAY_S: u64 = 86_400;

    fn schedule(folder: &Path, keep: usize) -> Schedule {
        Schedule {
            folder: folder.into(),
            every_s: DAY_S,
            keep,
            tally: Arc::default(),
            over: Arc::default(),
        }
    }

    fn copy(to: &Path) -> Result<Copied, String> {
        std::fs::create_dir(to).map(|()| Copied::default()).map_err(|error| error.to_string())
    }

    fn names(schedule: &Schedule) -> Vec<String> {
        let mut names = schedule.names().expect("a folder");
        names.sort();
        names
    }

    fn counts(schedule: &Schedule) -> Vec<u64> {
        schedule.tally.readings().iter().take(3).map(|reading| reading.value).collect()
    }

    #[test]
    fn a_name_has_the_time_of_the_copy_and_nothing_else_is_taken_for_one() {
        assert_eq!(name(NOW_S), "holdline-2026-11-29T08-03-21Z");
        assert_eq!(made_s(&name(NOW_S)), Some(NOW_S));
        for other in
            ["monday", "holdline-", "holdline-2026-11-29", "holdline-2026-11-29T08-03-61Z", ""]
        {
            assert_eq!(made_s(other), None, "{other}");
        }
        assert!(is_incomplete("holdline-2026-11-29T08-03-21Z.incomplete"));
        assert!(!is_incomplete("mine.incomplete") && !is_incomplete(&name(NOW_S)));
    }

    #[test]
    fn a_copy_is_made_when_it_is_due_and_the_oldest_are_removed() {
        let place = tempfile::tempdir().expect("a folder");
        let schedule = schedule(&place.path().join("new/folder"), 2);
        let day = Duration::from_secs(DAY_S);
        assert_eq!(schedule.turn(NOW_S, &copy), day);
        std::fs::create_dir(schedule.folder.join("mine")).expect("a folder");
        std::fs::create_dir(schedule.folder.join(name(5) + INCOMPLETE)).expect("a folder");
        // After a restart: the folder says that none is due.
        assert_eq!(schedule.turn(NOW_S + 60, &copy), day - Duration::from_secs(60));
        assert_eq!(counts(&schedule), [1, 0, NOW_S]);
        for days in 1..=3 {
            assert_eq!(schedule.turn(NOW_S + days * DAY_S, &copy), day);
        }
        let kept = [name(NOW_S + 2 * DAY_S), name(NOW_S + 3 * DAY_S), "mine".to_owned()];
        assert_eq!(names(&schedule), kept);
        assert_eq!(counts(&schedule), [4, 0, NOW_S + 3 * DAY_S]);
    }

    #[test]
    fn a_copy_that_fails_is_counted_removes_nothing_and_is_tried_again_in_an_hour() {
        let place = tempfile::tempdir().expect("a folder");
        let schedule = schedule(place.path(), 1);
        schedule.turn(NOW_S, &copy);
        let full = |to: &Path| {
            copy(to)?;
            Err("the disk is full".to_owned())
        };
        let later_s = NOW_S + DAY_S;
        assert_eq!(schedule.turn(later_s, &full), Duration::from_secs(RETRY_S));
        assert_eq!(names(&schedule), [name(NOW_S)], "the old copy is all there is");
        assert_eq!(counts(&schedule), [1, 1, NOW_S]);
        schedule.turn(later_s + RETRY_S, &copy);
        assert_eq!(names(&schedule), [name(later_s + RETRY_S)]);
    }

    #[test]
    fn a_copy_that_the_end_of_the_server_cuts_off_is_no_failure() {
        let place = tempfile::tempdir().expect("a folder");
        let schedule = schedule(place.path(), 1);
        *schedule.over.0.lock().expect("held") = true;
        schedule.turn(NOW_S, &|_| Err("the server is stopping".to_owned()));
        assert_eq!((counts(&schedule), names(&schedule)), (vec![0, 0, 0], vec![]));
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_a_failure() {
        let place = tempfile::tempdir().expect("a folder");
        let file = place.path().join("file");
        std::fs::write(&file, "").expect("a file");
        let schedule = schedule(&file.join("below"), 1);
        schedule.turn(NOW_S, &copy);
        assert_eq!(counts(&schedule), [0, 1, 0]);
    }

    #[test]
    fn a_clock_that_was_set_back_puts_a_copy_off_by_one_period_at_most() {
        let place = tempfile::tempdir().expect("a folder");
        let schedule = schedule(place.path(), 1);
        schedule.turn(NOW_S, &copy);
        let before_s = NOW_S - 100 * DAY_S;
        assert_eq!(schedule.turn(before_s, &copy), Duration::from_secs(DAY_S));
    }
}
