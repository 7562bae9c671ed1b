//! `holdline audit-log`: who called what of a running server's API, and what came of it.

use crate::client::{Server, moment, query, tell};
use crate::clients::{lines, text};
use clap::Args;
use serde_json::Value;
use std::process::ExitCode;

/// Filter of the entries.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Only calls made with the token of this name; `api.token` is the token in the data folder
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Only calls with this outcome: done, refused or failed
    #[arg(long)]
    outcome: Option<String>,
    /// Maximum number of entries, newest first
    #[arg(long, default_value_t = 20)]
    limit: u32,
}

/// Asks, and prints what came of it.
pub fn audit_log(arguments: Arguments) -> ExitCode {
    tell(act(&arguments))
}

fn act(arguments: &Arguments) -> Result<String, String> {
    let Arguments { server, json, by, outcome, limit } = arguments;
    let query = query("/v1/audit_log", &[("token", by.clone()), ("outcome", outcome.clone())]);
    let found = server.pages(&query, "entries", *limit)?;
    Ok(if *json { lines(&found) } else { found.iter().map(line).collect() })
}

fn line(entry: &Value) -> String {
    let code = match &entry["code"] {
        Value::Null => String::new(),
        code => format!(" {}", text(code)),
    };
    let more = match entry["more"].as_u64() {
        None | Some(0) => String::new(),
        Some(more) => format!(" (and {more} more)"),
    };
    format!(
        "{} {:<16} {:<21} {:<8} {}{code}  {}  {}{more}\n",
        moment(&entry["at_ms"], "-"),
        text(&entry["token"]),
        text(&entry["peer"]),
        text(&entry["outcome"]),
        entry["status"],
        text(&entry["action"]),
        text(&entry["on"]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_entry_is_a_line() {
        let entry = json!({
            "number": "7", "at_ms": 1_760_000_000_000_u64, "token": "ci", "peer": "192.0.2.7:9",
            "action": "DELETE /v1/users/{user}", "on": "/v1/users/tills", "outcome": "refused",
            "status": 403, "code": "scope_missing", "more": 2,
        });
        let line = line(&entry);
        assert!(line.contains("403 scope_missing  DELETE /v1/users/{user}  /v1/users/tills"));
        assert!(line.contains(" ci ") && line.ends_with("(and 2 more)\n"), "{line}");
    }
}
