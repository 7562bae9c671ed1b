//! URLs, right and wrong. No message tells a password.

use super::*;

fn place(host: &str, port: u16) -> HostPort {
    HostPort { host: host.into(), port }
}

#[test]
fn one_server_is_a_host_alone() {
    let target = parse("redis://localhost").expect("allowed");
    assert_eq!((target.kind, target.tls, target.db), (RedisKind::Standalone, false, 0));
    assert_eq!(target.places, [place("localhost", 6379)]);
    assert_eq!(target.account, Credentials::default());
    let target = parse("rediss://[::1]:7000/3").expect("allowed");
    assert_eq!((target.tls, target.db), (true, 3));
    assert_eq!(target.places, [place("::1", 7000)]);
    assert_eq!(target.places[0].to_string(), "[::1]:7000");
}

#[test]
fn users_and_passwords_are_decoded() {
    let account = |url: &str| parse(url).expect("allowed").account;
    let of = |user: Option<&str>, password: &str| Credentials {
        user: user.map(Box::from),
        password: Some(password.into()),
    };
    assert_eq!(account("redis://holdline:s3cret@h"), of(Some("holdline"), "s3cret"));
    assert_eq!(account("redis://:only@h:1"), of(None, "only"));
    assert_eq!(account("redis://u:a%40b%2F%25@h/1"), of(Some("u"), "a@b/%"));
    assert_eq!(account("redis://u:a@b:c@h"), of(Some("u"), "a@b:c"));
}

#[test]
fn sentinels_have_a_master_and_may_have_an_account_of_their_own() {
    let url = "redis+sentinel://u:p@a,b:5000/my%2Fmaster/2?sentinel_user=x&sentinel_password=y%26";
    let target = parse(url).expect("allowed");
    assert_eq!(
        (target.kind.name(), target.db, &*target.master),
        ("redis-sentinel", 2, "my/master")
    );
    assert_eq!(target.places, [place("a", 26_379), place("b", 5_000)]);
    assert_eq!(target.sentinel_account.user.as_deref(), Some("x"));
    assert_eq!(target.sentinel_account.password.as_deref(), Some("y&"));
}

#[test]
fn a_cluster_has_several_hosts_and_one_database() {
    let target = parse("rediss+cluster://a:1,[fe80::1]:2,c").expect("allowed");
    assert_eq!((target.kind.name(), target.tls), ("redis-cluster", true));
    assert_eq!(target.places, [place("a", 1), place("fe80::1", 2), place("c", 6379)]);
}

#[test]
fn what_is_wrong_is_told_with_what_is_allowed() {
    let wrong = [
        ("localhost:6379", "redis://host:port/db"),
        ("http://h", "redis+sentinel://host:port,host:port/master"),
        ("redis://", "name:6379"),
        ("redis://h:0", "name:6379"),
        ("redis://h:port", "name:6379"),
        ("redis://[::1", "name:6379"),
        ("redis://a,b", "redis+cluster://"),
        ("redis://h/x", "a database number"),
        ("redis://user@h", "user:password@"),
        ("redis://h?x=1", "sentinel_password"),
        ("redis+sentinel://a:1,b:2", "mymaster"),
        ("redis+sentinel://a/m?sentinel_user=u", "without `sentinel_password`"),
        ("redis+cluster://a:1/2", "only database 0"),
        ("redis://:%zz@h", "two hexadecimal digits"),
        ("redis://:p/w@h", "%2F"),
    ];
    for (url, told) in wrong {
        let error = parse(url).expect_err(url);
        assert!(error.contains(told), "{url}: {error}");
    }
}

#[test]
fn a_password_is_never_told() {
    let wrong = [
        "redis://u:s3cret%@h",
        "redis://u:s3c/s3cret@h",
        "redis://u:s3cret?x@h",
        "redis://u:s3cret@h:port",
        "redis://u:s3cret@a,b",
        "redis://u:s3cret",
        "redis://h/s3cret",
        "redis://h?s3cret=1",
        "redis+sentinel://a/m?sentinel_password=s3cret%1",
    ];
    for url in wrong {
        let error = parse(url).expect_err(url);
        assert!(!error.contains("s3c"), "{url}: {error}");
    }
    let target = parse("redis+sentinel://u:s3cret@h/m?sentinel_password=s3cret").expect("allowed");
    assert!(!format!("{target:?}").contains("s3cret"), "{target:?}");
}
