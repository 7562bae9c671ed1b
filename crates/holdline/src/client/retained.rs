//! `holdline retained`: the retained messages of a running server.

use crate::client::{Server, encoded, query, tell};
use crate::clients::{lines, text};
use base::text::escaped;
use clap::{Args, Subcommand};
use serde_json::Value;
use std::process::ExitCode;

/// Action of `holdline retained`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List retained messages in topic order, one per line
    List {
        /// Topic filter; quote it, because # has a meaning in the shell
        #[arg(default_value = "#")]
        filter: String,
        /// Maximum number of entries
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Show the retained message of a topic
    #[command(visible_alias = "show")]
    Get {
        /// Topic
        topic: String,
    },
    /// Clear the retained messages of these topics
    Clear {
        /// Topics
        #[arg(required = true)]
        topics: Vec<String>,
    },
}

/// Carries out the command, and prints the result.
pub fn retained(arguments: Arguments) -> ExitCode {
    tell(act(&arguments))
}

fn act(arguments: &Arguments) -> Result<String, String> {
    let (server, json) = (&arguments.server, arguments.json);
    // Not in the path: there are topics that no path carries.
    let path = |topic: &str| format!("/v1/retained_message?topic={}", encoded(topic));
    match &arguments.action {
        Action::List { filter, limit } => {
            let query = query("/v1/retained", &[("filter", Some(filter.clone()))]);
            let found = server.pages(&query, "messages", *limit)?;
            let shown = |found: &[Value]| found.iter().map(line).collect();
            Ok(if json { lines(&found) } else { shown(&found) })
        }
        Action::Get { topic } => {
            let found = server.call("GET", &path(topic), None)?;
            Ok(if json { format!("{found}\n") } else { format!("{}\n", payload(&found)) })
        }
        Action::Clear { topics } => server.delete_each(topics, path, (json, "cleared")),
    }
}

fn line(message: &Value) -> String {
    format!("{} {}\n", text(&message["topic"]), escaped(&payload(message)))
}

/// The payload as text, or as base64 when it is none.
fn payload(message: &Value) -> String {
    match message["payload"].as_str() {
        Some(text) => text.to_owned(),
        None => format!("base64:{}", text(&message["payload_base64"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_payload_is_shown_as_text_if_it_is_one() {
        let message = json!({ "topic": "a", "payload": "on", "payload_base64": "b24=" });
        assert_eq!(line(&message), "a on\n");
        assert_eq!(payload(&json!({ "payload_base64": "/w==" })), "base64:/w==");
    }
}
