//! No file names the host of a package registry, and no manifest points away from the default one.
//!
//! A build must not depend on where one of us happens to be, nor publish it. Cargo.lock is written
//! by cargo and names cargo's own default source; any other source in it is a mirror or a branch
//! that a stranger cannot reach. The hosts are spelt in two halves, or this file would be found.

use super::Violation;
use super::tree::{File, Tree};

const HOSTS: &[[&str; 2]] = &[
    ["crates", ".io"],
    ["static.rust-", "lang.org"],
    ["sh.rust", "up.rs"],
    ["pypi", ".org"],
    ["pythonhosted", ".org"],
    ["npmjs", ".org"],
    ["npmjs", ".com"],
    ["proxy.go", "lang.org"],
    ["deb.deb", "ian.org"],
    ["archive.ubu", "ntu.com"],
    ["rubygems", ".org"],
    ["repo1.ma", "ven.org"],
    ["docker", ".io"],
    ["ghcr", ".io"],
    ["quay", ".io"],
];

/// Keys and tables of a cargo configuration that choose another source.
const REDIRECTIONS: &[&str] = &["[source", "[registr", "replace-with", "registry ="];

/// Checks every text file.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    for file in &tree.files {
        if file.name() == "Cargo.lock" {
            check_lines(file, found, |line| {
                let is_foreign = line.starts_with("source = ") && line != default_source();
                is_foreign.then(|| "let every crate come from cargo's default source".to_owned())
            });
            continue;
        }
        check_lines(file, found, |line| {
            let line = line.to_ascii_lowercase();
            let host = HOSTS.iter().map(|halves| halves.concat()).find(|host| line.contains(host));
            host.map(|_| "take out the registry's host: name the tool instead".to_owned())
        });
        if file.path.starts_with(".cargo/") {
            check_lines(file, found, |line| {
                let points_away = REDIRECTIONS.iter().any(|word| line.starts_with(word));
                points_away.then(|| "keep the choice of a mirror out of the repository".to_owned())
            });
        }
    }
}

fn default_source() -> String {
    let host = HOSTS[0].concat();
    format!("source = \"registry+https://github.com/rust-lang/{host}-index\"")
}

fn check_lines(file: &File, found: &mut Vec<Violation>, problem: impl Fn(&str) -> Option<String>) {
    for (index, line) in file.text.lines().enumerate() {
        if let Some(remedy) = problem(line.trim()) {
            let path = file.path.clone();
            found.push(Violation { path, line: index + 1, rule: "host", remedy });
        }
    }
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
    fn every_host_is_seen_in_any_file() {
        for halves in HOSTS {
            let text = format!("get it from https://index.{}/x", halves.concat().to_uppercase());
            assert_eq!(count("docs/operating.md", &text), 1, "{text}");
        }
        assert_eq!(count("README.md", "get Rust with rustup"), 0);
    }

    #[test]
    fn the_lock_file_may_name_the_default_source_only() {
        assert_eq!(count("Cargo.lock", &default_source()), 0);
        assert_eq!(count("Cargo.lock", "source = \"sparse+https://mirror.example/index/\""), 1);
        assert_eq!(count("Cargo.lock", "source = \"git+https://example.org/fork#1\""), 1);
    }

    #[test]
    fn a_configuration_that_chooses_a_mirror_is_seen() {
        assert_eq!(count(".cargo/config.toml", "[alias]\nxtask = \"run -q -p xtask --\""), 0);
        assert_eq!(count(".cargo/config.toml", "[source.default]\nreplace-with = \"near\""), 2);
        assert_eq!(count(".cargo/config.toml", "[registries.near]"), 1);
    }
}
