//! Orders to tags and products: who owns one, how every shard gets it, and how it ends.
//!
//! ```text
//!  owner                                   each other shard
//!  order on stable storage
//!  ── Take ───────────────────────────────► order on stable storage
//!  the API is answered ◄──────── Taken ──── scans its devices
//!  scans its devices   ◄────────  Over ──── each has it, or has it stored
//!  counts on stable storage
//!  ── Close ──────────────────────────────► counts on stable storage
//! ```
//! What the owner has on stable storage is the promise: whatever is lost on the way, by a kill or
//! because another shard's log is full, is said again until that shard has it. A shard that has the
//! order already says so and does nothing twice. A device that is reached is told of by a row
//! before its copy leaves the log, so a start goes on exactly where a kill stopped it; one that is
//! made known, or changes its tags, while an order is open is through with that order first
//! ([`Hub::go_ahead`]). An order is owned by the hash of its name, if it has one, so a repeated one
//! comes to the same shard.

use crate::Effects;
use crate::Hub;
use crate::fanout::Errand;
use crate::jobs::{Job, Open, Other, Settled, end_of};
use crate::log::cleanup::CleanupTask;
use crate::log::durable::order::{self, Kind, Named, Progress};
use crate::log::tickets::PendingCall;
use crate::push::Sending;
use base::hash::{self, HashKey};
use base::slab::Key;
use base::time::{Instant, Now};
use model::id::{MessageId, ProductKey, ShardId};
use model::ports::log::{Call, StoreError, Table, Write};
use model::ports::pushes::{PushAnswer, PushCounts, PushOrder, PushTarget};
use model::push::{Outcome, Priority};
use model::timeline::Seq;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub use crate::log::durable::order::StoredOrder;

/// Ends that one row tells of.
const SETTLED_MAX: usize = 1_024;

/// How long ends are gathered for one row.
const GATHER: Duration = Duration::from_millis(200);

/// How long a refusal is taken to last.
const PAUSE: Duration = Duration::from_secs(1);

/// Orders looked at in one turn.
const LOOKS_MAX: usize = 64;

/// Message between hubs about an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OrderMessage {
    /// Its owner: take it, and say when you are through.
    Take(Arc<StoredOrder>),
    /// It is on my stable storage; or it cannot be now.
    Taken(MessageId, bool),
    /// My devices have it, or have it stored.
    Over(MessageId),
    /// All shards are through.
    Close(MessageId),
}

/// The hash that chooses the shard to which an order for a tag or a product goes. `home` is the key
/// of [`Settings::home`](crate::Settings::home).
pub fn order_home(home: HashKey, order: &PushOrder) -> u64 {
    match &order.idempotency_key {
        Some(key) => home.of(&[b"order", order.product.as_str().as_bytes(), key.as_bytes()]),
        None => home.of(&[b"order", &order.id.0.to_be_bytes()]),
    }
}

/// The name of an order and all that must be the same when it is repeated.
pub(crate) fn named(home: HashKey, order: &PushOrder, live_s: u32) -> Option<Named> {
    let name = order.idempotency_key.as_deref()?;
    let parts: [&[u8]; 3] = [b"named", order.product.as_str().as_bytes(), name.as_bytes()];
    let first = home.of(&parts);
    let second = HashKey::new(first, !first).of(&parts);
    let tag = match &order.target {
        PushTarget::Tag(tag) => tag.as_str(),
        PushTarget::Devices(_) | PushTarget::Product => "",
    };
    let flags = [u8::from(order.priority == Priority::High), order.silent.into()];
    let collapse = order.collapse.as_deref().unwrap_or("");
    let content: [&[u8]; 5] =
        [tag.as_bytes(), &live_s.to_le_bytes(), &flags, collapse.as_bytes(), &order.body];
    Some(Named { key: u128::from(first) << 64 | u128::from(second), content: home.of(&content) })
}

