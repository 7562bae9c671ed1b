//! One and ten million sessions over the simulated network: taken over from `sim hold`.
//!
//! The simulation measures its own process and prints one line of JSON; sockets and the kernel
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
    for (name, value) in told.as_object().into_iter().flatten() {
        if let Some(number) = value.as_f64() {
            outcome.figure(&name.replace('_', " "), number, "");
        }
    }
    outcome.details = told;
    Ok(outcome)
}

/// The last line that is a JSON object.
fn told(text: &str) -> Option<Value> {
    let objects = text.lines().rev().filter(|line| line.starts_with('{'));
    objects.flat_map(serde_json::from_str).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_object_is_the_result() {
        let text = "{\"devices\": 1}\nholding\n{\"devices\": 2}\ndone\n";
        assert_eq!(told(text).unwrap()["devices"], 2);
        assert!(told("nothing\n{broken\n").is_none());
    }
}
