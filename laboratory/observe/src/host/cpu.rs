//! Processor time of /proc/stat, as a whole and core by core.

use crate::columns as at;
use crate::lines;
use lab::series::{Column, Reading};
use std::borrow::Cow;

/// Ticks of a core, or of all: user, nice, system, idle, iowait, irq, softirq, steal. A virtual
/// machine's time is in user already (proc(5)).
type Ticks = [u64; 8];

/// Content of /proc/stat.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Stat {
    all: Ticks,
    /// Of each core that is there, in order: its number and its ticks.
    cores: Vec<(usize, Ticks)>,
    switches: Option<u64>,
    forks: Option<u64>,
    running: Option<u64>,
    blocked: Option<u64>,
}

impl Stat {
    /// Reads the text of /proc/stat.
    pub(crate) fn of(text: &str) -> Stat {
        let mut stat = Stat {
            switches: lines::keyed(text, "ctxt"),
            forks: lines::keyed(text, "processes"),
            running: lines::keyed(text, "procs_running"),
            blocked: lines::keyed(text, "procs_blocked"),
            ..Stat::default()
        };
        for line in text.lines() {
            let Some((name, rest)) = line.strip_prefix("cpu").and_then(|line| line.split_once(' '))
            else {
                continue;
            };
            let mut ticks = Ticks::default();
            ticks.iter_mut().zip(lines::numbers(rest)).for_each(|(to, from)| *to = from);
            match (name, name.parse()) {
                ("", _) => stat.all = ticks,
                (_, Ok(core)) => stat.cores.push((core, ticks)),
                _ => {}
            }
        }
        stat
    }

    /// Cores that there are.
    pub(crate) fn cores(&self) -> usize {
        self.cores.len()
    }
}

/// Adds what was between two looks, and what there is now.
pub(super) fn read(now: &Stat, before: Option<&Stat>, out: &mut Reading) {
    if now.cores() > 0 {
        out.set(at::CPU_CORES, now.cores() as f64);
    }
    for (column, value) in [
        (at::HOST_SWITCHES, now.switches),
        (at::HOST_FORKS, now.forks),
        (at::HOST_RUNNING, now.running),
        (at::HOST_BLOCKED, now.blocked),
    ] {
        value.inspect(|value| out.set(column, *value as f64));
    }
    let Some(before) = before else { return };
    if let Some(part) = shares(&now.all, &before.all) {
        let cores = now.cores() as f64;
        let [user, nice, system, _, iowait, irq, softirq, steal] = part.map(|share| share * cores);
        out.set(at::CPU_BUSY, user + nice + system + irq + softirq + steal);
        out.set(at::CPU_USER, user + nice);
        out.set(at::CPU_SYSTEM, system);
        out.set(at::CPU_IRQ, irq);
        out.set(at::CPU_SOFTIRQ, softirq);
        out.set(at::CPU_STEAL, steal);
        out.set(at::CPU_IOWAIT, iowait);
    }
    let (mut busiest, mut softest) = (None::<f64>, 0_f64);
    for (core, ticks) in &now.cores {
        let earlier = before.cores.iter().find(|(earlier, _)| earlier == core);
        let Some(part) = earlier.and_then(|(_, earlier)| shares(ticks, earlier)) else { continue };
        let busy = 1.0 - part[3] - part[4];
        busiest = Some(busiest.unwrap_or(0.0).max(busy));
        softest = softest.max(part[6]);
        if *core < at::CORES_MAX {
            let name = Cow::Owned(format!("cpu.core.{core}"));
            out.set(Column { name, ..at::CPU_CORE }, busy);
        }
    }
    if let Some(busiest) = busiest {
        out.set(at::CPU_BUSIEST, busiest);
        out.set(at::CPU_SOFTIRQ_BUSIEST, softest);
    }
}

/// Of the time between two looks, the share of each state; `None`: there was no time between.
/// Counters that ran backwards, as iowait may (proc(5)), stood still.
fn shares(now: &Ticks, before: &Ticks) -> Option<[f64; 8]> {
    let mut grown = [0_u64; 8];
    for (at, grown) in grown.iter_mut().enumerate() {
        *grown = now[at].saturating_sub(before[at]);
    }
    let all = lines::sum(grown.iter().copied());
    (all > 0).then(|| grown.map(|part| part as f64 / all as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  100 0 50 850 0 0 0 0 0 0\ncpu0 50 0 25 425 0 0 0 0 0 0\n\
                          cpu1 50 0 25 425 0 0 0 0 0 0\nctxt 5\nprocs_running 3\n";
    const NOW: &str = "cpu  150 10 80 930 10 0 20 0 0 0\ncpu0 100 0 45 425 10 0 20 0 0 0\n\
                       cpu1 50 10 35 505 0 0 0 0 0 0\nctxt 9\nprocs_running 1\n";

    #[test]
    fn time_between_two_looks_becomes_cores() {
        let mut out = Reading::default();
        read(&Stat::of(NOW), Some(&Stat::of(BEFORE)), &mut out);
        let of = |name: &str| (out.of(name).expect(name) * 1_000.0).round();
        assert_eq!((of("cpu.cores"), of("cpu.busy"), of("cpu.user")), (2_000.0, 1_100.0, 600.0));
        assert_eq!((of("cpu.system"), of("cpu.softirq"), of("cpu.iowait")), (300.0, 200.0, 100.0));
        assert_eq!((of("cpu.busiest"), of("cpu.softirq_busiest")), (900.0, 200.0));
        assert_eq!((of("cpu.core.0"), of("cpu.core.1")), (900.0, 200.0));
        assert_eq!((out.of("host.switches"), out.of("host.running")), (Some(9.0), Some(1.0)));
        assert_eq!(out.of("host.forks"), None);
    }

    #[test]
    fn without_time_between_there_is_no_share_and_nonsense_is_nothing() {
        let mut out = Reading::default();
        read(&Stat::of(NOW), Some(&Stat::of(NOW)), &mut out);
        assert_eq!((out.of("cpu.busy"), out.of("cpu.cores")), (None, Some(2.0)));
        for text in ["", "cpu", "cpu \n", "cpux 1\ncpu-1 3\n", "cpu0", "\0\u{fffd}"] {
            let mut out = Reading::default();
            read(&Stat::of(text), Some(&Stat::of(text)), &mut out);
            assert_eq!(out.of("cpu.busy"), None, "{text}");
        }
    }
}
