//! The rules of topics and sessions over one shard's part of them.
//!
//! A [`Broker`] is pure and synchronous: it is told the time, takes one request, peer message,
//! command, admission or completion, and says in [`Effects`] what is to be done. It knows no
//! packet, socket, file or clock. Its invariants, looked at by [`Broker::audit`] and by tests:
//!
//! - One connection a session; what an older one says changes nothing.
//! - An answer that says "taken" is given when the message is on stable storage, wherever a session
//!   that outlives its connection wants it at QoS 1 or 2.
//! - A message is in at most one copy on its way to a session, and leaves the log when it is over.
//! - Every message that is not delivered is counted under its reason.
//!
//! Read `session` (who is here), `message` (what goes from one to the other), `durable` (what
//! outlives the process), `operations` (what operators want).

mod durable;
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

pub use durable::restore::home_of;
pub use operations::Exclusives;
pub use peer_message::{
    Asker, GroupWhat, GroupWord, LastWanted, LateWord, MemberWord, OldPlace, PageWanted,
    PeerMessage, RestrictedMember, RetainedPage,
};
pub use units::UNITS_A_CALL_MAX;

use crate::durable::restore::Restoring;
use crate::durable::retaining::Retainings;
use crate::durable::retries::Retries;
use crate::durable::tickets::Tickets;
use crate::later::Later;
use crate::message::after::After;
use crate::message::fan_out::FanOuts;
use crate::message::filters::{Filters, Hits};
use crate::message::handover::Handovers;
use crate::message::late::Asked;
use crate::message::newcomers::Newcomers;
use crate::message::packets::{GRANTINGS_MAX, Granting, Packets};
use crate::message::peer_messages::Outgoing;
use crate::message::publish::Deferred;
use crate::message::queue::Totals;
use crate::message::shared::Groups;
use crate::message::waits::{WAITS_MAX, Wait};
use crate::retained::Retained;
use crate::rewrite::{AutoSubscribes, Rewrites};
use crate::session::access::Askings;
use crate::session::allowed::Allowed;
use crate::session::ending::Endings;
use crate::session::principals::Principals;
use crate::session::reach::Reachings;
use crate::session::registry::Registry;
use crate::session::renew::Renewal;
use crate::session::timers::Late;
use crate::session::will::Wills;
use crate::units::Units;
use base::hash::HashKey;
use base::pace::AdmissionPace;
use base::prng::Prng;
use base::slab::{Key, Slab};
use base::time::{Instant, Now};
use base::wheel::Timers;
use model::close::CloseReason;
use model::id::{ConnRef, SessionRef, ShardId};
use model::limits::Limits;
use model::ports::access::Access;
use model::presence::VersionClock;
use model::pressure::Pressure;
use model::session::{Drop, SessionDelivery, SessionRequest};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Settings of a broker. Where `limits` speak of the process, it takes its shard's share.
#[derive(Clone)]
pub struct Settings {
    /// The shard it runs on.
    pub shard: ShardId,
    /// How many there are.
    pub shards: u16,
    /// The limits in force.
    pub limits: Arc<Limits>,
    /// The process's key for tables.
    pub hash_key: HashKey,
    /// The key by which sessions and topics are at home on a shard: the same over restarts, and
    /// the key that chooses shards. A session's identity is `["mqtt", client identifier]`.
    pub home: HashKey,
    /// Who may do what.
    pub access: Arc<dyn Access>,
    /// What all shards know of each other's subscriptions: one a process.
    pub summary: Arc<routes::RouteSummary>,
    /// Filters that one session alone may have: one a process.
    pub exclusives: Arc<Exclusives>,
    /// Topics that are written otherwise.
    pub rewrites: Option<Arc<Rewrites>>,
    /// What every new session is subscribed to.
    pub auto_subscribes: Option<Arc<AutoSubscribes>>,
    /// For identifiers that are given to clients, and for jitter.
    pub seed: u64,
}

/// Effects that a broker wants.
pub type Effects = model::service::Effects<Broker>;

