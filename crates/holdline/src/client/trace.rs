//! `holdline trace`: what a client, a user, an address or a topic says, live and decoded.
//!
//! The command reads the API's stream (server-sent events, WHATWG HTML 9.2) line by line and prints
//! a line for each event. Text of strangers is shown escaped. The command ends with the trace, with
//! its reader, and quietly on a signal.

use super::{Server, query};
use base::text::escaped;
use clap::{ArgGroup, Args, ValueEnum};
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Follow a client, a user, an address or a topic of a running server: what is said, decoded, as it
/// is said. Passwords and tokens are never shown. Needs a token with the scope admin
#[derive(Args)]
#[command(group(ArgGroup::new("whom").required(true).multiple(false)))]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// An MQTT client identifier, a device, or name@domain/device for IM and XMPP; need not be
    /// connected yet
    #[arg(group = "whom")]
    client: Option<String>,
    /// Clients of this user or account
    #[arg(long, group = "whom", value_name = "NAME")]
    user: Option<String>,
    /// Connections from this address
    #[arg(long, group = "whom", value_name = "IP")]
    address: Option<String>,
    /// Messages on topics that match this filter, as they are published and delivered
    #[arg(long, group = "whom", value_name = "FILTER")]
    topic: Option<String>,
    /// How much of each payload to show
    #[arg(long, value_enum, default_value_t = Shown::Head)]
    payload: Shown,
    /// End after this time: 90s, 5m, 1h30m; a plain number is in seconds
    #[arg(
        long = "for",
        value_name = "TIME",
        value_parser = crate::duration::some_seconds,
        default_value = "5m"
    )]
    lasts_s: u32,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// How much of payloads is shown.
#[derive(Clone, Copy, ValueEnum)]
enum Shown {
    /// Length only
    None,
    /// First 64 bytes
    Head,
    /// Whole payloads, up to the server's limit
    Whole,
}

/// Prints the trace's events until it is over.
pub fn trace(arguments: &Arguments) -> ExitCode {
    for signal in [SIGINT, SIGTERM] {
        // Without it the signal ends the process all the same, less quietly.
        let always = Arc::new(AtomicBool::new(true));
        let _ = signal_hook::flag::register_conditional_shutdown(signal, 0, always);
    }
    match arguments.follow() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            note!("{why}");
            ExitCode::from(2)
        }
    }
}

impl Arguments {
    fn path(&self) -> String {
        let payload = match self.payload {
            Shown::None => "none",
            Shown::Head => "head",
            Shown::Whole => "whole",
        };
        let filters = [
            ("client", self.client.clone()),
            ("user", self.user.clone()),
            ("address", self.address.clone()),
            ("topic", self.topic.clone()),
            ("payload", Some(payload.to_owned())),
            ("duration_s", Some(self.lasts_s.to_string())),
        ];
        query("/v1/trace", &filters)
    }

    fn follow(&self) -> Result<(), String> {
        let stream = self.server.stream(&self.path())?;
        let is_whole = told(stream, |name, data| {
            match self.json {
                true => out!("{}", object(name, data)),
                false => out!("{}", line(name, data)),
            }
            !crate::out::is_closed()
        });
        match is_whole {
            true => Ok(()),
            false => Err("the server aborted the trace".into()),
        }
    }
}

/// Tells each event of a stream, until one says that it is the last, or `each` wants no more. False
/// when the stream ended before.
fn told(stream: impl Read, mut each: impl FnMut(&str, &Value) -> bool) -> bool {
    let (mut name, mut data) = (String::new(), String::new());
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { return false };
        if let Some(rest) = line.strip_prefix("event:") {
            name = rest.trim().to_owned();
        } else if let Some(rest) = line.strip_prefix("data:") {
            data += rest.trim();
        } else if line.is_empty() && !name.is_empty() {
            let value = serde_json::from_str(&data).unwrap_or(Value::Null);
            if !each(&name, &value) || name == "over" {
                return true;
            }
            name.clear();
            data.clear();
        }
    }
    false
}

/// An event as an object: what is no packet has one field of its name.
fn object(name: &str, data: &Value) -> Value {
    match name {
        "trace" => data.clone(),
        "left_out" => json!({ "left_out": data["count"] }),
        _ => json!({ name: data["reason"] }),
    }
}

/// An event as a line.
fn line(name: &str, data: &Value) -> String {
    match name {
        "trace" => event(data),
        "left_out" => format!("… {} events dropped here: too many per second", data["count"]),
        _ => match data["reason"].as_str() {
            Some("time") => "trace finished".into(),
            Some("stopping") => "the server is stopping".into(),
            reason => format!("trace ended: {}", escaped(reason.unwrap_or("unknown reason"))),
        },
    }
}

