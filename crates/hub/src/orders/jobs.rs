//! The orders to many devices of one shard: how far each has come.
//!
//! A job is the sum of its devices' outcomes; each device is in one column at a time. While an
//! order is open on any shard its rows say which devices are through with it; afterwards its counts
//! alone are kept, until it is old or too many are newer. What ended is gathered for a moment
//! ([`Settled`]), because one row tells of many. Pushes to lists have no job: their answers say it
//! all, and receipts the rest; one that is cancelled has one from then on. The cancel of a push is
//! an order of its own, which is remembered as long as the push is.

use crate::Settings;
use crate::log::durable::order::{
    Change, ChangeKind, Ends, Kind, Named, Progress, StoredOrder, key,
};
use base::hash;
use base::time::Instant;
use model::id::{MessageId, ProductKey, ShardId};
use model::ports::pushes::{OrderState, PushCounts, PushState};
use model::push::{Outcome, Rejection};
use model::timeline::{Seq, TimelineId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A device at which a push came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Settled {
    /// Its timeline.
    pub timeline: TimelineId,
    /// Where the push stands there, if it is to be removed.
    pub seq: Option<Seq>,
    /// Which of the ends it was, if this is to be counted.
    pub end: Option<usize>,
}

/// Progress of the order on another shard, as its owner knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Other {
    /// It is to be told.
    Untold,
    /// It could not take the order: it is to be told again then.
    Refused(Instant),
    /// It was told and has not answered; it is told again then.
    Told(Instant),
    /// It was told more than once: whoever ordered waits for it no more.
    Late(Instant),
    /// It has the order on stable storage, and is at work; it is asked how far it is then.
    Taken(Instant),
    /// It was asked and has not spoken since; it is waited for until then.
    Silent(Instant),
    /// It has the order and did not speak in all this time: it is waited for no more.
    GivenUp,
    /// It has nothing to do any more.
    Over,
}

/// Order that is open.
pub(crate) struct Open {
    /// What was ordered.
    pub order: Arc<StoredOrder>,
    /// It is on this shard's stable storage.
    pub is_kept: bool,
    /// Commands that wait until every shard has it.
    pub replies: Vec<u64>,
    /// For its owner: the other shards.
    pub others: BTreeMap<u16, Other>,
    /// It was open before the last start.
    pub is_resumed: bool,
    /// This shard is through, and its owner was told; it is told again then.
    pub over: Option<Instant>,
    /// For the owner of a cancel: some other shard knows the push.
    pub is_known: bool,
    /// All shards are through, and the log was asked to keep the counts.
    pub is_closing: bool,
    /// Its rows that say who is through with it, to be deleted.
    pub rows: Vec<Box<[u8]>>,
    /// The number of the next of them.
    pub next: u32,
    /// Who was through before the last start.
    pub before: BTreeSet<TimelineId>,
}

impl Open {
    /// Whether those who ordered it have to wait.
    pub fn is_being_taken(&self) -> bool {
        !self.is_kept || self.others.values().any(|other| matches!(other, Other::Told(_)))
    }

    /// The next row that says who is through with it.
    pub fn next_row(&mut self, id: MessageId, shard: ShardId) -> Kind {
        let kind = Kind::Through(shard, self.next);
        self.next += 1;
        self.rows.push(key(id, kind));
        kind
    }
}

/// One order.
pub(crate) struct Job {
    /// Where its devices are.
    pub counts: PushCounts,
    /// Unix second at which it was taken.
    pub at_s: u32,
    /// Its name, at its owner.
    pub named: Option<Named>,
    /// The product whose devices get it, if that is known.
    pub product: Option<ProductKey>,
    /// The push that it changes.
    pub changes: Option<(MessageId, ChangeKind)>,
    /// A cancel made it known: each device is counted when the push ends there.
    pub is_recall: bool,
    /// Absent once it is over.
    pub open: Option<Box<Open>>,
    /// Ends that rows tell of.
    pub told: Ends,
    /// Ends that no row tells of yet.
    pub settled: Vec<Settled>,
    /// Rows on their way to the log.
    pub asked: u32,
    /// Rows of counts that are told here and were written by shards that are there no more.
    pub foreign: Vec<Box<[u8]>>,
}

