//! A node's knowledge of itself and of the others: its proof of a majority, and their beats.
//!
//! A node writes its own value of the table each 5 seconds. That this succeeds proves that it
//! reaches a majority of the table; the proof is as old as the question, not as the answer.

use crate::port::Ask;
use crate::wire::beat::{Beat, LogBeat, LogRole};
use base::time::Instant;
use model::id::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a node proves that it reaches the table.
const PROOF_EVERY: Duration = Duration::from_secs(5);

/// A question that was not answered is asked again after so long.
const PROOF_AGAIN: Duration = Duration::from_secs(1);

/// A proof that is older than this is late: a question was not answered at once.
const LATE: Duration = Duration::from_secs(6);

/// A proof is good for so long where a node wants to lead ...
const FRESH: Duration = Duration::from_secs(10);

/// ... and for so long where it leads: then it is isolated.
const LOST: Duration = Duration::from_secs(15);

/// Proof that a node reaches a majority of the table.
#[derive(Clone, Debug, Default)]
pub struct MajorityProof {
    asked: Option<(Ask, Instant)>,
    proved: Option<Instant>,
    asks: Ask,
}

impl MajorityProof {
    /// The number of the compare-and-set that is due.
    pub fn tick(&mut self, now: Instant) -> Option<Ask> {
        let is_due = match (self.asked, self.proved) {
            (Some((_, at)), _) => now.since(at) >= PROOF_AGAIN,
            (None, Some(at)) => now.since(at) >= PROOF_EVERY,
            (None, None) => true,
        };
        is_due.then(|| {
            self.asks += 1;
            self.asked = Some((self.asks, now));
            self.asks
        })
    }

    /// The compare-and-set with this number succeeded.
    pub fn proved(&mut self, ask: Ask) {
        if let Some((_, at)) = self.asked.take_if(|(asked, _)| *asked == ask) {
            self.proved = Some(at);
        }
    }

    /// Whether the node may claim.
    pub fn is_fresh(&self, now: Instant) -> bool {
        self.proved.is_some_and(|at| now.since(at) < FRESH)
    }

    /// Whether the node may have been out of reach for so long that others claim.
    pub fn is_late(&self, now: Instant) -> bool {
        self.proved.is_none_or(|at| now.since(at) >= LATE)
    }

    /// How long the proof is not late yet; zero: it is late.
    pub fn lasts(&self, now: Instant) -> Duration {
        self.proved.map_or(Duration::ZERO, |at| LATE.saturating_sub(now.since(at)))
    }

    /// Whether a leader is isolated.
    pub fn is_lost(&self, now: Instant) -> bool {
        self.proved.is_none_or(|at| now.since(at) >= LOST)
    }
}

/// Another process with this node's number: it runs on a copy of this node's data folder.
///
/// Both write the node's value in the table by compare-and-set, which puts their proofs in an
/// order; clocks of two hosts do not. A process leads nothing and proves nothing while another one
/// that the table names is heard: unless it has a fresh proof, and the other one did not prove
/// before it. So at least one of them goes on, and a process that leads keeps the lead.
#[derive(Clone, Copy, Debug, Default)]
pub struct Namesake {
    heard: Option<Instant>,
    /// The process that the table names.
    named: u64,
    /// The other process that the table named last while this one had no fresh proof.
    before: u64,
    /// When the named process was heard last, if it is another one.
    named_heard: Option<Instant>,
    named_beats: u8,
}

/// Silence after which a process counts as gone: three beats, or three proofs, are missing.
const GONE: Duration = Duration::from_secs(15);

/// Number of beats that show that a process runs. A single one may be from the previous process.
const BEATS: u8 = 2;

impl Namesake {
    /// The node's value in the table is of the process with this boot; `mine` is that of this
    /// process. `is_proved`: this process has a fresh proof.
    pub fn named(&mut self, mine: u64, boot: u64, is_proved: bool) {
        if boot != mine && !is_proved {
            self.before = boot;
        }
        if self.named != boot {
            (self.named, self.named_heard, self.named_beats) = (boot, None, 0);
        }
    }

    /// A beat of a process with this node's number. `mine` is the boot of this process, `boot` that
    /// of the other one.
    pub fn hear(&mut self, now: Instant, mine: u64, boot: u64) {
        if boot == mine {
            return;
        }
        if boot == self.named {
            self.named_beats = self.named_beats.saturating_add(1);
            if self.named_beats < BEATS {
                return;
            }
            self.named_heard = Some(now);
        }
        self.heard = Some(now);
    }

