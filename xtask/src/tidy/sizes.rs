//! Sizes of files, functions and lines (STYLE.md, sizes).
//!
//! A file's size is its lines outside `#[cfg(test)]`; a file of nothing but tests, `tests.rs`, has
//! no cap. Lines are counted in characters. Functions of tests count like any other. Generated
//! files are not checked.

use super::Violation;
use super::source::Source;
use super::tree::{File, Tree};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 120;
const LINE_CHARS_MAX: usize = 100;
/// The first line of a file that a program has written.
const GENERATED: &str = "// @generated";

/// Checks every Rust file.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    for (file, source) in tree.rust_files() {
        if file.text.starts_with(GENERATED) {
            continue;
        }
        check_file(file, source, found);
        check_lines(file, found);
        check_functions(file, source, found);
    }
}

fn violation(path: &str, line: usize, remedy: String) -> Violation {
    Violation { path: path.to_owned(), line, rule: "size", remedy }
}

fn check_file(file: &File, source: &Source, found: &mut Vec<Violation>) {
    if file.name() == "tests.rs" || file.path.contains("/tests/") {
        return;
    }
    let lines = (1..=file.text.lines().count()).filter(|&line| !source.is_test_line(line)).count();
    if lines > FILE_LINES_MAX {
        let remedy =
            format!("{lines} lines without tests: split it by noun, {FILE_LINES_MAX} is the cap");
        found.push(violation(&file.path, 1, remedy));
    }
}

fn check_lines(file: &File, found: &mut Vec<Violation>) {
    for (index, line) in file.text.lines().enumerate() {
        let chars = line.chars().count();
        if chars > LINE_CHARS_MAX {
            let remedy = format!("{chars} characters: break the line at {LINE_CHARS_MAX}");
            found.push(violation(&file.path, index + 1, remedy));
        }
    }
}

fn check_functions(file: &File, source: &Source, found: &mut Vec<Violation>) {
    for function in source.functions() {
        let (first, last) = (*function.lines.start(), *function.lines.end());
        let lines = last + 1 - first;
        if lines > FUNCTION_LINES_MAX {
            let name = &function.name;
            let remedy = format!("`{name}` has {lines} lines: split it, {FUNCTION_LINES_MAX} fit");
            found.push(violation(&file.path, first, remedy));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(files: &[(&str, &str)]) -> usize {
        let mut found = Vec::new();
        check(&Tree::of(files), &mut found);
        found.len()
    }

    #[test]
    fn a_file_has_a_cap() {
        let full = "let x;\n".repeat(FILE_LINES_MAX);
        assert_eq!(count(&[("crates/net/src/a.rs", &full)]), 0);
        let over = format!("{full}let y;\n");
        assert_eq!(count(&[("crates/net/src/a.rs", &over)]), 1);
        assert_eq!(count(&[("crates/net/src/a/tests.rs", &over)]), 0);
    }

    #[test]
    fn generated_files_have_no_cap() {
        let long = format!("{GENERATED}\n{}", "let x;\n".repeat(FILE_LINES_MAX));
        assert_eq!(count(&[("clients/a/src/pb.rs", &long)]), 0);
    }

    #[test]
    fn tests_do_not_count_and_hide_nothing() {
        let full = "let x;\n".repeat(FILE_LINES_MAX);
        let tested = format!("{full}#[cfg(test)]\nmod tests {{\n{full}}}\n");
        assert_eq!(count(&[("crates/net/src/a.rs", &tested)]), 0);
        let hidden = format!("#[cfg(test)]\nuse a::b;\n{full}let y;\n");
        assert_eq!(count(&[("crates/net/src/a.rs", &hidden)]), 1);
    }

    #[test]
    fn a_function_has_a_cap() {
        let function = |lines: usize| format!("fn a() {{\n{}}}\n", "b();\n".repeat(lines - 2));
        assert_eq!(count(&[("xtask/src/a.rs", &function(FUNCTION_LINES_MAX))]), 0);
        assert_eq!(count(&[("xtask/src/a.rs", &function(FUNCTION_LINES_MAX + 1))]), 1);
    }

    #[test]
    fn a_line_is_counted_in_characters() {
        assert_eq!(count(&[("xtask/src/a.rs", &format!("// {}", "é".repeat(97)))]), 0);
        assert_eq!(count(&[("xtask/src/a.rs", &format!("// {}", "é".repeat(98)))]), 1);
    }
}
