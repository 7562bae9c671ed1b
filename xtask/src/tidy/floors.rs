//! Who may import whom: the floor table of ARCHITECTURE.md against `cargo metadata`.
//!
//! The document is the rule's input, so it cannot lag behind the code. The table itself is held to
//! the law first: a row on floors 0 to 3 may name only ground below it, and nobody but the yard
//! names the yard. A second table says which crates may use which outside library.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::table::{self, Row};
use super::tree::{Dependency, Package, Tree};

const DOCUMENT: &str = "ARCHITECTURE.md";
const FLOOR_COLUMNS: &[&str] = &["floor", "rooms", "may import", "may touch"];
const LIBRARY_COLUMNS: &[&str] = &["library", "rooms", "for"];

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

struct Room {
    line: usize,
    floor: Floor,
    imports: BTreeSet<String>,
}

#[derive(Default)]
struct House {
    rooms: BTreeMap<String, Room>,
    /// Library to the crates that may use it, and the line that says so.
    libraries: BTreeMap<String, (usize, BTreeSet<String>)>,
}

/// Checks the tables, then every crate's dependencies against them.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    let Some(document) = tree.file(DOCUMENT) else {
        found.push(violation(1, format!("write {DOCUMENT} with the floor table")));
        return;
    };
    let floors = table::rows(&document.text, FLOOR_COLUMNS);
    let libraries = table::rows(&document.text, LIBRARY_COLUMNS);
    let (Some(floors), Some(libraries)) = (floors, libraries) else {
        let tables = format!("{FLOOR_COLUMNS:?} and {LIBRARY_COLUMNS:?}");
        found.push(violation(1, format!("put back the tables with the columns {tables}")));
        return;
    };
    let house = build(&floors, &libraries, found);
    check_law(&house, found);
    check_table_is_alive(&house, tree, found);
    for package in &tree.packages {
        check_package(&house, package, tree, found);
    }
}

fn violation(line: usize, remedy: String) -> Violation {
    Violation { path: DOCUMENT.into(), line, rule: "floor", remedy }
}

fn build(floors: &[Row], libraries: &[Row], found: &mut Vec<Violation>) -> House {
    let mut house = House::default();
    for row in floors {
        let Some(floor) = read_floor(&row.cells[0]) else {
            found.push(violation(row.line, "begin the row with 0, 1, 2, 3, roof or yard".into()));
            continue;
        };
        let imports: BTreeSet<String> = owned(&row.cells[2]).collect();
        for name in owned(&row.cells[1]) {
            let room = Room { line: row.line, floor, imports: imports.clone() };
            if house.rooms.insert(name.clone(), room).is_some() {
                found.push(violation(row.line, format!("`{name}` has a row already: keep one")));
            }
        }
    }
    for row in libraries {
        for name in owned(&row.cells[0]) {
            let rooms = owned(&row.cells[1]).collect();
            house.libraries.insert(name, (row.line, rooms));
        }
    }
    house
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
fn check_law(house: &House, found: &mut Vec<Violation>) {
    for (name, room) in &house.rooms {
        for import in &room.imports {
            let Some(other) = house.rooms.get(import) else {
                let remedy = format!("`{name}` may not import `{import}`, which has no row");
                found.push(violation(room.line, remedy));
                continue;
            };
            let lawful = match room.floor {
                Floor::Below(_) => other.floor < room.floor && other.floor <= Floor::Below(1),
                Floor::Roof => other.floor <= Floor::Roof,
                Floor::Yard => true,
            };
            if !lawful {
                let remedy = format!(
                    "take `{import}` from `{name}`: rooms import the ground, only the roof rooms"
                );
                found.push(violation(room.line, remedy));
            }
        }
    }
}

/// A row for something that is gone tells the reader about a house that is not there.
fn check_table_is_alive(house: &House, tree: &Tree, found: &mut Vec<Violation>) {
    for (name, room) in &house.rooms {
        if !tree.packages.iter().any(|package| package.name == *name) {
            found.push(violation(room.line, format!("there is no crate `{name}`: take it off")));
        }
    }
    for (library, (line, rooms)) in &house.libraries {
        for room in rooms.iter().filter(|room| *room != TESTS) {
            if !house.rooms.contains_key(room) {
                let remedy = format!("`{library}` is for `{room}`, which is no room: take it off");
                found.push(violation(*line, remedy));
            }
        }
    }
}

fn check_package(house: &House, package: &Package, tree: &Tree, found: &mut Vec<Violation>) {
    let Some(room) = house.rooms.get(&package.name) else {
        let remedy = format!("give the crate `{}` a row in the floor table", package.name);
        found.push(violation(1, remedy));
        return;
    };
    for dependency in &package.dependencies {
        let is_room = tree.packages.iter().any(|other| other.name == dependency.name);
        let problem = if is_room {
            check_import(room, dependency)
        } else {
            check_library(house, &package.name, dependency)
        };
        if let Some(remedy) = problem {
            let path = package.manifest.clone();
            let line = line_of(tree, package, &dependency.name);
            found.push(Violation { path, line, rule: "floor", remedy });
        }
    }
}

fn check_import(room: &Room, dependency: &Dependency) -> Option<String> {
    let name = &dependency.name;
    if room.imports.contains(name) || (dependency.is_dev && name == WORKSHOP) {
        return None;
    }
    Some(format!("do not import `{name}` here: let the roof join the two, or pass a `model` type"))
}

fn check_library(house: &House, package: &str, dependency: &Dependency) -> Option<String> {
    let name = &dependency.name;
    let Some((_, rooms)) = house.libraries.get(name) else {
        return Some(format!("`{name}` is in no row of the library table of {DOCUMENT}"));
    };
    if rooms.contains(package) || (dependency.is_dev && rooms.contains(TESTS)) {
        return None;
    }
    Some(format!("`{name}` is not for this room: see the library table of {DOCUMENT}"))
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
