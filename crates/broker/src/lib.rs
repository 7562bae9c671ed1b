//! The rules of topics and sessions over one shard's part of them.
//!
//! A [`Broker`] is pure and synchronous: it gets the time as an argument, takes one request, peer
//! message, command, admission or completion, and returns in [`Effects`] the actions to take. It
//! does not know packets, sockets, files or clocks. Its invariants, checked by [`Broker::audit`]
//! and by tests:
//!
//! - A session has one connection; nothing that an older connection says has any effect.
//! - A message is acknowledged when it is on stable storage in every durable session that gets it
//!   at QoS 1 or 2.
//! - At most one copy of a message is in flight to a session, and the copy leaves the log when it
//!   ends.
//! - Every message that is not delivered is counted by its reason.
//!
//! The broker keeps its state in parts: each owns its state, has a small interface, and knows only
//! the other parts that it is handed. An operation over several parts is a method of the broker.
//!
//! Read `session` (connections and sessions), `message` (routing and delivery), `durable` (state
//! that outlives the process), `operations` (operators' commands).

mod durable;
mod encodings;
pub mod group;
pub mod later;
mod message;
mod operations;
mod peer_message;
pub mod retained;
pub mod rewrite;
pub mod routes;
mod service;
mod session;
mod units;

pub use durable::rows::owners_of_row;
pub use operations::Exclusives;
pub use peer_message::{
    Asker, GroupWhat, GroupWord, LastWanted, LateWord, MemberWord, OldPlace, PageWanted,
    PeerMessage, RestrictedMember, RetainedPage,
};
pub use units::UNITS_A_CALL_MAX;

use crate::durable::calls::LogCalls;
use crate::durable::entries::home_hash;
use crate::durable::restore::Restoring;
use crate::durable::sweep::Sweeps;
use crate::message::answers::Answers;
use crate::message::delayed::Delayed;
use crate::message::fan_out::FanOuts;
use crate::message::groups::{Groups, SHARE};
use crate::message::handover::Handovers;
use crate::message::packets::Packets;
use crate::message::queue::Totals;
use crate::message::replay::Replays;
use crate::message::route::routing::Routing;
use crate::message::subscriptions::Subscriptions;
use crate::retained::{Retained, RetainedRows};
use crate::rewrite::{AutoSubscribes, Rewrites};
use crate::session::admissions::Admissions;
use crate::session::endings::Endings;
use crate::session::record::Exchange;
use crate::session::rights::Rights;
use crate::session::sessions::Sessions;
use crate::session::timers::SessionTimers;
use crate::units::Units;
use base::hash::{HashKey, home};
use base::slab::Key;
use base::time::{Instant, Now, earliest};
use model::close::CloseReason;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::Limits;
use model::ports::access::Access;
use model::ports::lead::LeadProof;
use model::pressure::Pressure;
use model::session::{Drop, SessionDelivery, SessionRequest};
use std::sync::Arc;

/// Settings of a broker. Where `limits` speak of the process, it takes its shard's share.
#[derive(Clone)]
pub struct Settings {
    /// The shard it runs on.
    pub shard: ShardId,
    /// Number of shards.
    pub shards: u16,
    /// The limits in force.
    pub limits: Arc<Limits>,
    /// The process's key for tables.
    pub hash_key: HashKey,
    /// The key by which sessions and topics are at home on a shard: the same over restarts, and
    /// the key that chooses shards. A session's identity is `["mqtt", client identifier]`.
    pub home: HashKey,
    /// Permissions of clients.
    pub access: Arc<dyn Access>,
    /// Summary of the subscriptions of all shards, which they share: one a process.
    pub summary: Arc<routes::RouteSummary>,
    /// Filters that one session alone may have: one a process.
    pub exclusives: Arc<Exclusives>,
    /// Topics that are written otherwise.
    pub rewrites: Option<Arc<Rewrites>>,
    /// Subscriptions of every new session.
    pub auto_subscribes: Option<Arc<AutoSubscribes>>,
    /// The domain of those accounts without one whose devices clients are ([`CHAT_TOPICS`]);
    /// absent: they are nobody's.
    ///
    /// [`CHAT_TOPICS`]: model::chat::CHAT_TOPICS
    pub chat_domain: Option<Arc<str>>,
    /// For jitter.
    pub seed: u64,
    /// Random, and this broker's alone: the key of the identifiers that it gives clients.
    pub secrets: [u8; 32],
    /// Proof that this node leads its cluster.
    pub lead_proof: LeadProof,
}

impl Settings {
    /// The shard at which whatever has this hash is at home.
    pub(crate) fn shard_at(&self, home_hash: u64) -> ShardId {
        ShardId(home(home_hash, self.shards.max(1)))
    }

    /// The shard that owns a client's session.
    pub(crate) fn owner_of_session(&self, client_id: &str) -> ShardId {
        self.shard_at(home_hash(self.home, client_id))
    }

    /// The shard that owns a topic: what is retained there, and what is put by for it.
    pub(crate) fn owner_of_topic(&self, topic: &str) -> ShardId {
        self.shard_at(self.home.of(&[b"mqtt-topic", topic.as_bytes()]))
    }

