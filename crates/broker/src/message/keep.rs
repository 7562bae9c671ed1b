//! Messages of QoS 1 and 2 for durable sessions go through the log.
//!
//! One append for all sessions that get a message in the same shape. When it is on stable storage
//! every session has its place in its timeline, and only then is the message sent: what a client
//! has seen once is not lost. The publisher's exchanges are in the same append when the message is
//! of QoS 2, as the mark that its packet identifier is taken; so both are there or neither.

use super::answers::{denial, receipt_of};
use super::queue::{ASKED_BYTES, Entry, Oldest, QUEUE_BYTES};
use crate::Broker;
use crate::Effects;
use crate::durable::calls::PendingCall;
use crate::durable::entries::{Label, Said};
use crate::retained::row;
use crate::session::inbound::Marker;
use crate::session::record::Exchange;
use base::slab::Key;
use base::time::Now;
use model::counters::{ProcessCounter, TopicCounter};
use model::ports::log::{APPEND_SLICE, Append, Appended, Call, Done, OnceKey, StoreError, Write};
use model::pressure::Pressure;
use model::session::Drop;
use model::timeline::Message;
use model::topic::Publication;
use std::sync::Arc;

/// Messages of the log that a queue has in memory, of those that wait. The rest is in the log.
pub(crate) const NEAR: usize = 128;

/// An append of a message.
pub(crate) struct Kept {
    pub message: Arc<Publication>,
    pub label: Label,
    pub to: Vec<Key>,
    /// The timeline of the publisher's exchanges is the last: its session and packet identifier.
    pub mark: Option<Exchange>,
    pub wait: Option<Key>,
}

impl Broker {
    /// The message takes its place in timelines. With `once` a repetition is harmless, for each
    /// session by itself: what it subscribed to may have changed meanwhile.
    pub(crate) fn keep(&mut self, mut kept: Kept, once: u128, fx: &mut Effects) {
        kept.to.retain(|&key| self.sessions.at(key).is_some());
        let message = Arc::new(Message {
            id: kept.message.id,
            at_s: kept.message.at_s,
            label: Said::Message(kept.label.clone()).encode(),
            body: row::encode(&kept.message),
        });
        if once == 0 {
            return self.append(kept, message, None, fx);
        }
        let to = std::mem::take(&mut kept.to);
        if let Some(wait) = kept.wait {
            // One part of the wait stood for all of them.
            let all = to.len() + usize::from(kept.mark.is_some());
            self.answers.wait_for(wait, all.saturating_sub(1));
            if all == 0 {
                self.answers.owe(receipt_of(wait), Ok(false));
            }
        }
        for key in to {
            let Some(session) = self.sessions.at(key) else { continue };
            let home = self.settings.home;
            // A session gets one for itself and one for each of its shared groups.
            let own = home.of(&[&once.to_be_bytes(), &kept.label.share.to_be_bytes()]);
            let once = OnceKey::at_home(session.timeline(home).home_hash(), own);
            let (publication, label) = (kept.message.clone(), kept.label.clone());
            let (to, wait) = (vec![key], kept.wait);
            let one = Kept { message: publication, label, to, mark: None, wait };
            self.append(one, message.clone(), Some(once), fx);
        }
        if kept.mark.is_some() {
            self.append(kept, message, None, fx);
        }
    }

    fn append(
        &mut self,
        kept: Kept,
        message: Arc<Message>,
        once: Option<OnceKey>,
        fx: &mut Effects,
    ) {
        let home = self.settings.home;
        let session = |key| self.sessions.at(key);
        let to = kept.to.iter().filter_map(|&key| Some(session(key)?.timeline(home)));
        let mark = kept.mark.and_then(|mark| Some(session(mark.session)?.exchanges(home)));
        let to: Vec<_> = to.chain(mark).collect();
        debug_assert!(to.len() <= APPEND_SLICE, "shapes are split before");
        self.totals.ask(kept.to.len());
        for &key in &kept.to {
            if let Some(session) = self.sessions.at_mut(key) {
                session.more().ask();
            }
        }
        let append = Write::Append(Append { message, to, once, heard: None, ends: false });
        self.log.ask(PendingCall::Kept(Box::new(kept)), Call::Write(append), fx);
    }

