//! The explainer: what happened to a run, with the figures that show it.
//!
//! Each detector is a function of a case and looks for one thing; a detector whose columns are
//! missing says nothing. They stand in the order in which one thing causes another, so that of two
//! that began together the cause comes first. The invariant: whatever a series holds, no detector
//! panics, and the same run gets the same findings.

mod accept;
mod cgroup;
mod clients;
mod dead;
mod descriptors;
mod errors;
mod growth;
mod memory;
mod packets;
mod plateau;
mod ports;
mod presence_audits;
mod processor;
mod redis;
mod refusals;
mod sockets;
mod target;

use crate::case::{BROKEN, Case};
use crate::words;
use clients::{arrival, climb, heartbeats, late, latency, messages, stalls};
use lab::run::{Finding, Gravity, Run};
use plateau::Plateau;
use std::cmp::Reverse;

/// One looks for one thing.
type Detector = fn(&Case) -> Vec<Finding>;

/// All of them, causes before what they cause.
const DETECTORS: [Detector; 25] = [
    dead::detect,
    target::detect,
    descriptors::detect,
    ports::detect,
    memory::detect,
    sockets::detect,
    cgroup::detect,
    processor::detect,
    refusals::detect,
    accept::queue,
    accept::half_open,
    packets::detect,
    redis::detect,
    presence_audits::detect,
    plateau::detect,
    errors::detect,
    errors::rules,
    messages::detect,
    heartbeats::detect,
    late::detect,
    stalls::detect,
    latency::detect,
    climb::detect,
    arrival::detect,
    growth::detect,
];

/// Limits that begin less than this apart, milliseconds, began together: rows are a second apart.
const TOGETHER_MS: u64 = 2_000;

/// All findings: the gravest first, and of the same gravity the earliest; but of the limits the one
/// that [`first_limit`] names.
pub fn findings(run: &Run) -> Vec<Finding> {
    let case = Case::of(run);
    let mut found = all(&case);
    found.sort_by_key(|finding| (Reverse(finding.gravity), finding.from_ms));
    if let Some(first) = first_of(&found) {
        let front = found.iter().position(|finding| finding.gravity == Gravity::Limit);
        found[front.unwrap_or(first)..=first].rotate_right(1);
    }
    found
}

/// The first limit that was met, the server's before the tester's when they were met together.
/// Where none was, a note that says up to where; `None`: nobody called.
pub fn first_limit(run: &Run) -> Option<Finding> {
    if run.total.attempts == 0 {
        return None;
    }
    let case = Case::of(run);
    let mut found = all(&case);
    found.sort_by_key(|finding| (Reverse(finding.gravity), finding.from_ms));
    let Some(first) = first_of(&found) else {
        return Some(no_limit(&case, &found));
    };
    let mut first = found.swap_remove(first);
    if let Some(plateau) = plateau::plateau(&case)
        && !plateau::is_plateau(&first)
    {
        add_plateau(&mut first, &plateau);
    }
    Some(first)
}

/// Adds to a finding's evidence, once, at which number clients stopped.
fn add_plateau(finding: &mut Finding, plateau: &Plateau) {
    let words = plateau.words();
    if !finding.evidence.contains(&words) {
        finding.evidence = format!("{}; {words}", finding.evidence);
    }
}

/// Merges the plateau into the finding of a server that refuses connections at its limit: it is
/// the same limit, and two findings would read as two limits.
fn merge_refused(case: &Case, found: &mut Vec<Finding>) {
    let refused = found.iter_mut().find(|one| refusals::is_limit(one));
    if let (Some(refused), Some(plateau)) = (refused, plateau::plateau(case))
        && plateau::is_refused_by_server(case, &plateau)
    {
        add_plateau(refused, &plateau);
        found.retain(|one| !plateau::is_plateau(one));
    }
}

/// Findings of all detectors, in their order.
fn all(case: &Case) -> Vec<Finding> {
    // Where nobody answers there is nothing else to be found out about a server.
    let dead = dead::detect(case);
    let detectors = if dead.is_empty() { &DETECTORS[..] } else { &DETECTORS[..1] };
    let mut found: Vec<Finding> = detectors.iter().flat_map(|detect| detect(case)).collect();
    merge_refused(case, &mut found);
    found.into_iter().map(|one| excused(whole(one, case), case)).collect()
}

