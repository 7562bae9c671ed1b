//! Distribution of an order: to the log, to the other shards, and to its end.
//!
//! This file knows no devices: the scan does the work at each of them.

use super::jobs::{Job, Jobs};
use super::open::{Open, Other, Settled};
use super::outcomes::OutcomeRow;
use super::{OrderMessage, StoredOrder};
use crate::Effects;
use crate::log::LogCalls;
use crate::log::cleanup::CleanupTask;
use crate::log::durable::order::{self, Ends, Kind, Progress};
use crate::log::pending::PendingCall;
use crate::reports::WaitingReport;
use base::time::{Instant, Now};
use model::counters::PushCounter;
use model::id::{MessageId, ShardId};
use model::ports::log::{StoreError, Table, Write};
use model::ports::pushes::{PushAnswer, PushCounts};
use model::timeline::TimelineId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Most ended devices in one row.
const SETTLED_MAX: usize = 1_024;

/// How long ended devices are gathered for one row.
const GATHER: Duration = Duration::from_millis(200);

/// Most changes of one push that are open at once, if they name the same product. One more is
/// answered Busy.
const OPEN_CHANGES_MAX: usize = 8;

/// Most commands that wait for one order. One more is answered Busy.
const REPLIES_MAX: usize = 64;

/// Pause after a refusal of the log or of another shard.
const PAUSE: Duration = Duration::from_secs(1);

impl Jobs {
    /// Accepts an order to many from the API; this shard owns it.
    pub fn take_order(
        &mut self,
        now: Now,
        reply: u64,
        order: StoredOrder,
        log: &mut LogCalls,
        fx: &mut Effects,
    ) {
        if let Err(answer) = self.accept(now, Some(reply), order, log, fx) {
            fx.answers.push((reply, answer));
        }
    }

    /// Accepts an order of the API, whose command is answered when every shard has the order, or of
    /// a schedule; its id. A repeated order has the id of the first.
    pub fn accept(
        &mut self,
        now: Now,
        reply: Option<u64>,
        order: StoredOrder,
        log: &mut LogCalls,
        fx: &mut Effects,
    ) -> Result<MessageId, PushAnswer> {
        let id = order.id;
        if let Some(named) = order.named
            && let Some((first, job)) = self.named(named)
        {
            if job.named != Some(named) {
                return Err(PushAnswer::Conflict);
            }
            let (counts, is_cancel) = (job.counts, job.changes.is_some());
            match self.at_mut(first).and_then(|job| job.open.as_mut()) {
                Some(open) if is_cancel || open.is_being_taken() => {
                    reply.into_iter().for_each(|reply| wait_for(open, reply, fx));
                }
                _ if is_cancel => return Err(PushAnswer::Done(true)),
                _ => fx.answers.extend(reply.map(|reply| (reply, pushed(first, counts)))),
            }
            return Ok(first);
        }
        if let Some(segment) = order.unresolved() {
            return Err(PushAnswer::UnknownSegment(segment.clone()));
        }
        if log.has_failed() {
            return Err(PushAnswer::StoreFailed);
        }
        // A zone may be past its time, and a schedule is late after a restart.
        let last_ms = order.local().map(|local| local.time.at.last_anywhere_ms());
        let last_ms = last_ms.or(order.send_at_ms());
        if reply.is_some() && last_ms.is_some_and(|at_ms| at_ms <= now.wall_ms) {
            return Err(PushAnswer::TimePassed);
        }
        if let Some(change) = order.change() {
            let open: Vec<_> = self.open_changes(change).collect();
            if let Some(&(last, _)) = open.last().filter(|(_, kind)| *kind == change.kind)
                && let Some(open) = self.at_mut(last).and_then(|job| job.open.as_mut())
            {
                reply.into_iter().for_each(|reply| wait_for(open, reply, fx));
                return Ok(last);
            }
            if open.len() >= OPEN_CHANGES_MAX {
                return Err(PushAnswer::Busy);
            }
        }
        let is_needed = order.change().is_some_and(|change| self.knows(change));
        if self.at(id).is_some() || !(is_needed || self.has_room(order.is_tracked())) {
            return Err(PushAnswer::Busy);
        }
        if order.send_at_ms().is_some() && !self.has_room_to_schedule() {
            return Err(PushAnswer::TooManyScheduled);
        }
        if !self.has_room_for_lists(order.list_bytes()) {
            return Err(PushAnswer::ListsFull);
        }
        if !self.has_room_for_audience(&order) {
            return Err(PushAnswer::Busy);
        }
        self.keep_order(now, Arc::new(order), reply.into_iter().collect(), log, fx);
        Ok(id)
    }

