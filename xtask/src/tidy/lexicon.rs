//! Types that LEXICON.md names exist in the code under that name.
//!
//! A row of the lexicon says in its second column what its first one holds: a `type` (each name in
//! backticks is declared somewhere under `crates/`), a `word` that is no type, or something for
//! `later`. Whether a type means what the row says is for the reviewer.

use std::collections::BTreeSet;

use super::Violation;
use super::table::{self, Row};
use super::tree::Tree;

const DOCUMENT: &str = "LEXICON.md";
const COLUMNS: &[&str] = &["word", "is", "meaning", "elsewhere known as"];
const KEYWORDS: &[&str] = &["struct", "enum", "trait", "type"];

/// Checks every row of the lexicon.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let rows = tree.file(DOCUMENT).and_then(|document| table::rows(&document.text, COLUMNS));
    let Some(rows) = rows else {
        found.push(violation(1, format!("write {DOCUMENT} with the columns {COLUMNS:?}")));
        return;
    };
    let declared = declared_types(tree);
    for row in &rows {
        for remedy in check_row(row, &declared) {
            found.push(violation(row.line, remedy));
        }
    }
}

fn violation(line: usize, remedy: String) -> Violation {
    Violation { path: DOCUMENT.into(), line, rule: "lexicon", remedy }
}

fn declared_types(tree: &Tree) -> BTreeSet<String> {
    let crates = tree.rust_files().filter(|(file, _)| file.path.starts_with("crates/"));
    let mut names = BTreeSet::new();
    for (_, source) in crates {
        names.extend(source.declared(KEYWORDS).into_iter().map(|(_, name)| name));
        names.extend(declared_by_macro(&source.code()));
    }
    names
}

/// Types that a macro declares: the first word of a call that stands as an item of its own.
fn declared_by_macro(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut lines = code.lines().map(str::trim_end).filter(|line| !line.is_empty());
    while let Some(line) = lines.next() {
        let is_call = line.strip_suffix("!(").or_else(|| line.strip_suffix("! {"));
        let is_item = is_call.is_some_and(|name| !name.contains(' '));
        if is_item && let Some(first) = lines.next() {
            names.extend(first.split_whitespace().next().map(str::to_owned));
        }
    }
    names
}

fn check_row(row: &Row, declared: &BTreeSet<String>) -> Vec<String> {
    let names = table::names(&row.cells[0]);
    match row.cells[1].as_str() {
        "word" | "later" => Vec::new(),
        "type" if names.is_empty() => vec!["put the type's name in backticks".into()],
        "type" => {
            let missing = names.iter().filter(|name| !declared.contains(**name));
            missing
                .map(|name| format!("no type `{name}` under crates/: rename one of the two"))
                .collect()
        }
        _ => vec!["the second column is `type`, `word` or `later`, without backticks".into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(row: &str) -> usize {
        let head = "| word | is | meaning | elsewhere known as |\n| --- | --- | --- | --- |";
        let document = format!("{head}\n{row} |\n");
        let code = "pub struct Session;\npub enum CloseReason {}\n// struct Stanza;\n\
                    name!(\n    /// A device's id.\n    DeviceId 64\n);\n\
                    fn a() {\n    name!(\n        Target\n    );\n}\n";
        let mut found = Vec::new();
        let files = [("LEXICON.md", document.as_str()), ("crates/model/src/a.rs", code)];
        check(&Tree::of(&files), &mut found);
        found.len()
    }

    #[test]
    fn a_type_that_is_nowhere_is_seen() {
        assert_eq!(count("| `Session`, `CloseReason` | type | what survives |"), 0);
        assert_eq!(count("| `Session`, `Timeline` | type | what survives |"), 1);
        assert_eq!(count("| `Stanza` | type | only in a comment |"), 1);
        assert_eq!(count("| `DeviceId` | type | declared by a macro |"), 0);
        assert_eq!(count("| `Target` | type | a word in a call inside a function |"), 1);
    }

    #[test]
    fn words_and_later_rows_are_not_looked_up() {
        assert_eq!(count("| Keep-alive | word | agreed silence |"), 0);
        assert_eq!(count("| `Stanza` | later | a unit of XMPP |"), 0);
    }

    #[test]
    fn a_row_that_cannot_be_checked_is_seen() {
        assert_eq!(count("| Session | type | no backticks |"), 1);
        assert_eq!(count("| `Session` | struct | no such kind |"), 1);
        let mut found = Vec::new();
        check(&Tree::of(&[("LEXICON.md", "# empty")]), &mut found);
        assert_eq!(found.len(), 1);
    }
}
