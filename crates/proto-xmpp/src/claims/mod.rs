//! The parts of XMPP that this server supports: one list, from which its DOAP file and the tables
//! of `docs/xmpp.md` are made.
//!
//! A claim is an extension or an RFC with the version that was read, how much of it is done, what
//! is not, and the test that shows it. An extension is claimed in the file that has its code
//! (`server/feature.rs` lists them), or here, if it has none of its own. What a compliance suite
//! asks for is in [`SUITES`], and whether it is there follows from the claims. Invariant: a claim
//! without a test does not exist, and what is lacking is said where it is claimed.

mod suites;
mod written;
mod xeps;

pub use suites::{SUITES, Suite, SuiteAsk};
pub use written::{doap, rfcs_table, suites_table, xeps_table};
pub use xeps::{RFCS, xeps};

/// How much of an extension is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completeness {
    /// All that a server must do.
    Complete,
    /// Some of it.
    Partial,
}

/// An extension that is done, or some of it.
#[derive(Clone, Copy, Debug)]
pub struct Xep {
    /// Its number.
    pub number: u16,
    /// Name of the extension.
    pub name: &'static str,
    /// The version that was read.
    pub version: &'static str,
    /// How much of it is done.
    pub completeness: Completeness,
    /// Missing parts, or how it is meant; may be empty.
    pub note: &'static str,
    /// The test that shows it: `FILE::NAME` below `tests/e2e` or `crates/proto-xmpp/src`.
    pub test: &'static str,
}

impl Xep {
    pub(crate) const fn complete(
        number: u16,
        (name, version): (&'static str, &'static str),
        note: &'static str,
        test: &'static str,
    ) -> Xep {
        Xep { number, name, version, completeness: Completeness::Complete, note, test }
    }

    pub(crate) const fn partial(
        number: u16,
        (name, version): (&'static str, &'static str),
        note: &'static str,
        test: &'static str,
    ) -> Xep {
        Xep { number, name, version, completeness: Completeness::Partial, note, test }
    }
}

/// An RFC, likewise.
#[derive(Clone, Copy, Debug)]
pub struct Rfc {
    /// Its number.
    pub number: u16,
    /// Name of the RFC.
    pub name: &'static str,
    /// Missing parts; may be empty.
    pub note: &'static str,
    /// The test that shows it.
    pub test: &'static str,
}

#[cfg(test)]
mod tests;
