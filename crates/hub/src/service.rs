//! The hub as a service of its shard.

use crate::delivery::Acknowledged;
use crate::log::cleanup::{CleanupTask, Known};
use crate::log::pending::PendingCall;
use crate::orders::OrderMessage;
use crate::reports::{Report, Reports};
use crate::{Effects, Hub};
use base::time::{Instant, Now, earliest};
use model::close::CloseReason;
use model::id::{ConnRef, ShardId};
use model::limits::Limits;
use model::ports::backlog::ReportHook;
use model::ports::control::Status;
use model::ports::events::DeviceEvent;
use model::ports::log::{Completion, Restored};
use model::ports::presence::queries::PresenceStatus;
use model::ports::pushes::{PushAnswer, PushCommand};
use model::ports::requests::PortReply;
use model::ports::trace::{TraceIdentity, TraceSubject};
use model::presence::{PresenceVersion, Principal};
use model::pressure::Pressure;
use model::product::Product;
use model::request::{PushDelivery, PushRequest};
use model::service::{Service, ServiceKind, Weigh};
use model::timeline::{Space, TimelineId};
use std::sync::Arc;

impl Weigh for OrderMessage {
    fn weight(&self) -> usize {
        let order = match self {
            OrderMessage::Take(order) => order.weight(),
            OrderMessage::Taken(..)
            | OrderMessage::Over(..)
            | OrderMessage::Close(..)
            | OrderMessage::Forget(_) => 0,
        };
        size_of::<OrderMessage>() + order
    }
}

impl Service for Hub {
    const KIND: ServiceKind = ServiceKind::Push;

    type Request = PushRequest;
    type Delivery = PushDelivery;
    type Event = DeviceEvent;
    type Command = PushCommand;
    type Answer = PushAnswer;
    type PeerMessage = OrderMessage;

    fn restore(&mut self, now: Now, restored: Restored<'_>) -> bool {
        self.restore(now, restored)
    }

    fn wants_entries(&self, timeline: TimelineId) -> bool {
        // The webhooks' couriers read their own timelines themselves.
        timeline.space() == Space::Pushes
    }

    fn restored(&mut self, now: Now, fx: &mut Effects) {
        self.restored(now, fx);
    }

    fn request(&mut self, now: Now, from: ConnRef, request: PushRequest, fx: &mut Effects) {
        let device = match request {
            PushRequest::Bind(bind) => return self.bind(now, from, *bind, fx),
            PushRequest::Unbind { term, device } => {
                return self.unbind(now, from, term, device, fx);
            }
            PushRequest::Ack { device, .. }
            | PushRequest::Unsendable { device, .. }
            | PushRequest::Pull { device, .. }
            | PushRequest::Report { device, .. }
            | PushRequest::Written { device }
            | PushRequest::Closed { device, .. } => device,
        };
        let Some(key) = self.bound(from, device) else { return };
        match request {
            PushRequest::Bind(_) | PushRequest::Unbind { .. } => {}
            PushRequest::Ack { device: _, upto, ids } => {
                self.acknowledge(now, key, Acknowledged { upto, ids }, fx);
            }
            PushRequest::Unsendable { device: _, id, why } => {
                self.unsendable(now, key, id, why, fx);
            }
            PushRequest::Pull { term: _, device: _, after, count } => {
                self.pull(now, key, after, count, fx);
            }
            PushRequest::Report { term: _, device: _, seq, body } => {
                self.report(now, Report { key, seq, body }, fx);
            }
            PushRequest::Written { device: _ } => self.written(now, key, fx),
            PushRequest::Closed { device: _, reason } => self.detach(now, key, reason, fx),
        }
    }

    fn undelivered(&mut self, _: Now, to: ConnRef, delivery: PushDelivery, fx: &mut Effects) {
        // This Bind was answered by another shard, and only this message tells the device's owner
        // that its connection has ended.
        if let PushDelivery::Bound(bound) = delivery {
            let (device, reason) = (bound.device, CloseReason::PeerClosed);
            fx.requests.push((to, PushRequest::Closed { device, reason }));
        }
    }

    fn command(&mut self, now: Now, ask: u64, command: PushCommand, fx: &mut Effects) {
        self.command(now, ask, command, fx);
    }

