//! What waits for a client in the log alone: its head, and how far the log was read.
//!
//! ```text
//!  the timeline   1 ... upto | upto + 1 ............................ last |
//!                 in memory  | in the log alone, but for what is passed over
//! ```
//! However many messages wait, this is all that memory has of them. Invariant: `count` are in the
//! timeline behind `upto` and not passed over, as far as the log was asked; what is counted and not
//! found when everything was read had left the log by itself.

use super::entry::{Entry, Totals, push_back};
use super::places::Places;
use super::{Queue, SENT_WINDOWS, id_of};
use model::timeline::Seq;
use model::topic::Qos;
use std::collections::VecDeque;

/// The oldest that are to be dropped when they are read, at most.
const OWED_MAX: u32 = 1_024;

/// Messages in memory ahead of those on the way, below which more are read.
const LOW: usize = 32;

/// What waits in the log alone.
#[derive(Default)]
pub(super) struct Stored {
    pub count: u64,
    /// What they weigh.
    pub bytes: u64,
    /// It was read up to here.
    upto: Seq,
    /// The last place that is known to be taken.
    pub last: Seq,
    /// What stands up to here was sent.
    sent_upto: Seq,
    /// What stands next may have been sent too, before a restart: so many of QoS 2, so many in all.
    guess: (usize, usize),
    /// So many of the oldest are to be dropped: they are counted as messages no more.
    pub owed: u32,
    /// Places of which the log is asked whether a message stands there.
    doubts: u32,
    passed: Places,
    /// Messages in memory alone, each behind a place.
    pub beside: VecDeque<(Seq, Entry)>,
}

/// Head of a timeline, as the log told it at the start.
pub(crate) struct RestoredHead {
    pub last: Seq,
    pub count: u64,
    pub bytes: u64,
    /// What stands up to here was sent.
    pub sent_upto: Seq,
    /// The client was connected, with this window: more may have been sent.
    pub window: usize,
}

/// What becomes of a message that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadAs {
    /// It is here already, has left, or came after the log was asked.
    Known,
    /// It goes to make room.
    Oldest,
    /// It waits in memory from now on.
    Waiting,
}

/// What was dropped to make room.
pub(crate) enum Oldest {
    /// This one.
    Entry(Entry),
    /// One that is in the log alone, and will be when it is read.
    Owed,
}

impl Queue {
    /// What waited at the last stop of the process.
    pub fn restore(&mut self, head: RestoredHead, totals: &mut Totals) {
        let RestoredHead { last, count, bytes, sent_upto, window } = head;
        let guess = (window, SENT_WINDOWS * window);
        let stored = Stored { count, bytes, last, sent_upto, guess, ..Stored::default() };
        self.stored = Some(Box::new(stored));
        self.bytes += bytes;
        totals.count += count;
        self.charge(totals);
    }

    /// A message took its place in the log. Where its client is here it is kept in memory, if no
    /// more than so many wait there, and nothing in the log alone. True: it is in the log alone.
    pub fn keep(&mut self, entry: Entry, near: usize, totals: &mut Totals) -> bool {
        if self.stored.is_none() && self.waiting.len() < near {
            self.push(entry, totals);
            return false;
        }
        let upto = entry.seq - 1;
        let new = || Box::new(Stored { upto, ..Stored::default() });
        let stored = self.stored.get_or_insert_with(new);
        stored.last = stored.last.max(entry.seq);
        stored.count += 1;
        stored.bytes += u64::from(entry.bytes);
        self.bytes += u64::from(entry.bytes);
        totals.count += 1;
        self.charge(totals);
        true
    }

    /// The client is away, and nothing is on its way: what is in the log is there alone.
    pub fn stow(&mut self, totals: &mut Totals) {
        // Beside what is in memory alone the order of sending is known here and nowhere else: then
        // all of it stays, without the bodies that the log has.
        for entry in self.inflight.iter_mut().filter(|entry| entry.seq != 0) {
            if entry.message.take().is_some() {
                totals.bytes -= u64::from(entry.bytes);
            }
        }
        let sent = match self.inflight.iter().all(|entry| entry.seq != 0) {
            true => std::mem::take(&mut self.inflight),
            false => VecDeque::new(),
        };
        let sent_upto = sent.iter().map(|entry| entry.seq).max().unwrap_or(0);
        let waiting = std::mem::take(&mut self.waiting);
        let (mut places, mut bytes, mut beside) = (Vec::new(), 0, VecDeque::new());
        let mut behind = 0;
        for entry in sent.into_iter().chain(waiting) {
            match (entry.seq, behind) {
                (0, 0) => push_back(&mut self.waiting, entry),
                (0, behind) => beside.push_back((behind, entry)),
                (seq, _) => {
                    totals.bytes -= entry.cost_here();
                    bytes += u64::from(entry.bytes);
                    places.push(seq);
                    behind = seq;
                }
            }
        }
        places.sort_unstable();
        let (Some(&first), Some(&last)) = (places.first(), places.last()) else { return };
        let stored = self.stored.get_or_insert_with(|| {
            let stored = Stored { upto: last, last, ..Stored::default() };
            Box::new(stored)
        });
        // What is in between and not here has left, or was lent: the log may have it still.
        let ends = places.iter().map(|seq| seq - 1).chain([stored.upto]).skip(1);
        for (seq, end) in places.iter().zip(ends) {
            stored.passed.add(seq + 1, end);
        }
        stored.upto = first - 1;
        stored.sent_upto = stored.sent_upto.max(sent_upto);
        stored.count += places.len() as u64;
        stored.bytes += bytes;
        beside.append(&mut stored.beside);
        stored.beside = beside;
    }

