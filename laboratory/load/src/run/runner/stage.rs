//! One stage: clients come, the time is held while things are broken, answers come in, rules are
//! judged.
//!
//! This module knows one stage at a time. The invariant: a stage ends every fault that it began
//! before its rules are judged, and is in the run's stages whatever happened in it.

use super::{End, LOOK_MS, Runner};
use crate::run::StagePart;
use lab::cause::{Cause, Phase};
use lab::order::{Cut, Order};
use lab::plan::{Arrival, Fault, FaultKind, Span};
use lab::run::{Counts, StageRun};
use std::collections::BTreeMap;

/// Longest time that clients may take to leave, milliseconds.
const LEAVE_MS_MAX: u64 = 60_000;
/// Silence after which no more messages are waited for, milliseconds.
const QUIET_MS: u64 = 1_000;
/// Longest time that answers to subscriptions are waited for, milliseconds.
const SUBSCRIBE_MS_MAX: u64 = 5_000;
const UNSUBSCRIBED: &str = "subscriptions.unanswered";
/// A target that has answered no call for so long is not there, milliseconds.
const SILENT_MS: u64 = 3_000;
/// A target that has let no client in for so long will let none in, milliseconds.
const SHUT_MS: u64 = 10_000;
/// Longest time that answers are waited for while nothing comes in, milliseconds.
const SETTLE_MS_MAX: u64 = 10_000;
/// Longest time that they are waited for as long as something does, milliseconds.
const COMES_IN_MS_MAX: u64 = 120_000;

