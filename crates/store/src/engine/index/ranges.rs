//! A set of numbers as ranges: what left a timeline mostly left in a row.
//!
//! Invariant: ranges rise, do not touch and are not empty.

use model::timeline::Seq;

/// A set of seqs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ranges(Vec<(Seq, Seq)>);

impl Ranges {
    pub(crate) fn has(&self, seq: Seq) -> bool {
        let at = self.0.partition_point(|&(_, to)| to < seq);
        self.0.get(at).is_some_and(|&(from, _)| from <= seq)
    }

    pub(crate) fn insert(&mut self, seq: Seq) {
        let at = self.0.partition_point(|&(_, to)| to < seq);
        if self.0.get(at).is_some_and(|&(from, _)| from <= seq) {
            return;
        }
        let joins_last = at > 0 && self.0[at - 1].1 + 1 == seq;
        let joins_next = self.0.get(at).is_some_and(|&(from, _)| seq + 1 == from);
        match (joins_last, joins_next) {
            (true, true) => {
                self.0[at - 1].1 = self.0[at].1;
                self.0.remove(at);
            }
            (true, false) => self.0[at - 1].1 = seq,
            (false, true) => self.0[at].0 = seq,
            (false, false) => self.0.insert(at, (seq, seq)),
        }
    }

    pub(crate) fn remove(&mut self, seq: Seq) {
        let at = self.0.partition_point(|&(_, to)| to < seq);
        let Some(&(from, to)) = self.0.get(at).filter(|&&(from, _)| from <= seq) else {
            return;
        };
        let left = (from < seq).then(|| (from, seq - 1));
        let right = (seq < to).then(|| (seq + 1, to));
        self.0.splice(at..=at, left.into_iter().chain(right));
    }

    /// All numbers from 1 to `upto`, and no others.
    pub(crate) fn all_to(upto: Seq) -> Ranges {
        Ranges(if upto == 0 { Vec::new() } else { vec![(1, upto)] })
    }

    /// The first and last number of each range.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Seq, Seq)> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all of `other`.
    pub(crate) fn join(&mut self, other: &Ranges) {
        let mut all: Vec<_> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        self.0.clear();
        for (from, to) in all {
            match self.0.last_mut() {
                Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
                _ => self.0.push((from, to)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use std::collections::BTreeSet;

    #[test]
    fn it_is_a_set() {
        let mut rng = Prng::new(3);
        let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
        for _ in 0..5_000 {
            let seq = 1 + rng.below(60);
            if rng.one_in(2) {
                ranges.insert(seq);
                set.insert(seq);
            } else {
                ranges.remove(seq);
                set.remove(&seq);
            }
            let flat: Vec<_> = ranges.iter().flat_map(|(from, to)| from..=to).collect();
            assert!(flat.iter().copied().eq(set.iter().copied()));
            assert!(ranges.0.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
            assert_eq!(ranges.has(seq), set.contains(&seq));
        }
        let mut joined = Ranges::all_to(30);
        joined.join(&ranges);
        set.extend(1..=30);
        assert!(joined.iter().flat_map(|(from, to)| from..=to).eq(set.into_iter()));
    }
}
