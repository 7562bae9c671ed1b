//! Webhooks against an application that takes, refuses or is away.

use super::description::check_named;
use super::*;
use model::ports::events::{ClientEvent, ClientWhat};
use model::presence::PresenceVersion;
use model::service::ServiceKind;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// An application: tells each request, then waits for the status with which to answer it.
pub(super) struct Application {
    url: String,
    requests: Receiver<(String, Value)>,
    answers: SyncSender<u16>,
}

impl Application {
    pub(super) fn start() -> Application {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/hook", listener.local_addr().expect("bound"));
        let (tell, requests) = sync_channel(100);
        let (answers, answer) = sync_channel(100);
        let life = move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.expect("a connection"));
                let Some(request) = read(&mut stream) else { continue };
                if tell.send(request).is_err() {
                    return;
                }
                let Ok(status) = answer.recv() else { return };
                let head = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n");
                let text = format!("{head}Connection: close\r\n\r\n");
                stream.get_mut().write_all(text.as_bytes()).unwrap_or(());
            }
        };
        Builder::new().spawn(life).expect("a thread");
        Application { url, requests, answers }
    }

    /// The next request, answered with this status.
    pub(super) fn take(&self, status: u16) -> (String, Value) {
        self.expect(status);
        self.next()
    }

    /// A request that has not come yet will be answered with this status.
    pub(super) fn expect(&self, status: u16) {
        self.answers.send(status).expect("it lives");
    }

    /// The next request, answered or not.
    pub(super) fn next(&self) -> (String, Value) {
        self.requests.recv_timeout(Duration::from_secs(30)).expect("a request")
    }

    pub(super) fn hook(&self) -> Webhook {
        let (url, secret) = (self.url.clone(), b"key".into());
        Webhook { url, secret, product: None, types: Vec::new(), topics: Vec::new() }
    }
}

/// Signature and body of the next request.
pub(super) fn read(stream: &mut impl BufRead) -> Option<(String, Value)> {
    let (mut signature, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().expect("a number");
            }
            Some((name, value)) if name.eq_ignore_ascii_case("holdline-signature") => {
                signature = value.trim().into();
            }
            None if line.trim().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let text = String::from_utf8(body).expect("text");
    let signed = outward::sign(b"key", NOW_MS / 1_000, &text);
    assert!(signature.is_empty() || signature == signed, "{signature}");
    Some((signature, serde_json::from_str(&text).expect("JSON")))
}

pub(super) fn test_api(application: &Application, change: impl FnOnce(&mut Settings)) -> TestApi {
    let mut settings = Settings { webhooks: vec![application.hook()], ..settings() };
    change(&mut settings);
    TestApi::with(settings, |_| Answer::Status(Box::default()))
}

pub(super) fn ids(body: &Value) -> Vec<&str> {
    let events = body["events"].as_array().expect("a list");
    events.iter().map(|event| event["id"].as_str().expect("text")).collect()
}

/// Asks until the metrics have this line: the tally is told after the request is answered.
pub(super) fn wait_for(test_api: &TestApi, line: &str) {
    while !test_api.send("GET", "/metrics", "").1.lines().any(|found| found == line) {
        std::thread::yield_now();
    }
}

#[test]
fn a_batch_is_posted_again_until_it_is_taken_and_order_is_kept() {
    let application = Application::start();
    let test_api = test_api(&application, |_| {});
    assert!(test_api.feed.wanted(ServiceKind::Push));
    test_api.feed.publish(vec![report(1)]);
    let (signature, first) = application.take(500);
    assert!(!signature.is_empty(), "it is signed");
    check_named("WebhookBody", &first);
    test_api.feed.publish(vec![report(2)]);
    assert_eq!(application.take(404).1, first);
    assert_eq!(application.take(200).1, first);
    let (_, second) = application.take(204);
    assert_eq!(ids(&first), [format!("{NOW_MS}-1")]);
    assert_eq!(ids(&second), [format!("{NOW_MS}-2")]);
    assert_eq!((&second["lost"], &second["events"][0]["body"]), (&json!(0), &json!("2")));
    wait_for(&test_api, "holdline_webhook_events_total{hook=\"0\",result=\"delivered\"} 2");
    wait_for(&test_api, "holdline_webhook_failures_total{hook=\"0\"} 2");
}

#[test]
fn a_batch_that_is_sent_elsewhere_is_not_taken() {
    let application = Application::start();
    let test_api = test_api(&application, |_| {});
    test_api.feed.publish(vec![report(1)]);
    let (_, first) = application.take(301);
    assert_eq!(application.take(304).1, first, "no redirect is followed");
    assert_eq!(application.take(202).1, first);
    wait_for(&test_api, "holdline_webhook_events_total{hook=\"0\",result=\"delivered\"} 1");
    wait_for(&test_api, "holdline_webhook_failures_total{hook=\"0\"} 2");
}

