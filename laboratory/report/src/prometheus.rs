//! Figures of this moment in Prometheus' text format, version 0.0.4.
//!
//! Counts of the clients are families of their own, `holdline_load_…`; what a host or a server
//! told, whose names come from outside, stands as labels of two families, one of figures that only
//! grow and one of those that do not. Times are in seconds and bytes in bytes, as is the custom
//! there.

use crate::escape;
use lab::run::{Counts, FIGURES};
use lab::series::{FigureKind, Reading, Unit};
use lab::timing::Spectrum;
use std::fmt::Write;

/// Quantiles that are shown of each timing, in percent.
const QUANTILES: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 100.0];

/// The figures.
pub fn prometheus(counts: &Counts, reading: &Reading) -> String {
    let mut out = String::new();
    for (name, kind, help, value) in [
        ("clients_planned", "gauge", "Planned clients.", counts.planned),
        ("connections_open", "gauge", "Open connections.", counts.open),
        ("clients_online", "gauge", "Bound clients.", counts.online),
        (
            "attempts_total",
            "counter",
            "Connection attempts, including reconnects.",
            counts.attempts,
        ),
        ("bound_total", "counter", "Successful binds.", counts.bound),
    ] {
        head(&mut out, name, kind, help);
        row(&mut out, name, &[], value as f64);
    }
    ends(&mut out, counts);
    head(
        &mut out,
        "codes_total",
        "counter",
        "Refusals and disconnects by the server, by protocol \
                                              code.",
    );
    for (code, count) in &counts.codes {
        row(&mut out, "codes_total", &[("code", code)], *count as f64);
    }
    figures(&mut out, counts);
    timings(&mut out, counts);
    readings(&mut out, reading);
    out
}

/// Ends by phase and cause.
fn ends(out: &mut String, counts: &Counts) {
    head(out, "ended_total", "counter", "Ended connections, by phase and cause.");
    for (phase, cause, count) in counts.causes.iter() {
        let labels =
            [("phase", phase.name()), ("cause", cause.name()), ("side", cause.side().name())];
        row(out, "ended_total", &labels, count as f64);
    }
}

/// Writes all counts that have a name of their own.
fn figures(out: &mut String, counts: &Counts) {
    for (name, help) in FIGURES {
        let family = format!("{}_total", name.replace('.', "_"));
        head(out, &family, "counter", help);
        row(out, &family, &[], counts.figure(name));
    }
}

/// Times, from the planned moment and from the real one.
fn timings(out: &mut String, counts: &Counts) {
    let help = "Latencies: corrected from the planned time, raw from the actual time.";
    head(out, "seconds", "summary", help);
    for (timing, timed) in counts.timings.iter() {
        for (from, spectrum) in [("corrected", &timed.corrected), ("raw", &timed.raw)] {
            summary(out, &[("timing", timing.name()), ("from", from)], spectrum);
        }
    }
}

fn summary(out: &mut String, labels: &[(&str, &str)], spectrum: &Spectrum) {
    for percent in QUANTILES {
        let quantile = format!("{}", percent / 100.0);
        let mut labels = labels.to_vec();
        labels.push(("quantile", &quantile));
        row(out, "seconds", &labels, spectrum.at(percent) as f64 / 1e6);
    }
    let sum = if spectrum.is_empty() { 0.0 } else { spectrum.mean() * spectrum.count() as f64 };
    row(out, "seconds_sum", labels, sum / 1e6);
    row(out, "seconds_count", labels, spectrum.count() as f64);
}

/// Writes the readings of hosts and servers.
fn readings(out: &mut String, reading: &Reading) {
    for total in [false, true] {
        let (name, kind) = if total { ("reading_total", "counter") } else { ("reading", "gauge") };
        head(out, name, kind, "A figure of a host or a server, by its dotted name.");
        let mut seen = std::collections::BTreeMap::new();
        for (column, value) in
            reading.iter().filter(|(c, _)| (c.kind == FigureKind::Total) == total)
        {
            seen.insert(column.name.as_ref(), (column.unit, *value));
        }
        for (figure, (unit, value)) in seen {
            let (unit, value) = match unit {
                Unit::Micros => ("seconds", value / 1e6),
                Unit::Seconds => ("seconds", value),
                Unit::Bytes => ("bytes", value),
                Unit::Share => ("ratio", value),
                Unit::Count => ("", value),
            };
            row(out, name, &[("name", figure), ("unit", unit)], value);
        }
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let help = help.replace('\\', "\\\\").replace('\n', " ");
    let _ = writeln!(out, "# HELP holdline_load_{name} {help}\n# TYPE holdline_load_{name} {kind}");
}

fn row(out: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    let labels: Vec<String> =
        labels.iter().map(|(key, text)| format!("{key}=\"{}\"", escape::label(text))).collect();
    let labels =
        if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let value = if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() }
    } else {
        value.to_string()
    };
    let _ = writeln!(out, "holdline_load_{name}{labels} {value}");
}
