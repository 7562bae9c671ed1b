//! The circuit: whether calls are made, and after which pause they are tried again.
//!
//! Knows no calls. The pause doubles from fault to fault and begins anew only once a write or a
//! later lease went well: a directory that renews leases and refuses writes is left in peace too.

use base::prng::Prng;
use base::time::{Instant, Now};
use model::ports::presence::directory::DirectoryError;
use model::ports::presence::queries::Circuit;
use std::time::Duration;

/// The first pause, milliseconds; a third to a half less by jitter.
const PAUSE_MS_MIN: u64 = 100;
/// The longest.
const PAUSE_MS_MAX: u64 = 5_000;

/// The circuit.
pub struct CircuitBreaker {
    circuit: Circuit,
    failures: u32,
    again_at: Instant,
    fault: DirectoryError,
    last: Option<(String, u64)>,
    prng: Prng,
}

impl CircuitBreaker {
    pub fn new(seed: u64) -> CircuitBreaker {
        CircuitBreaker {
            circuit: Circuit::Closed,
            failures: 0,
            again_at: Instant::default(),
            fault: DirectoryError::Slow,
            last: None,
            prng: Prng::new(seed),
        }
    }

    pub fn circuit(&self) -> Circuit {
        self.circuit
    }

    /// When the next try is, while it is open.
    pub fn again_at(&self) -> Instant {
        self.again_at
    }

    /// Why it is open.
    pub fn fault(&self) -> DirectoryError {
        self.fault.clone()
    }

    /// The last fault in words, and when, Unix milliseconds.
    pub fn last(&self) -> Option<&(String, u64)> {
        self.last.as_ref()
    }

    /// Whether a call may be made. One that is open for long enough becomes half open.
    pub fn tries(&mut self, now: Now) -> bool {
        if self.circuit == Circuit::Open && now.mono >= self.again_at {
            self.circuit = Circuit::HalfOpen;
        }
        self.circuit != Circuit::Open
    }

    /// The lease was renewed.
    pub fn worked(&mut self) {
        if self.circuit == Circuit::Closed {
            self.failures = 0;
        }
        self.circuit = Circuit::Closed;
    }

    /// A write went well.
    pub fn wrote(&mut self) {
        self.failures = 0;
    }

    /// A call failed.
    pub fn failed(&mut self, now: Now, fault: &DirectoryError) {
        let pause_ms = (PAUSE_MS_MIN << self.failures.min(16)).min(PAUSE_MS_MAX);
        let jittered = pause_ms / 2 + self.prng.below(pause_ms / 2 + 1);
        self.failures = self.failures.saturating_add(1);
        self.again_at = now.after(Duration::from_millis(jittered));
        self.circuit = Circuit::Open;
        self.note(now, fault);
    }

    /// A call failed that says nothing of others.
    pub fn note(&mut self, now: Now, fault: &DirectoryError) {
        self.fault = fault.clone();
        self.last = Some((fault.to_string(), now.wall_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now::new(Instant::from_nanos(ms * 1_000_000), ms)
    }

    #[test]
    fn pauses_double_up_to_five_seconds_and_begin_anew_after_a_write() {
        let mut breaker = CircuitBreaker::new(1);
        let pause = |breaker: &mut CircuitBreaker| {
            breaker.failed(at(0), &DirectoryError::Slow);
            breaker.again_at().millis()
        };
        for longest in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
            let pause = pause(&mut breaker);
            assert!((longest / 2..=longest).contains(&pause), "{pause} of {longest}");
        }
        breaker.worked();
        assert!(pause(&mut breaker) >= 2_500, "a lease alone is no proof that writes work");
        breaker.worked();
        breaker.wrote();
        assert!(pause(&mut breaker) <= 100);
    }

    #[test]
    fn it_is_tried_after_the_pause_and_not_before() {
        let mut breaker = CircuitBreaker::new(1);
        breaker.failed(at(0), &DirectoryError::Slow);
        assert!(!breaker.tries(at(49)) && breaker.circuit() == Circuit::Open);
        assert!(breaker.tries(at(100)) && breaker.circuit() == Circuit::HalfOpen);
        breaker.worked();
        assert_eq!(breaker.circuit(), Circuit::Closed);
    }
}