    /// The last place that is known to be taken, of those that are in the log alone.
    pub fn stored_last(&self) -> Seq {
        self.stored.as_ref().map_or(0, |stored| stored.last)
    }

    /// What stands up to here was sent, of those that are in the log alone.
    pub fn stored_sent_upto(&self) -> Seq {
        self.stored.as_ref().map_or(0, |stored| stored.sent_upto)
    }

    /// Whether the oldest are to be dropped when they are read.
    pub fn owes(&self) -> bool {
        self.stored.as_ref().is_some_and(|stored| stored.owed > 0)
    }

    /// The place behind which the log is to be read now, if it is: for the body of the next, or
    /// because few are left in memory.
    pub fn to_read(&self) -> Option<Seq> {
        if let Some(entry) = self.next().filter(|entry| entry.message.is_none()) {
            return Some(entry.seq - 1);
        }
        let stored = self.stored.as_ref().filter(|stored| stored.count > 0)?;
        let ahead = self.inflight.len() - self.live + self.waiting.len();
        (ahead < LOW).then_some(stored.upto)
    }

    /// The place behind which the log is to be read for the oldest.
    pub fn upto(&self) -> Option<Seq> {
        self.stored.as_ref().map(|stored| stored.upto)
    }

    /// A message of this weight was read, of a page that began behind `from`.
    pub fn read(&mut self, from: Seq, (seq, weight): (Seq, u32), totals: &mut Totals) -> ReadAs {
        let is_sent = |entry: &Entry| entry.seq == seq;
        let is_here = self.inflight.iter().any(is_sent);
        let Some(stored) = self.stored.as_mut() else { return ReadAs::Known };
        if from > stored.upto || seq <= stored.upto || seq > stored.last {
            return ReadAs::Known;
        }
        stored.upto = seq;
        let is_passed = stored.passed.has(seq);
        stored.passed.forget_upto(seq);
        if is_here || is_passed {
            return ReadAs::Known;
        }
        if stored.count == 0 {
            return ReadAs::Known;
        }
        let owed = stored.owed > 0;
        self.leave_stored(weight);
        let stored = self.stored.as_mut();
        match (owed, stored) {
            (true, Some(stored)) => {
                stored.owed -= 1;
                ReadAs::Oldest
            }
            _ => {
                totals.count -= 1;
                ReadAs::Waiting
            }
        }
    }

    /// A message that was read takes its place in memory.
    pub fn arrive(&mut self, mut entry: Entry, totals: &mut Totals) {
        let seq = entry.seq;
        while let Some(stored) = self.stored.as_mut()
            && stored.beside.front().is_some_and(|(behind, _)| *behind < seq)
            && let Some((_, beside)) = stored.beside.pop_front()
        {
            push_back(&mut self.waiting, beside);
        }
        let is_twice = usize::from(entry.qos == Qos::ExactlyOnce);
        let is_free = self.is_free(id_of(seq));
        let was_sent = self.stored.as_mut().is_some_and(|stored| {
            let (twice, all) = stored.guess;
            let is_known = seq <= stored.sent_upto;
            let was_sent = is_known || twice > 0 && all > 0 && is_free;
            stored.guess = match was_sent {
                true => (twice.saturating_sub(is_twice), all.saturating_sub(1)),
                false => (0, 0),
            };
            was_sent
        });
        self.enter(&entry, totals);
        if was_sent {
            entry.set_again();
        }
        if was_sent && is_free {
            entry.id = id_of(seq);
            self.free_ids = 0;
            return push_back(&mut self.inflight, entry);
        }
        push_back(&mut self.waiting, entry);
    }

    /// A page that began behind `from` and covers all up to `upto` was read. How many were counted
    /// that are not in the log any more.
    pub fn page_read(&mut self, (from, upto): (Seq, Seq), totals: &mut Totals) -> u64 {
        if let Some(stored) = self.stored.as_mut()
            && from <= stored.upto
        {
            stored.upto = stored.upto.max(upto.min(stored.last));
            stored.passed.forget_upto(stored.upto);
        }
        self.close_stored(totals)
    }

