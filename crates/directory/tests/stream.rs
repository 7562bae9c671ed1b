//! Events into streams of real Redis.

mod common;

use common::{SHORT_MS, ends, settings};
use directory::Stream;
use model::ports::presence::directory::{DirectoryError, EventStream};
use testkit::redis::{Cluster, RedisOptions, RedisServer, Watched, until};

type Event = Vec<(&'static str, String)>;

fn event(number: usize) -> Event {
    vec![("kind", "online".into()), ("n", number.to_string()), ("odd", "a b\r\n$1 ü".into())]
}

fn stream(url: &str) -> Stream {
    Stream::new(&settings(url, common::PATIENT_MS), "app:events", 1_000).expect("a good URL")
}

/// The numbers of all events that are there.
fn numbers(server: &RedisServer) -> Vec<usize> {
    let told = server.cli(&["XRANGE", "app:events", "-", "+"]);
    let lines: Vec<&str> = told.lines().collect();
    let of = |at: usize| lines[at + 1].parse().expect("a number");
    (0..lines.len()).filter(|at| lines[*at] == "n").map(of).collect()
}

#[test]
fn events_are_appended_in_order_and_whole() {
    let server = RedisServer::start(RedisOptions::default());
    let mut stream = stream(&server.url());
    assert_eq!(stream.append(&[]), Ok(()));
    let events: Vec<Event> = (0..30).map(event).collect();
    assert_eq!(stream.append(&events[..10]), Ok(()));
    assert_eq!(stream.append(&events[10..]), Ok(()));
    assert_eq!(numbers(&server), (0..30).collect::<Vec<_>>());
    assert!(server.cli(&["XRANGE", "app:events", "-", "+", "COUNT", "1"]).contains("a b"));
}

#[test]
fn a_stream_is_cut_to_about_its_length() {
    let server = RedisServer::start(RedisOptions::default());
    let mut stream = stream(&server.url());
    let events: Vec<Event> = (0..5_000).map(event).collect();
    assert_eq!(stream.append(&events), Ok(()));
    let numbers = numbers(&server);
    assert!((1_000..1_200).contains(&numbers.len()), "{}", numbers.len());
    assert_eq!(numbers.last(), Some(&4_999));
}

#[test]
fn a_stream_goes_on_after_any_fault() {
    let mut server = RedisServer::start(RedisOptions::default());
    let mut hasty = Stream::new(&settings(&server.url(), SHORT_MS), "app:events", 9).expect("good");
    until("it is warm", || hasty.append(&[event(1)]).is_ok());
    server.pause();
    let (fault, mut hasty) = ends(move || (hasty.append(&[event(2)]), hasty));
    assert_eq!(fault, Err(DirectoryError::Slow));
    server.resume();
    until("it goes on", || hasty.append(&[event(3)]).is_ok());
    server.kill();
    assert!(matches!(hasty.append(&[event(4)]), Err(DirectoryError::Unreachable(_))));
    server.restart();
    until("it goes on", || hasty.append(&[event(5)]).is_ok());
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    let fault = hasty.append(&[event(6)]);
    assert!(
        matches!(&fault, Err(DirectoryError::Refused(why)) if why.contains("OOM")),
        "{fault:?}"
    );
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "0"]), "OK");
    until("it goes on", || hasty.append(&[event(7)]).is_ok());
}

#[test]
fn a_stream_follows_a_master_that_sentinels_name_and_a_slot_of_a_cluster() {
    let mut watched = Watched::start(RedisOptions::default());
    let mut events = stream(&watched.url());
    assert_eq!(events.append(&[event(1)]), Ok(()));
    watched.servers[0].kill();
    assert!(events.append(&[event(2)]).is_err());
    watched.until_promoted();
    until("it goes on", || events.append(&[event(3)]).is_ok());
    assert!(numbers(&watched.servers[1]).contains(&3));
    drop(watched);
    let cluster = Cluster::start(RedisOptions::default());
    let mut events = stream(&cluster.url());
    assert_eq!(events.append(&[event(1)]), Ok(()));
    let slot: u16 =
        cluster.nodes[0].cli(&["CLUSTER", "KEYSLOT", "app:events"]).parse().expect("a number");
    let from = usize::from(slot) * 3 / 16_384;
    let to = (from + 1) % 3;
    cluster.begin_move(slot, from, to);
    assert_eq!(events.append(&[event(2)]), Ok(()));
    cluster.move_keys(slot, from, to);
    assert_eq!(events.append(&[event(3), event(4)]), Ok(()));
    cluster.end_move(slot, from, to);
    assert_eq!(events.append(&[event(5), event(6)]), Ok(()));
    assert_eq!(numbers(&cluster.nodes[to]), (1..7).collect::<Vec<_>>());
}
