//! One server, and what may become of it.

mod common;

use common::{ends, every_call, hasty, redis};
use directory::{Redis, RedisTls};
use model::ports::presence::directory::{Directory, DirectoryError, Put};
use model::presence::bucket;
use testkit::directory::{find, lease, put, record};
use testkit::redis::{Certificates, RedisOptions, RedisServer, until};

const KEY: &str = "demo#phone-1";
const LONG_MS: u64 = 600_000;

fn key_of(bucket: u16) -> String {
    format!("holdline:b:{bucket}")
}

#[test]
fn a_flush_is_another_history() {
    let server = RedisServer::start(RedisOptions::default());
    let mut directory = redis(&server.url());
    let of = lease("n", 1);
    let first = directory.lease(&of, LONG_MS).expect("it works");
    assert_eq!(directory.lease(&of, LONG_MS), Ok(first.clone()));
    assert_eq!(server.cli(&["FLUSHALL"]), "OK");
    let second = directory.lease(&of, LONG_MS).expect("it works");
    assert_ne!(second, first);
    assert_eq!(directory.lease(&of, LONG_MS), Ok(second));
}

#[test]
fn a_restart_is_a_fault_and_another_history() {
    let mut server = RedisServer::start(RedisOptions::default());
    let mut directory = redis(&server.url());
    let of = lease("n", 1);
    let first = directory.lease(&of, LONG_MS).expect("it works");
    server.kill();
    for (call, result) in every_call(&mut directory) {
        assert!(matches!(result, Err(DirectoryError::Unreachable(_))), "{call}: {result:?}");
    }
    server.restart();
    assert_eq!(find(&mut directory, KEY), None);
    assert_ne!(directory.lease(&of, LONG_MS), Ok(first));
}

#[test]
fn a_restart_that_lost_only_the_last_second_is_another_history_too() {
    let lines = vec!["save 3600 1000000".to_string()];
    let mut server = RedisServer::start(RedisOptions { lines, ..RedisOptions::default() });
    let mut directory = redis(&server.url());
    let of = lease("n", 1);
    let first = directory.lease(&of, LONG_MS).expect("it works");
    put(&mut directory, KEY, record(1, "n", 1));
    assert_eq!(server.cli(&["SAVE"]), "OK");
    put(&mut directory, KEY, record(2, "n", 1));
    server.restart();
    let second = directory.lease(&of, LONG_MS).expect("it works");
    assert_eq!(find(&mut directory, KEY), Some(record(1, "n", 1)), "it came back with less");
    assert_ne!(second, first);
}

#[test]
fn scripts_that_were_forgotten_are_given_again() {
    let server = RedisServer::start(RedisOptions::default());
    let mut directory = redis(&server.url());
    for version in 1..4 {
        assert_eq!(put(&mut directory, KEY, record(version, "n", 1)), Put::Taken);
        assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
    }
    for (call, result) in every_call(&mut directory) {
        assert_eq!(result, Ok(()), "{call}");
        assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
    }
}

#[test]
fn a_paused_server_is_slow_and_what_it_does_late_does_no_harm() {
    let server = RedisServer::start(RedisOptions::default());
    let mut directory = hasty(&server.url());
    until("it is warm", || directory.lease(&lease("n", 1), LONG_MS).is_ok());
    server.pause();
    let (results, mut directory) = ends(move || (every_call(&mut directory), directory));
    for (call, result) in results {
        assert_eq!(result, Err(DirectoryError::Slow), "{call}");
    }
    // The last of these times out as well; Redis will do it when it wakes, after what is newer.
    let entries = vec![(KEY.into(), record(1, "n", 1))];
    let batch = model::ports::presence::directory::Batch { bucket: bucket(KEY), entries };
    assert_eq!(directory.put(&[batch]), Err(DirectoryError::Slow));
    server.resume();
    let mut patient = redis(&server.url());
    put(&mut patient, KEY, record(2, "n", 1));
    until("the connection is new", || directory.nodes().is_ok());
    assert_eq!(find(&mut patient, KEY), Some(record(2, "n", 1)));
}

