//! Pushes for devices that are away, through the push services of their platforms.
//!
//! A stored push of a device that has been away long enough is handed out as an order; the answer
//! says whether the platform accepted it. A device has one order at a time, in the order of its
//! timeline, so one offset in its row says what has gone out. The push stays queued until the
//! device itself acknowledges it: it may get the same id by both ways. A kill between the
//! platform's answer and the row makes the push go out again.
//! Invariant: an order ends by its answer, and a push that no platform accepted is still queued.

use crate::log::durable::push::push as decode;
use crate::log::pending::PendingCall;
use crate::registry::item::Kept;
use crate::registry::platforms::{Address, Step};
use crate::{Effects, Hub};
use base::slab::Key;
use base::time::{Instant, Now};
use base::wheel::Timers;
use model::id::MessageId;
use model::ports::events::DeviceWhat;
use model::ports::log::{Call, Done, Pull, Read, StoreError};
use model::ports::notifications::{
    NotificationOrder, NotificationTargets, NotificationWhat, Notified,
};
use model::push::{PlatformToken, Push};
use model::timeline::Seq;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Most orders and reads of a shard at once. Other devices wait for a place.
const PLACES_MAX: usize = 1_024;

/// Waiting devices that one freed place visits.
const VISITS_MAX: usize = 64;

/// Pause after a read that failed, and the shortest one after an order that did.
const PAUSE_MS: u64 = 1_000;

/// Pause after an order that only other settings can help.
const LONG_PAUSE_MS: u64 = 60_000;

/// An order on its way.
struct Sent {
    key: Key,
    seq: Seq,
    token: Arc<PlatformToken>,
}

/// Orders on their way to platforms, and devices that are to be looked at.
#[derive(Default)]
pub(crate) struct Reaching {
    timers: Timers,
    sent: BTreeMap<u64, Sent>,
    /// Number of bodies that are being read.
    reading: usize,
    waiting: VecDeque<Key>,
    last: u64,
    /// Unix millisecond of the start: no device counts as away from an earlier moment on.
    began_ms: u64,
}

impl Reaching {
    fn has_room(&self) -> bool {
        self.sent.len() + self.reading < PLACES_MAX
    }
}

impl Hub {
    /// Sends a device's next push through its platform, if the device is away and it is time.
    pub(crate) fn reach(&mut self, now: Now, key: Key, fx: &mut Effects) {
        if self.registry.platforms.is_empty() {
            return;
        }
        let Some((address, item)) = self.to_reach(now, key) else { return };
        if address.step != Step::Idle {
            return;
        }
        let (seq, wait_ms) = (item.0, self.wait_ms(now, key, address));
        if wait_ms > 0 {
            return self.reach_later(now, key, wait_ms);
        }
        if !self.reaching.has_room() {
            self.reaching.waiting.push_back(key);
            return self.step(key, Step::Waiting);
        }
        let Some(timeline) = self.registry.timeline(key) else { return };
        let (from, backwards, count_max, bytes_max) = (seq - 1, false, 1, 1);
        let pull = Pull { timeline, from, backwards, count_max, bytes_max };
        self.step(key, Step::Reading);
        self.reaching.reading += 1;
        self.log.ask(PendingCall::Reach(key, seq), Call::Read(Read::Pull(pull)), fx);
    }

    /// The address of a device that is away, and the first of its pushes that has not gone there.
    fn to_reach(&self, now: Now, key: Key) -> Option<(&Address, (Seq, MessageId))> {
        let device = self.registry.at(key)?;
        let address = self.registry.platforms.at(key.slot)?;
        if device.conn().is_some() || device.blocked() || self.away_s(address).is_none() {
            return None;
        }
        let items = device.queue()?.items().filter_map(|item| match item.kept() {
            Kept::At(seq) if seq > address.through && !item.expired(now.unix_s()) => {
                Some((seq, item.id))
            }
            _ => None,
        });
        Some((address, items.min()?))
    }

    /// How long a device must be away for this address. `None`: its platform is not configured, but
    /// may be again after a restart.
    fn away_s(&self, address: &Address) -> Option<u32> {
        let mut rules = self.settings.platforms.iter();
        rules.find(|rule| rule.name == address.token.platform).map(|rule| rule.away_s)
    }

