//! Messages that wait for a client in the log alone: their head, and which of their places are
//! unread.
//!
//! However many messages wait, this is all that memory has of them. Which places those are, and so
//! that none comes twice, is [`Unread`]'s; here they are counted and weighed. Invariant: `count`
//! messages stand at unread places, and at those that are doubtful; what is counted and not found
//! when everything was read had left the log by itself.

use super::entry::{Entry, Totals, push_back};
use super::expiries::{Expiries, Load};
use super::unread::Unread;
use super::{Queue, SENT_WINDOWS, id_of};
use base::never;
use model::timeline::Seq;
use model::topic::Qos;
use std::collections::VecDeque;

/// The oldest that are to be dropped when they are read, at most.
const OWED_MAX: u32 = 1_024;

/// Messages in memory ahead of those on the way, below which more are read.
const LOW: usize = 32;

/// Messages that wait in the log alone.
#[derive(Default)]
pub(super) struct Stored {
    pub count: u64,
    /// Weight of the messages, bytes.
    pub bytes: u64,
    pub unread: Unread,
    /// Number of the next messages that may have been sent too, before a restart: of QoS 2, and in
    /// all.
    guess: (usize, usize),
    /// The guess was made for what stands up to here.
    guessed: Seq,
    /// Number of the oldest messages yet to be dropped; they no longer count as messages.
    pub owed: u32,
    /// Places of which the log is asked whether a message stands there.
    doubts: u32,
    /// Messages in memory alone, each behind a place.
    pub beside: VecDeque<(Seq, Entry)>,
    /// When those expire that do; absent: none does.
    expiries: Option<Box<Expiries>>,
    /// Whether messages waited at the last stop of the process: their expiry is unknown until they
    /// are read.
    is_strange: bool,
}

/// Head of a timeline, as the log told it at the start.
pub(crate) struct RestoredHead {
    pub last: Seq,
    pub count: u64,
    pub bytes: u64,
    /// Highest place that was sent.
    pub sent_upto: Seq,
    /// The client was connected, with this window: more may have been sent.
    pub window: usize,
}

/// Fate of a message that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadAs {
    /// The message is in memory already, has left, or came after the log was asked.
    Known,
    /// The message is dropped to make room.
    Oldest,
    /// The message waits in memory from now on.
    Waiting,
}

/// A message dropped to make room.
pub(crate) enum Oldest {
    /// This one.
    Entry(Entry),
    /// One that is in the log alone, and will be when it is read.
    Owed,
}

impl Stored {
    /// A message waits in the log alone, until it expires if it does.
    fn will_expire(&mut self, entry: &Entry) {
        if entry.expire_at != 0 {
            let expiries = self.expiries.get_or_insert_default();
            expiries.add(entry.expire_at, entry.bytes.into());
        }
    }

    /// No messages, of a timeline whose last known place is this one.
    fn none(told: Seq) -> Box<Stored> {
        Box::new(Stored { unread: Unread::none(told), ..Stored::default() })
    }

    /// Whether the message at a place was sent, or may have been before a restart; for the oldest
    /// that was not asked about this says so from now on.
    fn was_sent(&mut self, (seq, qos): (Seq, Qos), is_free: bool, sent_upto: &mut Seq) -> bool {
        if seq > self.guessed {
            let (twice, all) = self.guess;
            let may_be = twice > 0 && all > 0 && is_free;
            self.guessed = seq;
            self.guess = match may_be || seq <= *sent_upto {
                true => {
                    let twice = twice.saturating_sub(usize::from(qos == Qos::ExactlyOnce));
                    (twice, all.saturating_sub(1))
                }
                false => (0, 0),
            };
            *sent_upto = (*sent_upto).max(if may_be { seq } else { 0 });
        }
        seq <= *sent_upto
    }
}

