//! Presence on one shard: what came and went goes to its tracker, and out.
//!
//! Services say every transition; the tracker notes it, and where a topic is configured it is
//! published there too. Batches of the tracker for the directory leave by the outside; its orders
//! to the services are carried out before these are asked anything else. Invariant: nothing here
//! waits, and a tracker hears of every batch that it handed out.

pub mod history_line;
pub mod topic;

use super::{Around, ServerLogic};
use crate::shard_logic::outside::Outside;
use crate::switchboard::ShardPart;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::counters::ProcessCounter;
use model::ports::control::Answer;
use model::ports::presence::directory::{DirectoryEntry, DirectoryError, Put};
use model::ports::presence::queries::{
    PresenceAnswer, PresenceCommand, PresenceCounts, PresenceStatus,
};
use model::presence::{OnlineState, PresenceRecord, PresenceVersion, Principal, Transition};
use model::topic::Publication;
use net::ShardHandle;
use presence::{Effects, PresenceTracker};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use topic::EventTopic;

/// Time between two totals that a shard tells, while it turns.
const FIGURES_EVERY: Duration = Duration::from_secs(1);

/// A shard's tracker, and where its transitions are published.
pub struct ShardPresence {
    tracker: PresenceTracker,
    effects: Effects,
    topic: Option<EventTopic>,
    /// Lines for the history that were not handed over.
    lines: String,
    /// Whether a transition was noted since the tracker's last turn.
    noted: bool,
    /// The directory did not take what was handed out last.
    refused: bool,
    /// Sink of this shard's totals, and the time of the next ones.
    figures: FiguresCell,
    figures_due: Instant,
}

/// A shard's totals, as it told them last: whoever looks wakes no shard.
pub type FiguresCell = Arc<Mutex<Figures>>;

impl ShardPresence {
    /// Presence before anybody has come; `figures` takes its totals.
    pub fn new(
        tracker: PresenceTracker,
        topic: Option<EventTopic>,
        figures: FiguresCell,
    ) -> ShardPresence {
        let (effects, figures_due) = Default::default();
        ShardPresence {
            tracker,
            effects,
            topic,
            lines: String::new(),
            noted: false,
            refused: false,
            figures,
            figures_due,
        }
    }

    /// The tracker, to look at.
    pub fn tracker(&self) -> &PresenceTracker {
        &self.tracker
    }

    /// Notes a transition, and returns the message about it, if one is to be published.
    pub(super) fn note(
        &mut self,
        now: Now,
        transition: Transition,
        outside: &impl Outside,
    ) -> Option<Publication> {
        if outside.keeps_history() {
            history_line::put(&transition, &mut self.lines);
        }
        let message = self.topic.as_ref().and_then(|topic| topic.message(&transition));
        self.tracker.note(now, transition);
        self.noted = true;
        message
    }

    /// An earlier start said that `who` is online, and nothing since. The message that says
    /// otherwise, unless it is back or something newer is known.
    pub(super) fn recall(
        &self,
        (who, version): (Principal, PresenceVersion),
        known: Option<PresenceStatus>,
    ) -> Option<Publication> {
        let is_newer = |known: &PresenceStatus| known.state.is_online() || known.version > version;
        if known.as_ref().is_some_and(is_newer) {
            return None;
        }
        let transition = Transition {
            who,
            user: known.and_then(|known| known.user).map(Into::into),
            state: OnlineState::Offline(CloseReason::ServerStopped),
            protocol: "",
            peer: None,
            version: PresenceVersion(version.0.saturating_add(1)),
        };
        self.topic.as_ref()?.message(&transition)
    }

    /// Whether the tracker has heard something since its last turn.
    pub(super) fn is_behind(&self) -> bool {
        self.noted
    }

    pub(super) fn turn(&mut self, now: Now, outside: &mut impl Outside) -> Option<Instant> {
        self.noted = false;
        let next = self.tracker.turn(now, &mut self.effects);
        self.hand_out(now, outside);
        next
    }

    /// Results of the changes that were handed out.
    pub(super) fn written(
        &mut self,
        now: Now,
        result: Result<Vec<Put>, DirectoryError>,
        outside: &mut impl Outside,
    ) {
        self.refused = result.is_err();
        self.tracker.written(now, result, &mut self.effects);
        self.hand_out(now, outside);
    }

    /// Content of a bucket of the directory.
    pub(super) fn compare(
        &mut self,
        now: Now,
        (bucket, stored): (u16, &[DirectoryEntry]),
        outside: &mut impl Outside,
    ) {
        self.tracker.compare(now, bucket, stored, &mut self.effects);
        self.hand_out(now, outside);
    }

    /// Hands over what the history lacks.
    pub(super) fn hand_lines(&mut self, outside: &mut impl Outside) {
        if !self.lines.is_empty() {
            outside.remember(&mut self.lines);
        }
    }

    fn hand_out(&mut self, now: Now, outside: &mut impl Outside) {
        self.hand_lines(outside);
        let batches = std::mem::take(&mut self.effects.batches);
        if batches.is_empty() {
            return;
        }
        if let Err(fault) = outside.copy(batches) {
            self.refused = true;
            self.tracker.written(now, Err(fault), &mut self.effects);
        }
    }

