//! Schedules: pushes that are ordered again and again, by a calendar.
//!
//! The shard that has the segments has all schedules. When a time of a calendar comes, it orders a
//! push, as the API does, by a name that is made of the schedule and the time: a repeated order is
//! the first one, so a kill at any moment orders each push once. The state of a schedule is written
//! after its order is on stable storage. Invariant: of the times that came while nobody ordered
//! (a stop, a clock that was set) only the last one is ordered, and only while its push lives.

use crate::log::LogCalls;
use crate::log::cleanup::CleanupTask;
use crate::log::durable::order::{Local, Named, Ordered, PushToMany, StoredOrder};
use crate::log::durable::schedule;
use crate::log::pending::{Order, OrderWhat, PendingCall};
use crate::orders::names::name_key;
use crate::{Effects, Hub, lists};
use base::time::{Instant, Now};
use model::audience::Audience;
use model::calendar::{LAST_IDS_MAX, NEXT_TIMES_MAX, Schedule, ScheduleState};
use model::id::{MessageId, ProductKey, ScheduleName};
use model::ports::log::{Table, Write};
use model::ports::pushes::{PushAnswer, PushCommand, PushOrder, PushTarget};
use model::zone::{CivilTime, LocalTime, Passed};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Longest time between two looks at the clock while there are schedules.
const LOOK: Duration = Duration::from_millis(500);

/// Pause after an order was refused.
const PAUSE: Duration = Duration::from_secs(1);

/// Age up to which the push of a time is ordered, whatever its time to live, milliseconds.
const AGE_MS_MIN: u64 = 60_000;

/// Mask of the node in an id.
const NODE: u64 = 0x3ff << 12;

/// Product and name of a schedule.
pub(crate) type ScheduleKey = (ProductKey, ScheduleName);

/// A schedule and how far it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SavedSchedule {
    pub schedule: Schedule,
    /// The last time that was ordered or passed over.
    pub last: CivilTime,
    /// Number of pushes ordered.
    pub sent: u32,
    /// Ids of the last ones, the latest first.
    pub last_ids: Vec<MessageId>,
    pub paused: bool,
}

/// Change of a schedule that the log is asked to store.
#[derive(Clone)]
pub(crate) enum ScheduleChange {
    /// Save it, or replace it.
    Put(Box<SavedSchedule>),
    /// Remove it.
    Drop,
    /// Pause it, or let it go on.
    Pause(bool),
}

impl SavedSchedule {
    /// The next time at which it orders a push, if it goes on.
    fn next(&self) -> Option<CivilTime> {
        let is_over = self.schedule.count.is_some_and(|count| self.sent >= count);
        let goes_on = !is_over && !self.paused;
        goes_on.then(|| self.schedule.after(self.last))?
    }

    fn due_ms(&self) -> Option<u64> {
        self.next().map(|time| self.schedule.due_ms(time))
    }

    /// Pauses it, or lets it go on with the times to come.
    fn pause(&mut self, now: Now, paused: bool) {
        if self.paused && !paused {
            self.last = self.last.max(self.schedule.shows(now.wall_ms));
        }
        self.paused = paused;
    }

    fn state(&self) -> ScheduleState {
        let (mut at, mut next_ms) = (self.next(), Vec::new());
        let left = self.schedule.count.map_or(u32::MAX, |count| count.saturating_sub(self.sent));
        while let Some(time) = at.filter(|_| next_ms.len() < NEXT_TIMES_MAX.min(left as usize)) {
            next_ms.push(self.schedule.due_ms(time));
            at = self.schedule.after(time);
        }
        ScheduleState {
            schedule: self.schedule.clone(),
            paused: self.paused,
            sent: self.sent,
            last_ids: self.last_ids.clone(),
            next_ms,
        }
    }
}

/// An entry of the table.
struct Entry {
    saved: SavedSchedule,
    /// Its place in [`Schedules::due`], if it has one.
    due_ms: Option<u64>,
}

/// The schedules of all products.
#[derive(Default)]
pub(crate) struct Schedules {
    all: BTreeMap<ScheduleKey, Entry>,
    /// Schedules that go on, by the Unix millisecond at which their next push is due; without those
    /// in `ordered`.
    due: BTreeSet<(u64, ScheduleKey)>,
    /// Pushes that are ordered and not yet on stable storage, with the times of their schedules.
    ordered: BTreeMap<ScheduleKey, (CivilTime, MessageId)>,
    /// Schedules that the log is asked to change, with the number of these calls.
    changing: BTreeMap<ScheduleKey, u32>,
    /// Until when nothing is ordered, after a refusal.
    pause_until: Instant,
}

