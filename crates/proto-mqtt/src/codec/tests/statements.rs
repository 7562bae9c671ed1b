//! `statements.txt` of every crate: each line's place and test exist, every numbered statement is
//! in one of them, and so is every clause that the code cites.

use super::vectors::{good, malformed};
use crate::codec::{PacketFault, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Numbered statements of 5.0 and of 3.1.1.
const COUNTS: (usize, usize) = (251, 141);

/// A line of a crate's `statements.txt`.
struct Statement {
    /// The crate's folder.
    package: String,
    id: String,
    asks: String,
    /// A file of the crate, or `-`.
    place: String,
    /// A test of it, or why the statement does not apply.
    test: String,
    vector: Option<String>,
}

/// The columns of each line.
fn columns(list: &str) -> Vec<Vec<String>> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split(" | ").map(str::to_owned).collect()).collect()
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates").to_owned()
}

/// The statements of every crate that keeps some.
fn statements() -> Vec<Statement> {
    let mut all = Vec::new();
    let crates = std::fs::read_dir(crates()).expect("crates");
    for package in crates.map(|entry| entry.expect("an entry").path()) {
        let Ok(list) = std::fs::read_to_string(package.join("statements.txt")) else { continue };
        let package = package.file_name().expect("a name").to_string_lossy().into_owned();
        for columns in columns(&list) {
            let [id, asks, place, test, vector @ ..] = &columns[..] else { panic!("{columns:?}") };
            assert!(vector.len() <= 1, "{columns:?}");
            let (package, id, asks) = (package.clone(), id.clone(), asks.clone());
            let (place, test, vector) = (place.clone(), test.clone(), vector.first().cloned());
            all.push(Statement { package, id, asks, place, test, vector });
        }
    }
    all
}

/// Those of this crate.
fn own() -> Vec<Statement> {
    let mut all = statements();
    all.retain(|statement| statement.package == "proto-mqtt");
    all
}

/// All text of a crate's sources and tests, file by file.
fn sources(package: &str) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    let folder = crates().join(package);
    ["src", "tests"].iter().for_each(|part| read(&folder.join(part), &mut texts));
    texts
}

fn read(folder: &Path, texts: &mut Vec<(String, String)>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            read(&path, texts);
        } else if path.extension().is_some_and(|name| name == "rs") {
            let text = std::fs::read_to_string(&path).expect("text");
            texts.push((path.display().to_string(), text));
        }
    }
}

#[test]
fn every_statement_has_a_place_and_a_test_that_exists() {
    let vectors: BTreeSet<String> =
        good().into_iter().chain(malformed()).map(|case| case.name).collect();
    let mut crates: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for statement in statements() {
        let Statement { package, id, place, test, vector, .. } = &statement;
        assert!(ids.insert((package.clone(), id.clone())), "{package}: {id} stands twice");
        if place == "-" {
            assert!(test.contains(' '), "{package}: {id} does not apply without a reason");
            continue;
        }
        let sources = crates.entry(package.clone()).or_insert_with(|| sources(package));
        let files = [format!("/{package}/src/{place}.rs"), format!("/{package}/tests/{place}.rs")];
        let is_there = sources.iter().any(|(path, _)| files.iter().any(|f| path.ends_with(f)));
        assert!(is_there, "{package}: {id}: no file {place}");
        let name = format!("fn {test}()");
        let is_test = sources.iter().any(|(_, text)| text.contains(&name));
        assert!(is_test, "{package}: {id}: no test {test}");
        if let Some(vector) = vector {
            assert!(vectors.contains(vector), "{package}: {id}: no vector `{vector}`");
        }
    }
    assert!(ids.len() > 220, "{} statements", ids.len());
}