impl Queue {
    /// Restores the messages that waited at the last stop of the process.
    pub fn restore(&mut self, head: RestoredHead, totals: &mut Totals) {
        let RestoredHead { last, count, bytes, sent_upto, window } = head;
        let guess = (window, SENT_WINDOWS * window);
        let unread = Unread::all(last);
        let is_strange = count > 0;
        let stored = Stored { count, bytes, unread, guess, is_strange, ..Stored::default() };
        (self.told, self.sent_upto) = (last, sent_upto);
        self.stored = Some(Box::new(stored));
        self.bytes += bytes;
        totals.count += count;
        self.charge(totals);
    }

    /// A message took its place in the log. Where its client is here it is kept in memory, if no
    /// more than so many wait there, and nothing in the log alone. True: it is in the log alone.
    pub fn keep(&mut self, entry: Entry, near: usize, totals: &mut Totals) -> bool {
        if never!(entry.seq <= self.told, "the log tells each place once, and in order") {
            return false;
        }
        self.told = entry.seq;
        if self.stored.is_none() && self.waiting.len() < near {
            self.push(entry, totals);
            return false;
        }
        // All in front of it was told before, also where the queue was empty and was forgotten.
        let stored = self.stored.get_or_insert_with(|| Stored::none(entry.seq - 1));
        stored.unread.tell(entry.seq);
        stored.count += 1;
        stored.bytes += u64::from(entry.bytes);
        stored.will_expire(&entry);
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
        let waiting = std::mem::take(&mut self.waiting);
        let (mut places, mut bytes, mut beside) = (Vec::new(), 0, VecDeque::new());
        let mut expiring = Vec::new();
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
                    // What was sent does not expire any more (MQTT5 4.3.3-7).
                    if entry.id == 0 && entry.expire_at != 0 {
                        expiring.push(entry);
                    }
                }
            }
        }
        places.sort_unstable();
        if places.is_empty() {
            return;
        }
        let told = self.told;
        let stored = self.stored.get_or_insert_with(|| Stored::none(told));
        stored.unread.give_back(&places);
        stored.count += places.len() as u64;
        stored.bytes += bytes;
        expiring.iter().for_each(|entry| stored.will_expire(entry));
        beside.append(&mut stored.beside);
        stored.beside = beside;
    }

    /// Whether what stands behind that may have been sent too, before a restart.
    pub fn sent_more(&self) -> bool {
        self.stored.as_ref().is_some_and(|stored| stored.guess.0 > 0 && stored.guess.1 > 0)
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
        (ahead < LOW).then(|| stored.unread.upto())
    }

    /// The place behind which the log is to be read for the oldest.
    pub fn upto(&self) -> Option<Seq> {
        self.stored.as_ref().map(|stored| stored.unread.upto())
    }

    /// A message of this weight was read, of a page that began behind `from`.
    pub fn read(&mut self, from: Seq, (seq, weight): (Seq, u32), totals: &mut Totals) -> ReadAs {
        let Some(stored) = self.stored.as_mut() else { return ReadAs::Known };
        if !stored.unread.find(from, seq) {
            return ReadAs::Known;
        }
        if never!(stored.count == 0, "what is unread is counted") {
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
        let is_free = self.is_free(id_of(seq));
        let (mut stored, sent_upto) = (self.stored.as_mut(), &mut self.sent_upto);
        if let Some(expiries) = stored.as_mut().and_then(|stored| stored.expiries.as_mut()) {
            expiries.take(entry.expire_at, entry.bytes.into());
        }
        let was_sent =
            stored.is_some_and(|stored| stored.was_sent((seq, entry.qos), is_free, sent_upto));
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
        if let Some(stored) = self.stored.as_mut() {
            stored.unread.read(from, upto);
        }
        self.close_stored(totals)
    }

    /// Whether a message that the log has shown was sent, or may have been before a restart. To be
    /// asked in the order of the log.
    pub fn was_sent(&mut self, seq: Seq, qos: Qos) -> bool {
        if let Some(stored) = self.stored.as_mut().filter(|stored| stored.unread.has(seq)) {
            stored.was_sent((seq, qos), true, &mut self.sent_upto);
        }
        seq <= self.sent_upto
    }

    /// Takes out an entry that is handed to somebody else, wherever it is. `None`: it is not there.
    pub fn lend(&mut self, entry: Entry, totals: &mut Totals) -> Option<Entry> {
        let seq = entry.seq;
        if let Some(entry) = self.lose(seq, totals) {
            return Some(entry);
        }
        let stored = self.stored.as_mut()?;
        if u64::from(stored.owed) >= stored.count || !stored.unread.pass(seq) {
            return None;
        }
        self.leave_stored(entry.bytes);
        totals.count -= 1;
        self.close_stored(totals);
        Some(entry)
    }

    /// An entry that was lent is where it was, if that was in the log alone.
    pub(super) fn put_back_stored(&mut self, entry: &Entry, totals: &mut Totals) -> bool {
        let Some(stored) = self.stored.as_mut() else { return false };
        if !stored.unread.put_back(entry.seq) {
            return false;
        }
        stored.count += 1;
        stored.bytes += u64::from(entry.bytes);
        self.bytes += u64::from(entry.bytes);
        totals.count += 1;
        self.charge(totals);
        true
    }

    /// Marks the message at a place, if one is there, as not to be sent. True: the log has to say
    /// whether one is.
    pub fn doubt(&mut self, seq: Seq) -> bool {
        let Some(stored) = self.stored.as_mut() else { return false };
        let is_unread = stored.unread.pass(seq);
        stored.doubts += u32::from(is_unread);
        is_unread
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

    /// Expired messages that only the log has, as far as known.
    pub fn expired(&mut self, unix_s: u32) -> Load {
        let expiries = self.stored.as_mut().and_then(|stored| stored.expiries.as_mut());
        expiries.map_or(Load::default(), |expiries| expiries.expired(unix_s))
    }

    /// Whether what waits in the log is older than the process: when it expires was not read.
    pub fn is_strange(&self) -> bool {
        self.stored.as_ref().is_some_and(|stored| stored.is_strange)
    }

    /// The log is read from its first unread place on for what has expired: behind which place.
    pub fn begin_sweep(&mut self) -> Option<Seq> {
        let stored = self.stored.as_mut()?;
        stored.is_strange = false;
        if let Some(expiries) = &mut stored.expiries {
            expiries.begin();
        }
        Some(stored.unread.upto())
    }

    /// A message was found there, the so many-th. True: it has expired, and waits no more. A
    /// message that was sent, or may have been, does not expire (MQTT5 4.3.3-7).
    pub fn sweep(&mut self, entry: &Entry, (unix_s, nth): (u32, u64), totals: &mut Totals) -> bool {
        let sent_upto = self.sent_upto;
        let Some(stored) = self.stored.as_mut() else { return false };
        let may_be_sent = entry.seq <= sent_upto || nth <= stored.guess.1 as u64;
        if entry.expire_at == 0 || may_be_sent || !stored.unread.has(entry.seq) {
            return false;
        }
        if entry.expire_at > unix_s {
            stored.will_expire(entry);
            return false;
        }
        if u64::from(stored.owed) >= stored.count || !stored.unread.pass(entry.seq) {
            return false;
        }
        if let Some(expiries) = &mut stored.expiries {
            expiries.removed(entry.bytes.into());
        }
        self.leave_stored(entry.bytes);
        totals.count -= 1;
        self.close_stored(totals);
        true
    }

    /// The log was read to its end.
    pub fn end_sweep(&mut self) {
        let expiries = self.stored.as_mut().and_then(|stored| stored.expiries.as_mut());
        expiries.into_iter().for_each(|expiries| expiries.end());
    }

    /// The log has removed these, and nothing that it was asked before is on its way.
    pub fn removed(&mut self, seqs: &[Seq]) {
        if let Some(stored) = &mut self.stored {
            stored.unread.gone(seqs);
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
        let is_over = stored.doubts == 0 && (stored.count == 0 || stored.unread.is_read());
        if !is_over {
            return 0;
        }
        self.drop_stored(totals) as u64
    }
}