impl Schedules {
    /// A schedule as its row is to be.
    pub fn at(&self, key: &ScheduleKey) -> Option<&SavedSchedule> {
        self.all.get(key).map(|entry| &entry.saved)
    }

    /// Whether the log is asked to change a schedule.
    pub fn is_changing(&self, key: &ScheduleKey) -> bool {
        self.changing.contains_key(key)
    }

    /// Whether a product has schedules.
    pub fn has_some(&self, product: &ProductKey) -> bool {
        self.all.keys().any(|(of, _)| of == product)
    }

    /// Restores a schedule from its row. False if the row cannot be read.
    pub fn restore(&mut self, key: &[u8], value: &[u8]) -> bool {
        let Some((product, name)) = schedule::names(key) else { return false };
        let Some(saved) = schedule::decode(name.clone(), value) else { return false };
        self.put((product, name), saved);
        true
    }

    /// Schedules by product and name.
    pub fn states(
        &self,
        product: Option<&ProductKey>,
        name: Option<&ScheduleName>,
    ) -> Vec<ScheduleState> {
        let is_asked = |key: &&ScheduleKey| {
            product.is_none_or(|product| key.0 == *product) && name.is_none_or(|it| key.1 == *it)
        };
        let asked = self.all.iter().filter(|(key, _)| is_asked(key));
        asked.map(|(_, entry)| entry.saved.state()).collect()
    }

    /// Removes the schedules of a dropped product.
    pub fn forget(&mut self, product: &ProductKey, log: &mut LogCalls, fx: &mut Effects) {
        let of: Vec<_> = self.all.keys().filter(|key| key.0 == *product).cloned().collect();
        for key in of {
            self.remove(&key);
            log.clean_later(CleanupTask::Schedule(key), fx);
        }
    }

    /// Number of schedules that a product has or is about to have.
    fn count(&self, product: &ProductKey) -> usize {
        let new = |key: &&ScheduleKey| key.0 == *product && !self.all.contains_key(key);
        let own = self.all.keys().filter(|key| key.0 == *product).count();
        own + self.changing.keys().filter(new).count()
    }

    fn change_answered(&mut self, key: &ScheduleKey) {
        if let Some(count) = self.changing.get_mut(key) {
            *count -= 1;
            if *count == 0 {
                self.changing.remove(key);
            }
        }
    }

    fn next_due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// Saves a schedule or replaces it, of which nothing is ordered then. Whether it is new.
    fn put(&mut self, key: ScheduleKey, saved: SavedSchedule) -> bool {
        let is_new = !self.remove(&key);
        self.all.insert(key.clone(), Entry { saved, due_ms: None });
        self.place(&key);
        is_new
    }

    /// Removes a schedule. Whether there was one.
    fn remove(&mut self, key: &ScheduleKey) -> bool {
        self.ordered.remove(key);
        let Some(entry) = self.all.remove(key) else { return false };
        if let Some(due_ms) = entry.due_ms {
            self.due.remove(&(due_ms, key.clone()));
        }
        true
    }

    /// Gives a schedule its place among those that are due, after it has changed.
    fn place(&mut self, key: &ScheduleKey) {
        let Some(entry) = self.all.get_mut(key) else { return };
        if let Some(due_ms) = entry.due_ms.take() {
            self.due.remove(&(due_ms, key.clone()));
        }
        if !self.ordered.contains_key(key)
            && let Some(due_ms) = entry.saved.due_ms()
        {
            entry.due_ms = Some(due_ms);
            self.due.insert((due_ms, key.clone()));
        }
    }
}

impl Hub {
    /// Executes a command of the API that changes a schedule.
    pub(crate) fn command_schedule(
        &mut self,
        now: Now,
        reply: u64,
        command: PushCommand,
        fx: &mut Effects,
    ) {
        let (key, change) = match command {
            PushCommand::PutSchedule(schedule) => {
                let key = (schedule.product().clone(), schedule.name.clone());
                (key, ScheduleChange::Put(new_schedule(now, *schedule)))
            }
            PushCommand::DropSchedule { product, schedule } => {
                ((product, schedule), ScheduleChange::Drop)
            }
            PushCommand::PauseSchedule { product, schedule, paused } => {
                ((product, schedule), ScheduleChange::Pause(paused))
            }
            _ => return,
        };
        self.change_schedule(now, reply, (key, change), fx);
    }

    /// Schedules of a product, or of all.
    pub(crate) fn known_schedules(
        &self,
        product: Option<&ProductKey>,
        name: Option<&ScheduleName>,
    ) -> PushAnswer {
        match product.is_some_and(|product| self.registry.products.number(product).is_none()) {
            true => PushAnswer::UnknownProduct,
            false => PushAnswer::Schedules(self.schedules.states(product, name)),
        }
    }

