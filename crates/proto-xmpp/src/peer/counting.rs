//! Acknowledgement of stanzas between servers (XEP-0198), without resumption of streams.
//!
//! ```text
//!   who says it                                      who takes it
//!   enable ─────────────────────────────────────────► enabled
//!   stanza, stanza, r ──────────────────────────────► handed on ─► taken (stored, or answered)
//!   ◄──────────────────────────────────────────────── a h=0, and h=2 when they are taken
//! ```
//! [`Saying`] is of a stream of ours, [`Taking`] of another server's. Neither has a stanza: whoever
//! says one keeps it until its place is acknowledged. Invariant: `h` counts what is taken, and all
//! before it is, too.

use crate::stream::{SM, management_failed};
use crate::xml::scan::Element;
use base::time::{Instant, Now};
use std::time::Duration;

/// How far what is said on a stream has been taken. Places are numbers of stanzas, from the
/// stream's first on.
#[derive(Default)]
pub(super) struct Saying {
    /// Stanzas that were written.
    written: u64,
    /// The other server counts from here on; none: it does not.
    from: Option<u64>,
    /// Number of all stanzas that were taken.
    taken: u64,
    /// The open request for an acknowledgement, which must exceed the one before.
    asked: Option<Asked>,
}

#[derive(Clone, Copy)]
struct Asked {
    due: Instant,
    /// Time of the next request, after an answer that acknowledged nothing new.
    again: Option<Instant>,
}

/// Pause after an answer that said nothing new, before it is asked again.
const AGAIN: Duration = Duration::from_secs(1);

impl Saying {
    /// The other server may count, and is asked to, unless it was: from which place on it does.
    pub(super) fn begins(&mut self, out: &mut Vec<u8>) -> Option<u64> {
        if self.from.is_some() {
            return None;
        }
        out.extend_from_slice(format!("<enable xmlns='{SM}'/>").as_bytes());
        (self.from, self.taken) = (Some(self.written), self.written);
        self.from
    }

    /// Whether it does.
    pub(super) fn is_counted(&self) -> bool {
        self.from.is_some()
    }

    /// Notes that the other server does not count.
    pub(super) fn is_refused(&mut self) {
        (self.from, self.asked) = (None, None);
    }

    /// Notes that so many stanzas were written.
    pub(super) fn writes(&mut self, count: u32, how: (Now, u32), out: &mut Vec<u8>) {
        self.written += u64::from(count);
        self.asks(how, out);
    }

    fn asks(&mut self, (now, ms): (Now, u32), out: &mut Vec<u8>) {
        let is_open = self.from.is_some() && self.written > self.taken;
        if is_open && self.asked.is_none() {
            out.extend_from_slice(format!("<r xmlns='{SM}'/>").as_bytes());
            let due = now.after(Duration::from_millis(ms.into()));
            self.asked = Some(Asked { due, again: None });
        }
    }

    /// The other server says what it has: how many of all, unless it counts what was not said.
    pub(super) fn hears(
        &mut self,
        answer: &Element<'_, '_>,
        how: (Now, u32),
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let from = self.from?;
        let h: u32 = answer.attribute("h")?.parse().ok()?;
        let before = (self.taken - from) as u32;
        let more = u64::from(h.wrapping_sub(before));
        if more > self.written - self.taken {
            return None;
        }
        self.taken += more;
        match &mut self.asked {
            Some(asked) if more == 0 => asked.again = Some(how.0.after(AGAIN)),
            asked => *asked = None,
        }
        self.asks(how, out);
        Some(self.taken)
    }

    /// When it is to be looked at, if an answer is awaited.
    pub(super) fn due(&self) -> Option<Instant> {
        self.asked.map(|it| it.again.map_or(it.due, |again| again.min(it.due)))
    }

    /// Asks again, if it is time for that. False: no answer came in time.
    pub(super) fn passes(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let Some(asked) = &mut self.asked else { return true };
        if asked.again.is_some_and(|again| again <= now.mono) {
            asked.again = None;
            out.extend_from_slice(format!("<r xmlns='{SM}'/>").as_bytes());
        }
        now.mono < asked.due
    }
}

/// How much of what another server says has been taken.
#[derive(Default)]
pub(super) struct Taking {
    is_on: bool,
    /// Stanzas that came since it is.
    came: u64,
    taken: u64,
    /// A higher count that the other server gets as soon as so many are taken.
    owed: Option<u64>,
}

impl Taking {
    /// Begins to count, as the other server asks.
    pub(super) fn begins(&mut self, out: &mut Vec<u8>) {
        if self.is_on {
            return self.refuses(out);
        }
        self.is_on = true;
        out.extend_from_slice(format!("<enabled xmlns='{SM}'/>").as_bytes());
    }

    /// Answers that counting cannot begin now.
    pub(super) fn refuses(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(management_failed("unexpected-request", None).as_bytes());
    }

    /// A stanza came: its place, if it is counted.
    pub(super) fn comes(&mut self) -> Option<u64> {
        self.came += u64::from(self.is_on);
        self.is_on.then_some(self.came)
    }

    /// The other server asks, and is answered (XEP-0198 4): if not all that came is taken, once
    /// more when it is.
    pub(super) fn is_asked(&mut self, out: &mut Vec<u8>) {
        if self.is_on {
            self.answers(out);
            if self.taken != self.came {
                self.owed = self.owed.or(Some(self.came));
            }
        }
    }

