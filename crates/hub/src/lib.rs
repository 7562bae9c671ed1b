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
//! Read `registry/device` and `registry/queue` first, then `session` (Binds), `push` (it finds its
//! place), `delivery` (it goes out and is acknowledged), `log` (it is kept, and comes back),
//! `fanout` and `orders` (many devices).

mod access;
mod audit;
mod control;
mod delivery;
mod fanout;
mod jobs;
mod log;
mod orders;
mod push;
mod query;
mod registry;
mod reports;
mod service;
mod session;
mod sweep;
mod waits;

pub use log::durable::{decode_event, encode_event, home_of, home_parts, timeline_of};
pub use orders::{OrderMessage, StoredOrder, order_home};
pub use reports::ReportHook;

use crate::access::Access;
use crate::access::replay::Replay;
use crate::fanout::DeviceScan;
use crate::jobs::Jobs;
use crate::log::cleanup::CleanupTask;
use crate::log::epochs::Epochs;
use crate::log::keep::Keeping;
use crate::log::restore::Restoring;
use crate::log::rows::Rows;
use crate::log::tickets::Tickets;
use crate::registry::Registry;
use crate::registry::tags::Tags;
use crate::sweep::Sweep;
use crate::waits::Waits;
use base::hash::HashKey;
use base::pace::AdmissionPace;
use base::prng::Prng;
use base::slab::Key;
use base::time::{Instant, Now};
use base::wheel::Timers;
use model::event::{DeviceEvent, DeviceWhat};
use model::id::{ConnRef, DeviceRef, ProductKey, ShardId};
use model::limits::Limits;
use model::ports::calls::RetryQueue;
use model::ports::control::Status;
use model::presence::PresenceVersion;
use model::pressure::Pressure;
use model::product::Product;
use model::request::PushRequest;
use std::collections::{BTreeMap, VecDeque};
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
    /// Secret under which session tokens, bearer tokens and challenges are made: the same on every
    /// shard, and over restarts if bearer tokens are to outlive them.
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

/// Effects that a hub wants.
pub type Effects = model::service::Effects<Hub>;

/// The hub of one shard.
pub struct Hub {
    settings: Settings,
    registry: Registry,
    access: Access,
    pace: AdmissionPace,
    tags: Tags,
    tickets: Tickets,
    keeping: Keeping,
    rows: Rows,
    cleanups: RetryQueue<CleanupTask>,
    epochs: Epochs,
    restoring: Restoring,
    waits: Waits,
    jobs: Jobs,
    scans: VecDeque<DeviceScan>,
    resends: Timers,
    sweep: Sweep,
    rng: Prng,
    /// What each product is by configuration, as a hash.
    configured: BTreeMap<ProductKey, u64>,
    /// The highest push id that was restored.
    last_id: u64,
    /// The log takes nothing more until a restart.
    log_failed: bool,
    online: u64,
    waiting: u64,
    waiting_bytes: u64,
    draining: bool,
    pressure: Pressure,
}

impl Hub {
    /// A hub that knows no product and no device.
    pub fn new(settings: Settings) -> Hub {
        Hub {
            registry: Registry::new(settings.hash_key, settings.devices_max),
            access: Access::new(&settings.node_secret, settings.hash_key, Replay::NONCES_MAX),
            pace: AdmissionPace::new(settings.binds_per_s),
            tags: Tags::default(),
            tickets: Tickets::default(),
            keeping: Keeping::default(),
            rows: Rows::default(),
            cleanups: RetryQueue::default(),
            epochs: Epochs::default(),
            restoring: Restoring::default(),
            waits: Waits::default(),
            jobs: Jobs::new(settings.limits.jobs_max as usize),
            scans: VecDeque::new(),
            resends: Timers::default(),
            sweep: Sweep::default(),
            rng: Prng::new(settings.seed),
            configured: BTreeMap::new(),
            last_id: 0,
            log_failed: false,
            online: 0,
            waiting: 0,
            waiting_bytes: 0,
            draining: false,
            pressure: Pressure::default(),
            settings,
        }
    }

