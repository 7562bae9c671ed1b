//! Reports: what devices send upstream, within their quota.
//!
//! The quota is one number a device: the time at which what it saved up would be whole again
//! (GCRA). It stands in the device's extra, so a device that reports nothing pays nothing, and the
//! sweep frees it when it is whole. A Report that a webhook wants is taken once it is on stable
//! storage, in the timeline of each such webhook. Any other is taken once it is handed to the event
//! feed; when nobody listens it is taken and counted, for nobody missed it.

use crate::Effects;
use crate::Hub;
use crate::log::durable::encode_event;
use crate::log::tickets::PendingCall;
use base::slab::Key;
use base::time::Now;
use model::event::{Counter, DeviceEvent, DeviceWhat};
use model::id::{ConnRef, ProductKey};
use model::ports::log::{Append, Call, Write};
use model::presence::PresenceVersion;
use model::product::Product;
use model::request::{PushDelivery, Refusal};
use model::timeline::{Message, TimelineId};
use std::sync::Arc;

/// What a device may save up, microseconds of its pace.
const BURST_US: u64 = 10_000_000;

/// Reports of one device that may wait for the log. One more is refused as Busy.
const REPORTS_WAITING_MAX: u16 = 1_024;

/// A webhook that wants Reports.
#[derive(Clone, Debug)]
pub struct ReportHook {
    /// Of the devices of this product; of all, if absent.
    pub product: Option<ProductKey>,
    /// Where they wait for it, on this shard's log.
    pub timeline: TimelineId,
}

/// A Report that waits for the log.
pub(crate) struct Waiting {
    key: Key,
    conn: ConnRef,
    term: u16,
    seq: u32,
    event: DeviceEvent,
}

impl Waiting {
    /// Whose it is.
    pub fn key(&self) -> Key {
        self.key
    }
}

impl Hub {
    /// A device reports.
    pub(crate) fn report(
        &mut self,
        now: Now,
        key: Key,
        (seq, body): (u32, Box<[u8]>),
        fx: &mut Effects,
    ) {
        let Some(device) = self.registry.at(key) else { return };
        let Some(conn) = device.conn() else { return };
        let term = device.term();
        let to = self.hooks_of(device.product);
        let refusal = match to.is_empty() || self.has_room_for_report(key) {
            true => self.take_quota(now, key),
            false => Err(Refusal::Busy),
        };
        let delivery = match refusal {
            Ok(()) if !to.is_empty() => {
                return self.keep_report(now, (key, conn, term), (seq, body, to), fx);
            }
            Ok(()) => {
                fx.counters.count(Counter::Reports);
                self.event(now, key, || DeviceWhat::Report { seq, body }, fx);
                PushDelivery::ReportTaken { term, seq }
            }
            Err(why) => {
                fx.counters.count(Counter::ReportsRefused);
                PushDelivery::ReportRefused { term, seq, why }
            }
        };
        fx.deliveries.push((conn, delivery));
    }

    /// The log has answered a Report. Whoever listens to the feed hears of it whatever became of
    /// the connection it came over.
    pub(crate) fn report_kept(&mut self, waiting: Waiting, is_stored: bool, fx: &mut Effects) {
        let Waiting { key, conn, term, seq, event } = waiting;
        let epoch = event.epoch;
        let counter = if is_stored { Counter::Reports } else { Counter::ReportsRefused };
        fx.counters.count(counter);
        if is_stored {
            fx.tell(event);
        }
        let Some(device) = self.registry.at_mut(key) else { return };
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

    fn keep_report(
        &mut self,
        now: Now,
        (key, conn, term): (Key, ConnRef, u16),
        (seq, body, to): (u32, Box<[u8]>, Vec<TimelineId>),
        fx: &mut Effects,
    ) {
        let Some((product, id)) = self.registry.names(key) else { return };
        let Some(device) = self.registry.at_mut(key) else { return };
        device.extra().reports += 1;
        let (at_ms, epoch) = (now.wall_ms, device.epoch);
        let what = DeviceWhat::Report { seq, body };
        let event = DeviceEvent {
            at_ms,
            product,
            device: id,
            epoch,
            version: PresenceVersion::default(),
            what,
        };
        let body = encode_event(&event).expect("a Report can be encoded");
        let (id, at_s, label) = (seq.into(), now.unix_s(), Box::default());
        let message = Arc::new(Message { id, at_s, label, body });
        let pending = PendingCall::Report(Box::new(Waiting { key, conn, term, seq, event }));
        let append = Append { message, to, once: None };
        self.enter(pending, Call::Write(Write::Append(append)), fx);
    }

    /// Where the webhooks that want the Reports of this product have them wait.
    fn hooks_of(&self, product: u16) -> Vec<TimelineId> {
        let key = &self.registry.products.of(product).key;
        let hooks = self.settings.report_hooks.iter();
        let hooks = hooks.filter(|hook| hook.product.as_ref().is_none_or(|wanted| wanted == key));
        hooks.map(|hook| hook.timeline).collect()
    }

    fn has_room_for_report(&self, key: Key) -> bool {
        let device = self.registry.at(key);
        let waiting = device.and_then(|device| device.extra.as_ref()).map_or(0, |e| e.reports);
        waiting < REPORTS_WAITING_MAX && self.tickets.have_room_for_report()
    }

    fn take_quota(&mut self, now: Now, key: Key) -> Result<(), Refusal> {
        let Some(device) = self.registry.at_mut(key) else { return Err(Refusal::Quota) };
        let number = device.product;
        let step_us = step_us(self.registry.products.of(number)).ok_or(Refusal::Quota)?;
        let Some(device) = self.registry.at_mut(key) else { return Err(Refusal::Quota) };
        let now_us = now.mono.nanos() / 1_000;
        let tat_us = device.extra().report_tat_us.max(now_us) + step_us;
        if tat_us - now_us > BURST_US {
            return Err(Refusal::Quota);
        }
        device.extra().report_tat_us = tat_us;
        Ok(())
    }
}

/// Microseconds a Report costs; `None` when none is allowed.
fn step_us(product: &Product) -> Option<u64> {
    1_000_000_u64.checked_div(product.reports_per_s.into())
}
