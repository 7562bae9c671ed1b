//! The figures that are compared, in order of importance, and how each is taken from runs.
//!
//! First whether clients stayed and messages came through, then how many a second, then how long
//! they took, then what it cost; the whole run first, then its stages.

use super::interval::{self, ROWS_MIN};
use crate::columns::{ONLINE, TARGET_RSS};
use crate::figure::{Figure, Measure, Plain, Point, memory_line, memory_points, parts};
use crate::scope::Scope;
use crate::{fit, window, words};
use lab::compare::{Better, ComparisonRow, Interval};
use lab::run::Run;
use lab::timing::Spectrum;

/// A change smaller than this is called none, however sure it is.
const SMALLEST: f64 = 0.01;
/// Changes that are called none where one side has a single run, of a figure that differs from run
/// to run of the same server on the same machine: of a rate, processor time or memory; of the p50
/// and p90 of a time; of its tail. The interval of a single run does not know of it.
const ONE_RUN: f64 = 0.1;
const ONE_RUN_TIME: f64 = 0.25;
const ONE_RUN_TAIL: f64 = 0.4;
/// Factor by which an interval of 95 % is widened before a figure is called different: some sixty
/// figures are looked at, and of equal runs none shall look different (Bonferroni: 95 % for sixty
/// together are 3.34 standard deviations in place of 1.96; of few runs, whose t is long-tailed,
/// more).
const WIDER: f64 = 1.7;
const WIDER_RUNS: f64 = 2.5;
/// Stages that are compared, at most.
const STAGES_MAX: usize = 24;

/// Which way is better.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Good {
    More,
    Less,
    Neither,
}

use Good::{Less, More, Neither};

/// Figures of the whole run that are compared, in order.
const WHOLE: &[(&str, Good)] = &[
    ("online_share", More),
    ("error_share", Less),
    ("unexplained", Less),
    ("heartbeats.lost_share", Less),
    ("heartbeats.late_share", Less),
    ("messages.lost_share", Less),
    ("messages.missing_share", Less),
    ("requests.error_share", Less),
    ("messages.received.per_s", More),
    ("messages.taken.per_s", More),
    ("requests.answered.per_s", More),
    ("messages.sent.per_s", Neither),
    ("bytes.in.per_s", Neither),
    ("ready.p50", Less),
    ("ready.p99", Less),
    ("bind.p50", Less),
    ("bind.p90", Less),
    ("bind.p99", Less),
    ("bind.p999", Less),
    ("bind.max", Less),
    ("connect.p50", Less),
    ("connect.p99", Less),
    ("layers.p99", Less),
    ("heartbeat.p50", Less),
    ("heartbeat.p99", Less),
    ("heartbeat.p999", Less),
    ("publish.p50", Less),
    ("publish.p99", Less),
    ("publish.p999", Less),
    ("delivery.p50", Less),
    ("delivery.p90", Less),
    ("delivery.p99", Less),
    ("delivery.p999", Less),
    ("delivery.max", Less),
    ("request.p50", Less),
    ("request.p99", Less),
    ("request.p999", Less),
    ("recovery.p50", Less),
    ("recovery.p99", Less),
    ("bytes_per_connection", Less),
    ("target.process.rss.mean", Less),
    ("target.process.rss.max", Less),
    ("target.process.cpu.mean", Less),
    ("target.cpu.busy.mean", Less),
    ("target.tcp.listen_drops.growth", Less),
    ("target.tcp.retransmits.mean", Less),
    ("target.process.switches.mean", Neither),
    ("tester.process.cpu.mean", Neither),
    ("tester.process.rss.max", Neither),
];

/// Figures of each stage that are compared.
const STAGE: &[(&str, Good)] = &[
    ("online_share", More),
    ("error_share", Less),
    ("messages.received.per_s", More),
    ("ready.p99", Less),
    ("bind.p50", Less),
    ("bind.p99", Less),
    ("heartbeat.p99", Less),
    ("publish.p99", Less),
    ("delivery.p99", Less),
    ("request.p99", Less),
    ("target.process.cpu.mean", Less),
    ("target.process.rss.max", Less),
];

