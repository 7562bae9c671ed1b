//! Queue of one client: messages in flight to it, and those that wait.
//!
//! ```text
//!  waiting ──sent──► inflight ──PUBACK──► over
//!                        └────PUBREC──► releases ──PUBCOMP──► over
//! ```
//! After a reconnect `inflight` is sent again from its front, with the identifiers it had: `live`
//! counts those that were sent over this connection. Behind `waiting` are messages that only the
//! log has ([`stored`]): while the client is offline, only their head is known here. An entry of
//! the log (`seq` not 0) may lack its body. Invariant: an identifier is in use once, in `inflight`
//! or in `releases`.

mod entry;
mod expiries;
mod places;
mod stored;
mod unread;

use entry::push_back;
pub(crate) use entry::{ASKED_BYTES, Entry, QUEUE_BYTES, Totals};
pub(crate) use expiries::Load;
use stored::Stored;
pub(crate) use stored::{Oldest, ReadAs, RestoredHead};

use model::timeline::Seq;
use model::topic::{Publication, Qos};
use std::collections::VecDeque;
use std::sync::Arc;

/// A message of QoS 2 that the client has, and does not know to be released.
pub(crate) struct Release {
    pub id: u16,
    /// The place of the message in the timeline, which leaves when the client knows that it is
    /// released; 0: it was in memory alone.
    pub of: u64,
    /// The place of its marker among the exchanges, which leaves behind the message; 0: none.
    pub seq: u64,
    /// The marker is being written: nothing was said yet.
    pub marking: bool,
}

/// Acknowledgement that is awaited under a packet identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaited {
    /// A message of QoS 1 was sent over this connection.
    Puback,
    /// A message of QoS 2 was sent: PUBREC.
    Pubrec,
    /// The client has sent PUBREC, and PUBREL was not sent yet.
    Nothing,
    /// PUBREL was sent: PUBCOMP.
    Pubcomp,
}

/// The queue of one session.
#[derive(Default)]
pub(crate) struct Queue {
    inflight: VecDeque<Entry>,
    live: usize,
    /// Weight of the messages sent over this connection, bytes.
    live_bytes: u64,
    releases: VecDeque<Release>,
    waiting: VecDeque<Entry>,
    /// Messages behind those, in the log alone.
    stored: Option<Box<Stored>>,
    /// The last place of the timeline that is known to be taken; 0: none yet.
    told: Seq,
    /// The highest one that was sent.
    sent_upto: Seq,
    bytes: u64,
    /// [`QUEUE_BYTES`] are counted for it.
    charged: bool,
    /// The last identifier given that is not a place's.
    last_id: u16,
    /// How many after it are known to be free.
    free_ids: u16,
}

/// After a restart, the messages of this many windows at most count as possibly sent to a client
/// that was connected. Messages that it acknowledged at QoS 2 have left by then, so of the rest no
/// more than the window was sent; the number of messages of QoS 1 that were sent and acknowledged
/// meanwhile is unknown.
const SENT_WINDOWS: usize = 8;

/// The packet identifier of the entry at a place: the same after a restart.
pub(crate) fn id_of(seq: u64) -> u16 {
    ((seq - 1) % 65_535 + 1) as u16
}

impl Queue {
    /// Whether nothing is in it.
    pub fn is_idle(&self) -> bool {
        !self.holds() && self.releases.is_empty()
    }

    fn holds(&self) -> bool {
        !self.inflight.is_empty() || !self.waiting.is_empty() || self.stored.is_some()
    }

    /// Messages, those on the way included.
    pub fn count(&self) -> usize {
        self.inflight.len() + self.waiting()
    }

