//! The offset from which a member may read a group: that of the first message that is not too old.
//!
//! Numbers rise in a conversation, so the offset is searched for: by steps that double, then by
//! halves. This module does not read: it is given pages, and names the next to read. Invariant:
//! each page brings the two bounds closer, and no message that the member may read is skipped.

use model::ports::log::Page;
use model::timeline::Seq;

/// A search for the first message with this number or a higher one.
pub(super) struct Beginning {
    since: u64,
    /// The page in question begins behind this offset.
    at: Seq,
    /// All messages up to this offset are too old.
    lower: Seq,
    /// No message from this offset on is too old.
    upper: Option<Seq>,
    step: u64,
}

impl Beginning {
    /// A search behind an offset, by pages of at most this many messages.
    pub(super) fn new(since: u64, from: Seq, count: u16) -> Beginning {
        Beginning { since, at: from, lower: from, upper: None, step: u64::from(count.max(1)) }
    }

    /// The offset up to which all messages are too old.
    pub(super) fn older(&self) -> Seq {
        self.lower
    }

    /// Evaluates a page. Returns the offset behind which to read next; none: this page is the
    /// result.
    pub(super) fn sees(&mut self, page: &Page) -> Option<Seq> {
        let old = |seq: Option<(Seq, u64)>| seq.filter(|(_, id)| *id < self.since);
        let of = |placed: &model::timeline::Placed| (placed.seq, placed.message.id);
        let (first, last) = (page.messages.first().map(of), page.messages.last().map(of));
        match (old(first), old(last)) {
            // All messages of the page are too old: the search continues behind it, if there are
            // more.
            (_, Some((seq, _))) if page.more => self.lower = self.lower.max(seq),
            (_, Some(_)) => return None,
            // The page has the first message that may be read.
            (Some(_), None) => return None,
            _ if self.at <= self.lower => return None,
            (None, None) => self.upper = Some(self.at + 1),
        }
        self.at = match self.upper {
            Some(upper) => self.lower.midpoint((upper - 1).max(self.lower)),
            None => {
                self.step = self.step.saturating_mul(2);
                self.lower.saturating_add(self.step)
            }
        };
        Some(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use model::timeline::{Message, Placed};
    use std::sync::Arc;

    /// Reads a page behind an offset from a conversation of these offsets and numbers.
    fn page(all: &[(Seq, u64)], from: Seq, count: usize) -> Page {
        let behind: Vec<_> = all.iter().filter(|(seq, _)| *seq > from).collect();
        let placed = |(seq, id): &&(Seq, u64)| {
            let (label, body) = Default::default();
            let message = Arc::new(Message { id: *id, at_s: 0, label, body });
            Placed { seq: *seq, message }
        };
        let messages = behind.iter().take(count).map(placed).collect();
        Page { messages, damaged: Vec::new(), more: behind.len() > count }
    }

    #[test]
    fn the_page_has_the_first_that_is_not_older_and_few_others_are_read() {
        let mut rng = Prng::new(47);
        for round in 0..2_000 {
            let (mut seq, mut all) = (0, Vec::new());
            for _ in 0..rng.below(400) {
                seq += 1 + if rng.one_in(5) { rng.below(30) } else { 0 };
                all.push((seq, seq * 10));
            }
            let (since, from) = (rng.below(seq * 10 + 20), rng.below(seq + 2));
            let count = 1 + rng.below(9) as u16;
            let (mut beginning, mut at, mut reads) = (Beginning::new(since, from, count), from, 0);
            let found = loop {
                reads += 1;
                assert!(reads < 60, "round {round}: it ends");
                let page = page(&all, at, count.into());
                match beginning.sees(&page) {
                    Some(next) => at = next,
                    None => break page,
                }
            };
            let expected = all.iter().find(|(seq, id)| *seq > from && *id >= since);
            let has = found.messages.iter().find(|it| it.message.id >= since);
            assert_eq!(has.map(|it| it.seq), expected.map(|(seq, _)| *seq), "round {round}");
        }
    }

    #[test]
    fn a_million_older_ones_take_forty_reads() {
        let all: Vec<(Seq, u64)> = (1..=1_000_000).map(|seq| (seq, seq)).collect();
        let (mut beginning, mut at, mut reads) = (Beginning::new(999_990, 0, 50), 0, 0);
        loop {
            reads += 1;
            let from = all.partition_point(|(seq, _)| *seq <= at);
            let near = &all[from..all.len().min(from + 51)];
            match beginning.sees(&page(near, at, 50)) {
                Some(next) => at = next,
                None => break,
            }
        }
        assert!(reads <= 40, "{reads}");
    }
}
