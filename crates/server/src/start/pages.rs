//! Size of the pages that the kernel gives this process memory in.
//!
//! A program of ours calls this first, so that it ships as it was measured: a kernel that gives
//! huge pages to everybody (`always`, as Debian has it) would give them to it.

use rustix::thread;

/// Sets whether memory is in huge pages where the kernel likes, or in small ones only. Programs
/// that this one starts inherit it.
pub fn let_be_huge(may: bool) {
    // A kernel that does not know the call has none.
    let _ = thread::disable_transparent_huge_pages(!may);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_was_asked_for() {
        let enabled = || {
            let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
            let line = status.lines().find(|line| line.starts_with("THP_enabled:"));
            line.and_then(|line| line.split_ascii_whitespace().nth(1)).map(str::to_owned)
        };
        let known = enabled(); // a kernel without huge pages has no such line
        let_be_huge(false);
        assert_eq!(enabled(), known.as_ref().map(|_| "0".to_owned()));
        let_be_huge(true);
        assert_eq!(enabled(), known.map(|_| "1".to_owned()));
    }
}
