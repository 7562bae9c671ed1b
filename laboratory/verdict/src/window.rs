//! Stretches of a series: what a column did between two moments.
//!
//! This module knows the kinds of columns, not their meaning. The invariant: a total that fell was
//! begun anew (its owner was restarted), so its growth is the sum of its rises and never negative.

use crate::fit::FittedLine;
use lab::series::{FigureKind, Series};

/// From when to when, milliseconds since the run began. The first moment itself belongs to what was
/// before, unless it is the run's beginning.
pub type Window = (u64, u64);

/// Whether a moment lies in the window.
fn within(window: Window, at: u64) -> bool {
    at <= window.1 && (at > window.0 || window.0 == 0)
}

/// Values of a column: time and value, in order of time.
pub fn cells(series: &Series, name: &str) -> Vec<(u64, f64)> {
    let times = series.times_ms().iter();
    let cells = times.zip(series.values(name)).filter_map(|(&at, cell)| Some((at, (*cell)?)));
    cells.filter(|(_, value)| value.is_finite()).collect()
}

/// Shown values of a column within the window: of a total its growth a second.
pub fn shown(series: &Series, name: &str, window: Window) -> Vec<(u64, f64)> {
    let mut shown = series.shown(name);
    shown.retain(|(at, value)| within(window, *at) && value.is_finite());
    shown
}

/// The values alone.
pub fn values(series: &Series, name: &str, window: Window) -> Vec<f64> {
    shown(series, name, window).into_iter().map(|(_, value)| value).collect()
}

/// The highest that was shown.
pub fn highest(series: &Series, name: &str, window: Window) -> Option<(u64, f64)> {
    shown(series, name, window).into_iter().reduce(|best, next| match next.1 > best.1 {
        true => next,
        false => best,
    })
}

/// Growth of a total in the window, or difference of a gauge between its ends; `None`: it was not
/// read twice.
pub fn growth(series: &Series, name: &str, window: Window) -> Option<f64> {
    let cells = cells(series, name);
    let before = cells.iter().rposition(|(at, _)| *at <= window.0);
    let inside = |(at, _): &&(u64, f64)| within(window, *at);
    let mut met = before
        .map(|place| cells[place])
        .into_iter()
        .chain(cells.iter().skip(before.map_or(0, |place| place + 1)).filter(inside).copied());
    let first = met.next()?.1;
    let (mut last, mut risen, mut read) = (first, 0.0, 1);
    for (_, value) in met {
        risen += f64::max(value - last, 0.0);
        (last, read) = (value, read + 1);
    }
    match kind(series, name)? {
        _ if read < 2 => None,
        FigureKind::Total => Some(risen),
        _ => Some(last - first),
    }
}

/// How a column behaves; `None`: there is no such column.
pub fn kind(series: &Series, name: &str) -> Option<FigureKind> {
    series.columns().iter().find(|column| column.name == name).map(|column| column.kind)
}

/// The straight line through what is shown; its x are seconds since the window began.
pub fn trend(series: &Series, name: &str, window: Window) -> Option<FittedLine> {
    let shown = shown(series, name, window);
    let seconds = |at: u64| at.saturating_sub(window.0) as f64 / 1_000.0;
    FittedLine::through(&shown.iter().map(|(at, value)| (seconds(*at), *value)).collect::<Vec<_>>())
}

/// By what share of itself the trend changes from the window's beginning to its end.
pub fn drift(series: &Series, name: &str, window: Window) -> Option<f64> {
    let line = trend(series, name, window)?;
    let (first, last) = (line.base, line.at(window.1.saturating_sub(window.0) as f64 / 1_000.0));
    let drift = (last - first) / first.abs();
    match (first, last) {
        (first, last) if first == 0.0 && last == 0.0 => Some(0.0),
        _ => drift.is_finite().then_some(drift),
    }
}

/// Stretches in which a total grew, those less than `gap_ms` apart as one: from, to, growth.
pub fn bursts(series: &Series, name: &str, gap_ms: u64) -> Vec<(u64, u64, f64)> {
    let mut bursts: Vec<(u64, u64, f64)> = Vec::new();
    for pair in cells(series, name).windows(2) {
        let ((from, before), (to, after)) = (pair[0], pair[1]);
        if after <= before {
            continue;
        }
        match bursts.last_mut() {
            Some(last) if from.saturating_sub(last.1) <= gap_ms => {
                (last.1, last.2) = (to, last.2 + after - before);
            }
            _ => bursts.push((from, to, after - before)),
        }
    }
    bursts
}

