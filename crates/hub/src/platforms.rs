//! Pushes for devices that are away, through the push services of their platforms.
//!
//! A stored push of a device that has been away long enough is handed out as an order; the answer
//! says whether the platform accepted it. A device has one order at a time, in the order of its
//! timeline, so one offset in its row says what has gone out. The push stays queued until the
//! device itself acknowledges it: it may get the same id by both ways. A kill between the
//! platform's answer and the row makes the push go out again.
//!
//! Each platform has places of its own, for its orders and reads. Devices that find none wait in
//! the line of their product, and a place that becomes free goes to the next product in turn.
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
    NotificationOrder, NotificationTargets, NotificationWhat, Notified, Withdrawal,
};
use model::ports::requests::PortRequest;
use model::push::{PlatformToken, Push};
use model::timeline::Seq;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Orders and reads of a shard at once, shared out evenly to the platforms. Other devices wait for
/// a place of their platform.
const PLACES_MAX: usize = 1_024;

/// Places that a platform has at least, however many platforms there are.
const PLACES_MIN: usize = 64;

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
    id: MessageId,
    token: Arc<PlatformToken>,
    withdrawal: Withdrawal,
    /// Number of the platform whose place it takes.
    platform: usize,
}

/// A push that may go to a device's platform.
struct NextPush {
    seq: Seq,
    id: MessageId,
    /// Whether it, or one after it, has priority High.
    is_high: bool,
    /// Number of the platform.
    platform: usize,
}

/// Places of one platform, and the devices that wait for one.
#[derive(Default)]
struct Gate {
    /// Orders and reads.
    taken: usize,
    /// By product: its devices, those with a push of priority High first, then by ticket.
    lines: BTreeMap<u16, BTreeMap<(bool, u64), Key>>,
    /// The product that had its turn last.
    turn: u16,
    /// The platform takes nothing before: no body is read for it.
    rests_until: Instant,
}

impl Gate {
    /// The first device, with its ticket, of the product whose turn it is.
    fn take(&mut self) -> Option<(Key, u64)> {
        let after = (Bound::Excluded(self.turn), Bound::Unbounded);
        let next = self.lines.range(after).next().or_else(|| self.lines.iter().next());
        let product = *next?.0;
        self.turn = product;
        let line = self.lines.get_mut(&product)?;
        let first = line.pop_first();
        if line.is_empty() {
            self.lines.remove(&product);
        }
        first.map(|((_, ticket), key)| (key, ticket))
    }
}

/// Orders on their way to platforms, and devices that are to be looked at.
#[derive(Default)]
pub(crate) struct Reaching {
    timers: Timers,
    /// By slot, when its device is looked at next: earlier timers are over, later ones mean
    /// nothing.
    dues: BTreeMap<u32, Instant>,
    sent: BTreeMap<u64, Sent>,
    /// By the platforms' numbers, which are their places in the settings.
    gates: BTreeMap<usize, Gate>,
    /// The platform that had its turn last.
    turn: usize,
    /// The last number of an order, and the last ticket.
    last: u64,
    /// Unix millisecond of the start, or of the end of the last drain: no device counts as away
    /// from an earlier moment on.
    began_ms: u64,
}

impl Reaching {
    /// Number of orders that are not answered.
    pub fn sent(&self) -> usize {
        self.sent.len()
    }

    fn gate(&mut self, platform: usize) -> &mut Gate {
        self.gates.entry(platform).or_default()
    }

    /// The platform that is next in turn among those that have a free place and waiting devices.
    fn next_gate(&self, places: usize) -> Option<usize> {
        let may = |(_, gate): &(&usize, &Gate)| gate.taken < places && !gate.lines.is_empty();
        let mut after = self.gates.range((Bound::Excluded(self.turn), Bound::Unbounded));
        after.find(may).or_else(|| self.gates.iter().find(may)).map(|(platform, _)| *platform)
    }
}

impl Hub {
    /// Sends a device's next push through its platform, if the device is away and it is time.
    pub(crate) fn reach(&mut self, now: Now, key: Key, fx: &mut Effects) {
        self.reach_by(now, key, None, fx);
    }

