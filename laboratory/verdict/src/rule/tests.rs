//! Rules as people write them, well and badly, and how they judge.

use super::*;
use crate::figure::figures;
use crate::made::Made;
use lab::cause::{Cause, Phase};
use lab::run::{Balance, Run};
use lab::series::{FigureKind, Unit};
use lab::timing::Timing;

fn run() -> Run {
    let mut made = Made::of(100);
    made.ended(Phase::Connect, Cause::Refused, 3, 10);
    made.ended(Phase::Online, Cause::Farewell, 2, 20);
    made.gauge("clients.online", |s| (20 * s.min(50)) as f64);
    made.column("target.process.rss", FigureKind::Peak, Unit::Bytes, |s| {
        Some(1e6 + 4_096.0 * (20 * s.min(50)) as f64)
    });
    made.column("clients.heartbeat.p99", FigureKind::Peak, Unit::Micros, |s| {
        Some(1_000.0 + s as f64)
    });
    made.column("server.uptime", FigureKind::Gauge, Unit::Seconds, |s| Some(s as f64));
    made.total("target.tcp.listen_drops", |s| if s > 5 { 107.0 } else { 7.0 });
    made.total("clients.messages.sent", |s| 50.0 * s as f64);
    let mut run = made.run(1_000);
    (1..=1_000).for_each(|us| run.total.timings.at(Timing::Bind).note_both(us * 1_000, us * 500));
    run.total.raise("messages.sent", 5_000.0);
    run.total.raise("heartbeats.sent", 1e6);
    run.total.raise("heartbeats.lost", 5.0);
    let parts = vec![("open".to_owned(), 995), ("ended".to_owned(), 5)];
    run.total.accounts.push(Balance { what: "attempts".to_owned(), total: 1_000, parts });
    run.stages[0].counts = run.total.clone();
    run
}

fn judge(rule: &str) -> (Option<f64>, Option<bool>) {
    let run = run();
    let rule = Rule::parse(rule).unwrap_or_else(|why| panic!("{why}"));
    let check = rule.check(&Scope::of_stage(&run, 0).expect("a stage"));
    (check.value, check.held)
}

#[test]
fn rules_hold_or_do_not() {
    for (rule, held) in [
        ("errors == 0", false),
        ("errors <= 3", true),
        ("errors.refused == 3", true),
        ("errors.target > 2", true),
        ("errors.tester == 0", true),
        ("ended.farewell == 2", true),
        ("ended == 5", true),
        ("unexplained == 0", true),
        ("accounts == 1", true),
        ("attempts >= 1k", true),
        ("online_share >= 99.5%", true),
        ("online_share >= 0.999", false),
        ("bind.p99 < 1s", true),
        ("bind.p99 < 900ms", false),
        ("bind.raw.p99 < 500 ms", true),
        ("bind.max <= 0.1m", true),
        ("bind.p99 > 0", true),
        ("heartbeats.lost_share < 1e-5", true),
        ("heartbeats.lost_share < 0.0001%", false),
        ("messages.sent == 5k", true),
        ("messages.sent.per_s >= 49", true),
        ("target.tcp.listen_drops.growth == 0", false),
        ("target.tcp.listen_drops.growth == 100", true),
        ("target.process.rss.max < 5MiB", true),
        ("target.process.rss.max < 2 MiB", false),
        ("target.process.rss.slope_r2 > 0.5", true),
        ("clients.heartbeat.p99.max < 2ms", true),
        ("clients.heartbeat.p99.drift < 1%", false),
        ("server.uptime.last >= 100s", true),
        ("server.uptime.last >= 2m", false),
        ("bytes_per_connection < 5KiB", true),
        ("bytes_per_connection.r2 > 0.999", true),
    ] {
        assert_eq!(judge(rule).1, Some(held), "{rule}: {:?}", judge(rule).0);
    }
    assert_eq!(judge("bytes_per_connection < 1GiB").0.map(f64::round), Some(4_096.0));
    assert_eq!(judge("messages.sent.per_s > 1").0.map(f64::round), Some(50.0));
}

