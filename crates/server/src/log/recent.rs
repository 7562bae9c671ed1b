//! The newest warnings and errors of the log, kept in memory for who looks later.
//!
//! It hears what the log's filter lets pass and keeps it whether or not anybody could print it. It
//! knows no printer. Invariant: so many lines of so many bytes at most; the oldest make room.

use crate::clock;
use admin::LogLine;
use std::collections::VecDeque;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Bytes of one line. What is longer is cut.
const LINE_BYTES_MAX: usize = 2_048;

static RECENT: Mutex<Recent> = Mutex::new(Recent { lines: VecDeque::new(), next: 1, max: 0 });

struct Recent {
    lines: VecDeque<LogLine>,
    next: u64,
    max: usize,
}

impl Recent {
    fn keep(&mut self, at_ms: u64, level: &'static str, text: String) {
        let number = self.next;
        self.next += 1;
        self.lines.push_back(LogLine { number, at_ms, level, text });
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

/// Keeps so many lines from now on.
pub(crate) fn keep(lines_max: usize) -> RecentLayer {
    ring().max = lines_max;
    RecentLayer
}

/// What hears the log.
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
        ring().keep(clock::wall_ms(), level, line.text());
    }
}

/// A line while it is put together: what is said, then its fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn text(mut self) -> String {
        self.message.push_str(&self.fields);
        if self.message.len() > LINE_BYTES_MAX {
            let end = (0..=LINE_BYTES_MAX - '…'.len_utf8()).rev();
            let end = end.into_iter().find(|&end| self.message.is_char_boundary(end));
            self.message.truncate(end.unwrap_or(0));
            self.message.push('…');
        }
        self.message
    }
}

impl Visit for Line {
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

    #[test]
    fn the_oldest_lines_make_room_and_numbers_go_on() {
        let mut recent = Recent { lines: VecDeque::new(), next: 1, max: 2 };
        for text in ["a", "b", "c"] {
            recent.keep(7, "warn", text.into());
        }
        let kept: Vec<_> = recent.lines.iter().map(|line| (line.number, &*line.text)).collect();
        assert_eq!(kept, [(2, "b"), (3, "c")]);
        recent.max = 0;
        recent.keep(7, "error", "d".into());
        assert!(recent.lines.is_empty());
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let line = |message: String| Line { message, fields: String::new() }.text();
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
            tracing::info!("not this");
            tracing::warn!(shard = 3, why = "x", "this");
            tracing::error!("and this");
        });
        let kept = lines().into_iter().filter(|line| line.number >= before);
        let kept: Vec<_> = kept.map(|line| (line.level, line.text)).collect();
        assert_eq!(kept, [("warn", "this shard=3 why=\"x\"".into()), ("error", "and this".into())]);
    }
}