    /// Takes out an entry that is handed to somebody else, wherever it is. `None`: it is not there.
    pub fn lend(&mut self, entry: Entry, totals: &mut Totals) -> Option<Entry> {
        let seq = entry.seq;
        if let Some(entry) = self.lose(seq, totals) {
            return Some(entry);
        }
        let stored = self.stored.as_mut()?;
        let is_there = seq > stored.upto && seq <= stored.last && !stored.passed.has(seq);
        if !is_there || u64::from(stored.owed) >= stored.count {
            return None;
        }
        stored.passed.add(seq, seq);
        self.leave_stored(entry.bytes);
        totals.count -= 1;
        self.close_stored(totals);
        Some(entry)
    }

    /// An entry that was lent is where it was, if that was in the log alone.
    pub(super) fn put_back_stored(&mut self, entry: &Entry, totals: &mut Totals) -> bool {
        let Some(stored) = self.stored.as_mut().filter(|stored| entry.seq > stored.upto) else {
            return false;
        };
        stored.passed.remove(entry.seq);
        stored.count += 1;
        stored.bytes += u64::from(entry.bytes);
        self.bytes += u64::from(entry.bytes);
        totals.count += 1;
        self.charge(totals);
        true
    }

    /// What stands at a place is not to be sent, if it stands there. True: the log has to say.
    pub fn doubt(&mut self, seq: Seq) -> bool {
        let Some(stored) = self.stored.as_mut() else { return false };
        if seq <= stored.upto || seq > stored.last || stored.passed.has(seq) {
            return false;
        }
        stored.passed.add(seq, seq);
        stored.doubts += 1;
        true
    }

    /// The log has said whether a message stands there, and what it weighs. How many were counted
    /// that are not in the log any more.
    pub fn settle(&mut self, weight: Option<u32>, totals: &mut Totals) -> u64 {
        let Some(stored) = self.stored.as_mut().filter(|stored| stored.doubts > 0) else {
            return 0;
        };
        stored.doubts -= 1;
        if let Some(weight) = weight {
            let is_owed = u64::from(stored.owed) >= stored.count;
            stored.owed -= u32::from(is_owed);
            totals.count -= u64::from(!is_owed);
            self.leave_stored(weight);
        }
        self.close_stored(totals)
    }

    /// The log has removed these, and nothing that it was asked before is on its way.
    pub fn removed(&mut self, seqs: &[Seq]) {
        if let Some(stored) = &mut self.stored {
            seqs.iter().for_each(|&seq| stored.passed.shrink(seq));
        }
    }

    /// Drops the oldest that waits, to make room. `None`: none waits, or too many are to go.
    pub fn drop_oldest(&mut self, totals: &mut Totals) -> Option<Oldest> {
        if let Some(entry) = self.waiting.pop_front() {
            self.leave(&entry, totals);
            return Some(Oldest::Entry(entry));
        }
        let stored = self.stored.as_mut()?;
        if u64::from(stored.owed) < stored.count && stored.owed < OWED_MAX {
            stored.owed += 1;
            totals.count -= 1;
            return Some(Oldest::Owed);
        }
        let (_, entry) = stored.beside.pop_front().filter(|_| stored.owed < OWED_MAX)?;
        self.leave(&entry, totals);
        Some(Oldest::Entry(entry))
    }

    /// Drops all that is in the log alone; how many it were.
    pub(super) fn drop_stored(&mut self, totals: &mut Totals) -> usize {
        let Some(mut stored) = self.stored.take() else { return 0 };
        let count = stored.count - u64::from(stored.owed);
        self.bytes -= stored.bytes;
        totals.count -= count;
        self.waiting.extend(stored.beside.drain(..).map(|(_, entry)| entry));
        self.discharge(totals);
        count as usize
    }

    /// A message of this weight is not in the log alone any more.
    fn leave_stored(&mut self, weight: u32) {
        let Some(stored) = self.stored.as_mut() else { return };
        // Of what is damaged nobody knows what it weighed.
        let bytes = match stored.count {
            1 => stored.bytes,
            _ => u64::from(weight).min(stored.bytes),
        };
        stored.count = stored.count.saturating_sub(1);
        stored.bytes -= bytes;
        self.bytes -= bytes;
    }

    /// When everything was read, or nothing is left, the log is not needed any more.
    fn close_stored(&mut self, totals: &mut Totals) -> u64 {
        let Some(stored) = self.stored.as_ref() else { return 0 };
        let is_over = stored.doubts == 0 && (stored.count == 0 || stored.upto >= stored.last);
        if !is_over {
            return 0;
        }
        self.drop_stored(totals) as u64
    }
}
