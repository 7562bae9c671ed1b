//! A process's own memory: `/proc/PID/smaps_rollup`.
//!
//! Private_Dirty is what the process alone has written: the user memory of the stored figures. It
//! leaves out code and what is shared. Kernel memory is no part of it (`slab`).

use std::io;

/// A process's memory, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Resident.
    pub rss: u64,
    /// Resident, shared pages divided among those who share them.
    pub pss: u64,
    /// Written by this process and shared with none.
    pub private_dirty: u64,
}

impl Memory {
    /// Reads the memory of process `pid` now.
    pub fn of(pid: u32) -> io::Result<Memory> {
        parse(&std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?)
            .ok_or_else(|| io::Error::other("smaps_rollup lacks Rss, Pss or Private_Dirty"))
    }
}

/// Reads the text of `smaps_rollup`; `None` if a figure is missing.
fn parse(text: &str) -> Option<Memory> {
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kilobytes * 1024)
    };
    Some(Memory { rss: bytes("Rss")?, pss: bytes("Pss")?, private_dirty: bytes("Private_Dirty")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "563d921bb000-7ffdfbb0e000 ---p 00000000 00:00 0    [rollup]\n\
        Rss:                1760 kB\nPss:                 355 kB\nPss_Dirty:           116 kB\n\
        Shared_Dirty:          9 kB\nPrivate_Clean:        44 kB\nPrivate_Dirty:       116 kB\n";

    #[test]
    fn names_are_matched_whole() {
        let memory = Memory { rss: 1760 * 1024, pss: 355 * 1024, private_dirty: 116 * 1024 };
        assert_eq!(parse(TEXT), Some(memory));
    }

    #[test]
    fn a_missing_or_odd_figure_is_no_figure() {
        assert_eq!(parse(""), None);
        assert_eq!(parse(&TEXT.replace("Private_Dirty:", "Private_Wet:")), None);
        assert_eq!(parse(&TEXT.replace("1760 kB", "many kB")), None);
        assert_eq!(parse(&TEXT.replace("1760 kB", "1760")), None);
    }
}
