//! `holdline reload`, `holdline drain` and `holdline undrain`: a server that changes while it runs.

use crate::client::{Server, entries, tell};
use clap::Args;
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;

/// Time between two looks at how many connections are left.
const LOOK: Duration = Duration::from_secs(1);

/// Looks beyond the time of the drain.
const PATIENCE_S: u64 = 60;

/// Arguments of `holdline reload`.
#[derive(Args)]
pub struct ReloadArguments {
    #[command(flatten)]
    server: Server,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `holdline drain`.
#[derive(Args)]
pub struct DrainArguments {
    #[command(flatten)]
    server: Server,
    /// Wait until no connection is left
    #[arg(long)]
    wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `holdline undrain`.
#[derive(Args)]
pub struct UndrainArguments {
    #[command(flatten)]
    server: Server,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Has the server read its configuration again. Exit code 1: refused, or a part could not follow.
pub fn reload(arguments: &ReloadArguments) -> ExitCode {
    match arguments.server.call("POST", "/v1/configuration/reload", None) {
        Ok(answer) => {
            let failed = !entries(&answer, "failed").is_empty();
            match arguments.json {
                true => out!("{answer}"),
                false => crate::out::print(&reloaded(&answer)),
            }
            ExitCode::from(u8::from(failed))
        }
        Err(why) => tell(Err(why)),
    }
}

/// Sends the clients away, and waits for that if it is wanted.
pub fn drain(arguments: &DrainArguments) -> ExitCode {
    tell(drained(arguments))
}

/// Has the server accept clients again.
pub fn undrain(arguments: &UndrainArguments) -> ExitCode {
    let answer = arguments.server.call("DELETE", "/v1/drain", None);
    tell(answer.map(|answer| match arguments.json {
        true => format!("{answer}\n"),
        false => "Clients are accepted again.\n".to_owned(),
    }))
}

fn drained(arguments: &DrainArguments) -> Result<String, String> {
    let (server, json) = (&arguments.server, arguments.json);
    let answer = server.call("POST", "/v1/drain", None)?;
    let ms = answer["drain_ms"].as_u64().unwrap_or_default();
    if arguments.wait {
        wait(server, ms / 1_000 + PATIENCE_S)?;
    }
    Ok(match (json, arguments.wait) {
        (true, _) => format!("{answer}\n"),
        (false, true) => "Drained: no connection is left, and new clients are refused.\n".into(),
        (false, false) => format!(
            "Draining: new clients are refused, and connections are closed over {ms} ms. \
             `holdline undrain` ends it.\n"
        ),
    })
}

/// Waits until no connection is left; at most for so many looks.
fn wait(server: &Server, looks: u64) -> Result<(), String> {
    let mut left = 0;
    for _ in 0..=looks {
        let status = server.call("GET", "/v1/status", None)?;
        left = status["connections"].as_u64().unwrap_or_default();
        if left == 0 {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    Err(format!("{left} connections are left; the server still drains"))
}

/// What became of a reload, for people.
fn reloaded(answer: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let change = |it: &Value| {
        format!("  {}: {} -> {}\n", text(&it["key"]), text(&it["old"]), text(&it["new"]))
    };
    let failure = |it: &Value| format!("  {}: {}\n", text(&it["what"]), text(&it["error"]));
    let part = |name: &str, title: &str, line: &dyn Fn(&Value) -> String| {
        let all = entries(answer, name);
        let lines: String = all.iter().map(line).collect();
        if all.is_empty() { String::new() } else { format!("{title}\n{lines}") }
    };
    let told = part("applied", "Changed now:", &change)
        + &part("needs_restart", "Not changed until the server restarts:", &change)
        + &part("failed", "Failed; the old values stay in use:", &failure);
    if told.is_empty() {
        return "Reloaded: no setting changed; certificates and other files were read again.\n"
            .into();
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_reload_names_what_changed_what_waits_and_what_failed() {
        let change = |key: &str| json!({ "key": key, "old": "1", "new": "2" });
        let answer = json!({
            "applied": [change("[limits] drain_ms")],
            "needs_restart": [change("[server] shards")],
            "failed": [{ "what": "[access]", "error": "no such file" }],
        });
        assert_eq!(
            reloaded(&answer),
            "Changed now:\n  [limits] drain_ms: 1 -> 2\n\
             Not changed until the server restarts:\n  [server] shards: 1 -> 2\n\
             Failed; the old values stay in use:\n  [access]: no such file\n"
        );
        let none = json!({ "applied": [], "needs_restart": [], "failed": [] });
        assert!(reloaded(&none).starts_with("Reloaded: no setting changed"));
    }
}