    /// Milliseconds until something may go to the device's platform.
    fn wait_ms(&self, now: Now, key: Key, address: &Address) -> u64 {
        let away_s = self.away_s(address).unwrap_or(0);
        let since_ms = self.registry.at(key).map_or(0, |device| device.since_ms());
        let away_ms = now.wall_ms.saturating_sub(since_ms.max(self.reaching.began_ms));
        let left_ms = (u64::from(away_s) * 1_000).saturating_sub(away_ms);
        let rest = address.rests_until.since(now.mono);
        left_ms.max(u64::try_from(rest.as_millis()).unwrap_or(u64::MAX))
    }

    fn step(&mut self, key: Key, step: Step) {
        if let Some(address) = self.registry.platforms.at_mut(key.slot) {
            address.step = step;
        }
    }

    fn reach_later(&mut self, now: Now, key: Key, wait_ms: u64) {
        let Some(address) = self.registry.platforms.at_mut(key.slot) else { return };
        if !std::mem::replace(&mut address.timed, true) {
            self.reaching.timers.insert(now.after(Duration::from_millis(wait_ms)), key.pack());
        }
    }

    /// Handles the log's answer to a read, and sends the push.
    pub(crate) fn read_for_platform(
        &mut self,
        now: Now,
        (key, seq): (Key, Seq),
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        self.reaching.reading -= 1;
        let is_current = self.registry.at(key).is_some()
            && self.registry.platforms.at(key.slot).is_some_and(|it| it.step == Step::Reading);
        if is_current {
            self.step(key, Step::Idle);
            match result {
                Ok(Done::Page(page)) => {
                    let placed = page.messages.iter().find(|placed| placed.seq == seq);
                    let names = self.registry.names(key);
                    let push = placed.zip(names.as_ref());
                    let push = push.and_then(|(placed, names)| decode(&names.0, &placed.message));
                    match push {
                        Some(push) => self.send_to_platform(now, key, (seq, push), fx),
                        // The log lost it, or cannot read it: the next one must not wait for it.
                        None => self.passed(now, key, seq, fx),
                    }
                }
                Ok(_) | Err(_) => self.reach_later(now, key, PAUSE_MS),
            }
        }
        self.reach_waiting(now, fx);
    }

    /// Hands out a push, unless the device has come back or the push has ended meanwhile.
    fn send_to_platform(&mut self, now: Now, key: Key, (seq, push): (Seq, Push), fx: &mut Effects) {
        let Some((address, next)) = self.to_reach(now, key) else { return };
        if next != (seq, push.id) || self.wait_ms(now, key, address) > 0 {
            return self.reach(now, key, fx);
        }
        let (token, Some((_, device))) = (address.token.clone(), self.registry.names(key)) else {
            return;
        };
        self.reaching.last += 1;
        let number = self.reaching.last;
        self.step(key, Step::Sent(number));
        self.reaching.sent.insert(number, Sent { key, seq, token: token.clone() });
        let targets = NotificationTargets::Platform(token);
        let what = NotificationWhat::Push(device, Arc::new(push));
        fx.notifications.push((number, Box::new(NotificationOrder { targets, what })));
    }

    /// Handles the answer to an order.
    pub(crate) fn reached(&mut self, now: Now, number: u64, what: Notified, fx: &mut Effects) {
        let Some(Sent { key, seq, token }) = self.reaching.sent.remove(&number) else { return };
        let device = self.registry.at(key);
        let address = device.and_then(|_| self.registry.platforms.at(key.slot));
        // Otherwise the address was removed meanwhile, with its device or without.
        if let Some(address) = address.filter(|it| it.step == Step::Sent(number)) {
            let is_same = address.token == token;
            self.step(key, Step::Idle);
            match what {
                Notified::Taken { gone } if gone.is_empty() => self.passed(now, key, seq, fx),
                Notified::Taken { .. } if is_same => self.token_is_dead(now, key, &token, fx),
                Notified::Taken { .. } => self.reach(now, key, fx),
                Notified::Refused => self.passed(now, key, seq, fx),
                Notified::Later { rest_ms } => self.rest(now, key, rest_ms.into()),
                Notified::Failing => self.rest(now, key, LONG_PAUSE_MS),
            }
        }
        self.reach_waiting(now, fx);
    }

