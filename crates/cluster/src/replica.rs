//! One log on one node: copying, following, claiming, leading.
//!
//! ```text
//! Waiting → Copying → Following → Claiming → Fencing → Opening → Leading ⇄ isolated
//!              ↑ gap, damage ┘ ↑ refused, deposed ┘                 │
//!                              └─────────────── Leaving ◄───────────┘ deposed, asked
//! ```
//! The stream is the fence: a claim in the table says who tries, a Lead that counts says who leads.
//! So two claimants, or a table that goes back to older values, do no harm. A leader whose stream
//! forgot what it had acknowledged ends that stream and goes on with another generation, without
//! closing. It knows neither NATS nor the store: it gets events and gives commands.
//!
//! Invariant: [`LogCommand::Open`] comes only when the node's own Lead counts and its log has
//! everything that counts before it.

mod claiming;
mod fencing;
mod leading;
#[cfg(test)]
mod tests;

use crate::batch::{LogEnd, LogLeader, StreamBatch};
use crate::follow::{Follow, FollowStep};
use crate::node::{MajorityProof, PeerBeats};
use crate::own_log::OwnLog;
use crate::port::{ANSWER, Ask, ClosedBy, LogCommand, LogEvent, LogNotice, StreamError};
use crate::rules::Rule;
use crate::ship::{ShipRoute, Shipper};
use crate::wire::beat::{LogBeat, LogRole};
use crate::wire::message::LogName;
use crate::wire::table::LogEntry;
use base::time::{Instant, earliest};
pub use claiming::COPIES_LONGEST;
use claiming::Claim;
use fencing::Fencing;
use model::id::NodeId;
use std::time::Duration;

/// A copy that does not come is asked for again after so long.
const COPY: Duration = Duration::from_secs(20);

/// A node that has read the whole stream and is still behind the beats of others after this time
/// reads it anew, and then copies the log.
const BEHIND: Duration = Duration::from_secs(5);

/// A node to whose machine nothing happens for so long hung: it is ticked ten times a second.
const HUNG: Duration = Duration::from_secs(2);

/// A node's knowledge at the moment when something happens to one of its logs.
#[derive(Clone, Copy)]
pub struct NodeView<'a> {
    /// The time.
    pub now: Instant,
    /// The node's proof of a majority.
    pub proof: &'a MajorityProof,
    /// The last beats of the other nodes.
    pub peers: &'a PeerBeats,
    /// Disks that must have what is purged from the stream, 1 or 2.
    pub copies_min: usize,
}

/// One log on one node.
pub struct Replica {
    name: LogName,
    me: LogLeader,
    own: OwnLog,
    asks: Ask,
    /// The table's value and its revision.
    entry: Option<(u64, LogEntry)>,
    /// The highest generation that is known.
    generation: u32,
    /// The epoch of the own Lead.
    epoch: u32,
    phase: Phase,
    ship: Option<Shipper>,
    /// The log is served: by a leader, also while it begins a new generation.
    is_open: bool,
    is_isolated: bool,
    /// Time since which the table names another leader, while this one leads.
    unnamed: Option<Instant>,
    /// No claim before this time.
    quiet: Instant,
    /// Time since which the table names its present leader.
    named_since: Instant,
    /// Time since which the stream is known to lack what was acknowledged.
    forgot: Option<Instant>,
    behind: Behind,
    next_trim: Instant,
    next_look: Instant,
    /// When something happened last.
    last: Instant,
    is_failed: bool,
    is_told: bool,
    /// NATS had no room for what it was asked last, and it is asked again.
    is_refused: bool,
}

enum Phase {
    /// Without a value in the table, or not named in it.
    Waiting,
    Copying {
        ask: Ask,
        again: Instant,
    },
    Following {
        follow: Follow,
        since: Instant,
    },
    Claiming(Claim),
    Fencing(Fencing),
    Opening,
    Leading,
    Leaving {
        /// Time until which acknowledgements may still come; nothing is written any more.
        until: Option<Instant>,
    },
}

/// How a follower compares with what others tell.
#[derive(Clone, Copy, Default)]
struct Behind {
    since: Option<Instant>,
    has_reread: bool,
}

impl Replica {
    /// The log `name` on a node that has this copy of it.
    pub fn new(name: LogName, me: LogLeader, own: OwnLog) -> Replica {
        Replica {
            name,
            me,
            own,
            asks: 0,
            entry: None,
            generation: 0,
            epoch: 0,
            phase: Phase::Waiting,
            ship: None,
            is_open: false,
            is_isolated: false,
            unnamed: None,
            quiet: Instant::default(),
            named_since: Instant::default(),
            forgot: None,
            behind: Behind::default(),
            next_trim: Instant::default(),
            next_look: Instant::default(),
            last: Instant::default(),
            is_failed: false,
            is_told: false,
            is_refused: false,
        }
    }

