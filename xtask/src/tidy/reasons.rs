//! Every outside library carries its reason on its line of the workspace manifest.
//!
//! The form is `# owner: what it does for us`. Our own crates, which have a path, need none: their
//! reason is the floor table.

use super::Violation;
use super::tree::{CRATES, Tree};

const MANIFEST: &str = "Cargo.toml";

/// An owner alone explains nothing.
const REASON_WORDS_MIN: usize = 1;

/// Checks the lines below `[workspace.dependencies]` in the root manifest.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let Some(manifest) = tree.file(MANIFEST) else {
        found.push(violation(1, "put back the workspace manifest".into()));
        return;
    };
    let mut inside = false;
    for (index, line) in manifest.text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
        } else if inside && !line.is_empty() && !line.starts_with('#') && needs_reason(line) {
            let name = line.split(['=', ' ', '.']).next().unwrap_or(line);
            let remedy = format!("end the line of `{name}` with `# owner: what it does for us`");
            found.push(violation(index + 1, remedy));
        }
    }
}

fn violation(line: usize, remedy: String) -> Violation {
    Violation { path: MANIFEST.into(), line, rule: "reason", remedy }
}

fn needs_reason(line: &str) -> bool {
    if CRATES.iter().any(|folder| line.contains(&format!("path = \"{folder}/"))) {
        return false;
    }
    let reason = line.split_once('#').map_or("", |(_, comment)| comment);
    let Some((owner, what)) = reason.split_once(": ") else { return true };
    owner.trim().is_empty() || what.split_whitespace().count() < REASON_WORDS_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(lines: &str) -> usize {
        let manifest = format!("[workspace]\nx = 1\n[workspace.dependencies]\n{lines}\n[y]\nz = 1");
        let mut found = Vec::new();
        check(&Tree::of(&[("Cargo.toml", &manifest)]), &mut found);
        found.len()
    }

    #[test]
    fn a_line_without_a_reason_is_seen() {
        assert_eq!(count("a = \"1\""), 1);
        assert_eq!(count("a = \"1\" # good"), 1);
        assert_eq!(count("a = \"1\" # net: "), 1);
        assert_eq!(count("a = \"1\" # : sockets as calls"), 1);
        assert_eq!(count("# net: a comment of its own does not count\na = \"1\""), 1);
    }

    #[test]
    fn reasons_and_rooms_pass() {
        assert_eq!(count("a = \"1\" # net: sockets as safe calls\nb = { path = \"crates/b\" }"), 0);
    }

    #[test]
    fn a_tree_without_a_manifest_is_seen() {
        let mut found = Vec::new();
        check(&Tree::of(&[]), &mut found);
        assert_eq!(found.len(), 1);
    }
}
