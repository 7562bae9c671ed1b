//! The invariants, looked at one by one.
//!
//! For tests and the simulation: it visits everything and panics at the first thing that does not
//! agree.

use crate::Hub;
use crate::log::tickets::{Order, PendingCall};
use crate::registry::device::{BindState, Device};
use crate::registry::item::Kept;
use base::slab::Key;
use std::collections::BTreeSet;

impl Hub {
    /// Panics when an invariant does not hold. Visits all devices: not for a server at work.
    pub fn audit(&self) {
        self.registry.audit();
        self.jobs.audit();
        let (mut online, mut waiting, mut bytes, mut tags) = (0, 0, 0, 0);
        let (mut answers, mut bound, mut dirty) = (0, BTreeSet::new(), 0);
        for slot in 0..self.registry.slots() {
            let Some((key, device)) = self.registry.tenant(slot) else { continue };
            dirty += u64::from(device.dirty());
            self.audit_asked(key, device);
            if let Some(conn) = device.conn() {
                online += 1;
                assert!(device.epoch != 0, "whoever is online has an epoch");
                assert!(device.reason().is_none(), "whoever is online has not ended");
                assert!(bound.insert((conn, device.term())), "one device a term of {conn:?}");
            }
            assert_eq!(device.presence() == BindState::Never, device.epoch == 0, "never bound");
            let version = device.version(self.settings.shard).0;
            assert!(version <= self.epochs.last(), "versions rise");
            let is_behind = device.presence() != BindState::Offline || version > device.epoch;
            assert!(is_behind, "an offline follows its online");
            for &tag in device.tags() {
                assert!(self.tags.has(tag, slot), "tags know their members");
                tags += 1;
            }
            let Some(queue) = device.queue() else { continue };
            queue.audit();
            assert!(device.conn().is_some() || queue.inflight() == 0, "nobody is on the way");
            let due = queue.items().take(queue.inflight()).any(|item| item.times <= 3);
            assert!(!due || device.timed(), "what is to be sent again has a timer");
            let at_log = |kept| matches!(kept, Kept::At(_));
            let shed = queue.items().all(|item| item.push().is_none() || !at_log(item.kept()));
            assert!(shed || device.conn().is_some(), "no bodies of what is in the log");
            waiting += queue.count() as u64;
            bytes += queue.bytes() as u64;
            answers += queue.items().filter(|item| item.watch().answers).count();
        }
        assert_eq!(online, self.online, "online");
        assert_eq!(dirty, self.rows.dirty(), "dirty");
        assert_eq!((waiting, bytes), (self.waiting, self.waiting_bytes), "waiting");
        assert_eq!(tags, self.tags.memberships(), "tags");
        assert_eq!(answers, self.waits.open(), "answers waited for");
        for id in self.walking() {
            assert!(self.jobs.counts(id).is_some_and(|c| c.running), "a walk has its job");
        }
    }

    /// Panics when anything goes on: a push waits, an answer waits, a scan scans, a ticket is out.
    pub fn audit_idle(&self) {
        self.audit();
        assert_eq!((self.online, self.waiting, self.waiting_bytes), (0, 0, 0), "gauges");
        assert_eq!((self.waits.len(), self.scans.len()), (0, 0), "answers and walks");
        assert_eq!((self.tickets.len(), self.cleanups.len()), (0, 0), "tickets and chores");
    }

    /// A record counts the calls that need it.
    fn audit_asked(&self, key: Key, device: &Device) {
        let of = |pending: &PendingCall| match pending {
            PendingCall::Keep(_, keys) => keys.iter().filter(|&&other| other == key).count(),
            PendingCall::Claim(claim) => claim.keys().filter(|&other| other == key).count(),
            PendingCall::Order(order) => match **order {
                Order::Block(_, other, _) | Order::Tags(_, other, _) => usize::from(other == key),
                Order::Put(..) | Order::Drop(..) => 0,
            },
            _ => 0,
        };
        let reports = |pending: &PendingCall| match pending {
            PendingCall::Report(waiting) => usize::from(waiting.key() == key),
            _ => 0,
        };
        let extra = device.extra.as_ref();
        let asked: usize = self.tickets.iter().map(of).sum();
        assert_eq!(asked, extra.map_or(0, |extra| extra.asked as usize), "asked");
        let waiting: usize = self.tickets.iter().map(reports).sum();
        assert_eq!(waiting, extra.map_or(0, |extra| extra.reports.into()), "Reports that wait");
    }
}
