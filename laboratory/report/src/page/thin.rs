//! Fewer points of a line that still has its heights and depths.
//!
//! The invariant: what was highest and lowest in any stretch is still there, in its order.

/// A point: where, and what.
pub type Point = (f64, f64);

/// At most so many of these points (and no fewer than four where there are more): of each stretch
/// the lowest and the highest, in the order they came, and the first and the last of all.
pub fn thin(points: &[Point], points_max: usize) -> Vec<Point> {
    let points_max = points_max.max(4);
    if points.len() <= points_max {
        return points.to_vec();
    }
    let stretches = (points_max - 2) / 2;
    let inner = &points[1..points.len() - 1];
    let mut out = vec![points[0]];
    for stretch in 0..stretches {
        let from = stretch * inner.len() / stretches;
        let to = (stretch + 1) * inner.len() / stretches;
        let places = from..to;
        let low = places.clone().min_by(|&a, &b| inner[a].1.total_cmp(&inner[b].1));
        let high = places.max_by(|&a, &b| inner[a].1.total_cmp(&inner[b].1));
        let Some((low, high)) = low.zip(high) else { continue };
        out.push(inner[low.min(high)]);
        if low != high {
            out.push(inner[low.max(high)]);
        }
    }
    out.push(points[points.len() - 1]);
    out
}

/// The means of so many equal stretches from zero to `to`, each at its middle. A stretch without a
/// point is zero: rates are summed up this way, and what was not counted was not there.
pub fn means(points: &[Point], to: f64, stretches: usize) -> Vec<Point> {
    let mut sums = vec![(0.0, 0_u32); stretches];
    let width = to / stretches as f64;
    for (at, value) in points {
        let place = ((at / width) as usize).min(stretches - 1);
        sums[place].0 += value;
        sums[place].1 += 1;
    }
    let middle = |place: usize| (place as f64 + 0.5) * width;
    let means = sums.iter().map(|(sum, count)| sum / f64::from((*count).max(1)));
    means.enumerate().map(|(place, mean)| (middle(place), mean)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_and_depths_survive_and_nothing_is_out_of_order() {
        let mut points: Vec<Point> = (0..86_400).map(|at| (f64::from(at), 5.0)).collect();
        points[40_001].1 = 1e9;
        points[40_000].1 = -3.0;
        for points_max in [0, 4, 17, 500, 100_000] {
            let thinned = thin(&points, points_max);
            assert!(thinned.len() <= points_max.max(4), "{points_max}: {}", thinned.len());
            assert!(thinned.contains(&(40_001.0, 1e9)) && thinned.contains(&(40_000.0, -3.0)));
            assert!(thinned.windows(2).all(|pair| pair[0].0 < pair[1].0));
            assert_eq!((thinned[0], thinned[thinned.len() - 1]), (points[0], points[86_399]));
        }
    }

    #[test]
    fn means_hold_the_sum() {
        let points: Vec<Point> = (0..100).map(|at| (f64::from(at), f64::from(at % 10))).collect();
        let means = means(&points, 100.0, 10);
        assert_eq!(means.len(), 10);
        assert!(means.iter().all(|(_, mean)| (mean - 4.5).abs() < 1e-9));
    }

    #[test]
    fn as_many_points_as_may_be_stay_as_they_are() {
        let points: Vec<Point> =
            (0..10).map(|at| (f64::from(at), f64::from(at * at % 7))).collect();
        assert_eq!(thin(&points, 10), points);
        // Ends, and lowest and highest of four stretches of two.
        assert_eq!(thin(&points, 9).len(), 8);
        assert_eq!(thin(&points, 4), [points[0], points[5], points[7], points[9]]);
        assert_eq!(thin(&points[..4], 1), points[..4]);
    }

    #[test]
    fn a_mean_is_of_its_stretch_and_stands_in_its_middle() {
        let points = [(0.0, 1.0), (4.0, 3.0), (5.0, 10.0), (10.0, 20.0)];
        assert_eq!(means(&points, 10.0, 2), [(2.5, 2.0), (7.5, 15.0)]);
        assert_eq!(means(&points[..1], 10.0, 2), [(2.5, 1.0), (7.5, 0.0)]);
    }
}