#[test]
fn what_cannot_be_known_is_no_pass_and_says_why() {
    let run = run();
    let whole = Scope::of_run(&run);
    for (rule, why) in [
        ("publish.p99 < 1s", "no time of `publish` was measured"),
        ("messages.missing_share == 0", "no messages to be received"),
        ("target.process.rs.max < 1GiB", "the nearest is `target.process.rss`"),
        ("target.process.rss.max < 1s", "number of bytes"),
        ("target.tcp.listen_drops.max < 5%", "number of things"),
    ] {
        let check = check(rule, &whole);
        assert_eq!((check.value, check.held), (None, None), "{rule}");
        let said = why_unknown(rule, &whole).expect("a reason");
        assert!(said.contains(why), "{rule}: {said}");
    }
    assert_eq!(why_unknown("errors == 0", &whole), None);
}

#[test]
fn what_is_wrong_with_a_rule_is_said() {
    for (rule, why) in [
        ("", "no operator"),
        ("errors", "no operator"),
        ("errors = 0", "write =="),
        ("== 0", "names no figure"),
        ("errors ==", "no value after the operator"),
        ("errors == none", "is no number"),
        ("errors == 5 apples", "`apples` is no unit"),
        ("errors < nan", "beyond numbers"),
        ("errors < 1%", "`errors` is a number of things: write a plain number"),
        ("bind.p99 < 500", "write us, ms, s, m or h"),
        ("bind.p99 < 5%", "write us, ms, s, m or h"),
        ("bnd.p99 < 5ms", "Did you mean `bind.p99`?"),
        ("heartbeats.lost_shar < 1%", "Did you mean `heartbeats.lost_share`?"),
        ("errors.plan == 0", "is no figure"),
        ("errors.farewell == 0", "is no figure"),
        ("target.process.rss < 1GiB", "end it with .max"),
        ("wholly.other.thing > 1", "Allowed are counts"),
        ("errors == \u{fe}\u{301}1", "is no number"),
        ("target.process.rss.drift < 10ms", "is a share"),
    ] {
        let said = Rule::parse(rule).expect_err(rule);
        assert!(said.contains(why) && said.starts_with("rule `"), "{rule}: {said}");
    }
}

#[test]
fn every_figure_that_is_listed_can_be_named_and_has_a_meaning_of_its_own() {
    let all = figures();
    for figure in &all {
        let name = figure.name.replace("COLUMN", "target.cpu.busy");
        let read = Figure::named(&name).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(read.to_string(), name);
        assert!(
            figure.meaning.ends_with('.') || figure.meaning.ends_with(')'),
            "{}",
            figure.meaning
        );
    }
    let mut names: Vec<_> = all.iter().map(|figure| &figure.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len());
}

#[test]
fn operators_are_monotone() {
    let run = run();
    let whole = Scope::of_run(&run);
    let holds = |rule: String| check(&rule, &whole).held.expect("a known figure");
    let bounds = [0, 1, 2, 3, 4, 1_000];
    for pair in bounds.windows(2) {
        for less in ["<", "<="] {
            assert!(
                holds(format!("errors {less} {}", pair[1]))
                    >= holds(format!("errors {less} {}", pair[0]))
            );
        }
        for more in [">", ">="] {
            assert!(
                holds(format!("errors {more} {}", pair[0]))
                    >= holds(format!("errors {more} {}", pair[1]))
            );
        }
    }
}

#[test]
fn a_stage_without_a_hold_has_its_rates_over_its_whole_time() {
    let mut run = run();
    run.stages[0].arrived_ms = run.stages[0].to_ms;
    let scope = Scope::of_stage(&run, 0).expect("a stage");
    assert_eq!(check("messages.sent.per_s == 50", &scope).held, Some(true));
    assert!(Scope::of_stage(&run, 1).is_none());
}

#[test]
fn what_was_counted_at_least_leaves_a_rule_open_only_where_more_would_change_it() {
    let mut run = Made::of(10).run(10);
    run.total.raise("messages.repeated", 2.0);
    run.total.raise("messages.received", 100.0);
    run.total.raise("messages.unjudged", 5.0);
    let scope = Scope::of_run(&run);
    for (rule, held) in [
        ("messages.repeated == 0", Some(false)),
        ("messages.repeated < 2", Some(false)),
        ("messages.repeated < 8", Some(true)),
        ("messages.repeated < 7", None),
        ("messages.repeated < 3", None),
        ("messages.repeated > 1", Some(true)),
        ("messages.repeated >= 3", None),
    ] {
        assert_eq!(check(rule, &scope).held, held, "{rule}");
    }
}
