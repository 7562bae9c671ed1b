//! CPU time that a thread of the tester spent, and whether it had enough.
//!
//! The kernel's scheduler says how long a thread ran and how long it wanted to run and was not let
//! (`/proc/thread-self/schedstat`). A thread that was never idle measured itself.

use std::time::Duration;

/// Time that one thread spent since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadUse {
    /// Time since it began.
    pub elapsed: Duration,
    /// Processor time.
    pub ran: Duration,
    /// Time in which it wanted a processor and had none.
    pub waited: Duration,
    /// Longest turn of its loop since the last look, microseconds.
    pub turn_us_max: u64,
}

/// Share of the time above which a thread counts as saturated.
pub const SATURATED: f64 = 0.9;

impl ThreadUse {
    /// Share of the time in which it ran or wanted to.
    pub fn busy(&self) -> f64 {
        if self.elapsed.is_zero() {
            return 0.0;
        }
        (self.ran + self.waited).as_secs_f64() / self.elapsed.as_secs_f64()
    }

    /// Whether it was too busy for its figures to be the other side's alone.
    pub fn is_saturated(&self) -> bool {
        self.elapsed >= Duration::from_millis(500) && self.busy() > SATURATED
    }
}

/// Processor and waiting time of the calling thread so far.
pub fn of_this_thread() -> (Duration, Duration) {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    parse(&text)
}

/// Processor time of the process so far.
pub fn of_this_process() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec.try_into().unwrap_or(0), spent.tv_nsec as u32)
}

fn parse(schedstat: &str) -> (Duration, Duration) {
    let mut fields = schedstat.split_ascii_whitespace();
    let mut next = || {
        let nanos = fields.next().and_then(|field| field.parse().ok());
        Duration::from_nanos(nanos.unwrap_or(0))
    };
    (next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_for_a_processor_is_busy() {
        let (ran, waited) = parse("5000000000 4600000000 77\n");
        let elapsed = Duration::from_secs(10);
        let used = ThreadUse { elapsed, ran, waited, turn_us_max: 0 };
        assert!(used.is_saturated(), "{}", used.busy());
        assert!(!ThreadUse { waited: Duration::ZERO, ..used }.is_saturated());
        assert_eq!(parse("garbage"), (Duration::ZERO, Duration::ZERO));
    }
}
