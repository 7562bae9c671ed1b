//! Delivery of pushes: sending, acknowledgements, resends.
//!
//! An unacknowledged push is sent again on the same connection after 10, 20 and 40 more seconds,
//! but never before its first copy has left: a second copy queued behind the first helps nobody.
//! Earlier sends must have been written to the socket first, so for a device that reads nothing the
//! output queue holds at most its window once (`inflight_max` of its product) and [`RESEND_BYTES`].
//! Behind the socket, in the kernel or on a slow link, progress is invisible except for the
//! device's acknowledgements, so the seconds count from the last of them. After the last resend the
//! push keeps its place in the window until the device acknowledges it late or binds again. One
//! timer per device is enough: it is never set further ahead than the shortest interval, so nothing
//! sent meanwhile can be due before it.
//!
//! Bodies that only the log has are fetched when they can be sent, one page per device at a time,
//! of bounded count and bytes. The pump stops until the body of the next push has arrived, so
//! pushes are delivered in the order of the queue. A push that ends meanwhile is not sent. A push
//! whose body cannot be read is skipped until the device's next session, counted, and stays in the
//! log; if the log cannot read now, the fetch is retried.

use crate::log::durable::push::push;
use crate::log::pending::{Fetch, PendingCall};
use crate::registry::item::{Item, Kept};
use crate::registry::queue::Progress;
use crate::{Effects, Hub};
use base::slab::Key;
use base::time::{Instant, Now};
use model::counters::{ProcessCounter, PushCounter};
use model::id::MessageId;
use model::latency::LatencyPhase;
use model::ports::log::{Call, Done, Page, Pull, Read, StoreError};
use model::push::{Outcome, Rejection};
use model::request::PushDelivery;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

/// Most bodies in one fetch for a device.
const PAGE_COUNT: usize = 64;

/// Most bytes of bodies in one fetch; a fetch brings one body even if it is larger.
const PAGE_BYTES: usize = 256 * 1024;

/// Pause before bodies are fetched again after the log refused.
const FETCH_PAUSE: Duration = Duration::from_secs(1);

/// Pushes that a device acknowledges.
#[derive(Default)]
pub(crate) struct Acknowledged {
    /// The last push of those acknowledged cumulatively: it and all sent before it.
    pub upto: Option<MessageId>,
    /// Pushes acknowledged one by one.
    pub ids: Vec<MessageId>,
}

impl Acknowledged {
    /// Acknowledges a push and all sent before it.
    pub fn upto(id: MessageId) -> Acknowledged {
        Acknowledged { upto: Some(id), ids: Vec::new() }
    }
}

/// Seconds until a push is sent again, by how often it was sent.
const RESEND_S: [u64; 3] = [10, 20, 40];

/// Most bytes sent again at once, but always one push; the rest follows when these are written.
const RESEND_BYTES: usize = 16 * 1024;

impl Hub {
    /// Milliseconds after which an unacknowledged push is sent again for the first time.
    pub(crate) const ACK_MS: u32 = RESEND_S[0] as u32 * 1_000;

    /// Sends pushes as far as the device's window has room, and fetches bodies that are missing for
    /// that.
    pub(crate) fn pump(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        let Some(conn) = device.conn() else { return };
        let (term, window) = (device.term(), device.window);
        let Some(queue) = device.queue_mut() else { return };
        let mut over = Vec::new();
        queue.pump(window, (now.mono, now.unix_s()), &mut over, |item, push| {
            let (push, again) = (push.clone(), item.times > 0);
            fx.counters.count(PushCounter::Sent);
            fx.counters.count_by(PushCounter::Resent, u64::from(again));
            fx.deliveries.push((conn, PushDelivery::Push { term, push, again }));
        });
        if queue.inflight() > 0 {
            self.queues.look_after(now, key, device, Duration::from_secs(RESEND_S[0]));
        }
        for item in over {
            self.end(now, key, item, Outcome::Expired, fx);
        }
        self.fetch(now, key, fx);
    }

