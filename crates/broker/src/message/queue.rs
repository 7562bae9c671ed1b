//! Queue of one client: what is on the way to it, and what waits for it.
//!
//! ```text
//!  waiting ──sent──► inflight ──PUBACK──► over
//!                        └────PUBREC──► releases ──PUBCOMP──► over
//! ```
//! After a reconnect `inflight` is sent again from its front, with the identifiers it had: `live`
//! counts those that were sent over this connection. An entry of the log (`seq` not 0) may be
//! without its body. Invariant: an identifier is in use once, in `inflight` or in `releases`.

mod entry;

use entry::push_back;
pub(crate) use entry::{ASKED_BYTES, Entry, QUEUE_BYTES, Totals};

use model::timeline::Seq;
use model::topic::{Publication, Qos};
use std::collections::VecDeque;
use std::sync::Arc;

/// A message of QoS 2 that the client has, and does not know to be released.
pub(crate) struct Release {
    pub id: u16,
    /// The place of the message in the timeline, which leaves it with the marker and not before;
    /// 0: it was in memory alone, or has left.
    pub of: u64,
    /// The place of its marker; 0: none.
    pub seq: u64,
    /// The marker is being written: nothing was said yet.
    pub marking: bool,
}

/// Acknowledgement that is awaited under a packet identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaited {
    /// A message of QoS 1 was sent over this connection.
    Puback,
    /// One of QoS 2 was.
    Pubrec,
    /// The client said that it has one of QoS 2, and was not told that it is released.
    Nothing,
    /// It was told.
    Pubcomp,
}

/// The queue of one session.
#[derive(Default)]
pub(crate) struct Queue {
    inflight: VecDeque<Entry>,
    live: usize,
    /// What those weigh that were sent over this connection.
    live_bytes: u64,
    releases: VecDeque<Release>,
    waiting: VecDeque<Entry>,
    bytes: u64,
    /// [`QUEUE_BYTES`] are counted for it.
    charged: bool,
    /// The last identifier given that is not a place's.
    last_id: u16,
    /// How many after it are known to be free.
    free_ids: u16,
}

/// Windows of messages that are taken for sent after a restart, at most.
const SENT_WINDOWS: usize = 8;

/// The packet identifier of what stands at a place: the same after a restart.
pub(crate) fn id_of(seq: u64) -> u16 {
    ((seq - 1) % 65_535 + 1) as u16
}

impl Queue {
    /// Whether nothing is in it.
    pub fn is_idle(&self) -> bool {
        self.inflight.is_empty() && self.waiting.is_empty() && self.releases.is_empty()
    }

    /// Messages, those on the way included.
    pub fn count(&self) -> usize {
        self.inflight.len() + self.waiting.len()
    }

    /// What they weigh.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Sent, and not answered to the end.
    pub fn on_way(&self) -> usize {
        self.live + self.releases.len()
    }

    pub fn releases(&self) -> impl Iterator<Item = &Release> {
        self.releases.iter()
    }

    /// A new message at the end.
    pub fn push(&mut self, entry: Entry, totals: &mut Totals) {
        self.enter(&entry, totals);
        push_back(&mut self.waiting, entry);
    }

    /// A message that was on the way before a restart.
    pub fn push_sent(&mut self, entry: Entry, totals: &mut Totals) {
        self.enter(&entry, totals);
        self.free_ids = 0;
        push_back(&mut self.inflight, entry);
    }

    /// After a restart, of a client that was connected: what may have been sent to it is on the
    /// way again. What it acknowledged at QoS 2 has left by now, so that of the rest no more than
    /// the window was sent; how much of QoS 1 was sent and acknowledged meanwhile is not known.
    pub fn sent_before(&mut self, window: usize) {
        let is_twice = |entry: &Entry| entry.qos == Qos::ExactlyOnce;
        let mut count = self.inflight.iter().filter(|entry| is_twice(entry)).count();
        while count < window && self.inflight.len() < SENT_WINDOWS * window {
            let Some(entry) = self.waiting.front() else { break };
            let seq = entry.seq;
            if seq == 0 || !self.is_free(id_of(seq)) {
                break;
            }
            let Some(mut entry) = self.waiting.pop_front() else { break };
            count += usize::from(is_twice(&entry));
            entry.set_again();
            entry.id = id_of(seq);
            push_back(&mut self.inflight, entry);
        }
        self.free_ids = 0;
    }

