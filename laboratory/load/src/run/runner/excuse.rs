//! Ends that the plan's own faults made: counted as `planned_fault` and no errors, told apart from
//! all others.
//!
//! The fault proxy counts the connections that it reset or closed, and just so many ends are
//! excused. Ends that follow from a target that was stopped or killed, or a network that is silent,
//! are excused from its beginning until clients have had their time to notice. A broken Redis
//! excuses nothing: no link may break for it.

use super::super::parts::Broken;
use super::Runner;
use lab::cause::{Cause, Phase, Side};
use lab::plan::{FaultKind, Group, Network};
use lab::run::Counts;
use std::collections::BTreeMap;

/// Longest time after its end in which a fault excuses, milliseconds.
const ECHO_MS_MAX: u64 = 60_000;

/// Ends excused so far, and those that may be.
#[derive(Default)]
pub(super) struct Excuses {
    /// Faults that stand, or stood until then.
    faults: Vec<(FaultKind, Option<u64>)>,
    /// Ends of each group at the last look, as the tester counted them.
    before: BTreeMap<String, lab::cause::Causes>,
    /// Ends excused of each group.
    moved: BTreeMap<String, BTreeMap<(Phase, Cause), u64>>,
    /// Counts of the proxy at the last look.
    broken: Broken,
    /// Part of it that no client has reported yet.
    owed: Broken,
}

impl Excuses {
    /// A fault begins.
    pub(super) fn begin(&mut self, what: &FaultKind) {
        self.faults.push((what.clone(), None));
    }

    /// Notes that a fault has ended.
    pub(super) fn end(&mut self, what: &FaultKind, now_ms: u64) {
        let same =
            |(known, until): &&mut (FaultKind, Option<u64>)| known == what && until.is_none();
        if let Some((_, until)) = self.faults.iter_mut().find(same) {
            *until = Some(now_ms);
        }
    }

    /// Takes one end, if a fault that is counted has made it.
    fn owes(&mut self, cause: Cause, most: u64) -> u64 {
        let owed = match cause {
            Cause::Reset => &mut self.owed.resets,
            Cause::ClosedMidFrame | Cause::ClosedClean => &mut self.owed.closed,
            _ => return 0,
        };
        let taken = most.min(*owed);
        *owed -= taken;
        taken
    }
}

impl Runner<'_> {
    /// Tells ends that the plan's faults made from all others.
    pub(super) fn excuse(&mut self, now_ms: u64, groups: &mut BTreeMap<String, Counts>) {
        let broken = self.parts.breaker.broken();
        let plan = self.plan;
        let is_any = plan.groups.iter().any(|group| group.proxied);
        let excuses = &mut self.excuses;
        excuses.owed.resets += broken.resets.saturating_sub(excuses.broken.resets);
        excuses.owed.closed += broken.closed.saturating_sub(excuses.broken.closed);
        excuses.broken = broken;
        for group in &plan.groups {
            let Some(counts) = groups.get_mut(&group.name) else { continue };
            let seen = counts.causes.clone();
            let before = excuses.before.insert(group.name.clone(), seen.clone());
            let grown = seen.since(&before.unwrap_or_default());
            let is_proxied = group.proxied || !is_any;
            for (phase, cause, count) in grown.iter() {
                let echo = echo_ms(group);
                let stands = |(_, until): &&(FaultKind, Option<u64>)| {
                    until.is_none_or(|until| now_ms <= until.saturating_add(echo))
                };
                let mut faults = excuses.faults.iter().filter(stands);
                let all = faults.any(|(what, _)| makes(what, cause, is_proxied));
                let excused = match all {
                    true => count,
                    false if is_proxied => excuses.owes(cause, count),
                    false => 0,
                };
                if excused > 0 {
                    let moved = excuses.moved.entry(group.name.clone()).or_default();
                    *moved.entry((phase, cause)).or_default() += excused;
                }
            }
            for (&(phase, cause), &count) in excuses.moved.get(&group.name).into_iter().flatten() {
                counts.causes.recount(phase, cause, Cause::PlannedFault, count);
            }
        }
    }
}

/// How long a client of this group may take to notice what has ended.
fn echo_ms(group: &Group) -> u64 {
    let longest = group.timeout.0.max(group.keep_alive.0 * 3 / 2);
    u64::try_from(longest.as_millis()).unwrap_or(u64::MAX).min(ECHO_MS_MAX)
}

/// Whether whatever ends with this cause while a fault stands is its doing. Ends that the proxy
/// counts are not among these.
fn makes(what: &FaultKind, cause: Cause, is_proxied: bool) -> bool {
    let timed_out = [
        Cause::SynTimedOut,
        Cause::LayersTimedOut,
        Cause::BindTimedOut,
        Cause::TransmitTimedOut,
        Cause::HeartbeatLost,
    ];
    let is_theirs = matches!(cause.side(), Side::Target | Side::Between);
    match what {
        FaultKind::TargetKilled
        | FaultKind::TargetPaused
        | FaultKind::DescriptorsStarved { .. } => is_theirs,
        FaultKind::Network { how, .. } if is_proxied => match how {
            // The server lets go who is silent, in whatever words.
            Network::Silence => is_theirs,
            Network::Delay(_) | Network::Throttle(_) => timed_out.contains(&cause),
            Network::Refuse => cause == Cause::Refused,
            Network::Reset | Network::Truncate => false,
        },
        _ => false,
    }
}