/// All rows.
pub fn of(before: &[Run], after: &[Run]) -> Vec<ComparisonRow> {
    let whole = [before, after].map(|runs| runs.iter().map(Scope::of_run).collect::<Vec<_>>());
    let mut rows: Vec<ComparisonRow> =
        WHOLE.iter().filter_map(|(name, good)| row("", name, *good, &whole)).collect();
    let Some(first) = before.first().filter(|run| run.stages.len() > 1) else { return rows };
    for stage in first.stages.iter().take(STAGES_MAX) {
        let of = |runs: &'_ [Run]| -> Vec<usize> {
            let place = |run: &Run| run.stages.iter().position(|other| other.name == stage.name);
            runs.iter().filter_map(place).collect()
        };
        let (places, others) = (of(before), of(after));
        if places.len() < before.len() || others.len() < after.len() {
            continue;
        }
        let scopes = [(before, places), (after, others)].map(|(runs, places)| {
            let pairs = runs.iter().zip(places);
            pairs.filter_map(|(run, place)| Scope::of_stage(run, place)).collect::<Vec<_>>()
        });
        let label = format!("{}: ", stage.name);
        rows.extend(STAGE.iter().filter_map(|(name, good)| row(&label, name, *good, &scopes)));
    }
    rows
}

/// One row; `None`: one side does not know the figure, or there is nothing on either side.
fn row(label: &str, name: &str, good: Good, scopes: &[Vec<Scope>; 2]) -> Option<ComparisonRow> {
    let figure = Figure::named(name).expect("the lists above name figures");
    let each = scopes
        .each_ref()
        .map(|side| side.iter().filter_map(|scope| figure.value(scope).ok()).collect::<Vec<f64>>());
    if each.iter().zip(scopes).any(|(known, side)| known.is_empty() || known.len() < side.len()) {
        return None;
    }
    let repeated = each.iter().all(|side| side.len() > 1);
    let (values, interval, method) = match repeated {
        true => (
            [fit::mean(&each[0])?, fit::mean(&each[1])?],
            interval::of_runs(&each[0], &each[1]),
            "t over runs",
        ),
        false => pooled(&figure, scopes, &each)?,
    };
    if values.iter().any(|value| !value.is_finite()) || uncounted(&figure, &values) {
        return None;
    }
    let difference = values[1] - values[0];
    let change = (values[0] != 0.0).then(|| difference / values[0].abs());
    // Of the smaller one: what is worse one way round is better the other way round.
    let least = values[0].abs().min(values[1].abs());
    let apart = (least > 0.0).then(|| difference / least);
    let measure = figure.measure_in(scopes[0].first()?.series);
    Some(ComparisonRow {
        figure: format!("{label}{name}"),
        meaning: meaning(&figure),
        values,
        shown: values.map(|value| shown(value, measure)),
        change,
        interval,
        better: better((difference, apart), interval, good, &Doubt::of(&figure, repeated)),
        method: if interval.is_some() { method } else { "too little to tell" }.to_owned(),
    })
}

/// Whether nobody counted a figure on either side: then it has no row.
fn uncounted(figure: &Figure, values: &[f64; 2]) -> bool {
    let counted = matches!(figure, Figure::PerSecond(_) | Figure::Plain(Plain::Unexplained));
    counted && *values == [0.0, 0.0]
}

/// How much it takes to call a figure different.
struct Doubt {
    least: f64,
    wider: f64,
}

impl Doubt {
    fn of(figure: &Figure, repeated: bool) -> Doubt {
        let least = match figure {
            _ if repeated => SMALLEST,
            Figure::Time { point: Point::P50 | Point::P90, .. } => ONE_RUN_TIME,
            Figure::Time { .. } => ONE_RUN_TAIL,
            Figure::PerSecond(_) | Figure::Column { .. } => ONE_RUN,
            Figure::Plain(Plain::BytesPerConnection) => ONE_RUN,
            _ => SMALLEST,
        };
        Doubt { least, wider: if repeated { WIDER_RUNS } else { WIDER } }
    }
}

fn better(
    (difference, change): (f64, Option<f64>),
    interval: Option<Interval>,
    good: Good,
    doubt: &Doubt,
) -> Better {
    let Some(Interval { low, high }) = interval else { return Better::NoDifference };
    let low = difference - doubt.wider * (difference - low);
    let high = difference + doubt.wider * (high - difference);
    let sure = (low > 0.0 && difference > 0.0) || (high < 0.0 && difference < 0.0);
    if !sure || change.is_some_and(|change| change.abs() < doubt.least) {
        return Better::NoDifference;
    }
    match (good, difference > 0.0) {
        (Neither, _) => Better::Differs,
        (More, true) | (Less, false) => Better::Better,
        (More, false) | (Less, true) => Better::Worse,
    }
}