impl Job {
    /// One without an order.
    pub fn new(at_s: u32, named: Option<Named>, counts: PushCounts) -> Job {
        let (open, told, settled) = (None, Ends::default(), Vec::new());
        Job {
            counts,
            at_s,
            named,
            product: None,
            changes: None,
            is_recall: false,
            open,
            told,
            settled,
            asked: 0,
            foreign: Vec::new(),
        }
    }

    /// The job of an order.
    pub fn of(order: &StoredOrder, open: Box<Open>, counts: PushCounts) -> Job {
        Job {
            product: order.product().cloned(),
            changes: order.change().map(|change| (change.push, change.kind)),
            open: Some(open),
            ..Job::new(order.at_s, order.named, counts)
        }
    }

    /// What a row of its counts says.
    pub fn progress(&self, through: Vec<TimelineId>) -> Progress {
        let (at_s, ends, named) = (self.at_s, self.told, self.named);
        let (product, changes) = (self.product.clone(), self.changes);
        Progress { at_s, ends, named, product, changes, through }
    }

    /// The push that it cancels.
    pub fn cancels(&self) -> Option<MessageId> {
        let (push, kind) = self.changes?;
        (kind == ChangeKind::Cancel).then_some(push)
    }

    /// Ends that a row tells of.
    pub fn add(&mut self, ends: Ends) {
        let ([delivered, expired, rejected, cancelled], counts) = (ends, &mut self.counts);
        counts.delivered += delivered;
        counts.expired += expired;
        counts.rejected += rejected;
        counts.cancelled += cancelled;
        counts.matched += ends.iter().sum::<u64>();
    }
}

/// The jobs of one shard.
pub(crate) struct Jobs {
    pub(super) shard: ShardId,
    pub(super) shards: u16,
    /// How long one that is over is remembered, seconds.
    pub(super) age_s_max: u32,
    /// How long an answer of another shard is waited for.
    pub(super) answer_max: Duration,
    /// Half of how long a shard that has an order may be silent.
    pub(super) silence: Duration,
    jobs: BTreeMap<MessageId, Job>,
    /// Pushes that were cancelled, each with its cancels: several if they name the product or not.
    cancelled: BTreeSet<(MessageId, MessageId)>,
    /// Open pushes that were paused or resumed: the order that holds, and whether it pauses.
    paused: BTreeMap<MessageId, (MessageId, bool)>,
    /// Orders that paused or resumed what is over, or before another one did.
    stale: Vec<MessageId>,
    names: BTreeMap<u128, MessageId>,
    jobs_max: usize,
    /// Open ones whose time has come.
    open: BTreeSet<MessageId>,
    /// Open ones that are sent later: when, in Unix milliseconds. Their ids tell that time, too.
    scheduled: BTreeMap<MessageId, u64>,
    scheduled_max: usize,
    /// When each of those that have something to do is looked at next.
    due: BTreeMap<MessageId, Instant>,
    /// By slot, the last order that was open when the device was made known or its tags changed:
    /// it is through with all orders up to that one. Empty when none is open.
    through: BTreeMap<u32, MessageId>,
}

impl Jobs {
    /// Remembers as many as the limits say, at least a push and its cancel.
    pub fn new(settings: &Settings) -> Jobs {
        let mut jobs = Jobs {
            shard: settings.shard,
            shards: settings.shards,
            age_s_max: 0,
            answer_max: Duration::ZERO,
            silence: Duration::ZERO,
            jobs: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            paused: BTreeMap::new(),
            stale: Vec::new(),
            names: BTreeMap::new(),
            jobs_max: 1,
            open: BTreeSet::new(),
            scheduled: BTreeMap::new(),
            scheduled_max: 0,
            due: BTreeMap::new(),
            through: BTreeMap::new(),
        };
        jobs.configure(settings);
        jobs
    }

