//! Descriptors: of a process (RLIMIT_NOFILE), and of a whole machine (fs.file-max).
//!
//! A server out of descriptors refuses nobody: its kernel goes on completing connections that are
//! never served. So what shows it is its own count at its limit, not an error of the clients.

use crate::case::Case;
use crate::window;
use crate::words;
use lab::cause::Cause;
use lab::run::{Finding, Gravity};

/// Descriptors that may be left at a limit that was met.
const SPARE: f64 = 8.0;
/// Share of the limit at which there is a warning.
const NEAR: f64 = 0.9;

/// Limits of descriptors that were met or came near.
pub fn detect(case: &Case) -> Vec<Finding> {
    let target = case.of_target("process.fds").map(|column| ("target", column));
    let testers = case.of_testers("process.fds");
    let testers = testers.into_iter().map(|column| ("tester", column));
    let mut found: Vec<Finding> = target
        .into_iter()
        .chain(testers)
        .filter_map(|(side, column)| of_process(case, side, &column))
        .collect();
    let told = found.iter().any(|one| one.side == "tester" && one.gravity == Gravity::Limit);
    found.extend((!told).then(|| refused_here(case)).flatten());
    found.extend(of_machine(case));
    found
}

fn of_process(case: &Case, side: &'static str, column: &str) -> Option<Finding> {
    let limits = case.beside(column, "process.fds_max");
    let mut met: Option<(u64, u64, f64, f64, bool)> = None;
    for (at, open) in window::cells(case.series(), column) {
        let Some(limit) = case.at(&limits, at).filter(|limit| *limit >= 1.0) else { continue };
        let full = open >= limit - SPARE.min(limit * 0.01).max(1.0);
        if !full && open < limit * NEAR {
            continue;
        }
        met = Some(match met {
            Some((from, _, most, _, was_full)) if was_full == full || !full => {
                (from, at, most.max(open), limit, was_full || full)
            }
            _ => (at, at, open, limit, full),
        });
    }
    let (from_ms, to_ms, open, limit, full) = met?;
    let whose = if side == "target" { "server" } else { "tester" };
    let online = case
        .online(from_ms)
        .map_or(String::new(), |online| format!(", with {} clients online", words::count(online)));
    let beside = if full { case.beside_it((from_ms, to_ms)) } else { String::new() };
    Some(Finding {
        gravity: if full { Gravity::Limit } else { Gravity::Warning },
        side: side.to_owned(),
        what: match full {
            true => format!(
                "The {whose} ran out of file descriptors: its process had the maximum \
                             open."
            ),
            false => format!("The {whose} came near its limit of file descriptors."),
        },
        evidence: format!(
            "{} of {} descriptors (RLIMIT_NOFILE) from {} on{online}{beside}",
            words::count(open),
            words::count(limit),
            words::moment(from_ms),
        ),
        remedy: format!(
            "Raise the soft limit of open files of the {whose} (ulimit -n; LimitNOFILE= of its \
             service; --ulimit nofile= of its container) to the number of connections plus 10 %; \
             its hard limit and fs.nr_open are the maximum."
        ),
        from_ms,
        to_ms,
    })
}

/// Finding for descriptors that the tester's kernel refused, where their count was not seen at the
/// limit.
fn refused_here(case: &Case) -> Option<Finding> {
    let refused = case.run.total.causes.all_of(Cause::NoDescriptors);
    let (from_ms, to_ms) = case.when(Cause::NoDescriptors);
    (refused > 0).then(|| Finding {
        gravity: Gravity::Limit,
        side: "tester".to_owned(),
        what: "The tester ran out of descriptors; this is no limit of the server.".to_owned(),
        evidence: format!(
            "{} calls failed with EMFILE {}",
            words::count(refused as f64),
            words::between(from_ms, to_ms)
        ),
        remedy: Cause::NoDescriptors.setting().to_owned(),
        from_ms,
        to_ms,
    })
}