    /// The same; `turn` is the platform at which it is the device's turn to take a free place.
    fn reach_by(&mut self, now: Now, key: Key, turn: Option<usize>, fx: &mut Effects) {
        // Devices that the server itself sends away are not woken for it.
        if self.draining || self.registry.platforms.is_empty() {
            return;
        }
        let Some((address, next)) = self.to_reach(now, key) else { return };
        let (seq, step, number) = (next.seq, address.step, next.platform);
        match step {
            Step::Idle => {}
            Step::Waiting { is_high: false, .. } if next.is_high => {}
            _ => return,
        }
        let wait_ms = self.wait_ms(now, key, (address, number));
        if wait_ms > 0 {
            return self.reach_later(now, key, wait_ms);
        }
        let (places, is_turn) = (self.places(), turn == Some(number));
        let gate = self.reaching.gate(number);
        let is_free = gate.taken < places && (is_turn || gate.lines.is_empty());
        if !is_free || !self.log.has_room_to_pull() {
            return self.wait_in_line(key, number, next.is_high);
        }
        let Some(timeline) = self.registry.timeline(key) else { return };
        let (from, backwards, count_max, bytes_max) = (seq - 1, false, 1, 1);
        let pull = Pull { timeline, from, backwards, count_max, bytes_max };
        self.step(key, Step::Reading);
        self.reaching.gate(number).taken += 1;
        self.log.ask(PendingCall::Reach(key, seq, number), Call::Read(Read::Pull(pull)), fx);
    }

    /// Puts a device into the line of its product, or moves it up there.
    fn wait_in_line(&mut self, key: Key, platform: usize, is_high: bool) {
        let Some(product) = self.registry.at(key).map(|device| device.product) else { return };
        let Some(address) = self.registry.platforms.at(key.slot) else { return };
        let line = self.reaching.gates.entry(platform).or_default().lines.entry(product);
        let line = line.or_default();
        let ticket = match address.step {
            Step::Waiting { ticket, is_high } => {
                line.remove(&(!is_high, ticket));
                ticket
            }
            _ => {
                self.reaching.last += 1;
                self.reaching.last
            }
        };
        line.insert((!is_high, ticket), key);
        self.step(key, Step::Waiting { ticket, is_high });
    }

    /// Takes a device out of the line of its product, before its address ends.
    fn leave_line(&mut self, key: Key) {
        let Some(product) = self.registry.at(key).map(|device| device.product) else { return };
        let Some(address) = self.registry.platforms.at(key.slot) else { return };
        let Step::Waiting { ticket, is_high } = address.step else { return };
        let gate = self.platform_of(address).and_then(|it| self.reaching.gates.get_mut(&it));
        let Some(gate) = gate else { return };
        if let Some(line) = gate.lines.get_mut(&product) {
            line.remove(&(!is_high, ticket));
            if line.is_empty() {
                gate.lines.remove(&product);
            }
        }
        self.step(key, Step::Idle);
    }

    /// Places of each platform.
    fn places(&self) -> usize {
        (PLACES_MAX / self.settings.platforms.len().max(1)).max(PLACES_MIN)
    }

    /// The number of an address's platform. `None`: it is not configured, but may be again after a
    /// restart.
    fn platform_of(&self, address: &Address) -> Option<usize> {
        self.settings.platforms.iter().position(|it| it.name == address.token.platform)
    }

    /// The address of a device that is away, and the first of its pushes that has not gone there.
    fn to_reach(&self, now: Now, key: Key) -> Option<(&Address, NextPush)> {
        let device = self.registry.at(key)?;
        let address = self.registry.platforms.at(key.slot)?;
        let platform = self.platform_of(address)?;
        if device.conn().is_some() || device.blocked() {
            return None;
        }
        let items = device.queue()?.items().filter_map(|item| match item.kept() {
            Kept::At(seq) if seq > address.through && !item.expired(now.unix_s()) => {
                Some(NextPush { seq, id: item.id, is_high: item.high(), platform })
            }
            _ => None,
        });
        let first = items.reduce(|a, b| {
            let is_high = a.is_high || b.is_high;
            NextPush { is_high, ..if a.seq <= b.seq { a } else { b } }
        });
        Some((address, first?))
    }