    fn complete(&mut self, now: Now, (ticket, result): Completion, fx: &mut Effects) {
        let Some(pending) = self.log.completed(ticket, &result, fx) else { return };
        let is_stored = result.is_ok();
        match pending {
            PendingCall::Keep(id, keys) => self.kept(now, id, keys, result, fx),
            PendingCall::Claim(claim) => self.claimed(now, *claim, result, fx),
            PendingCall::Remove(timeline, seqs) => {
                self.log.retry(now, CleanupTask::Remove(timeline, seqs), result, fx);
            }
            PendingCall::Cleanup(task) => self.log.retry(now, *task, result, fx),
            PendingCall::Row(key) => self.registry.row_answered(key, is_stored),
            // The session was ended, whether the log stored the row or not.
            PendingCall::Kicked { reply, key, was_online } => {
                self.registry.row_answered(key, is_stored);
                fx.answers.push((reply, PushAnswer::Done(was_online)));
            }
            PendingCall::Pull(key, fetch) => self.pulled(now, key, fetch, result, fx),
            PendingCall::Reach(key, seq, platform) => {
                self.read_for_platform(now, (key, seq, platform), result, fx);
            }
            PendingCall::Order(order) => self.ordered(now, *order, is_stored, fx),
            PendingCall::Report(waiting) => {
                self.report_kept(now, *waiting, is_stored, fx);
            }
            PendingCall::Reports { id, reports, weight } => {
                self.jobs.reports_told(now, id, weight, is_stored);
                reports.into_iter().for_each(|it| self.report_kept(now, it, is_stored, fx));
            }
            PendingCall::Mark(bound) => self.epochs.marked(bound, result.map(|_| ())),
            PendingCall::Take(id) => {
                if self.jobs.kept(id, result.map(|_| ()), fx) {
                    self.scan_order(now, id, fx);
                    self.jobs.go_on(now, id, fx);
                }
            }
            PendingCall::Told { id, settled, listed } => {
                self.jobs.ends_told(now, id, (settled, listed), result.map(|_| ()));
            }
            PendingCall::Page(question) => self.page_read(*question, result, fx),
            PendingCall::Close(id) => {
                self.jobs.counts_kept(now, id, result.map(|_| ()), &mut self.log, fx);
            }
        }
    }

    fn port_reply(&mut self, now: Now, number: u64, reply: PortReply, fx: &mut Effects) {
        if let PortReply::Notify(what) = reply {
            self.reached(now, number, what, fx);
        }
    }

    fn peer_message(&mut self, now: Now, from: ShardId, message: OrderMessage, fx: &mut Effects) {
        self.peer_message(now, from, message, fx);
    }

    /// Advances fan-outs, resends, due answers, cleanups and the sweep. Also to be called after a
    /// batch of completions.
    fn turn(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.epochs.raise(now, &mut self.log, fx);
        let waits = self.turn_waits(now, fx);
        let resends = self.turn_resends(now, fx);
        let platforms = self.turn_platforms(now, fx);
        let scans = self.turn_scans(now, fx);
        let orders = self.turn_orders(now, fx);
        let schedules = self.turn_schedules(now, fx);
        let Hub { registry, segments, schedules: of_schedules, .. } = self;
        let known = Known { registry, segments, schedules: of_schedules };
        let cleanups = self.log.turn_cleanups(now, known, fx);
        let sweep = self.turn_sweep(now, fx);
        earliest([waits, resends, platforms, scans, orders, schedules, cleanups, sweep])
    }

    fn unsettled(&self) -> usize {
        self.unsettled()
    }

    fn press(&mut self, pressure: Pressure) {
        self.queues.press(pressure);
    }

    /// During a drain every turn writes rows until none is [unwritten](Hub::unwritten).
    fn set_draining(&mut self, now: Now, draining: bool) {
        if std::mem::replace(&mut self.draining, draining) && !draining {
            self.restored_platforms(now);
        }
    }

    fn configure(&mut self, limits: &Arc<Limits>) {
        self.set_limits(limits);
    }

    fn install(&mut self, products: &[Arc<Product>]) {
        for product in products {
            self.install(product.clone());
        }
    }

    fn set_report_hooks(&mut self, hooks: &[ReportHook]) {
        self.reports = Reports::new(hooks.to_vec());
    }

    fn status(&self, status: &mut Status) {
        status.add(&self.status());
    }

    fn find(&self, now: Now, who: &Principal) -> Option<PresenceStatus> {
        let Principal::Device(product, device) = who else { return None };
        self.registry.presence_of(now, product, device)
    }

    fn identity(&self, conn: ConnRef, subject: TraceSubject) -> Option<TraceIdentity<'_>> {
        let TraceSubject::Device(device) = subject else { return None };
        let device = self.registry.at(self.bound(conn, device)?)?;
        let client = self.registry.id(device);
        Some(TraceIdentity { client, within_user: false, user: None, peer: None })
    }

    fn owner(&self, timeline: TimelineId, _label: &[u8]) -> Option<String> {
        self.registry.owner(timeline)
    }

    fn observe(&mut self, version: PresenceVersion) {
        self.epochs.observe(version);
    }

    fn outvoted(&mut self, now: Now, who: &Principal, fx: &mut Effects) {
        if let Principal::Device(product, device) = who {
            self.outvoted(now, product, device, fx);
        }
    }

    fn audit(&self) {
        self.audit();
    }
}