    /// Takes a product from configuration: known at once, not in the log. False when there are too
    /// many. A product with the same key is replaced, so what is installed last holds.
    ///
    /// A configuration that says what it said before changes nothing: of it and the API the one
    /// holds that spoke last.
    pub fn install(&mut self, product: Arc<Product>) -> bool {
        let base = self.base_of(&product);
        let known = self.registry.products.number(&product.key).is_some();
        if known && self.configured.get(&product.key) == Some(&base) {
            return true;
        }
        self.configured.insert(product.key.clone(), base);
        self.registry.products.put(product).is_some()
    }

    /// Products that are configured, and of which the API said later that they are otherwise.
    pub fn changed_since_configured(&self) -> Vec<ProductKey> {
        let products = self.registry.products.all();
        let changed = products.filter(|product| {
            let base = self.configured.get(&product.key);
            base.is_some_and(|base| *base != self.base_of(product))
        });
        changed.map(|product| product.key.clone()).collect()
    }

    /// A hash of what is configured, never zero.
    fn base_of(&self, product: &Product) -> u64 {
        self.settings.home.of(&[&log::durable::product::encode(product, 0)]).max(1)
    }

    /// A machine asks. What comes from a connection that the device is not (or no longer) bound to
    /// changes nothing.
    pub fn request(&mut self, now: Now, from: ConnRef, request: PushRequest, fx: &mut Effects) {
        match request {
            PushRequest::Bind(bind) => self.bind(now, from, *bind, fx),
            PushRequest::Unbind { term, device } => self.unbind(now, (from, term), device, fx),
            PushRequest::Ack { device, upto, ids } => {
                if let Some(key) = self.bound(from, device) {
                    self.acknowledge(now, key, (upto, ids), fx);
                }
            }
            PushRequest::Unsendable { device, id, why } => {
                if let Some(key) = self.bound(from, device) {
                    self.unsendable(now, key, (id, why), fx);
                }
            }
            PushRequest::Pull { term: _, device, after, count } => {
                if let Some(key) = self.bound(from, device) {
                    self.pull(now, key, (after, count), fx);
                }
            }
            PushRequest::Report { term: _, device, seq, body } => {
                if let Some(key) = self.bound(from, device) {
                    self.report(now, key, (seq, body), fx);
                }
            }
            PushRequest::Written { device } => {
                if let Some(key) = self.bound(from, device) {
                    self.written(now, key, fx);
                }
            }
            PushRequest::Closed { device, reason } => {
                if let Some(key) = self.bound(from, device) {
                    self.detach(now, key, reason, fx);
                }
            }
        }
    }

    /// Goes on with whatever goes on: fan-outs, resends, answers whose time has come, the sweep.
    /// Does a slice of each and says when it wants to be called again at the latest; `now` means
    /// that there is more. Also to be called after a batch of completions.
    pub fn turn(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        let waits = self.turn_waits(now, fx);
        let resends = self.turn_resends(now, fx);
        let scans = self.turn_scans(now, fx);
        let orders = self.turn_orders(now, fx);
        let cleanups = self.turn_cleanups(now, fx);
        let sweep = self.turn_sweep(now, fx);
        [waits, resends, scans, orders, cleanups, sweep].into_iter().flatten().min()
    }

    /// From now on memory is so short.
    pub fn press(&mut self, pressure: Pressure) {
        self.pressure = pressure;
    }

    /// From now on Binds are told that the server is going, and every turn writes rows until none
    /// is [unwritten](Hub::unwritten).
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Gauges of this shard.
    pub fn status(&self) -> Status {
        Status {
            devices: self.registry.len() as u64,
            online: self.online,
            waiting: self.waiting,
            waiting_bytes: self.waiting_bytes,
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

    /// Tells what happened to a device, if anybody listens.
    fn event(&self, now: Now, key: Key, what: impl FnOnce() -> DeviceWhat, fx: &mut Effects) {
        if !fx.events_wanted {
            return;
        }
        let (Some(device), Some(names)) = (self.registry.at(key), self.registry.names(key)) else {
            return;
        };
        let (product, id) = names;
        let (at_ms, epoch, what) = (now.wall_ms, device.epoch, what());
        let version = match what {
            DeviceWhat::Online { .. } | DeviceWhat::Offline { .. } => {
                device.version(self.settings.shard)
            }
            DeviceWhat::Report { .. } | DeviceWhat::Pushed { .. } => PresenceVersion::default(),
        };
        fx.tell(DeviceEvent { at_ms, product, device: id, epoch, version, what });
    }
}
