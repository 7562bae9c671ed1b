//! Those who are no Redis: who say nothing, or nonsense, or too slowly. Every call ends.

mod common;

use common::{SHORT_MS, ends, every_call, hasty};
use model::ports::presence::directory::{Directory, DirectoryError};
use std::sync::Arc;
use std::time::Duration;
use testkit::faulty::{ConnectionFate, FateStep, Faulty};

/// Results of every call to a server with this fate, for each kind of URL.
fn results(fate: impl Into<Vec<FateStep>>) -> Vec<(String, Result<(), DirectoryError>)> {
    let server = Faulty::start(vec![ConnectionFate::new("fate", fate)]);
    let place = server.address();
    let urls = [
        format!("redis://{place}"),
        format!("redis+sentinel://{place},{place}/m"),
        format!("redis+cluster://{place},{place}"),
        format!("redis://user:password@{place}/3"),
    ];
    let work = |url: &String| {
        let mut directory = hasty(url);
        every_call(&mut directory)
    };
    let told = |url: &String, (call, result)| (format!("{url}: {call}"), result);
    ends(move || {
        std::thread::scope(|scope| {
            let calls = urls.each_ref().map(|url| scope.spawn(move || work(url)));
            let results = calls.map(|calls| calls.join().expect("no panic"));
            let all = urls.iter().zip(results);
            all.flat_map(|(url, results)| results.into_iter().map(|r| told(url, r))).collect()
        })
    })
}

/// The same where none can succeed.
fn calls(fate: impl Into<Vec<FateStep>>) -> Vec<(String, DirectoryError)> {
    let failed = |(call, result): (String, Result<(), DirectoryError>)| {
        let fault = result.expect_err(&call);
        (call, fault)
    };
    results(fate).into_iter().map(failed).collect()
}

#[test]
fn whoever_is_silent_is_slow() {
    for (call, fault) in calls([FateStep::Hold]) {
        assert_eq!(fault, DirectoryError::Slow, "{call}");
    }
}

#[test]
fn whoever_says_a_byte_now_and_then_is_slow() {
    let pause = Duration::from_millis(u64::from(SHORT_MS) / 4);
    // Each byte is in time for a limit on reads.
    let number = FateStep::Drip(b"1".to_vec(), 400, pause);
    for (call, fault) in calls([FateStep::Hear, FateStep::Say(b"*".to_vec()), number]) {
        assert_eq!(fault, DirectoryError::Slow, "{call}");
    }
}

#[test]
fn whoever_closes_is_not_reached() {
    for fate in [
        vec![FateStep::Close],
        vec![FateStep::Hear, FateStep::Close],
        vec![FateStep::Hear, FateStep::Reset],
    ] {
        for (call, fault) in calls(fate) {
            assert!(matches!(fault, DirectoryError::Unreachable(_)), "{call}: {fault:?}");
        }
    }
}

#[test]
fn whoever_talks_nonsense_is_told_so() {
    let nonsense: [&[u8]; 9] = [
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        b"+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n",
        b":1\r\n:2\r\n:-3\r\n:4\r\n:5\r\n",
        b"*1\r\n*1\r\n*1\r\n:1\r\n*0\r\n*0\r\n*0\r\n",
        b"$3\r\nabcdef\r\n",
        b"$nine\r\n",
        b"*-5\r\n*-5\r\n*-5\r\n*-5\r\n*-5\r\n*-5\r\n",
        b"\xff\xfe\x00\r\n\r\n",
        b"%1\r\n+a\r\n+b\r\n~1\r\n:1\r\n",
    ];
    for bytes in nonsense {
        let answer = Arc::new(move |heard: &mut Vec<u8>| {
            heard.clear();
            bytes.repeat(16)
        });
        // Some of it is a good answer to some calls, but no lease can be had.
        for (call, result) in results([FateStep::Serve(answer)]) {
            let text = String::from_utf8_lossy(bytes);
            let is_good = result.is_ok() && !call.ends_with(": lease");
            let is_told = match &result {
                Err(DirectoryError::Nonsense(_) | DirectoryError::Slow) => true,
                // Nothing is what a Sentinel says of those it does not know.
                Err(DirectoryError::Refused(why)) => why.contains("no master"),
                _ => false,
            };
            assert!(is_good || is_told, "{text:?}: {call}: {result:?}");
        }
    }
}

#[test]
fn an_answer_that_promises_more_than_there_is_memory_ends() {
    let promises: [&[u8]; 4] = [
        b"$9223372036854775807\r\nabc",
        b"*9223372036854775807\r\n:1\r\n",
        b"*2147483647\r\n*2147483647\r\n*2147483647\r\n",
        b"%9223372036854775807\r\n",
    ];
    for bytes in promises {
        for (call, fault) in calls([FateStep::Hear, FateStep::Say(bytes.to_vec()), FateStep::Hold])
        {
            let text = String::from_utf8_lossy(bytes);
            let ends = matches!(fault, DirectoryError::Slow | DirectoryError::Nonsense(_));
            assert!(ends, "{text:?}: {call}: {fault:?}");
        }
    }
}

#[test]
fn errors_of_any_kind_are_told_in_their_words() {
    let errors = [
        "-LOADING Redis is loading the dataset in memory",
        "-CLUSTERDOWN The cluster is down",
        "-MISCONF Errors writing to the AOF file",
        "-NOREPLICAS Not enough good replicas to write.",
        "-ERR max number of clients reached",
    ];
    for error in errors {
        let answer = Arc::new(move |heard: &mut Vec<u8>| {
            heard.clear();
            format!("{error}\r\n").repeat(64).into_bytes()
        });
        for (call, fault) in calls([FateStep::Serve(answer)]) {
            assert_eq!(fault, DirectoryError::Refused(error[1..].into()), "{call}");
        }
    }
}

#[test]
fn who_is_not_there_is_not_reached() {
    let port = testkit::redis::free_port();
    let urls = [
        format!("redis://127.0.0.1:{port}"),
        format!("redis+sentinel://127.0.0.1:{port},[::1]:{port}/m"),
        format!("redis+cluster://127.0.0.1:{port}"),
        "redis://name.invalid:6379".to_string(),
        // Addresses for documentation: packets to them go nowhere (RFC 5737).
        "redis://192.0.2.1:6379".into(),
        "redis+cluster://192.0.2.1:6379,192.0.2.2:6379".into(),
    ];
    for url in urls {
        let mut directory = hasty(&url);
        let fault = ends(move || directory.nodes());
        assert!(matches!(fault, Err(DirectoryError::Unreachable(_))), "{url}: {fault:?}");
    }
}

#[test]
fn one_of_several_who_is_silent_does_not_hold_the_others_up() {
    let silent = Faulty::start(vec![ConnectionFate::new("silent", [FateStep::Hold])]);
    let watched = testkit::redis::Watched::start(testkit::redis::RedisOptions::default());
    let url = watched.url().replace("://", &format!("://{},", silent.address()));
    let mut directory = directory::Redis::new(&common::settings(&url, 2_000)).expect("a good URL");
    assert_eq!(ends(move || directory.nodes()), Ok(vec![]));
}
