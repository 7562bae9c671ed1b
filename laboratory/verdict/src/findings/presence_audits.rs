//! Lasting differences between the server's memory and its directory about who is online.
//!
//! The audits' own notes are the evidence: they name the first keys and how each differs.

use crate::case::Case;
use crate::presence_figures::DIFFERS;
use lab::run::{Finding, Gravity};

/// Each audit that found differences which lasted.
pub fn detect(case: &Case) -> Vec<Finding> {
    let told = case.run.notes.iter().filter_map(|note| {
        let evidence = note.text.strip_prefix(DIFFERS)?;
        Some(Finding {
            gravity: Gravity::Warning,
            side: "target".to_owned(),
            what: "The server's memory and its directory disagree about which clients are online."
                .to_owned(),
            evidence: evidence.to_owned(),
            remedy: "`holdline audit` lists each client with its last transitions; `holdline \
                     audit --repair` overwrites the directory with the state in memory."
                .to_owned(),
            from_ms: note.at_ms,
            to_ms: note.at_ms,
        })
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use lab::run::Note;

    #[test]
    fn differences_that_lasted_are_told_with_their_keys() {
        let mut run = Made::of(10).run(1);
        let note = |at_ms, text: &str| Note { at_ms, text: text.to_owned() };
        run.notes.push(note(1_000, "presence: 5 online, none differed"));
        run.notes.push(note(7_000, "presence differs: in stage `x` 1 (1 stale): demo#a stale"));
        let found = detect(&Case::of(&run));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].gravity, found[0].from_ms), (Gravity::Warning, 7_000));
        assert_eq!(found[0].evidence, "in stage `x` 1 (1 stale): demo#a stale");
    }
}
