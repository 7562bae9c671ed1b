//! The control group that limits a process: where it is, what it may have and what it has.
//!
//! Both hierarchies are known, the unified one and the older ones, for a machine may have both at
//! once. A limit may stand at any group above; the lowest one holds, and what is counted against it
//! is counted there.

use crate::columns as at;
use crate::lines;
use crate::place::KernelFiles;
use lab::series::Reading;

/// Limits as large as this are none: the older hierarchy writes the largest number of pages.
const UNLIMITED: u64 = 1 << 62;

/// Folders of the groups that hold a process's memory, processor time and threads.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Group {
    memory: Option<Folder>,
    cpu: Option<Folder>,
    pids: Option<Folder>,
}

/// A group's folder, and of which hierarchy it is.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Folder {
    /// Where the hierarchy begins.
    mount: String,
    /// The group below it: empty, or `/a/b`.
    path: String,
    unified: bool,
}

impl Group {
    /// The groups of a process, or of this one.
    pub(crate) fn find(place: &KernelFiles, pid: Option<u32>) -> Group {
        let who = pid.map_or("self".to_owned(), |pid| pid.to_string());
        let text = place.text(&format!("proc/{who}/cgroup")).unwrap_or_default();
        let of = |controller| {
            Folder::find(place, &text, controller).map(|folder| folder.limiting(place, controller))
        };
        Group { memory: of("memory"), cpu: of("cpu"), pids: of("pids") }
    }

    /// Bytes of memory it may have; `None`: no limit.
    pub(crate) fn memory_max(&self, place: &KernelFiles) -> Option<u64> {
        self.memory.as_ref()?.limit(place, "memory")
    }

    /// Bytes of memory it has and keeps. Pages of files, which fill a group to its limit where much
    /// is read and written, are given back when memory is short, and do not count.
    pub(crate) fn memory(&self, place: &KernelFiles) -> Option<u64> {
        let folder = self.memory.as_ref()?;
        let all = folder.number(place, "memory.current", "memory.usage_in_bytes")?;
        let stat = folder.text(place, "memory.stat").unwrap_or_default();
        // The older hierarchy counts the groups below apart.
        let of = |name: &str| {
            let below = lines::keyed(&stat, &format!("total_{name}"));
            below.or_else(|| lines::keyed(&stat, name)).unwrap_or(0)
        };
        Some(all.saturating_sub(of("inactive_file") + of("active_file")))
    }

    /// Threads it may have; `None`: no limit.
    pub(crate) fn pids_max(&self, place: &KernelFiles) -> Option<u64> {
        self.pids.as_ref()?.limit(place, "pids")
    }

    /// Where its limit of memory stands, as a path; `None`: there is no such group.
    pub(crate) fn memory_file(&self) -> Option<String> {
        let folder = self.memory.as_ref()?;
        let file = if folder.unified { "memory.max" } else { "memory.limit_in_bytes" };
        Some(format!("/{}/{file}", folder.name()))
    }

    /// Adds what it has and may have.
    pub(super) fn read(&self, place: &KernelFiles, out: &mut Reading) {
        let mut set = |column, value: Option<f64>| {
            value.inspect(|value| out.set(column, *value));
        };
        let plain = |value: Option<u64>| value.map(|value| value as f64);
        if let Some(folder) = &self.memory {
            set(at::CGROUP_MEMORY, plain(self.memory(place)));
            set(at::CGROUP_MEMORY_MAX, plain(self.memory_max(place)));
            let stat = folder.text(place, "memory.stat").unwrap_or_default();
            let sock = folder.number(place, "", "memory.kmem.tcp.usage_in_bytes");
            set(at::CGROUP_SOCKETS, plain(lines::keyed(&stat, "sock").or(sock)));
            let older = folder.number(place, "", "memory.kmem.usage_in_bytes");
            let kernel = lines::keyed(&stat, "kernel").or_else(|| lines::keyed(&stat, "slab"));
            set(at::CGROUP_KERNEL, plain(kernel.or(older)));
            let file = if folder.unified { "memory.events" } else { "memory.oom_control" };
            let events = folder.text(place, file).unwrap_or_default();
            set(at::CGROUP_OOM, plain(lines::keyed(&events, "oom_kill")));
        }
        if let Some(folder) = &self.cpu {
            set(at::CGROUP_CPU_MAX, folder.cores_max(place));
            let stat = folder.text(place, "cpu.stat").unwrap_or_default();
            let us = lines::keyed(&stat, "throttled_usec");
            let us = us.or_else(|| Some(lines::keyed(&stat, "throttled_time")? / 1_000));
            set(at::CGROUP_THROTTLED, plain(lines::keyed(&stat, "nr_throttled")));
            set(at::CGROUP_THROTTLED_US, plain(us));
        }
        if let Some(folder) = &self.pids {
            set(at::CGROUP_PIDS, plain(folder.number(place, "pids.current", "pids.current")));
            set(at::CGROUP_PIDS_MAX, plain(self.pids_max(place)));
        }
    }
}

