//! The invariants, looked at one by one.
//!
//! For tests and the simulation: it visits everything and panics at the first thing that does not
//! agree.

use crate::Hub;
use crate::registry::device::Presence;
use std::collections::BTreeSet;

impl Hub {
    /// Panics when an invariant does not hold. Visits all devices: not for a server at work.
    pub fn audit(&self) {
        self.registry.audit();
        self.jobs.audit();
        let (mut online, mut waiting, mut bytes, mut tags) = (0, 0, 0, 0);
        let (mut answers, mut bound) = (0, BTreeSet::new());
        for slot in 0..self.registry.slots() {
            let Some((_, device)) = self.registry.tenant(slot) else { continue };
            if let Some(conn) = device.conn() {
                online += 1;
                assert!(device.epoch != 0 && device.epoch <= self.last_epoch, "epochs rise");
                assert!(bound.insert((conn, device.term())), "one device a term of {conn:?}");
            }
            assert_eq!(device.presence() == Presence::Never, device.epoch == 0, "never bound");
            for &tag in device.tags() {
                assert!(self.tags.has(tag, slot), "tags know their members");
                tags += 1;
            }
            let Some(queue) = device.queue() else { continue };
            queue.audit();
            assert!(device.conn().is_some() || queue.inflight() == 0, "nobody is on the way");
            let due = queue.items().take(queue.inflight()).any(|item| item.times <= 3);
            assert!(!due || device.timed(), "what is to be sent again has a timer");
            waiting += queue.count() as u64;
            bytes += queue.bytes() as u64;
            answers += queue.items().filter(|item| item.answers).count();
        }
        assert_eq!(online, self.online, "online");
        assert_eq!((waiting, bytes), (self.waiting, self.waiting_bytes), "waiting");
        assert_eq!(tags, self.tags.memberships(), "tags");
        assert_eq!(answers, self.waits.open(), "answers waited for");
        for id in self.walking() {
            assert!(self.jobs.counts(id).is_some_and(|c| c.running), "a walk has its job");
        }
    }

    /// Panics when anything goes on: a push waits, an answer waits, a walk walks, a ticket is out.
    pub fn audit_idle(&self) {
        self.audit();
        assert_eq!((self.online, self.waiting, self.waiting_bytes), (0, 0, 0), "gauges");
        assert_eq!((self.waits.len(), self.walks.len()), (0, 0), "answers and walks");
        assert_eq!(self.tickets.len(), 0, "tickets");
    }
}