#[test]
fn a_server_that_holds_its_clients_back_is_slow() {
    let server = RedisServer::start(RedisOptions::default());
    let mut directory = hasty(&server.url());
    until("it is warm", || directory.nodes().is_ok());
    assert_eq!(server.cli(&["CLIENT", "PAUSE", "5000", "ALL"]), "OK");
    let (results, mut directory) = ends(move || (every_call(&mut directory), directory));
    for (call, result) in results {
        assert_eq!(result, Err(DirectoryError::Slow), "{call}");
    }
    until("it works again", || directory.nodes().is_ok());
}

#[test]
fn a_connection_that_was_closed_while_idle_is_no_fault() {
    let server = RedisServer::start(RedisOptions::default());
    let mut directory = redis(&server.url());
    for _ in 0..3 {
        for (call, result) in every_call(&mut directory) {
            assert_eq!(result, Ok(()), "{call}");
            server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        }
    }
}

#[test]
fn a_replica_refuses() {
    let master = RedisServer::start(RedisOptions::default());
    let lines = vec![format!("replicaof 127.0.0.1 {}", master.port())];
    let replica = RedisServer::start(RedisOptions { lines, ..RedisOptions::default() });
    let mut directory = redis(&replica.url());
    let refused = directory.lease(&lease("n", 1), LONG_MS);
    assert!(
        matches!(&refused, Err(DirectoryError::Refused(why)) if why.contains("READONLY")),
        "{refused:?}"
    );
    let refused = every_call(&mut directory).remove(2).1;
    assert!(
        matches!(&refused, Err(DirectoryError::Refused(why)) if why.contains("READONLY")),
        "{refused:?}"
    );
}

#[test]
fn a_full_server_refuses_what_needs_memory() {
    let server = RedisServer::start(RedisOptions::default());
    let mut directory = redis(&server.url());
    put(&mut directory, KEY, record(1, "n", 1));
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    for at in [0, 2] {
        let (call, refused) = every_call(&mut directory).remove(at);
        let is_told = matches!(&refused, Err(DirectoryError::Refused(why)) if why.contains("OOM"));
        assert!(is_told, "{call}: {refused:?}");
    }
    assert_eq!(find(&mut directory, KEY), Some(record(1, "n", 1)));
    assert_eq!(
        directory.remove(bucket(KEY), &[(KEY.into(), model::presence::PresenceVersion(1))]),
        Ok(1)
    );
}

#[test]
fn what_is_not_allowed_is_refused_with_the_reason() {
    let lines = vec![
        "user app on >pw ~other:* +@all".to_string(),
        "user mute on >pw ~* +@all -script".into(),
    ];
    let server = RedisServer::start(RedisOptions {
        user: Some(("root".into(), "r".into(), "~* &* +@all".into())),
        lines,
        ..RedisOptions::default()
    });
    let bare = server.url().replace("root:r@", "");
    let told = |url: &str| match redis(url).lease(&lease("n", 1), LONG_MS) {
        Err(DirectoryError::Refused(why)) => why,
        other => panic!("{url}: {other:?}"),
    };
    assert!(told(&bare.replace("://", "://app:pw@")).contains("NOPERM"));
    assert!(told(&bare.replace("://", "://app:wrong@")).contains("WRONGPASS"));
    assert!(told(&bare.replace("://", "://:pw@")).contains("WRONGPASS"));
    assert!(told(&bare).contains("NOAUTH"));
    let mut mute = redis(&bare.replace("://", "://mute:pw@"));
    let refused = every_call(&mut mute).remove(2).1;
    assert!(
        matches!(&refused, Err(DirectoryError::Refused(why)) if why.contains("script")),
        "{refused:?}"
    );
    assert!(told(&format!("{}/99", server.url())).contains("DB index"));
}

#[test]
fn what_is_no_record_counts_as_absent() {
    let server = RedisServer::start(RedisOptions::default());
    let mut directory = redis(&server.url());
    let good = record(u64::MAX, "n", 1);
    let text = good.encode();
    let garbage = [
        "zzzz".to_string(),
        String::new(),
        text.to_uppercase(),
        text.replace(" o ", " x "),
        text.replace(" n ", &format!(" {} ", "n".repeat(33))),
        text.replace(" 1 ", " 11111111111111111 "),
        text.replace(" mqtt5", ""),
        text.replacen('f', "g", 1),
    ];
    for wrong in garbage {
        server.cli(&["HSET", &key_of(bucket(KEY)), KEY, &wrong]);
        assert_eq!(find(&mut directory, KEY), None, "{wrong}");
        assert_eq!(directory.bucket(bucket(KEY)), Ok(vec![]), "{wrong}");
        assert_eq!(put(&mut directory, KEY, record(1, "n", 1)), Put::Taken, "{wrong}");
        assert_eq!(find(&mut directory, KEY), Some(record(1, "n", 1)), "{wrong}");
    }
    server.cli(&["SET", &key_of(5), "not a hash"]);
    let refused = directory.bucket(5);
    assert!(
        matches!(&refused, Err(DirectoryError::Refused(why)) if why.contains("WRONGTYPE")),
        "{refused:?}"
    );
}

