//! Intervals of a difference, at 95 %.
//!
//! Of shares by Newcombe's method from Wilson's limits; of means over rows by a bootstrap of blocks
//! of rows that stand together, for neighbouring seconds are alike; of percentiles by the limits
//! that order statistics give (binomial), joined as MOVER does; of repeated runs by Welch's t. The
//! bootstrap's draws come from a seed that never changes, so the same runs give the same interval.

use base::prng::Prng;
use lab::compare::Interval;
use lab::timing::Spectrum;

/// Half the width of 95 % of a normal distribution, in standard deviations.
const Z: f64 = 1.959_964;
/// Draws of a bootstrap.
const DRAWS: usize = 400;
/// Rows that a bootstrap needs on each side.
pub const ROWS_MIN: usize = 10;
/// Times that a percentile's limits need beyond it, on each side.
const BEYOND_MIN: f64 = 5.0;

/// 97.5 % of Student's t for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

fn finite(low: f64, high: f64) -> Option<Interval> {
    (low.is_finite() && high.is_finite()).then_some(Interval { low, high })
}

/// From two estimates with their limits to the limits of their difference.
fn joined(one: (f64, f64, f64), other: (f64, f64, f64)) -> Option<Interval> {
    let ((a, a_low, a_high), (b, b_low, b_high)) = (one, other);
    let low = b - a - ((b - b_low).powi(2) + (a_high - a).powi(2)).sqrt();
    let high = b - a + ((b_high - b).powi(2) + (a - a_low).powi(2)).sqrt();
    finite(low, high)
}

/// Of two shares, each a part of a whole.
pub fn of_shares(one: (f64, f64), other: (f64, f64)) -> Option<Interval> {
    joined(wilson(one)?, wilson(other)?)
}

fn wilson((part, whole): (f64, f64)) -> Option<(f64, f64, f64)> {
    if whole < 1.0 || !(0.0..=whole).contains(&part) {
        return None;
    }
    let share = part / whole;
    let middle = (part + Z * Z / 2.0) / (whole + Z * Z);
    let spread = (share * (1.0 - share) * whole + Z * Z / 4.0).max(0.0);
    let half = Z * spread.sqrt() / (whole + Z * Z);
    Some((share, (middle - half).max(0.0).min(share), (middle + half).min(1.0).max(share)))
}

/// Of the means of two rows of values.
pub fn of_means(one: &[f64], other: &[f64]) -> Option<Interval> {
    if one.len() < ROWS_MIN || other.len() < ROWS_MIN {
        return None;
    }
    let mut prng = Prng::new(0x5eed);
    let mut differences: Vec<f64> =
        (0..DRAWS).map(|_| drawn(other, &mut prng) - drawn(one, &mut prng)).collect();
    differences.sort_by(f64::total_cmp);
    let cut = DRAWS / 40;
    finite(differences[cut], differences[DRAWS - 1 - cut])
}

/// The mean of as many values as there are, drawn in blocks of neighbours, around the end.
fn drawn(values: &[f64], prng: &mut Prng) -> f64 {
    let block = (values.len() as f64).sqrt().ceil() as usize;
    let (mut sum, mut taken) = (0.0, 0);
    while taken < values.len() {
        let from = prng.below(values.len() as u64) as usize;
        for at in 0..block.min(values.len() - taken) {
            sum += values[(from + at) % values.len()];
            taken += 1;
        }
    }
    sum / values.len() as f64
}

/// Of a percentile of two distributions.
pub fn of_percentiles(one: &Spectrum, other: &Spectrum, percent: f64) -> Option<Interval> {
    joined(limits(one, percent)?, limits(other, percent)?)
}

/// A percentile and its limits: the order statistics that bracket it with 95 %.
fn limits(spectrum: &Spectrum, percent: f64) -> Option<(f64, f64, f64)> {
    let (count, share) = (spectrum.count() as f64, percent / 100.0);
    if count * share < BEYOND_MIN || count * (1.0 - share) < BEYOND_MIN {
        return None;
    }
    let half = Z * (count * share * (1.0 - share)).sqrt() / count;
    let at = |share: f64| spectrum.at(100.0 * share.clamp(0.0, 1.0)) as f64;
    let middle = at(share);
    // A histogram knows a value to a thousandth of it.
    let grain = middle / 1_000.0;
    Some((middle, at(share - half) - grain, at(share + half) + grain))
}

