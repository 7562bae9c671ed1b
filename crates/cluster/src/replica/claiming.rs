//! Claims: when a follower takes over, whom it asks, and what it writes into the table.

use super::{Phase, Replica};
use crate::node::PeerBeats;
use crate::port::{ANSWER, Ask, LogCommand};
use crate::replica::NodeView;
use crate::replica::fencing::Fencing;
use crate::rules::Rule;
use crate::wire::beat::{LogBeat, LogRole};
use crate::wire::table::LogEntry;
use base::time::Instant;
use model::id::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// A leader that is silent for so long is taken to be gone by its first follower ...
const SUSPICION: Duration = Duration::from_secs(6);

/// ... and by each further one so much later.
const STAGGER: Duration = Duration::from_secs(3);

/// Copies have so long to answer a claimer.
const COPIES: Duration = Duration::from_secs(1);

/// A leader that said good-bye has not begun anew for so long.
const LEFT: Duration = Duration::from_secs(3);

/// A node that gave way, or whose claim was refused, makes no claim for this time.
pub(super) const QUIET: Duration = Duration::from_secs(3);

/// A copy that has more and does not go first is waited for so long.
pub const COPIES_LONGEST: Duration = Duration::from_secs(60);

/// Answers of the copies that a claimer asked.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pub(super) ask: Ask,
    pub(super) again: Instant,
    answers: BTreeMap<NodeId, LogBeat>,
}

/// A claim that is not in the table yet.
#[derive(Debug)]
pub(super) struct Claim {
    copies: Copies,
    /// The compare-and-set that is under way, and its epoch.
    set: Option<(Ask, u32, Instant)>,
    /// Whether the table named no leader yet when it was set.
    is_first: bool,
}

impl Claim {
    /// Whether it is on its way to the table.
    pub(super) fn is_set(&self) -> bool {
        self.set.is_some()
    }
}

/// Verdict of the other copies on a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Say {
    /// All answered, and none has more.
    GoFirst,
    /// The copies that answered have no more batches; others do not answer.
    Silent,
    /// Another one leads, or has more.
    GiveWay,
}

impl Copies {
    pub(super) fn ask(now: Instant, ask: Ask, out: &mut Vec<LogCommand>) -> Copies {
        out.push(LogCommand::AskCopies { ask });
        Copies { ask, again: now + COPIES, answers: BTreeMap::new() }
    }

    pub(super) fn answer(&mut self, (ask, node, state): (Ask, NodeId, LogBeat)) -> bool {
        let is_own = ask == self.ask;
        if is_own {
            self.answers.insert(node, state);
        }
        is_own
    }
}

impl Replica {
    /// `left` is not waited for. `has` is how far a copy is: what it knows to be acknowledged, or
    /// what it has.
    pub(super) fn judge(
        &self,
        copies: &Copies,
        left: Option<NodeId>,
        has: fn(&LogBeat) -> u64,
    ) -> Say {
        if !Rule::AskTheCopies.holds() {
            return Say::GoFirst;
        }
        let own = (self.own.end().epoch, self.own.end().index);
        let others = copies.answers.values();
        let is_first =
            |state: &LogBeat| state.role != LogRole::Leading && (state.epoch, has(state)) <= own;
        if !others.clone().all(is_first) {
            return Say::GiveWay;
        }
        let entry = self.entry.as_ref().map(|(_, entry)| entry);
        let mut listed = entry.into_iter().flat_map(LogEntry::copies);
        let has_answered = |node: NodeId| copies.answers.contains_key(&node);
        match listed.all(|node| node == self.me.node || Some(node) == left || has_answered(node)) {
            true => Say::GoFirst,
            false => Say::Silent,
        }
    }

    /// Claims, if the leader is gone and it is this node's turn.
    pub(super) fn suspect(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let now = view.now;
        if view.proof.is_fresh(now) && now >= self.quiet && self.is_turn(view) {
            self.asks += 1;
            let copies = Copies::ask(now, self.asks, out);
            self.phase = Phase::Claiming(Claim { copies, set: None, is_first: false });
            self.judge_claim(view, out);
        }
    }

    /// Whether the claim may be set, as far as the copies have answered.
    fn judge_claim(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let Phase::Claiming(claim) = &self.phase else { return };
        // For a generation that is to begin the copy with the longest tail goes first: others that
        // claim would only be in its way. Before the first Lead no stream knows what a copy has.
        let has = match self.forgot_lately(view.now) || self.is_unled() {
            true => |it: &LogBeat| it.index.max(it.synced),
            false => |it: &LogBeat| it.index,
        };
        match self.judge(&claim.copies, self.left(view), has) {
            Say::GoFirst => self.set(view, out),
            Say::GiveWay => self.give_way(view.now),
            Say::Silent => {}
        }
    }

    /// The leader that the table names, if it said good-bye. Asking it is of no use, and whether
    /// the stream has all that it acknowledged shows when that is read.
    fn left(&self, view: &NodeView<'_>) -> Option<NodeId> {
        let leader = self.leader_node()?;
        let (at, told) = view.peers.log(leader, self.name.log)?;
        (told.role == LogRole::Left && view.now.since(at) < LEFT).then_some(leader)
    }

