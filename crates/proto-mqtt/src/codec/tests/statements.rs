//! `statements.txt`: every statement is there once, every test and vector it names exists, and
//! every clause that the code cites is in it.

use super::vectors::{good, malformed};
use crate::codec::{Fault, Version};
use std::collections::BTreeSet;
use std::path::Path;

const STATEMENTS: &str = include_str!("../../../statements.txt");
const LATER: &str = include_str!("../../../statements-later.txt");

/// The columns of each line.
fn columns(list: &'static str) -> Vec<Vec<&'static str>> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split(" | ").collect()).collect()
}

fn statements() -> Vec<Vec<&'static str>> {
    columns(STATEMENTS)
}

/// All text of the crate's sources, file by file.
fn sources(folder: &Path, texts: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("the crate's sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, texts);
        } else {
            let text = std::fs::read_to_string(&path).expect("text");
            texts.push((path.display().to_string(), text));
        }
    }
}

fn all_sources() -> Vec<(String, String)> {
    let mut texts = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut texts);
    texts
}

#[test]
fn every_statement_has_a_place_and_a_test_that_exists() {
    let sources = all_sources();
    let is_test = |name: &str| {
        sources.iter().any(|(_, text)| text.contains(&format!("#[test]\nfn {name}()")))
    };
    let vectors: BTreeSet<String> =
        good().into_iter().chain(malformed()).map(|case| case.name).collect();
    let mut ids = BTreeSet::new();
    for columns in statements() {
        assert!((4..=5).contains(&columns.len()), "{columns:?}");
        assert!(ids.insert(columns[0]), "{} stands twice", columns[0]);
        let file = format!("/src/codec/{}.rs", columns[2]);
        let is_there = sources.iter().any(|(path, _)| path.ends_with(&file));
        assert!(is_there, "{}: no module {}", columns[0], columns[2]);
        assert!(is_test(columns[3]), "{}: no test {}", columns[0], columns[3]);
        if let Some(vector) = columns.get(4) {
            assert!(vectors.contains(*vector), "{}: no vector `{vector}`", columns[0]);
        }
    }
    assert!(ids.len() > 150, "{} statements", ids.len());
}

#[test]
fn the_two_lists_together_are_all_statements_of_both_standards() {
    let later = columns(LATER);
    let owners = ["session", "server", "client", "hub", "net", "roof"];
    for line in &later {
        assert!(line.len() == 3 && owners.contains(&line[1]), "{line:?}");
    }
    let ids: Vec<&str> = statements().iter().chain(&later).map(|columns| columns[0]).collect();
    let distinct: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(distinct.len(), ids.len(), "a statement stands in one list");
    let count = |standard| ids.iter().filter(|id| id.starts_with(standard)).count();
    assert_eq!((count("MQTT5 "), count("MQTT3 ")), (251, 141));
}

/// The numbered clauses in a text: `MQTT5 3.3.1-4`.
fn cited(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for standard in ["MQTT5 ", "MQTT3 "] {
        for (at, _) in text.match_indices(standard) {
            let number: String = text[at + standard.len()..]
                .chars()
                .take_while(|char| char.is_ascii_digit() || matches!(char, '.' | '-'))
                .collect();
            let number = number.trim_end_matches(['.', '-']);
            if number.split_once('-').is_some_and(|(_, n)| n.parse::<u8>().is_ok()) {
                found.insert(format!("{standard}{number}"));
            }
        }
    }
    found
}

#[test]
fn every_numbered_clause_that_the_code_cites_is_listed() {
    // These are the machines'; the table of faults only holds the answer.
    let elsewhere = ["MQTT5 3.1.0-2", "MQTT3 3.1.0-2", "MQTT5 3.3.4-7"];
    let listed: BTreeSet<&str> = statements().iter().map(|columns| columns[0]).collect();
    let mut seen = 0;
    for (path, text) in all_sources() {
        if path.contains("/tests/") {
            continue;
        }
        for clause in cited(&text) {
            let is_known = listed.contains(clause.as_str()) || elsewhere.contains(&&*clause);
            assert!(is_known, "{path} cites {clause}, which statements.txt does not have");
            seen += 1;
        }
    }
    assert!(seen > 60, "{seen} citations");
}

#[test]
fn a_fault_that_a_vector_shows_for_a_statement_cites_it_or_a_kin() {
    // The statement's chapter, at least, is that of the fault's clause, where both are numbered.
    let vectors = malformed();
    let mut compared = 0;
    for columns in statements() {
        let Some(case) = columns.get(4).and_then(|v| vectors.iter().find(|c| c.name == *v)) else {
            continue;
        };
        let Err(fault) = case.decode(&case.bytes, &case.rules) else { continue };
        let is_new = columns[0].starts_with("MQTT5");
        let clause = fault.clause(if is_new { Version::V5 } else { Version::V311 });
        compared += usize::from(clause == columns[0]);
        assert!(!clause.is_empty() || fault == Fault::PasswordAlone, "{}", columns[0]);
    }
    assert!(compared > 50, "{compared} statements are cited by the fault that shows them");
}
