//! A small seeded source of numbers (SplitMix64).
//!
//! For jitter and for the simulation, where the same seed must give the same world. Never for
//! secrets: keys, nonces and tokens come from the operating system.

/// A deterministic stream of 64-bit numbers.
#[derive(Clone, Debug)]
pub struct Prng(u64);

impl Prng {
    /// The stream that belongs to `seed`.
    pub const fn new(seed: u64) -> Self {
        Prng(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.0)
    }

    /// A number in `0..bound`; zero when `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A number that follows from `z` and looks unlike it.
pub const fn scramble(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_world() {
        let (mut a, mut b, mut c) = (Prng::new(42), Prng::new(42), Prng::new(43));
        let (xs, ys): (Vec<_>, Vec<_>) = (0..8).map(|_| (a.draw(), b.draw())).unzip();
        assert_eq!(xs, ys);
        assert_ne!(xs[0], c.draw());
    }

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let mut rng = Prng::new(1);
        let mut seen = [false; 10];
        for _ in 0..1_000 {
            seen[rng.below(10) as usize] = true;
        }
        assert_eq!(seen, [true; 10]);
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn it_is_split_mix() {
        let mut rng = Prng::new(1_234_567);
        let drawn = [rng.draw(), rng.draw(), rng.draw()];
        assert_eq!(drawn, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn one_in_some_is_one_in_so_many() {
        let mut rng = Prng::new(5);
        let hits = (0..10_000).filter(|_| rng.one_in(10)).count();
        assert!((900..1_100).contains(&hits), "{hits}");
        assert!((0..100).all(|_| rng.one_in(1)));
    }
}
