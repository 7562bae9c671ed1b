//! The kernel's memory for sockets: `/proc/slabinfo`, cache by cache.
//!
//! MemAvailable is useless on a shared machine; objects of a cache are exact. Other programs show
//! in some caches meanwhile (dentries above all): a cache whose growth is no line over the
//! connections is left out, and named. Both ends of a loopback connection are in here: whoever
//! wants one end subtracts a reference taken in the same run (`floor hold`). Only root may read it.

use super::slope::{self, Slope};
use std::collections::BTreeMap;
use std::io;

/// Bytes of active objects by cache.
pub type Slabs = BTreeMap<String, u64>;

/// A cache whose growth is less certain than this is left out, bytes a connection.
const ERROR_MAX: f64 = 8.0;
/// Growth below this is none, bytes a connection.
const BYTES_MIN: f64 = 4.0;
/// Two measurements of one cache that differ by less are alike, bytes a connection: the smallest
/// object that a watched socket has and a bare one has not takes 16.
const DIFFERENCE_MIN: f64 = 12.0;
/// Caches that each end of any connection uses.
const EITHER_END: [&str; 6] =
    ["TCP", "sock_inode_cache", "dentry", "filp", "lsm_inode_cache", "lsm_file_cache"];

/// Reads the kernel's memory now; `None` when it may not be read.
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

/// How the caches grow with the connections.
#[derive(Clone, PartialEq, Debug)]
pub struct Growth {
    /// Bytes a connection, of caches whose growth is a line; zero is a line too.
    pub certain: BTreeMap<String, f64>,
    /// Caches that others use so much that nothing can be said.
    pub noisy: Vec<String>,
}

impl Growth {
    /// The growth over `steps`: connection counts and what was held.
    pub fn over(steps: &[(u32, Slabs)]) -> Growth {
        let (mut certain, mut noisy) = (BTreeMap::new(), Vec::new());
        for name in steps.first().map_or_else(Vec::new, |(_, slabs)| slabs.keys().collect()) {
            let bytes = |slabs: &Slabs| slabs.get(name).copied().unwrap_or(0) as f64;
            let points: Vec<(f64, f64)> =
                steps.iter().map(|(count, slabs)| (f64::from(*count), bytes(slabs))).collect();
            let Slope { each, error, .. } = slope::through(&points);
            if error > ERROR_MAX {
                noisy.push(name.clone());
            } else {
                certain.insert(name.clone(), if each.abs() < BYTES_MIN { 0.0 } else { each });
            }
        }
        Growth { certain, noisy }
    }

    /// Bytes a connection of all caches together.
    pub fn total(&self) -> f64 {
        self.certain.values().sum()
    }

    /// Bytes a connection of one end, where both are alike. The connecting end has its port and a
    /// watched one its poller's entry besides, which are not in here.
    pub fn either_end(&self) -> f64 {
        EITHER_END.iter().filter_map(|name| self.certain.get(*name)).sum::<f64>() / 2.0
    }

    /// Bytes a connection beyond those of `bare`, over the caches that are certain in both.
    pub fn above(&self, bare: &Growth) -> f64 {
        let more = |(name, bytes): (&String, &f64)| Some(bytes - bare.certain.get(name)?);
        self.certain.iter().filter_map(more).filter(|more| more.abs() >= DIFFERENCE_MIN).sum()
    }

    /// The caches that grow, in whole bytes a connection.
    pub fn shown(&self) -> serde_json::Value {
        let grows = self.certain.iter().filter(|(_, bytes)| **bytes != 0.0);
        grows.map(|(name, bytes)| (name.clone(), serde_json::json!(bytes.round()))).collect()
    }
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

    fn growth(watched: u64) -> Growth {
        let step = |count: u32, noise: u64| {
            let of = |name: &str, each: u64| (name.to_owned(), u64::from(count) * each);
            let noisy = ("dentry".to_owned(), noise);
            let quiet = ("bio".to_owned(), 9 + noise % 7);
            (count, Slabs::from([of("TCP", 4736), of("eventpoll_epi", watched), noisy, quiet]))
        };
        let noise = [70_000_001, 1_000, 50_000_003, 30_000];
        Growth::over(
            &[3000, 6000, 9000, 12000]
                .iter()
                .zip(noise)
                .map(|(&count, noise)| step(count, noise))
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn what_others_do_is_left_out_and_named() {
        let growth = growth(128);
        assert_eq!(growth.noisy, ["dentry"]);
        assert_eq!(growth.certain.get("bio"), Some(&0.0));
        assert!((growth.total() - 4864.0).abs() < 1e-6);
        assert!((growth.either_end() - 2368.0).abs() < 1e-6);
        assert_eq!(growth.shown(), serde_json::json!({ "TCP": 4736.0, "eventpoll_epi": 128.0 }));
    }

    #[test]
    fn what_is_above_bare_sockets_is_what_differs() {
        assert!((growth(128).above(&growth(0)) - 128.0).abs() < 1e-6);
        assert_eq!(growth(128).above(&growth(120)), 0.0);
    }
}