impl Hub {
    /// The API orders a push for many, and this is the order's owner.
    pub(crate) fn take_order(
        &mut self,
        now: Now,
        reply: u64,
        order: StoredOrder,
        fx: &mut Effects,
    ) {
        let id = order.push.id;
        if let Some(named) = order.named
            && let Some((first, job)) = self.jobs.named(named)
        {
            if job.named != Some(named) {
                return fx.answers.push((reply, PushAnswer::Conflict));
            }
            let counts = job.counts;
            return match self.jobs.at_mut(first).and_then(|job| job.open.as_mut()) {
                Some(open) if open.is_being_taken() => open.replies.push(reply),
                _ => fx.answers.push((reply, pushed(first, counts))),
            };
        }
        if self.log_failed {
            return fx.answers.push((reply, PushAnswer::StoreFailed));
        }
        if self.jobs.at(id).is_some() || !self.jobs.has_room() {
            return fx.answers.push((reply, PushAnswer::Busy));
        }
        self.keep_order(now, Arc::new(order), vec![reply], fx);
    }

    /// Another shard speaks of an order.
    pub fn peer_message(
        &mut self,
        now: Now,
        from: ShardId,
        order_message: OrderMessage,
        fx: &mut Effects,
    ) {
        match order_message {
            OrderMessage::Take(order) => self.told_to_take(now, from, order, fx),
            OrderMessage::Taken(id, is_taken) => {
                let Some(open) = self.jobs.at_mut(id).and_then(|job| job.open.as_mut()) else {
                    return;
                };
                match open.others.get_mut(&from.0) {
                    Some(other @ Other::Told) if is_taken => *other = Other::Taken,
                    Some(other @ Other::Told) => {
                        let again = now.after(PAUSE);
                        *other = Other::Refused(again);
                        self.jobs.look(id, again);
                    }
                    _ => {}
                }
                self.answer_order(id, fx);
            }
            OrderMessage::Over(id) => {
                match self.jobs.at_mut(id).and_then(|job| job.open.as_mut()) {
                    Some(open) => {
                        if let Some(other) = open.others.get_mut(&from.0) {
                            *other = Other::Over;
                        }
                        self.jobs.look(id, now.mono);
                        self.answer_order(id, fx);
                    }
                    None => fx.peer_messages.push((from, OrderMessage::Close(id))),
                }
            }
            OrderMessage::Close(id) => self.close_order(id, fx),
        }
    }

    /// Goes on with the orders that have something to do.
    pub(crate) fn turn_orders(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        for _ in 0..LOOKS_MAX {
            let Some(id) = self.jobs.take_due(now.mono) else { break };
            self.look_at(now, id, fx);
        }
        self.forget_orders(now, fx);
        self.jobs.next_due()
    }

    /// The device is about to change what orders go by: those that would still come to it come now,
    /// and none that is open comes later.
    pub(crate) fn go_ahead(&mut self, now: Now, key: Key, fx: &mut Effects) {
        if self.jobs.last_open().is_none() {
            return;
        }
        let scans = std::mem::take(&mut self.scans);
        for scan in scans.iter().filter(|scan| matches!(scan.errand, Errand::Push(_))) {
            if self.is_ahead(scan, key) {
                self.visit(now, key, &scan.errand, fx);
            }
        }
        self.scans = scans;
        self.jobs.pass(key.slot);
    }

    /// The device's key, with a new record if it is not known: no order that is open is for that.
    pub(crate) fn find_or_make(&mut self, now: Now, product: u16, id: &str) -> Option<Key> {
        if let Some(key) = self.registry.find(product, id) {
            return Some(key);
        }
        let key = self.registry.find_or_insert(now.wall_ms, product, id)?;
        self.jobs.pass(key.slot);
        Some(key)
    }

    /// Whether a scan has nothing to do at a device: it is through with the order already.
    pub(crate) fn is_through(&self, key: Key, id: MessageId) -> bool {
        if self.jobs.through(key.slot) >= id {
            return true;
        }
        let open = self.jobs.at(id).and_then(|job| job.open.as_ref());
        let Some(open) = open.filter(|open| open.is_resumed) else { return false };
        let timeline = self.registry.timeline(self.settings.home, key);
        let waits = self.registry.at(key).and_then(|device| device.queue());
        timeline.is_some_and(|timeline| open.before.contains(&timeline))
            || waits.is_some_and(|queue| queue.items().any(|item| item.id == id))
    }