    /// The node's own copy.
    pub fn own(&self) -> &OwnLog {
        &self.own
    }

    /// Whether the node thinks that it leads: it takes what clients want to be stored.
    pub fn leads(&self, view: &NodeView<'_>) -> bool {
        matches!(self.phase, Phase::Leading) && !self.is_isolated(view)
    }

    /// Whether a leader has no proof of a majority: it takes no new sessions that last.
    pub fn is_isolated(&self, view: &NodeView<'_>) -> bool {
        self.is_open && (self.is_isolated || self.is_cut_off(view))
    }

    /// Whether the node's last proof of a majority is too old to lead by.
    fn is_cut_off(&self, view: &NodeView<'_>) -> bool {
        view.proof.is_lost(view.now) && Rule::Isolation.holds()
    }

    /// Whether the stream accepts no more: it is full by this node's own count, or NATS has no room
    /// for a message or for the stream of a new generation. New writes are refused before they are
    /// on the disk. The replica keeps publishing what is on the disk, and so detects free room.
    pub fn is_full(&self) -> bool {
        self.is_refused || self.ship.as_ref().is_some_and(Shipper::is_full)
    }

    /// The leader that the table names.
    pub fn named(&self) -> Option<LogLeader> {
        self.entry.as_ref().and_then(|(_, entry)| entry.leader)
    }

    /// The state of this replica for beats and for answers to other copies.
    pub fn beat(&self) -> LogBeat {
        let role = match self.phase {
            Phase::Waiting | Phase::Copying { .. } => LogRole::Absent,
            Phase::Following { .. } | Phase::Leaving { .. } => LogRole::Following,
            // Else a node that asks and gives way again and again keeps from claiming who has more.
            Phase::Claiming(ref claim) if !claim.is_set() => LogRole::Following,
            Phase::Claiming(_) | Phase::Opening => LogRole::Claiming,
            Phase::Fencing(_) if !self.is_open => LogRole::Claiming,
            Phase::Fencing(_) | Phase::Leading => LogRole::Leading,
        };
        LogBeat {
            log: self.name.log,
            role,
            generation: self.generation,
            epoch: self.own.end().epoch,
            index: self.own.acknowledged(),
            synced: self.own.synced(),
        }
    }

    /// When it wants to be ticked, beside each second.
    pub fn deadline(&self) -> Option<Instant> {
        earliest([self.ship.as_ref().and_then(Shipper::deadline)])
    }

    /// Handles an event.
    pub fn on(&mut self, view: &NodeView<'_>, event: LogEvent, out: &mut Vec<LogCommand>) {
        let now = view.now;
        if now.since(std::mem::replace(&mut self.last, now)) >= HUNG {
            // Beats that waited meanwhile tell of disks as they were.
            self.next_trim = now + leading::BEATS;
            self.look_after_silence(now, out);
        }
        match event {
            LogEvent::Tick => self.tick(view, out),
            LogEvent::Table { revision, entry } => self.table(view, revision, entry, out),
            LogEvent::Published { generation, number, result } => {
                self.ship(out, |ship, out| {
                    if ship.generation() == generation {
                        ship.published(now, number, result, out);
                    }
                });
                self.ending_published(view, generation, number, result, out);
                self.note_room(&result.map(|_| ()));
            }
            LogEvent::Read { ask, result } => {
                self.ship(out, |ship, out| ship.read(now, ask, result.clone(), out));
                self.read(view, ask, result, out);
            }
            LogEvent::Created { ask, result } => {
                self.note_room(&result);
                if result.is_ok() {
                    self.created(view, ask, out);
                }
            }
            LogEvent::Claimed { ask, revision } => self.claimed(view, ask, revision, out),
            LogEvent::CopyState { ask, node, state } => {
                self.copy_state(view, (ask, node, state), out);
            }
            LogEvent::Synced { index } => self.own.sync(index),
            LogEvent::LogRead { ask, batches } => self.log_read(view, ask, batches, out),
            LogEvent::Copied { ask, log } => self.copied(view, ask, log, out),
            LogEvent::Opened => {
                if matches!(self.phase, Phase::Opening) {
                    self.phase = Phase::Leading;
                }
            }
            LogEvent::Closed => {
                if let Phase::Leaving { until } = &mut self.phase {
                    (*until, self.is_open) = (Some(now + ANSWER), false);
                }
            }
            LogEvent::Written { batch } => self.written(now, batch, out),
            LogEvent::LogFailed => {
                self.is_failed = true;
                let is_leaving = matches!(self.phase, Phase::Leaving { .. });
                match self.is_open {
                    _ if is_leaving => {} // it closes already
                    true => self.close(now, ClosedBy::LogFailed, out),
                    false => self.wait(),
                }
            }
        }
        self.look_at_ship(view, out);
    }

