//! Pages of queued messages that the broker reads back from the log, one page a session at a time.
//!
//! A page is requested when few queued messages are left in memory, and is placed behind those, in
//! the order of the log; messages that arrived meanwhile wait behind it in the log. For an offline
//! client nothing is read, except the oldest messages of a full queue that have to make room.

use super::calls::{PageRef, PendingCall, Removal, Retry};
use super::entries::Said;
use crate::message::queue::{Entry, ReadAs};
use crate::retained::decode;
use crate::session::record::EntryRef;
use crate::{Broker, Effects};
use base::slab::Key;
use base::time::{Instant, Now};
use model::counters::ProcessCounter;
use model::ports::calls::may_be_taken_later;
use model::ports::log::{Call, Done, Page, Pull, Read, StoreError, Write};
use model::session::Drop;
use model::timeline::{Placed, Seq};
use std::sync::Arc;

/// Messages read at once for a session.
const PAGE_COUNT: usize = 64;

/// Bytes of their bodies, but always one.
const PAGE_BYTES: usize = 256 * 1024;

impl Broker {
    /// Reads on, if it is time.
    pub(crate) fn read_on(&mut self, key: Key, fx: &mut Effects) {
        let Some(session) = self.sessions.at_mut(key) else { return };
        let online = session.online().is_some();
        let timeline = session.timeline(self.settings.home);
        let Some(more) = session.more.as_mut().filter(|more| !more.is_pulling()) else { return };
        let from = match online {
            true => more.queue.to_read(),
            false => more.queue.upto().filter(|_| more.queue.owes()),
        };
        let Some(from) = from else { return };
        more.begin_pull();
        let page = PageRef { session: key, from, upto: more.queue.told() };
        let (count_max, bytes_max) = (PAGE_COUNT, PAGE_BYTES);
        let pull = Pull { timeline, from, backwards: false, count_max, bytes_max };
        self.log.ask(PendingCall::Page(page), Call::Read(Read::Pull(pull)), fx);
    }

    /// A page came, or did not.
    pub(crate) fn page_read(
        &mut self,
        now: Now,
        of: PageRef,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let key = of.session;
        let Some(session) = self.sessions.at_mut(key) else { return };
        let online = session.online().is_some();
        let Some(more) = session.more.as_mut() else { return };
        more.end_pull();
        if !online && !more.queue.owes() {
            // The client has disconnected again meanwhile: the queue is read when it is back.
            return self.sessions.rest(key);
        }
        let Ok(Done::Page(page)) = result else {
            fx.counters.count(ProcessCounter::PullsFailed);
            return self.log.pull_again(now, key);
        };
        self.take_page(now, of, &page, fx);
        match online {
            true => self.pump(now, key, fx),
            false => {
                self.read_on(key, fx);
                self.sessions.rest(key);
            }
        }
    }

    /// Asks again for pages that could not be read.
    pub(crate) fn turn_pulls(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for key in self.log.take_pulls(now) {
            self.read_on(key, fx);
        }
        self.log.next_pull()
    }

    fn take_page(&mut self, now: Now, of: PageRef, page: &Page, fx: &mut Effects) {
        let PageRef { session: key, from, upto } = of;
        let mut damaged = page.damaged.iter().copied().peekable();
        for placed in &page.messages {
            while let Some(seq) = damaged.next_if(|&seq| seq < placed.seq) {
                self.take_damaged(now, of, seq, fx);
            }
            self.take_placed(now, of, placed, fx);
        }
        damaged.for_each(|seq| self.take_damaged(now, of, seq, fx));
        let last = page.messages.last().map_or(0, |placed| placed.seq);
        let last = page.damaged.last().copied().unwrap_or(0).max(last);
        let covers = if page.more { last } else { last.max(upto) };
        let online = self.sessions.online(key).is_some();
        let totals = &mut self.totals;
        let Some(more) = self.sessions.more_mut(key) else { return };
        let lost = more.queue.page_read((from, covers), totals);
        while online
            && let Some(more) = self.sessions.more_mut(key)
            && let Some(seq) = more.queue.away_between(from, covers.max(from + 1))
            && let Some(entry) = more.queue.lose(seq, &mut self.totals)
        {
            // The message is no longer in the log, or malformed.
            self.over(key, &entry);
            self.share_over(key, &entry, fx);
            self.sessions.dropped(now, key, Drop::StoreFull, 1, fx);
            fx.counters.count(ProcessCounter::PullsFailed);
        }
        self.sessions.dropped(now, key, Drop::StoreFull, lost, fx);
        fx.counters.count_by(ProcessCounter::PullsFailed, u64::from(lost > 0));
    }