    /// A push for many came to its end at a device, or would stand there for nobody: a row tells of
    /// it before the copy at `seq`, if there is one, is removed.
    pub(crate) fn settle_order(
        &mut self,
        now: Now,
        (key, id): (Key, MessageId),
        (seq, outcome): (Option<Seq>, Option<Outcome>),
    ) {
        let Some(timeline) = self.registry.timeline(self.settings.home, key) else { return };
        let Some(job) = self.jobs.at_mut(id) else { return };
        job.settled.push(Settled { timeline, seq, end: outcome.and_then(end_of) });
        let is_many = job.settled.len() >= SETTLED_MAX || self.draining;
        self.jobs.look(id, if is_many { now.mono } else { now.after(GATHER) });
    }

    /// A scan over this shard's devices has ended.
    pub(crate) fn walked_order(&mut self, id: MessageId) {
        self.jobs.walked(id);
        self.jobs.look(id, Instant::default());
    }

    /// The log has answered an order's row.
    pub(crate) fn order_kept(
        &mut self,
        now: Now,
        id: MessageId,
        result: Result<(), StoreError>,
        fx: &mut Effects,
    ) {
        let Some(job) = self.jobs.at_mut(id) else { return };
        let Some(open) = &mut job.open else { return };
        let owner = self.settings.owner_of(&open.order);
        if let Err(error) = result {
            let replies = std::mem::take(&mut open.replies);
            self.jobs.remove(id);
            if owner != self.settings.shard {
                fx.peer_messages.push((owner, OrderMessage::Taken(id, false)));
            }

            let answer = match error {
                StoreError::Busy => PushAnswer::Busy,
                _ => PushAnswer::StoreFailed,
            };
            let answers = replies.into_iter().map(|reply| (reply, answer.clone()));
            return fx.answers.extend(answers);
        }
        open.is_kept = true;
        if owner != self.settings.shard {
            fx.peer_messages.push((owner, OrderMessage::Taken(id, true)));
        }
        self.scan_order(id);
        self.tell_others(now, id, fx);
        self.answer_order(id, fx);
    }

    /// The log has answered a row that tells of ends.
    pub(crate) fn ends_told(
        &mut self,
        now: Now,
        (id, settled): (MessageId, Vec<Settled>),
        result: Result<(), StoreError>,
    ) {
        let Some(job) = self.jobs.at_mut(id) else { return };
        job.asked -= 1;
        if result.is_ok() {
            return self.jobs.look(id, now.mono);
        }
        // What was to be removed is being removed; that it was is told again.
        for ended in settled {
            if let Some(end) = ended.end {
                job.told[end] -= 1;
            }
            job.settled.push(Settled { seq: None, ..ended });
        }
        self.jobs.look(id, now.after(PAUSE));
    }

    /// The log has answered the row of counts of an order that is over.
    pub(crate) fn order_closed(
        &mut self,
        now: Now,
        id: MessageId,
        result: Result<(), StoreError>,
        fx: &mut Effects,
    ) {
        let Some(job) = self.jobs.at_mut(id) else { return };
        job.asked -= 1;
        if result.is_err() {
            if let Some(open) = &mut job.open {
                open.is_closing = false;
            }
            return self.jobs.look(id, now.after(PAUSE));
        }
        let Some(open) = job.open.take() else { return };
        job.counts.running = false;
        self.jobs.closed(id);
        if !job_is_idle(self.jobs.at(id)) {
            self.jobs.look(id, now.mono);
        }
        let own = order::key(id, Kind::Order);
        for key in [own].into_iter().chain(open.rows) {
            self.later_do(CleanupTask::Unorder(key), fx);
        }
        let others = open.others.keys().map(|&shard| (ShardId(shard), OrderMessage::Close(id)));
        fx.peer_messages.extend(others);
    }

    /// After a start: each order that is open goes on.
    pub(crate) fn resume_orders(&mut self, now: Now, over: &BTreeSet<MessageId>, fx: &mut Effects) {
        let open: Vec<MessageId> = self.jobs.open().collect();
        for id in open {
            match over.contains(&id) {
                true => {
                    self.jobs.walked(id);
                    self.close_order(id, fx);
                }
                false => self.scan_order(id),
            }
            self.jobs.look(id, now.mono);
        }
        self.jobs.tidy();
    }

    /// The other shards of an order, if this one owns it.
    pub(crate) fn open_order(&self, order: Arc<StoredOrder>, is_resumed: bool) -> Box<Open> {
        let me = self.settings.shard;
        let others = (0..self.settings.shards).filter(|&shard| shard != me.0);
        let others = match self.settings.owner_of(&order) == me {
            true => others.map(|shard| (shard, Other::Untold)).collect(),
            false => Default::default(),
        };
        Box::new(Open { others, is_kept: is_resumed, is_resumed, ..Open::of(order) })
    }

