//! `holdline reload`: a running server reads its configuration again.

use crate::client::{Server, entries, tell};
use clap::Args;
use serde_json::Value;
use std::process::ExitCode;

/// Arguments of `holdline reload`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Only show what a reload would change, which files and ports it could not use, and warnings;
    /// exit code 1 if it would be refused or incomplete
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Has the server read its configuration again. Exit code 1: refused, or a part could not follow.
pub fn reload(arguments: &Arguments) -> ExitCode {
    if arguments.dry_run {
        return preview(arguments);
    }
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

/// Shows what a reload would do. Exit code 1: it would be refused, or a part could not follow.
fn preview(arguments: &Arguments) -> ExitCode {
    let answer = match arguments.server.call("POST", "/v1/configuration/preview", None) {
        Ok(answer) => answer,
        Err(why) => return tell(Err(why)),
    };
    match arguments.json {
        true => out!("{answer}"),
        false => crate::out::print(&previewed(&answer)),
    }
    ExitCode::from(u8::from(!entries(&answer, "problems").is_empty()))
}

/// Text for people: the changes that a reload would make, and what is in its way.
fn previewed(answer: &Value) -> String {
    let of = |live: bool, title: &str| {
        let all = entries(answer, "changes").iter().filter(|it| it["live"] == live);
        let lines: String = all.map(change).collect();
        if lines.is_empty() { lines } else { format!("{title}\n{lines}") }
    };
    let changes = of(true, "A reload would change:") + &of(false, "A restart would change:");
    let changes = match (changes.is_empty(), answer["file"].as_str()) {
        (false, _) => changes,
        (true, Some(file)) => format!("No setting in {file} differs from those in force.\n"),
        (true, None) => NO_FILE.to_owned(),
    };
    let problems = list(answer, "problems", "Problems; a reload would be refused or incomplete:");
    changes + &problems + &warnings(answer)
}

/// Note about a server that reads no file.
const NO_FILE: &str = "No setting differs from those in force: the server was started without a \
                       configuration file (`holdline serve --config FILE`), with the defaults.\n";

/// Sentences, each on its line below a title; nothing if there are none.
fn list(answer: &Value, name: &str, title: &str) -> String {
    let all = entries(answer, name);
    let lines: String = all.iter().map(|it| format!("  {}\n", text(it))).collect();
    if all.is_empty() { lines } else { format!("{title}\n{lines}") }
}

fn warnings(answer: &Value) -> String {
    let line = |it: &Value| format!("warning: {}\n", text(it));
    entries(answer, "warnings").iter().map(line).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn change(it: &Value) -> String {
    format!("  {}: {} -> {}\n", text(&it["key"]), text(&it["old"]), text(&it["new"]))
}

/// Result of a reload, as text for people.
fn reloaded(answer: &Value) -> String {
    let failure = |it: &Value| format!("  {}: {}\n", text(&it["what"]), text(&it["error"]));
    let part = |name: &str, title: &str, line: &dyn Fn(&Value) -> String| {
        let all = entries(answer, name);
        let lines: String = all.iter().map(line).collect();
        if all.is_empty() { String::new() } else { format!("{title}\n{lines}") }
    };
    let told = part("applied", "Changed now:", &change)
        + &part("needs_restart", "Not changed until the server restarts:", &change)
        + &part("failed", "Failed; the old values stay in use:", &failure);
    let told = match told.is_empty() {
        false => told,
        true => "Reloaded: no setting changed; certificates and other files were read again.\n"
            .to_owned(),
    };
    told + &warnings(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_preview_tells_what_a_reload_changes_from_what_waits_for_a_restart() {
        let change = |key: &str, live| json!({ "key": key, "old": "1", "new": "2", "live": live });
        let answer = json!({ "changes": [change("[a] b", false), change("[c] d", true)] });
        assert_eq!(
            previewed(&answer),
            "A reload would change:\n  [c] d: 1 -> 2\nA restart would change:\n  [a] b: 1 -> 2\n"
        );
        let none = json!({ "file": "a.toml", "changes": [] });
        assert_eq!(previewed(&none), "No setting in a.toml differs from those in force.\n");
        assert!(previewed(&json!({ "file": null, "changes": [] })).contains("without a config"));
        let bad = json!({ "file": "a.toml", "changes": [change("[c] d", true)],
            "problems": ["port 1 is in use"], "warnings": ["a.pem has expired"] });
        assert_eq!(
            previewed(&bad),
            "A reload would change:\n  [c] d: 1 -> 2\n\
             Problems; a reload would be refused or incomplete:\n  port 1 is in use\n\
             warning: a.pem has expired\n"
        );
    }

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
        let warned = reloaded(&json!({ "warnings": ["a.pem: the certificate has expired"] }));
        assert!(warned.ends_with("\nwarning: a.pem: the certificate has expired\n"), "{warned}");
    }
}