/// Of the means of repeated runs: Welch's t.
pub fn of_runs(one: &[f64], other: &[f64]) -> Option<Interval> {
    let (mean_one, error_one) = mean_and_error(one)?;
    let (mean_other, error_other) = mean_and_error(other)?;
    let error = error_one + error_other;
    let freedom = |error: f64, count: usize| error * error / (count as f64 - 1.0);
    let below = freedom(error_one, one.len()) + freedom(error_other, other.len());
    let degrees = if below > 0.0 { error * error / below } else { 30.0 };
    let t = T[(degrees.floor() as usize).clamp(1, T.len()) - 1];
    let difference = mean_other - mean_one;
    finite(difference - t * error.sqrt(), difference + t * error.sqrt())
}

/// The mean and the square of its standard error.
fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    Some((mean, squares / (count - 1.0) / count))
}

/// Of two slopes, from their errors.
pub fn of_slopes(one: (f64, f64, usize), other: (f64, f64, usize)) -> Option<Interval> {
    let [one, other] = [one, other].map(|(slope, r2, points)| {
        let error = slope * ((1.0 - r2) / r2.max(1e-12) / (points as f64 - 2.0).max(1.0)).sqrt();
        (slope, slope - Z * error.abs(), slope + Z * error.abs())
    });
    joined(one, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(interval: Option<Interval>, value: f64) -> bool {
        let Some(Interval { low, high }) = interval else { return false };
        low <= value && value <= high
    }

    #[test]
    fn shares_that_differ_are_told_and_equal_ones_are_not() {
        assert!(holds(of_shares((50.0, 1_000.0), (50.0, 1_000.0)), 0.0));
        assert!(holds(of_shares((50.0, 1_000.0), (60.0, 1_000.0)), 0.0));
        assert!(!holds(of_shares((50.0, 1_000.0), (150.0, 1_000.0)), 0.0));
        assert!(holds(of_shares((0.0, 1_000.0), (0.0, 1_000.0)), 0.0));
        assert_eq!(of_shares((0.0, 0.0), (1.0, 2.0)), None);
        // Newcombe's own example: 56 of 70 and 48 of 80 differ by 0.0524 to 0.3339.
        let known = of_shares((48.0, 80.0), (56.0, 70.0)).expect("an interval");
        assert!(
            (known.low - 0.0524).abs() < 5e-4 && (known.high - 0.3339).abs() < 5e-4,
            "{known:?}"
        );
    }

    #[test]
    fn means_over_rows_are_told_apart_by_their_scatter() {
        let mut prng = Prng::new(9);
        let mut rows = |middle: f64| -> Vec<f64> {
            (0..60).map(|_| middle + prng.below(1_000) as f64 / 100.0).collect()
        };
        let (one, same, more) = (rows(100.0), rows(100.0), rows(110.0));
        assert!(holds(of_means(&one, &same), 0.0));
        assert!(!holds(of_means(&one, &more), 0.0) && holds(of_means(&one, &more), 10.0));
        assert_eq!(of_means(&one[..5], &more), None);
        assert_eq!(of_means(&one, &more), of_means(&one, &more));
    }

    #[test]
    fn percentiles_have_the_limits_of_order_statistics() {
        let mut spectrum = Spectrum::default();
        (1..=10_000).for_each(|us| spectrum.note(us));
        let (middle, low, high) = limits(&spectrum, 50.0).expect("enough");
        assert!((middle - 5_000.0).abs() < 10.0);
        // 98 ranks to each side, and the grain of the histogram.
        assert!(
            (4_890.0..4_910.0).contains(&low) && (5_090.0..5_115.0).contains(&high),
            "{low} {high}"
        );
        let mut few = Spectrum::default();
        (1..=100).for_each(|us| few.note(us));
        assert!(limits(&few, 50.0).is_some() && limits(&few, 99.0).is_none());
        assert!(holds(of_percentiles(&spectrum, &spectrum, 99.0), 0.0));
    }

    #[test]
    fn repeated_runs_are_told_apart_by_welchs_t() {
        // Standard errors 0.5774 each, four degrees: 2.776 x 0.8165 to both sides.
        let known = of_runs(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0]).expect("an interval");
        assert!(
            (known.low - 7.733).abs() < 2e-3 && (known.high - 12.267).abs() < 2e-3,
            "{known:?}"
        );
        assert_eq!(of_runs(&[1.0], &[1.0, 2.0]), None);
        assert!(holds(of_runs(&[5.0, 5.0], &[5.0, 5.0]), 0.0));
    }

    #[test]
    fn slopes_differ_by_more_than_their_errors_or_not() {
        assert!(holds(of_slopes((100.0, 0.99, 50), (102.0, 0.99, 50)), 0.0));
        assert!(!holds(of_slopes((100.0, 0.999, 50), (150.0, 0.999, 50)), 0.0));
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-6
    }

    #[test]
    fn wilsons_limits_are_those_of_the_book() {
        // 10 of 100: 0.0552 to 0.1744 (Newcombe 1998, method 3).
        let (share, low, high) = wilson((10.0, 100.0)).expect("limits");
        assert!(share == 0.1 && (low - 0.0552).abs() < 1e-4 && (high - 0.1744).abs() < 1e-4);
        let (_, low, high) = wilson((0.0, 10.0)).expect("limits");
        assert!(low == 0.0 && (high - 0.2775).abs() < 1e-4, "{low} {high}");
        let (_, low, high) = wilson((10.0, 10.0)).expect("limits");
        assert!(high == 1.0 && (low - 0.7225).abs() < 1e-4, "{low} {high}");
        assert!(wilson((1.0, 1.0)).is_some() && wilson((0.5, 0.9)).is_none());
        assert!(wilson((-1.0, 10.0)).is_none() && wilson((11.0, 10.0)).is_none());
    }

    #[test]
    fn differences_join_as_mover_does() {
        // From 10 (8 to 13) to 20 (16 to 27): 10 - sqrt(4² + 3²) to 10 + sqrt(7² + 2²).
        let known = joined((10.0, 8.0, 13.0), (20.0, 16.0, 27.0)).expect("an interval");
        assert!(near(known.low, 5.0) && near(known.high, 10.0 + 53_f64.sqrt()), "{known:?}");
        assert_eq!(joined((10.0, 8.0, 13.0), (20.0, 16.0, f64::INFINITY)), None);
        assert_eq!((finite(f64::NAN, 1.0), finite(1.0, f64::NAN)), (None, None));
    }

    #[test]
    fn ten_rows_are_enough_for_means_and_five_beyond_for_percentiles() {
        let rows: Vec<f64> = (0..10).map(f64::from).collect();
        assert!(of_means(&rows, &rows).is_some());
        assert!(of_means(&rows[1..], &rows).is_none() && of_means(&rows, &rows[1..]).is_none());
        let spectrum = |count: u64| {
            let mut spectrum = Spectrum::default();
            (1..=count).for_each(|us| spectrum.note(us));
            spectrum
        };
        assert!(limits(&spectrum(500), 1.0).is_some() && limits(&spectrum(499), 1.0).is_none());
        assert!(limits(&spectrum(20), 75.0).is_some() && limits(&spectrum(19), 75.0).is_none());
    }

    #[test]
    fn blocks_keep_the_mean_and_its_scatter() {
        let mut prng = Prng::new(3);
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        let drawn: Vec<f64> = (0..4_000).map(|_| drawn(&values, &mut prng)).collect();
        let mean = drawn.iter().sum::<f64>() / 4_000.0;
        let scatter = drawn.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 4_000.0;
        assert!((mean - 49.5).abs() < 1.0, "{mean}");
        // Ten blocks of ten neighbours each: about 833 / 10, where single rows would give 8.3.
        assert!((60.0..100.0).contains(&scatter), "{scatter}");
        assert_eq!(super::drawn(&[4.0; 7], &mut prng), 4.0);
    }

    #[test]
    fn means_and_errors_are_exact() {
        assert_eq!(mean_and_error(&[1.0, 2.0, 6.0]), Some((3.0, 14.0 / 2.0 / 3.0)));
        assert_eq!(mean_and_error(&[1.0]), None);
        // Unequal scatter: Welch's degrees are 1.04, so t is that of one degree.
        let known = of_runs(&[10.0, 10.2], &[20.0, 30.0]).expect("an interval");
        let half = 12.706 * (0.01_f64 + 25.0).sqrt();
        assert!(
            (known.low - (14.9 - half)).abs() < 1e-9 && (known.high - (14.9 + half)).abs() < 1e-9
        );
        // So many that the normal's t would do: the table ends at thirty degrees.
        let [one, other] =
            [0.0, 1.0].map(|base| (0..40).map(|n| base + f64::from(n % 2)).collect::<Vec<_>>());
        let known = of_runs(&one, &other).expect("an interval");
        let half = 2.042 * (2.0 * 10.0 / 39.0 / 40.0_f64).sqrt();
        assert!((known.high - known.low - 2.0 * half).abs() < 1e-9, "{known:?}");
    }

    #[test]
    fn a_slope_is_as_sure_as_its_line_is_straight() {
        // Error of a slope: slope x sqrt((1 - r2) / r2 / (points - 2)).
        let known = of_slopes((0.0, 1.0, 9), (100.0, 0.5, 102)).expect("an interval");
        assert!(
            near(known.low, 100.0 - Z * 10.0) && near(known.high, 100.0 + Z * 10.0),
            "{known:?}"
        );
        let down = of_slopes((0.0, 1.0, 9), (-100.0, 0.5, 102)).expect("an interval");
        assert!(
            near(down.low, -100.0 - Z * 10.0) && near(down.high, -100.0 + Z * 10.0),
            "{down:?}"
        );
    }
}