/// Stretches in which what is shown is at least `level` for `rows` rows running: from, to, highest.
pub fn stretches(series: &Series, name: &str, level: f64, rows: usize) -> Vec<(u64, u64, f64)> {
    let mut found = Vec::new();
    let mut run: Option<(u64, u64, f64, usize)> = None;
    for (at, value) in shown(series, name, (0, u64::MAX))
        .into_iter()
        .map(Some)
        .chain([None])
        .map(|row| row.unwrap_or((0, f64::NEG_INFINITY)))
    {
        match (&mut run, value >= level) {
            (Some(open), true) => *open = (open.0, at, open.2.max(value), open.3 + 1),
            (None, true) => run = Some((at, at, value, 1)),
            (Some(open), false) => {
                if open.3 >= rows {
                    found.push((open.0, open.1, open.2));
                }
                run = None;
            }
            (None, false) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::series::{Column, Reading, Unit};

    const DROPS: Column = Column::total("target.tcp.listen_drops", Unit::Count);
    const RSS: Column = Column::gauge("target.process.rss", Unit::Bytes);

    fn series(rows: &[(u64, Option<f64>, Option<f64>)]) -> Series {
        let mut series = Series::default();
        for (at, drops, rss) in rows {
            let mut reading = Reading::default();
            drops.iter().for_each(|value| reading.set(DROPS, *value));
            rss.iter().for_each(|value| reading.set(RSS, *value));
            series.push(*at, 0, &reading);
        }
        series
    }

    #[test]
    fn growth_counts_from_the_row_before_and_over_a_restart() {
        let rows = [(0, 5.0), (1_000, 5.0), (2_000, 9.0), (3_000, 9.0), (4_000, 2.0), (5_000, 3.0)];
        let some = series(&rows.map(|(at, drops)| (at, Some(drops), Some(drops))));
        assert_eq!(growth(&some, &DROPS.name, (1_000, 2_000)), Some(4.0));
        assert_eq!(growth(&some, &DROPS.name, (2_000, 3_000)), Some(0.0));
        assert_eq!(growth(&some, &DROPS.name, (0, 5_000)), Some(5.0));
        assert_eq!(growth(&some, &RSS.name, (0, 5_000)), Some(-2.0));
        assert_eq!(growth(&some, &DROPS.name, (9_000, 10_000)), None);
        assert_eq!(growth(&some, "target.nothing", (0, 5_000)), None);
    }

    #[test]
    fn bursts_that_are_near_are_one() {
        let drops = [0.0, 0.0, 4.0, 4.0, 5.0, 5.0, 5.0, 5.0, 5.0, 9.0];
        let rows =
            drops.iter().enumerate().map(|(at, drops)| (at as u64 * 1_000, Some(*drops), None));
        let some = series(&rows.collect::<Vec<_>>());
        let found = bursts(&some, &DROPS.name, 2_000);
        assert_eq!(found, [(1_000, 4_000, 5.0), (8_000, 9_000, 4.0)]);
    }

    #[test]
    fn a_stretch_is_long_enough_or_none() {
        let heights = [0.0, 9.0, 9.5, 9.1, 0.0, 9.0, 0.0, 9.0, 9.0, 9.0];
        let rows =
            heights.iter().enumerate().map(|(at, rss)| (at as u64 * 1_000, None, Some(*rss)));
        let some = series(&rows.collect::<Vec<_>>());
        let found = stretches(&some, &RSS.name, 9.0, 3);
        assert_eq!(found, [(1_000, 3_000, 9.5), (7_000, 9_000, 9.0)]);
    }

    #[test]
    fn drift_is_the_share_by_which_the_trend_changes() {
        let rows: Vec<_> =
            (0..=100).map(|at| (at * 1_000, None, Some(100.0 + at as f64 / 10.0))).collect();
        let some = series(&rows);
        let drift = drift(&some, &RSS.name, (0, 100_000)).expect("a trend");
        assert!((drift - 0.1).abs() < 1e-9, "{drift}");
        assert_eq!(super::drift(&some, &RSS.name, (99_000, 100_000)), None);
    }

    #[test]
    fn a_window_has_its_end_and_not_its_beginning_unless_it_begins_the_run() {
        let rows: Vec<_> = (0..=5).map(|at| (at * 1_000, None, Some(at as f64))).collect();
        let some = series(&rows);
        let of = |window| values(&some, &RSS.name, window);
        assert_eq!(of((0, 2_000)), [0.0, 1.0, 2.0]);
        assert_eq!(of((1_000, 3_000)), [2.0, 3.0]);
        assert_eq!(of((5_000, 9_000)), []);
        assert_eq!(highest(&some, &RSS.name, (0, 4_000)), Some((4_000, 4.0)));
        let flat = series(&[(0, None, Some(2.0)), (1_000, None, Some(2.0))]);
        assert_eq!(highest(&flat, &RSS.name, (0, 4_000)), Some((0, 2.0)), "the first of equals");
        let odd =
            series(&[(0, None, Some(f64::NAN)), (1_000, None, None), (2_000, None, Some(1.0))]);
        assert_eq!(cells(&odd, &RSS.name), [(2_000, 1.0)]);
        assert_eq!(kind(&some, &RSS.name), Some(FigureKind::Gauge));
    }

    #[test]
    fn growth_needs_two_rows_and_takes_the_one_before() {
        let rows = [1.0, 4.0, 9.0].into_iter().enumerate();
        let rows = rows.map(|(at, value)| (at as u64 * 1_000, Some(value), Some(value)));
        let some = series(&rows.collect::<Vec<_>>());
        for name in [&DROPS.name, &RSS.name] {
            assert_eq!(growth(&some, name, (1_000, 2_000)), Some(5.0));
            assert_eq!(growth(&some, name, (0, 1_000)), Some(3.0));
            assert_eq!(growth(&some, name, (2_000, 9_000)), None, "one row grows by nothing known");
        }
    }

    #[test]
    fn a_burst_goes_on_over_its_gap_and_not_beyond() {
        let drops = [0.0, 1.0, 1.0, 1.0, 2.0];
        let rows =
            drops.iter().enumerate().map(|(at, drops)| (at as u64 * 1_000, Some(*drops), None));
        let some = series(&rows.collect::<Vec<_>>());
        assert_eq!(bursts(&some, &DROPS.name, 2_000), [(0, 4_000, 2.0)]);
        assert_eq!(bursts(&some, &DROPS.name, 1_999), [(0, 1_000, 1.0), (3_000, 4_000, 1.0)]);
    }

    #[test]
    fn a_trend_counts_from_its_windows_beginning() {
        let rows: Vec<_> =
            (0..=9).map(|at| (at * 1_000, None, Some(10.0 + 2.0 * at as f64))).collect();
        let some = series(&rows);
        let line = trend(&some, &RSS.name, (4_000, 9_000)).expect("a trend");
        assert!((line.base - 18.0).abs() < 1e-9 && (line.slope - 2.0).abs() < 1e-9, "{line:?}");
        let share = drift(&some, &RSS.name, (4_000, 9_000)).expect("a trend");
        assert!((share - 10.0 / 18.0).abs() < 1e-9, "{share}");
        let down: Vec<_> = (0..=9).map(|at| (at * 1_000, None, Some(-10.0 - at as f64))).collect();
        let share = drift(&series(&down), &RSS.name, (0, 9_000)).expect("a trend");
        assert!((share + 0.9).abs() < 1e-9, "{share}");
        let flat: Vec<_> = (0..=9).map(|at| (at * 1_000, None, Some(0.0))).collect();
        assert_eq!(drift(&series(&flat), &RSS.name, (0, 9_000)), Some(0.0));
        let from_zero: Vec<_> = (0..=9).map(|at| (at * 1_000, None, Some(at as f64))).collect();
        let share = drift(&series(&from_zero), &RSS.name, (0, 9_000));
        assert!(share.is_none_or(|share| share > 1e6), "{share:?}");
    }
}