    /// An append was answered.
    pub(crate) fn kept(
        &mut self,
        now: Now,
        kept: Kept,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let answer = match result {
            Ok(Done::Appended(appended)) => Ok(appended),
            // Another message with that number is stored there already.
            Err(StoreError::Conflict) => {
                Ok(Appended { new: false, id: 0, seqs: vec![0; kept.to.len() + 1] })
            }
            Ok(_) => Err(StoreError::Failed),
            Err(error) => Err(error),
        };
        self.totals.answered(kept.to.len());
        let weight = kept.label.weight(&kept.message);
        for (at, &key) in kept.to.iter().enumerate() {
            // A session that is gone was forgotten after the append, together with the message.
            let Some(session) = self.sessions.at_mut(key) else { continue };
            session.more().answered();
            match &answer {
                Ok(appended) if appended.new => {
                    let seq = appended.seqs.get(at).copied().unwrap_or(0);
                    let entry = Entry {
                        message: Some(kept.message.clone()),
                        ..Entry::stub(&kept.label, seq, weight)
                    };
                    self.enqueue(now, key, entry, fx);
                }
                Ok(_) => {}
                Err(_) => {
                    self.share_over(key, &Entry::stub(&kept.label, 0, weight), fx);
                    self.sessions.dropped(now, key, Drop::StoreFull, 1, fx);
                }
            }
            self.sessions.rest(key);
        }
        match (kept.mark, &answer) {
            (Some(mark), Ok(appended)) => {
                let seq = appended.seqs.last().copied().unwrap_or(0);
                self.set_marker(mark, Marker { seq, ..Marker::default() }, fx);
            }
            (Some(mark), Err(error)) => self.not_marked(now, mark, denial(*error), fx),
            (None, _) => {}
        }
        if let Some(wait) = kept.wait {
            self.arrived(now, wait, answer.map(|_| ()).map_err(denial), fx);
        }
    }

    /// Whether a session's queue has room for one more message of this cost, while this many bytes
    /// are about to be queued for others; the queue's policy makes room or drops the message.
    pub(crate) fn make_room(
        &mut self,
        now: Now,
        key: Key,
        cost: u64,
        beside: u64,
        fx: &mut Effects,
    ) -> bool {
        let limits = self.settings.limits.clone();
        let limits = &limits.topics;
        let more = self.sessions.more(key);
        let first = more.is_none_or(|more| more.queue.count() == 0);
        let here = cost + beside + if first { QUEUE_BYTES } else { 0 };
        let is_away = self.sessions.at(key).is_some_and(|session| session.online().is_none());
        let pressed = is_away && self.pressure >= Pressure::Stores;
        if pressed {
            fx.counters.count(ProcessCounter::PressedStores);
        }
        let shard_full = pressed || !self.totals.has_room(here);
        let Some(more) = more else {
            if shard_full {
                self.sessions.dropped(now, key, Drop::QueueBytes, 1, fx);
            }
            return !shard_full;
        };
        let (mut count, asked) = (more.queue.waiting(), more.asked() as usize);
        let mut bytes = more.queue.bytes() + asked as u64 * ASKED_BYTES + cost;
        let mut count_max = limits.queue_count_max as usize;
        let bytes_max = u64::from(limits.queue_bytes_max);
        let is_over = |count: usize, bytes: u64, count_max: usize| {
            (count + asked >= count_max, bytes > bytes_max && count + asked > 0)
        };
        let is_strange = more.queue.is_strange() && count >= count_max / 2;
        if is_strange || is_over(count, bytes, count_max) != (false, false) {
            // Expired messages count as room (MQTT5 3.3.2-5).
            let expired = self.expired_of(now, key, fx);
            let Some(more) = self.sessions.more(key) else { return !shard_full };
            count = more.queue.waiting().saturating_sub(expired.count as usize);
            let here = more.queue.bytes() + asked as u64 * ASKED_BYTES + cost;
            bytes = here.saturating_sub(expired.bytes);
            count_max += self.room_beyond(key);
        }
        let (over_count, over_bytes) = is_over(count, bytes, count_max);
        if !over_count && !over_bytes && !shard_full {
            return true;
        }
        let why = if over_count { Drop::QueueCount } else { Drop::QueueBytes };
        let oldest = match limits.queue_drops_oldest && !shard_full {
            true => {
                let totals = &mut self.totals;
                let session = self.sessions.at_mut(key);
                session.and_then(|session| session.more().queue.drop_oldest(totals))
            }
            false => None,
        };
        let found = oldest.is_some();
        match oldest {
            Some(Oldest::Entry(entry)) => {
                self.over(key, &entry);
                self.share_over(key, &entry, fx);
            }
            Some(Oldest::Owed) => self.read_on(key, fx),
            None => {}
        }
        self.sessions.dropped(now, key, why, 1, fx);
        found
    }

    /// Removes an ended entry from the log, if it is there.
    pub(crate) fn over(&mut self, key: Key, entry: &Entry) {
        self.log.remove(key, entry.seq);
    }

    /// A message waits for a session, and goes out when it can.
    pub(crate) fn enqueue(&mut self, now: Now, key: Key, entry: Entry, fx: &mut Effects) {
        let totals = &mut self.totals;
        let Some(session) = self.sessions.at_mut(key) else { return };
        let online = session.online().is_some();
        let is_shared = entry.share != 0;
        let queue = &mut session.more().queue;
        let in_log = match entry.seq {
            0 => {
                queue.push(entry, totals);
                false
            }
            _ => queue.keep(entry, if online { NEAR } else { 0 }, totals),
        };
        fx.counters.count_by(TopicCounter::Queued, u64::from(in_log || !online));
        match online {
            true => self.pump(now, key, fx),
            false if is_shared => self.give_late(now, key, fx),
            false => {}
        }
    }
}
