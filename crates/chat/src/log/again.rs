//! Repeats writes that the log refused and whose result no flow waits for, after a pause.
//!
//! ```text
//! refused ─► waits ─► repeated, when all earlier calls are answered
//!              │ a later write of the row is stored: the refused one is dropped
//!              └ a later write of the row is refused, too: it replaces the refused one
//! ```
//! Of the writes of one row only the last waits. This module does not know the meaning of rows.
//! Invariant: a repeated write never undoes a later one.

use base::time::{Instant, Now};
use model::ports::calls::{RETRIES_MAX, RETRY_PAUSE};
use model::ports::log::{Call, Table, Ticket, Write};
use model::timeline::TimelineId;
use std::collections::BTreeMap;

/// The row or timeline that a write changes, where the order of two writes matters. Other writes
/// commute: a removal is final, and a cursor never goes back.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Subject {
    Row(Table, Box<[u8]>),
    /// A whole timeline.
    Timeline(TimelineId),
}

impl Subject {
    pub(super) fn of(call: &Call) -> Option<Subject> {
        match call {
            Call::Write(write) => Subject::of_write(write),
            Call::Read(_) => None,
        }
    }

    fn of_write(write: &Write) -> Option<Subject> {
        match write {
            Write::Put { table, key, .. } | Write::Delete { table, key } => {
                Some(Subject::Row(*table, key.clone()))
            }
            Write::Forget(timeline) => Some(Subject::Timeline(*timeline)),
            _ => None,
        }
    }
}

/// A refused write that is to be repeated.
struct Waiting {
    write: Write,
    /// The write waits until all calls below this ticket are completed: one of them may be a later
    /// write of the same subject.
    until: Ticket,
}

/// Refused writes, by the tickets under which they were refused.
#[derive(Default)]
pub(super) struct WriteRetries {
    waiting: BTreeMap<Ticket, Waiting>,
    /// Ticket of the waiting write of each subject.
    rows: BTreeMap<Subject, Ticket>,
    due: Instant,
}

impl WriteRetries {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Records a later call of this subject: waiting writes of the subject wait for its answer.
    pub(super) fn asked(&mut self, ticket: Ticket, subject: &Subject) {
        for of in self.of(subject) {
            if let Some(waiting) = self.waiting.get_mut(&of) {
                waiting.until = ticket + 1;
            }
        }
    }

    /// Drops waiting writes of this subject that are older than one that the log has stored.
    pub(super) fn stored(&mut self, ticket: Ticket, subject: &Subject) {
        for of in self.of(subject) {
            if of < ticket {
                self.remove(of);
            }
        }
    }

    /// Records that the log refused a write; `next` is the ticket of the next call. False: the
    /// queue is full, and the write is given up.
    pub(super) fn refused(
        &mut self,
        now: Now,
        (ticket, write): (Ticket, Write),
        next: Ticket,
    ) -> bool {
        self.pause(now);
        if let Some(subject) = Subject::of_write(&write) {
            match self.rows.get(&subject) {
                Some(other) if *other > ticket => return true, // a later write of the row waits
                Some(other) => _ = self.waiting.remove(other),
                None if self.waiting.len() >= RETRIES_MAX => return false,
                None => {}
            }
            self.rows.insert(subject, ticket);
        } else if self.waiting.len() >= RETRIES_MAX {
            return false;
        }
        self.waiting.insert(ticket, Waiting { write, until: next });
        true
    }

    /// Pauses all repetitions for `RETRY_PAUSE`.
    pub(super) fn pause(&mut self, now: Now) {
        self.due = now.after(RETRY_PAUSE);
    }

    /// Whether a repetition is due; `Err`: the time at which it is.
    pub(super) fn is_due(&self, now: Now) -> Result<(), Instant> {
        if now.mono < self.due { Err(self.due) } else { Ok(()) }
    }

