//! The audit of inboxes: whether what the target acknowledged is what its accounts have.
//!
//! Groups that audit have pulled all that their accounts were ever sent. Their sums are compared
//! with the acknowledged messages of every sender of the run: one entry for a message to one
//! account, and for one to a group one for each member that audits; the number of entries and the
//! sums of their marks must agree. The invariant: where something is not known (a message without
//! an end, an auditor that has not read everything) the audit has no result, and says why in a
//! note.

use super::{Runner, audience};
use lab::plan::{Group, Traffic, What};
use lab::run::Counts;
use verdict::message_figures as figures;

impl Runner<'_> {
    /// Whether somebody audits in this stage.
    pub(super) fn audits(&self) -> bool {
        self.auditors().any(|(_, clients)| clients > 0)
    }

    /// Whether all who audit have read everything.
    pub(super) fn is_audited(&self) -> bool {
        self.auditors().all(|(group, clients)| {
            let counts = self.groups.get(group);
            clients == 0 || counts.is_some_and(|it| it.online >= clients && behind(it) == 0)
        })
    }

    fn auditors(&self) -> impl Iterator<Item = (&str, u64)> {
        let groups = self.plan.groups.iter().filter(|group| group.audits);
        groups.map(|group| {
            let clients = self.wanted.get(&group.name).copied().unwrap_or(0);
            (group.name.as_str(), u64::from(clients))
        })
    }

    /// Compares what was acknowledged with what was found, where somebody audits.
    pub(super) fn audit_inboxes(&mut self) {
        if !self.audits() {
            return;
        }
        let mut found = Counts::default();
        for (group, _) in self.auditors() {
            let counts = self.groups.get(group);
            counts.into_iter().for_each(|counts| found.add(counts));
        }
        let expected = self.unknown().map_or_else(|| self.expected(), Err);
        let (expected, marks) = match expected {
            Ok(expected) => expected,
            Err(why) => return self.note(format!("{}{why}", figures::NOT_AUDITED)),
        };
        let taken = self.total.figure("messages.taken");
        let of = |name: &str| found.figure(name);
        let twice = of("messages.repeated") + of("messages.astray");
        let bent = of("messages.unjudged");
        let kept = of("messages.received") - twice - bent;
        let differs = expected == kept && marks != of("marks.received");
        let differs = f64::from(u8::from(differs));
        let (repeated, reordered) = (of("messages.repeated"), of("messages.reordered"));
        let of_many = match expected == taken {
            true => String::new(),
            false => format!(", for {expected} entries"),
        };
        self.note(format!(
            "the audit: {taken} messages were acknowledged{of_many}, {kept} are in the inboxes; \
             {repeated} stand there again, {reordered} after a later one, {bent} are not as they \
             were sent"
        ));
        for (name, value) in [
            (figures::AUDITS, 1.0),
            (figures::EXPECTED, expected),
            (figures::ENTRIES, kept),
            (figures::MISSING, (expected - kept).max(0.0)),
            (figures::UNACKNOWLEDGED, (kept - expected).max(0.0)),
            (figures::DIFFERS, differs),
            (figures::REPEATED, repeated),
            (figures::REORDERED, reordered),
            (figures::CHANGED, bent),
        ] {
            self.count_once(name, value);
        }
    }

    /// Entries that inboxes should have of what was acknowledged, and the sum of their marks.
    fn expected(&self) -> Result<(f64, f64), String> {
        let mut all = (0.0, 0.0);
        for (name, counts) in &self.groups {
            let taken = counts.figure("messages.taken");
            if taken == 0.0 {
                continue;
            }
            let group = self.plan.groups.iter().find(|group| group.name == *name);
            let entries = group.and_then(|group| self.entries(group)).ok_or_else(|| {
                format!("{name} has sent messages with an unknown number of receivers")
            })?;
            all = (all.0 + taken * entries, all.1 + counts.figure("marks.taken") * entries);
        }
        Ok(all)
    }

    /// Inboxes that audit and that each message of a group stands in; `None`: not each in as many,
    /// or nobody knows.
    fn entries(&self, sender: &Group) -> Option<f64> {
        let sent = self.plan.stages.iter().filter_map(|stage| stage.traffic.get(&sender.name));
        let said = sent.flatten().filter(|traffic| traffic.what == What::Publish);
        let to = |traffic: &Traffic| {
            let topic = traffic.topic.as_deref().unwrap_or_default();
            // Whoever is spoken to alone has it; whether somebody looks is the plan's to see to.
            let Some(to) = self.conversation(topic) else { return Some(1) };
            let auditors = self.plan.groups.iter().filter(|group| group.audits);
            let there = |group: &Group| self.wanted.get(&group.name).copied().unwrap_or(0);
            auditors.map(|group| audience::inboxes(self.plan, to, (group, there(group)))).sum()
        };
        let mut each = said.map(to);
        let first: Option<u64> = each.next().unwrap_or(Some(1));
        each.all(|other| other == first).then_some(first?).map(|entries| entries as f64)
    }

    /// Why an audit would say nothing.
    fn unknown(&self) -> Option<String> {
        if self.end.is_some() {
            return Some("the run ended before".to_owned());
        }
        if !self.is_audited() {
            return Some("not all inboxes were read to their end".to_owned());
        }
        let fate = ["messages.lost", "messages.cut"].map(|name| self.total.figure(name));
        let endless = fate.iter().sum::<f64>() + self.open_messages();
        (endless >= 1.0).then(|| format!("{endless} messages may be stored or not: no answer came"))
    }
}

/// Clients that have not read everything yet.
fn behind(counts: &Counts) -> u64 {
    let inboxes = counts.accounts.iter().filter(|account| account.what == "inboxes");
    let open = inboxes.flat_map(|account| &account.parts).filter(|(part, _)| part == "open");
    open.map(|(_, count)| count).sum()
}
