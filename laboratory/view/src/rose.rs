//! Counters of kernels that show trouble when they rise, and by how much they rose.
//!
//! Most totals of a host rise all the time; those listed here rise when something is lost, refused
//! or short. It keeps the first and the last value of each, for each machine.

use lab::series::{FigureKind, Reading};
use std::collections::BTreeMap;

/// Counters that are kept, at most.
const KEPT_MAX: usize = 256;

/// Ends of names of totals that rise only in trouble.
const TROUBLES: &[&str] = &[
    "listen_overflows",
    "listen_drops",
    "syncookies_sent",
    "cookies",
    "reqq_full_drops",
    "retransmits",
    "timeouts",
    "memory_pressures",
    "abort_on_memory",
    "abort_on_timeout",
    "time_wait_overflows",
    "prune_called",
    "pruned",
    "dropped",
    "drops",
    "squeezed",
    "insert_failed",
    "out_resets",
    "oom_kills",
    "throttled_us",
];

/// Counters that have risen since the beginning, by full names.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Rose(BTreeMap<String, Rise>);

/// How far a counter rose.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rise {
    first: f64,
    last: f64,
    /// Growth between the last two readings.
    pub lately: f64,
}

impl Rise {
    /// Growth since the beginning.
    pub fn all(self) -> f64 {
        self.last - self.first
    }
}

impl Rose {
    /// Takes the next reading in.
    pub fn see(&mut self, reading: &Reading) {
        self.0.values_mut().for_each(|rise| rise.lately = 0.0);
        for (column, value) in reading.iter() {
            let trouble = TROUBLES.iter().any(|end| column.name.ends_with(end));
            if column.kind != FigureKind::Total || !trouble || column.name.starts_with("clients.") {
                continue;
            }
            if let Some(rise) = self.0.get_mut(column.name.as_ref()) {
                rise.lately = value - rise.last;
                rise.last = *value;
            } else if self.0.len() < KEPT_MAX {
                let rise = Rise { first: *value, last: *value, lately: 0.0 };
                self.0.insert(column.name.clone().into_owned(), rise);
            }
        }
    }

    /// Counters of this machine that have risen: (name without the machine's, rise), those that
    /// rise now first.
    pub fn of(&self, whose: &str) -> Vec<(&str, Rise)> {
        let mine = self.0.iter().filter_map(|(name, rise)| {
            let rest = name.strip_prefix(whose)?.strip_prefix('.')?;
            (rise.all() > 0.0).then_some((rest, *rise))
        });
        let mut mine: Vec<_> = mine.collect();
        mine.sort_by(|a, b| {
            let by_now = (b.1.lately > 0.0).cmp(&(a.1.lately > 0.0));
            by_now.then(b.1.all().total_cmp(&a.1.all())).then(a.0.cmp(b.0))
        });
        mine
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::series::{Column, Unit};

    #[test]
    fn only_trouble_that_rose_is_told_and_what_rises_now_comes_first() {
        let mut rose = Rose::default();
        for second in 0..3 {
            let mut reading = Reading::default();
            let drops = Column::total("tcp.listen_drops", Unit::Count).of("target");
            reading.set(drops, 100.0 + 7.0 * f64::from(second));
            let resets = Column::total("tcp.out_resets", Unit::Count).of("target");
            reading.set(resets, if second == 0 { 5.0 } else { 500.0 });
            let segments = Column::total("tcp.out_segments", Unit::Count).of("target");
            reading.set(segments, 1e6 * f64::from(second));
            let quiet = Column::total("tcp.timeouts", Unit::Count).of("target");
            reading.set(quiet, 9.0);
            rose.see(&reading);
        }
        let names: Vec<_> =
            rose.of("target").into_iter().map(|(name, rise)| (name, rise.all())).collect();
        assert_eq!(names, [("tcp.listen_drops", 14.0), ("tcp.out_resets", 495.0)]);
        assert!(rose.of("targe").is_empty());
    }
}