    /// Whether nothing has this identifier.
    pub fn is_free(&self, id: u16) -> bool {
        !self.ids().any(|used| used == id)
    }

    /// The next to be sent, whatever the window says.
    pub fn next(&self) -> Option<&Entry> {
        self.inflight.get(self.live).or_else(|| self.waiting.front())
    }

    /// Takes out the next to be sent, when it was never on its way.
    pub fn take_next(&mut self, totals: &mut Totals) -> Option<Entry> {
        if self.live < self.inflight.len() {
            return None;
        }
        let entry = self.waiting.pop_front()?;
        self.leave(&entry, totals);
        Some(entry)
    }

    /// The next goes out, at QoS 1 or 2. `None`: there is no identifier for it now.
    pub fn send_next(&mut self) -> Option<&Entry> {
        if self.live == self.inflight.len() {
            let seq = self.waiting.front()?.seq;
            let id = self.id_for(seq)?;
            let mut entry = self.waiting.pop_front()?;
            entry.id = id;
            push_back(&mut self.inflight, entry);
        }
        self.live += 1;
        self.live_bytes += u64::from(self.inflight.get(self.live - 1)?.bytes);
        self.inflight.get(self.live - 1)
    }

    /// What those weigh that are on the way.
    pub fn bytes_on_way(&self) -> u64 {
        self.live_bytes
    }

    /// A message of this QoS was acknowledged: it leaves.
    pub fn acknowledge(&mut self, id: u16, qos: Qos, totals: &mut Totals) -> Option<Entry> {
        let at = self.inflight.iter().position(|entry| entry.id == id)?;
        if self.inflight[at].qos != qos {
            return None;
        }
        let entry = self.take_sent_at(at)?;
        self.leave(&entry, totals);
        Some(entry)
    }

    /// What is awaited under this identifier, if it stands for something that this connection has
    /// to know of: what was sent over an earlier one, and over this one not yet, may be answered
    /// late or not at all.
    pub fn awaited(&self, id: u16) -> Option<Awaited> {
        let sent = self.inflight.iter().take(self.live).find(|entry| entry.id == id);
        if let Some(entry) = sent {
            return Some(match entry.qos {
                Qos::ExactlyOnce => Awaited::Pubrec,
                Qos::AtMostOnce | Qos::AtLeastOnce => Awaited::Puback,
            });
        }
        let release = self.releases.iter().find(|release| release.id == id)?;
        Some(if release.marking { Awaited::Nothing } else { Awaited::Pubcomp })
    }

    /// A message is over, whatever its QoS.
    pub fn cancel(&mut self, id: u16, totals: &mut Totals) -> Option<Entry> {
        let qos = self.inflight.iter().find(|entry| entry.id == id)?.qos;
        self.acknowledge(id, qos, totals)
    }

    pub fn add_release(&mut self, release: Release) {
        self.free_ids = 0;
        self.releases.push_back(release);
    }

    pub fn release_mut(&mut self, id: u16) -> Option<&mut Release> {
        self.releases.iter_mut().find(|release| release.id == id)
    }

    pub fn drop_release(&mut self, id: u16) -> Option<Release> {
        let at = self.releases.iter().position(|release| release.id == id)?;
        self.releases.remove(at)
    }

    /// The connection is gone: all that was on the way is to be sent again.
    pub fn rewind(&mut self) {
        (self.live, self.live_bytes) = (0, 0);
        for entry in &mut self.inflight {
            entry.set_again();
        }
    }

    /// Bodies of what is in the log go, but those of the first so many that wait.
    pub fn shed(&mut self, keep: usize, totals: &mut Totals) {
        let sent = self.inflight.iter_mut().filter(|_| keep == 0);
        for entry in sent.chain(self.waiting.iter_mut().skip(keep)) {
            if entry.seq != 0 && entry.message.take().is_some() {
                totals.bytes -= u64::from(entry.bytes);
            }
        }
    }

    /// The body of the last one goes, if it is in the log.
    pub fn shed_last(&mut self, totals: &mut Totals) {
        if let Some(entry) = self.waiting.back_mut()
            && entry.seq != 0
            && entry.message.take().is_some()
        {
            totals.bytes -= u64::from(entry.bytes);
        }
    }

