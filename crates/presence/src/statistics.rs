//! Figures over time: the last fifteen minutes by second, the last day by minute.
//!
//! Told the process's totals about once a second, it makes the differences. It knows no clock and
//! no shard. Invariant: what was counted falls into exactly one second and one minute; memory is
//! bounded by two rings of rows of sixteen bytes, one for each product and protocol of which
//! somebody was there or moved.

use model::ports::presence::queries::{Count, Moment, PresenceCounts, StatisticsStep};
use std::collections::VecDeque;

/// Seconds remembered: fifteen minutes.
pub const SECONDS_MAX: usize = 900;

/// Minutes remembered: a day.
pub const MINUTES_MAX: usize = 1_440;

/// Pairs of product and protocol told apart; those after them are summed under the product `*`.
pub const PAIRS_MAX: usize = 256;

/// Rings of moments.
#[derive(Default)]
pub struct Statistics {
    seconds: VecDeque<Frame>,
    minutes: VecDeque<Frame>,
    /// The minute that is not over.
    minute: Option<Frame>,
    pairs: Vec<(Box<str>, &'static str)>,
    /// Totals when it was last told, by pair.
    counts: Vec<Count>,
    /// Heartbeats, late ones, and connections lost for want of one.
    beats: [u64; 3],
}

/// A moment as it is kept.
#[derive(Clone, Default)]
struct Frame {
    at_s: u64,
    rows: Box<[Row]>,
    beats: [u64; 3],
}

#[derive(Clone, Copy, Default)]
struct Row {
    pair: u32,
    online: u32,
    arrivals: u32,
    departures: u32,
}

const _: () = assert!(size_of::<Row>() == 16, "ten megabytes at the most in both rings");

impl Statistics {
    /// Rings without a moment.
    pub fn new() -> Statistics {
        Statistics::default()
    }

    /// Notes the process's totals since it began, at this Unix second. Heartbeats are those that
    /// came, those of them that were late, and connections ended for want of one.
    pub fn note(
        &mut self,
        at_s: u64,
        counts: &PresenceCounts,
        heartbeats: u64,
        late: u64,
        lost: u64,
    ) {
        let beats = [heartbeats, late, lost];
        let frame = Frame {
            at_s,
            rows: self.rows(counts),
            beats: std::array::from_fn(|n| beats[n].saturating_sub(self.beats[n])),
        };
        self.beats = beats;
        match &mut self.minute {
            Some(minute) if at_s.saturating_sub(1) / 60 <= minute.at_s.saturating_sub(1) / 60 => {
                minute.join(&frame);
            }
            unfinished => {
                let over = unfinished.replace(frame.clone());
                over.into_iter().for_each(|minute| push(&mut self.minutes, MINUTES_MAX, minute));
            }
        }
        match self.seconds.back_mut() {
            Some(last) if at_s <= last.at_s => last.join(&frame),
            _ => push(&mut self.seconds, SECONDS_MAX, frame),
        }
    }

    /// The moments at this distance, oldest first. Of minutes, those that are over.
    pub fn of(&self, step: StatisticsStep) -> Vec<Moment> {
        let ring = match step {
            StatisticsStep::Second => &self.seconds,
            StatisticsStep::Minute => &self.minutes,
        };
        ring.iter().map(|frame| self.moment(frame)).collect()
    }

    fn moment(&self, frame: &Frame) -> Moment {
        let count = |row: &Row| Count {
            online: u64::from(row.online),
            arrivals: u64::from(row.arrivals),
            departures: u64::from(row.departures),
        };
        let [heartbeats, heartbeats_late, heartbeats_lost] = frame.beats;
        let of = frame.rows.iter().map(|row| (self.pairs[row.pair as usize].clone(), count(row)));
        Moment { at_s: frame.at_s, of: of.collect(), heartbeats, heartbeats_late, heartbeats_lost }
    }

    /// The rows of changes since the last totals, and of those online now.
    fn rows(&mut self, counts: &PresenceCounts) -> Box<[Row]> {
        let mut totals = vec![Count::default(); self.counts.len()];
        for ((product, protocol), count) in &counts.of {
            let pair = self.pair(product, protocol);
            totals.resize(self.pairs.len(), Count::default());
            totals[pair].online += count.online;
            totals[pair].arrivals += count.arrivals;
            totals[pair].departures += count.departures;
        }
        self.counts.resize(totals.len(), Count::default());
        let pairs = totals.iter().zip(&self.counts).enumerate();
        let rows = pairs.map(|(pair, (total, before))| Row {
            pair: pair as u32,
            online: narrow(total.online),
            arrivals: narrow(total.arrivals.saturating_sub(before.arrivals)),
            departures: narrow(total.departures.saturating_sub(before.departures)),
        });
        let rows = rows.filter(|row| row.online > 0 || row.arrivals > 0 || row.departures > 0);
        let rows = rows.collect();
        self.counts = totals;
        rows
    }

