//! CPU time of a process by the scheduler's accounting: `/proc/PID/task/*/schedstat`.
//!
//! Nanoseconds, user and system together, of all threads: rates on a shared machine say little,
//! CPU an operation says what an operation costs. A thread that ended takes its time with it, so
//! only programs whose threads stay are measured. The kernel's work on loopback (the receiver's
//! softirq) is charged to the sender, on both sides of every ratio.

use std::io;
use std::time::Duration;

/// CPU time that process `pid` has used since it began.
pub fn used(pid: u32) -> io::Result<Duration> {
    let mut nanos = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        match std::fs::read_to_string(task?.path().join("schedstat")) {
            Ok(text) => {
                let odd = || io::Error::other(format!("schedstat says {text:?}"));
                nanos += parse(&text).ok_or_else(odd)?;
            }
            Err(error) if has_ended(&error) => {} // just now
            Err(error) => return Err(error),
        }
    }
    Ok(Duration::from_nanos(nanos))
}

/// Whether a thread's file is gone, before it was opened or since.
fn has_ended(error: &io::Error) -> bool {
    let no_such_process = Some(rustix::io::Errno::SRCH.raw_os_error());
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == no_such_process
}

/// Nanoseconds on a CPU: the first of three numbers.
fn parse(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_is_the_time() {
        assert_eq!(parse("957058 12 3\n"), Some(957_058));
        assert_eq!(parse(""), None);
        assert_eq!(parse("many 1 2"), None);
    }

    #[test]
    fn work_shows() {
        let before = used(std::process::id()).expect("our own accounting can be read");
        let mut sum = 0u64;
        while used(std::process::id()).expect("as before") == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