    /// From now on other limits are in force.
    pub fn configure(&mut self, settings: &Settings) {
        let (limits, pushes) = (&settings.limits, &settings.limits.pushes);
        self.age_s_max = pushes.job_age_s_max;
        self.answer_max = Duration::from_millis(limits.answer_ms_max.into());
        self.silence = Duration::from_secs(pushes.order_silence_s_max.into()) / 2;
        self.jobs_max = (pushes.jobs_max as usize).max(2);
        self.scheduled_max = pushes.scheduled_max as usize;
    }

    /// The shard that owns an order.
    pub fn owner_of(&self, order: &StoredOrder) -> ShardId {
        ShardId(hash::home(order.home, self.shards))
    }

    /// Whether counts that a shard with this number wrote are this one's to tell: its own, and
    /// those of one that is there no more.
    pub fn adopts(&self, origin: ShardId) -> bool {
        let is_gone = origin.0 >= self.shards;
        origin == self.shard || (is_gone && origin.0 % self.shards == self.shard.0)
    }

    /// An order that is open here, with the other shards if this one owns it.
    pub fn open_order(&self, order: Arc<StoredOrder>, is_resumed: bool) -> Box<Open> {
        let others = (0..self.shards).filter(|&shard| shard != self.shard.0);
        let others = match self.owner_of(&order) == self.shard {
            true => others.map(|shard| (shard, Other::Untold)).collect(),
            false => BTreeMap::new(),
        };
        Box::new(Open {
            order,
            is_kept: is_resumed,
            replies: Vec::new(),
            others,
            is_resumed,
            over: None,
            is_known: false,
            is_closing: false,
            rows: Vec::new(),
            next: 0,
            before: BTreeSet::new(),
        })
    }

    /// Whether another order may be taken, once the one that is to be forgotten is.
    pub fn has_room(&self) -> bool {
        let count = self.jobs.len() - self.scheduled.len();
        count < self.jobs_max || self.open.len() < count
    }

    /// Whether another order may be scheduled.
    pub fn has_room_to_schedule(&self) -> bool {
        self.scheduled.len() < self.scheduled_max
    }

    /// The oldest order that is over, if it has to go for its age or for want of room. A push that
    /// was cancelled is as old as its cancel, and goes before it.
    pub fn forgettable(&self, taken_before_s: u32) -> Option<MessageId> {
        let is_over = |job: &Job| job.open.is_none();
        let mut all = self.jobs.iter().filter(|(id, _)| !self.has_cancel(**id));
        let (id, at_s) = all.find_map(|(&id, job)| {
            let push = job.changes.and_then(|(push, _)| Some((push, self.jobs.get(&push)?)));
            let goes = match push {
                Some((push, of)) if job.cancels().is_some() => is_over(of).then_some(push),
                // What it changed goes on.
                Some((_, of)) => is_over(of).then_some(id),
                None => Some(id),
            };
            Some((goes?, job.at_s)).filter(|_| is_over(job))
        })?;
        let job = self.jobs.get(&id)?;
        let is_many = self.jobs.len() - self.scheduled.len() > self.jobs_max;
        let is_idle = job.settled.is_empty() && job.asked == 0;
        ((is_many || at_s < taken_before_s) && is_idle).then_some(id)
    }

    /// An order is remembered from now on. It must not be known.
    pub fn insert(&mut self, id: MessageId, job: Job) {
        match job.open.as_ref().map(|open| open.order.send_at_ms()) {
            Some(Some(at_ms)) => drop(self.scheduled.insert(id, at_ms)),
            Some(None) => drop(self.open.insert(id)),
            None => {}
        }
        if let Some(named) = job.named {
            self.names.insert(named.key, id);
        }
        self.jobs.insert(id, job);
    }

    /// It is remembered no more.
    pub fn remove(&mut self, id: MessageId) -> Option<Job> {
        let job = self.jobs.remove(&id)?;
        if let Some(named) = job.named.filter(|named| self.names.get(&named.key) == Some(&id)) {
            self.names.remove(&named.key);
        }
        if let Some(push) = job.cancels() {
            self.cancelled.remove(&(push, id));
        }
        if let Some((push, _)) = job.changes
            && self.paused.get(&push).is_some_and(|(by, _)| *by == id)
        {
            self.paused.remove(&push);
        }
        self.closed(id);
        self.due.remove(&id);
        Some(job)
    }

