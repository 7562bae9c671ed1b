//! Checks of the registry's invariants.
//!
//! For tests and the simulation: it visits everything and panics at the first violation.

use super::Registry;
use super::device::{BindState, Device};
use super::item::Kept;
use base::slab::Key;
use std::collections::BTreeSet;

/// Sums over the queues of all devices.
#[derive(Default)]
pub(crate) struct QueueSums {
    /// Number of items.
    pub waiting: u64,
    /// Weight of the items, bytes.
    pub bytes: u64,
    /// Number of items for whose outcome an answer waits.
    pub answers: usize,
}

impl Registry {
    /// Panics when an invariant does not hold, or a version is above `version_max`.
    pub fn audit(&self, version_max: u64) -> QueueSums {
        self.audit_names();
        let (mut sums, mut online, mut groups, mut dirty) = (QueueSums::default(), 0, 0, 0);
        let mut bound = BTreeSet::new();
        for (key, device) in self.devices.iter() {
            dirty += u64::from(device.dirty());
            if let Some(conn) = device.conn() {
                online += 1;
                assert!(device.epoch != 0, "whoever is online has an epoch");
                assert!(device.reason().is_none(), "whoever is online has not ended");
                assert!(bound.insert((conn, device.term())), "one device a term of {conn:?}");
            }
            assert_eq!(device.presence() == BindState::Never, device.epoch == 0, "never bound");
            let version = device.version().0;
            assert!(version <= version_max, "versions rise");
            let is_behind = device.presence() != BindState::Offline || version > device.epoch;
            assert!(is_behind, "an offline follows its online");
            for &group in device.groups() {
                assert!(self.groups.has(group, key.slot), "groups know their members");
                groups += 1;
            }
            audit_queue(device, &mut sums);
        }
        assert_eq!(online, self.online, "online");
        assert_eq!(dirty, self.dirty(), "dirty");
        assert_eq!(groups, self.groups.memberships(), "groups");
        sums
    }

    /// For each device, the counts in its record of log calls that need it: appends and rows, then
    /// Reports.
    pub fn asked_of(&self) -> impl Iterator<Item = (Key, usize, usize)> {
        self.devices.iter().map(|(key, device)| {
            let extra = device.extra.as_ref();
            let asked = extra.map_or(0, |extra| extra.asked as usize);
            (key, asked, extra.map_or(0, |extra| extra.reports.into()))
        })
    }

    /// Panics when index, slab and products disagree.
    fn audit_names(&self) {
        assert_eq!(self.index.len(), self.devices.len(), "index and slab");
        let mut long = 0;
        let mut held = vec![0; self.products.numbers()];
        for (key, device) in self.devices.iter() {
            assert_eq!(self.find(device.product, self.id(device)), Some(key), "found by its name");
            long += usize::from(device.name().read().is_err());
            held[usize::from(device.product)] += 1;
        }
        assert_eq!(self.long.len(), long, "long names");
        self.products.audit(&held);
    }
}

fn audit_queue(device: &Device, sums: &mut QueueSums) {
    let Some(queue) = device.queue() else { return };
    queue.audit();
    assert!(device.conn().is_some() || queue.inflight() == 0, "nobody is on the way");
    let due = queue.items().take(queue.inflight()).any(|item| item.times <= 3);
    assert!(!due || device.timed(), "what is to be sent again has a timer");
    let at_log = |kept| matches!(kept, Kept::At(_));
    let shed = queue.items().all(|item| item.push().is_none() || !at_log(item.kept()));
    assert!(shed || device.conn().is_some(), "no bodies of what is in the log");
    sums.waiting += queue.count() as u64;
    sums.bytes += queue.bytes() as u64;
    sums.answers += queue.items().filter(|item| item.watch().answers).count();
}