/// All files of a machine.
fn of_machine(case: &Case) -> Vec<Finding> {
    let mut found = Vec::new();
    for (side, column) in case.of_both("host.files_open", "target") {
        let limits = case.beside(&column, "host.files_max");
        let Some((_, limit)) = case.highest(&limits).filter(|(_, limit)| *limit >= 1.0) else {
            continue;
        };
        let Some(from_ms) = case.first_at_least(&column, limit * NEAR) else { continue };
        let most = case.highest(&column).map_or(0.0, |(_, most)| most);
        let full = case.first_at_least(&column, limit * 0.99);
        let from_ms = full.unwrap_or(from_ms);
        found.push(Finding {
            gravity: if full.is_some() { Gravity::Limit } else { Gravity::Warning },
            side: side.to_owned(),
            what: format!("The {side}'s machine came near its limit of open files."),
            evidence: format!(
                "{} of {} (fs.file-max) from {} on",
                words::count(most),
                words::count(limit),
                words::moment(from_ms)
            ),
            remedy: "Raise fs.file-max above the sum of all processes' descriptors.".to_owned(),
            from_ms,
            to_ms: case.end_ms(),
        });
    }
    let refused = case.run.total.causes.all_of(Cause::NoSystemFiles);
    if refused > 0 {
        let (from_ms, to_ms) = case.when(Cause::NoSystemFiles);
        found.push(Finding {
            gravity: Gravity::Limit,
            side: "tester".to_owned(),
            what: "The tester's machine reached its limit of open files.".to_owned(),
            evidence: format!("{} calls failed with ENFILE", words::count(refused as f64)),
            remedy: "Raise fs.file-max.".to_owned(),
            from_ms,
            to_ms,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use lab::cause::Phase;

    #[test]
    fn a_server_at_its_limit_is_found_with_the_clients_it_had() {
        let mut made = Made::of(60);
        made.gauge("target.process.fds", |s| (14.0 + 50.0 * s as f64).min(1_024.0));
        made.gauge("target.process.fds_max", |_| 1_024.0);
        made.gauge("clients.online", |s| (50.0 * s as f64).min(1_010.0));
        made.ended(Phase::Bind, Cause::BindTimedOut, 129, 30);
        let found = detect(&Case::of(&made.run(2_000)));
        assert_eq!((found.len(), found[0].gravity), (1, Gravity::Limit));
        assert_eq!((found[0].side.as_str(), found[0].from_ms), ("target", 21_000));
        let evidence = &found[0].evidence;
        assert!(evidence.contains("1,024 of 1,024 descriptors"), "{evidence}");
        assert!(evidence.contains("with 1,010 clients online"), "{evidence}");
        assert!(evidence.contains("129 clients that ended with bind_timed_out"), "{evidence}");
    }

    #[test]
    fn the_testers_own_limit_is_named_as_its_own() {
        let mut made = Made::of(60);
        made.ended(Phase::Connect, Cause::NoDescriptors, 1_391, 12);
        let found = detect(&Case::of(&made.run(60_000)));
        assert_eq!((found[0].side.as_str(), found[0].gravity), ("tester", Gravity::Limit));
        assert!(found[0].evidence.contains("1,391 calls failed with EMFILE"));
        assert_eq!(found[0].from_ms, 11_000);
    }

    #[test]
    fn near_is_a_warning_and_far_is_nothing() {
        let with = |open: f64| {
            let mut made = Made::of(20);
            made.gauge("tester.process.fds", move |_| open);
            made.gauge("tester.process.fds_max", |_| 10_000.0);
            detect(&Case::of(&made.run(10))).first().map(|found| found.gravity)
        };
        assert_eq!(with(5_000.0), None);
        assert_eq!(with(9_100.0), Some(Gravity::Warning));
        assert_eq!(with(9_999.0), Some(Gravity::Limit));
    }

    #[test]
    fn a_machine_out_of_files_is_found() {
        let mut made = Made::of(20);
        made.gauge("target.host.files_open", |s| 900.0 + 5.0 * s as f64);
        made.gauge("target.host.files_max", |_| 1_000.0);
        let found = detect(&Case::of(&made.run(10)));
        assert_eq!((found[0].gravity, found[0].from_ms), (Gravity::Limit, 18_000));
    }

    #[test]
    fn full_is_within_a_hundredth_and_eight_and_near_within_a_tenth() {
        let with = |open: f64, limit: f64| {
            let mut made = Made::of(20);
            made.gauge("target.process.fds", move |_| open);
            made.gauge("target.process.fds_max", move |_| limit);
            detect(&Case::of(&made.run(10))).first().map(|found| found.gravity)
        };
        let (limit, near) = (Some(Gravity::Limit), Some(Gravity::Warning));
        assert_eq!([with(9_992.0, 10_000.0), with(9_991.0, 10_000.0)], [limit, near], "eight");
        assert_eq!([with(297.0, 300.0), with(296.0, 300.0)], [limit, near], "a hundredth");
        assert_eq!([with(49.0, 50.0), with(48.0, 50.0)], [limit, near], "one at least");
        assert_eq!([with(9_000.0, 10_000.0), with(8_999.0, 10_000.0)], [near, None]);
        assert_eq!(with(5.0, 0.0), None, "no limit is known");
    }

    #[test]
    fn a_machine_is_full_at_ninety_nine_percent_and_its_callers_failures_are_counted() {
        let with = |open: f64| {
            let mut made = Made::of(20);
            made.gauge("target.host.files_open", move |_| open);
            made.gauge("target.host.files_max", |_| 1_000.0);
            detect(&Case::of(&made.run(10))).first().map(|found| found.gravity)
        };
        assert_eq!([with(990.0), with(989.0)], [Some(Gravity::Limit), Some(Gravity::Warning)]);
        assert_eq!([with(900.0), with(899.0)], [Some(Gravity::Warning), None]);
        let mut made = Made::of(20);
        made.ended(Phase::Connect, Cause::NoSystemFiles, 1, 5);
        let found = detect(&Case::of(&made.run(10)));
        assert_eq!((found.len(), found[0].gravity), (1, Gravity::Limit));
        assert!(found[0].evidence.contains("1 calls failed with ENFILE"), "{}", found[0].evidence);
    }
}