    /// All are taken up to this place.
    pub(super) fn is_taken(&mut self, upto: u64, out: &mut Vec<u8>) {
        self.taken = upto;
        if self.owed.is_some_and(|owed| upto >= owed) {
            self.owed = None;
            self.answers(out);
        }
    }

    /// The stream ends in peace: the count of taken stanzas is sent, whether or not it was asked
    /// for, so that none is sent again.
    pub(super) fn ends(&self, out: &mut Vec<u8>) {
        if self.is_on {
            self.answers(out);
        }
    }

    /// Counts are modulo 2^32 there (XEP-0198 4).
    fn answers(&self, out: &mut Vec<u8>) {
        let h = self.taken as u32;
        out.extend_from_slice(format!("<a xmlns='{SM}' h='{h}'/>").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::scan::Scan;

    const MS: u32 = 1_000;

    fn answer(saying: &mut Saying, h: u32) -> (Option<u64>, String) {
        let text = format!("<a xmlns='{SM}' h='{h}'/>");
        let (scan, mut out) = (Scan::of_peer(text.as_bytes()).expect("XML"), Vec::new());
        let taken = saying.hears(&scan.root(), (Now::default(), MS), &mut out);
        (taken, String::from_utf8(out).expect("UTF-8"))
    }

    fn at(ms: u64) -> Now {
        Now { mono: Now::default().after(Duration::from_millis(ms)), ..Now::default() }
    }

    #[test]
    fn what_is_said_is_asked_about_and_counted_from_where_that_began() {
        let (mut saying, mut out) = (Saying::default(), Vec::new());
        let (how, asked) = ((Now::default(), MS), format!("<r xmlns='{SM}'/>"));
        saying.writes(3, how, &mut out);
        assert_eq!((out.len(), saying.due()), (0, None), "nobody counts");
        assert_eq!((saying.begins(&mut out), saying.begins(&mut out)), (Some(3), None));
        saying.writes(2, how, &mut out);
        assert_eq!(saying.due(), Some(at(1_000).mono));
        saying.writes(1, how, &mut out);
        let text = String::from_utf8(out).expect("UTF-8");
        assert_eq!(text, format!("<enable xmlns='{SM}'/>{asked}"), "it was asked");
        assert_eq!(answer(&mut saying, 1), (Some(4), asked.clone()), "it has some");
        assert_eq!(answer(&mut saying, 4), (None, String::new()), "that was never said");
        assert_eq!(answer(&mut saying, 0), (None, String::new()), "nor taken back");
        assert_eq!(answer(&mut saying, 3), (Some(6), String::new()));
        assert_eq!(saying.due(), None);
    }

    #[test]
    fn who_answers_with_nothing_new_is_asked_again_and_given_up_in_time() {
        let (mut saying, mut out) = (Saying::default(), Vec::new());
        saying.begins(&mut out);
        saying.writes(1, (Now::default(), 1_500), &mut out);
        assert_eq!(answer(&mut saying, 0), (Some(0), String::new()));
        assert_eq!(saying.due(), Some(at(1_000).mono));
        out.clear();
        assert!(saying.passes(at(1_000), &mut out));
        assert_eq!(out, format!("<r xmlns='{SM}'/>").as_bytes());
        assert_eq!(saying.due(), Some(at(1_500).mono));
        assert!(!saying.passes(at(1_500), &mut out));
    }

    #[test]
    fn counts_go_beyond_32_bits() {
        let mut out = Vec::new();
        let (written, taken) = (10 + (1 << 32) + 5, 10 + (1 << 32) - 2);
        let mut saying = Saying { from: Some(10), written, taken, ..Saying::default() };
        saying.writes(0, (Now::default(), MS), &mut out);
        assert_eq!(answer(&mut saying, 5).0, Some(written));
    }

    #[test]
    fn who_asks_is_answered_and_told_when_all_that_came_before_is_taken() {
        let (mut taking, mut out) = (Taking::default(), Vec::new());
        let has = |h: u32| format!("<a xmlns='{SM}' h='{h}'/>").into_bytes();
        assert_eq!(taking.comes(), None);
        taking.is_asked(&mut out);
        assert!(out.is_empty(), "nobody counts");
        taking.begins(&mut out);
        out.clear();
        taking.is_asked(&mut out);
        assert_eq!(std::mem::take(&mut out), has(0));
        assert_eq!((taking.comes(), taking.comes()), (Some(1), Some(2)));
        taking.is_asked(&mut out);
        assert_eq!(std::mem::take(&mut out), has(0), "at once");
        assert_eq!(taking.comes(), Some(3));
        taking.is_taken(1, &mut out);
        assert!(out.is_empty());
        taking.is_taken(2, &mut out);
        assert_eq!(std::mem::take(&mut out), has(2));
        taking.is_taken(3, &mut out);
        assert!(out.is_empty(), "nobody asks");
        taking.ends(&mut out);
        assert_eq!(std::mem::take(&mut out), has(3), "but before the end");
        Taking::default().ends(&mut out);
        assert!(out.is_empty(), "nobody counted");
        taking.begins(&mut out);
        assert!(String::from_utf8(out).expect("UTF-8").starts_with("<failed"));
    }
}