    /// Handles an acknowledgement of the device, then sends more, as its window may have room now.
    pub(crate) fn acknowledge(
        &mut self,
        now: Now,
        key: Key,
        acked: Acknowledged,
        fx: &mut Effects,
    ) {
        self.take_acknowledged(now, key, acked, fx);
        self.pump(now, key, fx);
        self.registry.release(now, key);
    }

    /// Ends the acknowledged pushes as delivered, and those that they replace.
    pub(crate) fn take_acknowledged(
        &mut self,
        now: Now,
        key: Key,
        acked: Acknowledged,
        fx: &mut Effects,
    ) {
        let Acknowledged { upto, mut ids } = acked;
        let device = self.registry.at_mut(key);
        let Some(queue) = device.and_then(|device| device.queue_mut()) else { return };
        let (mut acked, mut replaced) = (Vec::new(), Vec::new());
        ids.sort_unstable();
        queue.acknowledge(now.mono, upto, &ids, &mut acked);
        // An acknowledged push that the log does not have yet replaces an older stored one of its
        // key.
        let news = acked.iter().filter(|item| !matches!(item.kept(), Kept::At(_)));
        for push in news.filter_map(Item::push) {
            queue.collapse(push, false, &mut replaced);
        }
        for item in acked {
            let lasted = Duration::from_millis(item.age_ms(now.mono).into());
            fx.counters.lasted(LatencyPhase::Acknowledge, lasted);
            self.end(now, key, item, Outcome::Delivered, fx);
        }
        for item in replaced {
            self.end(now, key, item, Outcome::Rejected(Rejection::Collapsed), fx);
        }
    }

    /// Rejects a push that the device's protocol cannot carry.
    pub(crate) fn unsendable(
        &mut self,
        now: Now,
        key: Key,
        id: MessageId,
        why: Rejection,
        fx: &mut Effects,
    ) {
        let device = self.registry.at_mut(key);
        let Some(queue) = device.and_then(|device| device.queue_mut()) else { return };
        if let Some(item) = queue.remove(id) {
            self.end(now, key, item, Outcome::Rejected(why), fx);
        }
        self.pump(now, key, fx);
        self.registry.release(now, key);
    }

    /// Handles a Pull: lets up to `count` held pushes after `after` be sent, as far as the device's
    /// window has room.
    pub(crate) fn pull(
        &mut self,
        now: Now,
        key: Key,
        after: MessageId,
        count: u16,
        fx: &mut Effects,
    ) {
        self.expire_queue(now, key, fx);
        let Some(device) = self.registry.at_mut(key) else { return };
        if device.conn().is_none() {
            return;
        }
        let window = usize::from(device.window);
        if let Some(queue) = device.queue_mut() {
            let room = window.saturating_sub(queue.inflight() + queue.to_send());
            queue.unhold(after, room.min(usize::from(count)));
        }
        // Each Pull gets one answer: an earlier one that is still open is answered now.
        self.answer_pull(key, fx);
        self.await_pull(key, after);
        self.pump(now, key, fx);
        self.registry.release(now, key);
    }

    /// Sends again the pushes whose acknowledgement is overdue, for a slice of the devices with a
    /// due timer.
    pub(crate) fn turn_resends(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.queues.advance(now);
        for _ in 0..self.settings.limits.pushes.fan_out_slice {
            let Some(key) = self.queues.take() else { break };
            self.resend(now, key, fx);
        }
        self.queues.next(now)
    }

