//! Rules for every page of metrics: those of `promtool check metrics` on names and types, and that
//! a sample stands below the head of its metric.

use std::collections::BTreeSet;

/// Units that Prometheus wants spelled out.
const ABBREVIATED: [&str; 14] =
    ["s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d"];

/// Panics at the first line that breaks a rule.
pub(super) fn check_metrics(page: &str) {
    let (mut seen, mut helped, mut family) = (BTreeSet::new(), "", "");
    for line in page.lines() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            let (name, help) = head.split_once(' ').expect("a name and its help");
            assert!(help.ends_with('.') && seen.insert(name), "{line}");
            helped = name;
        } else if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').expect("a name and its type");
            let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(name == helped && name.chars().all(legal), "{line}");
            let is_spread = kind == "histogram" && name.ends_with("_seconds");
            let wanted = if name.ends_with("_total") { "counter" } else { "gauge" };
            assert!(is_spread || kind == wanted, "{line}");
            assert!(!name.split('_').any(|word| ABBREVIATED.contains(&word)), "{line}");
            family = name;
        } else {
            let name = line.split(['{', ' ']).next().expect("a name");
            let value = line.rsplit(' ').next().expect("a value");
            let ends = ["", "_bucket", "_sum", "_count"];
            let mine = name.strip_prefix(family).is_some_and(|end| ends.contains(&end));
            assert!(mine && value.parse::<f64>().is_ok(), "{line}");
        }
    }
}

#[test]
#[should_panic = "holdline_lag_ms gauge"]
fn an_abbreviated_unit_is_found() {
    check_metrics("# HELP holdline_lag_ms Age.\n# TYPE holdline_lag_ms gauge\nholdline_lag_ms 1\n");
}
