//! The kernel's memory for sockets: `/proc/slabinfo`, cache by cache.
//!
//! MemAvailable is useless on a shared machine; objects of a cache are exact. A cache counts only
//! if its growth is a line over the connections ([`moving`]), which leaves out what other
//! programs do meanwhile. Both ends of a loopback connection are in here: whoever wants one end
//! subtracts a reference taken in the same run (`floor hold`). Only root may read it.

use super::slope::{self, Slope};
use std::collections::BTreeMap;
use std::io;

/// Bytes of active objects by cache.
pub type Slabs = BTreeMap<String, u64>;

/// A cache whose growth explains less of itself than this by connections does not count.
const R2_MIN: f64 = 0.98;
/// Nor does one that grows by less than this, bytes a connection.
const BYTES_MIN: f64 = 4.0;

/// What the kernel holds now; `None` when it may not be read.
pub fn read() -> io::Result<Option<Slabs>> {
    match std::fs::read_to_string("/proc/slabinfo") {
        Ok(text) => Ok(Some(parse(&text))),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads version 2 of slabinfo: `name active_objs num_objs objsize ...`. Other lines are left out.
fn parse(text: &str) -> Slabs {
    let cache = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?.to_owned();
        let objects: u64 = words.next()?.parse().ok()?;
        let bytes: u64 = words.nth(1)?.parse().ok()?;
        Some((name, objects * bytes))
    };
    text.lines().filter_map(cache).collect()
}

/// The caches that grow with the connections: `steps` are connection counts and what was held.
pub fn moving(steps: &[(u32, Slabs)]) -> BTreeMap<String, Slope> {
    let Some((_, first)) = steps.first() else { return BTreeMap::new() };
    let line = |name: &String| {
        let bytes = |slabs: &Slabs| slabs.get(name).copied().unwrap_or(0) as f64;
        let points: Vec<(f64, f64)> =
            steps.iter().map(|(count, slabs)| (f64::from(*count), bytes(slabs))).collect();
        (name.clone(), slope::through(&points))
    };
    first.keys().map(line).filter(|(_, it)| it.r2 >= R2_MIN && it.each >= BYTES_MIN).collect()
}

/// Bytes a connection of all caches together.
pub fn total(moving: &BTreeMap<String, Slope>) -> f64 {
    moving.values().map(|slope| slope.each).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "slabinfo - version: 2.1\n\
        # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>\n\
        TCP                  120    130   2368   13    8 : tunables    0    0    0 : slabdata\n\
        eventpoll_epi         10     32    128   32    1 : tunables    0    0    0 : slabdata\n";

    #[test]
    fn active_objects_count_and_heads_do_not() {
        let slabs = parse(TEXT);
        assert_eq!(slabs.get("TCP"), Some(&(120 * 2368)));
        assert_eq!(slabs.get("eventpoll_epi"), Some(&1280));
        assert_eq!(slabs.len(), 2);
    }

    #[test]
    fn only_what_grows_with_the_connections_counts() {
        let step = |count: u32, noise: u64| {
            let of = |name: &str, bytes: u64| (name.to_owned(), bytes);
            let sockets = u64::from(count) * 2368;
            (count, Slabs::from([of("TCP", sockets), of("dentry", noise), of("bio", 9)]))
        };
        let steps = [step(3000, 70_000_000), step(6000, 1_000), step(9000, 50_000_000)];
        let moving = moving(&steps);
        assert_eq!(moving.keys().collect::<Vec<_>>(), ["TCP"]);
        assert!((total(&moving) - 2368.0).abs() < 1e-6);
    }
}
