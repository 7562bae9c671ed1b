//! A line through points: what one more connection costs.
//!
//! Least squares over connection counts, with R², so that a figure which is no line shows. A slope
//! forgets whatever is fixed; a quotient would not. Medians live here too.

/// A line through measured points.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slope {
    /// Units of y for one of x.
    pub each: f64,
    /// y where x is zero: what is fixed.
    pub fixed: f64,
    /// How much of y's variance the line explains, 0 to 1.
    pub r2: f64,
    /// Standard error of `each`: how far noise can have bent the line.
    pub error: f64,
}

/// The line through `points` (x, y). A y that never changes is explained wholly.
///
/// Fewer than two different x have no slope: all is fixed then.
pub fn through(points: &[(f64, f64)]) -> Slope {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count.max(1.0);
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| {
        points.iter().map(|&(x, y)| of(x - x_mean, y - y_mean)).sum::<f64>()
    };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if xx == 0.0 {
        return Slope { each: 0.0, fixed: y_mean, r2: 0.0, error: 0.0 };
    }
    let each = xy / xx;
    let r2 = if yy == 0.0 { 1.0 } else { xy * xy / (xx * yy) };
    let unexplained = ((1.0 - r2) * yy).max(0.0);
    let error = (unexplained / (count - 2.0).max(1.0) / xx).sqrt();
    Slope { each, fixed: y_mean - each * x_mean, r2, error }
}

/// The middle of `values`, the mean of the two middle ones if there are two; NaN of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The value that `share` (0 to 1) of `values` do not exceed; NaN of none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_exactly() {
        let slope = through(&[(1.0, 12.0), (2.0, 14.0), (5.0, 20.0)]);
        assert!((slope.each - 2.0).abs() < 1e-9);
        assert!((slope.fixed - 10.0).abs() < 1e-9);
        assert!((slope.r2 - 1.0).abs() < 1e-9 && slope.error < 1e-6);
    }

    #[test]
    fn noise_lowers_r2_and_not_the_slope() {
        let slope = through(&[(0.0, 0.0), (1.0, 3.0), (2.0, 3.0), (3.0, 6.0)]);
        assert!((slope.each - 1.8).abs() < 1e-9);
        assert!((slope.r2 - 0.9).abs() < 1e-9);
        assert!((slope.error - 0.18f64.sqrt()).abs() < 1e-9, "{}", slope.error);
    }

    #[test]
    fn points_without_a_slope_are_fixed() {
        assert_eq!(through(&[(3.0, 7.0)]).each, 0.0);
        assert_eq!(through(&[(3.0, 7.0), (3.0, 9.0)]).fixed, 8.0);
        assert_eq!(through(&[]).each, 0.0);
        let flat = through(&[(1.0, 7.0), (2.0, 7.0)]);
        assert_eq!((flat.each, flat.r2), (0.0, 1.0));
    }

    #[test]
    fn medians_and_quantiles_are_values_in_order() {
        assert_eq!(median(&[9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(&[9.0, 1.0, 5.0, 7.0]), 6.0);
        assert!(median(&[]).is_nan());
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&hundred, 0.99), 99.0);
        assert_eq!(quantile(&hundred, 0.5), 50.0);
        assert_eq!(quantile(&hundred, 0.0), 1.0);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
