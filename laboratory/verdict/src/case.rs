//! A run as detectors look at it: whose columns are whose, and what happened to clients meanwhile.
//!
//! Server and tester may be one machine; then its counters appear under either owner and belong to
//! both. The invariant: a machine that has no column of a name gives `None`, and nobody guesses.

use crate::columns::is_of;
use crate::saturation::LAG_US;
use crate::window::{self, Window};
use crate::{fit, words};
use lab::cause::Cause;
use lab::host::HostRow;
use lab::run::{Note, Run, StageRun};
use lab::series::Series;
use lab::timing::Timing;

/// How a note begins that tells of something broken on purpose.
pub const BROKEN: &str = "broken on purpose: ";
/// How a note begins that tells of its end.
pub const MENDED: &str = "mended: ";
/// How long after its end something broken still shows.
const SHOWS_MS: u64 = 15_000;
/// How long something broken shows whose end nobody tells.
const SHOWS_LONG_MS: u64 = 60_000;

/// Share of a second in which threads of the laboratory's machine waited for a core (PSI), and of
/// its cores that a hypervisor gave to others, from which on a time says nothing about the server.
const WAITED: f64 = 0.2;
const STOLEN: f64 = 0.05;

/// Clients had been waiting so long, at most, when a counter of the kernel showed why.
const ECHO_MS: u64 = 5_000;

/// A run, and whether its two ends are one machine.
pub struct Case<'a> {
    /// The run.
    pub run: &'a Run,
    /// Whether server and tester are on one machine.
    pub shared: bool,
}

impl<'a> Case<'a> {
    /// The case of a run.
    pub fn of(run: &'a Run) -> Case<'a> {
        Case { run, shared: run.is_on_loopback() || same_machine(&run.series) }
    }

    /// Figures over time.
    pub fn series(&self) -> &'a Series {
        &self.run.series
    }

    /// The whole run.
    pub fn whole(&self) -> Window {
        (0, u64::MAX)
    }

    /// The server's column of this name.
    pub fn of_target(&self, name: &str) -> Option<String> {
        let own = format!("target.{name}");
        let same = format!("tester.{name}");
        let machine = !name.starts_with("process.");
        self.has(&own)
            .then_some(own)
            .or((machine && self.shared && self.has(&same)).then_some(same))
    }

    /// Columns of this name of those who make the load: the tester's, and each agent's.
    pub fn of_testers(&self, name: &str) -> Vec<String> {
        let ends = |column: &str| {
            let owner = column.strip_suffix(name).and_then(|owner| owner.strip_suffix('.'));
            owner.is_some_and(|owner| !owner.contains('.') && !is_others(owner))
        };
        let columns = self.series().columns().iter().map(|column| &*column.name);
        let mut found: Vec<String> = columns.filter(|name| ends(name)).map(str::to_owned).collect();
        let same = format!("target.{name}");
        if found.is_empty() && self.shared && !name.starts_with("process.") && self.has(&same) {
            found.push(same);
        }
        found
    }

    /// Columns of this name of both ends, with the side they belong to; of a shared machine once,
    /// as `side`'s.
    pub fn of_both(&self, name: &str, side: &'static str) -> Vec<(&'static str, String)> {
        let target = self.of_target(name);
        let testers = self.of_testers(name);
        if self.shared && !name.starts_with("process.") {
            return target
                .into_iter()
                .chain(testers)
                .take(1)
                .map(|column| (side, column))
                .collect();
        }
        let testers = testers.into_iter().map(|column| ("tester", column));
        target.into_iter().map(|column| ("target", column)).chain(testers).collect()
    }

    /// Whether there is such a column with something in it.
    pub fn has(&self, name: &str) -> bool {
        self.series().values(name).iter().any(Option::is_some)
    }

    /// The column of the same owner with another name: `target.cpu.busy` to `target.cpu.cores`.
    pub fn beside(&self, column: &str, name: &str) -> String {
        format!("{}.{name}", column.split('.').next().unwrap_or_default())
    }