    /// The shard that owns a shared group.
    pub(crate) fn owner_of_group(&self, filter: &str) -> ShardId {
        let rest = filter.strip_prefix(SHARE).unwrap_or(filter);
        let (group, plain) = rest.split_once('/').unwrap_or((rest, ""));
        self.shard_at(self.home.of(&[b"mqtt-share", group.as_bytes(), plain.as_bytes()]))
    }
}

/// A shard's shares of the process's limits.
struct Shares {
    sessions: usize,
    subscriptions: u64,
    retained: u32,
    retained_bytes: u64,
    delayed: u32,
    connects: u32,
    subscribes_bytes: u64,
    walks_bytes: u64,
    queues_bytes: u64,
    fan_outs_bytes: u64,
}

impl Shares {
    fn of(settings: &Settings) -> Shares {
        let (limits, shards) = (&settings.limits.topics, u64::from(settings.shards.max(1)));
        // Identities do not spread evenly: a little more than an even share.
        let share = |all: u64| if shards == 1 { all } else { all / shards + all / shards / 8 + 16 };
        Shares {
            sessions: share(limits.sessions_max.into()) as usize,
            subscriptions: share(limits.subscriptions_max),
            retained: share(limits.retained_max.into()).min(u32::MAX.into()) as u32,
            retained_bytes: share(limits.retained_bytes_max),
            delayed: share(limits.delayed_max.into()) as u32,
            connects: share(settings.limits.binds_per_s.into()) as u32,
            subscribes_bytes: share(limits.subscribes_bytes_max),
            walks_bytes: share(limits.retained_walks_bytes_max),
            queues_bytes: share(limits.queues_bytes_max),
            fan_outs_bytes: share(limits.fan_outs_bytes_max),
        }
    }
}

/// Effects that a broker wants.
pub type Effects = model::service::Effects<Broker>;

/// The broker of one shard.
pub struct Broker {
    settings: Settings,
    sessions: Sessions,
    subscriptions: Subscriptions,
    groups: Groups,
    handovers: Handovers,
    /// Queues that are read for what has expired.
    sweeps: Sweeps,
    retained: RetainedRows,
    delayed: Delayed,
    admissions: Admissions,
    rights: Rights,
    timers: SessionTimers,
    answers: Answers,
    /// Packets that are too long for one turn.
    packets: Packets,
    /// Sessions that ended with more than one turn can take away.
    endings: Endings,
    /// How much work a call is.
    units: Units,
    log: LogCalls,
    restoring: Restoring,
    replays: Replays,
    totals: Totals,
    routing: Routing,
    /// Messages that go to more than one turn can serve.
    fan_outs: FanOuts,
    pressure: Pressure,
}

impl Broker {
    /// A broker that knows no session.
    pub fn new(settings: Settings) -> Broker {
        let shares = Shares::of(&settings);
        let retained = Retained::new(settings.hash_key, shares.retained, shares.retained_bytes);
        Broker {
            sessions: Sessions::new(settings.hash_key, settings.home, shares.sessions),
            subscriptions: Subscriptions::new(&settings, shares.subscriptions),
            groups: Groups::default(),
            handovers: Handovers::default(),
            sweeps: Sweeps::default(),
            retained: RetainedRows::new(settings.home, retained),
            delayed: Delayed::new(settings.home, shares.delayed),
            admissions: Admissions::new(
                settings.hash_key,
                (settings.seed, settings.secrets),
                shares.connects,
            ),
            rights: Rights::new(settings.access.version()),
            timers: SessionTimers::default(),
            answers: Answers::new(),
            packets: Packets::new(shares.subscribes_bytes),
            endings: Endings::default(),
            units: Units::default(),
            log: LogCalls::default(),
            restoring: Restoring::default(),
            replays: Replays::new(shares.walks_bytes),
            totals: Totals::new(shares.queues_bytes),
            routing: Routing::new(&settings),
            fan_outs: FanOuts::new(settings.hash_key, shares.fan_outs_bytes),
            pressure: Pressure::default(),
            settings,
        }
    }

    /// A machine asks. A request of a connection that the session is not (or no longer) bound to
    /// changes nothing.
    pub fn request(&mut self, now: Now, from: ConnRef, word: SessionRequest, fx: &mut Effects) {
        self.units.begin();
        match word {
            SessionRequest::Connect(connect) => self.connect(now, from, connect, fx),
            SessionRequest::Proceed(proceed) => self.proceed(now, from, *proceed, fx),
            SessionRequest::Gone => self.gone(now, from, fx),
            SessionRequest::Publish { session, id, again, message } => {
                if let Some(key) = self.bound(from, session) {
                    self.publish_in(now, Exchange { session: key, id }, again, message, fx);
                }
            }
            SessionRequest::Release { session, id } => {
                if let Some(key) = self.bound(from, session) {
                    self.release_in(now, key, id, fx);
                }
            }
            SessionRequest::Acked { session, id, step } => {
                if let Some(key) = self.bound(from, session) {
                    self.acked(now, Exchange { session: key, id }, step, fx);
                }
            }
            SessionRequest::Subscribe(packet) => {
                if let Some(key) = self.bound(from, packet.session) {
                    self.subscribe(now, key, *packet, fx);
                }
            }
            SessionRequest::Unsubscribe(packet) => {
                if let Some(key) = self.bound(from, packet.session) {
                    self.unsubscribe(now, key, *packet, fx);
                }
            }
            SessionRequest::Ready { session } => {
                if let Some(key) = self.bound(from, session) {
                    self.ready(now, key, fx);
                }
            }
            SessionRequest::Dropped { session, count, why } => {
                if let Some(key) = self.bound(from, session) {
                    self.sessions.dropped(now, key, why, count.into(), fx);
                }
            }
            SessionRequest::Leave { session, with_will, expiry_s } => {
                if let Some(key) = self.bound(from, session) {
                    self.leave(now, key, with_will, expiry_s, fx);
                }
            }
            SessionRequest::Closed { session, reason } => {
                if let Some(key) = self.bound(from, session) {
                    self.detach(now, key, reason, fx);
                }
            }
        }
    }

