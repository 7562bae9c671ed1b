//! Reports: what devices send upstream, within their quota.
//!
//! The quota is one number a device: the time at which what it saved up would be whole again
//! (GCRA). It stands in the device's extra, so a device that reports nothing pays nothing, and the
//! sweep frees it when it is whole. A Report is taken once it is handed to the event feed; when
//! nobody listens it is taken and counted, for nobody missed it.

use crate::Hub;
use crate::effects::Effects;
use base::slab::Key;
use base::time::Now;
use model::event::{Counter, What};
use model::product::Product;
use model::request::{Delivery, Refusal};

/// What a device may save up, microseconds of its pace.
const BURST_US: u64 = 10_000_000;

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
        let refusal = match fx.events_wanted && fx.events_full {
            true => Err(Refusal::Busy),
            false => self.take_quota(now, key),
        };
        let delivery = match refusal {
            Ok(()) => {
                fx.counters.count(Counter::Reports);
                self.event(now, key, || What::Report { seq, body }, fx);
                Delivery::ReportTaken { term, seq }
            }
            Err(why) => {
                fx.counters.count(Counter::ReportsRefused);
                Delivery::ReportRefused { term, seq, why }
            }
        };
        fx.deliveries.push((conn, delivery));
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