    /// It is open no more.
    pub fn closed(&mut self, id: MessageId) {
        self.open.remove(&id);
        self.scheduled.remove(&id);
        let paused = self.paused.remove(&id);
        self.stale.extend(paused.map(|(by, _)| by));
        if self.open.is_empty() {
            self.through.clear();
        }
    }

    /// The order with this name.
    pub fn named(&self, named: Named) -> Option<(MessageId, &Job)> {
        let id = *self.names.get(&named.key)?;
        Some((id, self.jobs.get(&id)?))
    }

    /// An order that is remembered.
    pub fn at(&self, id: MessageId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// The same, to change.
    pub fn at_mut(&mut self, id: MessageId) -> Option<&mut Job> {
        self.jobs.get_mut(&id)
    }

    /// A push is cancelled from now on.
    pub fn cancel(&mut self, push: MessageId, by: MessageId) {
        self.cancelled.insert((push, by));
    }

    /// Whether a push to devices of this product is cancelled.
    pub fn is_cancelled(&self, push: MessageId, product: Option<&ProductKey>) -> bool {
        self.cancels_of(push).any(|by| {
            let open = self.jobs.get(&by).and_then(|job| job.open.as_ref());
            // One that is over was for the product of its push.
            open.and_then(|open| open.order.change()).is_none_or(|change| change.is_for(product))
        })
    }

    /// The cancels of a push.
    fn cancels_of(&self, push: MessageId) -> impl Iterator<Item = MessageId> + '_ {
        let all = (push, MessageId(0))..=(push, MessageId(u64::MAX));
        self.cancelled.range(all).map(|(_, cancel)| *cancel)
    }

    /// Whether a push has a cancel, for whatever product.
    fn has_cancel(&self, push: MessageId) -> bool {
        self.cancels_of(push).next().is_some()
    }

    /// Whether the push of a change is known here.
    pub fn knows(&self, change: &Change) -> bool {
        let job = self.jobs.get(&change.push).filter(|job| job.changes.is_none());
        job.is_some_and(|job| change.is_for(job.product.as_ref()))
    }

    /// A push is paused from now on, or goes on; of several such orders the last one holds.
    pub fn pause(&mut self, push: MessageId, by: MessageId, paused: bool) {
        let last = self.paused.get(&push).map(|(last, _)| *last);
        if last.is_some_and(|last| last > by) {
            return self.stale.push(by);
        }
        self.stale.extend(last.filter(|last| *last != by));
        self.paused.insert(push, (by, paused));
    }

    /// Whether a push is paused.
    pub fn is_paused(&self, push: MessageId) -> bool {
        self.paused.get(&push).is_some_and(|(_, paused)| *paused)
    }

    /// An order that paused or resumed a push, and of which nothing is needed any more.
    pub fn take_stale(&mut self) -> Option<MessageId> {
        let is_over = |id: &MessageId| {
            let job = self.jobs.get(id);
            job.is_none_or(|job| job.open.is_none() && job.asked == 0)
        };
        let at = self.stale.iter().position(is_over)?;
        Some(self.stale.swap_remove(at))
    }

    /// Whether an order may be open for long although all is well.
    pub fn is_slow(&self, id: MessageId) -> bool {
        let open = self.jobs.get(&id).and_then(|job| job.open.as_ref());
        let is_paced = open.is_some_and(|open| open.order.devices_per_s().is_some());
        is_paced || self.is_scheduled(id) || self.is_paused(id)
    }

    /// A push that is cancelled waits for a device, whatever it was ordered for: it has a job from
    /// now on, which counts the devices at which it ends.
    pub fn recall(&mut self, push: MessageId, at_s: u32, product: ProductKey) {
        let new = || Job {
            product: Some(product),
            is_recall: true,
            ..Job::new(at_s, None, PushCounts::default())
        };
        self.jobs.entry(push).or_insert_with(new);
    }

