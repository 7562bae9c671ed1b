//! Types that GLOSSARY.md names exist in the code under that name, and the page stays short.
//!
//! The second column of a row names types in backticks; each is declared in some crate.
//! Whether a type means what the row says is for the reviewer.

use std::collections::BTreeSet;

use super::Violation;
use super::table::{self, Row};
use super::tree::Tree;

const DOCUMENT: &str = "GLOSSARY.md";
const COLUMNS: &[&str] = &["term", "in the code", "meaning"];
/// A page that is longer is not read.
const BYTES_MAX: usize = 6 * 1_024;
const KEYWORDS: &[&str] = &["struct", "enum", "trait", "type"];

/// Checks the page's length and every row.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let rows = tree.file(DOCUMENT).and_then(|document| table::rows(&document.text, COLUMNS));
    let Some(rows) = rows else {
        found.push(violation(1, format!("write {DOCUMENT} with the columns {COLUMNS:?}")));
        return;
    };
    let bytes = tree.file(DOCUMENT).map_or(0, |document| document.text.len());
    if bytes > BYTES_MAX {
        found.push(violation(1, format!("{bytes} bytes: {BYTES_MAX} at most, drop a row")));
    }
    let declared = declared_types(tree);
    for row in &rows {
        for remedy in check_row(row, &declared) {
            found.push(violation(row.line, remedy));
        }
    }
}

fn violation(line: usize, remedy: String) -> Violation {
    Violation { path: DOCUMENT.into(), line, rule: "glossary", remedy }
}

fn declared_types(tree: &Tree) -> BTreeSet<String> {
    let crates = tree.rust_files().filter(|(file, _)| file.is_of_a_crate());
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
    let missing = table::names(&row.cells[1]).into_iter().filter(|name| !declared.contains(*name));
    missing.map(|name| format!("no type `{name}` in any crate: rename one of the two")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(row: &str) -> usize {
        let head = "| term | in the code | meaning |\n| --- | --- | --- |";
        let document = format!("{head}\n{row} |\n");
        let code = "pub struct Session;\npub enum CloseReason {}\n// struct Stanza;\n\
                    name!(\n    /// A device's id.\n    DeviceId 64\n);\n\
                    fn a() {\n    name!(\n        Target\n    );\n}\n";
        let mut found = Vec::new();
        let files = [("GLOSSARY.md", document.as_str()), ("crates/model/src/a.rs", code)];
        check(&Tree::of(&files), &mut found);
        found.len()
    }

    #[test]
    fn a_type_that_is_nowhere_is_seen() {
        assert_eq!(count("| Session | `Session`, `CloseReason` | survives a connection"), 0);
        assert_eq!(count("| Session | `Session`, `Timeline` | survives a connection"), 1);
        assert_eq!(count("| Stanza | `Stanza` | only in a comment"), 1);
        assert_eq!(count("| Device | `DeviceId` | declared by a macro"), 0);
        assert_eq!(count("| Target | `Target` | a word in a call inside a function"), 1);
        assert_eq!(count("| Keep-alive | | agreed silence"), 0);
    }

    #[test]
    fn a_page_that_is_too_long_or_missing_is_seen() {
        assert_eq!(count(&format!("| Long | | {}", "x".repeat(BYTES_MAX))), 1);
        let mut found = Vec::new();
        check(&Tree::of(&[("GLOSSARY.md", "# empty")]), &mut found);
        assert_eq!(found.len(), 1);
    }
}
