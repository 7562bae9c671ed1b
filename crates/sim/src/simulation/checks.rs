//! Invariants of a simulation, at any time and at the end. Each check panics where it fails.

use super::Simulation;
use crate::application::check_counts;
use hub::{Effects, Hub};
use model::close::CloseReason;
use model::counters::{Counters, ProcessCounter, PushCounter};
use model::id::ShardId;
use model::ports::pushes::{DeviceState, PushAnswer, PushCommand, PushCounts};
use model::presence::Principal;
use std::collections::BTreeSet;

/// Devices on a page when all are looked at.
const PAGE: u32 = 10_000;

impl Simulation {
    /// The server's hubs agree with themselves, devices are where they belong, and nothing was met
    /// that is impossible.
    pub fn audit(&mut self) {
        assert_eq!(base::never::seen(), 0, "an impossible condition");
        for shard in self.server.shards() {
            shard.logic().audit();
        }
        let mut owned = BTreeSet::new();
        for (shard, device) in self.devices() {
            let owner = model::request::owner(
                (crate::disk::HOME, self.plan.shards),
                &device.product,
                &device.device,
            );
            assert_eq!(owner, shard, "{} lives with its owner", device.device);
            assert!(owned.insert(device.device.clone()), "{} has one owner", device.device);
        }
        let counters = self.counters();
        let open = u64::from(self.server.census.open());
        let accepted = counters.of(ProcessCounter::Accepted);
        assert_eq!(accepted, counters.closed_sum() + open, "every end is counted once");
    }

    /// Whether memory and directory agree: by the audit, and by what hubs know. Once nothing is on
    /// its way, whoever is online in a hub is online in the directory, with no lower version.
    pub fn copies_agree(&self) -> bool {
        let (copies, now) = (self.copies.borrow(), self.fabric.borrow().now());
        if !copies.is_settled(now) || !self.settled() {
            return false;
        }
        let product = super::product().key;
        let who = self.names.keys().map(|id| Principal::Device(product.clone(), id.clone()));
        copies.agrees(&self.server.trackers(), &self.server.online(now, who))
    }

    /// Every device is bound, on exactly one connection that its client believes in.
    pub(super) fn check_bound(&mut self) {
        let states = self.devices();
        let online = states.iter().filter(|(_, device)| device.online).count();
        assert_eq!(online, self.plan.devices as usize, "all devices are online");
        assert_eq!(self.virtual_clients.logic().bound(), online, "and all clients are bound");
    }

    /// Every fan-out that is remembered has come to its end at every device, or is stored.
    pub(super) fn check_fan_outs(&mut self) {
        let ids: Vec<_> = self.application.fan_outs().collect();
        for id in ids {
            let mut sum = PushCounts::default();
            for at in 0..self.server.hosts.len() {
                if let PushAnswer::Counts(Some(counts)) = self.look(at, PushCommand::PushCounts(id))
                {
                    check_counts(id, &counts);
                    sum.add(&counts);
                }
            }
            assert!(!sum.running && sum.pending == 0 && sum.stored == 0, "{id:?} ends: {sum:?}");
        }
    }

    /// While all was calm every device was bound once, and nobody was ended for a fault.
    pub(super) fn check_calm(&self, before: &Counters) {
        let after = self.counters();
        let binds = after.of(PushCounter::Binds) - before.of(PushCounter::Binds);
        assert_eq!(binds, u64::from(self.plan.devices), "a Bind for each device");
        for &reason in CloseReason::ALL {
            let ended = after.closed_of(reason) - before.closed_of(reason);
            let fair = matches!(
                reason,
                CloseReason::Unbound
                    | CloseReason::PeerClosed
                    | CloseReason::PeerReset
                    | CloseReason::Busy
                    | CloseReason::Full
            );
            assert!(fair || ended == 0, "{ended} ended for {} in the calm", reason.name());
        }
    }

    /// Checks that nothing is left.
    pub(super) fn check_empty(&mut self) {
        self.audit();
        for shard in self.server.shards() {
            shard.logic().service::<Hub>().audit_idle();
        }
        assert_eq!((self.connections(), self.server.census.open()), (0, 0), "the server's");
        assert_eq!(
            (self.virtual_clients.connections(), self.virtual_clients_census.open()),
            (0, 0),
            "the pilots'"
        );
        let fabric = self.fabric.borrow();
        for &host in self.server.hosts.iter().chain([&self.virtual_clients_host]) {
            assert_eq!(fabric.open_at(host), 0, "sockets of host {host}");
        }
        assert_eq!(self.server.post.borrow().waiting(), 0, "messages between shards");
        // A removal that was refused is asked for again.
        let now_s = fabric.now().unix_s();
        let kept = self.disk.borrow_mut().pushes(now_s);
        assert_eq!(kept, 0, "pushes are left in the logs");
        let mut disk = self.disk.borrow_mut();
        self.application.check_reports(disk.post_all(now_s));
    }

    /// Sum of the counters of the server's shards and hubs.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for shard in self.server.shards() {
            sum.add(&shard.handle().counters);
            sum.add(&shard.logic().counters());
        }
        sum
    }

    /// Connections of the server.
    pub fn connections(&self) -> usize {
        self.server.shards().map(|shard| shard.connections()).sum()
    }

    /// Pushes that wait for devices.
    pub fn waiting(&self) -> u64 {
        self.server.shards().map(|shard| shard.logic().service::<Hub>().status().waiting).sum()
    }

    /// Devices that the hubs hold for online.
    pub fn online(&self) -> u64 {
        self.server.shards().map(|shard| shard.logic().service::<Hub>().status().online).sum()
    }

    /// All devices that the server knows.
    pub fn devices(&mut self) -> Vec<(ShardId, DeviceState)> {
        let mut all = Vec::new();
        for at in 0..self.server.hosts.len() {
            let (product, online, tag, after) = (None, None, None, None);
            let list = PushCommand::List { product, online, tag, after, count: PAGE };
            let PushAnswer::Page { devices, .. } = self.look(at, list) else { panic!("a page") };
            all.extend(devices.into_iter().map(|device| (ShardId(at as u16), device)));
        }
        all
    }

    /// Checks tags and blocks against the answers that the application got. Panics where they
    /// differ.
    pub(super) fn check_states(&mut self) {
        let states: Vec<_> = self.devices().into_iter().map(|(_, device)| device).collect();
        self.application.check_states(&states);
    }

    pub(super) fn settled(&self) -> bool {
        self.server.post.borrow().waiting() == 0
            && self.disk.borrow().waiting() == 0
            && self.completed.is_empty()
    }

    pub(super) fn describe(&self) -> String {
        let (logic, fabric) = (self.virtual_clients.logic(), self.fabric.borrow());
        format!(
            "{} of {} devices bound, {} seats busy, {} connections, {} pushes wait, {} questions, \
             {} calls, {:?} refusals, at {:?}. {}",
            logic.bound(),
            self.plan.devices,
            logic.busy(),
            self.connections(),
            self.waiting(),
            self.application.waiting(),
            self.disk.borrow().waiting(),
            logic.refused(),
            fabric.now(),
            logic.describe(),
        ) + &self.copies.borrow().describe(fabric.now())
    }

    /// Asks a hub something that changes nothing, behind everybody's back.
    fn look(&mut self, at: usize, command: PushCommand) -> PushAnswer {
        let (now, mut fx) = (self.fabric.borrow().now(), Effects::default());
        let logic = self.server.shard_mut(ShardId(at as u16)).logic_mut();
        logic.service_mut::<Hub>().command(now, 0, command, &mut fx);
        fx.answers.pop().expect("such questions are answered at once").1
    }
}