    /// Hands the log a change of a schedule, which takes effect when it is stored.
    fn change_schedule(
        &mut self,
        now: Now,
        reply: u64,
        (key, change): (ScheduleKey, ScheduleChange),
        fx: &mut Effects,
    ) {
        let known = self.schedules.at(&key).cloned();
        let is_new = known.is_none() && !self.schedules.is_changing(&key);
        let max = self.settings.limits.pushes.schedules_a_product_max as usize;
        let saved = match (&change, known) {
            _ if self.registry.products.number(&key.0).is_none() => {
                return fx.answers.push((reply, PushAnswer::UnknownProduct));
            }
            (ScheduleChange::Put(_), _) if is_new && self.schedules.count(&key.0) >= max => {
                return fx.answers.push((reply, PushAnswer::TooManySchedules));
            }
            (ScheduleChange::Put(saved), _) => Some(SavedSchedule::clone(saved)),
            (ScheduleChange::Drop | ScheduleChange::Pause(_), None) => {
                return fx.answers.push((reply, PushAnswer::Done(false)));
            }
            (ScheduleChange::Drop, Some(_)) => None,
            (ScheduleChange::Pause(paused), Some(mut saved)) => {
                saved.pause(now, *paused);
                Some(saved)
            }
        };
        let (table, row) = (Table::Schedules, schedule::key(&key.0, &key.1));
        let write = match &saved {
            Some(saved) => Write::Put { table, key: row, value: schedule::encode(saved) },
            None => Write::Delete { table, key: row },
        };
        *self.schedules.changing.entry(key.clone()).or_default() += 1;
        let order = Box::new(Order { reply, what: OrderWhat::Schedule(key, change) });
        self.log.write(PendingCall::Order(order), write, fx);
    }

    /// Applies the change of a schedule after the log's answer. The row is written once more, as
    /// memory has it by then: a refused change may be in the log, a push may have been ordered
    /// meanwhile, and the product may have been dropped.
    pub(crate) fn schedule_stored(
        &mut self,
        now: Now,
        (key, change): (ScheduleKey, ScheduleChange),
        is_stored: bool,
        fx: &mut Effects,
    ) -> PushAnswer {
        let schedules = &mut self.schedules;
        schedules.change_answered(&key);
        let has_product = self.registry.products.number(&key.0).is_some();
        let answer = match change {
            _ if !is_stored => PushAnswer::StoreFailed,
            ScheduleChange::Put(_) if !has_product => PushAnswer::UnknownProduct,
            ScheduleChange::Put(saved) => PushAnswer::Done(schedules.put(key.clone(), *saved)),
            ScheduleChange::Drop => PushAnswer::Done(schedules.remove(&key)),
            ScheduleChange::Pause(paused) => PushAnswer::Done(match schedules.all.get_mut(&key) {
                Some(entry) => {
                    entry.saved.pause(now, paused);
                    schedules.place(&key);
                    true
                }
                None => false,
            }),
        };
        self.log.clean_later(CleanupTask::Schedule(key), fx);
        answer
    }

    /// Orders the pushes whose times have come; during a drain, the next start does.
    pub(crate) fn turn_schedules(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.schedules_ordered(now, fx);
        if self.schedules.pause_until > now.mono {
            return Some(self.schedules.pause_until);
        }
        while !self.draining
            && let Some(key) = self.due_schedule(now)
        {
            if !self.order_scheduled(now, &key, fx) {
                self.schedules.pause_until = now.after(PAUSE);
                return Some(self.schedules.pause_until);
            }
        }
        // The clock may be set meanwhile, so the wait is bounded.
        self.schedules.next_due_ms().map(|due_ms| {
            let left = Duration::from_millis(due_ms.saturating_sub(now.wall_ms));
            now.after(if left.is_zero() { LOOK } else { left.min(LOOK) })
        })
    }

    fn due_schedule(&self, now: Now) -> Option<ScheduleKey> {
        let due = self.schedules.due.iter().take_while(|(due_ms, _)| *due_ms <= now.wall_ms);
        let mut due = due.map(|(_, key)| key);
        due.find(|key| self.registry.products.number(&key.0).is_some()).cloned()
    }

