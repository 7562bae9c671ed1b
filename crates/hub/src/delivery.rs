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

use crate::Effects;
use crate::Hub;
use crate::registry::item::{Item, Kept};
use crate::registry::queue::Progress;
use base::slab::Key;
use base::time::{Instant, Now};
use model::event::Counter;
use model::id::MessageId;
use model::push::{Outcome, Rejection};
use model::request::PushDelivery;
use std::time::Duration;

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
        let (term, window, timed) = (device.term(), device.window, device.timed());
        let Some(queue) = device.queue_mut() else { return };
        let mut over = Vec::new();
        queue.pump(window, (now.mono, now.unix_s()), &mut over, |item, push| {
            let (push, again) = (push.clone(), item.times > 0);
            fx.counters.count(Counter::PushesSent);
            fx.counters.count_by(Counter::PushesResent, u64::from(again));
            fx.deliveries.push((conn, PushDelivery::Push { term, push, again }));
        });
        if queue.inflight() > 0 && !timed {
            device.set_timed(true);
            self.resends.insert(now.after(Duration::from_secs(RESEND_S[0])), key.pack());
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
        acked: (Option<MessageId>, Vec<MessageId>),
        fx: &mut Effects,
    ) {
        self.take_acknowledged(now, key, acked, fx);
        self.pump(now, key, fx);
        self.release(now, key);
    }

    /// Ends what the device has.
    pub(crate) fn take_acknowledged(
        &mut self,
        now: Now,
        key: Key,
        (upto, mut ids): (Option<MessageId>, Vec<MessageId>),
        fx: &mut Effects,
    ) {
        let device = self.registry.at_mut(key);
        let Some(queue) = device.and_then(|device| device.queue_mut()) else { return };
        let (mut acked, mut replaced) = (Vec::new(), Vec::new());
        ids.sort_unstable();
        queue.acknowledge(now.mono, (upto.unwrap_or(MessageId(0)), &ids), &mut acked);
        // What the device has before the log does replaces what the log has.
        let news = acked.iter().filter(|item| !matches!(item.kept(), Kept::At(_)));
        for push in news.filter_map(Item::push) {
            queue.collapse(push, false, &mut replaced);
        }
        for item in acked {
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
        (id, why): (MessageId, Rejection),
        fx: &mut Effects,
    ) {
        let device = self.registry.at_mut(key);
        let Some(queue) = device.and_then(|device| device.queue_mut()) else { return };
        if let Some(item) = queue.remove(id) {
            self.end(now, key, item, Outcome::Rejected(why), fx);
        }
        self.pump(now, key, fx);
        self.release(now, key);
    }

    /// The device fetches what waits for it, as far as its window has room.
    pub(crate) fn pull(
        &mut self,
        now: Now,
        key: Key,
        (after, count): (MessageId, u16),
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
        self.release(now, key);
    }

    /// Sends again what was not acknowledged for too long, a slice of the devices in question.
    pub(crate) fn turn_resends(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.resends.advance(now.mono, 1);
        for _ in 0..self.settings.limits.fan_out_slice {
            let Some(token) = self.resends.take() else { break };
            self.resend(now, Key::unpack(token), fx);
        }
        self.resends.next(now.mono)
    }

    fn resend(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        device.set_timed(false);
        let Some(conn) = device.conn() else { return };
        let term = device.term();
        let Some(queue) = device.queue_mut() else { return };
        let (mut over, mut keep, mut next) = (Vec::new(), Vec::new(), None::<Instant>);
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
            let again = now.after(Duration::from_millis(pause_ms));
            next = next.into_iter().chain([again]).min();
            false
        });
        if some_due {
            fx.deliveries.push((conn, PushDelivery::TellWritten { term }));
        }
        if let Some(next) = next {
            device.set_timed(true);
            let longest = now.after(Duration::from_secs(RESEND_S[0]));
            self.resends.insert(next.min(longest), key.pack());
        }
        for item in over {
            self.end(now, key, item, Outcome::Expired, fx);
        }
        for id in keep {
            self.keep(now, key, id, fx);
        }
        self.pump(now, key, fx);
        self.release(now, key);
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
            fx.counters.count(Counter::PushesSent);
            fx.counters.count(Counter::PushesResent);
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
