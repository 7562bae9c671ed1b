//! Bodies come back from the log when a device can be sent them.
//!
//! One page a device at a time, of bounded count and bytes. Until the body of the next push is
//! here the pump stands still, so the order of delivery is that of the queue. A push that is over
//! meanwhile is not sent. A body that cannot be read is passed over until the device's next
//! session, counted, and stays in the log; an answer that there is no reading now is tried again.

use crate::Effects;
use crate::Hub;
use crate::log::durable::push;
use crate::log::tickets::{Fetch, PendingCall};
use base::slab::Key;
use base::time::Now;
use model::event::Counter;
use model::id::MessageId;
use model::ports::log::{Call, Done, Page, Pull, Read, StoreError};
use model::push::Outcome;
use model::request::PushDelivery;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

/// Bodies fetched at once for a device.
const PAGE_COUNT: usize = 64;

/// Their bytes, but always one.
const PAGE_BYTES: usize = 256 * 1024;

/// How long to wait after a refusal.
const PAUSE: Duration = Duration::from_secs(1);

impl Hub {
    /// Fetches the bodies of what is to be sent next, if they are away, and answers a Pull that
    /// waits for them if none are.
    pub(crate) fn fetch(&mut self, now: Now, key: Key, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        if device.conn().is_none() || device.pulling() || device.extra.is_none() {
            return;
        }
        let window = device.window;
        let missing = device.queue().and_then(|queue| queue.missing(window, PAGE_COUNT));
        let Some((first, count)) = missing else { return self.answer_pull(key, fx) };
        match self.tickets.have_room_to_pull() {
            true => self.ask_page(key, Fetch { first, count }, fx),
            false => self.fetch_later(now, key),
        }
    }

    /// A Pull of the device is answered as soon as everything it asked for is sent.
    pub(crate) fn await_pull(&mut self, key: Key, after: MessageId) {
        if let Some(device) = self.registry.at_mut(key) {
            device.extra().pull = NonZeroU64::new(after.0.saturating_add(1));
        }
    }

    /// Says what remains for another Pull, if one waits to be answered.
    pub(crate) fn answer_pull(&mut self, key: Key, fx: &mut Effects) {
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
        (key, fetch): (Key, Fetch),
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        let Some(device) = self.registry.at_mut(key) else { return };
        device.set_pulling(false);
        if device.conn().is_none() {
            return self.release(now, key);
        }
        match result {
            Ok(Done::Page(page)) => self.attach_page(now, (key, fetch), &page, fx),
            Err(StoreError::Damaged) => {
                fx.counters.count(Counter::PullsFailed);
                if fetch.count > 1 && self.waits_for(key, fetch) {
                    // One of them is bad; which one is found out one by one.
                    return self.ask_page(key, Fetch { count: 1, ..fetch }, fx);
                }
                self.pass_over(key, fetch);
            }
            Ok(_) | Err(_) => {
                fx.counters.count(Counter::PullsFailed);
                return self.wait_for_log(now, key, fx);
            }
        }
        self.pump(now, key, fx);
        self.release(now, key);
    }

    fn ask_page(&mut self, key: Key, fetch: Fetch, fx: &mut Effects) {
        let home = self.settings.home;
        let Some(timeline) = self.registry.timeline(home, key) else { return };
        let Some(device) = self.registry.at_mut(key) else { return };
        device.set_pulling(true);
        let pull = Pull {
            timeline,
            from: fetch.first - 1,
            backwards: false,
            count_max: fetch.count,
            bytes_max: PAGE_BYTES,
        };
        self.enter(PendingCall::Pull(key, fetch), Call::Read(Read::Pull(pull)), fx);
    }

    fn attach_page(&mut self, now: Now, (key, fetch): (Key, Fetch), page: &Page, fx: &mut Effects) {
        let Some(device) = self.registry.at_mut(key) else { return };
        let number = device.product;
        let product = self.registry.products.of(number).key.clone();
        let device = self.registry.at_mut(key);
        let Some(queue) = device.and_then(|device| device.queue_mut()) else { return };
        let mut hint = queue.head();
        for placed in &page.messages {
            let Some(item) = queue.away_at(placed.seq, &mut hint) else { continue };
            let push = push::push(&product, &placed.message);
            match push.filter(|push| push.id == item.id) {
                Some(push) => item.attach(Arc::new(push)),
                None => fx.counters.count(Counter::PullsFailed),
            }
        }
        let came = page.messages.iter().any(|placed| placed.seq == fetch.first);
        if came {
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
        self.release(now, key);
    }

    fn fetch_later(&mut self, now: Now, key: Key) {
        let Some(device) = self.registry.at_mut(key) else { return };
        if !device.timed() {
            device.set_timed(true);
            self.resends.insert(now.after(PAUSE), key.pack());
        }
    }
}
