//! Yields: a push device belongs to the account that registered it last.
//!
//! ```text
//! Register ─► judged ─► every shard: other accounts with the device ─► each gives it up ─────┐
//!                          registered, answered ◄── all have ────────────────────────────────┘
//! ```
//! A phone changes hands, or another user logs in with it: it then shows no notification for its
//! former user. A client may ask to keep a device for several accounts. Devices are known by a hash
//! of their route, which follows from the rows. Invariant: while one account claims a device, no
//! other one registers it; an attempt is answered as busy.

use super::Pushes;
use super::rows::Rows;
use super::wishes::{PushChore, Step};
use crate::word::ChatWord;
use crate::{Chat, Effects};
use base::hash::HashKey;
use base::time::{Instant, Now};
use model::chat::{ChatFault, PushRoute};
use model::id::ShardId;
use model::ports::log::Write;
use model::timeline::TimelineId;

/// An account's claim of a device. It is kept until the registration is stored.
pub(super) struct Claim {
    pub(super) inbox: TimelineId,
    device: u64,
    /// Number of answers that have not arrived.
    left: u32,
    has_failed: bool,
}

/// The hash of the device that a route leads to.
pub(super) fn name_of(home: HashKey, route: &PushRoute) -> u64 {
    let (way, first, second) = match route {
        PushRoute::Gateway { app, token } => (b"gateway", &**app, &**token),
        PushRoute::Miop { product, device } => (b"product", product.as_str(), device.as_str()),
        PushRoute::Service(it) => (b"service", &*it.address, &*it.node),
    };
    home.of(&[b"pushed device", way, first.as_bytes(), second.as_bytes()])
}

impl Pushes {
    /// Records that an account has registered a device.
    pub(super) fn holds(&mut self, inbox: TimelineId, device: u64) {
        let account = self.accounts.entry(inbox).or_default();
        account.devices = account.devices.iter().copied().chain([device]).collect();
        self.holders.entry(device).or_default().push(inbox);
    }

    /// Records that an account has no device any more.
    pub(super) fn lets_go(&mut self, inbox: TimelineId) {
        let Some(account) = self.accounts.get_mut(&inbox) else { return };
        for device in std::mem::take(&mut account.devices) {
            let Some(holders) = self.holders.get_mut(&device) else { continue };
            if let Some(at) = holders.iter().position(|holder| *holder == inbox) {
                holders.swap_remove(at);
            }
            if holders.is_empty() {
                self.holders.remove(&device);
            }
        }
    }
}

impl Chat {
    /// Registers a device for an account, after all others have given it up.
    pub(super) fn claim_device(
        &mut self,
        inbox: TimelineId,
        (rows, writes): (Box<Rows>, Vec<Write>),
        route: PushRoute,
        fx: &mut Effects,
    ) {
        let device = name_of(self.settings.home, &route);
        let shards = self.settings.shards.max(1);
        let (left, has_failed) = (u32::from(shards), false);
        let number = self.pushes.claims.put(Claim { inbox, device, left, has_failed });
        if let Some(line) = self.pushes.lines.get_mut(&inbox) {
            line.step = Step::Claiming(number, rows, writes);
        }
        let here = self.settings.shard;
        for shard in (0..shards).map(ShardId).filter(|shard| *shard != here) {
            let claimed =
                ChatWord::PushClaimed { number, route: Box::new(route.clone()), by: inbox };
            fx.peer_messages.push((shard, claimed));
        }
        self.device_claimed((here, number), (&route, inbox), fx);
    }

    /// Handles a claim: the other accounts of this shard that have the device give it up.
    pub(crate) fn device_claimed(
        &mut self,
        claim: (ShardId, u64),
        (route, by): (&PushRoute, TimelineId),
        fx: &mut Effects,
    ) {
        let device = name_of(self.settings.home, route);
        let holders = self.pushes.holders.get(&device).into_iter().flatten();
        let others: Vec<TimelineId> = holders.copied().filter(|holder| *holder != by).collect();
        // Of two accounts that claim it at once, neither gets it. A claim never waits for another
        // claim.
        let is_claimed = self.pushes.claims.has(|it| it.device == device && it.inbox != by);
        let waits = |inbox: &TimelineId| {
            let line = self.pushes.lines.get(inbox);
            line.is_some_and(|line| matches!(line.step, Step::Claiming(..)))
        };
        if is_claimed || others.iter().any(waits) {
            return self.tell_yielded(claim, (0, false), fx);
        }
        self.tell_yielded(claim, (others.len() as u32, true), fx);
        for other in others {
            self.run_chore(other, PushChore::Yield(Box::new(route.clone()), claim), fx);
        }
    }

    /// Reports to the claiming shard whether an account has given the device up, and how many more
    /// reports will come.
    pub(super) fn tell_yielded(
        &mut self,
        (to, number): (ShardId, u64),
        (more, is_done): (u32, bool),
        fx: &mut Effects,
    ) {
        if to == self.settings.shard {
            return self.device_yielded(number, (more, is_done), fx);
        }
        fx.peer_messages.push((to, ChatWord::PushYielded { number, more, is_done }));
    }

    /// Handles a report that an account has given a device up, or not.
    pub(crate) fn device_yielded(
        &mut self,
        number: u64,
        (more, is_done): (u32, bool),
        fx: &mut Effects,
    ) {
        let Some(claim) = self.pushes.claims.at_mut(number) else { return };
        claim.left = (claim.left + more).saturating_sub(1);
        claim.has_failed |= !is_done;
        let (inbox, has_failed) = (claim.inbox, claim.has_failed);
        if claim.left > 0 {
            return;
        }
        let Some(line) = self.pushes.lines.get_mut(&inbox) else { return };
        match std::mem::take(&mut line.step) {
            Step::Claiming(of, rows, writes) if of == number => match has_failed {
                true => self.chore_over(inbox, Err(ChatFault::Busy), fx),
                false => self.write_chore(inbox, (rows, writes), fx),
            },
            step => line.step = step,
        }
    }

    /// Gives up claims that were not answered in time; returns when to be called again.
    pub(crate) fn turn_claims(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let (over, next) = self.pushes.claims.overdue(now, self.settings.limits.answer_ms_max);
        for Claim { inbox, .. } in over {
            let line = self.pushes.lines.get(&inbox);
            if line.is_some_and(|line| matches!(line.step, Step::Claiming(..))) {
                self.chore_over(inbox, Err(ChatFault::Busy), fx);
            }
        }
        next
    }
}
