//! Seeded chance: the same seed throws the same dice.
//!
//! The seed decides the orders and the time of the kill, but not the server's and the machine's own
//! timing.

use base::prng::{Prng, scramble};

/// A row of throws.
#[derive(Clone, Debug)]
pub struct Dice(Prng);

impl Dice {
    /// The throws of `lane` under `seed`; lanes do not follow from each other.
    pub fn new(seed: u64, lane: u64) -> Dice {
        Dice(Prng::new(mix(seed, lane)))
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `count`, which is not zero.
    pub fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    /// A number from `from` to `to`, both included.
    pub fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    /// One of `all`, which is not empty.
    pub fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

/// A number that follows from both and looks like neither.
pub fn mix(a: u64, b: u64) -> u64 {
    scramble(Prng::new(a).draw().wrapping_add(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_throws_the_same_dice_and_another_others() {
        let throws = |seed, lane| {
            let mut dice = Dice::new(seed, lane);
            [dice.next(), dice.below(100), dice.range(5, 9)]
        };
        assert_eq!(throws(1, 2), throws(1, 2));
        assert_ne!(throws(1, 2), throws(1, 3));
        assert_ne!(throws(1, 2), throws(2, 2));
    }
}