#[test]
fn an_offline_names_the_heartbeat_time_out_and_the_take_over_and_has_a_version() {
    let application = Application::start();
    let test_api = test_api(&application, |_| {});
    let reasons = [CloseReason::KeepAliveTimeout, CloseReason::Replaced];
    test_api.feed.publish(reasons.map(|reason| happened(DeviceWhat::Offline { reason })).into());
    let client = |reason| ClientEvent {
        at_ms: NOW_MS,
        client_id: "c".into(),
        user: None,
        version: PresenceVersion(0x1a << 22),
        what: ClientWhat::Disconnected { reason },
    };
    test_api.feed.publish(reasons.map(client).into());
    let mut told = Vec::new();
    while told.len() < 4 {
        let (_, body) = application.take(200);
        check_named("WebhookBody", &body);
        told.extend(body["events"].as_array().expect("a list").clone());
    }
    let told = told.iter().map(|event| [&event["type"], &event["reason"], &event["version"]]);
    let (device, client) = ("0000000000000009", "0000000006800000");
    let expected = [
        ["offline", "keep_alive_timeout", device],
        ["offline", "replaced", device],
        ["client_disconnected", "keep_alive_timeout", client],
        ["client_disconnected", "replaced", client],
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn without_a_secret_nothing_is_signed() {
    let application = Application::start();
    let test_api = test_api(&application, |settings| settings.webhooks[0].secret.clear());
    test_api.feed.publish(vec![report(1)]);
    assert_eq!(application.take(200).0, "");
}

#[test]
fn a_batch_has_at_most_a_hundred_events() {
    let application = Application::start();
    let test_api = test_api(&application, |_| {});
    test_api.feed.publish((0..250).map(report).collect());
    let sizes: Vec<_> = (0..3).map(|_| ids(&application.take(200).1).len()).collect();
    assert_eq!(sizes, [100, 100, 50]);
}

#[test]
fn only_what_was_asked_for_is_posted() {
    let application = Application::start();
    let test_api = test_api(&application, |settings| {
        settings.webhooks[0].types = vec!["offline".into()];
        settings.webhooks[0].product = Some(key("shop"));
    });
    let mut other = offline();
    other.product = key("else");
    test_api.feed.publish(vec![report(1), other, offline()]);
    assert_eq!(ids(&application.take(200).1), [format!("{NOW_MS}-3")]);
}

#[test]
fn a_webhook_that_is_away_holds_nobody_up_and_is_told_what_it_lost() {
    let application = Application::start();
    let test_api = test_api(&application, |settings| settings.limits.events_waiting_max = 4);
    test_api.feed.publish(vec![offline()]);
    let first = application.requests.recv_timeout(Duration::from_secs(30)).expect("a request");
    assert_eq!(test_api.feed.publish((2..5).map(report).collect()), 0);
    assert_eq!(
        test_api.feed.publish((5..8).map(report).collect()),
        2,
        "the first is with the webhook"
    );
    application.answers.send(200).expect("it lives");
    let (_, second) = application.take(200);
    assert_eq!((ids(&first.1).len(), &second["lost"]), (1, &json!(2)));
    assert_eq!(ids(&second).len(), 4);
    wait_for(&test_api, "holdline_webhook_events_total{hook=\"0\",result=\"delivered\"} 5");
}

#[test]
fn what_is_too_old_is_dropped_and_told() {
    let application = Application::start();
    let test_api = test_api(&application, |settings| settings.retry.age_ms_max = 1_000);
    let mut old = report(1);
    old.at_ms = NOW_MS - 1_001;
    test_api.feed.publish(vec![old]);
    application.take(500);
    wait_for(&test_api, "holdline_webhook_events_total{hook=\"0\",result=\"dropped\"} 1");
    test_api.feed.publish(vec![report(2)]);
    let (_, next) = application.take(200);
    assert_eq!((ids(&next).len(), &next["lost"]), (1, &json!(1)));
}

#[test]
fn stopping_posts_what_is_left_once() {
    let application = Application::start();
    let mut test_api = test_api(&application, |settings| {
        settings.retry.wait_ms_min = 3_600_000;
        settings.retry.wait_ms_max = 3_600_000;
    });
    application.answers.send(500).expect("it lives");
    test_api.feed.publish(vec![offline()]);
    test_api.stop();
    let (_, body) = application.requests.recv_timeout(Duration::from_secs(30)).expect("a request");
    assert_eq!(body["events"][0]["type"], "offline");
}
