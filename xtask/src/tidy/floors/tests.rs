//! Each way to break the law of the floors, and that it is seen.

use super::*;

const DOCUMENT_TEXT: &str = "
| floor | crates | may import | may touch |
| --- | --- | --- | --- |
| 0 ground | `base` | nothing | memory |
| 1 nouns | `model` | `base` | memory |
| 2 pure | `hub` | `base` `model` | values |
| 3 one door | `net` | `base` `model` | sockets |
| roof | `server` | `base` `model` `hub` `net` | all |
| yard | `testkit` | `base` `model` | tests |

| library | crates | for |
| --- | --- | --- |
| `rustix` | `net` | sockets |
| `tempfile` | `tests` | folders |
";

const MEMBERS: &[&str] = &["base", "model", "hub", "net", "server", "testkit"];

fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
    let dependency = |&(name, is_dev): &(&str, bool)| Dependency { name: name.to_owned(), is_dev };
    Package {
        name: name.into(),
        manifest: format!("crates/{name}/Cargo.toml"),
        dependencies: dependencies.iter().map(dependency).collect(),
    }
}

/// Violations of a workspace with `document`, in which `name` has these dependencies.
fn check_law_of(document: &str, name: &str, dependencies: &[(&str, bool)]) -> Vec<String> {
    let mut tree = Tree::of(&[
        ("ARCHITECTURE.md", document),
        ("crates/LIBRARIES.md", document),
        ("crates/hub/Cargo.toml", "[dependencies]\nmodel.workspace = true\nnet.workspace = true\n"),
    ]);
    tree.packages = MEMBERS.iter().map(|member| package(member, &[])).collect();
    tree.packages.retain(|other| other.name != name);
    tree.packages.push(package(name, dependencies));
    let mut found = Vec::new();
    check(&tree, &mut found);
    found.iter().map(Violation::to_string).collect()
}

fn check_dependencies(name: &str, dependencies: &[(&str, bool)]) -> Vec<String> {
    check_law_of(DOCUMENT_TEXT, name, dependencies)
}

#[test]
fn a_lawful_workspace_stands() {
    assert_eq!(check_dependencies("hub", &[("base", false), ("model", false)]), [""; 0]);
    assert_eq!(check_dependencies("server", &[("hub", false), ("net", false)]), [""; 0]);
    assert_eq!(check_dependencies("net", &[("rustix", false), ("testkit", true)]), [""; 0]);
    assert_eq!(check_dependencies("base", &[("tempfile", true)]), [""; 0]);
}

#[test]
fn a_room_that_imports_a_room_is_seen_at_its_line() {
    let found = check_dependencies("hub", &[("model", false), ("net", false)]);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("crates/hub/Cargo.toml:3: floor: do not import `net`"));
}

#[test]
fn tests_may_import_the_workshop_and_no_other_room() {
    assert_eq!(check_dependencies("hub", &[("testkit", false)]).len(), 1);
    assert_eq!(check_dependencies("hub", &[("net", true)]).len(), 1);
}

#[test]
fn a_library_is_for_the_crates_of_its_row() {
    assert_eq!(check_dependencies("hub", &[("rustix", false)]).len(), 1);
    assert_eq!(check_dependencies("hub", &[("tempfile", false)]).len(), 1);
    assert_eq!(check_dependencies("net", &[("tokio", false)]).len(), 1);
}

#[test]
fn a_crate_without_a_row_is_seen() {
    let found = check_dependencies("proto-stomp", &[]);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("give the crate `proto-stomp` a row"));
}

#[test]
fn the_table_cannot_allow_what_the_law_forbids() {
    let replaced = |old: &str, new: &str| {
        let document = DOCUMENT_TEXT.replace(old, new);
        assert_ne!(document, DOCUMENT_TEXT);
        check_law_of(&document, "base", &[])
    };
    assert_eq!(replaced("`base` `model` | values", "`base` `net` | values").len(), 1);
    assert_eq!(replaced("`base` | nothing", "`base` | `model`").len(), 1);
    assert_eq!(replaced("`model` | `base`", "`model` | `model`").len(), 1);
    assert_eq!(replaced("`hub` `net` | all", "`testkit` | all").len(), 1);
    assert_eq!(replaced("`hub` `net` | all", "`cellar` | all").len(), 1);
}

#[test]
fn a_table_that_cannot_be_read_is_seen() {
    let check = |document: &str| check_law_of(document, "base", &[]);
    assert_eq!(check("# no tables").len(), 2);
    assert_eq!(
        check(&DOCUMENT_TEXT.replace("| library | crates | for |", "| x | y | z |")).len(),
        1
    );
    assert!(!check(&DOCUMENT_TEXT.replace("| 3 one door", "| 4 attic")).is_empty());
    assert!(!check(&DOCUMENT_TEXT.replace("`hub` |", "`hub` `net` |")).is_empty());
    let mut found = Vec::new();
    super::check(&Tree::of(&[]), &mut found);
    assert_eq!(found.len(), 2);
}

#[test]
fn a_row_for_what_is_gone_is_seen() {
    let document = DOCUMENT_TEXT.replace("`hub` |", "`hub` `cellar` |");
    assert!(check_law_of(&document, "base", &[])[0].contains("there is no crate `cellar`"));
    let document = DOCUMENT_TEXT.replace("| `net` | sockets |", "| `net` `cellar` | sockets |");
    assert!(check_law_of(&document, "base", &[])[0].contains("which is no crate of ours"));
}