    /// Last value of a column at or before a moment.
    pub fn at(&self, name: &str, at_ms: u64) -> Option<f64> {
        let cells = window::cells(self.series(), name);
        cells.iter().rev().find(|(at, _)| *at <= at_ms).map(|(_, value)| *value)
    }

    /// The highest of a column, and when that was.
    pub fn highest(&self, name: &str) -> Option<(u64, f64)> {
        window::highest(self.series(), name, self.whole())
    }

    /// The first row in which a column had at least this value.
    pub fn first_at_least(&self, name: &str, value: f64) -> Option<u64> {
        let cells = window::cells(self.series(), name);
        cells.iter().find(|(_, cell)| *cell >= value).map(|(at, _)| *at)
    }

    /// Clients online at a moment.
    pub fn online(&self, at_ms: u64) -> Option<f64> {
        self.at(crate::columns::ONLINE, at_ms)
    }

    /// The end of the run, milliseconds.
    pub fn end_ms(&self) -> u64 {
        self.run.took_ms.max(self.series().times_ms().last().copied().unwrap_or(0))
    }

    /// The stage that a moment belongs to.
    pub fn stage_at(&self, at_ms: u64) -> Option<&'a StageRun> {
        self.run.stages.iter().rev().find(|stage| stage.from_ms <= at_ms && at_ms <= stage.to_ms)
    }

    /// The doctor's row about a setting of the server's machine.
    pub fn doctor_of_target(&self, item: &str) -> Option<&'a HostRow> {
        let rows = self.run.doctor.iter().filter(|(whose, _)| self.shared || whose == "target");
        let mut rows = rows.map(|(_, row)| row);
        rows.find(|row| row.item.contains(item))
    }

    /// Cores that a party used on average in a window.
    pub fn cores_of(&self, party: &str, window: Window) -> Option<f64> {
        let columns = ["process.cpu", "engine.cpu_s"].map(|name| format!("{party}.{name}"));
        let used = columns.iter().find(|column| self.has(column))?;
        fit::mean(&window::values(self.series(), used, window))
    }

    /// Whether most of what a machine's processors did in a window was for other programs than the
    /// two that matter; `None`: it is not known what those used.
    pub fn by_others(&self, column: &str, window: Window) -> Option<bool> {
        let busy = fit::mean(&window::values(self.series(), column, window))?;
        let own = column.split('.').next()?;
        let used = match self.shared {
            true => self.cores_of("target", window)? + self.cores_of("tester", window)?,
            false => self.cores_of(own, window)?,
        };
        // The kernel's work for a process is not all in its account.
        Some(used < 0.3 * busy)
    }

    /// Fault that was active at a moment or shortly before it.
    pub fn broken(&self, at_ms: u64) -> Option<&'a Note> {
        let notes = &self.run.notes;
        let shows = |place: usize, note: &Note| {
            let mended = notes[place..].iter().find(|later| later.text.starts_with(MENDED));
            let until = match mended {
                Some(mended) => mended.at_ms.saturating_add(SHOWS_MS),
                None => note.at_ms.saturating_add(SHOWS_LONG_MS),
            };
            // Rows are a second apart: what it did may stand in the row before its note.
            note.at_ms <= at_ms.saturating_add(2_000) && at_ms <= until
        };
        let told = notes.iter().enumerate().rev();
        let mut told = told.filter(|(_, note)| note.text.starts_with(BROKEN));
        told.find(|(place, note)| shows(*place, note)).map(|(_, note)| note)
    }

    /// Whether the plan killed the server in a stage.
    pub fn was_killed_in(&self, stage: &StageRun) -> bool {
        let kills = |note: &&Note| {
            let broken = note.text.strip_prefix(BROKEN).unwrap_or_default();
            broken.starts_with("the target") && broken.ends_with("was killed")
        };
        let within = |note: &&Note| stage.from_ms <= note.at_ms && note.at_ms <= stage.to_ms;
        self.run.notes.iter().filter(kills).any(|note| within(&note))
    }

    /// Why the machine of the laboratory had too little processor time near a moment, in words:
    /// then nobody can say whether an answer waited for the server or for this machine. `None`: it
    /// had enough, or it does not say.
    pub fn starved(&self, at_ms: u64) -> Option<String> {
        let near = (at_ms.saturating_sub(2_001), at_ms.saturating_add(1_000));
        let most = |column: &str| window::highest(self.series(), column, near).map(|it| it.1);
        let waited = self.of_testers("psi.cpu_s").into_iter().filter_map(|column| most(&column));
        let waited = waited.fold(0.0, f64::max);
        if waited >= WAITED {
            return Some(format!(
                "threads waited for a core {} of the time",
                words::percent(waited)
            ));
        }
        self.of_testers("cpu.steal").into_iter().find_map(|column| {
            let cores = self.highest(&self.beside(&column, "cpu.cores"))?.1.max(1.0);
            let taken = most(&column)? / cores;
            (taken >= STOLEN).then(|| format!("the hypervisor took {}", words::percent(taken)))
        })
    }

    /// The tester's own loop took so long near a moment that it explains a good part of this time.
    pub fn tester_lags(&self, at_ms: u64, us: f64) -> bool {
        let near = (at_ms.saturating_sub(1_001), at_ms.saturating_add(1_000));
        self.of_testers("turn_us_max").iter().any(|column| {
            let turn = window::highest(self.series(), column, near).map_or(0.0, |(_, turn)| turn);
            turn > LAG_US && turn > us / 4.0
        })
    }

    /// From when to when ends with this cause were counted; the whole run where no row tells.
    pub fn when(&self, cause: Cause) -> Window {
        let bursts = window::bursts(self.series(), &ended(cause), u64::MAX);
        bursts.first().map_or((0, self.end_ms()), |burst| (burst.0, burst.1))
    }

    /// Columns that count what clients suffer, each with its words.
    fn sufferings() -> impl Iterator<Item = (String, String)> {
        let errors = Cause::ALL.iter().filter(|cause| cause.is_error());
        let errors = errors
            .map(|cause| (ended(*cause), format!("clients that ended with {}", cause.name())));
        let others = [
            ("clients.heartbeats.late", "late heartbeats"),
            ("clients.heartbeats.lost", "lost heartbeats"),
            ("clients.messages.lost", "lost messages"),
            ("clients.requests.lost", "lost requests"),
        ];
        errors.chain(others.map(|(column, what)| (column.to_owned(), what.to_owned())))
    }

    /// Harm to clients in a window and shortly after it, in words: errors by cause, heartbeats,
    /// work that was lost. `None`: nothing that was counted.
    pub fn harm(&self, window: Window) -> Option<String> {
        let window = (window.0, window.1.saturating_add(ECHO_MS));
        let mut counts: Vec<(f64, String)> = Self::sufferings()
            .filter_map(|(column, what)| {
                let grown = window::growth(self.series(), &column, window)?;
                (grown >= 1.0).then_some((grown, what))
            })
            .collect();
        counts.sort_by(|one, other| other.0.total_cmp(&one.0));
        let told: Vec<String> = counts
            .iter()
            .take(3)
            .map(|(grown, what)| format!("{} {what}", words::count(*grown)))
            .collect();
        (!told.is_empty()).then(|| format!("meanwhile {}", words::list(&told)))
    }

    /// When clients began to suffer in a window or shortly after it.
    pub fn harmed_at(&self, window: Window) -> Option<u64> {
        let until = window.1.saturating_add(ECHO_MS);
        let began = Self::sufferings().filter_map(|(column, _)| {
            let bursts = window::bursts(self.series(), &column, 0);
            bursts.into_iter().map(|burst| burst.1).find(|at| window.0 < *at && *at <= until)
        });
        began.min()
    }

    /// The timing whose p99 rose most in a window against its middle before: in words, when it at
    /// least doubled.
    pub fn latency_beside(&self, window: Window) -> Option<String> {
        let echo = (window.0.saturating_sub(1), window.1.saturating_add(ECHO_MS));
        let risen = Timing::ALL.iter().filter_map(|timing| {
            let column = format!("clients.{}.p99", timing.name());
            let usual = fit::median(window::values(self.series(), &column, (0, window.0)))?;
            let (_, peak) = window::highest(self.series(), &column, echo)?;
            let factor = peak / usual.max(1.0);
            (factor >= 2.0 && peak - usual >= 1_000.0).then_some((factor, timing, usual, peak))
        });
        let (_, timing, usual, peak) = risen.max_by(|one, other| one.0.total_cmp(&other.0))?;
        let (usual, peak) = (words::time(usual), words::time(peak));
        Some(format!("the p99 of {} rose from {usual} to {peak}", timing.name()))
    }

    /// Harm and latency beside a window, as ends of a sentence.
    pub fn beside_it(&self, window: Window) -> String {
        let told = self.latency_beside(window).into_iter().chain(self.harm(window));
        told.map(|what| format!("; {what}")).collect()
    }
}

