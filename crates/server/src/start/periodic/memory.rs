//! Memory gauge: how much the process uses, and what is said of it.
//!
//! The gauge is read again before the free memory can be used up: four times a second, or as seldom
//! as once where there are gigabytes, for each look wakes a processor that has nothing else to do.
//!
//! The allocator keeps pages that nothing is in any more for a second, and gives them back when a
//! thread frees a page after that. A server that has become quiet, or turns everybody away, frees
//! none: so while it is not calm a look begins by having them given back, as do turns of shards
//! (each thread has pages of its own). Judged is what is left.
//!
//! The limit is `limits.memory_max`, or three quarters of the memory of the machine or its control
//! group. The use is resident memory without files, which the kernel takes back when it wants. The
//! gauge decides nothing: levels are the model's.

use super::{PeriodicTask, to_next_second};
use model::pressure::{Gauge, Pressure};
use model::{event, tell};
use net::shard::Census;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time between two looks at least, milliseconds.
const LOOK_MS_MIN: u64 = 250;

/// Bytes that may come to be used in a millisecond: what two cores clear of fresh pages.
const GROWTH_A_MS: u64 = 4 << 20;

/// A page of memory: what `statm` counts in. Every machine that we run on has this size, but for
/// some of ARM, where more is used than is seen and the kernel's own bound is the answer.
const PAGE_BYTES: u64 = 4_096;

/// Looks and tells by `gauge` and `census`; `bytes_max`, which may change, is 0: of what there is.
pub(in crate::start) fn task(
    bytes_max: Arc<AtomicU64>,
    gauge: Arc<Gauge>,
    census: Arc<Census>,
) -> Option<PeriodicTask> {
    let all = given();
    let most = move || match (bytes_max.load(Ordering::Relaxed), all) {
        (0, all) => all.map(|all| all / 4 * 3),
        (bytes_max, _) => Some(bytes_max),
    };
    if most().is_none() {
        tell!(event::MEMORY_UNKNOWN);
    }
    let mut watch = Watch { most: 0, gauge, census };
    Some(Box::new(move || {
        // Without a limit nothing is short, whatever is used.
        let most = most().unwrap_or(u64::MAX);
        if most != std::mem::replace(&mut watch.most, most) && most < u64::MAX {
            tell!(event::MEMORY_WATCHED, memory_max = most);
        }
        if watch.gauge.now() > Pressure::Calm {
            give_back();
        }
        let bytes = used();
        if let Some(bytes) = bytes {
            watch.look(bytes);
        }
        let pause = pause(most.saturating_sub(bytes.unwrap_or(most)));
        pause.unwrap_or_else(to_next_second)
    }))
}

/// Time to the next look, while so many bytes are left; `None`: the next full second is soon
/// enough.
fn pause(left: u64) -> Option<Duration> {
    let ms = (left / GROWTH_A_MS).max(LOOK_MS_MIN);
    Some(Duration::from_millis(ms)).filter(|_| ms < 1_000)
}

struct Watch {
    most: u64,
    gauge: Arc<Gauge>,
    census: Arc<Census>,
}

impl Watch {
    /// Judges the memory in use, in bytes.
    fn look(&self, bytes: u64) {
        let (before, memory_max) = (self.gauge.now(), self.most);
        let level = before.after(bytes, memory_max);
        self.gauge.set(level);
        self.census.press(level >= Pressure::Connections);
        let (name, means) = (level.name(), level.meaning());
        if level > before {
            tell!(event::MEMORY_SHORT, bytes, memory_max, level = name, means);
        } else if level < before {
            tell!(event::MEMORY_EASED, bytes, memory_max, level = name, means);
        }
    }
}

/// Bytes of a block that has a page of its own.
const OWN_PAGE_BYTES: usize = 8 << 20;

/// Has the allocator give back to the system what nothing is in: it looks for that whenever a page
/// is freed. Nothing is written to the block, so it costs no memory.
pub(in crate::start) fn give_back() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(OWN_PAGE_BYTES)));
}

/// Bytes that are resident and no file's.
fn used() -> Option<u64> {
    used_of(&fs::read_to_string("/proc/self/statm").ok()?)
}

/// proc(5): the second number is what is resident, the third what of it is shared.
fn used_of(statm: &str) -> Option<u64> {
    let mut numbers = statm.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(resident.saturating_sub(shared) * PAGE_BYTES)
}

/// Bytes that the machine has, or as many as its control group gives.
fn given() -> Option<u64> {
    let machine = machine_of(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = places_of(&groups).into_iter().filter_map(|place| fs::read_to_string(place).ok());
    // "max" is no number, and no bound.
    let limits = limits.filter_map(|text| text.trim().parse::<u64>().ok());
    Some(limits.fold(machine, u64::min))
}

fn machine_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1_024)
}

/// cgroups(7): the files that may bound the process, in its own group and those above it. In a
/// container the group's own folder may be the root of what is seen.
fn places_of(groups: &str) -> Vec<String> {
    let mut places = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            places.push(format!("{root}{path}/{file}"));
            let Some((above, _)) = path.rsplit_once('/') else { break };
            path = above;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_resident_and_no_files() {
        assert_eq!(used_of("90000 1000 400 1 0 2 0"), Some(600 * PAGE_BYTES));
        assert_eq!(used_of("90000 1 400"), Some(0));
        assert_eq!((used_of(""), used_of("1 2"), used_of("1 x 2")), (None, None, None));
        assert!(used().is_some_and(|bytes| bytes > 0), "this process uses some");
    }

    #[test]
    fn what_is_given_is_the_machines_or_the_groups() {
        let text = "MemFree: 1 kB\nMemTotal:       16384 kB\n";
        assert_eq!(machine_of(text), Some(16 * 1024 * 1024));
        assert_eq!(machine_of("MemFree: 1 kB"), None);
        assert_eq!(
            places_of("0::/a.slice/b.service\n"),
            [
                "/sys/fs/cgroup/a.slice/b.service/memory.max",
                "/sys/fs/cgroup/a.slice/memory.max",
                "/sys/fs/cgroup/memory.max",
            ]
        );
        assert_eq!(
            places_of("4:cpu,memory:/x\n3:cpu:/x\nbroken\n"),
            [
                "/sys/fs/cgroup/memory/x/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            ]
        );
        assert!(given().is_some());
    }

    #[test]
    fn shards_are_told_what_was_seen() {
        let (gauge, census) = (Arc::new(Gauge::default()), Arc::new(Census::default()));
        let watch = Watch { most: 1_000, gauge: gauge.clone(), census };
        for (bytes, level) in [
            (1, Pressure::Calm),
            (930, Pressure::Qos0),
            (999, Pressure::Stores),
            (9, Pressure::Calm),
        ] {
            watch.look(bytes);
            assert_eq!(gauge.now(), level);
        }
        let bytes_max = Arc::new(AtomicU64::new(1));
        let mut task = task(bytes_max.clone(), gauge.clone(), Arc::default()).expect("a task");
        assert_eq!((Some(task()), gauge.now()), (pause(0), Pressure::Stores));
        bytes_max.store(1 << 50, Ordering::Relaxed);
        task();
        assert_eq!(gauge.now(), Pressure::Calm, "a reload gave it more");
    }

    #[test]
    fn it_is_looked_at_before_what_is_left_can_be_used() {
        let ms = |left: u64| pause(left).map(|pause| pause.as_millis());
        assert_eq!((ms(0), ms(1 << 30), ms(2 << 30)), (Some(250), Some(256), Some(512)));
        assert_eq!(ms(64 << 30), None);
    }
}
