//! The jobs of one shard: progress of its orders to many devices.
//!
//! A job is the sum of its devices' outcomes; each device is in one column at a time. While an
//! order is open on any shard its rows name the devices that are through with it; afterwards only
//! its counts are stored, until it is old or too many are newer. Ended devices are gathered for a
//! moment ([`Settled`]), because one row holds many. Pushes to lists have no job: their answers and
//! receipts tell all; a cancelled one has a job from then on. The cancel of a push is an order of
//! its own, which is remembered as long as the push is.

use super::columns::column;
use super::open::{Open, Other, Settled};
use super::outcomes::Tracked;
use super::scans::Selection;
use super::waves::Waves;
use crate::Settings;
use crate::log::durable::order::{Change, ChangeKind, Ends, Named, Progress, StoredOrder};
use base::hash;
use base::time::Instant;
use model::id::{MessageId, ProductKey, ShardId};
use model::ports::pushes::{OrderState, PushCounts, PushState};
use model::push::Outcome;
use model::timeline::{Seq, TimelineId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Most tags that the audiences of a product's open and scheduled pushes compare together at a
/// device, if they compare more than one. A push with one more is answered Busy.
const COSTS_A_PRODUCT_MAX: usize = 4_096;

/// Progress of one order on this shard.
pub(crate) struct Job {
    /// Counts of the order's devices by state.
    pub counts: PushCounts,
    /// Unix second at which the order was accepted.
    pub at_s: u32,
    /// The order's name, at its owner.
    pub named: Option<Named>,
    /// The product whose devices get the order's push, if known. Of a change: the product that the
    /// change names.
    pub product: Option<ProductKey>,
    /// The push that the order changes, and how.
    pub changes: Option<(MessageId, ChangeKind)>,
    /// The push became known by its cancel: each device is counted when the push ends there.
    pub is_recall: bool,
    /// Absent once the order is over.
    pub open: Option<Box<Open>>,
    /// Ended devices that rows record.
    pub told: Ends,
    /// Ended devices that no row records yet.
    pub settled: Vec<Settled>,
    /// Rows of this order at the log.
    pub asked: u32,
    /// Keys of rows of counts that this shard reports and removed shards wrote.
    pub foreign: Vec<Box<[u8]>>,
    /// Outcomes of the push at devices, if it is tracked.
    pub tracked: Option<Box<Tracked>>,
}

impl Job {
    /// A job that is not open.
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
            tracked: None,
        }
    }

    /// The job of an open order.
    pub fn of(order: &StoredOrder, open: Box<Open>, counts: PushCounts) -> Job {
        Job {
            product: order.product().or(order.names_product()).cloned(),
            changes: order.change().map(|change| (change.push, change.kind)),
            open: Some(open),
            tracked: order.is_tracked().then(Box::default),
            ..Job::new(order.at_s, order.named, counts)
        }
    }

    /// The content of a row of counts, with the given devices.
    pub fn progress(&self, through: Vec<TimelineId>) -> Progress {
        let (at_s, ends, named) = (self.at_s, self.told, self.named);
        let (product, changes) = (self.product.clone(), self.changes);
        let tracked = self.tracked.as_ref().map(|tracked| tracked.is_cut);
        Progress { at_s, ends, named, product, changes, through, tracked }
    }

    /// The push that the order cancels, if it is a cancel.
    pub fn cancels(&self) -> Option<MessageId> {
        let (push, kind) = self.changes?;
        (kind == ChangeKind::Cancel).then_some(push)
    }

    /// Whether a change applies to a push for devices of this product.
    pub fn is_for(&self, product: Option<&ProductKey>) -> bool {
        self.product.is_none() || self.product.as_ref() == product
    }

    /// Adds the ended devices that a row records.
    pub fn add(&mut self, ends: Ends) {
        let ([delivered, expired, rejected, cancelled], counts) = (ends, &mut self.counts);
        counts.delivered += delivered;
        counts.expired += expired;
        counts.rejected += rejected;
        counts.cancelled += cancelled;
        counts.matched += ends.iter().sum::<u64>();
    }
}

/// The product of an order and the cost of its audience, if that compares more than one tag.
fn audience_cost(order: &StoredOrder) -> Option<(&ProductKey, usize)> {
    let to_many = order.to_many()?;
    let cost = Selection::of(&to_many.target)?.cost();
    (cost > 1).then_some((&to_many.push.product, cost))
}

