//! Memory of the machine: /proc/meminfo, /proc/vmstat, and its open files.

use crate::columns as at;
use crate::lines;
use crate::place::KernelFiles;
use lab::series::Reading;

/// Adds them.
pub(super) fn read(place: &KernelFiles, out: &mut Reading) {
    let info = place.text("proc/meminfo").unwrap_or_default();
    let mut set = |column, value: Option<u64>| {
        value.inspect(|value| out.set(column, *value as f64));
    };
    let (total, available) = (kib(&info, "MemTotal"), kib(&info, "MemAvailable"));
    set(at::MEMORY_TOTAL, total);
    set(at::MEMORY_AVAILABLE, available);
    set(at::MEMORY_USED, total.zip(available).map(|(all, free)| all.saturating_sub(free)));
    set(at::MEMORY_ANON, kib(&info, "AnonPages"));
    set(at::MEMORY_CACHED, kib(&info, "Cached"));
    set(at::MEMORY_SLAB, kib(&info, "Slab"));
    set(at::MEMORY_SLAB_KEPT, kib(&info, "SUnreclaim"));
    let swap = kib(&info, "SwapTotal").zip(kib(&info, "SwapFree"));
    set(at::MEMORY_SWAP, swap.map(|(all, free)| all.saturating_sub(free)));
    let vm = place.text("proc/vmstat").unwrap_or_default();
    set(at::MEMORY_OOM, lines::keyed(&vm, "oom_kill"));
    set(at::MEMORY_FAULTS, lines::keyed(&vm, "pgmajfault"));
    let files = place.text("proc/sys/fs/file-nr").unwrap_or_default();
    set(at::FILES_OPEN, lines::nth(&files, 0));
    set(at::FILES_MAX, lines::nth(&files, 2));
    set(at::WATCHES_MAX, place.number("proc/sys/fs/epoll/max_user_watches"));
}

/// A figure of /proc/meminfo or /proc/PID/status in bytes.
pub(crate) fn kib(text: &str, key: &str) -> Option<u64> {
    lines::keyed(text, key)?.checked_mul(1_024)
}
