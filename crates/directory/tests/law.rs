//! The law of the directory over real Redis of every kind.

mod common;

use common::{believing, redis};
use directory::{Redis, Settings};
use testkit::directory::{Opener, suite};
use testkit::redis::{Certificates, Cluster, RedisOptions, RedisServer, Watched};

/// All that Holdline needs to be allowed (docs/presence.md).
const ACL: &str = "~holdline:* resetchannels -@all +select +role +info +get +set +del +hget +hset \
    +hdel +hkeys +hgetall +evalsha +script|load +cluster|slots +asking +xadd";

fn opener(settings: &Settings) -> Opener {
    let settings = settings.clone();
    Box::new(move || Box::new(Redis::new(&settings).expect("good settings")))
}

fn flush<'a>(nodes: impl IntoIterator<Item = &'a RedisServer>) {
    for node in nodes {
        // Replicas refuse, and follow.
        let told = node.cli(&["FLUSHALL"]);
        assert!(told == "OK" || told.contains("READONLY"), "{told}");
    }
}

#[test]
fn one_server_keeps_the_law() {
    let server = RedisServer::start(RedisOptions::default());
    let settings = common::settings(&format!("{}/3", server.url()), common::PATIENT_MS);
    suite(&mut || {
        flush([&server]);
        opener(&settings)
    });
    assert_eq!(Redis::new(&settings).expect("good settings").kind(), "redis");
}

#[test]
fn an_encrypted_server_keeps_the_law_for_a_user_who_may_little() {
    let tls = Certificates::make();
    let lines = vec![format!("user app on >s3cret/@ {ACL}")];
    let server = RedisServer::start(RedisOptions {
        tls: Some(tls.clone()),
        lines,
        ..RedisOptions::default()
    });
    let url = server.url().replace("://", "://app:s3cret%2F%40@");
    suite(&mut || {
        flush([&server]);
        opener(&believing(&url, &tls))
    });
}

#[test]
fn a_master_behind_sentinels_keeps_the_law() {
    let watched = Watched::start(RedisOptions::default());
    let settings = common::settings(&watched.url(), common::PATIENT_MS);
    suite(&mut || {
        flush(&watched.servers);
        opener(&settings)
    });
    assert_eq!(redis(&watched.url()).kind(), "redis-sentinel");
}

#[test]
fn a_cluster_keeps_the_law() {
    let cluster = Cluster::start(RedisOptions::default());
    let settings = common::settings(&cluster.url(), common::PATIENT_MS);
    suite(&mut || {
        flush(&cluster.nodes);
        opener(&settings)
    });
    assert_eq!(redis(&cluster.url()).kind(), "redis-cluster");
}

#[test]
fn an_encrypted_cluster_with_a_user_keeps_the_law() {
    let tls = Certificates::make();
    let user = Some(("holdline".into(), "s3cret".into(), "~* &* +@all".into()));
    let cluster =
        Cluster::start(RedisOptions { tls: Some(tls.clone()), user, ..RedisOptions::default() });
    let settings = believing(&cluster.url(), &tls);
    suite(&mut || {
        flush(&cluster.nodes);
        opener(&settings)
    });
}

#[test]
fn an_encrypted_master_behind_sentinels_with_a_user_keeps_the_law() {
    let tls = Certificates::make();
    let user = Some(("holdline".into(), "s3cret".into(), "~* &* +@all".into()));
    let watched =
        Watched::start(RedisOptions { tls: Some(tls.clone()), user, ..RedisOptions::default() });
    let settings = believing(&watched.url(), &tls);
    suite(&mut || {
        flush(&watched.servers);
        opener(&settings)
    });
}