/// The column of ends with a cause.
pub fn ended(cause: Cause) -> String {
    format!("clients.ended.{}", cause.name())
}

/// Fault or disturbance of the plan in a stage, or so shortly before it that it shows there.
pub fn disturbance<'a>(run: &'a Run, stage: &StageRun) -> Option<&'a Note> {
    let is_fault = |note: &&Note| {
        note.text.starts_with(BROKEN)
            || [" of the clients: ", " of the clients flap per ", " of the clients a second flap"]
                .iter()
                .any(|words| note.text.contains(words))
    };
    let within = |note: &&Note| stage.from_ms <= note.at_ms && note.at_ms <= stage.to_ms;
    run.notes.iter().filter(is_fault).find(within)
}

fn is_others(owner: &str) -> bool {
    ["clients", "target", "server", "redis"].iter().any(|other| is_of(owner, other))
}

/// Whether two owners' columns tell of one machine: the same memory and the same segments sent.
fn same_machine(series: &Series) -> bool {
    ["memory.total", "tcp.out_segments"].iter().all(|name| {
        let columns = ["target", "tester"].map(|whose| format!("{whose}.{name}"));
        let [target, tester] = [&columns[0], &columns[1]].map(|name| series.values(name));
        let pairs = target.iter().zip(tester).filter_map(|(a, b)| Some(((*a)?, (*b)?)));
        let (mut read, mut near) = (0, 0);
        for (one, other) in pairs {
            read += 1;
            near += usize::from((one - other).abs() <= 0.01 * one.abs());
        }
        read >= 3 && near == read
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    #[test]
    fn the_same_memory_and_the_same_segments_are_one_machine() {
        let shared = |memory: f64, segments: fn(u64) -> f64, rows: u64| {
            let mut made = Made::of(rows - 1);
            made.gauge("target.memory.total", |_| 8e9);
            made.gauge("tester.memory.total", move |_| memory);
            made.total("target.tcp.out_segments", |s| 1e3 + 1e4 * s as f64);
            made.total("tester.tcp.out_segments", segments);
            Case::of(&made.run(10)).shared
        };
        let same = |s| 1e3 + 1e4 * s as f64;
        assert!(shared(8e9, same, 10));
        assert!(shared(8.07e9, same, 3), "within a hundredth, in three rows");
        assert!(!shared(8.09e9, same, 10), "another memory");
        assert!(!shared(8e9, |s| 1e4 + 1e4 * s as f64, 10), "other traffic");
        assert!(!shared(8e9, same, 2), "two rows tell nothing");
        assert!(!Case::of(&Made::of(10).run(10)).shared, "nothing is known");
    }
}
