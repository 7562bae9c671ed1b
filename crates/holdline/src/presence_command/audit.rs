//! `holdline audit`: whether memory and directory agree, and where they do not.
//!
//! The command ends with 0 when they agree, with 1 when a difference outlived the settle time
//! (repaired or not), and with 2 when they could not be compared, so that a script can tell the
//! three apart.

use super::{moment, state};
use crate::client::{LONG, Server};
use crate::clients::text;
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Meanings of exit codes, for the help.
const CODES: &str = "Exit codes: 0 memory and directory agree, 1 lasting differences were found \
    (repaired or not), 2 the comparison failed";

/// How to compare.
#[derive(Args)]
#[command(after_help = CODES)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    /// How long a difference must last to be counted: 500ms, 5s; a plain number is in milliseconds
    #[arg(
        long,
        value_name = "TIME",
        value_parser = crate::duration::millis,
        default_value = "2s"
    )]
    settle: u32,
    /// Repair lasting differences in the directory from the server's memory
    #[arg(long)]
    repair: bool,
    /// Maximum number of differences to list
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    told: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Compares, and prints what was found.
pub fn audit(arguments: Arguments) -> ExitCode {
    let order = json!({
        "settle_ms": arguments.settle,
        "repair": arguments.repair,
        "told_max": arguments.told,
    });
    let path = "/v1/presence/audit";
    let found = match arguments.server.call_within(Some(LONG), "POST", path, Some(&order)) {
        Ok(found) if found["persistent"].is_object() => found,
        Ok(_) => {
            note!("unexpected answer: is the server a Holdline of this version?");
            return ExitCode::from(2);
        }
        Err(why) => {
            note!("{why}");
            return ExitCode::from(2);
        }
    };
    match arguments.json {
        true => out!("{found}"),
        false => crate::out::print(&report(&found, &arguments)),
    }
    if persistent(&found) == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn persistent(found: &Value) -> u64 {
    let kinds = found["persistent"].as_object().into_iter().flatten();
    kinds.filter_map(|(_, count)| count.as_u64()).sum()
}

/// A summary in one line, then each difference with what is remembered of it.
fn report(found: &Value, asked: &Arguments) -> String {
    let count = persistent(found);
    let after = match found["differing"] == 0 {
        // Nothing was waited for.
        true => String::new(),
        false => format!("; {count} still after {} ms{}", asked.settle, kinds(found)),
    };
    let mut out = format!(
        "{} online, {} of 16384 buckets and {} principals differed at first{after}; {} ms\n",
        found["online"], found["buckets_differing"], found["differing"], found["took_ms"],
    );
    if asked.repair && count > 0 {
        out += &format!("{} repairs queued\n", found["repaired"]);
    }
    let differences = found["differences"].as_array().map_or(&[][..], Vec::as_slice);
    differences.iter().for_each(|one| out += &difference(one));
    let more = count.saturating_sub(differences.len() as u64);
    if more > 0 {
        out += &format!("and {more} more: --told shows more of them\n");
    }
    out
}

fn kinds(found: &Value) -> String {
    let kinds = found["persistent"].as_object().into_iter().flatten();
    let some = kinds.filter(|(_, count)| **count != 0);
    let words: Vec<String> = some.map(|(kind, count)| format!("{count} {kind}")).collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

fn difference(one: &Value) -> String {
    let mut out = format!("{:<10} {}\n", text(&one["kind"]), text(&one["key"]));
    for side in ["memory", "stored"] {
        let record = &one[side];
        out += &match record {
            Value::Null => format!("  {side:<24} no entry\n"),
            _ => {
                let [state, by] = state(record);
                let (node, boot) = (text(&record["node"]), text(&record["boot"]));
                let version = text(&record["version"]);
                format!("  {side:<24} {state:<7} {by:<18} {version} {node} (start {boot})\n")
            }
        };
    }
    for transition in one["history"].as_array().into_iter().flatten() {
        let (at, [state, by]) = (moment(&transition["at_ms"]), state(transition));
        out += &format!("  {at:<24} {state:<7} {by:<18} {}\n", text(&transition["version"]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Server;

    fn asked(repair: bool) -> Arguments {
        let server = Server::at(String::new(), None, "data".into());
        Arguments { server, settle: 2_000, repair, told: 20, json: false }
    }

    #[test]
    fn agreement_is_one_line() {
        let mut found = json!({
            "online": 15_000, "buckets_differing": 2, "differing": 3, "repaired": 0,
            "took_ms": 41, "differences": [],
            "persistent": { "missing": 0, "stale": 0, "extra": 0, "wrong_node": 0 },
        });
        assert_eq!(persistent(&found), 0);
        assert_eq!(
            report(&found, &asked(true)),
            "15000 online, 2 of 16384 buckets and 3 principals differed at first; 0 still after \
             2000 ms; 41 ms\n"
        );
        (found["buckets_differing"], found["differing"]) = (json!(0), json!(0));
        assert_eq!(
            report(&found, &asked(true)),
            "15000 online, 0 of 16384 buckets and 0 principals differed at first; 41 ms\n"
        );
    }

    #[test]
    fn a_difference_is_told_with_both_records_and_its_transitions() {
        let transition = |at_ms: u64, online: bool| {
            json!({
                "at_ms": at_ms, "online": online, "protocol": online.then_some("miop7"),
                "reason": (!online).then_some("replaced"), "version": "000000000000000a",
            })
        };
        let record = json!({
            "online": true, "protocol": "miop7", "reason": null, "user": null, "node": "node-1",
            "boot": "feed", "at_ms": 5, "version": "000000000000000b", "text": "",
        });
        let found = json!({
            "online": 9, "buckets_differing": 1, "differing": 2, "repaired": 2, "took_ms": 1,
            "persistent": { "missing": 1, "stale": 0, "extra": 1, "wrong_node": 0 },
            "differences": [{
                "key": "shop#till-7", "kind": "missing", "memory": record, "stored": null,
                "history": [transition(1_000, false), transition(86_401_002, true)],
            }],
        });
        assert_eq!(persistent(&found), 2);
        let told = report(&found, &asked(true));
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[0].contains("2 still after 2000 ms (1 extra, 1 missing);"), "{told}");
        assert_eq!(lines[1], "2 repairs queued");
        assert_eq!(lines[2], "missing    shop#till-7");
        assert!(lines[3].contains("memory") && lines[3].ends_with("node-1 (start feed)"));
        assert!(lines[4].ends_with("no entry"), "{told}");
        assert!(lines[5].starts_with("  1970-01-01T00:00:01.000Z offline replaced"), "{told}");
        assert!(lines[6].starts_with("  1970-01-02T00:00:01.002Z online  miop7"), "{told}");
        assert_eq!(lines[7], "and 1 more: --told shows more of them");
    }
}
