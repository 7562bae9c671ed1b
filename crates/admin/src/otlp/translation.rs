//! The page of metrics in the form of OTLP (OpenTelemetry protocol 1.x, JSON of protobuf).
//!
//! Translated from the page itself, so that collectors and scrapers get the same names and figures.
//! 64-bit numbers are text, as protobuf's JSON requires. It knows no metric by name. Invariant:
//! each family of the page is one metric.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Cumulative since the start (metrics.proto, AggregationTemporality).
const CUMULATIVE: u32 = 2;

/// When it was, in nanoseconds of Unix time.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) started: u64,
    pub(super) now: u64,
}

/// A sample: what its name has behind the family's, its labels, its value.
struct Sample<'a> {
    end: &'a str,
    labels: Vec<(&'a str, &'a str)>,
    value: f64,
}

/// A family: name, explanation, kind, samples.
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    samples: Vec<Sample<'a>>,
}

/// The body of an export, from a page of this version.
pub(super) fn request(page: &str, version: &str, times: Times) -> Value {
    let metrics: Vec<Value> = families(page).iter().map(|family| metric(family, times)).collect();
    let word = |key: &str, text: &str| json!({ "key": key, "value": { "stringValue": text } });
    json!({ "resourceMetrics": [{
        "resource": { "attributes": [
            word("service.name", "holdline"),
            word("service.version", version),
        ] },
        "scopeMetrics": [{
            "scope": { "name": "holdline", "version": version },
            "metrics": metrics,
        }],
    }] })
}

fn families(page: &str) -> Vec<Family<'_>> {
    let mut all: Vec<Family<'_>> = Vec::new();
    for line in page.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|it| it.split_once(' ')) {
            all.push(Family { name, help, kind: "gauge", samples: Vec::new() });
        } else if let Some((_, kind)) =
            line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' '))
        {
            all.iter_mut().next_back().into_iter().for_each(|family| family.kind = kind);
        } else if let (Some(family), Some((name, labels, value))) = (all.last_mut(), sample(line))
            && let Some(end) = name.strip_prefix(family.name)
        {
            family.samples.push(Sample { end, labels, value });
        }
    }
    all
}

type Labels<'a> = Vec<(&'a str, &'a str)>;

/// Name, labels and value of a line of the page. No label there has a quote in it.
fn sample(line: &str) -> Option<(&str, Labels<'_>, f64)> {
    let (head, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, inside)) = head.split_once('{') else { return Some((head, Vec::new(), value)) };
    let pairs = inside.strip_suffix('}')?.split("\",");
    let labels = pairs.map(|pair| {
        let (name, text) = pair.split_once("=\"")?;
        Some((name, text.trim_end_matches('"')))
    });
    Some((name, labels.collect::<Option<_>>()?, value))
}

fn metric(family: &Family<'_>, times: Times) -> Value {
    let unit = match family.name.trim_end_matches("_total").rsplit('_').next() {
        _ if family.name.contains("_seconds") => "s",
        Some("bytes") => "By",
        _ => "1",
    };
    let mut told = json!({ "name": family.name, "description": family.help, "unit": unit });
    let points = || family.samples.iter().map(|it| point(it, times)).collect::<Vec<_>>();
    match family.kind {
        "counter" => {
            told["sum"] = json!({
                "dataPoints": points(),
                "aggregationTemporality": CUMULATIVE,
                "isMonotonic": true,
            });
        }
        "histogram" => {
            told["histogram"] = json!({
                "dataPoints": histograms(family, times),
                "aggregationTemporality": CUMULATIVE,
            });
        }
        _ => told["gauge"] = json!({ "dataPoints": points() }),
    }
    told
}

fn attributes(labels: &[(&str, &str)]) -> Vec<Value> {
    let told =
        labels.iter().map(|(key, text)| json!({ "key": key, "value": { "stringValue": text } }));
    told.collect()
}

fn point(sample: &Sample<'_>, times: Times) -> Value {
    json!({
        "attributes": attributes(&sample.labels),
        "startTimeUnixNano": times.started.to_string(),
        "timeUnixNano": times.now.to_string(),
        "asDouble": sample.value,
    })
}