    /// Weight of the messages, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn waiting(&self) -> usize {
        let stored = self
            .stored
            .as_ref()
            .map_or(0, |stored| stored.count as usize - stored.owed as usize + stored.beside.len());
        self.waiting.len() + stored
    }

    /// Sent, and not answered to the end.
    pub fn on_way(&self) -> usize {
        self.live + self.releases.len()
    }

    pub fn releases(&self) -> impl Iterator<Item = &Release> {
        self.releases.iter()
    }

    /// A new message at the end, that is in memory.
    pub fn push(&mut self, entry: Entry, totals: &mut Totals) {
        self.enter(&entry, totals);
        match &mut self.stored {
            Some(stored) => stored.beside.push_back((self.told, entry)),
            None => push_back(&mut self.waiting, entry),
        }
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

    /// Takes the next message of QoS 1 or 2 into flight. `None` if no identifier is free now.
    pub fn send_next(&mut self) -> Option<&Entry> {
        if self.live == self.inflight.len() {
            let seq = self.waiting.front()?.seq;
            let id = self.id_for(seq)?;
            let mut entry = self.waiting.pop_front()?;
            entry.id = id;
            push_back(&mut self.inflight, entry);
        }
        self.live += 1;
        let entry = self.inflight.get(self.live - 1)?;
        self.live_bytes += u64::from(entry.bytes);
        self.sent_upto = self.sent_upto.max(entry.seq);
        Some(entry)
    }

    /// Weight of the messages on the way, bytes.
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

    /// Acknowledgement that is awaited under this identifier, if it belongs to an exchange of this
    /// connection: a message that was sent over an earlier connection, and not yet over this one,
    /// may be answered late or not at all.
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

    /// Removes a message, whatever its QoS.
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

    /// Whether a message that is here waits for its body.
    pub fn is_away(&self, seq: u64) -> bool {
        let mut away = self.entries().filter(|entry| entry.message.is_none());
        away.any(|entry| entry.seq == seq)
    }

    /// The place of the first that waits for its body, of those behind one place and up to another.
    pub fn away_between(&self, after: u64, upto: u64) -> Option<u64> {
        let mut away = self.entries().filter(|entry| entry.message.is_none());
        let at = away.find(|entry| entry.seq > after && entry.seq <= upto)?;
        Some(at.seq)
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
        if self.put_back_stored(&entry, totals) {
            return;
        }
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

    /// Takes out waiting messages in memory that meet a condition.
    pub fn take_waiting(
        &mut self,
        goes: impl Fn(&Entry) -> bool,
        totals: &mut Totals,
    ) -> Vec<Entry> {
        let mut gone = Vec::new();
        if self.waiting.iter().any(&goes) {
            let (first, rest) = self.waiting.drain(..).partition::<Vec<_>, _>(&goes);
            (gone, self.waiting) = (first, rest.into());
        }
        if let Some(stored) = self.stored.as_mut()
            && stored.beside.iter().any(|(_, entry)| goes(entry))
        {
            let all = stored.beside.drain(..);
            let (more, rest) = all.partition::<Vec<_>, _>(|(_, entry)| goes(entry));
            stored.beside = rest.into();
            gone.extend(more.into_iter().map(|(_, entry)| entry));
        }
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

    /// Drops some of the messages in memory of an ended session's queue; returns how many.
    pub fn drop_some(&mut self, most: usize, totals: &mut Totals) -> usize {
        (self.live, self.live_bytes, self.releases) = (0, 0, VecDeque::new());
        self.drop_stored(totals);
        for count in 0..most {
            let front = self.inflight.pop_front().or_else(|| self.waiting.pop_front());
            let Some(entry) = front else { return count };
            self.leave(&entry, totals);
        }
        most
    }

    /// All messages that are in memory, in order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        let beside = self.stored.iter().flat_map(|stored| stored.beside.iter());
        let here = self.inflight.iter().chain(self.waiting.iter());
        here.chain(beside.map(|(_, entry)| entry))
    }

    /// The highest place that was sent, or may have been before a restart. Finished messages may
    /// stand up to there too, for the log may not know that they are finished.
    pub fn sent_upto(&self) -> Seq {
        self.sent_upto
    }

    /// The last place of the timeline that is known to be taken; 0: none is known.
    pub fn told(&self) -> Seq {
        self.told
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
        let mut places: Vec<_> = self.entries().map(|entry| entry.seq).collect();
        places.retain(|&seq| seq != 0);
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0] != pair[1]), "a place is here once");
        let unread = self.stored.as_ref().map(|stored| &stored.unread);
        let is_both = |&seq: &Seq| unread.is_some_and(|unread| unread.has(seq));
        assert!(!places.iter().any(is_both), "what is here is not read again");
        let stored = self.stored.as_ref().map_or(0, |stored| stored.bytes);
        assert_eq!(self.entries().map(Entry::cost).sum::<u64>() + stored, self.bytes);
        totals.count += self.count() as u64;
        totals.bytes += self.entries().map(Entry::cost_here).sum::<u64>();
        totals.bytes += if self.charged { QUEUE_BYTES } else { 0 };
        assert_eq!(self.charged, self.holds(), "what is empty costs nothing");
    }

    fn charge(&mut self, totals: &mut Totals) {
        if !std::mem::replace(&mut self.charged, true) {
            totals.bytes += QUEUE_BYTES;
        }
    }

    fn discharge(&mut self, totals: &mut Totals) {
        if !self.holds() && std::mem::take(&mut self.charged) {
            totals.bytes -= QUEUE_BYTES;
        }
    }

    fn enter(&mut self, entry: &Entry, totals: &mut Totals) {
        self.charge(totals);
        self.bytes += entry.cost();
        totals.count += 1;
        totals.bytes += entry.cost_here();
    }

    /// Updates the totals; to be called after the entry was removed from its row.
    fn leave(&mut self, entry: &Entry, totals: &mut Totals) {
        self.bytes -= entry.cost();
        totals.count -= 1;
        totals.bytes -= entry.cost_here();
        entry::give_room_back(&mut self.waiting);
        entry::give_room_back(&mut self.inflight);
        self.discharge(totals);
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
