//! Priorities for systemd's journal.
//!
//! A line on standard error has the priority "info" in the journal unless it begins with a number
//! in angle brackets (sd-daemon(3)); `journalctl -p warning` shows nothing otherwise. The number is
//! written only where standard error is the journal.

use std::fmt;
use std::os::fd::AsFd;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// Whether a lane is the journal: `JOURNAL_STREAM` names its device and inode (systemd.exec(5)).
pub(super) fn is_journal(stream: Option<&str>, lane: impl AsFd) -> bool {
    let Some((device, inode)) = stream.and_then(|stream| stream.split_once(':')) else {
        return false;
    };
    let (Ok(device), Ok(inode)) = (device.parse::<u64>(), inode.parse::<u64>()) else {
        return false;
    };
    rustix::fs::fstat(lane).is_ok_and(|stat| stat.st_dev == device && stat.st_ino == inode)
}

/// The priority of a level, as syslog(3) numbers them.
fn prefix(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}

/// A format whose lines begin with their priority, if `is_on`.
pub(super) struct Prioritized<F> {
    /// The format of the line.
    pub(super) format: F,
    /// Whether lines go to the journal.
    pub(super) is_on: bool,
}

impl<S, N, F> FormatEvent<S, N> for Prioritized<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.is_on {
            writer.write_str(prefix(*event.metadata().level()))?;
        }
        self.format.format_event(context, writer, event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};

    /// Output of a subscriber for a warning and for an informational line.
    fn printed(is_on: bool) -> String {
        #[derive(Clone, Default)]
        struct Page(Arc<Mutex<Vec<u8>>>);

        impl io::Write for Page {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().expect("whole").extend_from_slice(bytes);
                Ok(bytes.len())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let page = Page::default();
        let lane = page.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || lane.clone())
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .map_event_format(|format| Prioritized { format, is_on })
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!("slow");
            tracing::info!("started");
            tracing::error!("failed");
        });
        let bytes = page.0.lock().expect("whole").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn lines_for_the_journal_begin_with_their_priority_and_others_do_not() {
        let lines = |text: String| -> Vec<String> { text.lines().map(str::to_owned).collect() };
        let plain = lines(printed(false));
        let journal = lines(printed(true));
        let expected: Vec<String> = plain
            .iter()
            .zip(["<4>", "<6>", "<3>"])
            .map(|(line, no)| format!("{no}{line}"))
            .collect();
        assert_eq!((journal, plain.len()), (expected, 3));
    }

    #[test]
    fn the_journal_is_known_by_device_and_inode_and_not_by_the_variable_alone() {
        let file = tempfile::tempfile().expect("a file");
        let stat = rustix::fs::fstat(&file).expect("it is open");
        let named = format!("{}:{}", stat.st_dev, stat.st_ino);
        assert!(is_journal(Some(&named), &file));
        for other in [None, Some(""), Some("1"), Some("1:2"), Some("a:b")] {
            assert!(!is_journal(other, &file), "{other:?}");
        }
    }
}
