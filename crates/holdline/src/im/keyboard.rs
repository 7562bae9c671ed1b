//! Lines typed into a conversation, from standard input until it ends or one is /quit; then the
//! last answers are awaited for a while.

use super::{ANSWER_TIME, Failure};
use base::time::Instant;
use std::io::BufRead;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

/// How long the socket is waited for before the keyboard is looked at.
pub(super) const LOOK: Duration = Duration::from_millis(50);
/// Lines that are typed ahead of those that were sent.
const LINES_MAX: usize = 64;
/// Messages that wait for the server's word. Beyond, no further line is read.
const UNANSWERED_MAX: usize = 64;

/// Lines of standard input, as they come.
pub(super) struct Keyboard {
    lines: Receiver<String>,
    is_over: bool,
    ends_at: Option<Instant>,
}

impl Keyboard {
    pub(super) fn new() -> Result<Keyboard, Failure> {
        let (sender, lines) = sync_channel(LINES_MAX);
        let read = move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("keyboard".into()).spawn(read);
        thread.map_err(|error| format!("cannot start a thread for standard input: {error}"))?;
        Ok(Keyboard { lines, is_over: false, ends_at: None })
    }

    /// The next line, where so many messages have no answer yet; none: not now, or none any more.
    pub(super) fn line(&mut self, unanswered: usize) -> Option<String> {
        if self.is_over || unanswered >= UNANSWERED_MAX {
            return None;
        }
        match self.lines.try_recv() {
            Ok(line) if line.trim_end() != "/quit" => {
                Some(line.trim_end_matches(['\r', '\n']).to_owned())
            }
            Ok(_) | Err(TryRecvError::Disconnected) => {
                self.is_over = true;
                None
            }
            Err(TryRecvError::Empty) => None,
        }
    }

    /// Whether all is over: nothing more is typed, and the last answers have come and nothing else
    /// does, or they were waited for long enough.
    pub(super) fn is_done(&mut self, unanswered: usize, is_quiet: bool) -> bool {
        if !self.is_over {
            return false;
        }
        let now = client::now();
        let until = *self.ends_at.get_or_insert(now.after(ANSWER_TIME));
        unanswered == 0 && is_quiet || now.mono >= until
    }
}

/// Whether every message was answered.
pub(super) fn all_answered(unanswered: usize) -> Result<(), Failure> {
    match unanswered {
        0 => Ok(()),
        count => Err(format!("{count} messages were not acknowledged").into()),
    }
}
