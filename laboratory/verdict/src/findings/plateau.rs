//! Clients that stop growing below what was planned, while calls go on: at which number, and which
//! limit that is.
//!
//! Three kinds of evidence, the strongest first: a counter that stood at its limit then; a setting
//! with just this number; the shape of the number itself (524,273 is 15 below 2^19). Where nothing
//! matches, it says so, and what was looked at and was not it. It never calls a limit found that
//! has neither counter nor setting behind it.

mod suspects;

use crate::case::{Case, ended};
use crate::columns::ONLINE;
use crate::window::{self, Window};
use crate::words;
use lab::cause::Cause;
use lab::run::{Finding, Gravity};
pub use suspects::is_refused_by_server;
use suspects::{Strength, Suspect};

/// Share of the highest number that is still the plateau.
const LEVEL: f64 = 0.998;
/// Share of what was planned that is no plateau.
const REACHED: f64 = 0.995;
/// Rows that it must last.
const ROWS: usize = 5;
/// How its finding begins.
const STOPPED: &str = "Clients stopped at ";

/// A number that clients did not get beyond.
pub struct Plateau {
    /// The number.
    pub number: f64,
    /// Planned number of clients.
    pub planned: f64,
    /// From when to when.
    pub window: Window,
    /// Calls that were made meanwhile.
    pub calls: f64,
    /// From when to when those are counted: they may all have been made just before it shows.
    counted: Window,
}

impl Plateau {
    /// The plateau in a few words.
    pub fn words(&self) -> String {
        format!(
            "clients stopped at {} of {} planned",
            words::count(self.number),
            words::count(self.planned)
        )
    }
}

/// Whether a finding is that of a plateau.
pub fn is_plateau(finding: &Finding) -> bool {
    finding.what.starts_with(STOPPED)
}

/// The plateau as a finding.
pub fn detect(case: &Case) -> Vec<Finding> {
    plateau(case).map(|plateau| explained(case, &plateau)).into_iter().collect()
}

/// The plateau, if the run has one.
pub fn plateau(case: &Case) -> Option<Plateau> {
    let rows: Vec<(u64, f64, f64)> = window::cells(case.series(), ONLINE)
        .into_iter()
        .filter_map(|(at, online)| Some((at, online, planned(case, at)?)))
        .collect();
    let below = |(_, online, planned): &&(u64, f64, f64)| *online < REACHED * *planned;
    // Only while more were wanted than there were: a later, smaller stage is no plateau.
    let number = rows.iter().filter(below).map(|row| row.1).fold(0.0, f64::max);
    if number < 1.0 || rows.iter().any(|row| row.1 > number / LEVEL) {
        return None;
    }
    let first = rows.iter().position(|row| row.1 >= LEVEL * number && below(&row))?;
    let stays = |row: &&(u64, f64, f64)| row.1 >= 0.99 * number && below(row);
    let flat: Vec<_> = rows[first..].iter().take_while(stays).collect();
    let last = flat.last()?;
    let window = (rows[first].0, last.0);
    let lasts = window.1.saturating_sub(window.0) >= 1_000 * (ROWS as u64 - 1);
    let is_held = flat.len() >= ROWS && lasts;
    // The calls that were refused may all have been made before the first row that shows it.
    let before = first.checked_sub(1).map_or(0, |at| rows[at].0);
    let refused = refused(case, (before, window.1));
    let is_refused = refused >= 1.0 && is_over(case, window);
    if !(is_held || is_refused) {
        return None;
    }
    let calls = window::growth(case.series(), "clients.attempts", window).unwrap_or(0.0);
    let counted = if calls >= 1.0 { window } else { (before, window.1) };
    let calls = if calls >= 1.0 { calls } else { refused };
    let waiting = case.at("clients.open", window.1).is_some_and(|open| open >= last.1 + 1.0);
    (calls >= 1.0 || waiting).then_some(Plateau { number, planned: last.2, window, calls, counted })
}

