//! The rules of messaging over one shard's devices.
//!
//! A [`Hub`] is pure and synchronous: it gets the time and one request, command or completion, and
//! returns in [`Effects`] the actions to take. It does not know frames, sockets, files, clocks, or
//! whether it is simulated. Its invariants, checked by [`Hub::audit`] and by tests:
//!
//! - A device has one session; a higher epoch has replaced every lower one, and nothing that a
//!   replaced connection says about the device has any effect.
//! - A push reaches exactly one outcome at each device it matched:
//!   `matched = pending + delivered + stored + expired + rejected` at any time.
//! - "Stored" is reported only after the log completed the append.
//! - An order to many that was answered reaches every device it matched, whichever process is
//!   killed.
//! - No call visits all devices: fan-outs, drops and sweeps go in slices from [`Hub::turn`].
//!
//! Its parts own their state and have interfaces of their own: `registry` (devices, products, tags,
//! rows), `access` (proofs, tokens, pace), `log` (calls and their purposes, cleanups, epochs),
//! `queues` (sums and timers over all queues), `waits` (answers), `orders` (jobs and scans),
//! `segments` (saved audiences), `reports`. Rules that need several parts belong to the hub:
//! `session` (Binds), `push` (a push enters a device's queue and ends), `delivery` (sending and
//! acknowledgements), `lists` and `orders` (many devices), `control` (commands of the API),
//! `upkeep` (rows and the sweep), `restore`.

mod access;
mod control;
mod delivery;
mod encodings;
mod lists;
mod log;
mod orders;
mod platforms;
mod push;
mod queues;
mod registry;
mod reports;
mod restore;
mod schedules;
mod segments;
mod service;
mod session;
mod upkeep;
mod users;
mod waits;

pub use log::durable::{decode_event, encode_event, home_parts, owner_of_row, timeline_of};
pub use orders::{OrderMessage, StoredOrder, cancel_home, order_home};

use crate::access::Access;
use crate::log::LogCalls;
use crate::log::epochs::Epochs;
use crate::log::pending::{OrderWhat, PendingCall};
use crate::orders::jobs::Jobs;
use crate::orders::scans::Scans;
use crate::platforms::Reaching;
use crate::queues::Queues;
use crate::registry::Registry;
use crate::reports::Reports;
use crate::restore::Restoring;
use crate::schedules::Schedules;
use crate::segments::Segments;
use crate::upkeep::Sweep;
use crate::waits::Waits;
use base::hash::HashKey;
use base::secret::ClusterSecret;
use base::slab::Key;
use model::id::{ConnRef, DeviceRef, MessageId, ProductKey, ShardId};
use model::limits::Limits;
use model::ports::backlog::ReportHook;
use model::ports::control::Status;
use model::product::Product;
use model::push::PlatformRule;
use std::sync::Arc;

/// Settings of a hub. Limits of the whole process appear here as this shard's share.
#[derive(Clone)]
pub struct Settings {
    /// The shard on which the hub runs.
    pub shard: ShardId,
    /// Number of shards.
    pub shards: u16,
    /// The limits in force.
    pub limits: Arc<Limits>,
    /// This shard's share of `limits.devices_max`; the shares add up to at most that limit.
    pub devices_max: u32,
    /// This shard's share of `limits.offline_bytes_max`; the shares add up to at most that limit.
    pub offline_bytes_max: u64,
    /// This shard's share of `limits.binds_per_s`.
    pub binds_per_s: u32,
    /// Secret for session tokens and bearer tokens: the same on every shard, and across restarts if
    /// bearer tokens are to outlive them.
    pub secret: ClusterSecret,
    /// Secret for challenges: this node's alone.
    pub node_secret: [u8; 32],
    /// The process's key for hashing identities.
    pub hash_key: HashKey,
    /// The key that maps devices to shards and names their timelines: the same on every shard and
    /// across restarts.
    pub home: HashKey,
    /// Webhooks that receive Reports.
    pub report_hooks: Vec<ReportHook>,
    /// Push services of platforms.
    pub platforms: Arc<[PlatformRule]>,
    /// Seed of the random numbers, which are used for jitter only.
    pub seed: u64,
}

impl Settings {
    /// Sets the limits and this shard's shares of them. The shares of devices and of bytes add up
    /// to exactly the limit: a shard with more devices or more queued bytes than the others starts
    /// to refuse a little before the whole process is full.
    pub fn set_limits(&mut self, limits: &Arc<Limits>) {
        let (shard, count) = (u64::from(self.shard.0), u64::from(self.shards.max(1)));
        let share = |whole: u64| whole / count + u64::from(shard < whole % count);
        self.devices_max = share(limits.pushes.devices_max.into()) as u32;
        self.offline_bytes_max = share(limits.pushes.offline_bytes_max);
        self.binds_per_s = limits.binds_per_s.div_ceil(u32::from(self.shards.max(1)));
        self.limits = limits.clone();
    }
}

/// Effects of a hub.
pub type Effects = model::service::Effects<Hub>;

