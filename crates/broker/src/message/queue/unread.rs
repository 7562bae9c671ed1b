//! Which places of a session's timeline are in the log alone, and to be read.
//!
//! ```text
//!  the timeline   1 ............... upto | upto + 1 .................. told | told + 1 ...
//!                 in memory, or over     | unread, but what is passed over  | not known of
//! ```
//! A message of the log comes into memory in two ways: by the answer to its append, while nothing
//! is unread; or it is unread, and found in a page. Invariant: a known place is unread, or in
//! memory, or lent, or over, and no two of these; it is found once, and what is in memory or over
//! is found no more unless [`Unread::give_back`] names it. So a message comes once and in its
//! order, whenever pages are answered, and whatever they show: what was removed meanwhile, what is
//! in memory, what is not told yet.

use super::places::Places;
use model::timeline::Seq;

/// The unread places of a timeline: those behind `upto`, as far as `told`, and not passed over.
#[derive(Default, Debug)]
pub(super) struct Unread {
    upto: Seq,
    told: Seq,
    passed: Places,
}

impl Unread {
    /// No places, of a timeline whose last known place is this one.
    pub fn none(told: Seq) -> Unread {
        Unread { upto: told, told, passed: Places::default() }
    }

    /// All places up to this one.
    pub fn all(told: Seq) -> Unread {
        Unread { upto: 0, ..Unread::none(told) }
    }

    /// The place behind which a page has to begin.
    pub fn upto(&self) -> Seq {
        self.upto
    }

    /// Whether the log was read as far as is known.
    pub fn is_read(&self) -> bool {
        self.upto >= self.told
    }

    /// Whether a place is unread.
    pub fn has(&self, seq: Seq) -> bool {
        seq > self.upto && seq <= self.told && !self.passed.has(seq)
    }

    /// A message took this place, behind all others, and is in the log alone.
    pub fn tell(&mut self, seq: Seq) {
        // No place is between them: numbers of a timeline have no gaps when they are given.
        self.told = self.told.max(seq);
    }

    /// A place was found in a page that began behind `from`. True: it is unread no more, and its
    /// message comes into memory.
    pub fn find(&mut self, from: Seq, seq: Seq) -> bool {
        let is_unread = from <= self.upto && self.has(seq);
        self.read(from, seq);
        is_unread
    }

    /// All up to a place was read, in a page that began behind `from`: one that was asked for
    /// before something was given back may not have what is in front of it.
    pub fn read(&mut self, from: Seq, upto: Seq) {
        if from <= self.upto {
            self.upto = self.upto.max(upto.min(self.told));
            self.passed.forget_upto(self.upto);
        }
    }

    /// Marks these places, which are in ascending order and in memory, as unread again. Places
    /// behind the first of them that were not unread are in memory still, or lent, or over: they
    /// are passed over.
    pub fn give_back(&mut self, places: &[Seq]) {
        let Some(&first) = places.first() else { return };
        self.passed.add(first, self.upto);
        places.iter().for_each(|&seq| self.passed.remove(seq));
        self.upto = self.upto.min(first - 1);
    }

    /// A place is passed over, if it is unread; whether it was.
    pub fn pass(&mut self, seq: Seq) -> bool {
        let is_unread = self.has(seq);
        if is_unread {
            self.passed.add(seq, seq);
        }
        is_unread
    }

    /// A place that was passed over is unread again, if the log was not read so far; whether it is.
    pub fn put_back(&mut self, seq: Seq) -> bool {
        let is_ahead = seq > self.upto && seq <= self.told;
        if is_ahead {
            self.passed.remove(seq);
        }
        is_ahead
    }