    fn pair(&mut self, product: &str, protocol: &'static str) -> usize {
        let known = |pairs: &[(Box<str>, &str)], product: &str, protocol: &str| {
            pairs.iter().position(|pair| *pair.0 == *product && pair.1 == protocol)
        };
        let (product, protocol) = match known(&self.pairs, product, protocol) {
            Some(pair) => return pair,
            None if self.pairs.len() < PAIRS_MAX - 1 => (product, protocol),
            None => ("*", "*"),
        };
        known(&self.pairs, product, protocol).unwrap_or_else(|| {
            self.pairs.push((product.into(), protocol));
            self.pairs.len() - 1
        })
    }
}

impl Frame {
    /// This and the following one as one.
    fn join(&mut self, next: &Frame) {
        self.at_s = self.at_s.max(next.at_s);
        (0..3).for_each(|n| self.beats[n] += next.beats[n]);
        let mut rows = next.rows.to_vec();
        for row in &self.rows {
            match rows.iter_mut().find(|other| other.pair == row.pair) {
                Some(same) => {
                    same.arrivals = same.arrivals.saturating_add(row.arrivals);
                    same.departures = same.departures.saturating_add(row.departures);
                }
                None => rows.push(Row { online: 0, ..*row }),
            }
        }
        self.rows = rows.into();
    }
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn push(ring: &mut VecDeque<Frame>, max: usize, frame: Frame) {
    if ring.len() == max {
        ring.pop_front();
    }
    ring.push_back(frame);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, &'static str, [u64; 3])]) -> PresenceCounts {
        let count =
            |[online, arrivals, departures]: [u64; 3]| Count { online, arrivals, departures };
        let of = of.iter().map(|&(product, protocol, n)| ((product.into(), protocol), count(n)));
        PresenceCounts { of: of.collect() }
    }

    #[test]
    fn a_second_has_what_moved_in_it_and_who_was_there_at_its_end() {
        let mut statistics = Statistics::new();
        statistics.note(601, &counts(&[("demo", "miop7", [5, 5, 0])]), 10, 1, 0);
        let both = counts(&[("", "mqtt5", [1, 1, 0]), ("demo", "miop7", [4, 7, 3])]);
        statistics.note(602, &both, 25, 1, 2);
        let seconds = statistics.of(StatisticsStep::Second);
        assert_eq!(seconds[0].of, counts(&[("demo", "miop7", [5, 5, 0])]).of);
        assert_eq!(
            seconds[1],
            Moment {
                at_s: 602,
                of: counts(&[("", "mqtt5", [1, 1, 0]), ("demo", "miop7", [4, 2, 3])]).of,
                heartbeats: 15,
                heartbeats_late: 0,
                heartbeats_lost: 2,
            }
        );
    }

    #[test]
    fn minutes_are_the_sums_of_their_seconds() {
        let mut statistics = Statistics::new();
        for second in 1..=181 {
            let online = if second == 120 { 9 } else { 1 };
            let one = counts(&[("demo", "miop7", [online, second, second - 1])]);
            statistics.note(6_000 + second, &one, second * 10, second, 0);
        }
        let minutes = statistics.of(StatisticsStep::Minute);
        let ends: Vec<u64> = minutes.iter().map(|minute| minute.at_s).collect();
        assert_eq!(ends, [6_060, 6_120, 6_180]);
        assert_eq!(minutes[1].of, counts(&[("demo", "miop7", [9, 60, 60])]).of);
        assert_eq!((minutes[1].heartbeats, minutes[1].heartbeats_late), (600, 60));
        let sum = |moments: &[Moment]| moments.iter().map(|m| m.heartbeats).sum::<u64>();
        assert_eq!(sum(&statistics.of(StatisticsStep::Second)[..180]), sum(&minutes));
    }

    #[test]
    fn rings_end_and_a_clock_that_steps_back_makes_no_moment() {
        let mut statistics = Statistics::new();
        let one = |n: u64| counts(&[("demo", "miop7", [1, n, n - 1])]);
        for second in 1..=2_000 {
            statistics.note(second, &one(second), 0, 0, 0);
        }
        statistics.note(1_500, &one(2_003), 7, 0, 0);
        let seconds = statistics.of(StatisticsStep::Second);
        assert_eq!((seconds.len(), seconds[0].at_s, seconds[899].at_s), (900, 1_101, 2_000));
        let last = &seconds[899];
        assert_eq!((last.heartbeats, last.of.values().next().expect("one").arrivals), (7, 4));
    }

    #[test]
    fn pairs_are_bounded_and_none_is_lost() {
        let mut statistics = Statistics::new();
        let names: Vec<String> = (0..1_000).map(|n| format!("p{n}")).collect();
        let of: Vec<_> = names.iter().map(|name| (name.as_str(), "miop7", [1, 1, 0])).collect();
        statistics.note(1, &counts(&of), 0, 0, 0);
        let moment = &statistics.of(StatisticsStep::Second)[0];
        assert_eq!(moment.of.len(), PAIRS_MAX);
        assert_eq!(moment.of.values().map(|count| count.online).sum::<u64>(), 1_000);
        assert_eq!(moment.of[&("*".into(), "*")].arrivals, 1_000 - (PAIRS_MAX as u64 - 1));
    }
}
