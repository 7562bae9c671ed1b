//! Durable state of the hub: its calls to the log and their purposes.
//!
//! The hub hands over calls and goes on. Every call bears a ticket, every ticket holds a pending
//! call ([`pending`]): what to do when the call completes. The log completes every ticket once, in
//! any order. Appends of the same push for several devices share one call as long as only removals
//! come between; removals from one timeline are merged too. Refused cleanups, for which no answer
//! waits, are retried ([`cleanup`]). [`epochs`] are numbers that rise across restarts, and
//! [`durable`] encodes and decodes all of this.

pub(crate) mod cleanup;
pub(crate) mod durable;
pub(crate) mod epochs;
pub(crate) mod pending;

use self::cleanup::CleanupTask;
use self::durable::push;
use self::pending::PendingCall;
use crate::Effects;
use base::slab::Key;
use base::time::Now;
use model::counters::ProcessCounter;
use model::id::MessageId;
use model::ports::calls::{RetryQueue, Tickets};
use model::ports::log::{
    APPEND_SLICE, Append, Call, Done, REMOVE_SEQS_MAX, StoreError, Ticket, Write,
};
use model::push::{Push, Rejection};
use model::timeline::{Message, Seq, TimelineId};
use std::collections::VecDeque;
use std::sync::Arc;

/// Most pushes whose messages are cached, so that slices of a fan-out share one.
const MESSAGES_MAX: usize = 8;

/// Open calls to the log, by kind, as far as their number is limited.
#[derive(Default)]
struct Load {
    waits: usize,
    pulls: usize,
    rows: usize,
    reports: usize,
}

impl Load {
    /// The count to which a pending call belongs, and how much it adds to that count.
    fn of(&mut self, pending: &PendingCall) -> (&mut usize, usize) {
        match pending {
            PendingCall::Keep(_, keys) => (&mut self.waits, keys.len()),
            PendingCall::Claim(claim) => (&mut self.waits, claim.size()),
            PendingCall::Pull(..) | PendingCall::Reach(..) | PendingCall::Page(_) => {
                (&mut self.pulls, 1)
            }
            PendingCall::Row(_) | PendingCall::Kicked { .. } => (&mut self.rows, 1),
            PendingCall::Report(_) => (&mut self.reports, 1),
            PendingCall::Reports { reports, .. } => (&mut self.reports, reports.len()),
            PendingCall::Remove(..)
            | PendingCall::Cleanup(_)
            | PendingCall::Order(_)
            | PendingCall::Mark(_)
            | PendingCall::Take(_)
            | PendingCall::Told { .. }
            | PendingCall::Close(_) => (&mut self.rows, 0),
        }
    }
}

/// Calls of one shard's hub to its log.
#[derive(Default)]
pub(crate) struct LogCalls {
    tickets: Tickets<PendingCall>,
    load: Load,
    /// The messages made last, with their pushes.
    messages: VecDeque<(Arc<Push>, Arc<Message>)>,
    /// The last append that further devices may join: its ticket and its index in `fx.calls`.
    last_append: Option<(Ticket, usize)>,
    cleanups: RetryQueue<CleanupTask>,
}

impl LogCalls {
    /// Most pushes of a shard that wait for the log. One more is rejected as Busy.
    pub const WAITS_MAX: usize = 65_536;

    /// Pushes waiting for the log above which fan-outs pause.
    pub const WAITS_EASY: usize = 4_096;

    /// Most devices of a shard that fetch bodies at once. The others retry after a pause.
    pub const PULLS_MAX: usize = 4_096;

    /// Most rows at the log for which no answer waits. Further rows stay dirty and are written
    /// later.
    pub const ROWS_MAX: usize = 4_096;

    /// Most Reports of a shard that wait for the log. One more is refused as Busy.
    pub const REPORTS_MAX: usize = 16_384;

    /// Whether this many more pushes may be handed to the log.
    pub fn has_room(&self, pushes: usize) -> bool {
        self.load.waits + pushes <= LogCalls::WAITS_MAX
    }

    /// Whether few enough pushes wait for the log that a fan-out may go on.
    pub fn is_easy(&self) -> bool {
        self.load.waits < LogCalls::WAITS_EASY
    }

    /// Whether another device may fetch bodies.
    pub fn has_room_to_pull(&self) -> bool {
        self.load.pulls < LogCalls::PULLS_MAX
    }

    /// Whether another row may be written.
    pub fn has_room_for_row(&self) -> bool {
        self.load.rows < LogCalls::ROWS_MAX
    }

    /// Whether another Report may wait for the log, beside those that are gathered for it.
    pub fn has_room_for_report(&self, gathered: usize) -> bool {
        self.load.reports + gathered < LogCalls::REPORTS_MAX
    }

    /// Whether the log refuses all writes until a restart.
    pub fn has_failed(&self) -> bool {
        self.tickets.has_failed()
    }

