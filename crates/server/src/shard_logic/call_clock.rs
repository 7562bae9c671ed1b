//! How long a service's calls to the log take.
//!
//! Tickets rise, and what is handed over at once has one beginning: so a mark is kept for each
//! batch, not for each call. Invariant: a mark is there until all of its calls are completed, so
//! there are never more marks than calls.

use base::time::Now;
use model::latency::Began;
use model::ports::log::Ticket;
use std::collections::VecDeque;
use std::time::Duration;

/// The calls of a service that are under way.
#[derive(Default)]
pub(super) struct CallClock(VecDeque<Mark>);

/// Calls that were handed over at once.
struct Mark {
    first: Ticket,
    last: Ticket,
    left: u32,
    began: Began,
}

impl CallClock {
    /// Notes that these calls were handed to the log.
    pub(super) fn handed(&mut self, now: Now, tickets: impl Iterator<Item = Ticket>) {
        let Some((first, last, left)) = tickets.fold(None, |range, ticket| match range {
            None => Some((ticket, ticket, 1)),
            Some((first, _, count)) => Some((first, ticket, count + 1)),
        }) else {
            return;
        };
        // Whoever gives tickets otherwise is not timed.
        if self.0.back().is_none_or(|before| before.last < first) && first <= last {
            self.0.push_back(Mark { first, last, left, began: Began::at(now) });
        }
    }

    /// This one is completed: how long it took.
    pub(super) fn completed(&mut self, now: Now, ticket: Ticket) -> Option<Duration> {
        let at = self.0.partition_point(|mark| mark.last < ticket);
        let mark = self.0.get_mut(at).filter(|mark| mark.first <= ticket)?;
        mark.left = mark.left.saturating_sub(1);
        let lasted = mark.began.until(now);
        while self.0.front().is_some_and(|mark| mark.left == 0) {
            self.0.pop_front();
        }
        Some(lasted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::time::Instant;

    fn at(ms: u64) -> Now {
        Now::new(Instant::from_nanos(ms * 1_000_000), 0)
    }

    #[test]
    fn each_call_is_timed_from_its_batch_on_in_whatever_order_it_is_completed() {
        let mut clock = CallClock::default();
        clock.handed(at(0), 0..3);
        clock.handed(at(16), std::iter::empty());
        clock.handed(at(32), 3..5);
        let ms = |lasted: Option<Duration>| lasted.map(|lasted| lasted.as_millis());
        assert_eq!(ms(clock.completed(at(48), 3)), Some(16));
        assert_eq!(ms(clock.completed(at(48), 1)), Some(48));
        assert_eq!(clock.0.len(), 2);
        assert_eq!(
            (ms(clock.completed(at(64), 0)), ms(clock.completed(at(64), 2))),
            (Some(64), Some(64))
        );
        assert_eq!(clock.0.len(), 1, "the first batch is over");
        assert_eq!(ms(clock.completed(at(64), 4)), Some(32));
        assert!(clock.0.is_empty());
        assert_eq!(clock.completed(at(64), 4), None);
    }

    #[test]
    fn tickets_that_do_not_rise_are_not_timed() {
        let mut clock = CallClock::default();
        clock.handed(at(0), [5, 6].into_iter());
        clock.handed(at(0), [6, 7].into_iter());
        clock.handed(at(0), [9, 8].into_iter());
        assert_eq!(clock.0.len(), 1);
        assert_eq!(clock.completed(at(1), 8), None);
    }
}
