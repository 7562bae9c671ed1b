//! Every source file of a crate begins with a module doc of at least one sentence, and no doc opens
//! with a word that needs its neighbour to be understood.
//!
//! Whether a sentence is worth reading is for the reviewer; that it is there and names its subject
//! is for this rule.

use super::Violation;
use super::tree::{File, Tree};

/// Fewer words are a title, not a sentence.
const SENTENCE_WORDS_MIN: usize = 4;

/// Words that leave open of what a doc speaks.
const OPENERS: &[&str] = &["What", "Whose", "Who", "It", "They"];

/// Checks every Rust file under the `src` of a crate.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    check_openers(tree, found);
    for file in tree.files.iter().filter(|file| file.is_crate_source() && file.rust.is_some()) {
        if !has_sentence(file) {
            let remedy = "begin the file with `//!` and a sentence: what it is, what it does not \
                          know, its invariant";
            let path = file.path.clone();
            found.push(Violation { path, line: 1, rule: "doc", remedy: remedy.into() });
        }
    }
}

fn check_openers(tree: &Tree, found: &mut Vec<Violation>) {
    let files = tree.files.iter().filter(|file| file.is_of_a_crate());
    for file in files.filter(|file| file.rust.is_some()) {
        for (line, word) in openers(&file.text) {
            let remedy = format!("name the subject of the doc, which opens with `{word}`");
            found.push(Violation { path: file.path.clone(), line, rule: "doc", remedy });
        }
    }
}

/// Lines, from 1, of docs and their paragraphs that open with one of [`OPENERS`], and the word.
fn openers(text: &str) -> Vec<(usize, &'static str)> {
    let mut before = None;
    let mut all = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let doc = doc.map(str::trim).filter(|doc| !doc.is_empty());
        let first = doc.and_then(|doc| doc.split(|c: char| !c.is_alphabetic()).next());
        let word = OPENERS.iter().find(|word| first == Some(**word) && before.is_none());
        all.extend(word.map(|word| (index + 1, *word)));
        before = doc;
    }
    all
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
    fn docs_that_need_their_neighbour_are_seen() {
        let lines = |text: &str| -> Vec<usize> {
            openers(text).into_iter().map(|(line, _)| line).collect()
        };
        assert_eq!(lines("/// What it is.\nfn a() {}\n    /// It ends.\n"), [1, 3]);
        assert_eq!(lines("//! A file.\n//!\n//! They know nothing.\n"), [3]);
        assert!(lines("/// The end of\n/// What a line says.\n/// Items stay.\n").is_empty());
        assert!(is_seen("crates/net/tests/a.rs", "/// Who comes.\nfn a() {}\n"));
        assert!(is_seen("crates/hub/tests/a.rs", "/// Who comes.\nfn a() {}\n"));
        assert!(!is_seen("xtask/src/a.rs", "/// Who comes.\nfn a() {}\n"));
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
