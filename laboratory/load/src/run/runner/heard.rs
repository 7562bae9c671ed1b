//! Messages that clients should have heard in a stage, by those sent: the plan's `hears`, or the
//! sums of its topics and subscriptions.
//!
//! Numbers in messages tell what is missing where a client hears one sender; here sums tell it
//! where anybody may hear anybody: copies and strays are known one by one and count for nobody. It
//! is done when a stage has settled, so that nothing that is under way is called missing. The
//! invariant: a message is missing once, however that is known; what should have arrived and
//! cannot be said is counted as untracked.

use super::{Runner, audience};
use crate::local::recruit;
use crate::target;
use lab::plan::{Group, Traffic, What};
use lab::run::Counts;
use std::collections::BTreeMap;

/// Results of the sums: of each group, by figure.
pub(super) type Sums = BTreeMap<String, BTreeMap<&'static str, f64>>;

const MISSING: &str = "messages.missing";
const MISSING_KEPT: &str = "messages.missing_kept";

impl Runner<'_> {
    /// Counts what did not arrive since `before`, by group.
    pub(super) fn miss(&mut self, before: &BTreeMap<String, Counts>) {
        let mut found: Vec<(String, &'static str, f64)> = Vec::new();
        for group in &self.plan.groups {
            let name = group.name.as_str();
            let since = |name: &str| self.since(before, &group.name, name);
            let shares = self.plan.groups.iter().map(|sender| {
                let sent = self.left(before, &sender.name);
                let each = if sent > 0.0 { self.receivers(sender, group) } else { Some(0.0) };
                each.map(|each| sent * each)
            });
            let expected: f64 = shares.flatten().sum();
            let extra = ["messages.repeated", "messages.astray", "messages.foreign"];
            let extra: f64 = extra.into_iter().map(since).sum();
            // What was left out and told is not missing.
            let told = since("messages.received") - extra + since("messages.skipped");
            let missing = (expected - told).round();
            found.push((name.to_owned(), MISSING, missing - since(MISSING)));
            let wanted = self.wanted.get(name).copied().unwrap_or(0);
            let online = self.groups.get(name).map_or(0, |counts| counts.online);
            // Who has not come back has not been sent it yet.
            if self.keeps_all(group) && online >= u64::from(wanted) {
                found.push((name.to_owned(), MISSING_KEPT, missing.max(since(MISSING))));
            }
            let is_known = |other: &Group| self.receivers(group, other).is_some();
            if !self.plan.groups.iter().all(is_known) {
                found.push((name.to_owned(), "messages.untracked", self.left(before, name)));
            }
            let counted = self.unanswered.get(name).copied().unwrap_or(0.0);
            let open = open(self.groups.get(name)) - counted;
            found.push((name.to_owned(), "messages.unanswered", open));
        }
        found.retain(|(_, _, count)| *count >= 1.0);
        for (group, figure, count) in found {
            if figure != MISSING_KEPT {
                self.note(format!("{group}: {count} {}", words(figure)));
            }
            self.total.raise(figure, count);
            let counts = self.groups.entry(group.clone()).or_default();
            counts.raise(figure, count);
            let all = counts.figure(figure);
            self.summed.entry(group).or_default().insert(figure, all);
        }
        for (group, counts) in &self.groups {
            self.unanswered.insert(group.clone(), open(Some(counts)));
        }
    }

    /// Growth of a group's figure since then.
    fn since(&self, before: &BTreeMap<String, Counts>, group: &str, figure: &str) -> f64 {
        let of = |groups: &BTreeMap<String, Counts>| {
            groups.get(group).map_or(0.0, |counts| counts.figure(figure))
        };
        of(&self.groups) - of(before)
    }

    /// Messages that a group has sent since then and that should have arrived.
    fn left(&self, before: &BTreeMap<String, Counts>, group: &str) -> f64 {
        let gone = ["messages.refused", "messages.lost", "messages.cut"];
        let gone: f64 = gone.iter().map(|name| self.since(before, group, name)).sum();
        (self.since(before, group, "messages.sent") - gone).max(0.0)
    }

    /// Whether the target must keep every message for a group while its clients are away: their
    /// sessions outlive connections, and all that they hear is sent at QoS 1 or 2 (MQTT).
    fn keeps_all(&self, group: &Group) -> bool {
        let ears = self.ears(group);
        let speaks = |sender: &Group| {
            let spoken = self.spoken.get(&sender.name).map_or(&[][..], Vec::as_slice);
            spoken.iter().filter(|traffic| traffic.what == What::Publish)
        };
        let is_heard = |topic: &str| ears.iter().any(|filter| meets(filter, topic) != Met::Never);
        let mut heard = self
            .plan
            .groups
            .iter()
            .flat_map(speaks)
            .filter(|traffic| traffic.topic.as_deref().is_some_and(is_heard));
        let is_shared = ears.iter().any(|filter| filter.starts_with("$share/"));
        group.keep_session
            && group.subscribe_qos > 0
            && !is_shared
            && heard.all(|traffic| traffic.qos > 0)
    }

    /// Adds what is known by sums to what the tester counted. Of what the tester
    /// finds out later it may be the same: the higher one counts.
    pub(super) fn with_sums(&self, groups: &mut BTreeMap<String, Counts>) {
        for (group, figures) in &self.summed {
            let counts = groups.entry(group.clone()).or_default();
            for (figure, all) in figures {
                let known = counts.figure(figure);
                counts.raise(figure, (all - known).max(0.0));
            }
        }
    }

    /// Messages that have no answer yet.
    pub(super) fn open_messages(&self) -> f64 {
        open(Some(&self.total))
    }

    /// Topics or accounts whose messages the clients of a group hear.
    fn ears(&self, group: &Group) -> Vec<String> {
        if group.lite {
            return Vec::new();
        }
        let urls = if group.url.is_empty() { &self.plan.target.url } else { &group.url };
        match target::is_chat(urls) {
            true => vec![recruit::account(group)],
            false => group.subscribe.clone(),
        }
    }

    /// Whether all clients of a group have gone all their rounds.
    fn is_through(&self, group: &str) -> bool {
        let clients = self.wanted.get(group).copied().unwrap_or(0);
        let spoken = self.spoken.get(group).map_or(&[][..], Vec::as_slice);
        let rounds: Option<u64> = spoken.iter().map(|traffic| traffic.rounds(clients)).sum();
        rounds.is_some_and(|rounds| self.sent(group) >= rounds as f64)
    }

    /// Receivers in a group of one message of another, in all; `None`: nobody knows.
    fn receivers(&self, sender: &Group, receiver: &Group) -> Option<f64> {
        if let Some(told) = receiver.hears.get(&sender.name) {
            return Some(*told);
        }
        let clients = |group: &Group| f64::from(self.wanted.get(&group.name).copied().unwrap_or(0));
        let spoken = self.spoken.get(&sender.name).map_or(&[][..], Vec::as_slice);
        let answers = sender.answer_to.as_ref().map(|topic| topic.replace("%s", "%i"));
        let of_topics = spoken.iter().filter_map(|traffic| topic_of(traffic));
        let of_answers = answers.iter().map(|topic| (topic.as_str(), None));
        let pushes = spoken.iter().filter(|traffic| traffic.what == What::Push);
        let pushed = pushes.map(|traffic| match traffic.among {
            _ if sender.name != receiver.name => Some(0.0),
            Some(_) => Some(1.0),
            None => Some(clients(receiver)),
        });
        let rounds = spoken.iter().any(|traffic| traffic.loops.is_some());
        let ears = self.ears(receiver);
        let each = of_topics.chain(of_answers).map(|(topic, among)| {
            if let Some(to) = self.conversation(topic) {
                let there = [sender, receiver].map(|group| clients(group) as u32);
                let (by, who) = ((sender, there[0]), (receiver, there[1]));
                return audience::hears(self.plan, to, by, who).map(|all| all as f64);
            }
            let numbers = among.map_or(clients(sender), f64::from);
            let are_plain = [sender, receiver].iter().all(|group| group.first == 0);
            let has_all = are_plain && numbers <= clients(receiver);
            let met = ears.iter().map(|filter| (filter, meets(filter, topic)));
            let met: Vec<_> = met.filter(|(_, met)| *met != Met::Never).collect();
            match met.as_slice() {
                [] => Some(0.0),
                [(_, Met::Own)] if has_all => Some(1.0),
                // Who has gone all rounds has been with each as often as with the others.
                [(_, Met::Own)] if are_plain && rounds && self.is_through(&sender.name) => {
                    Some(clients(receiver) / numbers)
                }
                [(filter, Met::All)] if filter.starts_with("$share/") => Some(1.0),
                [(_, Met::All)] => Some(clients(receiver)),
                _ => None,
            }
        });
        let mut each = each.chain(pushed);
        let first = each.next().unwrap_or(Some(0.0))?;
        each.all(|other| other == Some(first)).then_some(first)
    }
}