    /// Milliseconds until something may go to the device's platform.
    fn wait_ms(&self, now: Now, key: Key, (address, platform): (&Address, usize)) -> u64 {
        let rule = &self.settings.platforms[platform];
        let since_ms = self.registry.at(key).map_or(0, |device| device.since_ms());
        // A moment that lies ahead is none that counts: the clock has been set back.
        let moments = [since_ms, self.reaching.began_ms].into_iter();
        let from_ms = moments.filter(|at| *at <= now.wall_ms).max().unwrap_or(0);
        let away_ms = now.wall_ms - from_ms;
        let left_ms = (u64::from(rule.away_s) * 1_000).saturating_sub(away_ms);
        let gate = self.reaching.gates.get(&platform);
        let rests_until =
            gate.map_or(address.rests_until, |it| it.rests_until.max(address.rests_until));
        let rest = rests_until.since(now.mono);
        left_ms.max(u64::try_from(rest.as_millis()).unwrap_or(u64::MAX))
    }

    fn step(&mut self, key: Key, step: Step) {
        if let Some(address) = self.registry.platforms.at_mut(key.slot) {
            address.step = step;
        }
    }

    fn reach_later(&mut self, now: Now, key: Key, wait_ms: u64) {
        let (at, dues) = (now.after(Duration::from_millis(wait_ms)), &mut self.reaching.dues);
        // A timer that is hardly later serves as well: so a slot has few of them.
        let is_soon = |due: &Instant| *due <= at + Duration::from_millis(PAUSE_MS);
        if !dues.get(&key.slot).is_some_and(is_soon) {
            dues.insert(key.slot, at);
            self.reaching.timers.insert(at, key.slot.into());
        }
    }

    /// Handles the log's answer to a read, and sends the push.
    pub(crate) fn read_for_platform(
        &mut self,
        now: Now,
        (key, seq, platform): (Key, Seq, usize),
        result: Result<Done, StoreError>,
        fx: &mut Effects,
    ) {
        self.reaching.gate(platform).taken -= 1;
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
        let platform = next.platform;
        let may = self.wait_ms(now, key, (address, platform)) == 0;
        if !may || (next.seq, next.id) != (seq, push.id) {
            return self.reach(now, key, fx);
        }
        let (token, Some((_, device))) = (address.token.clone(), self.registry.names(key)) else {
            return;
        };
        self.reaching.last += 1;
        let number = self.reaching.last;
        self.step(key, Step::Sent(number));
        let withdrawal = Withdrawal::default();
        let targets = NotificationTargets::Platform(token.clone(), withdrawal.clone());
        let sent = Sent { key, seq, id: push.id, token, withdrawal, platform };
        self.reaching.sent.insert(number, sent);
        self.reaching.gate(platform).taken += 1;
        let what = NotificationWhat::Push(device, Arc::new(push));
        let order = Box::new(NotificationOrder { targets, what });
        fx.port_requests.push((number, PortRequest::Notify(order)));
    }

