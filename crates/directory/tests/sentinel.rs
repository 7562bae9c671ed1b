//! A master, its replica and three Sentinels, and what may become of them.

mod common;

use common::redis;
use model::ports::presence::directory::{Directory, DirectoryError, Put};
use testkit::directory::{find, lease, put, record};
use testkit::redis::{RedisOptions, Watched, until};

const KEY: &str = "demo#phone-1";
const LONG_MS: u64 = 600_000;

#[test]
fn a_replica_that_is_promoted_is_another_history() {
    let mut watched = Watched::start(RedisOptions::default());
    let mut directory = redis(&watched.url());
    let of = lease("n", 1);
    let before = directory.lease(&of, LONG_MS).expect("it works");
    assert_eq!(put(&mut directory, KEY, record(1, "n", 1)), Put::Taken);
    // The replica hears no more: what is acknowledged from now on is lost. Its connection must
    // go too, for the kernel takes in what it cannot read.
    watched.servers[1].pause();
    assert_eq!(watched.servers[0].cli(&["CLIENT", "KILL", "TYPE", "replica"]), "1");
    assert_eq!(put(&mut directory, KEY, record(2, "n", 1)), Put::Taken);
    watched.servers[0].kill();
    watched.servers[1].resume();
    let fault = directory.lease(&of, LONG_MS);
    assert!(matches!(fault, Err(DirectoryError::Unreachable(_))), "{fault:?}");
    watched.until_promoted();
    until("it is found", || directory.lease(&of, LONG_MS).is_ok_and(|now| now != before));
    let after = directory.lease(&of, LONG_MS).expect("it works");
    assert_eq!(find(&mut directory, KEY), Some(record(1, "n", 1)), "it was lost");
    assert_eq!(put(&mut directory, KEY, record(2, "n", 1)), Put::Taken);
    watched.servers[0].restart();
    // Sentinels do that, sooner or later.
    let port = watched.servers[1].port().to_string();
    assert!(watched.servers[0].cli(&["REPLICAOF", "127.0.0.1", &port]).starts_with("OK"));
    until("the old master follows", || watched.servers[0].cli(&["ROLE"]).starts_with("slave"));
    assert_eq!(directory.lease(&of, LONG_MS), Ok(after), "that is nothing to us");
}

#[test]
fn a_master_that_was_replaced_unseen_is_left_at_the_next_lease() {
    let watched = Watched::start(RedisOptions::default());
    let mut directory = redis(&watched.url());
    let of = lease("n", 1);
    let before = directory.lease(&of, LONG_MS).expect("it works");
    watched.servers[0].pause();
    watched.until_promoted();
    // The Sentinels hang as well: nobody tells the old master, who believes in himself.
    watched.servers[0].resume();
    let after = directory.lease(&of, LONG_MS).expect("it works");
    assert_ne!(after, before);
    assert_eq!(put(&mut directory, KEY, record(1, "n", 1)), Put::Taken);
    assert!(watched.servers[1].cli(&["KEYS", "holdline:b:*"]).contains("holdline:b:"));
}

#[test]
fn sentinels_that_die_are_missed_by_nobody_while_one_is_left() {
    let mut watched = Watched::start(RedisOptions::default());
    let mut directory = redis(&watched.url());
    let of = lease("n", 1);
    let history = directory.lease(&of, LONG_MS).expect("it works");
    for at in 0..2 {
        watched.sentinels[at].kill();
        assert_eq!(directory.lease(&of, LONG_MS), Ok(history.clone()));
        assert_eq!(redis(&watched.url()).lease(&of, LONG_MS), Ok(history.clone()));
    }
    watched.sentinels[2].kill();
    assert_eq!(directory.lease(&of, LONG_MS), Ok(history), "who is known is enough");
    let fault = redis(&watched.url()).lease(&of, LONG_MS);
    assert!(matches!(fault, Err(DirectoryError::Unreachable(_))), "{fault:?}");
}

#[test]
fn a_master_that_no_sentinel_knows_is_told() {
    let watched = Watched::start(RedisOptions::default());
    let fault = redis(&watched.url().replace("/holdline", "/other")).nodes();
    let told =
        matches!(&fault, Err(DirectoryError::Refused(why)) if why.contains("no master `other`"));
    assert!(told, "{fault:?}");
    // A server is no Sentinel.
    let port = watched.servers[0].port();
    let fault = redis(&format!("redis+sentinel://127.0.0.1:{port}/holdline")).nodes();
    assert!(
        matches!(&fault, Err(DirectoryError::Refused(why)) if why.contains("SENTINEL")),
        "{fault:?}"
    );
}
