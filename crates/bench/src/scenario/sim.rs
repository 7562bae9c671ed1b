//! One and ten million sessions over the simulated network: taken over from `sim hold`.
//!
//! The simulation measures its own process and prints JSON; sockets and the kernel
//! have no part in it. HOLDLINE_SIM names its binary, else cargo builds and runs it.

use super::Scale;
use crate::results::{self, Outcome};
use serde_json::{Value, json};
use std::io;
use std::process::Command;

/// A million.
pub fn million(scale: Scale) -> io::Result<Outcome> {
    hold(scale.of(1_000_000))
}

/// Ten million.
pub fn ten_million(scale: Scale) -> io::Result<Outcome> {
    hold(scale.of(10_000_000))
}

fn hold(devices: u32) -> io::Result<Outcome> {
    let mut command = match std::env::var_os("HOLDLINE_SIM") {
        Some(binary) => Command::new(binary),
        None => {
            let mut cargo = Command::new("cargo");
            cargo.current_dir(results::root()).args(["run", "--release", "-q", "-p", "sim", "--"]);
            cargo
        }
    };
    let devices_text = devices.to_string();
    let output = command.args(["hold", "--devices", &devices_text]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let told = told(&text).ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        io::Error::other(format!("sim hold told no result:\n{text}{errors}"))
    })?;
    let mut outcome = Outcome::new(json!({ "devices": devices }));
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let each = &told["a_device"];
    outcome.figure("bytes of the process", number(&told["pss_bytes"]), "bytes (PSS)");
    for (figure, name) in [
        ("server bytes a device", "server"),
        ("of them the connection's record", "record"),
        ("of them the index", "index"),
        ("of them the hub and the rest", "hub_and_rest"),
        ("the simulated network's own bytes a device", "network"),
    ] {
        outcome.figure(figure, number(&each[name]), "bytes");
    }
    outcome.details = told;
    Ok(outcome)
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
        let text = "holding {much}\n{\"devices\": 2,\n \"a_device\": {\"server\": 9}}\n";
        assert_eq!(told(text).unwrap()["a_device"]["server"], 9);
        assert!(told("nothing\n{broken\n").is_none());
    }
}
