//! Requests that make no sense, over every route: each is told so, with a code, and none is a
//! defect of ours.

use super::tokens::{good, whole_test_api};
use super::*;
use base::prng::Prng;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Values that stand where others were expected.
const ODD: [&str; 16] = [
    "null",
    "true",
    "-1",
    "1e400",
    "99999999999999999999",
    "0.5",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "[]",
    "[[[[[[]]]]]]",
    "{}",
    "{\"a\": {}}",
    "\"x",
    "{\"\": 1, \"\": 2}",
    "",
];

const TYPES: [&str; 4] = ["application/json", "text/plain", "multipart/form-data", "\u{7f}"];

/// One answer: status and body.
fn answer(stream: &mut TcpStream) -> (u16, String) {
    let mut text = Vec::new();
    // It was asked to close.
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let status = text.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_owned())
}

fn send(test_api: &TestApi, head: &str, body: &[u8]) -> (u16, String) {
    let addr = test_api.running.as_ref().expect("runs").addrs()[0];
    let mut stream = TcpStream::connect(addr).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    // It may be refused before all of it was read.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    answer(&mut stream)
}

/// A body with a value, a name or a byte that is not what it was.
fn mutated(body: &str, rng: &mut Prng) -> Vec<u8> {
    let mut bytes = body.as_bytes().to_vec();
    let odd = ODD[rng.below(ODD.len() as u64) as usize];
    match rng.below(6) {
        0 => return odd.as_bytes().to_vec(),
        1 => bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize),
        2 if !bytes.is_empty() => {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.below(256) as u8;
        }
        3 => return body.replacen(": ", &format!(": {odd}, \"odd\": "), 1).into_bytes(),
        4 => {
            // Every field twice.
            let inner = body.trim_start_matches('{').trim_end_matches('}');
            return format!("{{{inner}, {inner}}}").into_bytes();
        }
        _ => {
            let value = body.split_once(": ").map_or("", |(_, rest)| rest);
            let value = value.split([',', '}']).next().unwrap_or("");
            if !value.is_empty() {
                return body.replacen(value, odd, 1).into_bytes();
            }
        }
    }
    bytes
}

#[test]
fn whatever_is_sent_is_answered_and_never_with_a_defect() {
    let folder = tempfile::tempdir().expect("a folder");
    let test_api = whole_test_api(|settings| {
        let letters = folder.path().join("letters");
        settings.dead_letters = Some(DeadLetterSettings::in_folder(letters));
    });
    let mut rng = Prng::new(12);
    let mut refused = 0;
    for rule in rules() {
        // A stream does not end.
        let streams = ["/v1/events", "/v1/overview/stream"];
        if rule.scopes.is_empty() || streams.contains(&rule.path) {
            continue;
        }
        for round in 0..24 {
            let (mut path, body) = good(&rule);
            let mut method = rule.method.to_uppercase();
            match round % 8 {
                1 => path += "?limit=99999999999999999999",
                2 => path += "&limit=%FF%00&limit=2",
                3 => path = path.replace("/shop", "/%00").replace("/c", "/%ff"),
                4 => path += "/../x",
                5 if round > 8 => method = "PATCH".into(),
                _ => {}
            }
            let body = mutated(&body, &mut rng);
            let kind = TYPES[rng.below(4) as usize].trim_matches('\u{7f}');
            let head = format!(
                "{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\
                 Content-Type: {kind}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let (status, told) = send(&test_api, &head, &body);
            let what = format!("{head}{}\n{status}: {told}", String::from_utf8_lossy(&body));
            assert!((200..500).contains(&status), "{what}");
            if status != 200 {
                let told: Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{what}"));
                super::description::check_named("ApiError", &told);
                refused += 1;
            }
        }
    }
    assert!(refused > 400, "{refused} of the requests were refused");
}

#[test]
fn what_is_no_request_is_ended_or_refused_and_others_are_answered() {
    let test_api = whole_test_api(|_| {});
    let long = "x".repeat(1 << 20);
    for head in [
        "\r\n\r\n".to_owned(),
        "GET\r\n\r\n".into(),
        format!("GET /{long} HTTP/1.1\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nX: {long}\r\n\r\n"),
        "GET / HTTP/9.9\r\n\r\n".into(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(),
        "GET /v1/users HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".into(),
        "GET /v1/users HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n".into(),
        "\u{16}\u{3}\u{1}\u{2}".into(),
    ] {
        let addr = test_api.running.as_ref().expect("runs").addrs()[0];
        let mut stream = TcpStream::connect(addr).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        // It may be refused before all of it was read.
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let (status, _) = answer(&mut stream);
        let what = head.get(..head.len().min(40));
        assert!(status == 0 || (400..500).contains(&status) || status == 505, "{what:?}: {status}");
    }
    assert_eq!(test_api.json("GET", "/v1/users", "").0, 200);
}
