//! Straight lines through points, by least squares.
//!
//! This module knows only numbers. The invariant: for any input the result is finite or `None`.

/// A straight line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FittedLine {
    /// Its height at zero.
    pub base: f64,
    /// Its rise for each one to the right.
    pub slope: f64,
    /// Share of the points' variation that it explains, 0 to 1.
    pub r2: f64,
}

impl FittedLine {
    /// Its height at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.base + self.slope * x
    }

    /// The best line through at least three points of which not all stand above one another.
    pub fn through(points: &[(f64, f64)]) -> Option<FittedLine> {
        if points.len() < 3 || points.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
            return None;
        }
        let count = points.len() as f64;
        let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
        let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        let [mut xx, mut xy, mut yy] = [0.0; 3];
        for (x, y) in points {
            let (dx, dy) = (x - mean_x, y - mean_y);
            xx += dx * dx;
            xy += dx * dy;
            yy += dy * dy;
        }
        if xx <= 0.0 {
            return None;
        }
        let slope = xy / xx;
        // What does not vary at all is explained by a flat line.
        let r2 = if yy > 0.0 { (xy * xy / (xx * yy)).min(1.0) } else { 1.0 };
        let line = FittedLine { base: mean_y - slope * mean_x, slope, r2 };
        (line.base.is_finite() && slope.is_finite() && r2.is_finite()).then_some(line)
    }
}

/// The middle of some values; `None`: there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[half]),
        _ => Some(values[half - 1] / 2.0 + values[half] / 2.0),
    }
}

/// The mean of some values; `None`: there are none, or it is beyond numbers.
pub fn mean(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    mean.is_finite().then_some(mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<_> = (0..100).map(|x| (f64::from(x), 7.0 + 3.0 * f64::from(x))).collect();
        let line = FittedLine::through(&points).expect("a line");
        assert!((line.slope - 3.0).abs() < 1e-9 && (line.base - 7.0).abs() < 1e-9);
        assert!(line.r2 > 0.999_999 && (line.at(10.0) - 37.0).abs() < 1e-9);
    }

    #[test]
    fn what_has_no_line_gives_none_and_noise_explains_little() {
        assert_eq!(FittedLine::through(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(FittedLine::through(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(FittedLine::through(&[(1.0, 1.0), (2.0, f64::NAN), (3.0, 3.0)]), None);
        assert_eq!(
            FittedLine::through(&[(0.0, f64::MAX), (1.0, -f64::MAX), (2.0, f64::MAX)]),
            None
        );
        let zigzag: Vec<_> = (0..100).map(|x| (f64::from(x), f64::from(x % 2))).collect();
        assert!(FittedLine::through(&zigzag).expect("a line").r2 < 0.01);
        let flat: Vec<_> = (0..9).map(|x| (f64::from(x), 5.0)).collect();
        assert_eq!(FittedLine::through(&flat).map(|line| (line.slope, line.r2)), Some((0.0, 1.0)));
    }

    #[test]
    fn middles_are_middles() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!((median([f64::NAN]), mean(&[])), (None, None));
        assert_eq!(mean(&[1.0, 3.0]), Some(2.0));
    }

    #[test]
    fn a_line_knows_how_much_it_explains() {
        // By hand: means 2 and 3, xx 2, xy 1, yy 2: slope 1/2, r2 1/4.
        let line = FittedLine::through(&[(1.0, 2.0), (2.0, 4.0), (3.0, 3.0)]).expect("a line");
        assert_eq!((line.base, line.slope, line.r2), (2.0, 0.5, 0.25));
        let steep = FittedLine::through(&[(0.0, 5.0), (4.0, -3.0), (8.0, -11.0)]).expect("a line");
        assert_eq!((steep.base, steep.slope, steep.r2, steep.at(1.0)), (5.0, -2.0, 1.0, 3.0));
    }
}
