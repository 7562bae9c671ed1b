//! The charts of what the clients did: connections, messages, errors, heartbeats.

use super::plot::{Plot, Stroke, Upwards};
use super::source::{self, FigureSource};
use lab::cause::Cause;
use lab::run::Run;
use lab::series::Unit;

/// Causes that have an area of their own; the others share one.
const CAUSES_MAX: usize = 10;

/// Connections: how many there are, and how many come.
pub fn connections(source: &FigureSource) -> Vec<Plot> {
    let mut there = Plot::over_time("c-connections", "Clients and connections", Unit::Count);
    there.about = "Clients that are bound (online), connections that are open, what the plan \
                   wanted, calls made so far and errors so far (lost). Bands are stages, marks \
                   are what happened from outside, red is where a finding points."
        .to_owned();
    (there.wide, there.told) = (true, true);
    let mut lines = source.lines(&[("clients.online", "online"), ("clients.open", "open")]);
    if lines.is_empty() {
        lines.push(source::line("online", 0, source.points("clients.online")));
    }
    let mut planned = source::line("planned", 8, source.points("clients.planned"));
    planned.stroke = Stroke::Dashed;
    lines.push(planned);
    lines.push(source::line("attempted so far", 6, source.read("clients.attempts")));
    lines.push(source::line("lost so far", 7, source.read("clients.errors")));
    lines.retain(|line| !line.points.is_empty());
    source::hide_towering(&mut lines);
    there.lines = lines;

    let mut new = Plot::over_time("c-new", "New connections a second", Unit::Count);
    new.about = "Connection attempts, established connections, bound clients, attempts of clients \
                 that had been there before, and errors, each a second."
        .to_owned();
    (new.per_s, new.wide) = (true, true);
    new.lines = source.lines(&[
        ("clients.bound", "bound"),
        ("clients.established", "established"),
        ("clients.attempts", "attempted"),
        ("clients.reconnects", "came back"),
        ("clients.resumed", "resumed"),
    ]);
    let mut errors = source.lines(&[("clients.errors", "errors")]);
    errors.iter_mut().for_each(|line| line.colour = 7);
    new.lines.extend(errors);
    vec![there, new]
}

/// Charts of messages sent and received.
pub fn traffic(source: &FigureSource) -> Vec<Plot> {
    let mut messages = Plot::over_time("c-messages", "Messages a second", Unit::Count);
    messages.lines = source.lines(&[
        ("clients.messages.sent", "sent"),
        ("clients.messages.taken", "acknowledged by the target"),
        ("clients.messages.received", "received"),
        ("clients.messages.repeated", "repeated"),
        ("clients.messages.reordered", "out of order"),
        ("clients.messages.refused", "refused"),
        ("clients.messages.lost", "lost"),
        ("clients.messages.missing", "missing"),
    ]);
    let mut requests = Plot::over_time("c-requests", "Requests a second", Unit::Count);
    requests.lines = source.lines(&[
        ("clients.requests.sent", "sent"),
        ("clients.requests.answered", "answered"),
        ("clients.requests.errors", "status above 399"),
        ("clients.requests.lost", "lost"),
    ]);
    let mut bytes = Plot::over_time("c-bytes", "Bytes of the clients a second", Unit::Bytes);
    bytes.lines = source.lines(&[
        ("clients.bytes.in", "received"),
        ("clients.bytes.out", "sent"),
        ("clients.messages.bytes", "bodies of messages received"),
    ]);
    let mut dropped =
        Plot::over_time("c-dropped", "Actions not performed in time by the tester", Unit::Count);
    dropped.about =
        "Planned actions that the tester could not perform in time; should be 0.".to_owned();
    dropped.lines = source.lines(&[("clients.dropped", "dropped")]);
    let mut plots = vec![messages, requests, bytes, dropped];
    plots.iter_mut().for_each(|plot| plot.per_s = true);
    plots
}

/// Errors by cause, one upon the other.
pub fn errors(source: &FigureSource, run: &Run) -> Plot {
    let mut plot = Plot::over_time("c-errors", "Errors by cause", Unit::Count);
    plot.about = "Connections that failed or ended against the plan, a second, one cause upon \
                  the other."
        .to_owned();
    (plot.upwards, plot.per_s, plot.wide) = (Upwards::Stacked, true, true);
    let causes = Cause::ALL.iter().copied().filter(|cause| cause.is_error());
    let mut causes: Vec<(u64, Cause)> =
        causes.map(|cause| (run.total.causes.all_of(cause), cause)).collect();
    causes.sort_by_key(|(count, cause)| (std::cmp::Reverse(*count), *cause));
    let mut others = Vec::new();
    for (_, cause) in causes {
        let points = source.points(&format!("clients.ended.{}", cause.name()));
        if points.iter().all(|(_, value)| *value == 0.0) {
            continue;
        }
        if plot.lines.len() < CAUSES_MAX {
            let name = format!("{} ({})", cause.name(), run.side_of(cause).name());
            let colour = (plot.lines.len() + 7) % 12;
            plot.lines.push(source::line(&name, colour, points));
        } else {
            others.extend(points);
        }
    }
    if !others.is_empty() {
        others.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut summed: Vec<(f64, f64)> = Vec::new();
        for (at, value) in others {
            match summed.last_mut() {
                Some((last, sum)) if *last == at => *sum += value,
                _ => summed.push((at, value)),
            }
        }
        plot.lines.push(source::line("all other causes", 8, summed));
    }
    plot
}

/// Heartbeats: those that went well, and the others.
pub fn heartbeats(source: &FigureSource) -> Vec<Plot> {
    let mut well = Plot::over_time("c-heartbeats", "Heartbeats a second", Unit::Count);
    well.lines = source.lines(&[
        ("clients.heartbeats.sent", "sent"),
        ("clients.heartbeats.answered", "answered in time"),
    ]);
    let mut ill = Plot::over_time("c-heartbeats-lost", "Heartbeats late and lost", Unit::Count);
    ill.about = "Late: answered after the time-out. Lost: the connection ended first. Skipped: \
                 the last one was still under way."
        .to_owned();
    ill.lines = source.lines(&[
        ("clients.heartbeats.late", "late"),
        ("clients.heartbeats.lost", "lost"),
        ("clients.heartbeats.skipped", "skipped"),
    ]);
    (well.per_s, ill.per_s) = (true, true);
    vec![well, ill]
}
