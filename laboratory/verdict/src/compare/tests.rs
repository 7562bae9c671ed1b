//! Comparisons of made-up runs: with themselves, with worse ones, the other way round.

use super::*;
use crate::made::Made;
use base::prng::Prng;
use lab::cause::{Cause, Phase};
use lab::series::{FigureKind, Unit};
use lab::timing::Timing;

/// A run whose binds take so long and whose server uses so much CPU, each with some scatter.
fn run(seed: u64, bind_us: u64, cpu: f64, errors: u64) -> Run {
    let scatter = |second: u64| {
        let mut prng = Prng::new(seed.wrapping_mul(1_000).wrapping_add(second));
        prng.below(100) as f64 / 1_000.0
    };
    let mut made = Made::of(120);
    made.gauge("clients.online", |s| (100 * s.min(10)) as f64);
    made.total("clients.messages.received", |s| 500.0 * s as f64 + scatter(s));
    made.column("target.process.cpu", FigureKind::Gauge, Unit::Share, |s| Some(cpu + scatter(s)));
    made.column("target.process.rss", FigureKind::Peak, Unit::Bytes, |s| {
        Some(1e7 + 204_800.0 * s.min(10) as f64 + 1e3 * scatter(s))
    });
    made.ended(Phase::Connect, Cause::Refused, errors, 30);
    let mut run = made.run(1_000);
    run.name = format!("run-{seed}");
    run.plan = "name = \"x\"".to_owned();
    let mut prng = Prng::new(seed);
    for _ in 0..20_000 {
        run.total.timings.at(Timing::Bind).note(bind_us + prng.below(bind_us));
    }
    run.total.raise("messages.received", 60_000.0);
    run
}

fn of<'a>(comparison: &'a Comparison, figure: &str) -> &'a ComparisonRow {
    let rows = &comparison.rows;
    rows.iter().find(|row| row.figure == figure).unwrap_or_else(|| panic!("no {figure}: {rows:?}"))
}

#[test]
fn a_run_compared_with_itself_differs_in_nothing() {
    for seed in 0..20 {
        let one = run(seed, 1_000 + 100 * seed, 0.5, seed);
        let comparison = compare(std::slice::from_ref(&one), std::slice::from_ref(&one));
        assert!(comparison.compared && comparison.differs.is_empty());
        assert!(comparison.rows.len() > 8, "{:?}", comparison.rows);
        assert!(comparison.rows.iter().all(|row| row.better == Better::NoDifference));
        assert!(comparison.rows.iter().all(|row| row.change.is_none_or(|change| change == 0.0)));
        assert!(comparison.summary.starts_with("No difference"), "{}", comparison.summary);
        let twice = [one.clone(), one];
        let repeated = compare(&twice, &twice);
        assert!(repeated.rows.iter().all(|row| row.better == Better::NoDifference));
    }
}

#[test]
fn equal_runs_are_equal_however_many_are_compared() {
    // Binds of a machine that was a fifth slower the second time, and other scatter.
    let all: Vec<Run> = (0..30).map(|seed| run(seed, 1_000 + seed * 7, 0.5, 3)).collect();
    for pair in all.windows(2) {
        let comparison = compare(&pair[..1], &pair[1..]);
        assert!(comparison.summary.starts_with("No difference"), "{}", comparison.summary);
    }
    let comparison = compare(&all[..1], &all[29..]);
    assert!(comparison.summary.starts_with("No difference"), "{}", comparison.summary);
    for three in all.chunks_exact(6) {
        let (one, other) = three.split_at(3);
        let comparison = compare(one, other);
        let told = comparison.rows.iter().filter(|row| row.better == Better::Worse).count();
        assert_eq!(told, 0, "{}", comparison.summary);
    }
}

