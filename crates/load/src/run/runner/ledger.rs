//! The audit of inboxes: whether what the target acknowledged is what its accounts have.
//!
//! Groups that audit have pulled all that their accounts were ever sent. What they found is held
//! against what every sender of the run had acknowledged: as many, and by the sums of their marks
//! the same. The invariant: where something is not known (a message without an end, an auditor that
//! has not read everything) the audit has no result, and says why in a note.

use super::Runner;
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
        if let Some(why) = self.unknown() {
            return self.note(format!("{}{why}", figures::NOT_AUDITED));
        }
        let taken = self.total.figure("messages.taken");
        let of = |name: &str| found.figure(name);
        let twice = of("messages.repeated") + of("messages.astray");
        let bent = of("messages.unjudged");
        let kept = of("messages.received") - twice - bent;
        let marks = self.total.figure("marks.taken") - of("marks.received");
        let differs = f64::from(u8::from(taken == kept && marks != 0.0));
        let (repeated, reordered) = (of("messages.repeated"), of("messages.reordered"));
        self.note(format!(
            "the audit: {taken} messages were acknowledged, {kept} stand in the inboxes; \
             {repeated} stand there again, {reordered} after a later one, {bent} are not as they \
             were sent"
        ));
        for (name, value) in [
            (figures::AUDITS, 1.0),
            (figures::MISSING, (taken - kept).max(0.0)),
            (figures::UNACKNOWLEDGED, (kept - taken).max(0.0)),
            (figures::DIFFERS, differs),
            (figures::REPEATED, repeated),
            (figures::REORDERED, reordered),
            (figures::CHANGED, bent),
        ] {
            self.count_once(name, value);
        }
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
