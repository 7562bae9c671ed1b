//! Sessions of devices: Bind, take-over, Unbind, close, kick.
//!
//! A device is bound to one connection at most. A newer Bind takes over at once: the older
//! connection is notified, and from then on nothing it says counts, its close included, so a late
//! offline event cannot follow the online event that replaced it. Every connect and disconnect is a
//! transition, alternating and with rising versions, and an event with the same version.

use crate::access::{Access, Proven, Resumable, terms};
use crate::delivery::Acknowledged;
use crate::registry::SessionEnd;
use crate::registry::device::BindState;
use crate::{Effects, Hub};
use base::slab::Key;
use base::time::Now;
use model::close::CloseReason;
use model::counters::PushCounter;
use model::id::{ConnRef, DeviceId, DeviceRef, ProductKey};
use model::ports::events::DeviceWhat;
use model::presence::{OnlineState, PresenceVersion};
use model::product::Product;
use model::request::{Bind, Bound, Kick, PushDelivery, Refusal, Refused};

/// Retry time for a Bind when the server is full, milliseconds.
const FULL_RETRY_MS: u32 = 10_000;

/// Retry time for a Bind when the replay filter is full, milliseconds.
const REPLAY_RETRY_MS: u32 = 60_000;

/// Retry time for a Bind when epochs have run out until the log answers, milliseconds.
const EPOCH_RETRY_MS: u32 = 200;

/// An admitted Bind.
struct Admitted {
    key: Key,
    resumed: bool,
    /// Validity of the session's token.
    resumable: Resumable,
}

/// Message to a device that the server detaches.
pub(crate) struct Farewell {
    /// Reason for the detachment.
    pub why: Refusal,
    /// Addresses of better servers, possibly none.
    pub addrs: Vec<String>,
}

impl Farewell {
    /// A farewell without other addresses.
    pub fn of(why: Refusal) -> Farewell {
        Farewell { why, addrs: Vec::new() }
    }
}

/// A session that takes over: its epoch, and the version of the end of the one before it.
struct TakeOver {
    end: PresenceVersion,
    epoch: u64,
}

enum Verdict {
    In(Admitted),
    Challenge([u8; 16]),
    Out { why: Refusal, retry_after_ms: u32 },
}

impl Verdict {
    fn never(why: Refusal) -> Verdict {
        Verdict::Out { why, retry_after_ms: 0 }
    }
}

impl Hub {
    /// Handles a Bind: attaches the device, challenges it, or refuses it.
    pub(crate) fn bind(&mut self, now: Now, from: ConnRef, bind: Bind, fx: &mut Effects) {
        let term = bind.term;
        self.epochs.raise(now, &mut self.log, fx);
        let delivery = match self.admit(now, &bind) {
            Verdict::In(admitted) => return self.attach(now, from, admitted, bind, fx),
            Verdict::Challenge(nonce) => PushDelivery::Challenge { term, nonce },
            Verdict::Out { why, retry_after_ms } => {
                fx.counters.count(PushCounter::BindsRefused);
                let refused = Refused { retry_after_ms, ..Refused::of(&bind, why) };
                PushDelivery::Refused(Box::new(refused))
            }
        };
        fx.deliveries.push((from, delivery));
    }

    /// Handles an Unbind. It is answered even if the device is bound elsewhere by now, and then has
    /// no effect.
    pub(crate) fn unbind(
        &mut self,
        now: Now,
        from: ConnRef,
        term: u16,
        device: DeviceRef,
        fx: &mut Effects,
    ) {
        fx.deliveries.push((from, PushDelivery::Unbound { term }));
        if let Some(key) = self.bound(from, device) {
            self.detach(now, key, CloseReason::Unbound, fx);
        }
    }

    /// Detaches a device from its connection. Pushes in flight wait for its next Bind.
    pub(crate) fn detach(&mut self, now: Now, key: Key, reason: CloseReason, fx: &mut Effects) {
        let Some(device) = self.registry.at(key) else { return };
        let version = self.epochs.end_of(now, device.epoch);
        self.detach_at(now, key, SessionEnd { version, reason }, fx);
    }

    fn detach_at(&mut self, now: Now, key: Key, end: SessionEnd, fx: &mut Effects) {
        self.leave(now, key, end, fx);
        self.registry.soil(key);
        self.park(now, key, fx);
        self.reach(now, key, fx);
        self.registry.release(now, key);
    }

    /// Ends a device's session from the server's side; false if it has none.
    pub(crate) fn kick(
        &mut self,
        now: Now,
        key: Key,
        farewell: Farewell,
        fx: &mut Effects,
    ) -> bool {
        let Some(device) = self.registry.at(key).filter(|it| it.conn().is_some()) else {
            return false;
        };
        let version = self.epochs.end_of(now, device.epoch);
        self.kick_at(now, key, farewell, version, fx);
        true
    }

