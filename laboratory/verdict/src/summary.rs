//! A run in three to six sentences, for who pays for it.
//!
//! The summary says what was tested, whether it passed, what failed, which limit was met first and
//! how long clients waited; and before all of that, when so, that the figures cannot be trusted.

use crate::case::Case;
use crate::columns::ONLINE;
use crate::findings::{findings, first_limit};
use crate::{saturation, words};
use lab::cause::Cause;
use lab::run::{CheckResult, Gravity, Run};
use lab::timing::Timing;

/// The run in plain sentences.
pub fn summary(run: &Run) -> String {
    let sentences = [trust(run), tested(run), passed(run), errors(run), limit(run), times(run)];
    sentences.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn trust(run: &Run) -> Option<String> {
    let said = if run.saturation.is_empty() { saturation(run) } else { run.saturation.clone() };
    let invalid = findings(run).into_iter().find(|finding| finding.gravity == Gravity::Invalid);
    let why = said.into_iter().next().or(invalid.map(|finding| finding.what))?;
    Some(format!(
        "This result is not valid, because the tester's own figures are unreliable: {}",
        dot(why)
    ))
}

fn tested(run: &Run) -> Option<String> {
    let target = run.target.first().map_or(String::new(), |target| match run.target.len() {
        1 => format!(" on {target}"),
        more => format!(" on {target} and {} more", more - 1),
    });
    let case = Case::of(run);
    let most = case.highest(ONLINE).map_or(0.0, |(_, most)| most).max(run.total.online as f64);
    let stages = match run.stages.len() {
        1 => String::new(),
        stages => format!(", in {stages} stages"),
    };
    let planned = run.stages.iter().map(|stage| stage.clients).max().unwrap_or(0);
    Some(format!(
        "{} clients were planned{target} for {}{stages}; at most {} were online at once.",
        words::count(planned.max(run.total.planned) as f64),
        words::time(run.took_ms as f64 * 1e3),
        words::count(most)
    ))
}

fn passed(run: &Run) -> Option<String> {
    let checks: Vec<&CheckResult> =
        run.checks.iter().chain(run.stages.iter().flat_map(|stage| &stage.checks)).collect();
    let failed: Vec<&&CheckResult> =
        checks.iter().filter(|check| check.held != Some(true)).collect();
    let end = match run.finished {
        true => "",
        false => " It ended before its plan was finished.",
    };
    Some(match (checks.len(), failed.first()) {
        (0, _) => format!("The plan had no rules.{end}"),
        (1, None) => format!("Its only rule passed.{end}"),
        (all, None) => format!("All {all} rules passed.{end}"),
        (all, Some(first)) => format!(
            "{} of {all} rules failed; the first is `{}`, measured: {}.{end}",
            failed.len(),
            first.rule,
            first.shown()
        ),
    })
}

fn errors(run: &Run) -> Option<String> {
    let total = &run.total;
    if total.attempts == 0 {
        return Some("No client tried to connect.".to_owned());
    }
    let errors = total.causes.errors();
    let calls = words::count(total.attempts as f64);
    if errors == 0 {
        return Some(format!("None of {calls} connection attempts failed."));
    }
    let causes = Cause::ALL.iter().filter(|cause| cause.is_error());
    let most = causes.max_by_key(|cause| total.causes.all_of(**cause))?;
    let share = words::percent(errors as f64 / total.attempts as f64);
    Some(format!(
        "{} of {calls} connection attempts ({share}) ended in an error, most often {}: {}",
        words::count(errors as f64),
        most.name(),
        dot(most.meaning().to_owned())
    ))
}

fn limit(run: &Run) -> Option<String> {
    let first = first_limit(run)?;
    if first.gravity != Gravity::Limit {
        return Some(first.what);
    }
    // Where it cost the clients at once, those before it are meant.
    let shortly_before = (first.from_ms.saturating_sub(3_000), first.from_ms);
    let online = crate::window::highest(&run.series, ONLINE, shortly_before);
    let online = online.map_or(String::new(), |(_, online)| {
        format!(", with {} clients online", words::count(online))
    });
    let when = words::moment(first.from_ms);
    Some(format!("The first limit was reached at {when}{online}. {}", dot(first.what)))
}

fn times(run: &Run) -> Option<String> {
    let told = [
        (Timing::Bind, "clients were bound"),
        (Timing::Delivery, "messages arrived"),
        (Timing::Publish, "messages were acknowledged"),
        (Timing::Request, "requests were answered"),
        (Timing::Heartbeat, "heartbeats were answered"),
    ];
    let told: Vec<String> = told
        .into_iter()
        .filter_map(|(timing, what)| {
            let spectrum = &run.total.timings.of(timing).corrected;
            let [p50, p99] = [50.0, 99.0].map(|percent| words::time(spectrum.at(percent) as f64));
            (!spectrum.is_empty())
                .then(|| format!("half of the {what} within {p50}, 99 % within {p99}"))
        })
        .take(2)
        .collect();
    (!told.is_empty()).then(|| capital(&format!("{}.", told.join("; "))))
}

fn dot(text: String) -> String {
    if text.ends_with('.') { text } else { format!("{text}.") }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use lab::cause::Phase;

    fn sentences(text: &str) -> usize {
        text.split(". ").count()
    }

    #[test]
    fn a_good_run_is_told_in_a_few_sentences() {
        let mut made = Made::of(100);
        made.gauge("clients.online", |s| (100 * s.min(10)) as f64);
        let mut run = made.run(1_000);
        (1..=100).for_each(|us| run.total.timings.at(Timing::Bind).note(us * 1_000));
        let held = Some(true);
        run.checks.push(CheckResult { rule: "errors == 0".to_owned(), value: Some(0.0), held });
        let text = summary(&run);
        assert_eq!(
            text,
            "1,000 clients were planned on mqtt://10.0.0.1:1883 for 100 s; at most 1,000 were \
             online at once. Its only rule passed. None of 1,000 connection attempts failed. No \
             limit was reached up to 1,000 clients online. Half of the clients were bound within \
             50 ms, 99 % within 99 ms."
        );
    }

    #[test]
    fn a_bad_run_names_rule_cause_and_limit_and_an_untrusted_one_says_so_first() {
        let mut made = Made::of(100);
        made.gauge("clients.online", |s| (100 * s.min(10)) as f64);
        made.gauge("target.process.fds", |_| 1_024.0);
        made.gauge("target.process.fds_max", |_| 1_024.0);
        made.ended(Phase::Bind, Cause::BindTimedOut, 50, 20);
        let mut run = made.run(1_050);
        let rule = "bind.p99 < 500ms".to_owned();
        run.checks.push(CheckResult { rule, value: Some(3.1e6), held: Some(false) });
        run.finished = false;
        let text = summary(&run);
        for part in [
            "1 of 1 rules failed; the first is `bind.p99 < 500ms`, measured: 3100 ms.",
            "It ended before its plan was finished.",
            "50 of 1,050 connection attempts (4.76 %) ended in an error, most often \
             bind_timed_out",
            "The first limit was reached at 00:00, with 0 clients online. The server ran out of \
             file",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        run.saturation.push("A thread had no rest.".to_owned());
        assert!(summary(&run).starts_with("This result is not valid"));
        assert!(sentences(&summary(&run)) <= 9, "{text}");
    }
}