    /// Whether a push was not known before its cancel: its devices are counted when it ends there.
    pub fn is_recall(&self, push: MessageId) -> bool {
        !self.cancelled.is_empty() && self.jobs.get(&push).is_some_and(|job| job.is_recall)
    }

    /// The orders that are open.
    pub fn open(&self) -> impl Iterator<Item = MessageId> {
        self.open.iter().copied()
    }

    /// Those that are open and sent later.
    pub fn scheduled(&self) -> impl Iterator<Item = MessageId> {
        self.scheduled.keys().copied()
    }

    /// Whether the time of an order is still to come.
    pub fn is_scheduled(&self, id: MessageId) -> bool {
        self.scheduled.contains_key(&id)
    }

    /// An id for an order that is sent at this Unix millisecond, instead of its `own`.
    pub fn id_ahead(&self, own: MessageId, at_ms: u64) -> MessageId {
        let is_free = |id: &MessageId| !self.jobs.contains_key(id) && !self.has_cancel(*id);
        let mut ids = MessageId::ahead(own, at_ms, (self.shard.0, self.shards));
        ids.find(is_free).expect("there are ids without end")
    }

    /// The next order whose time has come, and which goes on from now on.
    pub fn take_scheduled(&mut self, wall_ms: u64) -> Option<MessageId> {
        let due = self.scheduled.iter().take_while(|(_, at_ms)| **at_ms <= wall_ms);
        // One that is cancelled, or over, is closed soon.
        let goes_on = |id: &MessageId| {
            let job = self.jobs.get(id).filter(|job| job.counts.running && !self.is_paused(*id));
            job.is_some_and(|job| job.open.as_ref().is_some_and(|open| open.is_kept))
        };
        let id = due.map(|(id, _)| *id).find(goes_on)?;
        self.scheduled.remove(&id);
        self.open.insert(id);
        Some(id)
    }

    /// When the next one is sent, Unix milliseconds.
    pub fn next_scheduled_ms(&self) -> Option<u64> {
        self.scheduled.values().next().copied()
    }

    /// The last of the open ones whose time has come.
    pub fn last_open(&self) -> Option<MessageId> {
        self.open.last().copied()
    }

    /// Has an order looked at, at this time or before.
    pub fn look(&mut self, id: MessageId, at: Instant) {
        let due = self.due.entry(id).or_insert(at);
        *due = at.min(*due);
    }

    /// The same with the cancels of a push, if there are any.
    pub fn look_at_cancel_of(&mut self, push: MessageId, at: Instant) {
        let cancels: Vec<_> = self.cancels_of(push).collect();
        cancels.into_iter().for_each(|cancel| self.look(cancel, at));
    }

    /// The next order that is to be looked at.
    pub fn take_due(&mut self, now: Instant) -> Option<MessageId> {
        let (&id, _) = self.due.iter().find(|(_, due)| **due <= now)?;
        self.due.remove(&id);
        Some(id)
    }

    /// When there is one.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    /// The device in this slot is through with all orders that are open now.
    pub fn pass(&mut self, slot: u32) {
        if let Some(last) = self.last_open() {
            self.through.insert(slot, last);
        }
    }

    /// It is, as a row says.
    pub fn passed(&mut self, slot: u32, through: MessageId) {
        self.through.insert(slot, through);
    }

    /// Nobody lives in this slot any more.
    pub fn vacate(&mut self, slot: u32) {
        self.through.remove(&slot);
    }

    /// Up to which order the device in this slot is through.
    pub fn through(&self, slot: u32) -> MessageId {
        self.through.get(&slot).copied().unwrap_or(MessageId(0))
    }

    /// After the start: whom nothing is open for.
    pub fn tidy(&mut self) {
        let is_over = |push: &MessageId| self.jobs.get(push).is_none_or(|job| job.open.is_none());
        let over: Vec<_> = self.paused.keys().filter(|push| is_over(push)).copied().collect();
        let stale = over.iter().filter_map(|push| self.paused.remove(push));
        self.stale.extend(stale.map(|(by, _)| by));
        if self.open.is_empty() {
            self.through.clear();
        }
    }