    /// Ends a device's session from the server's side, with a given version.
    pub(crate) fn kick_at(
        &mut self,
        now: Now,
        key: Key,
        farewell: Farewell,
        version: PresenceVersion,
        fx: &mut Effects,
    ) {
        let Farewell { why, addrs } = farewell;
        let Some(device) = self.registry.at(key) else { return };
        let Some(conn) = device.conn() else { return };
        let kick = Kick { term: device.term(), why, epoch: 0, retry_after_ms: 0, addrs };
        fx.deliveries.push((conn, PushDelivery::Kick(Box::new(kick))));
        self.detach_at(now, key, SessionEnd { version, reason: why.close_reason() }, fx);
    }

    /// Ends the local connection of a device that, according to the directory, has bound to another
    /// server. Its version is directly after the session's epoch and so below the other server's,
    /// because this is not the device's latest transition.
    pub fn outvoted(
        &mut self,
        now: Now,
        product: &ProductKey,
        device: &DeviceId,
        fx: &mut Effects,
    ) {
        let number = self.registry.products.number(product);
        let key = number.and_then(|number| self.registry.find(number, device.as_str()));
        let online = key.and_then(|key| Some((key, self.registry.at(key)?)));
        let Some((key, device)) = online.filter(|(_, it)| it.conn().is_some()) else { return };
        let version = self.epochs.behind(device.epoch);
        self.kick_at(now, key, Farewell::of(Refusal::Replaced), version, fx);
    }

    fn later(&mut self, why: Refusal, base_ms: u32) -> Verdict {
        Verdict::Out { why, retry_after_ms: self.access.retry_ms(base_ms) }
    }

    /// Judges a Bind, cheapest checks first; a refused client leaves no state behind.
    fn admit(&mut self, now: Now, bind: &Bind) -> Verdict {
        if self.draining {
            return self.later(Refusal::Draining, self.settings.limits.drain_ms);
        }
        if bind.crowded {
            return self.later(Refusal::Full, FULL_RETRY_MS);
        }
        let Some(number) = self.registry.products.number(&bind.product) else {
            return Verdict::never(Refusal::UnknownProduct);
        };
        if !self.epochs.has_next() {
            return self.later(Refusal::Busy, EPOCH_RETRY_MS);
        }
        if let Err(wait_ms) = self.access.admit(now) {
            return self.later(Refusal::Busy, wait_ms);
        }
        let known = self.registry.find(number, bind.device.as_str());
        let known = known.and_then(|key| self.registry.at(key));
        let blocked = known.is_some_and(|device| device.blocked());
        let product = self.registry.products.of(number).clone();
        let resumable = known.filter(|device| !device.is_barred());
        let mut shown =
            resumable.and_then(|device| self.access.resumes(now, &product, bind, device.epoch));
        let resumed = shown.is_some();
        // A token, which may have been overheard, does not replace the answer to a challenge.
        if !resumed || product.proofs.challenge {
            match self.access.prove(now, &product, bind) {
                Proven::Yes => shown = None,
                Proven::Challenge(nonce) => return Verdict::Challenge(nonce),
                Proven::No(Refusal::Busy) => return self.later(Refusal::Busy, REPLAY_RETRY_MS),
                Proven::No(why) => return Verdict::never(why),
            }
        }
        if blocked {
            return Verdict::never(Refusal::DeviceBlocked);
        }
        let tags_max = usize::from(self.settings.limits.pushes.tags_a_device_max);
        if bind.tags.as_ref().is_some_and(|tags| tags.len() > tags_max) {
            return Verdict::never(Refusal::Quota);
        }
        match self.find_or_make(now, number, bind.device.as_str()) {
            Some(key) => {
                let resumable = shown.unwrap_or_else(|| Access::resumable(now, &product, bind));
                Verdict::In(Admitted { key, resumed, resumable })
            }
            None => self.later(Refusal::Full, FULL_RETRY_MS),
        }
    }

