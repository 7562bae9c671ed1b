//! Places of a timeline that are passed over when it is read.

use model::timeline::Seq;

/// Ranges of places, in order and apart. Those that are nowhere in the timeline may be among them.
#[derive(Default, Debug)]
pub(super) struct Places {
    ranges: Vec<(Seq, Seq)>,
}

impl Places {
    /// Where a place is, or would be.
    fn at(&self, seq: Seq) -> Result<usize, usize> {
        let at = self.ranges.partition_point(|&(_, last)| last < seq);
        match self.ranges.get(at) {
            Some(&(first, _)) if first <= seq => Ok(at),
            _ => Err(at),
        }
    }

    pub fn has(&self, seq: Seq) -> bool {
        self.at(seq).is_ok()
    }

    /// All from a place to another one, both with it; none, if that is before.
    pub fn add(&mut self, mut first: Seq, mut last: Seq) {
        if first > last {
            return;
        }
        let from = self.ranges.partition_point(|range| range.1.saturating_add(1) < first);
        let to = self.ranges.partition_point(|range| range.0 <= last.saturating_add(1));
        if let Some(joined) = self.ranges.get(from..to).filter(|joined| !joined.is_empty()) {
            first = first.min(joined[0].0);
            last = last.max(joined[joined.len() - 1].1);
        }
        self.ranges.splice(from..to, [(first, last)]);
    }

    /// Makes a place readable again.
    pub fn remove(&mut self, seq: Seq) {
        let Ok(at) = self.at(seq) else { return };
        let (first, last) = self.ranges[at];
        let parts = [(first, seq - 1), (seq + 1, last)];
        self.ranges.splice(at..=at, parts.into_iter().filter(|(first, last)| first <= last));
    }

    /// Forgets a place that is empty. The number of ranges does not grow.
    pub fn shrink(&mut self, seq: Seq) {
        if let Ok(at) = self.at(seq)
            && (self.ranges[at].0 == seq || self.ranges[at].1 == seq)
        {
            self.remove(seq);
        }
    }

    /// Forgets the places up to this one, which are no longer read.
    pub fn forget_upto(&mut self, seq: Seq) {
        let gone = self.ranges.partition_point(|&(_, last)| last <= seq);
        self.ranges.drain(..gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use std::collections::BTreeSet;

    #[test]
    fn they_are_what_a_set_would_be_and_no_more_than_they_must() {
        let mut rng = Prng::new(3);
        for _ in 0..200 {
            let (mut places, mut set) = (Places::default(), BTreeSet::new());
            for _ in 0..60 {
                let seq = rng.below(40) + 1;
                match rng.below(5) {
                    0 | 1 => {
                        let last = seq + rng.below(4);
                        places.add(seq, last);
                        set.extend(seq..=last);
                    }
                    2 => {
                        places.remove(seq);
                        set.remove(&seq);
                    }
                    3 => {
                        let before = places.ranges.len();
                        places.shrink(seq);
                        assert!(places.ranges.len() <= before);
                        if !places.has(seq) {
                            set.remove(&seq);
                        }
                    }
                    _ => {
                        places.forget_upto(seq / 4);
                        let first = places.ranges.first().map_or(0, |range| range.0);
                        set.retain(|&at| at > seq / 4 || at >= first && first > 0);
                    }
                }
                assert!((1..=45).all(|at| places.has(at) == set.contains(&at)), "{places:?}");
                let apart = |pair: &[(Seq, Seq)]| pair[0].1 + 1 < pair[1].0;
                assert!(places.ranges.windows(2).all(apart), "{places:?}");
            }
        }
        let mut none = Places::default();
        none.add(5, 4);
        assert!(!none.has(4) && !none.has(5));
    }
}
