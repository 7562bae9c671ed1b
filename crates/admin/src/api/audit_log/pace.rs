//! Gathering of similar entries: the first in a window is reported, the others are counted.
//!
//! Entries are similar if they have the same token, action and answer. Counted entries are reported
//! with the next one of their kind, or when the caller flushes. It reads no clock: entries bring
//! their time. Invariant: the reported entries and their `more` add up to the number received.

use super::Entry;
use std::collections::HashMap;

/// Most kinds that are remembered. Above that, kinds whose window has ended are reported and
/// forgotten; if there are none, an entry is reported as it comes.
const KINDS_MAX: usize = 4_096;

type Kind = (Option<String>, String, u16, Option<&'static str>);

/// Gathered entries.
#[derive(Default)]
pub(super) struct Pace(HashMap<Kind, Window>);

struct Window {
    until_ms: u64,
    count: u64,
    /// The last that was counted.
    last: Option<Entry>,
}

impl Pace {
    /// Takes one in; returns the entries to report now.
    pub(super) fn take(&mut self, window_ms: u64, mut entry: Entry) -> Vec<Entry> {
        let now_ms = entry.at_ms;
        let kind = (entry.token.clone(), entry.action.clone(), entry.status, entry.code);
        let mut told = Vec::new();
        if let Some(window) = self.0.get_mut(&kind) {
            if now_ms < window.until_ms {
                window.count += 1;
                window.last = Some(entry);
                return told;
            }
            entry.more = window.count;
        } else if self.0.len() >= KINDS_MAX {
            self.0.retain(|_, window| {
                let stays = now_ms < window.until_ms;
                told.extend(if stays { None } else { window.rest() });
                stays
            });
        }
        if self.0.len() < KINDS_MAX || self.0.contains_key(&kind) {
            let window = Window { until_ms: now_ms + window_ms, count: 0, last: None };
            self.0.insert(kind, window);
        }
        told.push(entry);
        told
    }

    /// Takes the entries that count those since the first of each window.
    pub(super) fn flush(&mut self) -> Vec<Entry> {
        self.0.values_mut().filter_map(Window::rest).collect()
    }
}

impl Window {
    fn rest(&mut self) -> Option<Entry> {
        let mut last = self.last.take()?;
        last.more = self.count - 1;
        self.count = 0;
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Entry, Outcome};
    use super::*;

    fn at(at_ms: u64, token: &str) -> Entry {
        Entry {
            at_ms,
            token: Some(token.into()),
            peer: None,
            action: "POST /v1/pushes".into(),
            on: at_ms.to_string(),
            outcome: Outcome::Done,
            status: 200,
            code: None,
            more: 0,
        }
    }

    #[test]
    fn the_first_of_a_window_is_told_and_the_others_are_counted() {
        let mut pace = Pace::default();
        assert_eq!(pace.take(10, at(0, "a")), [at(0, "a")]);
        assert_eq!(pace.take(10, at(1, "a")), []);
        assert_eq!(pace.take(10, at(1, "b")), [at(1, "b")], "another's are its own");
        assert_eq!(pace.take(10, at(9, "a")), []);
        assert_eq!(pace.take(10, at(10, "a")), [Entry { more: 2, ..at(10, "a") }]);
        assert_eq!(pace.flush(), []);
        for ms in 11..14 {
            assert_eq!(pace.take(10, at(ms, "a")), []);
        }
        assert_eq!(pace.flush(), [Entry { more: 2, ..at(13, "a") }]);
        assert_eq!(pace.flush(), []);
        assert_eq!(pace.take(10, at(20, "a")), [at(20, "a")], "they were told");
    }

    #[test]
    fn kinds_are_bounded_and_none_is_lost() {
        let mut pace = Pace::default();
        let (mut came, mut told) = (0, 0);
        let mut take = |ms: u64, token: String, pace: &mut Pace| {
            came += 1;
            told += pace.take(10, at(ms, &token)).iter().map(|one| 1 + one.more).sum::<u64>();
            (came, told)
        };
        for number in 0..KINDS_MAX * 2 {
            for _ in 0..2 {
                take(number as u64 / KINDS_MAX as u64 * 20, number.to_string(), &mut pace);
            }
            assert!(pace.0.len() <= KINDS_MAX);
        }
        for _ in 0..2 {
            take(20, "one more while all windows are open".into(), &mut pace);
        }
        let (came, told) = take(20, "another".into(), &mut pace);
        let left: u64 = pace.flush().iter().map(|one| 1 + one.more).sum();
        assert_eq!(came, told + left);
    }
}
