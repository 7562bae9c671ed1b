//! A data folder from the text of [`super::export`].
//!
//! The folder must be new or empty; it gets the cluster's secret of the export. Everything goes
//! where it lives by its name, so the number of logs may be another one. Invariant: the folder
//! becomes one only when the last line of the text was read and its sums agree.

use super::text::{Line, Sums};
use super::{Means, settings};
use crate::OpenError;
use crate::data::alive::Alive;
use crate::data::folder::{CLUSTER_SECRET, Format, NODE_SECRET};
use crate::data::rehome::Into;
use crate::data::{Place, Secrets};
use model::ports::log::{ROW_KEY_BYTES_MAX, ROW_VALUE_BYTES_MAX};
use model::timeline::{Message, Seq, TimelineId};
use std::fmt;
use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::Arc;

/// Longest line, bytes: the longest body in base64, and room for the rest.
const LINE_BYTES_MAX: usize = Message::BODY_BYTES_MAX / 3 * 4 + 4_096;

/// Reason why an import stopped.
#[derive(Debug)]
pub enum ImportError {
    /// A line of the text, from 1.
    Line {
        /// Number of the line.
        number: u64,
        /// Error in the line.
        why: String,
    },
    /// The folder.
    Folder(OpenError),
}

/// The text, line by line.
struct Lines<'a> {
    text: &'a mut dyn BufRead,
    number: u64,
    /// Longest line, bytes.
    most: usize,
}

/// State of an import.
#[derive(Default)]
struct Course {
    sums: Sums,
    timeline: Option<TimelineId>,
    seq: Seq,
}

/// Makes a folder with so many logs of a text. `node` is random bytes for its own secret.
pub fn import(
    text: &mut dyn BufRead,
    path: &Path,
    (means, now_s): (&Means, u32),
    (logs, node): (u16, [u8; 32]),
) -> Result<Sums, ImportError> {
    let mut lines = Lines { text, number: 0, most: LINE_BYTES_MAX };
    let Some(Line::First { cluster, .. }) = lines.next()? else {
        return Err(lines.wrong("it is not the first line of an export"));
    };
    let secrets = Secrets { cluster, node };
    let place = begin(path, means, secrets)?;
    let mut into = Into::begin(&place, "", &settings(secrets, logs), now_s)?;
    let sums = fill(&mut lines, &mut into)?;
    into.end(&place)?;
    place.write_format(logs, false)?;
    Ok(sums)
}

pub(super) fn begin(path: &Path, means: &Means, secrets: Secrets) -> Result<Place, OpenError> {
    let has = |name: &str| means.files.read(&path.join(name)).is_ok();
    if has(CLUSTER_SECRET) || has(NODE_SECRET) {
        return Err(OpenError::HasCluster { path: path.into() });
    }
    let (files, states) = (Arc::clone(&means.files), Arc::clone(&means.states));
    let (place, format) = Place::take(path, secrets, files, states)?;
    if format != Format::First {
        return Err(OpenError::Foreign { path: path.into(), found: "FORMAT".into() });
    }
    place.clear_logs()?;
    Ok(place)
}

fn fill(lines: &mut Lines<'_>, into: &mut Into) -> Result<Sums, ImportError> {
    let mut course = Course::default();
    while let Some(line) = lines.next()? {
        course.sums.note(&line);
        let alive = match line {
            Line::First { .. } => return Err(lines.wrong("another export begins")),
            Line::Log(_) => {
                course.timeline = None;
                continue;
            }
            Line::End(sums) if sums == course.sums => return Ok(sums),
            Line::End(sums) => {
                let why = format!("it says {sums:?}, but there were {:?}", course.sums);
                return Err(lines.wrong(&why));
            }
            other => course.alive(other).map_err(|why| lines.wrong(why))?,
        };
        into.take(alive, None)?;
    }
    lines.number += 1;
    Err(lines.wrong("the export ends before its last line"))
}

impl Course {
    fn alive(&mut self, line: Line) -> Result<Alive, &'static str> {
        let timeline = self.timeline.ok_or("it belongs to no timeline");
        match line {
            Line::Row { key, value, .. }
                if key.len() > ROW_KEY_BYTES_MAX || value.len() > ROW_VALUE_BYTES_MAX =>
            {
                Err("the row is too large")
            }
            Line::Row { table, key, value } => {
                Ok(Alive::Row { table, key: key.into(), value: value.into() })
            }
            Line::Timeline { timeline, last } => {
                (self.timeline, self.seq) = (Some(timeline), 0);
                Ok(Alive::Timeline { timeline, last })
            }
            Line::Entry { message, .. }
                if message.label.len() > Message::LABEL_BYTES_MAX
                    || message.body.len() > Message::BODY_BYTES_MAX =>
            {
                Err("the message is too large")
            }
            Line::Entry { seq, .. } if seq <= self.seq => Err("its seq does not rise"),
            Line::Entry { seq, message } => {
                self.seq = seq;
                Ok(Alive::Entry { timeline: timeline?, seq, message: Arc::new(message) })
            }
            Line::Cursor { reader, upto } => {
                Ok(Alive::Cursor { timeline: timeline?, reader, upto })
            }
            Line::Once(remembered) => Ok(Alive::Once(remembered)),
            Line::First { .. } | Line::Log(_) | Line::End(_) => Err("it is out of place"),
        }
    }
}

