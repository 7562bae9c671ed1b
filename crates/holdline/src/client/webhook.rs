//! `holdline webhook`: webhooks of a running server, and the events that they did not accept.

use crate::client::{LONG, Server, entries, moment, tell};
use crate::clients::{lines, text};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Action of `holdline webhook`.
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
    /// List webhooks with their numbers and counts
    List,
    /// Show the dead letters of a webhook: events that it did not accept
    Show {
        /// Number of the webhook
        webhook: usize,
        /// Maximum number of dead letters
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Post dead letters of a webhook again, oldest first
    Redeliver {
        /// Number of the webhook
        webhook: usize,
        /// Maximum number of dead letters
        #[arg(long, default_value_t = 1_000)]
        limit: u32,
    },
}

/// Carries out the command, and prints the result.
pub fn webhook(arguments: Arguments) -> ExitCode {
    tell(act(&arguments))
}

fn act(arguments: &Arguments) -> Result<String, String> {
    let Arguments { server, json: as_json, action } = arguments;
    match action {
        Action::List => {
            let answer = server.call("GET", "/v1/webhooks", None)?;
            let found = entries(&answer, "webhooks");
            Ok(if *as_json { lines(found) } else { table(found) })
        }
        Action::Show { webhook, limit } => {
            let path = format!("/v1/webhooks/{webhook}/dead_letters?");
            let found = server.pages(&path, "dead_letters", *limit)?;
            Ok(match (*as_json, found.is_empty()) {
                (true, _) => lines(&found),
                (false, true) => "no dead letters\n".into(),
                (false, false) => found.iter().map(letter).collect(),
            })
        }
        Action::Redeliver { webhook, limit } => {
            let path = format!("/v1/webhooks/{webhook}/dead_letters/redeliver");
            let order = json!({ "limit": limit });
            let answer = server.call_within(Some(LONG), "POST", &path, Some(&order))?;
            match (*as_json, answer["failure"].as_str()) {
                (true, _) => Ok(format!("{answer}\n")),
                (false, None) => Ok(redelivered(&answer)),
                (false, Some(why)) => Err(format!("{}{why}", redelivered(&answer))),
            }
        }
    }
}

fn redelivered(answer: &Value) -> String {
    format!("{} accepted, {} left\n", answer["taken"], answer["left"])
}

fn letter(letter: &Value) -> String {
    let (number, why) = (text(&letter["number"]), text(&letter["why"]));
    let when = moment(&letter["kept_ms"], "-");
    format!("{number:>6}  {when}  {why:<12} {}\n", letter["event"])
}

fn table(webhooks: &[Value]) -> String {
    if webhooks.is_empty() {
        return "no webhooks configured\n".into();
    }
    let mut out = format!(
        "{:>6} {:>9} {:>8} {:>8} {:>12}  URL\n",
        "NUMBER", "DELIVERED", "DROPPED", "FAILURES", "DEAD LETTERS"
    );
    for hook in webhooks {
        let letters = hook["dead_letters"]["count"].as_u64();
        let letters = letters.map_or("-".to_owned(), |count| count.to_string());
        out += &format!(
            "{:>6} {:>9} {:>8} {:>8} {letters:>12}  {}\n",
            text(&hook["number"]),
            text(&hook["delivered"]),
            text(&hook["dropped"]),
            text(&hook["failures"]),
            text(&hook["url"])
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_are_listed_with_what_they_did_not_accept() {
        let hook = |letters: Value| {
            json!({ "number": 0, "url": "https://a/", "delivered": 9, "dropped": 1, "failures": 2,
                    "dead_letters": letters })
        };
        let shown = table(&[hook(json!({ "count": 3 })), hook(Value::Null)]);
        let row =
            |at| shown.lines().nth(at).expect("a line").split_whitespace().collect::<Vec<_>>();
        assert_eq!(row(1), ["0", "9", "1", "2", "3", "https://a/"]);
        assert_eq!(row(2)[4], "-");
        assert!(
            shown.contains("\n     0         9        1        2            3  https"),
            "{shown}"
        );
        assert_eq!(table(&[]), "no webhooks configured\n");
        assert_eq!(redelivered(&json!({ "taken": 2, "left": 1 })), "2 accepted, 1 left\n");
    }
}