/// The broker of one shard.
pub struct Broker {
    settings: Settings,
    sessions: Registry,
    principals: Principals,
    filters: Filters,
    groups: Groups,
    handovers: Handovers,
    retained: Retained,
    /// Topics whose rows the log has not answered.
    retainings: Retainings,
    later: Later,
    pace: AdmissionPace,
    askings: Askings,
    late: Late,
    renewal: Renewal,
    reachings: Reachings,
    allowed: Allowed,
    timers: Timers,
    rng: Prng,
    /// Answers that wait for logs and other shards.
    waits: Slab<Wait>,
    /// Messages of QoS 2 that other shards get when they are marked here.
    deferred: BTreeMap<(Key, u16), Deferred>,
    /// What is done when waits of the broker's own are over.
    afterwards: BTreeMap<Key, After>,
    /// Answers to subscribers that wait for rows.
    grantings: Slab<Granting>,
    /// Packets that are too long for one turn.
    packets: Packets,
    /// Sessions that ended with more than one turn can take away.
    endings: Endings,
    /// How much work a call is.
    units: Units,
    /// Sessions whose clients are not told yet that they are connected.
    welcomes: BTreeMap<ConnRef, Key>,
    /// Identifiers that were given and are not in use yet.
    assigned: BTreeSet<Box<str>>,
    /// How often each client came in this window of time, by hash.
    flap_counts: BTreeMap<u64, u16>,
    flap_window: u32,
    tickets: Tickets,
    retries: Retries,
    restoring: Restoring,
    /// Places that are over, to be removed from the log in batches.
    removals: Vec<(Key, u64)>,
    /// Sessions that wait for bodies which could not be read.
    pullers: Vec<(Instant, Key)>,
    /// Sessions whose replays took enough for one turn.
    walkers: VecDeque<Key>,
    newcomers: Newcomers,
    asked: Asked,
    /// The number of the last page of retained messages that was asked for.
    last_page: u32,
    outgoing: Outgoing,
    /// Receipts that this shard owes itself: peer messages that were given up, sessions that went.
    refusals: Vec<PeerMessage>,
    wills: Wills,
    totals: Totals,
    /// The last publisher, and what stands for it.
    publisher: (Option<Key>, u64),
    last_id: u64,
    hits: Hits,
    /// Messages that go to more than one turn can serve.
    fan_outs: FanOuts,
    versions: VersionClock,
    online: u64,
    /// Shared subscriptions of all sessions.
    shares: u64,
    sessions_max: usize,
    subscriptions_max: u64,
    queues_bytes_max: u64,
    subscribes_bytes_max: u64,
    log_failed: bool,
    draining: bool,
    pressure: Pressure,
}

