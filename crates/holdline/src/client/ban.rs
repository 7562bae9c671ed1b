//! `holdline ban`: addresses, clients and users that a running server refuses.

use crate::client::{Server, encoded, moment, query, tell};
use crate::clients::{lines, text};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Action of `holdline ban`.
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
    /// Ban an address, a network, a client or a user; open connections end
    Add {
        /// Kind of the banned thing
        kind: Kind,
        /// 192.0.2.7, 192.0.2.0/24, 2001:db8::/32, or the name
        subject: String,
        /// How long: 90s, 15m, 1h30m, 30d; a plain number is in seconds; permanent without it
        #[arg(long = "for", value_name = "TIME", value_parser = crate::duration::some_seconds)]
        ttl: Option<u32>,
        /// Why, for other operators
        #[arg(long, default_value = "", hide_default_value = true)]
        note: String,
    },
    /// List bans, those of rules included
    List {
        /// Only those of this kind
        kind: Option<Kind>,
        /// Maximum number of bans
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Lift a ban
    Remove {
        /// Kind of the banned thing
        kind: Kind,
        /// As the list shows it
        subject: String,
    },
}

/// Kind of a ban.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Kind {
    /// An address or a network
    Address,
    /// An MQTT client or a MIOP device
    Client,
    /// A user
    User,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Address => "address",
            Kind::Client => "client",
            Kind::User => "user",
        }
    }
}

/// Carries out the command, and prints the result.
pub fn ban(arguments: Arguments) -> ExitCode {
    tell(act(&arguments))
}

fn act(arguments: &Arguments) -> Result<String, String> {
    let (server, json) = (&arguments.server, arguments.json);
    match &arguments.action {
        Action::Add { kind, subject, ttl, note } => {
            let mut order = json!({ "kind": kind.name(), "subject": subject, "note": note });
            if let Some(ttl_s) = ttl {
                order["ttl_s"] = json!(ttl_s);
            }
            let ban = server.call("POST", "/v1/bans", Some(&order))?;
            Ok(if json { format!("{ban}\n") } else { added(&ban) })
        }
        Action::List { kind, limit } => {
            let kind = kind.map(|kind| kind.name().to_owned());
            let found = server.pages(&query("/v1/bans", &[("kind", kind)]), "bans", *limit)?;
            Ok(if json { lines(&found) } else { table(&found) })
        }
        Action::Remove { kind, subject } => {
            let path = format!("/v1/bans/{}/{}", kind.name(), encoded(subject));
            let answer = server.call("DELETE", &path, None)?;
            Ok(if json { format!("{answer}\n") } else { format!("{subject}: ban lifted\n") })
        }
    }
}

fn added(ban: &Value) -> String {
    let until = match ban["expires_ms"].is_null() {
        true => "permanently".to_owned(),
        false => format!("until {}", moment(&ban["expires_ms"], "")),
    };
    let ended = ban["ended"].as_u64().unwrap_or(0);
    let connections = if ended == 1 { "connection" } else { "connections" };
    format!(
        "banned {} {} {until}; {ended} {connections} ended\n",
        text(&ban["kind"]),
        text(&ban["subject"])
    )
}

fn table(bans: &[Value]) -> String {
    if bans.is_empty() {
        return "no bans\n".into();
    }
    let mut out = format!(
        "{:<8} {:<32} {:<14} {:<20} {:>8} {:>6} {:<16} {}\n",
        "KIND", "SUBJECT", "CAUSE", "UNTIL", "REFUSED", "ENDED", "BY", "NOTE"
    );
    for ban in bans {
        out += &format!(
            "{:<8} {:<32} {:<14} {:<20} {:>8} {:>6} {:<16} {}\n",
            text(&ban["kind"]),
            text(&ban["subject"]),
            text(&ban["cause"]),
            moment(&ban["expires_ms"], "permanent"),
            text(&ban["refused"]),
            text(&ban["ended"]),
            text(&ban["made_by"]),
            text(&ban["note"]),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_is_shown_with_its_end_and_what_it_did() {
        let mut ban = json!({
            "kind": "address", "subject": "192.0.2.0/24", "cause": "operator", "note": "scanners",
            "made_by": "ops", "made_ms": 1, "expires_ms": 1_760_000_000_000_u64,
            "refused": 17, "ended": 1,
        });
        let words = "banned address 192.0.2.0/24 until 2025-10-09T08:53:20Z; 1 connection ended\n";
        assert_eq!(added(&ban), words);
        ban["expires_ms"] = Value::Null;
        let shown = table(&[ban]);
        let line = shown.lines().nth(1).expect("a line");
        assert!(
            line.starts_with("address  192.0.2.0/24 ") && line.ends_with(" scanners"),
            "{line}"
        );
        assert!(line.contains(" permanent                  17      1 ops "), "{line}");
        assert_eq!(table(&[]), "no bans\n");
    }
}