#[test]
fn the_lists_together_are_all_statements_of_both_standards() {
    let ids: BTreeSet<String> = statements().into_iter().map(|statement| statement.id).collect();
    let count = |standard| ids.iter().filter(|id| id.starts_with(standard)).count();
    assert_eq!((count("MQTT5 "), count("MQTT3 ")), COUNTS);
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
    // The client's and the broker's: the server machine holds the clients to them, or cites what
    // it leaves to the broker.
    let elsewhere = [
        "MQTT5 3.3.4-7",
        "MQTT5 4.12.0-7",
        "MQTT5 4.12.1-1",
        "MQTT5 3.14.4-3",
        "MQTT5 3.1.2-10",
        "MQTT3 4.8.0-1",
    ];
    let listed: BTreeSet<String> = own().into_iter().map(|statement| statement.id).collect();
    let mut seen = 0;
    for (path, text) in sources("proto-mqtt") {
        if path.contains("/tests/") || path.contains("/client") {
            continue;
        }
        for clause in cited(&text) {
            let is_known = listed.contains(&clause) || elsewhere.contains(&&*clause);
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
    for statement in own() {
        let vector = statement.vector.as_ref();
        let Some(case) = vector.and_then(|v| vectors.iter().find(|c| c.name == *v)) else {
            continue;
        };
        let Err(fault) = case.decode(&case.bytes, &case.rules) else { continue };
        let is_new = statement.id.starts_with("MQTT5");
        let clause = fault.clause(if is_new { Version::V5 } else { Version::V311 });
        compared += usize::from(clause == statement.id);
        assert!(!clause.is_empty() || fault == PacketFault::PasswordAlone, "{}", statement.id);
    }
    assert!(compared > 50, "{compared} statements are cited by the fault that shows them");
}

/// A statement's standard and number, so that they can be put in order.
fn order(id: &str) -> (bool, Vec<u16>) {
    let (standard, number) = id.split_once(' ').expect("a standard and a number");
    let parts = number.split(['.', '-']).map(|part| part.parse().expect("a number"));
    (standard != "MQTT5", parts.collect())
}

/// The page that shows every statement with who keeps it.
fn page() -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    let (mut kept, mut not_applicable) = (BTreeSet::new(), BTreeSet::new());
    for Statement { package, id, asks, place, test, vector } in statements() {
        let shown = vector.map(|vector| format!(" (`{vector}`)")).unwrap_or_default();
        let line = if place == "-" {
            not_applicable.insert(id.clone());
            format!("| {id} | {asks} | does not apply: {test} | |")
        } else {
            kept.insert(id.clone());
            format!("| {id} | {asks} | {package}: {place} | {test}{shown} |")
        };
        lines.push((id, line));
    }
    lines.sort_by_key(|(id, _)| order(id));
    let mut page = format!(
        "# The numbered statements of MQTT\n\nGenerated from the `statements.txt` of every crate: \
         `cargo test -p proto-mqtt -- --ignored writes_the_page`. In our own words, for 5.0 \
         (MQTT5) and 3.1.1 (MQTT3).\n\n{} are implemented and tested, {} do not apply.\n\n\
         | statement | requirement | implemented in | test |\n| --- | --- | --- | --- |\n",
        kept.len(),
        not_applicable.len()
    );
    lines.iter().for_each(|(_, line)| writeln!(page, "{line}").expect("text"));
    page
}

#[test]
#[ignore = "writes docs/mqtt-statements.md"]
fn writes_the_page() {
    let docs = crates().parent().expect("the root").join("docs");
    std::fs::write(docs.join("mqtt-statements.md"), page()).expect("docs can be written");
}

#[test]
fn the_page_has_a_line_for_every_statement() {
    let page = page();
    let ids: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| MQTT")?.split(" | ").next()).collect();
    assert_eq!(ids.len(), COUNTS.0 + COUNTS.1);
    let docs = crates().parent().expect("the root").join("docs/mqtt-statements.md");
    let written = std::fs::read_to_string(docs).expect("the page");
    assert!(written == page, "docs/mqtt-statements.md is old: run writes_the_page");
}