    /// Orders the push of the last time of a schedule that has come, or passes over it. False if
    /// the order was refused.
    fn order_scheduled(&mut self, now: Now, key: &ScheduleKey, fx: &mut Effects) -> bool {
        let Some(entry) = self.schedules.all.get(key) else { return true };
        let SavedSchedule { schedule, last, .. } = &entry.saved;
        let shown = schedule.shows(now.wall_ms);
        let Some(time) = schedule.last(*last, shown).or_else(|| entry.saved.next()) else {
            return true;
        };
        let live_ms = (u64::from(schedule.push.time_to_live_s) * 1_000).max(AGE_MS_MIN);
        let is_over = schedule.last_due_ms(time) + live_ms <= now.wall_ms;
        let schedule = schedule.clone();
        let Some(order) = self.occurrence(now, &schedule, time) else { return true };
        // A push that was ordered before a kill is noted, however old it is.
        if is_over && order.named.is_none_or(|named| self.jobs.named(named).is_none()) {
            self.schedule_went(key, time, None, fx);
            return true;
        }
        match self.jobs.accept(now, None, order, &mut self.log, fx) {
            Ok(id) => {
                self.schedules.ordered.insert(key.clone(), (time, id));
                self.schedules.place(key);
                true
            }
            Err(_) => false,
        }
    }

    /// The order of a schedule's push for a time.
    fn occurrence(&self, now: Now, schedule: &Schedule, time: CivilTime) -> Option<StoredOrder> {
        let number = self.registry.products.number(schedule.product())?;
        let product = self.registry.products.of(number).clone();
        let due_ms = schedule.due_ms(time);
        let name = [schedule.name.as_str().as_bytes(), &[0xff], &time.minutes().to_le_bytes()];
        let parts = [b"schedule", schedule.product().as_str().as_bytes(), &name.concat()];
        let named = Named { key: name_key(self.settings.home, parts), content: 0 };
        let own = MessageId(named.key as u64 & !NODE | schedule.push.id.0 & NODE);
        let id = self.jobs.id_ahead(own, due_ms);
        let mut order = PushOrder { id, send_at_ms: Some(due_ms), ..schedule.push.clone() };
        let at = LocalTime { at: time, zone: schedule.zone, passed: Passed::Send };
        let local = schedule.local.then_some(Local { time: at, since_ms: due_ms });
        if let PushTarget::Devices(devices) = &order.target
            && schedule.local
        {
            order.target = PushTarget::Audience(Arc::new(Audience::named(devices)));
        }
        let PushOrder { receipts, track, devices_per_s, .. } = order;
        let (push, target, _) = lists::make(now, order, &product);
        let what = Ordered::Push(PushToMany {
            push: Arc::new(push),
            target,
            receipts,
            track,
            send_at_ms: Some(due_ms),
            local,
            devices_per_s,
        });
        let at_s = (schedule.last_due_ms(time) / 1_000) as u32;
        // Hash 0 is at home on the shard that has the schedules.
        Some(StoredOrder { id, at_s, home: 0, named: Some(named), what })
    }

    /// Notes the ordered pushes that are on stable storage; those that the log refused are ordered
    /// again.
    fn schedules_ordered(&mut self, now: Now, fx: &mut Effects) {
        let ordered = self.schedules.ordered.iter();
        let ordered: Vec<_> = ordered.map(|(key, ordered)| (key.clone(), *ordered)).collect();
        for (key, (time, id)) in ordered {
            match self.jobs.at(id).map(|job| job.open.as_ref().is_none_or(|open| open.is_kept)) {
                Some(true) => self.schedule_went(&key, time, Some(id), fx),
                Some(false) => {}
                None => {
                    self.schedules.pause_until = now.after(PAUSE);
                    self.schedules.ordered.remove(&key);
                    self.schedules.place(&key);
                }
            }
        }
    }

    /// Notes that a time of a schedule is over, with the id of its push if one was ordered.
    fn schedule_went(
        &mut self,
        key: &ScheduleKey,
        time: CivilTime,
        id: Option<MessageId>,
        fx: &mut Effects,
    ) {
        let Some(entry) = self.schedules.all.get_mut(key) else { return };
        let saved = &mut entry.saved;
        saved.last = saved.last.max(time);
        if let Some(id) = id {
            saved.sent += 1;
            saved.last_ids.insert(0, id);
            saved.last_ids.truncate(LAST_IDS_MAX);
        }
        self.schedules.ordered.remove(key);
        self.schedules.place(key);
        self.log.clean_later(CleanupTask::Schedule(key.clone()), fx);
    }
}

/// The saved form of a new schedule, which begins with the times after now.
fn new_schedule(now: Now, mut schedule: Schedule) -> Box<SavedSchedule> {
    if let PushTarget::Devices(devices) = &mut schedule.push.target {
        *devices = lists::sorted(std::mem::take(devices));
    }
    let last = schedule.shows(now.wall_ms);
    let (sent, last_ids, paused) = (0, Vec::new(), false);
    Box::new(SavedSchedule { schedule, last, sent, last_ids, paused })
}