impl Lines<'_> {
    /// The next line; `None` at the end of the text.
    fn next(&mut self) -> Result<Option<Line>, ImportError> {
        self.number += 1;
        let mut line = Vec::new();
        let mut limited = Read::take(&mut *self.text, self.most as u64);
        let read = limited.read_until(b'\n', &mut line);
        let count = read.map_err(|error| self.wrong(&error.to_string()))?;
        if count == 0 {
            self.number -= 1;
            return Ok(None);
        }
        if count == self.most && line.last() != Some(&b'\n') {
            return Err(self.wrong("it is longer than any line of an export"));
        }
        let text = std::str::from_utf8(&line).map_err(|_| self.wrong("it is not UTF-8"))?;
        Line::read(text).map(Some).map_err(|why| self.wrong(&why))
    }

    fn wrong(&self, why: &str) -> ImportError {
        ImportError::Line { number: self.number, why: why.into() }
    }
}

impl From<OpenError> for ImportError {
    fn from(error: OpenError) -> ImportError {
        ImportError::Folder(error)
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Line { number, why } => write!(f, "line {number}: {why}"),
            ImportError::Folder(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ImportError {}

#[cfg(test)]
mod tests {
    use super::*;
    use base::hash::HashKey;
    use base::secret::ClusterSecret;
    use model::ports::log::Table;
    use model::timeline::{ReaderId, Space};

    fn timeline() -> TimelineId {
        TimelineId::of(Space::Other, HashKey::new(1, 2), &[b"t"])
    }

    fn entry(seq: Seq, label: usize, body: usize) -> Line {
        let (label, body) = (vec![0; label].into(), vec![0; body].into());
        Line::Entry { seq, message: Message { id: 1, at_s: 2, label, body } }
    }

    #[test]
    fn a_line_is_as_long_as_it_may_be() {
        let text = r#"{"log":0}"#.to_owned() + "\n";
        let read = |most: usize| {
            let mut bytes = text.as_bytes();
            let mut lines = Lines { text: &mut bytes, number: 0, most };
            let first = lines.next().map_err(|error| error.to_string());
            (first, lines.next().map_err(|error| error.to_string()), lines.number)
        };
        assert_eq!(read(text.len()), (Ok(Some(Line::Log(0))), Ok(None), 1));
        let (first, ..) = read(text.len() - 1);
        let why = "line 1: it is longer than any line of an export";
        assert_eq!(first, Err(why.to_owned()));
    }

    #[test]
    fn the_longest_line_has_room_for_the_longest_body() {
        let text = |body: usize| entry(u64::MAX, Message::LABEL_BYTES_MAX, body).write().len() + 1;
        let (short, long) = (text(0), text(3_000));
        assert_eq!(long - short, 4_000, "in base64");
        assert!(short + Message::BODY_BYTES_MAX.div_ceil(3) * 4 <= LINE_BYTES_MAX);
    }

    #[test]
    fn what_is_too_large_for_the_port_is_not_taken() {
        let (label, body) = (Message::LABEL_BYTES_MAX, Message::BODY_BYTES_MAX);
        let row = |key: usize, value: usize| {
            let (key, value) = (vec![0; key], vec![0; value]);
            Line::Row { table: Table::Other, key, value }
        };
        for (line, fits) in [
            (entry(1, label, 0), true),
            (entry(1, label + 1, 0), false),
            (entry(1, 0, body), true),
            (entry(1, 0, body + 1), false),
            (row(ROW_KEY_BYTES_MAX, 0), true),
            (row(ROW_KEY_BYTES_MAX + 1, 0), false),
            (row(1, ROW_VALUE_BYTES_MAX), true),
            (row(1, ROW_VALUE_BYTES_MAX + 1), false),
        ] {
            let mut course = Course { timeline: Some(timeline()), ..Course::default() };
            let taken = course.alive(line);
            assert_eq!(taken.is_ok(), fits, "{:?}", taken.err());
        }
    }

    #[test]
    fn seqs_of_a_timeline_rise_and_each_timeline_begins_anew() {
        let mut course = Course::default();
        let cursor = || Line::Cursor { reader: ReaderId(1), upto: 1 };
        assert!(course.alive(cursor()).is_err() && course.alive(entry(1, 0, 0)).is_err());
        for _ in 0..2 {
            let begins = Line::Timeline { timeline: timeline(), last: 9 };
            assert!(course.alive(begins).is_ok() && course.alive(cursor()).is_ok());
            let taken = [0, 2, 2, 1, 3].map(|seq| course.alive(entry(seq, 0, 0)).is_ok());
            assert_eq!(taken, [false, true, false, false, true]);
        }
        let sums = Sums::default();
        let odd = [
            Line::Log(0),
            Line::End(sums),
            Line::First { logs: 1, cluster: ClusterSecret::new([0; 32]) },
        ];
        assert!(odd.into_iter().all(|line| course.alive(line).is_err()));
    }
}
