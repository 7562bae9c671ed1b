//! The list as it is read: a DOAP file (XEP-0453), and tables.

use super::{Completeness, RFCS, Rfc, SUITES, SuiteAsk, Xep, xeps};
use crate::xml::text::escaped;
use std::fmt::Write;

const HEAD: &str = "<?xml version='1.0' encoding='UTF-8'?>
<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'
         xmlns='http://usefulinc.com/ns/doap#'
         xmlns:xmpp='https://linkmauve.fr/ns/xmpp-doap#'>
  <Project>
    <name>Holdline</name>
    <shortdesc xml:lang='en'>Server for many long-lived connections</shortdesc>
    <programming-language>Rust</programming-language>
    <os>Linux</os>
    <category rdf:resource='https://linkmauve.fr/ns/xmpp-doap#category-server'/>
";

const TAIL: &str = "  </Project>
</rdf:RDF>
";

/// The DOAP file.
pub fn doap() -> String {
    let mut out = HEAD.to_owned();
    for rfc in RFCS {
        let number = rfc.number;
        let _ = writeln!(
            out,
            "    <implements rdf:resource='https://www.rfc-editor.org/info/rfc{number}'/>"
        );
    }
    xeps().iter().for_each(|xep| put_xep(xep, &mut out));
    out + TAIL
}

fn put_xep(xep: &Xep, out: &mut String) {
    let note = match xep.note {
        "" => String::new(),
        note => format!("        <xmpp:note xml:lang='en'>{}</xmpp:note>\n", escaped(note)),
    };
    let Xep { number, version, .. } = xep;
    let status = status(xep.completeness);
    let _ = write!(
        out,
        "    <implements>
      <xmpp:SupportedXep>
        <xmpp:xep rdf:resource='https://xmpp.org/extensions/xep-{number:04}.html'/>
        <xmpp:version>{version}</xmpp:version>
        <xmpp:status>{status}</xmpp:status>
{note}      </xmpp:SupportedXep>
    </implements>
"
    );
}

fn status(completeness: Completeness) -> &'static str {
    match completeness {
        Completeness::Complete => "complete",
        Completeness::Partial => "partial",
    }
}

/// A table of the RFCs.
pub fn rfcs_table() -> String {
    let mut out = String::from("| RFC | restrictions and notes | test |\n");
    out += "| --- | --- | --- |\n";
    for Rfc { number, name, note, test } in RFCS {
        let _ = writeln!(out, "| {number} {name} | {note} | `{test}` |");
    }
    out
}

/// A table of the extensions.
pub fn xeps_table() -> String {
    let mut out = String::from("| XEP | version | | restrictions and notes |\n");
    out += "| --- | --- | --- | --- |\n";
    for Xep { number, name, version, completeness, note, .. } in xeps() {
        let status = status(completeness);
        let _ = writeln!(out, "| {number:04} {name} | {version} | {status} | {note} |");
    }
    out
}

/// A table of the compliance suites.
pub fn suites_table() -> String {
    let mut out = String::from("| suite | feature | by | supported | test |\n");
    out += "| --- | --- | --- | --- | --- |\n";
    for suite in SUITES {
        for ask in suite.asks {
            let name = suite.name;
            let level = if ask.is_advanced { ", advanced" } else { "" };
            let (by, there, tests) = (by(ask), there(ask), tests(ask));
            let feature = ask.feature;
            let _ = writeln!(out, "| {name}{level} | {feature} | {by} | {there} | {tests} |");
        }
    }
    out
}

fn by(ask: &SuiteAsk) -> String {
    let rfcs = ask.rfcs.iter().map(|number| format!("RFC {number}"));
    let xeps = ask.xeps.iter().map(|number| format!("{number:04}"));
    rfcs.chain(xeps).collect::<Vec<_>>().join(", ")
}

fn xep(number: u16) -> Option<Xep> {
    xeps().into_iter().find(|xep| xep.number == number)
}

fn rfc(number: u16) -> Option<&'static Rfc> {
    RFCS.iter().find(|rfc| rfc.number == number)
}

/// Whether it is there, whole or in part, or what is missing.
fn there(ask: &SuiteAsk) -> String {
    let missing: Vec<String> = ask
        .xeps
        .iter()
        .filter(|number| xep(**number).is_none())
        .map(|number| format!("{number:04}"))
        .chain(ask.rfcs.iter().filter(|number| rfc(**number).is_none()).map(u16::to_string))
        .collect();
    let is_part =
        |number: &u16| xep(*number).is_some_and(|xep| xep.completeness == Completeness::Partial);
    match missing.is_empty() {
        true if ask.xeps.iter().any(is_part) => "yes, [in part](#what-is-claimed)".into(),
        true => "yes".into(),
        false => format!("**no**: {}", missing.join(", ")),
    }
}

fn tests(ask: &SuiteAsk) -> String {
    let xeps = ask.xeps.iter().filter_map(|number| xep(*number)).map(|xep| xep.test);
    let rfcs = ask.rfcs.iter().filter_map(|number| rfc(*number)).map(|rfc| rfc.test);
    let mut tests: Vec<String> = Vec::new();
    for test in rfcs.chain(xeps) {
        let test = format!("`{test}`");
        if !tests.contains(&test) {
            tests.push(test);
        }
    }
    tests.join(", ")
}
