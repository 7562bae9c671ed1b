//! Reports: messages that devices send upstream, within a quota.
//!
//! The quota is one number per device: the time at which its burst allowance is full again (GCRA).
//! It is part of the device's extra state, so a device that reports nothing pays nothing, and the
//! sweep frees it when it is full. A Report for webhooks is accepted once it is on stable storage,
//! in the timeline of each such webhook. Any other is accepted once it is handed to the event feed;
//! without listeners it is accepted and counted. A report about a tracked push (opened, dismissed)
//! is accepted once its line is on stable storage; it also comes over the API.

use crate::log::LogCalls;
use crate::log::durable::encode_event;
use crate::log::pending::PendingCall;
use crate::registry::Registry;
use crate::{Effects, Hub};
use base::slab::Key;
use base::time::Now;
use model::counters::PushCounter;
use model::id::{ConnRef, DeviceId, MessageId, ProductKey};
use model::ports::backlog::ReportHook;
use model::ports::events::{DeviceEvent, DeviceWhat};
use model::ports::log::{Append, Write};
use model::ports::pushes::{DeviceStep, PushAnswer};
use model::product::Product;
use model::push::{PushReport, PushStep};
use model::request::{PushDelivery, Refusal};
use model::timeline::{Message, TimelineId};
use std::sync::Arc;

/// Burst allowance of a device, as microseconds at its configured rate.
const BURST_US: u64 = 10_000_000;

/// Most Reports of one device that wait for the log. One more is refused as Busy.
const REPORTS_WAITING_MAX: u16 = 1_024;

/// A Report of a device that is online.
pub(crate) struct Report {
    /// The device.
    pub key: Key,
    /// Sequence number, chosen by the device.
    pub seq: u32,
    /// Content of the Report.
    pub body: Box<[u8]>,
}

/// Receiver of the answer to a Report.
#[derive(Clone, Copy)]
enum Answer {
    /// The device, on a connection.
    Device { conn: ConnRef, term: u16, seq: u32 },
    /// A command of the API.
    Command(u64),
}

/// A Report that waits for the log.
pub(crate) struct WaitingReport {
    key: Key,
    to: Answer,
    event: DeviceEvent,
    /// The line about a tracked push.
    line: Option<DeviceStep>,
}

impl WaitingReport {
    /// The device that sent the Report.
    pub fn key(&self) -> Key {
        self.key
    }

    /// The line about a tracked push.
    pub fn line(&self) -> Option<&DeviceStep> {
        self.line.as_ref()
    }

    /// The action that the Report tells, if it is about a push.
    pub fn report(&self) -> Option<PushReport> {
        match self.event.what {
            DeviceWhat::Reported { report, .. } => Some(report),
            _ => None,
        }
    }
}

/// The webhooks that receive Reports.
pub(crate) struct Reports {
    hooks: Vec<ReportHook>,
}

impl Reports {
    /// Reports for these webhooks.
    pub fn new(hooks: Vec<ReportHook>) -> Reports {
        Reports { hooks }
    }

    /// Accepts a Report from a device, refuses it, or asks the log to store it.
    pub fn report(
        &self,
        now: Now,
        report: Report,
        registry: &mut Registry,
        (log, gathered): (&mut LogCalls, usize),
        fx: &mut Effects,
    ) {
        let (key, seq) = (report.key, report.seq);
        let Some(device) = registry.at(key) else { return };
        let Some(conn) = device.conn() else { return };
        let term = device.term();
        let to = self.hooks_of(&registry.products.of(device.product).key);
        let waiting = device.extra.as_ref().map_or(0, |extra| extra.reports);
        let has_room = waiting < REPORTS_WAITING_MAX && log.has_room_for_report(gathered);
        let refusal = match to.is_empty() || has_room {
            true => take_quota(now, key, registry),
            false => Err(Refusal::Busy),
        };
        let what = DeviceWhat::Report { seq, body: report.body };
        let delivery = match refusal {
            Ok(()) if !to.is_empty() => {
                let Some(event) = registry.event(now, key, what) else { return };
                if let Some(device) = registry.at_mut(key) {
                    device.extra().reports += 1;
                }
                let body = encode_event(&event).expect("a Report can be encoded");
                let (id, at_s, label) = (seq.into(), now.unix_s(), Box::default());
                let message = Arc::new(Message { id, at_s, label, body });
                let device = Answer::Device { conn, term, seq };
                let waiting = WaitingReport { key, to: device, event, line: None };
                let append = Append { message, to, once: None, heard: None, ends: false };
                return log.write(PendingCall::Report(waiting.into()), Write::Append(append), fx);
            }
            Ok(()) => {
                fx.counters.count(PushCounter::Reports);
                registry.tell(now, key, || what, fx);
                PushDelivery::ReportTaken { term, seq }
            }
            Err(why) => {
                fx.counters.count(PushCounter::ReportsRefused);
                PushDelivery::ReportRefused { term, seq, why }
            }
        };
        fx.deliveries.push((conn, delivery));
    }

