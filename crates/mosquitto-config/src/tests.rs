//! mosquitto's own options against the table, and the page that is printed from it. The results of
//! translations are tested where they are read, in `server`.

use super::*;
use std::collections::BTreeSet;
use std::fs;

mod data;

#[test]
fn every_option_of_mosquitto_is_known() {
    let known: BTreeSet<&str> = options::all().map(|known| known.name).collect();
    assert_eq!(known.len(), options::all().count(), "none is there twice");
    let missing: Vec<_> = data::OPTIONS_OF_2_0
        .iter()
        .chain(data::OPTIONS_OF_2_1)
        .filter(|o| !known.contains(*o))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

const DOCUMENTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mosquitto.md");

#[test]
fn the_documentation_is_printed_from_the_table() {
    let there = fs::read_to_string(DOCUMENTED).expect("docs/mosquitto.md is there");
    assert!(
        there == documented(),
        "docs/mosquitto.md differs from the code: cargo test -p mosquitto-config -- --ignored \
         mosquitto_md"
    );
}

#[test]
#[ignore = "writes docs/mosquitto.md anew after a change to the table"]
fn mosquitto_md_is_written() {
    fs::write(DOCUMENTED, documented()).expect("the folder can be written");
}

#[test]
fn a_line_of_the_text_says_where_it_comes_from() {
    let line = |number| {
        Translation {
            text: "# Translated from m.conf.\n\n[mqtt]\nqueue_qos0 = true # m.conf:7\n".into(),
            notes: Vec::new(),
        }
        .origin(number)
        .map(str::to_owned)
    };
    assert_eq!([0, 1, 3, 4, 5].map(line), [None, None, None, Some("m.conf:7".into()), None]);
}