/// Calls of a stretch of time that made no client more, and that the server or the way to it
/// ended.
fn refused(case: &Case, window: Window) -> f64 {
    let grown = |column: &str| window::growth(case.series(), column, window).unwrap_or(0.0);
    let errors = Cause::ALL.iter().filter(|cause| cause.is_error());
    let errors: f64 = errors.map(|cause| grown(&ended(*cause))).sum();
    f64::min(grown("clients.attempts") - grown(ONLINE), errors).max(0.0)
}

/// Whether a stage ended in this stretch of time with all its calls made and fewer clients than it
/// should have had.
fn is_over(case: &Case, window: Window) -> bool {
    case.run.stages.iter().any(|stage| {
        let counts = &stage.counts;
        let short = stage.clients.saturating_sub(counts.online);
        stage.to_ms >= window.0
            && stage.from_ms <= window.1
            && short > 0
            && counts.open == counts.online
            && counts.causes.errors() >= short
    })
}

/// Clients planned at a moment.
fn planned(case: &Case, at_ms: u64) -> Option<f64> {
    let told = case.at("clients.planned", at_ms);
    told.or_else(|| case.stage_at(at_ms).map(|stage| stage.clients as f64)).filter(|n| *n >= 1.0)
}

fn explained(case: &Case, plateau: &Plateau) -> Finding {
    let (mut met, ruled_out) = suspects::all(case, plateau);
    met.sort_by(|one, other| one.strength.cmp(&other.strength).then(one.off.total_cmp(&other.off)));
    let mut evidence = vec![what_went_on(case, plateau)];
    let counters = met.iter().filter(|suspect| suspect.strength == Strength::Counter).count();
    // Where a counter shows it, one number that agrees is enough.
    let told = met.iter().take(counters.min(2)).chain(met[counters..].iter().take(1));
    evidence.extend(told.map(|suspect| suspect.evidence.clone()));
    let sure = met.iter().any(|suspect| suspect.strength != Strength::Shape);
    if !sure {
        let looked = match ruled_out.is_empty() {
            true => "neither machine was observed, so no limit could be ruled out".to_owned(),
            false => format!("ruled out: {}", ruled_out.join(", ")),
        };
        evidence.push(format!("no known limit has this number or was exhausted; {looked}"));
    }
    let best = met.first();
    Finding {
        gravity: Gravity::Limit,
        side: best.filter(|_| sure).map_or(String::new(), |best| best.side.to_owned()),
        what: format!(
            "{STOPPED}{} of {} planned: {}.",
            words::count(plateau.number),
            words::count(plateau.planned),
            best.map_or("no known limit explains it", |best| best.what.as_str())
        ),
        evidence: evidence.join("; "),
        remedy: best.map_or_else(
            || {
                "Observe the server's machine (`holdline observe`, `holdline doctor --role \
                 server`); check the server's configuration for a connection limit."
                    .to_owned()
            },
            |best: &Suspect| best.remedy.clone(),
        ),
        from_ms: plateau.window.0,
        to_ms: plateau.window.1,
    }
}

/// How long, how many calls, what became of them, and who was connected without being served.
fn what_went_on(case: &Case, plateau: &Plateau) -> String {
    let window = plateau.window;
    let mut text = format!(
        "no growth {} during {} connection attempts",
        words::between(window.0, window.1),
        words::count(plateau.calls)
    );
    let mut causes: Vec<(f64, &str)> = Cause::ALL
        .iter()
        .filter(|cause| cause.is_error())
        .filter_map(|cause| {
            Some((window::growth(case.series(), &ended(*cause), plateau.counted)?, cause.name()))
        })
        .filter(|(count, _)| *count >= 1.0)
        .collect();
    causes.sort_by(|one, other| other.0.total_cmp(&one.0));
    let told: Vec<String> = causes
        .iter()
        .take(3)
        .map(|(count, name)| format!("{} {name}", words::count(*count)))
        .collect();
    if !told.is_empty() {
        text = format!("{text}; failed: {}", words::list(&told));
    }
    let open = case.at("clients.open", window.1).unwrap_or(0.0);
    let unserved = open - plateau.number;
    if unserved >= 1.0 {
        text = format!(
            "{text}; {} open connections were not bound: the kernel had accepted them, the server \
             had not served them",
            words::count(unserved)
        );
    }
    text
}

#[cfg(test)]
mod tests;