    /// Stores an order of another shard, its owner, or reports how far it is here.
    pub fn told_to_take(
        &mut self,
        now: Now,
        from: ShardId,
        order: Arc<StoredOrder>,
        log: &mut LogCalls,
        fx: &mut Effects,
    ) {
        let id = order.id;
        let over = OrderMessage::Over(id, self.knows_push_of(&order));
        let answer = match self.at(id).map(|job| job.open.as_ref()) {
            Some(None) => over,
            // The owner gets its answer when the order is on stable storage.
            Some(Some(open)) if !open.is_kept => return,
            Some(Some(open)) => {
                fx.peer_messages.push((from, OrderMessage::Taken(id, true)));
                if open.over.is_none() {
                    return;
                }
                over
            }
            None if log.has_failed() => OrderMessage::Taken(id, false),
            None => return self.keep_order(now, order, Vec::new(), log, fx),
        };
        fx.peer_messages.push((from, answer));
    }

    /// Notes that another shard has stored an order, or cannot now.
    pub fn taken(&mut self, now: Now, from: ShardId, id: MessageId, is_taken: bool) {
        let again = now.after(if is_taken { self.silence } else { PAUSE });
        let Some(open) = self.at_mut(id).and_then(|job| job.open.as_mut()) else { return };
        let Some(other) = open.others.get_mut(&from.0) else { return };
        match other {
            Other::Untold | Other::Refused(_) | Other::GivenUp | Other::Over => return,
            Other::Told(_) | Other::Late(_) | Other::Taken(_) | Other::Silent(_) => {}
        }
        *other = if is_taken { Other::Taken(again) } else { Other::Refused(again) };
        self.look(id, again);
    }

    /// Notes that another shard is through with an order, and whether it knows the push that the
    /// order changes. False if the order is no longer open here.
    pub fn over(&mut self, now: Now, from: ShardId, id: MessageId, is_known: bool) -> bool {
        let Some(open) = self.at_mut(id).and_then(|job| job.open.as_mut()) else { return false };
        if let Some(other) = open.others.get_mut(&from.0) {
            *other = Other::Over;
            open.is_known |= is_known;
        }
        self.look(id, now.mono);
        true
    }

    /// Handles the log's answer to an order's row: true if the order goes on, false if it was
    /// refused.
    pub fn kept(
        &mut self,
        id: MessageId,
        result: Result<(), StoreError>,
        fx: &mut Effects,
    ) -> bool {
        let (me, owner) = (self.shard, self.at(id).and_then(|job| job.open.as_ref()));
        let Some(owner) = owner.map(|open| self.owner_of(&open.order)) else { return false };
        if owner != me {
            fx.peer_messages.push((owner, OrderMessage::Taken(id, result.is_ok())));
        }
        let Err(error) = result else {
            let open = self.at_mut(id).and_then(|job| job.open.as_mut());
            open.into_iter().for_each(|open| open.is_kept = true);
            return true;
        };
        let answer = match error {
            StoreError::Busy => PushAnswer::Busy,
            _ => PushAnswer::StoreFailed,
        };
        let open = self.remove(id).and_then(|job| job.open);
        let replies = open.into_iter().flat_map(|open| open.replies);
        fx.answers.extend(replies.map(|reply| (reply, answer.clone())));
        false
    }

    /// Sends an order to the shards that have not confirmed it, and answers its commands if all
    /// have.
    pub fn go_on(&mut self, now: Now, id: MessageId, fx: &mut Effects) {
        self.tell_others(now, id, fx);
    }

    /// Answers the commands of an order, once every shard has answered or is late.
    pub fn answer_order(&mut self, id: MessageId, fx: &mut Effects) {
        let Some(job) = self.at_mut(id) else { return };
        // A change is answered only when it is over.
        let may_answer = |open: &&mut Box<Open>| !open.is_being_taken() && job.changes.is_none();
        let Some(open) = job.open.as_mut().filter(may_answer) else { return };
        let counts = job.counts;
        fx.answers.extend(open.replies.drain(..).map(|reply| (reply, pushed(id, counts))));
    }

