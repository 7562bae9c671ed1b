//! CPU time of a process by the scheduler's accounting: `/proc/PID/task/*/schedstat`.
//!
//! Nanoseconds, user and system together, of all threads: rates on a shared machine say little,
//! CPU an operation says what an operation costs. A thread that ended takes its time with it, so
//! only programs whose threads stay are measured. The kernel's work on loopback (the receiver's
//! softirq) is charged to the sender, on both sides of every ratio.

use std::collections::BTreeMap;
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

/// Processor time of a thread.
#[derive(Clone, Default, Debug)]
pub struct Slices {
    /// Its name.
    pub name: String,
    /// CPU time.
    pub used: Duration,
    /// How often it was put on a core.
    pub count: u64,
}

/// The threads of process `pid`, by their numbers.
pub fn threads(pid: u32) -> io::Result<BTreeMap<String, Slices>> {
    let mut all = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?;
        let read = |file: &str| match std::fs::read_to_string(task.path().join(file)) {
            Err(error) if has_ended(&error) => Ok(None), // just now
            text => text.map(Some),
        };
        let (Some(name), Some(text)) = (read("comm")?, read("schedstat")?) else { continue };
        let odd = || io::Error::other(format!("schedstat says {text:?}"));
        let used = Duration::from_nanos(parse(&text).ok_or_else(odd)?);
        let count = text.split_ascii_whitespace().nth(2).and_then(|it| it.parse().ok());
        let slices = Slices { name: name.trim_end().to_owned(), used, count: count.unwrap_or(0) };
        all.insert(task.file_name().to_string_lossy().into_owned(), slices);
    }
    Ok(all)
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
    fn a_thread_is_known_by_its_name_and_how_often_it_ran() {
        let (told, ready) = std::sync::mpsc::sync_channel(1);
        let (go, wait) = std::sync::mpsc::sync_channel::<()>(1);
        let named = std::thread::Builder::new().name("one-of-ours".into());
        let thread = named.spawn(move || {
            told.send(()).expect("somebody waits");
            let _ = wait.recv();
        });
        ready.recv().expect("it is there");
        let all = threads(std::process::id()).expect("our own accounting can be read");
        let found = all.values().find(|slices| slices.name == "one-of-ours").expect("it is there");
        assert!(found.count > 0);
        drop(go);
        thread.expect("it began").join().expect("it ends");
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