    fn attach(
        &mut self,
        now: Now,
        from: ConnRef,
        admitted: Admitted,
        bind: Bind,
        fx: &mut Effects,
    ) {
        let Admitted { key, resumed, resumable } = admitted;
        if bind.tags.is_some() {
            self.go_ahead(now, key, fx);
        }
        let Some(before) = self.registry.at(key) else { return };
        let is_first = before.presence() == BindState::Never;
        let product = self.registry.products.of(before.product).clone();
        let end = before.conn().is_some().then(|| self.epochs.end_of(now, before.epoch));
        let epoch = self.epochs.next(now);
        if let Some(end) = end {
            self.take_over(now, from, key, TakeOver { end, epoch }, fx);
        }
        let protocol = self.registry.protocol(bind.protocol);
        let Some(device) = self.registry.attach(key, from, epoch) else { return };
        device.set_term(bind.term);
        device.set_protocol(protocol);
        device.heartbeat_s = self.access.heartbeat_s(&product, bind.heartbeat);
        device.window = terms::window(&product, bind.inflight_max);
        let (heartbeat_s, inflight_max) = (device.heartbeat_s, device.window);
        let online = OnlineState::Online(bind.protocol);
        self.registry.transition(key, (online, bind.peer), fx);
        let tags = bind.tags.as_ref();
        let tagged = tags.is_some_and(|tags| self.registry.set_tags(now, key, tags));
        let is_given = self.give_by_bind(now, key, (&product, &bind), fx);
        // A first Bind, new tags and a new user are written at once; other changes can wait.
        match is_first || tagged || is_given {
            true => self.write_row_now(key, fx),
            false => self.registry.soil(key),
        }
        self.expire_queue(now, key, fx);
        if let Some(last) = bind.last_id {
            self.take_acknowledged(now, key, Acknowledged::upto(last), fx);
        }
        let waiting = self.registry.at(key).and_then(|device| device.queue());
        let bound = Bound {
            term: bind.term,
            device: DeviceRef::new(self.settings.shard, key),
            epoch,
            resumed,
            token: self.access.session_token(&product, bind.device.as_str(), epoch, resumable),
            heartbeat_s,
            inflight_max,
            ack_ms: Hub::ACK_MS,
            offline_count: waiting.map_or(0, |queue| queue.count() as u32),
            server_ms: now.wall_ms,
            frame_bytes_max: self.settings.limits.frame_bytes_max,
            app_id: product.app_id,
        };
        fx.deliveries.push((from, PushDelivery::Bound(Box::new(bound))));
        fx.counters.count(PushCounter::Binds);
        fx.counters.count_by(PushCounter::BindsResumed, u64::from(resumed));
        let online = || DeviceWhat::Online { protocol: bind.protocol, resumed };
        self.registry.tell(now, key, online, fx);
        self.send_waiting(now, key, bind.pulls, fx);
    }

    /// Gives a device to the user of its bearer token, before anything is sent to it; true if that
    /// is another one. If a kill comes before the device's row is stored, the next Bind with the
    /// token gives the device again.
    fn give_by_bind(
        &mut self,
        now: Now,
        key: Key,
        (product, bind): (&Product, &Bind),
        fx: &mut Effects,
    ) -> bool {
        let Some(user) = self.access.user_of_bind(now, product, bind) else { return false };
        let max = usize::from(self.settings.limits.pushes.devices_a_user_max);
        let Some(device) = self.registry.at(key) else { return false };
        let is_coming = self.registry.user_at_last(key) == Some(&user);
        let is_full = !is_coming && self.registry.devices_at_last(device.product, &user) >= max;
        // A change at the log may give it to the user, too, but only later.
        if self.registry.user_of(device) == Some(&user) {
            return false;
        }
        // What the change at the log takes from the queue is no longer all.
        self.registry.take_cut(key);
        // A user with too many devices gets no more of them, but the old user has lost this one.
        self.give(now, key, (Some(user).filter(|_| !is_full), None), fx)
    }

    /// Ends the previous session without handing its unstored pushes to the store: they are sent
    /// again at once.
    fn take_over(&mut self, now: Now, from: ConnRef, key: Key, by: TakeOver, fx: &mut Effects) {
        let Some(device) = self.registry.at(key) else { return };
        let Some(conn) = device.conn() else { return };
        if conn != from {
            let (term, addrs, retry_after_ms) = (device.term(), Vec::new(), 0);
            let kick =
                Kick { term, why: Refusal::Replaced, epoch: by.epoch, retry_after_ms, addrs };
            fx.deliveries.push((conn, PushDelivery::Kick(Box::new(kick))));
        }
        self.leave(now, key, SessionEnd { version: by.end, reason: CloseReason::Replaced }, fx);
    }

    /// Removes the device's connection and reports it as offline.
    fn leave(&mut self, now: Now, key: Key, end: SessionEnd, fx: &mut Effects) {
        let reason = end.reason;
        self.registry.part(key, fx);
        self.registry.detach(key, end);
        self.registry.transition(key, (OnlineState::Offline(reason), None), fx);
        self.registry.tell(now, key, || DeviceWhat::Offline { reason }, fx);
    }

    /// Sends the queued pushes, or holds them for a Pull.
    fn send_waiting(&mut self, now: Now, key: Key, pulls: bool, fx: &mut Effects) {
        if pulls {
            self.park(now, key, fx);
            let device = self.registry.at_mut(key);
            if let Some(queue) = device.and_then(|device| device.queue_mut()) {
                queue.hold();
            }
        } else {
            self.pump(now, key, fx);
        }
        self.registry.release(now, key);
    }
}