    /// Records that a push to many ended at a device, or that its copy there is stale: a row says
    /// so before the copy, if any, is removed. With `at_once` the row is written without gathering
    /// more.
    pub fn settle(&mut self, now: Now, id: MessageId, settled: Settled, at_once: bool) {
        let Some(job) = self.at_mut(id) else { return };
        job.settled.push(settled);
        let is_many = job.settled.len() >= SETTLED_MAX || at_once;
        self.look(id, if is_many { now.mono } else { now.after(GATHER) });
    }

    /// Advances an order that is due. True: it is to be closed.
    pub fn look_at(
        &mut self,
        now: Now,
        id: MessageId,
        log: &mut LogCalls,
        fx: &mut Effects,
    ) -> bool {
        self.tell_ends(id, log, fx);
        // A cancel is over when the counts of its push are on stable storage.
        let push = self.at(id).and_then(|job| job.cancels());
        push.into_iter().for_each(|push| self.tell_ends(push, log, fx));
        let is_told = push.and_then(|push| self.at(push)).is_none_or(|job| job.asked == 0);
        let (me, again) = (self.shard, now.after(self.silence));
        let open = self.at(id).and_then(|job| job.open.as_ref());
        let Some(owner) = open.map(|open| self.owner_of(&open.order)) else { return false };
        let Some(job) = self.at_mut(id) else { return false };
        let is_through = job.counts.pending == 0 && !job.counts.running;
        let is_idle = is_told && is_through && job.asked == 0;
        let Some(open) = job.open.as_mut().filter(|open| open.is_kept) else { return false };
        if owner != me {
            // Reports to the owner, again and again until the owner closes the order, as a report
            // may be lost.
            let due = open.over.is_none_or(|due| due <= now.mono);
            if is_idle && due {
                open.over = Some(again);
                let order = open.order.clone();
                let over = OrderMessage::Over(id, self.knows_push_of(&order));
                fx.peer_messages.push((owner, over));
            }
            // An order that is still at work here is looked at again when its next row is stored.
            let over = self.at(id).and_then(|job| job.open.as_ref()).and_then(|open| open.over);
            if let Some(due) = over.filter(|_| is_idle) {
                self.look(id, due);
            }
            return false;
        }
        self.tell_others(now, id, fx);
        let open = self.at(id).and_then(|job| job.open.as_ref());
        let is_done = |other: &Other| matches!(other, Other::Over | Other::GivenUp);
        is_idle && open.is_some_and(|open| open.others.values().all(is_done))
    }

    /// Handles the log's answer to a row of ended devices.
    pub fn ends_told(
        &mut self,
        now: Now,
        id: MessageId,
        (settled, listed): (Vec<Settled>, Option<u64>),
        result: Result<(), StoreError>,
    ) {
        if let Some(weight) = listed {
            let lines = settled.iter().filter_map(|ended| ended.line.as_deref());
            self.lines_told(id, lines, weight, result.is_ok());
        }
        let Some(job) = self.at_mut(id) else { return };
        job.asked -= 1;
        if result.is_ok() {
            self.look_at_cancel_of(id, now.mono);
            return self.look(id, now.mono);
        }
        if let Some(tracked) = job.tracked.as_mut().filter(|_| listed.is_none()) {
            tracked.is_cut_told = false;
        }
        // The copies are being removed already; only the row is written again.
        for ended in settled {
            if let Some(end) = ended.end.filter(|_| listed.is_none()) {
                job.told[end] -= 1;
            }
            job.settled.push(Settled { seq: None, ..ended });
        }
        self.look(id, now.after(PAUSE));
    }

    /// Closes an order that all shards are through with: only its counts remain. False if the order
    /// is not open, or already being closed.
    pub fn close(&mut self, id: MessageId, log: &mut LogCalls, fx: &mut Effects) -> bool {
        self.tell_ends(id, log, fx);
        let shard = self.shard;
        let Some(job) = self.at_mut(id) else { return false };
        let Some(open) = job.open.as_mut().filter(|open| open.is_kept && !open.is_closing) else {
            return false;
        };
        (open.is_closing, open.is_counted) = (true, true);
        let done = |reply| (reply, PushAnswer::Done(true));
        fx.answers.extend(open.replies.drain(..).map(done));
        job.counts.running = false;
        job.asked += 1;
        let progress = job.progress(Vec::new());
        let (key, value) = (order::key(id, Kind::Counts(shard)), order::encode_progress(&progress));
        log.write(PendingCall::Close(id), Write::Put { table: Table::Orders, key, value }, fx);
        true
    }