/// The hub of one shard.
pub struct Hub {
    settings: Settings,
    registry: Registry,
    access: Access,
    epochs: Epochs,
    log: LogCalls,
    queues: Queues,
    waits: Waits,
    jobs: Jobs,
    scans: Scans,
    segments: Segments,
    schedules: Schedules,
    reports: Reports,
    reaching: Reaching,
    restoring: Restoring,
    sweep: Sweep,
    draining: bool,
}

impl Hub {
    /// A hub without products and devices.
    pub fn new(mut settings: Settings) -> Hub {
        Hub {
            registry: Registry::new(&settings),
            access: Access::new(&settings),
            epochs: Epochs::new(settings.shard),
            log: LogCalls::default(),
            queues: Queues::new(&settings),
            waits: Waits::default(),
            jobs: Jobs::new(&settings),
            scans: Scans::default(),
            segments: Segments::default(),
            schedules: Schedules::default(),
            reports: Reports::new(std::mem::take(&mut settings.report_hooks)),
            reaching: Reaching::default(),
            restoring: Restoring::default(),
            sweep: Sweep::default(),
            draining: false,
            settings,
        }
    }

    /// Applies new limits. State that exceeds a lower limit stays.
    pub fn set_limits(&mut self, limits: &Arc<Limits>) {
        self.settings.set_limits(limits);
        self.registry.set_devices_max(self.settings.devices_max as usize);
        self.access.configure(&self.settings);
        self.queues.set_bytes_max(self.settings.offline_bytes_max);
        self.jobs.configure(&self.settings);
    }

    /// Takes a product from the configuration: it is known at once, and not stored in the log.
    /// False if there are too many products. It replaces a product with the same key: the last
    /// installed one holds.
    ///
    /// An unchanged configuration of a product has no effect: between the configuration and the
    /// API, the later change holds.
    pub fn install(&mut self, product: Arc<Product>) -> bool {
        self.registry.products.configure(product)
    }

    /// Configured products that the API has changed since.
    pub fn changed_since_configured(&self) -> Vec<ProductKey> {
        self.registry.products.changed().cloned().collect()
    }

    /// A bound that no id or epoch given before the start exceeds; new ids must begin above it.
    pub fn id_floor(&self) -> MessageId {
        self.epochs.id_floor()
    }

    /// Gauges of this shard.
    pub fn status(&self) -> Status {
        let (waiting, waiting_bytes) = self.queues.sums();
        Status {
            devices: self.registry.len() as u64,
            online: self.registry.online(),
            waiting,
            waiting_bytes,
            ..Status::default()
        }
    }

    /// The key of the device, if it is bound to this connection.
    fn bound(&self, from: ConnRef, device: DeviceRef) -> Option<Key> {
        if device.shard() != self.settings.shard {
            return None;
        }
        let conn = self.registry.at(device.key())?.conn()?;
        (conn == from).then_some(device.key())
    }

    /// Panics when an invariant does not hold. Visits all devices, so not for a production server.
    pub fn audit(&self) {
        let sums = self.registry.audit(self.epochs.last());
        self.jobs.audit();
        assert_eq!((sums.waiting, sums.bytes), self.queues.sums(), "waiting");
        assert_eq!(sums.answers, self.waits.open(), "answers waited for");
        for id in self.scans.iter().filter_map(|scan| scan.order()) {
            assert!(self.jobs.counts(id).is_some_and(|c| c.running), "a walk has its job");
        }
        for (key, asked, reports) in self.registry.asked_of() {
            self.audit_asked(key, asked, reports);
        }
    }

    /// Panics unless the hub is idle: no session, queued push, pending answer, scan or log call.
    pub fn audit_idle(&self) {
        self.audit();
        assert_eq!((self.registry.online(), self.queues.sums()), (0, (0, 0)), "gauges");
        assert_eq!((self.waits.len(), self.scans.iter().count()), (0, 0), "answers and walks");
        assert_eq!(self.log.unsettled(), 0, "tickets and cleanups");
    }

    /// Checks that a device's record counts exactly the log calls that need it.
    fn audit_asked(&self, key: Key, asked: usize, reports: usize) {
        let of = |pending: &PendingCall| match pending {
            PendingCall::Keep(_, keys) => keys.iter().filter(|&&other| other == key).count(),
            PendingCall::Claim(claim) => claim.keys().filter(|&other| other == key).count(),
            PendingCall::Order(order) => match order.what {
                OrderWhat::Change(other, _) => usize::from(other == key),
                OrderWhat::Put(_)
                | OrderWhat::Drop(_)
                | OrderWhat::Segment(..)
                | OrderWhat::Schedule(..) => 0,
            },
            _ => 0,
        };
        let reporting = |pending: &PendingCall| match pending {
            PendingCall::Report(waiting) => usize::from(waiting.key() == key),
            PendingCall::Reports { reports, .. } => {
                reports.iter().filter(|waiting| waiting.key() == key).count()
            }
            _ => 0,
        };
        assert_eq!(self.log.pending().map(of).sum::<usize>(), asked, "asked");
        let waiting: usize = self.log.pending().map(reporting).sum();
        let waiting = waiting + self.jobs.gathered_of(key);
        assert_eq!(waiting, reports, "Reports that wait");
    }
}
