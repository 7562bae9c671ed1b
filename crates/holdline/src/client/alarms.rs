//! `holdline alarms`: conditions of a running server that need an operator.

use crate::client::{Server, entries, moment, query, tell};
use crate::clients::{lines, text};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::process::ExitCode;

/// Which alarms, or what to do with one.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Show past alarms too
    #[arg(long)]
    all: bool,
    /// Maximum number of alarms; the newest are shown first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Acknowledge an alarm: other operators see who is handling it
    Acknowledge {
        /// The alarm's id, as in the list
        id: u64,
    },
}

/// Lists alarms, or acknowledges one.
pub fn alarms(arguments: &Arguments) -> ExitCode {
    tell(act(arguments))
}

fn act(arguments: &Arguments) -> Result<String, String> {
    let Arguments { server, json, all, limit, action } = arguments;
    if let Some(Action::Acknowledge { id }) = action {
        let path = format!("/v1/alarms/{id}/acknowledge");
        let alarm = server.call("POST", &path, None)?;
        return Ok(if *json {
            format!("{alarm}\n")
        } else {
            format!("alarm {id}: acknowledged\n")
        });
    }
    let state = (!all).then(|| "active".to_owned());
    let filters = [("state", state), ("limit", Some(limit.to_string()))];
    let answer = server.call("GET", &query("/v1/alarms", &filters), None)?;
    let found = entries(&answer, "alarms");
    Ok(match (*json, found.is_empty()) {
        (true, _) => lines(found),
        (false, true) if *all => "no alarms\n".to_owned(),
        (false, true) => "no active alarms\n".to_owned(),
        (false, false) => table(found),
    })
}

fn table(found: &[Value]) -> String {
    let mut out = format!(
        "{:>6} {:<8} {:<22} {:<20} {:<20} {:<14}  CONDITION\n",
        "ID", "LEVEL", "KIND", "RAISED", "CLEARED", "ACKNOWLEDGED"
    );
    for it in found {
        let column = |key: &str| text(&it[key]);
        let subject = match it["subject"].as_str() {
            None | Some("") => String::new(),
            Some(_) => format!("{}: ", column("subject")),
        };
        out += &format!(
            "{:>6} {:<8} {:<22} {:<20} {:<20} {:<14}  {subject}{}\n",
            column("id"),
            column("level"),
            column("kind"),
            moment(&it["raised_ms"], "-"),
            moment(&it["cleared_ms"], "-"),
            column("acknowledged_by"),
            column("text"),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_alarm_is_a_line_with_its_subject() {
        let alarm = json!({ "id": 7, "kind": "bridge_down", "level": "warning", "subject": "hub",
            "text": "the bridge is disconnected", "raised_ms": 1_795_922_055_000_u64,
            "cleared_ms": null, "acknowledged_ms": null, "acknowledged_by": null });
        let printed = table(&[alarm]);
        let line = printed.lines().nth(1).expect("a line");
        assert!(line.starts_with("     7 warning  bridge_down"), "{line}");
        assert!(line.contains("2026-11-29T03:14:15Z -"), "{line}");
        assert!(line.ends_with("hub: the bridge is disconnected"), "{line}");
    }
}