    fn told_to_take(&mut self, now: Now, from: ShardId, order: Arc<StoredOrder>, fx: &mut Effects) {
        let id = order.push.id;
        let answer = match self.jobs.at(id).map(|job| job.open.as_ref()) {
            Some(None) => OrderMessage::Over(id),
            // It is answered when it is on stable storage.
            Some(Some(open)) if !open.is_kept => return,
            Some(Some(open)) => {
                fx.peer_messages.push((from, OrderMessage::Taken(id, true)));
                if !open.is_over {
                    return;
                }
                OrderMessage::Over(id)
            }
            None if self.log_failed => OrderMessage::Taken(id, false),
            None if !self.is_served(&order.push.product) => OrderMessage::Over(id),
            None => return self.keep_order(now, order, Vec::new(), fx),
        };
        fx.peer_messages.push((from, answer));
    }

    fn is_served(&self, product: &ProductKey) -> bool {
        self.registry.products.number(product).is_some()
    }

    fn keep_order(
        &mut self,
        now: Now,
        order: Arc<StoredOrder>,
        replies: Vec<u64>,
        fx: &mut Effects,
    ) {
        let (id, value) = (order.push.id, order::encode(&order));
        let mut open = self.open_order(order.clone(), false);
        open.replies = replies;
        let counts = PushCounts { running: true, ..PushCounts::default() };
        let job = Job { open: Some(open), ..Job::new(order.at_s, order.named, counts) };
        self.jobs.insert(id, job);
        self.forget_orders(now, fx);
        let write = Write::Put { table: Table::Orders, key: order::key(id, Kind::Order), value };
        self.enter(PendingCall::Take(id), Call::Write(write), fx);
    }

    /// The scan over this shard's devices begins.
    fn scan_order(&mut self, id: MessageId) {
        let Some(open) = self.jobs.at(id).and_then(|job| job.open.as_ref()) else { return };
        let order = open.order.clone();
        let Some(number) = self.registry.products.number(&order.push.product) else {
            return self.walked_order(id);
        };
        let (push, receipts) = (order.push.clone(), order.receipts);
        let sending = Sending { push, receipts, counted: true };
        self.begin(Errand::Push(sending), number, order.tag.clone());
    }

    fn tell_others(&mut self, now: Now, id: MessageId, fx: &mut Effects) {
        let Some(open) = self.jobs.at_mut(id).and_then(|job| job.open.as_mut()) else { return };
        let mut later = None;
        for (&shard, other) in &mut open.others {
            match other {
                Other::Refused(until) if *until > now.mono => later = Some(*until),
                Other::Untold | Other::Refused(_) => {
                    *other = Other::Told;
                    fx.peer_messages.push((ShardId(shard), OrderMessage::Take(open.order.clone())));
                }
                Other::Told | Other::Taken | Other::Over => {}
            }
        }
        if let Some(later) = later {
            self.jobs.look(id, later);
        }
    }

    /// Answers those who wait for it, once every shard has spoken.
    fn answer_order(&mut self, id: MessageId, fx: &mut Effects) {
        let Some(job) = self.jobs.at_mut(id) else { return };
        let Some(open) = job.open.as_mut().filter(|open| !open.is_being_taken()) else { return };
        let counts = job.counts;
        fx.answers.extend(open.replies.drain(..).map(|reply| (reply, pushed(id, counts))));
    }

    fn look_at(&mut self, now: Now, id: MessageId, fx: &mut Effects) {
        self.tell_ends(id, fx);
        let Some(job) = self.jobs.at_mut(id) else { return };
        let is_idle = job.asked == 0 && job.counts.pending == 0 && !job.counts.running;
        let Some(open) = job.open.as_mut().filter(|open| open.is_kept) else { return };
        let owner = self.settings.owner_of(&open.order);
        let all = open.others.values().all(|other| *other == Other::Over);
        if !is_idle {
            return self.tell_others(now, id, fx);
        }
        if owner != self.settings.shard {
            if !std::mem::replace(&mut open.is_over, true) {
                fx.peer_messages.push((owner, OrderMessage::Over(id)));
            }
            return;
        }
        match all {
            true => self.close_order(id, fx),
            false => self.tell_others(now, id, fx),
        }
    }

