//! One public type name has one meaning in the workspace (STYLE.md, names).
//!
//! Counted is every type that a library (a crate with a `src/lib.rs`) declares as `pub`, outside
//! tests, whether or not its module lets it out: a private module is one word away from a public
//! one. `pub(crate)` types are a crate's own affair. Types that a macro names by its argument are
//! not seen. Invariant: [`SHARED`] has no name that only one crate uses.

use std::collections::BTreeMap;

use super::Violation;
use super::tree::{File, Tree};

/// Names that several types may have, because they are only ever used behind their crate's name,
/// and what they have in common.
const SHARED: &[(&str, &str)] = &[
    ("Client", "a protocol's client machine: `proto_miop::client`, `proto_mqtt::client`"),
    ("Effects", "what a service wants done, its one sink: `hub`, `broker`, `presence`"),
    ("Profile", "what the clients of a protocol have in common, beside their machine"),
    ("RetainHandling", "the same three values, as an option's bits and as the model's noun"),
    ("Retention", "the same limits: the suite of the log's law knows no implementation of it"),
    ("Server", "a protocol's server machine: `proto_miop::server`, `proto_mqtt::server`"),
    ("Settings", "what a crate is told once, by whoever starts it"),
    ("Version", "the versions of a protocol that its codec serves"),
];

/// Names that may be in [`SHARED`], at most.
const SHARED_MAX: usize = 20;

const _: () = assert!(SHARED.len() <= SHARED_MAX, "an exception is one, not the rule");

const KEYWORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// Where the list of exceptions is.
const HERE: &str = "xtask/src/tidy/meanings.rs";

/// Checks the public types of all libraries.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let public = public_types(tree);
    for (name, places) in &public {
        let ((path, line), others) = (&places[0], &places[1..]);
        if !others.is_empty() && !is_shared(name) {
            let others = others.iter().map(|(path, line)| format!("{path}:{line}"));
            let others = others.collect::<Vec<_>>().join(", ");
            let remedy = format!("`{name}` is the name of another type too ({others}): rename one");
            found.push(Violation { path: path.clone(), line: *line, rule: "meaning", remedy });
        }
    }
    let needed = |name: &str| public.get(name).is_some_and(|places| places.len() > 1);
    if tree.file(HERE).is_some() {
        for (name, _) in SHARED.iter().filter(|(name, _)| !needed(name)) {
            let remedy = format!("one type at most is called `{name}`: take it off the list");
            found.push(Violation { path: HERE.into(), line: 1, rule: "meaning", remedy });
        }
    }
}

fn is_shared(name: &str) -> bool {
    SHARED.iter().any(|(shared, _)| *shared == name)
}

/// Every public type of a library by its name, and where it is declared.
fn public_types(tree: &Tree) -> BTreeMap<String, Vec<(String, usize)>> {
    let mut types = BTreeMap::<String, Vec<(String, usize)>>::new();
    for (file, source) in tree.rust_files().filter(|(file, _)| is_of_a_library(tree, file)) {
        for triple in source.words().windows(3) {
            let [(_, visibility), (_, keyword), (line, name)] = triple else { continue };
            let is_type =
                KEYWORDS.contains(&keyword.as_str()) && name.starts_with(char::is_uppercase);
            if visibility == "pub" && is_type && !source.is_test_line(*line) {
                types.entry(name.clone()).or_default().push((file.path.clone(), *line));
            }
        }
    }
    types
}

fn is_of_a_library(tree: &Tree, file: &File) -> bool {
    let is_test = file.name() == "tests.rs" || file.path.contains("/tests/");
    let Some((folder, rest)) = file.crate_path() else { return false };
    let is_binary = rest == "src/main.rs" || rest.starts_with("src/bin/");
    let library = format!("{folder}/src/lib.rs");
    rest.starts_with("src/") && !is_test && !is_binary && tree.file(&library).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(other: (&str, &str)) -> usize {
        let hub = "pub struct Order;\npub(crate) struct Row;\npub struct Settings;\n";
        let libraries = [("crates/hub/src/lib.rs", hub), ("crates/net/src/lib.rs", "mod a;\n")];
        let mut found = Vec::new();
        check(&Tree::of(&[libraries[0], libraries[1], other]), &mut found);
        found.len()
    }

    #[test]
    fn a_name_with_two_meanings_is_seen() {
        for text in
            ["pub enum Order {}\n", "pub type Order = u8;\n", "mod b {\n pub trait Order {}\n}"]
        {
            assert_eq!(count(("crates/net/src/a.rs", text)), 1, "{text}");
        }
        let argument = "macro_rules! a { ($name:ident) => { pub struct $name; pub struct b; } }";
        assert_eq!(count(("crates/net/src/a.rs", &format!("{argument}\n{argument}"))), 0);
        let twice = "pub struct Link;\nmod b {\n    pub struct Link;\n}\n";
        assert_eq!(count(("crates/net/src/a.rs", twice)), 1, "in one crate too");
    }

    #[test]
    fn what_no_other_crate_reads_may_share() {
        for text in ["pub(crate) struct Order;\n", "struct Order;\n", "// pub struct Order;\n"] {
            assert_eq!(count(("crates/net/src/a.rs", text)), 0, "{text}");
        }
        assert_eq!(count(("crates/net/src/a.rs", "pub struct Row;\n")), 0);
        assert_eq!(count(("crates/net/src/a.rs", "pub struct Settings;\n")), 0, "an exception");
        let tested = "#[cfg(test)]\nmod b {\n    pub struct Order;\n}\n";
        assert_eq!(count(("crates/net/src/a.rs", tested)), 0);
        for path in ["net/src/a/tests.rs", "net/tests/a.rs", "net/src/bin/a.rs", "bench/src/a.rs"] {
            assert_eq!(count((&format!("crates/{path}"), "pub struct Order;\n")), 0, "{path}");
        }
    }

    #[test]
    fn an_exception_that_nobody_needs_is_seen() {
        let mut found = Vec::new();
        check(&Tree::of(&[(HERE, "")]), &mut found);
        assert_eq!(found.len(), SHARED.len());
    }
}
