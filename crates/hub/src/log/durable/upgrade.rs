//! From the journal of format 1 to writes for a log.
//!
//! The journal knew of a device only what was not as usual; a row is made for each device that it
//! names, once. Entries come in the journal's order of restoring: products, blocks, waits.

use super::{device, product, push, timeline_of};
use base::hash::HashKey;
use model::ports::journal::Entry;
use model::ports::log::{Append, Table, Write};
use model::push::Push;
use model::timeline::Message;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Turns what was alive in a journal into writes. One serves all entries of a log.
pub struct Upgrade {
    home: HashKey,
    rows: BTreeSet<Box<[u8]>>,
    last: Option<(Arc<Push>, Arc<Message>)>,
}

impl Upgrade {
    /// For logs whose timelines are named under `home`.
    pub fn new(home: HashKey) -> Upgrade {
        Upgrade { home, rows: BTreeSet::new(), last: None }
    }

    /// The writes that say what `entry` said, at this Unix second. Empty for an entry that says
    /// that something is gone.
    pub fn v1_entry(&mut self, at_s: u32, entry: &Entry) -> Vec<Write> {
        match entry {
            Entry::Product(product) => {
                let (key, value) = (product::key(&product.key), product::encode(product));
                vec![Write::Put { table: Table::Products, key, value }]
            }
            Entry::Blocked { product, device, blocked } => {
                let names = (product.as_str(), device.as_str());
                self.row(at_s, names, *blocked).into_iter().collect()
            }
            Entry::Waits { push, device } => {
                let names = (push.product.as_str(), device.as_str());
                let row = self.row(at_s, names, false);
                let to = vec![timeline_of(self.home, names.0, names.1)];
                let message = self.message(at_s, push);
                row.into_iter().chain([Write::Append(Append { message, to, once: None })]).collect()
            }
            Entry::Over { .. } | Entry::NoProduct(_) => Vec::new(),
        }
    }

    fn row(&mut self, at_s: u32, names: (&str, &str), blocked: bool) -> Option<Write> {
        let key = device::key(names.0, names.1);
        if !self.rows.insert(key.clone()) {
            return None;
        }
        let since_ms = u64::from(at_s) * 1_000;
        let row = device::DeviceRow { blocked, since_ms, ..Default::default() };
        Some(Write::Put { table: Table::Devices, key, value: device::encode(&row) })
    }

    /// Pushes come back device by device, so the same one may come again: often at once.
    fn message(&mut self, at_s: u32, push: &Arc<Push>) -> Arc<Message> {
        match &self.last {
            Some((last, message)) if Arc::ptr_eq(last, push) => message.clone(),
            _ => {
                let message = Arc::new(push::message(push, at_s, None));
                self.last = Some((push.clone(), message.clone()));
                message
            }
        }
    }
}
