//! Pushes go out, are acknowledged, and go out again.
//!
//! A push that is not acknowledged is sent again on the same connection after 10, 20 and 40
//! seconds more, but never before its first copy has left: a copy behind it helps nobody. What was
//! sent so far must have been written to the socket, so of a device that reads nothing there waits
//! here, at most, its window once (`inflight_max` of its product) and [`RESEND_BYTES`]. Behind the
//! socket, in the kernel or on a slow link, nobody can look; there the device's acknowledgements
//! tell that things move, and the seconds are counted from the last of them. After that the push
//! keeps its place in the window until the device acknowledges it late or binds anew. One
//! timer a device is enough: it is never set further ahead than the shortest interval, so nothing
//! sent meanwhile can be due before it.
//!
//! Bodies that the log alone has come back when they can be sent, one page a device at a time, of
//! bounded count and bytes. Until the body of the next push is here the pump stands still, so the
//! order of delivery is that of the queue. A push that is over meanwhile is not sent. A body that
//! cannot be read is passed over until the device's next session, counted, and stays in the log; an
//! answer that there is no reading now is tried again.

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

/// Bodies fetched at once for a device.
const PAGE_COUNT: usize = 64;

/// Their bytes, but always one.
const PAGE_BYTES: usize = 256 * 1024;

/// How long to wait before bodies are fetched again, after a refusal.
const FETCH_PAUSE: Duration = Duration::from_secs(1);

/// Pushes that a device acknowledges.
#[derive(Default)]
pub(crate) struct Acknowledged {
    /// All up to this one.
    pub upto: Option<MessageId>,
    /// And these.
    pub ids: Vec<MessageId>,
}

impl Acknowledged {
    /// All up to this one.
    pub fn upto(id: MessageId) -> Acknowledged {
        Acknowledged { upto: Some(id), ids: Vec::new() }
    }
}

/// Seconds until a push is sent again, after it was sent so many times.
const RESEND_S: [u64; 3] = [10, 20, 40];

/// Bytes that are sent again at once, but always one push: the rest once these are written.
const RESEND_BYTES: usize = 16 * 1024;

impl Hub {
    /// Milliseconds after which an unacknowledged push is sent again for the first time.
    pub(crate) const ACK_MS: u32 = RESEND_S[0] as u32 * 1_000;

    /// Sends what the device's window has room for, and fetches what it needs for that.
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

    /// The device has pushes; there may be room for more now.
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

    /// Ends what the device has.
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
        // What the device has before the log does replaces what the log has.
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

    /// The device's protocol cannot carry a push.
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

    /// The device fetches what waits for it, as far as its window has room.
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
        // One answer a Pull: an earlier one is answered now at the latest.
        self.answer_pull(key, fx);
        self.await_pull(key, after);
        self.pump(now, key, fx);
        self.registry.release(now, key);
    }

    /// Sends again what was not acknowledged for too long, a slice of the devices in question.
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
            // Nobody waits for it, so the log has to know now, or it is over.
            let is_due = left_ms == 0;
            let alone = is_due && item.kept() == Kept::No && !item.watch().answers;
            if item.expired(now.unix_s()) || (alone && !item.stores()) {
                return true;
            }
            if alone {
                keep.push(item.id);
            }
            some_due |= is_due;
            // What is due and cannot go again now is looked at with the others.
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

/// Bodies come back from the log, one page a device at a time.
impl Hub {
    /// Fetches the bodies of what is to be sent next, if they are away, and answers a Pull that
    /// waits for them if none are.
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

    /// A Pull of the device is answered as soon as everything it asked for is sent.
    fn await_pull(&mut self, key: Key, after: MessageId) {
        if let Some(device) = self.registry.at_mut(key) {
            device.extra().pull = NonZeroU64::new(after.0.saturating_add(1));
        }
    }

    /// Says what remains for another Pull, if one waits to be answered.
    fn answer_pull(&mut self, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        let (Some(conn), term) = (device.conn(), device.term()) else { return };
        let Some(extra) = &mut device.extra else { return };
        let Some(after) = extra.pull.take() else { return };
        let remaining = extra.queue.remaining(MessageId(after.get() - 1)) as u32;
        fx.deliveries.push((conn, PushDelivery::Pulled { term, remaining }));
    }

    /// A page came, or did not.
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
            // If it is still away it made no sense.
            return self.pass_over(key, fetch);
        }
        // The log has it no more: its retention is shorter than the push's time to live.
        let gone = queue.away_at(fetch.first, &mut 0).map(|item| item.id);
        if let Some(item) = gone.and_then(|id| queue.remove(id)) {
            self.end_unlogged(now, key, &item, Outcome::Expired, fx);
        }
    }

    /// Whether the next push to be sent is still that of a fetch.
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

    /// There is no reading now. What cannot wait is over, whoever pulls may ask again, and for
    /// everybody else it is tried again.
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
    /// All that was sent to the device has been written to its socket: what is due goes again.
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

/// Milliseconds until an item is to be sent again, if ever.
fn left_ms(now: Now, progress: Progress, item: &Item) -> Option<u64> {
    let interval_s = RESEND_S.get(usize::from(item.times).checked_sub(1)?)?;
    Some((interval_s * 1_000).saturating_sub(progress.waited_ms(now.mono, item).into()))
}
