//! Devices that are given to users, or taken from them.
//!
//! A device changes hands once its row is stored. The row says which pushes were queued by then
//! ([`Cut`]): they leave the queue, and a start does not bring them back. From the command on until
//! its answer, the device refuses pushes for a user.

use crate::log::durable::device::Cut;
use crate::log::pending::PendingCall;
use crate::registry::item::Kept;
use crate::{Effects, Hub};
use base::slab::Key;
use base::time::Now;
use model::id::{DeviceId, DeviceUser, ProductKey};
use model::ports::pushes::PushAnswer;
use model::push::{Outcome, Rejection};
use model::timeline::Seq;

impl Hub {
    /// The record of a device that is to be given to a user, who has room for it.
    pub(crate) fn user_change(
        &mut self,
        now: Now,
        (product, device): (&ProductKey, &DeviceId),
        user: Option<&DeviceUser>,
    ) -> Result<Key, PushAnswer> {
        let number = self.registry.products.number(product).ok_or(PushAnswer::UnknownProduct)?;
        let max = usize::from(self.settings.limits.pushes.devices_a_user_max);
        let known = self.registry.find(number, device.as_str());
        let is_own = known.is_some_and(|key| self.registry.user_at_last(key) == user);
        let count = |user: &DeviceUser| self.registry.devices_at_last(number, user);
        let is_full = user.is_some_and(|user| count(user) >= max);
        if is_full && !is_own {
            return Err(PushAnswer::Done(false));
        }
        self.changeable(now, product, device)
    }

    /// The pushes that leave a device with its user, if it is given to another one now.
    pub(crate) fn cut_for(&self, key: Key, user: Option<&DeviceUser>) -> Option<Cut> {
        let device = self.registry.at(key).filter(|it| self.registry.leaves_user(it, user))?;
        let timeline = self.registry.timeline(key)?;
        let mut cut = Cut::default();
        // What ended may still be in the log: a kill must not bring it to the next user.
        let mut through = |seq: Option<Seq>| cut.through = cut.through.max(seq.unwrap_or(0));
        through(self.registry.cut(key.slot).map(|before| before.through));
        through(self.jobs.last_settled(timeline));
        for item in device.queue().into_iter().flat_map(|queue| queue.items()) {
            match item.kept() {
                Kept::At(seq) => through(Some(seq)),
                Kept::No | Kept::Asked => cut.ids.push(item.id),
            }
        }
        for pending in self.log.pending() {
            match pending {
                PendingCall::Keep(id, keys) if keys.contains(&key) => cut.ids.push(*id),
                PendingCall::Claim(claim) if claim.keys().any(|of| of == key) => {
                    cut.ids.push(claim.id());
                }
                PendingCall::Remove(of, seqs) if *of == timeline => {
                    through(seqs.iter().max().copied());
                }
                PendingCall::Told { settled, .. } => {
                    let of = settled.iter().filter(|it| it.timeline == timeline);
                    through(of.filter_map(|it| it.seq).max());
                }
                _ => {}
            }
        }
        through(self.log.last_to_remove(timeline));
        cut.ids.sort_unstable();
        cut.ids.dedup();
        Some(cut)
    }

    /// Gives a device to a user, or to nobody. The pushes of the cut, by default all that are
    /// queued if it belongs to another user, leave its queue. False if the device is gone.
    pub(crate) fn give(
        &mut self,
        now: Now,
        key: Key,
        (user, cut): (Option<DeviceUser>, Option<Cut>),
        fx: &mut Effects,
    ) -> bool {
        if self.registry.at(key).is_none() {
            return false;
        }
        let is_in_row = cut.is_some();
        let cut = cut.or_else(|| self.cut_for(key, user.as_ref()));
        self.registry.set_user(now, key, user);
        let Some(cut) = cut else { return true };
        let mut items = Vec::new();
        if let Some(queue) = self.registry.at_mut(key).and_then(|device| device.queue_mut()) {
            let left = queue.items().filter(|item| match item.kept() {
                Kept::At(seq) => cut.has(seq, item.id),
                Kept::No | Kept::Asked => cut.has(0, item.id),
            });
            let left: Vec<_> = left.map(|item| item.id).collect();
            items.extend(left.into_iter().filter_map(|id| queue.remove(id)));
        }
        self.registry.set_cut(key.slot, cut);
        if !is_in_row {
            self.registry.soil(key);
        }
        for item in items {
            self.end(now, key, item, Outcome::Rejected(Rejection::UserChanged), fx);
        }
        self.pump(now, key, fx);
        true
    }
}
