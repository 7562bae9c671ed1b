//! Commands whose output nobody takes: a reader that has left, a disk that is full. And names that
//! a terminal would obey.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::thread::{Builder, JoinHandle};

/// A reader that has left.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// A disk that is full.
fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("this is Linux").into()
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdline"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOLDLINE_") {
            command.env_remove(name);
        }
    }
    command.args(words).stdin(Stdio::null());
    command
}

fn run(words: &[&str], stdout: Stdio) -> Output {
    let mut command = command(words);
    let running = command.stdout(stdout).stderr(Stdio::piped()).spawn().expect("it runs");
    running.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Answers every request with this, until the test is over.
fn server(answer: &'static str) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let life = move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                answer.len()
            );
            // A request of these commands comes in one piece.
            let _ = stream.read(&mut [0; 4_096]);
            let _ = stream.write_all((head + answer).as_bytes());
        }
    };
    (url, Builder::new().name("server".into()).spawn(life).expect("a thread"))
}

const CLIENTS: &str = r#"{"clients": [{"client_id": "till\u001b]0;owned\u0007\nadmin\u009b2J",
    "online": true, "protocol": "mqtt5", "user": "eve\u202e", "peer": "192.0.2.7:1"}],
    "next": null}"#;

const DEVICES: &str = r#"{"devices": [{"product": "p", "device": "d\u001b[2J", "online": true,
    "waiting": 0, "tags": ["x\u0007"]}], "next": null}"#;

const RETAINED: &str = r#"{"messages": [{"topic": "a\u001b]52;c;aGk=\u0007",
    "payload": "on\u001b[2J\noff"}], "next": null}"#;

#[test]
fn every_command_ends_quietly_when_its_reader_has_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let conf = folder.path().join("mosquitto.conf");
    std::fs::write(&conf, "listener 1883\n").expect("written");
    let data = folder.path().join("data");
    let (conf, data) = (conf.to_str().expect("text"), data.to_str().expect("text"));
    let export = "{\"holdline\":\"export\"}";
    std::fs::write(folder.path().join("export"), export).expect("written");
    let clients = server(CLIENTS).0;
    let devices = server(DEVICES).0;
    let retained = server(RETAINED).0;
    let words: &[&[&str]] = &[
        &["--help"],
        &["check"],
        &["config", "import", conf],
        &["load", "plans"],
        &["load", "plan", "stability"],
        &["load", "coolpy7", "--help"],
        &["load", "report", "nowhere"],
        &["wrk", "--help"],
        &["wrk", "--frob"],
        &["doctor", "--connections", "10"],
        &["doctor", "--connections", "10", "--json"],
        &["store", "stats", "--data", data],
        &["store", "check", "--data", data],
        &["clients", "--url", &clients, "--token", "t", "list"],
        &["clients", "--url", &clients, "--token", "t", "--json", "list"],
        &["devices", "--url", &devices, "--token", "t"],
        &["retained", "--url", &retained, "--token", "t", "list"],
        &["presence", "--url", &clients, "--token", "t", "status"],
    ];
    for words in words {
        let heard = run(words, Stdio::piped());
        let unheard = run(words, closed());
        let said = text(&unheard.stderr);
        assert_eq!(unheard.status.code(), heard.status.code(), "{words:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("pipe"), "{words:?}: {said}");
        assert_eq!(said, text(&heard.stderr), "{words:?}");
        let mute = command(words).stdout(closed()).stderr(closed()).status().expect("it runs");
        assert_eq!(mute.code(), heard.status.code(), "{words:?} with nobody to complain to");
        if heard.stdout.is_empty() || words.contains(&"--help") {
            continue;
        }
        let lost = run(words, full());
        assert_eq!(lost.status.code(), Some(74), "{words:?}: {}", text(&lost.stderr));
        assert!(text(&lost.stderr).contains("standard output: No space left"), "{words:?}");
        let mute = command(words).stdout(full()).stderr(full()).status().expect("it runs");
        assert_eq!(mute.code(), Some(74), "{words:?} with nothing to complain to");
    }
}

#[test]
fn whoever_prints_for_ever_ends_when_its_reader_has_left() {
    let output = run(&["observe", "--every", "100ms"], closed());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let output = run(&["observe", "--every", "100ms", "--json"], closed());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn a_file_that_may_not_grow_is_a_full_disk_and_no_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plans");
    let file = File::create(&path).expect("made");
    file.set_len(1 << 20).expect("long");
    let binary = env!("CARGO_BIN_EXE_holdline");
    let line = format!("ulimit -f 1024; exec {binary} load plans >> {}", path.display());
    let output = Command::new("bash").args(["-c", &line]).output().expect("it runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(74), "{said}");
    assert!(said.contains("standard output: File too large"), "{said}");
}

#[test]
fn names_that_a_terminal_would_obey_are_shown() {
    let url = server(CLIENTS).0;
    let shown = |words: &[&str]| text(&run(words, Stdio::piped()).stdout);
    let listed = shown(&["clients", "--url", &url, "--token", "t", "list"]);
    assert!(listed.contains("till\\u001b]0;owned\\u0007\\u000aadmin\\u009b2J"), "{listed:?}");
    assert!(listed.contains("eve\\u202e") && listed.lines().count() == 2, "{listed:?}");
    let json = shown(&["clients", "--url", &url, "--token", "t", "--json", "list"]);
    assert!(json.contains("\\u009b2J") && !json.contains('\u{9b}'), "{json:?}");
    let parsed: serde_json::Value = serde_json::from_str(&json).expect("it stays JSON");
    assert_eq!(parsed["client_id"], "till\u{1b}]0;owned\u{7}\nadmin\u{9b}2J", "and the same");
    let url = server(DEVICES).0;
    let listed = shown(&["devices", "--url", &url, "--token", "t"]);
    assert!(listed.contains("d\\u001b[2J") && listed.contains("x\\u0007"), "{listed:?}");
    let url = server(RETAINED).0;
    let listed = shown(&["retained", "--url", &url, "--token", "t", "list"]);
    assert_eq!(listed, "a\\u001b]52;c;aGk=\\u0007 on\\u001b[2J\\u000aoff\n");
}
