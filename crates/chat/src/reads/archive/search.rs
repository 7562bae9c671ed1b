//! Search: the first entry of a timeline that is not before a moment.
//!
//! Entries of a timeline are in the order of their times, as far as the clock allows. Most requests
//! are for something recent, so the end is examined first; earlier entries are found by bisection,
//! in as many reads as the timeline's length has bits. This module does not read. Invariant: each
//! answer brings the two bounds closer, whatever its contents.

use model::timeline::Seq;

/// A search. Times are in the unit of the timeline's entries.
pub(super) struct Search {
    time: u64,
    /// All entries up to this offset are before the time.
    below: Seq,
    /// No entry from this offset on is before the time. Unknown until the end was examined.
    above: Option<Seq>,
}

/// The entries to examine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// The last entries, the last one first.
    End,
    /// The first entries from this offset on.
    From(Seq),
}

impl Search {
    pub(super) fn new(time: u64) -> Search {
        Search { time, below: 0, above: None }
    }

    /// The entries to examine next; none: the search is over.
    pub(super) fn look(&self) -> Option<Look> {
        match self.above {
            None => Some(Look::End),
            Some(above) => (above - self.below > 1).then(|| Look::From(self.below.midpoint(above))),
        }
    }

    /// Takes the offsets and times of the examined entries.
    pub(super) fn sees(&mut self, mut seen: impl Iterator<Item = (Seq, u64)>) {
        match self.look() {
            None => {}
            Some(Look::End) => {
                let mut above = None;
                for (seq, time) in seen {
                    if time < self.time {
                        self.below = seq;
                        break;
                    }
                    above = Some(seq);
                }
                self.above = Some(above.unwrap_or(self.below + 1));
            }
            Some(Look::From(middle)) => match seen.next() {
                Some((seq, time)) if time < self.time && Some(seq) < self.above => self.below = seq,
                _ => self.above = Some(middle),
            },
        }
    }

    /// The offset found: entries from it on are not before the time, entries below it are.
    pub(super) fn place(&self) -> Seq {
        self.above.unwrap_or(self.below + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    /// Searches among entries, with this many of the end visible at once. Returns the offset, and
    /// the number of examinations.
    fn found(entries: &[(Seq, u64)], time: u64, seen: usize) -> (Seq, usize) {
        let (mut search, mut looks) = (Search::new(time), 0);
        while let Some(look) = search.look() {
            looks += 1;
            match look {
                Look::End => search.sees(entries.iter().rev().take(seen).copied()),
                Look::From(from) => {
                    search.sees(entries.iter().filter(|(seq, _)| *seq >= from).copied());
                }
            }
            assert!(looks < 100, "it ends");
        }
        (search.place(), looks)
    }

    #[test]
    fn the_first_that_is_not_before_is_found_wherever_it_is() {
        let mut rng = Prng::new(313);
        for round in 0..2_000 {
            let (mut seq, mut time, mut entries) = (rng.below(50), rng.below(9), Vec::new());
            for _ in 0..rng.below(60) {
                seq += 1 + if rng.one_in(4) { rng.below(9) } else { 0 };
                time += rng.below(3);
                entries.push((seq, time));
            }
            let sought = rng.below(time + 3);
            let (place, _) = found(&entries, sought, 1 + rng.below(9) as usize);
            for (seq, time) in entries {
                assert_eq!(seq >= place, time >= sought, "round {round}: {seq} and {place}");
            }
        }
    }

    #[test]
    fn what_is_recent_takes_a_look_and_what_is_old_as_many_as_the_length_has_bits() {
        let entries: Vec<(Seq, u64)> = (1..=100_000).map(|seq| (seq, seq)).collect();
        assert_eq!(found(&entries, 99_950, 64), (99_950, 1));
        assert_eq!(found(&entries, 200_000, 64), (100_001, 1));
        let (place, looks) = found(&entries, 7, 64);
        assert!(place == 7 && looks <= 18, "{looks}");
        assert_eq!(found(&[], 7, 64), (1, 1));
    }

    #[test]
    fn a_clock_that_went_back_does_not_keep_it_from_ending() {
        let mut rng = Prng::new(314);
        for _ in 0..500 {
            let entries: Vec<_> = (1..=200).map(|seq| (seq, rng.below(9))).collect();
            found(&entries, rng.below(10), 3);
        }
    }
}
