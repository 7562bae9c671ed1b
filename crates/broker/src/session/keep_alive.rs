//! The keep-alive that is agreed on: the client's wish within the server's range, and apart from
//! others'.
//!
//! A client that can be given another keep-alive than it wishes for gets at least the shortest, and
//! spread, so that clients that came together do not ping together. Other clients keep their wish.
//! Pure.

use base::prng::Prng;
use model::limits::TopicLimits;

/// The silence in force, seconds; 0: any.
pub(crate) fn agreed_s(wish_s: u16, is_told: bool, limits: &TopicLimits, rng: &mut Prng) -> u16 {
    let max_s = limits.keep_alive_s_max;
    let cut_s = match (wish_s, max_s) {
        (wish_s, 0) => wish_s,
        (0, max_s) => max_s,
        (wish_s, max_s) => wish_s.min(max_s),
    };
    if !is_told || cut_s == 0 {
        return cut_s;
    }
    let low_s = cut_s.max(limits.keep_alive_s_min);
    let span_s = u32::from(low_s) * u32::from(limits.keep_alive_jitter_percent) / 100;
    if span_s == 0 {
        return low_s;
    }
    let longest_s = if max_s == 0 { u16::MAX } else { max_s };
    let high_s = (u32::from(low_s) + span_s).min(longest_s.into());
    let shortest_s = u32::from(limits.keep_alive_s_min.max(1));
    let from_s = (high_s - span_s).max(shortest_s).min(high_s);
    (from_s + rng.below(u64::from(high_s - from_s) + 1) as u32) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shortest and the longest that are agreed on.
    fn agreed(wish_s: u16, is_told: bool, (min, max, jitter): (u16, u16, u8)) -> (u16, u16) {
        let limits = TopicLimits {
            keep_alive_s_min: min,
            keep_alive_s_max: max,
            keep_alive_jitter_percent: jitter,
            ..TopicLimits::default()
        };
        let mut rng = Prng::new(3);
        let all = (0..5_000).map(|_| agreed_s(wish_s, is_told, &limits, &mut rng));
        all.fold((u16::MAX, 0), |(low, high), s| (low.min(s), high.max(s)))
    }

    #[test]
    fn by_default_a_client_has_what_it_wishes_for() {
        for wish_s in [0, 1, 60, 65_535] {
            assert_eq!(agreed(wish_s, true, (0, 0, 0)), (wish_s, wish_s));
        }
    }

    #[test]
    fn who_can_be_told_is_held_to_the_shortest_and_spread() {
        assert_eq!(agreed(10, true, (60, 0, 0)), (60, 60));
        assert_eq!(agreed(10, true, (60, 0, 10)), (60, 66));
        assert_eq!(agreed(300, true, (60, 0, 10)), (300, 330));
        assert_eq!(agreed(5, true, (0, 0, 10)), (5, 5), "a tenth of it is no second");
        assert_eq!(agreed(65_535, true, (0, 0, 1)), (64_880, 65_535));
        assert_eq!(agreed(0, true, (60, 0, 10)), (0, 0), "any silence stays any");
    }

    #[test]
    fn the_longest_is_never_passed_nor_the_shortest() {
        assert_eq!(agreed(9_000, true, (30, 600, 10)), (540, 600));
        assert_eq!(agreed(580, true, (30, 600, 10)), (542, 600));
        assert_eq!(agreed(0, true, (30, 600, 10)), (540, 600));
        assert_eq!(agreed(10, true, (60, 62, 50)), (60, 62));
        assert_eq!(agreed(10, true, (60, 60, 50)), (60, 60));
    }

    #[test]
    fn who_cannot_be_told_is_held_to_its_own() {
        assert_eq!(agreed(10, false, (60, 600, 50)), (10, 10));
        assert_eq!(agreed(9_000, false, (60, 600, 50)), (600, 600));
    }
}
