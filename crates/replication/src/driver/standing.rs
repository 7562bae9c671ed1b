//! How the node stands: who leads, the status, and what is asked of NATS for it.

use super::{Driver, Serving};
use crate::one_node::FIRST;
use crate::status::{ClusterStatus, LogStatus, NodeStatus};
use crate::turn::{ClusterNotice, LeaderAddress, Turn};
use base::time::Instant;
use cluster::wire::beat::LogRole;
use model::id::NodeId;
use std::sync::PoisonError;
use std::time::Duration;
use store::data::lost;
use store::files::Disk;

/// A leader that was heard within this time is one to which clients are sent.
const HEARD: Duration = Duration::from_secs(6);

/// NATS is asked for the bytes of streams so often, seconds.
const STATES_EVERY: u64 = 10;

/// The folder is asked so often what an operator has seen of its losses, seconds.
pub(super) const LOST_EVERY: u64 = 10;

/// A follower within so many records of the leader is a copy that could take over at once.
const NEAR: u64 = 10_000;

impl Driver {
    /// The node that leads, if it was heard lately.
    fn leader(&self, now: Instant) -> Option<NodeId> {
        let leader = self.table.log(FIRST)?.leader?.node;
        if leader == self.me.node {
            return self.leads_first().then_some(leader);
        }
        let led = self.peers.led(leader, FIRST)?;
        (now.since(led) < HEARD).then_some(leader)
    }

    /// Where clients of the leader go.
    pub(super) fn leader_address(&self) -> Option<LeaderAddress> {
        let named = self.table.log(FIRST)?;
        let leader = named.leader.map(|leader| leader.node).filter(|node| *node != self.me.node);
        let node = named.wanted.filter(|node| *node != self.me.node).or(leader)?;
        let (_, entry) = self.table.nodes.get(&node.number())?;
        let addresses = entry.addresses.iter().map(|it| it.to_string()).collect();
        Some(LeaderAddress { node, name: entry.name.to_string(), addresses })
    }

    /// Tells the server who leads, when that changes.
    pub(super) fn tell_leader(&mut self, now: Instant) {
        let is_isolated = self.is_isolated();
        if std::mem::replace(&mut self.was_isolated, is_isolated) != is_isolated {
            self.notice(ClusterNotice::Isolated(is_isolated));
        }
        if !matches!(self.serving, Serving::Follows(_)) {
            return;
        }
        let leader = self.leader(now).filter(|node| *node != self.me.node);
        // While this node is to take over, clients wait here: who leads would send them back.
        let is_next = self.table.log(FIRST).and_then(|it| it.wanted) == Some(self.me.node);
        let address = leader.filter(|_| !is_next).and_then(|_| self.leader_address());
        if self.told_leader != address {
            self.told_leader.clone_from(&address);
            self.shared.tell(Turn::Follow(address));
        }
    }

    /// Says until when the server may answer without a write. It may not while it is to leave.
    pub(super) fn renew_lead_proof(&self) {
        // In this order: a stop between the two makes the proof shorter, and never longer.
        let (wall_ms, now) = (self.clock.now_ms(), self.clock.now());
        let lasts = match self.serving {
            Serving::Given | Serving::Open(_) if !self.is_isolated() => self.proof.lasts(now),
            _ => Duration::ZERO,
        };
        let until = match lasts.is_zero() {
            true => 0,
            false => wall_ms + u64::try_from(lasts.as_millis()).unwrap_or(0),
        };
        self.shared.lead_proof.hold_until(until);
    }

    /// The follower that is furthest, if it is near.
    pub(super) fn successor(&self) -> Option<NodeId> {
        let now = self.clock.now();
        let index = self.slots.first()?.replica.as_ref()?.own().end().index;
        let near = self.peers.logs(FIRST).filter(|(_, at, told)| {
            let is_lately = now.since(*at) < Duration::from_secs(3);
            is_lately && told.role == LogRole::Following && told.index + NEAR >= index
        });
        near.max_by_key(|(_, _, told)| (told.epoch, told.index)).map(|(node, ..)| node)
    }