    /// A process with this node's number answered a question of this one: it runs. This process
    /// hears its own answer, too.
    pub fn answered(&mut self, now: Instant, mine: u64, boot: u64) {
        if boot != mine {
            self.named_beats = BEATS;
            self.hear(now, mine, boot);
        }
    }

    /// Whether such a process runs.
    pub fn is_there(&self, now: Instant) -> bool {
        self.heard.is_some_and(|at| now.since(at) < GONE)
    }

    /// Whether this process must not lead: the other one does, or may. `is_proved`: this process
    /// has a fresh proof.
    pub fn goes_first(&self, now: Instant, is_proved: bool) -> bool {
        let runs = self.named_heard.is_some_and(|at| now.since(at) < GONE);
        runs && (!is_proved || self.before == self.named)
    }
}

/// The last beats of the other nodes.
#[derive(Clone, Debug, Default)]
pub struct PeerBeats {
    heard: BTreeMap<NodeId, (Instant, Beat)>,
    /// When a node was last heard to lead or to claim a log.
    led: BTreeMap<(NodeId, u16), Instant>,
}

impl PeerBeats {
    /// A beat came.
    pub fn hear(&mut self, now: Instant, beat: Beat) {
        for log in &beat.logs {
            if matches!(log.role, LogRole::Leading | LogRole::Claiming) {
                self.led.insert((beat.by.node, log.log), now);
            }
        }
        self.heard.insert(beat.by.node, (now, beat));
    }

    /// When a node was last heard to lead or to claim a log.
    pub fn led(&self, node: NodeId, log: u16) -> Option<Instant> {
        self.led.get(&(node, log)).copied()
    }

    /// A log as a node told of it in its last beat, and when.
    pub fn log(&self, node: NodeId, log: u16) -> Option<(Instant, LogBeat)> {
        let (at, beat) = self.heard.get(&node)?;
        let told = beat.logs.iter().find(|told| told.log == log)?;
        Some((*at, *told))
    }

    /// A log as all nodes told of it in their last beats.
    pub fn logs(&self, log: u16) -> impl Iterator<Item = (NodeId, Instant, LogBeat)> + '_ {
        let nodes = self.heard.keys().copied();
        nodes.filter_map(move |node| self.log(node, log).map(|(at, told)| (node, at, told)))
    }
}

/// How far the clocks of the other nodes are from this one's.
#[derive(Clone, Debug, Default)]
pub struct ClockSkews {
    /// Nothing is compared before this time.
    from: Instant,
    known: BTreeMap<NodeId, (Instant, u32, bool)>,
}

/// Difference of two clocks from which on it is reported: the leader's clock expires messages.
const SKEW_TOLD_S: u32 = 30;

/// Time after a hang in which beats are ignored: beats that waited carry old clock readings.
const CATCHES_UP: Duration = Duration::from_secs(5);

/// A reported difference is over when it is below this.
const SKEW_OVER_S: u32 = 10;

impl ClockSkews {
    /// This node hung until now.
    pub fn hung(&mut self, now: Instant) {
        self.from = now + CATCHES_UP;
    }

    /// Notes the difference of a node's clock, seconds. `Some`: it must be reported that the clocks
    /// differ (true), or that they agree again (false).
    pub fn note(&mut self, now: Instant, node: NodeId, seconds: u32) -> Option<bool> {
        if now < self.from {
            return None;
        }
        let was_told = self.known.get(&node).is_some_and(|(_, _, is_told)| *is_told);
        let is_told = match was_told {
            true => seconds >= SKEW_OVER_S,
            false => seconds >= SKEW_TOLD_S,
        };
        self.known.insert(node, (now, seconds, is_told));
        (was_told != is_told).then_some(is_told)
    }

    /// The largest difference of the nodes that were heard lately, seconds.
    pub fn largest(&self, now: Instant) -> u32 {
        self.lately(now).map(|(seconds, _)| seconds).max().unwrap_or(0)
    }

    /// Whether a difference was reported that is not over, of a node that was heard lately.
    pub fn differ(&self, now: Instant) -> bool {
        self.lately(now).any(|(_, is_told)| is_told)
    }