/// The jobs of one shard.
pub(crate) struct Jobs {
    pub(super) shard: ShardId,
    pub(super) shards: u16,
    /// How long an order that is over is remembered, seconds.
    pub(super) age_s_max: u32,
    /// How long a command waits for another shard's answer.
    pub(super) answer_max: Duration,
    /// Half of the longest silence of a shard that has stored an order.
    pub(super) silence: Duration,
    pub(super) jobs: BTreeMap<MessageId, Job>,
    /// Cancelled pushes, each with its cancels: several, if they name different products or none.
    cancelled: BTreeSet<(MessageId, MessageId)>,
    /// Open pushes that were paused or resumed, with the product that the change names: the order
    /// that applies, and whether it pauses.
    paused: BTreeMap<(MessageId, Option<ProductKey>), (MessageId, bool)>,
    /// Orders that paused or resumed a push that is over, or that a later order overruled.
    stale: Vec<MessageId>,
    names: BTreeMap<u128, MessageId>,
    /// Orders that are not scheduled: the tracked pushes, and all others. Each kind has a limit.
    pub(super) tracked: BTreeSet<MessageId>,
    others: BTreeSet<MessageId>,
    tracked_max: usize,
    jobs_max: usize,
    /// Tracked pushes that another shard has forgotten: they are unknown from now on, and are
    /// forgotten here when they are over.
    pub(super) leaving: BTreeSet<MessageId>,
    /// Reports that are gathered for rows.
    pub(super) gathered: usize,
    /// Open orders, except those scheduled for later.
    open: BTreeSet<MessageId>,
    /// Those of them that look for their devices with a scan. The others, tracked pushes to lists,
    /// visit theirs when they begin.
    scanning: BTreeSet<MessageId>,
    /// Open orders that are sent later: when, in Unix milliseconds. Their ids contain that time,
    /// too.
    scheduled: BTreeMap<MessageId, u64>,
    scheduled_max: usize,
    /// Bytes of the lists of open and scheduled orders that have lists.
    list_bytes: BTreeMap<MessageId, u64>,
    list_bytes_max: u64,
    /// Cost of the audiences of open and scheduled orders that compare more than one tag, with
    /// their product.
    costs: BTreeMap<MessageId, (ProductKey, usize)>,
    /// When each order with pending work is looked at next.
    due: BTreeMap<MessageId, Instant>,
    /// By slot, the last order that was open when the device was registered or its tags changed:
    /// the device is through with all orders up to it. The number is that of the scheduled orders
    /// that had started by then. Empty when no order is open.
    through: BTreeMap<u32, (MessageId, u64)>,
    /// Number of scheduled orders that have started; each wave of zones counts as one.
    starts: u64,
    /// Open orders by the devices' clocks that have begun.
    pub(super) waves: BTreeMap<MessageId, Waves>,
    /// Bytes of all rows of outcomes.
    pub(super) outcome_bytes: u64,
    pub(super) outcome_bytes_max: u64,
}