    /// Handles the log's answer to the row of final counts.
    pub fn counts_kept(
        &mut self,
        now: Now,
        id: MessageId,
        result: Result<(), StoreError>,
        log: &mut LogCalls,
        fx: &mut Effects,
    ) {
        self.look_at_cancel_of(id, now.mono);
        let Some(job) = self.at_mut(id) else { return };
        job.asked -= 1;
        if result.is_err() {
            if let Some(open) = &mut job.open {
                open.is_closing = false;
            }
            return self.look(id, now.after(PAUSE));
        }
        let Some(open) = job.open.take() else { return };
        let done = |reply| (reply, PushAnswer::Done(true));
        fx.answers.extend(open.replies.into_iter().map(done));
        job.counts.running = false;
        let is_idle = job.is_idle();
        self.closed(id);
        if !is_idle {
            self.look(id, now.mono);
        }
        let own = order::key(id, Kind::Order);
        for key in [own].into_iter().chain(open.rows) {
            log.clean_later(CleanupTask::Unorder(key), fx);
        }
        tell_close(id, &open.others, true, fx);
    }

    /// Forgets the change of a push that no shard knows, after all shards are through with it.
    pub fn drop_change(&mut self, id: MessageId, log: &mut LogCalls, fx: &mut Effects) {
        let Some(open) = self.remove(id).and_then(|job| job.open) else { return };
        let done = |reply| (reply, PushAnswer::Done(false));
        fx.answers.extend(open.replies.into_iter().map(done));
        log.clean_later(CleanupTask::Unorder(order::key(id, Kind::Order)), fx);
        tell_close(id, &open.others, false, fx);
    }

    /// Whether the order changes a push that no shard knows, as far as this one has heard. A shard
    /// that was given up may know it.
    pub fn is_in_vain(&self, id: MessageId) -> bool {
        let open = self.at(id).and_then(|job| job.open.as_ref());
        let Some(open) = open.filter(|open| !open.is_closing) else { return false };
        let is_given_up = open.others.values().any(|other| *other == Other::GivenUp);
        let is_known = open.is_known || is_given_up;
        open.order.change().is_some_and(|change| !is_known && !self.knows(change))
    }

    /// Whether this shard knows the push that an order changes.
    fn knows_push_of(&self, order: &StoredOrder) -> bool {
        order.change().is_some_and(|change| self.knows(change))
    }

    /// Forgets orders that are over and too old, or too many.
    pub fn forget(&mut self, now: Now, log: &mut LogCalls, fx: &mut Effects) {
        let before = now.unix_s().saturating_sub(self.age_s_max);
        while let Some(id) = self.take_stale().or_else(|| self.forgettable(before)) {
            self.forget_order(id, log, fx);
        }
        // Every shard has its part of a push: it is forgotten on all, or its counts would be wrong.
        while self.has_too_many_outcomes()
            && let Some(id) = self.oldest_tracked()
        {
            self.forget_order(id, log, fx);
            let others = (0..self.shards).filter(|&shard| shard != self.shard.0);
            let told = others.map(|shard| (ShardId(shard), OrderMessage::Forget(id)));
            fx.peer_messages.extend(told);
        }
        let leaving: Vec<_> = self.leaving.iter().copied().filter(|&id| self.may_go(id)).collect();
        leaving.into_iter().for_each(|id| self.forget_order(id, log, fx));
    }

    /// Forgets a tracked push that another shard has forgotten, as soon as it is over here. Its
    /// counts would lack a part, so it is unknown from now on.
    pub fn told_to_forget(&mut self, id: MessageId) {
        if self.is_tracked(id) {
            self.leaving.insert(id);
        }
    }

    fn forget_order(&mut self, id: MessageId, log: &mut LogCalls, fx: &mut Effects) {
        let Some(job) = self.remove(id) else { return };
        let own = [order::key(id, Kind::Counts(self.shard))];
        for key in own.into_iter().chain(job.foreign) {
            log.clean_later(CleanupTask::Unorder(key), fx);
        }
        if let Some(tracked) = job.tracked {
            let own = (self.shard.0, tracked.next);
            for (shard, next) in tracked.adopted.into_iter().chain([own]) {
                log.clean_later(CleanupTask::Lines(id, ShardId(shard), 0..next), fx);
            }
        }
    }

