//! Presence on one shard: what came and went goes to its keeper, and out.
//!
//! Hub and broker say every transition; the keeper notes it, and where a topic is configured it is
//! published there too. What the keeper wants of the directory leaves by the outside, what it wants
//! of hub and broker is done before they are asked anything else. Invariant: nothing here waits,
//! and a keeper hears of every batch that it handed out.

pub mod topic;

use super::ServerHouse;
use crate::outside::Outside;
use crate::switchboard::Part;
use base::time::{Instant, Now};
use model::close::CloseReason;
use model::event::Counter;
use model::ports::control::Answer;
use model::ports::directory::{Entry, Fault, Put};
use model::ports::presence::{Counts, Presence, PresenceAnswer, PresenceCommand};
use model::presence::{Principal, Record, State, Transition, Version};
use model::topic::Publication;
use net::Desk;
use presence::{Effects, Keeper};
use std::collections::BTreeMap;
use topic::EventTopic;

/// A shard's keeper, and where its transitions are published.
pub struct Attendance {
    keeper: Keeper,
    effects: Effects,
    topic: Option<EventTopic>,
    /// Something was noted since the keeper's last turn.
    noted: bool,
    /// The directory did not take what was handed out last.
    refused: bool,
}

impl Attendance {
    /// Nobody has come yet.
    pub fn new(keeper: Keeper, topic: Option<EventTopic>) -> Attendance {
        let effects = Effects::default();
        Attendance { keeper, effects, topic, noted: false, refused: false }
    }

    /// The keeper, to look at.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Somebody came or went. The message that says so, if it is to be published.
    pub(super) fn note(&mut self, now: Now, transition: Transition) -> Option<Publication> {
        let message = self.topic.as_ref().and_then(|topic| topic.message(&transition));
        self.keeper.note(now, transition);
        self.noted = true;
        message
    }

    /// An earlier start said that `who` is online, and nothing since. The message that says
    /// otherwise, unless it is back or something newer is known.
    pub(super) fn recall(
        &self,
        (who, version): (Principal, Version),
        known: Option<Presence>,
    ) -> Option<Publication> {
        let is_newer = |known: &Presence| known.state.is_online() || known.version > version;
        if known.as_ref().is_some_and(is_newer) {
            return None;
        }
        let transition = Transition {
            who,
            user: known.and_then(|known| known.user).map(Into::into),
            state: State::Offline(CloseReason::ServerStopped),
            protocol: "",
            version: Version(version.0.saturating_add(1)),
        };
        self.topic.as_ref()?.message(&transition)
    }

    /// Whether the keeper has heard something since its last turn.
    pub(super) fn is_behind(&self) -> bool {
        self.noted
    }

    pub(super) fn turn(&mut self, now: Now, outside: &mut impl Outside) -> Option<Instant> {
        self.noted = false;
        let next = self.keeper.turn(now, &mut self.effects);
        self.hand_out(now, outside);
        next
    }

    /// What became of what was handed out.
    pub(super) fn written(
        &mut self,
        now: Now,
        result: Result<Vec<Put>, Fault>,
        outside: &mut impl Outside,
    ) {
        self.refused = result.is_err();
        self.keeper.written(now, result, &mut self.effects);
        self.hand_out(now, outside);
    }

    /// What the directory has in a bucket.
    pub(super) fn compare(
        &mut self,
        now: Now,
        (bucket, stored): (u16, &[Entry]),
        outside: &mut impl Outside,
    ) {
        self.keeper.compare(now, bucket, stored, &mut self.effects);
        self.hand_out(now, outside);
    }

    fn hand_out(&mut self, now: Now, outside: &mut impl Outside) {
        let batches = std::mem::take(&mut self.effects.batches);
        if batches.is_empty() {
            return;
        }
        if let Err(fault) = outside.copy(batches) {
            self.refused = true;
            self.keeper.written(now, Err(fault), &mut self.effects);
        }
    }

