//! Every source file of a crate begins with a module doc of at least one sentence.
//!
//! Whether the sentence is worth reading is for the reviewer; that it is there is for this rule.

use super::Violation;
use super::tree::{File, Tree};

/// Fewer words are a title, not a sentence.
const SENTENCE_WORDS_MIN: usize = 4;

/// Checks every Rust file under `crates/*/src`.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    for file in tree.files.iter().filter(|file| file.is_crate_source() && file.rust.is_some()) {
        if !has_sentence(file) {
            let remedy = "begin the file with `//!` and a sentence: what it is, what it does not \
                          know, its invariant";
            let path = file.path.clone();
            found.push(Violation { path, line: 1, rule: "doc", remedy: remedy.into() });
        }
    }
}

fn has_sentence(file: &File) -> bool {
    let lines = file.text.lines().map_while(|line| line.strip_prefix("//!"));
    let mut words_before = 0;
    for word in lines.flat_map(str::split_whitespace) {
        words_before += 1;
        if word.ends_with(['.', ':']) {
            if words_before >= SENTENCE_WORDS_MIN {
                return true;
            }
            words_before = 0;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_seen(path: &str, text: &str) -> bool {
        let mut found = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut found);
        !found.is_empty()
    }

    #[test]
    fn a_file_without_a_sentence_is_seen() {
        let path = "crates/net/src/a.rs";
        assert!(is_seen(path, ""));
        assert!(is_seen(path, "use std::io;\n//! A doc that comes too late to be one.\n"));
        assert!(is_seen(path, "//! The sockets\n"));
        assert!(is_seen(path, "//! To do.\n"));
        assert!(is_seen(path, "//! More in std::io and net.rs\n"));
        assert!(is_seen(path, "// An ordinary comment is no module doc.\n"));
    }

    #[test]
    fn a_sentence_may_run_over_lines() {
        assert!(!is_seen("crates/net/src/a.rs", "//! One loop a core,\n//! and all it holds.\n"));
    }

    #[test]
    fn only_crates_are_held_to_it() {
        assert!(!is_seen("crates/net/tests/slow_reader.rs", ""));
        assert!(!is_seen("crates/net/src/page.html", ""));
    }
}