impl Folder {
    /// The folder of a controller: `text` is /proc/PID/cgroup.
    fn find(place: &KernelFiles, text: &str, controller: &str) -> Option<Folder> {
        let mounted = |mount: &str, path: &str, unified| {
            let path = path.trim_end_matches('/');
            // Without a namespace of its own, a container sees its host's path and not its folder.
            let path = if place.has(&format!("{mount}{path}")) { path } else { "" };
            let (mount, path) = (mount.to_owned(), path.to_owned());
            place.has(&mount).then_some(Folder { mount, path, unified })
        };
        let older = text.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == controller).then_some(path)
        });
        if let Some(path) = older {
            return mounted(&format!("sys/fs/cgroup/{controller}"), path, false);
        }
        let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
        let whole = place.has("sys/fs/cgroup/cgroup.controllers");
        mounted(if whole { "sys/fs/cgroup" } else { "sys/fs/cgroup/unified" }, path, true)
    }

    /// This group, or the one above it whose limit is the lowest.
    fn limiting(self, place: &KernelFiles, controller: &str) -> Folder {
        let mut limiting = (self.limit(place, controller), self.clone());
        let mut above = self;
        while let Some((path, _)) = above.path.rsplit_once('/') {
            above.path = path.to_owned();
            let limit = above.limit(place, controller);
            let lower = limit.is_some_and(|limit| limiting.0.is_none_or(|least| limit < least));
            if lower {
                limiting = (limit, above.clone());
            }
        }
        limiting.1
    }

    /// The group's own limit; `None`: no limit. Processor time is in microcores.
    fn limit(&self, place: &KernelFiles, controller: &str) -> Option<u64> {
        let limit = match controller {
            "memory" => self.number(place, "memory.max", "memory.limit_in_bytes"),
            "pids" => self.number(place, "pids.max", "pids.max"),
            _ => self.cores_max(place).map(|cores| (cores * 1e6) as u64),
        };
        limit.filter(|limit| *limit < UNLIMITED)
    }

    fn cores_max(&self, place: &KernelFiles) -> Option<f64> {
        let (quota, period) = if self.unified {
            let text = self.text(place, "cpu.max")?;
            lines::nth(&text, 0).zip(lines::nth(&text, 1))?
        } else {
            // No quota is written as -1, which is no number here.
            let of = |file| self.number(place, "", file);
            of("cpu.cfs_quota_us").zip(of("cpu.cfs_period_us"))?
        };
        (period > 0).then(|| quota as f64 / period as f64)
    }

    /// A number in the unified or in the older hierarchy's file; no name: it has none.
    fn number(&self, place: &KernelFiles, unified: &str, older: &str) -> Option<u64> {
        let file = if self.unified { unified } else { older };
        if file.is_empty() { None } else { self.text(place, file)?.trim().parse().ok() }
    }

    fn text(&self, place: &KernelFiles, file: &str) -> Option<String> {
        place.text(&format!("{}/{file}", self.name()))
    }

    fn name(&self) -> String {
        format!("{}{}", self.mount, self.path)
    }
}