    /// Whether the directory has everything, or did not take what it was given last.
    pub(super) fn is_settled(&self) -> bool {
        self.refused || self.tracker.unwritten() == 0
    }

    /// Version that those of all services must exceed from now on.
    pub(super) fn observed(&mut self) -> Option<PresenceVersion> {
        self.effects.observed.take()
    }

    /// Principals whose connections here are stale.
    pub(super) fn outvoted(&mut self) -> Vec<(Principal, PresenceRecord)> {
        std::mem::take(&mut self.effects.outvoted)
    }

    /// An answer; `find` is what the services know of somebody.
    pub(super) fn answer(
        &self,
        command: PresenceCommand,
        find: impl Fn(&Principal) -> Option<PresenceStatus>,
    ) -> PresenceAnswer {
        let answer = self.tracker.answer(&command);
        let (PresenceCommand::Find(who), PresenceAnswer::Found(known)) = (command, &answer) else {
            return answer;
        };
        // The tracker knows whom a directory must still hear of, and what it was told is newest
        // where it had to speak above another.
        let mut found: BTreeMap<&Principal, PresenceStatus> =
            known.iter().map(|known| (&known.who, known.clone())).collect();
        for who in &who {
            if let Some(mut presence) = find(who) {
                let told = found.get(who).map_or(PresenceVersion::default(), |told| told.version);
                presence.version = presence.version.max(told);
                found.insert(who, presence);
            }
        }
        PresenceAnswer::Found(found.into_values().collect())
    }
}

/// Totals of one shard since the process began.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// By product and protocol.
    pub counts: PresenceCounts,
    /// Heartbeats that came.
    pub heartbeats: u64,
    /// Heartbeats among them that came later than agreed.
    pub late: u64,
    /// Connections ended because none came.
    pub lost: u64,
}

impl Figures {
    /// Adds another shard's.
    pub fn add(&mut self, other: &Figures) {
        self.counts.add(&other.counts);
        self.heartbeats += other.heartbeats;
        self.late += other.late;
        self.lost += other.lost;
    }
}

impl<O: Outside> ServerLogic<O> {
    pub(super) fn turn_presence(&mut self, now: Now) -> Option<Instant> {
        let Around { shard_presence, outside, .. } = &mut self.around;
        let next = shard_presence.turn(now, outside);
        self.obey(now);
        next
    }

    /// Results of the changes that were handed out.
    pub(super) fn written(&mut self, now: Now, result: Result<Vec<Put>, DirectoryError>) {
        let Around { shard_presence, outside, .. } = &mut self.around;
        shard_presence.written(now, result, outside);
        self.obey(now);
    }

    /// Content of a bucket of the directory.
    pub(super) fn compare(&mut self, now: Now, bucket: (u16, &[DirectoryEntry])) {
        let Around { shard_presence, outside, .. } = &mut self.around;
        shard_presence.compare(now, bucket, outside);
        self.obey(now);
    }

    /// Says of somebody who was said to be online that they are not, if they are not.
    pub(super) fn recall(&mut self, now: Now, who: Principal, version: PresenceVersion) {
        let known = self.find(now, &who);
        let message = self.around.shard_presence.recall((who, version), known);
        self.around.publications.extend(message);
    }

    /// Orders of the tracker to the services.
    fn obey(&mut self, now: Now) {
        if let Some(version) = self.around.shard_presence.observed() {
            self.services.iter_mut().for_each(|service| service.observe(version));
        }
        for (who, _) in self.around.shard_presence.outvoted() {
            self.services.iter_mut().for_each(|service| service.outvoted(now, &who));
        }
    }

    pub(super) fn ask_presence(&mut self, now: Now, command: PresenceCommand, part: ShardPart) {
        // Who asks for the history next finds in it what is answered here.
        let Around { shard_presence, outside, .. } = &mut self.around;
        shard_presence.hand_lines(outside);
        let find = |who: &Principal| self.find(now, who);
        part.answer(Answer::Presence(self.around.shard_presence.answer(command, find)));
    }

    /// Presence of a principal in the services.
    pub fn find(&self, now: Now, who: &Principal) -> Option<PresenceStatus> {
        self.services.iter().find_map(|service| service.find(now, who))
    }

    /// Sends this shard's totals, once in a while; returns when they are due again, if they may
    /// have changed since. A shard that does not turn has none that are new.
    pub(super) fn tell_figures(&mut self, now: Now, handle: &ShardHandle<Self>) -> Option<Instant> {
        let due = self.around.shard_presence.figures_due;
        if now.mono < due {
            return Some(due);
        }
        let figures = self.figures(handle);
        let shard_presence = &mut self.around.shard_presence;
        shard_presence.figures_due = now.after(FIGURES_EVERY);
        *shard_presence.figures.lock().unwrap_or_else(PoisonError::into_inner) = figures;
        None
    }

    fn figures(&self, handle: &ShardHandle<Self>) -> Figures {
        let mut counters = self.counters();
        counters.add(&handle.counters);
        Figures {
            counts: self.around.shard_presence.tracker().counts().clone(),
            heartbeats: counters.of(ProcessCounter::Pings),
            late: counters.of(ProcessCounter::HeartbeatsLate),
            lost: counters.closed_of(CloseReason::KeepAliveTimeout),
        }
    }
}