    /// Number of open calls and of queued cleanups.
    pub fn unsettled(&self) -> usize {
        self.tickets.len() + self.cleanups.len()
    }

    /// Purposes of all open calls, for an audit.
    pub fn pending(&self) -> impl Iterator<Item = &PendingCall> {
        self.tickets.iter()
    }

    /// Hands the log a call.
    pub fn ask(&mut self, pending: PendingCall, call: Call, fx: &mut Effects) {
        if !matches!(pending, PendingCall::Remove(..)) {
            self.last_append = None;
        }
        let (count, size) = self.load.of(&pending);
        *count += size;
        self.tickets.ask(pending, call, fx);
    }

    /// Hands the log a write.
    pub fn write(&mut self, pending: PendingCall, write: Write, fx: &mut Effects) {
        self.ask(pending, Call::Write(write), fx);
    }

    /// Completes a call and returns its purpose.
    pub fn completed(
        &mut self,
        ticket: Ticket,
        result: &Result<Done, StoreError>,
        fx: &mut Effects,
    ) -> Option<PendingCall> {
        let pending = self.tickets.completed(ticket, result)?;
        let (count, size) = self.load.of(&pending);
        *count -= size;
        let is_pull = matches!(
            pending,
            PendingCall::Pull(..) | PendingCall::Reach(..) | PendingCall::Page(_)
        );
        if result.is_err() && *result != Err(StoreError::Conflict) && !is_pull {
            fx.counters.count(ProcessCounter::StoreFailures);
        }
        Some(pending)
    }

    /// Asks the log to store a push in a device's timeline, in one call with the appends before it
    /// if possible.
    pub fn append(
        &mut self,
        now: Now,
        push: &Arc<Push>,
        key: Key,
        timeline: TimelineId,
        fx: &mut Effects,
    ) {
        let message = self.message(now, push);
        if let Some((ticket, at)) = self.last_append
            && let Some((last, Call::Write(Write::Append(append)))) = fx.calls.get_mut(at)
            && *last == ticket
            && Arc::ptr_eq(&append.message, &message)
            && append.to.len() < APPEND_SLICE
        {
            append.to.push(timeline);
            if let Some(PendingCall::Keep(_, keys)) = self.tickets.at_mut(ticket) {
                keys.push(key);
                self.load.waits += 1;
            }
            return;
        }
        let pending = PendingCall::Keep(MessageId(message.id), vec![key]);
        let append = Append { message, to: vec![timeline], once: None, heard: None, ends: false };
        self.write(pending, Write::Append(append), fx);
        self.last_append = fx.calls.last().map(|(ticket, _)| (*ticket, fx.calls.len() - 1));
    }

    /// Asks the log to remove ended messages from a timeline.
    pub fn remove(&mut self, timeline: TimelineId, mut seqs: Vec<Seq>, fx: &mut Effects) {
        if let Some((ticket, Call::Write(Write::Remove { timeline: last, seqs: before }))) =
            fx.calls.last_mut()
            && *last == timeline
            && before.len() + seqs.len() <= REMOVE_SEQS_MAX
        {
            if let Some(PendingCall::Remove(_, pending)) = self.tickets.at_mut(*ticket) {
                pending.extend(&seqs);
            }
            before.append(&mut seqs);
            return;
        }
        let pending = PendingCall::Remove(timeline, seqs.clone());
        self.write(pending, Write::Remove { timeline, seqs }, fx);
    }

    /// The message of a push: a cached one if it was made recently.
    fn message(&mut self, now: Now, push: &Arc<Push>) -> Arc<Message> {
        let known = self.messages.iter().find(|(known, _)| Arc::ptr_eq(known, push));
        if let Some((_, message)) = known {
            return message.clone();
        }
        let message = Arc::new(push::message(push, now.unix_s(), None));
        if self.messages.len() == MESSAGES_MAX {
            self.messages.pop_front();
        }
        self.messages.push_back((push.clone(), message.clone()));
        message
    }
}

