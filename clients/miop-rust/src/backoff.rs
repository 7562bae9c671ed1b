//! When to connect again: exponential back-off with full jitter, never before the server's hint.

/// A session of at least so long was a good one: the next wait is short again. Milliseconds.
const GOOD_SESSION_MS: u64 = 10_000;
/// A server cannot send a device away for longer than this.
const HINT_MS_MAX: u64 = 3_600_000;

/// The waits of one client, milliseconds.
pub(crate) struct Backoff {
    first_ms: u64,
    longest_ms: u64,
    span_ms: u64,
}

impl Backoff {
    pub fn new(first_ms: u64, longest_ms: u64) -> Backoff {
        Backoff { first_ms, longest_ms, span_ms: first_ms }
    }

    /// A session has ended that lasted so long.
    pub fn lasted(&mut self, session_ms: u64) {
        if session_ms >= GOOD_SESSION_MS {
            self.span_ms = self.first_ms;
        }
    }

    /// How long to wait now; `random` is from 0 up to 1.
    pub fn next(&mut self, random: f64, hint_ms: u64) -> u64 {
        let wait = (random * self.span_ms as f64) as u64;
        self.span_ms = (self.span_ms * 2).min(self.longest_ms);
        wait.max(hint_ms.min(HINT_MS_MAX))
    }
}