/// A point for each set of labels of a histogram: its buckets are not summed up, as those of the
/// page are.
fn histograms(family: &Family<'_>, times: Times) -> Vec<Value> {
    #[derive(Default)]
    struct Gathered {
        bounds: Vec<f64>,
        counts: Vec<u64>,
        below: u64,
        sum: f64,
        count: u64,
    }
    let mut all: BTreeMap<Labels<'_>, Gathered> = BTreeMap::new();
    for Sample { end, labels, value } in &family.samples {
        let mut labels = labels.clone();
        let bound = labels.iter().position(|(name, _)| *name == "le").map(|at| labels.remove(at).1);
        let gathered = all.entry(labels).or_default();
        match (*end, bound) {
            ("_bucket", Some(bound)) => {
                let below = *value as u64;
                gathered.counts.push(below.saturating_sub(gathered.below));
                gathered.below = below;
                gathered.bounds.extend(bound.parse::<f64>().ok().filter(|it| it.is_finite()));
            }
            ("_sum", _) => gathered.sum = *value,
            ("_count", _) => gathered.count = *value as u64,
            _ => {}
        }
    }
    let told = all.into_iter().map(|(labels, it)| {
        json!({
            "attributes": attributes(&labels),
            "startTimeUnixNano": times.started.to_string(),
            "timeUnixNano": times.now.to_string(),
            "count": it.count.to_string(),
            "sum": it.sum,
            "bucketCounts": it.counts.iter().map(u64::to_string).collect::<Vec<_>>(),
            "explicitBounds": it.bounds,
        })
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# HELP holdline_binds_total Binds accepted.
# TYPE holdline_binds_total counter
holdline_binds_total 7
# HELP holdline_store_log_bytes Bytes.
# TYPE holdline_store_log_bytes gauge
holdline_store_log_bytes 1024
# HELP holdline_closed_total Ends.
# TYPE holdline_closed_total counter
holdline_closed_total{reason=\"busy\",product=\"a b, c\"} 3
# HELP holdline_phase_seconds Phases.
# TYPE holdline_phase_seconds histogram
holdline_phase_seconds_bucket{of=\"chat\",le=\"0.1\"} 2
holdline_phase_seconds_bucket{of=\"chat\",le=\"1\"} 5
holdline_phase_seconds_bucket{of=\"chat\",le=\"+Inf\"} 6
holdline_phase_seconds_sum{of=\"chat\"} 12.5
holdline_phase_seconds_count{of=\"chat\"} 6
";

    fn metrics() -> Vec<Value> {
        let told = request(PAGE, "1.2", Times { started: 5, now: 9 });
        let attributes = &told["resourceMetrics"][0]["resource"]["attributes"];
        assert_eq!(attributes[1]["value"]["stringValue"], "1.2");
        let scope = &told["resourceMetrics"][0]["scopeMetrics"][0];
        scope["metrics"].as_array().expect("metrics").clone()
    }

    #[test]
    fn each_family_is_a_metric_of_its_kind_with_its_explanation() {
        let all = metrics();
        let of = |at: usize| (all[at]["name"].as_str().expect("a name"), all[at]["unit"].clone());
        assert_eq!(of(0), ("holdline_binds_total", json!("1")));
        assert_eq!(of(1), ("holdline_store_log_bytes", json!("By")));
        assert_eq!(of(3), ("holdline_phase_seconds", json!("s")));
        assert_eq!((all.len(), &all[0]["description"]), (4, &json!("Binds accepted.")));
        let sum = &all[0]["sum"];
        assert_eq!(
            (&sum["isMonotonic"], &sum["aggregationTemporality"]),
            (&json!(true), &json!(2))
        );
        let point = &sum["dataPoints"][0];
        assert_eq!((&point["asDouble"], &point["timeUnixNano"]), (&json!(7.0), &json!("9")));
        assert_eq!(all[1]["gauge"]["dataPoints"][0]["asDouble"], 1024.0);
    }

    #[test]
    fn labels_are_attributes_whatever_stands_in_them() {
        let all = metrics();
        assert_eq!(
            all[2]["sum"]["dataPoints"][0]["attributes"],
            json!([
                { "key": "reason", "value": { "stringValue": "busy" } },
                { "key": "product", "value": { "stringValue": "a b, c" } },
            ])
        );
    }

    #[test]
    fn buckets_of_a_histogram_are_each_for_itself() {
        let all = metrics();
        let point = &all[3]["histogram"]["dataPoints"][0];
        assert_eq!(point["bucketCounts"], json!(["2", "3", "1"]));
        assert_eq!(point["explicitBounds"], json!([0.1, 1.0]));
        assert_eq!((&point["count"], &point["sum"]), (&json!("6"), &json!(12.5)));
        assert_eq!(point["attributes"][0]["value"]["stringValue"], "chat");
    }
}
