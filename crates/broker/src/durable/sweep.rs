//! Removal of expired messages from the queues of clients that do not read.
//!
//! While the queue has room they stay until they are read for the client, and are then dropped. A
//! queue that is full, or was stored by an earlier process, is read once from its beginning, a page
//! at a time, and expired messages are removed from the log (MQTT5 3.3.2-5). Meanwhile new messages
//! take the room of those known to have expired. One sweep per session; it holds nothing but its
//! progress.

use super::calls::{PageRef, PendingCall};
use super::entries::Said;
use crate::message::deliver::expired;
use crate::message::keep::NEAR;
use crate::message::queue::{Entry, Load};
use crate::{Broker, Effects};
use base::slab::Key;
use base::time::Now;
use model::counters::ProcessCounter;
use model::ports::log::{Call, Done, Page, Pull, Read, StoreError};
use model::session::Drop;
use model::timeline::Seq;
use std::collections::BTreeMap;

/// Messages read at once for a session.
const PAGE_COUNT: usize = 256;

/// Bytes of their bodies, but always one.
const PAGE_BYTES: usize = 256 * 1024;

/// Sessions whose queues are swept at a time, a shard. One more is swept when it is full once more.
const SWEEPS_MAX: usize = 64;

/// The sweeps of a shard: how many messages each has seen.
pub(crate) type Sweeps = BTreeMap<Key, u64>;

impl Broker {
    /// Expired messages of a session's queue. A queue of which that is not known, or of which
    /// something has, is swept.
    pub(crate) fn expired_of(&mut self, now: Now, key: Key, fx: &mut Effects) -> Load {
        let unix_s = now.unix_s();
        let totals = &mut self.totals;
        let Some(more) = self.sessions.more_mut(key) else { return Load::default() };
        let gone = more.queue.take_waiting(|entry| expired(entry, unix_s), totals);
        let (load, is_strange) = (more.queue.expired(unix_s), more.queue.is_strange());
        for entry in &gone {
            self.over(key, entry);
            self.share_over(key, entry, fx);
        }
        self.sessions.dropped(now, key, Drop::Expired, gone.len() as u64, fx);
        if load.count > 0 || is_strange {
            self.begin_sweep(key, fx);
        }
        load
    }

    /// Messages that a queue has room for beyond its limit, while it is not known what of it has
    /// expired.
    pub(crate) fn room_beyond(&self, key: Key) -> usize {
        if self.sweeps.contains_key(&key) { NEAR } else { 0 }
    }

    fn begin_sweep(&mut self, key: Key, fx: &mut Effects) {
        if self.sweeps.contains_key(&key) || self.sweeps.len() >= SWEEPS_MAX {
            return;
        }
        let Some(more) = self.sessions.more_mut(key) else { return };
        let upto = more.queue.told();
        let Some(from) = more.queue.begin_sweep() else { return };
        self.sweeps.insert(key, 0);
        self.sweep_on(PageRef { session: key, from, upto }, fx);
    }

    fn sweep_on(&mut self, page: PageRef, fx: &mut Effects) {
        let Some(session) = self.sessions.at(page.session) else { return };
        let timeline = session.timeline(self.settings.home);
        let (count_max, bytes_max) = (PAGE_COUNT, PAGE_BYTES);
        let pull = Pull { timeline, from: page.from, backwards: false, count_max, bytes_max };
        self.log.ask(PendingCall::Swept(page), Call::Read(Read::Pull(pull)), fx);
    }

    /// A page of a sweep came, or did not.
    pub(crate) fn swept(
        &mut self,
        now: Now,
        of: PageRef,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let key = of.session;
        let last = match result {
            Ok(Done::Page(page)) => {
                self.sweep_page(now, of, &page, fx);
                let last = page.messages.last().map_or(0, |placed| placed.seq);
                let last = page.damaged.last().copied().unwrap_or(0).max(last);
                (page.more && last < of.upto).then_some(last)
            }
            _ => {
                fx.counters.count(ProcessCounter::PullsFailed);
                None
            }
        };
        match last.filter(|_| self.sessions.at(key).is_some()) {
            Some(from) => self.sweep_on(PageRef { from, ..of }, fx),
            None => {
                self.sweeps.remove(&key);
                if let Some(more) = self.sessions.more_mut(key) {
                    more.queue.end_sweep();
                }
                self.sessions.rest(key);
            }
        }
    }

    fn sweep_page(&mut self, now: Now, of: PageRef, page: &Page, fx: &mut Effects) {
        let key = of.session;
        let is_of_it = |seq: Seq| seq <= of.upto;
        let mut gone = 0;
        for placed in page.messages.iter().take_while(|placed| is_of_it(placed.seq)) {
            let Some(seen) = self.sweeps.get_mut(&key) else { return };
            *seen += 1;
            let (seen, totals) = (*seen, &mut self.totals);
            let Some(Said::Message(label)) = Said::decode(&placed.message.label) else { continue };
            let stub = Entry::stub(&label, placed.seq, placed.message.weight() as u32);
            let Some(more) = self.sessions.more_mut(key) else { return };
            if more.queue.sweep(&stub, (now.unix_s(), seen), totals) {
                self.over(key, &stub);
                self.share_over(key, &stub, fx);
                gone += 1;
            }
        }
        self.sessions.dropped(now, key, Drop::Expired, gone, fx);
    }
}