/// Values and interval of two sides of which one has one run: all runs of a side as one.
fn pooled(
    figure: &Figure,
    scopes: &[Vec<Scope>; 2],
    each: &[Vec<f64>; 2],
) -> Option<([f64; 2], Option<Interval>, &'static str)> {
    let means = [fit::mean(&each[0])?, fit::mean(&each[1])?];
    let sides = scopes.each_ref();
    match figure {
        Figure::Plain(Plain::BytesPerConnection) => {
            let lines =
                sides.map(|side| side.first().and_then(|scope| memory_line(scope.series).ok()));
            let points = sides.map(|side| {
                side.first().map_or(0, |scope| memory_points(scope.series, TARGET_RSS).len())
            });
            let [Some(one), Some(other)] = lines else { return Some((means, None, "")) };
            let one = (one.slope, one.r2, points[0]);
            let other = (other.slope, other.r2, points[1]);
            Some((means, interval::of_slopes(one, other), "errors of the two slopes"))
        }
        Figure::Plain(plain) => {
            let sums = sides.map(|side| {
                let all = side.iter().filter_map(|scope| parts(*plain, scope));
                all.fold((0.0, 0.0), |sum, (part, whole, _)| (sum.0 + part, sum.1 + whole))
            });
            let interval = interval::of_shares(sums[0], sums[1]);
            let values = sums.map(|(part, whole)| part / whole);
            let values = if values.iter().all(|value| value.is_finite()) { values } else { means };
            Some((values, interval, "shares (Wilson, Newcombe)"))
        }
        Figure::Time { timing, raw, point } => {
            let merged = sides.map(|side| {
                let mut all = Spectrum::default();
                side.iter().for_each(|scope| {
                    let timed = scope.counts.timings.of(*timing);
                    all.add(if *raw { &timed.raw } else { &timed.corrected });
                });
                all
            });
            let percent = match point {
                Point::P50 => 50.0,
                Point::P90 => 90.0,
                Point::P99 => 99.0,
                Point::P999 => 99.9,
                // Of one longest time, and of a mean with a long tail, nothing is sure.
                Point::Max | Point::Mean => return Some((means, None, "")),
            };
            let values = merged.each_ref().map(|all| all.at(percent) as f64);
            let interval = interval::of_percentiles(&merged[0], &merged[1], percent);
            Some((values, interval, "order statistics (binomial)"))
        }
        Figure::PerSecond(_) | Figure::Column { .. } => {
            let rows = sides.map(|side| {
                side.iter().flat_map(|scope| held(figure, scope)).collect::<Vec<f64>>()
            });
            if rows.iter().any(|rows| rows.len() < ROWS_MIN) {
                return Some((means, None, ""));
            }
            let values = [fit::mean(&rows[0])?, fit::mean(&rows[1])?];
            let interval = interval::of_means(&rows[0], &rows[1]);
            Some((values, interval, "bootstrap over rows"))
        }
        _ => Some((means, None, "")),
    }
}

/// The rows that a mean is taken over; none where the figure is no mean.
fn held(figure: &Figure, scope: &Scope) -> Vec<f64> {
    match figure {
        Figure::PerSecond(name) => {
            window::values(scope.series, &format!("clients.{name}"), scope.hold_ms)
        }
        Figure::Column { name, aspect: crate::figure::Aspect::Mean } if name != ONLINE => {
            window::values(scope.series, name, scope.whole_ms)
        }
        _ => Vec::new(),
    }
}

fn meaning(figure: &Figure) -> String {
    match figure {
        Figure::Plain(plain) => plain.meaning().to_owned(),
        Figure::Time { timing, point, .. } => format!("{} {}", timing.meaning(), point.meaning()),
        Figure::Column { aspect, .. } => aspect.meaning().to_owned(),
        Figure::PerSecond(name) | Figure::Counted(name) => {
            let known = lab::run::FIGURES.iter().find(|(known, _)| known == name);
            let what = known.map_or("", |(_, meaning)| meaning);
            format!("A second, over the hold: {what}")
        }
        _ => String::new(),
    }
}