/// The topic that is published to, and among how many numbers.
fn topic_of(traffic: &Traffic) -> Option<(&str, Option<u32>)> {
    let is_published = traffic.what == What::Publish;
    Some((traffic.topic.as_deref().filter(|_| is_published)?, traffic.among))
}

/// Messages of these without an answer.
fn open(counts: Option<&Counts>) -> f64 {
    let accounts = counts.into_iter().flat_map(|counts| &counts.accounts);
    let messages = accounts.filter(|account| account.what == "messages");
    let open = messages.flat_map(|account| &account.parts).filter(|(part, _)| part == "open");
    open.map(|(_, count)| *count as f64).sum()
}

fn words(figure: &str) -> &'static str {
    match figure {
        "messages.missing" => "messages that were sent have not arrived",
        "messages.untracked" => "messages were sent with an unknown number of receivers",
        _ => "messages were not answered by the target",
    }
}

/// Match of a filter and a topic, both with `%i`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Met {
    Never,
    /// Each client's own.
    Own,
    /// The filter matches the topics of all clients.
    All,
    /// The match depends on the numbers.
    Perhaps,
}

fn meets(filter: &str, topic: &str) -> Met {
    let shared = filter.strip_prefix("$share/").and_then(|rest| rest.split_once('/'));
    let mut levels = topic.split('/');
    let (mut own, mut perhaps) = (false, false);
    for level in shared.map_or(filter, |(_, filter)| filter).split('/') {
        if level == "#" {
            levels = "".split('/');
            levels.next();
            break;
        }
        match levels.next() {
            None => return Met::Never,
            Some(_) if level == "+" => {}
            Some(other) if other == level => own |= level.contains("%i"),
            Some(other) if may_be(level, other) => perhaps = true,
            Some(_) => return Met::Never,
        }
    }
    match (levels.next(), perhaps, own) {
        (Some(_), ..) => Met::Never,
        (None, true, _) => Met::Perhaps,
        (None, false, true) => Met::Own,
        (None, false, false) => Met::All,
    }
}