    fn is_turn(&self, view: &NodeView<'_>) -> bool {
        let (Some((_, entry)), Phase::Following { since, follow }) = (&self.entry, &self.phase)
        else {
            return false;
        };
        let log = self.name.log;
        if follow.counting().is_none() && view.now.since(*since) < SUSPICION {
            return false; // it has not seen the stream, and NATS may be away
        }
        let others = entry.followers.iter().filter(|node| Some(**node) != self.leader_node());
        let place = others.clone().position(|node| *node == self.me.node);
        let place = place.unwrap_or(entry.followers.len()) as u32;
        let is_here = |node: NodeId| led_lately(view.peers, node, log, view.now);
        let (wanted, leader) = (entry.wanted, self.leader_node());
        let Some(leader) = leader else {
            return view.now.since(*since) >= STAGGER * place;
        };
        match wanted {
            Some(wanted) if wanted == self.me.node && !is_here(leader) => return true,
            Some(wanted) if wanted != self.me.node => {}
            _ if leader == self.me.node => return true,
            _ => {}
        }
        let last = view.peers.led(leader, log).map_or(*since, |led| led.max(*since));
        // Whoever has just claimed does not lead yet, and has as long as one that falls silent.
        let last = last.max(self.named_since);
        // The one that is wanted goes first where the leader said good-bye.
        match view.peers.log(leader, log) {
            Some((at, told)) if told.role == LogRole::Left => {
                view.now.since(at) >= STAGGER * (place + u32::from(wanted.is_some()))
            }
            _ => view.now.since(last) >= SUSPICION + STAGGER * place,
        }
    }

    fn leader_node(&self) -> Option<NodeId> {
        self.named().map(|leader| leader.node)
    }

    pub(super) fn copy_state(
        &mut self,
        view: &NodeView<'_>,
        answer: (Ask, NodeId, LogBeat),
        out: &mut Vec<LogCommand>,
    ) {
        let is_own = match &mut self.phase {
            Phase::Claiming(claim) if claim.set.is_none() => claim.copies.answer(answer),
            Phase::Fencing(fencing) => fencing.copies().is_some_and(|it| it.answer(answer)),
            _ => false,
        };
        match &self.phase {
            Phase::Claiming(_) if is_own => self.judge_claim(view, out),
            Phase::Fencing(_) if is_own => self.judge_generation(view, out),
            _ => {}
        }
    }

    pub(super) fn tick_claim(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let Phase::Claiming(claim) = &self.phase else { return };
        match claim.set {
            // The outcome is not known: the table's watcher will tell.
            Some((_, _, again)) if view.now >= again => self.give_way(view.now),
            None if view.now < claim.copies.again => {}
            // A copy that is silent may have the data with which the cluster was made.
            None if self.own.end().index == 0 && self.is_unled() => self.give_way(view.now),
            None => self.set(view, out),
            _ => {}
        }
    }

    /// Whether the table never named a leader of the log.
    fn is_unled(&self) -> bool {
        let entry = self.entry.as_ref().map(|(_, entry)| entry);
        entry.is_some_and(|entry| entry.leader.is_none() && entry.epoch == 0)
    }

    /// Writes the claim into the table.
    fn set(&mut self, view: &NodeView<'_>, out: &mut Vec<LogCommand>) {
        let Some((revision, entry)) = &self.entry else { return self.give_way(view.now) };
        let epoch = entry.epoch.max(self.own.end().epoch).max(self.epoch) + 1;
        let followers = entry.copies().filter(|node| *node != self.me.node).collect();
        let wanted = entry.wanted.filter(|node| *node != self.me.node);
        let generation = self.generation.max(entry.generation);
        let is_first = self.is_unled();
        let entry = LogEntry { generation, epoch, leader: Some(self.me), wanted, followers };
        self.asks += 1;
        let (ask, revision) = (self.asks, *revision);
        out.push(LogCommand::Claim { ask, revision, entry });
        if let Phase::Claiming(claim) = &mut self.phase {
            claim.set = Some((ask, epoch, view.now + ANSWER));
            claim.is_first = is_first;
        }
    }

    pub(super) fn claimed(
        &mut self,
        view: &NodeView<'_>,
        ask: Ask,
        revision: Option<u64>,
        out: &mut Vec<LogCommand>,
    ) {
        match &self.phase {
            Phase::Claiming(Claim { set: Some((asked, epoch, _)), is_first, .. })
                if *asked == ask =>
            {
                let (epoch, is_first) = (*epoch, *is_first);
                if revision.is_none() {
                    return self.give_way(view.now);
                }
                self.fence(view, (epoch, is_first), out);
            }
            Phase::Fencing(_) => self.generation_named(view, ask, revision, out),
            _ => {}
        }
    }

    fn fence(
        &mut self,
        view: &NodeView<'_>,
        (epoch, is_first): (u32, bool),
        out: &mut Vec<LogCommand>,
    ) {
        self.epoch = epoch;
        let ask = self.next_asks();
        let mut fencing = Fencing::begin(self.name, self.generation, ask, is_first);
        fencing.tick(view.now, out);
        self.phase = Phase::Fencing(fencing);
    }

    /// Follows again, and lets others claim.
    pub(super) fn give_way(&mut self, now: Instant) {
        self.ship = None;
        self.quiet = now + QUIET;
        self.follow(now);
    }
}

/// Whether a node was heard to lead or claim a log within the last seconds.
pub(super) fn led_lately(peers: &PeerBeats, node: NodeId, log: u16, now: Instant) -> bool {
    let lately = |at: Instant| now.since(at) < Duration::from_secs(2);
    match peers.log(node, log) {
        Some((_, told)) if told.role == LogRole::Left => false,
        Some((at, told)) if lately(at) => told.role == LogRole::Leading,
        _ => peers.led(node, log).is_some_and(|at| now.since(at) < SUSPICION),
    }
}