fn shown(value: f64, measure: Measure) -> String {
    match measure {
        Measure::Micros => words::time(value),
        Measure::Seconds => words::time(value * 1e6),
        Measure::Bytes => words::bytes(value),
        Measure::PerSecond => format!("{}/s", words::number(value)),
        // Of processors a share is of one core; of clients, of all of them.
        Measure::Share => words::percent(value),
        Measure::Count | Measure::Unknown => words::number(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    #[test]
    fn a_change_is_one_when_its_interval_lies_on_one_side_and_it_is_no_trifle() {
        let of = |low, high| Some(Interval { low, high });
        for (difference, change, interval, as_more) in [
            (5.0, Some(0.5), None, Better::NoDifference),
            (5.0, Some(0.5), of(1.0, 9.0), Better::Better),
            (5.0, None, of(1.0, 9.0), Better::Better),
            (5.0, Some(0.5), of(0.0, 9.0), Better::NoDifference),
            (5.0, Some(SMALLEST), of(1.0, 9.0), Better::Better),
            (5.0, Some(SMALLEST / 2.0), of(1.0, 9.0), Better::NoDifference),
            (-5.0, Some(-0.5), of(-9.0, -1.0), Better::Worse),
            (-5.0, Some(-0.5), of(-9.0, 0.0), Better::NoDifference),
            (-5.0, Some(-SMALLEST), of(-9.0, -1.0), Better::Worse),
            (-5.0, Some(-SMALLEST / 2.0), of(-9.0, -1.0), Better::NoDifference),
            (5.0, Some(0.5), of(-9.0, -1.0), Better::NoDifference),
            (-5.0, Some(-0.5), of(1.0, 9.0), Better::NoDifference),
            (0.0, Some(0.0), of(1.0, 9.0), Better::NoDifference),
            (0.0, None, of(-9.0, -1.0), Better::NoDifference),
        ] {
            let (as_less, as_neither) = match as_more {
                Better::Better => (Better::Worse, Better::Differs),
                Better::Worse => (Better::Better, Better::Differs),
                other => (other, other),
            };
            let doubt = Doubt { least: SMALLEST, wider: 1.0 };
            let found = [More, Less, Neither]
                .map(|good| better((difference, change), interval, good, &doubt));
            assert_eq!(
                found,
                [as_more, as_less, as_neither],
                "{difference} {change:?} {interval:?}"
            );
        }
    }

    #[test]
    fn an_interval_is_widened_for_as_many_figures_as_are_compared() {
        let doubt = Doubt { least: 0.0, wider: 1.7 };
        let of = |low, high| better((10.0, None), Some(Interval { low, high }), Less, &doubt);
        assert_eq!(of(4.0, 16.0), Better::NoDifference, "10 - 1.7 x 6 is below zero");
        assert_eq!(of(5.0, 15.0), Better::Worse);
    }

    /// A run of so many stages of the same figures.
    fn staged(stages: usize) -> Run {
        let mut made = Made::of(60);
        made.gauge("clients.online", |_| 100.0);
        let mut run = made.run(100);
        let one = run.stages[0].clone();
        let named = |n: usize| lab::run::StageRun { name: format!("s{n}"), ..one.clone() };
        run.stages = (0..stages).map(named).collect();
        run
    }

    /// Stages that have a row when these runs are compared.
    fn compared(before: &[Run], after: &[Run]) -> Vec<String> {
        let rows = of(before, after);
        let mut stages: Vec<String> = rows
            .iter()
            .filter_map(|row| row.figure.strip_suffix(": online_share"))
            .map(str::to_owned)
            .collect();
        stages.dedup();
        stages
    }

    #[test]
    fn stages_are_compared_if_there_are_several_and_both_sides_have_them() {
        let counts = [1, 2, STAGES_MAX, STAGES_MAX + 1].map(|stages| {
            let run = [staged(stages)];
            compared(&run, &run).len()
        });
        assert_eq!(counts, [0, 2, STAGES_MAX, STAGES_MAX], "one is the whole run");
        let (three, mut other) = (staged(3), staged(3));
        other.stages.remove(1);
        let (three, other) = (std::slice::from_ref(&three), std::slice::from_ref(&other));
        assert_eq!(compared(three, other), ["s0", "s2"]);
        assert_eq!(compared(other, three), ["s0", "s2"]);
        let both = [three[0].clone(), other[0].clone()];
        assert_eq!(compared(&both, three), ["s0", "s2"], "every run of a side has to have it");
    }

    #[test]
    fn figures_are_shown_by_what_they_measure() {
        for (value, measure, words) in [
            (1_500.0, Measure::Micros, "1.5 ms"),
            (1.5, Measure::Seconds, "1.5 s"),
            (0.25, Measure::Share, "25 %"),
            (12.0, Measure::Count, "12"),
            (12.0, Measure::Unknown, "12"),
            (12.0, Measure::PerSecond, "12/s"),
        ] {
            assert_eq!(shown(value, measure), words);
        }
    }
}
