//! The one place of the command line that prints.
//!
//! The result of a command goes to standard output, its notes about that to standard error. The
//! reader may leave at any moment (`holdline load plans | head -1`), and a disk behind either may
//! be full: a print never fails and never ends the process. It is remembered instead: [`is_closed`]
//! tells those who print for ever that they may end, and [`settle`] makes the exit code of a result
//! that could not be written one of its own. A reader who has had enough is no fault. Names and
//! topics come from strangers, so nothing that a terminal obeys leaves here, but by [`paint`] and
//! [`Raw`]. This module does not know the meaning of the text.

use base::text::escaped_lines;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The exit code when standard output took nothing more, and not because its reader had left:
/// `EX_IOERR` of sysexits.h.
const UNWRITTEN: u8 = 74;

/// Why standard output takes nothing more.
static FAULT: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints a line of the result.
macro_rules! out {
    ($($text:tt)*) => { $crate::out::print(&format!("{}\n", format_args!($($text)*))) };
}

/// Prints a note on standard error.
macro_rules! note {
    ($($text:tt)*) => { $crate::out::note(&format!("{}\n", format_args!($($text)*))) };
}

/// Prints a part of the result; line ends stay, other control characters are shown.
pub fn print(text: &str) {
    paint(&escaped_lines(text));
}

/// Prints what has colours or moves the cursor. Nothing in it may come from outside.
pub fn paint(text: &str) {
    // What became of it is remembered.
    let _ = Raw.write_all(text.as_bytes());
}

/// Prints a note about the result on standard error.
pub fn note(text: &str) {
    // There is nobody left to say it to.
    let _ = io::stderr().write_all(escaped_lines(text).as_bytes());
}

/// Whether nothing more can be printed.
pub fn is_closed() -> bool {
    fault().is_some()
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether what is noted is read by somebody as it comes: standard error is a terminal.
pub fn is_told() -> bool {
    io::stderr().is_terminal()
}

/// The exit code of a command: its own, unless its result could not be written.
pub fn settle(code: ExitCode) -> ExitCode {
    match fault().take() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            note!("standard output: {error}: the output is incomplete");
            ExitCode::from(UNWRITTEN)
        }
        _ => code,
    }
}

/// Standard output as it is, for what is meant byte by byte: a payload, an export. Its errors are
/// returned, and remembered besides.
pub struct Raw;

impl Write for Raw {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(error) = &*fault() {
            return Err(error.kind().into());
        }
        let mut lane = io::stdout().lock();
        match lane.write_all(bytes).and_then(|()| lane.flush()) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                let kind = error.kind();
                *fault() = Some(error);
                Err(kind.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // every write is
    }
}

/// Locks the fault. Nothing panics while it is held, so a poisoned lock is as good as another.
fn fault() -> MutexGuard<'static, Option<io::Error>> {
    FAULT.lock().unwrap_or_else(PoisonError::into_inner)
}
