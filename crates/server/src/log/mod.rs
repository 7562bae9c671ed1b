//! The log's printer: to standard error, as text or JSON, with a filter that can be changed.
//!
//! The log's reader may have gone, stopped reading, or have a full disk: a line that cannot be
//! written at once is lost and counted ([`lost`]). Invariant: a log call never waits for a reader,
//! never fails, and never ends the process.

mod journal;
pub(crate) mod recent;

use self::journal::{Prioritized, is_journal};
use crate::config::{Config, LogFormat, environment};
use model::{event, tell};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

type Change = Box<dyn Fn(EnvFilter) + Send + Sync>;

static CHANGE: OnceLock<Change> = OnceLock::new();

/// Bytes that a pipe which is ready takes without waiting: `PIPE_BUF` (pipe(7)).
const PIECE_BYTES: usize = 4_096;

static LOST: AtomicU64 = AtomicU64::new(0);

/// Lines of the log, and of what is printed beside it, that could not be written.
pub fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Prints to standard output what belongs to the life of a server: like the log, it may be lost.
pub fn print(text: &str) {
    count(write(io::stdout().lock(), text.as_bytes()));
}

/// Where the log goes.
struct Lane;

impl Write for Lane {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        count(write(io::stderr().lock(), bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn count(written: io::Result<()>) {
    if written.is_err() {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes what can be written without waiting.
fn write(mut lane: impl Write + AsFd, bytes: &[u8]) -> io::Result<()> {
    for piece in bytes.chunks(PIECE_BYTES) {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&lane, PollFlags::OUT)];
        if poll(&mut fds, Some(&at_once))? == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        lane.write_all(piece)?;
    }
    lane.flush()
}

/// Starts the log. It can be started once in a process.
pub fn start(config: &Config) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(&config.server.log))
        .with_writer(|| Lane)
        // Its own complaint about a line that was lost panics when that cannot be printed either.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false);
    let stream = environment().find(|(name, _)| name == "JOURNAL_STREAM");
    let is_on = is_journal(stream.as_ref().map(|(_, value)| value.as_str()), io::stderr());
    let recent = recent::keep(config.api.limits.log_lines_max as usize);
    let change: Change = match config.server.log_format {
        LogFormat::Text => {
            let builder = builder.map_event_format(|format| Prioritized { format, is_on });
            let builder = builder.with_filter_reloading();
            let handle = builder.reload_handle();
            builder.finish().with(recent).init();
            Box::new(move |filter| told(handle.reload(filter)))
        }
        LogFormat::Json => {
            let builder = builder.json();
            let builder = builder.map_event_format(|format| Prioritized { format, is_on });
            let builder = builder.with_filter_reloading();
            let handle = builder.reload_handle();
            builder.finish().with(recent).init();
            Box::new(move |filter| told(handle.reload(filter)))
        }
    };
    let _ = CHANGE.set(change); // it is set once, for the log is started once
}

/// Changes what is logged.
pub fn change(log: &str) {
    if let Some(change) = CHANGE.get() {
        change(filter(log));
    }
}

fn filter(log: &str) -> EnvFilter {
    EnvFilter::try_new(log).unwrap_or_else(|_| EnvFilter::new("info"))
}

fn told(changed: Result<(), tracing_subscriber::reload::Error>) {
    if let Err(error) = changed {
        tell!(event::LOG_FILTER_REFUSED, %error);
    }
}
