//! What a server tells in its log is told by a kind of the vocabulary, and each kind is told.
//!
//! `model::tell!` takes level, words and names of fields from `crates/model/src/counters/event`.
//! A line that is written by `tracing` itself would be in no list of events, have no count and no
//! meaning, and a kind that nobody tells would be in the book for nothing. Tests may write what
//! they like, and so may the laboratory, which is no server.

use super::Violation;
use super::source::Source;
use super::tree::{File, Tree};
use std::collections::BTreeSet;

/// Crates that a server runs and that have a log.
const SERVER: [&str; 7] = ["net", "store", "admin", "media", "federation", "server", "holdline"];

/// Where kinds are declared.
const VOCABULARY: &str = "crates/model/src/counters/event/";

const LINES: [&str; 6] = ["error!", "warn!", "info!", "debug!", "trace!", "event!"];

/// Checks the crates of a server, and the vocabulary.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let mut named = BTreeSet::new();
    for (file, source) in tree.rust_files() {
        if file.path.starts_with(VOCABULARY) || !file.is_crate_source() {
            continue;
        }
        named.extend(source.words().into_iter().map(|(_, word)| word));
        if is_of_a_server(file) {
            written_otherwise(file, source, found);
        }
    }
    for (file, _) in tree.rust_files().filter(|(file, _)| file.path.starts_with(VOCABULARY)) {
        for (line, kind) in declared(&file.text) {
            if !named.contains(kind) {
                let remedy = format!("tell `{kind}`, or take it out of the vocabulary");
                found.push(Violation { path: file.path.clone(), line, rule: "told", remedy });
            }
        }
    }
}

fn is_of_a_server(file: &File) -> bool {
    let is_test = file.name() == "tests.rs" || file.path.contains("/tests/");
    !is_test && SERVER.iter().any(|name| file.path.starts_with(&format!("crates/{name}/")))
}

fn written_otherwise(file: &File, source: &Source, found: &mut Vec<Violation>) {
    for (index, line) in source.code().lines().enumerate() {
        let written = LINES.iter().find(|name| line.contains(&format!("tracing::{name}")));
        if let Some(name) = written.filter(|_| !source.is_test_line(index + 1)) {
            let remedy = format!("declare a kind of event and `tell!` it: `{name}` is in no list");
            found.push(Violation {
                path: file.path.clone(),
                line: index + 1,
                rule: "told",
                remedy,
            });
        }
    }
}

/// The constants of kinds, with their lines: a word in capitals, then a name in quotes.
fn declared(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let (kind, rest) = line.trim_start().split_once(' ')?;
        let is_kind =
            kind.len() > 1 && kind.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        (is_kind && rest.starts_with('"')).then_some((index + 1, kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let mut found = Vec::new();
        check(&Tree::of(files), &mut found);
        found.into_iter().map(|violation| (violation.path, violation.line)).collect()
    }

    const KINDS: &str =
        "kinds! {\n    Process {\n        STOPPED \"stopped\" info \"stopped\" [];\n";

    #[test]
    fn a_line_that_is_written_otherwise_is_seen_in_a_server_and_nowhere_else() {
        let text = "fn a() {\n    tracing::warn!(a, \"b\");\n}\n#[cfg(test)]\nmod tests {\n    \
                    fn b() {\n        tracing::info!(\"c\");\n    }\n}\n";
        let net = "crates/net/src/shard.rs";
        assert_eq!(places(&[(net, text)]), [(net.to_owned(), 2)]);
        assert!(places(&[("laboratory/load/src/run.rs", text)]).is_empty());
        assert!(places(&[("crates/net/src/tests/shard.rs", text)]).is_empty());
    }

    #[test]
    fn a_kind_that_nobody_tells_is_seen() {
        let page = "crates/model/src/counters/event/process.rs";
        let teller = ("crates/server/src/a.rs", "fn a() { tell!(event::STOPPED); }");
        assert!(places(&[(page, KINDS), teller]).is_empty());
        assert_eq!(places(&[(page, KINDS)]), [(page.to_owned(), 3)]);
    }
}