    /// All its devices were visited.
    pub fn walked(&mut self, id: MessageId) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.counts.running = false;
        }
        self.look(id, Instant::default());
    }

    /// Another device, with its outcome if it has one already.
    pub fn matched(&mut self, id: MessageId, outcome: Option<Outcome>) {
        if let Some(Job { counts, .. }) = self.jobs.get_mut(&id) {
            counts.matched += 1;
            match outcome {
                Some(outcome) => *column(counts, outcome) += 1,
                None => counts.pending += 1,
            }
        }
    }

    /// A pending one is stored.
    pub fn stored(&mut self, id: MessageId) {
        self.ended(id, false, Outcome::Stored);
    }

    /// A pending one, or a stored one, came to its end.
    pub fn ended(&mut self, id: MessageId, was_stored: bool, outcome: Outcome) {
        if let Some(Job { counts, .. }) = self.jobs.get_mut(&id) {
            *(if was_stored { &mut counts.stored } else { &mut counts.pending }) -= 1;
            *column(counts, outcome) += 1;
        }
    }

    /// The counts of a push.
    pub fn counts(&self, id: MessageId) -> Option<PushCounts> {
        let job = self.jobs.get(&id).filter(|job| job.changes.is_none())?;
        let state = match job.counts.running {
            _ if self.is_cancelled(id, job.product.as_ref()) => PushState::Cancelled,
            true if self.is_paused(id) => PushState::Paused,
            true if self.is_scheduled(id) => PushState::Scheduled,
            true => PushState::Running,
            false => PushState::Finished,
        };
        Some(PushCounts { state, ..job.counts })
    }

    /// Pushes that are remembered, the highest id first.
    pub fn list(
        &self,
        product: Option<&ProductKey>,
        before: Option<MessageId>,
        count: usize,
    ) -> Vec<OrderState> {
        let before = before.unwrap_or(MessageId(u64::MAX));
        let all = self.jobs.range(..before).rev();
        let of = all.filter(|(_, job)| product.is_none() || job.product.as_ref() == product);
        let states = of.filter_map(|(&id, job)| {
            let (counts, product) = (self.counts(id)?, job.product.clone());
            let send_at_ms = self.scheduled.get(&id).copied();
            Some(OrderState { id, product, send_at_ms, counts })
        });
        states.take(count).collect()
    }

    /// Ends that no row on stable storage tells of.
    pub fn untold(&self) -> usize {
        let due = self.due.keys().filter_map(|id| self.jobs.get(id));
        due.map(|job| job.settled.len()).sum()
    }

    /// Panics when a sum does not hold.
    pub fn audit(&self) {
        for (id, job) in &self.jobs {
            let c = job.counts;
            let sum = c.pending + c.delivered + c.stored + c.expired + c.rejected + c.cancelled;
            assert_eq!(c.matched, sum, "columns of {id:?}: {c:?}");
            let has_look = job.settled.is_empty() || self.due.contains_key(id);
            assert!(has_look, "what ended is told");
            let is_open = self.open.contains(id) != self.is_scheduled(*id);
            assert_eq!(job.open.is_some(), is_open, "open ones");
        }
    }
}

/// The place among the ends of an outcome that is one.
pub(crate) fn end_of(outcome: Outcome) -> Option<usize> {
    match outcome {
        Outcome::Delivered => Some(0),
        Outcome::Stored => None,
        Outcome::Expired => Some(1),
        Outcome::Rejected(Rejection::Cancelled) => Some(3),
        Outcome::Rejected(_) => Some(2),
    }
}

fn column(counts: &mut PushCounts, outcome: Outcome) -> &mut u64 {
    match outcome {
        Outcome::Delivered => &mut counts.delivered,
        Outcome::Stored => &mut counts.stored,
        Outcome::Expired => &mut counts.expired,
        Outcome::Rejected(Rejection::Cancelled) => &mut counts.cancelled,
        Outcome::Rejected(_) => &mut counts.rejected,
    }
}