    /// Places that no page will show any more need not be passed over.
    pub fn gone(&mut self, seqs: &[Seq]) {
        seqs.iter().for_each(|&seq| self.passed.shrink(seq));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_over_at_the_end_of_what_was_told_is_not_found_again() {
        // Three came while the client was there; the last is over, the first goes back.
        let mut unread = Unread::none(3);
        unread.give_back(&[1]);
        unread.tell(4);
        let found: Vec<_> = (1..=4).filter(|&seq| unread.find(0, seq)).collect();
        assert_eq!(found, [1, 4]);
        assert!(unread.is_read());
    }

    /// One of these places.
    fn some(rng: &mut Prng, of: &BTreeSet<Seq>) -> Option<Seq> {
        of.iter().nth(rng.below(of.len().max(1) as u64) as usize).copied()
    }

    /// A timeline, and where its messages are: a known one that is nowhere is over.
    #[derive(Default)]
    struct Model {
        log: BTreeSet<Seq>,
        last: Seq,
        told: Seq,
        waits: BTreeSet<Seq>,
        here: BTreeSet<Seq>,
        lent: BTreeSet<Seq>,
        /// Pages on their way: behind which place, what they have, and up to where that is all.
        pages: Vec<(Seq, Vec<Seq>, Seq)>,
    }

    impl Model {
        fn tell(&mut self, unread: &mut Unread, rng: &mut Prng) {
            if self.told == self.last {
                return;
            }
            self.told += 1;
            if self.waits.is_empty() && rng.one_in(2) {
                // All that was told is somewhere else: the queue keeps no more than that.
                *unread = Unread::none(self.told);
                self.here.insert(self.told);
            } else {
                unread.tell(self.told);
                self.waits.insert(self.told);
            }
        }

        fn is_over(&self, seq: Seq) -> bool {
            let all = [&self.waits, &self.here, &self.lent];
            seq <= self.told && !all.iter().any(|some| some.contains(&seq))
        }

        fn lend(&mut self, unread: &mut Unread, rng: &mut Prng) {
            let Some(seq) = some(rng, &self.waits) else { return };
            assert!(unread.pass(seq) && !unread.pass(seq));
            self.waits.remove(&seq);
            self.lent.insert(seq);
        }

        fn answer_loan(&mut self, unread: &mut Unread, rng: &mut Prng) {
            let Some(seq) = some(rng, &self.lent) else { return };
            self.lent.remove(&seq);
            if rng.one_in(2) {
                let to = if unread.put_back(seq) { &mut self.waits } else { &mut self.here };
                to.insert(seq);
            }
        }

        /// Removes half of the finished messages from the log.
        fn remove(&mut self, unread: &mut Unread, rng: &mut Prng) {
            let over = self.log.iter().copied().filter(|&seq| self.is_over(seq));
            let over: Vec<_> = over.filter(|_| rng.one_in(2)).collect();
            over.iter().for_each(|seq| _ = self.log.remove(seq));
            if self.pages.is_empty() {
                unread.gone(&over);
            }
        }

        fn ask(&mut self, unread: &Unread, rng: &mut Prng) {
            let from = unread.upto() - rng.below(3).min(unread.upto());
            let mut all = self.log.range(from + 1..).copied();
            let page: Vec<_> = all.by_ref().take(rng.below(8) as usize + 1).collect();
            let last = page.last().copied().unwrap_or(0);
            let upto = if all.next().is_some() { last } else { last.max(self.told) };
            self.pages.push((from, page, upto));
        }

        fn answer(&mut self, unread: &mut Unread, rng: &mut Prng) {
            if self.pages.is_empty() {
                return;
            }
            let at = rng.below(self.pages.len() as u64) as usize;
            let (from, page, upto) = self.pages.remove(at);
            for seq in page {
                let is_next = self.waits.first() == Some(&seq);
                if unread.find(from, seq) {
                    assert!(is_next, "{seq}: one that waits, in its order");
                    self.waits.remove(&seq);
                    assert!(self.here.insert(seq), "{seq}: once");
                }
            }
            unread.read(from, upto);
        }
    }

    #[test]
    fn each_place_is_found_once_and_in_order_whatever_pages_show_and_when() {
        for seed in 0..400 {
            let (mut rng, mut model) = (Prng::new(seed), Model::default());
            let mut unread = Unread::none(0);
            for _ in 0..200 {
                match rng.below(10) {
                    0 | 1 => {
                        model.last += 1;
                        model.log.insert(model.last);
                    }
                    2 | 3 => model.tell(&mut unread, &mut rng),
                    4 => {
                        let over = some(&mut rng, &model.here);
                        over.iter().for_each(|seq| _ = model.here.remove(seq));
                    }
                    5 => {
                        let goes = |_: &Seq| !rng.one_in(4);
                        let (back, stays) = model.here.iter().copied().partition(goes);
                        let back: BTreeSet<Seq> = back;
                        model.here = stays;
                        unread.give_back(&back.iter().copied().collect::<Vec<_>>());
                        model.waits.extend(back);
                    }
                    6 => model.lend(&mut unread, &mut rng),
                    7 => model.answer_loan(&mut unread, &mut rng),
                    8 => model.remove(&mut unread, &mut rng),
                    _ if rng.one_in(2) => model.ask(&unread, &mut rng),
                    _ => model.answer(&mut unread, &mut rng),
                }
                // Where nothing stands any more a place need not be passed over.
                let all: Vec<_> = model.log.iter().filter(|&&seq| unread.has(seq)).collect();
                assert!(model.waits.iter().eq(all), "seed {seed}: {unread:?}");
                assert!(!unread.has(model.told + 1), "seed {seed}");
            }
        }
    }
}