impl Runner<'_> {
    /// Works a stage off. An error: nothing could be run at all.
    pub(super) fn stage(&mut self, place: usize) -> Result<(), String> {
        self.place = place;
        self.row();
        let planned = self.planned();
        if planned.anew {
            self.leave();
        }
        let from_ms = self.now_ms();
        let before = self.total.clone();
        let groups = self.groups.clone();
        if !self.arrive() {
            let why = self.end.as_ref().map_or_else(String::new, End::words);
            if self.run.stages.is_empty() {
                return Err(why);
            }
            self.run.skipped.push((planned.name.clone(), why));
            return Ok(());
        }
        let arrived_ms = self.now_ms();
        self.make_conversations();
        let began_ms = self.hold();
        if self.settle() {
            self.miss(&groups);
            self.tail(arrived_ms);
            self.sent_in(began_ms);
        }
        self.owe();
        self.audit_inboxes();
        self.audit();
        self.row();
        let to_ms = self.now_ms();
        self.run.took_ms = to_ms;
        self.run.stages.push(StageRun {
            name: planned.name.clone(),
            from_ms,
            arrived_ms,
            to_ms,
            clients: self.wanted.values().map(|count| u64::from(*count)).sum(),
            counts: self.total.since(&before),
            checks: Vec::new(),
        });
        self.check();
        Ok(())
    }

    /// All clients say farewell.
    fn leave(&mut self) {
        self.part = StagePart::Leaving;
        for group in self.wanted.keys().cloned().collect::<Vec<_>>() {
            let arrival = Arrival::Burst;
            self.order(&Order::Arrive { group, clients: 0, arrival });
        }
        self.until_ms = self.now_ms() + LEAVE_MS_MAX;
        while self.end.is_none() && self.total.open > 0 && self.now_ms() < self.until_ms {
            self.beat(self.until_ms);
        }
    }

    /// Calls the clients and waits for them; false: an order could not be carried out.
    fn arrive(&mut self) -> bool {
        let planned = self.planned();
        self.part = StagePart::Arriving;
        let mut before = BTreeMap::new();
        for (group, &clients) in &planned.clients {
            let counts = self.groups.get(group).cloned().unwrap_or_default();
            before.insert(group.clone(), (counts.attempts, counts.online));
            self.wanted.insert(group.clone(), clients);
            let arrival = planned.arrive;
            if !self.order(&Order::Arrive { group: group.clone(), clients, arrival }) {
                return false;
            }
        }
        let began = self.now_ms();
        let waits = ms(planned.arrive_max);
        let paused = self.paused_ms;
        self.look();
        while self.end.is_none() && !self.all_there(&before) {
            self.until_ms = began + waits + (self.paused_ms - paused);
            if self.now_ms() >= self.until_ms {
                let (online, wanted) = (self.total.online, self.wanted.values().sum::<u32>());
                self.note(format!(
                    "stage {}: {online} of {wanted} clients were online after {}",
                    planned.name, planned.arrive_max
                ));
                break;
            }
            self.beat(self.until_ms);
            if self.nobody_answers() && self.now_ms() >= began + SILENT_MS {
                break;
            }
            if self.nobody_let_in() && self.now_ms() >= began + SHUT_MS {
                break;
            }
        }
        if self.end.is_none() {
            self.end = match (self.nobody_answers(), self.nobody_let_in()) {
                (true, _) => Some(End::NobodyAnswers),
                (false, true) => Some(End::NobodyLetIn),
                (false, false) => None,
            };
        }
        true
    }

    /// Whether no client of the whole run was ever let in, and as many calls as there should be
    /// clients have ended.
    fn nobody_let_in(&self) -> bool {
        let wanted: u64 = self.wanted.values().map(|count| u64::from(*count)).sum();
        wanted > 0 && self.total.bound == 0 && self.total.causes.errors() >= wanted
    }

    /// Whether no call of the whole run came through, and those that ended were answered by nobody.
    fn nobody_answers(&self) -> bool {
        let unanswered = [Cause::Refused, Cause::SynTimedOut, Cause::NoRoute];
        let causes = &self.total.causes;
        let ended: u64 = unanswered.iter().map(|&cause| causes.of(Phase::Connect, cause)).sum();
        let came_through = self.total.figure("established") >= 1.0 || self.total.bound > 0;
        !came_through && ended > 0 && ended >= causes.errors()
    }

    /// Whether every group has the clients it shall have; or has lost some that do not come back,
    /// and nobody is on the way.
    fn all_there(&self, before: &BTreeMap<String, (u64, u64)>) -> bool {
        before.iter().all(|(group, &(attempts, online))| {
            let mut wanted = u64::from(self.wanted.get(group).copied().unwrap_or(0));
            let counts = match self.groups.get(group) {
                Some(counts) => counts,
                None => return wanted == 0,
            };
            if self.run.agents.iter().any(|agent| agent.lost_ms.is_some()) {
                // The clients of an agent that was lost do not come.
                wanted = wanted.min(counts.planned);
            }
            if counts.online == wanted {
                return true;
            }
            let comes_back = self
                .plan
                .groups
                .iter()
                .any(|known| known.name == *group && !known.back_after.is_zero());
            let called = counts.attempts.saturating_sub(attempts);
            let turn_had = called >= wanted.saturating_sub(online);
            let none_on_the_way = counts.attempts == counts.online + counts.causes.sum();
            counts.online < wanted && !comes_back && turn_had && none_on_the_way
        })
    }

    /// Holds the stage's time; begins and ends its faults at theirs. When sending began.
    fn hold(&mut self) -> u64 {
        let planned = self.planned();
        for (group, traffic) in &planned.traffic {
            // What it sent before is replaced, if only by nothing.
            if traffic.is_empty() {
                self.send(group, &[]);
            }
            self.traffic.insert(group.clone(), self.addressed(traffic));
        }
        if self.end.is_some() {
            return self.now_ms();
        }
        self.spoken.clone_from(&self.traffic);
        self.subscribed();
        let began = self.now_ms();
        self.send_all(true);
        self.part = StagePart::Holding;
        let paused = self.paused_ms;
        let mut counted = self.counted();
        self.owing = self.owing();
        let audits = self.audits();
        let mut faults: Vec<Ongoing> = planned.faults.iter().map(Ongoing::of).collect();
        while self.end.is_none() {
            let shift = began + (self.paused_ms - paused);
            self.until_ms = shift + ms(planned.hold);
            let now = self.now_ms();
            for fault in &mut faults {
                self.work(fault, now.saturating_sub(shift));
            }
            let is_over = self.all_sent(&mut counted) || audits && self.is_audited();
            if now >= self.until_ms || is_over {
                break;
            }
            self.counts_messages = audits || !counted.is_empty();
            let next = faults.iter().filter_map(Ongoing::next_ms).min();
            let next = next.map_or(u64::MAX, |at| shift.saturating_add(at));
            self.beat(self.until_ms.min(next));
        }
        for fault in &mut faults {
            self.work(fault, u64::MAX);
        }
        began
    }

    /// Waits until all subscriptions are answered: who is not subscribed yet misses nothing.
    fn subscribed(&mut self) {
        let until = self.now_ms() + SUBSCRIBE_MS_MAX;
        self.look();
        while self.unsubscribed() >= 1.0 && self.end.is_none() && self.now_ms() < until {
            self.beat(until);
        }
        let unanswered = self.unsubscribed();
        for (group, counts) in &self.groups {
            let count = self.without_suback(group, counts);
            if count >= 1.0 {
                let summed = self.summed.entry(group.clone()).or_default();
                summed.insert(UNSUBSCRIBED, counts.figure(UNSUBSCRIBED) + count);
            }
        }
        if unanswered >= 1.0 {
            self.note(format!(
                "{unanswered} subscriptions had no answer before messages were sent"
            ));
        }
    }

    /// Subscriptions that were asked for and have no answer.
    fn unsubscribed(&self) -> f64 {
        self.groups.iter().map(|(group, counts)| self.without_suback(group, counts)).sum()
    }

    fn without_suback(&self, group: &str, counts: &Counts) -> f64 {
        let known = self.plan.groups.iter().find(|known| known.name == group);
        let filters = known.map_or(0, |group| group.subscribe.len()) as f64;
        let answered = ["subscriptions.granted", "subscriptions.refused", UNSUBSCRIBED];
        let answered: f64 = answered.iter().map(|name| counts.figure(name)).sum();
        // Who ended before the answer has taken it with him.
        let ended = counts.bound.saturating_sub(counts.online) as f64;
        let asked = counts.bound as f64 - counts.figure("resumed") - ended;
        (asked * filters - answered).max(0.0)
    }

    /// Groups that have a number of messages to send, and what they will have sent then.
    fn counted(&self) -> Vec<(String, f64)> {
        let groups = self.traffic.iter().filter_map(|(group, traffic)| {
            let clients = self.wanted.get(group).copied().unwrap_or(0);
            let rounds: Option<u64> = traffic.iter().map(|sent| sent.rounds(clients)).sum();
            if let Some(rounds) = rounds.filter(|rounds| *rounds > 0) {
                return Some((group.clone(), rounds as f64));
            }
            let wanted: Option<u64> = traffic.iter().map(|sent| sent.messages).sum();
            let wanted = wanted.filter(|wanted| *wanted > 0)?;
            Some((group.clone(), self.sent(group) + wanted as f64))
        });
        groups.collect()
    }

    pub(super) fn sent(&self, group: &str) -> f64 {
        self.groups.get(group).map_or(0.0, |counts| counts.figure("messages.sent"))
    }

    /// Stops groups that have sent what they should; whether there were any and all have.
    fn all_sent(&mut self, counted: &mut Vec<(String, f64)>) -> bool {
        if counted.is_empty() {
            return false;
        }
        for at in (0..counted.len()).rev() {
            if self.sent(&counted[at].0) >= counted[at].1 {
                let (group, _) = counted.swap_remove(at);
                self.note(format!("{group} has sent all its messages"));
                self.traffic.insert(group.clone(), Vec::new());
                self.send(&group, &[]);
            }
        }
        counted.is_empty()
    }

    /// Begins or ends a fault whose time has come, `at_ms` after the hold began.
    fn work(&mut self, fault: &mut Ongoing, at_ms: u64) {
        if !fault.begun && at_ms >= fault.from_ms && at_ms < u64::MAX {
            fault.begun = true;
            let (done, words) = self.break_it(&fault.what);
            fault.holds = done;
            if done {
                self.excuses.begin(&fault.what);
            }
            self.note(words);
        }
        if fault.holds && at_ms >= fault.to_ms {
            fault.holds = false;
            let now = self.now_ms();
            self.excuses.end(&fault.what, now);
            if let Some(words) = self.mend(&fault.what) {
                self.note(words);
            }
        }
        fault.again(at_ms);
    }

    /// Whether it was broken, and what is to be noted.
    fn break_it(&mut self, what: &FaultKind) -> (bool, String) {
        let done = match what {
            FaultKind::Flap { share_per_s } => {
                let order = Order::Flap { group: None, share_per_s: *share_per_s };
                let words = format!("{} of the clients flap per second", percent(*share_per_s));
                self.parts.generator.order(&order).map(|()| words)
            }
            FaultKind::Cut { share, how } => {
                let order = Order::Cut { group: None, share: *share, how: *how };
                let words = format!("{} of the clients: {}", percent(*share), manner(*how));
                self.parts.generator.order(&order).map(|()| words)
            }
            other => {
                let begun = self.parts.breaker.begin(other);
                begun.map(|words| format!("{}{words}", verdict::BROKEN))
            }
        };
        match done {
            Ok(words) => (true, words),
            Err(why) => {
                let kind = kind(what);
                (false, format!("skipped: {kind}: {why}"))
            }
        }
    }

    fn mend(&mut self, what: &FaultKind) -> Option<String> {
        let done = match what {
            FaultKind::Flap { .. } => {
                let order = Order::Flap { group: None, share_per_s: 0.0 };
                self.parts.generator.order(&order).map(|()| "flapping ended".to_owned())
            }
            FaultKind::Cut { how: Cut::Freeze | Cut::StopReading, .. } => {
                let order = Order::Cut { group: None, share: 1.0, how: Cut::Thaw };
                self.parts.generator.order(&order).map(|()| "frozen clients continue".to_owned())
            }
            FaultKind::Cut { .. } => return None,
            other => {
                let ended = self.parts.breaker.end(other)?;
                ended.map(|words| format!("{}{words}", verdict::MENDED))
            }
        };
        Some(done.unwrap_or_else(|why| format!("{} could not be ended: {why}", kind(what))))
    }

    /// Stops sending, and waits until all that is under way has come in. Returns false if there was
    /// nothing to wait for.
    fn settle(&mut self) -> bool {
        let hasty = self.end.as_ref().is_some_and(End::is_hasty);
        // Whoever sent all in one go sends no more, and may have no answer yet.
        let is_said = came_in(&self.total) + self.total.figure("messages.sent") > 0.0;
        let sent = is_said || !self.traffic.values().all(Vec::is_empty);
        if hasty || !sent {
            return false;
        }
        self.part = StagePart::Settling;
        self.send_all(false);
        let began = self.now_ms();
        self.until_ms = began + SETTLE_MS_MAX;
        let mut last = (came_in(&self.total), began);
        let settled = |runner: &mut Self, last: (f64, u64)| {
            // Whoever owes an answer has longer than it takes to be quiet.
            let is_quiet = runner.open_messages() < 1.0 && runner.now_ms() >= last.1 + QUIET_MS;
            is_quiet || runner.now_ms() >= runner.until_ms
        };
        while !settled(self, last) {
            let now = self.now_ms();
            self.beat((last.1 + QUIET_MS).max(now + LOOK_MS));
            let now = came_in(&self.total);
            if now > last.0 {
                last = (now, self.now_ms());
                self.until_ms = (last.1 + SETTLE_MS_MAX).min(began + COMES_IN_MS_MAX);
            }
        }
        true
    }

    /// Judges the stage that was just run.
    fn check(&mut self) {
        let planned = self.planned();
        let place = self.run.stages.len() - 1;
        let scope = verdict::Scope::of_stage(&self.run, place).expect("it was just pushed");
        let checks: Vec<_> = planned.pass.iter().map(|rule| verdict::check(rule, &scope)).collect();
        let passed = checks.iter().all(|check| check.held == Some(true));
        self.run.stages[place].checks = checks;
        self.run.total = self.total.clone();
        self.run.findings = verdict::findings(&self.run);
        if !passed && planned.stop_on_failure && self.end.is_none() {
            self.note(format!("stage {} failed: the run ends here", planned.name));
            self.end = Some(End::Failed(planned.name.clone()));
        }
    }
}

