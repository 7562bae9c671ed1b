//! Who may import whom: the floor table of ARCHITECTURE.md against `cargo metadata`.
//!
//! The document is the rule's input, so it cannot lag behind the code. The table itself is held to
//! the law first: a row on floors 0 to 3 may name only ground below it, and nobody but the yard
//! names the yard. `crates/LIBRARIES.md` says which crates may use which outside library.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::table::{self, Row};
use super::tree::{Dependency, Package, Tree};

const DOCUMENT: &str = "ARCHITECTURE.md";
const LIBRARIES: &str = "crates/LIBRARIES.md";
const FLOOR_COLUMNS: &[&str] = &["floor", "crates", "may import", "may touch"];
const LIBRARY_COLUMNS: &[&str] = &["library", "crates", "for"];

/// In the library table: every crate's tests may use it.
const TESTS: &str = "tests";

/// What tests may import beyond what their crate may.
const WORKSHOP: &str = "testkit";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Floor {
    Below(u8),
    Roof,
    Yard,
}

struct Member {
    line: usize,
    floor: Floor,
    imports: BTreeSet<String>,
}

#[derive(Default)]
struct Law {
    members: BTreeMap<String, Member>,
    /// Library to the crates that may use it, and the line that says so.
    libraries: BTreeMap<String, (usize, BTreeSet<String>)>,
}

/// Checks the tables, then every crate's dependencies against them.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let rows = |document: &'static str, columns: &[&str], found: &mut Vec<Violation>| {
        let rows = tree.file(document).and_then(|file| table::rows(&file.text, columns));
        if rows.is_none() {
            let remedy = format!("put back the table with the columns {columns:?}");
            found.push(violation(document, 1, remedy));
        }
        rows
    };
    let floors = rows(DOCUMENT, FLOOR_COLUMNS, found);
    let libraries = rows(LIBRARIES, LIBRARY_COLUMNS, found);
    let (Some(floors), Some(libraries)) = (floors, libraries) else { return };
    let law = build(&floors, &libraries, found);
    check_law(&law, found);
    check_table_is_alive(&law, tree, found);
    for package in &tree.packages {
        check_package(&law, package, tree, found);
    }
}

fn violation(document: &str, line: usize, remedy: String) -> Violation {
    Violation { path: document.into(), line, rule: "floor", remedy }
}

fn build(floors: &[Row], libraries: &[Row], found: &mut Vec<Violation>) -> Law {
    let mut law = Law::default();
    for row in floors {
        let Some(floor) = read_floor(&row.cells[0]) else {
            found.push(violation(
                DOCUMENT,
                row.line,
                "begin the row with 0, 1, 2, 3, roof or yard".into(),
            ));
            continue;
        };
        let imports: BTreeSet<String> = owned(&row.cells[2]).collect();
        for name in owned(&row.cells[1]) {
            let member = Member { line: row.line, floor, imports: imports.clone() };
            if law.members.insert(name.clone(), member).is_some() {
                found.push(violation(
                    DOCUMENT,
                    row.line,
                    format!("`{name}` has a row already: keep one"),
                ));
            }
        }
    }
    for row in libraries {
        for name in owned(&row.cells[0]) {
            let members = owned(&row.cells[1]).collect();
            law.libraries.insert(name, (row.line, members));
        }
    }
    law
}

fn owned(cell: &str) -> impl Iterator<Item = String> + '_ {
    table::names(cell).into_iter().map(str::to_owned)
}

fn read_floor(cell: &str) -> Option<Floor> {
    match cell.split_whitespace().next()? {
        "roof" => Some(Floor::Roof),
        "yard" => Some(Floor::Yard),
        number => number.parse().ok().filter(|&n| n <= 3).map(Floor::Below),
    }
}

/// The law: crates import the ground only, and only the yard imports the yard.
fn check_law(law: &Law, found: &mut Vec<Violation>) {
    for (name, member) in &law.members {
        for import in &member.imports {
            let Some(other) = law.members.get(import) else {
                let remedy = format!("`{name}` may not import `{import}`, which has no row");
                found.push(violation(DOCUMENT, member.line, remedy));
                continue;
            };
            let lawful = match member.floor {
                // The derive is part of the ground that uses it.
                Floor::Below(0) => other.floor == Floor::Below(0),
                Floor::Below(_) => other.floor < member.floor && other.floor <= Floor::Below(1),
                Floor::Roof => other.floor <= Floor::Roof,
                Floor::Yard => true,
            };
            if !lawful {
                let remedy = format!(
                    "take `{import}` from `{name}`: crates import the ground, only the roof others"
                );
                found.push(violation(DOCUMENT, member.line, remedy));
            }
        }
    }
}

/// A row for something that is gone tells the reader about a crate that is not there.
fn check_table_is_alive(law: &Law, tree: &Tree, found: &mut Vec<Violation>) {
    for (name, member) in &law.members {
        if !tree.packages.iter().any(|package| package.name == *name) {
            found.push(violation(
                DOCUMENT,
                member.line,
                format!("there is no crate `{name}`: take it off"),
            ));
        }
    }
    for (library, (line, members)) in &law.libraries {
        for member in members.iter().filter(|member| *member != TESTS) {
            if !law.members.contains_key(member) {
                let remedy = format!(
                    "`{library}` is for `{member}`, which is no crate of ours: take it off"
                );
                found.push(violation(LIBRARIES, *line, remedy));
            }
        }
    }
}

fn check_package(law: &Law, package: &Package, tree: &Tree, found: &mut Vec<Violation>) {
    let Some(member) = law.members.get(&package.name) else {
        let remedy = format!("give the crate `{}` a row in the floor table", package.name);
        found.push(violation(DOCUMENT, 1, remedy));
        return;
    };
    for dependency in &package.dependencies {
        let is_room = tree.packages.iter().any(|other| other.name == dependency.name);
        let problem = if is_room {
            check_import(member, dependency)
        } else {
            check_library(law, &package.name, dependency)
        };
        if let Some(remedy) = problem {
            let path = package.manifest.clone();
            let line = line_of(tree, package, &dependency.name);
            found.push(Violation { path, line, rule: "floor", remedy });
        }
    }
}

fn check_import(member: &Member, dependency: &Dependency) -> Option<String> {
    let name = &dependency.name;
    if member.imports.contains(name) || (dependency.is_dev && name == WORKSHOP) {
        return None;
    }
    Some(format!("do not import `{name}` here: let the roof join the two, or pass a `model` type"))
}

fn check_library(law: &Law, package: &str, dependency: &Dependency) -> Option<String> {
    let name = &dependency.name;
    let Some((_, members)) = law.libraries.get(name) else {
        return Some(format!("`{name}` is in no row of {LIBRARIES}"));
    };
    if members.contains(package) || (dependency.is_dev && members.contains(TESTS)) {
        return None;
    }
    Some(format!("`{name}` is not for this crate: see {LIBRARIES}"))
}

fn line_of(tree: &Tree, package: &Package, dependency: &str) -> usize {
    let Some(manifest) = tree.file(&package.manifest) else { return 1 };
    let starts = |line: &str| {
        let rest = line.trim().strip_prefix(dependency);
        rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    manifest.text.lines().position(starts).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests;