    fn tick(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let now = view.now;
        self.ship(out, |ship, out| ship.tick(now, out));
        match &mut self.phase {
            Phase::Waiting => self.begin(view, out),
            // The stream may go on where the log ends by now.
            Phase::Copying { again, .. } if now >= *again => self.follow(now),
            Phase::Copying { .. } | Phase::Opening => {}
            Phase::Following { follow, .. } => {
                follow.tick(now, out);
                self.look_behind(view, out);
                self.suspect(view, out);
            }
            Phase::Claiming(_) => self.tick_claim(view, out),
            Phase::Fencing(_) => self.tick_fencing(view, out),
            Phase::Leading => self.tick_leading(view, out),
            Phase::Leaving { until } => {
                let is_idle = self.ship.as_ref().is_none_or(Shipper::is_idle);
                if until.is_some_and(|until| is_idle || now >= until) {
                    self.ship = None;
                    self.follow(now);
                }
            }
        }
    }

    /// NATS took something of this log, or has no room for it.
    fn note_room(&mut self, result: &Result<(), StreamError>) {
        match result {
            Ok(()) => self.is_refused = false,
            // Of what is settled by now it is no news, and nothing more would be asked.
            Err(StreamError::Full) => {
                let waits = self.ship.as_ref().is_some_and(|ship| !ship.is_idle());
                self.is_refused |= waits || matches!(self.phase, Phase::Fencing(_));
            }
            Err(_) => {}
        }
    }

    /// Runs the ship, and takes what it acknowledged into account.
    fn ship(
        &mut self,
        out: &mut Vec<LogCommand>,
        run: impl FnOnce(&mut Shipper, &mut Vec<LogCommand>),
    ) {
        let Some(ship) = &mut self.ship else { return };
        let before = out.len();
        run(ship, out);
        for command in &mut out[before..] {
            if let LogCommand::Release { index } = *command {
                self.own.acknowledge(index);
                self.is_refused = false;
                if !self.is_open {
                    *command = LogCommand::Mark { index: self.own.acknowledged() };
                }
            }
        }
    }

    fn table(
        &mut self,
        view: &NodeView<'_>,
        revision: u64,
        entry: Option<LogEntry>,
        out: &mut Vec<LogCommand>,
    ) {
        let before = self.named();
        self.entry = entry.map(|entry| (revision, entry));
        if self.named() != before {
            self.named_since = view.now;
        }
        let named = self.entry.as_ref().map_or(0, |(_, entry)| entry.generation);
        if named > self.generation && !self.is_open {
            self.follow_generation(view.now, named);
        }
        self.look_at_entry(view, out);
    }

    /// The table names a later generation.
    fn follow_generation(&mut self, now: Instant, named: u32) {
        let is_fencing = matches!(self.phase, Phase::Fencing(_));
        if is_fencing && self.is_named() {
            return; // its own claim: the answer comes
        }
        (self.generation, self.forgot) = (named, None);
        match self.phase {
            Phase::Following { .. } => self.follow(now),
            // What was read and shipped is of the generation before.
            Phase::Fencing(_) if Rule::FollowTheGeneration.holds() => self.give_way(now),
            _ => {}
        }
    }

    /// Whether the table names this node under its claim. A leader that took its name back stands
    /// there under the epoch of the claim in between.
    fn is_named(&self) -> bool {
        let entry = self.entry.as_ref().map(|(_, entry)| entry);
        let is_claim = |entry: &LogEntry| self.is_open || entry.epoch == self.epoch;
        entry.is_some_and(|entry| entry.leader == Some(self.me) && is_claim(entry))
    }

    /// Begins to follow, if the table names this node.
    fn begin(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        if self.is_failed {
            return;
        }
        match &self.entry {
            Some((_, entry)) if entry.copies().any(|node| node == self.me.node) => {
                self.follow(view.now);
            }
            Some(_) => {}
            None if !Rule::EmptyTableIsNoBeginning.holds() => {
                let followers = vec![self.me.node];
                let entry = LogEntry { generation: 1, followers, ..LogEntry::default() };
                self.entry = Some((0, entry));
                self.generation = 1;
            }
            None if !self.is_told => {
                self.is_told = true;
                out.push(LogCommand::Tell(LogNotice::WaitsForRecover));
            }
            None => {}
        }
    }

    fn wait(&mut self) {
        (self.phase, self.ship, self.is_refused) = (Phase::Waiting, None, false);
    }

