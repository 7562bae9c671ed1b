//! The rules of messaging over one shard's devices.
//!
//! A [`Hub`] is pure and synchronous: it is told the time, takes one request, command or
//! completion, and says in [`Effects`] what is to be done. It knows no frame, socket, file or
//! clock, and not whether it is simulated. Its invariants, checked by [`Hub::audit`] and by tests:
//!
//! - A device has one session; a higher epoch has replaced every lower one, and what a replaced
//!   connection says about the device changes nothing.
//! - A push reaches exactly one outcome at each device it matched:
//!   `matched = pending + delivered + stored + expired + rejected` at any time.
//! - "Stored" is said only after the log completed the append.
//! - An order to many that was answered reaches every device it was for, whatever is killed.
//! - No call visits all devices: fan-outs, drops and sweeps go in slices from [`Hub::turn`].
//!
//! Its parts own their state and have doors of their own: `registry` (devices, products, tags,
//! rows), `access` (proofs, tokens, pace), `log` (calls and what they are for, cleanups, epochs),
//! `queues` (sums and timers over what waits), `waits` (answers), `orders` (jobs and scans),
//! `reports`. What needs several of them is the hub's: read `session` (Binds), `push` (a place at a
//! device, and its end), `delivery` (out, and acknowledged), `lists` and `orders` (many devices),
//! `control` (orders of the API), `upkeep` (rows and the sweep), `restore`.

mod access;
mod control;
mod delivery;
mod lists;
mod log;
mod orders;
mod push;
mod queues;
mod registry;
mod reports;
mod restore;
mod service;
mod session;
mod upkeep;
mod waits;

pub use log::durable::{decode_event, encode_event, home_parts, owner_of_row, timeline_of};
pub use orders::{OrderMessage, StoredOrder, cancel_home, order_home};

use crate::access::Access;
use crate::log::LogCalls;
use crate::log::epochs::Epochs;
use crate::log::pending::{OrderWhat, PendingCall};
use crate::orders::jobs::Jobs;
use crate::orders::scans::Scans;
use crate::queues::Queues;
use crate::registry::Registry;
use crate::reports::Reports;
use crate::restore::Restoring;
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
use std::sync::Arc;

/// Settings of a hub. Where `limits` speak of the process, the shard's share stands here.
#[derive(Clone)]
pub struct Settings {
    /// The shard it runs on.
    pub shard: ShardId,
    /// How many there are.
    pub shards: u16,
    /// The limits in force.
    pub limits: Arc<Limits>,
    /// This shard's share of `limits.devices_max`: together not above it.
    pub devices_max: u32,
    /// This shard's share of `limits.offline_bytes_max`: together not above it.
    pub offline_bytes_max: u64,
    /// This shard's share of `limits.binds_per_s`.
    pub binds_per_s: u32,
    /// Secret under which session tokens and bearer tokens are made: the same on every shard, and
    /// over restarts if bearer tokens are to outlive them.
    pub secret: ClusterSecret,
    /// Secret under which challenges are made: no other node's.
    pub node_secret: [u8; 32],
    /// The process's key for hashing identities.
    pub hash_key: HashKey,
    /// The key by which devices are at home on a shard, and under which their timelines are named:
    /// the same on every shard and over restarts, and the key that chooses shards.
    pub home: HashKey,
    /// Webhooks that want Reports.
    pub report_hooks: Vec<ReportHook>,
    /// For jitter only.
    pub seed: u64,
}

impl Settings {
    /// These limits, and this shard's shares of them. Together the shares of devices and of bytes
    /// are just the limit: a shard that has more devices than others, or more that waits for them,
    /// refuses a little before the whole is full.
    pub fn set_limits(&mut self, limits: &Arc<Limits>) {
        let (shard, count) = (u64::from(self.shard.0), u64::from(self.shards.max(1)));
        let share = |whole: u64| whole / count + u64::from(shard < whole % count);
        self.devices_max = share(limits.pushes.devices_max.into()) as u32;
        self.offline_bytes_max = share(limits.pushes.offline_bytes_max);
        self.binds_per_s = limits.binds_per_s.div_ceil(u32::from(self.shards.max(1)));
        self.limits = limits.clone();
    }
}

/// Effects that a hub wants.
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
    reports: Reports,
    restoring: Restoring,
    sweep: Sweep,
    draining: bool,
}

impl Hub {
    /// A hub that knows no product and no device.
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
            reports: Reports::new(std::mem::take(&mut settings.report_hooks)),
            restoring: Restoring::default(),
            sweep: Sweep::default(),
            draining: false,
            settings,
        }
    }

    /// From now on these limits are in force. What exceeds a lower one stays.
    pub fn set_limits(&mut self, limits: &Arc<Limits>) {
        self.settings.set_limits(limits);
        self.registry.set_devices_max(self.settings.devices_max as usize);
        self.access.configure(&self.settings);
        self.queues.set_bytes_max(self.settings.offline_bytes_max);
        self.jobs.configure(&self.settings);
    }

    /// Takes a product from configuration: known at once, not in the log. False when there are too
    /// many. A product with the same key is replaced, so what is installed last holds.
    ///
    /// A configuration that says what it said before changes nothing: of it and the API the one
    /// holds that spoke last.
    pub fn install(&mut self, product: Arc<Product>) -> bool {
        self.registry.products.configure(product)
    }

    /// Products that are configured, and of which the API said later that they are otherwise.
    pub fn changed_since_configured(&self) -> Vec<ProductKey> {
        self.registry.products.changed().cloned().collect()
    }

    /// Not below any id or epoch that was given before the start: where new ids must begin.
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

    /// The device's key, if it is bound to this connection.
    fn bound(&self, from: ConnRef, device: DeviceRef) -> Option<Key> {
        if device.shard() != self.settings.shard {
            return None;
        }
        let conn = self.registry.at(device.key())?.conn()?;
        (conn == from).then_some(device.key())
    }

    /// Panics when an invariant does not hold. Visits all devices: not for a server at work.
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

    /// Panics when anything goes on: a push waits, an answer waits, a scan scans, a ticket is out.
    pub fn audit_idle(&self) {
        self.audit();
        assert_eq!((self.registry.online(), self.queues.sums()), (0, (0, 0)), "gauges");
        assert_eq!((self.waits.len(), self.scans.iter().count()), (0, 0), "answers and walks");
        assert_eq!(self.log.unsettled(), 0, "tickets and cleanups");
    }

    /// A record counts the calls that need it.
    fn audit_asked(&self, key: Key, asked: usize, reports: usize) {
        let of = |pending: &PendingCall| match pending {
            PendingCall::Keep(_, keys) => keys.iter().filter(|&&other| other == key).count(),
            PendingCall::Claim(claim) => claim.keys().filter(|&other| other == key).count(),
            PendingCall::Order(order) => match order.what {
                OrderWhat::Change(other, _) => usize::from(other == key),
                OrderWhat::Put(_) | OrderWhat::Drop(_) => 0,
            },
            _ => 0,
        };
        let reporting = |pending: &PendingCall| match pending {
            PendingCall::Report(waiting) => usize::from(waiting.key() == key),
            _ => 0,
        };
        assert_eq!(self.log.pending().map(of).sum::<usize>(), asked, "asked");
        let waiting: usize = self.log.pending().map(reporting).sum();
        assert_eq!(waiting, reports, "Reports that wait");
    }
}
