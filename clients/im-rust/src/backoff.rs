//! When to connect again: exponential back-off with full jitter, after the server's hint.

/// The span of the first wait, milliseconds; it doubles with each failure.
const FIRST_MS: u64 = 1_000;
const LONGEST_MS: u64 = 60_000;
/// Length of a session, milliseconds, after which the next wait is short again.
const GOOD_SESSION_MS: u64 = 10_000;

/// The waits of one client, milliseconds.
pub(crate) struct Backoff {
    span_ms: u64,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { span_ms: FIRST_MS }
    }
}

impl Backoff {
    /// A session has ended that lasted so long.
    pub fn lasted(&mut self, session_ms: u64) {
        if session_ms >= GOOD_SESSION_MS {
            self.span_ms = FIRST_MS;
        }
    }

    /// How long to wait now; `random` is from 0 up to 1. The jitter is added to the hint, so that
    /// clients that were sent away together do not come back together.
    pub fn next(&mut self, random: f64, hint_ms: u64) -> u64 {
        let wait = (random * self.span_ms as f64) as u64;
        self.span_ms = (self.span_ms * 2).min(LONGEST_MS);
        hint_ms + wait
    }
}
