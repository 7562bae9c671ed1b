//! Checks that the documents have the claims, and that each claim has the test that it names.

use super::*;
use crate::xml::scan::Scan;
use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file of the repository.
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text of documents with what is made from the list in its places.
fn renewed(text: &str) -> String {
    let mut text = text.to_owned();
    let tables = [("rfcs", rfcs_table()), ("xeps", xeps_table()), ("suites", suites_table())];
    for (name, table) in tables {
        let (begin, end) = (format!("<!-- claims: {name} -->\n"), "<!-- claims: end -->");
        let from = text.find(&begin).unwrap_or_else(|| panic!("no {begin}")) + begin.len();
        let to = from + text[from..].find(end).expect("it ends");
        text.replace_range(from..to, &table);
    }
    text
}

#[test]
fn the_documents_have_what_is_claimed() {
    let (doc, file) = ("docs/xmpp.md", "docs/holdline.doap");
    if std::env::var_os("CLAIMS_WRITE").is_some() {
        fs::write(root().join(doc), renewed(&read(doc))).expect("written");
        fs::write(root().join(file), doap()).expect("written");
    }
    let how = "made anew by CLAIMS_WRITE=1 cargo test -p proto-xmpp claims";
    assert_eq!(read(doc), renewed(&read(doc)), "{doc} is {how}");
    assert_eq!(read(file), doap(), "{file} is {how}");
}

#[test]
fn each_claim_has_the_test_that_it_names() {
    let tests = xeps().into_iter().map(|xep| xep.test).chain(RFCS.iter().map(|rfc| rfc.test));
    let mut missing = Vec::new();
    for test in tests {
        let (file, name) = test.split_once("::").expect("a file and a name");
        let (folder, is_there) = match file.ends_with(".py") {
            true => ("tests/e2e", format!("def {name}(")),
            false => ("crates/proto-xmpp/src", format!("fn {name}(")),
        };
        let path = root().join(folder).join(file);
        if !fs::read_to_string(path).is_ok_and(|text| text.contains(&is_there)) {
            missing.push(test);
        }
    }
    assert!(missing.is_empty(), "claims whose tests there are not: {missing:#?}");
}

#[test]
fn claims_stand_once_each_in_their_order_and_say_what_is_partial() {
    let all = xeps();
    assert!(RFCS.is_sorted_by_key(|rfc| rfc.number));
    assert!(all.windows(2).all(|two| two[0].number != two[1].number));
    for xep in all {
        let is_said = xep.completeness == Completeness::Complete || !xep.note.is_empty();
        assert!(is_said, "XEP-{:04} is partial: in which way?", xep.number);
    }
    for ask in SUITES.iter().flat_map(|suite| suite.asks) {
        assert!(!ask.rfcs.is_empty() || !ask.xeps.is_empty(), "{ask:?}");
    }
}

#[test]
fn the_doap_file_is_xml() {
    let text = doap();
    let root = text.split_once("?>\n").expect("a declaration").1;
    let scan = Scan::element(root.trim_end().as_bytes()).expect("XML");
    assert_eq!(scan.root().children().count(), 1);
}