    /// Whether the directory has everything, or did not take what it was given last.
    pub(super) fn is_settled(&self) -> bool {
        self.refused || self.keeper.unwritten() == 0
    }

    /// What hub and broker must be above from now on.
    pub(super) fn observed(&mut self) -> Option<Version> {
        self.effects.observed.take()
    }

    /// Those whose connections here are stale.
    pub(super) fn outvoted(&mut self) -> Vec<(Principal, Record)> {
        std::mem::take(&mut self.effects.outvoted)
    }

    /// An answer; `find` is what hub and broker know of somebody.
    pub(super) fn answer(
        &self,
        command: PresenceCommand,
        find: impl Fn(&Principal) -> Option<Presence>,
    ) -> PresenceAnswer {
        let answer = self.keeper.answer(&command);
        let (PresenceCommand::Find(who), PresenceAnswer::Found(known)) = (command, &answer) else {
            return answer;
        };
        // The keeper knows whom a directory must still hear of, and what it was told is newest
        // where it had to speak above another.
        let mut found: BTreeMap<&Principal, Presence> =
            known.iter().map(|known| (&known.who, known.clone())).collect();
        for who in &who {
            if let Some(mut presence) = find(who) {
                let told = found.get(who).map_or(Version::default(), |told| told.version);
                presence.version = presence.version.max(told);
                found.insert(who, presence);
            }
        }
        PresenceAnswer::Found(found.into_values().collect())
    }
}

/// One shard's totals since the process began.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// By product and protocol.
    pub counts: Counts,
    /// Heartbeats that came.
    pub heartbeats: u64,
    /// Of these, those that came later than agreed.
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

impl<O: Outside> ServerHouse<O> {
    /// Who came and went, in the order in which hub and broker say it.
    pub(super) fn attend(&mut self, now: Now) {
        if !(self.effects.transitions.is_empty() && self.topics.effects.transitions.is_empty()) {
            let transitions = std::mem::take(&mut self.effects.transitions);
            self.note(now, transitions);
            let transitions = std::mem::take(&mut self.topics.effects.transitions);
            self.note(now, transitions);
        }
    }

    fn note(&mut self, now: Now, transitions: Vec<Transition>) {
        for transition in transitions {
            if let Some(message) = self.attendance.note(now, transition) {
                self.topics.say(now, message);
            }
        }
    }

    /// What the keeper wants of hub and broker.
    pub(super) fn obey(&mut self, now: Now) {
        if let Some(version) = self.attendance.observed() {
            self.hub.observe(version);
            self.topics.broker.observe(version);
        }
        for (who, _) in self.attendance.outvoted() {
            match who {
                Principal::Device(product, device) => {
                    self.hub.outvoted(now, &product, &device, &mut self.effects);
                }
                Principal::Client(id) => {
                    self.topics.broker.outvoted(now, &id, &mut self.topics.effects);
                }
            }
        }
    }

    pub(super) fn ask_presence(&self, now: Now, command: PresenceCommand, part: Part) {
        let find = |who: &Principal| self.find(now, who);
        part.answer(Answer::Presence(self.attendance.answer(command, find)));
    }

    pub(super) fn find(&self, now: Now, who: &Principal) -> Option<Presence> {
        match who {
            Principal::Device(product, device) => self.hub.find(now, product, device),
            Principal::Client(id) => self.topics.broker.find(now, id),
        }
    }

    pub(super) fn figures(&self, desk: &Desk<Self>) -> Figures {
        let all = [&desk.counters, &self.effects.counters, &self.topics.effects.counters];
        let of = |counter| all.iter().map(|counters| counters.of(counter)).sum();
        let lost = CloseReason::KeepAliveTimeout;
        Figures {
            counts: self.attendance.keeper().counts().clone(),
            heartbeats: of(Counter::Pings),
            late: of(Counter::HeartbeatsLate),
            lost: all.iter().map(|counters| counters.closed_of(lost)).sum(),
        }
    }
}