/// The rejection of a push that corresponds to an error of the log.
pub(crate) fn rejection(error: StoreError) -> Rejection {
    match error {
        StoreError::Busy => Rejection::Busy,
        StoreError::TooLarge => Rejection::TooLarge,
        StoreError::Full => Rejection::StoreFull,
        StoreError::Failed | StoreError::Conflict | StoreError::Stale | StoreError::Damaged => {
            Rejection::StoreFailed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Hub;
    use crate::orders::scans::{Errand, Selection};
    use crate::push::Sending;
    use base::hash::HashKey;
    use base::secret::ClusterSecret;
    use model::id::{ProductKey, ShardId};
    use model::limits::Limits;
    use model::product::Product;
    use model::push::Priority;

    #[test]
    fn there_is_room_up_to_each_limit_and_no_further() {
        let (waits, pulls) = (LogCalls::WAITS_MAX - 1, LogCalls::PULLS_MAX - 1);
        let (rows, reports) = (LogCalls::ROWS_MAX - 1, LogCalls::REPORTS_MAX - 1);
        let load = Load { waits, pulls, rows, reports };
        let mut log = LogCalls { load, ..LogCalls::default() };
        assert!(log.has_room(1) && !log.has_room(2));
        assert!(log.has_room_to_pull() && log.has_room_for_row());
        assert!(log.has_room_for_report(0) && !log.has_room_for_report(1));
        log.load = Load { pulls: pulls + 1, rows: rows + 1, reports: reports + 1, waits };
        assert!(!log.has_room_to_pull() && !log.has_room_for_row() && !log.has_room_for_report(0));
        log.load.waits = LogCalls::WAITS_EASY - 1;
        assert!(log.is_easy());
        log.load.waits += 1;
        assert!(!log.is_easy());
    }

    #[test]
    fn a_fan_out_stays_at_a_device_while_there_is_no_room_for_an_earlier_one() {
        let mut hub = Hub::new(crate::Settings {
            shard: ShardId(0),
            shards: 1,
            limits: Arc::new(Limits::default()),
            devices_max: 10,
            offline_bytes_max: 1 << 20,
            binds_per_s: 1_000,
            secret: ClusterSecret::new([6; 32]),
            node_secret: [7; 32],
            hash_key: HashKey::new(11, 12),
            home: HashKey::new(21, 22),
            report_hooks: Vec::new(),
            platforms: [].into(),
            seed: 13,
        });
        let (mut fx, now) = (Effects::default(), Now::default());
        let name = ProductKey::parse("p").expect("a name");
        hub.install(Arc::new(Product::new(name.clone(), 7)));
        let number = hub.registry.products.number(&name).expect("it is installed");
        let key = hub.find_or_make(now, number, "d").expect("there is room");
        let begin = |hub: &mut Hub, id| {
            let push = Push { id: MessageId(id), product: name.clone(), ..push() };
            let sending = Sending {
                push: Arc::new(push),
                user: None,
                receipts: false,
                counted: false,
                registers: false,
            };
            hub.scans.begin(Errand::Push(sending), Some(number), Selection::All, &hub.registry);
        };
        // The scan of the later order visits the device first.
        begin(&mut hub, 2);
        begin(&mut hub, 1);
        let waits = std::mem::replace(&mut hub.log.load.waits, LogCalls::WAITS_MAX);
        let scan = hub.scans.take().expect("it has begun");
        assert!(!hub.visit(now, key, &scan.errand, &mut fx));
        assert!(fx.calls.is_empty() && fx.deliveries.is_empty());
        hub.scans.put_back(scan);
        hub.log.load.waits = waits;
        hub.turn_scans(now, &mut fx);
        let ids = hub.registry.at(key).and_then(|device| device.queue());
        let ids: Vec<_> = ids.expect("they wait").items().map(|item| item.id.0).collect();
        assert_eq!(ids, [1, 2]);
    }

    fn push() -> Push {
        Push {
            id: MessageId(7),
            product: ProductKey::parse("p").expect("a name"),
            app_id: 0,
            body: [1].into(),
            collapse: None,
            expire_at: u32::MAX,
            priority: Priority::Normal,
            silent: false,
            notifies: false,
        }
    }

    #[test]
    fn appends_of_one_push_go_together_and_removals_of_one_timeline_do() {
        let (mut log, mut fx, now) = (LogCalls::default(), Effects::default(), Now::default());
        let push = Arc::new(push());
        let timeline = |name| durable::timeline_of(HashKey::new(1, 2), "p", name);
        let key = |slot| Key { slot, generation: 0 };
        log.append(now, &push, key(0), timeline("a"), &mut fx);
        log.remove(timeline("x"), vec![3], &mut fx);
        log.append(now, &push, key(1), timeline("b"), &mut fx);
        log.remove(timeline("x"), vec![4], &mut fx);
        let count = |log: &LogCalls, fx: &Effects| (log.load.waits, fx.calls.len());
        assert_eq!(count(&log, &fx), (2, 2));
        log.write(PendingCall::Mark(1), Write::Forget(timeline("y")), &mut fx);
        log.append(now, &push, key(2), timeline("c"), &mut fx);
        assert_eq!(count(&log, &fx), (3, 4), "something came between");
        let kept = log.completed(0, &Err(StoreError::Failed), &mut fx);
        assert!(matches!(kept, Some(PendingCall::Keep(MessageId(7), keys)) if keys.len() == 2));
        let gone = log.completed(1, &Err(StoreError::Busy), &mut fx);
        assert!(matches!(gone, Some(PendingCall::Remove(_, seqs)) if seqs == [3, 4]));
        assert!(log.has_failed() && log.unsettled() == 2 && log.load.waits == 1);
        assert_eq!(fx.counters.of(ProcessCounter::StoreFailures), 2);
    }
}
