//! Where an axis has its marks, and what stands there.
//!
//! The page's script does the same when one zooms: `ticks` in script.js is this file again.

use crate::figure;
use lab::series::Unit;

/// A mark of an axis: where it stands, in the axis' own measure, and its words.
pub type AxisTick = (f64, String);

/// Steps of a time axis that people count in, seconds.
const TIME_STEPS: [f64; 20] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0,
    3_600.0, 7_200.0, 21_600.0, 43_200.0, 86_400.0,
];

/// Marks of the time axis, at most eight or so, seconds since the run began.
pub fn time(from_s: f64, to_s: f64) -> Vec<AxisTick> {
    let span = (to_s - from_s).max(0.1);
    let days = (span / 86_400.0 / 8.0).ceil() * 86_400.0;
    let step = TIME_STEPS.into_iter().find(|step| span / step <= 8.0).unwrap_or(days);
    steps(from_s, to_s, step).map(|at| (at, moment(at, step))).collect()
}

fn moment(at_s: f64, step: f64) -> String {
    let clock = figure::clock((at_s * 1_000.0).round() as u64);
    if step < 1.0 { format!("{clock}.{}", (at_s * 10.0).round() as u64 % 10) } else { clock }
}

/// Marks of an axis with equal steps, at most six or so.
pub fn linear(unit: Unit, low: f64, high: f64) -> Vec<AxisTick> {
    let one = match unit {
        Unit::Bytes => 1_024_f64.powi((high.max(1.0).log2() / 10.0).floor() as i32),
        _ => 1.0,
    };
    let step = nice((high - low) / one / 5.0) * one;
    steps(low, high, step).map(|at| (at, figure::short(unit, at))).collect()
}

/// Marks of an axis of powers of ten; `low` and `high` are powers.
pub fn powers(unit: Unit, low: f64, high: f64) -> Vec<AxisTick> {
    let within: &[f64] = if high - low < 1.0 {
        &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]
    } else if high - low < 2.5 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let mut ticks = Vec::new();
    let every = ((high - low) / 6.0).ceil().max(1.0) as i32;
    for power in low.floor() as i32..=high.ceil() as i32 {
        for part in within {
            let at = f64::from(power) + part.log10();
            if power.rem_euclid(every) == 0 && (low..=high).contains(&at) {
                ticks.push((at, figure::short(unit, 10_f64.powf(at))));
            }
        }
    }
    ticks
}

/// Marks of the axis of percentiles, whose measure is log10(1 / (1 - p)): `90 %` stands at 1.
pub fn nines(high: f64) -> Vec<AxisTick> {
    let mut ticks = vec![(2_f64.log10(), "50 %".to_owned())];
    for nines in 1..=high.floor() as usize {
        let text = match nines {
            1 => "90 %".to_owned(),
            2 => "99 %".to_owned(),
            _ => format!("99.{} %", "9".repeat(nines - 2)),
        };
        ticks.push((nines as f64, text));
    }
    ticks
}

/// The next larger of 1, 2, 5, 10, 20 ...
fn nice(step: f64) -> f64 {
    let ten = 10_f64.powf(step.max(1e-9).log10().floor());
    let parts = [1.0, 2.0, 5.0, 10.0];
    ten * parts.into_iter().find(|part| part * ten >= step * 0.999).unwrap_or(10.0)
}

fn steps(low: f64, high: f64, step: f64) -> impl Iterator<Item = f64> {
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last.min(first + 40)).map(move |place| place as f64 * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(ticks: &[AxisTick]) -> Vec<String> {
        ticks.iter().map(|(_, text)| text.replace(figure::SPACE, " ")).collect()
    }

    #[test]
    fn marks_are_few_and_round() {
        assert_eq!(
            words(&time(0.0, 240.0)),
            ["0:00", "0:30", "1:00", "1:30", "2:00", "2:30", "3:00", "3:30", "4:00"]
        );
        assert_eq!(
            words(&linear(Unit::Count, 0.0, 430_000.0)),
            ["0", "100k", "200k", "300k", "400k"]
        );
        let gib = 1_073_741_824.0;
        assert_eq!(words(&linear(Unit::Bytes, 0.0, 3.9 * gib)), ["0", "1 GiB", "2 GiB", "3 GiB"]);
        assert_eq!(
            words(&powers(Unit::Micros, 2.0, 6.2)),
            ["100 µs", "1 ms", "10 ms", "100 ms", "1 s"]
        );
        assert_eq!(words(&nines(3.4)), ["50 %", "90 %", "99 %", "99.9 %"]);
        for (low, high) in [(0.0, 0.0), (0.0, 1e-12), (0.0, 1e18), (5.0, 5.0)] {
            assert!(linear(Unit::Share, low, high).len() <= 42, "{low} {high}");
            assert!(time(low, high).len() <= 42, "{low} {high}");
        }
    }

    #[test]
    fn steps_are_the_next_round_ones() {
        assert_eq!([0.9, 1.0, 1.5, 3.0, 7.0, 20.0].map(nice), [1.0, 1.0, 2.0, 5.0, 10.0, 20.0]);
        let at = |low, high, step| steps(low, high, step).collect::<Vec<_>>();
        assert_eq!(at(0.5, 3.0, 1.0), [1.0, 2.0, 3.0]);
        assert_eq!(at(-2.0, 1.9, 1.0), [-2.0, -1.0, 0.0, 1.0]);
        assert_eq!(at(0.0, 1e6, 1.0).len(), 41);
        let span = |to: f64| time(0.0, to).len();
        assert_eq!((span(8.0), span(8.1)), (9, 5), "at most eight steps");
        assert_eq!(
            words(&time(0.0, 0.8)),
            [
                "0:00.0", "0:00.1", "0:00.2", "0:00.3", "0:00.4", "0:00.5", "0:00.6", "0:00.7",
                "0:00.8"
            ]
        );
        assert_eq!(words(&time(0.0, 1_000_000.0)).len(), 6, "two days each");
        assert_eq!(words(&time(60.0, 120.0))[..2], ["1:00", "1:10"]);
    }

    #[test]
    fn powers_have_more_marks_where_there_is_room() {
        assert_eq!(words(&powers(Unit::Count, 0.0, 0.9)), ["1", "1.5", "2", "3", "4", "5", "7"]);
        assert_eq!(words(&powers(Unit::Count, 0.0, 1.0)), ["1", "2", "5", "10"]);
        assert_eq!(
            words(&powers(Unit::Count, 0.0, 2.4)),
            ["1", "2", "5", "10", "20", "50", "100", "200"]
        );
        assert_eq!(words(&powers(Unit::Count, 0.0, 2.5)), ["1", "10", "100"]);
        assert_eq!(words(&powers(Unit::Count, 0.0, 6.1)), ["1", "100", "10k", "1M"]);
        assert_eq!(
            words(&linear(Unit::Bytes, 0.0, 4096.0)),
            ["0", "1 KiB", "2 KiB", "3 KiB", "4 KiB"]
        );
        assert_eq!(words(&linear(Unit::Count, -100.0, 100.0)).len(), 5);
        assert_eq!(words(&nines(1.0)), ["50 %", "90 %"]);
        assert_eq!(words(&nines(5.0))[4..], ["99.99 %", "99.999 %"]);
    }
}
