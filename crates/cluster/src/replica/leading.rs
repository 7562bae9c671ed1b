//! Leading: what was written is shipped, the stream is trimmed, and the table is watched.

use super::{Phase, Replica};
use crate::batch::StreamBatch;
use crate::port::{ClosedBy, LogCommand, LogNotice};
use crate::replica::NodeView;
use crate::rules::Rule;
use crate::ship::{ShipEnd, Shipper};
use crate::wire::beat::LogRole;
use crate::wire::table::LogEntry;
use base::time::Instant;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(1);

/// A claimer that has not published its Lead after so long has given up, or will find the one that
/// leads in its way.
const CLAIMS: Duration = Duration::from_secs(5);

/// A disk has what its node's last beat told for so long.
pub(super) const BEATS: Duration = Duration::from_secs(5);

/// A node that is to lead must be this near to the leader's end, records.
const NEAR: u64 = 10_000;

impl Replica {
    /// The writer has put a batch on the disk.
    pub(super) fn written(&mut self, now: Instant, batch: StreamBatch, out: &mut Vec<LogCommand>) {
        self.own.push(&batch);
        self.own.sync(batch.last_index());
        match &mut self.phase {
            Phase::Fencing(fencing) => fencing.rest.push(batch),
            _ => self.ship(out, |ship, out| ship.push(now, batch, out)),
        }
    }

    pub(super) fn tick_leading(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let now = view.now;
        if self.hears_of_a_later_epoch(view) {
            return self.close(now, ClosedBy::Deposed, out);
        }
        self.is_isolated |= self.is_cut_off(view);
        if self.is_isolated && now >= self.next_look {
            // Whether somebody else leads by now, the stream knows.
            self.next_look = now + EVERY;
            self.ship(out, |ship, out| ship.look(now, out));
        } else if view.proof.is_late(now) && now >= self.next_look {
            self.next_look = now + EVERY;
            self.look_after_silence(now, out);
        }
        self.look_at_entry(view, out);
        if now >= self.next_trim && self.knows_stream() {
            self.next_trim = now + EVERY;
            self.trim(view, out);
        }
    }

    /// The node hung or was out of reach, and others may have claimed. If the stream forgot its end
    /// since, and grew to the same length again, it would take this node's next message, which does
    /// not count.
    pub(super) fn look_after_silence(&mut self, now: Instant, out: &mut Vec<LogCommand>) {
        if matches!(self.phase, Phase::Leading) && Rule::LookAfterSilence.holds() {
            self.ship(out, |ship, out| ship.look(now, out));
        }
    }

    /// Whether a copy has a later Lead: it counted, even if the stream has forgotten it since.
    fn hears_of_a_later_epoch(&self, view: &NodeView<'_>) -> bool {
        let mut others = self.heard(view);
        Rule::HeedLaterEpochs.holds() && others.any(|(_, told)| told.epoch > self.epoch)
    }

    /// Whether nothing happened since the stream was last read that puts it in doubt. Else it may
    /// have forgotten its end, and have a rival's batches where this leader's own ones were: a
    /// purge has no fence.
    fn knows_stream(&self) -> bool {
        let has_looked = self.ship.as_ref().is_some_and(Shipper::has_looked);
        has_looked || !Rule::LookBeforePurge.holds()
    }

    fn trim(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let Some((_, entry)) = &self.entry else { return };
        let copies = entry.copies().filter(|node| *node != self.me.node);
        let epoch = self.epoch;
        let synced = copies.filter_map(|node| {
            let (at, told) = view.peers.log(node, self.name.log)?;
            let is_of_this = told.epoch == epoch && told.role.has_copy();
            (is_of_this && view.now.since(at) < BEATS).then_some(told.synced.min(told.index))
        });
        let synced: Vec<u64> = synced.collect();
        let Some(ship) = &mut self.ship else { return };
        let Some(due) = ship.due_purge(self.own.synced(), &synced, view.copies_min) else { return };
        ship.purged(due.below);
        if due.is_one_disk {
            out.push(LogCommand::Tell(LogNotice::PurgedBehindOneDisk));
        }
        out.push(LogCommand::Purge { generation: ship.generation(), below: due.below });
    }