#[test]
fn a_lease_that_is_not_renewed_ends() {
    let server = RedisServer::start(RedisOptions::default());
    let mut directory = redis(&server.url());
    directory.lease(&lease("n", 1), LONG_MS).expect("it works");
    directory.lease(&lease("m", 1), 1).expect("it works");
    until("it has ended", || directory.nodes() == Ok(vec![lease("n", 1)]));
}

#[test]
fn an_authority_that_is_not_believed_is_a_fault_that_says_so() {
    let (ours, theirs) = (Certificates::make(), Certificates::make());
    let server = RedisServer::start(RedisOptions { tls: Some(theirs), ..RedisOptions::default() });
    let mut directory =
        Redis::new(&common::believing(&server.url(), &ours)).expect("good settings");
    let fault = directory.nodes();
    let is_told =
        matches!(&fault, Err(DirectoryError::Unreachable(why)) if why.contains("certificate"));
    assert!(is_told, "{fault:?}");
    let mut plain = redis(&server.url().replace("rediss", "redis"));
    assert!(ends(move || plain.nodes()).is_err());
}

#[test]
fn a_certificate_is_shown_where_the_server_asks_for_one() {
    let made = Certificates::make();
    let server =
        RedisServer::start(RedisOptions { tls: Some(made.clone()), ..RedisOptions::default() });
    assert_eq!(server.cli(&["CONFIG", "SET", "tls-auth-clients", "yes"]), "OK");
    let mut settings = common::believing(&server.url(), &made);
    assert!(Redis::new(&settings).expect("good settings").nodes().is_err());
    let pem = |text: &String| Some(text.clone().into_bytes());
    let (certificate, key) = (pem(&made.client.0), pem(&made.client.1));
    settings.tls = RedisTls { certificate, key, ..settings.tls };
    assert_eq!(Redis::new(&settings).expect("good settings").nodes(), Ok(vec![]));
}

#[test]
fn settings_that_cannot_work_are_told_at_once() {
    let told = |settings: &directory::Settings| Redis::new(settings).err().expect("wrong");
    let plain = common::settings("rediss://h", 1);
    assert!(told(&plain).contains("`ca`"));
    let tls = |tls: RedisTls| directory::Settings { tls, ..plain.clone() };
    let junk = || Some(b"junk".to_vec());
    let ca = || Some(Certificates::make().authority.into_bytes());
    assert!(told(&tls(RedisTls { ca: junk(), ..RedisTls::default() })).contains("`ca`"));
    assert!(told(&tls(RedisTls { ca: ca(), key: junk(), certificate: None })).contains("together"));
    let both = RedisTls { ca: ca(), key: junk(), certificate: junk() };
    assert!(told(&tls(both)).contains("`key`"));
    assert!(told(&common::settings("redis://h", 0)).contains("must not be 0"));
    assert!(told(&common::settings("nonsense", 1)).contains("redis://"));
}

#[test]
fn traffic_is_what_the_server_counts() {
    let server = RedisServer::start(RedisOptions::default());
    let mut directory = redis(&server.url());
    let count = || {
        let told = server.cli(&["INFO", "stats"]);
        let of = |name: &str| -> i64 {
            let line = told.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            line.trim().parse().expect("a number")
        };
        (of("total_net_input_bytes:"), of("total_net_output_bytes:"))
    };
    // The question itself costs something, the same each time but for a few digits of the answer.
    let (first, second) = (count(), count());
    every_call(&mut directory)
        .into_iter()
        .for_each(|(call, result)| assert_eq!(result, Ok(()), "{call}"));
    let third = count();
    let (sent, received) = directory.traffic();
    assert_eq!(sent as i64, third.0 - second.0 - (second.0 - first.0));
    let answered = third.1 - second.1 - (second.1 - first.1);
    assert!((received as i64 - answered).abs() < 64, "{received} and {answered}");
}