    /// Writes rows of what has ended, then removes it.
    fn tell_ends(&mut self, id: MessageId, fx: &mut Effects) {
        loop {
            let shard = self.settings.shard;
            let Some(job) = self.jobs.at_mut(id).filter(|job| !job.settled.is_empty()) else {
                return;
            };
            let count = job.settled.len().min(SETTLED_MAX);
            let settled: Vec<Settled> = job.settled.drain(..count).collect();
            let mut ends = [0; 3];
            settled.iter().filter_map(|ended| ended.end).for_each(|end| ends[end] += 1);
            job.told.iter_mut().zip(ends).for_each(|(told, more)| *told += more);
            job.asked += 1;
            let through = settled.iter().map(|ended| ended.timeline).collect();
            let (kind, ends, named) = match &mut job.open {
                Some(open) => (open.next_row(id, shard), ends, None),
                None => (Kind::Counts(shard), job.told, job.named),
            };
            let progress = Progress { at_s: job.at_s, ends, named, through };
            let value = order::encode_progress(&progress);
            let write = Write::Put { table: Table::Orders, key: order::key(id, kind), value };
            let removed: Vec<_> =
                settled.iter().filter_map(|ended| Some((ended.timeline, ended.seq?))).collect();
            self.enter(PendingCall::Told(Box::new((id, settled))), Call::Write(write), fx);
            for (timeline, seq) in removed {
                self.remove_from(timeline, vec![seq], fx);
            }
        }
    }

    /// All shards are through: of the order only its counts remain.
    fn close_order(&mut self, id: MessageId, fx: &mut Effects) {
        self.tell_ends(id, fx);
        let shard = self.settings.shard;
        let Some(job) = self.jobs.at_mut(id) else { return };
        let Some(open) = job.open.as_mut().filter(|open| open.is_kept && !open.is_closing) else {
            return;
        };
        open.is_closing = true;
        job.counts.running = false;
        job.asked += 1;
        let (at_s, ends, named) = (job.at_s, job.told, job.named);
        let progress = Progress { at_s, ends, named, through: Vec::new() };
        let (key, value) = (order::key(id, Kind::Counts(shard)), order::encode_progress(&progress));
        // A start may have begun to scan again what was over already.
        self.scans.retain(|scan| !matches!(&scan.errand, Errand::Push(it) if it.push.id == id));
        let write = Write::Put { table: Table::Orders, key, value };
        self.enter(PendingCall::Close(id), Call::Write(write), fx);
    }

    /// Forgets orders that are over and old, or too many.
    fn forget_orders(&mut self, now: Now, fx: &mut Effects) {
        let before = now.unix_s().saturating_sub(self.settings.limits.job_age_s_max);
        while let Some(id) = self.jobs.forgettable(before) {
            let job = self.jobs.remove(id);
            let foreign = job.into_iter().flat_map(|job| job.foreign);
            let own = order::key(id, Kind::Counts(self.settings.shard));
            for key in [own].into_iter().chain(foreign) {
                self.later_do(CleanupTask::Unorder(key), fx);
            }
        }
    }
}

impl Open {
    /// Whether those who ordered it have to wait.
    fn is_being_taken(&self) -> bool {
        !self.is_kept || self.others.values().any(|other| *other == Other::Told)
    }

    fn next_row(&mut self, id: MessageId, shard: ShardId) -> Kind {
        let kind = Kind::Through(shard, self.next);
        self.next += 1;
        self.rows.push(order::key(id, kind));
        kind
    }
}

impl crate::Settings {
    fn owner_of(&self, order: &StoredOrder) -> ShardId {
        ShardId(hash::home(order.home, self.shards))
    }

    /// Whether counts that a shard with this number wrote are this one's to tell: its own, and
    /// those of one that is there no more.
    pub(crate) fn adopts(&self, origin: ShardId) -> bool {
        let is_gone = origin.0 >= self.shards;
        origin == self.shard || (is_gone && origin.0 % self.shards == self.shard.0)
    }
}

fn job_is_idle(job: Option<&Job>) -> bool {
    job.is_none_or(|job| job.settled.is_empty())
}

fn pushed(id: MessageId, counts: PushCounts) -> PushAnswer {
    PushAnswer::Pushed { id, outcomes: Vec::new(), counts }
}