#[test]
fn what_is_worse_is_worse_and_better_the_other_way_round() {
    let (good, bad) = ([run(1, 1_000, 0.5, 0)], [run(2, 1_500, 0.9, 100)]);
    let forth = compare(&good, &bad);
    let back = compare(&bad, &good);
    for figure in ["bind.p50", "bind.p99", "target.process.cpu.mean", "error_share", "online_share"]
    {
        assert_eq!(of(&forth, figure).better, Better::Worse, "{:?}", of(&forth, figure));
        assert_eq!(of(&back, figure).better, Better::Better, "{figure}");
    }
    for figure in ["bytes_per_connection", "messages.received.per_s"] {
        assert_eq!(of(&forth, figure).better, Better::NoDifference, "{:?}", of(&forth, figure));
    }
    assert_eq!(of(&forth, "bind.max").interval, None);
    let change = of(&forth, "bind.p50").change.expect("a change");
    assert!((change - 0.5).abs() < 0.02, "{change}");
    assert!(forth.summary.contains("run-2 is worse in"), "{}", forth.summary);
    assert!(forth.summary.contains("several runs a side"), "{}", forth.summary);
    // Importance: clients that stayed come before times, times before cost.
    let place = |figure: &str| forth.rows.iter().position(|row| row.figure == figure);
    assert!(place("online_share") < place("bind.p50"));
    assert!(place("bind.p99") < place("target.process.cpu.mean"));
}

#[test]
fn repeated_runs_are_compared_by_what_changes_from_run_to_run() {
    let some =
        |seeds: [u64; 3], bind_us| seeds.map(|seed| run(seed, bind_us + 4 * (seed % 3), 0.5, 0));
    let (one, same, slow) =
        (some([1, 2, 3], 1_000), some([4, 5, 6], 1_000), some([7, 8, 9], 2_000));
    let equal = compare(&one, &same);
    assert_eq!(of(&equal, "bind.p50").better, Better::NoDifference);
    assert_eq!(of(&equal, "bind.p50").method, "t over runs");
    assert_eq!(of(&compare(&one, &slow), "bind.p50").better, Better::Worse);
    assert!(!equal.summary.contains("several runs a side"));
    assert_eq!(equal.names, ["run-1 and 2 more", "run-4 and 2 more"]);
}

#[test]
fn runs_of_other_plans_are_compared_only_on_request() {
    let one = [run(1, 1_000, 0.5, 0)];
    let mut other = [run(2, 1_000, 0.5, 0)];
    other[0].plan = "name = \"y\"".to_owned();
    other[0].target = vec!["mqtt://10.0.0.9:1883".to_owned()];
    other[0].environment.host = "elsewhere".to_owned();
    other[0].finished = false;
    let politely = compare(&one, &other);
    assert!(!politely.compared && politely.rows.is_empty());
    assert!(politely.summary.contains("different plans"), "{}", politely.summary);
    let kinds: Vec<_> = politely.differs.iter().filter_map(|said| said.split(':').next()).collect();
    assert_eq!(
        kinds,
        ["plan", "target", "machine", "run-2 (second) ended before its plan was finished"]
    );
    let anyway = compare_anyway(&one, &other);
    assert!(anyway.compared && !anyway.rows.is_empty() && anyway.differs.len() == 4);
    assert!(!compare(&one, &[]).compared);
}

#[test]
fn stages_of_the_same_name_are_compared_too() {
    let two = |seed, slow: u64| {
        let mut run = run(seed, 1_000, 0.5, 0);
        let mut more = run.stages[0].clone();
        more.name = "more".to_owned();
        (0..1_000).for_each(|us| more.counts.timings.at(Timing::Heartbeat).note(us + slow));
        run.stages.push(more);
        [run]
    };
    let comparison = compare(&two(1, 100), &two(2, 5_000));
    assert_eq!(of(&comparison, "more: heartbeat.p99").better, Better::Worse);
    assert!(comparison.rows.iter().any(|row| row.figure == "hold: online_share"));
}

#[test]
fn figures_of_which_no_difference_can_be_told_are_counted() {
    let comparison = compare(&[run(1, 1_000, 0.5, 0)], &[run(2, 1_500, 0.9, 100)]);
    let of = |better| comparison.rows.iter().filter(|row| row.better == better).count();
    let with = comparison.rows.iter().filter(|row| row.interval.is_some()).count();
    let told = of(Better::Worse) + of(Better::Better) + of(Better::Differs);
    assert!(told > 0 && told < with);
    let sentence = format!("In {} of {with} figures with an interval", with - told);
    assert!(comparison.summary.contains(&sentence), "{}", comparison.summary);
}