    /// A delivery found its connection gone.
    pub fn undelivered(
        &mut self,
        now: Now,
        to: ConnRef,
        delivery: SessionDelivery,
        fx: &mut Effects,
    ) {
        match delivery {
            SessionDelivery::Connected(connected) => {
                if let Some(key) = self.bound(to, connected.session) {
                    self.detach(now, key, CloseReason::PeerClosed, fx);
                }
            }
            SessionDelivery::Publish(outgoing) if outgoing.id == 0 => {
                fx.counters.dropped(Drop::Offline, 1);
            }
            // All other deliveries to the connection are repeated when the client is back.
            _ => {}
        }
    }

    /// Goes on with whatever goes on, a slice of each, and says when it wants to be called again at
    /// the latest. To be called in every turn of the loop: removals from the log are gathered.
    pub fn turn(&mut self, now: Now, fx: &mut Effects) -> Option<Instant> {
        self.units.begin();
        let timers = self.turn_timers(now, fx);
        let packets = self.turn_packets(now, fx);
        let endings = self.turn_endings(now, fx);
        let fan_outs = self.turn_fan_outs(now, fx);
        let wills = self.turn_wills(now, fx);
        let renewal = self.turn_renewal(now, fx);
        let reachings = self.turn_reachings(now, fx);
        let later = self.turn_later(now, fx);
        let retained = self.turn_retained(now, fx);
        let replays = self.turn_replays(now, fx);
        let pages = self.turn_pages(now, fx);
        let bodies = self.turn_pulls(now, fx);
        let handovers = self.turn_handovers(now, fx);
        let retries = self.turn_retries(now, fx);
        let answers = self.turn_answers(now, fx);
        let unproved = self.turn_unproved(now, fx);
        self.turn_owed(now, fx);
        self.turn_removals(fx);
        let sessions = &self.sessions;
        let replaying = |key| sessions.more(key).is_some_and(|more| !more.replays.is_empty());
        let newcomers = self.replays.newcomers().turn(now, replaying);
        let grows = self.subscriptions.grow(4_096).then_some(now.mono);
        earliest([
            timers, wills, renewal, later, retained, replays, pages, bodies, handovers, retries,
            newcomers, grows, packets, endings, fan_outs, reachings, answers, unproved,
        ])
    }

    /// Bytes of notes about sessions that get retained messages.
    pub fn replays_bytes(&self) -> u64 {
        self.replays.bytes()
    }

    /// Units of work of the longest call so far; at most [`UNITS_A_CALL_MAX`].
    pub fn units_most(&self) -> usize {
        self.units.most()
    }

    /// Units of work of all calls so far.
    pub fn units_spent(&self) -> u64 {
        self.units.all()
    }

    /// Whether what clients publish goes out more slowly than it comes in: they, here and on other
    /// shards, had better be read no further until it is not.
    pub fn is_behind(&self) -> bool {
        self.fan_outs.are_behind()
    }

    /// Sets how short memory is.
    pub fn press(&mut self, pressure: Pressure) {
        self.pressure = pressure;
    }

    /// Sets new limits. Sessions and messages that exceed a lower limit stay.
    pub fn configure(&mut self, limits: &Arc<Limits>) {
        self.settings.limits = limits.clone();
        let shares = Shares::of(&self.settings);
        self.sessions.set_max(shares.sessions);
        self.subscriptions.set_max(shares.subscriptions);
        self.retained.set_max(shares.retained, shares.retained_bytes);
        self.delayed.set_max(shares.delayed);
        self.admissions.set_rate(shares.connects);
        self.packets.set_max(shares.subscribes_bytes);
        self.replays.newcomers().set_max(shares.walks_bytes);
        self.totals.set_max(shares.queues_bytes);
        self.fan_outs.set_max(shares.fan_outs_bytes);
    }

    /// The session's key, if it is bound to this connection.
    fn bound(&self, from: ConnRef, session: SessionRef) -> Option<Key> {
        if session.shard() != self.settings.shard {
            return None;
        }
        (self.sessions.conn(session.key())? == from).then_some(session.key())
    }
}
