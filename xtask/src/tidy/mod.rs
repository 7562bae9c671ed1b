//! `cargo xtask tidy`: what STYLE.md and ARCHITECTURE.md say, held by a program.
//!
//! A rule is one file with one function from the tree to violations; it has tests that show it
//! failing on bad input. A rule reads text and knows nothing of the others. To add one, write the
//! file and a line in [`RULES`].

mod clocks;
mod docs;
mod enums;
mod floors;
mod glossary;
mod hosts;
mod meanings;
mod prints;
mod reasons;
mod sizes;
mod source;
mod table;
mod told;
mod tree;
mod words;

use std::fmt;
use std::path::Path;
use std::process::{Command, ExitCode};

use tree::Tree;

/// One place that breaks one rule, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Path from the root of the repository.
    pub path: String,
    /// Line in that file, counted from 1.
    pub line: usize,
    /// Short name of the rule.
    pub rule: &'static str,
    /// What to do, as a sentence to the person who will do it.
    pub remedy: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}: {}", self.path, self.line, self.rule, self.remedy)
    }
}

type Rule = fn(&Tree, &mut Vec<Violation>);

/// Every rule, by the name it prints.
const RULES: &[(&str, Rule)] = &[
    ("floor", floors::check),
    ("size", sizes::check),
    ("doc", docs::check),
    ("word", words::check),
    ("reason", reasons::check),
    ("glossary", glossary::check),
    ("meaning", meanings::check),
    ("clock", clocks::check),
    ("host", hosts::check),
    ("print", prints::check),
    ("told", told::check),
    ("enum", enums::check),
];

/// Holds the tree at `root` against every rule and prints what it found.
pub fn run(root: &Path) -> ExitCode {
    let tree = match read(root) {
        Ok(tree) => tree,
        Err(message) => {
            eprintln!("tidy: {message}");
            return ExitCode::FAILURE;
        }
    };
    let mut found = Vec::new();
    for (_, rule) in RULES {
        rule(&tree, &mut found);
    }
    found.sort();
    found.dedup();
    for violation in &found {
        println!("{violation}");
    }
    let (rust_count, crate_count) = (tree.rust_files().count(), tree.packages.len());
    if found.is_empty() {
        let rules: Vec<&str> = RULES.iter().map(|(name, _)| *name).collect();
        println!("tidy: {crate_count} crates, {rust_count} Rust files: {} hold", rules.join(", "));
        ExitCode::SUCCESS
    } else {
        println!("tidy: {} to mend in {rust_count} Rust files", found.len());
        ExitCode::FAILURE
    }
}

/// The files below `root` and what cargo knows about the crates among them.
fn read(root: &Path) -> Result<Tree, String> {
    let mut tree = Tree::read(root).map_err(|error| format!("cannot read the tree: {error}"))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot start cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    tree.packages = tree::read_packages(&output.stdout, root)?;
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_prints_place_rule_and_remedy() {
        let violation = Violation {
            path: "crates/net/src/lib.rs".into(),
            line: 7,
            rule: "word",
            remedy: "name it for what it is".into(),
        };
        assert_eq!(violation.to_string(), "crates/net/src/lib.rs:7: word: name it for what it is");
    }
}