    /// The table may name another leader, or this one no more.
    pub(super) fn look_at_entry(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let now = view.now;
        let Some((revision, entry)) = self.entry.clone() else { return };
        if !matches!(self.phase, Phase::Leading) || now < self.next_look {
            return;
        }
        let is_own = entry.leader == Some(self.me);
        let is_named = is_own && entry.generation == self.generation;
        let is_over = entry.generation > self.generation;
        if is_over || !is_own && entry.epoch > self.epoch {
            self.next_look = now + EVERY;
            let has_looked = self.ship.as_ref().is_some_and(Shipper::has_looked);
            let since = *self.unnamed.get_or_insert(now);
            // Proof of a majority is none for a leader that the table names no more.
            self.is_isolated |= !has_looked;
            self.ship(out, |ship, out| ship.look(now, out));
            if has_looked && !is_over && now.since(since) >= CLAIMS {
                self.name_again(revision, &entry, out);
            }
            return;
        }
        self.unnamed = None;
        if !is_named && view.proof.is_fresh(now) {
            // The table went back.
            self.next_look = now + EVERY;
            self.name_again(revision, &entry, out);
        } else if let Some(wanted) = entry.wanted.filter(|node| *node != self.me.node) {
            let told = view.peers.log(wanted, self.name.log);
            let is_near = told.is_some_and(|(at, told)| {
                now.since(at) < Duration::from_secs(3)
                    && told.role == LogRole::Following
                    && told.index + NEAR >= self.own.end().index
            });
            if is_near {
                self.close(now, ClosedBy::Asked, out);
            }
        }
    }

    /// The table is to name this node again.
    fn name_again(&mut self, revision: u64, entry: &LogEntry, out: &mut Vec<LogCommand>) {
        self.asks += 1;
        let followers = entry.copies().filter(|node| *node != self.me.node).collect();
        let wanted = entry.wanted.filter(|node| *node != self.me.node);
        let (leader, generation) = (Some(self.me), self.generation);
        let epoch = self.epoch.max(entry.epoch);
        let entry = LogEntry { generation, epoch, leader, wanted, followers };
        out.push(LogCommand::Claim { ask: self.asks, revision, entry });
    }

    /// Handles the end of the shipper, if it has stopped.
    pub(super) fn look_at_ship(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        self.look_at_lead(out);
        let now = view.now;
        let Some(ship) = &self.ship else { return };
        let is_leading = matches!(self.phase, Phase::Leading);
        let Some(end) = ship.stopped() else {
            if is_leading && self.is_isolated && !self.is_cut_off(view) && ship.has_looked() {
                self.is_isolated = false;
            }
            return;
        };
        let is_ours = self.entry.as_ref().is_none_or(|(_, entry)| {
            let is_named = entry.leader == Some(self.me) || entry.epoch <= self.epoch;
            is_named && entry.generation <= self.generation
        });
        match self.phase {
            Phase::Leading if end == ShipEnd::Forgot && is_ours => self.regenerate_open(view, out),
            Phase::Opening if end == ShipEnd::Forgot => {} // when it leads
            Phase::Leading | Phase::Opening => self.close(now, ClosedBy::Deposed, out),
            Phase::Leaving { .. } => self.ship = None,
            _ => self.give_way(now),
        }
    }

    /// Stops serving the log.
    pub(super) fn close(&mut self, now: Instant, why: ClosedBy, out: &mut Vec<LogCommand>) {
        out.push(LogCommand::Close { why });
        if why != ClosedBy::Asked {
            self.ship = None;
        }
        self.quiet = now + super::claiming::QUIET;
        self.unnamed = None;
        self.phase = Phase::Leaving { until: None };
        if self.ship.as_ref().is_some_and(|ship| Shipper::stopped(ship).is_some()) {
            self.ship = None;
        }
    }
}
