//! `holdline audit` as a script calls it: its exit codes, against a server that says what the test
//! wants.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::thread::{Builder, JoinHandle};

/// Answers one request; gives its first line and its body.
fn server(status: &'static str, answer: &'static str) -> (String, JoinHandle<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let life = move || {
        let (stream, _) = listener.accept().expect("a connection");
        let asked = request(&stream);
        let length = answer.len();
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
        (&stream).write_all((head + answer).as_bytes()).expect("it reads");
        asked
    };
    (url, Builder::new().name("server".into()).spawn(life).expect("a thread"))
}

fn request(stream: &TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).expect("a line");
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().expect("a number"),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    (first, String::from_utf8(body).expect("text"))
}

fn audit(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdline"));
    command.args(["audit", "--url", url, "--token", "t"]).args(arguments);
    command.output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const AGREED: &str = r#"{"online": 7, "buckets_differing": 0, "differing": 0, "repaired": 0,
    "took_ms": 4, "persistent": {"missing": 0, "stale": 0, "extra": 0, "wrong_node": 0},
    "differences": []}"#;

const DIFFERENT: &str = r#"{"online": 7, "buckets_differing": 1, "differing": 1, "repaired": 1,
    "took_ms": 4, "persistent": {"missing": 0, "stale": 1, "extra": 0, "wrong_node": 0},
    "differences": [{"key": "shop#till-7", "kind": "stale", "memory": null, "stored": null,
    "history": []}]}"#;

const NONE: &str = r#"{"error": {"code": "no_directory",
    "message": "no presence directory is configured: set `[presence] directory`"}}"#;

#[test]
fn agreement_is_0_and_the_order_is_what_was_asked_for() {
    let (url, asked) = server("200 OK", AGREED);
    let output = audit(&url, &["--settle", "9", "--repair", "--told", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("7 online, "), "{}", text(&output.stdout));
    let (first, body) = asked.join().expect("no panic");
    assert_eq!(first.trim_end(), "POST /v1/presence/audit HTTP/1.1");
    let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let expected = serde_json::json!({ "settle_ms": 9, "repair": true, "told_max": 3 });
    assert_eq!(body, expected);
}

#[test]
fn persistent_differences_are_1_repaired_or_not() {
    for arguments in [&["--repair"][..], &["--json"]] {
        let (url, asked) = server("200 OK", DIFFERENT);
        let output = audit(&url, arguments);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("shop#till-7"), "{}", text(&output.stdout));
        asked.join().expect("no panic");
    }
}

#[test]
fn what_could_not_be_compared_is_2_with_the_reason() {
    let (url, asked) = server("409 Conflict", NONE);
    let output = audit(&url, &[]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
    assert!(text(&output.stderr).contains("set `[presence] directory`"));
    asked.join().expect("no panic");
    let output = audit("http://127.0.0.1:1", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("Is the server running?"));
    let (url, asked) = server("200 OK", "7");
    let output = audit(&url, &[]);
    assert_eq!(output.status.code(), Some(2), "an answer that is none is no agreement");
    asked.join().expect("no panic");
}