fn event(data: &Value) -> String {
    let of = |name: &str| data[name].as_str().unwrap_or_default();
    let at = clock(data["at_ms"].as_u64().unwrap_or(0));
    let connection = match data["connection"].as_u64().unwrap_or(0) {
        0 => "-".into(),
        number => format!("#{number:x}"),
    };
    let direction = if of("direction").is_empty() { "--" } else { of("direction") };
    let (protocol, kind, client) = (of("protocol"), escaped(of("kind")), escaped(of("client_id")));
    let client = if client.is_empty() { "?".into() } else { client };
    let mut line = format!("{at} {connection} {client} {protocol} {direction:<3} {kind}");
    for (name, value) in data["fields"].as_object().unwrap_or(&Map::new()) {
        let _ = write!(line, " {}={}", escaped(name), shown(value));
    }
    if let Some(bytes) = data["bytes"].as_u64().filter(|&bytes| bytes > 0) {
        let _ = write!(line, " ({bytes} bytes)");
    }
    line + &payload(&data["payload"])
}

/// The value of a field.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => spaced(text),
        Value::Array(all) => {
            let all = all.iter().map(|one| spaced(one.as_str().unwrap_or_default()));
            format!("[{}]", all.collect::<Vec<_>>().join(", "))
        }
        Value::Object(secret) => {
            format!("(redacted, {} bytes)", secret.get("redacted").unwrap_or(&Value::Null))
        }
        other => other.to_string(),
    }
}

/// A text, in quotes where it could be taken for something else.
fn spaced(text: &str) -> String {
    let is_plain = !text.is_empty() && !text.contains([' ', '"', '=', '(']);
    if is_plain { escaped(text).into_owned() } else { format!("\"{}\"", escaped(text)) }
}

fn payload(payload: &Value) -> String {
    let Some(bytes) = payload["bytes"].as_u64() else { return String::new() };
    let base64 = payload["shown_base64"].as_str().unwrap_or_default();
    let mut said = format!(" payload {bytes} bytes");
    match payload["shown"].as_str() {
        Some("") => {}
        Some(text) => {
            let _ = write!(said, ": \"{}\"", escaped(text));
            said += if (text.len() as u64) < bytes { "…" } else { "" };
        }
        None => {
            let _ = write!(said, ": base64 {}", escaped(base64));
        }
    }
    said
}

/// The time of a day, UTC.
fn clock(unix_ms: u64) -> String {
    let of_day = unix_ms / 1_000 % 86_400;
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{:03}", unix_ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = concat!(
        ": quiet\n\nevent: trace\ndata: {\"at_ms\": 86399007, \"connection\": 255, ",
        "\"protocol\": \"mqtt5\", \"direction\": \"in\", \"kind\": \"CONNECT\", ",
        "\"client_id\": \"till\\u001b[2J\", \"user\": null, \"address\": null, \"bytes\": 42, ",
        "\"fields\": {\"keep_alive_s\": 60, \"password\": {\"redacted\": 6}, ",
        "\"user\": \"a b\", \"filters\": [\"a/# qos=1\", \"b\"]}, ",
        "\"payload\": {\"bytes\": 100, \"shown_base64\": \"b3Bl\", \"shown\": \"op\\ne\"}}\n\n",
        "event: left_out\ndata: {\"count\": 3}\n\nevent: over\ndata: {\"reason\": \"time\"}\n\n",
        "event: trace\ndata: {}\n\n",
    );

    fn lines(stream: &str, of: fn(&str, &Value) -> String) -> (bool, Vec<String>) {
        let mut lines = Vec::new();
        let is_whole = told(stream.as_bytes(), |name, data| {
            lines.push(of(name, data));
            true
        });
        (is_whole, lines)
    }

    #[test]
    fn an_event_is_a_line_that_a_terminal_only_shows() {
        let (is_whole, lines) = lines(STREAM, line);
        assert!(is_whole);
        assert_eq!(
            lines,
            [
                "23:59:59.007 #ff till\\u001b[2J mqtt5 in  CONNECT \
                 filters=[\"a/# qos=1\", b] keep_alive_s=60 password=(redacted, 6 bytes) \
                 user=\"a b\" (42 bytes) payload 100 bytes: \"op\\u000ae\"…",
                "… 3 events dropped here: too many per second",
                "trace finished",
            ]
        );
    }

    #[test]
    fn an_event_is_an_object_and_nothing_comes_behind_the_end() {
        let (is_whole, lines) = lines(STREAM, |name, data| object(name, data).to_string());
        assert!(is_whole && lines.len() == 3, "{lines:?}");
        assert_eq!(&lines[1..], ["{\"left_out\":3}", "{\"over\":\"time\"}"]);
        let cut = STREAM.split("event: over").next().expect("a part");
        assert!(!super::told(cut.as_bytes(), |_, _| true), "it was broken off");
        assert!(super::told(cut.as_bytes(), |_, _| false), "nobody wants more");
    }
}