    /// Notes a report about a tracked push: its line is gathered for a row with others.
    pub fn gather_report(
        &mut self,
        now: Now,
        (id, device): (MessageId, TimelineId),
        waiting: WaitingReport,
        at_once: bool,
    ) {
        self.report_waits(id, device, waiting);
        let tracked = self.at(id).and_then(|job| job.tracked.as_ref());
        let is_many = tracked.is_some_and(|it| it.gathered.len() >= SETTLED_MAX) || at_once;
        self.look(id, if is_many { now.mono } else { now.after(GATHER) });
    }

    /// Handles the log's answer to a row of reports.
    pub fn reports_told(&mut self, now: Now, id: MessageId, weight: u64, is_stored: bool) {
        self.lines_told(id, std::iter::empty(), weight, is_stored);
        if let Some(job) = self.at_mut(id) {
            job.asked -= 1;
            self.look(id, now.mono);
        }
    }

    /// Writes rows of the gathered reports.
    fn tell_reports(&mut self, id: MessageId, log: &mut LogCalls, fx: &mut Effects) {
        while let Some(tracked) = self.at_mut(id).and_then(|job| job.tracked.as_mut())
            && !tracked.gathered.is_empty()
        {
            let count = tracked.gathered.len().min(SETTLED_MAX);
            let reports: Vec<_> = tracked.gathered.drain(..count).collect();
            self.gathered -= count;
            let row = self.row_of_lines(id, reports.iter().filter_map(WaitingReport::line));
            let (Some(row), Some(job)) = (row, self.at_mut(id)) else { return };
            job.asked += 1;
            let weight = OutcomeRow::weight(&row.key, &row.value);
            log.write_outcomes(PendingCall::Reports { id, reports, weight }, row, fx);
        }
    }

    fn keep_order(
        &mut self,
        now: Now,
        order: Arc<StoredOrder>,
        replies: Vec<u64>,
        log: &mut LogCalls,
        fx: &mut Effects,
    ) {
        let (id, value) = (order.id, order::encode(&order));
        let mut open = self.open_order(order.clone(), false);
        open.replies = replies;
        let counts = PushCounts { running: true, ..PushCounts::default() };
        self.insert(id, Job::of(&order, open, counts));
        self.set_list_bytes(id, order.list_bytes());
        self.set_cost(&order);
        self.forget(now, log, fx);
        let write = Write::Put { table: Table::Orders, key: order::key(id, Kind::Order), value };
        log.write(PendingCall::Take(id), write, fx);
    }

    /// Sends the order to other shards that are due, asks silent ones for their progress, and gives
    /// up those that stay silent.
    fn tell_others(&mut self, now: Now, id: MessageId, fx: &mut Effects) {
        let (again, silence) = (now.after(self.answer_max), now.after(self.silence));
        let is_slow = self.is_slow(id);
        let Some(open) = self.at_mut(id).and_then(|job| job.open.as_mut()) else { return };
        let mut later: Option<Instant> = None;
        for (&shard, other) in &mut open.others {
            let until = match *other {
                Other::Refused(until)
                | Other::Told(until)
                | Other::Late(until)
                | Other::Taken(until)
                | Other::Silent(until)
                    if until > now.mono =>
                {
                    until
                }
                Other::GivenUp | Other::Over => continue,
                // A slow order may take long: the shard reports by itself when it is through.
                Other::Taken(_) if is_slow => {
                    *other = Other::Taken(silence);
                    silence
                }
                // The shard answers with its progress.
                Other::Taken(_) => {
                    *other = Other::Silent(silence);
                    fx.counters.count(PushCounter::OrdersOverdue);
                    fx.peer_messages.push((ShardId(shard), OrderMessage::Take(open.order.clone())));
                    silence
                }
                Other::Silent(_) => {
                    *other = Other::GivenUp;
                    fx.counters.count(PushCounter::OrdersGivenUp);
                    continue;
                }
                Other::Untold | Other::Refused(_) => {
                    *other = Other::Told(again);
                    fx.peer_messages.push((ShardId(shard), OrderMessage::Take(open.order.clone())));
                    again
                }
                // The order is stored here and goes on wherever it is stored: its command is
                // answered now.
                Other::Told(_) | Other::Late(_) => {
                    *other = Other::Late(again);
                    fx.counters.count(PushCounter::OrdersOverdue);
                    fx.peer_messages.push((ShardId(shard), OrderMessage::Take(open.order.clone())));
                    again
                }
            };
            later = Some(later.map_or(until, |later| later.min(until)));
        }
        if let Some(later) = later {
            self.look(id, later);
        }
        self.answer_order(id, fx);
    }

