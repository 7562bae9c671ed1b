//! Figures of this process from the system: memory, CPU time, threads.
//!
//! This module reads /proc/self and knows nothing of the server. Invariant: a figure that cannot be
//! read is absent, never zero.

use std::collections::BTreeMap;
use std::fs;

/// Milliseconds of a tick of /proc (`USER_HZ`, which is 100 wherever Linux runs; proc(5)).
const TICK_MS: u64 = 10;

/// Threads that are read. The others are not told apart.
const THREADS_MAX: usize = 256;

/// Bytes of the process in RAM: `VmRSS` of /proc/self/status.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Processor time that the process has used, of all its threads, also those that ended.
pub(crate) fn cpu_ms() -> Option<u64> {
    ticks(&fs::read_to_string("/proc/self/stat").ok()?).map(|ticks| ticks * TICK_MS)
}

/// Processor time of the threads that there are, by their names.
pub(crate) fn threads_cpu_ms() -> BTreeMap<String, u64> {
    let mut by_name = BTreeMap::new();
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return by_name };
    for thread in threads.flatten().take(THREADS_MAX) {
        // One that ends meanwhile is none.
        let Ok(stat) = fs::read_to_string(thread.path().join("stat")) else { continue };
        if let (Some(name), Some(ticks)) = (name(&stat), ticks(&stat)) {
            *by_name.entry(name.to_owned()).or_default() += ticks * TICK_MS;
        }
    }
    by_name
}

/// The name stands in parentheses and may have any of its own.
fn name(stat: &str) -> Option<&str> {
    let (from, to) = (stat.find('(')?, stat.rfind(')')?);
    stat.get(from + 1..to)
}

/// `utime` and `stime`, the 14th and 15th field.
fn ticks(stat: &str) -> Option<u64> {
    let behind = stat.get(stat.rfind(')')? + 1..)?;
    let mut fields = behind.split_ascii_whitespace().skip(11);
    let mut field = || fields.next()?.parse::<u64>().ok();
    Some(field()? + field()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_is_read_whatever_the_name_has_in_it() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 310 21 13 14";
        assert_eq!((name(stat), ticks(stat)), (Some("a) b (c"), Some(331)));
        for broken in ["", "42 a S", "42 (a)", "42 (a) S 1 2 3 4 5 6 7 8 9 10 x 21"] {
            assert_eq!(ticks(broken), None, "{broken}");
        }
    }

    #[test]
    fn this_process_has_memory_and_threads() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 64 * 1024));
        assert!(cpu_ms().is_some());
        assert!(!threads_cpu_ms().is_empty());
    }
}
