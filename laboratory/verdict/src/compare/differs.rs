//! Differences between two sets of runs besides their figures.
//!
//! A plan's text is compared without its target and its seed: the same load on two servers is one
//! plan.

use crate::words;
use lab::run::Run;

/// The differences, in sentences; and apart that of the plans, if they differ.
pub fn between(before: &[Run], after: &[Run]) -> (Vec<String>, Option<String>) {
    let mut differs = Vec::new();
    let all = || before.iter().chain(after);
    let Some(first) = all().next() else { return (differs, None) };
    let plan = all().find_map(|run| plans(&first.plan, &run.plan));
    if let Some(plan) = &plan {
        differs.push(format!("plan: {plan}"));
    }
    let mut set = |what: &str, of: &dyn Fn(&Run) -> String| {
        let sides = [before, after].map(|runs| {
            let mut said: Vec<String> = runs.iter().map(of).collect();
            said.sort_unstable();
            said.dedup();
            said.join(" / ")
        });
        if sides[0] != sides[1] {
            differs.push(format!(
                "{what}: {} and {}",
                or_nothing(&sides[0]),
                or_nothing(&sides[1])
            ));
        }
    };
    set("target", &|run| run.target.join(" "));
    set("machine", &|run| {
        let machine = &run.environment;
        let memory = words::bytes(machine.memory_bytes as f64);
        format!("{}, {} cores ({}), {memory}", machine.host, machine.cores, machine.cpu)
    });
    set("kernel", &|run| run.environment.kernel.clone());
    set("around", &|run| run.environment.around.clone());
    set("tester", &|run| run.environment.version.clone());
    set("agents", &|run| {
        let agents: Vec<String> = run
            .agents
            .iter()
            .map(|agent| format!("{} ({} cores)", agent.name, agent.environment.cores))
            .collect();
        agents.join(", ")
    });
    for (side, runs) in [("first", before), ("second", after)] {
        for run in runs {
            if !run.finished {
                differs.push(format!("{} ({side}) ended before its plan was finished", run.name));
            }
            if let Some(why) = run.saturation.first() {
                differs.push(format!("{} ({side}) cannot be trusted: {why}", run.name));
            }
        }
    }
    (differs, plan)
}

fn or_nothing(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text }
}

/// How two plans differ; `None`: in nothing that matters.
fn plans(one: &str, other: &str) -> Option<String> {
    let (one, other) = (load(one), load(other));
    let differing = one.len().max(other.len());
    let differing = (0..differing).filter(|&at| one.get(at) != other.get(at));
    let at: Vec<usize> = differing.collect();
    let first = *at.first()?;
    let line = |lines: &[&str]| lines.get(first).map_or("nothing", |line| line).to_owned();
    Some(format!(
        "{} of their lines differ, the first is `{}` in one and `{}` in the other",
        at.len(),
        line(&one),
        line(&other)
    ))
}

/// The lines of a plan that make the load: without target, seed, empty lines and comments.
fn load(plan: &str) -> Vec<&str> {
    let mut in_target = false;
    let lines = plan.lines().map(str::trim).filter(|line| {
        if line.starts_with('[') {
            in_target = *line == "[target]";
        }
        let key = line.split('=').next().unwrap_or_default().trim();
        !in_target && !line.is_empty() && !line.starts_with('#') && key != "seed"
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_load_on_another_target_is_the_same_plan() {
        let one =
            "name = \"x\"\nseed = 1\n[target]\nurl = [\"mqtt://a\"]\n\n[[stage]]\nhold = \"60s\"";
        let other = "name = \"x\"\n# a remark\n[target]\nurl = [\"mqtt://b\"]\npid = 7\n[[stage]]\n\
                     hold = \"60s\"";
        assert_eq!(plans(one, other), None);
        let longer = other.replace("60s", "90s");
        let said = plans(one, &longer).expect("a difference");
        assert!(said.contains("`hold = \"60s\"` in one and `hold = \"90s\"`"), "{said}");
        assert!(plans(one, "").is_some());
    }
}