    /// Writes rows of the gathered ended devices, then removes their copies from the log. A row of
    /// lines of a tracked push takes the place of a row of devices.
    fn tell_ends(&mut self, id: MessageId, log: &mut LogCalls, fx: &mut Effects) {
        let shard = self.shard;
        self.tell_reports(id, log, fx);
        while let Some(job) = self.at_mut(id).filter(|job| job.has_untold()) {
            let count = job.settled.len().min(SETTLED_MAX);
            let mut settled: Vec<Settled> = job.settled.drain(..count).collect();
            // Devices without a line have a row of their own.
            if settled.iter().any(|ended| ended.line.is_some()) {
                let others = settled.extract_if(.., |ended| ended.line.is_none());
                job.settled.extend(others);
            }
            let has_lines = settled.iter().any(|ended| ended.line.is_some());
            let lines = settled.iter().filter_map(|ended| ended.line.as_deref());
            let row = match has_lines && self.has_room_for_lines(id) {
                true => self.row_of_lines(id, lines),
                false => None,
            };
            let removed: Vec<_> =
                settled.iter().filter_map(|ended| Some((ended.timeline, ended.seq?))).collect();
            let Some(job) = self.at_mut(id) else { return };
            if let Some(row) = row {
                job.asked += 1;
                let listed = Some(OutcomeRow::weight(&row.key, &row.value));
                log.write_outcomes(PendingCall::Told { id, settled, listed }, row, fx);
                removed.into_iter().for_each(|(of, seq)| log.remove(of, vec![seq], fx));
                continue;
            }
            // A device that stored the push is not through with it.
            let settled: Vec<Settled> = settled
                .into_iter()
                .filter(|ended| ended.end.is_some() || ended.line.is_none())
                .collect();
            let cut = job.tracked.as_mut().filter(|tracked| tracked.is_cut);
            let is_cut = cut.as_ref().map(|_| true);
            let has_cut_to_tell =
                cut.is_some_and(|it| !std::mem::replace(&mut it.is_cut_told, true));
            if settled.is_empty() && !has_cut_to_tell {
                continue;
            }
            let mut ends = Ends::default();
            settled.iter().filter_map(|ended| ended.end).for_each(|end| ends[end] += 1);
            job.told.iter_mut().zip(ends).for_each(|(told, more)| *told += more);
            job.asked += 1;
            let through = settled.iter().map(|ended| ended.timeline).collect();
            let (kind, progress) = match &mut job.open {
                Some(open) if !open.is_counted => {
                    let (at_s, tracked) = (job.at_s, is_cut);
                    let of_devices =
                        Progress { at_s, ends, through, tracked, ..Default::default() };
                    (open.next_row(id, shard), of_devices)
                }
                Some(_) | None => (Kind::Counts(shard), job.progress(through)),
            };
            let value = order::encode_progress(&progress);
            let write = Write::Put { table: Table::Orders, key: order::key(id, kind), value };
            log.write(PendingCall::Told { id, settled, listed: None }, write, fx);
            for (timeline, seq) in removed {
                log.remove(timeline, vec![seq], fx);
            }
        }
    }
}

/// Lets a command wait for the answer of an open order.
fn wait_for(open: &mut Open, reply: u64, fx: &mut Effects) {
    match open.replies.len() < REPLIES_MAX {
        true => open.replies.push(reply),
        false => fx.answers.push((reply, PushAnswer::Busy)),
    }
}

/// Sends Close to the shards that have finished an order; a shard still at work gets it when it
/// reports that it has finished.
fn tell_close(id: MessageId, others: &BTreeMap<u16, Other>, keeps: bool, fx: &mut Effects) {
    let through = others.iter().filter(|(_, other)| **other == Other::Over);
    let close = |(&shard, _): (&u16, &Other)| (ShardId(shard), OrderMessage::Close(id, keeps));
    fx.peer_messages.extend(through.map(close));
}

fn pushed(id: MessageId, counts: PushCounts) -> PushAnswer {
    PushAnswer::Pushed { id, outcomes: Vec::new(), counts }
}
