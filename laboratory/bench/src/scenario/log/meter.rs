//! CPU of the own process and thread, and when the process is at rest.
//!
//! User and system time together, as getrusage has it, in nanoseconds by the kernel's CPU clocks;
//! ended threads are in it. A log leaves work for later (flushes, checkpoints), which belongs to
//! the appends that made it: whoever measures waits for rest first.

use crate::clock;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The process is at rest when it uses less in [`LOOK`].
const REST: Duration = Duration::from_millis(1);
const LOOK: Duration = Duration::from_millis(25);
/// Longest wait.
const PATIENCE: Duration = Duration::from_secs(4);

/// CPU time of this process since it began, all threads.
pub fn process() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// CPU time of this thread since it began.
pub fn thread() -> Duration {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Waits until the process is at rest, but not for ever.
pub fn rest() {
    let began = clock::now();
    let mut quiet = 0;
    while quiet < 2 && clock::since(began) < PATIENCE {
        let before = process();
        std::thread::sleep(LOOK);
        quiet = if process() - before < REST { quiet + 1 } else { 0 };
    }
}

/// CPU of everyone in this process but the thread that measures.
pub struct Others {
    process: Duration,
    thread: Duration,
}

impl Others {
    /// Begins to measure.
    pub fn begin() -> Others {
        Others { process: process(), thread: thread() }
    }

    /// CPU time that the others have used since.
    pub fn used(&self) -> Duration {
        (process() - self.process).saturating_sub(thread() - self.thread)
    }
}