impl Jobs {
    /// An empty table of as many jobs as the limits permit, at least a push and its cancel.
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
            tracked: BTreeSet::new(),
            others: BTreeSet::new(),
            tracked_max: 1,
            jobs_max: 1,
            leaving: BTreeSet::new(),
            gathered: 0,
            open: BTreeSet::new(),
            scanning: BTreeSet::new(),
            scheduled: BTreeMap::new(),
            scheduled_max: 0,
            list_bytes: BTreeMap::new(),
            list_bytes_max: 0,
            costs: BTreeMap::new(),
            due: BTreeMap::new(),
            through: BTreeMap::new(),
            starts: 0,
            waves: BTreeMap::new(),
            outcome_bytes: 0,
            outcome_bytes_max: 0,
        };
        jobs.configure(settings);
        jobs
    }

    /// Applies changed limits.
    pub fn configure(&mut self, settings: &Settings) {
        let (limits, pushes) = (&settings.limits, &settings.limits.pushes);
        self.age_s_max = pushes.job_age_s_max;
        self.answer_max = Duration::from_millis(limits.answer_ms_max.into());
        self.silence = Duration::from_secs(pushes.order_silence_s_max.into()) / 2;
        self.jobs_max = (pushes.jobs_max as usize).max(2);
        self.tracked_max = pushes.tracked_max as usize;
        self.scheduled_max = pushes.scheduled_max as usize;
        self.list_bytes_max = pushes.lists_bytes_max;
        self.outcome_bytes_max = pushes.outcomes_bytes_max / u64::from(self.shards.max(1));
    }

    /// The shard that owns an order.
    pub fn owner_of(&self, order: &StoredOrder) -> ShardId {
        ShardId(hash::home(order.home, self.shards))
    }

    /// Whether this shard reports the counts that a shard with this number wrote: its own, and
    /// those of a removed shard.
    pub fn adopts(&self, origin: ShardId) -> bool {
        let is_gone = origin.0 >= self.shards;
        origin == self.shard || (is_gone && origin.0 % self.shards == self.shard.0)
    }

    /// The open state of an order, with the other shards if this one owns it.
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
            is_counted: false,
            rows: Vec::new(),
            next: 0,
            before: BTreeSet::new(),
            start: None,
        })
    }

    /// Whether another order may be accepted, possibly after an old one is forgotten.
    pub fn has_room(&self, is_tracked: bool) -> bool {
        !self.is_full(is_tracked, 1) || self.oldest(is_tracked).is_some()
    }

    /// Whether there are more orders than the limit, once there are so many more. The scheduled
    /// ones take no room, nor does the last pause of each open push, which is remembered as long as
    /// the push is open.
    fn is_full(&self, is_tracked: bool, more: usize) -> bool {
        let (count, max) = match is_tracked {
            true => (self.tracked.len(), self.tracked_max),
            false => (self.others.len().saturating_sub(self.paused.len()), self.jobs_max),
        };
        count + more > max
    }

    /// Whether another order may be scheduled.
    pub fn has_room_to_schedule(&self) -> bool {
        self.scheduled.len() < self.scheduled_max
    }

    /// Whether an order with so many bytes of lists may be opened beside those that are open. Every
    /// shard knows the orders of all.
    pub fn has_room_for_lists(&self, bytes: u64) -> bool {
        bytes == 0 || self.list_bytes.values().sum::<u64>() + bytes <= self.list_bytes_max
    }

    /// Notes how many bytes the lists of an open order have.
    pub fn set_list_bytes(&mut self, id: MessageId, bytes: u64) {
        if bytes > 0 {
            self.list_bytes.insert(id, bytes);
        }
    }

    /// Whether an order may be opened beside those for the same product that are open: a later
    /// push may have to ask all of their audiences at a device. Every shard knows the orders of
    /// all.
    pub fn has_room_for_audience(&self, order: &StoredOrder) -> bool {
        let Some((product, cost)) = audience_cost(order) else { return true };
        let of = self.costs.values().filter(|(of, _)| of == product);
        of.map(|(_, cost)| cost).sum::<usize>() + cost <= COSTS_A_PRODUCT_MAX
    }

    /// Notes the cost of an open order's audience.
    pub fn set_cost(&mut self, order: &StoredOrder) {
        if let Some((product, cost)) = audience_cost(order) {
            self.costs.insert(order.id, (product.clone(), cost));
        }
    }

    /// The oldest order that is over, if it must be forgotten because of its age or for lack of
    /// room.
    pub fn forgettable(&self, taken_before_s: u32) -> Option<MessageId> {
        [false, true].into_iter().find_map(|is_tracked| {
            let (id, at_s) = self.oldest(is_tracked)?;
            let is_idle = self.jobs.get(&id)?.is_idle();
            let is_due = self.is_full(is_tracked, 0) || at_s < taken_before_s;
            (is_due && is_idle).then_some(id)
        })
    }

    /// The oldest order that is over and need not stay because of another one, with the Unix second
    /// that dates it. A cancelled push is as old as its cancel, and is forgotten before it.
    fn oldest(&self, is_tracked: bool) -> Option<(MessageId, u32)> {
        let of = if is_tracked { &self.tracked } else { &self.others };
        let is_over = |job: &Job| job.open.is_none();
        let is_cancelled = |id, job: &Job| self.is_cancelled(id, job.product.as_ref());
        let all = of.iter().filter_map(|id| self.jobs.get_key_value(id));
        let mut all = all.filter(|(id, job)| is_over(job) && !is_cancelled(**id, job));
        all.find_map(|(&id, job)| {
            let push = job.changes.and_then(|(push, _)| Some((push, self.jobs.get(&push)?)));
            let changed = push.filter(|(_, of)| job.is_for(of.product.as_ref()));
            let goes = match changed {
                Some((push, of)) if job.cancels().is_some() => is_over(of).then_some(push),
                // A pause or a resume stays while the push that it changed is open.
                Some((_, of)) => is_over(of).then_some(id),
                None => Some(id),
            };
            Some((goes?, job.at_s))
        })
    }

    /// Adds an order, which must be unknown.
    pub fn insert(&mut self, id: MessageId, job: Job) {
        match job.open.as_ref().map(|open| (open.order.send_at_ms(), open.order.is_list())) {
            Some((Some(at_ms), _)) => drop(self.scheduled.insert(id, at_ms)),
            Some((None, is_list)) => {
                self.open.insert(id);
                if !is_list {
                    self.scanning.insert(id);
                }
            }
            None => {}
        }
        if !self.scheduled.contains_key(&id) {
            self.of_kind(job.tracked.is_some()).insert(id);
        }
        if let Some(named) = job.named {
            self.names.insert(named.key, id);
        }
        self.jobs.insert(id, job);
    }

    /// The orders of a kind that are not scheduled.
    fn of_kind(&mut self, is_tracked: bool) -> &mut BTreeSet<MessageId> {
        if is_tracked { &mut self.tracked } else { &mut self.others }
    }

    /// Forgets an order.
    pub fn remove(&mut self, id: MessageId) -> Option<Job> {
        let job = self.jobs.remove(&id)?;
        if let Some(named) = job.named.filter(|named| self.names.get(&named.key) == Some(&id)) {
            self.names.remove(&named.key);
        }
        if let Some(push) = job.cancels() {
            self.cancelled.remove(&(push, id));
        }
        if let Some((push, _)) = job.changes {
            let of = (push, job.product.clone());
            if self.paused.get(&of).is_some_and(|(by, _)| *by == id) {
                self.paused.remove(&of);
            }
        }
        // One that is still scheduled is of no kind yet.
        self.scheduled.remove(&id);
        self.closed(id);
        self.due.remove(&id);
        self.of_kind(job.tracked.is_some()).remove(&id);
        self.leaving.remove(&id);
        self.outcome_bytes -= job.tracked.as_ref().map_or(0, |tracked| tracked.bytes);
        Some(job)
    }

    /// Notes that an order is no longer open.
    pub fn closed(&mut self, id: MessageId) {
        self.open.remove(&id);
        self.scanning.remove(&id);
        if self.scheduled.remove(&id).is_some() {
            let is_tracked = self.is_tracked(id);
            self.of_kind(is_tracked).insert(id);
        }
        self.list_bytes.remove(&id);
        self.costs.remove(&id);
        self.waves.remove(&id);
        self.forget_pauses(id, |_| true);
        if self.scanning.is_empty() {
            self.through.clear();
        }
    }

    /// The order with this name.
    pub fn named(&self, named: Named) -> Option<(MessageId, &Job)> {
        let id = *self.names.get(&named.key)?;
        Some((id, self.jobs.get(&id)?))
    }

    /// The job of an order.
    pub fn at(&self, id: MessageId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// The job of an order, to change.
    pub fn at_mut(&mut self, id: MessageId) -> Option<&mut Job> {
        self.jobs.get_mut(&id)
    }

    /// Notes that a push is cancelled.
    pub fn cancel(&mut self, push: MessageId, by: MessageId) {
        self.cancelled.insert((push, by));
    }

    /// Whether a push to devices of this product is cancelled.
    pub fn is_cancelled(&self, push: MessageId, product: Option<&ProductKey>) -> bool {
        let is_for = |by| self.jobs.get(&by).is_none_or(|cancel| cancel.is_for(product));
        self.cancels_of(push).any(is_for)
    }

    /// The cancels of a push.
    fn cancels_of(&self, push: MessageId) -> impl Iterator<Item = MessageId> + '_ {
        let all = (push, MessageId(0))..=(push, MessageId(u64::MAX));
        self.cancelled.range(all).map(|(_, cancel)| *cancel)
    }

    /// Whether a push has a cancel, for whatever product.
    pub(super) fn has_cancel(&self, push: MessageId) -> bool {
        self.cancels_of(push).next().is_some()
    }

    /// Whether the push of a change is known here.
    pub fn knows(&self, change: &Change) -> bool {
        let job = self.jobs.get(&change.push).filter(|job| job.changes.is_none());
        job.is_some_and(|job| change.is_for(job.product.as_ref()))
    }

    /// Notes that a push is paused, or resumed; of several such orders the last one applies.
    pub fn pause(
        &mut self,
        (push, product): (MessageId, Option<ProductKey>),
        by: MessageId,
        paused: bool,
    ) {
        let of = (push, product);
        let last = self.paused.get(&of).map(|(last, _)| *last);
        if last.is_some_and(|last| last > by) {
            return self.stale.push(by);
        }
        self.stale.extend(last.filter(|last| *last != by));
        self.paused.insert(of, (by, paused));
    }

    /// The orders that paused or resumed a push: the product that each names, its id, and whether
    /// it pauses.
    fn pauses_of(
        &self,
        push: MessageId,
    ) -> impl Iterator<Item = (&Option<ProductKey>, MessageId, bool)> {
        let all = self.paused.range((push, None)..).take_while(move |((of, _), _)| *of == push);
        all.map(|((_, product), (by, paused))| (product, *by, *paused))
    }

    /// Drops those pauses of a push whose named product is to be dropped.
    fn forget_pauses(&mut self, push: MessageId, drops: impl Fn(&Option<ProductKey>) -> bool) {
        let of = self.pauses_of(push).filter(|(product, ..)| drops(product));
        let of: Vec<_> = of.map(|(product, by, _)| (product.clone(), by)).collect();
        for (product, by) in of {
            self.paused.remove(&(push, product));
            self.stale.push(by);
        }
    }

    /// Whether a push is paused.
    pub fn is_paused(&self, push: MessageId) -> bool {
        let of = self.jobs.get(&push).and_then(|job| job.product.as_ref());
        let applies = |product: &Option<ProductKey>| product.is_none() || product.as_ref() == of;
        let all = self.pauses_of(push).filter(|(product, ..)| applies(product));
        all.max_by_key(|(_, by, _)| *by).is_some_and(|(.., paused)| paused)
    }

    /// The open changes of a push that name the same product, the last one last.
    pub fn open_changes<'a>(
        &'a self,
        change: &'a Change,
    ) -> impl DoubleEndedIterator<Item = (MessageId, ChangeKind)> + 'a {
        self.open.iter().filter_map(|&id| {
            let job = self.jobs.get(&id).filter(|job| job.product == change.product)?;
            job.changes.filter(|(push, _)| *push == change.push).map(|(_, kind)| (id, kind))
        })
    }

    /// Takes an order that paused or resumed a push, is over, and no longer matters.
    pub fn take_stale(&mut self) -> Option<MessageId> {
        let is_over = |id: &MessageId| {
            let job = self.jobs.get(id);
            job.is_none_or(|job| job.open.is_none() && job.asked == 0)
        };
        let at = self.stale.iter().position(is_over)?;
        Some(self.stale.swap_remove(at))
    }

    /// Whether an order may be open for long without a fault: paced, scheduled or paused.
    pub fn is_slow(&self, id: MessageId) -> bool {
        let open = self.jobs.get(&id).and_then(|job| job.open.as_ref());
        let is_paced = open.is_some_and(|open| open.order.devices_per_s().is_some());
        let is_zoned = self.waves.contains_key(&id);
        is_paced || is_zoned || self.is_scheduled(id) || self.is_paused(id)
    }

    /// Makes a job for a cancelled push that was found in a queue, whatever its order was; from now
    /// on it counts the devices at which the push ends.
    pub fn recall(&mut self, push: MessageId, at_s: u32, product: ProductKey) {
        if !self.jobs.contains_key(&push) {
            let job = Job::new(at_s, None, PushCounts::default());
            self.insert(push, Job { product: Some(product), is_recall: true, ..job });
        }
    }

    /// Whether a push was unknown before its cancel: its devices are counted when it ends there.
    pub fn is_recall(&self, push: MessageId) -> bool {
        !self.cancelled.is_empty() && self.jobs.get(&push).is_some_and(|job| job.is_recall)
    }

    /// The open orders, except those scheduled for later.
    pub fn open(&self) -> impl Iterator<Item = MessageId> {
        self.open.iter().copied()
    }

    /// The open orders that are sent later.
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

    /// Takes the next order whose sending time has come; it is no longer scheduled.
    pub fn take_scheduled(&mut self, wall_ms: u64) -> Option<MessageId> {
        let due = self.scheduled.iter().take_while(|(_, at_ms)| **at_ms <= wall_ms);
        // An order that is cancelled, or over, is closed soon, and stays.
        let goes_on = |id: &MessageId| {
            let job = self.jobs.get(id).filter(|job| job.counts.running && !self.is_paused(*id));
            job.is_some_and(|job| job.open.as_ref().is_some_and(|open| open.is_kept))
        };
        let id = due.map(|(id, _)| *id).find(goes_on)?;
        self.scheduled.remove(&id);
        let is_tracked = self.is_tracked(id);
        self.of_kind(is_tracked).insert(id);
        self.open.insert(id);
        self.scanning.insert(id);
        self.start_again(id);
        Some(id)
    }

    /// Notes that an order, or the next zones of one, begin now: no device is past them.
    pub fn start_again(&mut self, id: MessageId) {
        self.starts += 1;
        let open = self.jobs.get_mut(&id).and_then(|job| job.open.as_mut());
        open.into_iter().for_each(|open| open.start = Some(self.starts));
    }

    /// When the next order is sent, Unix milliseconds.
    pub fn next_scheduled_ms(&self) -> Option<u64> {
        self.scheduled.values().next().copied()
    }

    /// The last open order that scans for its devices and is not scheduled for later.
    pub fn last_open(&self) -> Option<MessageId> {
        self.scanning.last().copied()
    }

    /// Schedules a look at an order at this time, or earlier if one is due before.
    pub fn look(&mut self, id: MessageId, at: Instant) {
        let due = self.due.entry(id).or_insert(at);
        *due = at.min(*due);
    }

    /// Schedules a look at the cancels of a push, if it has any.
    pub fn look_at_cancel_of(&mut self, push: MessageId, at: Instant) {
        let cancels: Vec<_> = self.cancels_of(push).collect();
        cancels.into_iter().for_each(|cancel| self.look(cancel, at));
    }

    /// Takes the next order that is due for a look.
    pub fn take_due(&mut self, now: Instant) -> Option<MessageId> {
        let (&id, _) = self.due.iter().find(|(_, due)| **due <= now)?;
        self.due.remove(&id);
        Some(id)
    }

    /// When the next order is due for a look.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    /// Notes that the device in this slot is through with all orders that are open now.
    pub fn pass(&mut self, slot: u32) {
        if let Some(last) = self.last_open() {
            self.through.insert(slot, (last, self.starts));
        }
    }

    /// Notes, from a row, up to which order the device in this slot is through.
    pub fn passed(&mut self, slot: u32, through: MessageId) {
        self.through.insert(slot, (through, 0));
    }

    /// Whether the device in this slot was through with an order when it was registered or its
    /// tags changed. Ids tell which orders were open then, except for a scheduled order: resumed
    /// late, it starts after orders with higher ids.
    pub fn is_past(&self, slot: u32, id: MessageId) -> bool {
        let Some((through, starts)) = self.through.get(&slot) else { return false };
        let start = self.jobs.get(&id).and_then(|job| job.open.as_ref()?.start);
        start.map_or(*through >= id, |start| *starts >= start)
    }

    /// Notes that this slot is free.
    pub fn vacate(&mut self, slot: u32) {
        self.through.remove(&slot);
        self.waves.values_mut().for_each(|waves| waves.vacate(slot));
    }

    /// The last order up to which the device in this slot is through; zero if none.
    pub fn through(&self, slot: u32) -> MessageId {
        self.through.get(&slot).map_or(MessageId(0), |(through, _)| *through)
    }

    /// Drops, after the start, pauses of pushes that are over, and `through` if no order is open.
    pub fn tidy(&mut self) {
        let pushes: BTreeSet<MessageId> = self.paused.keys().map(|(push, _)| *push).collect();
        for push in pushes {
            let open = self.jobs.get(&push).filter(|job| job.open.is_some());
            let of = open.map(|job| job.product.clone());
            // The change of a push for devices of another product has no effect.
            self.forget_pauses(push, |product| {
                of.as_ref().is_none_or(|of| product.is_some() && product != of)
            });
        }
        if self.scanning.is_empty() {
            self.through.clear();
        }
    }

    /// Notes that all devices of an order were visited.
    pub fn walked(&mut self, id: MessageId) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.counts.running = false;
        }
        self.look(id, Instant::default());
    }

    /// Counts another device, with its outcome if it has one already.
    pub fn matched(&mut self, id: MessageId, outcome: Option<Outcome>) {
        if let Some(Job { counts, .. }) = self.jobs.get_mut(&id) {
            counts.matched += 1;
            match outcome {
                Some(outcome) => *column(counts, outcome) += 1,
                None => counts.pending += 1,
            }
        }
    }

    /// Counts a pending device as stored.
    pub fn stored(&mut self, id: MessageId) {
        self.ended(id, false, Outcome::Stored);
    }

    /// Counts the end of a pending device, or of a stored one.
    pub fn ended(&mut self, id: MessageId, was_stored: bool, outcome: Outcome) {
        if let Some(Job { counts, .. }) = self.jobs.get_mut(&id) {
            *(if was_stored { &mut counts.stored } else { &mut counts.pending }) -= 1;
            *column(counts, outcome) += 1;
        }
    }

    /// The job of a push that is known, of this product if one is named.
    pub fn shown(&self, id: MessageId, product: Option<&ProductKey>) -> Option<&Job> {
        let job = self.jobs.get(&id).filter(|job| job.changes.is_none())?;
        let is_of = product.is_none() || job.product.as_ref() == product;
        (is_of && !self.leaving.contains(&id)).then_some(job)
    }

    /// The counts of a push.
    pub fn counts(&self, id: MessageId) -> Option<PushCounts> {
        let job = self.shown(id, None)?;
        let state = match job.counts.running {
            _ if self.is_cancelled(id, job.product.as_ref()) => PushState::Cancelled,
            true if self.is_paused(id) => PushState::Paused,
            true if self.is_scheduled(id) => PushState::Scheduled,
            true => PushState::Running,
            false => PushState::Finished,
        };
        Some(PushCounts { state, tracked: job.tracked.is_some(), ..job.counts })
    }

    /// Known pushes, the highest id first.
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
            let next_ms = || self.next_wave_ms(id).filter(|at_ms| *at_ms > 0);
            let send_at_ms = self.scheduled.get(&id).copied().or_else(next_ms);
            Some(OrderState { id, product, send_at_ms, counts })
        });
        states.take(count).collect()
    }

    /// The last offset of a copy in a timeline that ended and is still to be recorded.
    pub fn last_settled(&self, timeline: TimelineId) -> Option<Seq> {
        let due = self.due.keys().filter_map(|id| self.jobs.get(id));
        let of = due.flat_map(|job| &job.settled).filter(|it| it.timeline == timeline);
        of.filter_map(|it| it.seq).max()
    }

    /// Ended devices that no row on stable storage records.
    pub fn untold(&self) -> usize {
        let due = self.due.keys().filter_map(|id| self.jobs.get(id));
        due.map(|job| job.settled.len()).sum::<usize>() + self.gathered
    }

    /// Panics when a sum does not hold.
    pub fn audit(&self) {
        for (id, job) in &self.jobs {
            let c = job.counts;
            let sum = c.pending + c.delivered + c.stored + c.expired + c.rejected + c.cancelled;
            assert_eq!(c.matched, sum, "columns of {id:?}: {c:?}");
            let has_look = job.settled.is_empty() || self.due.contains_key(id);
            let is_in = [&self.tracked, &self.others].map(|kind| kind.contains(id));
            let is_kept = !self.is_scheduled(*id);
            let is_tracked = job.tracked.is_some();
            assert_eq!(is_in, [is_kept && is_tracked, is_kept && !is_tracked], "kinds");
            assert!(has_look, "what ended is told");
            let is_open = self.open.contains(id) != self.is_scheduled(*id);
            assert_eq!(job.open.is_some(), is_open, "open ones");
        }
        assert_eq!(self.tracked.len() + self.others.len() + self.scheduled.len(), self.jobs.len());
        let tracked = || self.jobs.values().filter_map(|job| job.tracked.as_ref());
        let bytes: u64 = tracked().map(|tracked| tracked.bytes).sum();
        let gathered: usize = tracked().map(|tracked| tracked.gathered.len()).sum();
        assert_eq!(self.gathered, gathered, "gathered reports");
        assert_eq!(self.outcome_bytes, bytes, "rows of outcomes");
    }
}