    /// Reads the stream from its beginning.
    fn follow(&mut self, since: Instant) {
        if self.is_failed {
            return self.wait();
        }
        let ask = self.next_asks();
        let follow = Follow::begin(self.name, self.generation, ask, false);
        (self.behind.since, self.is_refused) = (None, false);
        self.phase = Phase::Following { follow, since };
    }

    /// Asks for the log of the leader, or of the copy that is furthest.
    fn copy(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let own = (self.own.end().epoch, self.own.end().index);
        let others = self.others(view).filter(|(_, told)| {
            let leads = told.role == LogRole::Leading && told.epoch >= own.0;
            leads || (told.epoch, told.index) > own
        });
        let best =
            others.max_by_key(|(_, told)| (told.role == LogRole::Leading, told.epoch, told.index));
        let best = best.map(|(node, _)| node);
        let again = view.now + if best.is_some() { COPY } else { Duration::from_secs(1) };
        self.asks += 1;
        self.phase = Phase::Copying { ask: self.asks, again };
        if let Some(from) = best {
            out.push(LogCommand::Copy { ask: self.asks, from, have: self.own.end() });
        }
    }

    /// The copies from which their nodes could lead, of those that were heard lately.
    fn others(&self, view: &NodeView<'_>) -> impl Iterator<Item = (NodeId, LogBeat)> {
        self.heard(view).filter(|(_, told)| told.role.has_copy())
    }

    /// The log as the other nodes told of it within the last seconds.
    fn heard(&self, view: &NodeView<'_>) -> impl Iterator<Item = (NodeId, LogBeat)> {
        let (now, me) = (view.now, self.me.node);
        view.peers.logs(self.name.log).filter_map(move |(node, at, told)| {
            let is_lately = now.since(at) < Duration::from_secs(3);
            (node != me && is_lately).then_some((node, told))
        })
    }

    fn copied(
        &mut self,
        view: &NodeView<'_>,
        ask: Ask,
        log: Option<(OwnLog, u64)>,
        out: &mut Vec<LogCommand>,
    ) {
        let Phase::Copying { ask: asked, again } = &mut self.phase else { return };
        if *asked != ask {
            return;
        }
        let Some((own, kept)) = log else {
            *again = view.now + Duration::from_secs(1);
            return;
        };
        let (first, last) = (kept + 1, self.own.acknowledged());
        if first <= last {
            out.push(LogCommand::Tell(LogNotice::AcknowledgedLost { first, last }));
        }
        self.own = own;
        self.behind = Behind::default();
        self.follow(view.now);
    }

    fn read(
        &mut self,
        view: &NodeView<'_>,
        ask: Ask,
        result: Result<crate::port::StreamPage, crate::port::StreamError>,
        out: &mut Vec<LogCommand>,
    ) {
        match &mut self.phase {
            Phase::Following { follow, .. } => {
                let step = follow.read(view.now, (ask, result), &mut self.own, out);
                if step == Some(FollowStep::Gap) {
                    self.copy(view, out);
                }
            }
            Phase::Fencing(_) => self.fencing_read(view, ask, result, out),
            _ => {}
        }
    }

    /// A node that stays behind the acknowledged index in the beats of others has missed a batch.
    fn look_behind(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let told = self.others(view).map(|(_, told)| (told.epoch, told.index)).max();
        if told <= Some(self.own.end().progress()) {
            self.behind = Behind::default();
            return;
        }
        let since = *self.behind.since.get_or_insert(view.now);
        if view.now.since(since) < BEHIND {
            return;
        }
        match self.behind.has_reread {
            true => self.copy(view, out),
            false => {
                let since = match &self.phase {
                    Phase::Following { since, .. } => *since,
                    _ => view.now,
                };
                self.follow(since);
                self.behind.has_reread = true;
            }
        }
    }

    /// The highest acknowledged index that others ever told, of those whose epoch is the own one's
    /// or later.
    fn told(&self, view: &NodeView<'_>) -> u64 {
        let epoch = self.own.end().epoch;
        let others = view.peers.logs(self.name.log);
        let others = others.filter(|(node, _, told)| {
            *node != self.me.node && told.epoch >= epoch && told.role != LogRole::Absent
        });
        others.map(|(_, _, told)| told.index).max().unwrap_or(0)
    }

    /// A number behind which a reading may count its own questions.
    fn next_asks(&mut self) -> Ask {
        self.asks += 1 << 20;
        self.asks
    }

    fn route(&self) -> ShipRoute {
        ShipRoute { name: self.name, by: self.me, generation: self.generation }
    }

    fn lead(&self, at: LogEnd) -> StreamBatch {
        StreamBatch::lead(at, self.epoch, self.me)
    }
}
