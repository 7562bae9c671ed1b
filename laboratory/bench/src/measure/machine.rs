//! Circumstances of a result: machine, load, and the source's commit.
//!
//! A figure without them cannot be compared. Nothing is judged here.

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Processor, cores, kernel and memory.
pub fn describe() -> Value {
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let memory = read("/proc/meminfo");
    let memory_kb: Option<u64> = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    json!({
        "cpu": model.map_or("unknown", |(_, name)| name.trim()),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "memory_mb": memory_kb.unwrap_or(0) / 1024,
        "descriptors": rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
        "huge_pages": huge_pages(),
    })
}

/// Descriptors that a process may have here at most.
pub fn descriptors() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.maximum.or(limit.current).unwrap_or(u64::MAX)
}

/// Programs to which the kernel gives huge pages: `always` all, `madvise` those that ask, `never`
/// none.
pub fn huge_pages() -> String {
    let text = read("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or("unknown", |(chosen, _)| chosen).to_owned()
}

/// Load average over one minute, as it is printed.
pub fn load() -> String {
    read("/proc/loadavg").split(' ').next().unwrap_or("unknown").to_owned()
}

/// The commit that was measured, with `-dirty` when files differ from it.
pub fn commit(root: &Path) -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".into() };
    // What this run has just written of results changes nothing that is measured.
    let changed =
        git(&["status", "--porcelain", "--", ".", ":!bench/results", ":!docs/capacity.md"]);
    let dirty = changed.is_none_or(|files| !files.is_empty());
    if dirty { commit + "-dirty" } else { commit }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
