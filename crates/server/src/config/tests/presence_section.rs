//! `[presence_section]`: what is refused, and that no password is ever shown.

use super::*;

const SECRET: &str = "hunter2-hunter2";

#[test]
fn without_a_word_there_is_no_directory() {
    let presence = Config::default().presence;
    assert_eq!(presence.directory_at(), DirectoryAt::Nowhere);
    assert_eq!((presence.lease_ms, presence.flush_ms, presence.timeout_ms), (15_000, 10, 500));
}

#[test]
fn every_sort_of_redis_is_taken_and_shown_without_its_password() {
    let urls = [
        format!("redis://user:{SECRET}@host:6379/0"),
        format!("rediss://:{SECRET}@host"),
        format!("redis+sentinel://user:{SECRET}@a:26379,b:26379/mymaster"),
        format!("redis+sentinel://a,b/mymaster?sentinel_password={SECRET}"),
        format!("redis+cluster://user:{SECRET}@a:1,b:2"),
    ];
    for url in urls {
        let text = format!("[presence]\ndirectory = \"{url}\"");
        let config = parse(&text).unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(config.presence.directory.reveal(), url);
        assert_eq!(config.presence.directory_at(), DirectoryAt::Redis);
        let changes = Config::default().diff(&config);
        let shown = format!("{}{config:?}{changes:?}", config.to_toml());
        assert!(!shown.contains(SECRET), "{shown}");
        assert!(shown.contains("(hidden)"), "{shown}");
    }
}

#[test]
fn what_cannot_be_a_directory_is_refused_without_its_password() {
    let texts = [
        format!("[presence]\ndirectory = \"redis://user:{SECRET}\""),
        format!("[presence]\ndirectory = \"redis://user:{SECRET}@host:port\""),
        format!("[presence]\ndirectory = \"http://user:{SECRET}@host\""),
        format!("[presence]\ndirectory = \"redis+sentinel://a?sentinel_password={SECRET}\""),
        format!("[presence]\ndirectory = [\"redis://user:{SECRET}@host\"]"),
        format!("[presence]\ndirectory = \"redis://user:{SECRET}@host\"\ncertificate = \"c\""),
    ];
    for text in texts {
        let told = parse(&text).expect_err("it is refused").to_string();
        assert!(!told.contains(SECRET), "{told}");
        assert!(
            told.starts_with("holdline.toml:2: [presence] directory = ") || text.contains("cert")
        );
    }
    let bad = format!("redis://user:{SECRET}");
    let env = [("HOLDLINE_PRESENCE_DIRECTORY", bad.as_str())];
    let told = with("[presence]\ndirectory = \"redis://a:b@c\"", &env).expect_err("no host");
    assert!(!told.to_string().contains(SECRET) && !told.to_string().contains("a:b"), "{told}");
}

#[test]
fn a_password_that_goes_far_without_tls_is_warned_of() {
    let warned =
        |url: &str| parse(&format!("[presence]\ndirectory = \"{url}\"")).expect("good").warnings;
    assert_eq!(
        warned("redis://me:pw@redis.example"),
        ["[presence] directory = \"redis://(hidden)@redis.example\": its password is sent \
             without TLS; use rediss"]
    );
    for url in ["rediss://me:pw@redis.example", "redis://redis.example", "redis://me:pw@127.0.0.1"]
    {
        assert_eq!(warned(url), [""; 0], "{url}");
    }
}

#[test]
fn each_key_says_what_it_takes() {
    refused(
        "[presence]\ndirectory = \"rediss\"\nnode = \"a b\"\nprefix = \"{x}\"",
        &[
            "holdline.toml:2: [presence] directory = \"rediss\": must be \"none\", \"process\", \
             or a URL of redis://, rediss://, redis+sentinel:// or redis+cluster://; correct it",
            "holdline.toml:3: [presence] node = \"a b\": must be 1 to 32 letters, digits and . _ \
             - + : / =, or empty; correct it",
            "holdline.toml:4: [presence] prefix = \"{x}\": must be at most 64 letters, digits and \
             signs but { and }; correct it, such as \"holdline:\"",
        ],
    );
    refused(
        "[presence]\nevents_topic = \"presence/%d\"",
        &["holdline.toml:2: [presence] events_topic = \"presence/%d\": must be a topic with %p \
           and %d in it, without + # and not below $, or empty; correct it"],
    );
}

#[test]
fn what_does_not_go_together_is_refused() {
    refused(
        "[presence]\nevents_stream = \"events\"\nkey = \"k.pem\"\nlease_ms = 1_000",
        &[
            "holdline.toml:3: [presence] key = \"k.pem\": certificate and key go together; name \
             both files or neither",
            "holdline.toml:2: [presence] events_stream = \"events\": a stream of events needs a \
             Redis; set directory to a Redis",
            "holdline.toml:4: [presence] lease_ms = 1_000: the lease is renewed every third of \
             lease_ms, and timeout_ms must fit into that; raise lease_ms or lower timeout_ms",
        ],
    );
}
