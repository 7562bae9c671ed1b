//! Readings for measurements on demand: the process's memory and the clock.

/// Resident memory of this process, bytes.
pub(crate) fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).expect("the second number");
    pages.parse::<usize>().expect("a number") * 4_096
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
}