    /// Notes that a push has gone to the device's platform, and sends the next one.
    fn passed(&mut self, now: Now, key: Key, seq: Seq, fx: &mut Effects) {
        if let Some(address) = self.registry.platforms.at_mut(key.slot) {
            address.through = address.through.max(seq);
        }
        match self.log.has_room_for_row() {
            true => self.write_row_now(key, fx),
            false => self.registry.soil(key),
        }
        self.reach(now, key, fx);
    }

    /// Lets a device's address rest. Devices that were told the same time come back spread over
    /// half as long again.
    fn rest(&mut self, now: Now, key: Key, rest_ms: u64) {
        let rest_ms = rest_ms.max(PAUSE_MS);
        let rest_ms = rest_ms + rest_ms / 2 * u64::from(key.slot % 1_000) / 1_000;
        if let Some(address) = self.registry.platforms.at_mut(key.slot) {
            address.rests_until = now.after(Duration::from_millis(rest_ms));
        }
        self.reach_later(now, key, rest_ms);
    }

    /// Removes an address that the platform no longer knows. The pushes stay queued.
    fn token_is_dead(&mut self, now: Now, key: Key, token: &PlatformToken, fx: &mut Effects) {
        self.registry.platforms.remove(key.slot);
        self.write_row_now(key, fx);
        let platform = token.platform.clone();
        self.registry.tell(now, key, || DeviceWhat::TokenDead { platform }, fx);
    }

    /// Sets a device's address, or removes it; false if the device is gone.
    pub(crate) fn set_platform(
        &mut self,
        now: Now,
        key: Key,
        token: Option<Arc<PlatformToken>>,
        fx: &mut Effects,
    ) -> bool {
        if self.registry.at(key).is_none() {
            return false;
        }
        match token {
            Some(token) => self.registry.platforms.set(key.slot, token),
            None => self.registry.platforms.remove(key.slot),
        }
        self.reach(now, key, fx);
        true
    }

    /// Gives free places to waiting devices.
    fn reach_waiting(&mut self, now: Now, fx: &mut Effects) {
        for _ in 0..VISITS_MAX {
            if !self.reaching.has_room() {
                return;
            }
            let Some(key) = self.reaching.waiting.pop_front() else { return };
            let address = self.registry.platforms.at(key.slot);
            let waits = address.is_some_and(|address| address.step == Step::Waiting);
            if waits && self.registry.at(key).is_some() {
                self.step(key, Step::Idle);
                self.reach(now, key, fx);
            }
        }
    }

    /// Looks at devices whose time has come; returns when to call again.
    pub(crate) fn turn_platforms(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.reaching.timers.advance(now.mono, 1);
        for _ in 0..self.settings.limits.pushes.fan_out_slice {
            let Some(key) = self.reaching.timers.take().map(Key::unpack) else { break };
            if self.registry.at(key).is_none() {
                continue;
            }
            if let Some(address) = self.registry.platforms.at_mut(key.slot) {
                address.timed = false;
                self.reach(now, key, fx);
            }
        }
        self.reach_waiting(now, fx);
        match self.reaching.has_room() && !self.reaching.waiting.is_empty() {
            true => Some(now.mono),
            false => self.reaching.timers.next(now.mono),
        }
    }

    /// After a start: has the devices looked at that have an address and queued pushes. Their
    /// absence counts from now, because they need time to come back.
    pub(crate) fn restored_platforms(&mut self, now: Now) {
        self.reaching.began_ms = now.wall_ms;
        let slots: Vec<u32> = self.registry.platforms.slots().collect();
        for slot in slots {
            let Some((key, _)) = self.registry.tenant(slot) else { continue };
            if let Some((address, _)) = self.to_reach(now, key) {
                let wait_ms = self.wait_ms(now, key, address).max(PAUSE_MS);
                self.reach_later(now, key, wait_ms);
            }
        }
    }
}
