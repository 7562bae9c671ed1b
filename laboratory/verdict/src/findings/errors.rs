//! Ends that nobody else explained, sums that do not agree, and rules whose figure is unknown.

use crate::case::{Case, ended};
use crate::rule::why_unknown;
use crate::scope::Scope;
use crate::window;
use crate::words;
use lab::cause::{Cause, Phase, Side};
use lab::run::{CheckResult, Finding, Gravity};

/// Causes that detectors of their own tell of.
const ELSEWHERE: [Cause; 6] = [
    Cause::NoDescriptors,
    Cause::NoSystemFiles,
    Cause::NoPorts,
    Cause::NoBuffers,
    Cause::NoWatches,
    Cause::Forbidden,
];

/// Share of the calls above which errors with one cause are more than worth knowing.
const SHARE: f64 = 1e-3;

/// Errors by cause, each with what it means; sums that do not agree.
pub fn detect(case: &Case) -> Vec<Finding> {
    let total = &case.run.total;
    let mut found: Vec<Finding> = total
        .accounts
        .iter()
        .filter(|account| !account.agrees())
        .map(|account| Finding {
            gravity: Gravity::Invalid,
            side: "tester".to_owned(),
            what: format!("The tester's own sums do not agree: {}.", account.what),
            evidence: format!(
                "{} in all, but {} in parts",
                words::count(account.total as f64),
                words::count(account.parts.iter().map(|(_, count)| *count as f64).sum())
            ),
            remedy: "This is a defect of the tester; please report it.".to_owned(),
            from_ms: 0,
            to_ms: case.end_ms(),
        })
        .collect();
    let causes = Cause::ALL.iter().filter(|cause| cause.is_error() && !ELSEWHERE.contains(cause));
    found.extend(causes.filter_map(|cause| of_cause(case, *cause)));
    found
}

fn of_cause(case: &Case, cause: Cause) -> Option<Finding> {
    let total = &case.run.total;
    let count = total.causes.all_of(cause);
    if count == 0 {
        return None;
    }
    let phases: Vec<String> = Phase::ALL
        .into_iter()
        .map(|phase| (phase, total.causes.of(phase, cause)))
        .filter(|(_, count)| *count > 0)
        .map(|(phase, count)| format!("{} in phase {}", words::count(count as f64), phase.name()))
        .collect();
    let (from_ms, to_ms) = case.when(cause);
    let peak = window::highest(case.series(), &ended(cause), case.whole());
    let peak = peak.filter(|(_, rate)| *rate >= 1.0).map_or(String::new(), |(at, rate)| {
        format!("; most at {}: {} a second", words::moment(at), words::number(rate))
    });
    let share = count as f64 / (total.attempts as f64).max(1.0);
    let unexplained = matches!(cause, Cause::Internal | Cause::LocalError);
    Some(Finding {
        gravity: if unexplained || share >= SHARE { Gravity::Warning } else { Gravity::Note },
        side: match case.run.side_of(cause) {
            Side::Between => String::new(),
            side => side.name().to_owned(),
        },
        what: format!("{} x {}: {}", words::count(count as f64), cause.name(), cause.meaning()),
        evidence: format!(
            "{} of all connection attempts: {}, {}{peak}",
            words::percent(share),
            words::list(&phases),
            words::between(from_ms, to_ms)
        ),
        remedy: match (cause.setting(), cause.counter()) {
            ("", _) => String::new(),
            (setting, "") => format!("Check: {setting}."),
            (setting, counter) => {
                format!("Check: {setting}. Counter: {counter}.")
            }
        },
        from_ms,
        to_ms,
    })
}

/// Rules whose figure could not be known: each with the reason.
pub fn rules(case: &Case) -> Vec<Finding> {
    let run = case.run;
    let whole = Scope::of_run(run);
    let unknown = |check: &&CheckResult| check.held.is_none();
    let mut found = Vec::new();
    for check in run.checks.iter().filter(unknown) {
        found.extend(of_rule(case, check, &whole, "the run"));
    }
    for (place, stage) in run.stages.iter().enumerate() {
        let Some(scope) = Scope::of_stage(run, place) else { continue };
        for check in stage.checks.iter().filter(unknown) {
            found.extend(of_rule(case, check, &scope, &format!("stage `{}`", stage.name)));
        }
    }
    found
}

fn of_rule(case: &Case, check: &CheckResult, scope: &Scope, of: &str) -> Option<Finding> {
    let why =
        why_unknown(&check.rule, scope).unwrap_or_else(|| "its figure was unknown".to_owned());
    Some(Finding {
        gravity: Gravity::Warning,
        side: String::new(),
        what: format!("Rule `{}` of {of} had no value, which counts as a failure.", check.rule),
        evidence: why,
        remedy: "Observe the rule's figure (give the target's pid, port or metrics), or remove \
                 the rule."
            .to_owned(),
        from_ms: scope.whole_ms.0,
        to_ms: scope.whole_ms.1.min(case.end_ms()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use lab::run::Balance;

    #[test]
    fn errors_are_told_by_cause_with_phase_and_setting() {
        let mut made = Made::of(40);
        made.ended(Phase::Connect, Cause::SynTimedOut, 6_692, 20);
        made.ended(Phase::Online, Cause::Reset, 1, 30);
        let found = detect(&Case::of(&made.run(200_000)));
        assert_eq!(found.len(), 2);
        assert!(found[0].what.starts_with("6,692 x syn_timed_out: No answer to the SYN"));
        assert!(found[0].evidence.contains("6,692 in phase connect"), "{}", found[0].evidence);
        assert!(found[0].remedy.contains("somaxconn"), "{}", found[0].remedy);
        assert_eq!((found[0].gravity, found[1].gravity), (Gravity::Warning, Gravity::Note));
    }

    #[test]
    fn sums_that_do_not_agree_make_a_run_invalid() {
        let mut run = Made::of(4).run(10);
        let parts = vec![("open".to_owned(), 9)];
        run.total.accounts.push(Balance { what: "attempts".to_owned(), total: 10, parts });
        let found = detect(&Case::of(&run));
        assert_eq!((found.len(), found[0].gravity), (1, Gravity::Invalid));
    }

    #[test]
    fn a_rule_that_cannot_be_judged_is_told_with_the_nearest_column() {
        let mut made = Made::of(4);
        made.gauge("target.process.rss", |_| 1.0);
        let mut run = made.run(10);
        let rule = "target.process.rs.max < 1GiB".to_owned();
        run.checks.push(CheckResult { rule, value: None, held: None });
        let found = rules(&Case::of(&run));
        let evidence = &found[0].evidence;
        assert!(evidence.contains("the nearest is `target.process.rss`"), "{evidence}");
    }
}
