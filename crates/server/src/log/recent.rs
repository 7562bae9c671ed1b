//! The newest warnings and errors of the log, kept in memory for who looks later.
//!
//! This module gets the lines that pass the log's filter, keeps them whether or not they could be
//! printed, and counts them by kind. It knows no printer. Invariant: the lines and the bytes of
//! each are limited, the oldest make room; a count for each kind of the vocabulary, and none for
//! anything else.

use crate::clock;
use admin::LogLine;
use model::event;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::{Debug, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Bytes of one line. A longer line is cut.
const LINE_BYTES_MAX: usize = 2_048;

static RECENT: Mutex<Recent> = Mutex::new(Recent::new(0));

struct Recent {
    lines: VecDeque<LogLine>,
    next: u64,
    max: usize,
    /// Number of lines of each kind, by its name.
    told: BTreeMap<&'static str, u64>,
}

impl Recent {
    const fn new(max: usize) -> Recent {
        Recent { lines: VecDeque::new(), next: 1, max, told: BTreeMap::new() }
    }

    fn keep(&mut self, at_ms: u64, level: &'static str, line: Line) {
        let kind = event::all().find(|kind| kind.is_trouble() && kind.name == line.event);
        let event = kind.map(|kind| kind.name);
        if let Some(name) = event {
            *self.told.entry(name).or_default() += 1;
        }
        let (number, text) = (self.next, line.text());
        self.next += 1;
        self.lines.push_back(LogLine { number, at_ms, level, event, text });
        while self.lines.len() > self.max {
            self.lines.pop_front();
        }
    }
}

fn ring() -> MutexGuard<'static, Recent> {
    RECENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lines that are kept, oldest first.
pub(crate) fn lines() -> Vec<LogLine> {
    ring().lines.iter().cloned().collect()
}

/// Number of lines of each kind of trouble since the start, by its name; others are absent.
pub(crate) fn told() -> BTreeMap<&'static str, u64> {
    ring().told.clone()
}

/// Keeps the last `lines_max` lines.
pub(crate) fn keep(lines_max: usize) -> RecentLayer {
    ring().max = lines_max;
    RecentLayer
}

/// Changes how many lines are kept; of those stored, the newest stay.
pub(crate) fn set_max(lines_max: usize) {
    let mut ring = ring();
    ring.max = lines_max;
    let beyond = ring.lines.len().saturating_sub(lines_max);
    ring.lines.drain(..beyond);
}

/// Layer that receives the log.
pub(crate) struct RecentLayer;

impl<S: Subscriber> Layer<S> for RecentLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            _ => return,
        };
        let mut line = Line::default();
        event.record(&mut line);
        ring().keep(clock::wall_ms(), level, line);
    }
}

/// A line while it is put together: what is said, then its fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
    event: String,
}

impl Line {
    fn text(mut self) -> String {
        self.message.push_str(&self.fields);
        if self.message.len() > LINE_BYTES_MAX {
            let end = self.message.floor_char_boundary(LINE_BYTES_MAX - '…'.len_utf8());
            self.message.truncate(end);
            self.message.push('…');
        }
        self.message
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "event" => self.event.push_str(value),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Text takes what is written.
        _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::tell;

    #[test]
    fn the_oldest_lines_make_room_and_numbers_go_on() {
        let mut recent = Recent::new(2);
        let line = |message: &str| Line { message: message.into(), ..Line::default() };
        for text in ["a", "b", "c"] {
            recent.keep(7, "warn", line(text));
        }
        let kept: Vec<_> = recent.lines.iter().map(|line| (line.number, &*line.text)).collect();
        assert_eq!(kept, [(2, "b"), (3, "c")]);
        recent.max = 0;
        recent.keep(7, "error", line("d"));
        assert!(recent.lines.is_empty());
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let line = |message: String| Line { message, ..Line::default() }.text();
        assert_eq!(line("é".repeat(1_024)), "é".repeat(1_024));
        let cut = line("é".repeat(1_025));
        assert_eq!(cut, "é".repeat(1_022) + "…");
        assert!(cut.len() <= LINE_BYTES_MAX);
    }

    #[test]
    fn warnings_and_errors_are_kept_with_their_fields_and_nothing_else() {
        use tracing_subscriber::layer::SubscriberExt;
        let before = ring().next;
        let heard = tracing_subscriber::registry().with(keep(10));
        tracing::subscriber::with_default(heard, || {
            tell!(event::STOPPED);
            tell!(event::SEGMENT_DAMAGED, file = "7.log", offset = 3, why = %"x");
            tracing::warn!(event = "made_up", "of a library");
            tracing::error!("and this");
        });
        let kept = lines().into_iter().filter(|line| line.number >= before);
        let kept: Vec<_> = kept.map(|line| (line.level, line.event, line.text)).collect();
        let text = "a segment cannot be compacted file=\"7.log\" offset=3 why=x".to_owned();
        let expected = [
            ("error", Some("segment_damaged"), text),
            ("warn", None, "of a library".into()),
            ("error", None, "and this".into()),
        ];
        assert_eq!(kept, expected);
        let told = told();
        assert_eq!(told.get("segment_damaged"), Some(&1), "{told:?}");
        assert!(!told.contains_key("made_up") && !told.contains_key("stopped"), "{told:?}");
    }
}
