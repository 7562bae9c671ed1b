//! Audience of a conversation of many: how many of some clients are members of it.
//!
//! Accounts are a formula and numbers in a row; two groups of clients with one formula are devices
//! of the same accounts where their numbers meet. Pure. The invariant: where formulas do not tell
//! who is who, nothing is said.

use super::heard::may_be;
use crate::local::recruit;
use lab::plan::{Group, Plan, PlannedConversation};
use std::ops::Range;

/// Accounts of some clients: the formula, and the numbers in it.
struct Accounts {
    formula: String,
    numbers: Range<u64>,
}

impl Accounts {
    /// Accounts of a group's clients, from its first on; `None`: their names are not consecutive.
    fn of(group: &Group, clients: u32) -> Option<Accounts> {
        let formula = recruit::account(group);
        let first = u64::from(group.first);
        let is_row = formula.contains("%i") && group.step <= 1;
        is_row.then(|| Accounts { formula, numbers: first..first + u64::from(clients) })
    }
}

/// Clients of a group that are there.
pub(super) type There<'a> = (&'a Group, u32);

/// Inboxes among those of these clients that a message to the conversation stands in.
pub(super) fn inboxes(
    plan: &Plan,
    to: &PlannedConversation,
    (group, clients): There<'_>,
) -> Option<u64> {
    Some(members(plan, to, &Accounts::of(group, clients)?)?.iter().map(length).sum())
}

/// Clients among these that hear what one of those says to the conversation.
pub(super) fn hears(
    plan: &Plan,
    to: &PlannedConversation,
    by: There<'_>,
    who: There<'_>,
) -> Option<u64> {
    if who.0.lite {
        return Some(0);
    }
    let (from, ears) = (Accounts::of(by.0, by.1)?, Accounts::of(who.0, who.1)?);
    let heard = members(plan, to, &ears)?;
    let all = heard.iter().map(length).sum::<u64>();
    // Who looks at whole inboxes has what its account has said, too.
    if who.0.audits || from.formula != ears.formula && !may_be(&from.formula, &ears.formula) {
        return Some(all);
    }
    let own: u64 = heard.iter().map(|some| length(&common(some, &from.numbers))).sum();
    match own {
        _ if from.formula != ears.formula => None,
        0 => Some(all),
        // Each who speaks is one of those who hear, and does not hear himself.
        own if own == length(&from.numbers) => Some(all - 1),
        _ => None,
    }
}

/// The numbers of these accounts that are members, in parts that do not meet.
fn members(plan: &Plan, to: &PlannedConversation, some: &Accounts) -> Option<Vec<Range<u64>>> {
    let owner = (to.owner.as_str(), 1);
    let named = to.members.iter().map(|(group, clients)| (group.as_str(), *clients));
    let mut parts: Vec<Range<u64>> = Vec::new();
    for (name, clients) in named.chain([owner]) {
        let group = plan.groups.iter().find(|group| group.name == name)?;
        let accounts = Accounts::of(group, clients)?;
        if accounts.formula == some.formula {
            parts.push(common(&accounts.numbers, &some.numbers));
        } else if may_be(&accounts.formula, &some.formula) {
            return None;
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.sort_by_key(|part| part.start);
    let mut apart: Vec<Range<u64>> = Vec::new();
    for part in parts {
        match apart.last_mut() {
            Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
            _ => apart.push(part),
        }
    }
    Some(apart)
}

fn common(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    let start = one.start.max(other.start);
    start..one.end.min(other.end).max(start)
}

fn length(numbers: &Range<u64>) -> u64 {
    numbers.end - numbers.start
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
        name = "t"
        [[group]]
        name = "s"
        user = "u_%i"
        [[group]]
        name = "r"
        user = "ru_%i"
        [[group]]
        name = "late"
        user = "u_%i"
        first = 8
        [[group]]
        name = "lite"
        user = "u_%i"
        lite = true
        [[group]]
        name = "audit"
        user = "u_%i"
        audits = true
        [[group]]
        name = "blurred"
        user = "u_1%i"
        [[group]]
        name = "one"
        user = "ann"
        [[conversation]]
        name = "g"
        owner = "s"
        members = { s = 10, late = 4, r = 20 }
        [[conversation]]
        name = "owned"
        owner = "late"
        members = { r = 2 }
    "#;

    fn plan() -> Plan {
        toml::from_str(PLAN).expect("a plan")
    }

    fn group<'a>(plan: &'a Plan, name: &str) -> &'a Group {
        plan.groups.iter().find(|group| group.name == name).expect("it is there")
    }

    #[test]
    fn a_message_has_an_entry_for_each_account_that_is_a_member_once() {
        let plan = plan();
        let of = |place: usize, name: &str, clients| {
            inboxes(&plan, &plan.conversations[place], (group(&plan, name), clients))
        };
        assert_eq!([of(0, "r", 20), of(0, "r", 5), of(0, "r", 50)], [Some(20), Some(5), Some(20)]);
        // The rows of two groups meet: 0 to 9, and 8 to 11.
        assert_eq!([of(0, "audit", 100), of(0, "late", 100)], [Some(12), Some(4)]);
        assert_eq!([of(0, "blurred", 1), of(0, "one", 1)], [None, None]);
        // Who owns it is a member, named or not.
        assert_eq!([of(1, "s", 8), of(1, "s", 9), of(1, "r", 9)], [Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn nobody_hears_himself_but_in_an_audit() {
        let plan = plan();
        let of = |by: (&str, u32), who: (&str, u32)| {
            let (by, who) = ((group(&plan, by.0), by.1), (group(&plan, who.0), who.1));
            hears(&plan, &plan.conversations[0], by, who)
        };
        assert_eq!(of(("s", 10), ("r", 3)), Some(3));
        assert_eq!(of(("s", 10), ("s", 10)), Some(9));
        assert_eq!(of(("s", 10), ("audit", 12)), Some(12));
        assert_eq!(of(("s", 10), ("lite", 10)), Some(0));
        // Of these some hear themselves speak, and others do not.
        assert_eq!(of(("s", 10), ("late", 4)), None);
        assert_eq!(of(("s", 8), ("late", 4)), Some(4));
        assert_eq!(of(("s", 10), ("blurred", 1)), None);
        assert_eq!(of(("r", 10), ("s", 10)), Some(10));
    }
}