    fn lately(&self, now: Instant) -> impl Iterator<Item = (u32, bool)> {
        let lately = self.known.values().filter(move |(at, ..)| now.since(*at) < GONE);
        lately.map(|(_, seconds, is_told)| (*seconds, *is_told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn of_two_processes_with_one_number_the_later_one_waits_until_the_other_is_gone() {
        // The table names process 7; 8 is a copy that begins.
        let (mut early, mut late) = (Namesake::default(), Namesake::default());
        early.named(7, 7, true);
        late.named(8, 7, false);
        early.hear(at(100), 7, 8);
        assert!(early.is_there(at(114)) && !early.goes_first(at(100), true), "it goes on");
        assert!(!early.is_there(at(115)), "the other one is gone");
        late.hear(at(100), 8, 8);
        late.answered(at(100), 8, 8);
        assert!(!late.is_there(at(100)), "its own beat, and its own answer");
        late.hear(at(100), 8, 7);
        assert!(!late.is_there(at(100)), "the beat may be from the previous process");
        late.hear(at(101), 8, 7);
        assert!(late.is_there(at(101)) && late.goes_first(at(115), false));
        assert!(!late.goes_first(at(116), false), "it may lead again");
        let mut asked = Namesake::default();
        asked.named(8, 7, false);
        asked.answered(at(100), 8, 7);
        assert!(asked.goes_first(at(100), false), "a process that answers runs");
    }

    #[test]
    fn a_copy_on_a_host_whose_clock_is_behind_takes_nothing_from_the_process_that_leads() {
        let (mut leads, mut copy) = (Namesake::default(), Namesake::default());
        leads.named(9, 9, true);
        copy.named(5, 9, false);
        // The copy hears nothing for a while, and proves: the table names it until the other one
        // proves again.
        leads.named(9, 5, true);
        copy.named(5, 5, false);
        for second in 0..2 {
            leads.hear(at(100 + second), 9, 5);
            copy.hear(at(100 + second), 5, 9);
        }
        assert!(!leads.goes_first(at(101), true), "it proved before");
        leads.named(9, 9, true);
        copy.named(5, 9, true);
        for second in 2..4 {
            leads.hear(at(100 + second), 9, 5);
            copy.hear(at(100 + second), 5, 9);
        }
        assert!(!leads.goes_first(at(103), true));
        assert!(copy.goes_first(at(103), true), "the other one proved before");
    }

    #[test]
    fn of_two_processes_that_were_cut_off_the_one_that_proves_first_goes_on() {
        let (mut old, mut new) = (Namesake::default(), Namesake::default());
        old.named(5, 5, true);
        new.named(9, 5, false);
        old.named(5, 9, false);
        new.named(9, 9, true);
        for second in 0..2 {
            old.hear(at(100 + second), 5, 9);
            new.hear(at(100 + second), 9, 5);
        }
        assert!(old.goes_first(at(101), false) && !new.goes_first(at(101), true));
        assert!(!new.goes_first(at(101), false), "the table names it, so one of the two continues");
    }

    #[test]
    fn clocks_that_differ_are_told_of_once_and_when_they_agree_again() {
        let (mut skews, node) = (ClockSkews::default(), NodeId::new(2).expect("a node"));
        assert_eq!(skews.note(at(1), node, 29), None);
        assert_eq!(skews.note(at(2), node, 300), Some(true));
        assert_eq!(skews.note(at(3), node, 20), None);
        assert!(skews.largest(at(4)) == 20 && skews.differ(at(4)), "it is not over yet");
        assert_eq!(skews.note(at(5), node, 2), Some(false));
        assert!(!skews.differ(at(5)));
        assert_eq!(skews.note(at(6), node, 40), Some(true));
        assert_eq!((skews.largest(at(60)), skews.differ(at(60))), (0, false), "it is not heard");
    }

    #[test]
    fn beats_that_waited_while_this_node_hung_tell_nothing_of_clocks() {
        let (mut skews, node) = (ClockSkews::default(), NodeId::new(2).expect("a node"));
        skews.hung(at(300));
        assert_eq!(skews.note(at(300), node, 290), None);
        assert_eq!((skews.note(at(304), node, 40), skews.largest(at(304))), (None, 0));
        assert_eq!(skews.note(at(305), node, 40), Some(true), "it differs after all");
    }

    #[test]
    fn a_proof_is_as_old_as_its_question() {
        let mut proof = MajorityProof::default();
        assert!(proof.is_lost(at(0)) && !proof.is_fresh(at(0)));
        let first = proof.tick(at(0)).expect("due");
        assert_eq!(proof.tick(at(0)), None, "one question at a time");
        let second = proof.tick(at(1)).expect("asked again");
        proof.proved(first);
        assert!(proof.is_lost(at(1)), "that answer is late");
        proof.proved(second);
        assert!(proof.is_fresh(at(10)) && !proof.is_fresh(at(11)));
        assert!(!proof.is_lost(at(15)) && proof.is_lost(at(16)));
        assert!(!proof.is_late(at(6)) && proof.is_late(at(7)));
        assert_eq!(proof.tick(at(5)), None);
        assert!(proof.tick(at(6)).is_some());
    }
}
