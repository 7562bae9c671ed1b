//! A plan made smaller (or larger) for another machine: one factor for all counts and rates.
//!
//! Clients, clients a step, rates of arrivals and messages, counted messages and spare descriptors
//! are multiplied; times, windows, sizes of bodies and shares stay. Counts of *all clients of a
//! group* (`hears`, `among`, members of conversations) stay equal to them; the number of
//! conversations stays. The invariant: nothing that was above zero becomes zero.

use lab::plan::{Arrival, FaultKind, Pace, Plan, Stage, Traffic};
use std::collections::BTreeSet;

/// Factors that make sense: a thousandth of a thousandth, and a thousand.
pub const FACTORS: std::ops::RangeInclusive<f64> = 1e-6..=1e3;

/// Multiplies all counts and rates of a plan.
pub fn scale(plan: &mut Plan, factor: f64) -> Result<(), String> {
    if !FACTORS.contains(&factor) {
        return Err(format!(
            "--scale {factor}: expected a factor from 0.000001 to 1000, for example \
                            0.01"
        ));
    }
    let sizes = sizes(plan);
    let all_of = |count: f64| sizes.contains(&(count as u32)) && count.fract() == 0.0;
    for group in &mut plan.groups {
        for receivers in group.hears.values_mut() {
            if *receivers > 1.0 && all_of(*receivers) {
                *receivers = f64::from(count(*receivers as u32, factor));
            }
        }
    }
    let talks = &mut plan.conversations;
    for members in talks.iter_mut().flat_map(|known| known.members.values_mut()) {
        *members = count(*members, factor);
    }
    let is_of_many = |topic: &str| talks.iter().any(|known| known.name == topic);
    for stage in &mut plan.stages {
        let all_of = |traffic: &Traffic, count: u32| {
            all_of(f64::from(count)) && !traffic.topic.as_deref().is_some_and(is_of_many)
        };
        scale_stage(stage, factor, &all_of);
    }
    Ok(())
}

/// The numbers of clients that groups have in any stage.
fn sizes(plan: &Plan) -> BTreeSet<u32> {
    plan.stages.iter().flat_map(|stage| stage.clients.values().copied()).collect()
}

fn scale_stage(stage: &mut Stage, factor: f64, all_of: &dyn Fn(&Traffic, u32) -> bool) {
    stage.clients.values_mut().for_each(|clients| *clients = count(*clients, factor));
    match &mut stage.arrive {
        Arrival::Rate { per_s } | Arrival::Poisson { per_s } => *per_s *= factor,
        Arrival::Steps { clients, .. } => *clients = count(*clients, factor),
        Arrival::Burst | Arrival::Window { .. } => {}
    }
    for traffic in stage.traffic.values_mut().flatten() {
        match &mut traffic.pace {
            Pace::PerS(per_s) => *per_s *= factor,
            Pace::Wave { low, high, .. } => {
                *low *= factor;
                *high *= factor;
            }
            Pace::Window(_) | Pace::Every(_) => {}
        }
        if let Some(among) = traffic.among.filter(|among| all_of(traffic, *among)) {
            traffic.among = Some(count(among, factor));
        }
        if let Some(messages) = &mut traffic.messages {
            *messages = ((*messages as f64 * factor).round() as u64).max(1);
        }
    }
    for fault in &mut stage.faults {
        if let FaultKind::DescriptorsStarved { spare } = &mut fault.what {
            *spare = ((*spare as f64 * factor).round() as u64).max(1);
        }
    }
}

fn count(of: u32, factor: f64) -> u32 {
    match of {
        0 => 0,
        of => ((f64::from(of) * factor).round() as u32).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_shrink_as_their_clients_do_and_conversations_stay() {
        let text = r#"
            name = "t"
            [[group]]
            name = "s"
            [[conversation]]
            name = "g"
            count = 100
            owner = "s"
            members = { s = 100 }
            [[stage]]
            name = "all"
            clients = { s = 100 }
            makes = ["g"]
            [[stage.traffic.s]]
            what = "publish"
            topic = "g"
            among = 100
            loops = 3
            pace = { window = 1 }
        "#;
        let mut plan = super::super::file::read("t", text, &[]).expect("a plan");
        scale(&mut plan, 0.1).expect("a factor");
        let (known, stage) = (&plan.conversations[0], &plan.stages[0]);
        assert_eq!((known.members["s"], stage.clients["s"]), (10, 10));
        let sent = &stage.traffic["s"][0];
        assert_eq!((known.count, sent.among, sent.loops), (100, Some(100), Some(3)));
    }

    #[test]
    fn counts_and_rates_shrink_together_and_never_vanish() {
        let text = r#"
            name = "t"
            [target]
            url = ["mqtt://127.0.0.1:1"]
            [[group]]
            name = "ears"
            hears = { mouths = 10000 }
            [[group]]
            name = "mouths"
            [[stage]]
            name = "all"
            clients = { ears = 10_000, mouths = 3 }
            arrive = { shape = "rate", per_s = 1000 }
            hold = "10s"
            [[stage.traffic.mouths]]
            what = "publish"
            topic = "t/%i"
            among = 10_000
            messages = 1_000
            pace = { wave = { low = 10, high = 100, period = "4s" } }
        "#;
        let mut plan = super::super::file::read("t", text, &[]).expect("a plan");
        scale(&mut plan, 0.01).expect("a factor");
        let stage = &plan.stages[0];
        assert_eq!((stage.clients["ears"], stage.clients["mouths"]), (100, 1));
        assert_eq!(plan.groups[0].hears["mouths"], 100.0);
        assert_eq!(stage.arrive, Arrival::Rate { per_s: 10.0 });
        let sent = &stage.traffic["mouths"][0];
        assert_eq!((sent.among, sent.messages), (Some(100), Some(10)));
        let Pace::Wave { low, high, .. } = sent.pace else { panic!("{:?}", sent.pace) };
        assert!((low - 0.1).abs() < 1e-9 && (high - 1.0).abs() < 1e-9);
        for factor in [0.0, -1.0, f64::NAN, 1e4] {
            assert!(scale(&mut plan, factor).is_err(), "{factor}");
        }
    }
}
