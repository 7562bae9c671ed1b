//! Two runs, or two sets of runs of one plan, side by side: what is better, what is worse, and
//! where no difference can be shown.
//!
//! One run a side: intervals come from within the runs, so they hold chance within a run and not
//! what changes from run to run; several a side: from run to run (Welch's t). Every interval is of
//! the difference, second less first, at 95 %. The invariant: a run compared with itself differs in
//! nothing, and what is better one way round is worse the other way round.
//!
//! Some sixty figures are looked at, so an interval is widened before a figure is called different
//! (Bonferroni), and of a single run a side a change has to be larger than what differs from run
//! to run anyway: two runs of one server are equal.

mod differs;
mod interval;
mod rows;

use crate::words;
use lab::compare::{Better, Comparison, ComparisonRow};
use lab::run::Run;

/// Compares two sets of runs of one plan. Of runs of different plans it only says what differs.
pub fn compare(before: &[Run], after: &[Run]) -> Comparison {
    compared(before, after, false)
}

/// Compares them whatever differs.
pub fn compare_anyway(before: &[Run], after: &[Run]) -> Comparison {
    compared(before, after, true)
}

fn compared(before: &[Run], after: &[Run], anyway: bool) -> Comparison {
    let names = names(before, after);
    let (Some(_), Some(_)) = (before.first(), after.first()) else {
        let summary = "Nothing to compare: one side has no run.".to_owned();
        return Comparison { names, summary, ..Comparison::default() };
    };
    let (differs, plans) = differs::between(before, after);
    if let Some(plan) = plans.filter(|_| !anyway) {
        let summary = format!(
            "These runs were made by different plans, so their figures are not comparable: \
             {plan}. Use --anyway to compare them."
        );
        return Comparison { names, differs, summary, ..Comparison::default() };
    }
    let rows = rows::of(before, after);
    let summary = summary(&names, &rows, before.len().min(after.len()));
    Comparison { names, differs, compared: true, rows, summary }
}

fn names(before: &[Run], after: &[Run]) -> [String; 2] {
    let names = [before, after].map(|runs| match runs {
        [] => "no run".to_owned(),
        [one] => one.name.clone(),
        [first, more @ ..] => format!("{} and {} more", first.name, more.len()),
    });
    match names {
        [one, other] if one == other => [format!("{one} (first)"), format!("{other} (second)")],
        names => names,
    }
}

/// The comparison in a few sentences.
fn summary(names: &[String; 2], rows: &[ComparisonRow], runs: usize) -> String {
    let of = |better| rows.iter().filter(|row| row.better == better).collect::<Vec<_>>();
    let (worse, good) = (of(Better::Worse), of(Better::Better));
    let told = |rows: &[&ComparisonRow]| {
        let told: Vec<String> = rows.iter().take(3).map(|row| one(row)).collect();
        words::list(&told)
    };
    let things = |count: usize| if count == 1 { "figure" } else { "figures" };
    let mut text = match (worse.len(), good.len()) {
        (0, 0) => format!("No difference between {} and {} can be told.", names[0], names[1]),
        (0, n) => format!("{} is better in {n} {}: {}.", names[1], things(n), told(&good)),
        (n, 0) => format!("{} is worse in {n} {}: {}.", names[1], things(n), told(&worse)),
        (w, g) => format!(
            "{} is worse in {w} {}: {}; it is better in {g}: {}.",
            names[1],
            things(w),
            told(&worse),
            told(&good)
        ),
    };
    let with = rows.iter().filter(|row| row.interval.is_some()).count();
    let none = with - worse.len() - good.len() - of(Better::Differs).len().min(with);
    text = format!(
        "{text} In {none} of {with} figures with an interval no difference can be told; intervals \
         are widened for as many figures, so that equal runs look equal."
    );
    if runs < 2 {
        text.push_str(
            " With one run on a side the intervals do not hold what changes from run to run, so \
             only large changes are called different: several runs a side show smaller ones.",
        );
    }
    text
}

/// One row in a few words.
fn one(row: &ComparisonRow) -> String {
    let change = row.change.map_or(String::new(), |change| {
        format!(" {}{}", if change >= 0.0 { "+" } else { "" }, words::percent(change))
    });
    format!("{}{change} ({} to {})", row.figure, row.shown[0], row.shown[1])
}

#[cfg(test)]
mod tests;