impl Broker {
    /// A broker that knows no session.
    pub fn new(settings: Settings) -> Broker {
        let limits = &settings.limits.topics;
        let shards = u64::from(settings.shards.max(1));
        // Identities do not spread evenly: a little more than an even share.
        let share = |all: u64| if shards == 1 { all } else { all / shards + all / shards / 8 + 16 };
        let sessions_max = share(limits.sessions_max.into()) as usize;
        let retained_max = share(limits.retained_max.into()).min(u32::MAX.into()) as u32;
        let retained_bytes_max = share(limits.retained_bytes_max);
        let connects = share(settings.limits.binds_per_s.into()) as u32;
        Broker {
            sessions: Registry::new(settings.hash_key, sessions_max),
            principals: Principals::default(),
            filters: Filters::new(&settings.summary, settings.shard),
            groups: Groups::default(),
            handovers: Handovers::default(),
            retained: Retained::new(settings.hash_key, retained_max, retained_bytes_max),
            retainings: Retainings::default(),
            later: Later::new(share(limits.delayed_max.into()) as u32),
            pace: AdmissionPace::new(connects),
            askings: Askings::default(),
            late: Late::default(),
            reachings: Reachings::default(),
            renewal: Renewal::of(settings.access.version()),
            allowed: Allowed::new(settings.hash_key),
            timers: Timers::default(),
            rng: Prng::new(settings.seed),
            waits: Slab::new(WAITS_MAX),
            deferred: BTreeMap::new(),
            afterwards: BTreeMap::new(),
            grantings: Slab::new(GRANTINGS_MAX),
            packets: Packets::default(),
            endings: Endings::default(),
            units: Units::default(),
            welcomes: BTreeMap::new(),
            assigned: BTreeSet::new(),
            flap_counts: BTreeMap::new(),
            flap_window: 0,
            tickets: Tickets::default(),
            retries: Retries::default(),
            restoring: Restoring::default(),
            removals: Vec::new(),
            pullers: Vec::new(),
            walkers: VecDeque::new(),
            newcomers: Newcomers::new(share(limits.retained_walks_bytes_max)),
            asked: Asked::default(),
            last_page: 0,
            outgoing: Outgoing::default(),
            refusals: Vec::new(),
            wills: Wills::default(),
            totals: Totals::default(),
            publisher: (None, 0),
            last_id: 0,
            hits: Hits::default(),
            fan_outs: FanOuts::new(settings.hash_key, share(limits.fan_outs_bytes_max)),
            versions: VersionClock::default(),
            online: 0,
            shares: 0,
            sessions_max,
            subscriptions_max: share(limits.subscriptions_max),
            queues_bytes_max: share(limits.queues_bytes_max),
            subscribes_bytes_max: share(limits.subscribes_bytes_max),
            log_failed: false,
            draining: false,
            pressure: Pressure::default(),
            settings,
        }
    }

    /// A machine asks. What comes from a connection that the session is not (or no longer) bound to
    /// changes nothing.
    pub fn request(&mut self, now: Now, from: ConnRef, word: SessionRequest, fx: &mut Effects) {
        self.units.begin();
        match word {
            SessionRequest::Connect(connect) => self.connect(now, from, connect, fx),
            SessionRequest::Proceed(proceed) => self.proceed(now, from, *proceed, fx),
            SessionRequest::Gone => self.gone(now, from, fx),
            SessionRequest::Publish { session, id, again, message } => {
                if let Some(key) = self.bound(from, session) {
                    self.publish_in(now, key, (id, again, message), fx);
                }
            }
            SessionRequest::Release { session, id } => {
                if let Some(key) = self.bound(from, session) {
                    self.release_in(now, key, id, fx);
                }
            }
            SessionRequest::Acked { session, id, step } => {
                if let Some(key) = self.bound(from, session) {
                    self.acked(now, key, (id, step), fx);
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
                    self.dropped(now, key, (why, count.into()), fx);
                }
            }
            SessionRequest::Leave { session, with_will, expiry_s } => {
                if let Some(key) = self.bound(from, session) {
                    self.leave(now, key, (with_will, expiry_s), fx);
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
            // What else was meant for the connection is said again when the client is back.
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
        let bodies = self.turn_bodies(now, fx);
        let handovers = self.turn_handovers(now, fx);
        let retries = self.turn_retries(now, fx);
        let peer_messages = self.turn_peer_messages(now, fx);
        self.turn_removals(fx);
        let newcomers = self.turn_newcomers(now);
        let grows = self.filters.grow(4_096).then_some(now.mono);
        let all = [timers, wills, renewal, later, retained, replays, bodies, handovers];
        let rest =
            [retries, peer_messages, newcomers, grows, packets, endings, fan_outs, reachings];
        all.into_iter().chain(rest).flatten().min()
    }

    /// Bytes of what is noted of those who get retained messages.
    pub fn replays_bytes(&self) -> u64 {
        self.newcomers.bytes()
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

    /// From now on memory is so short.
    pub fn press(&mut self, pressure: Pressure) {
        self.pressure = pressure;
    }

    /// From now on clients are told that the server is going.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// The session's key, if it is bound to this connection.
    fn bound(&self, from: ConnRef, session: SessionRef) -> Option<Key> {
        if session.shard() != self.settings.shard {
            return None;
        }
        let conn = self.sessions.at(session.key())?.conn()?;
        (conn == from).then_some(session.key())
    }
}
