//! Alarms on the disk, so that past ones outlive a restart.
//!
//! All alarms, whose number is bounded, are rewritten at each change, to a new file that replaces
//! the old one. A file that cannot be read or written costs the list of past alarms and nothing
//! else: the fault is logged once, and the server goes on. Invariant: the file has the complete
//! alarms of one moment.

use super::alarms::{ALL, Alarm};
use model::{event, tell};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// An alarm as it is written.
#[derive(Serialize, Deserialize)]
struct AlarmLine {
    id: u64,
    kind: String,
    subject: String,
    text: String,
    raised_ms: u64,
    cleared_ms: Option<u64>,
    acknowledged: Option<(u64, String)>,
}

/// The file.
pub(crate) struct AlarmFile {
    path: PathBuf,
    /// The disk refused the last write.
    refuses: bool,
}

impl AlarmFile {
    /// The file at this path, with the alarms in it. Blocks.
    pub(crate) fn open(path: PathBuf) -> (AlarmFile, Vec<Alarm>) {
        let found = match read(&path) {
            Ok(found) => found,
            Err(error) => {
                tell!(event::ALARMS_UNREADABLE, path = %path.display(), %error);
                Vec::new()
            }
        };
        (AlarmFile { path, refuses: false }, found)
    }

    /// Writes all alarms. Blocks.
    pub(crate) fn write(&mut self, alarms: &[Alarm]) {
        let written = replace(&self.path, alarms);
        let refused = std::mem::replace(&mut self.refuses, written.is_err());
        if let Err(error) = written
            && !refused
        {
            tell!(event::ALARMS_UNKEPT, path = %self.path.display(), %error);
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<Alarm>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let lines = text.lines().map(serde_json::from_str::<AlarmLine>);
    let lines = lines.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
    // Alarms of unknown kinds, from another version, are skipped.
    Ok(lines.into_iter().filter_map(AlarmLine::alarm).collect())
}

fn replace(path: &Path, alarms: &[Alarm]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    for alarm in alarms {
        let line = serde_json::to_string(&AlarmLine::of(alarm)).map_err(io::Error::other)?;
        writeln!(file, "{line}")?;
    }
    file.sync_all()?;
    fs::rename(&beside, path)
}

impl AlarmLine {
    fn of(alarm: &Alarm) -> AlarmLine {
        let Alarm { id, kind, subject, text, raised_ms, cleared_ms, acknowledged } = alarm.clone();
        let kind = kind.name.to_owned();
        AlarmLine { id, kind, subject, text, raised_ms, cleared_ms, acknowledged }
    }

    fn alarm(self) -> Option<Alarm> {
        let AlarmLine { id, kind, subject, text, raised_ms, cleared_ms, acknowledged } = self;
        let kind = ALL.iter().copied().find(|known| known.name == kind)?;
        Some(Alarm { id, kind, subject, text, raised_ms, cleared_ms, acknowledged })
    }
}

#[cfg(test)]
mod tests {
    use super::super::alarms::{BRIDGE_DOWN, Book, Condition, LOG_FULL};
    use super::*;

    fn condition(subject: &str) -> Condition {
        Condition { kind: &BRIDGE_DOWN, subject: subject.to_owned(), text: "x \"y\"\n".to_owned() }
    }

    #[test]
    fn alarms_outlive_a_restart_and_active_ones_are_past_then() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("alarms");
        let (mut file, found) = AlarmFile::open(path.clone());
        assert_eq!(found, []);
        let mut book = Book::default();
        book.see(10, vec![condition("a"), condition("b")]);
        book.see(20, vec![condition("b")]);
        book.acknowledge(2, 21, "ann");
        file.write(&book.all());
        let (_, found) = AlarmFile::open(path);
        let mut next = Book::of(found, 100);
        let row = |it: &Alarm| {
            let by = it.acknowledged.as_ref().map(|(_, by)| by.clone());
            (it.id, it.subject.clone(), it.text.clone(), it.cleared_ms, by)
        };
        let rows: Vec<_> = next.list(Some(false), 9).iter().map(row).collect();
        let text = || "x \"y\"\n".to_owned();
        let expected = [
            (2, "b".to_owned(), text(), Some(100), Some("ann".to_owned())),
            (1, "a".to_owned(), text(), Some(20), None),
        ];
        assert_eq!(rows, expected);
        assert_eq!((next.counts(), next.active()), ([0, 0, 0], vec![]), "of this start");
        let raised = next.see(110, vec![condition("b")]);
        assert_eq!(raised[0].id, 3, "ids go on");
        assert_eq!(next.counts(), [1, 0, 1]);
    }

    #[test]
    fn a_file_that_makes_no_sense_costs_the_past_and_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("alarms");
        fs::write(&path, "{\"id\":1}\n").expect("written");
        let (mut file, found) = AlarmFile::open(path.clone());
        assert_eq!(found, []);
        let mut book = Book::default();
        book.see(10, vec![Condition { kind: &LOG_FULL, ..condition("0") }]);
        file.write(&book.all());
        let unknown = "{\"id\":9,\"kind\":\"of_tomorrow\",\"subject\":\"\",\"text\":\"\",\
                       \"raised_ms\":1,\"cleared_ms\":2,\"acknowledged\":null}\n";
        let text = fs::read_to_string(&path).expect("text") + unknown;
        fs::write(&path, text).expect("written");
        let (_, found) = AlarmFile::open(path);
        assert_eq!(found, book.all(), "kinds of another version are left out");
    }
}
