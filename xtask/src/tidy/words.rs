//! Words that say nothing: bags of files, getters, managers (STYLE.md, names).
//!
//! A file called `utils` collects what nobody placed; a type called manager hides which noun it is
//! about. The rule reads declarations only, so a foreign name may be used where it is needed.

use super::Violation;
use super::tree::{File, Tree};

const BAGS: &[&str] = &["types", "common", "util", "utils", "helper", "helpers", "misc", "stuff"];

/// No type may have one of these among its words.
const EMPTY_WORDS: &[&str] = &["Manager", "Helper", "Helpers", "Util", "Utils"];

/// No type may end in one of these.
const EMPTY_ENDINGS: &[&str] = &["Handler", "Impl", "Data", "Info"];

const TYPE_KEYWORDS: &[&str] = &["struct", "enum", "trait", "union", "type"];

/// Checks the names of files, functions and types.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    for (file, source) in tree.rust_files() {
        if file.is_crate_source() {
            check_path(file, found);
        }
        for (line, name) in source.declared(&["fn"]) {
            if name.starts_with("get_") {
                let remedy = format!("name `{name}` for what it returns, without `get_`");
                found.push(violation(file, line, remedy));
            }
        }
        for (line, name) in source.declared(TYPE_KEYWORDS) {
            if let Some(word) = empty_word(&name) {
                let remedy = format!("`{name}`: say which noun of GLOSSARY.md it is, not {word}");
                found.push(violation(file, line, remedy));
            }
        }
    }
}

fn violation(file: &File, line: usize, remedy: String) -> Violation {
    Violation { path: file.path.clone(), line, rule: "word", remedy }
}

fn check_path(file: &File, found: &mut Vec<Violation>) {
    let stem = file.path.strip_suffix(".rs").unwrap_or(&file.path);
    for part in stem.split('/').skip(3) {
        if BAGS.contains(&part) {
            let remedy = format!("`{part}` is a bag: name the file for its one noun");
            found.push(violation(file, 1, remedy));
        }
    }
}

fn empty_word(name: &str) -> Option<&'static str> {
    let words = camel_words(name);
    let within = EMPTY_WORDS.iter().find(|empty| words.contains(empty));
    within.or_else(|| EMPTY_ENDINGS.iter().find(|empty| words.last() == Some(empty))).copied()
}

fn camel_words(name: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    for (at, char) in name.char_indices().skip(1) {
        if char.is_uppercase() {
            words.push(&name[start..at]);
            start = at;
        }
    }
    words.push(&name[start..]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        let mut found = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut found);
        found.len()
    }

    #[test]
    fn bags_of_files_are_seen() {
        for path in ["utils.rs", "types.rs", "common/mod.rs", "codec/helpers.rs", "misc.rs"] {
            assert_eq!(count(&format!("crates/hub/src/{path}"), ""), 1, "{path}");
        }
        assert_eq!(count("crates/hub/src/router.rs", ""), 0);
    }

    #[test]
    fn getters_are_seen() {
        assert_eq!(count("crates/hub/src/a.rs", "pub fn get_user() {}\nfn target() {}\n"), 1);
        assert_eq!(count("crates/hub/src/a.rs", "// fn get_user\nlet x = map.get_mut(1);\n"), 0);
    }

    #[test]
    fn empty_types_are_seen() {
        for name in ["SessionManager", "ManagerOfAll", "FrameHelper", "Utils", "UserInfo", "Impl"] {
            assert_eq!(count("crates/hub/src/a.rs", &format!("struct {name};")), 1, "{name}");
        }
        for name in ["Session", "Utility", "DataFolder", "Informer", "Implied"] {
            assert_eq!(count("crates/hub/src/a.rs", &format!("enum {name} {{}}")), 0, "{name}");
        }
    }
}