    /// The server wants to leave: the table is to name a follower, until it does.
    pub(super) fn look_for_successor(&mut self) {
        let is_open = matches!(self.serving, Serving::Open(_));
        let Some(node) = self.successor().filter(|_| self.is_to_leave && is_open) else { return };
        if self.table.log(FIRST).is_some_and(|entry| entry.wanted != Some(node)) {
            self.want(node);
        }
    }

    pub(super) fn ask_states(&mut self) {
        if self.seconds % STATES_EVERY != 1 {
            return;
        }
        for slot in &self.slots {
            let Some(replica) = &slot.replica else { continue };
            let stream = self.names.stream(slot.log, replica.beat().generation);
            self.nats.state_later(slot.tag([0; 3]), stream);
        }
    }

    /// Reads what the folder remembers to have lost. What is known stays while it cannot be read.
    pub(super) fn read_lost(&mut self) {
        if let Ok(lost) = lost::read(&Disk, &self.data) {
            (self.lost, self.lost_unseen) = (lost.total(), lost.unseen());
        }
    }

    pub(super) fn tell_status(&self, now: Instant) {
        let status = ClusterStatus {
            name: self.names.cluster().to_owned(),
            node: self.me.node,
            boot: self.me.boot,
            is_connected: self.is_connected,
            leader: self.leader(now),
            leads: self.leads(),
            is_isolated: self.was_isolated,
            is_full: self.slots.iter().any(|it| it.replica.as_ref().is_some_and(|it| it.is_full())),
            lost: self.lost,
            lost_unseen: self.lost_unseen,
            clock_skew_s: self.skews.largest(now),
            clocks_differ: self.skews.differ(now),
            followers_wanted: self.settings.followers,
            logs: self.slots.iter().map(|slot| self.log_status(now, slot.log)).collect(),
            nodes: self.node_status(now),
        };
        *self.shared.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    fn log_status(&self, now: Instant, log: u16) -> LogStatus {
        let slot = &self.slots[usize::from(log)];
        let lately = |at: Instant| now.since(at) < Duration::from_secs(3);
        let others = || self.peers.logs(log).filter(move |(_, at, _)| lately(*at));
        let led = others().find(|(_, _, told)| told.role == LogRole::Leading);
        let mut status = LogStatus {
            log,
            role: LogRole::Absent,
            epoch: 0,
            generation: 0,
            index: 0,
            acknowledged: 0,
            synced: 0,
            lag: led.map_or(0, |(_, _, told)| told.index),
            is_disk_full: slot.has_no_room,
            stream_bytes: slot.stream_bytes,
            acknowledgements: slot.acknowledgements,
            acknowledged_after: slot.acknowledged_after,
            copies: 0,
        };
        let Some(replica) = &slot.replica else { return status };
        let (beat, own) = (replica.beat(), replica.own());
        let index = own.end().index;
        let follows = others().filter(|(_, _, told)| {
            told.role == LogRole::Following && told.index + NEAR >= beat.index
        });
        (status.role, status.epoch, status.generation) = (beat.role, beat.epoch, beat.generation);
        (status.index, status.acknowledged, status.synced) = (index, beat.index, beat.synced);
        status.lag = status.lag.saturating_sub(beat.index);
        status.copies = follows.count() as u16;
        // Without a leader nobody knows what this log lacks.
        status.is_disk_full &= led.is_none() || status.lag > 0;
        status
    }

    fn node_status(&self, now: Instant) -> Vec<NodeStatus> {
        let of = |(number, (_, entry)): (&u16, &(u64, cluster::wire::table::NodeEntry))| {
            let at = self.heard.get(number).copied();
            Some(NodeStatus {
                node: NodeId::new(*number)?,
                name: entry.name.to_string(),
                boot: entry.boot,
                addresses: entry.addresses.iter().map(|it| it.to_string()).collect(),
                beat_age: match *number == self.me.node.number() {
                    true => Some(Duration::ZERO),
                    false => at.map(|at| now.since(at)),
                },
                unreachable: self.reach.unreachable(*number),
            })
        };
        self.table.nodes.iter().filter_map(of).collect()
    }
}