/// A fault of the stage.
struct Ongoing {
    what: FaultKind,
    from_ms: u64,
    to_ms: u64,
    /// From one beginning to the next; zero: there is one.
    every_ms: u64,
    begun: bool,
    holds: bool,
}

impl Ongoing {
    fn of(fault: &Fault) -> Ongoing {
        let from_ms = ms(fault.at);
        let to_ms = match fault.lasts {
            lasts if lasts.is_zero() => u64::MAX,
            lasts => from_ms.saturating_add(ms(lasts)),
        };
        let every_ms = ms(fault.every);
        let what = fault.what.clone();
        Ongoing { what, from_ms, to_ms, every_ms, begun: false, holds: false }
    }

    /// Makes ready for the next time, once this one is over or, where nothing has to be mended, has
    /// begun. Moments that have gone by meanwhile are left out.
    fn again(&mut self, at_ms: u64) {
        let happens_once = self.to_ms == u64::MAX;
        if self.every_ms == 0 || !self.begun || self.holds && !happens_once || at_ms == u64::MAX {
            return;
        }
        let next = (at_ms.saturating_sub(self.from_ms) / self.every_ms + 1) * self.every_ms;
        self.from_ms = self.from_ms.saturating_add(next);
        if !happens_once {
            self.to_ms = self.to_ms.saturating_add(next);
        }
        (self.begun, self.holds) = (false, false);
    }

