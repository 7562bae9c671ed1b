//! What is shipped prints in one place, where a print cannot end the process.
//!
//! `println!` and its like panic when nobody takes what they print, and a panic of a release ends
//! the process with every connection it holds. The command line prints by
//! `crates/holdline/src/out.rs`, the server by its log. Tests and what is never shipped may print.

use super::Violation;
use super::tree::Tree;

/// Crates that are never shipped.
const YARD: &[&str] = &["laboratory/bench/", "crates/crash/", "crates/sim/", "crates/testkit/"];

/// Places that hold standard output or error themselves, and why.
const HOLDERS: &[(&str, &str)] = &[
    ("crates/holdline/src/out.rs", "it is the one place"),
    ("crates/server/src/log/mod.rs", "the log, which counts what is lost"),
    ("laboratory/load/src/local/child.rs", "a load generator speaks to its parent by it"),
    ("laboratory/view/src/screen.rs", "a screen is drawn on it"),
];

const PRINTS: &[&str] = &["println!", "print!", "eprintln!", "eprint!", "dbg!"];

const LANES: &[&str] = &["stdout", "stderr"];

/// Checks the source of every crate that is shipped, but for its tests.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    for (file, source) in tree.rust_files() {
        let is_test = file.name() == "tests.rs" || file.path.contains("/tests/");
        let is_yard = YARD.iter().any(|place| file.path.starts_with(place));
        if !file.is_crate_source() || is_test || is_yard {
            continue;
        }
        let holds = HOLDERS.iter().any(|(place, _)| file.path == *place);
        for (index, line) in source.code().lines().enumerate() {
            if source.is_test_line(index + 1) {
                continue;
            }
            let prints = PRINTS.iter().filter(|print| calls(line, print));
            let lanes = LANES.iter().filter(|lane| !holds && line.contains(&format!("io::{lane}")));
            for what in prints.chain(lanes) {
                let remedy = format!(
                    "print by crates/holdline/src/out.rs, or log: `{what}` ends the process or \
                     says nothing when nobody takes it"
                );
                let path = file.path.clone();
                found.push(Violation { path, line: index + 1, rule: "print", remedy });
            }
        }
    }
}

/// Whether the macro is called, and not one whose name ends so.
fn calls(line: &str, print: &str) -> bool {
    line.match_indices(print).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|char| char.is_alphanumeric() || char == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let mut found = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut found);
        found.iter().map(|violation| violation.line).collect()
    }

    const TEXT: &str = "fn a() {\n  println!(\"x\");\n  eprint!(\"y\");\n  std::io::stdout()\n}\n";

    #[test]
    fn prints_are_seen_in_what_is_shipped() {
        assert_eq!(lines("crates/holdline/src/push.rs", TEXT), [2, 3, 4]);
        assert_eq!(lines("crates/net/src/shard.rs", TEXT), [2, 3, 4]);
        assert_eq!(lines("crates/server/src/log/mod.rs", TEXT), [2, 3], "it may hold, not print");
        assert_eq!(lines("crates/hub/src/a.rs", "use std::io::stderr;\ndbg!(x);"), [1, 2]);
    }

    #[test]
    fn tests_the_yard_and_other_macros_may() {
        for path in ["laboratory/bench/src/a.rs", "crates/net/src/shard/tests.rs", "xtask/src/a.rs"]
        {
            assert_eq!(lines(path, TEXT), [0; 0], "{path}");
        }
        assert_eq!(lines("laboratory/load/tests/a.rs", TEXT), [0; 0]);
        let tested = "#[cfg(test)]\nmod tests {\n  fn a() { println!(); }\n}\n";
        assert_eq!(lines("crates/hub/src/a.rs", tested), [0; 0]);
        assert_eq!(lines("crates/hub/src/a.rs", "note!(\"x\"); // println!\npprint!();"), [0; 0]);
    }
}