    /// A body came from the log; false when nothing waits for it.
    pub fn attach(&mut self, seq: u64, message: &Arc<Publication>, totals: &mut Totals) -> bool {
        let all = self.inflight.iter_mut().chain(self.waiting.iter_mut());
        let mut away = all.filter(|entry| entry.message.is_none());
        let Some(entry) = away.find(|entry| entry.seq == seq) else { return false };
        entry.message = Some(message.clone());
        totals.bytes += u64::from(entry.bytes);
        true
    }

    /// The place of the next body that has to be fetched, of those so near.
    pub fn missing(&self, near: usize) -> Option<u64> {
        let ahead = self.inflight.iter().skip(self.live).chain(self.waiting.iter());
        ahead.take(near).find(|entry| entry.message.is_none()).map(|entry| entry.seq)
    }

    /// A body that cannot be had: its entry goes.
    pub fn lose(&mut self, seq: u64, totals: &mut Totals) -> Option<Entry> {
        let entry = match self.inflight.iter().position(|entry| entry.seq == seq) {
            Some(at) => self.take_sent_at(at)?,
            None => {
                let at = self.waiting_from(seq);
                let at = at + self.waiting.range(at..).position(|entry| entry.seq == seq)?;
                self.waiting.remove(at)?
            }
        };
        self.leave(&entry, totals);
        Some(entry)
    }

    /// What came through a group and may go to another of its members, from a place of the log on:
    /// not what began at QoS 2.
    pub fn givable_from(&self, seq: Seq) -> impl Iterator<Item = &Entry> {
        let sent = self.inflight.iter().filter(move |entry| entry.seq >= seq);
        let sent = sent.filter(|entry| entry.qos == Qos::AtLeastOnce);
        let unsent = |entry: &&Entry| entry.qos == Qos::AtLeastOnce || !entry.again();
        let all = sent.chain(self.waiting.range(self.waiting_from(seq)..).filter(unsent));
        all.filter(|entry| entry.share != 0 && entry.seq != 0)
    }