    fn take_placed(&mut self, now: Now, of: PageRef, placed: &Placed, fx: &mut Effects) {
        let (key, seq) = (of.session, placed.seq);
        let online = self.sessions.online(key).is_some();
        let Some(more) = self.sessions.more_mut(key) else { return };
        let weight = placed.message.weight() as u32;
        let read = more.queue.read(of.from, (seq, weight), &mut self.totals);
        if read == ReadAs::Known {
            if online
                && more.queue.is_away(seq)
                && let Some(message) = decode(&placed.message.body)
            {
                more.queue.attach(seq, &Arc::new(message), &mut self.totals);
            }
            return;
        }
        let Some(Said::Message(label)) = Said::decode(&placed.message.label) else {
            return self.lose_place(now, key, seq, read, fx);
        };
        let stub = Entry::stub(&label, seq, weight);
        if read == ReadAs::Oldest {
            self.over(key, &stub);
            return self.share_over(key, &stub, fx);
        }
        let Some(message) = decode(&placed.message.body) else {
            self.share_over(key, &stub, fx);
            return self.lose_place(now, key, seq, read, fx);
        };
        let message = online.then(|| Arc::new(message));
        if let Some(more) = self.sessions.more_mut(key) {
            more.queue.arrive(Entry { message, ..stub }, &mut self.totals);
        }
    }

    fn take_damaged(&mut self, now: Now, of: PageRef, seq: Seq, fx: &mut Effects) {
        let Some(more) = self.sessions.more_mut(of.session) else { return };
        match more.queue.read(of.from, (seq, 0), &mut self.totals) {
            ReadAs::Known => {}
            read => self.lose_place(now, of.session, seq, read, fx),
        }
    }

    /// Removes a message that cannot be read, and counts it as dropped if it was waiting for the
    /// client.
    fn lose_place(&mut self, now: Now, key: Key, seq: Seq, read: ReadAs, fx: &mut Effects) {
        self.log.remove(key, seq);
        if read == ReadAs::Waiting {
            fx.counters.count(ProcessCounter::PullsFailed);
            self.sessions.dropped(now, key, Drop::StoreFull, 1, fx);
        }
    }
}

/// Places of which it is not known whether a message stands there still.
impl Broker {
    /// Asks the log whether a message stands at a place whose message is not to be sent.
    pub(crate) fn ask_doubt(&mut self, entry: EntryRef, fx: &mut Effects) {
        let Some(session) = self.sessions.at(entry.session) else { return };
        let (count_max, bytes_max) = (1, 0);
        let timeline = session.timeline(self.settings.home);
        let pull = Pull { timeline, from: entry.seq - 1, backwards: false, count_max, bytes_max };
        self.log.ask(PendingCall::Doubt(entry), Call::Read(Read::Pull(pull)), fx);
    }

    /// The log has answered.
    pub(crate) fn doubt_settled(
        &mut self,
        now: Now,
        entry: EntryRef,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let EntryRef { session: key, seq } = entry;
        let found = match result {
            Err(error) if may_be_taken_later(error) => {
                return self.log.again(now, Retry::Doubt(entry));
            }
            Ok(Done::Page(page)) => {
                let placed = page.messages.first().filter(|placed| placed.seq == seq);
                let damaged = page.damaged.first() == Some(&seq);
                placed.map(|placed| placed.message.weight() as u32).or(damaged.then_some(0))
            }
            _ => None,
        };
        let Some(more) = self.sessions.more_mut(key) else { return };
        let lost = more.queue.settle(found, &mut self.totals);
        let is_released = more.queue.releases().any(|release| release.of == seq);
        if found.is_some() && !is_released {
            self.log.remove(key, seq);
        }
        self.sessions.dropped(now, key, Drop::StoreFull, lost, fx);
        self.pump(now, key, fx);
    }

    /// Handles the log's answer to a removal.
    pub(crate) fn removed(
        &mut self,
        now: Now,
        removal: Box<Removal>,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        if result.is_err() {
            return self.log.settle(now, Retry::Removal(removal), result, fx);
        }
        let key = removal.session;
        let Some(session) = self.sessions.at_mut(key) else { return };
        // A page that was asked for before may have them still.
        if let Some(more) = session.more.as_mut()
            && !more.is_pulling()
            && !self.handovers.is_pulling(key)
            && !self.sweeps.contains_key(&key)
        {
            more.queue.removed(&removal.seqs);
        }
        if !removal.marks.is_empty() {
            let timeline = session.exchanges(self.settings.home);
            self.log.write(Write::Remove { timeline, seqs: removal.marks }, fx);
        }
    }
}
