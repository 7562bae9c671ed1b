//! One process as /proc/PID shows it.

use super::Identity;
use crate::host::kib;
use crate::lines;
use crate::place::KernelFiles;

/// Threads that are looked at one by one, at most.
const THREADS_MAX: usize = 256;
/// Descriptors that are counted at every look where the kernel does not tell their number.
const COUNTED_MAX: u64 = 65_536;

/// Resources that a process holds and has used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Member {
    pub identity: Identity,
    pub spent: Spent,
    pub threads: u64,
    pub rss: Option<u64>,
    pub virtual_: Option<u64>,
    pub anon: Option<u64>,
    pub swap: Option<u64>,
    pub fds: Option<u64>,
    pub fds_max: Option<u64>,
    /// Nanoseconds that each of its threads ran.
    pub ran: Vec<(u32, u64)>,
}

/// Resources that a process has used so far.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Spent {
    pub user_ticks: u64,
    pub system_ticks: u64,
    pub switches: Option<u64>,
    pub switches_forced: Option<u64>,
    pub disk_read: Option<u64>,
    pub disk_written: Option<u64>,
}

impl Spent {
    /// Adds another's.
    pub(super) fn add(&mut self, other: &Spent) {
        self.user_ticks = self.user_ticks.saturating_add(other.user_ticks);
        self.system_ticks = self.system_ticks.saturating_add(other.system_ticks);
        for (mine, theirs) in [
            (&mut self.switches, other.switches),
            (&mut self.switches_forced, other.switches_forced),
            (&mut self.disk_read, other.disk_read),
            (&mut self.disk_written, other.disk_written),
        ] {
            *mine = theirs.map(|theirs| mine.unwrap_or(0).saturating_add(theirs)).or(*mine);
        }
    }
}

/// /proc/PID/stat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stat {
    pub state: char,
    pub parent: u32,
    pub user_ticks: u64,
    pub system_ticks: u64,
    pub threads: u64,
    pub started: u64,
}

impl Stat {
    /// Reads the text (proc_pid_stat(5)). A program's name may hold anything, brackets too, so that
    /// counting begins behind the last one.
    pub(super) fn of(text: &str) -> Option<Stat> {
        let words: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        Some(Stat {
            state: words.first()?.chars().next()?,
            parent: u32::try_from(number(1)?).ok()?,
            user_ticks: number(11)?,
            system_ticks: number(12)?,
            threads: number(17)?,
            started: number(19)?,
        })
    }
}

impl Member {
    /// Reads a process; `None`: it is gone. Where counting descriptors is dear, it is done only if
    /// `thoroughly` is set.
    pub(super) fn of(place: &KernelFiles, pid: u32, thoroughly: bool) -> Option<Member> {
        let folder = format!("proc/{pid}");
        let stat = Stat::of(&place.text(&format!("{folder}/stat"))?)?;
        let status = place.text(&format!("{folder}/status")).unwrap_or_default();
        let limits = place.text(&format!("{folder}/limits")).unwrap_or_default();
        let io = place.text(&format!("{folder}/io")).unwrap_or_default();
        let few = lines::keyed(&status, "FDSize").is_none_or(|size| size <= COUNTED_MAX);
        let mut spent = Spent {
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            disk_read: lines::keyed(&io, "read_bytes"),
            disk_written: lines::keyed(&io, "write_bytes"),
            ..Spent::default()
        };
        let mut ran = Vec::new();
        for thread in place.numbers(&format!("{folder}/task")).take(THREADS_MAX) {
            let text = |file| place.text(&format!("{folder}/task/{thread}/{file}"));
            let switches = text("status").unwrap_or_default();
            spent.add(&Spent {
                switches: lines::keyed(&switches, "voluntary_ctxt_switches"),
                switches_forced: lines::keyed(&switches, "nonvoluntary_ctxt_switches"),
                ..Spent::default()
            });
            let ns = text("schedstat").and_then(|text| lines::nth(&text, 0));
            ran.extend(ns.map(|ns| (thread, ns)));
        }
        Some(Member {
            identity: Identity { pid, started: stat.started },
            spent,
            threads: stat.threads,
            rss: kib(&status, "VmRSS"),
            virtual_: kib(&status, "VmSize"),
            anon: kib(&status, "RssAnon"),
            swap: kib(&status, "VmSwap"),
            fds: fds(place, &format!("{folder}/fd"), few || thoroughly),
            fds_max: open_files_max(&limits, 0),
            ran,
        })
    }
}

impl Member {
    /// How much of its limit of descriptors is used.
    pub(super) fn fill(&self) -> Option<f64> {
        Some(self.fds? as f64 / self.fds_max?.max(1) as f64)
    }
}

/// Descriptors open: since Linux 6.2 the size of their folder, else as many as there are names.
fn fds(place: &KernelFiles, folder: &str, count: bool) -> Option<u64> {
    let told = std::fs::metadata(place.path(folder)).ok()?.len();
    if place.is_real() && told > 0 {
        return Some(told);
    }
    (count && std::fs::read_dir(place.path(folder)).is_ok())
        .then(|| place.names(folder).count() as u64)
}

/// A limit of open files in /proc/PID/limits: the soft one (0) or the hard one (1).
pub(crate) fn open_files_max(limits: &str, which: usize) -> Option<u64> {
    limit_of(limits, "Max open files", which)
}

/// The limit of this name there.
pub(crate) fn limit_of(limits: &str, name: &str, which: usize) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    let limit = line.split_ascii_whitespace().nth(which)?;
    if limit == "unlimited" { Some(u64::MAX) } else { limit.parse().ok() }
}

/// Ticks of a second in which the kernel counts processor time.
pub(super) fn ticks_per_s() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_columns() {
        let text = "7 (a) b) (c) S 1 7 7 0 -1 4194560 1 2 3 4 250 50 7 8 20 0 12 0 9000 1 2 3\n";
        let stat = Stat::of(text).expect("a whole line");
        assert_eq!((stat.state, stat.parent, stat.threads, stat.started), ('S', 1, 12, 9_000));
        assert_eq!((stat.user_ticks, stat.system_ticks), (250, 50));
        for text in ["", "7 (a", "7 (a) S", "7 (a) S -1 7", "7 (a) S 1 7 7 0 -1 4 1 2 3 4 x"] {
            assert_eq!(Stat::of(text), None, "{text}");
        }
    }

    #[test]
    fn limits_are_read_whatever_they_are() {
        let text = "Limit  Soft Limit  Hard Limit Units\nMax open files   20000   30000  files\n";
        assert_eq!([0, 1].map(|which| open_files_max(text, which)), [Some(20_000), Some(30_000)]);
        assert_eq!(open_files_max("Max open files  unlimited unlimited files", 1), Some(u64::MAX));
        assert_eq!([open_files_max("", 0), open_files_max("Max open files", 0)], [None; 2]);
    }

    #[test]
    fn what_is_unknown_of_one_is_known_of_all_if_one_tells() {
        let told = Spent { disk_read: Some(5), user_ticks: 1, ..Spent::default() };
        let mut all = Spent::default();
        all.add(&told);
        all.add(&Spent { user_ticks: 2, ..Spent::default() });
        assert_eq!((all.disk_read, all.user_ticks, all.disk_written), (Some(5), 3, None));
    }
}
