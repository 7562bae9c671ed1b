//! Requests over a real socket on loopback.

use super::*;
use crate::run::StagePart;
use lab::cause::{Cause, Phase};
use lab::order::Cut;
use lab::run::Counts;
use lab::series::{Column, Reading, Unit};
use std::io::{Read, Write};
use std::net::TcpStream;

fn ask(exporter: &Exporter, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(exporter.addr()).expect("it listens");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
    (status.expect("a status"), body)
}

fn get(exporter: &Exporter, path: &str) -> (u16, String) {
    ask(exporter, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
}

fn post(exporter: &Exporter, path: &str, body: &str, more: &str) -> u16 {
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n{body}"
    );
    ask(exporter, &request).0
}

fn tick() -> RunTick {
    let mut counts = Counts { attempts: 3, online: 2, planned: 4, ..Counts::default() };
    counts.causes.count(Phase::Connect, Cause::Refused);
    let mut reading = Reading::default();
    reading.set(Column::peak("clients.bind.p50", Unit::Micros), 900.0);
    reading.set(Column::peak("clients.bind.p99", Unit::Micros), 2_500.0);
    RunTick {
        at_ms: 1_000,
        stage: 0,
        stages: vec!["one".to_owned()],
        part: StagePart::Arriving,
        clients: 4,
        until_ms: 60_000,
        groups: [("a".to_owned(), counts.clone())].into(),
        counts,
        reading,
        notes: Vec::new(),
        findings: Vec::new(),
        saturation: Vec::new(),
    }
}

fn local(token: Option<&str>) -> Exporter {
    let mut exporter = Exporter::start(([127, 0, 0, 1], 0).into(), token).expect("it listens");
    exporter.tick(&tick());
    exporter
}

#[test]
fn figures_are_served_for_prometheus_and_for_programs() {
    let exporter = local(None);
    let (status, text) = get(&exporter, "/metrics");
    assert_eq!(status, 200);
    assert!(text.contains("clients_online 2\n") && text.contains("cause=\"refused\""), "{text}");
    let (_, status) = get(&exporter, "/status");
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["online"], 2);
    assert_eq!(status["ended"]["connect.refused"], 1);
    assert_eq!(status["last_second"]["bind"]["p99_us"], 2_500.0);
    assert_eq!(status["groups"]["a"]["planned"], 4);
    assert_eq!(status["over"], false);
    assert_eq!(get(&exporter, "/nothing").0, 404);
}

#[test]
fn wishes_reach_the_run_once_and_nonsense_does_not() {
    let mut exporter = local(None);
    assert_eq!(post(&exporter, "/add", r#"{"clients": 50, "group": "a"}"#, ""), 202);
    assert_eq!(post(&exporter, "/rate", r#"{"factor": 2}"#, ""), 202);
    assert_eq!(post(&exporter, "/cut", r#"{"share": 0.1, "how": "reset"}"#, ""), 202);
    assert_eq!(post(&exporter, "/stop", "{}", ""), 202);
    for (path, body) in [
        ("/add", r#"{"clients": 0}"#),
        ("/add", r#"{"clients": -5}"#),
        ("/rate", r#"{"factor": 1e9}"#),
        ("/cut", r#"{"share": 0}"#),
        ("/cut", r#"{"share": 0.5, "how": "gently"}"#),
        ("/stop", r#"{"later": true}"#),
    ] {
        assert_eq!(post(&exporter, path, body, ""), 422, "{path} {body}");
    }
    assert_eq!(post(&exporter, "/stop", "{", ""), 400);
    let group = String::new();
    let expected = [
        OnlookerRequest::Add { group: "a".to_owned(), clients: 50 },
        OnlookerRequest::Rate { group, factor: 2.0 },
        OnlookerRequest::Cut { share: 0.1, how: Cut::Reset },
        OnlookerRequest::Quit { now: false },
    ];
    assert_eq!(exporter.wishes(), expected);
    assert!(exporter.wishes().is_empty());
}

#[test]
fn a_page_in_a_browser_can_not_end_a_run() {
    let mut exporter = local(None);
    let form = "POST /stop HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}";
    assert_eq!(ask(&exporter, form).0, 415);
    assert!(exporter.wishes().is_empty());
}

#[test]
fn control_needs_the_token_where_there_is_one() {
    let mut exporter = local(Some("right"));
    assert_eq!(post(&exporter, "/stop", "{}", ""), 401);
    assert_eq!(post(&exporter, "/stop", "{}", "Authorization: Bearer wrong\r\n"), 401);
    assert_eq!(post(&exporter, "/stop", "{}", "Authorization: Bearer right\r\n"), 202);
    assert_eq!(exporter.wishes().len(), 1);
    assert_eq!(get(&exporter, "/metrics").0, 200);
}

#[test]
fn beyond_loopback_there_is_no_control_without_a_token() {
    let mut exporter = Exporter::start(([0, 0, 0, 0], 0).into(), None).expect("it listens");
    exporter.addr = ([127, 0, 0, 1], exporter.addr.port()).into();
    assert_eq!(post(&exporter, "/stop", "{}", ""), 403);
    assert!(exporter.wishes().is_empty());
}

#[test]
fn wishes_and_bodies_are_bounded() {
    let mut exporter = local(None);
    for _ in 0..WISHES_MAX {
        assert_eq!(post(&exporter, "/pause", "{}", ""), 202);
    }
    assert_eq!(post(&exporter, "/pause", "{}", ""), 429);
    assert_eq!(exporter.wishes().len(), WISHES_MAX);
    let long = format!("{{\"group\": \"{}\", \"clients\": 1}}", "x".repeat(8_000));
    assert_eq!(post(&exporter, "/add", &long, ""), 413);
}