    /// When it is to be worked on next, milliseconds after the hold began.
    fn next_ms(&self) -> Option<u64> {
        match (self.begun, self.holds) {
            (false, _) => Some(self.from_ms),
            (true, true) => Some(self.to_ms),
            (true, false) => None,
        }
    }
}

/// Number of answers and messages that came in, by which quiet is known.
fn came_in(counts: &Counts) -> f64 {
    let answers = ["messages.taken", "messages.received", "messages.refused", "requests.answered"];
    answers.iter().map(|name| counts.figure(name)).sum()
}

fn ms(span: Span) -> u64 {
    u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX)
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 1e2)
}

fn manner(how: Cut) -> &'static str {
    match how {
        Cut::Farewell => "they disconnect cleanly",
        Cut::Close => "they close the connection",
        Cut::Reset => "they reset their connections",
        Cut::Freeze => "they stop answering (half-open)",
        Cut::StopReading => "they stop reading",
        Cut::Thaw => "they continue",
    }
}

fn kind(what: &FaultKind) -> &'static str {
    match what {
        FaultKind::Flap { .. } => "flapping",
        FaultKind::Cut { .. } => "a cut",
        FaultKind::TargetKilled => "the target killed",
        FaultKind::TargetPaused => "the target paused",
        FaultKind::DescriptorsStarved { .. } => "descriptors starved",
        FaultKind::Network { .. } => "the network broken",
        FaultKind::RedisPaused => "Redis paused",
        FaultKind::RedisKilled => "Redis killed",
        FaultKind::RedisFlushed => "Redis flushed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When a fault begins and ends within a minute, looked at every half second.
    fn moments(at: u64, lasts: u64, every: u64) -> Vec<(u64, &'static str)> {
        let span = |seconds| Span::from_secs(seconds);
        let what = FaultKind::RedisKilled;
        let fault = Fault { at: span(at), lasts: span(lasts), every: span(every), what };
        let (mut ongoing, mut seen) = (Ongoing::of(&fault), Vec::new());
        for at_ms in (0..60_000).step_by(500).chain([u64::MAX]) {
            if !ongoing.begun && at_ms >= ongoing.from_ms && at_ms < u64::MAX {
                (ongoing.begun, ongoing.holds) = (true, true);
                seen.push((at_ms / 1_000, "begins"));
            }
            if ongoing.holds && at_ms >= ongoing.to_ms {
                ongoing.holds = false;
                seen.push(((at_ms / 1_000).min(60), "ends"));
            }
            ongoing.again(at_ms);
        }
        seen
    }

    #[test]
    fn a_fault_comes_again_as_often_as_the_plan_says_and_else_once() {
        let (begins, ends) = ("begins", "ends");
        assert_eq!(moments(5, 10, 0), [(5, begins), (15, ends)]);
        assert_eq!(
            moments(5, 5, 25),
            [(5, begins), (10, ends), (30, begins), (35, ends), (55, begins), (60, ends)]
        );
        // What happens once, like a flush, is begun again without an end.
        let flushed = moments(5, 0, 20);
        let begun: Vec<u64> =
            flushed.iter().filter(|(_, what)| *what == begins).map(|(at, _)| *at).collect();
        assert_eq!(begun, [5, 25, 45]);
    }
}