    fn resend(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        device.set_timed(false);
        let Some(conn) = device.conn() else { return };
        let term = device.term();
        let Some(queue) = device.queue_mut() else { return };
        let (mut over, mut keep, mut next) = (Vec::new(), Vec::new(), None::<u64>);
        let (mut some_due, progress) = (false, queue.progress());
        queue.sift_inflight(&mut over, |item| {
            let Some(left_ms) = left_ms(now, progress, item) else {
                return item.expired(now.unix_s());
            };
            // No order waits for the push's outcome, so it is handed to the log now, or it ends.
            let is_due = left_ms == 0;
            let alone = is_due && item.kept() == Kept::No && !item.watch().answers;
            if item.expired(now.unix_s()) || (alone && !item.stores()) {
                return true;
            }
            if alone {
                keep.push(item.id);
            }
            some_due |= is_due;
            // A push that is due but cannot be sent again now is checked again with the others.
            let pause_ms = if is_due { RESEND_S[0] * 1_000 } else { left_ms };
            next = next.into_iter().chain([pause_ms]).min();
            false
        });
        if some_due {
            fx.deliveries.push((conn, PushDelivery::TellWritten { term }));
        }
        if let Some(next_ms) = next {
            let next_ms = next_ms.min(RESEND_S[0] * 1_000);
            self.queues.look_after(now, key, device, Duration::from_millis(next_ms));
        }
        for item in over {
            self.end(now, key, item, Outcome::Expired, fx);
        }
        for id in keep {
            self.keep(now, key, id, fx);
        }
        self.pump(now, key, fx);
        self.registry.release(now, key);
    }
}

/// Bodies are fetched from the log, one page per device at a time.
impl Hub {
    /// Fetches missing bodies of the next pushes to be sent; if none are missing, answers a Pull
    /// that was waiting for them.
    fn fetch(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        if device.conn().is_none() || device.pulling() || device.extra.is_none() {
            return;
        }
        let window = device.window;
        let missing = device.queue().and_then(|queue| queue.missing(window, PAGE_COUNT));
        let Some((first, count)) = missing else { return self.answer_pull(key, fx) };
        match self.log.has_room_to_pull() {
            true => self.ask_page(key, Fetch { first, count }, fx),
            false => self.fetch_later(now, key),
        }
    }

    /// Remembers a Pull, which is answered once everything it asked for is sent.
    fn await_pull(&mut self, key: Key, after: MessageId) {
        if let Some(device) = self.registry.at_mut(key) {
            device.extra().pull = NonZeroU64::new(after.0.saturating_add(1));
        }
    }

    /// Answers the open Pull, if any, with how many pushes remain for another one.
    fn answer_pull(&mut self, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        let (Some(conn), term) = (device.conn(), device.term()) else { return };
        let Some(extra) = &mut device.extra else { return };
        let Some(after) = extra.pull.take() else { return };
        let remaining = extra.queue.remaining(MessageId(after.get() - 1)) as u32;
        fx.deliveries.push((conn, PushDelivery::Pulled { term, remaining }));
    }

    /// Handles the log's answer to a fetch: a page of bodies or an error.
    pub(crate) fn pulled(
        &mut self,
        now: Now,
        key: Key,
        fetch: Fetch,
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let Some(device) = self.registry.at_mut(key) else { return };
        device.set_pulling(false);
        if device.conn().is_none() {
            return self.registry.release(now, key);
        }
        match result {
            Ok(Done::Page(page)) => self.attach_page(now, key, fetch, &page, fx),
            Ok(_) | Err(_) => {
                fx.counters.count(ProcessCounter::PullsFailed);
                return self.wait_for_log(now, key, fx);
            }
        }
        self.pump(now, key, fx);
        self.registry.release(now, key);
    }

    fn ask_page(&mut self, key: Key, fetch: Fetch, fx: &mut Effects) {
        let Some(timeline) = self.registry.timeline(key) else { return };
        let Some(device) = self.registry.at_mut(key) else { return };
        device.set_pulling(true);
        let pull = Pull {
            timeline,
            from: fetch.first - 1,
            backwards: false,
            count_max: fetch.count,
            bytes_max: PAGE_BYTES,
        };
        self.log.ask(PendingCall::Pull(key, fetch), Call::Read(Read::Pull(pull)), fx);
    }