/// The place of the first limit among findings that stand in order.
fn first_of(found: &[Finding]) -> Option<usize> {
    let limits = || found.iter().enumerate().filter(|(_, one)| one.gravity == Gravity::Limit);
    let earliest = limits().map(|(_, one)| one.from_ms).min()?;
    let together = limits().filter(|(_, one)| one.from_ms <= earliest.saturating_add(TOGETHER_MS));
    together.min_by_key(|(_, one)| rank(&one.side)).map(|(place, _)| place)
}

/// A limit that was met while something was broken on purpose is no limit of its own. Clients that
/// were sent away or flap are load, and excuse nothing.
fn excused(mut finding: Finding, case: &Case) -> Finding {
    let broken = case.broken(finding.from_ms).filter(|note| !note.text.contains(" of the clients"));
    if let Some(note) = broken.filter(|_| finding.gravity == Gravity::Limit) {
        finding.gravity = Gravity::Warning;
        finding.remedy.clear();
        let when = words::moment(note.at_ms);
        finding.evidence = format!("{}; at {when} {}", finding.evidence, note.text);
    }
    finding
}

fn rank(side: &str) -> u8 {
    match side {
        "target" => 0,
        "tester" => 2,
        _ => 1,
    }
}

fn no_limit(case: &Case, found: &[Finding]) -> Finding {
    let total = &case.run.total;
    let most = case.highest(crate::columns::ONLINE).map_or(0.0, |(_, online)| online);
    let most = most.max(total.online as f64);
    let what = match most == 0.0 {
        true => "No client came online.".to_owned(),
        false => format!("No limit was reached up to {} clients online.", words::count(most)),
    };
    let errors = words::count(total.causes.errors() as f64);
    let mut evidence = format!(
        "{} clients planned, {} connection attempts, {errors} errors",
        words::count(total.planned as f64),
        words::count(total.attempts as f64),
    );
    if !case.run.finished {
        evidence.push_str("; the run ended before its plan was finished");
    }
    let excused = found.iter().filter(|one| one.evidence.contains(BROKEN)).count();
    if excused > 0 {
        evidence = format!(
            "{evidence}; {excused} limits that were reached during planned faults do not count"
        );
    }
    if !case.run.series.columns().iter().any(|column| column.name.starts_with("target.")) {
        evidence.push_str(
            "; the server was not observed, so a limit that refused no client yet would not show",
        );
    }
    Finding {
        gravity: Gravity::Note,
        side: String::new(),
        what,
        evidence,
        remedy: String::new(),
        from_ms: 0,
        to_ms: case.end_ms(),
    }
}

/// The finding with its stretch of time in order.
fn whole(mut finding: Finding, case: &Case) -> Finding {
    let end = case.end_ms();
    finding.from_ms = finding.from_ms.min(end);
    finding.to_ms = finding.to_ms.clamp(finding.from_ms, end);
    finding
}

/// Columns that only grew, told as bursts: `ListenDrops +41,233 between 00:41 and 00:44`.
fn told_bursts(name: &str, bursts: &[(u64, u64, f64)]) -> String {
    let mut largest: Vec<&(u64, u64, f64)> = bursts.iter().collect();
    largest.sort_by(|one, other| other.2.total_cmp(&one.2).then(one.0.cmp(&other.0)));
    let told: Vec<String> = largest
        .iter()
        .take(3)
        .map(|(from, to, grown)| {
            format!("{name} +{} {}", words::count(*grown), words::between(*from, *to))
        })
        .collect();
    let more = bursts.len().saturating_sub(told.len());
    match more {
        0 => told.join(", "),
        _ => format!("{} and {more} smaller increases", told.join(", ")),
    }
}

/// From the first of the bursts to the end of the last.
fn around(bursts: &[(u64, u64, f64)]) -> Option<(u64, u64, f64)> {
    let (first, last) = (bursts.first()?, bursts.last()?);
    Some((first.0, last.1, bursts.iter().map(|burst| burst.2).sum()))
}

/// Growth that is less apart than this is reported as one.
const GAP_MS: u64 = 5_000;

#[cfg(test)]
mod tests;
