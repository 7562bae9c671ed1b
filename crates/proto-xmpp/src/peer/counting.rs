//! What is said between servers is known to be taken (XEP-0198), without going on with streams.
//!
//! ```text
//!   who says it                                      who takes it
//!   enable ─────────────────────────────────────────► enabled
//!   stanza, stanza, r ──────────────────────────────► handed on ─► taken (stored, or answered)
//!   ◄──────────────────────────────────────────────── a h=2
//! ```
//! [`Saying`] is of a stream of ours, [`Taking`] of another server's. Neither has a stanza: whoever
//! says one keeps it until its place is acknowledged. Invariant: `h` counts what is taken, and all
//! before it is, too.

use crate::stream::SM;
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
    /// So many are taken, of all.
    taken: u64,
    /// The other server was asked when so many were written, and must answer before then.
    asked: Option<(u64, Instant)>,
}

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

    /// It does not.
    pub(super) fn is_refused(&mut self) {
        (self.from, self.asked) = (None, None);
    }

    /// So many stanzas were written. When the answer is due, if that is asked for now.
    pub(super) fn writes(
        &mut self,
        count: u32,
        (now, ms): (Now, u32),
        out: &mut Vec<u8>,
    ) -> Option<Instant> {
        self.written += u64::from(count);
        self.asks((now, ms), out)
    }

    fn asks(&mut self, (now, ms): (Now, u32), out: &mut Vec<u8>) -> Option<Instant> {
        let is_open = self.from.is_some() && self.written > self.taken;
        if !is_open || self.asked.is_some() {
            return None;
        }
        out.extend_from_slice(format!("<r xmlns='{SM}'/>").as_bytes());
        let due = now.after(Duration::from_millis(ms.into()));
        self.asked = Some((self.written, due));
        Some(due)
    }

    /// The other server has taken so much: how many of all, unless it counts what was not said;
    /// and when the next answer is due.
    pub(super) fn hears(
        &mut self,
        answer: &Element<'_, '_>,
        how: (Now, u32),
        out: &mut Vec<u8>,
    ) -> Option<(u64, Option<Instant>)> {
        let from = self.from?;
        let h: u32 = answer.attribute("h")?.parse().ok()?;
        let before = (self.taken - from) as u32;
        let more = u64::from(h.wrapping_sub(before));
        if more > self.written - self.taken {
            return None;
        }
        self.taken += more;
        if self.asked.is_some_and(|(written, _)| written <= self.taken) {
            self.asked = None;
        }
        let due = self.asks(how, out);
        Some((self.taken, due))
    }

    /// When the answer is due that was asked for.
    pub(super) fn due(&self) -> Option<Instant> {
        self.asked.map(|(_, due)| due)
    }
}

/// How much of what another server says has been taken.
#[derive(Default)]
pub(super) struct Taking {
    is_on: bool,
    /// Stanzas that came since it is.
    came: u32,
    taken: u32,
    /// The other server waits to hear that so many are taken.
    asked: Option<u32>,
}

impl Taking {
    /// It is to be counted.
    pub(super) fn begins(&mut self, out: &mut Vec<u8>) {
        if self.is_on {
            return self.refuses(out);
        }
        self.is_on = true;
        out.extend_from_slice(format!("<enabled xmlns='{SM}'/>").as_bytes());
    }

    /// It cannot be counted now.
    pub(super) fn refuses(&self, out: &mut Vec<u8>) {
        let condition = "<unexpected-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>";
        out.extend_from_slice(format!("<failed xmlns='{SM}'>{condition}</failed>").as_bytes());
    }

    /// A stanza came: its place, if it is counted.
    pub(super) fn comes(&mut self) -> Option<u32> {
        self.is_on.then(|| {
            self.came = self.came.wrapping_add(1);
            self.came
        })
    }

    /// The other server asks.
    pub(super) fn is_asked(&mut self, out: &mut Vec<u8>) {
        if self.is_on {
            self.asked = Some(self.came);
            self.answers(out);
        }
    }

    /// All are taken up to this place.
    pub(super) fn is_taken(&mut self, upto: u32, out: &mut Vec<u8>) {
        self.taken = upto;
        self.answers(out);
    }

    /// Answers once all is taken that had come when it was asked.
    fn answers(&mut self, out: &mut Vec<u8>) {
        let Some(asked) = self.asked else { return };
        if self.came.wrapping_sub(self.taken) <= self.came.wrapping_sub(asked) {
            self.asked = None;
            out.extend_from_slice(format!("<a xmlns='{SM}' h='{}'/>", self.taken).as_bytes());
        }
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
        let heard = saying.hears(&scan.root(), (Now::default(), MS), &mut out);
        (heard.map(|(taken, _)| taken), String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn what_is_said_is_asked_about_once_at_a_time_and_counted_from_where_that_began() {
        let (mut saying, mut out) = (Saying::default(), Vec::new());
        let how = (Now::default(), MS);
        assert_eq!(saying.writes(3, how, &mut out), None, "nobody counts");
        assert_eq!((saying.begins(&mut out), saying.begins(&mut out)), (Some(3), None));
        let due = Now::default().after(Duration::from_secs(1));
        assert_eq!(saying.writes(2, how, &mut out), Some(due));
        assert_eq!(saying.writes(1, how, &mut out), None, "it was asked");
        let text = String::from_utf8(out).expect("UTF-8");
        assert_eq!(text, format!("<enable xmlns='{SM}'/><r xmlns='{SM}'/>"));
        assert_eq!(answer(&mut saying, 1), (Some(4), String::new()), "it waits for more");
        assert_eq!(answer(&mut saying, 2), (Some(5), format!("<r xmlns='{SM}'/>")));
        assert_eq!(answer(&mut saying, 2), (Some(5), String::new()));
        assert_eq!(answer(&mut saying, 4), (None, String::new()), "that was never said");
        assert_eq!(answer(&mut saying, 1), (None, String::new()), "nor taken back");
        assert_eq!(answer(&mut saying, 3), (Some(6), String::new()));
        assert_eq!(saying.due(), None);
    }

    #[test]
    fn counts_go_beyond_32_bits() {
        let mut out = Vec::new();
        let mut saying =
            Saying { from: Some(10), written: 10 + (1 << 32) + 5, ..Saying::default() };
        saying.taken = 10 + (1 << 32) - 2;
        assert!(saying.writes(0, (Now::default(), MS), &mut out).is_some());
        assert_eq!(answer(&mut saying, 5).0, Some(10 + (1 << 32) + 5));
    }

    #[test]
    fn who_asks_is_answered_when_all_that_came_before_is_taken() {
        let (mut taking, mut out) = (Taking::default(), Vec::new());
        assert_eq!(taking.comes(), None);
        taking.is_asked(&mut out);
        assert!(out.is_empty(), "nobody counts");
        taking.begins(&mut out);
        out.clear();
        taking.is_asked(&mut out);
        assert_eq!(std::mem::take(&mut out), format!("<a xmlns='{SM}' h='0'/>").as_bytes());
        assert_eq!((taking.comes(), taking.comes()), (Some(1), Some(2)));
        taking.is_asked(&mut out);
        assert_eq!(taking.comes(), Some(3));
        taking.is_taken(1, &mut out);
        assert!(out.is_empty());
        taking.is_taken(2, &mut out);
        assert_eq!(std::mem::take(&mut out), format!("<a xmlns='{SM}' h='2'/>").as_bytes());
        taking.is_taken(3, &mut out);
        assert!(out.is_empty(), "nobody asks");
        taking.begins(&mut out);
        assert!(String::from_utf8(out).expect("UTF-8").starts_with("<failed"));
    }
}