    /// Where those that wait from a place of the log on begin. Places rise; between them are
    /// entries that are in memory alone.
    fn waiting_from(&self, seq: Seq) -> usize {
        let (mut low, mut high) = (0, self.waiting.len());
        while low < high {
            let middle = (low + high) / 2;
            let placed = (middle..high).find(|&at| self.waiting[at].seq != 0);
            match placed {
                Some(at) if self.waiting[at].seq < seq => low = at + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// An entry of the log that was taken out is where it was, among those that wait.
    pub fn put_back(&mut self, mut entry: Entry, totals: &mut Totals) {
        self.enter(&entry, totals);
        let id = id_of(entry.seq);
        if entry.again() && self.live == 0 && self.is_free(id) {
            entry.id = id;
            let at = self.inflight.partition_point(|other| other.seq < entry.seq);
            self.free_ids = 0;
            return self.inflight.insert(at, entry);
        }
        let at = self.waiting_from(entry.seq);
        self.waiting.insert(at, entry);
    }

    /// Drops the oldest that waits, to make room.
    pub fn drop_oldest(&mut self, totals: &mut Totals) -> Option<Entry> {
        let entry = self.waiting.pop_front()?;
        self.leave(&entry, totals);
        Some(entry)
    }

    /// Takes out what waits and meets a condition.
    pub fn take_waiting(
        &mut self,
        goes: impl Fn(&Entry) -> bool,
        totals: &mut Totals,
    ) -> Vec<Entry> {
        if !self.waiting.iter().any(&goes) {
            return Vec::new();
        }
        let (gone, rest) = self.waiting.drain(..).partition::<Vec<_>, _>(goes);
        self.waiting = rest.into();
        gone.iter().for_each(|entry| self.leave(entry, totals));
        gone
    }

    /// Takes out what is on the way and meets a condition.
    pub fn take_sent(&mut self, goes: impl Fn(&Entry) -> bool, totals: &mut Totals) -> Vec<Entry> {
        if !self.inflight.iter().any(&goes) {
            return Vec::new();
        }
        let live = self.inflight.iter().take(self.live).filter(|entry| !goes(entry));
        let bytes = live.clone().map(|entry| u64::from(entry.bytes)).sum();
        (self.live_bytes, self.live) = (bytes, live.count());
        let (gone, rest) = self.inflight.drain(..).partition::<Vec<_>, _>(goes);
        self.inflight = rest.into();
        gone.iter().for_each(|entry| self.leave(entry, totals));
        gone
    }

    /// Drops so many of a queue that is nobody's any more; how many it were.
    pub fn drop_some(&mut self, most: usize, totals: &mut Totals) -> usize {
        (self.live, self.live_bytes, self.releases) = (0, 0, VecDeque::new());
        for count in 0..most {
            let front = self.inflight.pop_front().or_else(|| self.waiting.pop_front());
            let Some(entry) = front else { return count };
            self.leave(&entry, totals);
        }
        most
    }

    /// All messages, in order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.inflight.iter().chain(self.waiting.iter())
    }

    /// The highest place that was sent.
    pub fn sent_upto(&self) -> u64 {
        self.inflight.iter().map(|entry| entry.seq).max().unwrap_or(0)
    }

    /// Panics when an invariant does not hold.
    pub fn audit(&self, totals: &mut Totals) {
        let mut ids: Vec<_> = self.inflight.iter().map(|entry| entry.id).collect();
        ids.extend(self.releases.iter().map(|release| release.id));
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "an identifier is in use once");
        assert!(!ids.contains(&0), "identifiers are not zero");
        assert!(self.waiting.iter().all(|entry| entry.id == 0), "what waits has none");
        assert!(self.live <= self.inflight.len(), "what is sent is there");
        assert_eq!(self.entries().map(Entry::cost).sum::<u64>(), self.bytes);
        totals.count += self.count() as u64;
        totals.bytes += self.entries().map(Entry::cost_here).sum::<u64>();
        totals.bytes += if self.charged { QUEUE_BYTES } else { 0 };
        assert_eq!(self.charged, self.count() > 0, "what is empty costs nothing");
    }

    fn enter(&mut self, entry: &Entry, totals: &mut Totals) {
        if !std::mem::replace(&mut self.charged, true) {
            totals.bytes += QUEUE_BYTES;
        }
        self.bytes += entry.cost();
        totals.count += 1;
        totals.bytes += entry.cost_here();
    }

    /// To be called when the entry is out of its row.
    fn leave(&mut self, entry: &Entry, totals: &mut Totals) {
        self.bytes -= entry.cost();
        totals.count -= 1;
        totals.bytes -= entry.cost_here();
        entry::give_room_back(&mut self.waiting);
        entry::give_room_back(&mut self.inflight);
        if self.count() == 0 && std::mem::take(&mut self.charged) {
            totals.bytes -= QUEUE_BYTES;
        }
    }

    fn take_sent_at(&mut self, at: usize) -> Option<Entry> {
        let entry = self.inflight.remove(at)?;
        if at < self.live {
            self.live -= 1;
            self.live_bytes -= u64::from(entry.bytes);
        }
        Some(entry)
    }

    fn ids(&self) -> impl Iterator<Item = u16> {
        let inflight = self.inflight.iter().map(|entry| entry.id);
        inflight.chain(self.releases.iter().map(|release| release.id))
    }

    fn id_for(&mut self, seq: u64) -> Option<u16> {
        if seq != 0 {
            let id = id_of(seq);
            self.free_ids = 0;
            return (!self.ids().any(|used| used == id)).then_some(id);
        }
        let after = |id: u16| if id == u16::MAX { 1 } else { id + 1 };
        while self.free_ids == 0 {
            if self.inflight.len() + self.releases.len() >= usize::from(u16::MAX) {
                return None;
            }
            // How far it is to the next one in use; at 0 the very next is.
            let first = u32::from(after(self.last_id));
            let ahead = self.ids().map(|id| (u32::from(id) + 65_535 - first) % 65_535).min();
            match ahead.unwrap_or(65_534) {
                0 => self.last_id = after(self.last_id),
                free => self.free_ids = free as u16,
            }
        }
        self.free_ids -= 1;
        self.last_id = after(self.last_id);
        Some(self.last_id)
    }
}

#[cfg(test)]
mod tests;
