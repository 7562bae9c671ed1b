//! `holdline bridge`: bridges of a running server, and whether their brokers are connected.

use crate::client::{Server, entries, tell};
use crate::clients::{lines, text};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::process::ExitCode;

/// Action of `holdline bridge`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: Server,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Action {
    /// List bridges with their state, counts and last error
    #[command(visible_alias = "status")]
    List,
}

/// Carries out the command, and prints the result.
pub fn bridge(arguments: Arguments) -> ExitCode {
    tell(act(&arguments))
}

fn act(arguments: &Arguments) -> Result<String, String> {
    let Arguments { server, json, action: Action::List } = arguments;
    let answer = server.call("GET", "/v1/bridges", None)?;
    let found = entries(&answer, "bridges");
    Ok(if *json { lines(found) } else { table(found) })
}

fn table(bridges: &[Value]) -> String {
    if bridges.is_empty() {
        return "no bridges configured\n".into();
    }
    let mut out = format!(
        "{:<20} {:<12} {:>8} {:>10} {:>10} {:>8}  LAST ERROR\n",
        "BRIDGE", "STATE", "CONNECTS", "SENT", "RECEIVED", "REFUSED"
    );
    for bridge in bridges {
        let state = if bridge["online"] == true { "connected" } else { "disconnected" };
        out += &format!(
            "{:<20} {state:<12} {:>8} {:>10} {:>10} {:>8}  {}\n",
            text(&bridge["name"]),
            text(&bridge["connects"]),
            text(&bridge["out"]),
            text(&bridge["received"]),
            text(&bridge["refused"]),
            bridge["last_fault"].as_str().unwrap_or_default(),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_bridge_is_shown_with_its_state_and_its_last_error() {
        let bridge = json!({ "name": "north", "online": false, "connects": 2, "out": 3,
                             "received": 4, "refused": 0, "last_fault": "connection refused" });
        let shown = table(&[bridge]);
        let line = shown.lines().nth(1).expect("a line");
        assert!(line.starts_with("north ") && line.ends_with("connection refused"), "{line}");
        assert!(line.contains(" disconnected        2          3          4        0  "), "{line}");
        assert_eq!(table(&[]), "no bridges configured\n");
    }
}
