//! `holdline talkers`: the clients, users, topics, groups and addresses with the most traffic.

use crate::client::{Server, entries, query, tell};
use crate::clients::{lines, text};
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::process::ExitCode;

/// The list to show, and its order.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// List to show
    #[arg(default_value = "clients")]
    of: Kind,
    /// Order of the list; memory for clients, users and addresses only
    #[arg(long, default_value = "bytes")]
    by: Order,
    /// Maximum number of entries
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
}

/// List to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Kind {
    Clients,
    Users,
    Topics,
    Groups,
    Addresses,
}

/// Order of the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Order {
    /// Bytes received and sent in the last one to two minutes: of TCP, with TLS and WebSocket;
    /// of topics and groups those of payloads
    Bytes,
    /// Messages received and sent in the last one to two minutes
    Messages,
    /// Bytes queued for them now
    Memory,
}

/// Asks, and prints the list.
pub fn talkers(arguments: &Arguments) -> ExitCode {
    tell(list(arguments))
}

fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn list(arguments: &Arguments) -> Result<String, String> {
    let Arguments { server, json, of, by, limit } = arguments;
    let filters = [("by", Some(word(*by))), ("limit", Some(limit.to_string()))];
    let answer = server.call("GET", &query(&format!("/v1/top/{}", word(*of)), &filters), None)?;
    let found = entries(&answer, "entries");
    let span_ms = answer["at_ms"].as_u64().unwrap_or(0);
    let span_ms = span_ms.saturating_sub(answer["since_ms"].as_u64().unwrap_or(0));
    Ok(if *json { lines(found) } else { table(*of, found, span_ms / 1_000) })
}

fn table(of: Kind, found: &[Value], span_s: u64) -> String {
    if found.is_empty() {
        return format!("no traffic in the last {span_s} seconds\n");
    }
    let [bytes_in, bytes_out] = match of {
        Kind::Topics | Kind::Groups => ["PAYLOAD IN", "PAYLOAD OUT"],
        Kind::Clients | Kind::Users | Kind::Addresses => ["TCP IN", "TCP OUT"],
    };
    let mut out = format!(
        "{:>10} {:>10} {bytes_in:>12} {bytes_out:>12} {:>12}  NAME (last {span_s} seconds)\n",
        "MSGS IN", "MSGS OUT", "WAITING"
    );
    for it in found {
        let column = |key: &str| text(&it[key]);
        out += &format!(
            "{:>10} {:>10} {:>12} {:>12} {:>12}  {}\n",
            column("messages_in"),
            column("messages_out"),
            column("bytes_in"),
            column("bytes_out"),
            column("memory_bytes"),
            column("name"),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_has_a_line_for_each_name_and_nothing_of_it_reaches_the_terminal_raw() {
        assert_eq!(table(Kind::Users, &[], 61), "no traffic in the last 61 seconds\n");
        let entry = json!({ "name": "a\u{1b}[2J", "messages_in": 7, "messages_out": null,
            "bytes_in": 700, "bytes_out": 1, "memory_bytes": null });
        let printed = table(Kind::Clients, std::slice::from_ref(&entry), 90);
        assert!(printed.starts_with("   MSGS IN"), "{printed}");
        assert!(printed.contains("         7          -          700"), "{printed}");
        assert!(!printed.contains('\u{1b}'), "{printed}");
        let heads = |of| table(of, std::slice::from_ref(&entry), 90).lines().next().map(str::len);
        assert!(printed.contains("     TCP IN      TCP OUT"), "{printed}");
        assert_eq!(heads(Kind::Topics), heads(Kind::Clients));
        assert_eq!(
            (word(Kind::Addresses), word(Order::Memory)),
            ("addresses".into(), "memory".into())
        );
    }
}