/// Whether two formulas can have a name in common.
pub(super) fn may_be(one: &str, other: &str) -> bool {
    let front = |formula: &str| formula.split("%i").next().unwrap_or_default().to_owned();
    let (a, b) = (front(one), front(other));
    (one.contains("%i") || other.contains("%i")) && (a.starts_with(&b) || b.starts_with(&a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_topics_a_filter_means_is_known_from_its_formula() {
        for (filter, topic, met) in [
            ("a/%i", "a/%i", Met::Own),
            ("a/#", "a/%i", Met::All),
            ("a/+", "a/%i", Met::All),
            ("#", "a/%i", Met::All),
            ("a/#", "a", Met::All),
            ("$share/g/a/#", "a/%i", Met::All),
            ("a/+/x", "a/%i", Met::Never),
            ("b/%i", "a/%i", Met::Never),
            ("a/%i", "a", Met::Never),
            ("a/7", "a/%i", Met::Perhaps),
            ("a/%i", "a/7", Met::Perhaps),
            ("u_%i", "ru_%i", Met::Never),
            ("u%i", "u1%i", Met::Perhaps),
            ("ru_%i", "ru_%i", Met::Own),
            ("a/%i/#", "a/%i/x", Met::Own),
        ] {
            assert_eq!(meets(filter, topic), met, "{filter} {topic}");
        }
    }
}
