//! Conversations of many that a stage makes: asked for, waited for, and their addresses given to
//! whoever sends to them.
//!
//! The founder is a part of the run. The invariant: where they are not made the run ends and says
//! why, before anybody sends to them.

use super::{End, Runner};
use crate::local::recruit;
use crate::run::StagePart;
use crate::run::parts::WantedConversations;
use lab::plan::{Group, Plan, PlannedConversation, Traffic};
use std::collections::BTreeSet;

/// Longest time that conversations of one name are waited for, milliseconds.
const FOUND_MS_MAX: u64 = 600_000;

impl Runner<'_> {
    /// The plan's conversations of this name.
    pub(super) fn conversation(&self, name: &str) -> Option<&PlannedConversation> {
        self.plan.conversations.iter().find(|known| known.name == name)
    }

    /// Makes what the stage makes.
    pub(super) fn make_conversations(&mut self) {
        for name in &self.planned().makes {
            if self.end.is_some() {
                return;
            }
            let wanted = self.conversation(name).and_then(|known| wanted(self.plan, known));
            let Some(wanted) = wanted else { continue };
            let (count, members) = (wanted.count, wanted.members.len() + 1);
            match self.founded(wanted) {
                Ok(addresses) => {
                    self.note(format!("{name}: {count} conversations of {members} created"));
                    self.addresses.insert(name.clone(), addresses);
                }
                Err(why) => {
                    self.note(format!("{name}: not created: {why}"));
                    self.end.get_or_insert(End::Refused(format!("{name}: {why}")));
                }
            }
        }
    }

    fn founded(&mut self, wanted: WantedConversations) -> Result<Vec<String>, String> {
        self.part = StagePart::Arriving;
        let count = wanted.count as usize;
        self.parts.founder.begin(wanted);
        self.until_ms = self.now_ms() + FOUND_MS_MAX;
        loop {
            match self.parts.founder.take() {
                Some(Ok(addresses)) if addresses.len() != count => {
                    return Err(format!("{} of {count} were created", addresses.len()));
                }
                Some(made) => return made,
                None => {}
            }
            if self.end.is_some() || self.now_ms() >= self.until_ms {
                return Err("not all were created in time".to_owned());
            }
            self.beat(self.until_ms);
        }
    }

    /// The traffic, with the addresses of the conversations that it goes to.
    pub(super) fn addressed(&self, traffic: &[Traffic]) -> Vec<Traffic> {
        let known = |sent: &Traffic| self.addresses.get(sent.topic.as_deref().unwrap_or_default());
        let sent = traffic.iter().cloned().map(|mut sent| {
            if let Some(addresses) = known(&sent) {
                sent.addresses.clone_from(addresses);
            }
            sent
        });
        sent.collect()
    }
}

/// The conversations to make, with all accounts by name.
fn wanted(plan: &Plan, known: &PlannedConversation) -> Option<WantedConversations> {
    let named = |name: &str| plan.groups.iter().find(|group| group.name == name);
    let mut owner: Group = named(&known.owner)?.clone();
    if owner.url.is_empty() {
        owner.url.clone_from(&plan.target.url);
    }
    let account = |group: &Group, place: u32| {
        recruit::account(group).replace("%i", &group.number_of(place).to_string())
    };
    let own = account(&owner, 0);
    let mut seen = BTreeSet::from([own]);
    let mut members = Vec::new();
    for (name, clients) in &known.members {
        let group = named(name)?;
        let accounts = (0..*clients).map(|place| account(group, place));
        members.extend(accounts.filter(|account| seen.insert(account.clone())));
    }
    let (name, count, rooms) = (known.name.clone(), known.count, known.room);
    Some(WantedConversations { name, count, rooms, owner, members })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_named_twice_or_owns_it_is_a_member_once() {
        let text = r#"
            name = "t"
            [target]
            url = ["im://h"]
            [[group]]
            name = "s"
            user = "u%i"
            first = 3
            [[group]]
            name = "t"
            user = "u%i"
            first = 4
            [[conversation]]
            name = "g"
            count = 7
            owner = "s"
            members = { s = 2, t = 2 }
        "#;
        let plan: Plan = toml::from_str(text).expect("a plan");
        let wanted = wanted(&plan, &plan.conversations[0]).expect("all are there");
        assert_eq!((wanted.count, wanted.members), (7, vec!["u4".to_owned(), "u5".to_owned()]));
        assert_eq!(
            (wanted.owner.name.as_str(), wanted.owner.url),
            ("s", vec!["im://h".to_owned()])
        );
    }
}