    fn attach_page(&mut self, now: Now, key: Key, fetch: Fetch, page: &Page, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        let number = device.product;
        let product = self.registry.products.of(number).key.clone();
        let device = self.registry.at_mut(key);
        let Some(queue) = device.and_then(|device| device.queue_mut()) else { return };
        let mut hint = queue.head();
        for placed in &page.messages {
            let Some(item) = queue.away_at(placed.seq, &mut hint) else { continue };
            let push = push(&product, &placed.message);
            match push.filter(|push| push.id == item.id) {
                Some(push) => item.attach(Arc::new(push)),
                None => fx.counters.count(ProcessCounter::PullsFailed),
            }
        }
        let damaged = page.damaged.contains(&fetch.first);
        fx.counters.count_by(ProcessCounter::PullsFailed, damaged.into());
        let came = page.messages.iter().any(|placed| placed.seq == fetch.first);
        if came || damaged {
            // A body that is still missing could not be decoded.
            return self.pass_over(key, fetch);
        }
        // The log no longer has the push: its retention is shorter than the push's time to live.
        let gone = queue.away_at(fetch.first, &mut 0).map(|item| item.id);
        if let Some(item) = gone.and_then(|id| queue.remove(id)) {
            self.end_unlogged(now, key, &item, Outcome::Expired, fx);
        }
    }

    /// Whether the next push to be sent still lacks the body that this fetch was for.
    fn waits_for(&self, key: Key, fetch: Fetch) -> bool {
        let device = self.registry.at(key);
        let missing = device.and_then(|device| device.queue()?.missing(device.window, 1));
        missing.is_some_and(|(first, _)| first == fetch.first)
    }

    fn pass_over(&mut self, key: Key, fetch: Fetch) {
        if self.waits_for(key, fetch)
            && let Some(queue) = self.registry.at_mut(key).and_then(|device| device.queue_mut())
        {
            queue.set_head_aside();
        }
    }

    /// Handles a fetch that the log could not serve now. Unsent pushes that cannot be stored end as
    /// expired; an open Pull is answered, so that the device can pull again; otherwise the fetch is
    /// retried later.
    fn wait_for_log(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        let pulls = device.extra.as_ref().is_some_and(|extra| extra.pull.is_some());
        let Some(queue) = device.queue_mut() else { return };
        let unsent = queue.items().filter(|item| item.times == 0 && !item.stores());
        let unsent: Vec<_> = unsent.map(|item| item.id).collect();
        let over: Vec<_> = unsent.into_iter().filter_map(|id| queue.remove(id)).collect();
        if pulls {
            queue.hold_away();
        }
        for item in over {
            self.end(now, key, item, Outcome::Expired, fx);
        }
        match pulls {
            true => self.answer_pull(key, fx),
            false => self.fetch_later(now, key),
        }
        self.registry.release(now, key);
    }

    fn fetch_later(&mut self, now: Now, key: Key) {
        if let Some(device) = self.registry.at_mut(key) {
            self.queues.look_after(now, key, device, FETCH_PAUSE);
        }
    }
}

impl Hub {
    /// Sends due pushes again, now that everything sent to the device has been written to its
    /// socket.
    pub(crate) fn written(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        let Some(conn) = device.conn() else { return };
        let term = device.term();
        let Some(queue) = device.queue_mut() else { return };
        let (mut bytes, mut more, progress) = (0, false, queue.progress());
        queue.sift_inflight(&mut Vec::new(), |item| {
            let is_due = left_ms(now, progress, item) == Some(0) && !item.expired(now.unix_s());
            let Some(push) = item.push().filter(|_| is_due).cloned() else { return false };
            if bytes > 0 && bytes + push.body.len() > RESEND_BYTES {
                more = true;
                return false;
            }
            bytes += push.body.len();
            item.sent(now.mono);
            fx.counters.count(PushCounter::Sent);
            fx.counters.count(PushCounter::Resent);
            fx.deliveries.push((conn, PushDelivery::Push { term, push, again: true }));
            false
        });
        if more {
            fx.deliveries.push((conn, PushDelivery::TellWritten { term }));
        }
    }
}

/// Milliseconds until an item is sent again; `None` if it never was sent or has no resend left.
fn left_ms(now: Now, progress: Progress, item: &Item) -> Option<u64> {
    let interval_s = RESEND_S.get(usize::from(item.times).checked_sub(1)?)?;
    Some((interval_s * 1_000).saturating_sub(progress.waited_ms(now.mono, item).into()))
}