    /// Completes a Report after the log's answer. A stored one is published on the event feed even
    /// if its connection has ended, and once.
    pub fn kept(
        &self,
        waiting: WaitingReport,
        (is_stored, is_new): (bool, bool),
        registry: &mut Registry,
        fx: &mut Effects,
    ) {
        let WaitingReport { key, to, event, line: _ } = waiting;
        let epoch = event.epoch;
        let counter = if is_stored { PushCounter::Reports } else { PushCounter::ReportsRefused };
        fx.counters.count(counter);
        if is_stored && is_new {
            fx.tell(event);
        }
        if let Some(device) = registry.at_mut(key) {
            device.extra().reports -= 1;
        }
        match to {
            Answer::Command(reply) if !is_stored => {
                return fx.answers.push((reply, PushAnswer::StoreFailed));
            }
            Answer::Command(_) => {}
            Answer::Device { conn, term, .. } => {
                let Some(device) = registry.at(key) else { return };
                let is_here = device.conn() == Some(conn) && device.term() == term;
                if !is_here || device.epoch != epoch {
                    return;
                }
            }
        }
        answer(to, if is_stored { Ok(()) } else { Err(Refusal::Busy) }, fx);
    }

    /// Timelines of the webhooks that receive Reports of this product.
    fn hooks_of(&self, product: &ProductKey) -> Vec<TimelineId> {
        let hooks = self.hooks.iter();
        let hooks = hooks.filter(|hook| hook.product.as_ref().is_none_or(|it| it == product));
        hooks.map(|hook| hook.timeline).collect()
    }
}

/// Reports about pushes.
impl Hub {
    /// Handles a Report of a device that is online.
    pub(crate) fn report(&mut self, now: Now, report: Report, fx: &mut Effects) {
        let Some((what, push)) = PushReport::of_body(&report.body) else {
            let log = (&mut self.log, self.jobs.gathered());
            return self.reports.report(now, report, &mut self.registry, log, fx);
        };
        let Report { key, seq, .. } = report;
        let Some(device) = self.registry.at(key) else { return };
        let Some(conn) = device.conn() else { return };
        let to = Answer::Device { conn, term: device.term(), seq };
        self.report_on(now, key, (push, what), to, fx);
    }

    /// Executes a command of the API: a report of a device, by its bearer token.
    pub(crate) fn report_push(
        &mut self,
        now: Now,
        reply: u64,
        (product, device, token): (&ProductKey, &DeviceId, &str),
        of: (MessageId, PushReport),
        fx: &mut Effects,
    ) {
        let answer = match self.registry.products.number(product) {
            None => PushAnswer::TokenRefused,
            Some(number) => {
                let accepts = self.registry.products.of(number).proofs.token;
                let is_good = self.access.bearer_is_good(now, product, device, token.as_bytes());
                match self.registry.find(number, device.as_str()) {
                    _ if !(accepts && is_good) => PushAnswer::TokenRefused,
                    None => PushAnswer::Done(false),
                    Some(key) if self.registry.at(key).is_some_and(|it| it.blocked()) => {
                        PushAnswer::TokenRefused
                    }
                    Some(_) if step_us(self.registry.products.of(number)).is_none() => {
                        PushAnswer::NoReports
                    }
                    Some(key) => {
                        return self.report_on(now, key, of, Answer::Command(reply), fx);
                    }
                }
            }
        };
        fx.answers.push((reply, answer));
    }