    /// The next write to repeat, if its predecessors are answered. All tickets below `below` are
    /// completed.
    pub(super) fn take(&mut self, below: Ticket) -> Option<Write> {
        let (ticket, waiting) = self.waiting.first_key_value()?;
        let ticket = *ticket;
        if waiting.until > below { None } else { self.remove(ticket) }
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Write> {
        let waiting = self.waiting.remove(&ticket)?;
        if let Some(subject) = Subject::of_write(&waiting.write) {
            self.rows.remove(&subject);
        }
        Some(waiting.write)
    }

    /// Tickets of the waiting writes of a subject.
    fn of(&self, subject: &Subject) -> Vec<Ticket> {
        match subject {
            _ if self.waiting.is_empty() => Vec::new(),
            Subject::Row(..) => self.rows.get(subject).copied().into_iter().collect(),
            Subject::Timeline(of) => {
                let all = self.waiting.iter();
                all.filter(|(_, it)| is_of(&it.write, *of)).map(|(ticket, _)| *ticket).collect()
            }
        }
    }
}

/// Whether a write changes entries of this timeline.
fn is_of(write: &Write, of: TimelineId) -> bool {
    match write {
        Write::Remove { timeline, .. } | Write::Acknowledge { timeline, .. } => *timeline == of,
        Write::Forget(timeline) => *timeline == of,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use model::timeline::{ReaderId, Space};

    fn put(key: u8, value: u8) -> Write {
        Write::Put { table: Table::Other, key: [key].into(), value: [value].into() }
    }

    fn of(write: &Write) -> Subject {
        Subject::of_write(write).expect("it has one")
    }

    fn refused(retries: &mut WriteRetries, ticket: Ticket, write: Write, next: Ticket) {
        assert!(retries.refused(Now::default(), (ticket, write), next));
    }

    #[test]
    fn what_was_refused_waits_for_all_that_was_asked_for_and_goes_in_order() {
        let mut retries = WriteRetries::default();
        refused(&mut retries, 1, put(1, 1), 4);
        refused(&mut retries, 2, put(2, 2), 4);
        let due = Now::default().after(RETRY_PAUSE);
        assert_eq!((retries.is_due(Now::default()), retries.len()), (Err(due), 2));
        assert_eq!(retries.is_due(Now::new(due, 0)), Ok(()));
        assert_eq!(retries.take(3), None, "the third may be of the same row");
        assert_eq!(retries.take(4), Some(put(1, 1)));
        assert_eq!((retries.take(4), retries.take(4)), (Some(put(2, 2)), None));
        assert!(retries.is_empty() && retries.rows.is_empty());
    }

    #[test]
    fn a_later_write_of_the_row_takes_the_place_of_what_waits_or_ends_it() {
        let mut retries = WriteRetries::default();
        refused(&mut retries, 1, put(1, 1), 2);
        retries.asked(5, &of(&put(1, 2)));
        retries.asked(6, &of(&put(2, 2)));
        assert_eq!(retries.take(5), None, "what is under way is later");
        refused(&mut retries, 5, put(1, 2), 6);
        refused(&mut retries, 3, put(1, 0), 6);
        assert_eq!((retries.len(), retries.take(6)), (1, Some(put(1, 2))), "the last one");
        refused(&mut retries, 7, put(1, 3), 8);
        retries.stored(6, &of(&put(1, 2)));
        assert_eq!(retries.len(), 1, "what was stored is older");
        let delete = Write::Delete { table: Table::Other, key: [1].into() };
        retries.stored(9, &of(&delete));
        assert!(retries.is_empty() && retries.rows.is_empty());
    }

    #[test]
    fn of_a_timeline_that_was_forgotten_nothing_is_asked_for_again() {
        let timeline = |n: u8| TimelineId::of(Space::Other, HashKey::new(1, 2), &[&[n]]);
        let has = |n| Write::Acknowledge { timeline: timeline(n), reader: ReaderId(1), upto: 5 };
        let mut retries = WriteRetries::default();
        refused(&mut retries, 1, has(1), 2);
        refused(&mut retries, 2, has(2), 2);
        let forget = Subject::Timeline(timeline(1));
        retries.asked(3, &forget);
        assert_eq!(retries.take(3), None);
        retries.stored(3, &forget);
        assert_eq!((retries.take(3), retries.len()), (Some(has(2)), 0));
    }

    #[test]
    fn so_many_wait_and_what_waits_already_needs_no_room() {
        let mut retries = WriteRetries::default();
        for ticket in 0..RETRIES_MAX as Ticket {
            let key = ticket.to_be_bytes().into();
            let write = Write::Delete { table: Table::Other, key };
            assert!(retries.refused(Now::default(), (ticket, write), 0));
        }
        let last = RETRIES_MAX as Ticket;
        assert!(!retries.refused(Now::default(), (last, put(1, 1)), 0));
        let again = Write::Delete { table: Table::Other, key: 0_u64.to_be_bytes().into() };
        assert!(retries.refused(Now::default(), (last, again), 0));
        assert_eq!((retries.len(), retries.rows.len()), (RETRIES_MAX, RETRIES_MAX));
    }
}
