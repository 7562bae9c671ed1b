//! The feed and the event stream.

use super::description::check_named;
use super::*;
use crate::feed::{Happening, Wish};
use model::push::{Outcome, Rejection};
use model::service::ServiceKind;
use serde_json::json;
use std::io::{BufRead, BufReader, Read};

fn few(events_waiting_max: u32) -> Arc<Feed> {
    Feed::new(&Limits { events_waiting_max, ..Limits::default() })
}

fn seqs(taken: &feed::Taken) -> Vec<u32> {
    let seq = |happening: &Happening| match happening {
        Happening::Device(DeviceEvent { what: DeviceWhat::Report { seq, .. }, .. }) => *seq,
        _ => 0,
    };
    taken.happenings.iter().map(|(_, happening)| seq(happening)).collect()
}

fn all() -> Wish {
    Wish { devices: true, clients: true, ..Wish::default() }
}

#[test]
fn a_slow_reader_loses_the_oldest_and_is_told_how_many() {
    let feed = few(4);
    let (slow, fast) = (feed.reader(all(), None), feed.reader(all(), None));
    assert_eq!(feed.publish((0..4).map(report).collect()), 0);
    assert_eq!(seqs(&fast.take(10).expect("open")), [0, 1, 2, 3]);
    assert_eq!(feed.publish((4..6).map(report).collect()), 2);
    assert_eq!(seqs(&fast.take(10).expect("open")), [4, 5]);
    let taken = slow.take(3).expect("open");
    assert_eq!((taken.lost, seqs(&taken)), (2, vec![2, 3, 4]));
    drop(slow);
    assert_eq!(feed.publish((6..12).map(report).collect()), 2, "the fast one loses two of six");
    assert_eq!(seqs(&fast.take(10).expect("open")), [8, 9, 10, 11]);
}

#[test]
fn events_are_wanted_while_somebody_listens_or_may_come_back() {
    let feed = few(3);
    assert!(!feed.wanted(ServiceKind::Push));
    assert_eq!(feed.publish(vec![report(0)]), 0, "lost to nobody");
    let reader = feed.reader(all(), None);
    assert!(feed.wanted(ServiceKind::Push));
    feed.publish(vec![report(1)]);
    drop(reader);
    assert!(feed.wanted(ServiceKind::Push), "it may come back");
    feed.publish(vec![report(2)]);
    let back = feed.reader(all(), Some(2));
    let taken = back.take(10).expect("open");
    assert_eq!((taken.lost, seqs(&taken)), (0, vec![2]));
    drop(back);
    feed.publish((3..9).map(report).collect());
    assert!(!feed.wanted(ServiceKind::Push), "it did not come back in time");
    let taken = feed.reader(all(), Some(3)).take(10).expect("open");
    assert!(taken.lost > 0 && taken.happenings.is_empty());
}

#[test]
fn a_closed_feed_gives_what_is_left_and_ends() {
    let feed = few(3);
    let reader = feed.reader(all(), None);
    feed.publish(vec![report(1)]);
    feed.close();
    assert_eq!(feed.publish(vec![report(2)]), 1);
    assert_eq!(seqs(&reader.take(9).expect("what is left")), [1]);
    assert!(reader.take(9).is_none());
    assert!(!feed.pause(Duration::from_secs(3_600)));
}

/// A stream as a client reads it.
pub(super) struct Client(BufReader<Box<dyn Read + Send + Sync>>);

impl Client {
    pub(super) fn open(test_api: &TestApi, query: &str, last: Option<&str>) -> Client {
        Client::open_as(test_api, TOKEN, query, last)
    }

    pub(super) fn open_as(
        test_api: &TestApi,
        token: &str,
        query: &str,
        last: Option<&str>,
    ) -> Client {
        let mut request = test_api
            .agent
            .get(format!("{}/v1/events{query}", test_api.url))
            .header("Authorization", format!("Bearer {token}"));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let response = request.call().expect("an answer");
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Client(BufReader::new(Box::new(response.into_body().into_reader())))
    }

    /// The next event: its name, id and data. Comments come as `:`.
    pub(super) fn next(&mut self) -> Option<(String, String, Value)> {
        let (mut name, mut id, mut data) = (String::new(), String::new(), Value::Null);
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).expect("the stream holds") == 0 {
                return None;
            }
            match line.trim_end().split_once(':') {
                Some(("", _)) => return Some((":".into(), id, data)),
                Some(("event", value)) => name = value.trim().into(),
                Some(("id", value)) => id = value.trim().into(),
                Some(("data", value)) => data = serde_json::from_str(value).expect("JSON"),
                _ if name.is_empty() => {}
                _ => return Some((name, id, data)),
            }
        }
    }
}

