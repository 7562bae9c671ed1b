//! One and ten million sessions over the simulated network, and a million that come back at once:
//! taken over from `sim hold`.
//!
//! The simulation measures its own process and prints JSON; sockets and the kernel
//! have no part in it. HOLDLINE_SIM names its binary, else cargo builds and runs it.

use super::Scale;
use crate::results::{self, Outcome};
use serde_json::{Value, json};
use std::io;
use std::process::Command;

/// A million devices.
pub fn million(scale: Scale) -> io::Result<Outcome> {
    hold(scale.of(1_000_000), None)
}

/// Ten million devices.
pub fn ten_million(scale: Scale) -> io::Result<Outcome> {
    hold(scale.of(10_000_000), None)
}

/// Ten million clients of MQTT with a subscription each.
pub fn ten_million_mqtt(scale: Scale) -> io::Result<Outcome> {
    hold(scale.of(10_000_000), Some("--mqtt"))
}

/// A million devices of IM, of an account each.
pub fn million_im(scale: Scale) -> io::Result<Outcome> {
    hold(scale.of(1_000_000), Some("--im"))
}

/// Two million clients of MQTT, one of which are cut at once and call again.
pub fn storm(scale: Scale) -> io::Result<Outcome> {
    let (clients, cut) = (scale.of(2_000_000), scale.of(1_000_000));
    let numbers = [clients.to_string(), cut.to_string()];
    let told = ask(&["--clients", &numbers[0], "--mqtt", "--cut", &numbers[1], "--shards", "2"])?;
    let mut outcome = Outcome::new(json!({ "clients": clients, "cut": cut, "shards": 2 }));
    for (figure, name, unit) in [
        ("connections that are cut at once", "cut", "clients"),
        ("of them back with a session", "back", "clients"),
        ("until all are back", "ms", "simulated ms"),
        ("told to come later", "refused", "times"),
        ("ended without an answer", "silent", "times"),
        ("connections of others that ended", "lost", "times"),
        ("pings of others meanwhile", "pings", "pings"),
        ("of them answered", "pongs", "pings"),
        ("longest that one of them waited", "pong_ms_max", "simulated ms"),
    ] {
        outcome.figure(figure, number(&told[name]), unit);
    }
    outcome.details = told;
    Ok(outcome)
}

fn hold(clients: u32, protocol: Option<&str>) -> io::Result<Outcome> {
    let clients_text = clients.to_string();
    let args: Vec<&str> = ["--clients", &clients_text].into_iter().chain(protocol).collect();
    let told = ask(&args)?;
    let mut outcome = Outcome::new(json!({ "clients": clients, "protocol": told["protocol"] }));
    let each = &told["a_client"];
    outcome.figure("bytes of the process", number(&told["pss_bytes"]), "bytes (PSS)");
    for (figure, name) in [
        ("server bytes a client", "server"),
        ("of them the connection's record", "record"),
        ("of them an index", "index"),
        ("of them the service and the rest", "service_and_rest"),
        ("the simulated network's own bytes a client", "network"),
    ] {
        outcome.figure(figure, number(&each[name]), "bytes");
    }
    outcome.details = told;
    Ok(outcome)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Output of `sim hold` with these arguments.
fn ask(args: &[&str]) -> io::Result<Value> {
    let mut command = match std::env::var_os("HOLDLINE_SIM") {
        Some(binary) => Command::new(binary),
        None => {
            let mut cargo = Command::new("cargo");
            cargo.current_dir(results::root()).args(["run", "--release", "-q", "-p", "sim", "--"]);
            cargo
        }
    };
    let output = command.arg("hold").args(args).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    told(&text).ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        io::Error::other(format!("sim hold told no result:\n{text}{errors}"))
    })
}

/// The JSON object at the end of what was printed.
fn told(text: &str) -> Option<Value> {
    text.match_indices('{').find_map(|(at, _)| serde_json::from_str(&text[at..]).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_at_the_end_is_the_result() {
        let text = "holding {much}\n{\"clients\": 2,\n \"a_client\": {\"server\": 9}}\n";
        assert_eq!(told(text).unwrap()["a_client"]["server"], 9);
        assert!(told("nothing\n{broken\n").is_none());
    }
}