    /// Takes a report about a push: for a tracked one, once its line is stored. A line that finds
    /// no room is missing, and the report counts nothing.
    fn report_on(
        &mut self,
        now: Now,
        key: Key,
        (push, report): (MessageId, PushReport),
        to: Answer,
        fx: &mut Effects,
    ) {
        let names = self.registry.names(key).zip(self.registry.timeline(key));
        let Some(((product, device), timeline)) = names else { return };
        let of = self.jobs.at(push).filter(|job| job.product.as_ref() == Some(&product));
        let is_sent = of.is_none_or(|job| job.open.as_ref().is_none_or(|open| open.is_kept));
        let is_sent = is_sent && !self.jobs.is_scheduled(push);
        let tracked = of.and_then(|job| job.tracked.as_ref());
        let is_known = tracked.is_some_and(|tracked| tracked.has_reported(timeline, report));
        let is_waiting = tracked.is_some_and(|tracked| tracked.is_waiting(timeline, report));
        let is_tracked = tracked.is_some();
        let waiting = self.registry.at(key).and_then(|device| device.extra.as_ref());
        let waiting = waiting.map_or(0, |extra| extra.reports);
        let has_room = waiting < REPORTS_WAITING_MAX
            && self.log.has_room_for_report(self.jobs.gathered())
            && !is_waiting;
        let refusal = match has_room || !is_tracked {
            true => take_quota(now, key, &mut self.registry),
            false => Err(Refusal::Busy),
        };
        if let Err(why) = refusal {
            fx.counters.count(PushCounter::ReportsRefused);
            return answer(to, Err(why), fx);
        }
        // A push that is still to be sent cannot have been opened.
        if is_known || !is_sent {
            return answer(to, Ok(()), fx);
        }
        let what = DeviceWhat::Reported { id: push, report };
        let has_room = is_tracked && self.jobs.has_room_for_lines(push);
        let event = self.registry.event(now, key, what.clone()).filter(|_| has_room);
        let Some(event) = event else {
            if is_tracked {
                self.jobs.look(push, now.mono);
            }
            fx.counters.count(PushCounter::Reports);
            self.registry.tell(now, key, || what, fx);
            return answer(to, Ok(()), fx);
        };
        if let Some(device) = self.registry.at_mut(key) {
            device.extra().reports += 1;
        }
        let step = PushStep::Report(report);
        let line = Some(DeviceStep { device, step, at_ms: now.wall_ms });
        let waiting = WaitingReport { key, to, event, line };
        self.jobs.gather_report(now, (push, timeline), waiting, self.draining);
    }

    /// Completes a Report after the log's answer.
    pub(crate) fn report_kept(
        &mut self,
        now: Now,
        waiting: WaitingReport,
        is_stored: bool,
        fx: &mut Effects,
    ) {
        let (key, what, mut is_new) = (waiting.key, &waiting.event.what, true);
        if let (Some(line), &DeviceWhat::Reported { id, report }) = (&waiting.line, what) {
            let (product, device) = (waiting.event.product.as_str(), line.device.as_str());
            let timeline = crate::timeline_of(self.settings.home, product, device);
            is_new = self.jobs.report_told(id, (timeline, report), line, is_stored);
        }
        self.reports.kept(waiting, (is_stored, is_new), &mut self.registry, fx);
        self.registry.release(now, key);
    }
}

/// Answers a Report that was taken or refused.
fn answer(to: Answer, result: Result<(), Refusal>, fx: &mut Effects) {
    match (to, result) {
        (Answer::Device { conn, term, seq }, Ok(())) => {
            fx.deliveries.push((conn, PushDelivery::ReportTaken { term, seq }));
        }
        (Answer::Device { conn, term, seq }, Err(why)) => {
            fx.deliveries.push((conn, PushDelivery::ReportRefused { term, seq, why }));
        }
        (Answer::Command(reply), Ok(())) => fx.answers.push((reply, PushAnswer::Done(true))),
        (Answer::Command(reply), Err(Refusal::Quota)) => {
            fx.answers.push((reply, PushAnswer::TooManyReports));
        }
        (Answer::Command(reply), Err(_)) => fx.answers.push((reply, PushAnswer::Busy)),
    }
}

fn take_quota(now: Now, key: Key, registry: &mut Registry) -> Result<(), Refusal> {
    let number = registry.at(key).map(|device| device.product).ok_or(Refusal::Quota)?;
    let step_us = step_us(registry.products.of(number)).ok_or(Refusal::Quota)?;
    let device = registry.at_mut(key).ok_or(Refusal::Quota)?;
    let now_us = now.mono.nanos() / 1_000;
    let tat_us = device.extra().report_tat_us.max(now_us) + step_us;
    if tat_us - now_us > BURST_US {
        return Err(Refusal::Quota);
    }
    device.extra().report_tat_us = tat_us;
    Ok(())
}

/// Microseconds of quota that a Report costs; `None` if the product allows none.
fn step_us(product: &Product) -> Option<u64> {
    1_000_000_u64.checked_div(product.reports_per_s.into())
}