    /// Handles the answer to an order.
    pub(crate) fn reached(&mut self, now: Now, number: u64, what: Notified, fx: &mut Effects) {
        let Some(sent) = self.reaching.sent.remove(&number) else { return };
        let Sent { key, seq, token, platform, .. } = sent;
        let gate = self.reaching.gate(platform);
        gate.taken -= 1;
        if let Notified::Resting { rest_ms } = what {
            let until = now.after(Duration::from_millis(rest_ms.into()));
            gate.rests_until = gate.rests_until.max(until);
        }
        let device = self.registry.at(key);
        let address = device.and_then(|_| self.registry.platforms.at(key.slot));
        // Otherwise the address was removed meanwhile, with its device or without.
        if let Some(address) = address.filter(|it| it.step == Step::Sent(number)) {
            let is_same = address.token == token;
            self.step(key, Step::Idle);
            match what {
                Notified::Taken { gone } if gone.is_empty() => self.passed(now, key, seq, fx),
                // What holds for the token before says nothing about the one that replaced it.
                _ if !is_same => self.reach(now, key, fx),
                Notified::Taken { .. } => self.token_is_dead(now, key, &token, fx),
                Notified::Refused => self.passed(now, key, seq, fx),
                Notified::Later { rest_ms } | Notified::Resting { rest_ms } => {
                    self.rest(now, key, rest_ms.into());
                }
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

    /// Has the device's order for this push, or for any, not sent if it still waits to be sent.
    pub(crate) fn withdraw(&self, key: Key, id: Option<MessageId>) {
        let address = self.registry.platforms.at(key.slot);
        let Some(Step::Sent(number)) = address.map(|it| it.step) else { return };
        let sent = self.reaching.sent.get(&number).filter(|sent| sent.key == key);
        if let Some(sent) = sent.filter(|sent| id.is_none_or(|id| sent.id == id)) {
            sent.withdrawal.withdraw();
        }
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
        if self.registry.platforms.at(key.slot).map(|it| &it.token) != token.as_ref() {
            self.withdraw(key, None);
        }
        let platform = self.registry.platforms.at(key.slot).map(|it| &it.token.platform);
        if platform != token.as_ref().map(|token| &token.platform) {
            self.leave_line(key);
        }
        match token {
            Some(token) => self.registry.platforms.set(key.slot, token),
            None => self.registry.platforms.remove(key.slot),
        }
        self.reach(now, key, fx);
        true
    }

    /// The platform that is next to give a free place to a waiting device.
    fn next_gate(&self) -> Option<usize> {
        let platform = self.reaching.next_gate(self.places());
        platform.filter(|_| self.log.has_room_to_pull())
    }

    /// Gives free places to waiting devices.
    fn reach_waiting(&mut self, now: Now, fx: &mut Effects) {
        for _ in 0..VISITS_MAX {
            let Some(platform) = self.next_gate() else { return };
            self.reaching.turn = platform;
            let Some((key, of)) = self.reaching.gate(platform).take() else { return };
            let address = self.registry.platforms.at(key.slot);
            let waits = address
                .is_some_and(|it| matches!(it.step, Step::Waiting { ticket, .. } if ticket == of));
            if waits && self.registry.at(key).is_some() {
                self.step(key, Step::Idle);
                self.reach_by(now, key, Some(platform), fx);
            }
        }
    }

    /// Looks at devices whose time has come; returns when to call again.
    pub(crate) fn turn_platforms(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.reaching.timers.advance(now.mono, 1);
        for _ in 0..self.settings.limits.pushes.fan_out_slice {
            let Some(slot) = self.reaching.timers.take() else { break };
            let slot = u32::try_from(slot).expect("timers name slots");
            if self.reaching.dues.get(&slot).is_none_or(|due| *due > now.mono) {
                continue;
            }
            self.reaching.dues.remove(&slot);
            // The device that has the slot by now: one that came later has no timer of its own.
            let tenant = self.registry.tenant(slot).map(|(key, _)| key);
            if let Some(key) = tenant.filter(|_| self.registry.platforms.has(slot)) {
                self.reach(now, key, fx);
            }
        }
        self.reach_waiting(now, fx);
        match self.next_gate() {
            Some(_) => Some(now.mono),
            None => self.reaching.timers.next(now.mono),
        }
    }

    /// After a start or a drain: has the devices looked at that have an address and queued pushes.
    /// Their absence counts from now, because they need time to come back.
    pub(crate) fn restored_platforms(&mut self, now: Now) {
        self.reaching.began_ms = now.wall_ms;
        let slots: Vec<u32> = self.registry.platforms.slots().collect();
        for slot in slots {
            let Some((key, _)) = self.registry.tenant(slot) else { continue };
            if let Some((address, next)) = self.to_reach(now, key) {
                let wait_ms = self.wait_ms(now, key, (address, next.platform)).max(PAUSE_MS);
                self.reach_later(now, key, wait_ms);
            }
        }
    }
}
