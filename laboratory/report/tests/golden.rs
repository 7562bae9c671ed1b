//! Whole texts and a whole page, word by word, beside those that were looked through once.
//!
//! After an intended change the texts are written anew, and read in git's difference: `cargo test
//! -p report --test golden -- --ignored`.

mod runs;

use lab::compare::{Better, Comparison, ComparisonRow, Interval};
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", name].iter().collect()
}

/// A page without style, script and the run that it holds, a row or the like a line.
fn elements(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    for (begin, end) in [("<style>", "</style>"), ("<script", "</body>")] {
        let (before, behind) = rest.split_once(begin).expect("it begins");
        out.push_str(before);
        rest = behind.split_once(end).expect("it ends").1;
    }
    out.push_str(rest);
    for tag in ["section", "figure", "article", "h", "p", "li", "dt", "dd", "tr", "path", "svg"] {
        out = out.replace(&format!("><{tag}"), &format!(">\n<{tag}"));
    }
    out
}

fn comparison() -> Comparison {
    let row = |figure: &str, values: [f64; 2], interval: Option<[f64; 2]>, better: Better| {
        ComparisonRow {
            figure: figure.to_owned(),
            meaning: format!("What {figure} means."),
            values,
            shown: values.map(|value| format!("{value:.1} ms")),
            change: (values[0] != 0.0).then(|| values[1] / values[0] - 1.0),
            interval: interval.map(|[low, high]| Interval { low, high }),
            better,
            method: "bootstrap over rows".to_owned(),
        }
    };
    Comparison {
        names: ["monday".to_owned(), "tuesday".to_owned()],
        differs: vec!["plan: `rate` is 1,000 and 2,000".to_owned()],
        compared: true,
        rows: vec![
            row("bind.p50", [2.0, 1.9], Some([-0.18, -0.02]), Better::Better),
            row("bind.p99", [80.0, 97.0], Some([6.0, 24.0]), Better::Worse),
            row("connect.p99", [1.5, 1.5], Some([-0.25, 0.25]), Better::NoDifference),
            row("clients.online", [1e6, 9e5], None, Better::NoDifference),
            row("messages.sent", [100.0, 180.0], Some([60.0, 300.0]), Better::Differs),
            row("nothing.before", [0.0, 1.0], Some([0.5, 1.5]), Better::Worse),
        ],
        summary: "Binding got slower at the tail.".to_owned(),
    }
}

fn all() -> Vec<(&'static str, String)> {
    vec![
        ("small.txt", report::text(&runs::small())),
        ("link-limit.txt", report::text(&runs::link_limit())),
        ("ladder.txt", report::text(&runs::ladder())),
        ("saturated.txt", report::text(&runs::saturated())),
        ("compare.txt", report::compare::text(&comparison())),
        ("compare.html.txt", elements(&(report::compare::html(&comparison()) + "<script</body>"))),
        ("small.html.txt", elements(&report::html(&runs::small()))),
    ]
}

#[test]
fn what_is_written_is_what_was_looked_through() {
    for (name, text) in all() {
        let golden = std::fs::read_to_string(path(name)).expect("it is in the repository");
        let lines = golden.lines().zip(text.lines()).zip(1..);
        for ((wanted, found), line) in lines {
            assert_eq!(found, wanted, "{name}:{line}");
        }
        assert_eq!(text.lines().count(), golden.lines().count(), "{name}");
    }
}

#[test]
#[ignore = "writes anew what is compared"]
fn writes_what_is_compared() {
    std::fs::create_dir_all(path("")).expect("a folder");
    for (name, text) in all() {
        std::fs::write(path(name), text).expect("room on the disk");
    }
}
