//! Reports: messages that devices send upstream, within a quota.
//!
//! The quota is one number per device: the time at which its burst allowance is full again (GCRA).
//! It is part of the device's extra state, so a device that reports nothing pays nothing, and the
//! sweep frees it when it is full. A Report for webhooks is accepted once it is on stable storage,
//! in the timeline of each such webhook. Any other is accepted once it is handed to the event feed;
//! without listeners it is accepted and counted.

use crate::Effects;
use crate::log::LogCalls;
use crate::log::durable::encode_event;
use crate::log::pending::PendingCall;
use crate::registry::Registry;
use base::slab::Key;
use base::time::Now;
use model::counters::PushCounter;
use model::id::{ConnRef, ProductKey};
use model::ports::backlog::ReportHook;
use model::ports::events::{DeviceEvent, DeviceWhat};
use model::ports::log::{Append, Write};
use model::product::Product;
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

/// A Report that waits for the log.
pub(crate) struct WaitingReport {
    key: Key,
    conn: ConnRef,
    term: u16,
    seq: u32,
    event: DeviceEvent,
}

impl WaitingReport {
    /// The device that sent the Report.
    pub fn key(&self) -> Key {
        self.key
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
        log: &mut LogCalls,
        fx: &mut Effects,
    ) {
        let (key, seq) = (report.key, report.seq);
        let Some(device) = registry.at(key) else { return };
        let Some(conn) = device.conn() else { return };
        let term = device.term();
        let to = self.hooks_of(&registry.products.of(device.product).key);
        let waiting = device.extra.as_ref().map_or(0, |extra| extra.reports);
        let has_room = waiting < REPORTS_WAITING_MAX && log.has_room_for_report();
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
                let waiting = WaitingReport { key, conn, term, seq, event };
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
    /// if its connection has ended.
    pub fn kept(
        &self,
        waiting: WaitingReport,
        is_stored: bool,
        registry: &mut Registry,
        fx: &mut Effects,
    ) {
        let WaitingReport { key, conn, term, seq, event } = waiting;
        let epoch = event.epoch;
        let counter = if is_stored { PushCounter::Reports } else { PushCounter::ReportsRefused };
        fx.counters.count(counter);
        if is_stored {
            fx.tell(event);
        }
        let Some(device) = registry.at_mut(key) else { return };
        device.extra().reports -= 1;
        let is_here = device.conn() == Some(conn) && device.term() == term;
        if !is_here || device.epoch != epoch {
            return;
        }
        let delivery = match is_stored {
            true => PushDelivery::ReportTaken { term, seq },
            false => PushDelivery::ReportRefused { term, seq, why: Refusal::Busy },
        };
        fx.deliveries.push((conn, delivery));
    }

    /// Timelines of the webhooks that receive Reports of this product.
    fn hooks_of(&self, product: &ProductKey) -> Vec<TimelineId> {
        let hooks = self.hooks.iter();
        let hooks = hooks.filter(|hook| hook.product.as_ref().is_none_or(|it| it == product));
        hooks.map(|hook| hook.timeline).collect()
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
