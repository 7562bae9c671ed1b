//! Validation of conversations: who is in them, which stage makes them, and who sends to them.
//!
//! Part of [`check`](super::check): the same words, the same invariant.

use super::{At, CONVERSATIONS_A_NAME_MAX, CONVERSATIONS_MAX, PlanProblem, name};
use lab::plan::{Plan, Traffic};
use model::chat::GROUP_MEMBERS_HARD_MAX;
use std::collections::BTreeSet;

/// Checks the conversations of a plan.
pub(super) fn all(at: &At, plan: &Plan) -> Result<(), PlanProblem> {
    let count = plan.conversations.len();
    at.must(count <= CONVERSATIONS_MAX, count, "at most 16 [[conversation]]; join those alike")?;
    let mut named = BTreeSet::new();
    for (number, known) in plan.conversations.iter().enumerate() {
        let at = at.entry(number, &known.name);
        name(&at.key("name"), &known.name)?;
        let fresh = named.insert(known.name.as_str());
        at.key("name").must(fresh, &known.name, "duplicate name")?;
        let fits = (1..=CONVERSATIONS_A_NAME_MAX).contains(&known.count);
        at.key("count").must(fits, known.count, "1 to 1000 of one name")?;
        super::part::known(&at.key("owner"), plan, &known.owner)?;
        let members = at.key("members");
        for group in known.members.keys() {
            super::part::known(&members.key(group), plan, group)?;
        }
        let all: u64 = known.members.values().map(|clients| u64::from(*clients)).sum();
        let fits = (1..=u64::from(GROUP_MEMBERS_HARD_MAX)).contains(&all);
        members.must(fits, all, "1 to 100000 members in all")?;
    }
    Ok(())
}

/// Checks the conversations that a stage makes and sends to.
pub(super) fn stage(at: &At, plan: &Plan, number: usize) -> Result<(), PlanProblem> {
    let stage = &plan.stages[number];
    let count = stage.makes.len();
    at.key("makes").must(count <= CONVERSATIONS_MAX, count, "at most 16 names")?;
    let made = |name: &str| {
        let stages = plan.stages[..=number].iter().flat_map(|stage| &stage.makes);
        stages.filter(|known| *known == name).count()
    };
    let named = |name: &str| plan.conversations.iter().find(|known| known.name == name);
    for (place, name) in stage.makes.iter().enumerate() {
        let at = at.key("makes").entry(place, &(place + 1).to_string());
        at.must(named(name).is_some(), name, "no [[conversation]] has this name")?;
        at.must(made(name) == 1, name, "it is created more than once")?;
    }
    for (group, sent) in &stage.traffic {
        for (place, one) in sent.iter().enumerate() {
            let at = at.key("traffic").key(group).entry(place, &(place + 1).to_string());
            let known = one.topic.as_deref().and_then(named);
            let Some(known) = known else { continue };
            at.key("topic").must(
                made(&known.name) > 0,
                &known.name,
                "no stage up to this one creates these conversations (`makes`)",
            )?;
            let among = one.among.unwrap_or(0);
            let need = format!("as many as there are conversations: {}", known.count);
            at.key("among").must(among == known.count, among, &need)?;
            addresses(&at, one)?;
        }
    }
    Ok(())
}

fn addresses(at: &At, sent: &Traffic) -> Result<(), PlanProblem> {
    let count = sent.addresses.len();
    let need = "the run fills them in; omit them";
    at.key("addresses").must(count == 0, count, need)
}

#[cfg(test)]
mod tests {
    use crate::run::file;

    const PLAN: &str = r#"
        name = "t"
        [target]
        url = ["im://127.0.0.1:1"]
        [[group]]
        name = "s"
        [[conversation]]
        name = "g"
        count = 3
        owner = "s"
        members = { s = 2 }
        [[stage]]
        name = "make"
        makes = ["g"]
        [[stage]]
        name = "send"
        clients = { s = 2 }
        [[stage.traffic.s]]
        what = "publish"
        topic = "g"
        among = 3
        loops = 1
        pace = { window = 1 }
    "#;

    #[test]
    fn a_conversation_has_members_and_is_made_once_before_anybody_sends_to_it() {
        let read = |from: &str, to: &str| file::read("t", &PLAN.replace(from, to), &[]);
        assert!(read("", "").is_ok(), "{:?}", read("", ""));
        for (from, to, key) in [
            ("count = 3", "count = 0", "conversation.g.count"),
            ("count = 3", "count = 1001", "conversation.g.count"),
            ("owner = \"s\"", "owner = \"x\"", "conversation.g.owner"),
            ("{ s = 2 }\n        [[stage]]", "{ x = 2 }\n        [[stage]]", "members.x"),
            ("{ s = 2 }\n        [[stage]]", "{ s = 100001 }\n        [[stage]]", "g.members"),
            ("{ s = 2 }\n        [[stage]]", "{}\n        [[stage]]", "g.members"),
            ("makes = [\"g\"]", "makes = [\"x\"]", "stage.make.makes.1"),
            ("makes = [\"g\"]", "makes = [\"g\", \"g\"]", "stage.make.makes.1"),
            ("makes = [\"g\"]", "", "stage.send.traffic.s.1.topic"),
            ("among = 3", "among = 2", "stage.send.traffic.s.1.among"),
            ("among = 3", "among = 3\naddresses = [\"a\"]", "stage.send.traffic.s.1.addresses"),
        ] {
            let why = read(from, to).err().unwrap_or_default();
            assert!(why.contains(key), "{to}: {why}");
        }
        let two = concat!(
            "[[conversation]]\nname = \"g\"\nowner = \"s\"\nmembers = { s = 2 }\n",
            "[[stage]]\n        name = \"make\"",
        );
        let why = read("[[stage]]\n        name = \"make\"", two).err().unwrap_or_default();
        assert!(why.contains("duplicate name"), "{why}");
    }

    #[test]
    fn whoever_is_in_a_conversation_talks_over_im() {
        let plan = file::read("t", &PLAN.replace("im://", "mqtt://"), &[]).expect("a good plan");
        let plan = lab::plan::Plan { stages: plan.stages[..1].to_vec(), ..plan };
        let why = crate::run::check::accounts(&plan).err().unwrap_or_default();
        assert!(why.contains("conversations `g`: those of many are over im://"), "{why}");
    }
}