#[test]
fn a_stream_tells_what_happens_and_ends_when_the_api_stops() {
    let mut test_api = TestApi::new(|_| Answer::Busy);
    let mut client = Client::open(&test_api, "", None);
    assert!(test_api.feed.wanted(ServiceKind::Push));
    let online = DeviceWhat::Online { protocol: "miop7", resumed: true };
    let outcome = Outcome::Rejected(Rejection::Evicted);
    let pushed = DeviceWhat::Pushed { id: MessageId(9), outcome };
    let binary = DeviceWhat::Report { seq: 2, body: vec![0xff].into() };
    let events = vec![happened(online), report(1), happened(binary), happened(pushed), offline()];
    assert_eq!(test_api.feed.publish(events), 0);
    let told: Vec<_> = (0..5).map(|_| client.next().expect("an event")).collect();
    let names: Vec<_> = told.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["online", "report", "report", "pushed", "offline"]);
    for (at, (name, id, data)) in told.iter().enumerate() {
        check_named("DeviceEvent", data);
        assert_eq!((&data["type"], &data["id"]), (&json!(name), &json!(id)));
        assert_eq!(*id, format!("{NOW_MS}-{}", at + 1));
    }
    assert_eq!((&told[0].2["resumed"], &told[0].2["epoch"]), (&json!(true), &json!("3")));
    assert_eq!((&told[1].2["body"], &told[1].2["body_base64"]), (&json!("1"), &json!("MQ==")));
    assert_eq!((&told[2].2["body"], &told[2].2["body_base64"]), (&json!(null), &json!("/w==")));
    assert_eq!((&told[3].2["push"], &told[3].2["reason"]), (&json!("9"), &json!("evicted")));
    assert_eq!(told[4].2["reason"], "peer_closed");
    test_api.stop();
    assert_eq!(client.next(), None);
}

#[test]
fn a_stream_carries_only_what_was_asked_for() {
    let test_api = TestApi::new(|_| Answer::Busy);
    let mut client = Client::open(&test_api, "?product=shop&type=offline,pushed", None);
    let mut other = offline();
    other.product = key("else");
    test_api.feed.publish(vec![report(1), other, offline()]);
    let (name, id, _) = client.next().expect("an event");
    assert_eq!((name.as_str(), id), ("offline", format!("{NOW_MS}-3")));
}

#[test]
fn a_stream_goes_on_where_it_was_or_tells_the_gap() {
    let limits = Limits { events_waiting_max: 4, ..Limits::default() };
    let test_api = TestApi::with(Settings { limits, ..settings() }, |_| Answer::Busy);
    let hold = test_api.feed.reader(all(), None);
    test_api.feed.publish((1..4).map(report).collect());
    let id = |place: u64| format!("{NOW_MS}-{place}");
    let mut client = Client::open(&test_api, "", Some(&id(1)));
    assert_eq!(client.next().expect("an event").1, id(2));
    assert_eq!(client.next().expect("an event").1, id(3));
    test_api.feed.publish((4..7).map(report).collect());
    let query = format!("?last_event_id={}", id(1));
    let mut late = Client::open(&test_api, &query, None);
    let (name, _, data) = late.next().expect("a gap");
    assert_eq!((name.as_str(), &data), ("gap", &json!({ "lost": 1 })));
    check_named("Gap", &data);
    assert_eq!(late.next().expect("an event").1, id(3));
    let mut foreign = Client::open(&test_api, "", Some("17-1"));
    let (name, _, data) = foreign.next().expect("a gap");
    assert_eq!((name.as_str(), &data), ("gap", &json!({ "lost": null })));
    drop(hold);
}

#[test]
fn a_quiet_stream_has_a_heartbeat() {
    let test_api = TestApi::with(Settings { heartbeat_ms: 1, ..settings() }, |_| Answer::Busy);
    let mut client = Client::open(&test_api, "", None);
    assert_eq!(client.next().map(|(name, ..)| name).as_deref(), Some(":"));
}

#[test]
fn one_stream_too_many_is_told_to_come_back() {
    let bounds = [
        ApiLimits { streams_max: 4, streams_a_source_max: 4, ..ApiLimits::default() },
        ApiLimits { streams_a_source_max: 4, ..ApiLimits::default() },
    ];
    for api in bounds {
        let test_api = TestApi::with(Settings { api, ..settings() }, |_| Answer::Busy);
        let clients: Vec<_> = (0..4).map(|_| Client::open(&test_api, "", None)).collect();
        let (status, text, retry) = test_api.send("GET", "/v1/events", "");
        assert_eq!((status, retry.as_deref()), (503, Some("1")), "{text}");
        drop(clients);
    }
}
