//! Terms of a session: heartbeat, window, retry times.
//!
//! Pure functions of a product's policy, a device's wish and a random number for jitter, so that
//! devices that connected together neither ping nor reconnect together.

use base::prng::Prng;
use model::product::Product;
use model::request::HeartbeatWish;

/// Most unacknowledged pushes on a connection, whatever a product configures: it bounds the cost of
/// one scan of a window.
pub(crate) const WINDOW_MAX: u16 = 1_024;

/// The heartbeat, seconds: the device's wish within its range and the product's; if the two ranges
/// do not overlap, the product's. Jitter adds up to a tenth, but never exceeds the device's
/// longest.
pub(crate) fn heartbeat_s(product: &Product, wish: HeartbeatWish, rng: &mut Prng) -> u16 {
    let range = product.heartbeat;
    let (low, high) = (range.min_s.max(1), range.max_s.max(range.min_s).max(1));
    let or = |wish: u16, none: u16| if wish == 0 { none } else { wish };
    let high = or(wish.max_s, high).clamp(low, high);
    let low = or(wish.min_s, low).clamp(low, high);
    let agreed = or(wish.want_s, range.default_s).clamp(low, high);
    let jitter = rng.below(u64::from(agreed) / 10 + 1) as u16;
    let longest = or(wish.max_s, u16::MAX).max(agreed);
    agreed.saturating_add(jitter).min(longest)
}

/// The window: the smaller of the product's and the device's, at least one.
pub(crate) fn window(product: &Product, wish: u16) -> u16 {
    let wish = if wish == 0 { u16::MAX } else { wish };
    product.inflight_max.min(wish).clamp(1, WINDOW_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::ProductKey;

    fn agreed(want_s: u16, min_s: u16, max_s: u16) -> (u16, u16) {
        let product = Product::new(ProductKey::parse("p").expect("a name"), 1); // 30, 300, 1800
        let mut rng = Prng::new(9);
        let wish = HeartbeatWish { want_s, min_s, max_s };
        let all = (0..5_000).map(|_| heartbeat_s(&product, wish, &mut rng));
        all.fold((u16::MAX, 0), |(low, high), s| (low.min(s), high.max(s)))
    }

    #[test]
    fn heartbeats_are_agreed_with_jitter() {
        assert_eq!(agreed(0, 0, 0), (300, 330));
        assert_eq!(agreed(60, 0, 0), (60, 66));
        assert_eq!(agreed(60, 0, 62), (60, 62));
        assert_eq!(agreed(5, 0, 0), (30, 33));
        assert_eq!(agreed(9_000, 0, 0), (1_800, 1_980));
        assert_eq!(agreed(0, 600, 0), (600, 660));
        assert_eq!(agreed(0, 0, 10), (30, 30)); // out of reach: the product's shortest
    }

    #[test]
    fn a_window_is_never_empty() {
        let mut product = Product::new(ProductKey::parse("p").expect("a name"), 1);
        assert_eq!([0, 1, 8, 99].map(|wish| window(&product, wish)), [32, 1, 8, 32]);
        product.inflight_max = 0;
        assert_eq!(window(&product, 0), 1);
    }
}
