//! The clock is read in few places; everyone else is told the time.
//!
//! A machine, the hub and every test get `now` as an argument, which is what lets the simulation
//! drive them. The places that may read a clock stand here with their reason. clippy.toml bans the
//! same calls by type, so that an alias does not slip past either of the two.

use super::Violation;
use super::tree::Tree;

/// Path prefix, and why the clock is read there.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/net/src/epoll.rs", "once a loop turn, for the whole shard"),
    ("crates/server/src/clock.rs", "before the shards turn, and for the API"),
    ("laboratory/load/src/", "the laboratory measures time"),
    ("laboratory/wrk/src/", "the laboratory measures time"),
    ("crates/directory/src/clock.rs", "a call's time limit"),
    ("crates/ldap/src/clock.rs", "a call's time limit"),
    ("crates/replication/src/clock.rs", "a node of a cluster has a thread of its own"),
    ("crates/testkit/src/redis", "waiting for a server with a limit"),
    ("crates/crash/src/clock.rs", "a history is made of readings of the clock"),
    ("crates/client/src/", "a client that waits reads its own keep-alive"),
    ("crates/proto-mqtt/src/codec/tests/speed.rs", "a measurement on demand"),
    ("crates/broker/src/routes/", "measurements on demand, in tests"),
    ("crates/chat/tests/send_cost.rs", "a measurement on demand"),
    ("laboratory/bench/", "a measurement is a difference of two readings"),
    ("clients/im-rust/src/clock.rs", "a library has a clock, which tests replace"),
    ("clients/miop-rust/src/clock.rs", "a library has a clock, which tests replace"),
    ("crates/admin/src/", "axum's runtime is apart from the shards and has no turn"),
];

const READINGS: &[&str] = &["Instant::now", "SystemTime::now", "clock_gettime"];

/// Checks every Rust file outside the places above.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    for (file, source) in tree.rust_files() {
        if ALLOWED.iter().any(|(place, _)| file.path.starts_with(place)) {
            continue;
        }
        for (index, line) in source.code().lines().enumerate() {
            for reading in READINGS.iter().filter(|reading| line.contains(*reading)) {
                let remedy = format!("take `now` as the first argument instead of `{reading}`");
                let path = file.path.clone();
                found.push(Violation { path, line: index + 1, rule: "clock", remedy });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let mut found = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut found);
        found.iter().map(|violation| violation.line).collect()
    }

    const TEXT: &str = "fn a() {\n  let x = std::time::Instant::now();\n  SystemTime::now()\n}\n";

    #[test]
    fn readings_are_seen_in_code_and_in_tests() {
        assert_eq!(lines("crates/hub/src/a.rs", TEXT), [2, 3]);
        assert_eq!(lines("crates/hub/tests/a.rs", TEXT), [2, 3]);
        let tested = "#[cfg(test)]\nmod tests {\n  fn a() { Instant::now(); }\n}\n";
        assert_eq!(lines("crates/hub/src/a.rs", tested), [3]);
    }

    #[test]
    fn the_listed_places_may_read() {
        assert_eq!(lines("laboratory/load/src/stage/capacity.rs", TEXT), [0; 0]);
        assert_eq!(lines("crates/net/src/epoll.rs", TEXT), [0; 0]);
        assert_eq!(lines("crates/net/src/shard.rs", TEXT), [2, 3]);
    }

    #[test]
    fn words_about_the_clock_are_no_reading() {
        assert_eq!(
            lines("crates/hub/src/a.rs", "// Instant::now\nlet a = \"Instant::now\";"),
            [0; 0]
        );
    }
}
